/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_usage.c -- what a volume holds: figures from every gateway, and a map of its blocks
 *
 * A gateway knows the shards that it serves. So the one that is asked first names the others, each of them
 * is asked in its turn, and their figures are added up; what nobody answered for is said.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "command.h"
#include "table.h"

#define MAP_EXTENTS 1024u
#define USE_TRIES 10
#define USE_PAUSE_NS NUM_MS(50)

/* ---- usage ---- */

static const char *const usage_sums[] = { "shard_count", "session_count", "chunk_count",
	"layer_bytes", "run_bytes", "garbage_bytes", "run_count" };

/* Ask one gateway alone, for a moment. */
static int
ask_at(struct command_session *session, const char *address, json_t *request, json_t **ret_reply)
{
	struct command_session other = { .options = session->options,
		.loop = session->loop,
		.out = session->out };
	const struct cleave_client_options options = {
		.loop = session->loop,
		.gateways = &address,
		.gateway_count = 1,
		.control_timeout_ns = session->options->timeout_ns,
		.connect_timeout_ns = num_min(session->options->timeout_ns, NUM_S(5)),
		.is_impatient = true,
	};
	char error[CLEAVE_ERROR_BYTES_MAX] = "";
	int rc = cleave_client_create(&options, &other.client, error);

	if (rc != 0) {
		json_decref(request);
		return rc;
	}
	rc = command_ask(&other, request, false, ret_reply);
	cleave_client_destroy(other.client);
	return rc;
}

static json_t *
usage_request(const struct command_session *session)
{
	return json_pack("{s:s, s:s}", "op", "volume.usage", "name", session->options->name);
}

static int
usage_add(json_t *sum, const json_t *reply)
{
	const json_t *usage = json_object_get(reply, "usage");
	uint64_t max =
	    num_max(command_u64(sum, "run_count_max"), command_u64(usage, "run_count_max"));
	int rc = 0;

	for (size_t i = 0; i < NUM_COUNT(usage_sums); i++)
		rc |= json_object_set_new(sum, usage_sums[i],
		    json_integer((json_int_t)(command_u64(sum, usage_sums[i]) +
			command_u64(usage, usage_sums[i]))));
	rc |= json_object_set_new(sum, "run_count_max", json_integer((json_int_t)max));
	rc |= json_object_set_new(sum, "shard_total",
	    json_integer((json_int_t)command_u64(usage, "shard_total")));
	return rc == 0 ? 0 : -ENOMEM;
}

/* Every gateway but @first, which has answered. One that does not leaves its shards out. */
static int
usage_add_others(struct command_session *session, json_t *sum, const char *first)
{
	json_t *reply = NULL;
	const json_t *gateway;
	size_t i;
	int rc = command_ask(session, json_pack("{s:s}", "op", "gateways"), false, &reply);

	if (rc != 0)
		return rc;
	json_array_foreach(json_object_get(reply, "gateways"), i, gateway)
	{
		const char *address = json_string_value(
		    json_array_get(json_object_get(gateway, "ports"), 0));
		json_t *answer = NULL;

		if (address == NULL || strcmp(command_text(gateway, "gateway"), first) == 0)
			continue;
		if (ask_at(session, address, usage_request(session), &answer) == 0)
			rc = usage_add(sum, answer);
		json_decref(answer);
		if (rc != 0)
			break;
	}
	json_decref(reply);
	return rc;
}

int
command_usage(struct command_session *session, json_t **ret_usage)
{
	json_t *reply = NULL, *sum = json_object();
	int rc = sum == NULL ? -ENOMEM
			     : command_ask(session, usage_request(session), false, &reply);

	if (rc == 0)
		rc = usage_add(sum, reply);
	if (rc == 0 && command_u64(sum, "shard_count") < command_u64(sum, "shard_total"))
		rc = usage_add_others(session, sum, command_text(reply, "gateway"));
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

/* ---- map ---- */

struct map {
	struct command_session *session;
	struct cleave_volume *volume;
	struct cleave_io io;
	struct cleave_extent extents[MAP_EXTENTS];
	struct cleave_extent last; /* not told yet: it may go on */
	uint64_t at_bytes;         /* where it begins */
	bool is_difference;        /* what has not changed is not told */
	json_t *out;               /* --json: the list */
	bool is_done;
	int rc;
	char error[CLEAVE_ERROR_BYTES_MAX];
};

static const char *
map_kind(uint32_t flags)
{
	if ((flags & CLEAVE_EXTENT_HOLE) != 0)
		return "hole";
	return (flags & CLEAVE_EXTENT_ZERO) != 0 ? "zero" : "data";
}

static int
map_tell(struct map *map)
{
	const char *kind = map_kind(map->last.flags);
	char size[TABLE_NUMBER_BYTES];
	json_t *entry;

	if (map->last.length_bytes == 0 ||
	    (map->is_difference && (map->last.flags & CLEAVE_EXTENT_HOLE) != 0))
		return 0;
	if (map->out == NULL) {
		fprintf(map->session->out, "%16" PRIu64 " %16" PRIu64 "  %s  %s\n", map->at_bytes,
		    map->last.length_bytes, kind, table_format_size(map->last.length_bytes, size));
		return 0;
	}
	entry = json_pack("{s:I, s:I, s:s}", "offset_bytes", (json_int_t)map->at_bytes,
	    "length_bytes", (json_int_t)map->last.length_bytes, "kind", kind);
	return json_array_append_new(map->out, entry) == 0 ? 0 : -ENOMEM;
}

static int
map_take(struct map *map)
{
	int rc = 0;

	for (uint32_t i = 0; i < map->io.extent_count && rc == 0; i++) {
		const struct cleave_extent *extent = &map->extents[i];

		if (map->last.length_bytes > 0 && map->last.flags == extent->flags) {
			map->last.length_bytes += extent->length_bytes;
			continue;
		}
		rc = map_tell(map);
		map->at_bytes += map->last.length_bytes;
		map->last = *extent;
	}
	return rc;
}

static bool
map_is_done(void *arg)
{
	return ((const struct map *)arg)->is_done;
}

static void
map_run(struct map *map)
{
	map->is_done = false;
	(void)loop_run(map->session->loop, map_is_done, map);
}

static void
map_on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct map *map = arg;

	map->volume = volume;
	map->rc = rc;
	map->is_done = true;
	(void)snprintf(map->error, sizeof(map->error), "%s", error == NULL ? "" : error);
}

