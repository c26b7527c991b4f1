/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members.c -- see members.h
 *
 *	   +---- dice: what is done next ----+
 *	   v                                 |
 *	RESTING --> ADD                      it is a member ------> RESTING
 *	        --> LEAVE: drain, remove     it is out -----------> RESTING    its process ends
 *	        --> STAY: drain, undrain     it is in again ------> RESTING
 *	        --> LOSE: kill, remove       it is lost ----------> RESTING
 *	        --> RETURN: start, add       refused often -------> RESTING    its process ends
 *	        --> RACE: drain two at once  often enough --------> RESTING    what drains is undrained
 *
 * A drain whose answer was lost may come about late. Where an operator has a rival (has_rival), and at the end, any node
 * that drains and is not the one to leave is undrained, whatever else is being done (stray).
 *
 * Whether something is done is read from the metadata store itself: answers are lost, and requests may be carried out
 * although they failed.
 */
#include "members.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/random.h"
#include "check.h"
#include "cleave/batch.h"
#include "cleave/client.h"
#include "cleave/disk.h"
#include "cleave/loop.h"
#include "cluster.h"
#include "deletes.h"
#include "invariant.h"
#include "middletier/catalog/cluster_key.h"
#include "middletier/catalog/node_key.h"
#include "middletier/common/alloc.h"
#include "store.h"

#define MEMBERS_TICK_NS NUM_MS(400)  /* between two requests, half of it on average */
#define MEMBERS_REST_TICKS 12u       /* between two changes, at most */
#define MEMBERS_LATE_NS NUM_S(12)    /* until the node that comes late is there, at most */
#define MEMBERS_TIMEOUT_NS NUM_S(10) /* of a request */
#define MEMBERS_FULL_TRIES                                                                         \
	32u /* a drain is asked for so often where the others have no room for it */
#define MEMBERS_RETURN_TRIES 12u /* a node that has left is not found so often, or refused */
#define MEMBERS_COPIES 3u
#define MEMBERS_RACE_TRIES 4u /* drains of two nodes at one moment, one pair after the other */
#define MEMBERS_SLOTS_MAX 2048u
#define MEMBERS_TEXT_BYTES 256u

enum act { ACT_RESTING, ACT_ADD, ACT_LEAVE, ACT_STAY, ACT_LOSE, ACT_RETURN, ACT_RACE };

struct member {
	bool is_known;       /* the store has named it */
	struct mt_node node; /* as it did last */
};

/* The copies on a disk, when it was put back. */
struct slots {
	uint64_t ids[MEMBERS_SLOTS_MAX], incarnations[MEMBERS_SLOTS_MAX];
	uint32_t count;
};

struct sim_members {
	struct sim_cluster *cluster;
	uint64_t dice[4];
	struct sim_host *host;
	struct loop *loop;
	struct cleave_client *client;
	struct cleave_call call;
	/* RACE: the rival's. NULL: there is none. It asks the gateways in another order. */
	struct cleave_client *rival_client;
	struct cleave_call rival_call;
	struct loop_timer timer, late_timer;
	struct member members[SIM_NODES_MAX];
	uint64_t next_node; /* 0: the store does not name the nodes yet */
	enum act act;
	uint32_t subject;   /* index of the node that is changed */
	uint32_t rival;     /* RACE: of the one that is drained at the same moment */
	uint32_t try_count; /* RACE: pairs that were asked for */
	uint32_t race_count;
	bool has_drained; /* STAY: the subject was seen to drain */
	uint32_t rest_ticks, refused_count, change_count;
	uint32_t full_count;   /* of the present act's answers, that the others have no room */
	uint32_t victim, late; /* SIM_NODES_MAX: none comes late */
	struct slots slots;    /* RETURN */
	uint32_t asking_count; /* calls without an answer */
	bool is_finishing, is_victim_lost;
};

static uint32_t
below(struct sim_members *members, uint32_t limit)
{
	return (uint32_t)random_below(members->dice, limit);
}

/* ---- what the store says, and what it must never say ---- */

