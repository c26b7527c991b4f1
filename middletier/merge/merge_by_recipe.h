/* SPDX-License-Identifier: Apache-2.0 */
/* merge_by_recipe.h -- for tests: a port's merges are made recipes, and executed from what those say */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_BY_RECIPE_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_BY_RECIPE_H

#include <stdbool.h>

struct merge_by_recipe;
struct merge_work;
struct mt_merge;

/* mt_merge_by_recipe_create -- work->by_recipe; mt_settings.has_recipes. 0; -ENOMEM. */
int mt_merge_by_recipe_create(struct merge_work *work);
/* mt_merge_by_recipe_destroy -- NULL is none. */
void mt_merge_by_recipe_destroy(struct merge_by_recipe *by_recipe);
/*
 * mt_merge_by_recipe_begin -- a stage begins: the rest of the plan is made a recipe, and that is decoded
 *
 * Returns 0; also where the port has no by_recipe, or there are more extents than a recipe may have: the plan itself is
 * executed then. -ESTALE: an extent has gone.
 */
int mt_merge_by_recipe_begin(struct mt_merge *merge);
/* mt_merge_by_recipe_is_on -- the stage at work is executed from a recipe. */
bool mt_merge_by_recipe_is_on(const struct merge_work *work);
/* mt_merge_by_recipe_window -- it is: the next window of it; false: there are no blocks left. */
bool mt_merge_by_recipe_window(struct merge_work *work);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_BY_RECIPE_H */
