/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_usage.c -- what a volume holds and how many use it: figures from every gateway
 *
 * A gateway knows the shards that it serves. So the one that is asked first names the others, each of them
 * is asked in its turn, and their figures are added up; what nobody answered for is said.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

#define USE_TRIES 10 /* a gateway hears of a session's end a moment later */
#define USE_PAUSE_NS NUM_MS(50)

static const char *const usage_sums[] = { "shard_count", "session_count", "chunk_count",
	"layer_bytes", "run_bytes", "garbage_bytes", "run_count" };

static const char *const usage_of_session[2] = { "connections", NULL };
static const char *const usage_of_snapshot[2] = { "stored_bytes", "freed_bytes_max" };

static json_t *
usage_request(const char *name)
{
	assert(name != NULL);
	return json_pack("{s:s, s:s}", "op", "volume.usage", "name", name);
}

static void
add_to(json_t *object, const char *member, const json_t *from)
{
	json_object_set_new(object, member,
	    json_integer((json_int_t)(command_u64(object, member) + command_u64(from, member))));
}

/* The entry of @list whose @key is as @like's; NULL: there is none. */
static json_t *
find_in(json_t *list, const char *key, const json_t *like)
{
	json_t *entry;
	size_t i;

	json_array_foreach(list, i, entry)
	{
		if (json_equal(json_object_get(entry, key), json_object_get(like, key)))
			return entry;
	}
	return NULL;
}

/* A session has connections to several gateways, and a snapshot's bytes lie in shards of all of them. */
static void
usage_merge(json_t *sum, const json_t *usage, const char *member, const char *key,
    const char *const added[2])
{
	json_t *list = json_object_get(sum, member), *entry;
	size_t i;

	assert(added[0] != NULL);
	if (list == NULL) {
		list = json_array();
		json_object_set_new(sum, member, list);
	}
	json_array_foreach(json_object_get(usage, member), i, entry)
	{
		json_t *known = find_in(list, key, entry);

		if (known == NULL) {
			json_array_append_new(list, json_deep_copy(entry));
			continue;
		}
		for (size_t k = 0; k < 2 && added[k] != NULL; k++)
			add_to(known, added[k], entry);
	}
}

/* Bytes that a clone shares with its origin lie in shards of all gateways. */
static void
usage_add_origin(json_t *sum, const json_t *origin)
{
	static const char *const members[] = { "bytes", "copied_bytes", "bytes_s" };

	assert(json_is_object(sum));
	if (origin == NULL)
		return;
	if (json_object_get(sum, "origin") == NULL)
		json_object_set_new(sum, "origin", json_object());
	for (size_t i = 0; i < NUM_COUNT(members); i++)
		add_to(json_object_get(sum, "origin"), members[i], origin);
}

static int
usage_add(json_t *sum, const json_t *reply)
{
	const json_t *usage = json_object_get(reply, "usage");
	uint64_t max =
	    num_max(command_u64(sum, "run_count_max"), command_u64(usage, "run_count_max"));
	int rc = 0;

	assert(json_is_object(sum) && reply != NULL);
	for (size_t i = 0; i < NUM_COUNT(usage_sums); i++)
		rc |= json_object_set_new(sum, usage_sums[i],
		    json_integer((json_int_t)(command_u64(sum, usage_sums[i]) +
			command_u64(usage, usage_sums[i]))));
	rc |= json_object_set_new(sum, "run_count_max", json_integer((json_int_t)max));
	rc |= json_object_set_new(sum, "shard_total",
	    json_integer((json_int_t)command_u64(usage, "shard_total")));
	usage_merge(sum, usage, "sessions", "session", usage_of_session);
	usage_add_origin(sum, json_object_get(usage, "origin"));
	usage_merge(sum, usage, "snapshots", "number", usage_of_snapshot);
	return rc == 0 ? 0 : -ENOMEM;
}

/* Every gateway but @first, which has answered. One that does not leaves its shards out. */
static int
usage_add_others(struct command_session *session, const char *name, json_t *sum, const char *first)
{
	struct command_question question;
	const struct cleave_gateway_entry *gateways;
	int rc;

	assert(sum != NULL && first != NULL);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_gateway_list(session->client, &question.ask, command_on_gateways, &question));
	gateways = question.entries;
	for (uint32_t i = 0; i < question.count && rc == 0; i++) {
		json_t *answer = NULL;
		char id[TABLE_NUMBER_BYTES];

		if (gateways[i].address[0] == '\0' ||
		    strcmp(table_format_id(gateways[i].id, id), first) == 0)
			continue;
		if (command_ask_at(session, gateways[i].address, usage_request(name), &answer) == 0)
			rc = usage_add(sum, answer);
		json_decref(answer);
	}
	command_question_fini(&question);
	return rc;
}

