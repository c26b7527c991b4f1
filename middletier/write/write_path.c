/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_path.c -- a write message, from its arrival to its answer
 *
 *	           room in a batch, inline engine
 *	PARKED ----------------------------------------> BATCHED -----> FREE (answered)
 *	   \    engine thread                               ^    \        ^
 *	    +-------------------> STORING ----> STORED -----+     '> HELD-'  a snapshot is being taken
 *
 * A write is PARKED while the shard does not serve, no batch has room, or no index entry can be
 * promised. They wait in two lines, a shard at a time: those of latency class volumes are admitted
 * ahead of the others (but one of these after each WRITE_AHEAD_MAX of those), and while there is any
 * room at all (write_room.c). From there on order is that of admission, which is the log's: it makes
 * replay, re-sending and batching simple.
 *
 * No write overtakes one that it overlaps. Which line is the volume's class, as its session has it from
 * its beginning to its end: all writes of a session are in one line, and so admitted in order of
 * arrival (I11). Blocks belong to one volume, this has one writing session, and a newer one gets in
 * when the last write of the older has ended. So what is overtaken is of another volume. Nor do
 * snapshots mind: neither of the two is answered, so neither was before the other (I5); a cut closes
 * the open batch, and sees as before what was admitted until then.
 *
 * A latency class write is compressed by nobody, is ahead of others in the engines' queue, and cuts
 * their turn short (write_turn.c). It goes into its neighbours' batch, and waits for their jobs alone.
 *
 * With an inline engine the job runs straight into the batch's place in the ring; with threads into a
 * scratch buffer, whence a second one copies it in order. A batch is not sent before its copies end.
 *
 * The payload is never looked at here (I1): the engine says how long the record is and what its CRCs
 * are. Nothing is allocated for a request: there is an mt_write for each receive of the port's pool, from
 * the beginning of a life of the shard to its end.
 */
#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
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
#include "common/turn.h"
#include "extent/extent.h"
#include "index/index.h"
#include "session/session.h"
#include "write/cut.h"
#include "write/log_roll.h"
#include "write/policy.h"
#include "write/write_answer.h"
#include "write/write_batch.h"
#include "write/write_job.h"
#include "write/write_path.h"
#include "write/write_record.h"
#include "write/write_room.h"
#include "write/write_turn.h"

#define WRITE_STATE_MAGIC 0x54535257u /* "WRST" */
#define WRITE_AHEAD_MAX 16u

static const struct sm_state write_table[WRITE_STATE_NR] = {
	[WRITE_FREE] = { "free", SM_TO(WRITE_PARKED), SM_INITIAL },
	[WRITE_PARKED] = { "parked",
	    SM_TO(WRITE_STORING) | SM_TO(WRITE_STORED) | SM_TO(WRITE_BATCHED) | SM_TO(WRITE_FREE),
	    0 },
	[WRITE_STORING] = { "storing", SM_TO(WRITE_STORED), 0 },
	[WRITE_STORED] = { "stored", SM_TO(WRITE_BATCHED) | SM_TO(WRITE_FREE), 0 },
	[WRITE_BATCHED] = { "batched", SM_TO(WRITE_FREE) | SM_TO(WRITE_HELD), 0 },
	[WRITE_HELD] = { "held", SM_TO(WRITE_FREE), 0 },
};

/* ---- inline engines ---- */

/* False: no room, @write stays where it is. */
static bool
write_store_inline(struct mt_write_state *state, struct mt_write *write)
{
	struct engine_job *job = &state->jobs.inline_job;
	struct write_batch *batch =
	    mt_write_batch_room(state, mt_write_stored_bytes_max(write), write_block_count(write));
	struct record_desc record;
	int rc;

	assert(write->sm.state == WRITE_PARKED);
	assert(write->is_promised); /* a durable write must find its place in the index */
	if (batch == NULL)
		return false;
	rc = mt_write_job_store_inline(state, write, mt_write_batch_payload(batch));
	mt_write_turn_take(state, write);
	if (rc != 0) {
		mt_write_finish(state, write, rc);
		return true;
	}
	mt_policy_learn(&write->session->volume, write->session->autos, write->io.service_class,
	    job);
	mt_write_fill_record(write, job, &record);
	mt_write_batch_add(batch, write, &record);
	return true;
}

/* ---- engine threads ---- */

static void
write_on_stored(struct engine_job *engine_job, void *arg)
{
	struct write_job *job = arg;
	struct mt_write_state *state = job->state;
	struct mt_write *write = job->write;

	(void)engine_job;
	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	assert(write->sm.state == WRITE_STORING);
	assert(write->job == job);
	write->stamps.stored_ns = loop_now_ns(state->shard->port->loop);
	sm_move(&write->sm, WRITE_STORED);
	if (state->is_stopped)
		mt_write_finish(state, write, state->stop_rc);
	else
		write_pump_soon(state);
}

