/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health_peer.c -- does the next gateway answer, and is it that one?
 *
 *	each look --> one question --answered, by it or by one that does not tell who it is--> it is there
 *	                  ^    |--answered by another gateway--> clients that are sent to it come to that one
 *	                  |    '--nothing in 750 ms, refused--> at its first port, soon --nothing--> silent
 *
 * Two questions, for one that ends well closes its port a moment before its key goes. An answer that it does not know
 * the question is one, and so is that of another boot than the store names. Its ports are asked in turn, one a look; one
 * that another gateway answers at, or that has no place for us, is asked until it is well.
 *
 * Gateways ask each other at the first port. A further one may be told to clients for a network that no gateway is in: it
 * alone makes nobody silent. Whether clients find a port where they are told is for its own gateway to say
 * (own_address.c).
 */
#include "health/health_peer.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock_gap.h"
#include "base/log.h"
#include "base/num.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/member_view.h"
#include "common/alloc.h"
#include "health/health.h"

#define HEALTH_PEER_ANSWER_NS NUM_MS(750)
#define HEALTH_PEER_AGAIN_NS NUM_MS(100)
#define HEALTH_PEER_FAILURES 2u

/* The gateway of the next greater id, else of the least; NULL: we are alone. */
static const struct mt_member_peer *
peer_next(const struct mt_gateway *gateway)
{
	const struct mt_member *member = &gateway->member;
	const struct mt_member_peer *next = NULL, *first = NULL;
	uint64_t own_id = gateway->options.gateway_id;

	assert(member->peer_count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < member->peer_count; i++) {
		const struct mt_member_peer *other = &member->peers[i];

		if (other->gateway_id == own_id)
			continue;
		if (first == NULL || other->gateway_id < first->gateway_id)
			first = other;
		if (other->gateway_id > own_id &&
		    (next == NULL || other->gateway_id < next->gateway_id))
			next = other;
	}
	return next != NULL ? next : first;
}

/*
 * Another one to ask, or another boot of it: nothing is held against that. Else the next of its ports; the first, where one
 * gave no answer.
 */
static void
peer_turn_to(struct mt_health_peer *peer, const struct mt_member_peer *next)
{
	assert(!peer->call.is_out && next->port_count > 0);
	if (peer->gateway_id == next->gateway_id && peer->boot_id == next->boot_id) {
		if (peer->failure_count > 0 && peer->rc != -EBUSY)
			peer->port = 0;
		else if (peer->failure_count > 0 || peer->other_id != 0)
			return;
		else
			peer->port = peer->turn = (peer->turn + 1) % next->port_count;
		memcpy(peer->address, next->ports[peer->port], sizeof(peer->address));
		return;
	}
	peer->port = peer->turn = 0;
	peer->gateway_id = next->gateway_id;
	peer->boot_id = next->boot_id;
	peer->failure_count = 0;
	peer->clock_gap_ms = 0;
	peer->other_id = 0;
	memcpy(peer->address, next->ports[0], sizeof(peer->address));
}

/* An older release does not tell who it is. */
static void
peer_take_who(struct mt_health_peer *peer, const struct mt_peer_call *call)
{
	uint64_t id = mt_peer_told_id(call);

	if (id == peer->gateway_id)
		id = 0;
	if (id != peer->other_id)
		peer->since_ns = peer->asked_ns;
	peer->other_id = id;
}

/* A gateway of a release before does not tell its clock. */
static void
peer_take_clock(struct mt_health_peer *peer, const char *reply)
{
	json_t *object = reply == NULL ? NULL : json_loads(reply, 0, NULL);
	json_int_t told_ms = json_integer_value(json_object_get(object, "wall_ms"));

	peer->clock_gap_ms = 0;
	if (told_ms > 0 && peer->gateway->options.wall_ms != NULL)
		peer->clock_gap_ms = clock_gap_ms(peer->asked_ms,
		    loop_now_ns(peer->gateway->options.loop) - peer->asked_ns, (uint64_t)told_ms);
	json_decref(object);
}

