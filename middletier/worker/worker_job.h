/* SPDX-License-Identifier: Apache-2.0 */
/* worker_job.h -- one job of a port's worker: for worker.c, which has the table of them, and worker_job.c, which executes one */
#ifndef CLEAVE_MIDDLETIER_WORKER_WORKER_JOB_H
#define CLEAVE_MIDDLETIER_WORKER_WORKER_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "merge/merge_guest.h"
#include "merge/merge_result.h"
#include "merge/recipe_decode.h"
#include "merge/recipe_lie.h"
#include "merge/recipe_window.h"
#include "merge/told.h"

struct mt_port;
struct mt_worker;

enum worker_job_state {
	WORKER_JOB_FREE,
	WORKER_JOB_TAKING,   /* its recipe comes, part after part */
	WORKER_JOB_FETCHING, /* a window's blocks */
	WORKER_JOB_STORING,  /* its frames, into batches */
	WORKER_JOB_PAUSING,  /* clients go first */
	WORKER_JOB_ENDING,   /* the last batches are at their replicas */
	WORKER_JOB_ABORTING, /* what is out comes back */
	WORKER_JOB_TELLING,  /* its end is told */
	WORKER_JOB_STATE_NR
};

struct mt_worker_job {
	uint32_t magic;
	struct sm sm;
	struct mt_port *port;
	struct mt_worker *worker;
	const void *owner; /* NULL: gone */
	uint64_t number;
	void *ticket, *canceled;
	uint8_t *bytes; /* RECIPE_BYTES_MAX */
	uint32_t recipe_bytes, taken_bytes;
	struct mt_recipe recipe;
	struct mt_recipe_cursor cursor;
	struct merge_guest guest;
	struct merge_result result;
	struct mt_told told;
	dev_ptr told_memory; /* TOLD_BYTES_MAX */
	uint32_t told_bytes;
	struct loop_task task;    /* what it waits for may have come, or it has ended */
	struct loop_timer timer;  /* the next turn, or a pause */
	struct loop_timer expiry; /* it takes too long */
	uint64_t paid_ns;
	uint64_t begun_ns; /* at work: since */
	enum recipe_lie lie;
	int rc; /* ABORTING, TELLING */
	/* ENDED: nothing is out, and the guest is off. The worker's. */
	void (*fn)(struct mt_worker_job *job);
};

/* mt_worker_job_init -- with memory of @port; all zeros before. 0; -ENOMEM: mt_worker_job_fini takes what there is. */
int mt_worker_job_init(struct mt_worker_job *job, struct mt_port *port, uint64_t window_bytes,
    uint32_t job_count, void (*fn)(struct mt_worker_job *job));
/* mt_worker_job_fini -- nothing comes back any more. Also of one that is all zeros. */
void mt_worker_job_fini(struct mt_worker_job *job);
/* mt_worker_job_begin -- FREE: its recipe comes, within a time: else it is FREE again. */
void mt_worker_job_begin(struct mt_worker_job *job);
/* mt_worker_job_forget -- TAKING, or TELLING: it is FREE. */
void mt_worker_job_forget(struct mt_worker_job *job);
/*
 * mt_worker_job_run -- TAKING, and all of the recipe is in bytes: it is executed
 *
 * 0: fn follows, from the loop, with rc set. -EBADMSG and *@ret_field; -ENOMEM: it is TAKING.
 */
int mt_worker_job_run(struct mt_worker_job *job, const char **ret_field);
/* mt_worker_job_abort -- at work: it ends with @rc, soon. A no-op when it is ending so already. */
void mt_worker_job_abort(struct mt_worker_job *job, int rc);
/* mt_worker_job_is_at_work -- fn follows. */
bool mt_worker_job_is_at_work(const struct mt_worker_job *job);

#define WORKER_JOB_MAGIC 0x424f4a57u /* "WJOB" */

#endif /* CLEAVE_MIDDLETIER_WORKER_WORKER_JOB_H */
