/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c -- a port's jobs: which there are, whose, and what becomes of them
 *
 * A job is found by its owner and that one's number for it. Whose owner goes, and what is given up, ends; its end is told
 * when nothing of it is out at nodes any more. It holds its place until it was told.
 */
#include "worker/worker.h"

#include <errno.h>
#include <stddef.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/job.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "merge/merge_exec.h"
#include "merge/merge_pace.h"
#include "merge/merge_work.h"
#include "merge/pace.h"
#include "merge/recipe.h"
#include "merge/recipe_lie.h"
#include "merge/run_writer.h"
#include "merge/told.h"
#include "worker/worker_job.h"

#define WORKER_MAGIC 0x4b524f57u   /* "WORK" */
#define WORKER_TOLD_BYTES 4096u    /* of device memory: TOLD_BYTES_MAX, and the arena's edges */
#define WORKER_OWN_MERGE_BUSY 250u /* per mille: a merge of our own is at work */
#define WORKER_JOB_BUSY 100u /* likewise, of each job: so that the idle of several is asked first */
#define WORKER_HOST_BYTES                                                                          \
	((uint64_t)(RUN_BATCHES_MAX + 1u) * MT_REPLICAS_MAX *                                      \
	    (WIRE_HEADER_BYTES + BATCH_HEAD_BYTES_MAX))

struct mt_worker {
	uint32_t magic;
	struct mt_port *port;
	mt_worker_fn fn;
	void *arg;
	uint32_t job_max;
	uint32_t begun_count; /* jobs so far */
	bool is_stopped;
	struct mt_worker_job jobs[];
};

_Static_assert(TOLD_BYTES_MAX <= WORKER_TOLD_BYTES, "told");
_Static_assert(WIRE_JOB_RECIPE_BYTES_MAX <= RECIPE_BYTES_MAX, "a job's memory holds what comes");

/* ---- the table ---- */

static struct mt_worker_job *
worker_find(struct mt_worker *worker, const void *owner, uint64_t number)
{
	assert(owner != NULL);
	for (uint32_t i = 0; i < worker->job_max; i++) {
		struct mt_worker_job *job = &worker->jobs[i];

		if (job->sm.state != WORKER_JOB_FREE && job->owner == owner &&
		    job->number == number)
			return job;
	}
	return NULL;
}

static struct mt_worker_job *
worker_begin(struct mt_worker *worker, const struct mt_worker_part *part)
{
	for (uint32_t i = 0; i < worker->job_max; i++) {
		struct mt_worker_job *job = &worker->jobs[i];

		if (job->sm.state != WORKER_JOB_FREE)
			continue;
		mt_worker_job_begin(job);
		job->worker = worker;
		job->owner = part->owner;
		job->number = part->number;
		job->recipe_bytes = part->recipe_bytes;
		job->taken_bytes = job->told_bytes = 0;
		job->ticket = job->canceled = NULL;
		job->rc = 0;
		job->lie =
		    mt_recipe_lie_away(++worker->begun_count, worker->port->settings->recipe_lies);
		return job;
	}
	return NULL;
}

void
mt_worker_free(struct mt_worker_job *job)
{
	mt_worker_job_forget(job);
}

static void
worker_on_end(struct mt_worker_job *job)
{
	const struct mt_worker *worker = job->worker;
	const struct mt_worker_end end = { .rc = job->rc,
		.told = job->told_memory,
		.told_bytes = job->told_bytes,
		.ticket = job->ticket,
		.canceled = job->canceled };

	CHECK_OBJ(worker, WORKER_MAGIC);
	assert(job->sm.state == WORKER_JOB_TELLING);
	worker->fn(job, &end, worker->arg);
}

/* ---- what its owner says ---- */

int
mt_worker_take(struct mt_worker *worker, const struct mt_worker_part *part, void *ticket,
    const char **ret_field)
{
	struct mt_worker_job *job = worker_find(worker, part->owner, part->number);
	int rc;

	CHECK_OBJ(worker, WORKER_MAGIC);
	if (job == NULL && part->offset_bytes == 0)
		job = mt_worker_free_count(worker->port) == 0 ? NULL : worker_begin(worker, part);
	if (job == NULL)
		return part->offset_bytes == 0 ? -EBUSY : -EINVAL;
	*ret_field = "offset_bytes";
	if (mt_worker_job_is_at_work(job) || job->sm.state == WORKER_JOB_TELLING)
		return -EINVAL;
	if (part->offset_bytes != job->taken_bytes || part->recipe_bytes != job->recipe_bytes) {
		mt_worker_free(job);
		return -EINVAL;
	}
	assert(part->payload_bytes <= part->recipe_bytes - part->offset_bytes);
	dev_copy_to_host(worker->port->split, job->bytes + part->offset_bytes, part->payload,
	    part->payload_bytes);
	job->taken_bytes += part->payload_bytes;
	if (job->taken_bytes < job->recipe_bytes)
		return 0;
	job->ticket = ticket;
	rc = mt_worker_job_run(job, ret_field);
	if (rc != 0)
		mt_worker_free(job);
	return rc == 0 ? 1 : rc;
}

