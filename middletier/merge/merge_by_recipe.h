/* SPDX-License-Identifier: Apache-2.0 */
/* merge_by_recipe.h -- for tests: a port's merges are made recipes, and executed from what those say */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_BY_RECIPE_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_BY_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

struct merge_by_recipe;
struct merge_work;
struct mt_merge;
struct mt_shard;

/*
 * mt_merge_by_recipe_create -- work->by_recipe; mt_settings.has_recipes
 *
 * Its guest has a window of @window_bytes, and tells @writer_fn, with @work, of its writer. 0; -ENOMEM.
 */
int mt_merge_by_recipe_create(struct merge_work *work, uint64_t window_bytes,
    void (*writer_fn)(void *arg));
/* mt_merge_by_recipe_destroy -- NULL is none. */
void mt_merge_by_recipe_destroy(struct merge_by_recipe *by_recipe);
/*
 * mt_merge_by_recipe_begin -- a stage begins: the rest of the plan is made a recipe, and that is decoded
 *
 * Returns 0; also where the plan itself is executed: the port has no by_recipe, what was made so was refused before, it
 * would encrypt what nobody could compare then, or there are more extents than a recipe may have. -ESTALE: one has gone.
 */
int mt_merge_by_recipe_begin(struct mt_merge *merge);
/* mt_merge_by_recipe_leave -- the stage that begins is executed otherwise; no guest has one. */
void mt_merge_by_recipe_leave(struct merge_work *work);
/* mt_merge_by_recipe_is_on -- the stage at work is executed from a recipe. */
bool mt_merge_by_recipe_is_on(const struct merge_work *work);
/* mt_merge_by_recipe_is_guest -- it is, and by the guest: work->executor is that. */
bool mt_merge_by_recipe_is_guest(const struct merge_work *work);
/* mt_merge_by_recipe_window -- it is: the next window of it; false: there are no blocks left. */
bool mt_merge_by_recipe_window(struct merge_work *work);

/*
 * mt_merge_by_recipe_verify -- the stage was executed, and work->result is what is said to have come of it
 *
 * mt_merge_by_recipe_verify_step: STEP_AGAIN: mt_merge_notify, or the turn. STEP_DONE: it is so, and all of it is on
 * every replica; work->result has the indexes that were read. Negative: it is not, or that cannot be seen; the log says
 * what is wrong.
 */
void mt_merge_by_recipe_verify(struct mt_merge *merge);
int mt_merge_by_recipe_verify_step(struct merge_work *work);
/*
 * mt_merge_by_recipe_end -- the stage has come to nothing: what was lent to the guest is sealed where it was lent
 *
 * Nothing of the guest is out. Also where it was not at work, or the port has none.
 */
void mt_merge_by_recipe_end(struct mt_merge *merge);
/* mt_merge_by_recipe_forget -- the process is being taken down: nothing points at @shard any more. */
void mt_merge_by_recipe_forget(struct merge_work *work, const struct mt_shard *shard);
/* mt_merge_by_recipe_cancel -- the merge ends: what is out comes back unseen. _is_quiet: nothing is. Without one, too. */
void mt_merge_by_recipe_cancel(struct merge_work *work);
bool mt_merge_by_recipe_is_quiet(const struct merge_work *work);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_BY_RECIPE_H */
