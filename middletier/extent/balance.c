/* SPDX-License-Identifier: Apache-2.0 */
/*
 * balance.c -- how copies spread over nodes: whether they fit, and what each node's share of them is
 *
 * An extent has its copies in as many domains (of mt_domain_depth) as it has copies. So a domain holds at most a third of
 * all copies, whatever room it has; and when none holds more, the copies fit.
 *
 * Shares are found as water finds its level: the level is a free share times weight, the same for all nodes; each has in
 * use what is above it. A domain that would have more than its third gets a level of its own.
 */
#include "extent/balance.h"

#include "base/check.h"
#include "base/num.h"
#include "catalog/node_key.h"
#include "cleave/wire.h"
#include "common/limits.h"
#include "extent/capacity.h"
#include "extent/node_config.h"
#include "extent/node_link.h"

#define BALANCE_SCALE UINT64_C(1000000) /* a level at which a node of weight 100 is empty */

/* Gives each node the number of its domain, from 0 on. Returns how many there are. */
static uint32_t
balance_domains(const struct mt_balance_node *nodes, uint32_t count,
    uint32_t ret_domains[MT_NODES_MAX])
{
	const struct mt_node_config *configs[MT_NODES_MAX] = { NULL };
	uint32_t domain_count = 0, depth;

	assert(count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < count; i++)
		configs[i] = nodes[i].config;
	depth = mt_configs_domain_depth(configs, count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t k = 0;

		while (k < i && !mt_node_is_same_domain(configs[i], configs[k], depth))
			k++;
		ret_domains[i] = k < i ? ret_domains[k] : domain_count++;
	}
	return domain_count;
}

/* The most that a domain can have of @slots_used slots. */
static uint64_t
balance_domain_max(uint32_t domain_count, uint64_t slots_used)
{
	uint64_t copies = num_min(domain_count, CLEAVE_COPIES);

	return copies == 0 ? 0 : (slots_used + copies - 1) / copies;
}

bool
mt_balance_fits(const struct mt_balance_node *nodes, uint32_t count, uint64_t slots_used)
{
	uint32_t domains[MT_NODES_MAX];
	uint32_t domain_count = balance_domains(nodes, count, domains);
	uint64_t max = balance_domain_max(domain_count, slots_used), usable = 0;

	assert(count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < domain_count; i++) {
		uint64_t slots = 0;

		for (uint32_t k = 0; k < count; k++)
			slots += domains[k] == i ? nodes[k].slots_total : 0;
		usable += num_min(slots, max);
	}
	return usable >= slots_used;
}

uint64_t
mt_balance_room(const struct mt_balance_node *nodes, uint32_t count, const uint64_t *slots_free)
{
	uint32_t domains[MT_NODES_MAX];
	uint32_t domain_count = balance_domains(nodes, count, domains);
	uint64_t copies = num_min(domain_count, CLEAVE_COPIES);
	uint64_t free_of[MT_NODES_MAX] = { 0 }, low = 0, high = 1;

	assert(count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		free_of[domains[i]] += slots_free[i];
		high += slots_free[i];
	}
	/* A domain takes one copy of each extent at most: low of them fit, high do not. */
	while (high - low > 1) {
		uint64_t extents = low + (high - low) / 2, usable = 0;

		for (uint32_t i = 0; i < domain_count; i++)
			usable += num_min(free_of[i], extents);
		if (usable >= extents * copies)
			low = extents;
		else
			high = extents;
	}
	return low;
}

/* ---- shares ---- */

/* Slots that @node has in use at @level. */
static uint64_t
balance_used_at(const struct mt_balance_node *node, uint64_t level)
{
	uint64_t free_part = level * MT_NODE_WEIGHT_DEFAULT / mt_node_weight(node->config);

	return free_part >= BALANCE_SCALE
	    ? 0
	    : node->slots_total - node->slots_total * free_part / BALANCE_SCALE;
}

/* The same of all nodes whose domain is in @mask. */
static uint64_t
balance_sum_at(const struct mt_balance_node *nodes, uint32_t count, const uint32_t *domains,
    uint64_t mask, uint64_t level)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		if ((mask >> domains[i] & 1) != 0)
			sum += balance_used_at(&nodes[i], level);
	}
	return sum;
}

/* The highest level at which they have @slots in use; 0, all of them full, where they have no room for so many. */
static uint64_t
balance_level(const struct mt_balance_node *nodes, uint32_t count, const uint32_t *domains,
    uint64_t mask, uint64_t slots)
{
	uint64_t low = 0, high = BALANCE_SCALE * MT_NODE_WEIGHT_MAX / MT_NODE_WEIGHT_DEFAULT + 1;

	while (high - low > 1) {
		uint64_t level = low + (high - low) / 2;

		if (balance_sum_at(nodes, count, domains, mask, level) >= slots)
			low = level;
		else
			high = level;
	}
	return low;
}

/* The nodes of the domains in @mask get their shares of @slots. */
static void
balance_give(struct mt_balance_node *nodes, uint32_t count, const uint32_t *domains, uint64_t mask,
    uint64_t slots)
{
	uint64_t level = balance_level(nodes, count, domains, mask, slots);

	for (uint32_t i = 0; i < count; i++) {
		if ((mask >> domains[i] & 1) != 0)
			nodes[i].slots_share = balance_used_at(&nodes[i], level);
	}
}

void
mt_balance_shares(struct mt_balance_node *nodes, uint32_t count)
{
	uint32_t domains[MT_NODES_MAX];
	uint32_t domain_count = balance_domains(nodes, count, domains);
	uint64_t slots = 0, max, mask = 0, over;

	assert(count <= MT_NODES_MAX);
	assert(domain_count <= count);
	_Static_assert(MT_NODES_MAX <= 64, "domains are bits of a mask");
	for (uint32_t i = 0; i < count; i++) {
		slots += nodes[i].slots_used;
		mask |= UINT64_C(1) << domains[i];
	}
	max = balance_domain_max(domain_count, slots);
	/* Each time round at least a domain leaves the mask. */
	do {
		uint64_t level = balance_level(nodes, count, domains, mask, slots);

		over = 0;
		for (uint32_t i = 0; i < domain_count; i++) {
			uint64_t bit = UINT64_C(1) << i & mask;

			if (balance_sum_at(nodes, count, domains, bit, level) > max)
				over |= bit;
		}
		for (uint32_t i = 0; i < domain_count; i++) {
			if ((over >> i & 1) == 0)
				continue;
			balance_give(nodes, count, domains, UINT64_C(1) << i, max);
			slots -= num_min(slots, max);
		}
		mask &= ~over;
	} while (over != 0);
	balance_give(nodes, count, domains, mask, slots);
}

uint32_t
mt_balance_links(const struct mt_link *links, uint32_t link_count,
    struct mt_balance_node *ret_nodes, uint32_t *ret_indexes)
{
	uint32_t count = 0;

	assert(link_count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < link_count; i++) {
		const struct mt_link *link = &links[i];

		if (link->config.state != MT_NODE_IN || link->slots_total == 0)
			continue;
		assert(link->slots_free <= link->slots_total);
		ret_indexes[count] = i;
		ret_nodes[count++] = (struct mt_balance_node){ .config = &link->config,
			.slots_total = link->slots_total,
			.slots_used = link->slots_total - link->slots_free };
	}
	mt_balance_shares(ret_nodes, count);
	return count;
}