static bool
has_left(const struct sim_members *members, uint32_t index)
{
	return members->members[index].is_known &&
	    members->members[index].node.state > MT_NODE_DRAINING;
}

static bool
is_state(const struct sim_members *members, uint32_t index, enum mt_node_state state)
{
	return members->members[index].is_known && members->members[index].node.state == state;
}

static uint32_t
in_count(const struct sim_members *members)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SIM_NODES_MAX; i++)
		count += is_state(members, i, MT_NODE_IN);
	return count;
}

static void
check_node(struct sim_members *members, const struct mt_node *node)
{
	struct sim_cluster *cluster = members->cluster;
	struct member *member = &members->members[node->id - 1];
	const struct mt_node *old = &member->node;

	if (node->id >= members->next_node)
		sim_cluster_fail(cluster, "members: node %" PRIu32 " has a number that is free",
		    node->id);
	if (member->is_known && old->added_s != node->added_s)
		sim_cluster_fail(cluster, "members: node %" PRIu32 " was written anew, as if added",
		    node->id);
	if (member->is_known && old->state > MT_NODE_DRAINING &&
	    (old->state != node->state || strcmp(old->disk, node->disk) != 0))
		sim_cluster_fail(cluster, "members: node %" PRIu32 " has left, and is %s again",
		    node->id, mt_node_state_name(node->state));
	member->is_known = true;
	member->node = *node;
}

/* Once it was empty, and every gateway was asked. */
static void
check_unnamed(struct sim_members *members, enum mt_node_state state)
{
	struct sim_cluster *cluster = members->cluster;
	uint32_t shards = (uint32_t)num_min(cluster->options.shard_count, SIM_INVARIANT_SHARDS_MAX);
	struct extent_id id;

	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		for (uint32_t n = 0; is_state(members, i, state) && n < shards; n++)
			if (sim_deletes_named(cluster->deletes, n, i + 1, &id))
				sim_cluster_fail(cluster,
				    "members: node %" PRIu32
				    " is %s, and a manifest names extent %" PRIu32 ".%" PRIu32
				    ".%" PRIu64 " there",
				    i + 1, mt_node_state_name(state), id.shard, id.epoch,
				    id.counter);
}

static void
look_cluster(struct sim_members *members)
{
	struct meta_item *items = NULL;
	struct mt_cluster cluster;
	uint32_t count = 0;
	const char *field;

	if (sim_store_list(members->cluster->store, "cluster", &items, &count) != 0 || count != 1 ||
	    mt_cluster_decode(items->value, items->value_bytes, &cluster, &field) != 0)
		sim_cluster_fail(members->cluster, "the key of the cluster cannot be read");
	mt_free(items);
	if (cluster.next_node < members->next_node)
		sim_cluster_fail(members->cluster, "members: numbers are given again");
	members->next_node = cluster.next_node;
}

/* No drain is forced. A node that is lost may leave fewer, so none is given up behind a race (begin_next). */
static void
check_enough(const struct sim_members *members)
{
	uint32_t count = in_count(members);

	if (members->rival_client != NULL && count < MEMBERS_COPIES)
		sim_cluster_fail(members->cluster,
		    "members: nodes were drained until %" PRIu32 " were left for %u copies", count,
		    MEMBERS_COPIES);
}

/* All that the store says now. Before next_node is there, keys may be half written. */
static void
look(struct sim_members *members)
{
	struct meta_item *items = NULL;
	uint32_t count = 0, seen = 0, known = 0;

	look_cluster(members);
	if (members->next_node == 0)
		return;
	if (sim_store_list(members->cluster->store, MT_NODE_PREFIX, &items, &count) != 0)
		sim_cluster_fail(members->cluster, "out of memory");
	for (uint32_t i = 0; i < count; i++) {
		struct mt_node node = { .version = items[i].version };
		const char *field;

		if (mt_node_decode(items[i].key, items[i].value, items[i].value_bytes, &node,
			&field) != 0 ||
		    node.id > SIM_NODES_MAX)
			sim_cluster_fail(members->cluster, "members: %s: %s", items[i].key, field);
		check_node(members, &node);
		seen++;
	}
	mt_free(items);
	for (uint32_t i = 0; i < SIM_NODES_MAX; i++)
		known += members->members[i].is_known;
	if (known != seen)
		sim_cluster_fail(members->cluster, "members: a node's key is gone");
	check_unnamed(members, MT_NODE_OUT);
	check_enough(members);
}

