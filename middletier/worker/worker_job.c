/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_job.c -- a job: another gateway's recipe, from its bytes to what has come of it
 *
 *	        the first part            the last                 a window is there
 *	FREE ----------------> TAKING ------------> FETCHING <---------------------> STORING --> ENDING --> TELLING --> FREE
 *	  ^                       |                    |   ^                          |  |         |          ^
 *	  |  refused, given up    |                    |   +---- PAUSING <------------+  |         |          |
 *	  +-----------------------+                    +---------> ABORTING <------------+---------+          |
 *	                                 failed, late, its owner has gone  | nothing is out any more          |
 *	                                                                   +----------------------------------+
 *
 * It is what merge.c does with a stage, less all that decides: windows come from the recipe, and whatever cannot be done
 * is the end. The recipe says how pressed its owner is: engine jobs in a turn of the loop, READs at a time, windows and the
 * pauses between them, while clients of this gateway write, are those of a merge here that is as pressed (merge_pace.h).
 */
#include "worker/worker_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/settings.h"
#include "extent/extent.h"
#include "merge/merge_exec.h"
#include "merge/merge_fetch.h"
#include "merge/merge_pace.h"
#include "merge/merge_step.h"
#include "merge/merge_store.h"
#include "merge/recipe.h"
#include "merge/run_roll.h"
#include "merge/run_writer.h"

#define WORKER_TAKING_NS NUM_S(10) /* for all parts of a recipe */

static const struct sm_state worker_job_table[WORKER_JOB_STATE_NR] = {
	[WORKER_JOB_FREE] = { "free", SM_TO(WORKER_JOB_TAKING), SM_INITIAL },
	[WORKER_JOB_TAKING] = { "taking", SM_TO(WORKER_JOB_FETCHING) | SM_TO(WORKER_JOB_FREE), 0 },
	[WORKER_JOB_FETCHING] = { "fetching",
	    SM_TO(WORKER_JOB_STORING) | SM_TO(WORKER_JOB_ABORTING), 0 },
	[WORKER_JOB_STORING] = { "storing",
	    SM_TO(WORKER_JOB_FETCHING) | SM_TO(WORKER_JOB_PAUSING) | SM_TO(WORKER_JOB_ENDING) |
		SM_TO(WORKER_JOB_ABORTING),
	    0 },
	[WORKER_JOB_PAUSING] = { "pausing",
	    SM_TO(WORKER_JOB_FETCHING) | SM_TO(WORKER_JOB_ENDING) | SM_TO(WORKER_JOB_ABORTING), 0 },
	[WORKER_JOB_ENDING] = { "ending", SM_TO(WORKER_JOB_TELLING) | SM_TO(WORKER_JOB_ABORTING),
	    0 },
	[WORKER_JOB_ABORTING] = { "aborting", SM_TO(WORKER_JOB_TELLING), 0 },
	[WORKER_JOB_TELLING] = { "telling", SM_TO(WORKER_JOB_FREE), 0 },
};

bool
mt_worker_job_is_at_work(const struct mt_worker_job *job)
{
	return job->sm.state >= WORKER_JOB_FETCHING && job->sm.state <= WORKER_JOB_ABORTING;
}

static void
job_wait(struct mt_worker_job *job, uint64_t ns)
{
	if (!job->timer.is_active || job->timer.due_ns > loop_now_ns(job->port->loop) + ns)
		loop_timer_start(job->port->loop, &job->timer, ns);
}

/* ---- its end ---- */

static void
job_count(const struct mt_worker_job *job)
{
	uint64_t *metrics = job->port->metrics;

	metric_add(&metrics[MT_METRIC_jobs_done], job->rc == 0);
	metric_add(&metrics[MT_METRIC_jobs_failed], job->rc != 0);
	metric_add(&metrics[MT_METRIC_jobs_given_up], job->rc == -ECANCELED);
	metric_add(&metrics[MT_METRIC_jobs_late], job->rc == -ETIMEDOUT);
}

/* The guest's objects go. What it has made is its owner's, who hears where it lies. */
static void
job_end(struct mt_worker_job *job)
{
	struct merge_guest *guest = &job->guest;

	assert(mt_merge_exec_is_quiet(&guest->exec));
	mt_merge_result_release(&job->result, &guest->shard);
	mt_run_writer_release(&guest->exec.writer);
	mt_merge_guest_end(guest);
	loop_timer_stop(job->port->loop, &job->timer);
	loop_timer_stop(job->port->loop, &job->expiry);
	sm_move(&job->sm, WORKER_JOB_TELLING);
	job_count(job);
	job->fn(job);
}

