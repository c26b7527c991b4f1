/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_node_leave.c -- a storage node leaves the cluster: drain, undrain, remove
 *
 *	drain    the others have enough domains and room? --> draining: nothing new goes there, what is there is moved
 *	remove   it drains; no shard of any gateway names a copy there, twice, a second apart --> out
 *	         --lost: it does not answer, no other one is silent, and these have room for its copies, which are made
 *	         anew there --> lost, at once
 *
 * A node answers when a port here reaches it, or another gateway does (cluster/node_reach.c). Of the former it is known
 * when the first connection has come about, or has failed: a node that was just added, and all of them at a gateway
 * that was just started, are waited for.
 *
 * Each refuses what would leave data with fewer copies than before, and says how to insist. Between the second count
 * and the transaction nothing can be put there: the transaction compares the version of the key, and every port
 * that was asked acts on that version, which says draining.
 */
#include "control/control_node_leave.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/node_key.h"
#include "cleave/loop.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/node_reach.h"
#include "cluster/node_table.h"
#include "cluster/node_tally.h"
#include "control/control_node.h"
#include "control/control_request.h"
#include "extent/balance.h"
#include "extent/capacity.h"

#define LEAVE_PAUSE_NS NUM_S(1) /* between two counts */
#define LOST_PAUSE_NS NUM_MS(100)
#define LOST_ROUNDS_MAX 30u /* a connection that takes longer counts as none */

/* The node that is asked about; NULL: there is none, and the request has ended. */
static struct mt_node *
leave_node(struct mt_control_request *request)
{
	const struct mt_node_entry *entry = mt_nodes_by_id(request->gateway, request->node.id);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (entry == NULL || entry->node.state > MT_NODE_DRAINING) {
		mt_control_refuse(request, -ENOENT,
		    "node %" PRIu64 ": no such node%s: see cleave node list", request->node.id,
		    entry == NULL ? "" : " any more");
		return NULL;
	}
	request->node.node = entry->node;
	return &request->node.node;
}

/* ---- may it go? ---- */

/* The rest, when a node takes nothing any more, as the ports' links say. */
struct leave_rest {
	uint32_t domain_count;           /* of all that stay */
	uint32_t up_domain_count;        /* of those of them that take writes now */
	uint64_t free_bytes, used_bytes; /* of the others; of the node that goes */
	bool is_up;
	bool is_unheard;    /* how much the node that goes holds its link has never heard */
	uint32_t silent_id; /* another node that has not left, and answers no gateway; 0: all do */
	bool is_trying;     /* of a node that has not left it is not known yet whether it answers */
	bool fits;          /* the others have room for all copies, each in a domain of its own */
};

/*
 * @ask: what our ports reach.
 * @named_count: copies that shards name at the node that goes, where they were asked, for its link may never have heard,
 * or know of those that were made anew since; UINT32_MAX: they were not.
 */
static struct leave_rest
leave_count(const struct mt_ask *ask, uint32_t node_id, uint32_t named_count)
{
	const struct mt_node_reached *reached = &ask->gateway->nodes->reached;
	const struct mt_port_status *status = &ask->legs[0].status;
	struct mt_node_config rest[MT_NODES_MAX];
	struct mt_balance_node nodes[MT_NODES_MAX];
	struct leave_rest left = { 0 };
	uint64_t slots_used = 0, slot_bytes = 0, own_slot_bytes = 0;
	bool taking[MT_NODES_MAX];
	uint32_t count = 0;

	assert(ask->left_count == 0 && status->link_count <= MT_NODES_MAX);
	for (uint32_t i = 0; status->links != NULL && i < status->link_count; i++) {
		const struct mt_link_status *link = &status->links[i];
		uint64_t used = link->slots_total - link->slots_free;

		if (link->config.node_id == node_id && named_count != UINT32_MAX)
			used = named_count;
		if (!mt_node_is_gone(&link->config))
			slots_used += used;
		slot_bytes = num_max(slot_bytes, link->slot_bytes);
		if (link->config.node_id == node_id) {
			left.is_up = link->is_up;
			left.is_unheard = link->slots_total == 0;
			left.used_bytes = used;
			own_slot_bytes = link->slot_bytes;
		} else if (link->config.state == MT_NODE_IN) {
			nodes[count] = (struct mt_balance_node){ .config = &link->config,
				.slots_total = link->slots_total };
			taking[count] = link->is_up && !link->is_read_only;
			rest[count++] = link->config;
			left.free_bytes += link->slots_free * link->slot_bytes;
		}
		if (link->config.node_id != node_id && !mt_node_is_gone(&link->config) &&
		    !link->is_up && mt_node_reached_by(reached, link->config.node_id) == 0)
			left.silent_id = link->config.node_id;
		left.is_trying = left.is_trying ||
		    (!mt_node_is_gone(&link->config) && !link->is_up && link->trouble[0] == '\0');
	}
	left.used_bytes *= own_slot_bytes != 0 ? own_slot_bytes : slot_bytes;
	left.domain_count = mt_node_domain_count(rest, count);
	left.up_domain_count = mt_node_taking_count(rest, taking, count);
	left.fits = mt_balance_fits(nodes, count, slots_used);
	return left;
}

