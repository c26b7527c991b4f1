/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_exec.h -- the executing part of a merge: stored records are fetched, checked, made to frames, and appended
 *
 * The deciding part (merge.c) knows indexes, snapshots and the manifest: it plans what becomes of which block, and names
 * what was written. This part has none of that. It is told a task, then one window after the other, and leaves parts of
 * run extents behind, and names of copies that did not pass (merge_result.h); nothing that it does counts before the
 * other part has named it. Of a shard it uses extents, ring, epoch and the open run extent.
 *
 *	begin ─> window filled ─> fetch ... ─> store_begin, store ... ─┬─> writer's end ─> its parts
 *	              ^                                                │
 *	              └────────────────────────────────────────────────┘     from anywhere: cancel ─> quiet
 *
 * There are two windows: while one is stored, the next may be filled and fetched already. Nodes are waited for then in no
 * other time than engines work, and a merge takes as long as the slower of both.
 *
 * A step that waits says STEP_AGAIN; what it waits for calls tell, or the writer its fn. Threads: the port's.
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_EXEC_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_EXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/gather.h"
#include "extent/call.h"
#include "merge/merge_step.h"
#include "merge/merge_window.h"
#include "merge/run_writer.h"

struct merge_exec;
struct mt_port;
struct mt_shard;
struct split_msg;

_Static_assert(RUN_BATCHES_MAX <= BATCH_IN_FLIGHT_MAX, "nodes look so far for marks");
#define MERGE_READS_MAX 16u    /* at nodes at a time: each takes a receive of the port */
#define MERGE_SUSPECTS_MAX 32u /* of a turn of the loop: there may be more, of which nobody hears */
#define MERGE_HASTE_LEVEL 1    /* of LZ4: as the log has it */
#define MERGE_JOBS_MAX 4u      /* loads at a time; beside them one store, for frames are in order */

struct merge_read {
	struct mt_call call;
	struct merge_exec *exec;
	struct split_msg *msg; /* has arrived */
	uint32_t first, count; /* of window->order */
	uint32_t next;         /* of them: the first that no job was made for */
	uint32_t job_count;
	struct wire_stretch stretches[WIRE_GATHER_MAX]; /* of the extent: the answer has them all */
	uint32_t stretch_count;
	uint8_t host[WIRE_HEADER_BYTES + WIRE_GATHER_MAX * WIRE_STRETCH_BYTES]; /* the request */
	uint8_t replica_index;
	bool is_out, is_used;
	bool is_of_log; /* the extent is */
};

struct merge_job {
	struct engine_job job;
	struct merge_exec *exec;
	struct merge_source *source; /* NULL: a store */
	struct merge_read *read;     /* NULL: from the ring */
	bool is_used, is_copying;
};

/* The same for all windows of a merge. */
struct merge_task {
	uint64_t target; /* number of the chunk that runs are made of */
	int level;       /* of zstd */
	bool is_hot;     /* its frames are LZ4 HC */
	uint32_t
	    frame_blocks; /* longer frames were planned in haste: what is not copied of them is LZ4 */
	bool
	    keeps_zeroes; /* frames of zeros are tombstones: something may lie beneath; else they are left out */
	uint32_t
	    key_id; /* what it stores is encrypted with it; 0: with the highest of what it has read encrypted so far */
};

/* A copy that was read, or was to be read, and does not pass. */
struct merge_suspect {
	struct extent_id id;
	uint32_t node_id;
};

struct merge_exec {
	struct mt_port *port;
	struct run_writer writer;
	struct merge_window window;  /* is filled, and fetched */
	struct merge_window storing; /* was fetched: its frames are stored */
	bool is_ahead;               /* window is the one behind storing, not the one before */
	dev_ptr memory;              /* of both */
	uint32_t block_max;          /* of a window: its memory holds no more */
	struct merge_read reads[MERGE_READS_MAX];
	uint32_t read_max;
	struct merge_job jobs[MERGE_JOBS_MAX];
	struct merge_job store; /* one at a time: frames are in order */
	uint32_t out_count;     /* calls and jobs */
	uint64_t deadline_ns;   /* of the window's reads */
	struct merge_turn turn;
	/* The merge at work. */
	struct mt_shard *shard;
	struct merge_task task;
	uint32_t key_id; /* what is stored now is encrypted with it; 0: nothing is */
	uint64_t read_bytes;
	struct merge_suspect suspects[MERGE_SUSPECTS_MAX];
	uint32_t suspect_count; /* the shard was not told of these yet */
	bool is_cancelled;      /* what comes back is let go */
	bool is_garbling; /* for tests: frames that are made anew are said to be another codec's */
	/* Something came back; @rc: negative, it ends the merge. */
	void (*tell)(int rc, void *arg);
	void *arg;
};

/*
 * mt_merge_exec_init -- with memory of @port: two windows of @window_bytes together, and the writer's batches; all zeros before
 *
 * 0; -ENOMEM: mt_merge_exec_fini takes what there is. @writer_fn: run_writer's, with @arg.
 */
int mt_merge_exec_init(struct merge_exec *exec, struct mt_port *port, uint64_t window_bytes,
    void (*writer_fn)(void *arg), void *arg);
/* mt_merge_exec_fini -- nothing of it comes back any more. Also of one that is all zeros. */
void mt_merge_exec_fini(struct merge_exec *exec);
/* mt_merge_exec_begin -- a merge of @shard, by @task. Nothing of an earlier one is out. @tell may be called from now on. */
void mt_merge_exec_begin(struct merge_exec *exec, struct mt_shard *shard,
    const struct merge_task *task, void (*tell)(int rc, void *arg), void *arg);
/* mt_merge_exec_cancel -- @rc: nothing more is sent, and what arrives is let go. The same before mt_merge_exec_begin. */
void mt_merge_exec_cancel(struct merge_exec *exec, int rc);
/* mt_merge_exec_is_quiet -- no call, job or batch of it is out. */
bool mt_merge_exec_is_quiet(const struct merge_exec *exec);

static inline void
merge_exec_tell(const struct merge_exec *exec, int rc)
{
	exec->tell(rc, exec->arg);
}

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_EXEC_H */
