/* SPDX-License-Identifier: Apache-2.0 */
/* receive.c -- receives come back: from a handler that is done with a message, from a queue pair that ends */
#include "receive.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "credit.h"
#include "device_memory.h"
#include "event.h"
#include "port.h"
#include "qp.h"

static void
receive_give_back(struct split_receive *receive)
{
	struct split_port *port = receive->port;

	CHECK_OBJ(receive, SPLIT_RECEIVE_MAGIC);
	receive->is_held = false;
	receive_pool_push(&port->pool, receive);
	credit_on_released(port, receive->is_reply);
}

static void
receive_flush_fill(struct split_qp *qp, int rc)
{
	struct recv_fill fill = qp->fill;

	assert(rc < 0);
	qp->fill = (struct recv_fill){ .kind = RECV_NONE };
	if (fill.kind == RECV_POOL)
		receive_give_back(fill.receive);
	else if (fill.kind == RECV_POSTED)
		event_complete(fill.event, rc, 0);
}

void
receive_flush(struct split_qp *qp)
{
	int rc = qp->close_rc == 0 ? -ECANCELED : -ECONNRESET;
	struct loop_link *link;

	assert(!qp_is_open(qp));
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	receive_flush_fill(qp, rc);
	while ((link = list_pop_front(&qp->posted)) != NULL)
		event_complete(LIST_ENTRY(link, struct dev_event, link), rc, 0);
	qp->posted_count = 0;
	/* Closed from a handler while more had arrived: nobody has seen those. */
	for (uint32_t i = 0; i < qp->batch_count; i++) {
		struct split_receive *receive =
		    NUM_CONTAINER_OF(qp->batch[i], struct split_receive, msg);

		list_remove(&receive->link);
		receive_give_back(receive);
	}
	qp->batch_count = 0;
	/* The others stay with their handlers, without a queue pair. */
	while ((link = list_pop_front(&qp->messages)) != NULL)
		LIST_ENTRY(link, struct split_receive, link)->msg.qp = NULL;
}

void
split_msg_release(struct split_msg *msg)
{
	struct split_receive *receive = NUM_CONTAINER_OF(msg, struct split_receive, msg);

	CHECK_OBJ(receive, SPLIT_RECEIVE_MAGIC);
	assert(receive->is_held);
	list_remove(&receive->link);
	receive_give_back(receive);
}
