/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_upkeep.c -- cleave scrub, cleave sweep: each gateway looks after its own shards, so all of them are asked
 *
 *	command_ask_all --> sum of the answers, as one gateway's would look
 *
 * A gateway that does not answer is named, and the exit status is 1; what the others have done is printed.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "command_ask_all.h"
#include "table.h"

/* Numbers are added up, lists come behind each other. */
static void
sum_add(json_t *sum, json_t *reply)
{
	const char *member;
	json_t *value;

	json_object_foreach(reply, member, value)
	{
		json_t *before = json_object_get(sum, member);

		if (json_is_integer(value))
			json_object_set_new(sum, member,
			    json_integer(json_integer_value(before) + json_integer_value(value)));
		else if (before == NULL)
			json_object_set(sum, member, value);
		else
			json_array_extend(before, value);
	}
}

/* 0, or -EHOSTUNREACH with session->error set: the first that has not answered, and how many these are. */
static int
sum_answers(struct command_session *session, const struct command_asked *asked, uint32_t count,
    json_t *sum)
{
	const struct command_asked *silent = NULL;
	uint32_t silent_count = 0;
	char id[TABLE_NUMBER_BYTES];

	for (uint32_t i = 0; i < count; i++) {
		if (asked[i].rc == 0) {
			sum_add(sum, asked[i].reply);
			continue;
		}
		silent_count++;
		silent = silent == NULL ? &asked[i] : silent;
	}
	if (silent == NULL)
		return 0;
	return command_fail(session, -EHOSTUNREACH,
	    "%" PRIu32 " of %" PRIu32
	    " gateways do not answer, and nothing is done for their shards: %s at %s: %s; say it again when they do",
	    silent_count, count, table_format_id(silent->gateway->id, id), silent->gateway->address,
	    silent->error);
}

/*
 * Asks every gateway that lives. @question is taken over; NULL is out of memory. @ret_sum, to json_decref: of those that have
 * answered. Returns 0, or a negative errno with session->error set.
 */
static int
upkeep_ask(struct command_session *session, json_t *question, json_t **ret_sum)
{
	struct command_question gateways;
	struct command_asked *asked = NULL;
	int rc;

	*ret_sum = json_object();
	command_question_init(&gateways, session);
	rc = question == NULL || *ret_sum == NULL
	    ? -ENOMEM
	    : command_wait(&gateways,
		  cleave_gateway_list(session->client, &gateways.ask, command_on_gateways,
		      &gateways));
	if (rc == 0)
		asked = command_ask_all_init(session, gateways.entries, gateways.count);
	if (rc == 0 && asked == NULL)
		rc = -ENOMEM;
	if (rc == 0) {
		for (uint32_t i = 0; i < gateways.count; i++)
			asked[i].question = json_incref(question);
		command_ask_all(session, asked, gateways.count, session->options->timeout_ns);
		rc = command_ask_all_refused(session, asked, gateways.count);
		if (rc == 0)
			rc = sum_answers(session, asked, gateways.count, *ret_sum);
		command_ask_all_fini(asked, gateways.count);
	}
	json_decref(question);
	command_question_fini(&gateways);
	return rc;
}

int
command_scrub(struct command_session *session)
{
	json_t *sum;
	int rc = upkeep_ask(session, json_pack("{s:s}", "op", "scrub"), &sum);

	if (session->options->is_json)
		rc = rc == 0 ? command_print_json(sum, session->out) : rc;
	else if (json_object_size(sum) > 0)
		fprintf(session->out, "scrubbing %" PRIu64 " shards\n", command_u64(sum, "shards"));
	json_decref(sum);
	return rc;
}

static int
print_orphans(const json_t *reply, FILE *out)
{
	static const struct table_column columns[] = {
		{ "NODE", true },
		{ "EXTENT", false },
		{ "INCARNATION", true },
		{ "SEEN FOR s", true },
		{ "GOES IN s", true },
		{ "", false },
	};
	const json_t *orphans = json_object_get(reply, "orphans"), *orphan;
	uint64_t total = command_u64(reply, "total");
	struct table *table = table_create(columns, NUM_COUNT(columns));
	size_t i;
	int rc;

	assert(reply != NULL && out != NULL);
	json_array_foreach(orphans, i, orphan)
	{
		const char *what = json_is_true(json_object_get(orphan, "held")) ? "held back" : "";

		if (json_is_true(json_object_get(orphan, "confirmed")))
			what = "confirmed";
		table_add(table, "%" PRIu64, command_u64(orphan, "node"));
		table_add(table, "%s", command_text(orphan, "extent"));
		table_add(table, "%" PRIu64, command_u64(orphan, "incarnation"));
		table_add(table, "%" PRIu64, command_u64(orphan, "seen_s"));
		table_add(table, "%" PRIu64, command_u64(orphan, "left_s"));
		table_add(table, "%s", what);
	}
	rc = table == NULL ? -ENOMEM : table_print(table, 0, out);
	table_destroy(table);
	if (total > json_array_size(orphans))
		fprintf(out, "and %" PRIu64 " more\n", total - json_array_size(orphans));
	return rc;
}

int
command_sweep(struct command_session *session)
{
	bool is_confirmed = session->options->is_confirmed;
	json_t *sum;
	int rc = upkeep_ask(session,
	    json_pack("{s:s, s:b}", "op", "sweep", "confirm", (int)is_confirmed), &sum);

	assert(session->client != NULL && session->out != NULL);
	if (session->options->is_json) {
		rc = rc == 0 ? command_print_json(sum, session->out) : rc;
	} else if (json_object_size(sum) > 0) {
		int printed = print_orphans(sum, session->out);

		rc = rc == 0 ? printed : rc;
		if (is_confirmed)
			fprintf(session->out, "%" PRIu64 " go now\n",
			    command_u64(sum, "confirmed"));
	}
	json_decref(sum);
	return rc;
}
