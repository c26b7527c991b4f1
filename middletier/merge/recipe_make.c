/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe_make.c -- what a merge has decided, as a recipe
 *
 * The plan is gone through in the windows that its port would execute, in whose memory nothing is put. So frames,
 * sources, and which of them are taken as they are stored, are those of a merge that is executed here.
 */
#include "merge/recipe_make.h"

#include <errno.h>

#include "base/check.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "index/index.h"
#include "merge/merge_exec.h"
#include "merge/merge_pace.h"
#include "merge/merge_plan.h"
#include "merge/merge_window.h"
#include "merge/merge_work.h"
#include "merge/recipe.h"
#include "merge/run_roll.h"

#define MAKER_FRAME_BYTES 64u /* of a frame's descriptor, and its part of the batch's header */

/* The extent's index in the recipe. -E2BIG; -ESTALE. */
static int
maker_extent(struct mt_recipe_maker *maker, const struct mt_shard *shard, uint32_t index)
{
	const struct mt_recipe_head *head = &maker->builder.head;
	const struct mt_extent *extent = mt_shard_extent(shard, index);
	struct mt_recipe_extent made;

	if (maker->last < head->extent_count && maker->indexes[maker->last] == index)
		return (int)maker->last;
	for (maker->last = 0; maker->last < head->extent_count; maker->last++) {
		if (maker->indexes[maker->last] == index)
			return (int)maker->last;
	}
	if (extent == NULL)
		return -ESTALE;
	made = (struct mt_recipe_extent){ .id = extent->id,
		.kind = extent->kind,
		.replica_count = extent->replica_count,
		.sealed_bytes = extent->sm.state == MT_EXTENT_SEALED ? extent->sealed_bytes : 0 };
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		made.nodes[i] = extent->replicas[i].node_id;
		made.damaged |= (uint32_t)extent->replicas[i].is_damaged << i;
	}
	if (mt_recipe_add_extent(&maker->builder, &made) != 0)
		return -E2BIG;
	maker->indexes[maker->last] = index;
	return (int)maker->last;
}

/* Where batches go on, if there is an open extent already. */
static int
maker_target(struct mt_recipe_maker *maker, const struct mt_shard *shard)
{
	struct mt_recipe_head *head = &maker->builder.head;
	const struct mt_extent *extent = shard->run_roll->extent;
	int index;

	if (shard->run_roll->sm.state != RUN_ROLL_OPEN || extent->sm.state != MT_EXTENT_OPEN)
		return 0;
	index = maker_extent(maker, shard, extent->index);
	if (index < 0)
		return index;
	head->target = (uint32_t)index;
	head->end_bytes = (uint32_t)extent->end_bytes;
	head->mark_bytes = (uint32_t)extent->acked_bytes;
	head->chain_crc = extent->chain_crc;
	head->capacity_bytes = extent->capacity_bytes;
	return 0;
}

static int
maker_add_source(struct mt_recipe_maker *maker, const struct mt_shard *shard,
    const struct merge_source *source)
{
	const struct mt_location *location = &source->location;
	int extent = maker_extent(maker, shard, location->extent_index);
	struct mt_recipe_source made = { .offset_bytes = location->offset_bytes,
		.stored_bytes = location->stored_bytes,
		.stored_crc = location->stored_crc,
		.extent = (uint32_t)extent,
		.codec_id = location->codec_id,
		.record_blocks = location->record_blocks,
		.first_block = location->block_in_record,
		.count = source->count,
		.is_copy = source->is_copy,
		.is_sure = source->is_index_sure,
		.chunk = source->chunk };

	assert(location->record_kind == RECORD_WRITE);
	return extent < 0 ? extent : mt_recipe_add_source(&maker->builder, &made);
}

static int
maker_add_window(struct mt_recipe_maker *maker, const struct mt_shard *shard,
    const struct merge_window *window)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < window->source_count; i++)
		rc = maker_add_source(maker, shard, &window->sources[i]);
	for (uint32_t i = 0; rc == 0 && i < window->frame_count; i++) {
		const struct merge_frame *frame = &window->frames[i];
		struct mt_recipe_frame made = { .block = frame->block,
			.count = frame->count,
			.kind = frame->kind,
			.is_copy = frame->is_copy };

		rc = mt_recipe_add_frame(&maker->builder, &made);
	}
	for (uint32_t i = 0; rc == 0 && i < window->block_count; i++)
		rc = mt_recipe_add_crc(&maker->builder, window->crcs[i]);
	return rc;
}

/*
 * How much of a run extent a window's frames take, at most, about: what is stored of its blocks, for what is made of them
 * is compressed harder, or, where LZ4 may be made of it, the blocks. And their descriptors.
 */
static uint64_t
window_run_bytes(const struct merge_window *window, bool is_hot)
{
	uint64_t bytes = (uint64_t)window->frame_count * MAKER_FRAME_BYTES +
	    (uint64_t)window->block_count * RECIPE_CRC_BYTES;

	if (is_hot)
		return bytes + (uint64_t)window->block_count * CLEAVE_BLOCK_BYTES;
	for (uint32_t i = 0; i < window->source_count; i++) {
		const struct merge_source *source = &window->sources[i];

		bytes += (uint64_t)source->location.stored_bytes * source->count /
			source->location.record_blocks +
		    1;
	}
	return bytes;
}

int
mt_recipe_make(struct mt_recipe_maker *maker, struct mt_merge *merge, uint8_t *bytes,
    uint64_t room_bytes, uint32_t *ret_end_block)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_exec *exec = &work->exec;
	const struct mt_shard *shard = merge->shard;
	uint32_t at = work->plan.at, end_block = at;
	uint64_t used_bytes = 0;
	struct mt_recipe_head head = { .level = (uint8_t)exec->task.level,
		.keeps_zeroes = exec->task.keeps_zeroes,
		.is_hot = exec->task.is_hot,
		.pressure = mt_merge_port_pressure(work->port),
		.shard = shard->index,
		.epoch = shard->epoch,
		.chunk = exec->task.target,
		.flushed_sequence = exec->writer.flushed_sequence,
		.cut = exec->writer.cut,
		.frame_bytes = work->plan.frame_blocks * CLEAVE_BLOCK_BYTES,
		.key_id = exec->task.key_id,
		.target = RECIPE_NO_TARGET };
	int rc;

	assert(work->merge == merge);
	assert(exec->out_count == 0);
	maker->last = 0;
	mt_recipe_begin(&maker->builder, bytes, &head);
	rc = maker_target(maker, shard);
	while (rc == 0 && mt_merge_plan_window(&work->plan, &exec->window)) {
		used_bytes += window_run_bytes(&exec->window, exec->task.is_hot);
		if (used_bytes > room_bytes)
			break;
		rc = maker_add_window(maker, shard, &exec->window);
		end_block = work->plan.at;
	}
	if (used_bytes <= room_bytes)
		end_block = work->plan.at; /* behind it there is nothing */
	work->plan.at = at;
	if (rc == 0 && end_block == at && used_bytes > room_bytes)
		rc = -ENOSPC;
	*ret_end_block = end_block;
	return rc != 0 ? rc : (int)mt_recipe_end(&maker->builder);
}
