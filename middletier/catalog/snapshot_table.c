/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_table.c -- the keys "snapshots/N", and main's copy of them
 *
 * N is the number of the snapshot's cut, in 20 digits, so that keys are listed in its order. Every number
 * that was given away has a key, from then on until no shard knows of its cut any more:
 *
 *	pending --> live --> deleted --> deleted, and "waiting" for shards to drop the cut --> no key
 *	    \___________________^
 *
 * One that was pending and is deleted came to nothing, and says so by having been made at time 0.
 *
 * A deleted one stays as long as a scope of a volume or of a live snapshot names its number: roll-backs
 * and clones of what lies before it (drop.c).
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/search.h"
#include "catalog/json.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/engine.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/limits.h"
#include "common/replica.h"

#define SNAPSHOTS_MIN 16u

static const char *const state_names[MT_SNAPSHOT_STATE_NR] = {
	[MT_SNAPSHOT_PENDING] = "pending",
	[MT_SNAPSHOT_LIVE] = "live",
	[MT_SNAPSHOT_DELETED] = "deleted",
};

/* ---- the key ---- */

void
mt_snapshot_key(uint64_t number, char ret_key[MT_SNAPSHOT_KEY_BYTES])
{
	assert(number != 0);
	assert(number <= MT_NUMBER_MAX);
	(void)snprintf(ret_key, MT_SNAPSHOT_KEY_BYTES, MT_SNAPSHOT_PREFIX "%020" PRIu64, number);
}

json_t *
mt_json_snapshot(const struct mt_snapshot *snapshot)
{
	json_t *object;

	assert(snapshot->state < MT_SNAPSHOT_STATE_NR);
	object = json_pack("{s:I, s:s, s:I, s:I, s:I, s:i, s:I, s:s, s:i}", "number",
	    (json_int_t)snapshot->number, "name", snapshot->name, "volume_id",
	    (json_int_t)snapshot->volume_id, "size_bytes", (json_int_t)snapshot->size_bytes,
	    "segment_base", (json_int_t)snapshot->segment_base, "segment_count",
	    (int)snapshot->segment_count, "created_s", (json_int_t)snapshot->created_s, "state",
	    state_names[snapshot->state], "clones", (int)snapshot->clone_count);
	if (object != NULL && snapshot->is_protected)
		json_object_set_new(object, "protected", json_true());
	if (object != NULL && snapshot->group != 0)
		json_object_set_new(object, "group", json_integer((json_int_t)snapshot->group));
	return object;
}

