/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_by_recipe.c -- for tests: a port's merges are made recipes, and executed from what those say
 *
 * What a worker elsewhere will be told is all that the executing part is told here: its task, what its runs say, and its
 * windows come from the decoded bytes. Nothing is taken from the ring, which a worker lacks. Where the shard has an open
 * run extent with room for all, that is lent to a guest (merge_guest.h), who has no more of the shard than the recipe:
 * what he cannot is done by the plan. Else the port's own part executes it.
 *
 * What comes of it are the bytes that the plan itself would have made. They are not believed for that, but read back
 * from nodes, and compared with the recipe. Now and then the executing part lies, so that it is seen that lies are
 * refused: a frame is left out, a part is said to go on where it has ended, or batches count that have failed.
 */
#include "merge/merge_by_recipe.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "merge/merge_exec.h"
#include "merge/merge_guest.h"
#include "merge/merge_plan.h"
#include "merge/merge_readback.h"
#include "merge/merge_result.h"
#include "merge/merge_step.h"
#include "merge/merge_verify.h"
#include "merge/merge_work.h"
#include "merge/recipe.h"
#include "merge/recipe_decode.h"
#include "merge/recipe_lie.h"
#include "merge/recipe_make.h"
#include "merge/recipe_window.h"
#include "merge/run_roll.h"
#include "merge/run_writer.h"
#include "merge/told.h"

struct merge_by_recipe {
	struct mt_recipe_maker maker;
	uint8_t *bytes;
	struct mt_recipe recipe;
	struct mt_recipe_cursor cursor;
	uint32_t extents[RECIPE_EXTENTS_MAX];
	struct merge_readback readback;
	struct merge_guest guest; /* is_on: the stage is executed by it */
	uint32_t stage_count;     /* that were executed from recipes */
	enum recipe_lie lie;
	const char *wrong; /* with the result, before anything of it was read; NULL: nothing is */
	bool is_on;        /* false: the stage is executed from the plan */
};

static void
by_recipe_on_readback(void *arg)
{
	const struct merge_work *work = arg;

	assert(work->merge != NULL);
	mt_merge_notify(work->merge, 0);
}

int
mt_merge_by_recipe_create(struct merge_work *work, uint64_t window_bytes,
    void (*writer_fn)(void *arg))
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
	return mt_merge_guest_init(&by_recipe->guest, work->port, window_bytes, writer_fn, work);
}

void
mt_merge_by_recipe_destroy(struct merge_by_recipe *by_recipe)
{
	if (by_recipe == NULL)
		return;
	mt_merge_readback_fini(&by_recipe->readback);
	mt_merge_guest_fini(&by_recipe->guest);
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
	assert(head->frame_bytes == exec->task.frame_blocks * CLEAVE_BLOCK_BYTES);
	assert(head->key_id == exec->task.key_id);
	exec->task = (struct merge_task){ .target = head->chunk,
		.level = head->level,
		.is_hot = head->is_hot,
		.frame_blocks = head->frame_bytes / (uint32_t)CLEAVE_BLOCK_BYTES,
		.keeps_zeroes = head->keeps_zeroes,
		.key_id = head->key_id };
	mt_run_writer_begin(&exec->writer, merge->shard, head->chunk, head->flushed_sequence,
	    head->cut);
}

/* ---- a guest ---- */

/* Has the shard's open extent, which is the recipe's target, room for all of it, about? */
static bool
is_lendable(const struct mt_merge *merge, const struct mt_recipe_head *head)
{
	const struct mt_run_roll *roll = merge->shard->run_roll;

	if (head->target == RECIPE_NO_TARGET)
		return false;
	assert(roll->sm.state == RUN_ROLL_OPEN);
	return roll->extent->append_count == 0 &&
	    mt_merge_plan_left_bytes(&merge_work_of(merge)->plan) <=
	    mt_run_roll_bytes(merge->shard);
}

