/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_commit.c -- what a merge has written is named, and what it replaces goes: at its end, or in stages
 *
 * A merge that is large against the nodes' slots would need as much room as all its result before it gives
 * any back. So it is done in *stages*, by the order of blocks: a commit adds what was written so far, and
 * removes those runs of which every block has been merged by then; their extents go while the merge goes
 * on. A run that goes on beyond the stage stays whole, older copies of blocks and all. Therefore
 *
 *	the new runs are found first   they have the flushed_sequence of the newest run, and of equals the
 *	                               one added later counts (index/index.h)
 *	tombstones are kept            where a run that may stay has the block (merge_plan.c)
 *	layers stay to the end         stages take what is in them along; whoever replays the log, because
 *	                               it all broke off, finds the same in front of it again
 *
 * Only the last stage has the flushed_sequence of the layers. What broke off has been worth it: the room
 * that its stages gave back stays so.
 *
 * A block of which a stage's run has another version than a run of the same flushed_sequence that stays has
 * it from the merge's layers: those are in front of both until the last stage, with which all such runs
 * go (stage_check), or stay behind.
 */
#include <errno.h>

#include "base/check.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "extent/node_link.h"
#include "index/heat.h"
#include "index/index.h"
#include "index/run_index.h"
#include "manifest/edit.h"
#include "manifest/manifest.h"
#include "merge/merge.h"
#include "merge/merge_by_away.h"
#include "merge/merge_by_recipe.h"
#include "merge/merge_commit.h"
#include "merge/merge_exec.h"
#include "merge/merge_fetch.h"
#include "merge/merge_pace.h"
#include "merge/merge_plan.h"
#include "merge/merge_result.h"
#include "merge/merge_step.h"
#include "merge/merge_window.h"
#include "merge/merge_work.h"
#include "merge/run_writer.h"

#define STAGE_SLOTS 2u
#define STAGE_SEEN_PARTS_MAX                                                                       \
	(MERGE_PARTS_MAX / 8)  /* of a stage that is ended here: the rest has room for its own */
#define STAGE_HOPE_NS NUM_S(5) /* for the room of what a stage has removed */

_Static_assert(MERGE_PARTS_MAX + MERGE_INPUTS_MAX <= MT_COMMIT_EDITS_MAX, "a stage is one commit");

/* ---- stages ---- */

/* A stage's bytes: a share of the smallest slot. */
static uint64_t
stage_bytes(const struct mt_port *port)
{
	uint64_t slot_bytes = CLEAVE_CHUNK_BYTES;

	for (uint32_t i = 0; i < port->link_count; i++) {
		if (port->links[i].slot_bytes > 0)
			slot_bytes = num_min(slot_bytes, port->links[i].slot_bytes);
	}
	return STAGE_SLOTS * slot_bytes;
}

/*
 * The newest runs of one flushed_sequence are merged, nearly always all of them (compact.c): so what comes of them
 * may stand in front of the others. Layers that are merged with them hold only what came later, with nothing but layers
 * in front.
 */
static void
stage_check(const struct mt_merge *merge)
{
	const struct mt_merge_input *input = &merge->input;
	const struct mt_chunk *chunk = input->chunk;
	const struct loop_link *newer = input->newest_run->link.prev;
	const struct loop_link *older = input->oldest_run->link.next;

	if (input->newest_layer != NULL) {
		assert(newer == &chunk->runs);
		assert(input->oldest_layer->first_sequence > input->newest_run->flushed_sequence);
	}
	assert(newer == &chunk->runs ||
	    NUM_CONTAINER_OF(newer, struct mt_run, link)->flushed_sequence >
		input->newest_run->flushed_sequence);
	assert(older == &chunk->runs ||
	    NUM_CONTAINER_OF(older, struct mt_run, link)->flushed_sequence <=
		input->oldest_run->flushed_sequence);
}

void
mt_merge_stage_plan(struct mt_merge *merge)
{
	struct merge_plan *plan = &merge_work_of(merge)->plan;
	uint64_t bytes = stage_bytes(merge->shard->port);

	assert(merge->stage_bytes == 0);
	plan->is_staged = merge->input.newest_run != NULL && plan->stored_bytes > bytes * 3 / 2;
	merge->stage_bytes = plan->is_staged ? bytes : 0;
	if (!plan->is_staged)
		return;
	stage_check(merge);
	merge->stage_sequence = MUTANT(stage_flushed_early)
	    ? merge->flushed_sequence
	    : merge->input.newest_run->flushed_sequence;
}

static void
stage_writer_begin(const struct mt_merge *merge)
{
	mt_run_writer_begin(&merge_work_of(merge)->exec.writer, merge->shard, merge->target,
	    merge->is_last_stage ? merge->flushed_sequence : merge->stage_sequence, merge->cut);
}

