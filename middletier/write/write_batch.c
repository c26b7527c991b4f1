/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_batch.c -- records on their way to the log, a batch at a time
 *
 *	      first record        full, or sent            accepted by the extent
 *	FREE ------------> FILLING ------------> READY ------------------------> SENT
 *	 ^                    |                   |  ^                             |
 *	 |<-------------------+                   |  +---- the extent broke -------+
 *	 |<---------- DRAINING <------------------+                                |
 *	 +---------------------------------------------------- acknowledged -------+
 *
 * One batch fills at a time: engines put stored bytes into its place in the ring, their descriptors are
 * encoded into its host buffer as they come. It is closed when fewer than two appends are in flight, else
 * when the next record does not fit: batches are short while there is little to do, full under load,
 * and nothing waits for a timer. A closed one gains nothing by waiting: up to four are in flight. It
 * never changes: sent to another extent, it keeps its records and their sequence.
 *
 * Its place in the ring is held until it is acknowledged; then its records enter the index in
 * order, and each write is answered. DRAINING is a batch that was given up while engine threads still
 * write into it.
 */
#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/lease.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/extent.h"
#include "extent/replicate.h"
#include "index/index.h"
#include "index/index_apply.h"
#include "index/ring.h"
#include "write/cut.h"
#include "write/log_roll.h"
#include "write/write_answer.h"
#include "write/write_batch.h"
#include "write/write_hops.h"
#include "write/write_path.h"
#include "write/write_room.h"

#define WRITE_LEASE_RETRY_NS NUM_MS(10)

static const struct sm_state write_batch_table[WRITE_BATCH_STATE_NR] = {
	[WRITE_BATCH_FREE] = { "free", SM_TO(WRITE_BATCH_FILLING), SM_INITIAL },
	[WRITE_BATCH_FILLING] = { "filling", SM_TO(WRITE_BATCH_READY) | SM_TO(WRITE_BATCH_FREE),
	    0 },
	[WRITE_BATCH_READY] = { "ready",
	    SM_TO(WRITE_BATCH_SENT) | SM_TO(WRITE_BATCH_DRAINING) | SM_TO(WRITE_BATCH_FREE), 0 },
	[WRITE_BATCH_SENT] = { "sent", SM_TO(WRITE_BATCH_READY) | SM_TO(WRITE_BATCH_FREE), 0 },
	[WRITE_BATCH_DRAINING] = { "draining", SM_TO(WRITE_BATCH_FREE), 0 },
};

static void batch_on_done(struct mt_append *mt_append, int rc, void *arg);

static struct write_batch *
batch_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct write_batch, link);
}

void
mt_write_batches_init(struct mt_write_state *state)
{
	assert(state->filling == NULL);
	list_init(&state->free_batches);
	list_init(&state->ready);
	for (uint32_t i = 0; i < WRITE_BATCHES_MAX; i++) {
		struct write_batch *batch = &state->batches[i];

		batch->state = state;
		list_init(&batch->writes);
		sm_init(&batch->sm, "write_batch", write_batch_table, WRITE_BATCH_FREE, i);
		list_push_back(&state->free_batches, &batch->link);
	}
}

int
mt_write_batches_take(struct mt_write_state *state)
{
	for (uint32_t i = 0; i < WRITE_BATCHES_MAX; i++) {
		struct write_batch *batch = &state->batches[i];
		int rc = mt_append_init(&batch->batch, state->shard->port);

		assert(batch->sm.state == WRITE_BATCH_FREE);
		if (rc != 0)
			return rc; /* mt_write_batches_give takes what there is */
		batch->batch.fn = batch_on_done;
		batch->batch.arg = batch;
	}
	return 0;
}

void
mt_write_batches_give(struct mt_write_state *state)
{
	for (uint32_t i = 0; i < WRITE_BATCHES_MAX; i++)
		mt_append_fini(&state->batches[i].batch, state->shard->port);
}

/* ---- filling ---- */

static uint8_t *
batch_head(struct write_batch *batch)
{
	return batch->batch.hosts[0] + WIRE_HEADER_BYTES;
}

static bool
batch_has_room(const struct mt_write_state *state, const struct write_batch *batch,
    uint32_t stored_bytes, uint32_t crc_count)
{
	uint32_t head_bytes = BATCH_HEADER_BYTES + batch->desc_bytes + BATCH_DESC_FIXED_BYTES +
	    4 * crc_count;

	assert(batch->sm.state == WRITE_BATCH_FILLING);
	assert(crc_count <= ENGINE_RECORD_BLOCKS_MAX);
	/* The head goes out behind the wire header, in one piece of host memory. */
	return batch->record_count < BATCH_RECORDS_MAX &&
	    WIRE_HEADER_BYTES + head_bytes <= SPLIT_HEADER_BYTES_MAX &&
	    head_bytes + batch->payload_bytes + stored_bytes <= state->batch_bytes_max;
}

