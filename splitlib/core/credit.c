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
 * As the receiver of requests. A queue pair whose peer sends requests is granted up to a fair share,
 * clamp(pool / queue pairs awake, 1, qp_credits_max). As requests arrive the share is filled up again, and
 * told with the next message, or by a WIRE_CREDIT message when the peer has less than half left.
 * Where the pool has nothing to give, the queue pair queues in grant_wait, and is served when receives
 * come back. A peer that has requests but no credit says WANT: it queues in grant_wanted, goes first,
 * and is worth recalling credits that lie idle with other peers: they return what they do not use.
 *
 * Who is silent for long is not counted, and holds none: see credit_idle.c.
 *
 * As the sender. A request that finds no credit, or no receive to set aside for its reply, waits in
 * its queue pair. It says WANT when no credit comes within CREDIT_WANT_DELAY_NS: mostly one does, with
 * the replies. A queue pair whose peer believes it idle (no credits in its hello, or all of them
 * returned) is dormant, and says WANT at once.
 *
 * A queue pair without handlers grants a credit for each receive posted on it, and reserves none.
 */
#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "credit.h"
#include "credit_idle.h"
#include "guest.h"
#include "port.h"
#include "qp.h"
#include "send_assemble.h"

#define CREDIT_SHARE_KEPT 4u /* one over this part of the pool is kept from each side */
#define CREDIT_RECALL_DELAY_NS NUM_MS(1)
#define CREDIT_RETURN_DELAY_NS                                                                     \
	NUM_MS(100) /* for what is recalled to come, before others are asked */
#define CREDIT_WANT_DELAY_NS NUM_MS(1)
#define CREDIT_COUNT_MAX (2u * UINT16_MAX)
#define CREDIT_FLAGS_KNOWN (WIRE_CREDIT_WANT | WIRE_CREDIT_RECALL | WIRE_CREDIT_RETURN)

static void credit_on_recall_timer(struct loop_timer *timer, void *arg);
static void credit_on_want_timer(struct loop_timer *timer, void *arg);

void
credit_port_init(struct split_port *port)
{
	struct port_credits *credits = &port->credits;

	list_init(&credits->reserve_wait);
	list_init(&credits->grant_wanted);
	list_init(&credits->grant_wait);
	list_init(&credits->starving);
	list_init(&credits->announce_due);
	loop_timer_init(&credits->recall_timer, credit_on_recall_timer, port);
	loop_timer_init(&credits->want_timer, credit_on_want_timer, port);
	credit_idle_port_init(port);
}

void
credit_port_fini(struct split_port *port)
{
	loop_timer_stop(port->loop, &port->credits.recall_timer);
	loop_timer_stop(port->loop, &port->credits.want_timer);
	credit_idle_port_fini(port);
}

/* The pool's receives, and whom they are for. */

static uint32_t
saturating_sub(uint32_t a, uint32_t b)
{
	return a > b ? a - b : 0;
}

static uint32_t
pool_kept_count(const struct split_port *port)
{
	return (uint32_t)num_max(port->pool.count / CREDIT_SHARE_KEPT, 1);
}

static uint32_t
pool_unpromised_count(const struct split_port *port)
{
	const struct port_credits *credits = &port->credits;
	uint32_t taken = credits->granted_count + credits->reserved_count +
	    credits->held_requests_count + credits->held_replies_count;

	assert(taken <= port->pool.count);
	return port->pool.count - taken;
}

static uint32_t
request_cap(const struct split_port *port)
{
	return port->pool.count - pool_kept_count(port);
}

/* How many more credits may be granted. */
static uint32_t
request_room(const struct split_port *port)
{
	const struct port_credits *credits = &port->credits;
	uint32_t used = credits->granted_count + credits->held_requests_count;

	uint32_t room = saturating_sub(request_cap(port), used);

	return (uint32_t)num_min(pool_unpromised_count(port), room);
}

/* How many more replies may be set aside for. A port that nobody sends requests to keeps none back. */
static uint32_t
reply_room(const struct split_port *port)
{
	const struct port_credits *credits = &port->credits;
	uint32_t cap = credits->granting_qp_count > 0 ? request_cap(port) : port->pool.count;
	uint32_t used = credits->reserved_count + credits->held_replies_count;

	return (uint32_t)num_min(pool_unpromised_count(port), saturating_sub(cap, used));
}

void
credit_mark_dirty(struct split_port *port)
{
	struct port_credits *credits = &port->credits;

	if (credits->is_dirty)
		return;
	if (list_is_empty(&credits->reserve_wait) && credits->grant_wait_count == 0)
		return;
	credits->is_dirty = true;
	port_wake(port);
}

