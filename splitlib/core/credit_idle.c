/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credit_idle.c -- peers that are silent hold no receives
 *
 * A port's receives are shared by the queue pairs that are awake. Others are put to sleep while that
 * helps: while each may have less than one alone could, and batches of requests keep coming that leave
 * their peer short, with little of its share. Then those silent for CREDIT_IDLE_NS give back what they
 * hold, the longest silent first, no more of them than it takes, and a few at a time. Where nobody is
 * short, as with a thousand clients that write now and then, nothing is taken, and nobody has to ask.
 *
 *	 connected, or WANT            silent: RECALL
 *	--------------------> AWAKE ------------------> RECALLED
 *	                      |   ^                     |     |
 *	 silent, holds nothing|   +---------------------+     | RETURN:
 *	                      |   |  a request that was on    | holds nothing
 *	                      |   |  its way, or WANT         |
 *	                      |   |                           |
 *	                      |   | WANT                      |
 *	                      +---ASLEEP <--------------------+
 *
 * All but ASLEEP are in credits.awake. A queue pair that sleeps holds nothing, nor is anything granted to it;
 * grants that were not announced yet are taken back without a word. Its peer knows that it has no credit, is
 * dormant, and says WANT as soon as it needs one. Messages that cross a RECALL are counted where they belong:
 * a request takes one of the credits that are then not returned, and a WANT is said again with the RETURN.
 *
 * A queue pair that wakes, or is a guest (guest.c), is granted CREDIT_WAKE_LIMIT, which is room enough for one
 * request after the other, and CREDIT_WAKE_GROWTH times as many each time that it is short: so there is something
 * to grant to those that wake, however many they are. The timer runs only while a peer is short: an idle port
 * has none.
 */
#include "credit_idle.h"

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "credit.h"
#include "credit_grant.h"
#include "credit_pool.h"
#include "port.h"
#include "qp.h"

#define CREDIT_IDLE_NS NUM_S(1)
#define CREDIT_IDLE_PAUSE_NS NUM_MS(5) /* at least, from one look to the next */
#define CREDIT_IDLE_RECALLS_MAX 32u    /* of one look: so many messages leave in a turn */
#define CREDIT_SHORT_LEFT_PART 4u /* less than one over this part of its share: a peer is short */
#define CREDIT_SHORT_BATCHES_PART 8u /* after one batch in so many: worth a look for who is idle */
#define CREDIT_SHORT_BATCHES_ENOUGH 64u /* and soon, not when CREDIT_IDLE_NS have passed */
#define CREDIT_WAKE_GROWTH 4u

static void credit_on_idle_timer(struct loop_timer *timer, void *arg);

void
credit_idle_port_init(struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	list_init(&port->credits.awake);
	loop_timer_init(&port->credits.idle_timer, credit_on_idle_timer, port);
}

void
credit_idle_port_fini(struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	loop_timer_stop(port->loop, &port->credits.idle_timer);
}

bool
credit_idle_is_awake(const struct split_qp *qp)
{
	return list_contains(&qp->awake_link);
}

void
credit_idle_on_heard(struct split_qp *qp)
{
	struct port_credits *credits = &qp->port->credits;

	qp->heard_ns = loop_now_ns(qp->port->loop);
	if (!credit_idle_is_awake(qp)) {
		assert(qp->granted == 0);
		credits->awake_count++;
	}
	list_remove(&qp->awake_link);
	list_push_back(&credits->awake, &qp->awake_link);
}

static void
idle_watch(struct split_port *port)
{
	struct port_credits *credits = &port->credits;

	if (credits->idle_timer.is_active || credit_share_is_full(port, credits->awake_count))
		return;
	credits->batch_count = credits->short_count = 0;
	loop_timer_start(port->loop, &credits->idle_timer, CREDIT_IDLE_NS);
}

/*
 * Whether a peer could use more than its share, just after requests were taken. It is not told when it
 * waits: that little is left of what it was granted has to do, some of which may be on its way to it. Who
 * sends one request after the other is not short, however little it has.
 */
static bool
idle_is_short(const struct split_qp *qp, uint64_t share)
{
	uint64_t left = qp->granted - qp->unannounced;

	return left == 0 || (qp->replies_owed > 1 && left * CREDIT_SHORT_LEFT_PART < share);
}

