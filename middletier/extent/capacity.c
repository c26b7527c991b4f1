/* SPDX-License-Identifier: Apache-2.0 */
/* capacity.c -- see capacity.h */
#include "extent/capacity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/domain.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/node_key.h"
#include "cleave/wire.h"
#include "common/settings.h"
#include "extent/balance.h"
#include "extent/extent.h"
#include "extent/node_link.h"

#define CAPACITY_HELP                                                                               \
	"give them larger disks, or smaller slots (cleave-storage format --slot-size), add nodes, " \
	"or make a cluster of fewer --shards"

/* A path that is shorter than @depth is a domain of its own, that of all below it where it ends. */
static bool
domain_is_same(const char *a, const char *b, uint32_t depth)
{
	assert(depth > 0);
	for (; *a == *b; a++, b++) {
		if (*a == '\0' || (*a == '/' && --depth == 0))
			return true;
	}
	return depth == 1 && ((*a == '\0' && *b == '/') || (*a == '/' && *b == '\0'));
}

bool
mt_node_is_same_domain(const struct mt_node_config *a, const struct mt_node_config *b,
    uint32_t depth)
{
	if (a == b)
		return true;
	return a->domain[0] != '\0' && domain_is_same(a->domain, b->domain, depth);
}

/* How many domains of @depth parts members are of; it stops to count at CLEAVE_COPIES. */
static uint32_t
domain_count_at(const struct mt_node_config *const *configs, uint32_t config_count, uint32_t depth)
{
	const struct mt_node_config *first[CLEAVE_COPIES];
	uint32_t count = 0;

	for (uint32_t i = 0; i < config_count && count < CLEAVE_COPIES; i++) {
		const struct mt_node_config *config = configs[i];
		bool is_first = config->state == MT_NODE_IN;

		for (uint32_t k = 0; k < count; k++)
			is_first = is_first && !mt_node_is_same_domain(config, first[k], depth);
		if (is_first)
			first[count++] = config;
	}
	return count;
}

uint32_t
mt_configs_domain_depth(const struct mt_node_config *const *configs, uint32_t count)
{
	assert(count <= MT_NODES_MAX);
	for (uint32_t depth = 1; depth < DOMAIN_PARTS_MAX; depth++) {
		if (domain_count_at(configs, count, depth) == CLEAVE_COPIES)
			return depth;
	}
	return MT_DOMAIN_WHOLE;
}

uint32_t
mt_domain_depth(const struct mt_link *links, uint32_t link_count)
{
	const struct mt_node_config *configs[MT_NODES_MAX] = { NULL };

	assert(link_count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < link_count; i++)
		configs[i] = &links[i].config;
	return mt_configs_domain_depth(configs, link_count);
}

uint32_t
mt_node_domain_count(const struct mt_node_config *nodes, uint32_t count)
{
	uint32_t domain_count = 0;

	assert(count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		bool is_first = true;

		for (uint32_t k = 0; k < i; k++)
			is_first = is_first &&
			    !mt_node_is_same_domain(&nodes[i], &nodes[k], MT_DOMAIN_WHOLE);
		domain_count += is_first;
	}
	return domain_count;
}

uint32_t
mt_node_taking_count(const struct mt_node_config *nodes, const bool *taking, uint32_t count)
{
	const struct mt_node_config *configs[MT_NODES_MAX] = { NULL }, *first[MT_NODES_MAX];
	uint32_t depth, domain_count = 0;

	assert(count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < count; i++)
		configs[i] = &nodes[i];
	depth = mt_configs_domain_depth(configs, count);
	for (uint32_t i = 0; i < count; i++) {
		bool is_first = taking[i];

		for (uint32_t k = 0; k < domain_count; k++)
			is_first = is_first && !mt_node_is_same_domain(&nodes[i], first[k], depth);
		if (is_first)
			first[domain_count++] = &nodes[i];
	}
	return domain_count;
}

