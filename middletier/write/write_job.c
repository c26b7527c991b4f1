/* SPDX-License-Identifier: Apache-2.0 */
/* write_job.c -- see write_job.h */
#include "write/write_job.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/envelope.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "index/ring.h"
#include "merge/pace.h"
#include "merge/reclaim_room.h"
#include "session/session.h"
#include "write/policy.h"
#include "write/write_path.h"

#define WRITE_ENGINE_RETRY_NS NUM_MS(1) /* after "queue full", which other shards may cause */

/* ---- a set's kind ---- */

static void
job_on_probe(struct engine_job *job, void *arg)
{
	(void)job;
	(void)arg;
}

/* Inline or threads? The set does not say, so a job of no consequence is tried. */
static bool
engine_is_inline(struct mt_write_state *state)
{
	struct mt_port *port = state->shard->port;
	struct engine_job *job = &state->jobs.inline_job;

	*job = (struct engine_job){ .kind = ENGINE_JOB_CRC,
		.src = port->zero_page,
		.src_bytes = CLEAVE_BLOCK_BYTES,
		.fn = job_on_probe };
	return engine_submit(port->engines, job) == 1;
}

void
mt_write_jobs_init(struct mt_write_state *state)
{
	list_init(&state->jobs.free);
	state->jobs.is_inline = engine_is_inline(state);
}

int
mt_write_jobs_take(struct mt_write_state *state)
{
	struct write_jobs *jobs = &state->jobs;
	struct mt_ring *ring = state->shard->ring;
	uint32_t count = ring->size_bytes < WRITE_RING_SMALL_BYTES ? WRITE_JOBS_SMALL
								   : WRITE_JOBS_MAX;
	dev_ptr scratch;

	assert(jobs->all == NULL);
	if (jobs->is_inline)
		return 0;
	jobs->all = mt_calloc(count, sizeof(*jobs->all));
	if (jobs->all == NULL)
		return -ENOMEM;
	jobs->count = count;
	scratch = mt_ring_give(ring,
	    num_round_up((uint64_t)count * WRITE_JOB_SCRATCH_BYTES, CLEAVE_BLOCK_BYTES));
	for (uint32_t i = 0; i < count; i++) {
		struct write_job *job = &jobs->all[i];

		job->state = state;
		job->job.arg = job;
		job->scratch = dev_ptr_add(scratch, (uint64_t)i * WRITE_JOB_SCRATCH_BYTES);
		list_push_back(&jobs->free, &job->link);
	}
	return 0;
}

void
mt_write_jobs_give(struct mt_write_state *state)
{
	mt_free(state->jobs.all);
	state->jobs.all = NULL;
	state->jobs.count = 0;
	list_init(&state->jobs.free);
}

bool
mt_write_jobs_are_free(const struct mt_write_state *state)
{
	for (uint32_t i = 0; i < state->jobs.count; i++) {
		const struct write_job *job = &state->jobs.all[i];

		assert(job->write == NULL || job->batch == NULL);
		if (job->write != NULL || job->batch != NULL)
			return false;
	}
	return true;
}

bool
mt_write_is_inline(const struct mt_write_state *state)
{
	return state->jobs.is_inline;
}

/* ---- jobs ---- */

/* The key, the counter and the place of an encrypted volume's record. 0; -EIO: there are no random bytes. */
static int
job_fill_envelope(const struct mt_write_state *state, const struct mt_write *write,
    struct engine_job *job)
{
	uint32_t key_id = write->session->volume.key_id;
	bool is_kept = MUTANT(counter_kept) && job->envelope.key_id == key_id;

	job->envelope.key_id = key_id;
	if (key_id == 0)
		return 0;
	job->envelope.segment = write->io.segment;
	job->envelope.block = write_block(write);
	job->dst_cap_bytes += ENGINE_ENVELOPE_BYTES(write_block_count(write));
	return is_kept ? 0 : envelope_draw(&state->shard->port->envelopes, &job->envelope);
}

/* Has the shard's log become long? Asked for volumes without a codec alone. */
static bool
job_is_pressed(const struct mt_write_state *state, const struct mt_volume *volume)
{
	return volume->codec_id == ENGINE_NONE &&
	    mt_reclaim_pressure(state->shard, 0) >= PACE_COMPRESS;
}

static int
job_fill_store(const struct mt_write_state *state, const struct mt_write *write,
    struct engine_job *job, bool *ret_is_urgent)
{
	const struct mt_volume *volume = &write->session->volume;
	struct mt_policy policy = mt_policy_pick(state->shard->port, volume, write->session->autos,
	    write->io.service_class, job_is_pressed(state, volume));