/* ---- drain ---- */

static void
drain_on_asked(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_gateway *gateway = request->gateway;
	const struct mt_node *node = &request->node.node;
	struct leave_rest rest = leave_count(ask, node->id, UINT32_MAX);

	assert(node->state == MT_NODE_DRAINING && request->node.cluster_version != 0);
	if (rest.domain_count < gateway->options.min_replicas)
		mt_control_refuse(request, -ENOTEMPTY,
		    "node %" PRIu32 " cannot be drained: %" PRIu32
		    " failure domains would be left, and --min-replicas is %" PRIu32
		    ", so nothing could be written: add a node first (cleave node add)",
		    node->id, rest.domain_count, gateway->options.min_replicas);
	else if (rest.is_up && rest.up_domain_count < gateway->options.min_replicas)
		mt_control_refuse(request, -ENOTEMPTY,
		    "node %" PRIu32
		    " cannot be drained now: of the others' failure domains %" PRIu32
		    " answer and take writes, and --min-replicas is %" PRIu32
		    ", so nothing could be written: start the nodes that are down, or replace those that are "
		    "read-only, first (cleave node list)",
		    node->id, rest.up_domain_count, gateway->options.min_replicas);
	else if (rest.domain_count < CLEAVE_COPIES && !request->is_forced)
		mt_control_refuse(request, -ENOTEMPTY,
		    "node %" PRIu32 " is not drained: %" PRIu32
		    " failure domains would be left for %u copies: add a node first (cleave node add), "
		    "or say --force to go on with fewer copies",
		    node->id, rest.domain_count, CLEAVE_COPIES);
	else if (!rest.fits && !request->is_forced)
		mt_control_refuse(request, -ENOSPC,
		    "node %" PRIu32 " is not drained: it holds %" PRIu64
		    " MiB, and the other nodes have %" PRIu64
		    " MiB of room, with which not every copy finds a failure domain of its own: writes "
		    "would end with no space left: add a node first (cleave node add), or say --force to "
		    "move what finds room",
		    node->id, rest.used_bytes / NUM_MIB(1), rest.free_bytes / NUM_MIB(1));
	else
		mt_control_node_put(request, "drained");
}

static void
drain_judge(struct mt_control_request *request)
{
	struct mt_node *node = leave_node(request);
	int rc;

	if (node == NULL)
		return;
	assert(request->op->is_change);
	node->state = MT_NODE_DRAINING;
	request->node.cluster_version = request->gateway->nodes->cluster.version;
	rc = mt_ask_ports(request->gateway, MT_ASK_STATUS, NULL, drain_on_asked, request);
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}

/* Members that these ops have in common. False: the request has ended. */
static bool
leave_take(struct mt_control_request *request, bool *ret_is_lost)
{
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "node", READER_U64, true, 1, UINT32_MAX, { .u64 = &request->node.id } },
		{ "force", READER_BOOL, false, 0, 0, { .flag = &request->is_forced } },
		{ "lost", READER_BOOL, false, 0, 0, { .flag = ret_is_lost } },
	};
	int rc = reader_strict(request->in, members,
	    ret_is_lost == NULL ? NUM_COUNT(members) - 1 : NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0)
		mt_control_fail(request, rc, error);
	return rc == 0;
}

void
mt_control_node_drain(struct mt_control_request *request)
{
	if (leave_take(request, NULL))
		mt_control_node_begin(request, drain_judge);
}

static void
undrain_judge(struct mt_control_request *request)
{
	struct mt_node *node = leave_node(request);

	if (node == NULL)
		return;
	node->state = MT_NODE_IN;
	mt_control_node_put(request, "undrained");
}

void
mt_control_node_undrain(struct mt_control_request *request)
{
	if (leave_take(request, NULL))
		mt_control_node_begin(request, undrain_judge);
}

/* ---- remove ---- */

static void remove_count(struct mt_control_request *request);

static void
remove_on_timer(struct loop_timer *timer, void *arg)
{
	assert(((struct mt_control_request *)arg)->node.round > 0);
	(void)timer;
	remove_count(arg);
}

