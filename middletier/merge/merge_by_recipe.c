/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_by_recipe.c -- for tests: a port's merges are made recipes, and executed from what those say
 *
 * What a worker elsewhere will be told is all that the executing part is told here: its task, what its runs say, and its
 * windows come from the decoded bytes. Extents are found by their names, and nothing is taken from the ring, which a
 * worker lacks. What comes of it are the bytes that the plan itself would have made. They are not believed for that,
 * but read back from nodes, and compared with the recipe. Now and then the executing part lies, so that it is seen that
 * lies are refused: a frame is left out, or a part is said to go on where it has ended.
 */
#include "merge/merge_by_recipe.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "merge/merge_exec.h"
#include "merge/merge_plan.h"
#include "merge/merge_readback.h"
#include "merge/merge_result.h"
#include "merge/merge_step.h"
#include "merge/merge_verify.h"
#include "merge/merge_work.h"
#include "merge/recipe.h"
#include "merge/recipe_decode.h"
#include "merge/recipe_make.h"
#include "merge/recipe_window.h"
#include "merge/run_writer.h"

enum by_recipe_lie {
	LIE_NONE,
	LIE_LEAVES_OUT, /* the last frame of the first window */
	LIE_CLAIMS,     /* that the last part is longer */
};

struct merge_by_recipe {
	struct mt_recipe_maker maker;
	uint8_t *bytes;
	struct mt_recipe recipe;
	struct mt_recipe_cursor cursor;
	uint32_t extents[RECIPE_EXTENTS_MAX];
	struct merge_readback readback;
	uint32_t stage_count; /* that were executed from recipes */
	enum by_recipe_lie lie;
	bool is_on; /* false: the stage is executed from the plan */
};

static void
by_recipe_on_readback(void *arg)
{
	const struct merge_work *work = arg;

	assert(work->merge != NULL);
	mt_merge_notify(work->merge, 0);
}

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
	mt_merge_readback_init(&by_recipe->readback, by_recipe_on_readback, work);
	work->by_recipe = by_recipe;
	return 0;
}

void
mt_merge_by_recipe_destroy(struct merge_by_recipe *by_recipe)
{
	if (by_recipe == NULL)
		return;
	mt_merge_readback_fini(&by_recipe->readback);
	mt_free(by_recipe->bytes);
	mt_free(by_recipe);
}

/* Is anything made of blocks that came encrypted? It is encrypted again, and its CRCs are where only engines see them. */
static bool
recipe_encrypts(const struct mt_recipe *recipe)
{
	if (recipe->head.key_id != 0)
		return true;
	for (uint32_t i = 0; i < recipe->head.source_count; i++) {
		struct mt_recipe_source source = mt_recipe_source(recipe, i);

		if ((source.codec_id & ENGINE_ENCRYPTED) != 0 && !source.is_copy)
			return true;
	}
	return false;
}

static enum by_recipe_lie
lie_choose(const struct merge_by_recipe *by_recipe, uint32_t lies)
{
	if (lies == 0 || by_recipe->stage_count % lies != 0)
		return LIE_NONE;
	return by_recipe->stage_count / lies % 2 == 0 ? LIE_CLAIMS : LIE_LEAVES_OUT;
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
	by_recipe->is_on = false;
	if (merge->is_refused)
		return 0;
	bytes = mt_recipe_make(&by_recipe->maker, merge, by_recipe->bytes);
	if (bytes < 0)
		return bytes == -E2BIG ? 0 : bytes;
	rc = mt_recipe_decode(by_recipe->bytes, (uint32_t)bytes, &by_recipe->recipe, &field);
	assert(rc == 0); /* what we make ourselves passes */
	if (recipe_encrypts(&by_recipe->recipe))
		return 0;
	by_recipe->is_on = true;
	by_recipe->stage_count++;
	by_recipe->lie = lie_choose(by_recipe, merge->shard->port->settings->recipe_lies);
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

	if (is_there && work->by_recipe->lie == LIE_LEAVES_OUT) {
		work->exec.window.frame_count--;
		work->by_recipe->lie = LIE_NONE;
	}
	assert(work->by_recipe->is_on);
	/* The stages know by the plan how far the merge is. */
	work->plan.at = mt_recipe_cursor_block(cursor);
	return is_there;
}

/* ---- what has come of it ---- */

void
mt_merge_by_recipe_verify(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_result *result = &work->result;

	assert(work->by_recipe->is_on);
	if (work->by_recipe->lie == LIE_CLAIMS && result->part_count > 0)
		result->parts[result->part_count - 1].length_bytes += BATCH_ALIGN;
	mt_merge_readback_begin(&work->by_recipe->readback, merge->shard, merge->target, result);
}

int
mt_merge_by_recipe_verify_step(struct merge_work *work)
{
	struct merge_by_recipe *by_recipe = work->by_recipe;
	const struct mt_run_index *indexes[MERGE_PARTS_MAX];
	const char *field = "what nodes hold";
	int rc = mt_merge_readback_step(&by_recipe->readback, &work->exec.turn);

	if (rc == STEP_AGAIN)
		return rc;
	if (rc == STEP_DONE && !MUTANT(recipe_trusted)) {
		for (uint32_t i = 0; i < work->result.part_count; i++)
			indexes[i] = work->result.indexes[i];
		rc = mt_merge_verify(&by_recipe->recipe, by_recipe->cursor.frame_at, indexes,
		    work->result.part_count, &field);
	}
	if (rc == 0)
		return STEP_DONE;
	if (rc < 0)
		log_limited(LOG_WARN,
		    "merge: what was made by a recipe is not what was asked for, it is made anew "
		    "here shard=%" PRIu32 " chunk=%" PRIu64 " wrong=%s rc=%s",
		    work->merge->shard->index, work->merge->target, field, log_errno(rc));
	return rc;
}

void
mt_merge_by_recipe_cancel(struct merge_work *work)
{
	if (work->by_recipe != NULL)
		mt_merge_readback_cancel(&work->by_recipe->readback);
}

bool
mt_merge_by_recipe_is_quiet(const struct merge_work *work)
{
	return work->by_recipe == NULL || mt_merge_readback_is_quiet(&work->by_recipe->readback);
}
