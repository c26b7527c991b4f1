/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_post.c -- work requests: receives to the device, sends gathered for it
 *
 * A send's entries are its header and its pieces, from where they are. Three things are not where
 * the device can take them from, and are copied once, and counted as spill where they are payload:
 * a header outside of the host arena; and, because one RDMA message cannot span work requests, what
 * exceeds the device's entries: the run of pieces with the fewest bytes becomes one. Pieces that
 * touch are one entry without a copy. A message without pieces that is short goes inline.
 *
 * A send stays in its queue pair's ring until the device is done with it. Every 16th and the last of
 * each post ask for a completion; one completion ends all before it. When the ring, the port's budget
 * or the copies' memory is used up, the queue pair waits in verbs->blocked for completions.
 */
#include "base/check.h"
#include "verbs.h"

#include <errno.h>
#include <string.h>

#include "base/guard.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "core/dev_ptr_raw.h"
#include "core/event.h"
#include "core/port.h"
#include "core/qp.h"
#include "core/sealed.h"
#include "core/send_assemble.h"
#include "core/send_post.h"
#include "core/wire.h"

/* Work requests for one doorbell. */
struct post {
	struct ibv_send_wr wrs[VERBS_POST_MAX];
	struct ibv_sge sges[VERBS_POST_MAX][VERBS_SGE_MAX];
	uint32_t count;
};

void
verbs_srq_fill(struct verbs_port *verbs)
{
	struct receive_pool *pool = &verbs->port->pool;

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	assert(pool->free_count + pool->srq_count <= pool->count);
	while (verbs->srq != NULL && verbs->device.state == VERBS_DEVICE_OPEN &&
	    pool->free_count > 0) {
		struct ibv_recv_wr wrs[VERBS_POST_MAX], *bad = NULL;
		struct ibv_sge sges[VERBS_POST_MAX][2];
		uint32_t count = (uint32_t)num_min(pool->free_count, VERBS_POST_MAX);
		int rc;

		for (uint32_t i = 0; i < count; i++) {
			struct split_receive *receive = pool->free[pool->free_count - 1 - i];

			sges[i][0] = (struct ibv_sge){ .addr = (uintptr_t)receive->header,
				.length = verbs->head_bytes,
				.lkey = verbs->host_mr->lkey };
			/* The device fills entries in order: this is the split. */
			sges[i][1] =
			    (struct ibv_sge){ .addr = (uintptr_t)dev_ptr_raw(receive->payload),
				    .length = pool->payload_bytes_max,
				    .lkey = verbs->device_mr->lkey };
			wrs[i] = (struct ibv_recv_wr){ .wr_id = verbs_wr_id(VERBS_WORK_RECEIVE,
							   (uint64_t)(receive - pool->receives)),
				.sg_list = sges[i],
				.num_sge = 2,
				.next = i + 1 < count ? &wrs[i + 1] : NULL };
		}
		rc = ibv_post_srq_recv(verbs->srq, wrs, &bad);
		if (rc != 0)
			count = (uint32_t)(bad - wrs);
		for (uint32_t i = 0; i < count; i++)
			pool->free[pool->free_count - 1 - i]->is_in_device = true;
		pool->free_count -= count;
		pool->srq_count += count;
		if (rc != 0) {
			verbs_device_lost(verbs, "it takes no receives");
			return;
		}
	}
}

int
verbs_post_control_receive(struct verbs_qp *vq, uint32_t index)
{
	struct ibv_sge sge = { .addr = (uintptr_t)verbs_control_slot(vq, index),
		.length = vq->slot_bytes,
		.lkey = vq->verbs->host_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = verbs_wr_id(VERBS_WORK_CONTROL_RECEIVE, index),
		.sg_list = &sge,
		.num_sge = 1 };
	struct ibv_recv_wr *bad;

	assert(index < VERBS_CONTROL_WINDOW);
	return -ibv_post_recv(vq->control.ibv, &wr, &bad);
}