/* ---- a disk that was put back ---- */

static bool
slots_find(const struct slots *slots, const struct sim_slot *slot)
{
	for (uint32_t i = 0; i < slots->count; i++)
		if (slots->ids[i] == extent_id_pack(&slot->id) &&
		    slots->incarnations[i] == slot->incarnation)
			return true;
	return false;
}

static bool
slots_add(const struct sim_slot *slot, void *arg)
{
	struct slots *slots = arg;

	if (slots->count == MEMBERS_SLOTS_MAX)
		return false;
	slots->ids[slots->count] = extent_id_pack(&slot->id);
	slots->incarnations[slots->count++] = slot->incarnation;
	return true;
}

static bool
slot_is_old(const struct sim_slot *slot, void *arg)
{
	const struct sim_members *members = arg;

	if (members->slots.count < MEMBERS_SLOTS_MAX && !slots_find(&members->slots, slot))
		sim_cluster_fail(members->cluster,
		    "members: node %" PRIu32 " has left, and extent %" PRIu32 ".%" PRIu32
		    ".%" PRIu64 " was put there",
		    members->subject + 1, slot->id.shard, slot->id.epoch, slot->id.counter);
	return true;
}

static void
return_begin(struct sim_members *members)
{
	struct sim_cluster *cluster = members->cluster;
	uint32_t index = members->subject;

	/* The node's own disk, or an empty one with its number. */
	if (below(members, 3) == 0)
		sim_cluster_node_replace(cluster, index);
	members->slots.count = 0;
	(void)sim_check_each_slot(cluster, index, slots_add, &members->slots);
	members->refused_count = 0;
	cluster->nodes[index].has_left = true;
	cluster->nodes[index].is_away = false;
	sim_cluster_node_start(cluster, index);
}

/* The node's process ends for good. */
static void
node_end(struct sim_members *members, uint32_t index)
{
	struct sim_cluster *cluster = members->cluster;

	sim_cluster_node_kill(cluster, index, false);
	cluster->nodes[index].is_away = true;
}

static void
return_end(struct sim_members *members)
{
	(void)sim_check_each_slot(members->cluster, members->subject, slot_is_old, members);
	node_end(members, members->subject);
}

/* ---- asking ---- */

static void
on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct sim_members *members = arg;
	struct sim_cluster *cluster = members->cluster;

	(void)call;
	(void)reply;
	members->asking_count--;
	sim_world_trace(cluster->world, "members: act %d of node %u: rc=%d %s", (int)members->act,
	    members->subject + 1, rc, error == NULL ? "" : error);
	if (members->act == ACT_RETURN && rc == 0)
		sim_cluster_fail(cluster, "members: node %u has left, and was added again",
		    members->subject + 1);
	/* Where no gateway reaches it, or an intruder has taken an empty disk, nothing else is ever heard. */
	if (rc == -EEXIST)
		members->refused_count += MEMBERS_RETURN_TRIES;
	members->refused_count += rc == -ENOENT;
	members->full_count += rc == -ENOSPC;
	look(members);
}

static void
ask(struct sim_members *members, const char *request)
{
	members->call =
	    (struct cleave_call){ .must_not_repeat = true, .fn = on_answer, .arg = members };
	members->asking_count += cleave_control(members->client, &members->call, request) == 0;
}

static void
ask_node(struct sim_members *members, const char *op, const char *more)
{
	char text[MEMBERS_TEXT_BYTES];

	(void)snprintf(text, sizeof(text), "{\"op\":\"%s\",\"node\":%u%s}", op,
	    members->subject + 1, more); /* fits */
	ask(members, text);
}

