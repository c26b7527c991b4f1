/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credit.c -- who may use which receive
 *
 * Each receive of a port's pool is in one of five hands: free; *granted* to a peer for a request;
 * *reserved* for the reply to a request of ours; held by a handler, with a request or with a reply.
 * Always
 *
 *	granted + reserved + held requests + held replies <= pool
 *
 * so whatever arrives finds a receive. A quarter of the pool is kept from each side (requests in, and
 * replies in), so neither can lock the other out: a gateway full of its clients' writes can still
 * send them on.
 *
 * As the receiver of requests a port grants credits, and recalls them: credit_grant.c. A peer that is silent for
 * long holds none: credit_idle.c. The sum above is credit_pool.c's.
 *
 * As the sender. A request that finds no credit, or no receive to set aside for its reply, waits in
 * its queue pair. It says WANT when no credit comes within CREDIT_WANT_DELAY_NS: mostly one does, with
 * the replies. A queue pair whose peer believes it idle (no credits in its hello, or all of them
 * returned) is dormant, and says WANT at once.
 */
#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "credit.h"
#include "credit_grant.h"
#include "credit_idle.h"
#include "credit_pool.h"
#include "guest.h"
#include "port.h"
#include "qp.h"
#include "send_post.h"

#define CREDIT_WANT_DELAY_NS NUM_MS(1)
#define CREDIT_COUNT_MAX (2u * UINT16_MAX)
#define CREDIT_FLAGS_KNOWN (WIRE_CREDIT_WANT | WIRE_CREDIT_RECALL | WIRE_CREDIT_RETURN)

static void credit_on_want_timer(struct loop_timer *timer, void *arg);

void
credit_port_init(struct split_port *port)
{
	struct port_credits *credits = &port->credits;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	list_init(&credits->reserve_wait);
	list_init(&credits->starving);
	credit_grant_port_init(port);
	loop_timer_init(&credits->want_timer, credit_on_want_timer, port);
}

void
credit_port_fini(struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	credit_grant_port_fini(port);
	loop_timer_stop(port->loop, &port->credits.want_timer);
}

/* Sending. */

static bool
credit_take_now(struct split_qp *qp)
{
	struct split_port *port = qp->port;

	if (qp->credits == 0 || (qp->is_pooled && credit_pool_reply_room(port) == 0))
		return false;
	qp->credits--;
	qp->replies_expected++;
	if (qp->is_pooled)
		port->credits.reserved_count++;
	return true;
}

bool
credit_take(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	/* Other requests were here first. */
	if (qp->is_pooled && !list_is_empty(&qp->port->credits.reserve_wait))
		return false;
	return credit_take_now(qp);
}

static void
reply_unreserve(struct split_qp *qp)
{
	assert(qp->replies_expected > 0);
	assert(!qp->is_pooled || qp->port->credits.reserved_count > 0);
	qp->replies_expected--;
	if (qp->is_pooled)
		qp->port->credits.reserved_count--;
}

static void
credit_ask(struct split_qp *qp)
{
	assert(!qp->is_asked);
	qp->is_asked = true;
	list_remove(&qp->starve_link);
	send_post_credit(qp, WIRE_CREDIT_WANT);
}

static void
credit_on_want_timer(struct loop_timer *timer, void *arg)
{
	struct split_port *port = arg;
	struct loop_link *link;

	assert(timer == &port->credits.want_timer);
	(void)timer;
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	while ((link = list_first(&port->credits.starving)) != NULL)
		credit_ask(LIST_ENTRY(link, struct split_qp, starve_link));
}

/* A queue pair queues where the oldest of its waiting requests has to wait. */
static void
credit_queue_waiting(struct split_qp *qp)
{
	struct port_credits *credits = &qp->port->credits;

	if (list_is_empty(&qp->credit_wait))
		return;
	if (qp->credits > 0) {
		if (list_contains(&qp->reserve_link))
			return;
		list_push_back(&credits->reserve_wait, &qp->reserve_link);
		credit_mark_dirty(qp->port);
	} else if (qp->is_asked || list_contains(&qp->starve_link)) {
		return;
	} else if (qp->is_dormant) {
		credit_ask(qp);
	} else {
		list_push_back(&credits->starving, &qp->starve_link);
		if (!credits->want_timer.is_active)
			loop_timer_start(qp->port->loop, &credits->want_timer,
			    CREDIT_WANT_DELAY_NS);
	}
}

static void
credit_drain_waiting(struct split_qp *qp)
{
	while (!list_is_empty(&qp->credit_wait) && credit_take(qp))
		send_make_sendable(qp);
	credit_queue_waiting(qp);
}

void
credit_untake(struct split_qp *qp)
{
	assert(qp_is(qp, SPLIT_QP_READY));
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	qp->credits++;
	reply_unreserve(qp);
	credit_mark_dirty(qp->port);
	credit_drain_waiting(qp);
}

void
credit_wait_begin(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(!list_is_empty(&qp->credit_wait));
	credit_queue_waiting(qp);
}

/* Serves a request of each queue pair in turn. */
static void
reserve_serve(struct split_port *port)
{
	struct port_credits *credits = &port->credits;
	struct loop_link *link;

	while (credit_pool_reply_room(port) > 0 &&
	    (link = list_pop_front(&credits->reserve_wait)) != NULL) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, reserve_link);

		if (list_is_empty(&qp->credit_wait) || !credit_take_now(qp))
			continue;
		send_make_sendable(qp);
		credit_queue_waiting(qp);
	}
}

