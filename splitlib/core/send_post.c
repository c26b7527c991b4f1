/* SPDX-License-Identifier: Apache-2.0 */
/* send_post.c -- messages are queued for the wire: hellos, credits, and what may go at once */
#include "send_post.h"

#include "base/check.h"
#include "base/list.h"
#include "port.h"
#include "qp.h"

static void send_on_control_sent(struct split_send *send, int rc, void *arg);

bool
send_is_control(const struct split_send *send)
{
	return send->fn == send_on_control_sent;
}

static void
send_on_control_sent(struct split_send *send, int rc, void *arg)
{
	struct split_qp *qp = arg;

	(void)send;
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	/* The refusal is out; with a failed one the queue pair is closing already. */
	if (rc == 0 && qp->is_rejecting)
		qp_fail(qp, 0, "rejected");
}

void
send_kick_later(struct split_qp *qp)
{
	struct split_port *port = qp->port;

	if (list_contains(&qp->send_link))
		return;
	if (list_is_empty(&port->send_due))
		port_wake(port);
	list_push_back(&port->send_due, &qp->send_link);
}

void
send_queue(struct split_qp *qp, struct split_send *send)
{
	assert(!list_contains(&send->link));
	assert(send->header != NULL);
	send->sent_bytes = 0;
	list_push_back(&qp->sendable, &send->link);
	send_kick_later(qp);
}

void
send_make_sendable(struct split_qp *qp)
{
	struct loop_link *link = list_pop_front(&qp->credit_wait);

	assert(link != NULL);
	send_queue(qp, LIST_ENTRY(link, struct split_send, link));
}

void
send_post_control(struct split_qp *qp, struct qp_control *control)
{
	struct split_send *send = &control->send;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(control->hello_bytes <= WIRE_HELLO_BYTES);
	if (list_contains(&send->link))
		return;
	send->header = &control->header;
	send->header_bytes = WIRE_HEADER_BYTES + control->hello_bytes;
	send->total_bytes = send->header_bytes;
	send->fn = send_on_control_sent;
	send->arg = qp;
	send_queue(qp, send);
}

void
send_post_credit(struct split_qp *qp, uint32_t flags)
{
	assert(flags <= (WIRE_CREDIT_WANT | WIRE_CREDIT_RECALL | WIRE_CREDIT_RETURN));
	qp->control_flags |= flags;
	send_post_control(qp, &qp->control);
}

void
send_post_library(struct split_qp *qp, struct split_send *send)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(send->header_bytes == WIRE_HEADER_BYTES);
	send->total_bytes = send->header_bytes | SEND_LIBRARYS;
	for (uint32_t i = 0; i < send->piece_count; i++)
		send->total_bytes += send->pieces[i].bytes;
	send_queue(qp, send);
}
