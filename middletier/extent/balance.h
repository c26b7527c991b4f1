/* SPDX-License-Identifier: Apache-2.0 */
/* balance.h -- how copies spread over nodes: whether they fit, and what each node's share of them is */
#ifndef CLEAVE_MIDDLETIER_EXTENT_BALANCE_H
#define CLEAVE_MIDDLETIER_EXTENT_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

struct mt_link;
struct mt_node_config;

/* A node that takes copies, and what it has. */
struct mt_balance_node {
	const struct mt_node_config *config;
	uint64_t slots_total, slots_used;
	uint64_t slots_share; /* mt_balance_shares */
};

/*
 * mt_balance_fits -- do copies that take @slots_used fit, when no domain has more than a copy of an extent?
 *
 * @nodes: those that take them, empty or not: @slots_used is of all copies, also those that are there already.
 */
bool mt_balance_fits(const struct mt_balance_node *nodes, uint32_t count, uint64_t slots_used);
/* mt_balance_room -- so many extents more find slots for all copies, where node i has @slots_free[i] that they may take */
uint64_t mt_balance_room(const struct mt_balance_node *nodes, uint32_t count,
    const uint64_t *slots_free);
/*
 * mt_balance_shares -- the slots that each of @nodes has in use when what they hold is spread evenly
 *
 * Evenly: the free share of each, times its weight, is the same, as placement.c wants it; but no domain has more than a
 * copy of an extent. A node of little weight is empty while the others have much room.
 */
void mt_balance_shares(struct mt_balance_node *nodes, uint32_t count);
/*
 * mt_balance_links -- the members among @links that have said how much room they have, with their shares
 *
 * @ret_indexes: of each in @links. Nodes that drain or have left are not among them. Returns how many there are.
 */
uint32_t mt_balance_links(const struct mt_link *links, uint32_t link_count,
    struct mt_balance_node *ret_nodes, uint32_t *ret_indexes);

#endif /* CLEAVE_MIDDLETIER_EXTENT_BALANCE_H */
