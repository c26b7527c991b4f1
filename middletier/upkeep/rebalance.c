/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebalance.c -- copies are moved from nodes that have more than their share to nodes that have less, when asked for
 *
 * balance.c says what a node's share is. A copy goes from A to B when A has more than its share, B has less, what both are
 * off together is beyond the tolerance, and B is of no domain of the other copies, and its slots hold it. It is moved as one that leaves a node
 * that drains (repair.c): it goes when the manifest names its successor.
 *
 * A port moves a copy at a time, so that the next is judged by what the last has changed; of what other ports do the nodes
 * tell, who are asked meanwhile. They may still move too much together, but not for ever: a round moves an extent as often
 * as it has copies at most, so each ends. A round waits while anything lacks copies or leaves a node, and while a member is down.
 */
#include "upkeep/rebalance.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "common/limits.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/shard.h"
#include "extent/balance.h"
#include "extent/capacity.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/node_link.h"
#include "upkeep/repair.h"
#include "upkeep/repair_view.h"
#include "upkeep/upkeep.h"
#include "upkeep/upkeep_port.h"

#define REBALANCE_TURN_NS                                                                          \
	NUM_S(1) /* until it is looked again whether it may go on, or whose turn it is */

const char *
mt_rebalance_wait_name(enum mt_rebalance_wait wait)
{
#define WAIT_NAME(symbol, name) [MT_REBALANCE_##symbol] = name,
	static const char *const names[MT_REBALANCE_WAIT_NR] = { MT_REBALANCE_WAIT_LIST(
	    WAIT_NAME) };
#undef WAIT_NAME

	assert(wait < MT_REBALANCE_WAIT_NR);
	return names[wait];
}

/* ---- a round ---- */

static bool
rebalance_is_serving(const struct mt_shard *shard)
{
	return shard->upkeep != NULL && shard->upkeep->is_running;
}

/* The round is over when no shard that serves has more to move. */
static void
rebalance_settle(struct mt_port *port)
{
	struct mt_rebalance_state *state = &port->upkeep->balance;

	for (uint32_t i = 0; i < port->shard_count && state->is_on; i++) {
		const struct mt_shard *shard = &port->shards[i];

		if (rebalance_is_serving(shard) &&
		    shard->upkeep->repair.balance_round != state->round)
			return;
	}
	if (!state->is_on)
		return;
	state->is_on = false;
	log_info("rebalance: done port=%s copies=%" PRIu64 " bytes=%" PRIu64, port->address,
	    state->copy_count, state->bytes);
}

void
mt_rebalance_refresh(struct mt_port *port)
{
	for (uint32_t i = 0; i < port->link_count; i++)
		mt_link_refresh(&port->links[i]);
}

void
mt_rebalance_start(struct mt_port *port)
{
	struct mt_rebalance_state *state = &port->upkeep->balance;

	mt_rebalance_refresh(port);
	state->is_on = true;
	state->is_stopped = false;
	state->from_ns = loop_now_ns(port->loop) + REBALANCE_TURN_NS;
	state->round++;
	state->copy_count = state->bytes = 0;
	for (uint32_t i = 0; i < port->shard_count; i++) {
		if (rebalance_is_serving(&port->shards[i]))
			mt_extent_upkeep(&port->shards[i]);
	}
}

void
mt_rebalance_stop(struct mt_port *port)
{
	struct mt_rebalance_state *state = &port->upkeep->balance;

	rebalance_settle(port); /* one that is done was not stopped */
	state->is_stopped = state->is_stopped || state->is_on;
	state->is_on = false;
}

