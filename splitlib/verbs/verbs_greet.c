/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_greet.c -- what the ends of a keyed connection say to each other before there is a data lane
 *
 *	connector                                                 acceptor
 *	ASKED     -- request: a handshake is wanted ---------->   OFFERED: waits for a place, costs nothing
 *	                                                          control lane made and connected
 *	          <-- reply: it may begin ---------------------   ANSWERED
 *	OPEN      -- established ----------------------------->   OPEN
 *	          -- AUTH, <-- AUTH, -- AUTH ----------------->   over the control lane, in the clear: auth.c
 *	both keyed, each believes the other
 *	data lane made
 *	          -- HELLO, sealed, its number --------------->   on_accept .. split_qp_accept
 *	                                                          data lane made and connected
 *	          <-- HELLO | REPLY, sealed, its number -------   greeted, when that is out
 *	data lane connected: greeted
 *
 * What a device may write, and where, before anybody is believed: the *greetings*, as many as are named below, each into
 * a buffer of its own, of the connection's; credits behind them into slots of the control lane's. Receives of the port's
 * pool are reached over the data lane alone, which a peer has not got before its hello was opened. Over that lane the
 * device writes heads and payloads into the pool's receives as they come; core/sealed.c opens them before anybody above
 * sees them, and what does not open ends the connection and goes back to the pool. Nothing of a keyed port can be read or
 * written by a peer's device: it has no regions, and its lanes refuse such work, but for the writes of no bytes that keep
 * it alive. Which queue pair is the peer's data lane is told sealed, so nobody leads that elsewhere.
 *
 * Each end knows how many greetings the other has: TLS 1.3 has two flights of the connector's and one of the acceptor's,
 * and then there is the hello, or a refusal. Their receives are the first of the control lane's; the lane hands out
 * receives in order, so whatever is longer meets a short one and ends the connection. One is sent at a time, and lies
 * still until the device is through with it.
 *
 * Both lanes count for themselves, under keys of their own: what one device sends over two has no order.
 */
#include "base/check.h"
#include "verbs.h"

#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "base/metrics.h"
#include "core/alloc.h"
#include "core/connect.h"
#include "core/port.h"
#include "core/qp.h"
#include "core/recv_split.h"
#include "core/sealed.h"
#include "core/send_assemble.h"
#include "core/send_post.h"

#define GREETINGS_OF_CONNECTOR 3u /* two flights, and a hello or a refusal */
#define GREETINGS_OF_ACCEPTOR 2u  /* a flight, and an answer or a refusal */
#define GREETING_BYTES SPLIT_HEADER_BYTES_MAX
#define LANE_NUMBER_MAX 0xffffffu

_Static_assert(GREETINGS_OF_CONNECTOR <= VERBS_CONTROL_WINDOW, "none of them waits for a receive");

struct verbs_greeting {
	struct arena arena; /* what is to be received, then what is sent */
	struct ibv_mr *mr;
	uint32_t left; /* receives that the device has */
	bool is_out;   /* the device has a greeting of ours */
	struct split_send
	    *answer; /* whose it is, until it is acknowledged, or answered; NULL: none */
};

uint32_t
verbs_greeting_count(const struct verbs_qp *vq)
{
	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	return vq->qp->is_acceptor ? GREETINGS_OF_CONNECTOR : GREETINGS_OF_ACCEPTOR;
}

static uint8_t *
greeting_buffer(const struct verbs_greeting *self, uint32_t index)
{
	return self->arena.memory + (size_t)index * GREETING_BYTES;
}

int
verbs_greeting_create(struct verbs_qp *vq)
{
	struct verbs_greeting *self = split_calloc(1, sizeof(*self));
	int rc;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(vq->greeting == NULL);
	if (self == NULL)
		return -ENOMEM;
	vq->greeting = self;
	rc = arena_init(&self->arena, (uint64_t)(verbs_greeting_count(vq) + 1) * GREETING_BYTES, 0);
	return rc == 0 ? verbs_arena_register(vq->verbs, &self->arena, &self->mr) : rc;
}

void
verbs_greeting_destroy(struct verbs_qp *vq)
{
	struct verbs_greeting *self = vq->greeting;

	if (self == NULL)
		return;
	verbs_mr_destroy(&self->mr);
	arena_fini(&self->arena);
	split_free(self);
	vq->greeting = NULL;
}

