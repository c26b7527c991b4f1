/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c -- some layers and runs of a chunk become runs: a flush, or a compaction
 *
 *	        its turn           indexes are there            a window is there
 *	QUEUED ----------> LOADING ------------------> FETCHING -----------------> STORING
 *	  |                   |                         ^    ^                      |  |
 *	  |                   |                         |    +-- PAUSING <----------+  |
 *	  |                   |                         +------ the next window -------+
 *	  |                   |                                                        | no more
 *	  |                   v          durable                 acknowledged          v
 *	  +--------------> FAILED   DONE <------ COMMITTING <------------------+--- ENDING
 *	                      ^                       |                        |       | made by a recipe
 *	                      |                       |              it is so  +-- VERIFYING --> FETCHING, by the plan:
 *	                      +-----------------------+--------------------------------+         it is not so
 *
 * A guest's execution that fails, from FETCHING on, is RECALLING until nothing of it is out, then FETCHING by the plan.
 *
 * A stage that other gateways execute is AWAY from its beginning to COMMITTING (merge_by_away.c), or, when that fails, FETCHING.
 *
 * One merge a port is at work; the others queue, flushes before compactions. The newest version of each block goes into
 * frames (merge_plan.c), a window of up to 1 MiB at a time is brought to device memory (merge_fetch.c), compressed again into
 * batches (merge_store.c) and appended to the open run extent (run_writer.c); while one is STORING, the next is fetched.
 * One commit then adds the new runs and removes those that were merged; only after it is durable does the index
 * change. Until then nothing names what was written: an error leaves garbage in the run extent, which goes with it.
 *
 * Clients go first: a turn of the loop does a few engine jobs, and a window is paid for in time (merge_pace.c).
 *
 * This file alone moves a merge's state: merge_step is one step of each. The other files' steps say what they came to
 * (merge_step.h), and what they sent out tells by mt_merge_notify when it is back.
 */
#include "merge/merge.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "index/index.h"
#include "merge/merge_by_away.h"
#include "merge/merge_by_recipe.h"
#include "merge/merge_commit.h"
#include "merge/merge_exec.h"
#include "merge/merge_fetch.h"
#include "merge/merge_input.h"
#include "merge/merge_load.h"
#include "merge/merge_pace.h"
#include "merge/merge_plan.h"
#include "merge/merge_result.h"
#include "merge/merge_step.h"
#include "merge/merge_store.h"
#include "merge/merge_work.h"
#include "merge/reclaim.h"
#include "merge/run_writer.h"

static void merge_begin(struct mt_merge *merge);
static void merge_pump(struct mt_merge *merge);

/* ---- the port's ---- */

void
mt_merge_on_timer(struct loop_timer *timer, void *arg)
{
	struct merge_work *work = arg;

	(void)timer;
	CHECK_OBJ(work, MERGE_WORK_MAGIC);
	if (work->merge == NULL)
		return;
	mt_merge_turn(work->merge, &work->executor->turn);
	merge_pump(work->merge);
}

/* The next merge, or what the present one waits for may have come. */
void
mt_merge_on_task(struct loop_task *task, void *arg)
{
	struct merge_work *work = arg;

	(void)task;
	CHECK_OBJ(work, MERGE_WORK_MAGIC);
	if (work->merge != NULL) {
		merge_pump(work->merge);
		return;
	}
	/* The batches of an earlier merge, of another shard, come back first. */
	if (!mt_run_writer_is_quiet(&work->executor->writer))
		return;
	work->merge = mt_merge_work_pop(work);
	if (work->merge == NULL)
		return;
	assert(work->merge->sm.state == MERGE_QUEUED);
	merge_begin(work->merge);
}

/* ---- its queue ---- */