char *
mt_snapshot_encode(const struct mt_snapshot *snapshot, const char *waiting)
{
	json_t *object = mt_json_snapshot(snapshot);
	char *text = NULL;

	if (object != NULL &&
	    mt_json_put_scope(object, &snapshot->scope, snapshot->segment_base) == 0 &&
	    (waiting == NULL || json_object_set_new(object, "waiting", json_string(waiting)) == 0))
		text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

static const char *
snapshot_take_text(struct mt_snapshot *snapshot, const char *name, const char *state,
    const json_t *spans)
{
	uint32_t i = 0;

	assert(snapshot->number != 0);
	if (mt_volume_name_check(name) != NULL)
		return "name";
	(void)snprintf(snapshot->name, sizeof(snapshot->name), "%s", name);
	while (i < MT_SNAPSHOT_STATE_NR && strcmp(state, state_names[i]) != 0)
		i++;
	if (i == MT_SNAPSHOT_STATE_NR)
		return "state";
	snapshot->state = (enum mt_snapshot_state)i;
	if (snapshot->group != 0 && !mt_snapshot_is_grouped(snapshot->number, snapshot->group))
		return "group";
	if (snapshot->segment_count != mt_volume_segment_count(snapshot->size_bytes))
		return "segment_count";
	if (!mt_segments_exist(snapshot->segment_base, snapshot->segment_count))
		return "segment_base";
	return mt_json_take_scope(spans, snapshot->segment_base, &snapshot->scope);
}

int
mt_snapshot_decode(const char *key, const void *value, uint32_t bytes,
    struct mt_snapshot *ret_snapshot, char **ret_waiting, const char **ret_field)
{
	static _Thread_local char error[MT_ERROR_BYTES];
	struct mt_snapshot snapshot = { 0 };
	uint64_t segment_count = 0, clone_count = 0;
	const char *name = NULL, *state = NULL, *waiting = NULL;
	json_t *spans = NULL;
	const struct reader_member members[] = {
		{ "number", READER_U64, true, 1, MT_NUMBER_MAX, { .u64 = &snapshot.number } },
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "volume_id", READER_U64, true, 1, MT_NUMBER_MAX, { .u64 = &snapshot.volume_id } },
		{ "size_bytes", READER_U64, true, CLEAVE_BLOCK_BYTES, CLEAVE_VOLUME_BYTES_MAX,
		    { .u64 = &snapshot.size_bytes } },
		{ "segment_base", READER_U64, true, 0, 0, { .u64 = &snapshot.segment_base } },
		{ "segment_count", READER_U64, true, 1, 0, { .u64 = &segment_count } },
		{ "created_s", READER_U64, true, 0, 0, { .u64 = &snapshot.created_s } },
		{ "state", READER_TEXT, true, 0, 0, { .text = &state } },
		{ "clones", READER_U64, true, 0, UINT32_MAX, { .u64 = &clone_count } },
		{ "spans", READER_ARRAY, false, 0, 0, { .array = &spans } },
		{ "waiting", READER_TEXT, false, 0, 0, { .text = &waiting } },
		{ "protected", READER_BOOL, false, 0, 0, { .flag = &snapshot.is_protected } },
		{ "group", READER_U64, false, 1, MT_NUMBER_MAX, { .u64 = &snapshot.group } },
	};
	json_t *object = json_loadb(value, bytes, JSON_REJECT_DUPLICATES, NULL);
	char expected[MT_SNAPSHOT_KEY_BYTES];
	int rc = -EINVAL;

	*ret_field = "not a JSON object";
	if (!json_is_object(object))
		goto out;
	*ret_field = error;
	rc = reader_strict(object, members, NUM_COUNT(members), error);
	if (rc != 0)
		goto out;
	snapshot.segment_count = (uint32_t)num_min(segment_count, UINT32_MAX);
	snapshot.clone_count = (uint32_t)clone_count;
	*ret_field = snapshot_take_text(&snapshot, name, state, spans);
	mt_snapshot_key(snapshot.number, expected);
	if (*ret_field == NULL && strcmp(expected, key) != 0)
		*ret_field = "number";
	if (*ret_field != NULL) {
		rc = -EINVAL;
		goto out;
	}
	*ret_waiting = waiting == NULL ? NULL : mt_strdup(waiting);
	*ret_field = "memory";
	rc = waiting != NULL && *ret_waiting == NULL ? -ENOMEM : 0;
	if (rc == 0)
		*ret_snapshot = snapshot;
out:
	json_decref(object);
	return rc;
}

/* ---- the table ---- */

static uint32_t
snapshots_position(const struct mt_snapshots *snapshots, uint64_t number)
{
	uint32_t at;

	assert(snapshots->count <= snapshots->max);
	SEARCH_FIRST(at, snapshots->count, snapshots->entries[at].snapshot.number < number);
	return at;
}

uint32_t
mt_snapshots_live_count(const struct mt_snapshots *snapshots, uint64_t volume_id)
{
	uint32_t count = 0;

	assert(volume_id != 0);
	for (uint32_t i = 0; i < snapshots->count; i++) {
		const struct mt_snapshot *snapshot = &snapshots->entries[i].snapshot;

		count += snapshot->volume_id == volume_id && snapshot->state == MT_SNAPSHOT_LIVE;
	}
	return count;
}

struct mt_snapshot_entry *
mt_snapshots_by_number(const struct mt_snapshots *snapshots, uint64_t number)
{
	uint32_t at = snapshots_position(snapshots, number);

	if (at == snapshots->count || snapshots->entries[at].snapshot.number != number)
		return NULL;
	return &snapshots->entries[at];
}

struct mt_snapshot_entry *
mt_snapshots_by_name(const struct mt_snapshots *snapshots, uint64_t volume_id, const char *name)
{
	assert(snapshots->count <= snapshots->max);
	for (uint32_t i = 0; i < snapshots->count; i++) {
		struct mt_snapshot_entry *entry = &snapshots->entries[i];

		if (entry->snapshot.volume_id == volume_id &&
		    entry->snapshot.state != MT_SNAPSHOT_DELETED &&
		    strcmp(entry->snapshot.name, name) == 0)
			return entry;
	}
	return NULL;
}

