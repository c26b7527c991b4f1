/* SPDX-License-Identifier: Apache-2.0 */
/* merge_work.h -- a port's merges: those that wait, the one at work, and its memory */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_WORK_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "common/shard.h"
#include "index/run_load.h"
#include "merge/log_pool.h"
#include "merge/merge.h"
#include "merge/merge_exec.h"
#include "merge/merge_plan.h"
#include "merge/merge_result.h"
#include "merge/pace.h"

/* A run whose index is being loaded. */
struct merge_load {
	struct mt_run_waiter waiter;
	struct mt_merge *merge;
	struct merge_input *input;
	bool is_waiting;
};

/* A port's memory for the merge at work. */
struct merge_work {
	uint32_t magic;
	struct mt_port *port;
	struct loop_link queue; /* merges that wait: flushes, then compactions */
	struct mt_merge *merge; /* at work; NULL */
	struct merge_plan plan;
	struct merge_load loads[MERGE_SOURCES_MAX];
	struct merge_exec exec;
	struct merge_exec *executor; /* of the stage at work: exec, or a guest's (merge_guest.h) */
	struct merge_result result; /* of the stage that was executed last, until it is committed */
	struct merge_by_recipe *by_recipe; /* for tests; NULL: the plan itself is executed */
	struct merge_by_away *by_away;     /* NULL: without --offload */
	bool is_committing;                /* the manifest has its edits */
	uint64_t paid_ns;
	struct pace_inflow inflow; /* what clients write meanwhile */
	struct loop_timer timer;   /* the next turn, or a pause */
	struct loop_task start_task;
	struct log_pool pool; /* of the logs that they make shorter */
};

enum mt_merge_state {
	MERGE_QUEUED,
	MERGE_LOADING,  /* indexes of its runs */
	MERGE_FETCHING, /* a window's blocks */
	MERGE_STORING,  /* its frames, into batches */
	MERGE_PAUSING,  /* clients go first */
	MERGE_ENDING,   /* the last batches are at their replicas */
	MERGE_AWAY, /* other gateways are asked to execute it, do, and what they made is read back */
	MERGE_VERIFYING, /* what was made by a recipe is read back */
	MERGE_RECALLING, /* a guest has failed: what is out comes back, then the plan is executed */
	MERGE_COMMITTING,
	MERGE_FAILED, /* what is out comes back */
	MERGE_DONE,
	MERGE_STATE_NR
};

extern const struct sm_state mt_merge_table[MERGE_STATE_NR];

struct mt_merge {
	uint32_t magic;
	struct sm sm;
	struct loop_link link; /* work->queue */
	struct mt_shard *shard;
	struct mt_merge_input input;
	uint64_t target; /* number of the chunk that it makes runs of */
	mt_merge_fn fn;
	void *arg;
	uint32_t waiting_count; /* LOADING */
	uint64_t flushed_sequence, cut;
	uint64_t stage_sequence; /* flushed_sequence of the runs of all stages but the last */
	uint64_t stage_bytes;    /* 0: there is only one */
	uint32_t stage_block;    /* of the chunk: where the stage began */
	bool is_last_stage;
	bool
	    is_refused; /* what was made by a recipe was not what that says: the rest is executed by the plan */
	int rc;
};

static inline struct merge_work *
merge_work_of(const struct mt_merge *merge)
{
	return merge->shard->port->merge_work;
}

/* mt_merge_device_bytes -- what mt_merge_port_init takes of a port's @device_bytes of device memory. */
uint64_t mt_merge_device_bytes(uint64_t device_bytes);
/* mt_merge_progress -- how much of the shard's merge is done, per mille; 0: it has none at work. */
uint32_t mt_merge_progress(const struct mt_shard *shard);

/* mt_merge_window_bytes -- of these, what its windows take. */
uint64_t mt_merge_window_bytes(uint64_t device_bytes);

/*
 * mt_merge_work_create -- a port's merges; the executing part is not made yet
 *
 * @timer_fn and @task_fn find it as their argument. 0: it is port->merge_work; -ENOMEM: nothing is left.
 */
int mt_merge_work_create(struct mt_port *port,
    void (*timer_fn)(struct loop_timer *timer, void *arg),
    void (*task_fn)(struct loop_task *task, void *arg));
/* mt_merge_work_destroy -- no merge is left, nor the executing part. NULL is none. */
void mt_merge_work_destroy(struct merge_work *work);
/* mt_merge_work_push -- @merge waits: behind those that are as urgent, before the others. */
void mt_merge_work_push(struct merge_work *work, struct mt_merge *merge);
/* mt_merge_work_pop -- the merge that is next, which waits no more; NULL: none waits. */
struct mt_merge *mt_merge_work_pop(struct merge_work *work);
/* mt_merge_work_soon -- start_task follows: the next merge, or what the present one waits for may have come. */
void mt_merge_work_soon(struct merge_work *work);
/* mt_merge_work_wait -- the timer fires after @ns at the latest. */
void mt_merge_work_wait(struct merge_work *work, uint64_t ns);

#define MERGE_MAGIC 0x4752454du      /* "MERG" */
#define MERGE_WORK_MAGIC 0x4b52574du /* "MWRK" */

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_WORK_H */