void
mt_worker_job_abort(struct mt_worker_job *job, int rc)
{
	CHECK_OBJ(job, WORKER_JOB_MAGIC);
	assert(rc < 0 && mt_worker_job_is_at_work(job));
	if (job->sm.state == WORKER_JOB_ABORTING)
		return;
	sm_move(&job->sm, WORKER_JOB_ABORTING);
	job->rc = rc;
	log_limited(LOG_INFO,
	    "worker: a job has come to nothing shard=%" PRIu32 " chunk=%" PRIu64 " rc=%s",
	    job->recipe.head.shard, job->recipe.head.chunk, log_errno(rc));
	mt_merge_exec_cancel(&job->guest.exec, rc);
	loop_defer(job->port->loop, &job->task);
}

/* Copies that did not pass, as the recipe names them. */
static void
job_suspects(struct mt_worker_job *job)
{
	struct merge_exec *exec = &job->guest.exec;
	struct mt_told *told = &job->told;

	for (uint32_t i = 0; i < exec->suspect_count; i++) {
		const struct merge_suspect *suspect = &exec->suspects[i];

		for (uint32_t at = 0; at < job->recipe.head.extent_count; at++) {
			struct mt_recipe_extent named = mt_recipe_extent(&job->recipe, at);

			if (extent_id_pack(&named.id) != extent_id_pack(&suspect->id))
				continue;
			for (uint32_t k = 0; k < named.replica_count; k++) {
				if (named.nodes[k] == suspect->node_id &&
				    told->suspect_count < MERGE_SUSPECTS_MAX)
					told->suspects[told->suspect_count++] =
					    (struct mt_told_suspect){ at, k };
			}
		}
	}
	assert(told->suspect_count <= MERGE_SUSPECTS_MAX);
	exec->suspect_count = 0;
}

/* All that it has made is at its replicas. */
static void
job_tell(struct mt_worker_job *job)
{
	uint8_t bytes[TOLD_BYTES_MAX];
	struct mt_told *told = &job->told;

	assert(job->sm.state == WORKER_JOB_ENDING);
	metric_add(&job->port->metrics[MT_METRIC_merge_read_bytes], job->guest.exec.read_bytes);
	metric_add(&job->port->metrics[MT_METRIC_jobs_ns],
	    loop_now_ns(job->port->loop) - job->begun_ns);
	mt_merge_result_take(&job->result, &job->guest.exec);
	*told = (struct mt_told){ .frame_count = job->cursor.frame_at,
		.is_broken = job->guest.shard.run_roll->extent->sm.state != MT_EXTENT_OPEN };
	mt_told_of_result(told, &job->result);
	for (uint32_t i = 0; i < told->part_count; i++)
		metric_add(&job->port->metrics[MT_METRIC_jobs_bytes], told->parts[i].length_bytes);
	job_suspects(job);
	if (job->lie == RECIPE_LIE_CLAIMS && told->part_count > 0)
		told->parts[told->part_count - 1].length_bytes += BATCH_ALIGN;
	if (job->lie == RECIPE_LIE_STOPS)
		told->frame_count--;
	job->told_bytes = mt_told_encode(told, bytes);
	dev_copy_from_host(job->port->split, job->told_memory, bytes, job->told_bytes);
	job_end(job);
}

/* ---- steps ---- */

/* For tests: the last frame is not made, though all that is behind it is said. */
static void
job_leave_out(struct mt_worker_job *job)
{
	bool is_first = job->lie == RECIPE_LIE_LEAVES_OUT;
	bool is_last = job->lie == RECIPE_LIE_STOPS &&
	    job->cursor.frame_at == job->recipe.head.frame_count;

	if ((!is_first && !is_last) || job->guest.exec.window.frame_count == 0)
		return;
	job->guest.exec.window.frame_count--;
	if (is_first)
		job->lie = RECIPE_LIE_NONE;
}

/* The next window, or the one that is there, is fetched; false: there are no blocks left. */
static bool
job_ahead(struct mt_worker_job *job)
{
	struct merge_exec *exec = &job->guest.exec;

	if (exec->is_ahead)
		return true;
	exec->window.block_max = (uint32_t)num_min(exec->block_max,
	    mt_merge_guest_window_blocks(job->port, job->guest.pressure));
	if (!mt_recipe_window(&job->cursor, &exec->window))
		return false;
	job_leave_out(job);
	exec->is_ahead = true;
	mt_merge_fetch_begin(exec);
	return true;
}

static int
job_next_window(struct mt_worker_job *job)
{
	if (job_ahead(job)) {
		sm_move(&job->sm, WORKER_JOB_FETCHING);
		return STEP_AGAIN; /* whatever else this loop has to do goes first */
	}
	assert(job->guest.exec.out_count == 0);
	sm_move(&job->sm, WORKER_JOB_ENDING);
	mt_run_writer_end(&job->guest.exec.writer);
	return STEP_DONE;
}

