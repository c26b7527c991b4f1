/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send_assemble.c -- messages leave: headers from host memory, payloads from device memory
 *
 * A work request waits in one of two queues of its queue pair: credit_wait, while the peer has no
 * receive for it or we have none for its reply; sendable, in the order of the wire. Replies, hellos
 * and credits go to sendable at once, past the requests that wait: so what a peer waits for never
 * waits for that peer (no deadlock). The end of the loop turn lets the transport gather what is
 * sendable, many messages to a system call.
 *
 * A message is stamped when it is gathered first; from then on it can not be taken back.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "credit.h"
#include "credit_grant.h"
#include "dev_ptr_raw.h"
#include "device_memory.h"
#include "port.h"
#include "qp.h"
#include "sealed.h"
#include "send_assemble.h"
#include "send_post.h"
#include "wire.h"

#define SEND_STAMPED (UINT64_C(1) << 63) /* in total_bytes: the header is final */
#define SEND_IN_CREDIT_WAIT UINT64_MAX   /* in sent_bytes: the request is in credit_wait */

uint64_t
send_total_bytes(const struct split_send *send)
{
	return send->total_bytes & ~(SEND_STAMPED | SEND_LIBRARYS | SEND_SEALED);
}

bool
send_is_final(const struct split_send *send)
{
	return (send->total_bytes & SEND_STAMPED) != 0;
}

bool
send_is_sealed(const struct split_send *send)
{
	return (send->total_bytes & SEND_SEALED) != 0;
}

void
send_set_sealed(struct split_send *send)
{
	assert(send_is_final(send));
	send->total_bytes |= SEND_SEALED;
}

static void
send_on_reply_sent(struct split_send *send, int rc, void *arg)
{
	struct split_receive *receive = arg;
	struct split_port *port = receive->port;
	void (*fn)(int, void *) = receive->reply_fn;
	void *fn_arg = receive->reply_arg;

	(void)send;
	CHECK_OBJ(receive, SPLIT_RECEIVE_MAGIC);
	receive_pool_push(&port->pool, receive);
	credit_on_released(port, receive->is_reply);
	if (fn != NULL)
		fn(rc, fn_arg);
}

/* Only what split_send took counts against the queue's depth. */
static bool
send_is_users(const struct split_send *send)
{
	return !send_is_control(send) && send->fn != send_on_reply_sent &&
	    (send->total_bytes & SEND_LIBRARYS) == 0;
}

static bool
send_is_request(const struct split_send *send)
{
	return (send->header->opcode & WIRE_REPLY) == 0;
}

/* Returns 0 and the message's length. */
static int
send_check_shape(const struct split_send *send, uint64_t *ret_total_bytes)
{
	uint8_t opcode;
	uint64_t total_bytes = send->header_bytes;

	if (send->header == NULL || send->header_bytes < WIRE_HEADER_BYTES ||
	    send->header_bytes > SPLIT_HEADER_BYTES_MAX || send->piece_count > SPLIT_PIECES_MAX)
		return -EINVAL;
	opcode = send->header->opcode & (uint8_t)~WIRE_REPLY;
	if (opcode != WIRE_ECHO && opcode < WIRE_WRITE) /* the library's own */
		return -EINVAL;
	for (uint32_t i = 0; i < send->piece_count; i++)
		total_bytes += send->pieces[i].bytes;
	if (total_bytes - WIRE_HEADER_BYTES > WIRE_PAYLOAD_BYTES_MAX)
		return -EMSGSIZE;
	*ret_total_bytes = total_bytes;
	return 0;
}