/* Granting. */

static uint32_t
share_among(const struct split_port *port, uint32_t qp_count)
{
	uint64_t share = request_cap(port) / num_max(qp_count, 1);

	return (uint32_t)num_min(num_max(share, 1), port->options.qp_credits_max);
}

bool
credit_share_is_full(const struct split_port *port, uint32_t qp_count)
{
	return share_among(port, qp_count) == share_among(port, 1);
}

static uint32_t
share_of_awake(const struct split_port *port)
{
	return share_among(port, port->credits.awake_count);
}

static uint32_t
grant_share(const struct split_qp *qp)
{
	if (!qp->is_pooled)
		return qp->posted_count;
	return (uint32_t)num_min(share_of_awake(qp->port), qp->grant_limit);
}

static bool
grant_is_announce_due(const struct split_qp *qp)
{
	uint64_t announced = qp->granted - qp->unannounced;

	if (qp->unannounced == 0 || !qp_is(qp, SPLIT_QP_READY))
		return false;
	return qp->is_hungry || announced == 0 || announced * 2 < grant_share(qp);
}

static void
grant_check_announce(struct split_qp *qp)
{
	struct split_port *port = qp->port;

	if (!grant_is_announce_due(qp) || list_contains(&qp->announce_link))
		return;
	list_push_back(&port->credits.announce_due, &qp->announce_link);
	port_wake(port);
}

static void
grant_give(struct split_qp *qp, uint32_t count)
{
	assert(!qp->is_pooled || credit_idle_is_awake(qp));
	qp->granted += count;
	qp->unannounced += count;
	if (qp->is_pooled)
		qp->port->credits.granted_count += count;
}

static void
grant_wait_join(struct split_qp *qp)
{
	struct port_credits *credits = &qp->port->credits;

	bool is_wanted = qp->is_hungry && qp->granted == 0;

	if (list_contains(&qp->grant_link))
		return;
	list_push_back(is_wanted ? &credits->grant_wanted : &credits->grant_wait, &qp->grant_link);
	credits->grant_wait_count++;
	credit_mark_dirty(qp->port);
}

void
credit_wait_leave(struct split_qp *qp)
{
	if (!list_contains(&qp->grant_link))
		return;
	list_remove(&qp->grant_link);
	qp->port->credits.grant_wait_count--;
}

static struct split_qp *
grant_wait_first(struct port_credits *credits)
{
	struct loop_link *link = list_first(&credits->grant_wanted);

	if (link == NULL)
		link = list_first(&credits->grant_wait);
	return LIST_ENTRY(link, struct split_qp, grant_link);
}

static bool
grant_is_low(const struct split_qp *qp)
{
	return (uint64_t)qp->granted * 2 < grant_share(qp);
}

/* Fill up to the fair share, unless others have waited for longer. */
static void
grant_fill(struct split_qp *qp)
{
	struct split_port *port = qp->port;
	uint32_t share = grant_share(qp);

	if (qp->granted < share && port->credits.grant_wait_count == 0)
		grant_give(qp, (uint32_t)num_min(share - qp->granted, request_room(port)));
	if (grant_is_low(qp))
		grant_wait_join(qp);
	grant_check_announce(qp);
}

static void
grant_begin(struct split_qp *qp)
{
	if (!qp->is_pooled)
		return;
	if (!qp->is_granting) {
		qp->is_granting = true;
		qp->grant_limit = guest_is(qp) ? CREDIT_WAKE_LIMIT
					       : qp->port->options.qp_credits_max;
		qp->port->credits.granting_qp_count++;
	}
	credit_idle_on_heard(qp);
}

void
credit_on_ready(struct split_qp *qp)
{
	struct split_port *port = qp->port;
	uint32_t count;

	/* The side that connects sends requests; the other side asks if it ever wants to. */
	if (!qp->is_acceptor || !qp->is_pooled)
		return;
	grant_begin(qp);
	if (port->credits.grant_wait_count > 0)
		return;
	count = (uint32_t)num_min(grant_share(qp), request_room(port));
	grant_give(qp, count);
}

void
credit_on_batch(struct split_qp *qp)
{
	if (!qp->is_heard)
		return;
	assert(qp->is_granting);
	qp->is_heard = false;
	qp->is_recalled = false;
	credit_idle_on_heard(qp);
	credit_idle_on_batch(qp, share_of_awake(qp->port));
	grant_fill(qp);
}

