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
 * mt_recipe_make -- all of the plan that no window has had, to @bytes, RECIPE_BYTES_MAX of them
 *
 * @merge is at work, a stage has begun, and no window is in use: windows are made, and the plan is where it was.
 * Returns the recipe's bytes; -E2BIG: more extents than a recipe may have; -ESTALE: one of them has gone.
 */
int mt_recipe_make(struct mt_recipe_maker *maker, struct mt_merge *merge, uint8_t *bytes);

#endif /* CLEAVE_MIDDLETIER_MERGE_RECIPE_MAKE_H */