int
split_send(struct split_qp *qp, struct split_send *send)
{
	uint64_t total_bytes;
	int rc;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(send->fn != NULL);
	assert(!list_contains(&send->link));
	rc = send_check_shape(send, &total_bytes);
	if (rc != 0)
		return rc;
	if (!qp_is(qp, SPLIT_QP_READY))
		return -ENOTCONN;
	if (qp->send_count >= qp->port->options.qp_send_depth_max)
		return -ENOBUFS;
	if (!send_is_request(send)) {
		/* The peer would close the queue pair on a reply that it did not ask for. */
		if (qp->replies_owed == 0)
			return -EINVAL;
		credit_on_answered(qp);
	}
	qp->send_count++;
	send->total_bytes = total_bytes;
	if (!send_is_request(send) || (list_is_empty(&qp->credit_wait) && credit_take(qp))) {
		send_queue(qp, send);
		return 0;
	}
	send->sent_bytes = SEND_IN_CREDIT_WAIT;
	list_push_back(&qp->credit_wait, &send->link);
	metric_add(&qp->port->counters.credit_waits, 1);
	credit_wait_begin(qp);
	return 0;
}

int
split_send_cancel(struct split_qp *qp, struct split_send *send)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	/* When the queue pair closes, or the bytes may be out, the completion is on its way. */
	if (!list_contains(&send->link) || !qp_is(qp, SPLIT_QP_READY) ||
	    (send->total_bytes & SEND_STAMPED) != 0)
		return 0;
	list_remove(&send->link);
	assert(qp->send_count > 0);
	qp->send_count--;
	if (!send_is_request(send))
		qp->replies_owed++;
	else if (send->sent_bytes != SEND_IN_CREDIT_WAIT)
		credit_untake(qp);
	return 1;
}

static void
reply_fill(struct split_receive *receive, const struct wire_header *header,
    const struct dev_piece *pieces, uint32_t piece_count)
{
	uint64_t total_bytes = WIRE_HEADER_BYTES;

	/* The request's header is no longer needed, and may be where @header was made. */
	memmove(receive->header, header, WIRE_HEADER_BYTES);
	for (uint32_t i = 0; i < piece_count; i++) {
		receive->pieces[i] = pieces[i];
		total_bytes += pieces[i].bytes;
	}
	assert(total_bytes - WIRE_HEADER_BYTES <= WIRE_PAYLOAD_BYTES_MAX);
	receive->reply = (struct split_send){
		.header = receive->header,
		.header_bytes = WIRE_HEADER_BYTES,
		.pieces = receive->pieces,
		.piece_count = piece_count,
		.fn = send_on_reply_sent,
		.arg = receive,
		.total_bytes = total_bytes,
	};
}

void
split_msg_reply(struct split_msg *msg, const struct wire_header *header,
    const struct dev_piece *pieces, uint32_t piece_count, void (*fn)(int rc, void *arg), void *arg)
{
	struct split_receive *receive = NUM_CONTAINER_OF(msg, struct split_receive, msg);
	struct split_port *port = receive->port;
	struct split_qp *qp = msg->qp;

	CHECK_OBJ(receive, SPLIT_RECEIVE_MAGIC);
	assert(receive->is_held);
	assert(!receive->is_reply);
	assert((header->opcode & WIRE_REPLY) != 0);
	assert(piece_count <= SPLIT_REPLY_PIECES_MAX);
	receive->is_held = false;
	receive->reply_fn = fn;
	receive->reply_arg = arg;
	list_remove(&receive->link);
	if (qp == NULL || !qp_is(qp, SPLIT_QP_READY)) {
		list_push_back(&port->orphans, &receive->link);
		loop_defer(port->loop, &port->orphan_task);
		return;
	}
	assert(qp->replies_owed > 0); /* answered before by split_send */
	credit_on_answered(qp);
	reply_fill(receive, header, pieces, piece_count);
	send_queue(qp, &receive->reply);
}

static void
send_stamp(struct split_qp *qp, struct split_send *send)
{
	uint32_t payload_bytes = (uint32_t)(send_total_bytes(send) - WIRE_HEADER_BYTES);

	assert(!send_is_final(send));
	if (send == &qp->control.send)
		credit_stamp_control(qp, send->header);
	wire_frame_stamp(send->header, payload_bytes, credit_stamp(qp));
	send->total_bytes |= SEND_STAMPED;
}

void
send_prepare(struct split_qp *qp, struct split_send *send)
{
	if ((send->total_bytes & SEND_STAMPED) == 0)
		send_stamp(qp, send);
}

struct gather {
	struct iovec *iov;
	uint32_t iov_count, iov_max;
	uint64_t bytes;
};

