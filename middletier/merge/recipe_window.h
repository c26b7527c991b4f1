/* SPDX-License-Identifier: Apache-2.0 */
/* recipe_window.h -- the windows of a recipe, one after the other, for the executing part of a merge */
#ifndef CLEAVE_MIDDLETIER_MERGE_RECIPE_WINDOW_H
#define CLEAVE_MIDDLETIER_MERGE_RECIPE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

struct merge_window;
struct mt_recipe;

struct mt_recipe_cursor {
	const struct mt_recipe *recipe;
	const uint32_t *extents; /* mt_shard_extent's index of each extent of the recipe */
	uint32_t frame_at, source_at, crc_at;
	uint32_t taken_count; /* blocks of source number source_at that windows have had */
};

/* mt_recipe_cursor_init -- before the first window. @recipe has passed; it and @extents are borrowed. */
void mt_recipe_cursor_init(struct mt_recipe_cursor *cursor, const struct mt_recipe *recipe,
    const uint32_t *extents);
/* mt_recipe_window -- the next blocks, as many as window->block_max has room for; false: there are none left. */
bool mt_recipe_window(struct mt_recipe_cursor *cursor, struct merge_window *window);
/* mt_recipe_cursor_block -- the first block that no window has had; CLEAVE_CHUNK_BLOCKS: all of them have. */
uint32_t mt_recipe_cursor_block(const struct mt_recipe_cursor *cursor);

#endif /* CLEAVE_MIDDLETIER_MERGE_RECIPE_WINDOW_H */
