/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credit_grant.c -- credits for peers that send requests: granted, announced, recalled
 *
 * A queue pair whose peer sends requests is granted up to a fair share,
 * clamp(pool / queue pairs awake, 1, qp_credits_max). As requests arrive the share is filled up again, and
 * told with the next message, or by a WIRE_CREDIT message when the peer has less than half left.
 * Where the pool has nothing to give, the queue pair waits in one of four lists, and is served when receives come back:
 *
 *	          granted and at work:      less than half of its share    more
 *	a peer that said WANT, has none     1                              3
 *	others                              2                              4
 *
 * Who has less than half of its share, what it is at work at included, is *lean*. Who is answered soon has little under
 * way; in turn with those who have much it would wait for a receive as long as they do for their answers, whatever its
 * limits and minimums say (shares.c of the gateway). Those who have much say WANT as well, as soon as answers take longer than
 * CREDIT_WANT_DELAY_NS: they go behind who is lean, and are lean themselves when half of theirs is answered. Where there are
 * more peers than receives, somebody is always lean, and what a peer is at work at may last long: so after
 * CREDIT_OVERTAKEN_MAX others the first of 3 has its turn. A WANT, of 1 or 3, is worth recalling credits that lie idle with
 * other peers: they return what they do not use.
 *
 * A peer that is silent for long is not counted, and holds none: see credit_idle.c.
 *
 * A peer that stands still returns nothing, however many it holds: a process that was stopped, a machine that is paused. When
 * others have none and there is nobody left to ask, the one that has owed for longest is closed, after CREDIT_DEBT_NS; awake
 * again, it connects again. Guests have less time (guest.c).
 *
 * A queue pair without handlers grants a credit for each receive posted on it, and reserves none.
 */
#include "credit_grant.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "credit.h"
#include "credit_idle.h"
#include "credit_pool.h"
#include "guest.h"
#include "port.h"
#include "qp.h"
#include "send_post.h"

#define CREDIT_RECALL_DELAY_NS NUM_MS(1)
/* For what is recalled to come, before others are asked. */
#define CREDIT_RETURN_DELAY_NS NUM_MS(100)
#define CREDIT_DEBT_NS NUM_S(5)
#define CREDIT_OVERTAKEN_MAX 8u

static void credit_on_recall_timer(struct loop_timer *timer, void *arg);

void
credit_grant_port_init(struct split_port *port)
{
	struct port_credits *credits = &port->credits;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	for (int kind = 0; kind < CREDIT_WAIT_COUNT; kind++)
		list_init(&credits->grant_wait[kind]);
	list_init(&credits->announce_due);
	loop_timer_init(&credits->recall_timer, credit_on_recall_timer, port);
	credit_idle_port_init(port);
}

void
credit_grant_port_fini(struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	loop_timer_stop(port->loop, &port->credits.recall_timer);
	credit_idle_port_fini(port);
}

static uint32_t
share_among(const struct split_port *port, uint32_t qp_count)
{
	uint64_t share = credit_pool_request_cap(port) / num_max(qp_count, 1);

	assert(port->options.qp_credits_max > 0);
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

	assert(qp->unannounced <= qp->granted);
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
	assert(!qp->is_pooled || count <= credit_pool_request_room(qp->port));
	assert(!qp->is_pooled || credit_idle_is_awake(qp));
	qp->granted += count;
	qp->unannounced += count;
	if (qp->is_pooled)
		qp->port->credits.granted_count += count;
}

/* How many more it may have before those who are not lean. */
static uint32_t
grant_lean_room(const struct split_qp *qp)
{
	uint64_t half = (grant_share(qp) + 1) / 2, used = (uint64_t)qp->granted + qp->replies_owed;

	return used < half ? (uint32_t)(half - used) : 0;
}

static enum credit_wait
grant_wait_kind(const struct split_qp *qp)
{
	bool is_wanted = qp->is_hungry && qp->granted == 0;

	if (grant_lean_room(qp) > 0)
		return is_wanted ? CREDIT_WAIT_LEAN_WANTED : CREDIT_WAIT_LEAN;
	return is_wanted ? CREDIT_WAIT_WANTED : CREDIT_WAIT_MORE;
}

void
credit_wait_leave(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (!list_contains(&qp->grant_link))
		return;
	list_remove(&qp->grant_link);
	assert(qp->port->credits.grant_wait_count > 0);
	qp->port->credits.grant_wait_count--;
}

