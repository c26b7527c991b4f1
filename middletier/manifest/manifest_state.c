/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest_state.c -- what a manifest's edits come to
 *
 * Sorted arrays. Extents are sorted by id, which is by age, and new ones come last; runs by
 * chunk. Each edit is checked against the state: one that does not fit (an extent sealed that was never
 * opened) means a manifest that lost or repeated something, and is never passed over.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/field.h"
#include "base/num.h"
#include "base/search.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/array.h"
#include "manifest/edit.h"
#include "manifest/edit_decode.h"
#include "manifest/manifest_mirror.h"
#include "manifest/manifest_parts.h"
#include "manifest/manifest_state.h"

#define STATE_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EBADMSG)

void
mt_manifest_state_init(struct mt_manifest_state *state)
{
	*state = (struct mt_manifest_state){ 0 };
}

void
mt_manifest_state_fini(struct mt_manifest_state *state)
{
	mt_free(state->extents);
	mt_run_table_fini(&state->runs);
	mt_free(state->cuts);
	mt_free(state->volumes);
	mt_free(state->snapshots);
	mt_free(state->data_keys);
	mt_free(state->names);
	mt_free(state->parts);
	*state = (struct mt_manifest_state){ 0 };
}

/* ---- memory ---- */

int
mt_manifest_state_reserve(struct mt_manifest_state *state, uint32_t count)
{
	void *extents = state->extents, *cuts = state->cuts;
	void *volumes = state->volumes, *snapshots = state->snapshots;
	void *data_keys = state->data_keys, *names = state->names;
	int rc = mt_array_grow(&extents, &state->extent_max, (uint64_t)state->extent_count + count,
	    sizeof(*state->extents));

	assert(state->extent_count <= state->extent_max);
	assert(state->cut_count <= state->cut_max);
	state->extents = extents;
	if (rc == 0)
		rc = mt_run_table_reserve(&state->runs, count);
	if (rc == 0)
		rc = mt_array_grow(&cuts, &state->cut_max, (uint64_t)state->cut_count + count,
		    sizeof(*state->cuts));
	state->cuts = cuts;
	if (rc == 0)
		rc = mt_array_grow(&volumes, &state->volume_max,
		    (uint64_t)state->volume_count + count, sizeof(*state->volumes));
	state->volumes = volumes;
	if (rc == 0)
		rc = mt_array_grow(&snapshots, &state->snapshot_max,
		    (uint64_t)state->snapshot_count + count, sizeof(*state->snapshots));
	state->snapshots = snapshots;
	if (rc == 0)
		rc = mt_array_grow(&data_keys, &state->data_key_max,
		    (uint64_t)state->data_key_count + count, sizeof(*state->data_keys));
	state->data_keys = data_keys;
	if (rc == 0)
		rc = mt_array_grow(&names, &state->name_max, (uint64_t)state->name_count + count,
		    sizeof(*state->names));
	state->names = names;
	return rc;
}

/* ---- extents ---- */

static int
extent_id_compare(const struct extent_id *a, const struct extent_id *b)
{
	uint64_t packed_a = extent_id_pack(a), packed_b = extent_id_pack(b);

	return packed_a < packed_b ? -1 : packed_a > packed_b;
}

/* Where @id is, or would be. */
static uint32_t
state_extent_position(const struct mt_manifest_state *state, const struct extent_id *id)
{
	uint32_t at;

	assert(state->extent_count <= state->extent_max);
	SEARCH_FIRST(at, state->extent_count, extent_id_compare(&state->extents[at].id, id) < 0);
	return at;
}

struct mt_state_extent *
mt_manifest_state_find(const struct mt_manifest_state *state, const struct extent_id *id)
{
	uint32_t position = state_extent_position(state, id);

	if (position == state->extent_count ||
	    extent_id_compare(&state->extents[position].id, id) != 0)
		return NULL;
	return &state->extents[position];
}

static void
state_take_replicas(struct mt_state_extent *extent, const struct mt_edit *edit)
{
	assert(edit->replica_count >= 1);
	assert(edit->replica_count <= MT_REPLICAS_MAX);
	extent->replica_count = edit->replica_count;
	for (uint32_t i = 0; i < edit->replica_count; i++) {
		extent->replicas[i] = edit->replicas[i];
		extent->replicas[i].is_truncated =
		    false; /* asked again: truncating twice does no more than once */
	}
}

