/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edit_layout.h -- the bytes of a manifest's edits; for edit.c and edit_decode.c alone
 *
 * An edit is 4 bytes of head and a value; the batch round it carries the CRC. Little-endian:
 *
 *	0 u8 kind  1 u8 version  2 u16 value_bytes  4 value
 *
 *	EPOCH             u32 epoch, u32 zero
 *	EXTENT_OPENED     u64 extent, u8 extent_kind, u8 replica_count, u16 zero, u32 zero,
 *	                  then a replica: u32 node_id, u8 flags, u8[3] zero, u64 incarnation
 *	EXTENT_REPLICAS   the same
 *	EXTENT_SEALED     u64 extent, u64 length_bytes
 *	EXTENT_DELETED    u64 extent
 *	RUN_ADDED         u64 extent, u64 chunk, u64 offset_bytes, u64 length_bytes,
 *	                  u64 flushed_sequence, u64 cut; where the run's last batch is a directory,
 *	                  from level 2 on: u32 directory_bytes, u32 directory_crc
 *	RUN_REMOVED       u64 extent, u64 chunk, u64 offset_bytes
 *	CUT               u64 cut, u64 sequence, u64 segment_base, u32 segment_count, u32 zero
 *	CUT_DROPPED       u64 cut
 *	CHECKPOINT_END    u64 sequence
 *	SUCCESSOR         u64 extent
 *	VOLUME            u64 id, u64 size_bytes, u64 segment_base, u64 attach, u64 session,
 *	                  u32 segment_count, i32 level, u8 service_class, u8 codec_id,
 *	                  u8 replica_count, u8 flags (1: deleted; 2: in the trash, 4: has limits
 *	                  or shares, 8: encrypted, 16 and 32: where it may be read, as enum mt_reads,
 *	                  all of them from level 2 on), u8 span_count, u8[3] zero, name: 64 bytes, zeros behind it; where
 *	                  there are spans: u64 origin, then a span: u64 segment_base,
 *	                  u64 cut_from, u64 cut_below; in the trash: the name is the one that it
 *	                  had, and behind it all u64 deleted_s, u64 keep_ms, u64 left_ms; with
 *	                  limits, behind that: a u64 each, as CLEAVE_LIMIT_LIST has them; encrypted,
 *	                  behind all: u32 key_id, and the name is "encrypted-ID"
 *	SNAPSHOT          u64 number, u64 volume, u64 size_bytes, u64 segment_base, u64 created_s,
 *	                  u32 segment_count, u32 clone_count, u8 state, u8 flags (1: deleted;
 *	                  2: protected, from level 2 on), u8 span_count, u8 place among those that
 *	                  were taken together, from 1 on (0: alone; from level 2 on), u8[4] zero,
 *	                  name: 64 bytes, then spans as above
 *	CLUSTER           u64 next_volume_id, u64 next_segment, u32 shard_count, u32 level (0: 1),
 *	                  u64 next_snapshot, u64 next_clone; where there has been a data key, from
 *	                  level 2 on: u64 next_key
 *	PART              as EXTENT_OPENED, extent_kind 3; then u64 length_bytes
 *	DATA_KEY          u64 id, u64 volume, u8 state, u8 flags (1: deleted), u16 wrapped_bytes,
 *	                  u32 zero, kek: 64 bytes, zeros behind it, then what is wrapped; from level
 *	                  2 on, as NAME
 *	NAME              u64 number (a volume's id, or a snapshot's with its bit), u32 key_id, u8 flags
 *	                  (1: deleted), u8[3] zero, 92 bytes as catalog/sealed_name.c has them
 *
 * An extent is its packed id. A kind's value has the length that is written here: a longer one is another version, and
 * refused, because an edit that is not understood may not be skipped.
 */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_EDIT_LAYOUT_H
#define CLEAVE_MIDDLETIER_MANIFEST_EDIT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/qos.h"
#include "manifest/edit.h"

#define EDIT_VERSION 1u
#define EDIT_HEAD_BYTES 4u
#define EDIT_OPENED_FIXED_BYTES 16u
#define EDIT_REPLICA_BYTES 16u
#define EDIT_LENGTH_BYTES 8u
#define EDIT_RUN_BYTES 48u
#define EDIT_DIRECTORY_BYTES 8u
#define EDIT_REPLICA_DAMAGED 1u
#define EDIT_VOLUME_FIXED_BYTES 56u
#define EDIT_VOLUME_DELETED 1u
#define EDIT_VOLUME_TRASHED 2u
#define EDIT_VOLUME_LIMITED 4u
#define EDIT_VOLUME_ENCRYPTED 8u
#define EDIT_VOLUME_READS_SHIFT 4u /* enum mt_reads, in two bits */
#define EDIT_VOLUME_READS_MASK (3u << EDIT_VOLUME_READS_SHIFT)
#define EDIT_KEY_ID_BYTES 4u
#define EDIT_TRASH_BYTES 24u
#define EDIT_LIMITS_BYTES ((uint32_t)(8u * MT_LIMIT_COUNT))
#define EDIT_SNAPSHOT_PROTECTED 2u
#define EDIT_SNAPSHOT_FIXED_BYTES 56u
#define EDIT_SPAN_BYTES 24u
#define EDIT_ORIGIN_BYTES 8u
#define EDIT_CLUSTER_BYTES 40u
#define EDIT_NEXT_KEY_BYTES 8u
#define EDIT_DATA_KEY_FIXED_BYTES 24u
#define EDIT_NAME_FIXED_BYTES 16u
#define EDIT_DELETED 1u

/* edit_has_replicas -- does a value of @kind name an extent's replicas? */
static inline bool
edit_has_replicas(uint32_t kind)
{
	return kind == MT_EDIT_EXTENT_OPENED || kind == MT_EDIT_EXTENT_REPLICAS ||
	    kind == MT_EDIT_PART;
}

#endif /* CLEAVE_MIDDLETIER_MANIFEST_EDIT_LAYOUT_H */