/* Adds a piece, without its first *@skip_bytes bytes. */
static void
gather_add(struct gather *gather, void *memory, uint64_t bytes, uint64_t *skip_bytes)
{
	uint64_t skip = num_min(*skip_bytes, bytes);

	*skip_bytes -= skip;
	if (bytes == skip)
		return;
	assert(gather->iov_count < gather->iov_max);
	gather->iov[gather->iov_count++] =
	    (struct iovec){ .iov_base = (uint8_t *)memory + skip, .iov_len = bytes - skip };
	gather->bytes += bytes - skip;
}

uint32_t
send_gather(struct split_qp *qp, struct iovec *iov, uint32_t iov_max, uint64_t bytes_max,
    uint64_t *ret_bytes)
{
	struct gather gather = { .iov = iov, .iov_max = iov_max };
	struct loop_link *link = list_first(&qp->sendable), *next;

	if (link != NULL && sealed_wants(qp, LIST_ENTRY(link, struct split_send, link)))
		return sealed_gather(qp, iov, bytes_max, ret_bytes);
	LIST_FOREACH_SAFE(&qp->sendable, link, next) {
		struct split_send *send = LIST_ENTRY(link, struct split_send, link);
		uint64_t skip_bytes = send->sent_bytes;

		/* Sealed messages go by themselves. */
		if (sealed_wants(qp, send))
			break;
		/* Whole messages only; the first always fits. */
		if (gather.bytes >= bytes_max || gather.iov_count + 1 + send->piece_count > iov_max)
			break;
		send_prepare(qp, send);
		gather_add(&gather, send->header, send->header_bytes, &skip_bytes);
		for (uint32_t i = 0; i < send->piece_count; i++)
			gather_add(&gather, dev_ptr_raw(send->pieces[i].ptr), send->pieces[i].bytes,
			    &skip_bytes);
	}
	*ret_bytes = gather.bytes;
	return gather.iov_count;
}

static void
send_finish(struct split_qp *qp, struct split_send *send, int rc)
{
	if (send_is_users(send))
		qp->send_count--;
	port_call_begin(qp->port);
	send->fn(send, rc, send->arg);
	port_call_end(qp->port);
}

void
send_complete(struct split_qp *qp, struct split_send *send, int rc)
{
	struct split_counters *counters = &qp->port->counters;
	uint64_t total_bytes = send_total_bytes(send);

	assert(rc <= 0);
	list_remove(&send->link);
	if (rc == 0) {
		send->sent_bytes = total_bytes;
		if (!send_is_control(send) && send->header->opcode != WIRE_AUTH)
			metric_add(&counters->messages_out, 1);
		metric_add(&counters->host_bytes_out, send->header_bytes);
		metric_add(&counters->device_bytes_out, total_bytes - send->header_bytes);
	}
	send_finish(qp, send, rc);
}

void
send_advance(struct split_qp *qp, uint64_t bytes)
{
	struct loop_link *link;

	while ((link = list_first(&qp->sendable)) != NULL && !port_is_halted(qp->port)) {
		struct split_send *send = LIST_ENTRY(link, struct split_send, link);
		uint64_t left_bytes = send_total_bytes(send) - send->sent_bytes;

		if (send_is_sealed(send)) {
			left_bytes += SEAL_EXTRA_BYTES;
			sealed_advance(qp, num_min(bytes, left_bytes));
		}
		if (bytes < left_bytes) {
			send->sent_bytes += bytes;
			return;
		}
		bytes -= left_bytes;
		send_complete(qp, send, 0);
		if (bytes == 0)
			return;
	}
}

static void
send_flush_queue(struct split_qp *qp, struct loop_link *queue, int rc)
{
	struct loop_link *link;

	assert(rc < 0);
	while (!port_is_halted(qp->port) && (link = list_pop_front(queue)) != NULL)
		send_finish(qp, LIST_ENTRY(link, struct split_send, link), rc);
}

void
send_flush(struct split_qp *qp, int rc)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	send_flush_queue(qp, &qp->sendable, rc);
	send_flush_queue(qp, &qp->credit_wait, rc);
}