static void
ask_undrain(struct sim_members *members, uint32_t index)
{
	char text[MEMBERS_TEXT_BYTES];

	(void)snprintf(text, sizeof(text), "{\"op\":\"node.undrain\",\"node\":%u}",
	    index + 1); /* fits */
	ask(members, text);
}

/* Two drains at one moment: where not both may be, one gateway's must see the other's. */
static void
ask_both(struct sim_members *members)
{
	char text[MEMBERS_TEXT_BYTES];

	assert(members->rival != members->subject && members->asking_count == 0);
	ask_node(members, "node.drain", "");
	(void)snprintf(text, sizeof(text), "{\"op\":\"node.drain\",\"node\":%u}",
	    members->rival + 1); /* fits */
	members->rival_call =
	    (struct cleave_call){ .must_not_repeat = true, .fn = on_answer, .arg = members };
	members->asking_count +=
	    cleave_control(members->rival_client, &members->rival_call, text) == 0;
}

static void
ask_add(struct sim_members *members)
{
	const struct sim_cluster_node *own = &members->cluster->nodes[members->subject];
	char text[MEMBERS_TEXT_BYTES];

	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"node.add\",\"address\":\"%s\",\"domain\":\"rack%u\"}", own->address,
	    members->subject + 1); /* fits */
	ask(members, text);
}

/* ---- what is done ---- */

static void
act_end(struct sim_members *members)
{
	members->act = ACT_RESTING;
	members->rest_ticks = below(members, MEMBERS_REST_TICKS);
	members->change_count++;
}

/* The next request of what is being done; or it is done. */
static void
act_on(struct sim_members *members)
{
	uint32_t index = members->subject;
	bool drains = is_state(members, index, MT_NODE_DRAINING);

	switch (members->act) {
	case ACT_ADD:
		if (members->members[index].is_known)
			act_end(members);
		else
			ask_add(members);
		return;
	case ACT_LEAVE:
		if (has_left(members, index)) {
			node_end(members, index);
			act_end(members);
		} else if (!drains && members->is_finishing &&
		    members->full_count >= MEMBERS_FULL_TRIES) {
			act_end(members); /* nobody makes room any more: it stays */
		} else if (drains && below(members, 4) == 0) {
			ask_node(members, "node.show", "");
		} else {
			ask_node(members, drains ? "node.remove" : "node.drain", "");
		}
		return;
	case ACT_STAY:
		if (members->has_drained && !drains)
			act_end(members);
		else
			ask_node(members, drains ? "node.undrain" : "node.drain", "");
		return;
	case ACT_LOSE:
		if (has_left(members, index))
			act_end(members);
		else
			ask_node(members, "node.remove", ",\"lost\":true");
		return;
	case ACT_RETURN:
		if (members->refused_count >= MEMBERS_RETURN_TRIES) {
			return_end(members);
			act_end(members);
		} else {
			ask_add(members);
		}
		return;
	case ACT_RACE:
		if (members->try_count++ == MEMBERS_RACE_TRIES)
			act_end(members);
		else
			ask_both(members);
		return;
	case ACT_RESTING:
		return;
	}
}

/* A node that drains, and nobody wants it to: its index. SIM_NODES_MAX: there is none. */
static uint32_t
stray(const struct sim_members *members)
{
	bool may_be = members->rival_client != NULL || members->is_finishing;

	for (uint32_t i = 0; i < SIM_NODES_MAX && may_be; i++)
		if (is_state(members, i, MT_NODE_DRAINING) &&
		    (members->act != ACT_LEAVE || members->subject != i))
			return i;
	return SIM_NODES_MAX;
}

/* A node of which @fn is true, by the dice. SIM_NODES_MAX: there is none. */
static uint32_t
pick(struct sim_members *members, enum mt_node_state state)
{
	uint32_t count = members->cluster->options.node_count, first = below(members, count);

	for (uint32_t i = 0; i < count; i++)
		if (is_state(members, (first + i) % count, state))
			return (first + i) % count;
	return SIM_NODES_MAX;
}

