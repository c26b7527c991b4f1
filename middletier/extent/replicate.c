/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replicate.c -- a batch to every replica of its extent (I4)
 *
 * Each replica gets the same bytes in one assembled send: a wire header and a copy of the batch's head
 * from host memory, the packed payloads and the padding from device memory.
 *
 *	hosts[i]:  | wire header 64 | batch header 128 | descriptors |   then payload, zeros
 *
 * A batch is done when each call that was made for it has ended, for only then are its buffers free,
 * and every batch before it is done: handlers run in append order. It has succeeded when all replicas
 * say that they hold it durably, and acked_bytes reaches its beginning: behind one that failed, none
 * succeeds. The first failure makes the extent BROKEN, which takes no more batches.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/shard.h"
#include "common/slow_op.h"
#include "extent/extent.h"
#include "extent/head_push.h"
#include "extent/node_link.h"
#include "extent/replicate.h"

#define BATCH_OBJ_MAGIC 0x48544142u /* "BATH" */

int
mt_append_init(struct mt_append *batch, struct mt_port *port)
{
	*batch = (struct mt_append){ .magic = BATCH_OBJ_MAGIC };
	for (uint32_t i = 0; i < MT_REPLICAS_MAX; i++) {
		batch->hosts[i] = host_alloc(port->split, WIRE_HEADER_BYTES + BATCH_HEAD_BYTES_MAX);
		if (batch->hosts[i] == NULL) {
			mt_append_fini(batch, port);
			return -ENOMEM;
		}
	}
	return 0;
}

void
mt_append_fini(struct mt_append *batch, struct mt_port *port)
{
	/* A port that was closed has taken its arena along. */
	for (uint32_t i = 0; i < MT_REPLICAS_MAX && port->split != NULL; i++) {
		if (batch->hosts[i] != NULL)
			host_free(port->split, batch->hosts[i]);
	}
	*batch = (struct mt_append){ 0 };
}

/* Batches at the front that are done leave, in order. A handler may append, or free the extent. */
static void
extent_complete(struct mt_extent *extent)
{
	while (!list_is_empty(&extent->appends)) {
		struct mt_append *batch =
		    LIST_ENTRY(list_first(&extent->appends), struct mt_append, link);
		bool is_last = batch->link.next == &extent->appends;

		if (batch->unanswered_count > 0)
			return;
		list_remove(&batch->link);
		extent->append_count--;
		if (batch->rc == 0 && batch->info.offset_bytes != extent->acked_bytes &&
		    !MUTANT(gap_accepted))
			batch->rc = -EPIPE; /* durable behind a gap is not durable */
		if (batch->rc == 0) {
			extent->acked_bytes += batch->info.batch_bytes;
			metric_add(&extent->shard->port->metrics[MT_METRIC_batches], 1);
			metric_add(&extent->shard->port->metrics[MT_METRIC_records],
			    batch->info.record_count);
			if (extent->kind != EXTENT_RUN) /* what a take-over reads */
				mt_head_push(extent->shard->port, &batch->info,
				    batch->hosts[0] + WIRE_HEADER_BYTES);
		}
		batch->fn(batch, batch->rc, batch->arg);
		if (is_last)
			return; /* whatever came in meanwhile has not been answered */
	}
}

static int
append_reply_check(const struct mt_append *batch, const struct wire_node_reply *reply)
{
	/* Acknowledged cumulatively: a longer length means that this batch is durable too. */
	if (reply->offset_bytes < batch->info.offset_bytes + batch->info.batch_bytes)
		return -EPROTO;
	return 0;
}

/* A link's clock is that of the turn: an answer in the turn of the send took no time. */
static void
append_note(struct mt_append *batch, const struct mt_call *call, int rc,
    const struct wire_node_reply *reply)
{
	struct mt_answer *answer = &batch->answers[call - batch->calls];
	uint64_t now_ns = loop_now_ns(call->node->port->loop);

	assert(call >= batch->calls && call < batch->calls + MT_REPLICAS_MAX);
	answer->took_ns = now_ns > batch->sent_ns ? now_ns - batch->sent_ns : 1;
	answer->is_lost = rc != 0;
	answer->told = rc == 0 ? reply->length_bytes : 0;
}

uint32_t
mt_append_parts(const struct mt_append *batch, struct mt_slow_part *ret_parts)
{
	uint32_t count = 0;

	CHECK_OBJ(batch, BATCH_OBJ_MAGIC);
	for (uint32_t i = 0; i < MT_REPLICAS_MAX; i++) {
		const struct mt_answer *answer = &batch->answers[i];

		if (answer->took_ns == 0)
			continue;
		ret_parts[count++] =
		    (struct mt_slow_part){ .node_id = batch->calls[i].node->node_id,
			    .is_lost = answer->is_lost,
			    .took_ns = answer->took_ns,
			    .own = wire_node_times_decode(answer->told) };
	}
	return count;
}