int
verbs_greeting_post(struct verbs_qp *vq, uint32_t index)
{
	struct verbs_greeting *self = vq->greeting;
	struct ibv_sge sge = { .addr = (uintptr_t)greeting_buffer(self, index),
		.length = GREETING_BYTES,
		.lkey = self->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = verbs_wr_id(VERBS_WORK_GREETING_RECEIVE, index),
		.sg_list = &sge,
		.num_sge = 1 };
	struct ibv_recv_wr *bad;
	int rc = ibv_post_recv(vq->control.ibv, &wr, &bad);

	if (rc == 0)
		self->left++;
	return -rc;
}

/* Greetings that are over: their memory is of no use any more. */
static void
greeting_try_end(struct verbs_qp *vq)
{
	if (vq->is_greeted && vq->greeting->left == 0 && !vq->greeting->is_out)
		verbs_greeting_destroy(vq);
}

/* The data lane, to where the peer's hello said. Returns false where the queue pair has failed. */
static bool
data_connect(struct verbs_qp *vq)
{
	uint64_t number = vq->qp->hello_header.object_id;
	int rc;

	if (number == 0 || number > LANE_NUMBER_MAX) {
		qp_fail(vq->qp, -EPROTO, "bad message: field object_id");
		return false;
	}
	vq->data.peer_number = (uint32_t)number;
	rc = verbs_data_connect(vq);
	if (rc != 0) {
		verbs_fail_here(vq, rc);
		return false;
	}
	verbs_srq_fill(vq->verbs);
	verbs_post_receives(vq);
	return qp_is_open(vq->qp);
}

/* Our hello is about to leave, with the data lane's number. Returns false where the queue pair has failed. */
static bool
hello_prepare(struct verbs_qp *vq)
{
	struct split_qp *qp = vq->qp;
	int rc;

	assert(vq->data.ibv == NULL);
	if (qp->is_rejecting)
		return true;
	qp->port->reason[0] = '\0';
	vq->is_shared = qp->is_pooled;
	rc = verbs_data_create(vq);
	if (rc != 0) {
		verbs_fail_here(vq, rc);
		return false;
	}
	qp->hello.header.object_id = vq->data.ibv->qp_num;
	qp->hello.header.offset_bytes = vq->control_owed;
	vq->control_owed = 0;
	return !qp->is_acceptor || data_connect(vq);
}

/* Returns its bytes; 0: the queue pair has failed. */
static uint32_t
greeting_fill(struct verbs_qp *vq, struct split_send *send, uint8_t *out)
{
	assert(send->piece_count == 0);
	assert(
	    send->header_bytes + SEAL_EXTRA_BYTES <= GREETING_BYTES || !sealed_wants(vq->qp, send));
	if (sealed_wants(vq->qp, send))
		return sealed_make(vq->qp, send, SEALED_CONTROL, out) == 0
		    ? sealed_frame_bytes(send)
		    : 0;
	send_prepare(vq->qp, send);
	memcpy(out, send->header, send->header_bytes);
	return send->header_bytes;
}

