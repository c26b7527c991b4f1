/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync.h -- completed writes become durable: one flush at a time, for everybody who waits for one
 *
 * sync.c has the picture.
 */
#ifndef CLEAVE_STORAGE_SYNC_H
#define CLEAVE_STORAGE_SYNC_H

#include <stdbool.h>

#include "base/sm.h"
#include "cleave/disk.h"
#include "cleave/loop.h"

struct node;

enum sync_state { SYNC_IDLE, SYNC_GATHERING, SYNC_FLUSHING, SYNC_BROKEN, SYNC_STATE_NR };
extern const struct sm_state sync_table[SYNC_STATE_NR];

/* A wait for a flush, its owner's; @fn is NULL until its first wait. */
struct sn_sync_waiter {
	struct loop_link link; /* in sn_sync.waiting, .covered or .exempt */
	void (*fn)(struct sn_sync_waiter *waiter, int rc);
};

struct sn_sync {
	struct sm sm;
	/* struct sn_sync_waiter, oldest first. */
	struct loop_link waiting; /* for a flush that is not submitted yet */
	struct loop_link covered; /* by the flush in flight */
	struct loop_link exempt;  /* need no flush; completed by the task */
	struct loop_task task;
	struct disk_io io; /* the flush in flight */
	/* A superblock that says that the disk is broken, written best effort. */
	struct disk_io mark_io;
	struct dev_piece mark_piece;
	void *mark_page;
	uint32_t mark_try_count, mark_count; /* copies of the superblock: written to, and marked */
};

/* sn_sync_init -- once, when the superblock is known. Returns 0 or -ENOMEM. */
int sn_sync_init(struct node *node);
/* sn_sync_fini -- free it; the disk is closed, no waiter is told any more. No-op before sn_sync_init. */
void sn_sync_fini(struct node *node);
/* sn_sync_begin_broken -- the superblock says that a flush failed here before: read-only. At start, nothing waits. */
void sn_sync_begin_broken(struct node *node);
/*
 * sn_sync_wait -- call @fn once all writes completed so far are durable
 *
 * @must_flush: flush also where the write cache is protected. @waiter waits for nothing else, and is the node's
 * until @fn, which is called once, never from inside: rc 0; -EIO the flush failed; -EROFS an earlier one has.
 */
void sn_sync_wait(struct node *node, struct sn_sync_waiter *waiter,
    void (*fn)(struct sn_sync_waiter *waiter, int rc), bool must_flush);
/* sn_sync_is_idle -- does a write that goes now need a flush of its own? No: none is needed, or one is shared. */
bool sn_sync_is_idle(const struct node *node, bool must_flush);
/*
 * sn_sync_judge -- what the flush of a durable write (disk.h), which ended with @rc <= 0, means for the disk
 *
 * Returns 0: the write is durable; -EIO: the disk is broken, by this flush or an earlier one.
 */
int sn_sync_judge(struct node *node, int rc);
/* sn_disk_break -- a flush failed with @rc < 0: the disk is read-only from now on, in this process and after (I3). */
void sn_disk_break(struct node *node, int rc);

#endif /* CLEAVE_STORAGE_SYNC_H */