/* False: no job or no room in the engine's queue, @write stays where it is. */
static bool
write_store_threaded(struct mt_write_state *state, struct mt_write *write)
{
	int rc = mt_write_job_store(state, write, write_on_stored);

	assert(write->sm.state == WRITE_PARKED);
	assert(write->is_promised);
	if (rc == -ENOBUFS)
		return false;
	if (rc != 0) {
		mt_write_finish(state, write, rc);
		return true;
	}
	list_remove(&write->link);
	list_push_back(&state->storing, &write->link);
	sm_move(&write->sm, WRITE_STORING);
	return true;
}

static void
write_on_copied(struct engine_job *engine_job, void *arg)
{
	struct write_job *job = arg;
	struct mt_write_state *state = job->state;
	struct write_batch *batch = job->batch;

	(void)engine_job;
	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	assert(job->job.rc == 0); /* there is nothing in a copy that could fail */
	assert(batch->copy_count > 0);
	mt_write_job_free(state, job);
	mt_write_batch_copied(batch);
}

/* The record in @write's scratch goes into @batch; its job is the copy's from here on. */
static bool
write_copy(struct mt_write_state *state, struct mt_write *write, struct write_batch *batch)
{
	struct write_job *job = write->job;
	struct record_desc record;
	int rc;

	assert(write->sm.state == WRITE_STORED);
	assert(job->write == write);
	/* The first job's results stay in the job until the copy runs. */
	mt_write_fill_record(write, &job->job, &record);
	if (record.stored_bytes == 0) {
		mt_write_job_free(state, job);
		write->job = NULL;
		mt_write_batch_add(batch, write, &record);
		return true;
	}
	rc = mt_write_job_copy(state, job, mt_write_batch_payload(batch), record.stored_bytes,
	    write_on_copied);
	if (rc != 0) {
		assert(rc == -ENOBUFS);
		return false;
	}
	job->write = NULL;
	job->batch = batch;
	write->job = NULL;
	batch->copy_count++;
	mt_write_batch_add(batch, write, &record);
	return true;
}

/* ---- in order ---- */

static bool
write_add_tombstone(struct mt_write_state *state, struct mt_write *write)
{
	struct write_batch *batch = mt_write_batch_room(state, 0, 0);
	struct record_desc record;

	assert(!write_has_payload(write));
	if (batch == NULL)
		return false;
	mt_write_fill_tombstone(write, &record);
	mt_write_batch_add(batch, write, &record);
	return true;
}

/* From `storing` into batches: those at the front that engines are done with. */
static void
write_collect(struct mt_write_state *state)
{
	struct loop_link *link;

	while ((link = list_first(&state->storing)) != NULL) {
		struct mt_write *write = write_of(link);
		struct write_batch *batch;
		int rc;

		if (write->sm.state != WRITE_STORED)
			return;
		if (write->job == NULL) {
			if (!write_add_tombstone(state, write))
				return;
			continue;
		}
		rc = mt_write_job_rc(state, write, write->job->job.rc);
		if (rc != 0) {
			mt_write_finish(state, write, rc);
			continue;
		}
		mt_policy_learn(&write->session->volume, write->session->autos,
		    write->io.service_class, &write->job->job);
		batch =
		    mt_write_batch_room(state, write->job->job.dst_bytes, write_block_count(write));
		if (batch == NULL || !write_copy(state, write, batch))
			return;
	}
}

/* False: it has to wait. */
static bool
write_admit_one(struct mt_write_state *state, struct mt_write *write)
{
	int rc;

	assert(write->sm.state == WRITE_PARKED);
	assert(state->is_started);
	assert(!state->is_stopped);
	if (mt_write_is_needless(state, write)) {
		metric_add(&state->shard->port->metrics[MT_METRIC_hole_discards], 1);
		mt_write_finish(state, write,
		    mt_session_may_write(write->session) ? 0 : -ESHUTDOWN);
		return true;
	}
	rc = mt_write_check(state, write);
	if (rc == -EAGAIN)
		return false;
	/* A write whose session went while it waited is dropped: a newer session may have written elsewhere (I11). */
	if (!mt_session_may_write(write->session))
		rc = -ESHUTDOWN;
	if (rc == 0 && !write->is_promised) {
		/* A durable write must find its place in the index. */
		rc = mt_index_promise(state->shard->block_index, write->io.segment,
		    write_block(write), write_block_count(write));
		write->is_promised = rc == 0;
	}
	if (rc != 0) {
		mt_write_finish(state, write, rc);
		return true;
	}
	if (mt_write_is_inline(state))
		return write_has_payload(write) ? write_store_inline(state, write)
						: write_add_tombstone(state, write);
	if (write_has_payload(write))
		return write_store_threaded(state, write);
	list_remove(&write->link);
	list_push_back(&state->storing, &write->link);
	sm_move(&write->sm, WRITE_STORED);
	return true;
}

