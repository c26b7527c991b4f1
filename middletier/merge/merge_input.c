/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_input.c -- the layers and runs that a merge takes, newest first
 *
 * From mt_merge_start to its end they are *marked*, so that no other merge takes them. From its turn on a
 * run's index is *held*, so that it stays in memory. A stage takes away some of them; what is left is let
 * go at the end.
 *
 * A copy takes layers and runs of other chunks: those that the origin's spans of a clone's scope show. It
 * writes their newest versions, and tombstones, and leaves them where they are.
 */
#include "merge/merge_input.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/scope.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "index/heat.h"
#include "index/index.h"
#include "index/index_cuts.h"
#include "index/run_index.h"
#include "index/run_load.h"
#include "merge/merge.h"
#include "merge/merge_exec.h"
#include "merge/merge_plan.h"
#include "merge/merge_work.h"

/* ---- what a copy takes ---- */

/* Calls @fn with each layer and run that a copy reads, newest first. */
static void
copy_each(const struct mt_index *index, const struct mt_merge_input *input,
    void (*fn)(struct mt_layer *layer, struct mt_run *run, void *arg), void *arg)
{
	const struct mt_scope *scope = input->from;
	uint64_t base = scope->spans[0].segment_base;
	uint64_t in_volume = input->target - base * CLEAVE_SEGMENT_CHUNKS;

	for (uint32_t i = mt_scope_tail(scope, base); i < scope->span_count; i++) {
		const struct mt_span *span = &scope->spans[i];
		struct mt_chunk *chunk =
		    mt_index_chunk(index, span->segment_base * CLEAVE_SEGMENT_CHUNKS + in_volume);
		struct loop_link *link, *next;

		if (chunk == NULL)
			continue;
		LIST_FOREACH_SAFE(&chunk->layers, link, next) {
			struct mt_layer *layer = mt_layer_of(link);

			if (!mt_layer_is_empty(layer) && mt_span_shows(span, layer->cut))
				fn(layer, NULL, arg);
		}
		LIST_FOREACH_SAFE(&chunk->runs, link, next) {
			if (mt_span_shows(span, mt_run_of(link)->cut))
				fn(NULL, mt_run_of(link), arg);
		}
	}
}

static void
copy_count(struct mt_layer *layer, struct mt_run *run, void *arg)
{
	assert(layer == NULL || (layer->is_frozen && !layer->is_merging));
	assert(run == NULL || !run->is_merging);
	++*(uint32_t *)arg;
}

static void
copy_mark(struct mt_layer *layer, struct mt_run *run, void *arg)
{
	assert((layer == NULL) != (run == NULL));
	if (layer != NULL)
		layer->is_merging = *(const bool *)arg;
	else
		run->is_merging = *(const bool *)arg;
}

static void
copy_take(struct mt_layer *layer, struct mt_run *run, void *arg)
{
	struct merge_plan *plan = arg;

	assert(plan->input_count < MERGE_SOURCES_MAX);
	plan->inputs[plan->input_count++] = (struct merge_input){ .layer = layer, .run = run };
}

/* ---- of a merge ---- */

uint64_t
mt_merge_input_target(const struct mt_merge_input *input)
{
	assert((input->from == NULL) == (input->chunk != NULL));
	return input->from != NULL ? input->target : input->chunk->number;
}

int
mt_merge_input_check(const struct mt_index *index, const struct mt_merge_input *input)
{
	const struct loop_link *link;
	uint32_t count = 0;

	if (input->from != NULL) {
		copy_each(index, input, copy_count, &count);
		assert(count > 0);
		return count > MERGE_SOURCES_MAX ? -E2BIG : 0;
	}
	assert(input->chunk->index == index);
	if (input->newest_layer != NULL) {
		for (link = &input->newest_layer->link;; link = link->next) {
			const struct mt_layer *layer = LIST_ENTRY(link, struct mt_layer, link);

			assert(layer->is_frozen && !layer->is_merging);
			count++;
			if (layer == input->oldest_layer)
				break;
		}
		/* flushed_sequence says that what is older is in runs. */
		assert(input->oldest_layer->link.next == &input->chunk->layers);
	}
	if (input->newest_run != NULL) {
		assert(input->newest_layer == NULL ||
		    input->newest_run->link.prev == &input->chunk->runs);
		for (link = &input->newest_run->link;; link = link->next) {
			assert(!LIST_ENTRY(link, struct mt_run, link)->is_merging);
			count++;
			if (link == &input->oldest_run->link)
				break;
		}
	}
	assert(count > 0);
	return count > MERGE_INPUTS_MAX ? -E2BIG : 0;
}

void
mt_merge_input_mark(const struct mt_index *index, const struct mt_merge_input *input,
    bool is_merging)
{
	struct loop_link *link;

	if (input->from != NULL)
		copy_each(index, input, copy_mark, &is_merging);
	if (input->newest_layer != NULL) {
		for (link = &input->newest_layer->link;; link = link->next) {
			LIST_ENTRY(link, struct mt_layer, link)->is_merging = is_merging;
			if (link == &input->oldest_layer->link)
				break;
		}
	}
	if (input->newest_run != NULL) {
		for (link = &input->newest_run->link;; link = link->next) {
			LIST_ENTRY(link, struct mt_run, link)->is_merging = is_merging;
			if (link == &input->oldest_run->link)
				break;
		}
	}
}

/* Older layers or runs of the chunk, or what its segment was made from. */
static bool
input_has_beneath(const struct mt_merge *merge)
{
	const struct mt_merge_input *input = &merge->input;
	const struct mt_chunk *chunk = input->chunk;

	if (wire_segment_is_clone(merge->target / CLEAVE_SEGMENT_CHUNKS))
		return true;
	return input->oldest_run != NULL ? input->oldest_run->link.next != &chunk->runs
					 : chunk->run_count > 0;
}