/* Posts a receive of dev_mixed_recv. A sealed head is longer, and opened elsewhere. Returns 0; -EAGAIN: later. */
static int
post_receive(struct verbs_qp *vq, const struct dev_event *event)
{
	struct verbs_port *verbs = vq->verbs;
	struct verbs_slot *slot =
	    &vq->receive_slots[(vq->receive_first + vq->receives_posted) % VERBS_RECEIVES_POSTED];
	struct ibv_sge sges[2];
	struct ibv_recv_wr wr = { .wr_id = verbs_wr_id(VERBS_WORK_POSTED, 0),
		.sg_list = sges,
		.num_sge = event->device_bytes > 0 ? 2 : 1 };
	struct ibv_recv_wr *bad;
	int rc;

	assert(vq->receives_posted < VERBS_RECEIVES_POSTED);
	*slot = VERBS_NO_SLOT;
	if (event->device_bytes > 0 &&
	    !verbs_entry(verbs, dev_ptr_raw(event->device),
		num_min(event->device_bytes, WIRE_PAYLOAD_BYTES_MAX), &sges[1]))
		return -EFAULT;
	if (vq->is_keyed || !verbs_entry(verbs, event->host, event->host_bytes, &sges[0])) {
		*slot = verbs_slot_take(verbs, STAGE_HOST);
		if (!verbs_slot_is(*slot))
			return -EAGAIN;
		sges[0].addr = (uintptr_t)verbs_slot_memory(verbs, *slot);
		sges[0].length = event->host_bytes + (vq->is_keyed ? SEAL_EXTRA_BYTES : 0);
		sges[0].lkey = verbs->stages[STAGE_HOST].mr->lkey;
	}
	rc = -ibv_post_recv(vq->data.ibv, &wr, &bad);
	if (rc != 0)
		verbs_slot_give(verbs, slot);
	return rc;
}

void
verbs_post_receives(struct verbs_qp *vq)
{
	struct split_qp *qp = vq->qp;
	struct loop_link *link, *next;
	uint32_t index = 0;
	int rc;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	LIST_FOREACH_SAFE(&qp->posted, link, next) {
		if (index++ < vq->receives_posted)
			continue;
		if (vq->receives_posted == VERBS_RECEIVES_POSTED)
			return;
		rc = post_receive(vq, LIST_ENTRY(link, struct dev_event, link));
		if (rc == -EAGAIN)
			return;
		if (rc != 0) {
			qp_fail(qp, rc == -EFAULT ? -EINVAL : -ECONNRESET, "receive: %s",
			    rc == -EFAULT ? "memory outside of the port's arenas"
					  : strerrordesc_np(-rc));
			return;
		}
		vq->receives_posted++;
	}
}

/* Pieces as entries, joined where they touch. Returns their count, or -EFAULT. */
static int
pieces_join(const struct verbs_port *verbs, const struct split_send *send, struct ibv_sge *entries)
{
	int count = 0;

	assert(send->piece_count <= SPLIT_PIECES_MAX);
	for (uint32_t i = 0; i < send->piece_count; i++) {
		const struct dev_piece *piece = &send->pieces[i];
		struct ibv_sge *last = count > 0 ? &entries[count - 1] : NULL;
		struct ibv_sge entry;

		if (piece->bytes == 0)
			continue;
		if (!verbs_entry(verbs, dev_ptr_raw(piece->ptr), piece->bytes, &entry))
			return -EFAULT;
		if (last != NULL && last->addr + last->length == entry.addr &&
		    last->lkey == entry.lkey)
			last->length += piece->bytes;
		else
			entries[count++] = entry;
	}
	return count;
}

/* Finds the run of @run_count entries with the fewest bytes. */
static int
run_find(const struct ibv_sge *entries, int count, int run_count)
{
	uint64_t bytes = 0, best_bytes;
	int best = 0;

	assert(run_count > 0);
	assert(run_count <= count);
	for (int i = 0; i < run_count; i++)
		bytes += entries[i].length;
	best_bytes = bytes;
	for (int i = run_count; i < count; i++) {
		bytes += entries[i].length;
		bytes -= entries[i - run_count].length;
		if (bytes < best_bytes) {
			best_bytes = bytes;
			best = i - run_count + 1;
		}
	}
	return best;
}

/* Make at most @entries_max of @count entries. Returns how many, or -EAGAIN. */
static int
pieces_spill(struct verbs_qp *vq, struct ibv_sge *entries, int count, int entries_max,
    struct verbs_slot *slot)
{
	struct verbs_port *verbs = vq->verbs;
	int run_count = count - entries_max + 1, from;
	uint32_t bytes = 0;
	uint8_t *to;