static int
state_apply_opened(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	uint32_t position = state_extent_position(state, &edit->id);
	struct mt_state_extent *at;

	assert(edit->kind == MT_EDIT_EXTENT_OPENED);
	STATE_EXPECT(mt_manifest_state_find(state, &edit->id) == NULL, "extent opened twice");
	STATE_EXPECT(edit->id.epoch <= state->epoch, "extent of a later epoch");
	if (mt_manifest_state_reserve(state, 1) != 0)
		return -ENOMEM;
	at = mt_array_insert(state->extents, &state->extent_count, position, sizeof(*at));
	*at = (struct mt_state_extent){ .id = edit->id,
		.kind = edit->extent_kind,
		.replica_count = edit->replica_count };
	state_take_replicas(at, edit);
	return 0;
}

static int
state_apply_sealed(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	struct mt_state_extent *extent = mt_manifest_state_find(state, &edit->id);

	assert(edit->kind == MT_EDIT_EXTENT_SEALED);
	STATE_EXPECT(extent != NULL, "sealed extent was not opened");
	STATE_EXPECT(!extent->is_sealed, "extent sealed twice");
	extent->is_sealed = true;
	extent->sealed_bytes = edit->length_bytes;
	return 0;
}

/* A copy was made, or found to be of no use. */
static int
state_apply_replicas(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	struct mt_state_extent *extent = mt_manifest_state_find(state, &edit->id);

	assert(edit->kind == MT_EDIT_EXTENT_REPLICAS);
	STATE_EXPECT(extent != NULL, "extent with new replicas was not opened");
	STATE_EXPECT(extent->is_sealed, "extent with new replicas is not sealed");
	STATE_EXPECT(extent->kind == edit->extent_kind,
	    "extent with new replicas is of another kind");
	state_take_replicas(extent, edit);
	return 0;
}

static int
state_apply_deleted(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	struct mt_state_extent *extent = mt_manifest_state_find(state, &edit->id);

	assert(edit->kind == MT_EDIT_EXTENT_DELETED);
	STATE_EXPECT(extent != NULL, "deleted extent was not opened");
	STATE_EXPECT(extent->run_count == 0, "deleted extent holds a run");
	mt_array_remove(state->extents, &state->extent_count, (uint32_t)(extent - state->extents),
	    sizeof(*extent));
	return 0;
}

/* ---- runs and cuts ---- */

/* Run @index, if it is of @chunk; NULL: that has no more. */
static struct mt_state_run *
state_run_of(const struct mt_manifest_state *state, uint32_t index, uint64_t chunk)
{
	struct mt_state_run *run =
	    index == state->runs.count ? NULL : mt_run_table_at(&state->runs, index);

	return run != NULL && run->chunk == chunk ? run : NULL;
}

/* Which run the edit names. Where it names none, the place behind its chunk's; *@ret_extent is NULL then. */
static uint32_t
state_find_run(const struct mt_manifest_state *state, const struct mt_edit *edit,
    struct mt_state_extent **ret_extent)
{
	uint32_t at = mt_run_table_find(&state->runs, edit->chunk);
	const struct mt_state_run *run;

	assert(edit->kind == MT_EDIT_RUN_ADDED || edit->kind == MT_EDIT_RUN_REMOVED);
	for (; (run = state_run_of(state, at, edit->chunk)) != NULL; at++) {
		if (run->offset_bytes == edit->offset_bytes &&
		    extent_id_compare(&run->id, &edit->id) == 0)
			break;
	}
	*ret_extent = run == NULL ? NULL : mt_manifest_state_find(state, &edit->id);
	assert(run == NULL || *ret_extent != NULL); /* a run's extent stays */
	return at;
}

static int
state_apply_run_added(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	struct mt_state_extent *extent = mt_manifest_state_find(state, &edit->id), *of_run;
	uint32_t at = state_find_run(state, edit, &of_run);
	struct mt_state_run run = { .id = edit->id,
		.chunk = edit->chunk,
		.offset_bytes = edit->offset_bytes,
		.length_bytes = edit->length_bytes,
		.flushed_sequence = edit->flushed_sequence,
		.cut = edit->cut,
		.directory_bytes = edit->directory_bytes,
		.directory_crc = edit->directory_crc };

	STATE_EXPECT(extent != NULL, "run's extent was not opened");
	STATE_EXPECT(of_run == NULL, "run added twice");
	if (mt_run_table_reserve(&state->runs, 1) != 0)
		return -ENOMEM;
	mt_run_table_insert(&state->runs, at, &run);
	extent->run_count++;
	return 0;
}

