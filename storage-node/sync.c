/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync.c -- one flush at a time for everybody who waits for one: group commit
 *
 *	            waiter                task                 done, none waits
 *	  IDLE ----------------> GATHERING -----> FLUSHING ------------------------> IDLE
 *	                             ^               |  \
 *	                             +---------------+   \ failed, this one or a durable write
 *	                              done, some wait     +--------> BROKEN
 *
 * A waiter is a write that has completed. It is covered by the first flush that is submitted after
 * that, and never by the one in flight. Gathering lasts to the end of the loop turn, so that all
 * completions of a turn share a flush; while one is in flight the next group gathers by itself.
 *
 * Durable writes (disk.h) begin only while no flush is gathered or in flight, and have flushes of their
 * own; waiters that come meanwhile do not wait for those, as one write may be slow. When the flush of a
 * durable write fails, the disk is as broken.
 *
 * A flush that fails breaks the disk for good (I3): what it covered fails, what gathers fails, what
 * comes later fails. Both copies of the superblock get a mark, best effort and unflushed: should the process alone
 * restart, the drive's cache shows it; should the power fail, the disk shows what it really holds.
 */
#include "sync.h"

#include <errno.h>
#include <stdlib.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mutant.h"
#include "disk/disk_host.h"
#include "extent.h"
#include "node_state.h"

const struct sm_state sync_table[SYNC_STATE_NR] = {
	[SYNC_IDLE] = { "idle", SM_TO(SYNC_GATHERING) | SM_TO(SYNC_BROKEN), SM_INITIAL },
	[SYNC_GATHERING] = { "gathering", SM_TO(SYNC_FLUSHING), 0 },
	[SYNC_FLUSHING] = { "flushing",
	    SM_TO(SYNC_IDLE) | SM_TO(SYNC_GATHERING) | SM_TO(SYNC_BROKEN), 0 },
	[SYNC_BROKEN] = { "broken", 0, SM_FINAL | SM_FAILURE },
};

static void
list_move_all(struct loop_link *from, struct loop_link *to)
{
	struct loop_link *link;

	while ((link = list_pop_front(from)) != NULL)
		list_push_back(to, link);
}

/* Tell all waiters of @list; handlers may add others to it, which are told, too. */
static void
sync_complete(struct loop_link *list, int rc)
{
	struct loop_link *link;

	assert(rc <= 0);
	while ((link = list_pop_front(list)) != NULL) {
		struct sn_sync_waiter *waiter = LIST_ENTRY(link, struct sn_sync_waiter, link);

		waiter->fn(waiter, rc);
	}
}

static void sync_write_mark(struct node *node);

/* Both copies get the mark, one after the other: a start that can read but one of them must see it. */
static void
sync_on_mark_written(struct disk_io *io, int rc, void *arg)
{
	struct node *node = arg;
	struct sn_sync *sync = &node->sync;

	(void)io;
	sync->mark_count += rc == 0;
	if (++sync->mark_try_count < ONDISK_SUPER_COPIES) {
		sync_write_mark(node);
		return;
	}
	if (sync->mark_count > 0)
		log_info("disk: its superblock says from now on that it has failed disk=%s",
		    node->disk_name);
	else
		log_warn(
		    "disk: its superblock could not be marked as failed disk=%s rc=%s: do not start a "
		    "node on it again",
		    node->disk_name, log_errno(rc));
}

static void
sync_write_mark(struct node *node)
{
	struct sn_sync *sync = &node->sync;
	uint32_t copy;

	assert(node->super.is_failed);
	node->super.generation++;
	copy = (uint32_t)(node->super.generation % ONDISK_SUPER_COPIES);
	ondisk_super_encode(sync->mark_page, &node->super);
	sync->mark_piece = disk_host_piece(sync->mark_page, ONDISK_PAGE_BYTES);
	sync->mark_io = (struct disk_io){
		.op = DISK_WRITE,
		.offset_bytes = ondisk_super_offset(copy),
		.pieces = &sync->mark_piece,
		.piece_count = 1,
		.fn = sync_on_mark_written,
		.arg = node,
	};
	(void)disk_submit(node->disk, &sync->mark_io); /* best effort */
}

static void
sync_mark_failed(struct node *node)
{
	assert(!node->super.is_failed);
	assert(node->sync.mark_try_count == 0);
	node->super.is_failed = true;
	sync_write_mark(node);
}

void
sn_disk_break(struct node *node, int rc)
{
	struct sn_sync *sync = &node->sync;

	assert(rc < 0);
	if (sync->sm.state == SYNC_BROKEN)
		return;
	/* Waiters that were gathered fare as if this flush had been theirs. */
	if (sync->sm.state == SYNC_GATHERING)
		sm_move(&sync->sm, SYNC_FLUSHING);
	sm_move(&sync->sm, SYNC_BROKEN);
	assert(!node->is_read_only);
	node->is_read_only = true;
	SN_COUNT(node, disk_errors, 1);
	log_error(
	    "disk: a flush failed, read-only from now on disk=%s rc=%s: gateways make its copies anew "
	    "on other nodes; replace it",
	    node->disk_name, log_errno(rc));
	if (!node->super.is_failed)
		sync_mark_failed(node);
	for (uint32_t i = 0; i < node->super.slot_count; i++)
		sn_extent_stop(&node->extents[i], -EROFS);
	sync_complete(&sync->covered, -EIO);
	sync_complete(&sync->waiting, -EIO);
}