void
credit_on_posted(struct split_qp *qp)
{
	if (qp->is_pooled)
		return;
	if (qp->granted < qp->posted_count)
		grant_give(qp, qp->posted_count - qp->granted);
	grant_check_announce(qp);
}

/* Each in turn gets an equal part of what there is. */
static void
grant_serve(struct split_port *port)
{
	struct port_credits *credits = &port->credits;
	uint32_t waiting = credits->grant_wait_count;

	while (waiting-- > 0) {
		uint32_t room = request_room(port);
		struct split_qp *qp;
		uint32_t part;

		if (room == 0)
			return;
		qp = grant_wait_first(credits);
		part = (uint32_t)num_max(room / credits->grant_wait_count, 1);
		credit_wait_leave(qp);
		if (qp->granted < grant_share(qp))
			grant_give(qp, (uint32_t)num_min(part, grant_share(qp) - qp->granted));
		if (grant_is_low(qp))
			grant_wait_join(qp);
		grant_check_announce(qp);
	}
}

/* Recalling. */

void
credit_recall(struct split_qp *qp)
{
	qp->is_recalled = true;
	qp->recalled_ns = loop_now_ns(qp->port->loop);
	credit_post_control(qp, WIRE_CREDIT_RECALL);
	if (guest_is(qp))
		guest_watch(qp->port);
}

void
credit_post_control(struct split_qp *qp, uint32_t flags)
{
	qp->control_flags |= flags;
	send_post_control(qp, &qp->control);
}

static bool
recall_is_candidate(const struct split_qp *qp)
{
	/* Grants that the peer has not heard of may be what it waits for: leave them. */
	return qp_is(qp, SPLIT_QP_READY) && qp->granted > qp->unannounced && !qp->is_recalled &&
	    !list_contains(&qp->grant_link);
}

static void
credit_on_recall_timer(struct loop_timer *timer, void *arg)
{
	struct split_port *port = arg;
	struct port_credits *credits = &port->credits;
	uint64_t now_ns = loop_now_ns(port->loop);
	uint32_t wanted = 0, recalled = 0;
	struct loop_link *link, *next;
	bool must_wait = false;

	LIST_FOREACH_SAFE(&credits->reserve_wait, link, next) {
		wanted++;
	}
	LIST_FOREACH_SAFE(&credits->grant_wanted, link, next) {
		wanted++;
	}
	LIST_FOREACH_SAFE(&credits->awake, link, next) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, awake_link);

		if (recalled >= wanted)
			break;
		if (!recall_is_candidate(qp))
			continue;
		/* A peer that is at work will use its credits, and they come back that way. */
		if (now_ns - qp->heard_ns < CREDIT_RECALL_DELAY_NS) {
			must_wait = true;
			continue;
		}
		recalled += qp->granted - qp->unannounced;
		credit_recall(qp);
	}
	guest_watch(port);
	/* The peers that were asked may have stopped: then others are. */
	credits->is_recall_out = recalled > 0;
	if (recalled > 0)
		loop_timer_start(port->loop, timer, CREDIT_RETURN_DELAY_NS);
	else if (must_wait)
		loop_timer_start(port->loop, timer, CREDIT_RECALL_DELAY_NS);
}

/* Soon, also when the timer waits for what was recalled. */
static void
recall_soon(struct split_port *port)
{
	struct port_credits *credits = &port->credits;

	if (credits->recall_timer.is_active && !credits->is_recall_out)
		return;
	credits->is_recall_out = false;
	loop_timer_start(port->loop, &credits->recall_timer, CREDIT_RECALL_DELAY_NS);
}

bool
credit_is_short(struct split_port *port)
{
	struct port_credits *credits = &port->credits;

	return !list_is_empty(&credits->reserve_wait) || !list_is_empty(&credits->grant_wanted);
}

void
credit_on_kept(struct split_qp *qp)
{
	qp->grant_limit = qp->port->options.qp_credits_max;
}

/* Sending. */

static bool
credit_take_now(struct split_qp *qp)
{
	struct split_port *port = qp->port;

	if (qp->credits == 0 || (qp->is_pooled && reply_room(port) == 0))
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
	/* Other requests were here first. */
	if (qp->is_pooled && !list_is_empty(&qp->port->credits.reserve_wait))
		return false;
	return credit_take_now(qp);
}

static void
reply_unreserve(struct split_qp *qp)
{
	assert(qp->replies_expected > 0);
	qp->replies_expected--;
	if (qp->is_pooled)
		qp->port->credits.reserved_count--;
}

