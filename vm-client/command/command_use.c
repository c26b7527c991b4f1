/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_use.c -- what each volume holds, and how many sessions it has, for `volume list`
 *
 *	each gateway --"volume.use", page by page--> bytes, ids of sessions --+--> "stored_bytes", "session_count"
 *
 * Gateways tell counters, so this costs a question for each 64 volumes and gateway. Bytes are added up; a session,
 * which has connections to several gateways, counts once.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

/* While gateways are asked. found: by a volume's id as a text, {"stored_bytes":N,"most":N,"ids":{ID:true}} */
struct use_sum {
	json_t *found;
	uint64_t shard_count, shard_total;
	bool is_failed; /* a gateway did not answer all */
};

/* More sessions than a gateway names: the most that one of them has. */
static void
use_take_volume(struct use_sum *sum, const json_t *told)
{
	char key[TABLE_NUMBER_BYTES];
	json_t *known, *ids;
	const json_t *id;
	size_t i;

	(void)snprintf(key, sizeof(key), "%" PRIu64, command_u64(told, "id"));
	known = json_object_get(sum->found, key);
	if (known == NULL) {
		known = json_pack("{s:I, s:I, s:{}}", "stored_bytes", (json_int_t)0, "most",
		    (json_int_t)0, "ids");
		json_object_set_new(sum->found, key, known);
	}
	ids = json_object_get(known, "ids");
	json_array_foreach(json_object_get(told, "sessions"), i, id)
	{
		if (json_is_string(id))
			json_object_set_new(ids, json_string_value(id), json_true());
	}
	json_object_set_new(known, "stored_bytes",
	    json_integer((json_int_t)(command_u64(known, "stored_bytes") +
		command_u64(told, "stored_bytes"))));
	json_object_set_new(known, "most",
	    json_integer((json_int_t)num_max(command_u64(known, "most"),
		command_u64(told, "session_count"))));
}

static void
use_ask(struct use_sum *sum, struct command_session *at)
{
	char last[CLEAVE_VOLUME_NAME_BYTES_MAX + 1] = "";
	bool is_first = true, is_more = true;

	assert(at->client != NULL);
	while (is_more) {
		json_t *reply = NULL;
		const json_t *told;
		const char *end;
		size_t i;

		if (command_ask(at, json_pack("{s:s, s:s}", "op", "volume.use", "after", last),
			false, &reply) != 0) {
			sum->is_failed = true;
			return;
		}
		if (is_first) {
			sum->shard_count += command_u64(reply, "shard_count");
			sum->shard_total = command_u64(reply, "shard_total");
		}
		is_first = false;
		json_array_foreach(json_object_get(reply, "volumes"), i, told)
		    use_take_volume(sum, told);
		end = json_string_value(json_object_get(reply, "last"));
		/* Names rise, so it ends. */
		is_more = json_is_true(json_object_get(reply, "more")) && end != NULL &&
		    strlen(end) < sizeof(last) && strcmp(end, last) > 0;
		if (is_more)
			(void)snprintf(last, sizeof(last), "%s", end);
		json_decref(reply);
	}
}

static int
use_ask_all(struct command_session *session, struct use_sum *sum)
{
	struct command_question question;
	const struct cleave_gateway_entry *gateways;
	int rc;

	assert(sum->found != NULL);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_gateway_list(session->client, &question.ask, command_on_gateways, &question));
	gateways = question.entries;
	for (uint32_t i = 0; i < question.count && rc == 0; i++) {
		struct command_session at;

		if (gateways[i].address[0] == '\0')
			continue;
		if (command_session_at(session, gateways[i].address, &at) != 0) {
			sum->is_failed = true;
			continue;
		}
		use_ask(sum, &at);
		cleave_client_destroy(at.client);
	}
	command_question_fini(&question);
	return rc;
}

static void
use_put(const struct use_sum *sum, json_t *volume)
{
	const json_t *found;
	char key[TABLE_NUMBER_BYTES];
	uint64_t count;

	(void)snprintf(key, sizeof(key), "%" PRIu64, command_u64(volume, "id"));
	found = json_object_get(sum->found, key);
	count =
	    num_max(command_u64(found, "most"), json_object_size(json_object_get(found, "ids")));
	json_object_set_new(volume, "stored_bytes",
	    json_integer((json_int_t)command_u64(found, "stored_bytes")));
	json_object_set_new(volume, "session_count", json_integer((json_int_t)count));
}

int
command_put_use(struct command_session *session, json_t *volumes, bool *ret_is_whole)
{
	struct use_sum sum = { .found = json_object() };
	json_t *volume;
	size_t i;
	int rc = sum.found == NULL ? command_fail(session, -ENOMEM, "out of memory") : 0;

	if (rc == 0)
		rc = use_ask_all(session, &sum);
	/* Nobody has told anything: gateways of a release that cannot. It is "?" then, not 0. */
	json_array_foreach(volumes, i, volume)
	{
		if (rc == 0 && sum.shard_total > 0)
			use_put(&sum, volume);
	}
	*ret_is_whole = sum.shard_total > 0 && !sum.is_failed && sum.shard_count == sum.shard_total;
	json_decref(sum.found);
	return rc;
}