static void
map_on_status(struct cleave_io *io, int rc, void *arg)
{
	struct map *map = arg;

	(void)io;
	map->rc = rc;
	map->is_done = true;
}

static void
map_on_close(void *arg)
{
	((struct map *)arg)->is_done = true;
}

static int
map_walk(struct map *map)
{
	uint64_t size_bytes = cleave_volume_info(map->volume)->size_bytes;
	int rc = 0;

	while (rc == 0 && map->at_bytes + map->last.length_bytes < size_bytes) {
		uint64_t from = map->at_bytes + map->last.length_bytes;

		map->io = (struct cleave_io){ .op = CLEAVE_BLOCK_STATUS,
			.offset_bytes = from,
			.length_bytes = num_min(size_bytes - from, NUM_GIB(64)),
			.extents = map->extents,
			.extent_max = MAP_EXTENTS,
			.fn = map_on_status,
			.arg = map };
		rc = cleave_submit(map->volume, &map->io);
		if (rc != 0)
			break;
		map_run(map);
		rc = map->rc != 0 ? map->rc : map_take(map);
	}
	return rc != 0 ? rc : map_tell(map);
}

static void
use_on_timer(struct loop_timer *timer, void *arg)
{
	bool *is_over = arg;

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

	if (session->options->is_forced || strchr(session->options->name, '@') != NULL)
		return 0;
	for (int i = 0; i < USE_TRIES && session_count > 0; i++) {
		json_t *usage = NULL;
		int rc;

		if (i > 0)
			use_pause(session);
		rc = command_usage(session, &usage);
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

static int
map_print(struct map *map)
{
	struct command_session *session = map->session;
	uint64_t size_bytes = cleave_volume_info(map->volume)->size_bytes;
	json_t *reply;
	int rc;

	if (!session->options->is_json) {
		fprintf(session->out, "%16s %16s  KIND\n", "OFFSET", "LENGTH");
		return map_walk(map);
	}
	map->out = json_array();
	rc = map->out == NULL ? -ENOMEM : map_walk(map);
	if (rc != 0) {
		json_decref(map->out);
		return rc;
	}
	reply = json_pack("{s:s, s:I, s:o}", "volume", session->options->name, "size_bytes",
	    (json_int_t)size_bytes, "extents", map->out);
	rc = reply == NULL ? -ENOMEM : command_print_json(reply, session->out);
	json_decref(reply);
	return rc;
}

static int
map_open_and_print(struct command_session *session, const char *name, bool is_difference)
{
	static struct map map;
	int rc;

	map = (struct map){ .session = session, .is_difference = is_difference };
	rc = cleave_volume_open(session->client, name, CLEAVE_OPEN_READ_ONLY, map_on_open, &map);
	if (rc == 0) {
		map_run(&map);
		rc = map.rc;
	}
	if (rc != 0)
		return command_fail(session, rc, "volume '%.64s': %s", session->options->name,
		    map.error[0] != '\0' ? map.error : cleave_error_text(rc));
	rc = map_print(&map);
	if (rc != 0)
		(void)command_fail(session, rc, "volume '%.64s': %s", session->options->name,
		    cleave_error_text(rc));
	cleave_volume_close(map.volume, map_on_close, &map);
	map_run(&map);
	return rc;
}

int
command_volume_map(struct command_session *session)
{
	return map_open_and_print(session, session->options->name, false);
}

/* VOLUME@OLD, and VOLUME@NEW or VOLUME or nothing. */
int
command_snapshot_diff(struct command_session *session)
{
	const char *old = session->options->name, *until = session->options->new_name;
	const char *at = strchr(old, '@');
	char name[CLEAVE_NAME_BYTES_MAX + 1];
	const char *new_snapshot = "";
	size_t bytes;

	if (at == NULL)
		return command_fail(session, -EINVAL, "'%.64s': must be VOLUME@SNAPSHOT", old);
	bytes = (size_t)(at - old);
	if (until != NULL) {
		if (strncmp(until, old, bytes) != 0 ||
		    (until[bytes] != '@' && until[bytes] != '\0'))
			return command_fail(session, -EINVAL,
			    "'%.64s' is not of the volume that '%.64s' is of", until, old);
		new_snapshot = until[bytes] == '@' ? until + bytes + 1 : "";
	}
	if (snprintf(name, sizeof(name), "%s@%s", old, new_snapshot) >= (int)sizeof(name))
		return command_fail(session, -EINVAL, "the names are too long");
	return map_open_and_print(session, name, true);
}