static struct write_batch *
batch_open(struct mt_write_state *state)
{
	struct mt_ring *ring = state->shard->ring;
	struct loop_link *link = list_first(&state->free_batches);
	struct write_batch *batch;

	assert(state->filling == NULL);
	if (link == NULL)
		return NULL;
	batch = batch_of(link);
	if (mt_ring_reserve(ring, BATCH_BYTES_MAX, &batch->ring_position) != 0)
		return NULL;
	list_remove(&batch->link);
	sm_move(&batch->sm, WRITE_BATCH_FILLING);
	batch->batch.payload = mt_ring_at(ring, batch->ring_position);
	batch->desc_bytes = batch->payload_bytes = 0;
	batch->record_count = 0;
	batch->was_sent = batch->is_ahead = false;
	batch->sent_ns = batch->durable_ns = 0;
	batch->before.node_id = 0;
	batch->before.took_ns = 0;
	state->filling = batch;
	return batch;
}

static void
batch_close(struct mt_write_state *state, struct write_batch *batch)
{
	struct mt_shard *shard = state->shard;
	uint32_t used_bytes = BATCH_HEADER_BYTES + batch->desc_bytes + batch->payload_bytes;

	assert(state->filling == batch);
	assert(batch->record_count > 0);
	assert(used_bytes <= BATCH_BYTES_MAX);
	state->filling = NULL;
	mt_ring_commit(shard->ring, batch->ring_position, batch->payload_bytes);
	batch->batch.info = (struct batch_info){
		.record_count = batch->record_count,
		.base_sequence = shard->next_sequence,
		.cut = shard->cut,
		.used_bytes = used_bytes,
		.batch_bytes = (uint32_t)num_round_up(used_bytes, BATCH_ALIGN),
		.desc_bytes = batch->desc_bytes,
	};
	shard->next_sequence += batch->record_count;
	mt_write_room_take(state, batch->batch.info.batch_bytes);
	sm_move(&batch->sm, WRITE_BATCH_READY);
	list_push_back(&state->ready, &batch->link);
}

void
mt_write_batches_close(struct mt_write_state *state)
{
	struct write_batch *batch = state->filling;

	if (batch != NULL && batch->record_count > 0)
		batch_close(state, batch);
}

bool
mt_write_batches_have_older(const struct mt_write_state *state, uint64_t cut)
{
	assert(cut > 0);
	for (uint32_t i = 0; i < WRITE_BATCHES_MAX; i++) {
		const struct write_batch *batch = &state->batches[i];

		if ((batch->sm.state == WRITE_BATCH_READY || batch->sm.state == WRITE_BATCH_SENT) &&
		    batch->batch.info.cut < cut)
			return true;
	}
	return false;
}

bool
mt_write_is_at(const struct mt_write_state *state, uint64_t segment_base, uint32_t segment_count)
{
	for (uint32_t i = 0; i < state->write_max; i++) {
		const struct mt_write *write = &state->writes[i];

		if (write->sm.state != WRITE_FREE && write->io.segment >= segment_base &&
		    write->io.segment - segment_base < segment_count)
			return true;
	}
	return false;
}

struct write_batch *
mt_write_batch_room(struct mt_write_state *state, uint32_t stored_bytes, uint32_t crc_count)
{
	struct write_batch *batch = state->filling;

	assert(state->is_started);
	if (batch != NULL && batch_has_room(state, batch, stored_bytes, crc_count))
		return batch;
	if (batch != NULL && batch->record_count > 0)
		batch_close(state, batch);
	if (state->filling == NULL)
		batch = batch_open(state);
	if (batch == NULL || !batch_has_room(state, batch, stored_bytes, crc_count))
		return NULL;
	return batch;
}

dev_ptr
mt_write_batch_payload(const struct write_batch *batch)
{
	assert(batch->sm.state == WRITE_BATCH_FILLING);
	return dev_ptr_add(batch->batch.payload, batch->payload_bytes);
}

