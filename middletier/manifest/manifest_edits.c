/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_edits.c -- see manifest_edits.h */
#include "manifest/manifest_edits.h"

#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "manifest/edit.h"
#include "manifest/manifest_state.h"

/* As edit.c lays them out (test_edit.c compares). */
#define STATE_EXTENT_BYTES 88u /* OPENED on MT_REPLICAS_MAX nodes, SEALED */
#define STATE_RUN_BYTES 52u
#define STATE_DIRECTORY_BYTES 8u /* of a run that has one, besides */
#define STATE_CUT_BYTES 36u
#define STATE_FIXED_BYTES 68u /* EPOCH, CLUSTER, CHECKPOINT_END */
#define STATE_NEXT_KEY_BYTES 8u

uint64_t
mt_manifest_state_pressed_bytes(const struct mt_manifest_state *state)
{
	assert(state->cut_count <= state->cut_max);
	return (uint64_t)state->runs.count * STATE_RUN_BYTES +
	    (uint64_t)state->runs.directory_count * STATE_DIRECTORY_BYTES +
	    (uint64_t)state->cut_count * STATE_CUT_BYTES + state->mirror_bytes;
}

uint64_t
mt_manifest_state_bytes(const struct mt_manifest_state *state)
{
	assert(state->extent_count <= state->extent_max);
	return STATE_FIXED_BYTES + (state->next_key != 0 ? STATE_NEXT_KEY_BYTES : 0) +
	    (uint64_t)state->extent_count * STATE_EXTENT_BYTES +
	    mt_manifest_state_pressed_bytes(state);
}

static void
state_extent_edit(const struct mt_state_extent *extent, bool is_seal, struct mt_edit *ret_edit)
{
	assert(extent->replica_count <= MT_REPLICAS_MAX);
	*ret_edit = (struct mt_edit){ .id = extent->id };
	if (is_seal) {
		ret_edit->kind = MT_EDIT_EXTENT_SEALED;
		ret_edit->length_bytes = extent->sealed_bytes;
		return;
	}
	ret_edit->kind = MT_EDIT_EXTENT_OPENED;
	ret_edit->extent_kind = extent->kind;
	ret_edit->replica_count = extent->replica_count;
	memcpy(ret_edit->replicas, extent->replicas, sizeof(extent->replicas));
}

static void
state_run_edit(const struct mt_state_run *run, struct mt_edit *ret_edit)
{
	assert(num_is_aligned(run->offset_bytes | run->length_bytes, BATCH_ALIGN));
	*ret_edit = (struct mt_edit){ .kind = MT_EDIT_RUN_ADDED,
		.id = run->id,
		.chunk = run->chunk,
		.offset_bytes = run->offset_bytes,
		.length_bytes = run->length_bytes,
		.flushed_sequence = run->flushed_sequence,
		.cut = run->cut,
		.directory_bytes = run->directory_bytes,
		.directory_crc = run->directory_crc };
}

static void
state_cut_edit(const struct mt_state_cut *cut, struct mt_edit *ret_edit)
{
	assert(cut->cut != 0);
	*ret_edit = (struct mt_edit){ .kind = MT_EDIT_CUT,
		.cut = cut->cut,
		.sequence = cut->sequence,
		.segment_base = cut->segment_base,
		.segment_count = cut->segment_count };
}

static void
state_cluster_edit(const struct mt_manifest_state *state, struct mt_edit *ret_edit)
{
	assert(state->shard_count > 0 && state->shard_count <= CLEAVE_SHARDS_MAX);
	*ret_edit = (struct mt_edit){ .kind = MT_EDIT_CLUSTER,
		.next_volume_id = state->next_volume_id,
		.next_segment = state->next_segment,
		.next_snapshot = state->next_snapshot,
		.next_clone = state->next_clone,
		.next_key = state->next_key,
		.level = state->level,
		.shard_count = state->shard_count };
}

/*
 * EPOCH, then for each extent OPENED and SEALED (where it is open, its epoch again instead, so that
 * any edit is found without a walk), runs, cuts, volumes, snapshots, data keys, names, the cluster
 * where it is known, the end.
 */
bool
mt_manifest_state_edit(const struct mt_manifest_state *state, uint64_t index,
    uint64_t next_sequence, struct mt_edit *ret_edit)
{
	uint64_t extents_end = 1 + 2 * (uint64_t)state->extent_count;
	uint64_t runs_end = extents_end + state->runs.count;
	uint64_t cuts_end = runs_end + state->cut_count;
	uint64_t volumes_end = cuts_end + state->volume_count;
	uint64_t snapshots_end = volumes_end + state->snapshot_count;
	uint64_t data_keys_end = snapshots_end + state->data_key_count;
	uint64_t names_end = data_keys_end + state->name_count;
	uint64_t end = names_end + (state->shard_count != 0 ? 1 : 0);

	assert(state->epoch != 0);
	if (index > end)
		return false;
	if (index == 0) {
		*ret_edit = (struct mt_edit){ .kind = MT_EDIT_EPOCH, .epoch = state->epoch };
	} else if (index < extents_end) {
		const struct mt_state_extent *extent = &state->extents[(index - 1) / 2];
		bool is_seal = (index - 1) % 2 == 1;

		state_extent_edit(extent, is_seal, ret_edit);
		if (is_seal && !extent->is_sealed)
			*ret_edit =
			    (struct mt_edit){ .kind = MT_EDIT_EPOCH, .epoch = state->epoch };
	} else if (index < runs_end) {
		state_run_edit(mt_run_table_at(&state->runs, (uint32_t)(index - extents_end)),
		    ret_edit);
	} else if (index < cuts_end) {
		state_cut_edit(&state->cuts[index - runs_end], ret_edit);
	} else if (index < volumes_end) {
		*ret_edit = (struct mt_edit){ .kind = MT_EDIT_VOLUME,
			.volume = state->volumes[index - cuts_end] };
	} else if (index < snapshots_end) {
		*ret_edit = (struct mt_edit){ .kind = MT_EDIT_SNAPSHOT,
			.snapshot = state->snapshots[index - volumes_end] };
	} else if (index < data_keys_end) {
		*ret_edit = (struct mt_edit){ .kind = MT_EDIT_DATA_KEY,
			.data_key = state->data_keys[index - snapshots_end] };
	} else if (index < names_end) {
		*ret_edit = (struct mt_edit){ .kind = MT_EDIT_NAME,
			.name = state->names[index - data_keys_end] };
	} else if (index < end) {
		state_cluster_edit(state, ret_edit);
	} else {
		*ret_edit =
		    (struct mt_edit){ .kind = MT_EDIT_CHECKPOINT_END, .sequence = next_sequence };
	}
	return true;
}
