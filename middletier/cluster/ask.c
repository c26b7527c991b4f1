/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.c -- one question to every port of this gateway: what they hold, or what they shall close
 *
 *	main --post--> each port: its sessions, shards and links --post--> main: all have answered
 */
#include "cluster/ask.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "catalog/volume_table.h"
#include "cleave/keyring.h"
#include "cleave/loop.h"
#include "cleave/secure.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/link_revoked.h"
#include "extent/link_ticket.h"
#include "port/node_usage.h"
#include "port/port_status.h"
#include "port/shares.h"
#include "port/throttle.h"
#include "port/usage_walk.h"
#include "session/session.h"
#include "session/session_hello.h"
#include "session/session_query.h"
#include "upkeep/rebalance.h"
#include "upkeep/scrub.h"

static void
ask_on_answer(struct loop_post *post, void *arg)
{
	struct mt_ask_leg *leg = arg;
	struct mt_ask *ask = leg->ask;

	assert(ask->gateway->port_count <= MT_PORTS_MAX);
	(void)post;
	assert(ask->left_count > 0);
	leg->is_answered = true;
	ask->left_count--;
	if (ask->left_count > 0)
		return;
	ask->fn(ask, ask->arg);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++)
		mt_port_status_fini(&ask->legs[i].status);
	list_remove(&ask->link);
	split_key_free(ask->key);
	mt_free(ask);
}

static void
ask_session(struct mt_ask_leg *leg, struct mt_session *session)
{
	const struct mt_ask *ask = leg->ask;
	bool is_reader = mt_session_is_reader(session);
	bool is_older = session->hello.attach < ask->volume.attach;

	assert(session->hello.volume_id == ask->volume.id);
	/* All that it writes from now on is encrypted with the newest key that the port has. */
	if (ask->volume.key_id != 0 && keyring_has(leg->port->keys, ask->volume.key_id) &&
	    (ask->kind == MT_ASK_LIMITS || ask->kind == MT_ASK_ATTACH))
		session->volume.key_id = ask->volume.key_id;
	if (ask->kind == MT_ASK_DELETE) {
		mt_session_close(session, -ESHUTDOWN);
	} else if (ask->kind == MT_ASK_ATTACH && is_reader) {
		mt_session_renew(session, &ask->volume);
	} else if (ask->kind == MT_ASK_ATTACH && is_older) {
		mt_session_close(session, -ESHUTDOWN);
	} else {
		leg->status.asked_session_count++;
		leg->status.asked_reader_count += is_reader;
		leg->status.asked_writer_count += !is_reader &&
		    session->hello.attach == ask->volume.attach;
	}
}

/*
 * A difference of which one end is gone, or may show other content than before (a roll-back, another size): its session
 * would go on about an end that is no more. The client comes again, and is told what is so then.
 */
static void
ask_difference(const struct mt_ask *ask, struct mt_session *session)
{
	assert(mt_session_is_difference_with(session, ask->volume.id));
	if (ask->kind == MT_ASK_DELETE)
		mt_session_close(session, -ESHUTDOWN);
	else if (ask->kind == MT_ASK_ATTACH)
		mt_session_close(session, -EBUSY);
}