/* A window has been stored: the next one when it is paid for. */
static int
job_pay(struct mt_worker_job *job)
{
	uint64_t pause_ns = mt_merge_guest_pause_ns(job->port, job->guest.pressure, &job->paid_ns,
	    (uint64_t)job->guest.exec.storing.block_count * CLEAVE_BLOCK_BYTES);

	if (pause_ns == 0)
		return job_next_window(job);
	sm_move(&job->sm, WORKER_JOB_PAUSING);
	loop_timer_start(job->port->loop, &job->timer, pause_ns);
	return STEP_AGAIN;
}

/* A window is stored, and the next one fetched meanwhile. */
static int
job_storing_step(struct mt_worker_job *job)
{
	struct merge_exec *exec = &job->guest.exec;
	int rc = mt_merge_store_step(exec), fetch_rc = 0;

	if (rc == STEP_DONE)
		return job_pay(job);
	if (rc == STEP_AGAIN && job_ahead(job))
		fetch_rc = mt_merge_fetch_step(exec);
	return fetch_rc < 0 ? fetch_rc : rc;
}

static int
job_ending_step(struct mt_worker_job *job)
{
	int rc = mt_run_writer_end_step(&job->guest.exec.writer);

	if (rc != STEP_DONE)
		return rc;
	job_tell(job);
	return STEP_AGAIN;
}

/* STEP_DONE: it is in another state, whose step may follow at once. */
static int
job_step(struct mt_worker_job *job)
{
	struct merge_exec *exec = &job->guest.exec;
	int rc;

	switch ((enum worker_job_state)job->sm.state) {
	case WORKER_JOB_FETCHING:
		rc = mt_merge_fetch_step(exec);
		if (rc == STEP_DONE) {
			mt_merge_store_begin(exec);
			sm_move(&job->sm, WORKER_JOB_STORING);
		}
		return rc;
	case WORKER_JOB_STORING:
		return job_storing_step(job);
	case WORKER_JOB_PAUSING:
		return job->timer.is_active ? STEP_AGAIN : job_next_window(job);
	case WORKER_JOB_ENDING:
		return job_ending_step(job);
	case WORKER_JOB_ABORTING:
		if (mt_merge_exec_is_quiet(exec))
			job_end(job);
		return STEP_AGAIN;
	default:
		return STEP_AGAIN;
	}
}

/* Where nothing comes back that would take it on, the timer does. */
static void
job_next_turn(struct mt_worker_job *job)
{
	const struct merge_exec *exec = &job->guest.exec;
	bool is_spent = turn_is_spent(&exec->turn);

	if (job->sm.state == WORKER_JOB_FETCHING &&
	    (is_spent || (exec->out_count == 0 && !job->timer.is_active)))
		job_wait(job, 0);
	if (job->sm.state == WORKER_JOB_STORING && is_spent)
		job_wait(job, 0);
}

/* On, as far as it goes in this turn of the loop. */
static void
job_pump(struct mt_worker_job *job)
{
	struct merge_turn *turn = &job->guest.exec.turn;
	int rc;

	CHECK_OBJ(job, WORKER_JOB_MAGIC);
	if (!mt_worker_job_is_at_work(job))
		return;
	do {
		rc = job_step(job);
		if (turn->again_ns != TURN_NEVER)
			job_wait(job, turn->again_ns);
		turn->again_ns = TURN_NEVER;
		if (rc < 0)
			mt_worker_job_abort(job, rc);
	} while (rc != STEP_AGAIN);
	job_next_turn(job);
}

/* Something of the executing part came back. */
static void
job_on_executed(int rc, void *arg)
{
	struct mt_worker_job *job = arg;

	CHECK_OBJ(job, WORKER_JOB_MAGIC);
	assert(mt_worker_job_is_at_work(job));
	if (rc < 0)
		mt_worker_job_abort(job, rc);
	job_pump(job);
}

static void
job_on_writer(void *arg)
{
	struct mt_worker_job *job = arg;

	loop_defer(job->port->loop, &job->task);
}

static void
job_on_task(struct loop_task *task, void *arg)
{
	(void)task;
	job_pump(arg);
}

static void
job_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_worker_job *job = arg;

	(void)timer;
	CHECK_OBJ(job, WORKER_JOB_MAGIC);
	mt_merge_guest_turn(job->port, job->guest.pressure, &job->guest.exec.turn);
	job_pump(job);
}

