/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qp_life.c -- a queue pair's life
 *
 *	connect_qp                    a transport's listener
 *	    |                                 |
 *	    v                                 v
 *	CONNECTING --(hello answered)   (hello arrived, on_accept, split_qp_accept)-- ACCEPTING
 *	    |            \                                   /                           |
 *	    |             `--------------> READY <----------'                            |
 *	    |                                |                                           |
 *	    `------(refused, timed out)------+------(rejected, timed out)----------------'
 *	                                     |  split_qp_close, peer gone, broken message
 *	                                     v
 *	                                  CLOSING   still in the caller's stack; nothing moves
 *	                                     |  (a name's next address: back to CONNECTING, connect_name.c)
 *	                                     |  close task: transport closed, all sends, receives and
 *	                                     v  events completed
 *	                                  CLOSED    on_closed, then freed
 *
 * Messages that arrived before the peer's end are still delivered, before on_closed.
 *
 * CLOSED without being freed: a queue pair without handlers, until its owner calls split_qp_close;
 * one offered to on_accept, until the owner has accepted or rejected it. An owner that holds a
 * pointer has one call left that ends it.
 */
#include "qp_life.h"

#include <errno.h>

#include "alloc.h"
#include "auth.h"
#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "connect_name.h"
#include "credit.h"
#include "credit_grant.h"
#include "event.h"
#include "guest.h"
#include "one_sided.h"
#include "port.h"
#include "qp.h"
#include "receive.h"
#include "sealed.h"
#include "send_assemble.h"
#include "transport.h"

static void qp_on_close_task(struct loop_task *task, void *arg);
static void qp_on_ready_task(struct loop_task *task, void *arg);
static void qp_on_timer(struct loop_timer *timer, void *arg);

static bool
port_has_room(const struct split_port *port, enum split_qp_state state)
{
	if (state == SPLIT_QP_ACCEPTING && port->accepted_count >= split_port_accepted_max(port))
		return false;
	return port->qp_count < port->qp_room;
}

static void
qp_lists_init(struct split_qp *qp)
{
	list_init(&qp->credit_wait);
	list_init(&qp->sendable);
	list_init(&qp->posted);
	list_init(&qp->messages);
}

struct split_qp *
qp_create(struct split_port *port, const struct transport_ops *ops, enum split_qp_state state)
{
	bool is_surplus = !port_has_room(port, state);
	struct split_qp *qp;

	assert(ops != NULL && (!port->is_closing || state == SPLIT_QP_CONNECTING));
	assert(state == SPLIT_QP_CONNECTING || state == SPLIT_QP_ACCEPTING);
	/* Not for one of ours: whoever makes it may be a guest's handler. */
	if (is_surplus && state == SPLIT_QP_ACCEPTING && guest_make_room(port))
		is_surplus = !port_has_room(port, state);
	if (is_surplus &&
	    (state != SPLIT_QP_ACCEPTING || port->surplus_count >= SPLIT_SURPLUS_MAX)) {
		errno = ENOBUFS;
		return NULL;
	}
	qp = split_calloc(1, sizeof(*qp));
	if (qp == NULL)
		return NULL;
	qp->magic = SPLIT_QP_MAGIC;
	qp->is_surplus = is_surplus;
	qp->is_acceptor = state == SPLIT_QP_ACCEPTING;
	qp->port = port;
	qp->ops = ops;
	qp_lists_init(qp);
	sm_init(&qp->sm, "qp", qp_table, (uint32_t)state, port->qp_id_next++);
	loop_timer_init(&qp->timer, qp_on_timer, qp);
	loop_task_init(&qp->close_task, qp_on_close_task, qp);
	loop_task_init(&qp->ready_task, qp_on_ready_task, qp);
	list_push_back(&port->qps, &qp->link);
	*qp_counter(qp) += 1;
	port->accepted_count += qp->is_acceptor && !is_surplus;
	guest_begin(qp);
	return qp;
}

void
qp_free(struct split_qp *qp)
{
	struct split_port *port = qp->port;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(qp->transport == NULL);
	loop_timer_stop(port->loop, &qp->timer);
	loop_task_cancel(port->loop, &qp->close_task);
	loop_task_cancel(port->loop, &qp->ready_task);
	list_remove(&qp->link);
	guest_end(qp);
	if (!qp->is_uncounted)
		qp_uncount(qp);
	one_sided_fini(qp);
	auth_end(qp);
	sealed_end(qp);
	connect_name_end(qp);
	qp->magic = 0;
	split_free(qp);
}

static void
qp_tell_awaiter(struct split_qp *qp, int rc)
{
	struct split_port *port = qp->port;

	assert(rc <= 0);
	if (port->awaited_qp != qp)
		return;
	port->awaited_qp = NULL;
	port->awaited_rc = rc;
}

void
qp_become_ready(struct split_qp *qp)
{
	assert(!qp->is_surplus);
	assert(!qp->is_offered);
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	sm_move(&qp->sm, SPLIT_QP_READY);
	auth_end(qp); /* each flight was answered: it is out */
	loop_timer_stop(qp->port->loop, &qp->timer);
	metric_add(&qp->port->counters.qps_opened, 1);
	qp->is_dormant = qp->credits == 0;
	credit_on_ready(qp);
	qp_tell_awaiter(qp, 0);
}

/* An acceptor's on_ready: split_qp_accept may be in the stack of the handler's owner. */
static void
qp_on_ready_task(struct loop_task *task, void *arg)
{
	struct split_qp *qp = arg;

	assert(task == &qp->ready_task);
	(void)task;
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (!qp_is(qp, SPLIT_QP_READY) || qp->handlers == NULL || qp->handlers->on_ready == NULL)
		return;
	port_call_begin(qp->port);
	qp->handlers->on_ready(qp, qp->hello_in, qp->hello_in_bytes, qp->arg);
	port_call_end(qp->port);
}

static void
qp_on_timer(struct loop_timer *timer, void *arg)
{
	struct split_qp *qp = arg;

	assert(timer == &qp->timer);
	(void)timer;
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (qp_is(qp, SPLIT_QP_CONNECTING))
		connect_name_on_timeout(qp);
	else if (qp_is(qp, SPLIT_QP_ACCEPTING))
		qp_fail(qp, -ETIMEDOUT,
		    qp->is_offered ? "not accepted in time" : "no hello in time");
}

/* CLOSING to CLOSED: every completion is called, and every promise ends. */
static void
qp_flush(struct split_qp *qp)
{
	int rc = qp->close_rc == 0 ? -ECANCELED : -ECONNRESET;

	assert(qp_is(qp, SPLIT_QP_CLOSING));
	loop_timer_stop(qp->port->loop, &qp->timer);
	loop_task_cancel(qp->port->loop, &qp->ready_task);
	connect_name_end(qp);
	auth_wait_end(qp);
	if (qp->transport != NULL)
		qp->ops->close(qp);
	list_remove(&qp->send_link);
	receive_flush(qp);
	send_flush(qp, rc);
	if (port_is_halted(qp->port)) {
		loop_defer(qp->port->loop, &qp->close_task);
		return;
	}
	one_sided_flush(qp, rc);
	credit_on_closed(qp);
	sm_move(&qp->sm, SPLIT_QP_CLOSED);
	metric_add(&qp->port->counters.qps_closed, 1);
	qp_tell_awaiter(qp, qp->close_rc == 0 ? -ECANCELED : qp->close_rc);
}

static bool
qp_is_parked(const struct split_qp *qp)
{
	return qp->is_offered || (qp->handlers == NULL && !qp->is_abandoned);
}

/* Whether nobody but us touches our buffers any more. */
static bool
qp_is_quiet(struct split_qp *qp)
{
	if (qp->transport == NULL || qp->ops->quiesce == NULL || qp->port->is_closing)
		return true;
	return qp->ops->quiesce(qp);
}

static void
qp_on_close_task(struct loop_task *task, void *arg)
{
	struct split_qp *qp = arg;
	struct split_port *port = qp->port;

	assert(task == &qp->close_task);
	(void)task;
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (qp_is(qp, SPLIT_QP_CLOSING) && !qp_is_quiet(qp))
		return;
	if (qp_is(qp, SPLIT_QP_CLOSING) && connect_name_goes_on(qp))
		return;
	if (qp_is(qp, SPLIT_QP_CLOSING))
		qp_flush(qp);
	if (qp_is(qp, SPLIT_QP_CLOSING) || qp_is_parked(qp))
		return;
	if (qp->handlers != NULL && qp->handlers->on_closed != NULL) {
		event_run_handlers(port); /* its events' too: on_closed is the last call */
		port_call_begin(port);
		qp->handlers->on_closed(qp, qp->close_rc, qp->reason, qp->arg);
		port_call_end(port);
	}
	qp_free(qp);
}

void
qp_finish_now(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	qp_fail(qp, 0, "the port was closed");
	qp->is_offered = false;
	qp->is_abandoned = true;
	loop_task_cancel(qp->port->loop, &qp->close_task);
	qp_on_close_task(&qp->close_task, qp);
}