	assert(entries_max > 0);
	if (count <= entries_max)
		return count;
	*slot = verbs_slot_take(verbs, STAGE_DEVICE);
	if (!verbs_slot_is(*slot))
		return -EAGAIN;
	to = verbs_slot_memory(verbs, *slot);
	from = run_find(entries, count, run_count);
	guard_enter();
	for (int i = from; i < from + run_count; i++) {
		verbs_entry_copy_out(verbs, &entries[i], to + bytes);
		bytes += entries[i].length;
	}
	guard_leave();
	metric_add(&verbs->port->counters.spill_bytes, bytes);
	entries[from] = (struct ibv_sge){ .addr = (uintptr_t)to,
		.length = bytes,
		.lkey = verbs->stages[STAGE_DEVICE].mr->lkey };
	memmove(&entries[from + 1], &entries[from + run_count],
	    (size_t)(count - from - run_count) * sizeof(*entries));
	return entries_max;
}

/* The header's entry. Returns 0 or -EAGAIN. */
static int
header_entry(struct verbs_qp *vq, const struct split_send *send, bool is_inline,
    struct verbs_slot *slot, struct ibv_sge *ret_entry)
{
	struct verbs_port *verbs = vq->verbs;
	enum verbs_stage stage = send->header_bytes <= WIRE_HEADER_BYTES ? STAGE_HEADER
									 : STAGE_HOST;

	if (verbs_entry(verbs, send->header, send->header_bytes, ret_entry) || is_inline)
		return 0;
	*slot = verbs_slot_take(verbs, stage);
	if (!verbs_slot_is(*slot))
		return -EAGAIN;
	/* Copied when it is stamped: verbs_post_sends. */
	ret_entry->addr = (uintptr_t)verbs_slot_memory(verbs, *slot);
	ret_entry->lkey = verbs->stages[stage].mr->lkey;
	return 0;
}

/* The same of a sealed one: its frame, in memory of the port's until the device is through. */
static int
send_build_sealed(struct verbs_qp *vq, struct split_send *send, struct verbs_send *entry,
    struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	struct verbs_port *verbs = vq->verbs;
	uint32_t bytes = sealed_frame_bytes(send);
	enum verbs_stage stage = bytes <= VERBS_FRAME_BYTES ? STAGE_FRAME : STAGE_DEVICE;
	uint8_t *frame;
	int rc;

	*entry = (struct verbs_send){ send, verbs_slot_take(verbs, stage), VERBS_NO_SLOT };
	if (!verbs_slot_is(entry->header_slot))
		return -EAGAIN;
	frame = verbs_slot_memory(verbs, entry->header_slot);
	rc = sealed_make(vq->qp, send, SEALED_DATA, frame);
	if (rc != 0) {
		verbs_slot_give(verbs, &entry->header_slot);
		return rc;
	}
	*sge = (struct ibv_sge){ .addr = (uintptr_t)frame,
		.length = bytes,
		.lkey = verbs->stages[stage].mr->lkey };
	*wr = (struct ibv_send_wr){ .wr_id = verbs_wr_id(VERBS_WORK_SEND, vq->posted_seq),
		.sg_list = sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND };
	return 0;
}

/* Builds a message's work request. Returns 0; -EAGAIN: no room now; -EFAULT. */
static int
send_build(struct verbs_qp *vq, struct split_send *send, struct verbs_send *entry,
    struct ibv_send_wr *wr, struct ibv_sge *sges)
{
	struct ibv_sge pieces[SPLIT_PIECES_MAX];
	bool is_inline = send->piece_count == 0 && send->header_bytes <= vq->inline_max;
	int count = pieces_join(vq->verbs, send, pieces);
	int rc;

	*entry = (struct verbs_send){ send, VERBS_NO_SLOT, VERBS_NO_SLOT };
	if (count < 0)
		return count;
	count = pieces_spill(vq, pieces, count, (int)vq->verbs->sge_max - 1, &entry->pieces_slot);
	if (count < 0)
		return count;
	rc = header_entry(vq, send, is_inline, &entry->header_slot, &sges[0]);
	if (rc != 0) {
		verbs_slot_give(vq->verbs, &entry->pieces_slot);
		return rc;
	}
	send_prepare(vq->qp, send);
	if (verbs_slot_is(entry->header_slot))
		memcpy((void *)(uintptr_t)sges[0].addr, send->header, send->header_bytes);
	memcpy(&sges[1], pieces, (size_t)count * sizeof(*pieces));
	*wr = (struct ibv_send_wr){ .wr_id = verbs_wr_id(VERBS_WORK_SEND, vq->posted_seq),
		.sg_list = sges,
		.num_sge = count + 1,
		.opcode = IBV_WR_SEND,
		.send_flags = is_inline ? IBV_SEND_INLINE : 0 };
	return 0;
}