int
mt_merge_stage_begin(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);

	assert(!work->plan.is_staged || merge->stage_bytes > 0);
	merge->stage_block = work->plan.at;
	merge->is_last_stage = !work->plan.is_staged ||
	    mt_merge_plan_left_bytes(&work->plan) <= merge->stage_bytes * 3 / 2;
	stage_writer_begin(merge);
	if (!mt_merge_by_away_begin(merge))
		return mt_merge_by_recipe_begin(merge);
	mt_merge_by_recipe_leave(work); /* what is left of it at the end is executed by the plan */
	return 0;
}

void
mt_merge_stage_again(struct mt_merge *merge)
{
	struct merge_plan *plan = &merge_work_of(merge)->plan;

	assert(merge_work_of(merge)->result.part_count == 0);
	assert(merge->stage_block <= plan->at);
	merge->is_refused = true;
	plan->at = merge->stage_block;
}

bool
mt_merge_stage_rest(struct mt_merge *merge, int rc)
{
	struct merge_work *work = merge_work_of(merge);

	assert(merge->sm.state == MERGE_AWAY && rc < 0);
	mt_merge_by_away_end(merge);
	if (work->result.part_count > STAGE_SEEN_PARTS_MAX) {
		mt_merge_result_release(&work->result, merge->shard);
		return false;
	}
	merge->is_refused |= rc != -EAGAIN && rc != -EBUSY && rc != -ENOTCONN;
	stage_writer_begin(merge);
	work->exec.writer.part_max = MERGE_PARTS_MAX - work->result.part_count;
	return true;
}

/* The next window is filled; false: there are no blocks left. */
static bool
stage_window(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);

	assert(work->merge == merge);
	if (mt_merge_by_recipe_is_on(work))
		return mt_merge_by_recipe_window(work);
	return mt_merge_plan_window(&work->plan, &work->exec.window);
}

/* So much was written, or is about to be, that it is committed before it goes on. */
static bool
stage_is_over(const struct mt_merge *merge)
{
	const struct merge_exec *exec = merge_work_of(merge)->executor;
	uint64_t bytes = exec->writer.stored_bytes + mt_merge_window_left_bytes(&exec->storing) +
	    mt_merge_result_bytes(&merge_work_of(merge)->result);

	/* Windows are not cut: rather one too few than one too many. */
	return !merge->is_last_stage && bytes >= merge->stage_bytes * 3 / 4;
}

bool
mt_merge_stage_ahead(struct mt_merge *merge)
{
	struct merge_exec *exec = merge_work_of(merge)->executor;

	if (exec->is_ahead)
		return true;
	exec->window.block_max = (uint32_t)num_min(exec->block_max, mt_merge_window_blocks(merge));
	if (stage_is_over(merge) || !stage_window(merge))
		return false;
	exec->is_ahead = true;
	mt_merge_fetch_begin(exec);
	return true;
}

/* Does nothing of @run lie behind what was merged? A copy takes no run away. */
static bool
stage_takes_run(const struct mt_merge *merge, const struct mt_run *run)
{
	const struct mt_run_index *frames = run->index;
	const struct mt_frame *last;

	assert(merge->is_last_stage || frames != NULL);
	if (merge->input.from != NULL)
		return false;
	if (merge->is_last_stage || frames->frame_count == 0)
		return true;
	last = &frames->frames[frames->frame_count - 1];
	return last->block + last->block_count <= merge_work_of(merge)->plan.at;
}

/* ---- the end of one ---- */

static void
merge_count(struct mt_merge *merge)
{
	const struct merge_result *result = &merge_work_of(merge)->result;
	uint64_t *metrics = merge->shard->port->metrics;
	bool is_flush = merge->input.newest_layer != NULL;
	uint64_t bytes = mt_merge_result_bytes(result);

	if (merge->input.is_covered) {
		metric_add(&metrics[MT_METRIC_covered_runs],
		    merge_work_of(merge)->plan.input_count);
		return;
	}
	if (merge->input.from != NULL) {
		metric_add(&metrics[MT_METRIC_flattened_chunks], 1);
		metric_add(&metrics[MT_METRIC_flattened_bytes], bytes);
		return;
	}
	metric_add(&metrics[is_flush ? MT_METRIC_flushes : MT_METRIC_compactions],
	    merge->is_last_stage);
	metric_add(&metrics[MT_METRIC_hot_merges], merge->is_last_stage && merge->input.is_hot);
	metric_add(&metrics[is_flush ? MT_METRIC_flushed_bytes : MT_METRIC_compacted_bytes], bytes);
	metric_add(&metrics[MT_METRIC_merge_read_bytes], result->read_bytes);
}

/* How often what the merge takes from runs was read, in the mean of all that it still has; 0: it has none. */
static uint32_t
inputs_heat(const struct merge_plan *plan)
{
	uint64_t heat = 0, length_bytes = 0;

	for (uint32_t i = 0; i < plan->input_count; i++) {
		const struct mt_run *run = plan->inputs[i].run;

		if (run == NULL)
			continue;
		heat += (uint64_t)mt_heat_of_run(run) * run->length_bytes;
		length_bytes += run->length_bytes;
	}
	return length_bytes == 0 ? 0 : (uint32_t)(heat / length_bytes);
}

