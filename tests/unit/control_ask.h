/* SPDX-License-Identifier: Apache-2.0 */
/* control_ask.h -- asking a gateway by its control requests, over a connection of sim_gateway.h, and looking at the answers */
#ifndef CLEAVE_TESTS_CONTROL_ASK_H
#define CLEAVE_TESTS_CONTROL_ASK_H

#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "middletier/common/event.h"
#include "support/sim_gateway.h"

#define CONTROL_REQUEST_BYTES 8192u

/* control_forget -- what @qp was answered: a test asks for more than a connection keeps. */
static inline void
control_forget(struct sg_qp *qp)
{
	while (qp->reply_count > 0)
		free(qp->replies[--qp->reply_count].text);
}

/* control_va -- in @format single quotes stand for double ones. The caller drops the answer; all older ones are forgotten. */
static inline json_t *
control_va(struct sg_qp *qp, int *ret_rc, const char *format, va_list args)
{
	char request[CONTROL_REQUEST_BYTES];
	json_t *answer;
	int bytes = vsnprintf(request, sizeof(request), format, args);

	cr_assert(bytes >= 0 && (size_t)bytes < sizeof(request), "%s: %d bytes", format, bytes);
	for (char *at = request; *at != '\0'; at++)
		*at = *at == '\'' ? '"' : *at;
	answer = sg_control(qp, request, ret_rc);
	cr_assert_not_null(answer, "%s: %d", request, *ret_rc);
	control_forget(qp);
	return answer;
}

static inline json_t *
control_ask(struct sg_qp *qp, int *ret_rc, const char *format, ...)
{
	va_list args;
	json_t *answer;

	va_start(args, format);
	answer = control_va(qp, ret_rc, format, args);
	va_end(args);
	return answer;
}

/* "": it says none. Of the answer. */
static inline const char *
error_of(const json_t *answer)
{
	const char *text = json_string_value(json_object_get(answer, "error"));

	return text == NULL ? "" : text;
}

/* control_want -- as control_ask, and it ends with @want_rc. */
static inline json_t *
control_want(struct sg_qp *qp, int want_rc, const char *format, ...)
{
	va_list args;
	int rc = 0;
	json_t *answer;

	va_start(args, format);
	answer = control_va(qp, &rc, format, args);
	va_end(args);
	cr_assert_eq(rc, want_rc, "%s: rc %d: %s", format, rc, error_of(answer));
	return answer;
}

/* done -- with @answer. */
static inline void
done(json_t *answer)
{
	json_decref(answer);
}

/* refused -- the error of @answer has @word in it; the answer is dropped. */
static inline void
refused(json_t *answer, const char *word)
{
	const char *text = error_of(answer);

	cr_assert(strstr(text, word) != NULL, "'%s' does not say '%s'", text, word);
	json_decref(answer);
}

static inline json_int_t
integer(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	cr_assert(json_is_integer(value), "%s", name);
	return json_integer_value(value);
}

/* gateway_tells -- of the events of @gateway one is of @code, has @word in its text, and is of @by, or NULL: whoever's. */
static inline bool
gateway_tells(const struct mt_gateway *gateway, enum cleave_event_code code, const char *word,
    const char *by)
{
	struct mt_event events[32];
	uint64_t after = 0;
	uint32_t count;

	while ((count = mt_events_read(gateway->shared.events, after, events, 32)) > 0) {
		for (uint32_t i = 0; i < count; i++) {
			if (events[i].code == code && strstr(events[i].text, word) != NULL &&
			    (by == NULL || strcmp(events[i].by, by) == 0))
				return true;
		}
		after = events[count - 1].number;
	}
	return false;
}

#endif /* CLEAVE_TESTS_CONTROL_ASK_H */
