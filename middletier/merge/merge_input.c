/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_input.c -- the layers and runs that a merge takes, newest first
 *
 * From mt_merge_start to its end they are *marked*, so that no other merge takes them. From its turn on a
 * run's index is *held*, so that it stays in memory. A stage takes away some of them; what is left is let
 * go at the end.
 */
#include "merge/merge_input.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "index/index.h"
#include "index/index_cuts.h"
#include "index/run_index.h"
#include "index/run_load.h"
#include "merge/merge.h"
#include "merge/merge_plan.h"
#include "merge/merge_work.h"

int
mt_merge_input_check(const struct mt_merge_input *input)
{
	const struct loop_link *link;
	int count = 0;

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
	return count > (int)MERGE_INPUTS_MAX ? -E2BIG : 0;
}

void
mt_merge_input_mark(const struct mt_merge_input *input, bool is_merging)
{
	struct loop_link *link;

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

	if (wire_segment_is_clone(chunk->number / CLEAVE_SEGMENT_CHUNKS))
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

void
mt_merge_input_take(struct mt_merge *merge)
{
	const struct mt_merge_input *input = &merge->input;
	struct merge_plan *plan = &merge_work_of(merge)->plan;
	struct loop_link *link;

	assert(merge_work_of(merge)->merge == merge);
	plan->input_count = 0;
	plan->is_hidden = true;
	plan->has_beneath = input_has_beneath(merge);
	plan->frame_blocks = merge->shard->port->settings->frame_bytes / CLEAVE_BLOCK_BYTES;
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
			return;
	}
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