static int
state_apply_run_removed(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	struct mt_state_extent *extent;
	uint32_t at = state_find_run(state, edit, &extent);

	STATE_EXPECT(extent != NULL, "removed run was not added");
	assert(extent->run_count > 0);
	mt_run_table_remove(&state->runs, at);
	extent->run_count--;
	return 0;
}

static int
state_apply_cut(struct mt_manifest_state *state, const struct mt_edit *edit, const char **ret_field)
{
	assert(edit->kind == MT_EDIT_CUT);
	STATE_EXPECT(state->cut_count == 0 || edit->cut > state->cuts[state->cut_count - 1].cut,
	    "cuts out of order");
	if (mt_manifest_state_reserve(state, 1) != 0)
		return -ENOMEM;
	/* The one that stayed as a number has a greater one behind it now. */
	if (state->cut_count > 0 && state->cuts[state->cut_count - 1].segment_count == 0)
		state->cut_count--;
	state->cuts[state->cut_count++] = (struct mt_state_cut){ .cut = edit->cut,
		.sequence = edit->sequence,
		.segment_base = edit->segment_base,
		.segment_count = edit->segment_count };
	return 0;
}

/* The greatest cut is remembered whatever becomes of it: no record may be given a lesser one. */
static int
state_apply_cut_dropped(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	uint32_t i = 0;

	assert(edit->kind == MT_EDIT_CUT_DROPPED);
	while (i < state->cut_count && state->cuts[i].cut != edit->cut)
		i++;
	STATE_EXPECT(i < state->cut_count, "dropped cut was not made");
	if (i + 1 == state->cut_count) {
		state->cuts[i].segment_count = 0;
		return 0;
	}
	mt_array_remove(state->cuts, &state->cut_count, i, sizeof(*state->cuts));
	return 0;
}

uint64_t
mt_manifest_state_cut(const struct mt_manifest_state *state)
{
	assert(state->cut_count <= state->cut_max);
	return state->cut_count == 0 ? 0 : state->cuts[state->cut_count - 1].cut;
}

uint64_t
mt_manifest_state_flushed(const struct mt_manifest_state *state, uint64_t chunk)
{
	const struct mt_state_run *run;
	uint64_t flushed = 0;

	for (uint32_t at = mt_run_table_find(&state->runs, chunk);
	     (run = state_run_of(state, at, chunk)) != NULL; at++)
		flushed = num_max(flushed, run->flushed_sequence);
	return flushed;
}

/* ---- the extents before ---- */

/* Each extent of a checkpoint names all those before it: what is known already is no news. */
static int
state_apply_part(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	void *parts = state->parts;
	struct mt_state_extent *at;
	int rc;

	assert(edit->kind == MT_EDIT_PART);
	assert(state->part_count <= MT_MANIFEST_PARTS_MAX);
	for (uint32_t i = 0; i < state->part_count; i++) {
		if (extent_id_compare(&state->parts[i].id, &edit->id) == 0)
			return 0;
	}
	STATE_EXPECT(state->part_count < MT_MANIFEST_PARTS_MAX, "too many extents before this one");
	rc = mt_array_grow(&parts, &state->part_max, (uint64_t)state->part_count + 1,
	    sizeof(*state->parts));
	state->parts = parts;
	if (rc != 0)
		return rc;
	at = &state->parts[state->part_count++];
	*at = (struct mt_state_extent){ .id = edit->id,
		.kind = EXTENT_MANIFEST,
		.is_sealed = true,
		.sealed_bytes = edit->length_bytes };
	state_take_replicas(at, edit);
	return 0;
}

/* ---- all kinds ---- */

/* Numbers that would wrap when they are counted on from. NULL, or which. */
static const char *
edit_out_of_range(const struct mt_edit *edit)
{
	switch (edit->kind) {
	case MT_EDIT_RUN_ADDED:
		return edit->flushed_sequence > MT_NUMBER_MAX || edit->cut > MT_NUMBER_MAX
		    ? "run's sequence or cut out of range"
		    : NULL;
	case MT_EDIT_CUT:
		return edit->cut > MT_NUMBER_MAX || edit->sequence > MT_NUMBER_MAX
		    ? "cut out of range"
		    : NULL;
	case MT_EDIT_CHECKPOINT_END:
		return edit->sequence > MT_NUMBER_MAX ? "next sequence out of range" : NULL;
	default:
		return NULL;
	}
}

