/* SPDX-License-Identifier: Apache-2.0 */
/* node_reach.h -- which storage nodes do the other gateways reach? */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_NODE_REACH_H
#define CLEAVE_MIDDLETIER_CLUSTER_NODE_REACH_H

#include <stdint.h>

#include "common/limits.h"

struct mt_gateway;

/* Nodes, each with one gateway that reaches it. */
struct mt_node_reached {
	uint32_t count;
	uint32_t node_ids[MT_NODES_MAX];
	uint64_t gateway_ids[MT_NODES_MAX];
};
typedef void (*mt_node_reach_fn)(const struct mt_node_reached *reached, void *arg);

/*
 * mt_node_reach_start -- ask every other gateway that lives
 *
 * A gateway that does not answer reaches nothing. Returns 0: @fn once, later; -ENOENT there is no other one, -EBUSY
 * another question is under way, -ENOMEM: never. One that is under way when the gateway is destroyed ends unseen.
 * Threads: the main loop's, as for all of this header.
 */
int mt_node_reach_start(struct mt_gateway *gateway, mt_node_reach_fn fn, void *arg);
/* mt_node_reached_by -- a gateway that reaches node @node_id; 0: none of them does. */
uint64_t mt_node_reached_by(const struct mt_node_reached *reached, uint32_t node_id);
/* mt_node_reach_fini -- nobody runs main's loop any more. */
void mt_node_reach_fini(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_NODE_REACH_H */