static void
begin(struct sim_members *members, enum act act, uint32_t index)
{
	members->act = act;
	members->subject = index;
	members->has_drained = false;
	members->full_count = 0;
	sim_world_trace(members->cluster->world, "members: act %d of node %u begins", (int)act,
	    index + 1);
}

static void
begin_add(struct sim_members *members)
{
	uint32_t index = sim_cluster_node_add(members->cluster);

	sim_cluster_node_start(members->cluster, index);
	begin(members, ACT_ADD, index);
}

/* The victim's data is what the run may do without: no other disk may be lost whole. */
static void
begin_lose(struct sim_members *members)
{
	members->is_victim_lost = true;
	node_end(members, members->victim);
	begin(members, ACT_LOSE, members->victim);
}

static void
begin_race(struct sim_members *members)
{
	uint32_t count = members->cluster->options.node_count;

	begin(members, ACT_RACE, pick(members, MT_NODE_IN));
	members->rival = members->subject;
	do
		members->rival = (members->rival + 1) % count;
	while (!is_state(members, members->rival, MT_NODE_IN));
	assert(members->rival != members->subject);
	members->try_count = 0;
	members->race_count++;
}

/* With three nodes left for three copies, and room for another one. */
static void
begin_next(struct sim_members *members)
{
	uint32_t out = pick(members, MT_NODE_OUT), dice = below(members, 8);
	bool has_room = members->cluster->options.node_count < SIM_NODES_MAX;
	bool may_leave = in_count(members) > MEMBERS_COPIES;

	if (dice == 0 && out != SIM_NODES_MAX) {
		begin(members, ACT_RETURN, out);
		return_begin(members);
	} else if (dice == 1 && may_leave && !members->is_victim_lost && members->race_count == 0 &&
	    is_state(members, members->victim, MT_NODE_IN)) {
		begin_lose(members);
	} else if (dice < 4 && may_leave && members->rival_client != NULL) {
		begin_race(members);
	} else if (dice < 6 && may_leave) {
		begin(members, dice == 2 ? ACT_STAY : ACT_LEAVE, pick(members, MT_NODE_IN));
	} else if (has_room) {
		begin_add(members);
	}
}

static void
on_timer(struct loop_timer *timer, void *arg)
{
	struct sim_members *members = arg;

	loop_timer_start(members->loop, timer, 1 + random_below(members->dice, MEMBERS_TICK_NS));
	if (members->asking_count > 0 || !members->cluster->is_made)
		return;
	look(members);
	if (members->next_node == 0)
		return;
	members->has_drained |= is_state(members, members->subject, MT_NODE_DRAINING);
	if (stray(members) != SIM_NODES_MAX)
		ask_undrain(members, stray(members));
	else if (members->act != ACT_RESTING)
		act_on(members);
	else if (members->rest_ticks > 0)
		members->rest_ticks--;
	else if (!members->is_finishing)
		begin_next(members);
}

/* ---- its life ---- */

static void
on_late(struct loop_timer *timer, void *arg)
{
	struct sim_members *members = arg;

	(void)timer;
	members->cluster->nodes[members->late].is_away = false;
	sim_cluster_node_start(members->cluster, members->late);
}

/* @first: index of the gateway that is asked first. */
static struct cleave_client *
create_client(const struct sim_members *members, uint32_t first)
{
	struct sim_cluster *cluster = members->cluster;
	const char *gateways[SIM_GATEWAYS_MAX];
	struct cleave_client_options options = { .gateways = gateways,
		.key = sim_cluster_client_key(cluster),
		.gateway_count = cluster->options.gateway_count,
		.loop = members->loop,
		.sim_host = members->host,
		.control_timeout_ns = MEMBERS_TIMEOUT_NS };
	struct cleave_client *client = NULL;
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	for (uint32_t i = 0; i < options.gateway_count; i++)
		gateways[i] = cluster->gateways[(first + i) % options.gateway_count].address;
	if (cleave_client_create(&options, &client, error) != 0)
		sim_cluster_fail(cluster, "client: %s", error);
	return client;
}

