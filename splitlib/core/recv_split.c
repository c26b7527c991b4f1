/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recv_split.c -- a message arrives: its header is judged, its parts are given their places
 *
 * A transport calls recv_begin with each header, moves the payload to where qp->fill says, and calls
 * recv_finish. A message goes to the oldest receive posted on its queue pair, else to the port's
 * pool, for which its sender held a credit or its request a reservation: so the pool always has a
 * receive, and a message that exceeds what was promised breaks the protocol (I9, I10). Only a queue
 * pair without handlers can be short of receives; its transport stops reading then.
 *
 * Messages for the pool are collected and handed to the handler as a batch.
 */
#include <errno.h>
#include <string.h>

#include "auth.h"
#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "connect.h"
#include "credit.h"
#include "credit_grant.h"
#include "dev_ptr_raw.h"
#include "device_memory.h"
#include "event.h"
#include "one_sided.h"
#include "port.h"
#include "qp.h"
#include "recv_split.h"
#include "sealed.h"
#include "transport.h"
#include "wire.h"

uint32_t
recv_receives_wanted(const struct split_qp *qp)
{
	return qp->granted - qp->unannounced + qp->replies_expected;
}

static enum recv_verdict
recv_break(struct split_qp *qp, int rc, const char *field)
{
	assert(rc < 0);
	assert(field != NULL);
	metric_add(&qp->port->counters.protocol_errors, 1);
	qp_fail(qp, rc, "bad message: field %s", field);
	return RECV_BROKEN;
}

static enum recv_verdict
recv_begin_hello(struct split_qp *qp, const struct wire_header *header)
{
	const char *field;
	int rc = connect_hello_check(qp, header, &field);

	if (rc != 0 || qp->is_offered || qp->is_rejecting)
		return recv_break(qp, -EPROTO, rc != 0 ? field : "opcode");
	metric_add(&qp->port->counters.host_bytes_in, WIRE_HEADER_BYTES + header->payload_bytes);
	qp->hello_header = *header;
	qp->hello_in_bytes = header->payload_bytes;
	qp->fill = (struct recv_fill){
		.kind = RECV_HELLO,
		.host = qp->hello_in,
		.host_left = header->payload_bytes,
		.payload_bytes = header->payload_bytes,
	};
	return RECV_FILL;
}

static void
recv_begin_posted(struct split_qp *qp, const struct wire_header *header)
{
	struct loop_link *link = list_pop_front(&qp->posted);
	struct dev_event *event = LIST_ENTRY(link, struct dev_event, link);
	uint32_t payload_bytes = header->payload_bytes;
	uint32_t host_bytes =
	    (uint32_t)num_min(payload_bytes, event->host_bytes - WIRE_HEADER_BYTES);
	uint32_t device_bytes = (uint32_t)num_min(payload_bytes - host_bytes, event->device_bytes);

	assert(qp->posted_count > 0);
	qp->posted_count--;
	if (event->host != (const uint8_t *)header)
		memcpy(event->host, header, WIRE_HEADER_BYTES);
	qp->fill = (struct recv_fill){
		.kind = RECV_POSTED,
		.host = event->host + WIRE_HEADER_BYTES,
		.host_left = host_bytes,
		.device = dev_ptr_raw(event->device),
		.device_left = device_bytes,
		.discard_left = payload_bytes - host_bytes - device_bytes,
		.payload_bytes = device_bytes,
		.event = event,
	};
	if (qp->fill.discard_left > 0)
		qp->fill.rc = -EMSGSIZE;
	metric_add(&qp->port->counters.host_bytes_in, WIRE_HEADER_BYTES + host_bytes);
	metric_add(&qp->port->counters.device_bytes_in, device_bytes);
}

static void
recv_begin_pool(struct split_qp *qp, const struct wire_header *header,
    struct split_receive *in_place, bool is_reply)
{
	struct split_port *port = qp->port;
	struct split_receive *receive = in_place != NULL ? in_place : receive_pool_pop(&port->pool);
	uint32_t payload_bytes = header->payload_bytes;
	void *placed = NULL;

