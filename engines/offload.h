/* SPDX-License-Identifier: Apache-2.0 */
/* offload.h -- workers that run jobs, as engine_set.c has them: threads, or what a simulator has instead */
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
	 * thread_count and queue_depth_max are 1.._MAX, which engine_set_create checks. Returns: 0;
	 * -ENOMEM; -EAGAIN too many threads in this system.
	 */
	int (*create)(struct loop *loop, const struct engine_set_options *options,
	    void **ret_workers);
	/* Threads finish what is queued first; simulated ones drop it, as who is killed does. */
	void (*destroy)(void *workers);
	/* 0: job->fn will be called from the loop; -ENOBUFS: the queue is full. */
	int (*submit)(void *workers, struct engine_job *job, bool is_urgent);
	/* Jobs that wait for a worker. */
	uint32_t (*queued_count)(const void *workers);
};

/* offload.c: threads. */
extern const struct engine_workers_ops offload_ops;

#endif /* CLEAVE_ENGINES_OFFLOAD_H */