static void
peer_on_answer(struct mt_peer_call *call, void *arg)
{
	struct mt_health_peer *peer = arg;
	struct loop *loop = peer->gateway->options.loop;

	assert(call == &peer->call);
	if (call->is_answered) {
		peer_take_who(peer, call);
		peer_take_clock(peer, call->reply);
	}
	mt_free(call->reply);
	call->reply = NULL;
	if (call->is_answered) {
		peer->failure_count = 0;
		return;
	}
	/* The gateway was started again, or has left, meanwhile. */
	if (peer->is_stopped || call->rc == -ESHUTDOWN || call->rc == -ENOMEM ||
	    !mt_view_is_live(&peer->gateway->member, peer->gateway_id, peer->boot_id))
		return;
	peer->rc = call->rc;
	if (peer->failure_count == 0)
		peer->since_ns = peer->asked_ns;
	if (peer->port != 0 && peer->rc != -EBUSY)
		peer->failure_count = 0; /* what the first one answers counts */
	if (peer->failure_count == HEALTH_PEER_FAILURES)
		return;
	if (++peer->failure_count < HEALTH_PEER_FAILURES)
		loop_timer_start(loop, &peer->timer, HEALTH_PEER_AGAIN_NS);
	else
		peer->on_silent(peer->arg);
}

void
mt_health_peer_ask(struct mt_health_peer *peer)
{
	const struct mt_member_peer *next;

	if (peer->is_stopped || peer->call.is_out)
		return;
	next = peer_next(peer->gateway);
	if (next == NULL || next->port_count == 0) {
		peer->gateway_id = peer->failure_count = 0;
		return;
	}
	loop_timer_stop(peer->gateway->options.loop, &peer->timer);
	peer_turn_to(peer, next);
	peer->asked_ns = loop_now_ns(peer->gateway->options.loop);
	peer->asked_ms = peer->gateway->options.wall_ms == NULL ? 0
								: peer->gateway->options.wall_ms();
	/* No memory, or about to stop: the next look asks again. */
	(void)mt_peer_call_within(peer->gateway, &peer->call, peer->address, MT_PEER_QUESTION,
	    HEALTH_PEER_ANSWER_NS, peer_on_answer, peer);
}

static void
peer_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_health_peer *peer = arg;

	assert(timer == &peer->timer);
	(void)timer;
	mt_health_peer_ask(peer);
}

void
mt_health_peer_judge(const struct mt_health_peer *peer, struct mt_health *health)
{
	uint64_t now_ns = loop_now_ns(peer->gateway->options.loop);
	char object[MT_HEALTH_OBJECT_BYTES];

	assert(peer->failure_count <= HEALTH_PEER_FAILURES);
	if (!mt_view_is_live(&peer->gateway->member, peer->gateway_id, peer->boot_id))
		return;
	(void)snprintf(object, sizeof(object), "gateway %016" PRIx64, peer->gateway_id);
	if (peer->failure_count == 0 && peer->other_id != 0) {
		mt_health_add(health, CLEAVE_HEALTH_ADDRESS_WRONG, object,
		    now_ns - num_min(peer->since_ns, now_ns), MT_HEALTH_ADDRESS_TEXT, object,
		    peer->address, peer->other_id);
		return;
	}
	if (peer->failure_count < HEALTH_PEER_FAILURES) {
		mt_health_clock(peer->gateway, health, object, peer->address, peer->clock_gap_ms);
		return;
	}
	if (peer->rc == -EBUSY) {
		mt_health_add(health, CLEAVE_HEALTH_PORT_FULL, object, 0,
		    "%s at %s has no place for another connection", object, peer->address);
		return;
	}
	mt_health_add(health, CLEAVE_HEALTH_GATEWAY_SILENT, object,
	    now_ns - num_min(peer->since_ns, now_ns),
	    "%s at %s does not answer gateway %016" PRIx64 ": %s", object, peer->address,
	    peer->gateway->options.gateway_id, log_errno(peer->rc));
}

void
mt_health_peer_init(struct mt_health_peer *peer, struct mt_gateway *gateway,
    void (*on_silent)(void *arg), void *arg)
{
	assert(on_silent != NULL);
	*peer = (struct mt_health_peer){ .gateway = gateway, .on_silent = on_silent, .arg = arg };
	loop_timer_init(&peer->timer, peer_on_timer, peer);
}

void
mt_health_peer_stop(struct mt_health_peer *peer)
{
	peer->is_stopped = true;
	loop_timer_stop(peer->gateway->options.loop, &peer->timer);
}

void
mt_health_peer_fini(struct mt_health_peer *peer)
{
	mt_health_peer_stop(peer);
	mt_free(peer->call.reply);
	peer->call.reply = NULL;
}
