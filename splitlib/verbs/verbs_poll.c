/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_poll.c -- completions: who they belong to, and when to ask for them
 *
 * Adaptive polling: while there were completions, the queues are asked again in the loop's next
 * round, without system calls; when nothing has come for VERBS_BUSY_NS, both queues are armed,
 * asked once more, and the port sleeps on its completion channel (I12).
 */
#include "base/check.h"
#include "verbs.h"

#include <errno.h>
#include <string.h>

#include "base/guard.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "core/dev_memory.h"
#include "core/dev_ptr_raw.h"
#include "core/device_memory.h"
#include "core/event.h"
#include "core/port.h"
#include "core/qp.h"
#include "core/recv_split.h"
#include "core/sealed.h"
#include "core/send_post.h"
#include "core/wire.h"

#define VERBS_BUSY_NS NUM_US(20)
#define VERBS_EVENTS_MAX 64u /* of the channel, in one turn */

/* Why a queue pair ends with this. */
static int
status_to_rc(enum ibv_wc_status status, const char **ret_reason)
{
	*ret_reason = ibv_wc_status_str(status);
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		*ret_reason = "the peer is silent, or the path is too narrow for the MTU";
		return -ETIMEDOUT;
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_LOC_QP_OP_ERR: /* what a software device says */
		*ret_reason = "a message is longer than its receive";
		return -EMSGSIZE;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		*ret_reason = "a message is longer than the peer's receive";
		return -EMSGSIZE;
	case IBV_WC_WR_FLUSH_ERR:
		*ret_reason = "the queue pair is in error";
		return -ECONNRESET;
	default:
		return -ECONNRESET;
	}
}

void
verbs_fail_status(struct verbs_qp *vq, enum ibv_wc_status status)
{
	const char *reason;
	int rc = status_to_rc(status, &reason);

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	if (vq->qp != NULL)
		qp_fail(vq->qp, rc, "%s", reason);
}

static int
send_rc(const struct verbs_qp *vq, enum ibv_wc_status status)
{
	assert(vq->qp != NULL);
	if (status == IBV_WC_SUCCESS)
		return 0;
	return !qp_is_open(vq->qp) && vq->qp->close_rc == 0 ? -ECANCELED : -ECONNRESET;
}

static void
on_send(struct verbs_qp *vq, const struct ibv_wc *wc)
{
	assert(vq->qp != NULL);
	if (wc->status != IBV_WC_SUCCESS)
		verbs_fail_status(vq, wc->status);
	verbs_sends_done(vq, (uint32_t)wc->wr_id, send_rc(vq, wc->status));
}

/* Into a receive that somebody posted, out of one of the pool: the device could not know. */
static void
fill_by_copy(struct split_qp *qp, const struct split_receive *from)
{
	struct recv_fill *fill = &qp->fill;
	const uint8_t *payload = dev_ptr_raw(from->payload);

	assert(fill->kind != RECV_NONE);
	guard_enter();
	if (fill->host_left > 0)
		memcpy(fill->host, payload, fill->host_left);
	if (fill->device_left > 0)
		dev_memory_copy_in(qp->port, fill->device, payload + fill->host_left,
		    fill->device_left);
	guard_leave();
	metric_add(&qp->port->counters.spill_bytes, fill->host_left + fill->device_left);
}

static void
fill_finish(struct split_qp *qp)
{
	assert(qp->fill.kind != RECV_NONE);
	qp->fill.host_left = qp->fill.device_left = qp->fill.discard_left = 0;
	recv_finish(qp);
}

/* A message of @bytes has come, its head at @head: open it, if it is sealed; is it as long as it says? */
static bool
head_take(struct split_qp *qp, void *head, uint32_t bytes)
{
	const struct wire_header *header = head;
	uint32_t head_bytes = recv_head_bytes(qp);

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (bytes >= head_bytes && !recv_open(qp, head))
		return false;
	if (bytes >= head_bytes && header->payload_bytes == bytes - head_bytes)
		return true;
	metric_add(&qp->port->counters.protocol_errors, 1);
	qp_fail(qp, -EPROTO, "bad message: field payload_bytes");
	return false;
}

/*
 * The pool's receives have room for sealed heads, and this message is open: what lies behind its header is payload. That
 * is of ports with keys that take connections without, for a while, and costs them a copy.
 */
static void
payload_join(struct split_port *port, struct split_receive *receive, uint32_t bytes)
{
	uint32_t misplaced = (uint32_t)num_min(bytes, SEAL_EXTRA_BYTES);
	uint8_t *payload = dev_ptr_raw(receive->payload);

	assert(bytes <= port->pool.payload_bytes_max);
	guard_enter();
	memmove(payload + misplaced, payload, bytes - misplaced);
	memcpy(payload, (const uint8_t *)receive->header + WIRE_HEADER_BYTES, misplaced);
	guard_leave();
	metric_add(&port->counters.spill_bytes, bytes);
}