void
mt_write_batch_add(struct write_batch *batch, struct mt_write *write,
    const struct record_desc *record)
{
	assert(batch->sm.state == WRITE_BATCH_FILLING);
	assert(batch->record_count < BATCH_RECORDS_MAX);
	assert(batch->state->filling == batch);
	batch->desc_bytes +=
	    record_encode(batch_head(batch) + BATCH_HEADER_BYTES + batch->desc_bytes, record);
	batch->payload_bytes += record->stored_bytes;
	batch->record_count++;
	batch->is_ahead |= write_line_of(write) == WRITE_LINE_AHEAD;
	write->stored_bytes = record->stored_bytes;
	write->batch = batch;
	if (write->stamps.stored_ns == 0) /* it has no payload */
		write->stamps.started_ns = write->stamps.stored_ns = loop_now_ns(
		    batch->state->shard->port->loop);
	sm_move(&write->sm, WRITE_BATCHED);
	list_remove(&write->link);
	list_push_back(&batch->writes, &write->link);
}

/* ---- leaving ---- */

static void
batch_free(struct mt_write_state *state, struct write_batch *batch)
{
	assert(list_is_empty(&batch->writes));
	assert(batch->copy_count == 0);
	if (state->filling == batch) {
		state->filling = NULL;
		mt_ring_commit(state->shard->ring, batch->ring_position, 0);
	}
	mt_ring_release(state->shard->ring, batch->ring_position);
	list_remove(&batch->link);
	sm_move(&batch->sm, WRITE_BATCH_FREE);
	list_push_back(&state->free_batches, &batch->link);
	mt_cut_on_batch(state->shard);
}

static void
batch_fail(struct mt_write_state *state, struct write_batch *batch, int rc)
{
	struct loop_link *link;

	assert(rc < 0);
	while ((link = list_first(&batch->writes)) != NULL)
		mt_write_finish(state, LIST_ENTRY(link, struct mt_write, link), rc);
	if (batch->copy_count == 0) {
		batch_free(state, batch);
		return;
	}
	if (state->filling == batch)
		batch_close(state, batch); /* its place in the ring stays as long as it is held */
	list_remove(&batch->link);
	sm_move(&batch->sm, WRITE_BATCH_DRAINING);
}

void
mt_write_batches_fail(struct mt_write_state *state, int rc)
{
	struct loop_link *link;

	assert(rc < 0);
	while ((link = list_first(&state->ready)) != NULL)
		batch_fail(state, batch_of(link), rc);
	if (state->filling != NULL)
		batch_fail(state, state->filling, rc);
}

void
mt_write_batch_copied(struct write_batch *batch)
{
	struct mt_write_state *state = batch->state;

	assert(batch->copy_count > 0);
	batch->copy_count--;
	if (batch->sm.state == WRITE_BATCH_DRAINING && batch->copy_count == 0)
		batch_free(state, batch);
	write_pump_soon(state);
}

/* ---- at the replicas ---- */

/* The index's lines are asked for before the first is needed. */
static void
batch_prefetch(const struct mt_shard *shard, const struct write_batch *batch)
{
	const struct loop_link *link;

	for (link = batch->writes.next; link != &batch->writes; link = link->next) {
		const struct wire_io *io = &LIST_ENTRY(link, struct mt_write, link)->io;

		mt_index_prefetch(shard->block_index, io->segment,
		    (uint32_t)(io->offset_bytes / CLEAVE_BLOCK_BYTES));
	}
}

/* In the index, and answered next: before that nobody reads what was there past the port any more. */
static void
record_tell(struct mt_port *port, const struct mt_write *write, const struct record_desc *record)
{
	const struct mt_change change = { .volume = write->session->hello.volume_id,
		.segment = record->segment,
		.block = record->block,
		.count = record->block_count };

	if (port->on_change != NULL)
		port->on_change(port, &change);
}

/*
 * Durable on every replica (I4): into the index, in log order, and answered. What cannot be indexed, for
 * which there is no memory behind a cut, is not acknowledged: the shard stops, and is replayed.
 */
static void
batch_apply(struct mt_write_state *state, struct write_batch *batch)
{
	struct mt_shard *shard = state->shard;
	const struct batch_info *info = &batch->batch.info;
	uint64_t payload_offset_bytes = BATCH_HEADER_BYTES + info->desc_bytes;
	struct record_iter it;
	struct record_desc record;
	const char *field;
	int rc = 0;

	assert(batch->copy_count == 0);
	assert(info->record_count > 0);
	batch_prefetch(shard, batch);
	record_iter_init(&it, batch_head(batch), info);
	while (record_iter_next(&it, &record, &field) == 1) {
		uint64_t position = batch->ring_position + record.payload_offset_bytes -
		    payload_offset_bytes;
		struct mt_write *write =
		    LIST_ENTRY(list_first(&batch->writes), struct mt_write, link);

		if (rc == 0)
			rc = mt_index_apply(shard->block_index, &record, info->cut,
			    batch->batch.extent->index, info->offset_bytes, position);
		record_tell(shard->port, write, &record);
		if (rc != 0)
			mt_shard_stop(shard, rc);
		mt_write_finish(state, write, rc == 0 ? 0 : state->stop_rc);
	}
	shard->log_bytes += info->batch_bytes;
	batch_free(state, batch);
}

