/* SPDX-License-Identifier: Apache-2.0 */
/* append.h -- a batch comes in and is made durable; append.c has the picture and the queues */
#ifndef CLEAVE_STORAGE_APPEND_H
#define CLEAVE_STORAGE_APPEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "hops.h"
#include "sync.h"

struct node;
struct sn_extent;
struct sn_request;

enum append_state {
	APPEND_CHECKING,
	APPEND_QUEUED,
	APPEND_WRITING,
	APPEND_SYNCING,
	APPEND_DURABLE,
	APPEND_ACKED,
	APPEND_FAILED,
	APPEND_STATE_NR
};
extern const struct sm_state append_table[APPEND_STATE_NR];

/* The part of a request that is an append. */
struct sn_append {
	struct sm sm;
	struct loop_link link; /* in the extent's checking, queued, then in_flight; oldest first */
	struct loop_link group_link; /* in its write's appends */
	uint64_t offset_bytes;       /* in the extent */
	uint32_t bytes;              /* of the batch */
	struct engine_job job;
	bool is_job_running; /* an engine has job */
	struct batch_check check;
	struct sn_stamps stamps; /* hops.c's */
};

/* A gathered write of adjacent appends of an extent, and its wait for a flush. */
struct sn_write {
	uint32_t magic;
	struct loop_link link; /* in free_writes */
	struct node *node;
	struct sn_extent *extent;
	struct loop_link appends; /* struct sn_append, oldest first; none: it is free */
	struct disk_io io;
	struct dev_piece pieces[DISK_PIECES_MAX];
	struct sn_sync_waiter waiter;
};

/* Shared by the appends of all extents. */
struct sn_appender {
	struct loop_link ready; /* extents with queued appends */
	struct loop_task commit_task;
	struct sn_write *writes; /* as many as there are requests: one is always free */
	struct loop_link free_writes;
	uint32_t writes_count; /* at the disk */
};

/*
 * sn_append_start -- @req, an APPEND: refused at once, or answered when it and all before it are durable
 *
 * @req: decoded, with its payload in its receive; the node's until it is answered. The node is READY.
 * Errors, told to the gateway: -EROFS a flush of this disk has failed; -ESTALE the epoch is older than the fence, or
 * not that of the copy's maker; -ENOENT no such copy; -EBUSY the copy is being created, or no engine is free;
 * -EACCES it is frozen or stopped; -EPERM it is sealed; -EINVAL another kind of extent, or flags that do not fit
 * its state; -ESPIPE the offset is not its end; -ERANGE the batch ends behind the slot; -EBADMSG the batch does not
 * pass its check; -EIO the disk failed this write, or an earlier one of the copy.
 */
void sn_append_start(struct sn_request *req);
/* sn_append_init -- memory for node->request_count appends, once. Returns 0; -ENOMEM: then sn_append_fini, too. */
int sn_append_init(struct node *node);
/* sn_append_fini -- free it; the disk is closed, nothing is written any more. No-op before sn_append_init. */
void sn_append_fini(struct node *node);

#endif /* CLEAVE_STORAGE_APPEND_H */
