/* SPDX-License-Identifier: Apache-2.0 */
/* job_queue.h -- jobs that wait for a worker: first in, first out, through engine_job.next */
#ifndef CLEAVE_ENGINES_JOB_QUEUE_H
#define CLEAVE_ENGINES_JOB_QUEUE_H

#include <stddef.h>

#include "cleave/engine.h"

/* A queue of jobs, oldest first; all zeros: empty. Not locked: that is the owner's. */
struct job_queue {
	struct engine_job *head;
	struct engine_job *tail;
};

/* job_queue_push -- @job, which is in no queue, goes last. */
static inline void
job_queue_push(struct job_queue *queue, struct engine_job *job)
{
	job->next = NULL;
	if (queue->tail == NULL)
		queue->head = job;
	else
		queue->tail->next = job;
	queue->tail = job;
}

/* job_queue_pop -- the oldest job, no longer in @queue; NULL: it is empty. */
static inline struct engine_job *
job_queue_pop(struct job_queue *queue)
{
	struct engine_job *job = queue->head;

	if (job == NULL)
		return NULL;
	queue->head = job->next;
	if (queue->head == NULL)
		queue->tail = NULL;
	job->next = NULL;
	return job;
}

#endif /* CLEAVE_ENGINES_JOB_QUEUE_H */