static void
append_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_append *batch = arg;
	struct mt_extent *extent = batch->extent;

	CHECK_OBJ(batch, BATCH_OBJ_MAGIC);
	assert(msg == NULL);
	assert(batch->unanswered_count > 0);
	batch->unanswered_count--;
	append_note(batch, call, rc, reply);
	if (extent == NULL)
		return; /* freed: the process is being taken down */
	CHECK_OBJ(extent, MT_EXTENT_MAGIC);
	if (rc == 0)
		rc = append_reply_check(batch, reply);
	if (rc != 0 && MUTANT(ack_two_of_three) && batch->calls[0].node == call->node)
		rc = 0;
	if (rc != 0) {
		batch->rc = batch->rc == 0 || rc == -ESTALE ? rc : batch->rc;
		mt_extent_break(extent, call->node->node_id, rc);
		if (MUTANT(buffer_reused))
			batch->unanswered_count = 0;
	}
	extent_complete(extent);
}

static void
batch_fill_call(struct mt_append *batch, uint32_t replica_index)
{
	struct mt_extent *extent = batch->extent;
	struct mt_call *call = &batch->calls[replica_index];
	const struct batch_info *info = &batch->info;
	uint32_t head_bytes = BATCH_HEADER_BYTES + info->desc_bytes;

	assert(replica_index < extent->replica_count);
	call->request = (struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
		.id = extent->id,
		.kind = extent->kind,
		.offset_bytes = info->offset_bytes,
		.length_bytes = info->batch_bytes,
		.epoch = extent->shard->epoch };
	call->host = batch->hosts[replica_index];
	call->head_bytes = head_bytes;
	call->piece_count = 0;
	if (info->used_bytes > head_bytes)
		call->pieces[call->piece_count++] =
		    (struct dev_piece){ batch->payload, info->used_bytes - head_bytes };
	if (info->batch_bytes > info->used_bytes)
		call->pieces[call->piece_count++] =
		    (struct dev_piece){ extent->shard->port->zero_page,
			    info->batch_bytes - info->used_bytes };
	call->fn = append_on_answer;
	call->arg = batch;
	if (replica_index > 0)
		memcpy(call->host + WIRE_HEADER_BYTES, batch->hosts[0] + WIRE_HEADER_BYTES,
		    head_bytes);
}

/* The links of all replicas, or -EPIPE when one is not up; the extent is BROKEN then. */
static int
append_links(struct mt_extent *extent, struct mt_link *ret_links[MT_REPLICAS_MAX])
{
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		ret_links[i] = mt_port_link(extent->shard->port, extent->replicas[i].node_id);
		if (ret_links[i] == NULL || !mt_link_is_up(ret_links[i])) {
			mt_extent_break(extent, extent->replicas[i].node_id, -ENOTCONN);
			return -EPIPE;
		}
	}
	return 0;
}

static void
batch_encode(struct mt_extent *extent, struct mt_append *batch)
{
	assert(extent->end_bytes % BATCH_ALIGN == 0);
	assert(extent->acked_bytes <= extent->end_bytes);
	batch->info.id = extent->id;
	batch->info.kind = extent->kind;
	batch->info.offset_bytes = extent->end_bytes;
	batch->info.mark_bytes = MUTANT(mark_missing) ? 0 : extent->acked_bytes;
	batch->info.prev_crc = extent->chain_crc;
	batch_head_encode(batch->hosts[0] + WIRE_HEADER_BYTES, &batch->info);
}

/* How many replicas were asked; the first that cannot be asked breaks the extent. */
static uint32_t
append_send(struct mt_extent *extent, struct mt_append *batch, struct mt_link *const *links)
{
	assert(extent->replica_count >= 1);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		int rc;

		batch_fill_call(batch, i);
		rc = mt_link_call(links[i], &batch->calls[i]);
		if (rc != 0) {
			batch->rc = rc;
			mt_extent_break(extent, extent->replicas[i].node_id, rc);
			return i;
		}
	}
	return extent->replica_count;
}

int
mt_extent_append(struct mt_extent *extent, struct mt_append *batch)
{
	struct mt_link *links[MT_REPLICAS_MAX];
	int rc;

	CHECK_OBJ(extent, MT_EXTENT_MAGIC);
	CHECK_OBJ(batch, BATCH_OBJ_MAGIC);
	assert(batch->unanswered_count == 0);
	assert(extent->append_count < BATCH_IN_FLIGHT_MAX);
	assert(batch->info.batch_bytes == num_round_up(batch->info.used_bytes, BATCH_ALIGN));
	assert(batch->fn != NULL);
	assert(BATCH_HEADER_BYTES + batch->info.desc_bytes <= BATCH_HEAD_BYTES_MAX);
	if (extent->sm.state != MT_EXTENT_OPEN)
		return -EPIPE;
	if (extent->end_bytes + batch->info.batch_bytes > extent->capacity_bytes)
		return -ENOSPC;
	rc = append_links(extent, links);
	if (rc != 0)
		return rc;
	batch->extent = extent;
	batch->rc = 0;
	batch->sent_ns = loop_now_fresh_ns(extent->shard->port->loop);
	memset(batch->answers, 0, sizeof(batch->answers));
	batch_encode(extent, batch);
	batch->unanswered_count = append_send(extent, batch, links);
	if (batch->unanswered_count == 0) {
		batch->extent = NULL;
		return -EPIPE;
	}
	list_push_back(&extent->appends, &batch->link);
	extent->append_count++;
	extent->end_bytes += batch->info.batch_bytes;
	extent->chain_crc = batch->info.batch_crc;
	return 0;
}
