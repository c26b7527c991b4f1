/* SPDX-License-Identifier: Apache-2.0 */
/* recipe_make.h -- what a merge has decided, as a recipe */
#ifndef CLEAVE_MIDDLETIER_MERGE_RECIPE_MAKE_H
#define CLEAVE_MIDDLETIER_MERGE_RECIPE_MAKE_H

#include <stdint.h>

#include "merge/recipe.h"

struct mt_merge;

struct mt_recipe_maker {
	struct mt_recipe_builder builder;
	uint32_t indexes[RECIPE_EXTENTS_MAX]; /* mt_shard_extent's, of the recipe's extents */
	uint32_t last;                        /* of the recipe: asked for last */
};

/*
 * mt_recipe_make -- what the plan has that no window has had, to @bytes, RECIPE_BYTES_MAX of them
 *
 * As many windows as take no more than @room_bytes in a run extent, or all: UINT64_MAX; *@ret_end_block is the first block
 * of the chunk behind them. @merge is at work, a stage has begun, and no window is in use: windows are made, and the
 * plan is where it was.
 * Returns the recipe's bytes; -ENOSPC: there is no room for one window; -E2BIG: more extents than a recipe may have;
 * -ESTALE: one of them has gone.
 */
int mt_recipe_make(struct mt_recipe_maker *maker, struct mt_merge *merge, uint8_t *bytes,
    uint64_t room_bytes, uint32_t *ret_end_block);

#endif /* CLEAVE_MIDDLETIER_MERGE_RECIPE_MAKE_H */