/* Back among those to be sent, where its sequence belongs. */
static void
batch_requeue(struct mt_write_state *state, struct write_batch *batch)
{
	struct loop_link *at = state->ready.next;

	assert(batch->sm.state == WRITE_BATCH_SENT);
	while (at != &state->ready &&
	    batch_of(at)->batch.info.base_sequence < batch->batch.info.base_sequence)
		at = at->next;
	batch->was_sent = true;
	mt_write_hops_resend(batch);
	sm_move(&batch->sm, WRITE_BATCH_READY);
	list_insert_before(at, &batch->link);
}

static void
batch_on_done(struct mt_append *mt_append, int rc, void *arg)
{
	struct write_batch *batch = arg;
	struct mt_write_state *state = batch->state;

	assert(&batch->batch == mt_append);
	assert(batch->sm.state == WRITE_BATCH_SENT);
	if (rc == 0) {
		batch->durable_ns = loop_now_ns(state->shard->port->loop);
		batch_apply(state, batch);
	} else {
		batch_requeue(state, batch);
		if (state->is_stopped)
			batch_fail(state, batch, state->stop_rc);
		else if (rc == -ESTALE || rc == -EACCES)
			mt_shard_stop(state->shard, -ESTALE); /* a node knows a newer owner */
		else if (state->roll.is_full)
			batch_fail(state, batch, -ENOSPC);
	}
	write_pump_soon(state);
}

/* The batch that goes next, or NULL: there is none, it is not whole yet, or enough are in flight. */
static struct write_batch *
batch_next(struct mt_write_state *state)
{
	struct loop_link *link = list_first(&state->ready);
	struct write_batch *batch = link != NULL ? batch_of(link) : state->filling;
	uint32_t in_flight_max = link != NULL ? MT_APPENDS_IN_FLIGHT_MAX : WRITE_APPENDS_OPEN_MAX;

	assert(state->shard->log != NULL);
	if (batch == NULL || batch->record_count == 0 || batch->copy_count > 0 ||
	    state->shard->log->append_count >= in_flight_max)
		return NULL;
	if (batch == state->filling && state->turn.is_over && !batch->is_ahead)
		return NULL; /* it gets what waits for the next turn */
	if (batch == state->filling)
		batch_close(state, batch);
	return batch;
}

static bool
batch_send(struct mt_write_state *state, struct write_batch *batch)
{
	struct mt_extent *log = state->shard->log;
	int rc = mt_extent_append(log, &batch->batch);

	assert(batch->sm.state == WRITE_BATCH_READY);
	assert(batch->copy_count == 0); /* else engine threads still write into it */
	if (rc == 0) {
		list_remove(&batch->link);
		sm_move(&batch->sm, WRITE_BATCH_SENT);
		if (batch->sent_ns == 0)
			batch->sent_ns = batch->batch.sent_ns;
		if (batch->was_sent)
			metric_add(&state->shard->port->metrics[MT_METRIC_batches_resent], 1);
		return true;
	}
	if (rc == -ENOSPC && log->end_bytes == 0) {
		batch_fail(state, batch, -EMSGSIZE); /* closed for an extent of larger slots */
		write_pump_soon(state);
	} else {
		mt_log_roll_over(state);
	}
	return false;
}

/* Nothing is sent without a lease; the next may come, or the shard is stopped. */
static bool
write_may_append(struct mt_write_state *state)
{
	struct mt_port *port = state->shard->port;

	assert(!state->is_stopped);
	if (mt_port_has_lease(port))
		return true;
	loop_timer_start(port->loop, &state->retry_timer, WRITE_LEASE_RETRY_NS);
	return false;
}

bool
mt_write_batches_send(struct mt_write_state *state)
{
	bool was_sent = false;

	while (state->is_started && state->roll.sm.state == LOG_ROLL_STEADY) {
		struct write_batch *batch;

		if (state->shard->log == NULL || !write_may_append(state))
			break;
		batch = batch_next(state);
		if (batch == NULL || !batch_send(state, batch))
			break;
		was_sent = true;
	}
	return was_sent;
}