/* Which seeds have a rival: when it was chosen, none of those that mutants.tsv and regressions.tsv name. */
static bool
has_rival(uint64_t seed)
{
	return seed / 5 % 2 == 1;
}

struct sim_members *
sim_members_create(struct sim_cluster *cluster, uint64_t seed, uint32_t victim)
{
	struct sim_members *members = calloc(1, sizeof(*members));

	assert(members != NULL && victim < cluster->options.node_count);
	members->cluster = cluster;
	random_seed(members->dice, seed * 2 + 7);
	members->victim = victim;
	members->late = SIM_NODES_MAX;
	members->host = sim_host_create(cluster->net, "owner");
	assert(members->host != NULL);
	if (!sim_host_is_up(members->host))
		sim_host_start(members->host);
	members->loop = sim_cluster_loop_create(cluster, members->host);
	members->client = create_client(members, 0);
	if (cluster->options.gateway_count > 1 && has_rival(seed))
		members->rival_client = create_client(members, 1);
	loop_timer_init(&members->timer, on_timer, members);
	loop_timer_init(&members->late_timer, on_late, members);
	return members;
}

void
sim_members_start(struct sim_members *members)
{
	struct sim_cluster *cluster = members->cluster;
	uint32_t last = cluster->options.node_count - 1;

	if (!cluster->is_made && last >= MEMBERS_COPIES && below(members, 2) == 0) {
		for (uint32_t i = 0; i <= last; i++)
			sim_cluster_node_start(cluster, i);
		sim_cluster_make(cluster);
		node_end(members, last);
		members->late = last;
		loop_timer_start(sim_world_nature(cluster->world), &members->late_timer,
		    1 + random_below(members->dice, MEMBERS_LATE_NS));
	}
	loop_timer_start(members->loop, &members->timer, 1);
	sim_cluster_start(cluster);
}

static bool
seems_resting(const struct sim_members *members)
{
	return members->act == ACT_RESTING && members->next_node != 0 &&
	    members->asking_count == 0 && stray(members) == SIM_NODES_MAX;
}

/* All that was begun has ended, also by what the store says now: a late drain may just have come about. */
static bool
is_resting(void *arg)
{
	struct sim_members *members = arg;

	if (!seems_resting(members))
		return false;
	look(members);
	return seems_resting(members);
}

void
sim_members_finish(struct sim_members *members, uint64_t limit_ns)
{
	struct sim_cluster *cluster = members->cluster;

	if (members->late_timer.is_active) {
		loop_timer_stop(sim_world_nature(cluster->world), &members->late_timer);
		on_late(&members->late_timer, members);
	}
	members->is_finishing = true;
	sim_cluster_run_until(cluster, is_resting, members, limit_ns,
	    "the change of a node is done");
	/* The disk of a lost node, now that every gateway has heard of it. */
	if (members->is_victim_lost) {
		sim_cluster_run_until(cluster, is_resting, members, limit_ns, "nodes rest");
		begin(members, ACT_RETURN, members->victim);
		return_begin(members);
		sim_cluster_run_until(cluster, is_resting, members, limit_ns,
		    "a lost node is refused");
	}
	loop_timer_stop(members->loop, &members->timer);
	look(members);
	for (uint32_t i = 0; i < cluster->options.node_count; i++) {
		struct sim_cluster_node *own = &cluster->nodes[i];

		if (is_state(members, i, MT_NODE_DRAINING))
			sim_cluster_fail(cluster, "members: node %u drains for ever", i + 1);
		own->is_listed = !own->is_away;
	}
}

uint32_t
sim_members_change_count(const struct sim_members *members)
{
	return members == NULL ? 0 : members->change_count;
}

void
sim_members_destroy(struct sim_members *members)
{
	if (members == NULL)
		return;
	sim_host_kill(members->host, SIM_DEATH_RESET);
	loop_timer_stop(sim_world_nature(members->cluster->world), &members->late_timer);
	loop_timer_stop(members->loop, &members->timer);
	cleave_client_destroy(members->rival_client);
	cleave_client_destroy(members->client);
	loop_destroy(members->loop);
	free(members);
}
