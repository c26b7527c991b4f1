/* SPDX-License-Identifier: Apache-2.0 */
/* drop_mark.c -- see drop_mark.h */
#include "cluster/drop_mark.h"

#include "base/check.h"
#include "base/reader.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "catalog/waiting.h"

const char *
mt_drop_mark_take(struct drop_mark *mark, uint32_t shard_count)
{
	const json_t *waiting = json_object_get(mark->object, "waiting");
	struct reader reader = { 0 };

	assert(shard_count > 0 && shard_count <= CLEAVE_SHARDS_MAX);
	mark->segment_base = reader_u64(&reader, mark->object, "segment_base", UINT64_MAX);
	mark->segment_count = MT_VOLUME_SEGMENTS;
	if (!mt_segments_exist(mark->segment_base, 1))
		reader_fail(&reader, "segment_base");
	if (mark->number != 0 || waiting != NULL) {
		if (!mt_waiting_read(json_string_value(waiting), shard_count, mark->waiting))
			reader_fail(&reader, "waiting");
		return reader.field;
	}
	/* A mark without "waiting" is older: its volume had no more segments than it needed. */
	mark->segment_count =
	    (uint32_t)reader_range(&reader, mark->object, "segment_count", 1, MT_VOLUME_SEGMENTS);
	if (reader.field != NULL)
		return reader.field;
	for (uint32_t i = 0; i < shard_count; i++)
		mark->waiting[i / 64] |= UINT64_C(1) << i % 64;
	return NULL;
}

bool
mt_drop_mark_is_contested(const struct drop_mark *mark, const struct mt_volumes *volumes)
{
	uint64_t end = mark->segment_base + mark->segment_count;

	assert(mark->segment_count > 0);
	for (uint32_t i = 0; i < volumes->count && mark->number == 0; i++) {
		const struct mt_volume *volume = &volumes->entries[i].volume;

		if (volume->segment_base < end &&
		    volume->segment_base + volume->segment_count > mark->segment_base)
			return true;
	}
	return false;
}

bool
mt_drop_is_named(const struct mt_volumes *volumes, uint64_t number)
{
	assert(number != 0);
	for (uint32_t i = 0; i < volumes->count; i++) {
		if (mt_scope_names(&volumes->entries[i].volume.scope, number))
			return true;
	}
	for (uint32_t i = 0; i < volumes->snapshots.count; i++) {
		const struct mt_snapshot *snapshot = &volumes->snapshots.entries[i].snapshot;

		if (snapshot->state != MT_SNAPSHOT_DELETED &&
		    mt_scope_names(&snapshot->scope, number))
			return true;
	}
	return false;
}