static void
remove_refuse(struct mt_control_request *request, const struct mt_node_tally *tally)
{
	uint32_t id = request->node.node.id;

	assert(!mt_node_tally_is_empty(tally));
	if (tally->extent_count > 0)
		mt_control_refuse(request, -ENOTEMPTY,
		    "node %" PRIu32 " is not empty: shards name %" PRIu32 " copies there, %" PRIu64
		    " MiB: wait for its drain (cleave node drain %" PRIu32
		    " --wait); one that never comes back: cleave node remove %" PRIu32 " --lost",
		    id, tally->extent_count, tally->bytes / NUM_MIB(1), id, id);
	else if (tally->unknown_gateway != 0)
		mt_control_refuse(request, -EHOSTDOWN,
		    "node %" PRIu32 " is not removed: gateway %016" PRIx64
		    " does not say what its shards have there: ask again when it answers",
		    id, tally->unknown_gateway);
	else if (tally->unserved_count > 0)
		mt_control_refuse(request, -EBUSY,
		    "node %" PRIu32 " is not removed: %" PRIu32
		    " shards are served by nobody now, and may have copies there: ask again when all are "
		    "(cleave status)",
		    id, tally->unserved_count);
	else
		mt_control_refuse(request, -EBUSY,
		    "node %" PRIu32 " is not removed: gateway %016" PRIx64
		    " has not read yet that it drains: ask again",
		    id, tally->behind_gateway);
}

static void
remove_on_tally(const struct mt_node_tally *tally, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (!mt_node_tally_is_empty(tally)) {
		remove_refuse(request, tally);
		return;
	}
	if (++request->node.round < 2) {
		struct loop_timer *timer = &request->gateway->nodes->pause_timer;

		loop_timer_init(timer, remove_on_timer, request);
		loop_timer_start(request->gateway->options.loop, timer, LEAVE_PAUSE_NS);
		return;
	}
	assert(request->node.node.state == MT_NODE_DRAINING);
	request->node.node.state = MT_NODE_OUT;
	mt_control_node_put(request, "removed");
}

static void
remove_count(struct mt_control_request *request)
{
	const struct mt_node *node = &request->node.node;
	int rc = mt_node_tally_start(request->gateway, node->id, node->version, remove_on_tally,
	    request);

	assert(node->state == MT_NODE_DRAINING && request->node.round < 2);
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}

static void
remove_judge(struct mt_control_request *request)
{
	const struct mt_node *node = leave_node(request);

	if (node == NULL)
		return;
	if (node->state != MT_NODE_DRAINING) {
		mt_control_refuse(request, -ENOTEMPTY,
		    "node %" PRIu32
		    " is in use: drain it, and remove it when it is empty (cleave node drain %" PRIu32
		    " --wait); one that never comes back: cleave node remove %" PRIu32 " --lost",
		    node->id, node->id, node->id);
		return;
	}
	request->node.round = 0;
	remove_count(request);
}

static void lost_ask(struct mt_control_request *request);

static void
lost_on_timer(struct loop_timer *timer, void *arg)
{
	assert(((struct mt_control_request *)arg)->node.round > 0);
	(void)timer;
	lost_ask(arg);
}

static void
lost_on_tally(const struct mt_node_tally *tally, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING && !request->node.is_tallied);
	request->node.is_tallied = true;
	/* There may be copies of shards that nobody told of: then the link's count has to do. */
	if (tally->unknown_gateway == 0 && tally->unserved_count == 0)
		request->node.named_count = tally->extent_count;
	lost_ask(request);
}

/*
 * A gateway that was started while the node was down has never heard how much it holds, and one that heard it does not
 * know what was made anew elsewhere since; shards know.
 */
static void
lost_tally(struct mt_control_request *request)
{
	const struct mt_node *node = &request->node.node;
	int rc =
	    mt_node_tally_start(request->gateway, node->id, node->version, lost_on_tally, request);

	assert(!request->is_forced);
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}

static void
lost_refuse_room(struct mt_control_request *request, const struct leave_rest *rest)
{
	assert(!rest->fits && !request->is_forced);
	mt_control_refuse(request, -ENOSPC,
	    "node %" PRIu32 " is kept: it holds %" PRIu64 " MiB, and the other nodes have %" PRIu64
	    " MiB of room, with which not every copy finds a failure domain of its own: what finds none "
	    "would stay with fewer copies: add a node first (cleave node add), or say --force to make "
	    "anew what finds room",
	    request->node.node.id, rest->used_bytes / NUM_MIB(1), rest->free_bytes / NUM_MIB(1));
}