/* False: there is none in this line, or it has to wait. */
static bool
write_admit_from(struct mt_write_state *state, enum write_line line)
{
	struct loop_link *link = list_first(&state->parked[line]);

	assert(line < WRITE_LINE_NR);
	if (link == NULL || !write_admit_one(state, write_of(link)))
		return false;
	state->ahead_count = line == WRITE_LINE_AHEAD ? state->ahead_count + 1 : 0;
	return true;
}

static void
write_admit(struct mt_write_state *state)
{
	bool has_gone = state->is_started;

	state->turn.is_over = false;
	while (has_gone && !state->is_stopped) {
		bool is_others = state->ahead_count >= WRITE_AHEAD_MAX;

		has_gone = (is_others && write_admit_from(state, WRITE_LINE_OTHERS)) ||
		    write_admit_from(state, WRITE_LINE_AHEAD) ||
		    (!is_others && write_admit_from(state, WRITE_LINE_OTHERS));
	}
}

static void
write_on_pump(struct loop_task *task, void *arg)
{
	struct mt_write_state *state = arg;

	(void)task;
	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	if (!state->is_started || state->is_stopped)
		return;
	do {
		write_collect(state);
		write_admit(state);
		write_collect(state); /* tombstones */
	} while (!state->is_stopped && mt_write_batches_send(state));
	if (!state->is_stopped)
		mt_log_roll_step(state);
}

void
mt_write_path_kick(struct mt_shard *shard)
{
	if (write_is_any_parked(shard->write) || !list_is_empty(&shard->write->storing))
		write_pump_soon(shard->write);
}

static void
write_on_retry(struct loop_timer *timer, void *arg)
{
	(void)timer;
	write_pump_soon(arg);
}

void
mt_write(struct mt_shard *shard, struct mt_session *session, struct split_msg *msg,
    const struct wire_io *io)
{
	struct mt_write_state *state = shard->write;
	struct loop_link *link = list_pop_front(&state->free_writes);
	struct mt_write *write;

	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	assert(link != NULL); /* one for each receive of the pool, and @msg is one of these */
	assert(session->port == shard->port);
	assert(io->opcode == WIRE_WRITE || io->opcode == WIRE_DISCARD ||
	    io->opcode == WIRE_WRITE_ZEROES);
	assert(io->length_bytes > 0);
	assert(io->length_bytes % CLEAVE_BLOCK_BYTES == 0);
	write = write_of(link);
	write->session = session;
	write->msg = msg;
	write->io = *io;
	write->stamps = (struct mt_write_stamps){ .taken_ns = loop_now_ns(shard->port->loop) };
	write->stored_bytes = 0;
	write->is_short = write->is_pinned = false;
	sm_move(&write->sm, WRITE_PARKED);
	list_push_back(&state->parked[write_line_of(write)], &write->link);
	mt_turn_on_ahead(shard->port, session->volume.service_class);
	if (state->is_stopped) {
		mt_write_finish(state, write, -EREMCHG);
		return;
	}
	write_admit(state);
	write_pump_soon(state);
}

/* ---- the shard's life ---- */

static int
write_table_take(struct mt_write_state *state)
{
	uint32_t count = state->shard->port->receive_count;

	assert(count > 0 && list_is_empty(&state->free_writes));
	state->writes = mt_calloc(count, sizeof(*state->writes));
	if (state->writes == NULL)
		return -ENOMEM;
	state->write_max = count;
	for (uint32_t i = 0; i < state->write_max; i++) {
		state->writes[i].magic = WRITE_MAGIC;
		sm_init(&state->writes[i].sm, "write", write_table, WRITE_FREE, i);
		list_push_back(&state->free_writes, &state->writes[i].link);
	}
	return 0;
}

int
mt_write_path_init(struct mt_shard *shard)
{
	struct mt_write_state *state = mt_calloc(1, sizeof(*state));

	assert(shard->write == NULL);
	if (state == NULL)
		return -ENOMEM;
	state->magic = WRITE_STATE_MAGIC;
	state->shard = shard;
	shard->write = state;
	list_init(&state->free_writes);
	for (uint32_t i = 0; i < WRITE_LINE_NR; i++)
		list_init(&state->parked[i]);
	list_init(&state->storing);
	list_init(&state->held);
	loop_task_init(&state->pump_task, write_on_pump, state);
	loop_timer_init(&state->retry_timer, write_on_retry, state);
	mt_log_roll_init(state);
	mt_write_turn_init(state);
	mt_cut_init(shard);
	mt_write_batches_init(state);
	mt_write_jobs_init(state);
	return 0;
}

