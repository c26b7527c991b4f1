/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_plan.c -- which version of each block a merge keeps, and in which frames
 *
 * The inputs are asked newest first, once; what each block's newest version is fits two bytes a block: the
 * number of its input. Then the chunk is gone through in *windows*, as many blocks as fit the memory
 * that a merge has, in the order of blocks.
 *
 * A frame is of neighbouring blocks, within a multiple of the frame size, so that the next merge cuts
 * the chunk at the same places: a frame that has not changed since is taken as it is stored. Tombstones
 * are kept while something may lie beneath; neighbours of a kind are one. In haste, what was written in long
 * records stays so (HASTE.md): such frames are longer than others, and no other merge takes them as they are.
 */
#include "merge/merge_plan.h"
#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "index/index.h"
#include "index/memtable.h"
#include "index/run_index.h"
#include "merge/merge_window.h"

#define PLAN_HIDDEN UINT16_MAX /* zeros: a discard of the whole chunk came after what is beneath */

_Static_assert(MERGE_SOURCES_MAX < PLAN_HIDDEN, "two bytes name an input");

/* ---- versions ---- */

static void
plan_layer(struct merge_plan *plan, uint32_t index)
{
	const struct mt_layer *layer = plan->inputs[index].layer;
	const struct mt_location *location;
	uint32_t at = 0, block;

	while ((location = mt_memtable_next(&layer->table, &at, &block)) != NULL) {
		assert(block < CLEAVE_CHUNK_BLOCKS);
		if (plan->newest[block] != 0)
			continue;
		plan->newest[block] = (uint16_t)(index + 1);
		if (location->stored_bytes > 0)
			plan->stored_bytes += location->stored_bytes / location->record_blocks;
	}
	if (layer->hides_all && plan->hidden_kind == 0)
		plan->hidden_kind = layer->hides_kind;
	for (block = 0; layer->hides_all && block < CLEAVE_CHUNK_BLOCKS; block++) {
		if (plan->newest[block] == 0)
			plan->newest[block] = PLAN_HIDDEN;
	}
}

static void
plan_run(struct merge_plan *plan, uint32_t index)
{
	const struct mt_run_index *frames = plan->inputs[index].run->index;

	assert(frames != NULL);
	for (uint32_t i = 0; i < frames->frame_count; i++) {
		const struct mt_frame *frame = &frames->frames[i];
		uint32_t count = 0;

		assert(frame->block + frame->block_count <= CLEAVE_CHUNK_BLOCKS);
		for (uint32_t b = frame->block; b < frame->block + frame->block_count; b++) {
			if (plan->newest[b] != 0)
				continue;
			plan->newest[b] = (uint16_t)(index + 1);
			count++;
		}
		plan->stored_bytes += (uint64_t)frame->stored_bytes * count / frame->block_count;
	}
}

void
mt_merge_plan_make(struct merge_plan *plan)
{
	assert(plan->input_count <= MERGE_SOURCES_MAX);
	assert(plan->frame_blocks >= 1 && plan->frame_blocks <= ENGINE_RECORD_BLOCKS_MAX);
	for (uint32_t i = 0; i < CLEAVE_CHUNK_BLOCKS; i++)
		plan->newest[i] = 0;
	plan->at = 0;
	plan->stored_bytes = 0;
	plan->hidden_kind = 0;
	for (uint32_t i = 0; i < plan->input_count && !plan->is_hidden; i++) {
		if (plan->inputs[i].layer != NULL)
			plan_layer(plan, i);
		else
			plan_run(plan, i);
	}
}

uint64_t
mt_merge_plan_left_bytes(const struct merge_plan *plan)
{
	uint64_t left = 0, count = 0;

	assert(plan->at <= CLEAVE_CHUNK_BLOCKS);
	for (uint32_t i = 0; i < CLEAVE_CHUNK_BLOCKS; i++) {
		count += plan->newest[i] != 0;
		left += i >= plan->at && plan->newest[i] != 0;
	}
	return count == 0 ? 0 : plan->stored_bytes * left / count;
}

/*
 * Does a tombstone of @block count that input @index has? While runs stay that have the block, too,
 * and of which only a part was merged, it does.
 */
static bool
plan_keeps_tombstone(const struct merge_plan *plan, uint32_t block, uint32_t index)
{
	struct mt_location location;

	assert(block < CLEAVE_CHUNK_BLOCKS);
	assert(index <= plan->input_count);
	if (plan->has_beneath)
		return true;
	for (uint32_t i = index; plan->is_staged && i < plan->input_count; i++) {
		if (plan->inputs[i].run != NULL &&
		    mt_run_find(plan->inputs[i].run, block, &location))
			return true;
	}
	return false;
}