	assert(payload_bytes <= port->pool.payload_bytes_max);
	if (is_reply && in_place == NULL && payload_bytes > 0 && qp->handlers->on_place != NULL)
		placed = qp->handlers->on_place(qp, header, qp->arg);
	assert(receive != NULL); /* credit.c promised no more than the pool has */
	if (receive->header != header)
		memcpy(receive->header, header, WIRE_HEADER_BYTES);
	receive->is_reply = is_reply;
	receive->msg.qp = qp;
	receive->msg.payload_bytes = payload_bytes;
	receive->msg.placed = placed;
	receive->msg.user = NULL;
	qp->fill = (struct recv_fill){
		.kind = RECV_POOL,
		.host = placed,
		.host_left = placed != NULL ? payload_bytes : 0,
		.device = dev_ptr_raw(receive->payload),
		.device_left = placed != NULL ? 0 : payload_bytes,
		.payload_bytes = payload_bytes,
		.receive = receive,
	};
	metric_add(&port->counters.host_bytes_in,
	    WIRE_HEADER_BYTES + (placed != NULL ? payload_bytes : 0));
	metric_add(&port->counters.device_bytes_in, placed != NULL ? 0 : payload_bytes);
}

uint32_t
recv_head_bytes(const struct split_qp *qp)
{
	return qp->sealed != NULL ? SEAL_HEAD_BYTES : WIRE_HEADER_BYTES;
}

static bool
recv_open_lane(struct split_qp *qp, enum sealed_lane lane, void *head)
{
	if (qp->sealed == NULL)
		return true;
	if (sealed_open_head(qp, lane, head) == 0)
		return true;
	(void)recv_break(qp, -EBADMSG, "head (it does not open)");
	return false;
}

bool
recv_open(struct split_qp *qp, void *head)
{
	return recv_open_lane(qp, SEALED_DATA, head);
}

bool
recv_open_control(struct split_qp *qp, void *head)
{
	assert(qp->ops->has_lanes);
	return recv_open_lane(qp, SEALED_CONTROL, head);
}

static enum recv_verdict
recv_begin_auth(struct split_qp *qp, const struct wire_header *header)
{
	const char *field;
	int rc = auth_recv_begin(qp, header, &field);

	if (rc == -EINPROGRESS)
		return RECV_WAIT;
	if (rc == -EAGAIN)
		return RECV_BROKEN; /* as a hello of another version: it is being refused */
	if (rc != 0)
		return recv_break(qp, rc, field);
	metric_add(&qp->port->counters.host_bytes_in, WIRE_HEADER_BYTES + header->payload_bytes);
	return RECV_FILL;
}

static enum recv_verdict
recv_judge(struct split_qp *qp, const struct wire_header *header, struct split_receive *in_place)
{
	bool is_reply = (header->opcode & WIRE_REPLY) != 0;
	bool is_posted = !list_is_empty(&qp->posted);
	const char *field;
	int rc;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(qp->fill.kind == RECV_NONE);
	rc = wire_frame_check(header, &field);
	if (rc == -EPROTONOSUPPORT && qp_is(qp, SPLIT_QP_ACCEPTING) && !qp->is_offered) {
		connect_reject(qp, rc, NULL);
		return RECV_BROKEN;
	}
	if (rc != 0)
		return recv_break(qp, rc, field);
	if (!qp_is(qp, SPLIT_QP_READY) && header->opcode == WIRE_AUTH)
		return recv_begin_auth(qp, header);
	if (!qp_is(qp, SPLIT_QP_READY))
		return recv_begin_hello(qp, header);
	if ((header->opcode & ~WIRE_REPLY) == WIRE_HELLO || header->opcode == WIRE_AUTH)
		return recv_break(qp, -EPROTO, "opcode");
	if (header->opcode == WIRE_CREDIT) {
		metric_add(&qp->port->counters.host_bytes_in, WIRE_HEADER_BYTES);
		rc = credit_on_control(qp, header, &field);
		return rc == 0 ? RECV_DONE : recv_break(qp, rc, field);
	}
	if (one_sided_is(header->opcode) && qp->sealed != NULL)
		return recv_break(qp, -EPROTO, "opcode (one-sided, and sealed)");
	if (one_sided_is(header->opcode)) {
		rc = one_sided_begin(qp, header, &field);
		return rc == 0 ? RECV_FILL : recv_break(qp, rc, field);
	}
	if (!is_posted && !qp->is_pooled)
		return RECV_WAIT;
	if (!is_posted && header->payload_bytes > qp->port->pool.payload_bytes_max)
		return recv_break(qp, -EPROTO, "payload_bytes");
	if (credit_on_arrival(qp, is_reply, !is_posted) != 0)
		return recv_break(qp, -EPROTO,
		    is_reply ? "opcode (nothing was asked)" : "opcode (no credit)");
	if (credit_on_header(qp, header) != 0)
		return recv_break(qp, -EPROTO, "credits");
	if (is_posted)
		recv_begin_posted(qp, header);
	else
		recv_begin_pool(qp, header, in_place, is_reply);
	return RECV_FILL;
}

