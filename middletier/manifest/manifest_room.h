/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_room.h -- how long a manifest may get, and what is pressed back before it is too long */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_ROOM_H
#define CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_ROOM_H

#include <stdbool.h>
#include <stdint.h>

struct mt_extent;
struct mt_settings;
struct mt_shard;
struct mt_shared;
struct mt_volumes;

#define MT_MANIFEST_BYTES_SOFT                                                                     \
	UINT64_C(0x10000000) /* a copy of it is in memory while it is written */

/* mt_manifest_soft_bytes -- with the smallest slot of @slot_bytes: from so many on it is long. */
uint64_t mt_manifest_soft_bytes(uint64_t slot_bytes);
/* mt_manifest_is_long -- no merge may leave more runs than it found. */
bool mt_manifest_is_long(const struct mt_shard *shard);
/* mt_manifest_part_bytes -- a checkpoint goes on in another extent behind so many of @extent. */
uint64_t mt_manifest_part_bytes(const struct mt_extent *extent);

/* mt_manifest_mirror_bytes -- of shard 0's manifest, once it mirrors all of @volumes and their snapshots. */
uint64_t mt_manifest_mirror_bytes(const struct mt_volumes *volumes);
/* mt_manifest_mirror_bytes_max -- beyond it no more are made; no bound before a node has told its slots. */
uint64_t mt_manifest_mirror_bytes_max(const struct mt_settings *settings,
    const struct mt_shared *shared);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_ROOM_H */