/* The newest version of @block; false: there is none that counts. */
static bool
plan_find(const struct merge_plan *plan, uint32_t block, struct mt_location *ret_location)
{
	uint16_t newest = plan->newest[block];
	const struct merge_input *input;

	assert(newest == PLAN_HIDDEN || newest <= plan->input_count);
	if (newest == 0)
		return false;
	if (newest == PLAN_HIDDEN) {
		*ret_location = (struct mt_location){ .record_kind = plan->hidden_kind };
		return plan_keeps_tombstone(plan, block, 0);
	}
	input = &plan->inputs[newest - 1];
	if (input->layer != NULL) {
		const struct mt_location *location = mt_memtable_get(&input->layer->table, block);

		assert(location != NULL);
		*ret_location = *location;
	} else {
		bool is_there = mt_run_find(input->run, block, ret_location);

		assert(is_there);
	}
	if (ret_location->record_kind == RECORD_DISCARD ||
	    ret_location->record_kind == RECORD_ZEROES)
		return plan_keeps_tombstone(plan, block, newest);
	return true;
}

/* ---- a window ---- */

/* Does @location, at the window's next place, go on where @source ends? */
static bool
source_continues(const struct merge_source *source, const struct mt_location *location)
{
	const struct mt_location *first = &source->location;

	assert(source->count > 0);
	return first->extent_index == location->extent_index &&
	    first->offset_bytes == location->offset_bytes &&
	    location->block_in_record == first->block_in_record + source->count;
}

/* False: its run has an index that was not read anew since a merge has failed. A layer's place is of its write, or of the log. */
static bool
input_is_sure(const struct merge_input *input)
{
	assert((input->layer == NULL) != (input->run == NULL));
	return input->run == NULL || input->run->is_reread;
}

static uint64_t
input_chunk(const struct merge_input *input)
{
	return input->layer != NULL ? input->layer->chunk->number : input->run->chunk->number;
}

/* Block @block of the chunk of @input, which is at @location. */
static void
window_add_block(struct merge_window *window, const struct merge_input *input, uint32_t block,
    const struct mt_location *location, bool is_neighbour)
{
	struct merge_source *source =
	    window->source_count == 0 ? NULL : &window->sources[window->source_count - 1];
	uint32_t slot = window->block_count++;

	assert(slot < window->block_max);
	window->crcs[slot] = location->block_crc;
	window->is_lost[slot] = false;
	if (source != NULL && is_neighbour && source_continues(source, location)) {
		source->count++;
		return;
	}
	window->sources[window->source_count++] = (struct merge_source){
		.location = *location,
		.chunk = input_chunk(input),
		.block = block - location->block_in_record,
		.slot = slot,
		.count = 1,
		.is_index_sure = input_is_sure(input),
	};
}

/*
 * How many blocks the frame of @block may have, whose newest version is at @location. What a run holds in small frames,
 * for who reads it, is not joined to larger ones while it stays as it is stored.
 */
static uint32_t
frame_blocks_max(const struct merge_plan *plan, uint32_t block, const struct mt_location *location)
{
	uint16_t newest = plan->newest[block];

	if (newest != PLAN_HIDDEN && plan->inputs[newest - 1].run != NULL &&
	    location->record_kind == RECORD_WRITE &&
	    location->record_blocks <= plan->read_frame_blocks &&
	    ENGINE_CODEC(location->codec_id) == ENGINE_LZ4 && plan->recoded != ENGINE_LZ4)
		return (uint32_t)num_min(plan->read_frame_blocks, plan->frame_blocks);
	return plan->frame_blocks;
}

/* Does @frame, of up to @blocks_max, go on with a block of such a @kind? */
static bool
frame_continues(const struct merge_frame *frame, uint32_t blocks_max, uint32_t block, uint8_t kind)
{
	assert(blocks_max > 0 && frame->count > 0);
	if (frame->block + frame->count != block || frame->kind != kind)
		return false;
	return kind != RECORD_WRITE || block % blocks_max != 0;
}

/*
 * May the stored bytes of @source go into a run of the target as they are? An envelope is bound to its place, and may be
 * longer than the memory of its blocks.
 */
static bool
source_may_be_copied(const struct merge_plan *plan, const struct merge_source *source)
{
	if (plan->recoded != ENGINE_NONE &&
	    ENGINE_CODEC(source->location.codec_id) == plan->recoded)
		return false;
	return (source->location.codec_id & ENGINE_ENCRYPTED) == 0 ||
	    (source->chunk == plan->target &&
		source->location.stored_bytes <= source->count * CLEAVE_BLOCK_BYTES);
}

/*
 * A frame that is one whole record of a run: it is what a merge would make of it again, unless that is another codec
 * now. One of the log is worth the try, it may have been compressed in haste.
 */