/* Returns whether the message has taken @receive. */
static bool
receive_accept(struct verbs_qp *vq, struct split_receive *receive, const struct ibv_wc *wc)
{
	struct split_qp *qp = vq->qp;

	assert(qp_is_open(qp) && !receive->is_in_device);
	if (!head_take(qp, receive->header, wc->byte_len))
		return false;
	if (recv_head_bytes(qp) < vq->verbs->head_bytes) {
		if (receive->header->payload_bytes > qp->port->pool.payload_bytes_max) {
			qp_fail(qp, -EPROTO, "bad message: field payload_bytes");
			return false;
		}
		payload_join(qp->port, receive, receive->header->payload_bytes);
	}
	if (recv_begin(qp, receive->header, receive) != RECV_FILL)
		return false;
	if (qp->fill.kind == RECV_POOL) {
		fill_finish(qp);
		return true;
	}
	fill_by_copy(qp, receive);
	fill_finish(qp);
	return false;
}

static void
on_receive(struct verbs_port *verbs, struct verbs_qp *vq, const struct ibv_wc *wc)
{
	struct receive_pool *pool = &verbs->port->pool;
	struct split_receive *receive =
	    &pool->receives[wc->wr_id & ((UINT64_C(1) << VERBS_WORK_SHIFT) - 1)];

	assert((wc->wr_id & ((UINT64_C(1) << VERBS_WORK_SHIFT) - 1)) < pool->count);
	assert(pool->srq_count > 0);
	assert(receive->is_in_device);
	pool->srq_count--;
	receive->is_in_device = false;
	if (vq == NULL || vq->qp == NULL || !qp_is_open(vq->qp) || wc->status != IBV_WC_SUCCESS) {
		receive_pool_push(pool, receive);
		if (vq != NULL && wc->status != IBV_WC_SUCCESS)
			verbs_fail_status(vq, wc->status);
		return;
	}
	vq->heard_ns = loop_now_ns(verbs->port->loop);
	if (!receive_accept(vq, receive, wc))
		receive_pool_push(pool, receive);
	else if (!list_contains(&vq->deliver_link))
		list_push_back(&verbs->deliver, &vq->deliver_link);
}

/* The host's part of a posted receive, where it lies in @slot, goes to where it was asked for. */
static bool
posted_take(struct verbs_qp *vq, const struct dev_event *event, struct verbs_slot *slot,
    uint32_t bytes)
{
	uint32_t head_bytes = recv_head_bytes(vq->qp);
	uint8_t *from = verbs_slot_is(*slot) ? verbs_slot_memory(vq->verbs, *slot) : event->host;
	uint32_t host_bytes = (uint32_t)num_min(bytes - num_min(bytes, head_bytes),
	    event->host_bytes - WIRE_HEADER_BYTES);
	bool is_taken = head_take(vq->qp, from, bytes);

	if (is_taken && from != event->host) {
		memcpy(event->host, from, WIRE_HEADER_BYTES);
		memcpy(event->host + WIRE_HEADER_BYTES, from + head_bytes, host_bytes);
	}
	verbs_slot_give(vq->verbs, slot);
	return is_taken;
}

/* A receive of dev_mixed_recv: what was asked for is there already. */
static void
on_posted(struct verbs_qp *vq, const struct ibv_wc *wc)
{
	struct verbs_slot *slot = &vq->receive_slots[vq->receive_first % VERBS_RECEIVES_POSTED];
	struct split_qp *qp = vq->qp;
	struct dev_event *event;
	const struct wire_header *header;

	assert(vq->receives_posted > 0);
	vq->receive_first++;
	vq->receives_posted--;
	if (qp == NULL || !qp_is_open(qp) || wc->status != IBV_WC_SUCCESS) {
		verbs_slot_give(vq->verbs, slot);
		verbs_fail_status(vq, wc->status);
		return;
	}
	vq->heard_ns = loop_now_ns(qp->port->loop);
	event = LIST_ENTRY(list_first(&qp->posted), struct dev_event, link);
	if (!posted_take(vq, event, slot, wc->byte_len))
		return;
	header = (const struct wire_header *)(const void *)event->host;
	switch (recv_begin(qp, header, NULL)) {
	case RECV_FILL:
		fill_finish(qp);
		verbs_post_receives(vq);
		return;
	case RECV_BROKEN:
		return;
	case RECV_DONE:
	case RECV_WAIT:
		qp_fail(qp, -EPROTO, "bad message: field opcode");
		return;
	}
}