static void
greeting_send(struct verbs_qp *vq, struct split_send *send)
{
	struct verbs_greeting *self = vq->greeting;
	uint8_t *out = greeting_buffer(self, verbs_greeting_count(vq));
	struct ibv_sge sge = { .addr = (uintptr_t)out,
		.length = greeting_fill(vq, send, out),
		.lkey = self->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = verbs_wr_id(VERBS_WORK_GREETING_SEND, 0),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	int rc;

	if (sge.length == 0)
		return;
	rc = ibv_post_send(vq->control.ibv, &wr, &bad);
	metric_add(&vq->qp->port->counters.send_calls, 1);
	if (rc != 0) {
		qp_fail(vq->qp, -ECONNRESET, "send: %s", strerrordesc_np(rc));
		return;
	}
	self->is_out = true;
	self->answer = send;
	vq->control_credits--;
	vq->control_outstanding++;
}

void
verbs_greet(struct verbs_qp *vq)
{
	struct split_qp *qp = vq->qp;
	struct loop_link *link = list_first(&qp->sendable);
	struct split_send *send;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(verbs_is(vq, VERBS_OPEN) && !vq->is_greeted);
	/* Without a receive for it the peer is no peer of ours: the time runs out. */
	if (link == NULL || !qp_is_open(qp) || vq->greeting->is_out || vq->control_credits == 0 ||
	    vq->control_outstanding == VERBS_CONTROL_SENDS)
		return;
	send = LIST_ENTRY(link, struct split_send, link);
	if (send != &qp->hello.send || hello_prepare(vq))
		greeting_send(vq, send);
}

/* Our last greeting has arrived. The completion, which ends the device's interest in it, may come later. */
static void
greeting_settle(struct verbs_qp *vq)
{
	struct split_send *send = vq->greeting->answer;

	vq->greeting->answer = NULL;
	if (send != NULL)
		send_complete(vq->qp, send, 0);
}

void
verbs_on_greeting_sent(struct verbs_qp *vq, const struct ibv_wc *wc)
{
	struct split_qp *qp = vq->qp;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(vq->control_outstanding > 0 && vq->greeting->is_out);
	vq->control_outstanding--;
	vq->greeting->is_out = false;
	if (qp == NULL || !qp_is_open(qp) || wc->status != IBV_WC_SUCCESS) {
		verbs_fail_status(vq, wc->status);
		return;
	}
	vq->heard_ns = loop_now_ns(qp->port->loop);
	greeting_settle(vq);
	/* The acceptor's last is its hello. */
	if (qp->is_acceptor && vq->is_data_up)
		vq->is_greeted = true;
	greeting_try_end(vq);
	if (qp_is_open(qp))
		send_kick_later(qp);
}

static void
greeting_break(struct split_qp *qp, const char *field)
{
	if (qp_is_open(qp))
		metric_add(&qp->port->counters.protocol_errors, 1);
	qp_fail(qp, -EPROTO, "bad message: field %s", field);
}

/* Hellos are sealed here, but for a refusal; and one is answered when it is out. recv_split.c judges the rest. */
static bool
greeting_is_due(const struct split_qp *qp, const struct wire_header *header)
{
	if (qp_is(qp, SPLIT_QP_READY))
		return false;
	if ((header->opcode & ~WIRE_REPLY) != WIRE_HELLO)
		return true;
	if (qp->sealed == NULL)
		return !qp->is_acceptor && header->status != 0;
	return qp->is_acceptor ||
	    (qp->hello.header.object_id != 0 && !list_contains(&qp->hello.send.link));
}

/* A hello tells, besides the data lane's number, how many receives of the control lane were given back. */
static bool
greeting_take_returned(struct verbs_qp *vq, const struct wire_header *header)
{
	if (vq->qp->sealed == NULL || (header->opcode & ~WIRE_REPLY) != WIRE_HELLO)
		return true;
	if (header->offset_bytes > VERBS_CONTROL_WINDOW - vq->control_credits)
		return false;
	vq->control_credits += (uint32_t)header->offset_bytes;
	return true;
}

static void
greeting_take(struct verbs_qp *vq, uint8_t *message, uint32_t bytes)
{
	struct split_qp *qp = vq->qp;
	uint32_t head_bytes = recv_head_bytes(qp);
	const struct wire_header *header = (const struct wire_header *)(const void *)message;

	if (bytes < head_bytes) {
		greeting_break(qp, "payload_bytes");
		return;
	}
	if (!recv_open_control(qp, message))
		return;
	if (header->payload_bytes != bytes - head_bytes) {
		greeting_break(qp, "payload_bytes");
		return;
	}
	if (!greeting_is_due(qp, header)) {
		greeting_break(qp, "opcode");
		return;
	}
	if (!greeting_take_returned(vq, header)) {
		greeting_break(qp, "offset_bytes");
		return;
	}
	switch (recv_begin(qp, header, NULL)) {
	case RECV_FILL:
		break;
	case RECV_BROKEN:
		return;
	case RECV_DONE:
	case RECV_WAIT:
		greeting_break(qp, "opcode");
		return;
	}
	assert(qp->fill.host_left == bytes - head_bytes);
	memcpy(qp->fill.host, message + head_bytes, qp->fill.host_left);
	qp->fill.host_left = 0;
	recv_finish(qp);
}

void
verbs_on_greeting(struct verbs_qp *vq, const struct ibv_wc *wc)
{
	uint32_t index = (uint32_t)wc->wr_id % VERBS_CONTROL_WINDOW;
	struct split_qp *qp = vq->qp;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(vq->greeting != NULL && vq->greeting->left > 0);
	vq->greeting->left--;
	if (qp == NULL || !qp_is_open(qp) || wc->status != IBV_WC_SUCCESS) {
		verbs_fail_status(vq, wc->status);
		return;
	}
	vq->heard_ns = loop_now_ns(qp->port->loop);
	if (verbs_post_control_receive(vq, index) != 0) {
		qp_fail(qp, -ECONNRESET, "the device takes no receives");
		return;
	}
	vq->control_owed++;
	/* A peer that is being refused has nothing more to say. */
	if (qp->is_rejecting)
		return;
	greeting_settle(vq);
	if (qp_is_open(qp))
		greeting_take(vq, greeting_buffer(vq->greeting, index), wc->byte_len);
	if (!qp->is_acceptor && qp_is(qp, SPLIT_QP_READY) && data_connect(vq)) {
		vq->is_greeted = true;
		greeting_try_end(vq);
	}
	if (qp_is_open(qp))
		send_kick_later(qp);
}