int
command_usage(struct command_session *session, const char *name, json_t **ret_usage)
{
	json_t *reply = NULL, *sum = json_object();
	int rc = sum == NULL ? -ENOMEM : command_ask(session, usage_request(name), false, &reply);

	assert(session->client != NULL && *ret_usage == NULL);
	if (rc == 0)
		rc = usage_add(sum, reply);
	/* A gateway that serves no shard may have sessions all the same. */
	if (rc == 0)
		rc = usage_add_others(session, name, sum, command_text(reply, "gateway"));
	json_decref(reply);
	if (rc == 0)
		*ret_usage = sum;
	else
		json_decref(sum);
	return rc;
}

void
command_print_usage(struct table *table, const json_t *usage, uint64_t size_bytes)
{
	uint64_t layer_bytes = command_u64(usage, "layer_bytes");
	uint64_t run_bytes = command_u64(usage, "run_bytes");
	uint64_t stored_bytes = layer_bytes + run_bytes;
	uint64_t chunk_count = command_u64(usage, "chunk_count");
	uint64_t served = command_u64(usage, "shard_count");
	uint64_t total = command_u64(usage, "shard_total");
	char size[3][TABLE_NUMBER_BYTES];

	assert(usage != NULL);
	table_add(table, "stored");
	table_add(table, "%s (%s flushed, %s in the log)", table_format_size(stored_bytes, size[0]),
	    table_format_size(run_bytes, size[1]), table_format_size(layer_bytes, size[2]));
	table_add(table, "ratio");
	if (stored_bytes > 0)
		table_add(table, "%.2f (size / stored)", (double)size_bytes / (double)stored_bytes);
	else
		table_add(table, "nothing is stored");
	table_add(table, "garbage");
	table_add(table, "%s", table_format_size(command_u64(usage, "garbage_bytes"), size[0]));
	table_add(table, "runs per chunk");
	table_add(table, "%.2f (at most %" PRIu64 ", %" PRIu64 " chunks)",
	    chunk_count > 0 ? (double)command_u64(usage, "run_count") / (double)chunk_count : 0.0,
	    command_u64(usage, "run_count_max"), chunk_count);
	table_add(table, "shards");
	if (served == total)
		table_add(table, "%" PRIu64, total);
	else
		table_add(table,
		    "%" PRIu64 " of %" PRIu64 " answer: what the others hold is missing", served,
		    total);
}

/* Is it in use? */

static void
use_on_timer(struct loop_timer *timer, void *arg)
{
	bool *is_over = arg;

	assert(!*is_over);
	(void)timer;
	*is_over = true;
}

static bool
use_is_over(void *arg)
{
	const bool *is_over = arg;

	return *is_over;
}

static void
use_pause(struct command_session *session)
{
	struct loop_timer timer = { 0 };
	bool is_over = false;

	loop_timer_init(&timer, use_on_timer, &is_over);
	loop_timer_start(session->loop, &timer, USE_PAUSE_NS);
	(void)loop_run(session->loop, use_is_over, &is_over);
}

/* A gateway may learn a moment later that a user has gone: the next command is not refused for that. */
int
command_check_use(struct command_session *session)
{
	uint64_t session_count = 1;

	assert(session->client != NULL);
	assert(session->options->name != NULL);
	if (session->options->is_forced || strchr(session->options->name, '@') != NULL)
		return 0;
	for (int i = 0; i < USE_TRIES && session_count > 0; i++) {
		json_t *usage = NULL;
		int rc;

		if (i > 0)
			use_pause(session);
		rc = command_usage(session, session->options->name, &usage);
		if (rc != 0)
			return rc;
		session_count = command_u64(usage, "session_count");
		json_decref(usage);
	}
	if (session_count > 0)
		return command_fail(session, -EBUSY,
		    "volume '%.64s' is in use, and its copy would be of no one moment: copy a snapshot "
		    "of it (NAME@SNAPSHOT), or insist (--force)",
		    session->options->name);
	return 0;
}
