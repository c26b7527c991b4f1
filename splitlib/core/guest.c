/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest.c -- the connections that give way when a port runs out of places or receives
 *
 * A *guest* is a connection that came in and that its owner has not kept (split_qp_keep): so far it has
 * shown no more than that it can say hello. Anybody can open as many as there are places, and each is lent
 * receives as others are. So, at a port whose guests give way (options.guests_give_way):
 *
 *	somebody comes, no place, or no      the guest that has been silent longest, of those with nothing
 *	descriptor, is left                  under way, is closed at once: who comes has its place
 *	receives are short                   a guest that was asked for what it was lent (RECALL), or sent half
 *	                                     a request, is closed when it owes that for GUEST_DEBT_NS
 *
 * A peer that means well loses nothing by it: it returns what it is asked for, and one that was idle connects
 * again when it has something to ask. A connection that is kept stays, as silent as it may be. Connections that
 * have not said hello yet are guests, too.
 *
 * A *lodger* (split_qp_lodge) is kept as far as receives go. Its place it gives where no guest has one to give: the
 * lodger that was used least recently, silent ones before those that wait for an answer. So whoever floods a port
 * with hellos costs its lodgers one place, which the flood's guests take from each other.
 *
 * A place is free as soon as the transport has let go of the connection. A device may still be at work on
 * its queue pair (quiesce), or an answer is owed to it: then the newcomer is refused this time, and finds a place when
 * it comes again. One lodger leaves so at a time.
 */
#include <inttypes.h>

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "credit_grant.h"
#include "credit_pool.h"
#include "guest.h"
#include "port.h"
#include "qp.h"
#include "transport.h"

#define GUEST_DEBT_NS NUM_S(1)
#define GUEST_WHY_PLACE "its place is needed"

static void guest_on_timer(struct loop_timer *timer, void *arg);

void
guest_port_init(struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	loop_timer_init(&port->guest_timer, guest_on_timer, port);
}

void
guest_port_fini(struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	loop_timer_stop(port->loop, &port->guest_timer);
}

void
guest_begin(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(!guest_is(qp));
	if (!qp->port->options.guests_give_way || !qp->is_acceptor || qp->is_surplus)
		return;
	qp->heard_of_ns = loop_now_ns(qp->port->loop);
	list_push_back(&qp->port->guests, &qp->guest_link);
}

void
guest_end(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	list_remove(&qp->guest_link);
	if (qp->port->lodger_leaving == qp)
		qp->port->lodger_leaving = NULL;
}

bool
guest_is(const struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	return !qp->is_lodger && list_contains(&qp->guest_link);
}

void
guest_on_heard(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (!list_contains(&qp->guest_link))
		return;
	qp->heard_of_ns = loop_now_ns(qp->port->loop);
	list_remove(&qp->guest_link);
	list_push_back(qp->is_lodger ? &qp->port->lodgers : &qp->port->guests, &qp->guest_link);
}

void
split_qp_keep(struct split_qp *qp)
{
	bool was_guest = guest_is(qp);

	list_remove(&qp->guest_link);
	if (was_guest)
		credit_on_kept(qp);
}

void
split_qp_lodge(struct split_qp *qp)
{
	if (!guest_is(qp))
		return;
	list_remove(&qp->guest_link);
	qp->is_lodger = true;
	list_push_back(&qp->port->lodgers, &qp->guest_link);
	credit_on_kept(qp);
}

/* Is the owner deciding about @qp, or at work for it, or has the peer yet to take an answer? */
static bool
guest_is_busy(const struct split_qp *qp)
{
	assert(list_contains(&qp->guest_link));
	return qp->is_offered || qp->is_rejecting || qp->batch_count > 0 || qp->replies_owed > 0 ||
	    !list_is_empty(&qp->messages) || !list_is_empty(&qp->sendable);
}

static void
guest_cut(struct split_qp *qp, const char *why)
{
	struct split_port *port = qp->port;
	uint64_t silent_ns = loop_now_ns(port->loop) - qp->heard_of_ns;

	assert(list_contains(&qp->guest_link) && qp->is_acceptor && why != NULL);
	list_remove(&qp->guest_link);
	metric_add(&port->counters.qps_cut, 1);
	qp_fail(qp, 0, "%s", why);
	if (port->options.on_cut == NULL)
		return;
	port_call_begin(port);
	port->options.on_cut(qp->peer, silent_ns, why, port->options.on_cut_arg);
	port_call_end(port);
}

/* ---- places ---- */

/* The first of @guests that may be closed; NULL: there is none. */
static struct split_qp *
guest_to_go(const struct loop_link *guests, bool takes_busy)
{
	const struct loop_link *link;

	for (link = guests->next; link != guests; link = link->next) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, guest_link);

		if (qp_is_open(qp) && qp->transport != NULL && (takes_busy || !guest_is_busy(qp)))
			return qp;
	}
	return NULL;
}

/* Closes @qp at once. False: its place is free later. */
static bool
guest_give_place(struct split_qp *qp)
{
	guest_cut(qp, GUEST_WHY_PLACE);
	if (qp->ops->quiesce != NULL)
		return false;
	qp->ops->close(qp);
	qp_uncount(qp);
	return true;
}

static bool
lodger_make_room(struct split_port *port)
{
	struct split_qp *qp;

	if (port->lodger_leaving != NULL)
		return false;
	qp = guest_to_go(&port->lodgers, false);
	if (qp != NULL && guest_give_place(qp))
		return true;
	if (qp == NULL) {
		qp = guest_to_go(&port->lodgers, true);
		if (qp != NULL)
			guest_cut(qp, GUEST_WHY_PLACE);
	}
	port->lodger_leaving = qp;
	return false;
}

bool
guest_make_room(struct split_port *port)
{
	struct split_qp *qp;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	qp = guest_to_go(&port->guests, false);
	if (qp == NULL)
		return lodger_make_room(port);
	return guest_give_place(qp);
}

/* ---- receives ---- */

/* When @qp began to owe a receive that it should have given back; 0: it owes none. */
static uint64_t
guest_debt_since_ns(const struct split_qp *qp)
{
	assert(guest_is(qp));
	if (qp->fill.kind == RECV_POOL)
		return qp->heard_of_ns;
	return qp->is_recalled ? qp->recalled_ns : 0;
}

void
guest_watch(struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	if (!list_is_empty(&port->guests) && !port->guest_timer.is_active)
		loop_timer_start(port->loop, &port->guest_timer, GUEST_DEBT_NS);
}

static void
guest_on_timer(struct loop_timer *timer, void *arg)
{
	struct split_port *port = arg;
	uint64_t now_ns = loop_now_ns(port->loop), again_ns = 0;
	struct loop_link *link, *next;

	assert(timer == &port->guest_timer);
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	LIST_FOREACH_SAFE(&port->guests, link, next) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, guest_link);
		uint64_t since_ns = guest_debt_since_ns(qp);

		if (since_ns == 0 || !qp_is_open(qp))
			continue;
		if (now_ns - since_ns >= GUEST_DEBT_NS)
			guest_cut(qp, "the receives that it was lent are needed");
		else if (again_ns == 0 || since_ns + GUEST_DEBT_NS - now_ns < again_ns)
			again_ns = since_ns + GUEST_DEBT_NS - now_ns;
	}
	/* Half a request may begin while others wait for receives. */
	if (again_ns == 0 && credit_is_short(port))
		again_ns = GUEST_DEBT_NS;
	if (again_ns != 0)
		loop_timer_start(port->loop, timer, again_ns);
}