static void
credit_ask(struct split_qp *qp)
{
	qp->is_asked = true;
	list_remove(&qp->starve_link);
	credit_post_control(qp, WIRE_CREDIT_WANT);
}

static void
credit_on_want_timer(struct loop_timer *timer, void *arg)
{
	struct split_port *port = arg;
	struct loop_link *link;

	(void)timer;
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
	qp->credits++;
	reply_unreserve(qp);
	credit_mark_dirty(qp->port);
	credit_drain_waiting(qp);
}

void
credit_wait_begin(struct split_qp *qp)
{
	credit_queue_waiting(qp);
}

/* Serves a request of each queue pair in turn. */
static void
reserve_serve(struct split_port *port)
{
	struct port_credits *credits = &port->credits;
	struct loop_link *link;

	while (reply_room(port) > 0 && (link = list_pop_front(&credits->reserve_wait)) != NULL) {
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
	struct loop_link *link;

	if (credits->is_dirty) {
		credits->is_dirty = false;
		reserve_serve(port);
		grant_serve(port);
		if (credit_is_short(port))
			recall_soon(port);
	}
	while ((link = list_pop_front(&credits->announce_due)) != NULL) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, announce_link);

		/* A message that left in this turn may have told it. */
		if (grant_is_announce_due(qp))
			credit_post_control(qp, 0);
	}
}

/* Arrivals. */

int
credit_on_header(struct split_qp *qp, const struct wire_header *header)
{
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

static int
control_on_return(struct split_qp *qp, uint32_t count)
{
	struct split_port *port = qp->port;

	if (count > qp->granted - qp->unannounced)
		return -EPROTO;
	qp->granted -= count;
	qp->is_recalled = false;
	if (qp->is_pooled)
		port->credits.granted_count -= count;
	/* The peer waits for nothing; if it does, WANT is in the same message. */
	qp->is_hungry = false;
	credit_wait_leave(qp);
	credit_idle_on_return(qp);
	credit_mark_dirty(port);
	return 0;
}

static void
control_on_want(struct split_qp *qp)
{
	qp->is_hungry = true;
	grant_begin(qp);
	credit_wait_leave(qp); /* to join anew, ahead of those that only could use more */
	if (qp->is_pooled && qp->granted == 0)
		grant_fill(qp);
	grant_check_announce(qp);
}

static void
control_on_recall(struct split_qp *qp)
{
	qp->return_count += qp->credits;
	qp->credits = 0;
	qp->is_dormant = true;
	qp->is_asked = false;
	list_remove(&qp->reserve_link);
	list_remove(&qp->starve_link);
	credit_post_control(qp, WIRE_CREDIT_RETURN);
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

	if (rc != 0)
		return rc;
	if (credit_on_header(qp, header) != 0) {
		*ret_field = "credits";
		return -EPROTO;
	}
	if ((header->flags & WIRE_CREDIT_RETURN) != 0 &&
	    control_on_return(qp, header->length_bytes) != 0) {
		*ret_field = "length_bytes";
		return -EPROTO;
	}
	if ((header->flags & WIRE_CREDIT_WANT) != 0)
		control_on_want(qp);
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

	if (qp->granted == qp->unannounced)
		return -EPROTO;
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
	return is_reply ? arrival_of_reply(qp, is_to_pool) : arrival_of_request(qp, is_to_pool);
}

void
credit_on_released(struct split_port *port, bool is_reply)
{
	if (is_reply)
		port->credits.held_replies_count--;
	else
		port->credits.held_requests_count--;
	credit_mark_dirty(port);
}

void
credit_on_closed(struct split_qp *qp)
{
	struct port_credits *credits = &qp->port->credits;

	list_remove(&qp->reserve_link);
	list_remove(&qp->starve_link);
	list_remove(&qp->announce_link);
	credit_wait_leave(qp);
	if (qp->is_pooled) {
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

uint16_t
credit_stamp(struct split_qp *qp)
{
	uint16_t count = (uint16_t)num_min(qp->unannounced, UINT16_MAX);

	if (count > 0) {
		qp->unannounced -= count;
		qp->is_hungry = false;
	}
	return count;
}

void
credit_stamp_control(struct split_qp *qp, struct wire_header *header)
{
	*header = (struct wire_header){
		.opcode = WIRE_CREDIT,
		.flags = (uint16_t)qp->control_flags,
		.length_bytes = qp->return_count,
	};
	qp->control_flags = 0;
	qp->return_count = 0;
	metric_add(&qp->port->counters.credit_messages_out, 1);
}
