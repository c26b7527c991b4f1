/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health_nodes.c -- each storage node, failure domains, slots, room
 *
 * A node is what the worst of the ports' links to it says: one port that does not reach it is one whose writes wait.
 */
#include "health/health_nodes.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/slot_sizes.h"
#include "cleave/loop.h"
#include "cleave/secure_options.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/unreached.h"
#include "extent/capacity.h"
#include "extent/node_config.h"
#include "extent/room.h"
#include "health/health.h"
#include "port/port_status.h"

/* A node, over all ports. */
struct health_node {
	const struct mt_link_status *link; /* of a port that has it worst */
	bool is_up;                        /* at every port */
	bool is_full, is_slow, is_read_only, is_failing, is_left_out, is_displaced;
	uint64_t forgot_count; /* at all ports: each has its own shards */
	int64_t
	    clock_gap_ms; /* the least that a port has seen: one may have asked before a clock was set */
};

/* Whether the gap @a is less than @b, whichever clock is ahead. */
static bool
is_nearer(int64_t a, int64_t b)
{
	return (a < 0 ? -a : a) < (b < 0 ? -b : b);
}

/* A port may have told nothing: it had no memory, or has not answered. */
static uint32_t
health_link_count(const struct mt_ask *ask)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		if (ask->legs[i].status.links != NULL)
			count = (uint32_t)num_max(count, ask->legs[i].status.link_count);
	}
	assert(count <= MT_NODES_MAX);
	return count;
}

static void
node_look(const struct mt_ask *ask, uint32_t index, struct health_node *ret_node)
{
	*ret_node = (struct health_node){ .is_up = true };
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;
		const struct mt_link_status *link;

		if (status->links == NULL || index >= status->link_count)
			continue;
		link = &status->links[index];
		if (ret_node->link == NULL || is_nearer(link->clock_gap_ms, ret_node->clock_gap_ms))
			ret_node->clock_gap_ms = link->clock_gap_ms;
		if (ret_node->link == NULL || (ret_node->is_up && !link->is_up))
			ret_node->link = link;
		ret_node->is_up = ret_node->is_up && link->is_up;
		ret_node->is_slow = ret_node->is_slow || link->is_slow;
		ret_node->is_read_only = ret_node->is_read_only || link->is_read_only;
		ret_node->is_failing = ret_node->is_failing || link->is_failing;
		ret_node->is_left_out = ret_node->is_left_out || link->is_left_out;
		ret_node->is_displaced = ret_node->is_displaced || link->is_displaced;
		ret_node->forgot_count += link->forgot_count;
		ret_node->is_full = ret_node->is_full || link->is_full ||
		    (link->slots_total > 0 && link->slots_free <= link->slots_reserved);
	}
}

static void
node_object(const struct mt_link_status *link, char out[MT_HEALTH_OBJECT_BYTES])
{
	uint32_t id = link->node_id != 0 ? link->node_id : link->config.node_id;

	/* A node that was never reached has none yet: its address has to do. */
	if (id != 0)
		(void)snprintf(out, MT_HEALTH_OBJECT_BYTES, "node %" PRIu32, id);
	else
		(void)snprintf(out, MT_HEALTH_OBJECT_BYTES, "node %.26s", link->config.address);
}

/* The node is up here: somebody who is told its address has another way there, or none. */
static void
judge_unreached(const struct mt_gateway *gateway, const struct mt_link_status *link,
    const char *object, uint64_t now_ns, struct mt_health *health)
{
	const struct mt_unreached_word *told = link->node_id == 0 || !link->is_direct
	    ? NULL
	    : mt_unreached_find(&gateway->unreached, &gateway->volumes, link->node_id,
		  mt_link_told(link), now_ns);

	if (told != NULL)
		mt_health_add(health, CLEAVE_HEALTH_ADDRESS_UNREACHED, object,
		    now_ns - told->first_ns,
		    "%s: clients are told that it is at %s, where %s at %s does not reach it: it reads at "
		    "gateways",
		    object, told->address, told->by, told->peer);
}

static void
judge_node(const struct mt_gateway *gateway, const struct health_node *node, uint64_t now_ns,
    struct mt_health *health)
{
	const struct mt_link_status *link = node->link;
	const char *address = link->config.address;
	char object[MT_HEALTH_OBJECT_BYTES];

