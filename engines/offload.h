/* SPDX-License-Identifier: Apache-2.0 */
/* offload.h -- workers that run jobs, threads or simulated ones; used by engine_set.c alone */
#ifndef CLEAVE_ENGINES_OFFLOAD_H
#define CLEAVE_ENGINES_OFFLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/engine.h"

#define OFFLOAD_THREADS_MAX 64u
#define OFFLOAD_QUEUE_DEPTH_MAX 65536u

struct offload;

/*
 * offload_create -- start the threads
 *
 * thread_count and queue_depth_max are 1.._MAX, which engine_set_create checks. Returns: 0; -ENOMEM;
 * -EAGAIN too many threads in this system.
 */
int offload_create(struct loop *loop, const struct engine_set_options *options,
    struct offload **ret_offload);
/* offload_destroy -- lets the threads finish what is queued, then ends them. */
void offload_destroy(struct offload *offload);
/* offload_submit -- 0: job->fn will be called from the loop; -ENOBUFS: the queue is full. */
int offload_submit(struct offload *offload, struct engine_job *job, bool is_urgent);
/* offload_queued_count -- jobs that wait for a thread. */
uint32_t offload_queued_count(const struct offload *offload);

/*
 * offload_sim_create and so on -- the same in virtual time, without threads (offload_sim.c)
 *
 * Errors are those above. offload_sim_destroy drops what is queued and at work, as a process that is
 * killed does.
 */
struct offload_sim;

int offload_sim_create(struct loop *loop, const struct engine_set_options *options,
    struct offload_sim **ret_offload);
void offload_sim_destroy(struct offload_sim *offload);
int offload_sim_submit(struct offload_sim *offload, struct engine_job *job, bool is_urgent);
uint32_t offload_sim_queued_count(const struct offload_sim *offload);

#endif /* CLEAVE_ENGINES_OFFLOAD_H */