void
credit_turn(struct split_port *port)
{
	struct port_credits *credits = &port->credits;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	if (credits->is_dirty) {
		credits->is_dirty = false;
		reserve_serve(port);
		credit_grant_serve(port);
		if (credit_is_short(port))
			credit_recall_soon(port);
	}
	credit_announce(port);
}

/* Arrivals. */

int
credit_on_header(struct split_qp *qp, const struct wire_header *header)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (header->credits == 0)
		return 0;
	qp->credits += header->credits;
	if (qp->credits > CREDIT_COUNT_MAX)
		return -EPROTO;
	qp->is_dormant = false;
	qp->is_asked = false;
	list_remove(&qp->starve_link);
	credit_drain_waiting(qp);
	return 0;
}

static void
control_on_recall(struct split_qp *qp)
{
	assert(qp_is(qp, SPLIT_QP_READY));
	qp->return_count += qp->credits;
	qp->credits = 0;
	qp->is_dormant = true;
	qp->is_asked = false;
	list_remove(&qp->reserve_link);
	list_remove(&qp->starve_link);
	send_post_credit(qp, WIRE_CREDIT_RETURN);
	credit_queue_waiting(qp);
}

static int
control_check(const struct wire_header *header, const char **ret_field)
{
	*ret_field = NULL;
	if (header->payload_bytes != 0)
		*ret_field = "payload_bytes";
	else if ((header->flags & ~CREDIT_FLAGS_KNOWN) != 0)
		*ret_field = "flags";
	else if ((header->flags & WIRE_CREDIT_RETURN) == 0 && header->length_bytes != 0)
		*ret_field = "length_bytes";
	return *ret_field == NULL ? 0 : -EPROTO;
}

int
credit_on_control(struct split_qp *qp, const struct wire_header *header, const char **ret_field)
{
	int rc = control_check(header, ret_field);

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(header->opcode == WIRE_CREDIT);
	if (rc != 0)
		return rc;
	if (credit_on_header(qp, header) != 0) {
		*ret_field = "credits";
		return -EPROTO;
	}
	if ((header->flags & WIRE_CREDIT_RETURN) != 0 &&
	    credit_on_return(qp, header->length_bytes) != 0) {
		*ret_field = "length_bytes";
		return -EPROTO;
	}
	if ((header->flags & WIRE_CREDIT_WANT) != 0)
		credit_on_want(qp);
	if ((header->flags & WIRE_CREDIT_RECALL) != 0)
		control_on_recall(qp);
	return 0;
}

static int
arrival_of_reply(struct split_qp *qp, bool is_to_pool)
{
	if (qp->replies_expected == 0)
		return -EPROTO;
	reply_unreserve(qp);
	if (is_to_pool)
		qp->port->credits.held_replies_count++;
	else
		credit_mark_dirty(qp->port);
	return 0;
}

static int
arrival_of_request(struct split_qp *qp, bool is_to_pool)
{
	struct port_credits *credits = &qp->port->credits;

	assert(qp->unannounced <= qp->granted);
	if (qp->granted == qp->unannounced)
		return -EPROTO;
	assert(!qp->is_pooled || credits->granted_count > 0);
	qp->granted--;
	guest_on_heard(qp);
	qp->is_heard = true;
	qp->replies_owed++;
	if (qp->is_pooled)
		credits->granted_count--;
	if (is_to_pool)
		credits->held_requests_count++;
	else
		credit_mark_dirty(qp->port);
	return 0;
}

int
credit_on_arrival(struct split_qp *qp, bool is_reply, bool is_to_pool)
{
	assert(!is_to_pool || qp->is_pooled);
	return is_reply ? arrival_of_reply(qp, is_to_pool) : arrival_of_request(qp, is_to_pool);
}

void
credit_on_released(struct split_port *port, bool is_reply)
{
	uint32_t *held = is_reply ? &port->credits.held_replies_count
				  : &port->credits.held_requests_count;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	assert(*held > 0);
	*held -= 1;
	credit_mark_dirty(port);
}

void
credit_on_closed(struct split_qp *qp)
{
	struct port_credits *credits = &qp->port->credits;

	assert(!qp_is_open(qp));
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	list_remove(&qp->reserve_link);
	list_remove(&qp->starve_link);
	list_remove(&qp->announce_link);
	credit_wait_leave(qp);
	if (qp->is_pooled) {
		assert(credits->granted_count >= qp->granted);
		assert(credits->reserved_count >= qp->replies_expected);
		credits->granted_count -= qp->granted;
		credits->reserved_count -= qp->replies_expected;
	}
	qp->granted = qp->unannounced = qp->replies_expected = 0;
	credit_idle_leave(qp);
	if (qp->is_granting)
		credits->granting_qp_count--;
	qp->is_granting = false;
	credit_mark_dirty(qp->port);
}

/* Departures. */

void
credit_stamp_control(struct split_qp *qp, struct wire_header *header)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	*header = (struct wire_header){
		.opcode = WIRE_CREDIT,
		.flags = (uint16_t)qp->control_flags,
		.length_bytes = qp->return_count,
	};
	qp->control_flags = 0;
	qp->return_count = 0;
	metric_add(&qp->port->counters.credit_messages_out, 1);
}
