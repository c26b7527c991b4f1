/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_gather.c -- what every gateway keeps of a kind, in order of time
 *
 * Gateways number what they keep, each from 1 on and anew when it is started, and tell it page by page. Their clocks
 * differ, so they tell how long ago it was. All are asked at the same time.
 */
#include "command_gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/manage.h"
#include "command_ask.h"
#include "command_ask_all.h"
#include "table.h"

#define GATHER_ASK_NS_MAX NUM_S(1) /* for each page of a gateway */

int
command_gather_init(struct command_gather *gather, struct command_session *session, const char *op,
    const char *member)
{
	assert(op[0] != '\0' && member[0] != '\0');
	*gather = (struct command_gather){ .session = session,
		.op = op,
		.member = member,
		.from_ns = loop_now_ns(session->loop),
		.found = json_array() };
	return gather->found == NULL ? command_fail(session, -ENOMEM, "out of memory") : 0;
}

void
command_gather_fini(struct command_gather *gather)
{
	json_decref(gather->found);
	gather->found = NULL;
}

static struct gather_place *
place_of(struct command_gather *gather, uint64_t gateway_id)
{
	for (uint32_t i = 0; i < gather->place_count; i++) {
		if (gather->places[i].gateway_id == gateway_id)
			return &gather->places[i];
	}
	if (gather->place_count == GATHER_GATEWAYS_MAX)
		return NULL;
	gather->places[gather->place_count] = (struct gather_place){ .gateway_id = gateway_id };
	return &gather->places[gather->place_count++];
}

static int64_t
gather_ms(const struct command_gather *gather)
{
	return (int64_t)((loop_now_ns(gather->session->loop) - gather->from_ns) / NUM_MS(1));
}

static int64_t
age_of(const json_t *entry)
{
	return (int64_t)json_integer_value(json_object_get(entry, "age_ms"));
}

static void
take_entry(struct command_gather *gather, const struct gather_place *place, const json_t *entry)
{
	json_t *copy = json_deep_copy(entry);
	char id[TABLE_NUMBER_BYTES];

	if (copy == NULL)
		return;
	command_plain(copy);
	json_object_set_new(copy, "gateway", json_string(table_format_id(place->gateway_id, id)));
	/* Gateways are asked one after another: each told its ages at another time. */
	json_object_set_new(copy, "age_ms",
	    json_integer((json_int_t)(int64_t)num_min(command_u64(entry, "age_ms"), INT64_MAX / 2) -
		gather_ms(gather)));
	json_array_append_new(gather->found, copy);
}

bool
command_gather_take(struct command_gather *gather, struct gather_place *place, const json_t *reply)
{
	const json_t *entry;
	const char *boot = command_text(reply, "boot");
	uint64_t before = place->number;
	size_t i;

	if (strncmp(boot, place->boot, sizeof(place->boot) - 1) != 0 && place->number > 0) {
		*place = (struct gather_place){ .gateway_id = place->gateway_id };
		return true; /* another process: from its first one on */
	}
	(void)snprintf(place->boot, sizeof(place->boot), "%s", boot);
	json_array_foreach(json_object_get(reply, gather->member), i, entry)
	{
		place->number = num_max(place->number, command_u64(entry, "number"));
		take_entry(gather, place, entry);
	}
	return json_is_true(json_object_get(reply, "more")) && place->number > before;
}

/* ---- asking all of them ---- */

/* A page of each that has more, in @has_more. False: none has any more. */
static bool
ask_pages(struct command_gather *gather, struct command_asked *asked, bool *has_more,
    uint32_t count)
{
	bool is_any = false;

	for (uint32_t i = 0; i < count; i++) {
		struct gather_place *place = has_more[i] ? place_of(gather, asked[i].gateway->id)
							 : NULL;

		if (place != NULL)
			asked[i].question = json_pack("{s:s, s:I}", "op", gather->op, "after",
			    (json_int_t)place->number);
		has_more[i] = asked[i].question != NULL;
	}
	command_ask_all(gather->session, asked, count, GATHER_ASK_NS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (!has_more[i])
			continue;
		has_more[i] = asked[i].rc == 0 &&
		    command_gather_take(gather, place_of(gather, asked[i].gateway->id),
			asked[i].reply);
		is_any = is_any || has_more[i];
	}
	return is_any;
}