static void
sync_on_flushed(struct disk_io *io, int rc, void *arg)
{
	struct node *node = arg;
	struct sn_sync *sync = &node->sync;

	(void)io;
	if (sync->sm.state == SYNC_BROKEN)
		return; /* by a durable write: the waiters of this flush were told then */
	assert(sync->sm.state == SYNC_FLUSHING);
	assert(rc <= 0);
	if (rc != 0 && MUTANT(flush_retried) && disk_submit(node->disk, &sync->io) == 0)
		return;
	if (rc != 0) {
		sn_disk_break(node, rc);
		return;
	}
	SN_COUNT(node, flushes, 1);
	/* The state before the waiters: one may wait again, and must then go with the next flush. */
	if (list_is_empty(&sync->waiting)) {
		sm_move(&sync->sm, SYNC_IDLE);
	} else {
		sm_move(&sync->sm, SYNC_GATHERING);
		loop_defer(node->loop, &sync->task);
	}
	sync_complete(&sync->covered, 0);
}

static void
sync_submit_flush(struct node *node)
{
	struct sn_sync *sync = &node->sync;
	struct loop_link *link, *next;
	uint64_t count = 0;
	int rc;

	assert(!list_is_empty(&sync->waiting));
	assert(list_is_empty(&sync->covered));
	LIST_FOREACH_SAFE(&sync->waiting, link, next)
		count++;
	SN_COUNT(node, flush_waiters, count);
	list_move_all(&sync->waiting, &sync->covered);
	sm_move(&sync->sm, SYNC_FLUSHING);
	sync->io = (struct disk_io){ .op = DISK_FLUSH, .fn = sync_on_flushed, .arg = node };
	rc = disk_submit(node->disk, &sync->io);
	/* The disk's queue has room for all that a node submits. Should it refuse, no flush is believed. */
	if (rc != 0)
		sn_disk_break(node, rc);
}

static void
sync_on_task(struct loop_task *task, void *arg)
{
	struct node *node = arg;
	struct sn_sync *sync = &node->sync;
	struct loop_link exempt;

	(void)task;
	list_init(&exempt);
	list_move_all(&sync->exempt, &exempt);
	sync_complete(&exempt, sync->sm.state == SYNC_BROKEN ? -EROFS : 0);
	if (sync->sm.state == SYNC_GATHERING)
		sync_submit_flush(node);
}

static bool
sync_is_exempt(const struct node *node, bool must_flush)
{
	bool is_protected = node->options.write_cache == NODE_CACHE_PROTECTED ||
	    MUTANT(ack_before_flush);

	return is_protected && !must_flush;
}

bool
sn_sync_is_idle(const struct node *node, bool must_flush)
{
	return node->sync.sm.state == SYNC_IDLE && !sync_is_exempt(node, must_flush);
}

int
sn_sync_judge(struct node *node, int rc)
{
	assert(rc <= 0);
	if (rc != 0)
		sn_disk_break(node, rc);
	if (node->sync.sm.state == SYNC_BROKEN)
		return -EIO;
	SN_COUNT(node, flushes, 1);
	SN_COUNT(node, flush_waiters, 1);
	return 0;
}

void
sn_sync_wait(struct node *node, struct sn_sync_waiter *waiter,
    void (*fn)(struct sn_sync_waiter *waiter, int rc), bool must_flush)
{
	struct sn_sync *sync = &node->sync;

	assert(fn != NULL);
	waiter->fn = fn;
	waiter->link = (struct loop_link){ NULL, NULL };
	if (sync->sm.state == SYNC_BROKEN || sync_is_exempt(node, must_flush)) {
		list_push_back(&sync->exempt, &waiter->link);
		loop_defer(node->loop, &sync->task);
		return;
	}
	list_push_back(&sync->waiting, &waiter->link);
	if (sync->sm.state == SYNC_IDLE) {
		sm_move(&sync->sm, SYNC_GATHERING);
		loop_defer(node->loop, &sync->task);
	}
}

void
sn_sync_begin_broken(struct node *node)
{
	assert(node->sm.state == NODE_RECOVERING);
	assert(node->sync.sm.state == SYNC_IDLE);
	assert(node->super.is_failed);
	log_error(
	    "disk: a flush failed before, read-only disk=%s: replace it; format --force makes it an "
	    "empty disk",
	    node->disk_name);
	node->is_read_only = true;
	sm_move(&node->sync.sm, SYNC_BROKEN);
}

int
sn_sync_init(struct node *node)
{
	struct sn_sync *sync = &node->sync;

	assert(sync->mark_page == NULL);
	sync->mark_page = sn_page_alloc(ONDISK_PAGE_BYTES);
	if (sync->mark_page == NULL)
		return -ENOMEM;
	sm_init(&sync->sm, "sync", sync_table, SYNC_IDLE, node->super.node_id);
	list_init(&sync->waiting);
	list_init(&sync->covered);
	list_init(&sync->exempt);
	loop_task_init(&sync->task, sync_on_task, node);
	return 0;
}

void
sn_sync_fini(struct node *node)
{
	if (node->sync.task.fn != NULL)
		loop_task_cancel(node->loop, &node->sync.task);
	free(node->sync.mark_page);
	node->sync.mark_page = NULL;
}