/* Credits, or lanes for one-sided work, of which a keyed one has none. */
static bool
control_accept(struct verbs_qp *vq, const struct wire_header *header)
{
	const char *field;

	assert(vq->qp != NULL);
	if (header->opcode == WIRE_CREDIT)
		return recv_begin(vq->qp, header, NULL) == RECV_DONE;
	return header->opcode == WIRE_LANE && !vq->is_keyed &&
	    wire_frame_check(header, &field) == 0 && verbs_on_lane_message(vq, header) == 0;
}

/* A message on the control lane: is it one, and how many receives has the peer given back? */
static bool
control_open(struct verbs_qp *vq, const struct ibv_wc *wc, uint8_t *slot, uint64_t *ret_returned)
{
	const struct wire_header *header = (const struct wire_header *)(const void *)slot;

	*ret_returned = be32toh(wc->imm_data);
	if (wc->byte_len != vq->slot_bytes || (wc->wc_flags & IBV_WC_WITH_IMM) == 0)
		return false;
	if (!vq->is_keyed)
		return true;
	if (vq->qp->sealed == NULL || !recv_open_control(vq->qp, slot))
		return false;
	*ret_returned = header->offset_bytes;
	return true;
}

static void
on_control_receive(struct verbs_qp *vq, const struct ibv_wc *wc)
{
	uint32_t index = (uint32_t)wc->wr_id % VERBS_CONTROL_WINDOW;
	uint8_t *slot = verbs_control_slot(vq, index);
	const struct wire_header *header = (const struct wire_header *)(const void *)slot;
	struct split_qp *qp = vq->qp;
	uint64_t returned;

	assert(vq->control_credits <= VERBS_CONTROL_WINDOW);
	if (qp == NULL || !qp_is_open(qp) || wc->status != IBV_WC_SUCCESS) {
		verbs_fail_status(vq, wc->status);
		return;
	}
	vq->heard_ns = loop_now_ns(qp->port->loop);
	if (!control_open(vq, wc, slot, &returned) ||
	    returned > VERBS_CONTROL_WINDOW - vq->control_credits || !control_accept(vq, header)) {
		if (qp_is_open(qp))
			metric_add(&qp->port->counters.protocol_errors, 1);
		qp_fail(qp, -EPROTO, "bad message on the control lane");
		return;
	}
	vq->control_credits += (uint32_t)returned;
	if (verbs_post_control_receive(vq, index) != 0) {
		qp_fail(qp, -ECONNRESET, "the device takes no receives");
		return;
	}
	vq->control_owed++;
	if (returned > 0 || vq->control_owed * 2 >= VERBS_CONTROL_WINDOW)
		send_kick_later(qp);
}

static void
on_control_sent(struct verbs_qp *vq, const struct ibv_wc *wc, bool is_probe)
{
	assert(vq->control_outstanding > 0);
	vq->control_outstanding--;
	if (is_probe)
		vq->is_probing = false;
	if (wc->status != IBV_WC_SUCCESS) {
		verbs_fail_status(vq, wc->status);
		return;
	}
	vq->heard_ns = loop_now_ns(vq->verbs->port->loop);
	if (vq->qp != NULL && qp_is_open(vq->qp) &&
	    (list_contains(&vq->qp->control.send.link) || vq->is_ask_due || vq->is_answer_due))
		send_kick_later(vq->qp);
}

static void
on_completion(struct verbs_port *verbs, const struct ibv_wc *wc)
{
	enum verbs_work work = (enum verbs_work)(wc->wr_id >> VERBS_WORK_SHIFT);
	struct verbs_lane *lane = verbs_lane_find(verbs, wc->qp_num);
	struct verbs_qp *vq = lane != NULL ? lane->owner : NULL;

	if (work == VERBS_WORK_RECEIVE) {
		on_receive(verbs, vq, wc);
		return;
	}
	/* All else belongs to its queue pair, which took it back when it was destroyed. */
	if (vq == NULL)
		return;
	switch (work) {
	case VERBS_WORK_SEND:
		if (vq->qp != NULL)
			on_send(vq, wc);
		break;
	case VERBS_WORK_POSTED:
		on_posted(vq, wc);
		break;
	case VERBS_WORK_CONTROL_SEND:
	case VERBS_WORK_PROBE:
		on_control_sent(vq, wc, work == VERBS_WORK_PROBE);
		break;
	case VERBS_WORK_CONTROL_RECEIVE:
		on_control_receive(vq, wc);
		break;
	case VERBS_WORK_ONE_SIDED:
		verbs_on_one_sided(vq, wc);
		break;
	case VERBS_WORK_GREETING_SEND:
		verbs_on_greeting_sent(vq, wc);
		break;
	case VERBS_WORK_GREETING_RECEIVE:
		verbs_on_greeting(vq, wc);
		break;
	case VERBS_WORK_RECEIVE:
		break;
	}
	if (verbs_is(vq, VERBS_DRAINING))
		verbs_drain_check(vq);
}

