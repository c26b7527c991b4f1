/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_state.h -- what a manifest's edits come to */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_STATE_H
#define CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/batch.h"
#include "common/replica.h"
#include "manifest/run_table.h"

struct mt_data_key;
struct mt_edit;
struct mt_sealed_name;
struct mt_snapshot;
struct mt_volume;

struct mt_state_extent {
	struct extent_id id;
	enum extent_kind kind;
	struct mt_replica replicas[MT_REPLICAS_MAX];
	uint32_t replica_count;
	bool is_sealed;
	uint64_t sealed_bytes;
	uint32_t run_count; /* that lie in it */
};

struct mt_state_cut {
	uint64_t cut;
	uint64_t sequence;
	uint64_t segment_base;
	uint32_t segment_count; /* 0: dropped; the greatest stays, as a number */
};

struct mt_manifest_state {
	uint32_t epoch;
	struct mt_state_extent *extents; /* by id, which is by age */
	uint32_t extent_count, extent_max;
	struct mt_run_table runs; /* by chunk, then as added */
	struct mt_state_cut *cuts;
	uint32_t cut_count, cut_max;
	/* Shard 0's: what mirror.c has written of the metadata store. shard_count 0: nothing yet. */
	struct mt_volume *volumes; /* by id */
	uint32_t volume_count, volume_max;
	struct mt_snapshot *snapshots; /* by number */
	uint32_t snapshot_count, snapshot_max;
	struct mt_data_key *data_keys; /* by id */
	uint32_t data_key_count, data_key_max;
	struct mt_sealed_name *names; /* by number */
	uint32_t name_count, name_max;
	uint64_t next_volume_id, next_segment, next_snapshot, next_clone;
	uint64_t next_key; /* 0: there has been no data key */
	uint32_t level;    /* of the cluster; 0 below CLEAVE_LEVEL_STORED */
	uint32_t shard_count;
	uint64_t next_sequence; /* at least; of the checkpoint */
	bool is_complete;       /* a checkpoint's end was seen */
	/* The extents before the one it was read from. Not part of a checkpoint. */
	struct mt_state_extent *parts;
	uint32_t part_count, part_max;
	uint64_t mirror_bytes; /* that volumes, snapshots, data keys and names take as edits */
};

void mt_manifest_state_init(struct mt_manifest_state *state);
void mt_manifest_state_fini(struct mt_manifest_state *state);
/*
 * mt_manifest_state_apply -- 0; -ENOMEM; -EBADMSG and the field: the edit contradicts the state
 *
 * Nothing changes unless it is 0.
 */
int mt_manifest_state_apply(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field);
/*
 * mt_manifest_state_apply_batch -- the edits of a manifest's batch, whose head was checked
 *
 * 0; -ENOMEM, having changed nothing; -EBADMSG, or -EPROTONOSUPPORT of a newer release's edit, and the field: the state is
 * of no use any more.
 */
int mt_manifest_state_apply_batch(struct mt_manifest_state *state, const struct batch_info *info,
    const uint8_t *head, const char **ret_field);
/* mt_manifest_state_reserve -- so that the next @count edits do not need memory. 0 or -ENOMEM. */
int mt_manifest_state_reserve(struct mt_manifest_state *state, uint32_t count);
/* mt_manifest_state_find -- NULL where there is no such extent. Valid until the next edit. */
struct mt_state_extent *mt_manifest_state_find(const struct mt_manifest_state *state,
    const struct extent_id *id);
/* mt_manifest_state_cut -- the greatest cut that the shard was told of; 0: none. */
uint64_t mt_manifest_state_cut(const struct mt_manifest_state *state);
/* mt_manifest_state_flushed -- the sequence that @chunk's runs reach; 0: it has none. */
uint64_t mt_manifest_state_flushed(const struct mt_manifest_state *state, uint64_t chunk);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_STATE_H */