/* The index holds the new runs; those that were merged, and with the last stage the layers, go. */
static int
merge_apply(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_result *result = &work->result;
	struct mt_index *index = merge->shard->block_index;
	uint32_t heat = inputs_heat(&work->plan);

	for (uint32_t i = 0; i < result->part_count; i++) {
		const struct run_part *part = &result->parts[i];
		struct mt_run like = { .extent_index = part->extent_index,
			.offset_bytes = part->offset_bytes,
			.length_bytes = part->length_bytes,
			.directory_bytes = part->directory_bytes,
			.directory_crc = part->directory_crc,
			.flushed_sequence = result->flushed_sequence,
			.cut = merge->cut };
		struct mt_run *run = mt_index_add_run(index, merge->target, &like);

		if (run == NULL)
			return -ENOMEM;
		mt_heat_leave(run, heat, work->plan.is_read_small);
		run->is_of_stream = merge->input.is_stream;
		if (result->indexes[i] != NULL)
			mt_run_index_give(run, result->indexes[i]);
		result->indexes[i] = NULL;
		metric_add(&merge->shard->port->metrics[MT_METRIC_hasty_runs],
		    run->hasty_percent > 0);
	}
	for (uint32_t i = 0; i < work->plan.input_count; i++) {
		struct merge_input *input = &work->plan.inputs[i];

		if (input->run != NULL && stage_takes_run(merge, input->run)) {
			if (input->is_held)
				mt_run_release(input->run);
			mt_index_remove_run(input->run);
			*input = (struct merge_input){ 0 };
		} else if (input->layer != NULL && merge->is_last_stage &&
		    merge->input.from == NULL) {
			mt_index_remove_layer(input->layer);
			*input = (struct merge_input){ 0 };
		}
	}
	return 0;
}

int
mt_merge_stage_apply(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct mt_port *port = merge->shard->port;
	int rc;

	merge_count(merge);
	if (!merge->is_last_stage)
		metric_add(&port->metrics[MT_METRIC_merge_stages], 1);
	rc = merge_apply(merge);
	mt_merge_result_release(&work->result, merge->shard);
	/* For what is yet to come there may be room only when what has gone is deleted. */
	if (rc == 0 && !merge->is_last_stage)
		work->exec.writer.hope_ns = loop_now_ns(port->loop) + STAGE_HOPE_NS;
	return rc;
}

/* ---- its edits ---- */

static void
merge_on_committed(int rc, void *arg)
{
	struct mt_merge *merge = arg;
	struct mt_shard *shard = merge->shard;

	assert(merge_work_of(merge)->is_committing);
	merge_work_of(merge)->is_committing = false;
	mt_merge_notify(merge, rc == -ESTALE ? -ECANCELED : rc);
	if (rc == -ESTALE)
		mt_shard_stop(shard, -ESTALE);
}

static uint32_t
merge_fill_edits(struct mt_merge *merge, struct mt_edit *edits)
{
	struct merge_work *work = merge_work_of(merge);
	uint32_t count = 0;

	for (uint32_t i = 0; i < work->result.part_count; i++) {
		const struct run_part *part = &work->result.parts[i];

		edits[count++] = (struct mt_edit){ .kind = MT_EDIT_RUN_ADDED,
			.id = part->id,
			.chunk = merge->target,
			.offset_bytes = part->offset_bytes,
			.length_bytes = part->length_bytes,
			.flushed_sequence = work->result.flushed_sequence,
			.cut = merge->cut,
			.directory_bytes = part->directory_bytes,
			.directory_crc = part->directory_crc };
	}
	for (uint32_t i = 0; i < work->plan.input_count; i++) {
		const struct mt_run *run = work->plan.inputs[i].run;

		if (run == NULL || !stage_takes_run(merge, run))
			continue;
		edits[count++] = (struct mt_edit){ .kind = MT_EDIT_RUN_REMOVED,
			.id = mt_shard_extent(merge->shard, run->extent_index)->id,
			.chunk = merge->target,
			.offset_bytes = run->offset_bytes };
	}
	assert(count <= MT_COMMIT_EDITS_MAX);
	return count;
}

int
mt_merge_commit(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	uint32_t max = work->result.part_count + work->plan.input_count;
	struct mt_edit *edits = mt_calloc(max, sizeof(*edits));
	uint32_t count;
	int rc = 0;

	assert(!work->is_committing);
	assert(mt_merge_exec_is_quiet(&work->exec));
	if (edits == NULL)
		return -ENOMEM;
	/* There was less of it than it seemed. */
	if (work->plan.at == CLEAVE_CHUNK_BLOCKS)
		merge->is_last_stage = true;
	count = merge_fill_edits(merge, edits);
	if (count > 0)
		rc = mt_manifest_commit(merge->shard, edits, count, merge_on_committed, merge);
	mt_free(edits);
	if (rc != 0)
		return rc;
	if (count == 0)
		return STEP_DONE; /* nothing was worth keeping, and nothing is taken away */
	work->is_committing = true;
	return STEP_AGAIN;
}
