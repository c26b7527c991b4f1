/* SPDX-License-Identifier: Apache-2.0 */
/* qp.c -- a queue pair: its states, and its failure from anywhere; qp_life.c has the picture */
#include "qp.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "base/sm.h"
#include "port.h"

const struct sm_state qp_table[SPLIT_QP_STATE_NR] = {
	[SPLIT_QP_CONNECTING] = { "connecting", SM_TO(SPLIT_QP_READY) | SM_TO(SPLIT_QP_CLOSING),
	    SM_INITIAL },
	[SPLIT_QP_ACCEPTING] = { "accepting", SM_TO(SPLIT_QP_READY) | SM_TO(SPLIT_QP_CLOSING),
	    SM_INITIAL },
	[SPLIT_QP_READY] = { "ready", SM_TO(SPLIT_QP_CLOSING), 0 },
	[SPLIT_QP_CLOSING] = { "closing", SM_TO(SPLIT_QP_CLOSED) | SM_TO(SPLIT_QP_CONNECTING), 0 },
	[SPLIT_QP_CLOSED] = { "closed", 0, SM_FINAL },
};

/* Never less than half: no reserve, and no device with little room, closes a port to all who come. */
uint32_t
split_port_accepted_max(const struct split_port *port)
{
	return port->qp_room -
	    (uint32_t)num_min(port->options.qp_reserved_count, port->qp_room / 2);
}

uint32_t *
qp_counter(const struct split_qp *qp)
{
	return qp->is_surplus ? &qp->port->surplus_count : &qp->port->qp_count;
}

void
qp_uncount(struct split_qp *qp)
{
	assert(!qp->is_uncounted);
	qp->is_uncounted = true;
	assert(*qp_counter(qp) > 0);
	*qp_counter(qp) -= 1;
	qp->port->accepted_count -= qp->is_acceptor && !qp->is_surplus;
}

void
qp_fail(struct split_qp *qp, int rc, const char *format, ...)
{
	va_list args;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(rc <= 0);
	if (!qp_is_open(qp))
		return;
	qp->close_rc = rc;
	va_start(args, format);
	(void)vsnprintf(qp->reason, sizeof(qp->reason), format, args); /* cut where too long */
	va_end(args);
	/* Nobody was told of a connection that is not offered yet. */
	if (qp_is(qp, SPLIT_QP_ACCEPTING) && !qp->is_offered)
		qp->is_abandoned = true;
	sm_move(&qp->sm, SPLIT_QP_CLOSING);
	loop_timer_stop(qp->port->loop, &qp->timer);
	loop_defer(qp->port->loop, &qp->close_task);
}

void
split_qp_close(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(!qp->is_offered); /* accept or reject it instead */
	qp->is_abandoned = true;
	if (qp_is(qp, SPLIT_QP_CLOSED))
		loop_defer(qp->port->loop, &qp->close_task);
	else
		qp_fail(qp, 0, "closed here");
}

enum split_qp_state
split_qp_state(const struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	return (enum split_qp_state)qp->sm.state;
}

const char *
split_qp_peer(const struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	return qp->peer;
}

void *
split_qp_arg(const struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	return qp->arg;
}

struct split_qp *
split_port_qp_of(const struct split_port *port, const void *arg)
{
	const struct loop_link *link;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	for (link = port->qps.next; link != &port->qps; link = link->next) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, link);

		if (qp->arg == arg && qp_is(qp, SPLIT_QP_READY))
			return qp;
	}
	return NULL;
}

struct split_port *
split_qp_port(const struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	return qp->port;
}
