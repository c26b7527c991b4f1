/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe_window.c -- the windows of a recipe
 *
 * They end where those of the plan would that the recipe was made of (merge_plan.c), if memory is the same: with the
 * last frame that is sure to fit whole. A source that goes on behind that is asked for again in the next window.
 */
#include "merge/recipe_window.h"

#include "base/check.h"
#include "base/num.h"
#include "cleave/wire.h"
#include "merge/merge_window.h"
#include "merge/recipe.h"
#include "merge/recipe_decode.h"

void
mt_recipe_cursor_init(struct mt_recipe_cursor *cursor, const struct mt_recipe *recipe,
    const uint32_t *extents)
{
	assert(recipe != NULL);
	*cursor = (struct mt_recipe_cursor){ .recipe = recipe, .extents = extents };
}

uint32_t
mt_recipe_cursor_block(const struct mt_recipe_cursor *cursor)
{
	if (cursor->frame_at == cursor->recipe->head.frame_count)
		return CLEAVE_CHUNK_BLOCKS;
	return mt_recipe_frame(cursor->recipe, cursor->frame_at).block;
}

/* From the cursor on, blocks of @source that are @block of the chunk and those behind it. */
static void
window_add_source(const struct mt_recipe_cursor *cursor, struct merge_window *window,
    const struct mt_recipe_source *source, uint32_t block)
{
	uint32_t first = source->first_block + cursor->taken_count;

	window->sources[window->source_count++] = (struct merge_source){
		.location = {
			.extent_index = cursor->extents[source->extent],
			.offset_bytes = source->offset_bytes,
			.stored_bytes = source->stored_bytes,
			.stored_crc = source->stored_crc,
			.block_crc = mt_recipe_crc(cursor->recipe, cursor->crc_at),
			.codec_id = source->codec_id,
			.record_blocks = source->record_blocks,
			.block_in_record = (uint8_t)first,
			.record_kind = RECORD_WRITE,
		},
		.chunk = source->chunk,
		.block = block - first,
		.slot = window->block_count,
		.is_copy = source->is_copy,
		.is_index_sure = source->is_sure,
	};
}

/* The blocks of @frame, of kind WRITE. */
static void
window_add_blocks(struct mt_recipe_cursor *cursor, struct merge_window *window,
    struct merge_frame *frame, bool is_copy)
{
	uint32_t left = frame->count;

	assert(window->block_count + frame->count <= window->block_max);
	while (left > 0) {
		struct mt_recipe_source source =
		    mt_recipe_source(cursor->recipe, cursor->source_at);
		uint32_t take = (uint32_t)num_min(source.count - cursor->taken_count, left);

		/* Begun by the frame before, or by this one. */
		if (cursor->taken_count == 0 || window->block_count == 0)
			window_add_source(cursor, window, &source,
			    frame->block + frame->count - left);
		window->sources[window->source_count - 1].count += (uint8_t)take;
		for (uint32_t i = 0; i < take; i++) {
			window->crcs[window->block_count] =
			    mt_recipe_crc(cursor->recipe, cursor->crc_at++);
			window->is_lost[window->block_count++] = false;
		}
		left -= take;
		cursor->taken_count += take;
		if (cursor->taken_count == source.count) {
			cursor->source_at++;
			cursor->taken_count = 0;
		}
	}
	frame->is_copy = is_copy;
	frame->source = is_copy ? window->source_count - 1 : 0;
}

bool
mt_recipe_window(struct mt_recipe_cursor *cursor, struct merge_window *window)
{
	const struct mt_recipe_head *head = &cursor->recipe->head;
	uint32_t frame_blocks = head->frame_bytes / CLEAVE_BLOCK_BYTES;

	assert(window->block_max >= frame_blocks);
	assert(window->block_max <= MERGE_WINDOW_BLOCKS_MAX);
	mt_merge_window_clear(window);
	while (cursor->frame_at < head->frame_count) {
		struct mt_recipe_frame frame = mt_recipe_frame(cursor->recipe, cursor->frame_at);
		struct merge_frame *made = &window->frames[window->frame_count];
		/* Frames without content as well: windows end where the plan's do. */
		uint32_t room = frame.kind == RECORD_WRITE
		    ? (uint32_t)num_max(frame_blocks, frame.count)
		    : frame_blocks;

		if (window->frame_count == MERGE_WINDOW_FRAMES_MAX ||
		    window->block_count + room > window->block_max)
			break;
		*made = (struct merge_frame){ .block = frame.block,
			.count = frame.count,
			.slot = window->block_count,
			.kind = frame.kind };
		if (frame.kind == RECORD_WRITE)
			window_add_blocks(cursor, window, made, frame.is_copy);
		window->frame_count++;
		cursor->frame_at++;
	}
	return window->frame_count > 0;
}
