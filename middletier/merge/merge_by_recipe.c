/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_by_recipe.c -- for tests: a port's merges are made recipes, and executed from what those say
 *
 * What a worker elsewhere will be told is all that the executing part is told here: its task, what its runs say, and its
 * windows come from the decoded bytes. Extents are found by their names, and nothing is taken from the ring, which a
 * worker lacks. What comes of it are the bytes that the plan itself would have made.
 */
#include "merge/merge_by_recipe.h"

#include <errno.h>

#include "base/check.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "merge/merge_exec.h"
#include "merge/merge_plan.h"
#include "merge/merge_work.h"
#include "merge/recipe.h"
#include "merge/recipe_decode.h"
#include "merge/recipe_make.h"
#include "merge/recipe_window.h"
#include "merge/run_writer.h"

struct merge_by_recipe {
	struct mt_recipe_maker maker;
	uint8_t *bytes;
	struct mt_recipe recipe;
	struct mt_recipe_cursor cursor;
	uint32_t extents[RECIPE_EXTENTS_MAX];
	bool is_on; /* false: the stage is executed from the plan */
};

int
mt_merge_by_recipe_create(struct merge_work *work)
{
	struct merge_by_recipe *by_recipe = mt_calloc(1, sizeof(*by_recipe));

	assert(work->by_recipe == NULL);
	if (by_recipe == NULL)
		return -ENOMEM;
	by_recipe->bytes = mt_calloc(1, RECIPE_BYTES_MAX);
	if (by_recipe->bytes == NULL) {
		mt_free(by_recipe);
		return -ENOMEM;
	}
	work->by_recipe = by_recipe;
	return 0;
}

void
mt_merge_by_recipe_destroy(struct merge_by_recipe *by_recipe)
{
	if (by_recipe == NULL)
		return;
	mt_free(by_recipe->bytes);
	mt_free(by_recipe);
}

/* The executing part is told all but its windows. */
static void
recipe_tell(const struct mt_recipe_head *head, struct mt_merge *merge)
{
	struct merge_exec *exec = &merge_work_of(merge)->exec;

	assert(head->shard == merge->shard->index && head->epoch == merge->shard->epoch);
	/* A wrong task shows in the bytes of few merges, and so is looked for here. */
	assert(head->keeps_zeroes == exec->task.keeps_zeroes);
	assert(head->is_hot == exec->task.is_hot);
	assert(head->level == exec->task.level);
	assert(head->key_id == exec->task.key_id);
	exec->task = (struct merge_task){ .target = head->chunk,
		.level = head->level,
		.is_hot = head->is_hot,
		.keeps_zeroes = head->keeps_zeroes,
		.key_id = head->key_id };
	mt_run_writer_begin(&exec->writer, merge->shard, head->chunk, head->flushed_sequence,
	    head->cut);
}

int
mt_merge_by_recipe_begin(struct mt_merge *merge)
{
	struct merge_by_recipe *by_recipe = merge_work_of(merge)->by_recipe;
	const char *field;
	int bytes, rc;

	if (by_recipe == NULL)
		return 0;
	bytes = mt_recipe_make(&by_recipe->maker, merge, by_recipe->bytes);
	by_recipe->is_on = bytes > 0;
	if (bytes < 0)
		return bytes == -E2BIG ? 0 : bytes;
	rc = mt_recipe_decode(by_recipe->bytes, (uint32_t)bytes, &by_recipe->recipe, &field);
	assert(rc == 0); /* what we make ourselves passes */
	recipe_tell(&by_recipe->recipe.head, merge);
	for (uint32_t i = 0; rc == 0 && i < by_recipe->recipe.head.extent_count; i++) {
		struct mt_recipe_extent named = mt_recipe_extent(&by_recipe->recipe, i);
		const struct mt_extent *extent = mt_shard_extent_named(merge->shard, &named.id);

		if (extent == NULL)
			rc = -ESTALE;
		else
			by_recipe->extents[i] = extent->index;
	}
	mt_recipe_cursor_init(&by_recipe->cursor, &by_recipe->recipe, by_recipe->extents);
	return rc;
}

bool
mt_merge_by_recipe_is_on(const struct merge_work *work)
{
	return work->by_recipe != NULL && work->by_recipe->is_on;
}

bool
mt_merge_by_recipe_window(struct merge_work *work)
{
	struct mt_recipe_cursor *cursor = &work->by_recipe->cursor;
	bool is_there = mt_recipe_window(cursor, &work->exec.window);

	assert(work->by_recipe->is_on);
	/* The stages know by the plan how far the merge is. */
	work->plan.at = mt_recipe_cursor_block(cursor);
	return is_there;
}
