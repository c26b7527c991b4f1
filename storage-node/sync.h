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

/* Owned by who waits; @fn is NULL until its first wait. */
struct sn_sync_waiter {
	struct loop_link link; /* in sn_sync.waiting, .covered or .exempt */
	void (*fn)(struct sn_sync_waiter *waiter, int rc);
};

struct sn_sync {
	struct sm sm;
	struct loop_link waiting; /* for a flush that is not submitted yet */
	struct loop_link covered; /* by the flush in flight */
	struct loop_link exempt;  /* need no flush; completed by the task */
	struct loop_task task;
	struct disk_io io;
	/* Best effort: a superblock that says that the disk is broken. */
	struct disk_io mark_io;
	struct dev_piece mark_piece;
	void *mark_page;
};

/* sn_sync_init -- the superblock is known. Returns 0 or -ENOMEM. */
int sn_sync_init(struct node *node);
/* sn_sync_fini -- no waiter is told anything after this. No-op before sn_sync_init. */
void sn_sync_fini(struct node *node);
/* sn_sync_begin_broken -- at start: the superblock says that a flush failed here before. Nothing waits yet. */
void sn_sync_begin_broken(struct node *node);
/*
 * sn_sync_wait -- call @fn once all writes completed so far are durable
 *
 * @must_flush: also where the write cache is protected. @waiter waits for nothing else, and is the node's until
 * @fn, which is never called from inside. rc: 0; -EIO the flush failed; -EROFS an earlier one had.
 */
void sn_sync_wait(struct node *node, struct sn_sync_waiter *waiter,
    void (*fn)(struct sn_sync_waiter *waiter, int rc), bool must_flush);
/* sn_sync_is_idle -- does a write that goes now need a flush, and is there none to share? */
bool sn_sync_is_idle(const struct node *node, bool must_flush);
/*
 * sn_sync_judge -- the flush of a durable write has ended with @rc
 *
 * Returns 0, or -EIO: the disk is broken, by this flush or an earlier one.
 */
int sn_sync_judge(struct node *node, int rc);
/* sn_disk_break -- a flush failed with @rc: read-only from now on, in this process and after (I3). */
void sn_disk_break(struct node *node, int rc);

#endif /* CLEAVE_STORAGE_SYNC_H */
