/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c -- see check.h
 *
 * Copies are compared as they lie on the simulated disks, found by their slots' pages: no daemon's
 * word is taken for it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "check.h"
#include "cleave/disk.h"
#include "cleave/loop.h"
#include "invariant.h"
#include "middletier/common/port.h"
#include "middletier/extent/node_link.h"
#include "middletier/session/session.h"
#include "splitlib/core/device_memory.h"
#include "splitlib/core/port.h"
#include "splitlib/sim/loop_sim.h"
#include "storage-node/format/ondisk.h"
#include "storage-node/node_state.h"

#define IDLE_LIMIT_NS NUM_S(60)

struct copies {
	struct sim_slot *items;
	uint32_t count, max;
	const struct sim_cluster *cluster;
};

static bool
copies_add(const struct sim_slot *slot, void *arg)
{
	struct copies *copies = arg;

	if (!slot->is_sealed || slot->is_damaged || !sim_check_slot_is_known(copies->cluster, slot))
		return true;
	if (copies->count == copies->max) {
		copies->max = copies->max * 2 + 256;
		copies->items = realloc(copies->items, copies->max * sizeof(*copies->items));
		assert(copies->items != NULL);
	}
	copies->items[copies->count++] = *slot;
	return true;
}

/* The younger of a slot's two state pages. Returns false when there is none. */
static bool
slot_state(const struct disk_sim *disk, const struct ondisk_super *super, uint32_t slot,
    struct ondisk_state *ret_state)
{
	uint8_t page[ONDISK_PAGE_BYTES];
	struct ondisk_state state;
	const char *field;
	bool has_any = false;

	for (uint32_t copy = 0; copy < 2; copy++) {
		disk_sim_peek(disk, ondisk_state_offset(super, slot, copy), page, sizeof(page));
		if (ondisk_state_decode(page, super, slot, &state, &field) != 0 ||
		    (has_any && state.generation < ret_state->generation))
			continue;
		*ret_state = state;
		has_any = true;
	}
	return has_any;
}

static bool
slot_look(const struct disk_sim *disk, const struct ondisk_super *super, uint32_t index,
    struct sim_slot *ret_slot)
{
	uint8_t page[ONDISK_PAGE_BYTES];
	struct ondisk_state state = { 0 };
	struct ondisk_slot slot;
	const char *field;
	bool has_state;

	disk_sim_peek(disk, ondisk_slot_offset(super, index), page, sizeof(page));
	if (ondisk_slot_decode(page, super, index, &slot, &field) != 0)
		return false;
	has_state = slot_state(disk, super, index, &state) &&
	    state.slot.incarnation == slot.incarnation;
	if (has_state && state.state == ONDISK_SLOT_DELETED)
		return false;
	ret_slot->id = slot.id;
	ret_slot->incarnation = slot.incarnation;
	ret_slot->is_sealed = has_state && state.state == ONDISK_SLOT_SEALED;
	ret_slot->is_damaged = has_state && state.is_damaged;
	ret_slot->length_bytes = has_state ? state.length_bytes : 0;
	ret_slot->data_offset = ondisk_data_offset(super, index);
	return true;
}

bool
sim_check_each_slot(struct sim_cluster *cluster, uint32_t node,
    bool (*fn)(const struct sim_slot *slot, void *arg), void *arg)
{
	const struct disk_sim *disk = cluster->nodes[node].disk;
	uint8_t page[ONDISK_PAGE_BYTES];
	struct sim_slot slot = { .node = node };
	struct ondisk_super super;
	const char *field;

	disk_sim_peek(disk, ondisk_super_offset(0), page, sizeof(page));
	if (ondisk_super_decode(page, disk_sim_capacity(disk), &super, &field) != 0) {
		disk_sim_peek(disk, ondisk_super_offset(1), page, sizeof(page));
		if (ondisk_super_decode(page, disk_sim_capacity(disk), &super, &field) != 0)
			sim_cluster_fail(cluster, "node %u: superblock: %s", node + 1, field);
	}
	for (uint32_t i = 0; i < super.slot_count; i++)
		if (slot_look(disk, &super, i, &slot) && !fn(&slot, arg))
			return false;
	return true;
}

static int
copy_compare(const void *a, const void *b)
{
	const struct sim_slot *x = a, *y = b;

	if (x->id.shard != y->id.shard)
		return x->id.shard < y->id.shard ? -1 : 1;
	if (x->id.epoch != y->id.epoch)
		return x->id.epoch < y->id.epoch ? -1 : 1;
	if (x->id.counter != y->id.counter)
		return x->id.counter < y->id.counter ? -1 : 1;
	return x->node < y->node ? -1 : 1;
}