int
mt_merge_start(struct mt_shard *shard, const struct mt_merge_input *input, mt_merge_fn fn,
    void *arg)
{
	struct merge_work *work = shard->port->merge_work;
	struct mt_merge *merge;
	int rc = mt_merge_input_check(shard->block_index, input);

	CHECK_OBJ(work, MERGE_WORK_MAGIC);
	assert(fn != NULL);
	if (rc != 0)
		return rc;
	merge = mt_calloc(1, sizeof(*merge));
	if (merge == NULL)
		return -ENOMEM;
	merge->magic = MERGE_MAGIC;
	merge->shard = shard;
	merge->input = *input;
	merge->target = mt_merge_input_target(input);
	merge->fn = fn;
	merge->arg = arg;
	sm_init(&merge->sm, "merge", mt_merge_table, MERGE_QUEUED, shard->index);
	mt_merge_input_mark(shard->block_index, input, true);
	mt_merge_work_push(work, merge);
	/* Whatever is at work stands in its way. */
	if (work->merge != NULL && input->is_urgent)
		work->merge->input.is_urgent = true;
	mt_merge_work_soon(work);
	return 0;
}

/* ---- ends ---- */

/* The sole exit. */
static void
merge_finish(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	mt_merge_fn fn = merge->fn;
	void *arg = merge->arg;
	int rc = merge->rc;

	assert(merge->sm.state == MERGE_DONE || merge->sm.state == MERGE_FAILED);
	assert(rc <= 0);
	if (work->merge == merge) {
		work->merge = NULL;
		loop_timer_stop(work->port->loop, &work->timer);
	}
	list_remove(&merge->link);
	merge->magic = 0;
	mt_free(merge);
	/* The shard's next merge is looked for in a task of flush.c: it is queued before another shard's begins. */
	fn(rc, arg);
	mt_merge_work_soon(work);
}

/* FAILED: what is out comes back first. */
static void
merge_try_finish_failed(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct mt_shard *shard = merge->shard;

	assert(merge->sm.state == MERGE_FAILED && merge->rc < 0);
	if (work->is_committing || !mt_merge_exec_is_quiet(work->executor) ||
	    !mt_merge_by_recipe_is_quiet(work) || !mt_merge_by_away_is_quiet(work))
		return;
	mt_merge_input_release(merge);
	mt_merge_by_recipe_end(merge);
	mt_merge_by_away_end(merge);
	if (work->exec.writer.shard == merge->shard)
		mt_run_writer_release(&work->exec.writer);
	mt_merge_result_release(&work->result, shard);
	mt_merge_input_unmark(merge);
	merge_finish(merge);
	mt_reclaim_kick(shard);
}

/* @rc ends it: at once in the queue, else from start_task or a later step, for callers are at work on it. */
static void
merge_fail(struct mt_merge *merge, int rc)
{
	struct merge_work *work = merge_work_of(merge);

	CHECK_OBJ(merge, MERGE_MAGIC);
	assert(rc < 0);
	if (merge->sm.state == MERGE_FAILED)
		return;
	sm_move(&merge->sm, MERGE_FAILED);
	merge->rc = rc;
	if (work->merge != merge) {
		mt_merge_input_mark(merge->shard->block_index, &merge->input, false);
		merge_finish(merge);
		return;
	}
	mt_merge_exec_cancel(work->executor, rc);
	mt_merge_by_recipe_cancel(work);
	mt_merge_by_away_cancel(work);
	mt_merge_work_soon(work);
}

/* The execution has failed: a guest's is made anew by the plan, when nothing of that is out any more. */
static void
merge_break_off(struct mt_merge *merge, int rc)
{
	struct merge_work *work = merge_work_of(merge);

	if (merge->sm.state == MERGE_RECALLING)
		return;
	if (merge->sm.state == MERGE_FAILED || !mt_merge_by_recipe_is_guest(work)) {
		merge_fail(merge, rc);
		return;
	}
	sm_move(&merge->sm, MERGE_RECALLING);
	mt_merge_exec_cancel(work->executor, rc);
	mt_merge_work_soon(work);
}

/* ---- steps ---- */

