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

/* A request's share of it. */
struct sn_append {
	struct sm sm;
	struct loop_link link; /* in the extent's checking, queued, then in_flight; oldest first */
	struct loop_link group_link; /* in its write's appends */
	uint64_t offset_bytes;
	uint32_t bytes;
	struct engine_job job;
	bool is_job_running;
	struct batch_check check;
};

/* A gathered write of adjacent appends of an extent, and its wait for a flush. */
struct sn_write {
	uint32_t magic;
	struct loop_link link; /* in free_writes */
	struct node *node;
	struct sn_extent *extent;
	struct loop_link appends;
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
 * Errors, told to the gateway: -EROFS the disk is broken; -ESTALE an older epoch; -ENOENT; -EACCES frozen by
 * another; -EPERM sealed; -EINVAL another kind; -ESPIPE not at the end; -ERANGE past the slot; -EBADMSG the batch
 * does not pass its check; -EBUSY; -EIO the disk. @req is the node's until then.
 */
void sn_append_start(struct sn_request *req);
/* sn_append_init -- node->request_count is known. Returns 0 or -ENOMEM. */
int sn_append_init(struct node *node);
/* sn_append_fini -- nothing is written after this. No-op before sn_append_init. */
void sn_append_fini(struct node *node);

#endif /* CLEAVE_STORAGE_APPEND_H */