/* The slots of a domain, at the first of its links; 0 at the others. */
static uint64_t
capacity_domain_slots(const struct mt_link *links, uint32_t link_count, uint32_t first)
{
	uint32_t depth = mt_domain_depth(links, link_count);
	uint64_t slots = 0;

	assert(first < link_count);
	for (uint32_t i = 0; i < link_count; i++) {
		if (mt_link_is_gone(&links[i]) ||
		    !mt_node_is_same_domain(&links[i].config, &links[first].config, depth))
			continue;
		if (i < first)
			return 0;
		slots += links[i].slots_total;
	}
	return slots;
}

int
mt_capacity_check(const struct mt_link *links, uint32_t link_count, uint32_t shard_count,
    char *ret_text, size_t text_bytes)
{
	uint64_t copy_slots = (uint64_t)CLEAVE_SLOTS_PER_SHARD_MIN * shard_count;
	uint64_t total = 0, usable = 0, copies = 0;

	assert(shard_count > 0);
	for (uint32_t i = 0; i < link_count; i++) {
		uint64_t slots = capacity_domain_slots(links, link_count, i);

		if (mt_link_is_gone(&links[i]))
			continue;
		if (links[i].slots_total == 0)
			return 0;
		total += links[i].slots_total;
		/* A domain has at most one copy of each extent: slots beyond those are of no use. */
		usable += num_min(slots, copy_slots);
		copies += slots > 0;
	}
	copies = num_min(copies, CLEAVE_COPIES);
	if (usable >= copies * copy_slots)
		return 0;
	/* Copies are equal, so a domain that has more than a copy's slots helps no other. */
	if (total < copies * copy_slots) {
		(void)snprintf(ret_text, text_bytes,
		    "the nodes have %" PRIu64 " slots in all, and %" PRIu32 " shards in %" PRIu64
		    " copies take %" PRIu64 " at least, %u a shard and copy: " CAPACITY_HELP,
		    total, shard_count, copies, copies * copy_slots, CLEAVE_SLOTS_PER_SHARD_MIN);
		return -ENOSPC;
	}
	(void)snprintf(ret_text, text_bytes,
	    "%" PRIu64 " copies of %" PRIu32 " shards take %" PRIu64
	    " slots at least in as many failure domains, and only %" PRIu64 " of %" PRIu64
	    " can be used for that, so unevenly are the nodes' sizes: " CAPACITY_HELP,
	    copies, shard_count, copy_slots, usable, total);
	return -EXFULL;
}

uint64_t
mt_capacity_data_bytes(const struct mt_link *links, uint32_t link_count, uint32_t shard_count)
{
	struct mt_balance_node nodes[MT_NODES_MAX];
	uint32_t indexes[MT_NODES_MAX];
	uint64_t slots[MT_NODES_MAX], slot_bytes = UINT64_MAX, room;
	uint64_t taken = (uint64_t)CLEAVE_SLOTS_PER_SHARD_MIN * shard_count;
	uint32_t count = mt_balance_links(links, link_count, nodes, indexes);

	assert(count <= MT_NODES_MAX && shard_count > 0);
	for (uint32_t i = 0; i < count; i++) {
		const struct mt_link *link = &links[indexes[i]];

		slots[i] = link->slots_total - num_min(link->slots_reserved, link->slots_total);
		slot_bytes = num_min(slot_bytes, link->slot_bytes);
	}
	room = count == 0 ? 0 : mt_balance_room(nodes, count, slots);
	return room > taken ? (room - taken) * slot_bytes : 0;
}

bool
mt_capacity_holds(const struct mt_link *link, uint64_t bytes)
{
	assert(bytes < UINT64_MAX - MT_EXTENT_OVERHEAD_BYTES);
	return link->slot_bytes >= MT_EXTENT_OVERHEAD_BYTES + bytes || MUTANT(slots_ignored);
}

void
mt_capacity_note_slot(struct mt_shared *shared, uint64_t slot_bytes)
{
	uint64_t seen = atomic_load(&shared->slot_bytes_min);

	assert(slot_bytes > 0);
	while ((seen == 0 || slot_bytes < seen) &&
	    !atomic_compare_exchange_weak(&shared->slot_bytes_min, &seen, slot_bytes))
		;
}