/* STEP_DONE: the stage has none, and ends. */
static int
merge_next_window(struct mt_merge *merge)
{
	struct merge_exec *exec = merge_work_of(merge)->executor;

	if (mt_merge_stage_ahead(merge)) {
		sm_move(&merge->sm, MERGE_FETCHING);
		return STEP_AGAIN; /* whatever else this loop has to do goes first */
	}
	assert(exec->out_count == 0);
	sm_move(&merge->sm, MERGE_ENDING);
	mt_run_writer_end(&exec->writer);
	return STEP_DONE;
}

static void
merge_next_stage(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	int rc = mt_merge_stage_begin(merge);

	assert(merge->sm.state == MERGE_LOADING || merge->sm.state == MERGE_COMMITTING ||
	    merge->sm.state == MERGE_VERIFYING || merge->sm.state == MERGE_RECALLING ||
	    merge->sm.state == MERGE_AWAY);
	if (rc != 0)
		merge_fail(merge, rc);
	else if (mt_merge_by_away_is_on(work))
		sm_move(&merge->sm, MERGE_AWAY);
	else
		(void)merge_next_window(merge);
	mt_merge_work_wait(work, 0);
}

/* A window has been stored: the next one when it is paid for. */
static int
merge_pay(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	uint64_t pause_ns = mt_merge_pause_ns(merge,
	    (uint64_t)work->executor->storing.block_count * CLEAVE_BLOCK_BYTES);

	assert(work->executor->storing.frame_at == work->executor->storing.frame_count);
	if (pause_ns == 0)
		return merge_next_window(merge);
	sm_move(&merge->sm, MERGE_PAUSING);
	loop_timer_start(work->port->loop, &work->timer, pause_ns);
	return STEP_AGAIN;
}

/* The last stage is durable. */
static void
merge_done(struct mt_merge *merge)
{
	struct mt_shard *shard = merge->shard;
	uint64_t number = merge->target;
	struct mt_chunk *chunk;
	int rc;

	assert(merge->is_last_stage);
	sm_move(&merge->sm, MERGE_DONE);
	mt_merge_input_unmark(merge);
	rc = mt_merge_stage_apply(merge);
	if (rc != 0) {
		/* The manifest is ahead of the index: only a take-over brings them together. */
		mt_merge_input_release(merge);
		merge->rc = rc;
		merge_finish(merge);
		mt_shard_stop(shard, -ENOMEM);
		return;
	}
	mt_merge_input_release(merge); /* what a copy took stays */
	merge_finish(merge);
	chunk = mt_index_chunk(shard->block_index, number);
	if (chunk != NULL)
		(void)mt_index_drop_empty(chunk);
	mt_reclaim_kick(shard);
}

/* There is more to come. */
static void
merge_stage_done(struct mt_merge *merge)
{
	struct mt_shard *shard = merge->shard;
	int rc = mt_merge_stage_apply(merge);

	assert(!merge->is_last_stage && merge->sm.state == MERGE_COMMITTING);
	if (rc != 0) {
		merge_fail(merge, rc);
		mt_shard_stop(shard, -ENOMEM); /* as above */
		return;
	}
	merge_next_stage(merge);
	mt_reclaim_kick(shard);
}

/* The result is named. @rc: STEP_DONE; negative: why it cannot be. */
static void
merge_commit(struct mt_merge *merge, int rc)
{
	struct merge_work *work = merge_work_of(merge);

	if (rc == STEP_DONE)
		rc = mt_merge_commit(merge);
	if (rc == STEP_AGAIN || (rc == STEP_DONE && !merge->is_last_stage))
		sm_move(&merge->sm, MERGE_COMMITTING);
	if (rc == STEP_DONE && merge->is_last_stage) {
		merge_done(merge);
	} else if (rc == STEP_DONE) {
		merge_stage_done(merge); /* of nothing but zeros */
	} else if (rc < 0) {
		merge_break_off(merge, rc); /* start_task ends it, not this turn */
		if (work->executor->turn.budget == 0)
			mt_merge_work_wait(work, 0);
	}
}

