/* SPDX-License-Identifier: Apache-2.0 */
/* change.h -- create, freeze, truncate, delete, fence; change.c has the picture of their states */
#ifndef CLEAVE_STORAGE_CHANGE_H
#define CLEAVE_STORAGE_CHANGE_H

#include <stdint.h>

#include "base/sm.h"
#include "cleave/disk.h"
#include "cleave/loop.h"
#include "extent.h"
#include "fence.h"
#include "format/ondisk.h"
#include "scan.h"
#include "sync.h"

struct sn_request;

enum change_state {
	CHANGE_QUEUED,
	CHANGE_SETTLING,
	CHANGE_SCANNING,
	CHANGE_WRITING,
	CHANGE_SYNCING,
	CHANGE_DONE,
	CHANGE_FAILED,
	CHANGE_STATE_NR
};
extern const struct sm_state change_table[CHANGE_STATE_NR];

/* The part of a request that is a change. */
struct sn_change {
	struct sm sm;
	struct loop_link link;     /* in extent->changes */
	enum extent_state was;     /* the extent's state, to go back to */
	struct ondisk_state state; /* what is being written */
	uint32_t pending_count;    /* page and fence outstanding */
	int rc;                    /* the first failure of those */
	int answer_rc;             /* what is told when none failed */
	struct disk_io io;
	struct dev_piece piece;
	struct sn_sync_waiter sync_waiter;
	struct sn_fence_waiter fence_waiter;
	struct sn_scan_job scan_job;
};

/*
 * sn_change_start -- @req, a CREATE, FREEZE, TRUNCATE, DELETE or FENCE: answered when it is durable, or refused
 *
 * @req: decoded; the node's until it is answered. The node is READY. Errors, told to the gateway: -EROFS a flush of
 * this disk has failed; -ESTALE an epoch older than the fence, or than the copy's maker; -EOVERFLOW one far above
 * the fence; -ENOENT no such copy, or incarnation; -EEXIST (CREATE) with the incarnation that is there; -EBUSY the
 * copy is being created or deleted, or the last slot zeroed; -ENOSPC (CREATE); -EINVAL an epoch below the id's, or
 * (TRUNCATE) a length that is no batch's end; -ERANGE (TRUNCATE) a length that is not there; -EPERM (TRUNCATE) it
 * is sealed at another length; -EUCLEAN (TRUNCATE) the chain is damaged before that length; -EIO the disk: what
 * was written may be there after a restart.
 */
void sn_change_start(struct sn_request *req);
/* sn_change_on_settled -- appends or reads of @extent have ended: its first change goes on, if it waited for that. */
void sn_change_on_settled(struct sn_extent *extent);

#endif /* CLEAVE_STORAGE_CHANGE_H */