static uint32_t
poll_queue(struct verbs_port *verbs, struct ibv_cq *cq)
{
	uint32_t total = 0;

	for (uint32_t round = 0; round < VERBS_POLL_ROUNDS_MAX; round++) {
		struct ibv_wc wcs[VERBS_POLL_MAX];
		int count = ibv_poll_cq(cq, (int)VERBS_POLL_MAX, wcs);

		if (count < 0)
			verbs_device_lost(verbs, "its completion queue is broken");
		for (int i = 0; i < count; i++)
			on_completion(verbs, &wcs[i]);
		total += count > 0 ? (uint32_t)count : 0;
		if (count < (int)VERBS_POLL_MAX)
			break;
	}
	if (total > 0)
		metric_add(&verbs->port->counters.receive_calls, 1);
	return total;
}

uint32_t
verbs_poll(struct verbs_port *verbs)
{
	struct loop_link *link;
	uint32_t count;

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	if (verbs->cq == NULL)
		return 0;
	count = poll_queue(verbs, verbs->control_cq) + poll_queue(verbs, verbs->cq);
	while ((link = list_pop_front(&verbs->deliver)) != NULL) {
		struct verbs_qp *vq = LIST_ENTRY(link, struct verbs_qp, deliver_link);

		if (vq->qp != NULL)
			recv_deliver(vq->qp);
	}
	/* Queues that were full may have room now. */
	while (count > 0 && (link = list_pop_front(&verbs->blocked)) != NULL) {
		struct verbs_qp *vq = LIST_ENTRY(link, struct verbs_qp, blocked_link);

		if (vq->qp != NULL && qp_is_open(vq->qp))
			send_kick_later(vq->qp);
	}
	return count;
}

/* Returns whether the queues will tell of the next completion. */
static bool
queues_arm(struct verbs_port *verbs)
{
	if (ibv_req_notify_cq(verbs->cq, 0) == 0 && ibv_req_notify_cq(verbs->control_cq, 0) == 0)
		return true;
	verbs_device_lost(verbs, "its completion queue is broken");
	return false;
}

void
verbs_on_poll_task(struct loop_task *task, void *arg)
{
	struct verbs_port *verbs = arg;
	struct loop *loop = verbs->port->loop;
	uint64_t now_ns = loop_now_fresh_ns(loop);

	assert(task == &verbs->poll_task);
	(void)task;
	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	if (verbs_poll(verbs) > 0)
		verbs->busy_until_ns = now_ns + VERBS_BUSY_NS;
	if (now_ns < verbs->busy_until_ns) {
		loop_defer(loop, &verbs->poll_task);
		return;
	}
	if (verbs->is_armed)
		return;
	verbs->is_armed = queues_arm(verbs);
	/* Completions from before it was armed are not told. */
	if (verbs_poll(verbs) > 0) {
		verbs->busy_until_ns = now_ns + VERBS_BUSY_NS;
		loop_defer(loop, &verbs->poll_task);
	}
}

void
verbs_on_completion_fd(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct verbs_port *verbs = arg;

	(void)watcher;
	(void)events;
	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	for (uint32_t i = 0; i < VERBS_EVENTS_MAX; i++) {
		struct ibv_cq *cq;
		void *context;

		if (ibv_get_cq_event(verbs->completions, &cq, &context) != 0)
			break;
		ibv_ack_cq_events(cq, 1);
		verbs->is_armed = false;
	}
	verbs_on_poll_task(&verbs->poll_task, verbs);
}

static void
async_event(struct verbs_port *verbs, const struct ibv_async_event *event)
{
	struct verbs_lane *lane;

	assert(verbs->context != NULL);
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		/* Completions say more than events. */
		(void)verbs_poll(verbs);
		lane = event->element.qp->qp_context;
		/* Another port's on the same device, which shares its events: completions tell that. */
		if (lane->owner->verbs != verbs)
			break;
		if (lane->owner->qp != NULL && !lane->is_one_sided)
			qp_fail(lane->owner->qp, -ECONNRESET, "%s",
			    ibv_event_type_str(event->event_type));
		break;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_DEVICE_FATAL:
		verbs_device_lost(verbs, ibv_event_type_str(event->event_type));
		break;
	case IBV_EVENT_GID_CHANGE:
		verbs_address_check(verbs);
		break;
	default:
		/* A port that goes down and up ends connections by itself, or heals. */
		break;
	}
}

void
verbs_on_async_fd(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct verbs_port *verbs = arg;
	struct ibv_async_event event;

	(void)watcher;
	(void)events;
	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	/* Level triggered: one a turn; the descriptor may block. */
	if (ibv_get_async_event(verbs->context, &event) != 0)
		return;
	async_event(verbs, &event);
	ibv_ack_async_event(&event);
}