	node_object(link, object);
	if (mt_node_is_in_maintenance(&link->config, now_ns))
		mt_health_add(health, CLEAVE_HEALTH_NODE_MAINTENANCE, object, 0,
		    "%s at %s is in maintenance for %" PRIu64 " s more, and %s", object, address,
		    (link->config.maintenance_until_ns - now_ns) / NUM_S(1) + 1,
		    node->is_up ? "up" : "away");
	else if (!node->is_up && !MUTANT(health_silent) &&
	    (link->trouble[0] != '\0' || link->state_age_ns >= MT_HEALTH_LINK_NS))
		mt_health_add(health, CLEAVE_HEALTH_NODE_DOWN, object, link->state_age_ns,
		    "%s at %s cannot be reached%s%s", object, address,
		    link->trouble[0] != '\0' ? ": " : "", link->trouble);
	if (!node->is_up)
		return;
	/* All ports have asked the same process; the first one's answer is as good as another's. */
	if (link->key_expires_s != 0)
		mt_health_key(health, object, link->key_expires_s);
	mt_health_clock(gateway, health, object, address, node->clock_gap_ms);
	if (link->level != 0 && link->level < gateway->settings.level_max)
		mt_health_add(health, CLEAVE_HEALTH_LEVELS_MIXED, object, 0,
		    "%s at %s speaks up to level %" PRIu32
		    ", and this gateway up to level %" PRIu32,
		    object, address, link->level, (uint32_t)gateway->settings.level_max);
	if (node->is_read_only)
		mt_health_add(health, CLEAVE_HEALTH_NODE_READ_ONLY, object, 0,
		    "%s at %s: its disk takes no more writes", object, address);
	if (node->is_displaced)
		mt_health_add(health, CLEAVE_HEALTH_NODE_DISPLACED, object, 0,
		    "%s at %s: its disk is no longer found by its path: it was moved, deleted, or "
		    "another one is in its place",
		    object, address);
	if (node->is_failing && !node->is_read_only)
		mt_health_add(health, CLEAVE_HEALTH_NODE_FAILING, object, 0,
		    "%s at %s: its disk fails writes (EIO; its log says more)", object, address);
	if (node->forgot_count > 0)
		mt_health_add(health, CLEAVE_HEALTH_NODE_FORGETFUL, object, 0,
		    "%s at %s does not have %" PRIu64 " copies that it had (disk %s)", object,
		    address, node->forgot_count, link->disk[0] != '\0' ? link->disk : "unknown");
	judge_unreached(gateway, link, object, now_ns, health);
	if (node->is_slow)
		mt_health_add(health, CLEAVE_HEALTH_NODE_SLOW, object, 0,
		    "%s at %s was much slower than its peers lately", object, address);
	if (node->is_full && link->config.state == MT_NODE_IN)
		mt_health_add(health, CLEAVE_HEALTH_NODE_FULL, object, 0,
		    "%s at %s has %" PRIu64 " of %" PRIu64 " slots free, and keeps %" PRIu64
		    " back",
		    object, address, link->slots_free, link->slots_total, link->slots_reserved);
}

/* ---- failure domains ---- */

/* Nodes that take data. */
struct health_members {
	struct mt_node_config configs[MT_NODES_MAX];
	bool is_up[MT_NODES_MAX];   /* and takes writes */
	bool is_free[MT_NODES_MAX]; /* up, and not left out (placement.c) */
	uint32_t count;
};

/* Nodes that are left out count where there were not enough without them. */
static void
judge_domains(const struct mt_gateway *gateway, const struct health_members *members,
    struct mt_health *health)
{
	uint32_t min_replicas = gateway->options.min_replicas, up_count = 0;
	bool all[MT_NODES_MAX];
	uint32_t domains, up_domains, free_domains;

	assert(members->count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < members->count; i++) {
		all[i] = true;
		up_count += members->is_up[i];
	}
	domains = mt_node_taking_count(members->configs, all, members->count);
	up_domains = mt_node_taking_count(members->configs, members->is_up, members->count);
	free_domains = mt_node_taking_count(members->configs, members->is_free, members->count);
	if (up_domains < min_replicas)
		mt_health_add(health, CLEAVE_HEALTH_NODES_FEW, "cluster", 0,
		    "%" PRIu32 " of %" PRIu32 " nodes are up, in %" PRIu32 " of %" PRIu32
		    " failure domains; --min-replicas is %" PRIu32,
		    up_count, members->count, up_domains, domains, min_replicas);
	else if (up_domains < CLEAVE_COPIES)
		mt_health_add(health, CLEAVE_HEALTH_DOMAINS_FEW, "cluster", 0,
		    "%" PRIu32 " of %" PRIu32 " failure domains are up: new data has %" PRIu32
		    " copies",
		    up_domains, domains, free_domains >= min_replicas ? free_domains : up_domains);
	else if (free_domains >= min_replicas && free_domains < CLEAVE_COPIES)
		mt_health_add(health, CLEAVE_HEALTH_DOMAINS_FEW, "cluster", 0,
		    "%" PRIu32 " of %" PRIu32 " failure domains take new data: it has %" PRIu32
		    " copies",
		    free_domains, domains, free_domains);
}

/* ---- slots ---- */

/* An extent is as long as the smallest slot of its nodes, and takes a whole slot of each: the rest of it is wasted. */
static void
judge_slots(const struct mt_link_status *const *links, uint32_t count, struct mt_health *health)
{
	struct slot_size slots[MT_NODES_MAX];
	char object[MT_HEALTH_OBJECT_BYTES];
	uint64_t others;

	assert(count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < count; i++)
		slots[i] = (struct slot_size){ links[i]->slot_bytes, links[i]->slots_total };
	others = slot_sizes_usual(slots, count);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t slot_bytes = links[i]->slot_bytes;

		if (num_max(slot_bytes, others) <
		    MT_HEALTH_SLOTS_FACTOR * num_min(slot_bytes, others))
			continue;
		node_object(links[i], object);
		mt_health_add(health, CLEAVE_HEALTH_SLOTS_DIFFER, object, 0,
		    "%s at %s has slots of %" PRIu64 " KiB, the others of %" PRIu64
		    " KiB: an extent with a copy at both wastes %" PRIu64
		    " %% of each of %s slots that it takes",
		    object, links[i]->config.address, slot_bytes / NUM_KIB(1), others / NUM_KIB(1),
		    slot_sizes_wasted(slot_bytes, others),
		    slot_bytes < others ? "the others'" : "its");
	}
}