static void
job_on_expiry(struct loop_timer *timer, void *arg)
{
	struct mt_worker_job *job = arg;

	(void)timer;
	CHECK_OBJ(job, WORKER_JOB_MAGIC);
	if (job->sm.state == WORKER_JOB_TAKING)
		mt_worker_job_forget(job);
	else if (mt_worker_job_is_at_work(job))
		mt_worker_job_abort(job, -ETIMEDOUT);
}

/* ---- its beginning ---- */

void
mt_worker_job_begin(struct mt_worker_job *job)
{
	CHECK_OBJ(job, WORKER_JOB_MAGIC);
	sm_move(&job->sm, WORKER_JOB_TAKING);
	loop_timer_start(job->port->loop, &job->expiry, WORKER_TAKING_NS);
}

void
mt_worker_job_forget(struct mt_worker_job *job)
{
	CHECK_OBJ(job, WORKER_JOB_MAGIC);
	assert(job->sm.state == WORKER_JOB_TAKING || job->sm.state == WORKER_JOB_TELLING);
	loop_timer_stop(job->port->loop, &job->expiry);
	job->owner = NULL;
	sm_move(&job->sm, WORKER_JOB_FREE);
}

/* The recipe passes, and says where to append. */
static int
job_decode(struct mt_worker_job *job, const char **ret_field)
{
	int rc = mt_recipe_decode(job->bytes, job->recipe_bytes, &job->recipe, ret_field);

	if (rc != 0)
		return rc;
	*ret_field = "target";
	if (job->recipe.head.target == RECIPE_NO_TARGET)
		return -EBADMSG;
	*ret_field = "frame_count";
	if (job->recipe.head.frame_count == 0)
		return -EBADMSG;
	*ret_field = "key_id"; /* nobody could compare what is encrypted anew */
	return mt_recipe_encrypts(&job->recipe) ? -EBADMSG : 0;
}

int
mt_worker_job_run(struct mt_worker_job *job, const char **ret_field)
{
	int rc = job_decode(job, ret_field);

	assert(job->sm.state == WORKER_JOB_TAKING);
	if (rc == 0)
		rc = mt_merge_guest_begin(&job->guest, &job->recipe, job_on_executed, job);
	if (rc != 0)
		return rc;
	job->guest.exec.writer.claims_all = job->lie == RECIPE_LIE_UNACKED;
	job->guest.exec.is_garbling = job->lie == RECIPE_LIE_GARBLES;
	mt_recipe_cursor_init(&job->cursor, &job->recipe, job->guest.extents);
	job->begun_ns = loop_now_ns(job->port->loop);
	loop_timer_start(job->port->loop, &job->expiry, mt_recipe_deadline_ns(&job->recipe.head));
	sm_move(&job->sm, WORKER_JOB_FETCHING);
	(void)job_ahead(job);
	job_wait(job, 0);
	return 0;
}

/* ---- its life ---- */

int
mt_worker_job_init(struct mt_worker_job *job, struct mt_port *port, uint64_t window_bytes,
    uint32_t job_count, void (*fn)(struct mt_worker_job *job))
{
	int rc;

	assert(job_count > 0);
	job->magic = WORKER_JOB_MAGIC;
	job->port = port;
	job->fn = fn;
	sm_init(&job->sm, "worker_job", worker_job_table, WORKER_JOB_FREE, port->index);
	loop_task_init(&job->task, job_on_task, job);
	loop_timer_init(&job->timer, job_on_timer, job);
	loop_timer_init(&job->expiry, job_on_expiry, job);
	job->bytes = mt_calloc(1, RECIPE_BYTES_MAX);
	job->told_memory = dev_alloc(port->split, TOLD_BYTES_MAX);
	if (job->bytes == NULL || dev_ptr_is_null(job->told_memory))
		return -ENOMEM;
	rc = mt_merge_guest_init(&job->guest, port, window_bytes, job_on_writer, job);
	/* Replies to all of them together take no more of the port's receives than a merge's. */
	job->guest.exec.read_max = (uint32_t)num_max(1, job->guest.exec.read_max / job_count);
	return rc;
}

void
mt_worker_job_fini(struct mt_worker_job *job)
{
	if (job->magic == 0)
		return;
	loop_timer_stop(job->port->loop, &job->timer);
	loop_timer_stop(job->port->loop, &job->expiry);
	loop_task_cancel(job->port->loop, &job->task);
	mt_merge_result_forget(&job->result);
	mt_merge_guest_end(&job->guest);
	mt_merge_guest_fini(&job->guest);
	/* A port that was closed has taken its arenas along. */
	if (!dev_ptr_is_null(job->told_memory) && job->port->split != NULL)
		dev_free(job->port->split, job->told_memory);
	mt_free(job->bytes);
	*job = (struct mt_worker_job){ 0 };
}
