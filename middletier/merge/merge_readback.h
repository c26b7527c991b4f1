/* SPDX-License-Identifier: Apache-2.0 */
/* merge_readback.h -- runs that somebody has made are read back: from nodes, as far as they say what is in them */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_READBACK_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_READBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/batch.h"
#include "extent/call.h"
#include "extent/choose.h"
#include "index/run_heads.h"
#include "merge/readback_hint.h"

struct merge_result;
struct merge_turn;
struct mt_shard;

enum merge_readback_state {
	READBACK_IDLE,
	READBACK_HINT,  /* a part's directory, from any replica: where its batches are */
	READBACK_HEADS, /* of a part's batches, one after the other, from any replica */
	READBACK_LAST,  /* the head of its last batch, from each */
	READBACK_STATE_NR
};

struct merge_readback {
	struct sm sm;
	struct mt_shard *shard;
	uint64_t chunk;
	struct merge_result *result;
	uint32_t part_at, replica_at;
	struct mt_run_heads heads;        /* of the part, as far as they were read */
	uint32_t head_at_bytes;           /* of the last one, in the extent */
	uint8_t head[BATCH_HEADER_BYTES]; /* of that */
	uint8_t buffer[BATCH_HEAD_BYTES_MAX];
	struct mt_call call;
	uint32_t bytes;                                 /* that it asks for */
	struct wire_stretch stretches[WIRE_GATHER_MAX]; /* HEADS: of the heads that are asked for */
	uint32_t stretch_count;                         /* 0: a single one is */
	uint8_t host[WIRE_HEADER_BYTES + WIRE_GATHER_MAX * WIRE_STRETCH_BYTES]; /* the request */
	struct readback_hint hint;
	uint8_t replica_index;
	bool is_out;
	bool is_refused; /* by the replica that was asked for the last batch: not at once again */
	struct mt_chooser chooser;
	uint64_t deadline_ns;    /* moves on with every head */
	int rc;                  /* negative: what was seen is not what was said */
	void (*tell)(void *arg); /* something came back */
	void *arg;
};

/* mt_merge_readback_init -- @tell is called with @arg, from the loop, when a step may go on. */
void mt_merge_readback_init(struct merge_readback *readback, void (*tell)(void *arg), void *arg);
/*
 * mt_merge_readback_begin -- IDLE: the parts of @result, in extents of @shard, are said to be runs of @chunk
 *
 * Their indexes are replaced by what is read. @result is borrowed until the end.
 */
void mt_merge_readback_begin(struct merge_readback *readback, struct mt_shard *shard,
    uint64_t chunk, struct merge_result *result);
/*
 * mt_merge_readback_step -- STEP_AGAIN: something is out, or it is tried again by @turn
 *
 * STEP_DONE: every part is a chain of batches of the chunk that ends where it should, result->indexes has all that is in
 * them, and every replica has the last batch of each durably. Negative: it is not so, or cannot be seen: -EBADMSG;
 * -EHOSTDOWN: a replica did not answer until the node time-out; -ESTALE: an extent has gone; -ENOMEM. IDLE after both.
 */
int mt_merge_readback_step(struct merge_readback *readback, struct merge_turn *turn);
/* mt_merge_readback_chain -- STEP_DONE: the batch_crc of the last batch of the last part. */
uint32_t mt_merge_readback_chain(const struct merge_readback *readback);
/* mt_merge_readback_cancel -- IDLE; what is out comes back unseen. Also when it is IDLE. */
void mt_merge_readback_cancel(struct merge_readback *readback);
/* mt_merge_readback_is_quiet -- nothing is out. */
bool mt_merge_readback_is_quiet(const struct merge_readback *readback);
/* mt_merge_readback_fini -- nothing comes back any more. */
void mt_merge_readback_fini(struct merge_readback *readback);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_READBACK_H */