static void
input_take_layer(struct mt_merge *merge, struct mt_layer *layer)
{
	struct merge_plan *plan = &merge_work_of(merge)->plan;

	assert(plan->input_count < MERGE_INPUTS_MAX);
	plan->inputs[plan->input_count++] = (struct merge_input){ .layer = layer };
	plan->is_hidden &=
	    mt_index_is_hidden(layer->chunk->index, layer->chunk->number, layer->cut);
	merge->flushed_sequence = num_max(merge->flushed_sequence, layer->last_sequence);
	merge->cut = num_max(merge->cut, layer->cut);
}

static void
input_take_run(struct mt_merge *merge, struct mt_run *run)
{
	struct merge_plan *plan = &merge_work_of(merge)->plan;

	assert(plan->input_count < MERGE_INPUTS_MAX);
	plan->inputs[plan->input_count++] = (struct merge_input){ .run = run };
	plan->is_hidden &= mt_index_is_hidden(run->chunk->index, run->chunk->number, run->cut);
	merge->flushed_sequence = num_max(merge->flushed_sequence, run->flushed_sequence);
	merge->cut = num_max(merge->cut, run->cut);
}

/* Frames that are read often, a block here and there, are small where their heat decides it: a read fetches all of a frame. */
static void
input_set_frames(const struct mt_settings *settings, const struct mt_merge_input *input,
    struct merge_plan *plan)
{
	uint32_t frame_bytes = settings->frame_bytes, read_bytes = settings->read_frame_bytes;

	if (settings->run_codec != MT_RUN_CODEC_AUTO || read_bytes == 0)
		read_bytes = frame_bytes;
	assert(read_bytes <= frame_bytes);
	plan->is_read_small = input->newest_run != NULL &&
	    mt_heat_is_small(input->newest_run, input->oldest_run);
	plan->frame_blocks = (input->is_hot && plan->is_read_small ? read_bytes : frame_bytes) /
	    CLEAVE_BLOCK_BYTES;
	plan->read_frame_blocks = read_bytes / CLEAVE_BLOCK_BYTES;
	plan->recoded = input->recoded;
}

void
mt_merge_input_take(struct mt_merge *merge)
{
	const struct mt_merge_input *input = &merge->input;
	struct merge_plan *plan = &merge_work_of(merge)->plan;
	struct loop_link *link;

	assert(merge_work_of(merge)->merge == merge);
	input_set_frames(merge->shard->port->settings, input, plan);
	plan->input_count = 0;
	plan->target = merge->target;
	plan->is_hidden = true;
	plan->has_beneath = input_has_beneath(merge);
	plan->is_hasty = input->is_hasty;
	if (input->from != NULL) {
		/* Oldest of all: cut 0, and nothing of the log is flushed by it. */
		plan->is_hidden = false;
		copy_each(merge->shard->block_index, input, copy_take, plan);
		merge->flushed_sequence = MUTANT(flatten_above)
		    ? mt_index_flushed(merge->shard->block_index, input->target)
		    : 0;
		return;
	}
	if (input->newest_layer != NULL) {
		for (link = &input->newest_layer->link; link != &input->chunk->layers;
		     link = link->next)
			input_take_layer(merge, LIST_ENTRY(link, struct mt_layer, link));
	}
	if (input->newest_run == NULL)
		return;
	for (link = &input->newest_run->link;; link = link->next) {
		input_take_run(merge, LIST_ENTRY(link, struct mt_run, link));
		if (link == &input->oldest_run->link)
			break;
	}
	assert(!input->is_covered || input->newest_layer == NULL);
	plan->is_hidden |= input->is_covered; /* by runs, not by a roll-back: as little is kept */
}

struct merge_task
mt_merge_input_task(const struct mt_merge *merge)
{
	const struct merge_plan *plan = &merge_work_of(merge)->plan;
	const struct mt_merge_input *input = &merge->input;

	assert(plan->target == merge->target);
	return (struct merge_task){ .target = merge->target,
		.level = input->level,
		.is_hot = input->is_hot,
		.frame_blocks = plan->frame_blocks,
		.keeps_zeroes = plan->has_beneath || plan->is_staged,
		/* A copy's is the clone's, where that has one. */
		.key_id = input->from != NULL ? input->key_id : 0 };
}

/* A wrong index may be why no copy passes. One that others hold or load is dropped after another try. */
static void
input_distrust(struct mt_run *run)
{
	if (mt_run_cache_distrust(run))
		run->is_reread = true;
}

void
mt_merge_input_release(struct mt_merge *merge)
{
	struct merge_plan *plan = &merge_work_of(merge)->plan;

	for (uint32_t i = 0; i < plan->input_count; i++) {
		struct mt_run *run = plan->inputs[i].run;
		struct merge_load *load = &merge_work_of(merge)->loads[i];

		if (run == NULL)
			continue;
		if (load->is_waiting)
			mt_run_unwait(&load->waiter);
		else if (plan->inputs[i].is_held)
			mt_run_release(run);
		if (merge->rc == -EUCLEAN)
			input_distrust(run);
		load->is_waiting = plan->inputs[i].is_held = false;
	}
}

void
mt_merge_input_unmark(struct mt_merge *merge)
{
	struct merge_plan *plan = &merge_work_of(merge)->plan;

	for (uint32_t i = 0; i < plan->input_count; i++) {
		if (plan->inputs[i].run != NULL)
			plan->inputs[i].run->is_merging = false;
		else if (plan->inputs[i].layer != NULL)
			plan->inputs[i].layer->is_merging = false;
	}
}