static void
window_find_copies(const struct merge_plan *plan, struct merge_window *window)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < window->frame_count; i++) {
		struct merge_frame *frame = &window->frames[i];
		struct merge_source *source;
		uint16_t newest = plan->newest[frame->block];

		if (frame->kind != RECORD_WRITE || frame->count > plan->frame_blocks)
			continue;
		while (window->sources[at].slot + window->sources[at].count <= frame->slot)
			at++;
		assert(at < window->source_count);
		source = &window->sources[at];
		if (plan->inputs[newest - 1].run == NULL || source->slot != frame->slot ||
		    source->count != frame->count || source->location.block_in_record != 0 ||
		    source->location.record_blocks != frame->count ||
		    !source_may_be_copied(plan, source))
			continue;
		frame->is_copy = source->is_copy = true;
		frame->source = at;
	}
}

/* ---- in haste ---- */

/* Is @location, of @block, the first of a record that is longer than a frame, and newest in all its blocks? */
static bool
plan_is_whole(const struct merge_plan *plan, uint32_t block, const struct mt_location *location)
{
	uint32_t count = location->record_blocks;

	if (location->record_kind != RECORD_WRITE || location->block_in_record != 0 ||
	    count <= plan->frame_blocks)
		return false;
	assert(count <= ENGINE_RECORD_BLOCKS_MAX && block + count <= CLEAVE_CHUNK_BLOCKS);
	for (uint32_t i = 1; i < count && !MUTANT(haste_unlooked); i++) {
		struct mt_location next;

		if (!plan_find(plan, block + i, &next) || next.record_kind != RECORD_WRITE ||
		    next.extent_index != location->extent_index ||
		    next.offset_bytes != location->offset_bytes || next.block_in_record != i)
			return false;
	}
	return true;
}

/*
 * A whole record is a frame: as it is stored if that is compressed, else it is compressed in one piece. False: the window
 * has no room for it.
 */
static bool
window_add_whole(const struct merge_plan *plan, struct merge_window *window, uint32_t block,
    const struct mt_location *location)
{
	const struct merge_input *input = &plan->inputs[plan->newest[block] - 1];
	struct merge_frame *frame = &window->frames[window->frame_count];
	struct merge_source *source;

	if (window->frame_count == MERGE_WINDOW_FRAMES_MAX ||
	    window->block_count + location->record_blocks > window->block_max)
		return false;
	window->frame_count++;
	*frame = (struct merge_frame){ .block = block,
		.count = location->record_blocks,
		.slot = window->block_count,
		.kind = RECORD_WRITE,
		.source = window->source_count };
	for (uint32_t i = 0; i < frame->count; i++) {
		struct mt_location of_block;
		bool is_there = plan_find(plan, block + i, &of_block);

		assert(is_there);
		window_add_block(window, input, block + i, &of_block, i > 0);
	}
	source = &window->sources[frame->source];
	assert(source->count == frame->count && frame->source + 1 == window->source_count);
	frame->is_copy = source->is_copy = ENGINE_CODEC(location->codec_id) != ENGINE_NONE &&
	    source_may_be_copied(plan, source);
	return true;
}

bool
mt_merge_plan_window(struct merge_plan *plan, struct merge_window *window)
{
	struct merge_frame *frame = NULL;
	uint32_t last_block = UINT32_MAX - 1; /* of a write */
	uint32_t blocks_max = plan->frame_blocks;

	assert(window->block_max >= plan->frame_blocks);
	assert(window->block_max <= MERGE_WINDOW_BLOCKS_MAX);
	mt_merge_window_clear(window);
	for (; plan->at < CLEAVE_CHUNK_BLOCKS; plan->at++) {
		struct mt_location location;
		uint32_t before_max = blocks_max;

		if (!plan_find(plan, plan->at, &location))
			continue;
		if (plan->is_hasty && plan_is_whole(plan, plan->at, &location)) {
			if (!window_add_whole(plan, window, plan->at, &location))
				break;
			plan->at += location.record_blocks - 1;
			last_block = plan->at;
			frame = NULL;
			continue;
		}
		blocks_max = frame_blocks_max(plan, plan->at, &location);
		if (frame == NULL ||
		    !frame_continues(frame, (uint32_t)num_min(blocks_max, before_max), plan->at,
			location.record_kind)) {
			/* Whole frames: none is cut by a window's end. */
			if (window->frame_count == MERGE_WINDOW_FRAMES_MAX ||
			    window->block_count + plan->frame_blocks > window->block_max)
				break;
			frame = &window->frames[window->frame_count++];
			*frame = (struct merge_frame){ .block = plan->at,
				.slot = window->block_count,
				.kind = location.record_kind };
		}
		frame->count++;
		if (location.record_kind != RECORD_WRITE)
			continue;
		window_add_block(window, &plan->inputs[plan->newest[plan->at] - 1], plan->at,
		    &location, last_block + 1 == plan->at);
		last_block = plan->at;
	}
	window_find_copies(plan, window);
	return window->frame_count > 0;
}