static int
guest_take_over(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_by_recipe *by_recipe = work->by_recipe;
	int rc = mt_merge_guest_begin(&by_recipe->guest, &by_recipe->recipe, work->exec.tell,
	    work->exec.arg);

	if (rc != 0)
		return rc;
	mt_run_roll_lend(merge->shard->run_roll);
	by_recipe->guest.exec.writer.claims_all = by_recipe->lie == RECIPE_LIE_UNACKED;
	mt_recipe_cursor_init(&by_recipe->cursor, &by_recipe->recipe, by_recipe->guest.extents);
	work->executor = &by_recipe->guest.exec;
	return 0;
}

/* The guest's object of the extent that is lent. */
static struct mt_extent *
guest_target(const struct merge_by_recipe *by_recipe)
{
	const struct merge_guest *guest = &by_recipe->guest;

	return mt_shard_extent(&guest->shard, guest->extents[by_recipe->recipe.head.target]);
}

/* NULL; or what is wrong with what a guest says, who is not believed. */
static const char *
result_field(const struct merge_by_recipe *by_recipe, const struct merge_result *result)
{
	struct extent_id target =
	    mt_recipe_extent(&by_recipe->recipe, by_recipe->recipe.head.target).id;
	struct mt_told told = { .frame_count = by_recipe->cursor.frame_at };
	const char *field = NULL;

	for (uint32_t i = 0; i < result->part_count; i++) {
		if (extent_id_pack(&result->parts[i].id) != extent_id_pack(&target))
			return "extent";
	}
	mt_told_of_result(&told, result);
	return mt_told_check(&told, &by_recipe->recipe, &field) == 0 ? NULL : field;
}

/* The result is of the guest's object of what was lent: the owner has its own. One that cannot be is empty. */
static void
guest_result(struct merge_by_recipe *by_recipe, const struct mt_shard *owner,
    struct merge_result *result)
{
	struct mt_extent *lent = owner->run_roll->extent;

	assert(by_recipe->guest.is_on);
	by_recipe->wrong = result_field(by_recipe, result);
	for (uint32_t i = 0; i < result->part_count; i++) {
		mt_extent_unuse(guest_target(by_recipe));
		if (by_recipe->wrong != NULL)
			continue;
		mt_extent_use(lent);
		result->parts[i].extent_index = lent->index;
	}
	if (by_recipe->wrong != NULL)
		mt_merge_result_forget(result);
}

static void
guest_gone(struct merge_work *work)
{
	assert(mt_merge_exec_is_quiet(&work->by_recipe->guest.exec));
	mt_merge_guest_end(&work->by_recipe->guest);
	work->executor = &work->exec;
}

/*
 * All of the result is what it should be: the extent is the owner's again, as far as the last part goes. Replicas of one that
 * broke behind that may have more, and take nothing that goes on there.
 */
static void
guest_done(struct merge_work *work)
{
	const struct merge_result *result = &work->result;
	struct mt_run_roll *roll = work->merge->shard->run_roll;
	const struct run_part *last;

	if (!work->by_recipe->guest.is_on || roll->sm.state != RUN_ROLL_LENT)
		return;
	if (result->part_count == 0) {
		mt_run_roll_recall(roll);
		return;
	}
	last = &result->parts[result->part_count - 1];
	assert(last->extent_index == roll->extent->index);
	mt_run_roll_return(roll, last->offset_bytes + last->length_bytes,
	    mt_merge_readback_chain(&work->by_recipe->readback));
	if (work->by_recipe->guest.shard.run_roll->extent->sm.state != MT_EXTENT_OPEN)
		mt_run_roll_over(roll);
}

void
mt_merge_by_recipe_end(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct mt_run_roll *roll = merge->shard->run_roll;

	if (work->by_recipe == NULL || !work->by_recipe->guest.is_on)
		return;
	mt_run_writer_release(&work->by_recipe->guest.exec.writer);
	guest_gone(work);
	if (roll->sm.state == RUN_ROLL_LENT)
		mt_run_roll_recall(roll);
}