int
mt_manifest_state_apply(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	assert(state->epoch != 0 || state->extent_count + state->runs.count == 0);
	STATE_EXPECT(edit->kind == MT_EDIT_EPOCH || edit->kind == MT_EDIT_PART || state->epoch != 0,
	    "no epoch yet");
	*ret_field = edit_out_of_range(edit);
	if (*ret_field != NULL)
		return -EBADMSG;
	switch (edit->kind) {
	case MT_EDIT_EPOCH:
		STATE_EXPECT(edit->epoch >= state->epoch, "epochs out of order");
		state->epoch = edit->epoch;
		return 0;
	case MT_EDIT_EXTENT_OPENED:
		return state_apply_opened(state, edit, ret_field);
	case MT_EDIT_EXTENT_SEALED:
		return state_apply_sealed(state, edit, ret_field);
	case MT_EDIT_EXTENT_DELETED:
		return state_apply_deleted(state, edit, ret_field);
	case MT_EDIT_EXTENT_REPLICAS:
		return state_apply_replicas(state, edit, ret_field);
	case MT_EDIT_RUN_ADDED:
		return state_apply_run_added(state, edit, ret_field);
	case MT_EDIT_RUN_REMOVED:
		return state_apply_run_removed(state, edit, ret_field);
	case MT_EDIT_CUT:
		return state_apply_cut(state, edit, ret_field);
	case MT_EDIT_CUT_DROPPED:
		return state_apply_cut_dropped(state, edit, ret_field);
	case MT_EDIT_CHECKPOINT_END:
		STATE_EXPECT(!state->is_complete, "two checkpoints");
		state->is_complete = true;
		state->next_sequence = edit->sequence;
		return 0;
	case MT_EDIT_VOLUME:
	case MT_EDIT_SNAPSHOT:
	case MT_EDIT_CLUSTER:
	case MT_EDIT_DATA_KEY:
	case MT_EDIT_NAME:
		return mt_manifest_mirror_apply(state, edit, ret_field);
	case MT_EDIT_SUCCESSOR:
		return 0; /* the root says which extent counts */
	case MT_EDIT_PART:
		return state_apply_part(state, edit, ret_field);
	}
	STATE_EXPECT(false, "kind");
	return 0;
}

static bool
edit_names_extent(enum mt_edit_kind kind)
{
	switch (kind) {
	case MT_EDIT_EXTENT_OPENED:
	case MT_EDIT_EXTENT_SEALED:
	case MT_EDIT_EXTENT_DELETED:
	case MT_EDIT_EXTENT_REPLICAS:
	case MT_EDIT_RUN_ADDED:
	case MT_EDIT_RUN_REMOVED:
	case MT_EDIT_SUCCESSOR:
	case MT_EDIT_PART:
		return true;
	default:
		return false;
	}
}

int
mt_manifest_state_apply_batch(struct mt_manifest_state *state, const struct batch_info *info,
    const uint8_t *head, const char **ret_field)
{
	const uint8_t *at = head + BATCH_HEADER_BYTES;
	uint32_t left_bytes = info->desc_bytes;

	/* All edits, or none: memory is set aside first. */
	if (mt_manifest_state_reserve(state, info->record_count) != 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < info->record_count; i++) {
		struct mt_edit edit;
		int bytes = mt_edit_decode(at, left_bytes, &edit, ret_field), rc;

		if (bytes < 0)
			return bytes;
		/* Whoever asks nodes for it would do so with this shard's epoch. */
		STATE_EXPECT(!edit_names_extent(edit.kind) || edit.id.shard == info->id.shard,
		    "extent of another shard");
		rc = mt_manifest_state_apply(state, &edit, ret_field);
		/* Memory that was not set aside can only be short for parts: they come first, and again. */
		if (rc != 0)
			return rc == -ENOMEM && edit.kind == MT_EDIT_PART ? rc : -EBADMSG;
		at += bytes;
		left_bytes -= (uint32_t)bytes;
	}
	STATE_EXPECT(left_bytes == 0, "desc_bytes");
	return 0;
}