static void
ask_on_port(struct loop_post *post, void *arg)
{
	struct mt_ask_leg *leg = arg;
	struct mt_ask *ask = leg->ask;
	struct mt_port *port = leg->port;
	struct loop_link *link, *next;

	assert(port->main_loop == ask->gateway->options.loop);
	if (ask->kind == MT_ASK_LIMITS || ask->kind == MT_ASK_ATTACH) {
		mt_throttle_set(port, ask->volume.id, &ask->volume.limits);
		mt_shares_set(port, ask->volume.id, &ask->volume.limits);
	}
	LIST_FOREACH_SAFE(&port->sessions, link, next) {
		struct mt_session *session = LIST_ENTRY(link, struct mt_session, link);

		if (session->hello.volume_id == 0 || !mt_session_is_live(session))
			continue;
		if (ask->kind == MT_ASK_RIGHTS)
			mt_session_ask_right(session);
		else if (ask->volume.id == 0)
			continue;
		else if (session->hello.volume_id == ask->volume.id)
			ask_session(leg, session);
		else if (mt_session_is_difference_with(session, ask->volume.id))
			ask_difference(ask, session);
	}
	/* Tickets for nodes: a gateway ends them once, not once a port. */
	if (port->index == 0 && ask->kind == MT_ASK_ATTACH)
		mt_port_volume_fence(port, ask->volume.id, ask->volume.attach);
	else if (port->index == 0 && ask->kind == MT_ASK_DELETE)
		mt_port_volume_fence(port, ask->volume.id, ask->volume.attach + 1);
	for (uint32_t i = 0; i < port->shard_count && ask->kind == MT_ASK_SCRUB; i++)
		mt_scrub_now(&port->shards[i]);
	if (ask->kind == MT_ASK_REBALANCE_LOOK)
		mt_rebalance_refresh(port);
	else if (ask->kind == MT_ASK_REBALANCE)
		mt_rebalance_start(port);
	else if (ask->kind == MT_ASK_REBALANCE_END)
		mt_rebalance_stop(port);
	if (ask->kind == MT_ASK_NODE)
		mt_node_usage_take(port, ask->node_id, ask->node_version, &leg->status.node);
	else if (ask->kind == MT_ASK_RATES)
		mt_port_rates_take(port, &leg->status);
	else if (ask->kind == MT_ASK_LOAD)
		mt_port_load_take(port, &leg->status);
	else if (ask->kind == MT_ASK_REACH || ask->kind == MT_ASK_REACH_HEARD)
		mt_port_reach_take(port, ask->kind == MT_ASK_REACH_HEARD, &leg->status);
	else if (ask->kind == MT_ASK_KEY)
		mt_port_rekey(port, ask->key);
	else if (ask->kind == MT_ASK_DOUBTS)
		mt_port_doubts_take(port, ask->key, &leg->status.doubts);
	else if (ask->kind != MT_ASK_SESSIONS && ask->kind != MT_ASK_USE &&
	    ask->kind != MT_ASK_USAGE && ask->kind != MT_ASK_LIMITS && ask->kind != MT_ASK_RIGHTS)
		mt_port_status_take(port, &leg->status);
	if (ask->kind == MT_ASK_SWEEP || ask->kind == MT_ASK_SWEEP_CONFIRM)
		mt_port_status_orphans(port, ask->kind == MT_ASK_SWEEP_CONFIRM, &leg->status);
	if (ask->kind == MT_ASK_USE || ask->kind == MT_ASK_USAGE)
		mt_volume_use_take(port, &leg->status.use);
	if (ask->kind == MT_ASK_USAGE)
		mt_usage_take(port, &ask->volume, &ask->cuts, &leg->status.usage);
	post->fn = ask_on_answer;
	loop_post(port->main_loop, post);
}

/* With every port as a leg; NULL: no memory. */
static struct mt_ask *
ask_make(struct mt_gateway *gateway, enum mt_ask_kind kind, mt_ask_fn fn, void *arg)
{
	struct mt_ask *ask = mt_calloc(1, sizeof(*ask));

	assert(fn != NULL && gateway->port_count > 0);
	assert(gateway->port_count <= MT_PORTS_MAX);
	if (ask == NULL)
		return NULL;
	ask->gateway = gateway;
	ask->kind = kind;
	ask->fn = fn;
	ask->arg = arg;
	ask->left_count = gateway->port_count;
	return ask;
}

static void
ask_post(struct mt_ask *ask)
{
	struct mt_gateway *gateway = ask->gateway;

	assert(!list_contains(&ask->link));
	assert(ask->left_count == gateway->port_count);
	list_push_back(&gateway->asks, &ask->link);
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		struct mt_ask_leg *leg = &ask->legs[i];

		leg->ask = ask;
		leg->port = &gateway->ports[i];
		leg->post = (struct loop_post){ .fn = ask_on_port, .arg = leg };
		loop_post(leg->port->loop, &leg->post);
	}
}

