/* SPDX-License-Identifier: Apache-2.0 */
/* write_batch.h -- records on their way to the log */
#ifndef CLEAVE_MIDDLETIER_WRITE_WRITE_BATCH_H
#define CLEAVE_MIDDLETIER_WRITE_WRITE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "common/slow_op.h"
#include "extent/replicate.h"

struct mt_write;
struct mt_write_state;

_Static_assert(MT_APPENDS_IN_FLIGHT_MAX <= BATCH_IN_FLIGHT_MAX, "nodes look so far for marks");
#define WRITE_APPENDS_OPEN_MAX 2u /* in flight, before the open batch waits to fill */
/* Batches of a shard: those in flight, one closed behind them, one filling. */
#define WRITE_BATCHES_MAX (MT_APPENDS_IN_FLIGHT_MAX + 2u)

enum write_batch_state {
	WRITE_BATCH_FREE,
	WRITE_BATCH_FILLING,  /* takes records */
	WRITE_BATCH_READY,    /* closed; in state->ready, oldest first */
	WRITE_BATCH_SENT,     /* at its replicas */
	WRITE_BATCH_DRAINING, /* given up; copies into it are still running */
	WRITE_BATCH_STATE_NR
};

struct write_batch {
	struct mt_append batch;
	struct sm sm;
	struct loop_link link;   /* state->free_batches or ready */
	struct loop_link writes; /* in the order of their records */
	uint64_t ring_position;
	uint32_t desc_bytes;
	uint32_t payload_bytes;
	uint32_t record_count;
	uint32_t copy_count;          /* engine jobs that still write into it */
	bool was_sent;                /* to an extent that broke */
	bool is_ahead;                /* it has a record of the latency class */
	uint64_t sent_ns, durable_ns; /* first sent, at every replica; 0: not yet */
	struct mt_slow_part before;   /* the slowest of extents that broke; node_id 0: none did */
	struct mt_write_state *state;
};

/* mt_write_batches_init -- all FREE, without memory. */
void mt_write_batches_init(struct mt_write_state *state);
/* mt_write_batches_take -- host memory for their heads. Returns 0; -ENOMEM: mt_write_batches_give takes what there is. */
int mt_write_batches_take(struct mt_write_state *state);
/* mt_write_batches_give -- whatever their state: no node or engine can reach them any more. */
void mt_write_batches_give(struct mt_write_state *state);
/*
 * mt_write_batch_room -- the filling batch, with room for a record of @stored_bytes and @crc_count block
 * CRCs; closes a full one and opens the next. NULL: wait for a batch to end, or the ring.
 */
struct write_batch *mt_write_batch_room(struct mt_write_state *state, uint32_t stored_bytes,
    uint32_t crc_count);
/* mt_write_batch_payload -- where the next record's stored bytes go. */
dev_ptr mt_write_batch_payload(const struct write_batch *batch);
/* mt_write_batch_add -- @record becomes the batch's next one, @write's answer waits for it. */
void mt_write_batch_add(struct write_batch *batch, struct mt_write *write,
    const struct record_desc *record);
/* mt_write_batch_copied -- a job that wrote into @batch has ended. */
void mt_write_batch_copied(struct write_batch *batch);
/* mt_write_batches_send -- append what the log takes now. True: something was sent. */
bool mt_write_batches_send(struct mt_write_state *state);
/* mt_write_batches_close -- what comes next goes into another batch than what is there. */
void mt_write_batches_close(struct mt_write_state *state);
/* mt_write_batches_have_older -- is a batch with a cut below @cut on its way? */
bool mt_write_batches_have_older(const struct mt_write_state *state, uint64_t cut);
/* mt_write_is_at -- is a write of these segments on its way? */
bool mt_write_is_at(const struct mt_write_state *state, uint64_t segment_base,
    uint32_t segment_count);
/* mt_write_batches_fail -- answer all records that are not in flight with @rc. */
void mt_write_batches_fail(struct mt_write_state *state, int rc);

#endif /* CLEAVE_MIDDLETIER_WRITE_WRITE_BATCH_H */
