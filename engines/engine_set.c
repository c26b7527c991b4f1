/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_set.c -- a set of engines, to which a port submits its jobs
 *
 * An inline set has one runner and runs a job within the submit. Any other set hands jobs to workers that
 * have runners of their own: threads (offload.c), or those that its options name instead.
 * Options, and a job's shape, are checked here, once, for both.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "internal.h"
#include "offload.h"

#define ENGINE_SET_MAGIC 0x45534554u /* "ESET" */

struct engine_set {
	uint32_t magic;
	struct engine_runner runner;                  /* inline sets */
	const struct engine_workers_ops *workers_ops; /* NULL: an inline set */
	void *workers;
};

/* Checks the options of a set that is not inline. */
static bool
options_are_good(const struct loop *loop, const struct engine_set_options *options)
{
	assert(options->thread_count > 0);
	return loop != NULL && options->thread_count <= OFFLOAD_THREADS_MAX &&
	    options->queue_depth_max >= 1 && options->queue_depth_max <= OFFLOAD_QUEUE_DEPTH_MAX;
}

static int
workers_create(struct engine_set *set, struct loop *loop, const struct engine_set_options *options)
{
	assert(options->thread_count > 0);
	assert(set->workers_ops == NULL);
	if (!options_are_good(loop, options))
		return -EINVAL;
	set->workers_ops = options->workers != NULL ? options->workers : &offload_ops;
	return set->workers_ops->create(loop, options, &set->workers);
}

struct engine_set *
engine_set_create(struct loop *loop, const struct engine_set_options *options)
{
	struct engine_set *set = calloc(1, sizeof(*set));
	int rc;

	assert(options != NULL);
	if (set == NULL)
		goto err;
	if (options->thread_count == 0)
		rc = engine_runner_init(&set->runner, options->keys);
	else
		rc = workers_create(set, loop, options);
	if (rc != 0) {
		errno = -rc;
		goto err_free;
	}
	set->magic = ENGINE_SET_MAGIC;
	return set;

err_free:
	free(set);
err:
	return NULL;
}

void
engine_set_destroy(struct engine_set *set)
{
	if (set == NULL)
		return;
	CHECK_OBJ(set, ENGINE_SET_MAGIC);
	set->magic = 0;
	if (set->workers_ops != NULL)
		set->workers_ops->destroy(set->workers);
	else
		engine_runner_fini(&set->runner);
	free(set);
}

static int
engine_set_submit(struct engine_set *set, struct engine_job *job, bool is_urgent)
{
	assert(job != NULL);
	CHECK_OBJ(set, ENGINE_SET_MAGIC);
	if (engine_job_check(job) != 0)
		return -EINVAL;
	if (set->workers_ops != NULL)
		return set->workers_ops->submit(set->workers, job, is_urgent);
	engine_job_run(&set->runner, job);
	assert(job->rc <= 0);
	return 1;
}

int
engine_submit(struct engine_set *set, struct engine_job *job)
{
	return engine_set_submit(set, job, false);
}

int
engine_submit_urgent(struct engine_set *set, struct engine_job *job)
{
	return engine_set_submit(set, job, true);
}

uint32_t
engine_set_queued_count(const struct engine_set *set)
{
	CHECK_OBJ(set, ENGINE_SET_MAGIC);
	return set->workers_ops != NULL ? set->workers_ops->queued_count(set->workers) : 0;
}

const struct engine_gate_ops engine_set_gate_ops = { .submit = engine_submit };