int
mt_ask_ports(struct mt_gateway *gateway, enum mt_ask_kind kind, const struct mt_volume *volume,
    mt_ask_fn fn, void *arg)
{
	struct mt_ask *ask;

	assert(fn != NULL && gateway->port_count > 0);
	assert(kind != MT_ASK_NODE && kind != MT_ASK_KEY && kind != MT_ASK_DOUBTS);
	assert(volume != NULL ||
	    (kind != MT_ASK_ATTACH && kind != MT_ASK_DELETE && kind != MT_ASK_LIMITS));
	/* A port that has stopped answers nothing. */
	if (gateway->sm.state >= MT_GATEWAY_STOPPING)
		return -ESHUTDOWN;
	ask = ask_make(gateway, kind, fn, arg);
	if (ask == NULL)
		return -ENOMEM;
	if (volume != NULL)
		ask->volume = *volume;
	ask_post(ask);
	return 0;
}

int
mt_ask_node(struct mt_gateway *gateway, uint32_t node_id, uint64_t version, mt_ask_fn fn, void *arg)
{
	struct mt_ask *ask;

	assert(fn != NULL && node_id != 0);
	if (gateway->sm.state >= MT_GATEWAY_STOPPING)
		return -ESHUTDOWN;
	ask = ask_make(gateway, MT_ASK_NODE, fn, arg);
	if (ask == NULL)
		return -ENOMEM;
	ask->node_id = node_id;
	ask->node_version = version;
	ask_post(ask);
	return 0;
}

int
mt_ask_key(struct mt_gateway *gateway, enum mt_ask_kind kind, const struct split_key *key,
    mt_ask_fn fn, void *arg)
{
	struct mt_ask *ask;

	assert(kind == MT_ASK_KEY || kind == MT_ASK_DOUBTS);
	assert(fn != NULL && key != NULL);
	if (gateway->sm.state >= MT_GATEWAY_STOPPING)
		return -ESHUTDOWN;
	ask = ask_make(gateway, kind, fn, arg);
	if (ask == NULL)
		return -ENOMEM;
	ask->key = split_key_share(key);
	ask_post(ask);
	return 0;
}

int
mt_ask_usage(struct mt_gateway *gateway, const struct mt_volume *volume,
    const struct mt_usage_cuts *cuts, mt_ask_fn fn, void *arg)
{
	struct mt_ask *ask;

	assert(fn != NULL && cuts->count <= MT_USAGE_CUTS_MAX);
	if (gateway->sm.state >= MT_GATEWAY_STOPPING)
		return -ESHUTDOWN;
	ask = ask_make(gateway, MT_ASK_USAGE, fn, arg);
	if (ask == NULL)
		return -ENOMEM;
	ask->volume = *volume;
	ask->cuts = *cuts;
	ask_post(ask);
	return 0;
}

struct mt_ask *
mt_ask_so_far(const struct mt_gateway *gateway, mt_ask_fn fn, const void *arg)
{
	const struct mt_ask *out = NULL;
	struct loop_link *link, *next;
	struct mt_ask *ask;

	LIST_FOREACH_SAFE(&gateway->asks, link, next) {
		const struct mt_ask *candidate = LIST_ENTRY(link, struct mt_ask, link);

		if (candidate->fn == fn && candidate->arg == arg)
			out = candidate;
	}
	ask = out != NULL ? mt_calloc(1, sizeof(*ask)) : NULL;
	if (ask == NULL)
		return NULL;
	ask->gateway = out->gateway;
	ask->kind = out->kind;
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		struct mt_ask_leg *leg = &ask->legs[i];

		/* A status of a port that has not answered is its thread's. */
		if (out->legs[i].is_answered)
			leg->status = out->legs[i].status;
		leg->is_answered = out->legs[i].is_answered;
		ask->silent_count += !leg->is_answered;
	}
	assert(ask->silent_count == out->left_count);
	return ask;
}

void
mt_asks_drop(struct mt_gateway *gateway)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&gateway->asks, link, next) {
		struct mt_ask *ask = LIST_ENTRY(link, struct mt_ask, link);

		for (uint32_t i = 0; i < gateway->port_count; i++)
			mt_port_status_fini(&ask->legs[i].status);
		list_remove(link);
		split_key_free(ask->key);
		mt_free(ask);
	}
}