/* ---- room ---- */

#define FULL_NAMED_MAX 4u

void
mt_health_full_text(const struct mt_ask *ask, char ret_text[MT_HEALTH_FULL_BYTES])
{
	uint32_t link_count = health_link_count(ask), full_count = 0, other_count = 0;
	char names[MT_HEALTH_FULL_BYTES / 2] = "";

	for (uint32_t i = 0; i < link_count; i++) {
		struct health_node node;
		size_t used = strlen(names);

		node_look(ask, i, &node);
		if (node.link == NULL || node.link->config.state != MT_NODE_IN || !node.is_up)
			continue;
		if (!node.is_full)
			other_count++;
		else if (full_count++ < FULL_NAMED_MAX)
			(void)snprintf(names + used, sizeof(names) - used, "%s %" PRIu32,
			    used == 0 ? "" : ",", node.link->node_id);
	}
	ret_text[0] = '\0';
	if (full_count > 0 && other_count > 0)
		(void)snprintf(ret_text, MT_HEALTH_FULL_BYTES,
		    "; node%s%s%s full, and others have room", full_count == 1 ? "" : "s", names,
		    full_count == 1                    ? " is"
			: full_count <= FULL_NAMED_MAX ? " are"
						       : " and more are");
}

static struct mt_room_node
room_node(const struct health_node *node)
{
	const struct mt_link_status *link = node->link;

	assert(link->slots_total > 0);
	return (struct mt_room_node){ .config = &link->config,
		.slots_total = link->slots_total,
		.slots_free = link->slots_free,
		.slots_reserved = link->slots_reserved,
		.slot_bytes = link->slot_bytes,
		.is_read_only = node->is_read_only,
		.is_ready = node->is_up && !node->is_left_out };
}

static void
judge_room(const struct mt_ask *ask, const struct mt_room_node *nodes, uint32_t count,
    struct mt_health *health)
{
	struct mt_room *room = &health->room;
	char trash[MT_HEALTH_TRASH_BYTES], full[MT_HEALTH_FULL_BYTES], now[48] = "";
	uint64_t left;

	mt_health_trash_text(ask->gateway, trash);
	mt_health_full_text(ask, full);
	mt_room_of(nodes, count, ask->gateway->options.min_replicas, room);
	assert(room->data_used <= room->data_total);
	left = room->data_total - room->data_used;
	if (room->data_total == 0 || room->used_percent < MT_HEALTH_ROOM_LOW)
		return;
	if (room->data_free < left)
		(void)snprintf(now, sizeof(now), ", %" PRIu64 " of them now", /* fits */
		    room->data_free / NUM_MIB(1));
	mt_health_add(health,
	    room->used_percent >= MT_HEALTH_ROOM_END ? CLEAVE_HEALTH_ROOM_END
						     : CLEAVE_HEALTH_ROOM_LOW,
	    "cluster", 0,
	    "%" PRIu32 " %% of the room for data is in use: %" PRIu64 " of %" PRIu64
	    " MiB are left%s%s%s",
	    room->used_percent, left / NUM_MIB(1), room->data_total / NUM_MIB(1), now, full, trash);
}

void
mt_health_judge_nodes(const struct mt_gateway *gateway, const struct mt_ask *ask,
    struct mt_health *health)
{
	const struct mt_link_status *slot_links[MT_NODES_MAX];
	struct health_members members = { .count = 0 };
	struct mt_room_node room[MT_NODES_MAX];
	uint64_t now_ns = loop_now_ns(gateway->options.loop);
	uint32_t room_count = 0, slot_count = 0, link_count = health_link_count(ask);

	for (uint32_t i = 0; i < link_count; i++) {
		struct health_node node;
		bool is_up;

		node_look(ask, i, &node);
		if (node.link == NULL || mt_node_is_gone(&node.link->config))
			continue;
		judge_node(gateway, &node, now_ns, health);
		if (node.link->slots_total != 0)
			room[room_count++] = room_node(&node);
		if (node.link->config.state != MT_NODE_IN)
			continue;
		is_up = node.is_up && !node.is_read_only;
		members.is_up[members.count] = is_up;
		members.is_free[members.count] = is_up && !node.is_left_out &&
		    !mt_node_is_in_maintenance(&node.link->config, now_ns);
		members.configs[members.count++] = node.link->config;
		if (node.link->slots_total != 0)
			slot_links[slot_count++] = node.link;
	}
	if (link_count == 0)
		return; /* no port has told */
	judge_domains(gateway, &members, health);
	judge_slots(slot_links, slot_count, health);
	judge_room(ask, room, room_count, health);
}