static void
gather_gateways(struct command_gather *gather, struct command_asked *asked, uint32_t count,
    bool is_first)
{
	bool has_more[GATHER_GATEWAYS_MAX] = { false };
	char id[TABLE_NUMBER_BYTES];

	count = (uint32_t)num_min(count, GATHER_GATEWAYS_MAX);
	for (uint32_t i = 0; i < count; i++)
		has_more[i] = asked[i].gateway->address[0] != '\0';
	for (uint32_t page = 0;
	     page < GATHER_PAGES_MAX && ask_pages(gather, asked, has_more, count); page++)
		;
	for (uint32_t i = 0; i < count && is_first; i++) {
		if (asked[i].rc != 0 && asked[i].rc != -ENODATA && asked[i].rc != -ENOKEY)
			fprintf(stderr,
			    "cleave: gateway %s at %s does not answer, or is of a release before: %s\n",
			    table_format_id(asked[i].gateway->id, id), asked[i].gateway->address,
			    asked[i].error);
	}
}

int
command_gather_ask(struct command_gather *gather, bool is_first)
{
	struct command_session *session = gather->session;
	struct command_question question;
	struct command_asked *asked = NULL;
	int rc;

	assert(session->client != NULL && gather->found != NULL);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_gateway_list(session->client, &question.ask, command_on_gateways, &question));
	if (rc == 0)
		asked = command_ask_all_init(session, question.entries, question.count);
	if (asked != NULL) {
		gather_gateways(gather, asked, question.count, is_first);
		rc = command_ask_all_refused(session, asked, question.count);
		command_ask_all_fini(asked, question.count);
	} else if (rc == 0)
		rc = -ENOMEM;
	command_question_fini(&question);
	return rc;
}

static int
older_first(const void *a, const void *b)
{
	int64_t age_a = age_of(*(json_t *const *)a), age_b = age_of(*(json_t *const *)b);
	int order;

	if (age_a != age_b)
		return age_a > age_b ? -1 : 1;
	order = strcmp(command_text(*(json_t *const *)a, "gateway"),
	    command_text(*(json_t *const *)b, "gateway"));
	if (order != 0)
		return order;
	return command_u64(*(json_t *const *)a, "number") <
		command_u64(*(json_t *const *)b, "number")
	    ? -1
	    : 1;
}

static int
print_json_line(const json_t *entry, FILE *out)
{
	char *text = json_dumps(entry, JSON_COMPACT);

	if (text == NULL)
		return -ENOMEM;
	fprintf(out, "%s\n", text);
	free(text);
	return 0;
}

int
command_gather_print(struct command_gather *gather, void (*print)(const json_t *entry, FILE *out))
{
	struct command_session *session = gather->session;
	size_t count = json_array_size(gather->found);
	const json_t **sorted = calloc(num_max(count, 1), sizeof(const json_t *));
	int rc = 0;

	assert(print != NULL);
	if (sorted == NULL)
		return command_fail(session, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		json_t *entry = json_array_get(gather->found, i);
		int64_t age_ms = age_of(entry) + gather_ms(gather);

		json_object_set_new(entry, "age_ms", json_integer(age_ms > 0 ? age_ms : 0));
		sorted[i] = entry;
	}
	qsort(sorted, count, sizeof(const json_t *), older_first);
	for (size_t i = 0; i < count && rc == 0; i++) {
		if (session->options->is_json)
			rc = print_json_line(sorted[i], session->out);
		else
			print(sorted[i], session->out);
	}
	free(sorted);
	json_array_clear(gather->found);
	(void)fflush(session->out);
	return rc;
}