void
mt_merge_by_recipe_forget(struct merge_work *work, const struct mt_shard *shard)
{
	if (work->by_recipe == NULL || !work->by_recipe->guest.is_on ||
	    work->by_recipe->recipe.head.shard != shard->index)
		return;
	mt_merge_guest_end(&work->by_recipe->guest);
	work->executor = &work->exec;
}

bool
mt_merge_by_recipe_is_guest(const struct merge_work *work)
{
	return work->by_recipe != NULL && work->by_recipe->guest.is_on;
}

/* ---- a stage ---- */

int
mt_merge_by_recipe_begin(struct mt_merge *merge)
{
	struct merge_by_recipe *by_recipe = merge_work_of(merge)->by_recipe;
	const char *field;
	uint32_t end_block;
	int bytes, rc;

	if (by_recipe == NULL)
		return 0;
	by_recipe->is_on = false;
	if (merge->is_refused)
		return 0;
	bytes = mt_recipe_make(&by_recipe->maker, merge, by_recipe->bytes, UINT64_MAX, &end_block);
	if (bytes < 0)
		return bytes == -E2BIG ? 0 : bytes;
	rc = mt_recipe_decode(by_recipe->bytes, (uint32_t)bytes, &by_recipe->recipe, &field);
	assert(rc == 0); /* what we make ourselves passes */
	if (mt_recipe_encrypts(&by_recipe->recipe))
		return 0;
	by_recipe->is_on = true;
	by_recipe->stage_count++;
	by_recipe->lie =
	    mt_recipe_lie(by_recipe->stage_count, merge->shard->port->settings->recipe_lies);
	if (is_lendable(merge, &by_recipe->recipe.head) && guest_take_over(merge) == 0)
		return 0;
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

void
mt_merge_by_recipe_leave(struct merge_work *work)
{
	if (work->by_recipe == NULL)
		return;
	assert(!work->by_recipe->guest.is_on);
	work->by_recipe->is_on = false;
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
	bool is_there = mt_recipe_window(cursor, &work->executor->window);

	if (is_there && work->by_recipe->lie == RECIPE_LIE_LEAVES_OUT) {
		work->executor->window.frame_count--;
		work->by_recipe->lie = RECIPE_LIE_NONE;
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
	if (work->by_recipe->lie == RECIPE_LIE_CLAIMS && result->part_count > 0)
		result->parts[result->part_count - 1].length_bytes += BATCH_ALIGN;
	work->by_recipe->wrong = NULL;
	if (work->by_recipe->guest.is_on)
		guest_result(work->by_recipe, merge->shard, result);
	mt_merge_readback_begin(&work->by_recipe->readback, merge->shard, merge->target, result);
}

int
mt_merge_by_recipe_verify_step(struct merge_work *work)
{
	struct merge_by_recipe *by_recipe = work->by_recipe;
	const struct mt_run_index *indexes[MERGE_PARTS_MAX];
	const char *field = "what nodes hold";
	int rc = mt_merge_readback_step(&by_recipe->readback, &work->executor->turn);

	if (rc == STEP_AGAIN)
		return rc;
	if (by_recipe->wrong != NULL) {
		field = by_recipe->wrong;
		rc = -EBADMSG;
	}
	if (rc == STEP_DONE && !MUTANT(recipe_trusted)) {
		for (uint32_t i = 0; i < work->result.part_count; i++)
			indexes[i] = work->result.indexes[i];
		rc = mt_merge_verify(&by_recipe->recipe, by_recipe->cursor.frame_at, indexes,
		    work->result.part_count, &field);
	}
	if (rc >= 0) {
		guest_done(work);
		mt_merge_by_recipe_end(work->merge);
		return STEP_DONE;
	}
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