/* A window is stored, and the next one fetched meanwhile, with what jobs the turn has left. */
static int
merge_storing_step(struct mt_merge *merge)
{
	struct merge_exec *exec = merge_work_of(merge)->executor;
	int rc = mt_merge_store_step(exec), fetch_rc = 0;

	if (rc == STEP_DONE)
		return merge_pay(merge);
	if (rc == STEP_AGAIN && mt_merge_stage_ahead(merge))
		fetch_rc = mt_merge_fetch_step(exec);
	return fetch_rc < 0 ? fetch_rc : rc;
}

/* When the last batches are at their replicas. */
static int
merge_ending_step(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	int rc = mt_run_writer_end_step(&work->executor->writer);

	assert(merge->sm.state == MERGE_ENDING);
	if (rc == STEP_AGAIN)
		return rc;
	if (rc == STEP_DONE)
		mt_merge_result_take(&work->result, work->executor);
	if (rc == STEP_DONE && mt_merge_by_recipe_is_on(work)) {
		sm_move(&merge->sm, MERGE_VERIFYING);
		mt_merge_by_recipe_verify(merge);
		return STEP_DONE;
	}
	merge_commit(merge, rc);
	return STEP_AGAIN;
}

/* The stage is executed once more. */
static void
merge_by_plan(struct mt_merge *merge)
{
	mt_merge_by_recipe_end(merge);
	mt_merge_by_away_end(merge);
	mt_merge_stage_again(merge);
	merge_next_stage(merge);
}

static void
merge_refuse(struct mt_merge *merge)
{
	metric_add(&merge->shard->port->metrics[MT_METRIC_merges_refused], 1);
	merge_by_plan(merge);
}

/* Nobody who executes a recipe is believed (I13): what is not as it should be is made anew, by the plan. */
static void
merge_verifying_step(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	int rc = mt_merge_by_recipe_verify_step(work);

	assert(merge->sm.state == MERGE_VERIFYING);
	if (rc == STEP_DONE) {
		merge_commit(merge, rc);
	} else if (rc < 0) {
		mt_merge_result_release(&work->result, merge->shard);
		merge_refuse(merge);
	}
}

/* Until nothing of the guest's is out. */
static void
merge_recalling_step(struct mt_merge *merge)
{
	assert(merge->sm.state == MERGE_RECALLING);
	if (mt_merge_exec_is_quiet(merge_work_of(merge)->executor))
		merge_refuse(merge);
}

/* Another gateway executes the stage, or will not: what is left of it is executed here. */
static void
merge_away_step(struct mt_merge *merge)
{
	int rc = mt_merge_by_away_step(merge);

	assert(merge->sm.state == MERGE_AWAY);
	if (rc == STEP_DONE) {
		merge_commit(merge, rc);
	} else if (rc < 0 && mt_merge_stage_rest(merge, rc)) {
		(void)merge_next_window(merge);
		mt_merge_work_wait(merge_work_of(merge), 0);
	} else if (rc < 0) {
		merge_by_plan(merge);
	}
}

/* STEP_DONE: it is in another state, whose step may follow at once. STEP_AGAIN: it waits, or has ended. */
static int
merge_step(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	int rc = STEP_AGAIN;

	assert(work->merge == merge);
	switch ((enum mt_merge_state)merge->sm.state) {
	case MERGE_FETCHING:
		rc = mt_merge_fetch_step(work->executor);
		if (rc == STEP_DONE) {
			mt_merge_store_begin(work->executor);
			sm_move(&merge->sm, MERGE_STORING);
		}
		break;
	case MERGE_STORING:
		rc = merge_storing_step(merge);
		break;
	case MERGE_PAUSING:
		if (!work->timer.is_active)
			rc = merge_next_window(merge);
		break;
	case MERGE_ENDING:
		rc = merge_ending_step(merge);
		break;
	case MERGE_AWAY:
		merge_away_step(merge);
		break;
	case MERGE_VERIFYING:
		merge_verifying_step(merge);
		break;
	case MERGE_RECALLING:
		merge_recalling_step(merge);
		break;
	case MERGE_FAILED:
		merge_try_finish_failed(merge);
		break;
	default: /* LOADING, COMMITTING: they are told */
		break;
	}
	return rc;
}