static void
copies_check_equal(struct sim_cluster *cluster, const struct sim_slot *a, const struct sim_slot *b)
{
	uint8_t page_a[DISK_ALIGN], page_b[DISK_ALIGN];

	if (a->length_bytes != b->length_bytes)
		sim_cluster_fail(cluster,
		    "extent %u/%u/%llu is sealed at %llu on node %u, at %llu on node %u",
		    a->id.shard, a->id.epoch, (unsigned long long)a->id.counter,
		    (unsigned long long)a->length_bytes, a->node + 1,
		    (unsigned long long)b->length_bytes, b->node + 1);
	for (uint64_t at = 0; at < a->length_bytes; at += DISK_ALIGN) {
		disk_sim_peek(cluster->nodes[a->node].disk, a->data_offset + at, page_a,
		    sizeof(page_a));
		disk_sim_peek(cluster->nodes[b->node].disk, b->data_offset + at, page_b,
		    sizeof(page_b));
		if (memcmp(page_a, page_b, sizeof(page_a)) != 0)
			sim_cluster_fail(cluster,
			    "extent %u/%u/%llu differs at %llu between nodes %u and %u",
			    a->id.shard, a->id.epoch, (unsigned long long)a->id.counter,
			    (unsigned long long)at, a->node + 1, b->node + 1);
	}
}

/* A slot that its node takes for free: the page that says so was lost, with other data. */
static bool
copy_is_gone(struct sim_cluster *cluster, const struct sim_slot *slot)
{
	const struct sim_cluster_node *own = &cluster->nodes[slot->node];
	struct sim_copy copy;

	if (own->node == NULL || !own->is_ready)
		return false;
	sim_node_copy(own->node, &slot->id, &copy);
	return !copy.is_held;
}

void
sim_check_copies(struct sim_cluster *cluster)
{
	struct copies copies = { .cluster = cluster };

	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		(void)sim_check_each_slot(cluster, i, copies_add, &copies);
	if (copies.count > 0)
		qsort(copies.items, copies.count, sizeof(*copies.items), copy_compare);
	for (uint32_t i = 0; i + 1 < copies.count; i++) {
		const struct sim_slot *a = &copies.items[i], *b = a + 1;

		if (a->id.shard == b->id.shard && a->id.epoch == b->id.epoch &&
		    a->id.counter == b->id.counter && !copy_is_gone(cluster, a) &&
		    !copy_is_gone(cluster, b))
			copies_check_equal(cluster, a, b);
	}
	free(copies.items);
}

/* The names of all who are busy; the text is empty when nobody is. */
struct idle {
	struct sim_cluster *cluster;
	char text[128];
};

static void __attribute__((format(printf, 3, 4)))
idle_not(struct idle *idle, bool is_busy, const char *format, ...)
{
	va_list args;

	if (!is_busy)
		return;
	va_start(args, format);
	(void)vsnprintf(idle->text, sizeof(idle->text), format, args);
	va_end(args);
}

static void
idle_port(struct idle *idle, const struct sim_cluster_gateway *gateway, const struct mt_port *port)
{
	const struct receive_pool *pool = &port->split->pool;
	struct loop_link *link, *next;

	idle_not(idle, pool->free_count != pool->count, "%s: %u of %u receives are back",
	    gateway->address, pool->free_count, pool->count);
	for (uint32_t i = 0; i < port->link_count; i++)
		idle_not(idle, port->links[i].call_count > 0, "%s: %u calls to node %u",
		    gateway->address, port->links[i].call_count, port->links[i].node_id);
	for (uint32_t i = 0; i < port->shard_count; i++)
		idle_not(idle, port->shards[i].read_count > 0, "%s: %u reads in shard %u",
		    gateway->address, port->shards[i].read_count, port->shards[i].index);
	LIST_FOREACH_SAFE((struct loop_link *)&port->sessions, link, next) {
		const struct mt_session *session = LIST_ENTRY(link, struct mt_session, link);

		idle_not(idle, session->request_count > 0, "%s: %u requests in a session",
		    gateway->address, session->request_count);
	}
}

static void
idle_node(struct idle *idle, const struct sim_cluster_node *own)
{
	const struct node *node = own->node;
	const struct receive_pool *pool = &node->port->pool;

	idle_not(idle, pool->free_count != pool->count, "%s: %u of %u receives are back",
	    own->address, pool->free_count, pool->count);
	idle_not(idle, node->requests_busy_count > 0, "%s: %u requests", own->address,
	    node->requests_busy_count);
	idle_not(idle, node->appends_count > 0, "%s: %u appends", own->address,
	    node->appends_count);
	idle_not(idle, node->replies_count > 0, "%s: %u replies", own->address,
	    node->replies_count);
}

static bool
cluster_is_idle(void *arg)
{
	struct idle *idle = arg;
	const struct sim_cluster *cluster = idle->cluster;

	idle->text[0] = 0;
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		if (cluster->gateways[i].gateway != NULL)
			for (uint32_t k = 0; k < cluster->options.port_count; k++)
				idle_port(idle, &cluster->gateways[i],
				    &cluster->gateways[i].gateway->ports[k]);
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		if (cluster->nodes[i].node != NULL)
			idle_node(idle, &cluster->nodes[i]);
	return idle->text[0] == 0;
}

void
sim_check_idle(struct sim_cluster *cluster)
{
	struct idle idle = { .cluster = cluster };
	int rc = sim_world_run(cluster->world, cluster_is_idle, &idle,
	    sim_world_now_ns(cluster->world) + IDLE_LIMIT_NS);

	if (rc != 0)
		sim_cluster_fail(cluster, "not idle while there is nothing to do: %s", idle.text);
}