int
mt_write_path_take(struct mt_shard *shard)
{
	struct mt_write_state *state = shard->write;
	int rc;

	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	assert(shard->ring != NULL && state->writes == NULL);
	rc = mt_write_batches_take(state);
	if (rc == 0)
		rc = write_table_take(state);
	if (rc == 0)
		rc = mt_write_jobs_take(state);
	if (rc != 0)
		mt_write_path_give(shard);
	return rc;
}

void
mt_write_path_give(struct mt_shard *shard)
{
	struct mt_write_state *state = shard->write;

	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	mt_write_batches_give(state);
	mt_write_jobs_give(state);
	mt_free(state->writes);
	state->writes = NULL;
	state->write_max = 0;
	list_init(&state->free_writes);
}

void
mt_write_path_fini(struct mt_shard *shard)
{
	struct mt_write_state *state = shard->write;

	if (state == NULL)
		return;
	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	mt_log_roll_fini(state);
	mt_extent_requests_fini(shard);
	mt_write_turn_fini(state);
	loop_timer_stop(shard->port->loop, &state->retry_timer);
	loop_task_cancel(shard->port->loop, &state->pump_task);
	mt_write_path_give(shard);
	state->magic = 0;
	mt_free(state);
	shard->write = NULL;
}

void
mt_write_path_claimed(struct mt_shard *shard)
{
	struct mt_write_state *state = shard->write;
	struct loop_link *link, *next;

	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	assert(!state->is_started);
	assert(list_is_empty(&state->storing));
	for (uint32_t i = 0; i < WRITE_LINE_NR; i++) {
		LIST_FOREACH_SAFE(&state->parked[i], link, next) {
			struct mt_write *write = write_of(link);

			if (write->io.epoch != shard->epoch)
				mt_write_finish(state, write, -ESTALE);
		}
	}
}

void
mt_write_path_drop(struct mt_shard *shard, const struct mt_session *session)
{
	struct mt_write_state *state = shard->write;
	struct loop_link *link, *next;

	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	assert(session->port == shard->port);
	for (uint32_t i = 0; i < WRITE_LINE_NR; i++) {
		LIST_FOREACH_SAFE(&state->parked[i], link, next) {
			struct mt_write *write = write_of(link);

			if (write->session == session)
				mt_write_finish(state, write, -ESHUTDOWN);
		}
	}
}

bool
mt_write_path_is_quiet(const struct mt_shard *shard)
{
	const struct mt_write_state *state = shard->write;

	if (!state->is_stopped || write_is_any_parked(state) || !list_is_empty(&state->held) ||
	    !list_is_empty(&state->storing) || state->roll.spare != NULL)
		return false;
	for (uint32_t i = 0; i < WRITE_BATCHES_MAX; i++) {
		if (state->batches[i].sm.state != WRITE_BATCH_FREE)
			return false;
	}
	return mt_write_jobs_are_free(state);
}

void
mt_write_path_reset(struct mt_shard *shard)
{
	struct mt_write_state *state = shard->write;

	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	assert(mt_write_path_is_quiet(shard));
	assert(list_is_empty(&state->ready));
	loop_task_cancel(shard->port->loop, &state->pump_task);
	state->is_started = state->is_stopped = false;
	state->stop_rc = 0;
	state->batch_bytes_max = 0;
	mt_log_roll_fini(state);
	mt_log_roll_init(state);
}

void
mt_write_path_start(struct mt_shard *shard)
{
	struct mt_write_state *state = shard->write;

	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	if (state->is_stopped)
		return;
	assert(!state->is_started);
	state->is_started = true;
	mt_log_roll_start(state);
	write_pump_soon(state);
}

void
mt_write_path_stop(struct mt_shard *shard, int rc)
{
	struct mt_write_state *state = shard->write;

	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	assert(rc < 0);
	if (state->is_stopped)
		return;
	state->is_stopped = true;
	/* Whatever is wrong here, it says nothing about the request: another owner may do it. */
	state->stop_rc = rc == -ECANCELED ? rc : -EREMCHG;
	loop_timer_stop(shard->port->loop, &state->retry_timer);
	mt_log_roll_stop(state);
	mt_write_release_held(state, state->stop_rc);
	mt_write_fail_parked(state, state->stop_rc);
	mt_write_batches_fail(state, state->stop_rc);
}

uint64_t
mt_write_path_tend(struct mt_shard *shard, uint32_t domain_count)
{
	return mt_log_roll_tend(shard->write, domain_count);
}

void
mt_write_path_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up)
{
	struct mt_write_state *state = shard->write;

	CHECK_OBJ(state, WRITE_STATE_MAGIC);
	if (!state->is_stopped)
		mt_log_roll_on_link(state, link, is_up);
}
