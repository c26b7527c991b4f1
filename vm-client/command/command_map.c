/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_map.c -- cleave volume map, cleave snapshot diff: what the blocks of a volume hold
 *
 * Its status is asked for stretch by stretch. Neighbours of one kind are told as one, so the last of a stretch waits
 * for the first of the next.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_disk.h"
#include "table.h"

#define MAP_EXTENTS 1024u             /* of an answer */
#define MAP_STRETCH_BYTES NUM_GIB(64) /* asked about by one request */

struct map {
	struct command_session *session;
	struct command_disk disk;
	struct cleave_extent extents[MAP_EXTENTS];
	struct cleave_extent last; /* not told yet: it may go on */
	uint64_t at_bytes;         /* where it begins */
	bool is_difference;        /* what has not changed is not told */
	json_t *out;               /* --json: the list */
};

static const char *
map_kind(const struct map *map, uint32_t flags)
{
	if ((flags & CLEAVE_EXTENT_HOLE) != 0)
		return "hole";
	if (map->is_difference)
		return "changed";
	return (flags & CLEAVE_EXTENT_ZERO) != 0 ? "zero" : "data";
}

static int
map_tell(struct map *map)
{
	const char *kind = map_kind(map, map->last.flags);
	char size[TABLE_NUMBER_BYTES];
	json_t *entry;

	assert(map->out == NULL || map->session->options->is_json);
	assert(map->at_bytes % CLEAVE_BLOCK_BYTES == 0);
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

/* The @count extents that have come, behind those that came before. */
static int
map_take(struct map *map, uint32_t count)
{
	int rc = 0;

	assert(count <= MAP_EXTENTS);
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		struct cleave_extent *extent = &map->extents[i];

		/* Older gateways tell zeros of a difference, which may be those of the older snapshot. */
		if (map->is_difference)
			extent->flags &= CLEAVE_EXTENT_HOLE;
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

static int
map_walk(struct map *map)
{
	uint64_t size_bytes = cleave_volume_info(map->disk.volume)->size_bytes;
	int rc = 0;

	assert(map->at_bytes == 0 && map->last.length_bytes == 0);
	while (rc == 0 && map->at_bytes + map->last.length_bytes < size_bytes) {
		uint64_t from = map->at_bytes + map->last.length_bytes;
		struct cleave_io io = { .op = CLEAVE_BLOCK_STATUS,
			.offset_bytes = from,
			.length_bytes = num_min(size_bytes - from, MAP_STRETCH_BYTES),
			.extents = map->extents,
			.extent_max = MAP_EXTENTS };

		rc = command_disk_run(&map->disk, &io);
		if (rc == 0)
			rc = map_take(map, io.extent_count);
	}
	return rc != 0 ? rc : map_tell(map);
}

static int
map_print(struct map *map)
{
	struct command_session *session = map->session;
	uint64_t size_bytes = cleave_volume_info(map->disk.volume)->size_bytes;
	json_t *reply;
	int rc;

	assert(map->disk.volume != NULL && map->out == NULL);
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

	assert(session->client != NULL && session->out != NULL);
	assert(name != NULL);
	map = (struct map){ .session = session, .is_difference = is_difference };
	rc = command_disk_open(&map.disk, session, name, CLEAVE_OPEN_READ_ONLY);
	if (rc != 0)
		return rc;
	rc = map_print(&map);
	if (rc != 0)
		(void)command_fail(session, rc, "volume '%.64s': %s", session->options->name,
		    cleave_error_text(rc));
	command_disk_close(&map.disk);
	return rc;
}

int
command_volume_map(struct command_session *session)
{
	assert(session->options->name != NULL);
	return map_open_and_print(session, session->options->name, false);
}

/* VOLUME@OLD, and VOLUME@NEW or VOLUME or nothing. */
int
command_snapshot_diff(struct command_session *session)
{
	assert(session->options->name != NULL);
	const char *old = session->options->name, *until = session->options->new_name;
	const char *at = strchr(old, '@');
	char name[CLEAVE_NAME_BYTES_MAX + 1];
	const char *new_snapshot = "";
	size_t bytes;

	assert(old != NULL);
	if (at == NULL)
		return command_fail(session, -EINVAL,
		    "'%.64s' is no snapshot: VOLUME@SNAPSHOT is wanted", old);
	bytes = (size_t)(at - old);
	if (until != NULL) {
		if (strncmp(until, old, bytes) != 0 ||
		    (until[bytes] != '@' && until[bytes] != '\0'))
			return command_fail(session, -EINVAL,
			    "'%.64s' is not of the volume that '%.64s' is of: give two snapshots "
			    "of one volume",
			    until, old);
		new_snapshot = until[bytes] == '@' ? until + bytes + 1 : "";
	}
	if (snprintf(name, sizeof(name), "%s@%s", old, new_snapshot) >= (int)sizeof(name))
		return command_fail(session, -EINVAL, "the names are too long");
	return map_open_and_print(session, name, true);
}
