/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest_room.c -- how long a manifest may get, and what is pressed back before it is too long
 *
 *	0                    soft                                        hard
 *	|--------------------|-------------------------------------------|
 *	 volumes, snapshots,  extents, which are bounded by their number; no manifest is written:
 *	 cuts and runs        cuts and volumes that were on their way;     commits wait, reads go on
 *	                      whatever makes something of it shorter
 *
 *	soft   half as many extents as may be read before the root's, MT_MANIFEST_BYTES_SOFT at most
 *	hard   MT_MANIFEST_PARTS_MAX extents (manifest_checkpoint.c)
 *
 * Beyond the soft limit a shard *is long*: a merge must not leave more runs than it found (flush.c), so what
 * was written to chunks that no run has stays in the log; when the log is full, writes are answered
 * ENOSPC, as on full disks. Reads, deletions and merges that leave fewer runs go on, and so do discards, but
 * those of what a snapshot or a clone's origin still shows: to hide that takes a run, too. Volumes and
 * snapshots, which shard 0 mirrors, may take half of that: no more are made then (mt_control_has_room), so
 * runs always have the other half.
 */
#include <stdatomic.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/batch.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "manifest/edit.h"
#include "manifest/manifest.h"
#include "manifest/manifest_edits.h"
#include "manifest/manifest_mirror.h"
#include "manifest/manifest_parts.h"
#include "manifest/manifest_room.h"
#include "manifest/manifest_state.h"

#define ROOM_EXTENTS_SOFT (MT_MANIFEST_PARTS_MAX / 2u)
#define SLOT_BYTES_MIN NUM_KIB(64) /* of any storage node's disk */

_Static_assert(MT_SNAPSHOTS_VOID_MAX *MT_EDIT_BYTES_MAX < SLOT_BYTES_MIN / 2,
    "what came to nothing leaves room for the rest in a manifest's extent");

/* Bytes of edits in an extent of @slot_bytes: batch heads, and gaps at the ends of batches, take the rest. */
static uint64_t
room_extent_bytes(uint64_t slot_bytes)
{
	if (slot_bytes < MT_EXTENT_OVERHEAD_BYTES + BATCH_ALIGN)
		return 0;
	return num_round_down(slot_bytes - MT_EXTENT_OVERHEAD_BYTES, BATCH_ALIGN) / 8 * 7;
}

uint64_t
mt_manifest_soft_bytes(uint64_t slot_bytes)
{
	return num_min(ROOM_EXTENTS_SOFT * room_extent_bytes(slot_bytes), MT_MANIFEST_BYTES_SOFT);
}

uint64_t
mt_manifest_part_bytes(const struct mt_extent *extent)
{
	uint64_t bytes = extent->shard->port->settings->manifest_part_bytes;

	assert(extent->capacity_bytes > 0);
	return bytes == 0 ? extent->capacity_bytes : num_min(bytes, extent->capacity_bytes);
}

/* UINT64_MAX: no node has told yet. */
static uint64_t
room_soft_bytes(const struct mt_settings *settings, const struct mt_shared *shared)
{
	uint64_t slot_bytes = atomic_load(&shared->slot_bytes_min);

	if (settings->manifest_bytes != 0)
		return settings->manifest_bytes;
	return slot_bytes == 0 ? UINT64_MAX : mt_manifest_soft_bytes(slot_bytes);
}

bool
mt_manifest_is_long(const struct mt_shard *shard)
{
	const struct mt_manifest_state *state = mt_manifest_state(shard);
	const struct mt_port *port = shard->port;

	assert(state == NULL || state->epoch != 0);
	return state != NULL && !MUTANT(manifest_room_ignored) &&
	    mt_manifest_state_pressed_bytes(state) >= room_soft_bytes(port->settings, port->shared);
}

uint64_t
mt_manifest_mirror_bytes(const struct mt_volumes *volumes)
{
	uint64_t bytes = 0, name_bytes = 0;

	assert(volumes->count <= volumes->max);
	for (uint32_t i = 0; i < volumes->count; i++) {
		const struct mt_volume *volume = &volumes->entries[i].volume;

		bytes += mt_manifest_volume_bytes(volume);
		if (volume->key_id == 0)
			continue;
		name_bytes = MT_MANIFEST_NAME_BYTES;
		bytes += MT_MANIFEST_DATA_KEY_BYTES + name_bytes;
	}
	/* Where there are encrypted volumes, each snapshot counts as one of theirs. */
	for (uint32_t i = 0; i < volumes->snapshots.count; i++)
		bytes += name_bytes +
		    mt_manifest_snapshot_bytes(&volumes->snapshots.entries[i].snapshot);
	return bytes;
}

uint64_t
mt_manifest_mirror_bytes_max(const struct mt_settings *settings, const struct mt_shared *shared)
{
	return room_soft_bytes(settings, shared) / 2;
}