/* The work that comes before it at this port; *@ret_link: the node that is down. */
static enum mt_rebalance_wait
rebalance_wait(const struct mt_port *port, const struct mt_link **ret_link)
{
	enum mt_rebalance_wait wait = MT_REBALANCE_NOTHING;

	assert(port->upkeep->balance.is_on);
	for (uint32_t i = 0; i < port->shard_count; i++) {
		if (mt_upkeep_lacking_count(&port->shards[i]) > 0)
			return MT_REBALANCE_LACKING;
		if (mt_upkeep_leaving_count(&port->shards[i]) > 0)
			wait = MT_REBALANCE_DRAINING;
	}
	for (uint32_t i = 0; i < port->link_count && wait == MT_REBALANCE_NOTHING; i++) {
		*ret_link = &port->links[i];
		if (port->links[i].config.state == MT_NODE_IN && !mt_link_is_up(*ret_link))
			wait = MT_REBALANCE_NODE;
	}
	return wait;
}

void
mt_rebalance_status(struct mt_port *port, struct mt_rebalance_status *ret_status)
{
	const struct mt_rebalance_state *state = &port->upkeep->balance;
	const struct mt_link *link = NULL;

	rebalance_settle(port);
	*ret_status = (struct mt_rebalance_status){ .is_on = state->is_on,
		.is_stopped = state->is_stopped,
		.copy_count = state->copy_count,
		.bytes = state->bytes };
	if (!state->is_on)
		return;
	ret_status->wait = rebalance_wait(port, &link);
	if (ret_status->wait == MT_REBALANCE_NODE)
		ret_status->wait_node_id = link->node_id;
}

/* ---- a copy ---- */

struct rebalance_view {
	struct mt_port *port;
	struct mt_balance_node nodes[MT_NODES_MAX];
	uint32_t indexes[MT_NODES_MAX]; /* of their links */
	uint32_t count, depth;
};

/* Per mille of its slots that @node has beyond its share, one at least; 0: it has no more than that. */
static uint64_t
rebalance_over(const struct mt_balance_node *node)
{
	return node->slots_used <= node->slots_share
	    ? 0
	    : num_max((node->slots_used - node->slots_share) * 1000 / node->slots_total, 1);
}

static uint64_t
rebalance_under(const struct mt_balance_node *node)
{
	return node->slots_used >= node->slots_share
	    ? 0
	    : num_max((node->slots_share - node->slots_used) * 1000 / node->slots_total, 1);
}

/* Is @link of another domain than all of @extent's replicas but @victim? Also no replica is there then. */
static bool
rebalance_is_apart(const struct rebalance_view *view, const struct mt_extent *extent, int victim,
    const struct mt_link *link)
{
	assert(victim < (int)extent->replica_count);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		const struct mt_link *other = mt_port_link(view->port, extent->replicas[i].node_id);

		if (link->node_id == extent->replicas[i].node_id)
			return false;
		if ((int)i != victim &&
		    (other == NULL ||
			mt_node_is_same_domain(&link->config, &other->config, view->depth)))
			return false;
	}
	return true;
}

/* The node that lacks most, and may have the copy @victim, whose node is @over its share; NULL: none helps. */
static struct mt_link *
rebalance_target(const struct rebalance_view *view, const struct mt_extent *extent, int victim,
    uint64_t over)
{
	uint64_t now_ns = loop_now_ns(view->port->loop), best_under = 0;
	struct mt_link *best = NULL;

	assert(victim >= 0 && victim < (int)extent->replica_count);
	assert(view->count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < view->count; i++) {
		struct mt_link *link = &view->port->links[view->indexes[i]];
		uint64_t under = rebalance_under(&view->nodes[i]);

		if (under <= best_under || over + under <= MT_REBALANCE_TOLERANCE ||
		    !mt_link_is_up(link) || !mt_link_takes_copies(link) || link->slots_free == 0 ||
		    (link->full_kinds & 1u << extent->kind) != 0 ||
		    !mt_capacity_holds(link, extent->sealed_bytes) ||
		    mt_link_is_avoided(link, now_ns) ||
		    !rebalance_is_apart(view, extent, victim, link))
			continue;
		best = link;
		best_under = under;
	}
	return best;
}