	assert(write_has_payload(write));
	assert(write_block_count(write) <= ENGINE_RECORD_BLOCKS_MAX);
	job->kind = ENGINE_JOB_STORE;
	job->codec_id = policy.codec_id;
	job->level = policy.level;
	job->probe = policy.probe;
	job->must_time = policy.is_auto;
	job->src = write->msg->payload;
	job->src_bytes = write->io.length_bytes;
	job->dst_cap_bytes = write->io.length_bytes;
	job->payload_crc = write->io.payload_crc;
	job->block_count = (uint8_t)write_block_count(write);
	*ret_is_urgent = policy.is_urgent;
	return job_fill_envelope(state, write, job);
}

uint32_t
mt_write_stored_bytes_max(const struct mt_write *write)
{
	uint32_t bytes = write->io.length_bytes;

	assert(write_has_payload(write));
	return write->session->volume.key_id == 0
	    ? bytes
	    : bytes + ENGINE_ENVELOPE_BYTES(write_block_count(write));
}

int
mt_write_job_rc(const struct mt_write_state *state, const struct mt_write *write, int rc)
{
	const struct mt_volume *volume = &write->session->volume;

	assert(rc <= 0);
	if (rc == -ENOKEY) {
		log_limited(LOG_WARN,
		    "write: the volume's data key is not here, its writes are refused volume=%" PRIu64
		    " name=%s key=%" PRIu32 ": give this gateway the --kek that wraps it",
		    volume->id, volume->name, volume->key_id);
		return -ENOMEDIUM; /* -ENOKEY is a right's */
	}
	if (rc == -EBADMSG) {
		metric_add(&state->shard->port->metrics[MT_METRIC_payload_crc_errors], 1);
		return -EBADMSG;
	}
	return rc == 0 ? 0 : -EIO;
}

int
mt_write_job_store_inline(struct mt_write_state *state, struct mt_write *write, dev_ptr dst)
{
	struct mt_port *port = state->shard->port;
	struct engine_job *job = &state->jobs.inline_job;
	bool is_urgent;
	uint64_t begin_ns;
	int rc;

	assert(mt_write_is_inline(state));
	rc = job_fill_store(state, write, job, &is_urgent);
	if (rc != 0)
		return mt_write_job_rc(state, write, rc);
	job->dst = dst;
	begin_ns = loop_now_fresh_ns(port->loop);
	rc = engine_submit(port->engines, job);
	write->stamps.started_ns = begin_ns;
	write->stamps.stored_ns = loop_now_fresh_ns(port->loop);
	job->run_ns = write->stamps.stored_ns - begin_ns;
	metric_add(&port->metrics[MT_METRIC_engine_ns], job->run_ns);
	assert(rc != 0); /* an inline set never calls back */
	return mt_write_job_rc(state, write, rc == 1 ? job->rc : rc);
}

/* 0, or why the job was not taken; -ENOBUFS is looked at again soon. */
static int
job_submit(struct mt_write_state *state, struct write_job *job, bool is_urgent)
{
	struct mt_port *port = state->shard->port;
	int rc = is_urgent ? engine_submit_urgent(port->engines, &job->job)
			   : engine_submit(port->engines, &job->job);

	assert(rc <= 0); /* a set with threads is never done at once */
	if (rc == -ENOBUFS)
		loop_timer_start(port->loop, &state->retry_timer, WRITE_ENGINE_RETRY_NS);
	return rc;
}

int
mt_write_job_store(struct mt_write_state *state, struct mt_write *write, mt_write_job_fn fn)
{
	struct loop_link *link = list_first(&state->jobs.free);
	struct write_job *job;
	bool is_urgent;
	int rc;

	assert(!mt_write_is_inline(state));
	assert(write->job == NULL);
	if (link == NULL)
		return -ENOBUFS;
	job = LIST_ENTRY(link, struct write_job, link);
	rc = job_fill_store(state, write, &job->job, &is_urgent);
	if (rc != 0)
		return mt_write_job_rc(state, write, rc);
	job->job.dst = job->scratch;
	job->job.fn = fn;
	rc = job_submit(state, job, is_urgent);
	if (rc != 0)
		return rc == -ENOBUFS ? rc : mt_write_job_rc(state, write, rc);
	list_remove(&job->link);
	job->write = write;
	write->job = job;
	write->stamps.started_ns = loop_now_ns(state->shard->port->loop);
	return 0;
}

int
mt_write_job_copy(struct mt_write_state *state, struct write_job *job, dev_ptr dst, uint32_t bytes,
    mt_write_job_fn fn)
{
	assert(job->write != NULL);
	assert(bytes > 0);
	assert(bytes <= ENGINE_STORED_BYTES_MAX);
	job->job.kind = ENGINE_JOB_COPY;
	job->job.src = job->scratch;
	job->job.src_bytes = bytes;
	job->job.dst = dst;
	job->job.dst_cap_bytes = bytes;
	job->job.fn = fn;
	return job_submit(state, job, true);
}

void
mt_write_job_free(struct mt_write_state *state, struct write_job *job)
{
	assert(job->state == state);
	assert(job->write != NULL || job->batch != NULL); /* it is not free yet */
	job->write = NULL;
	job->batch = NULL;
	list_push_back(&state->jobs.free, &job->link);
}