static void
grant_wait_join(struct split_qp *qp)
{
	struct port_credits *credits = &qp->port->credits;
	enum credit_wait kind = grant_wait_kind(qp);

	assert(qp->is_pooled && qp->is_granting);
	if (list_contains(&qp->grant_link)) {
		/* Lean since it waits: its share has grown, or answers have left. */
		if (qp->grant_wait <= CREDIT_WAIT_LEAN || kind > CREDIT_WAIT_LEAN)
			return;
		credit_wait_leave(qp);
	}
	list_push_back(&credits->grant_wait[kind], &qp->grant_link);
	qp->grant_wait = kind;
	credits->grant_wait_count++;
	credit_mark_dirty(qp->port);
}

/* The next to be served. */
static struct split_qp *
grant_wait_first(struct port_credits *credits)
{
	struct loop_link *wanted = list_first(&credits->grant_wait[CREDIT_WAIT_WANTED]);
	struct loop_link *link = NULL;

	assert(credits->grant_wait_count > 0);
	if (wanted != NULL && credits->overtaken_count++ == CREDIT_OVERTAKEN_MAX)
		link = wanted;
	for (int kind = 0; link == NULL; kind++) {
		assert(kind < CREDIT_WAIT_COUNT);
		link = list_first(&credits->grant_wait[kind]);
	}
	if (link == wanted)
		credits->overtaken_count = 0;
	return LIST_ENTRY(link, struct split_qp, grant_link);
}

static bool
grant_is_low(const struct split_qp *qp)
{
	assert(qp->is_pooled);
	return (uint64_t)qp->granted * 2 < grant_share(qp);
}

/* Fill up to the fair share, unless others have waited for longer. */
static void
credit_grant_fill(struct split_qp *qp)
{
	struct split_port *port = qp->port;
	uint32_t share = grant_share(qp);

	assert(qp->is_pooled);
	if (qp->granted < share && port->credits.grant_wait_count == 0)
		grant_give(qp,
		    (uint32_t)num_min(share - qp->granted, credit_pool_request_room(port)));
	if (grant_is_low(qp))
		grant_wait_join(qp);
	grant_check_announce(qp);
}

static void
credit_grant_begin(struct split_qp *qp)
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

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(qp_is(qp, SPLIT_QP_READY));
	/* The side that connects sends requests; the other side asks if it ever wants to. */
	if (!qp->is_acceptor || !qp->is_pooled)
		return;
	credit_grant_begin(qp);
	if (port->credits.grant_wait_count > 0)
		return;
	count = (uint32_t)num_min(grant_share(qp), credit_pool_request_room(port));
	grant_give(qp, count);
}

void
credit_on_batch(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (!qp->is_heard)
		return;
	assert(qp_is(qp, SPLIT_QP_READY));
	assert(qp->is_granting);
	qp->is_heard = false;
	qp->is_recalled = false;
	credit_idle_on_heard(qp);
	credit_idle_on_batch(qp, share_of_awake(qp->port));
	credit_grant_fill(qp);
}

void
credit_on_answered(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(qp->replies_owed > 0);
	qp->replies_owed--;
	if (list_contains(&qp->grant_link))
		grant_wait_join(qp);
}

void
credit_on_posted(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (qp->is_pooled)
		return;
	if (qp->granted < qp->posted_count)
		grant_give(qp, qp->posted_count - qp->granted);
	grant_check_announce(qp);
}

/* Each in turn gets an equal part of what there is. */
void
credit_grant_serve(struct split_port *port)
{
	struct port_credits *credits = &port->credits;
	uint32_t waiting = credits->grant_wait_count;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	while (waiting-- > 0) {
		uint32_t room = credit_pool_request_room(port);
		struct split_qp *qp;
		uint32_t part;

		if (room == 0)
			return;
		qp = grant_wait_first(credits);
		part = (uint32_t)num_max(room / credits->grant_wait_count, 1);
		part = (uint32_t)num_max(part, num_min(room, grant_lean_room(qp)));
		credit_wait_leave(qp);
		if (qp->granted < grant_share(qp))
			grant_give(qp, (uint32_t)num_min(part, grant_share(qp) - qp->granted));
		if (grant_is_low(qp))
			grant_wait_join(qp);
		grant_check_announce(qp);
	}
}

void
credit_recall(struct split_qp *qp)
{
	assert(qp_is(qp, SPLIT_QP_READY));
	assert(!qp->is_recalled);
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	qp->is_recalled = true;
	qp->recalled_ns = loop_now_ns(qp->port->loop);
	send_post_credit(qp, WIRE_CREDIT_RECALL);
	if (guest_is(qp))
		guest_watch(qp->port);
}

