/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offload_sim.c -- worker threads of a simulated process
 *
 * A worker takes a job when it has none, and runs it, on the loop's thread, when its time is over: most
 * jobs take microseconds, some as long as a thread that others keep from its processor. So between
 * submit and completion a simulated gateway meets all that a real one does: messages, lost nodes, its
 * end. A job's bytes appear at its end alone; a reader that comes earlier finds those from before.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/num.h"
#include "internal.h"
#include "job_queue.h"
#include "offload.h"
#include "offload_sim.h"

#define OFFLOAD_SIM_MAGIC 0x4d53464fu /* "OFSM" */
/* A job takes up to so long; one in so many, up to STARVED_NS. */
#define OFFLOAD_SIM_JOB_NS NUM_US(20)
#define OFFLOAD_SIM_STARVED_NS NUM_MS(5)
#define OFFLOAD_SIM_STARVED_ONE_IN 8u

struct sim_worker {
	struct offload_sim *offload;
	struct engine_job *job; /* NULL: it waits for one */
	struct loop_timer timer;
	uint64_t job_ns;
};

struct offload_sim {
	uint32_t magic;
	struct loop *loop;
	struct engine_runner runner; /* of all workers: one job is run at a time */
	struct job_queue urgent;
	struct job_queue normal;
	uint32_t queued_count;
	uint32_t queue_depth_max;
	uint32_t worker_count;
	struct sim_worker workers[];
};

static void
worker_take(struct sim_worker *worker)
{
	struct offload_sim *offload = worker->offload;
	bool is_starved;

	worker->job = job_queue_pop(&offload->urgent);
	if (worker->job == NULL)
		worker->job = job_queue_pop(&offload->normal);
	if (worker->job == NULL)
		return;
	assert(offload->queued_count > 0);
	offload->queued_count--;
	is_starved = loop_random_below(offload->loop, OFFLOAD_SIM_STARVED_ONE_IN) == 0;
	worker->job_ns = 1 +
	    loop_random_below(offload->loop,
		is_starved ? OFFLOAD_SIM_STARVED_NS : OFFLOAD_SIM_JOB_NS);
	loop_timer_start(offload->loop, &worker->timer, worker->job_ns);
}

static void
worker_on_timer(struct loop_timer *timer, void *arg)
{
	struct sim_worker *worker = arg;
	struct offload_sim *offload = worker->offload;
	struct engine_job *job = worker->job;

	(void)timer;
	CHECK_OBJ(offload, OFFLOAD_SIM_MAGIC);
	engine_job_run(&offload->runner, job);
	assert(job->rc <= 0);
	if (job->must_time)
		job->run_ns = worker->job_ns;
	worker_take(worker);
	job->fn(job, job->arg); /* the last act: the job is its owner's again */
}

static int
offload_sim_create(struct loop *loop, const struct engine_set_options *options, void **ret_workers)
{
	struct offload_sim *offload;
	int rc;

	assert(options->thread_count >= 1);
	assert(options->queue_depth_max >= 1);
	offload = calloc(1, sizeof(*offload) + options->thread_count * sizeof(struct sim_worker));
	if (offload == NULL)
		return -ENOMEM;
	rc = engine_runner_init(&offload->runner, options->keys);
	if (rc != 0) {
		free(offload);
		return rc;
	}
	offload->magic = OFFLOAD_SIM_MAGIC;
	offload->loop = loop;
	offload->queue_depth_max = options->queue_depth_max;
	offload->worker_count = options->thread_count;
	for (uint32_t i = 0; i < offload->worker_count; i++) {
		struct sim_worker *worker = &offload->workers[i];

		worker->offload = offload;
		loop_timer_init(&worker->timer, worker_on_timer, worker);
	}
	*ret_workers = offload;
	return 0;
}

static void
offload_sim_destroy(void *workers)
{
	struct offload_sim *offload = workers;

	CHECK_OBJ(offload, OFFLOAD_SIM_MAGIC);
	for (uint32_t i = 0; i < offload->worker_count; i++)
		loop_timer_stop(offload->loop, &offload->workers[i].timer);
	engine_runner_fini(&offload->runner);
	offload->magic = 0;
	free(offload);
}

static int
offload_sim_submit(void *workers, struct engine_job *job, bool is_urgent)
{
	struct offload_sim *offload = workers;

	CHECK_OBJ(offload, OFFLOAD_SIM_MAGIC);
	assert(job->fn != NULL);
	assert(offload->queued_count <= offload->queue_depth_max);
	if (offload->queued_count == offload->queue_depth_max)
		return -ENOBUFS;
	job_queue_push(is_urgent ? &offload->urgent : &offload->normal, job);
	offload->queued_count++;
	for (uint32_t i = 0; i < offload->worker_count; i++) {
		if (offload->workers[i].job == NULL) {
			worker_take(&offload->workers[i]);
			break;
		}
	}
	return 0;
}

static uint32_t
offload_sim_queued_count(const void *workers)
{
	const struct offload_sim *offload = workers;

	CHECK_OBJ(offload, OFFLOAD_SIM_MAGIC);
	return offload->queued_count;
}

const struct engine_workers_ops offload_sim_ops = {
	.create = offload_sim_create,
	.destroy = offload_sim_destroy,
	.submit = offload_sim_submit,
	.queued_count = offload_sim_queued_count,
};
