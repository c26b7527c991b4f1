/* SPDX-License-Identifier: Apache-2.0 */
/* offload.h -- workers that run an engine set's jobs: threads, or what a simulator has in their place */
#ifndef CLEAVE_ENGINES_OFFLOAD_H
#define CLEAVE_ENGINES_OFFLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/engine.h"

#define OFFLOAD_THREADS_MAX 64u
#define OFFLOAD_QUEUE_DEPTH_MAX 65536u

/* A kind of workers. Every slot is required. */
struct engine_workers_ops {
	/*
	 * Begin: options->thread_count and queue_depth_max are 1.._MAX, which engine_set_create has checked. Returns 0
	 * and *@ret_workers, the caller's until destroy; -ENOMEM; -EAGAIN too many threads in this system.
	 */
	int (*create)(struct loop *loop, const struct engine_set_options *options,
	    void **ret_workers);
	/* End: threads finish queued jobs first; simulated workers drop them, as a killed process does. */
	void (*destroy)(void *workers);
	/* @job, checked and with fn, is the workers' until job->fn, called from the loop. 0; -ENOBUFS the queue is full. */
	int (*submit)(void *workers, struct engine_job *job, bool is_urgent);
	/* The number of jobs that wait for a worker. */
	uint32_t (*queued_count)(const void *workers);
};

/* offload.c: threads. */
extern const struct engine_workers_ops offload_ops;

#endif /* CLEAVE_ENGINES_OFFLOAD_H */
