/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offload.c -- worker threads that run jobs
 *
 * Two queues of jobs, urgent ones and the others, and a number of threads that take from their heads.
 * A finished job goes back to the loop by loop_post; its handler runs there.
 *
 * The mutex guards the queues, their count and the stop flag, and nothing else: it is held for a few
 * loads and stores, once a job on either side. A job takes microseconds, so a lock-free queue would
 * gain nothing here; and a waiting worker needs a place to sleep anyway.
 *
 * A job belongs to the queue from submit until a worker takes it, then to that worker, then to the
 * loop's post until its handler runs. Workers never look at a job again after posting it.
 */
#include "offload.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "internal.h"
#include "job_queue.h"

#define OFFLOAD_MAGIC 0x4f464c44u /* "OFLD" */
#define OFFLOAD_BACKGROUND_NICE 19

struct worker {
	struct offload *offload;
	pthread_t thread;
	struct engine_runner runner;
};

struct offload {
	uint32_t magic;
	struct loop *loop;
	uint32_t queue_depth_max;
	uint32_t worker_count; /* threads that run */
	pthread_mutex_t lock;
	pthread_cond_t has_work;
	struct job_queue urgent; /* lock */
	struct job_queue normal; /* lock */
	uint32_t queued_count;   /* written under lock, read anywhere */
	bool is_stopping;        /* lock */
	const struct keyring *keys;
	bool is_background; /* workers run at OFFLOAD_BACKGROUND_NICE */
	struct worker workers[];
};

static void
job_on_posted(struct loop_post *post, void *arg)
{
	struct engine_job *job = arg;

	(void)post;
	assert(job->rc <= 0);
	job->fn(job, job->arg); /* the last act: the job is its owner's again */
}

/* Wait for the next job. NULL: the queues are empty, and the set ends. */
static struct engine_job *
worker_wait(struct offload *offload)
{
	struct engine_job *job;

	(void)pthread_mutex_lock(&offload->lock);
	while (offload->queued_count == 0 && !offload->is_stopping)
		(void)pthread_cond_wait(&offload->has_work, &offload->lock);
	job = job_queue_pop(&offload->urgent);
	if (job == NULL)
		job = job_queue_pop(&offload->normal);
	assert(job != NULL || offload->is_stopping);
	assert(job == NULL || offload->queued_count > 0);
	if (job != NULL)
		__atomic_store_n(&offload->queued_count, offload->queued_count - 1,
		    __ATOMIC_RELAXED);
	(void)pthread_mutex_unlock(&offload->lock);
	return job;
}

static void *
worker_main(void *arg)
{
	struct worker *worker = arg;
	struct offload *offload = worker->offload;
	struct engine_job *job;

	CHECK_OBJ(offload, OFFLOAD_MAGIC);
	/* The priority of this thread alone, in Linux. Without it jobs only come at other times. */
	if (offload->is_background)
		(void)setpriority(PRIO_PROCESS, (id_t)gettid(), OFFLOAD_BACKGROUND_NICE);
	while ((job = worker_wait(offload)) != NULL) {
		uint64_t begin_ns = job->must_time ? loop_now_fresh_ns(offload->loop) : 0;

		engine_job_run(&worker->runner, job);
		if (job->must_time)
			job->run_ns = loop_now_fresh_ns(offload->loop) - begin_ns;
		job->done_post = (struct loop_post){ .fn = job_on_posted, .arg = job };
		loop_post(offload->loop, &job->done_post);
	}
	return NULL;
}

static int
worker_start(struct offload *offload, struct worker *worker)
{
	int rc;

	assert(offload->worker_count < OFFLOAD_THREADS_MAX);
	worker->offload = offload;
	rc = engine_runner_init(&worker->runner, offload->keys);
	if (rc != 0)
		return rc;
	rc = pthread_create(&worker->thread, NULL, worker_main, worker);
	if (rc != 0) {
		engine_runner_fini(&worker->runner);
		return -rc;
	}
	/* For a person in top(1). */
	(void)pthread_setname_np(worker->thread, offload->is_background ? "merge" : "engine");
	offload->worker_count++;
	return 0;
}

/* Signals are the loop's business: workers are born with all of them blocked. */
static int
workers_start(struct offload *offload, uint32_t count)
{
	sigset_t all, before;
	int rc = 0;

	assert(count >= 1);
	assert(count <= OFFLOAD_THREADS_MAX);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, &before);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = worker_start(offload, &offload->workers[i]);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	assert(rc != 0 || offload->worker_count == count);
	return rc;
}

static void
offload_destroy(void *workers)
{
	struct offload *offload = workers;

	CHECK_OBJ(offload, OFFLOAD_MAGIC);
	(void)pthread_mutex_lock(&offload->lock);
	offload->is_stopping = true;
	(void)pthread_cond_broadcast(&offload->has_work);
	(void)pthread_mutex_unlock(&offload->lock);
	for (uint32_t i = 0; i < offload->worker_count; i++) {
		(void)pthread_join(offload->workers[i].thread, NULL);
		engine_runner_fini(&offload->workers[i].runner);
	}
	assert(offload->queued_count == 0);
	(void)pthread_cond_destroy(&offload->has_work);
	(void)pthread_mutex_destroy(&offload->lock);
	offload->magic = 0;
	free(offload);
}

static int
offload_create(struct loop *loop, const struct engine_set_options *options, void **ret_workers)
{
	struct offload *offload;
	int rc;

	assert(options->thread_count >= 1);
	assert(options->queue_depth_max >= 1);
	offload = calloc(1, sizeof(*offload) + options->thread_count * sizeof(struct worker));
	if (offload == NULL)
		return -ENOMEM;
	offload->magic = OFFLOAD_MAGIC;
	offload->loop = loop;
	offload->queue_depth_max = options->queue_depth_max;
	offload->keys = options->keys;
	offload->is_background = options->is_background;
	(void)pthread_mutex_init(&offload->lock, NULL); /* with default attributes neither fails */
	(void)pthread_cond_init(&offload->has_work, NULL);
	rc = workers_start(offload, options->thread_count);
	if (rc != 0) {
		offload_destroy(offload);
		return rc;
	}
	*ret_workers = offload;
	return 0;
}

static int
offload_submit(void *workers, struct engine_job *job, bool is_urgent)
{
	struct offload *offload = workers;
	int rc = 0;

	CHECK_OBJ(offload, OFFLOAD_MAGIC);
	assert(job->fn != NULL);
	(void)pthread_mutex_lock(&offload->lock);
	assert(!offload->is_stopping);
	assert(offload->queued_count <= offload->queue_depth_max);
	if (offload->queued_count == offload->queue_depth_max) {
		rc = -ENOBUFS;
	} else {
		job_queue_push(is_urgent ? &offload->urgent : &offload->normal, job);
		__atomic_store_n(&offload->queued_count, offload->queued_count + 1,
		    __ATOMIC_RELAXED);
		(void)pthread_cond_signal(&offload->has_work);
	}
	(void)pthread_mutex_unlock(&offload->lock);
	return rc;
}

static uint32_t
offload_queued_count(const void *workers)
{
	const struct offload *offload = workers;

	CHECK_OBJ(offload, OFFLOAD_MAGIC);
	return __atomic_load_n(&offload->queued_count, __ATOMIC_RELAXED);
}

const struct engine_workers_ops offload_ops = {
	.create = offload_create,
	.destroy = offload_destroy,
	.submit = offload_submit,
	.queued_count = offload_queued_count,
};