/* Returns true: it answers, us or another gateway, and the request is refused. */
static bool
lost_refuse_answering(struct mt_control_request *request, const struct leave_rest *rest)
{
	const struct mt_node *node = &request->node.node;
	uint64_t reached_by = mt_node_reached_by(&request->gateway->nodes->reached, node->id);

	assert(!request->is_forced);
	if (rest->is_up) {
		mt_control_refuse(request, -ENOTEMPTY,
		    "node %" PRIu32
		    " answers, so it is not lost: drain it, and its copies are moved "
		    "before it goes (cleave node drain %" PRIu32
		    " --wait), or say --force to give them up now",
		    node->id, node->id);
		return true;
	}
	if (reached_by != 0) {
		mt_control_refuse(request, -ENOTEMPTY,
		    "node %" PRIu32 " answers gateway %016" PRIx64
		    ", so it is not lost: look at the network between the node and gateway %016" PRIx64
		    ", or drain the node (cleave node drain %" PRIu32
		    " --wait), or say --force to give its copies up now",
		    node->id, reached_by, request->gateway->options.gateway_id, node->id);
		return true;
	}
	return false;
}

/* With fewer domains than copies no copy is made anew, whatever room there is. */
static bool
lost_lacks_room(const struct leave_rest *rest)
{
	return !rest->fits && rest->domain_count >= CLEAVE_COPIES;
}

static void
lost_on_asked(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;
	struct mt_node *node = &request->node.node;
	struct leave_rest rest = leave_count(ask, node->id, request->node.named_count);

	assert(request->node.cluster_version != 0);
	if (rest.is_trying && !request->is_forced && request->node.round < LOST_ROUNDS_MAX) {
		struct loop_timer *timer = &request->gateway->nodes->pause_timer;

		request->node.round++;
		loop_timer_init(timer, lost_on_timer, request);
		loop_timer_start(request->gateway->options.loop, timer, LOST_PAUSE_NS);
		return;
	}
	if (!request->is_forced && lost_refuse_answering(request, &rest))
		return;
	if (rest.domain_count < request->gateway->options.min_replicas && !request->is_forced) {
		mt_control_refuse(request, -ENOTEMPTY,
		    "node %" PRIu32 " is kept: %" PRIu32
		    " failure domains would be left, and --min-replicas is %" PRIu32
		    ", so nothing could be written: add a node first (cleave node add), or say --force",
		    node->id, rest.domain_count, request->gateway->options.min_replicas);
		return;
	}
	/* Data that was written while a third node was away may have both copies there. */
	if (rest.silent_id != 0 && !request->is_forced) {
		mt_control_refuse(request, -ENOTEMPTY,
		    "node %" PRIu32 " is kept: node %" PRIu32
		    " does not answer either, and what may be on these two alone would be lost for "
		    "good: see to it that one of them answers, or say --force to give that up",
		    node->id, rest.silent_id);
		return;
	}
	if ((rest.is_unheard || lost_lacks_room(&rest)) && !request->is_forced &&
	    !request->node.is_tallied) {
		lost_tally(request);
		return;
	}
	if (lost_lacks_room(&rest) && !request->is_forced) {
		lost_refuse_room(request, &rest);
		return;
	}
	node->state = MT_NODE_LOST;
	mt_control_node_put(request, "given up for lost");
}

static void
lost_ask(struct mt_control_request *request)
{
	int rc = mt_ask_ports(request->gateway, MT_ASK_STATUS, NULL, lost_on_asked, request);

	assert(request->node.round <= LOST_ROUNDS_MAX);
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}

static void
lost_on_reached(const struct mt_node_reached *reached, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	request->gateway->nodes->reached = *reached;
	lost_ask(request);
}

static void
lost_judge(struct mt_control_request *request)
{
	struct mt_nodes *nodes = request->gateway->nodes;
	int rc = -ENOENT;

	if (leave_node(request) == NULL)
		return;
	request->node.cluster_version = nodes->cluster.version;
	request->node.round = 0;
	request->node.is_tallied = false;
	request->node.named_count = UINT32_MAX;
	nodes->reached.count = 0;
	if (!request->is_forced)
		rc = mt_node_reach_start(request->gateway, lost_on_reached, request);
	if (rc == -ENOENT)
		lost_ask(request); /* there is nobody else */
	else if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}

void
mt_control_node_remove(struct mt_control_request *request)
{
	bool is_lost = false;

	if (leave_take(request, &is_lost))
		mt_control_node_begin(request, is_lost ? lost_judge : remove_judge);
}
