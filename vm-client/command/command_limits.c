/* SPDX-License-Identifier: Apache-2.0 */
/* command_limits.c -- cleave volume set: limits and shares of a volume, and how they are shown; --reads: command_reads.c */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/config_value.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

enum limit_kind { LIMIT_COUNT, LIMIT_SIZE, LIMIT_MS };

/* Members of struct cleave_limits: the option that sets each, and what its value is. */
static const struct {
	size_t member, option;
	const char *name;
	enum limit_kind kind;
} limits[] = {
#define LIMIT(member, option, kind)                                                                \
	{                                                                                          \
		offsetof(struct cleave_limits, member),                                            \
		    offsetof(struct command_options, limits.member), option, kind                  \
	}
	LIMIT(iops, "iops", LIMIT_COUNT),
	LIMIT(bytes_s, "bandwidth", LIMIT_SIZE),
	LIMIT(read_iops, "read-iops", LIMIT_COUNT),
	LIMIT(read_bytes_s, "read-bandwidth", LIMIT_SIZE),
	LIMIT(write_iops, "write-iops", LIMIT_COUNT),
	LIMIT(write_bytes_s, "write-bandwidth", LIMIT_SIZE),
	LIMIT(burst_ms, "burst", LIMIT_MS),
	LIMIT(min_iops, "min-iops", LIMIT_COUNT),
	LIMIT(weight, "weight", LIMIT_COUNT),
#undef LIMIT
};

static const struct {
	size_t member;
	uint64_t least, most;
} ranges[] = {
#define RANGE(member, least, most) { offsetof(struct cleave_limits, member), least, most },
	CLEAVE_LIMIT_LIST(RANGE)
#undef RANGE
};
_Static_assert(NUM_COUNT(ranges) == NUM_COUNT(limits), "each limit has an option");

static uint64_t *
limit_of(struct cleave_limits *of, size_t index)
{
	return (uint64_t *)((char *)of + limits[index].member);
}

static int
limit_parse(const char *text, enum limit_kind kind, uint64_t *ret_value)
{
	int rc;

	if (strcmp(text, "off") == 0) {
		*ret_value = 0;
		return 0;
	}
	if (kind == LIMIT_COUNT)
		return config_parse_u64(text, ret_value);
	if (kind == LIMIT_SIZE)
		return config_parse_size(text, ret_value);
	rc = config_parse_duration(text, ret_value);
	if (rc == 0)
		*ret_value = (*ret_value + NUM_MS(1) - 1) / NUM_MS(1);
	return rc;
}

/* 0; -ERANGE, with the option and its range: a gateway knows no options. 0 is off. */
static int
limit_check(struct command_session *session, size_t index, const char *text, uint64_t value)
{
	char least[TABLE_NUMBER_BYTES], most[TABLE_NUMBER_BYTES];
	enum limit_kind kind = limits[index].kind;
	size_t at = 0;

	while (ranges[at].member != limits[index].member)
		at++;
	if (value == 0 || (value >= ranges[at].least && value <= ranges[at].most))
		return 0;
	if (kind == LIMIT_SIZE) {
		(void)table_format_size(ranges[at].least, least);
		(void)table_format_size(ranges[at].most, most);
	} else {
		(void)snprintf(least, sizeof(least), "%" PRIu64 "%s", ranges[at].least,
		    kind == LIMIT_MS ? "ms" : "");
		(void)snprintf(most, sizeof(most), "%" PRIu64 "%s", ranges[at].most,
		    kind == LIMIT_MS ? "ms" : "");
	}
	return command_fail(session, -ERANGE,
	    "--%s: '%.60s' is out of range, give %s to %s, or off", limits[index].name, text, least,
	    most);
}

/* 0, the limits that were given, and whether there are any. */
static int
limits_given(struct command_session *session, struct cleave_limits *ret_wanted, bool *ret_is_any)
{
	const struct command_options *options = session->options;
	int rc;

	*ret_is_any = false;
	memset(ret_wanted, 0xff, sizeof(*ret_wanted));
	for (size_t i = 0; i < NUM_COUNT(limits); i++) {
		const char *text = *(const char *const *)((const char *)options + limits[i].option);

		if (text == NULL)
			continue;
		*ret_is_any = true;
		if (limit_parse(text, limits[i].kind, limit_of(ret_wanted, i)) != 0)
			return command_fail(session, -EINVAL, "--%s: '%.60s' is neither %s nor off",
			    limits[i].name, text,
			    limits[i].kind == LIMIT_COUNT      ? "a number"
				: limits[i].kind == LIMIT_SIZE ? "a size, such as 200M,"
							       : "a time, such as 2s,");
		rc = limit_check(session, i, text, *limit_of(ret_wanted, i));
		if (rc != 0)
			return rc;
	}
	return 0;
}

int
command_volume_set(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct cleave_limits wanted;
	struct command_question question;
	bool is_any;
	int rc = limits_given(session, &wanted, &is_any);

	assert(options->name != NULL);
	if (rc != 0)
		return rc;
	if (options->is_forced && options->reads == NULL)
		return command_fail(session, -EINVAL, "--force: with --reads alone");
	if (!is_any && options->reads == NULL)
		return command_fail(session, -EINVAL,
		    "what is to be set? See cleave help volume set");
	if (!is_any)
		return command_set_reads(session);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_volume_set_limits(session->client, &question.ask, options->name, &wanted,
		command_on_volume, &question));
	if (options->reads == NULL)
		return command_say(&question, rc, "set");
	command_question_fini(&question);
	return rc != 0 ? rc : command_set_reads(session);
}

/* Showing. */

void
command_limits_text(const struct cleave_limits *of, char *ret_text, size_t bytes)
{
	struct cleave_limits copy = *of;
	char number[TABLE_NUMBER_BYTES];
	size_t used = 0;

	assert(bytes > 1);
	(void)snprintf(ret_text, bytes, "-");
	for (size_t i = 0; i < NUM_COUNT(limits); i++) {
		uint64_t value = *limit_of(&copy, i);

		if (value == 0 || used >= bytes)
			continue;
		if (limits[i].kind == LIMIT_SIZE)
			(void)table_format_size(value, number);
		else
			(void)snprintf(number, sizeof(number), "%" PRIu64 "%s", value,
			    limits[i].kind == LIMIT_MS ? " ms" : "");
		used += (size_t)snprintf(ret_text + used, bytes - used, "%s%s %s%s",
		    used == 0 ? "" : ", ", limits[i].name, number,
		    limits[i].kind == LIMIT_SIZE ? "/s" : "");
	}
}

void
command_limits_json(const json_t *qos, char *ret_text, size_t bytes)
{
	struct cleave_limits of = { 0 };

#define LIMIT_READ(member, least, most)                                                            \
	of.member = (uint64_t)json_integer_value(json_object_get(qos, #member));
	CLEAVE_LIMIT_LIST(LIMIT_READ)
#undef LIMIT_READ
	command_limits_text(&of, ret_text, bytes);
}