static void
send_slots_give(struct verbs_port *verbs, struct verbs_send *entry)
{
	verbs_slot_give(verbs, &entry->header_slot);
	verbs_slot_give(verbs, &entry->pieces_slot);
}

/* Ring the bell. What the device refused goes back, and the queue pair fails. */
static void
post_flush(struct verbs_qp *vq, struct post *post)
{
	struct ibv_send_wr *bad = NULL;
	uint32_t refused;
	int rc;

	assert(post->count <= VERBS_POST_MAX);
	if (post->count == 0)
		return;
	for (uint32_t i = 0; i < post->count; i++)
		post->wrs[i].next = i + 1 < post->count ? &post->wrs[i + 1] : NULL;
	post->wrs[post->count - 1].send_flags |= IBV_SEND_SIGNALED;
	rc = ibv_post_send(vq->data.ibv, post->wrs, &bad);
	metric_add(&vq->verbs->port->counters.send_calls, 1);
	if (rc == 0)
		return;
	refused = post->count - (uint32_t)(bad - post->wrs);
	assert(refused <= vq->posted_seq - vq->done_seq);
	for (uint32_t i = 0; i < refused; i++) {
		struct verbs_send *entry = &vq->ring[--vq->posted_seq % vq->depth];

		send_slots_give(vq->verbs, entry);
		list_push_front(&vq->qp->sendable, &entry->send->link);
		vq->verbs->send_count--;
	}
	qp_fail(vq->qp, -ECONNRESET, "send: %s", strerrordesc_np(rc));
}

void
verbs_post_block(struct verbs_qp *vq)
{
	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	if (!list_contains(&vq->blocked_link))
		list_push_back(&vq->verbs->blocked, &vq->blocked_link);
}

/* Adds @send. Returns whether more may follow. */
static bool
post_add(struct verbs_qp *vq, struct post *post, struct split_send *send)
{
	struct verbs_port *verbs = vq->verbs;
	struct ibv_send_wr *wr = &post->wrs[post->count];
	int rc = -EAGAIN;

	assert(post->count < VERBS_POST_MAX);
	if (vq->posted_seq - vq->done_seq < vq->depth && verbs->send_count < VERBS_SEND_BUDGET)
		rc = (vq->qp->sealed != NULL ? send_build_sealed : send_build)(vq, send,
		    &vq->ring[vq->posted_seq % vq->depth], wr, post->sges[post->count]);
	if (rc == -EAGAIN) {
		verbs_post_block(vq);
		return false;
	}
	if (rc != 0) {
		qp_fail(vq->qp, -EINVAL, "send: memory outside of the port's arenas");
		return false;
	}
	if (vq->posted_seq % VERBS_SIGNAL_EVERY == 0)
		wr->send_flags |= IBV_SEND_SIGNALED;
	list_remove(&send->link);
	vq->posted_seq++;
	verbs->send_count++;
	post->count++;
	return true;
}

/* Whether the peer has a receive on the control lane for us. The last is for answers. */
static bool
control_has_room(const struct verbs_qp *vq)
{
	uint32_t kept = vq->control_owed * 2 >= VERBS_CONTROL_WINDOW ? 0 : 1;

	assert(vq->control_credits <= VERBS_CONTROL_WINDOW);
	assert(vq->control_outstanding <= VERBS_CONTROL_SENDS);
	return vq->control_credits > kept && vq->control_outstanding < VERBS_CONTROL_SENDS;
}

/*
 * The message for the control lane, at @slot. How many receives were given back is told in the immediate data; where it is
 * sealed nobody else may change that, so it is in the header. Returns its bytes; 0: the queue pair has failed.
 */
static uint32_t
control_fill(struct verbs_qp *vq, const struct wire_header *from, uint8_t *slot)
{
	struct wire_header *header = (struct wire_header *)(void *)slot;

	*header = *from;
	if (vq->qp->sealed == NULL)
		return WIRE_HEADER_BYTES;
	header->offset_bytes = vq->control_owed;
	wire_frame_stamp(header, 0, header->credits);
	return sealed_make_bare(vq->qp, SEALED_CONTROL, slot) == 0 ? SEAL_HEAD_BYTES : 0;
}