int
mt_worker_cancel(struct mt_worker *worker, const void *owner, uint64_t number, void *ticket)
{
	struct mt_worker_job *job = worker_find(worker, owner, number);

	CHECK_OBJ(worker, WORKER_MAGIC);
	if (job == NULL || job->sm.state == WORKER_JOB_TELLING || job->canceled != NULL)
		return -ENOENT;
	if (job->sm.state == WORKER_JOB_TAKING) {
		mt_worker_free(job);
		return 0;
	}
	job->canceled = ticket;
	if (!MUTANT(job_works_on))
		mt_worker_job_abort(job, -ECANCELED);
	return 1;
}

void
mt_worker_left(struct mt_worker *worker, const void *owner)
{
	if (worker == NULL)
		return;
	CHECK_OBJ(worker, WORKER_MAGIC);
	for (uint32_t i = 0; i < worker->job_max; i++) {
		struct mt_worker_job *job = &worker->jobs[i];

		if (job->owner != owner || job->sm.state == WORKER_JOB_FREE)
			continue;
		job->owner = NULL;
		if (job->sm.state == WORKER_JOB_TAKING)
			mt_worker_free(job);
		else if (mt_worker_job_is_at_work(job))
			mt_worker_job_abort(job, -ECANCELED);
	}
}

/* ---- how much it can do ---- */

uint32_t
mt_worker_free_count(const struct mt_port *port)
{
	const struct mt_worker *worker = port->worker;
	uint32_t count = 0;

	if (worker == NULL || worker->is_stopped || mt_merge_port_pressure(port) >= PACE_HURRY)
		return 0;
	for (uint32_t i = 0; i < worker->job_max; i++)
		count += worker->jobs[i].sm.state == WORKER_JOB_FREE;
	assert(count <= WORKER_JOBS_MAX);
	return count;
}

uint32_t
mt_worker_busy(const struct mt_port *port)
{
	uint32_t busy = mt_merge_port_pressure(port);

	assert(port->merge_work != NULL);
	if (port->merge_work->merge != NULL)
		busy += WORKER_OWN_MERGE_BUSY;
	for (uint32_t i = 0; port->worker != NULL && i < port->worker->job_max; i++) {
		if (port->worker->jobs[i].sm.state != WORKER_JOB_FREE)
			busy += WORKER_JOB_BUSY;
	}
	return (uint32_t)num_min(busy, WIRE_JOB_BUSY_MAX);
}

/* ---- its life ---- */

uint64_t
mt_worker_device_bytes(const struct mt_settings *settings, uint64_t device_bytes)
{
	assert(settings->worker_jobs <= WORKER_JOBS_MAX);
	return settings->worker_jobs * (mt_merge_device_bytes(device_bytes) + WORKER_TOLD_BYTES);
}

uint64_t
mt_worker_host_bytes(const struct mt_settings *settings)
{
	return settings->worker_jobs * WORKER_HOST_BYTES;
}

int
mt_worker_init(struct mt_port *port, uint64_t device_bytes, mt_worker_fn fn, void *arg)
{
	uint32_t job_max = port->settings->worker_jobs;
	struct mt_worker *worker;
	int rc = 0;

	assert(port->worker == NULL && job_max <= WORKER_JOBS_MAX);
	if (job_max == 0)
		return 0;
	worker = mt_calloc(1, sizeof(*worker) + job_max * sizeof(worker->jobs[0]));
	if (worker == NULL)
		return -ENOMEM;
	worker->magic = WORKER_MAGIC;
	worker->port = port;
	worker->fn = fn;
	worker->arg = arg;
	worker->job_max = job_max;
	port->worker = worker;
	for (uint32_t i = 0; rc == 0 && i < job_max; i++)
		rc = mt_worker_job_init(&worker->jobs[i], port, mt_merge_window_bytes(device_bytes),
		    job_max, worker_on_end);
	return rc;
}

void
mt_worker_stop(struct mt_port *port)
{
	struct mt_worker *worker = port->worker;

	if (worker == NULL)
		return;
	CHECK_OBJ(worker, WORKER_MAGIC);
	worker->is_stopped = true;
	for (uint32_t i = 0; i < worker->job_max; i++) {
		if (worker->jobs[i].sm.state == WORKER_JOB_TAKING)
			mt_worker_free(&worker->jobs[i]);
		else if (mt_worker_job_is_at_work(&worker->jobs[i]))
			mt_worker_job_abort(&worker->jobs[i], -ECANCELED);
	}
}

bool
mt_worker_is_quiet(const struct mt_port *port)
{
	for (uint32_t i = 0; port->worker != NULL && i < port->worker->job_max; i++) {
		if (mt_worker_job_is_at_work(&port->worker->jobs[i]))
			return false;
	}
	return true;
}

void
mt_worker_fini(struct mt_port *port)
{
	struct mt_worker *worker = port->worker;

	if (worker == NULL)
		return;
	CHECK_OBJ(worker, WORKER_MAGIC);
	for (uint32_t i = 0; i < worker->job_max; i++)
		mt_worker_job_fini(&worker->jobs[i]);
	worker->magic = 0;
	mt_free(worker);
	port->worker = NULL;
}