static bool
recall_is_candidate(const struct split_qp *qp)
{
	/*
	 * Grants that the peer has not heard of may be what it waits for: leave them. Who has some and waits for more has not
	 * asked: it may have nothing left to send.
	 */
	return qp_is(qp, SPLIT_QP_READY) && qp->granted > qp->unannounced && !qp->is_recalled;
}

/* The peer that has owed what it was asked for longest, or NULL. */
static struct split_qp *
recall_debtor(struct split_port *port)
{
	struct split_qp *debtor = NULL;
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&port->credits.awake, link, next) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, awake_link);

		if (qp_is(qp, SPLIT_QP_READY) && qp->is_recalled &&
		    (debtor == NULL || qp->recalled_ns < debtor->recalled_ns))
			debtor = qp;
	}
	return debtor;
}

/* A peer that needs some has none, and all were asked. One is closed at a time: what it had may be enough. */
static void
recall_wait_for_debtor(struct split_port *port, uint64_t now_ns)
{
	struct split_qp *debtor = recall_debtor(port);
	uint64_t wait_ns = CREDIT_RETURN_DELAY_NS;

	if (debtor == NULL)
		return; /* they come back with what is being worked at */
	if (now_ns - debtor->recalled_ns < CREDIT_DEBT_NS)
		wait_ns = num_max(debtor->recalled_ns + CREDIT_DEBT_NS - now_ns, wait_ns);
	else
		qp_fail(debtor, -ETIMEDOUT,
		    "the peer stands still: it has not given back receives that others wait for");
	/* Peers that come meanwhile may have some to give. */
	port->credits.is_recall_out = true;
	loop_timer_start(port->loop, &port->credits.recall_timer, wait_ns);
}

/* How many queue pairs lack a receive for what is there to be sent. */
static uint32_t
recall_wanted_count(const struct port_credits *credits)
{
	const struct loop_link *const lists[] = { &credits->reserve_wait,
		&credits->grant_wait[CREDIT_WAIT_LEAN_WANTED],
		&credits->grant_wait[CREDIT_WAIT_WANTED] };
	uint32_t count = 0;

	for (size_t i = 0; i < NUM_COUNT(lists); i++) {
		for (const struct loop_link *link = lists[i]->next; link != lists[i];
		     link = link->next)
			count++;
	}
	return count;
}

static void
credit_on_recall_timer(struct loop_timer *timer, void *arg)
{
	struct split_port *port = arg;
	struct port_credits *credits = &port->credits;
	uint64_t now_ns = loop_now_ns(port->loop);
	uint32_t wanted = recall_wanted_count(credits), recalled = 0;
	struct loop_link *link, *next;
	bool must_wait = false;

	assert(timer == &credits->recall_timer);
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
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
	else if (wanted > 0)
		recall_wait_for_debtor(port, now_ns);
}

/* Soon, also when the timer waits for what was recalled. */
void
credit_recall_soon(struct split_port *port)
{
	struct port_credits *credits = &port->credits;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	if (credits->recall_timer.is_active && !credits->is_recall_out)
		return;
	credits->is_recall_out = false;
	loop_timer_start(port->loop, &credits->recall_timer, CREDIT_RECALL_DELAY_NS);
}

int
credit_on_return(struct split_qp *qp, uint32_t count)
{
	struct split_port *port = qp->port;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(qp->unannounced <= qp->granted);
	if (count > qp->granted - qp->unannounced)
		return -EPROTO;
	assert(!qp->is_pooled || port->credits.granted_count >= count);
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

void
credit_on_want(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(qp_is(qp, SPLIT_QP_READY));
	qp->is_hungry = true;
	credit_grant_begin(qp);
	credit_wait_leave(qp); /* to join anew, ahead of those that only could use more */
	if (qp->is_pooled && qp->granted == 0)
		credit_grant_fill(qp);
	grant_check_announce(qp);
}

void
credit_on_kept(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(!guest_is(qp));
	qp->grant_limit = qp->port->options.qp_credits_max;
}

void
credit_announce(struct split_port *port)
{
	struct loop_link *link;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	while ((link = list_pop_front(&port->credits.announce_due)) != NULL) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, announce_link);

		/* A message that left in this turn may have told it. */
		if (grant_is_announce_due(qp))
			send_post_credit(qp, 0);
	}
}

uint16_t
credit_stamp(struct split_qp *qp)
{
	uint16_t count = (uint16_t)num_min(qp->unannounced, UINT16_MAX);

	assert(qp->unannounced <= qp->granted);
	if (count > 0) {
		qp->unannounced -= count;
		qp->is_hungry = false;
	}
	return count;
}
