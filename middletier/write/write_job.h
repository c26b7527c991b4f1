/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_job.h -- what engines do for writes: compress a payload, and copy what came of it into a batch
 *
 * An inline engine compresses within the call, straight to where the record goes. A set with threads
 * compresses into a job's scratch; a second run of the same job copies the record to its place:
 *
 *	free ----> STORE ----> done: its results are in job ----> COPY ----> free
 *	             \_ failed, or nothing but zeros: free
 */
#ifndef CLEAVE_MIDDLETIER_WRITE_WRITE_JOB_H
#define CLEAVE_MIDDLETIER_WRITE_WRITE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"

struct mt_write;
struct mt_write_state;
struct write_batch;

/* Records of a shard with engine threads that are being compressed, or wait for those before. */
#define WRITE_JOBS_MAX 16u
#define WRITE_JOBS_SMALL 4u /* where the ring has less than WRITE_RING_SMALL_BYTES */
#define WRITE_RING_SMALL_BYTES NUM_MIB(8)
/* A job's scratch: a record's stored bytes, in whole cache lines. */
#define WRITE_JOB_SCRATCH_BYTES ((ENGINE_STORED_BYTES_MAX + 63u) / 64u * 64u)

typedef void (*mt_write_job_fn)(struct engine_job *job, void *arg);

/* An engine job of a write, and the device memory it compresses into. Threaded sets only. */
struct write_job {
	struct engine_job job;
	struct loop_link link; /* state->jobs.free */
	struct mt_write_state *state;
	struct mt_write *write;    /* whose record is being made */
	struct write_batch *batch; /* into which it is being copied */
	dev_ptr scratch;           /* WRITE_JOB_SCRATCH_BYTES */
};

/* A shard's jobs. */
struct write_jobs {
	bool is_inline;        /* the engine set runs within the call: there are no jobs */
	struct write_job *all; /* NULL: none, or the shard is idle */
	uint32_t count;
	struct loop_link free;
	struct engine_job inline_job;
};

/* mt_write_jobs_init -- learns whether the port's engines run inline. */
void mt_write_jobs_init(struct mt_write_state *state);
/*
 * mt_write_jobs_take -- where they do not, makes jobs
 *
 * Their scratch is the ring's last bytes, so it comes after the ring and before anything is in it.
 * Returns 0; -ENOMEM: mt_write_jobs_give takes what there is.
 */
int mt_write_jobs_take(struct mt_write_state *state);
/* mt_write_jobs_give -- no engine has a job any more. Without take: does nothing. */
void mt_write_jobs_give(struct mt_write_state *state);
/* mt_write_jobs_are_free -- no engine thread has one of the shard's jobs, or will be asked to copy its record. */
bool mt_write_jobs_are_free(const struct mt_write_state *state);
/* mt_write_is_inline -- do the shard's engines run within the call? */
bool mt_write_is_inline(const struct mt_write_state *state);

/* mt_write_stored_bytes_max -- the room that @write's record may need: its payload, and an envelope where it is encrypted. */
uint32_t mt_write_stored_bytes_max(const struct mt_write *write);
/*
 * mt_write_job_store_inline -- compress @write's payload to @dst, which has room for all of it
 *
 * Inline sets. Returns 0: the results are in state->jobs.inline_job until the next call; else what its client
 * is told.
 */
int mt_write_job_store_inline(struct mt_write_state *state, struct mt_write *write, dev_ptr dst);
/*
 * mt_write_job_store -- have @write's payload compressed into a job's scratch
 *
 * Returns 0: write->job is set, @fn follows once, from the loop, with the struct write_job as its argument;
 * -ENOBUFS: no job is free, or no room in the engine's queue, which is looked at again soon; else what its
 * client is told, and no @fn.
 */
int mt_write_job_store(struct mt_write_state *state, struct mt_write *write, mt_write_job_fn fn);
/* mt_write_job_rc -- what @write's client is told of a STORE that ended with @rc: 0, -EBADMSG, -EIO; -ENOMEDIUM no data key, logged. */
int mt_write_job_rc(const struct mt_write_state *state, const struct mt_write *write, int rc);
/*
 * mt_write_job_copy -- copy the @bytes in @job's scratch to @dst
 *
 * Returns 0: @fn once, from the loop, with @job as its argument; -ENOBUFS as above. The copy cannot fail.
 */
int mt_write_job_copy(struct mt_write_state *state, struct write_job *job, dev_ptr dst,
    uint32_t bytes, mt_write_job_fn fn);
/* mt_write_job_free -- @job, which no engine has, may be used again. */
void mt_write_job_free(struct mt_write_state *state, struct write_job *job);

#endif /* CLEAVE_MIDDLETIER_WRITE_WRITE_JOB_H */