void
credit_idle_on_batch(struct split_qp *qp, uint32_t share)
{
	struct port_credits *credits = &qp->port->credits;

	assert(credit_idle_is_awake(qp));
	credits->batch_count++;
	if (!idle_is_short(qp, num_min(share, qp->grant_limit)))
		return;
	if (qp->grant_limit < share) {
		qp->grant_limit *= CREDIT_WAKE_GROWTH;
		return;
	}
	idle_watch(qp->port);
	if (++credits->short_count == CREDIT_SHORT_BATCHES_ENOUGH && credits->idle_timer.is_active)
		loop_timer_start(qp->port->loop, &credits->idle_timer, CREDIT_IDLE_PAUSE_NS);
}

void
credit_idle_leave(struct split_qp *qp)
{
	assert(qp->granted == 0);
	if (!credit_idle_is_awake(qp))
		return;
	list_remove(&qp->awake_link);
	assert(qp->port->credits.awake_count > 0);
	qp->port->credits.awake_count--;
	qp->grant_limit = CREDIT_WAKE_LIMIT;
}

static bool
idle_is_silent(const struct split_qp *qp, uint64_t now_ns)
{
	return now_ns - qp->heard_ns >= CREDIT_IDLE_NS;
}

static bool
idle_is_candidate(const struct split_qp *qp)
{
	/* Credits that a peer has asked for and lacks are ours to give. */
	return qp_is(qp, SPLIT_QP_READY) && !(qp->is_hungry && qp->granted == qp->unannounced);
}

/* Takes back credits that the peer has not heard of. */
static void
idle_take_unannounced(struct split_qp *qp)
{
	assert(qp->unannounced <= qp->granted);
	assert(qp->port->credits.granted_count >= qp->unannounced);
	credit_wait_leave(qp);
	qp->granted -= qp->unannounced;
	qp->port->credits.granted_count -= qp->unannounced;
	qp->unannounced = 0;
	credit_mark_dirty(qp->port);
}

/* Returns how many messages it takes. */
static uint32_t
idle_take(struct split_qp *qp)
{
	assert(!qp->is_recalled);
	idle_take_unannounced(qp);
	if (qp->granted == 0) {
		credit_idle_leave(qp);
		return 0;
	}
	credit_recall(qp);
	return 1;
}

static void
credit_on_idle_timer(struct loop_timer *timer, void *arg)
{
	struct split_port *port = arg;
	struct port_credits *credits = &port->credits;
	uint64_t now_ns = loop_now_ns(port->loop), again_ns = 0;
	uint32_t left_count = credits->awake_count, recall_count = 0;
	struct loop_link *link, *next;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	if (credits->short_count == 0 ||
	    (uint64_t)credits->short_count * CREDIT_SHORT_BATCHES_PART < credits->batch_count)
		return;
	LIST_FOREACH_SAFE(&credits->awake, link, next) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, awake_link);

		if (credit_share_is_full(port, left_count))
			return;
		if (!idle_is_silent(qp, now_ns)) {
			again_ns = qp->heard_ns + CREDIT_IDLE_NS - now_ns;
			break;
		}
		if (recall_count == CREDIT_IDLE_RECALLS_MAX) {
			again_ns = CREDIT_IDLE_PAUSE_NS;
			break;
		}
		if (!qp->is_recalled && !idle_is_candidate(qp)) {
			again_ns = CREDIT_IDLE_NS; /* unless another is due before */
			continue;
		}
		if (!qp->is_recalled)
			recall_count += idle_take(qp);
		left_count--;
	}
	if (again_ns == 0)
		return;
	if (recall_count < CREDIT_IDLE_RECALLS_MAX)
		credits->batch_count = credits->short_count = 0;
	loop_timer_start(port->loop, timer, num_max(again_ns, CREDIT_IDLE_PAUSE_NS));
}

void
credit_idle_on_return(struct split_qp *qp)
{
	struct split_port *port = qp->port;
	bool has_none = qp->granted == qp->unannounced;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (!credit_idle_is_awake(qp) || credit_share_is_full(port, port->credits.awake_count))
		return;
	if (!has_none || !idle_is_silent(qp, loop_now_ns(port->loop)))
		return;
	idle_take_unannounced(qp);
	credit_idle_leave(qp);
}