/* Over the control lane. Returns whether it went; else the queue pair has failed. */
static bool
control_post(struct verbs_qp *vq, const struct wire_header *header)
{
	struct split_qp *qp = vq->qp;
	uint8_t *slot =
	    verbs_control_slot(vq, VERBS_CONTROL_WINDOW + vq->control_next++ % VERBS_CONTROL_SENDS);
	struct ibv_sge sge = { .addr = (uintptr_t)slot,
		.length = control_fill(vq, header, slot),
		.lkey = vq->verbs->host_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = verbs_wr_id(VERBS_WORK_CONTROL_SEND, 0),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htobe32(vq->control_owed) };
	struct ibv_send_wr *bad;
	int rc;

	assert(vq->control_credits > 0);
	if (sge.length == 0)
		return false;
	rc = ibv_post_send(vq->control.ibv, &wr, &bad);
	metric_add(&qp->port->counters.send_calls, 1);
	if (rc != 0) {
		qp_fail(qp, -ECONNRESET, "send credits: %s", strerrordesc_np(rc));
		return false;
	}
	vq->control_credits--;
	vq->control_owed = 0;
	vq->control_outstanding++;
	return true;
}

/* Credits: over their own lane. */
static void
post_control(struct verbs_qp *vq, struct split_send *send)
{
	if (!control_has_room(vq))
		return; /* its completion, or the peer's answer, kicks again */
	send_prepare(vq->qp, send);
	if (control_post(vq, send->header))
		send_complete(vq->qp, send, 0);
}

void
verbs_post_lane(struct verbs_qp *vq)
{
	struct wire_header header;

	while (qp_is_open(vq->qp) && control_has_room(vq) && verbs_lane_header(vq, &header)) {
		wire_frame_stamp(&header, 0, 0);
		(void)control_post(vq, &header); /* or the queue pair is closing */
	}
}

void
verbs_post_sends(struct verbs_qp *vq)
{
	struct split_qp *qp = vq->qp;
	struct loop_link *link, *next;
	struct post post;

	assert(verbs_is(vq, VERBS_OPEN));
	verbs_srq_fill(vq->verbs); /* before anybody is told of a receive */
	post.count = 0;
	LIST_FOREACH_SAFE(&qp->sendable, link, next) {
		struct split_send *send = LIST_ENTRY(link, struct split_send, link);

		if (!qp_is_open(qp))
			break;
		if (send_is_control(send)) {
			post_control(vq, send);
			continue;
		}
		if (!post_add(vq, &post, send))
			break;
		if (post.count == VERBS_POST_MAX) {
			post_flush(vq, &post);
			post.count = 0;
		}
	}
	post_flush(vq, &post);
	verbs_post_lane(vq);
	if (qp_is_open(qp) && vq->control_owed * 2 >= VERBS_CONTROL_WINDOW)
		send_post_control(qp, &qp->control);
}

void
verbs_post_probe(struct verbs_qp *vq)
{
	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(verbs_is(vq, VERBS_OPEN));
	/* Writes nothing, needs no receive and no key, and is acknowledged. */
	struct ibv_send_wr wr = { .wr_id = verbs_wr_id(VERBS_WORK_PROBE, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	int rc;

	if (vq->is_probing || vq->control_outstanding == VERBS_CONTROL_SENDS)
		return;
	rc = ibv_post_send(vq->control.ibv, &wr, &bad);
	if (rc != 0) {
		qp_fail(vq->qp, -ECONNRESET, "keep-alive: %s", strerrordesc_np(rc));
		return;
	}
	vq->is_probing = true;
	vq->control_outstanding++;
}

void
verbs_sends_done(struct verbs_qp *vq, uint32_t seq, int rc)
{
	struct verbs_port *verbs = vq->verbs;

	/* Refused by the device when it was posted: it is no longer in the ring. */
	if ((int32_t)(seq - vq->done_seq) < 0 || (int32_t)(seq - vq->posted_seq) >= 0)
		return;
	for (;;) {
		struct verbs_send *entry = &vq->ring[vq->done_seq % vq->depth];
		struct split_send *send = entry->send;
		bool is_last = vq->done_seq == seq;

		send_slots_give(verbs, entry);
		vq->done_seq++;
		assert(verbs->send_count > 0);
		verbs->send_count--;
		send_complete(vq->qp, send, is_last ? rc : 0);
		if (is_last)
			return;
	}
}

void
verbs_sends_take_back(struct verbs_qp *vq)
{
	while (vq->posted_seq != vq->done_seq) {
		struct verbs_send *entry = &vq->ring[--vq->posted_seq % vq->depth];

		send_slots_give(vq->verbs, entry);
		assert(vq->verbs->send_count > 0);
		vq->verbs->send_count--;
		if (vq->qp != NULL)
			list_push_front(&vq->qp->sendable, &entry->send->link);
	}
}
