/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_work.c -- a port's merges: those that wait, the one at work, and its memory
 *
 *	flushes of a log that is too long | other flushes | compactions  --->  one at work
 *
 * A shard whose writes wait is before all others, the longest log first, its compactions among them: they come in turn
 * with its flushes, so what goes before one of them goes before the next flush.
 *
 * The memory is the port's, for one merge at a time: its plan, two windows of blocks and two to four batches of device memory,
 * the calls and jobs that are out. Replies to its READs come to the receives that clients' requests use.
 */
#include "merge/merge_work.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "merge/merge.h"
#include "merge/merge_plan.h"
#include "merge/merge_step.h"
#include "merge/pace.h"
#include "merge/reclaim_room.h"
#include "merge/run_writer.h"

#define MERGE_MEMORY_SHARE 32u /* of a port's device memory: a merge's windows, at most */
#define MERGE_WINDOWS 2u       /* one is fetched while the other is stored */

/* ---- its life ---- */

uint64_t
mt_merge_window_bytes(uint64_t device_bytes)
{
	uint64_t blocks = device_bytes / MERGE_MEMORY_SHARE / MERGE_WINDOWS / CLEAVE_BLOCK_BYTES;

	blocks = num_max(ENGINE_RECORD_BLOCKS_MAX, num_min(blocks, MERGE_WINDOW_BLOCKS_MAX));
	return MERGE_WINDOWS * blocks * CLEAVE_BLOCK_BYTES;
}

uint64_t
mt_merge_device_bytes(uint64_t device_bytes)
{
	uint64_t window_bytes = mt_merge_window_bytes(device_bytes);

	return window_bytes + (uint64_t)mt_run_writer_batches(window_bytes) * BATCH_BYTES_MAX;
}

int
mt_merge_work_create(struct mt_port *port, void (*timer_fn)(struct loop_timer *timer, void *arg),
    void (*task_fn)(struct loop_task *task, void *arg))
{
	struct merge_work *work;

	assert(port->merge_work == NULL);
	work = mt_calloc(1, sizeof(*work));
	if (work == NULL)
		return -ENOMEM;
	work->magic = MERGE_WORK_MAGIC;
	work->port = port;
	work->executor = &work->exec;
	list_init(&work->queue);
	loop_timer_init(&work->timer, timer_fn, work);
	loop_task_init(&work->start_task, task_fn, work);
	port->merge_work = work;
	return 0;
}

void
mt_merge_work_destroy(struct merge_work *work)
{
	if (work == NULL)
		return;
	CHECK_OBJ(work, MERGE_WORK_MAGIC);
	assert(work->merge == NULL);
	assert(list_is_empty(&work->queue));
	loop_timer_stop(work->port->loop, &work->timer);
	loop_task_cancel(work->port->loop, &work->start_task);
	work->magic = 0;
	mt_free(work);
}

/* ---- when ---- */

void
mt_merge_work_soon(struct merge_work *work)
{
	loop_defer(work->port->loop, &work->start_task);
}

void
mt_merge_work_wait(struct merge_work *work, uint64_t ns)
{
	if (!work->timer.is_active || work->timer.due_ns > loop_now_ns(work->port->loop) + ns)
		loop_timer_start(work->port->loop, &work->timer, ns);
}

/* ---- its queue ---- */

static uint32_t
merge_rank(const struct mt_merge *merge)
{
	if (merge->input.newest_layer == NULL)
		return 2;
	return merge->input.is_urgent ? 0 : 1;
}

void
mt_merge_work_push(struct merge_work *work, struct mt_merge *merge)
{
	struct loop_link *at;

	CHECK_OBJ(work, MERGE_WORK_MAGIC);
	assert(merge->sm.state == MERGE_QUEUED);
	for (at = work->queue.next; at != &work->queue; at = at->next) {
		if (merge_rank(LIST_ENTRY(at, struct mt_merge, link)) > merge_rank(merge))
			break;
	}
	list_insert_before(at, &merge->link);
}

/* How much its shard's writes wait; 0: they do not. */
static uint32_t
merge_waiting(const struct mt_merge *merge)
{
	uint32_t pressure = mt_reclaim_pressure(merge->shard, 0);

	assert(pressure <= PACE_FULL);
	if (mt_reclaim_is_log_full(merge->shard))
		return PACE_FULL;
	return pressure >= PACE_HURRY ? pressure : 0;
}

struct mt_merge *
mt_merge_work_pop(struct merge_work *work)
{
	struct mt_merge *next = NULL;
	uint32_t waiting = 0;

	CHECK_OBJ(work, MERGE_WORK_MAGIC);
	for (struct loop_link *link = work->queue.next; link != &work->queue; link = link->next) {
		struct mt_merge *merge = LIST_ENTRY(link, struct mt_merge, link);
		uint32_t of_this = merge_waiting(merge);

		if (next != NULL && of_this <= waiting)
			continue;
		next = merge;
		waiting = of_this;
	}
	if (next != NULL)
		list_remove(&next->link);
	return next;
}

uint32_t
mt_merge_progress(const struct mt_shard *shard)
{
	const struct merge_work *work = shard->port->merge_work;

	assert(work == NULL || work->plan.at <= CLEAVE_CHUNK_BLOCKS);
	if (work == NULL || work->merge == NULL || work->merge->shard != shard ||
	    work->merge->sm.state <= MERGE_LOADING || work->merge->sm.state >= MERGE_FAILED)
		return 0;
	return work->plan.at * 1000u / (uint32_t)CLEAVE_CHUNK_BLOCKS;
}