/* The copy of @extent whose move helps, if any. */
static bool
rebalance_find_copy(const struct rebalance_view *view, struct mt_extent *extent,
    struct mt_rebalance_pick *ret_pick)
{
	assert(extent->replica_count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		for (uint32_t k = 0; k < view->count; k++) {
			const struct mt_link *link = &view->port->links[view->indexes[k]];
			uint64_t over = rebalance_over(&view->nodes[k]);

			if (over == 0 || link->node_id != extent->replicas[i].node_id)
				continue;
			ret_pick->target = rebalance_target(view, extent, (int)i, over);
			if (ret_pick->target == NULL)
				continue;
			ret_pick->extent = extent;
			ret_pick->victim = (int)i;
			return true;
		}
	}
	return false;
}

static bool
rebalance_may_move(const struct mt_extent *extent)
{
	return extent->balance_round != extent->shard->port->upkeep->balance.round ||
	    extent->balance_count < extent->replica_count;
}

/* Counted when it is tried, whatever becomes of it. */
static void
rebalance_count(struct mt_extent *extent)
{
	uint32_t round = extent->shard->port->upkeep->balance.round;

	assert(rebalance_may_move(extent));
	extent->balance_count = extent->balance_round == round ? extent->balance_count + 1 : 1;
	extent->balance_round = round;
}

static bool
rebalance_find(struct mt_repair *repair, struct mt_rebalance_pick *ret_pick)
{
	struct mt_shard *shard = repair->shard;
	struct rebalance_view view = { .port = shard->port };

	assert(repair->sm.state == REPAIR_IDLE);
	view.count =
	    mt_balance_links(view.port->links, view.port->link_count, view.nodes, view.indexes);
	view.depth = mt_domain_depth(view.port->links, view.port->link_count);
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		uint32_t at = (repair->balance_next + i) % shard->extent_count;
		struct mt_extent *extent = shard->extents[at];

		if (!mt_repair_is_ours(repair, extent) ||
		    extent->repair_ns > mt_repair_now_ns(repair) || !rebalance_may_move(extent) ||
		    !rebalance_find_copy(&view, extent, ret_pick))
			continue;
		repair->balance_next = at + 1;
		return true;
	}
	return false;
}

/* Does another shard of the port move a copy? */
static bool
rebalance_is_others_turn(const struct mt_repair *repair)
{
	const struct mt_port *port = repair->shard->port;

	assert(repair->sm.state == REPAIR_IDLE);
	for (uint32_t i = 0; i < port->shard_count; i++) {
		const struct mt_shard *shard = &port->shards[i];

		if (shard != repair->shard && rebalance_is_serving(shard) &&
		    shard->upkeep->repair.sm.state != REPAIR_IDLE &&
		    shard->upkeep->repair.cause == REPAIR_BALANCE)
			return true;
	}
	return false;
}

bool
mt_rebalance_pick(struct mt_repair *repair, struct mt_rebalance_pick *ret_pick, uint64_t *next_ns)
{
	struct mt_port *port = repair->shard->port;
	const struct mt_rebalance_state *state = &port->upkeep->balance;
	uint64_t now_ns = mt_repair_now_ns(repair);
	const struct mt_link *link;

	assert(repair->sm.state == REPAIR_IDLE);
	if (!state->is_on || repair->balance_round == state->round)
		return false;
	mt_rebalance_refresh(port);
	if (now_ns < state->from_ns || rebalance_wait(port, &link) != MT_REBALANCE_NOTHING ||
	    rebalance_is_others_turn(repair)) {
		*next_ns = num_min(*next_ns, now_ns + REBALANCE_TURN_NS);
		return false;
	}
	if (rebalance_find(repair, ret_pick)) {
		rebalance_count(ret_pick->extent);
		return true;
	}
	repair->balance_round = state->round;
	rebalance_settle(port);
	return false;
}

void
mt_rebalance_note(struct mt_repair *repair, const struct mt_extent *extent)
{
	struct mt_rebalance_state *state = &repair->shard->port->upkeep->balance;

	assert(repair->cause == REPAIR_BALANCE);
	assert(extent->shard == repair->shard);
	state->copy_count++;
	state->bytes += extent->sealed_bytes;
}