enum recv_verdict
recv_begin(struct split_qp *qp, const struct wire_header *header, struct split_receive *in_place)
{
	enum recv_verdict verdict = recv_judge(qp, header, in_place);

	if (qp->sealed == NULL)
		return verdict;
	if (verdict == RECV_FILL && sealed_expect(qp) != 0)
		return recv_break(qp, -EMSGSIZE, "payload_bytes (longer than what was posted)");
	if (verdict == RECV_DONE && sealed_open_payload(qp) != 0)
		return recv_break(qp, -EBADMSG, "payload tag");
	return verdict;
}

static void
recv_finish_pool(struct split_qp *qp, struct split_receive *receive)
{
	assert(!receive->is_held);
	assert(qp->batch_count < SPLIT_BATCH_MAX);
	receive->is_held = true;
	list_push_back(&qp->messages, &receive->link);
	qp->batch[qp->batch_count++] = &receive->msg;
	if (qp->batch_count == SPLIT_BATCH_MAX)
		recv_deliver(qp);
}

void
recv_finish(struct split_qp *qp)
{
	struct recv_fill fill = qp->fill;

	assert(fill.kind != RECV_NONE);
	assert(!recv_is_filling(qp));
	/* A message half believed goes back with the queue pair: receive_flush. */
	if (qp->sealed != NULL && sealed_open_payload(qp) != 0) {
		(void)recv_break(qp, -EBADMSG, "payload (it does not open)");
		return;
	}
	qp->fill.kind = RECV_NONE;
	if (fill.kind == RECV_POOL || fill.kind == RECV_POSTED)
		metric_add(&qp->port->counters.messages_in, 1);
	switch (fill.kind) {
	case RECV_HELLO:
		connect_on_hello(qp);
		break;
	case RECV_AUTH:
		auth_on_message(qp);
		break;
	case RECV_POOL:
		recv_finish_pool(qp, fill.receive);
		break;
	case RECV_POSTED:
		event_complete(fill.event, fill.rc, fill.payload_bytes);
		break;
	case RECV_ONE_SIDED:
		one_sided_finish(qp, &fill);
		break;
	case RECV_NONE:
		break;
	}
}

void
recv_deliver(struct split_qp *qp)
{
	uint32_t count = qp->batch_count;

	assert(count <= SPLIT_BATCH_MAX);
	/* Messages from before the peer's end are delivered; after split_qp_close nothing is. */
	if (count == 0 || (!qp_is(qp, SPLIT_QP_READY) && qp->close_rc == 0))
		return;
	if (qp_is(qp, SPLIT_QP_READY))
		credit_on_batch(qp);
	qp->batch_count = 0;
	port_call_begin(qp->port);
	qp->handlers->on_messages(qp, qp->batch, count, qp->arg);
	port_call_end(qp->port);
}