/* On, as far as it goes in this turn of the loop. */
static void
merge_pump(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	const struct mt_shard *shard = merge->shard;
	int rc;

	CHECK_OBJ(merge, MERGE_MAGIC);
	assert(work->merge == merge);
	if (mt_merge_is_hoping(merge))
		mt_run_writer_retry(&work->executor->writer);
	mt_merge_suspects_take(work->executor, shard);
	do {
		rc = merge_step(merge);
		mt_merge_suspects_take(work->executor, shard);
		if (work->executor->turn.again_ns != TURN_NEVER)
			mt_merge_work_wait(work, work->executor->turn.again_ns);
		work->executor->turn.again_ns = TURN_NEVER;
		if (rc < 0)
			merge_break_off(merge, rc);
	} while (rc != STEP_AGAIN);
	if (work->merge == merge)
		mt_merge_next_turn(merge);
}

static void
merge_committed(struct mt_merge *merge, int rc)
{
	assert(merge->sm.state == MERGE_COMMITTING);
	assert(merge_work_of(merge)->executor->out_count == 0);
	if (rc < 0)
		merge_fail(merge, rc);
	else if (merge->is_last_stage)
		merge_done(merge);
	else
		merge_stage_done(merge);
}

void
mt_merge_notify(struct mt_merge *merge, int rc)
{
	CHECK_OBJ(merge, MERGE_MAGIC);
	assert(merge_work_of(merge)->merge == merge);
	if (merge->sm.state == MERGE_COMMITTING) {
		merge_committed(merge, rc); /* nothing else of it is out */
		return;
	}
	if (rc < 0)
		merge_break_off(merge, rc);
	merge_pump(merge);
}

/* ---- the beginning ---- */

static void
merge_on_executed(int rc, void *arg)
{
	mt_merge_notify(arg, rc);
}

static void
merge_plan(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_task task;

	assert(merge->waiting_count == 0);
	mt_merge_plan_make(&work->plan);
	mt_merge_stage_plan(merge);
	task = mt_merge_input_task(merge);
	mt_merge_exec_begin(&work->exec, merge->shard, &task, merge_on_executed, merge);
	merge_next_stage(merge);
}

void
mt_merge_on_loads(struct mt_merge *merge, int rc)
{
	CHECK_OBJ(merge, MERGE_MAGIC);
	assert(merge->sm.state == MERGE_LOADING);
	if (rc == 0)
		merge_plan(merge);
	else
		merge_fail(merge, rc);
}

/* The merge's turn: the indexes of its runs, those that are there at once. */
static void
merge_begin(struct mt_merge *merge)
{
	assert(merge_work_of(merge)->executor->out_count == 0);
	sm_move(&merge->sm, MERGE_LOADING);
	mt_merge_input_take(merge);
	if (mt_merge_load_begin(merge) == 0)
		merge_plan(merge);
}

/* ---- the shard's end ---- */

void
mt_merge_stop(struct mt_shard *shard)
{
	struct merge_work *work = shard->port->merge_work;
	struct loop_link *link, *next;

	if (work == NULL)
		return;
	LIST_FOREACH_SAFE(&work->queue, link, next) {
		struct mt_merge *merge = LIST_ENTRY(link, struct mt_merge, link);

		if (merge->shard == shard)
			merge_fail(merge, -ECANCELED);
	}
	if (work->merge != NULL && work->merge->shard == shard)
		merge_fail(work->merge, -ECANCELED);
}
