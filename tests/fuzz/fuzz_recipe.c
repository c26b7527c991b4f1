/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_recipe.c -- arbitrary bytes as a merge's recipe
 *
 * Their length and checksum are made to fit, too: what is behind them would hardly ever be seen otherwise. What passes
 * must encode to itself, and gives windows of which no source leaves the window's memory.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/engine.h"
#include "middletier/merge/merge_window.h"
#include "middletier/merge/recipe.h"
#include "middletier/merge/recipe_decode.h"
#include "middletier/merge/recipe_window.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint8_t again[RECIPE_BYTES_MAX];
static struct merge_window window;
static uint32_t extents[RECIPE_EXTENTS_MAX];

static void
check_encoding(const struct mt_recipe *recipe, const uint8_t *data, size_t bytes)
{
	struct mt_recipe_builder builder;

	mt_recipe_begin(&builder, again, &recipe->head);
	for (uint32_t i = 0; i < recipe->head.extent_count; i++) {
		struct mt_recipe_extent extent = mt_recipe_extent(recipe, i);

		assert(mt_recipe_add_extent(&builder, &extent) == 0);
	}
	for (uint32_t i = 0; i < recipe->head.source_count; i++) {
		struct mt_recipe_source source = mt_recipe_source(recipe, i);

		assert(mt_recipe_add_source(&builder, &source) == 0);
	}
	for (uint32_t i = 0; i < recipe->head.frame_count; i++) {
		struct mt_recipe_frame frame = mt_recipe_frame(recipe, i);

		assert(mt_recipe_add_frame(&builder, &frame) == 0);
	}
	for (uint32_t i = 0; i < recipe->head.crc_count; i++)
		assert(mt_recipe_add_crc(&builder, mt_recipe_crc(recipe, i)) == 0);
	assert(mt_recipe_end(&builder) == bytes);
	assert(memcmp(again, data, bytes) == 0);
}

static void
check_windows(const struct mt_recipe *recipe)
{
	struct mt_recipe_cursor cursor;
	uint32_t block_count = 0, frame_count = 0;

	mt_recipe_cursor_init(&cursor, recipe, extents);
	window.block_max = ENGINE_RECORD_BLOCKS_MAX; /* the least that a port has */
	while (mt_recipe_window(&cursor, &window)) {
		uint32_t slot = 0;

		for (uint32_t i = 0; i < window.source_count; i++) {
			const struct merge_source *source = &window.sources[i];

			assert(source->slot == slot && source->count > 0);
			assert(source->location.block_in_record + source->count <=
			    source->location.record_blocks);
			assert(!source->is_copy ||
			    source->location.stored_bytes <= source->count * CLEAVE_BLOCK_BYTES);
			slot += source->count;
		}
		assert(slot == window.block_count && slot <= window.block_max);
		block_count += slot;
		frame_count += window.frame_count;
	}
	assert(block_count == recipe->head.crc_count);
	assert(frame_count == recipe->head.frame_count);
}

static void
try_recipe(const uint8_t *data, size_t bytes)
{
	struct mt_recipe recipe;
	const char *field = NULL;
	int rc = mt_recipe_decode(data, (uint32_t)bytes, &recipe, &field);

	assert((rc == 0) == (field == NULL));
	if (rc != 0)
		return;
	check_encoding(&recipe, data, bytes);
	check_windows(&recipe);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t *fitted;

	if (bytes > 2 * RECIPE_BYTES_MAX)
		return 0;
	try_recipe(data, bytes);
	if (bytes < RECIPE_HEAD_BYTES)
		return 0;
	fitted = malloc(bytes);
	assert(fitted != NULL);
	memcpy(fitted, data, bytes);
	num_put_le32(fitted + RECIPE_LENGTH_AT, (uint32_t)bytes);
	num_put_le32(fitted + RECIPE_CRC_AT, mt_recipe_checksum(fitted, (uint32_t)bytes));
	try_recipe(fitted, bytes);
	free(fitted);
	return 0;
}