/* Keys are listed in the order of their numbers. */
int
mt_snapshots_put_item(struct mt_snapshots *snapshots, const struct meta_item *item)
{
	struct mt_snapshot_entry entry = { .version = item->version };
	const char *field;
	int rc = mt_snapshot_decode(item->key, item->value, item->value_bytes, &entry.snapshot,
	    &entry.waiting, &field);

	assert(strncmp(item->key, MT_SNAPSHOT_PREFIX, strlen(MT_SNAPSHOT_PREFIX)) == 0);
	if (rc == -EINVAL) {
		log_error(
		    "snapshot: unreadable in the metadata store key=%s field=\"%s\": nobody is "
		    "told of it, and nothing is reclaimed",
		    item->key, field);
		snapshots->is_incomplete = true;
		return 0; /* the others are there */
	}
	if (rc != 0)
		return rc;
	if (snapshots->count == snapshots->max) {
		uint32_t max = (uint32_t)num_max(2 * (uint64_t)snapshots->max, SNAPSHOTS_MIN);
		struct mt_snapshot_entry *entries =
		    mt_realloc(snapshots->entries, max * sizeof(*entries));

		if (entries == NULL) {
			mt_free(entry.waiting);
			return -ENOMEM;
		}
		snapshots->entries = entries;
		snapshots->max = max;
	}
	assert(snapshots_position(snapshots, entry.snapshot.number) == snapshots->count);
	snapshots->entries[snapshots->count++] = entry;
	return 0;
}

void
mt_snapshot_void(struct mt_snapshot *snapshot)
{
	assert(snapshot->number != 0);
	assert(snapshot->state == MT_SNAPSHOT_PENDING);
	snapshot->state = MT_SNAPSHOT_DELETED;
	snapshot->created_s = 0;
}

uint32_t
mt_snapshots_void_count(const struct mt_snapshots *snapshots)
{
	uint32_t count = 0;

	assert(snapshots->count <= snapshots->max);
	for (uint32_t i = 0; i < snapshots->count; i++) {
		const struct mt_snapshot *snapshot = &snapshots->entries[i].snapshot;

		count += snapshot->state == MT_SNAPSHOT_PENDING ||
		    (snapshot->state == MT_SNAPSHOT_DELETED && snapshot->created_s == 0);
	}
	return count;
}

void
mt_snapshots_fini(struct mt_snapshots *snapshots)
{
	assert(snapshots->count <= snapshots->max);
	for (uint32_t i = 0; i < snapshots->count; i++)
		mt_free(snapshots->entries[i].waiting);
	mt_free(snapshots->entries);
	*snapshots = (struct mt_snapshots){ 0 };
}

static const struct mt_snapshot *
snapshots_live(const struct mt_volumes *volumes, uint64_t number)
{
	const struct mt_snapshot_entry *entry = mt_snapshots_by_number(&volumes->snapshots, number);

	return entry != NULL && entry->snapshot.state == MT_SNAPSHOT_LIVE ? &entry->snapshot : NULL;
}

/* The snapshot or, of a difference, the volume itself, that @id names. */
static bool
session_end(struct mt_volumes *volumes, uint64_t id, struct mt_volume *ret_volume)
{
	uint64_t number = id & ~(MT_SNAPSHOT_ID | MT_SNAPSHOT_OF_VOLUME);
	const struct mt_snapshot *snapshot;
	const struct mt_volume_entry *entry;

	if ((id & MT_SNAPSHOT_ID) == 0)
		return false;
	if ((id & MT_SNAPSHOT_OF_VOLUME) != 0) {
		entry = mt_volumes_by_id(volumes, number);
		if (entry == NULL || mt_volume_is_trashed(&entry->volume))
			return false;
		*ret_volume = entry->volume;
		return true;
	}
	snapshot = snapshots_live(volumes, number);
	if (snapshot == NULL || mt_volumes_trashed(volumes, snapshot->volume_id) != NULL)
		return false;
	*ret_volume = (struct mt_volume){ .size_bytes = snapshot->size_bytes,
		.segment_base = snapshot->segment_base,
		.segment_count = snapshot->segment_count,
		.codec_id = ENGINE_NONE,
		.replica_count = MT_REPLICAS_MAX,
		.scope = snapshot->scope };
	memcpy(ret_volume->name, snapshot->name, sizeof(ret_volume->name));
	return true;
}

int
mt_snapshot_session(struct mt_volumes *volumes, uint64_t id, uint64_t attach,
    struct mt_volume *ret_volume)
{
	const struct mt_snapshot *since = NULL;
	struct mt_volume volume;
	int rc = 0;

	if (attach == 0 || !session_end(volumes, id, &volume))
		return -ENOENT;
	if (attach > 1) {
		since = snapshots_live(volumes, attach - 1);
		if (since == NULL)
			return -ENOENT;
		rc = mt_scope_difference(&since->scope, &volume.scope, volume.segment_base,
		    &volume.scope);
	} else if ((id & MT_SNAPSHOT_OF_VOLUME) != 0) {
		return -ENOENT;
	}
	if (rc != 0)
		return -ENOTSUP;
	volume.id = id;
	volume.attach = attach;
	volume.is_difference = since != NULL;
	/* A copy of a moment is nobody's load to be kept down: a volume's limits are of the volume itself. */
	volume.limits = (struct cleave_limits){ 0 };
	*ret_volume = volume;
	return 0;
}
