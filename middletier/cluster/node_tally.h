/* SPDX-License-Identifier: Apache-2.0 */
/* node_tally.h -- what a node holds of all shards, asked of every gateway that lives */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_NODE_TALLY_H
#define CLEAVE_MIDDLETIER_CLUSTER_NODE_TALLY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "port/node_usage.h"

struct mt_ask;
struct mt_gateway;

struct mt_node_tally {
	uint32_t extent_count;                          /* copies that shards name there */
	uint64_t bytes;                                 /* of the sealed ones */
	struct mt_leaving_count leaving[MT_LEAVING_NR]; /* what they wait for, if it drains */
	uint64_t
	    bytes_per_s; /* that all ports together may copy; of gateways before: not counted */
	uint32_t unserved_count;  /* shards that nobody serves now, and may have copies there */
	uint64_t unknown_gateway; /* one that did not answer; 0: all have */
	uint64_t
	    behind_gateway; /* one whose ports do not know the node's newest state yet; 0: none */
};
typedef void (*mt_node_tally_fn)(const struct mt_node_tally *tally, void *arg);

/* mt_node_tally_is_empty -- no shard names a copy there, and none will: every one of them was asked, and knows. */
bool mt_node_tally_is_empty(const struct mt_node_tally *tally);
/*
 * mt_node_tally_start -- ask our own ports and every other gateway that lives
 *
 * @version: of the node's key. Returns 0: @fn once, later; -EBUSY another is under way; -ENOMEM; -ESHUTDOWN. One that is
 * under way when the gateway is destroyed ends unseen.
 */
int mt_node_tally_start(struct mt_gateway *gateway, uint32_t node_id, uint64_t version,
    mt_node_tally_fn fn, void *arg);
/* mt_node_leaving_json -- @leaving as in answers, what nothing waits for left out. NULL: no memory. */
json_t *mt_node_leaving_json(const struct mt_leaving_count leaving[MT_LEAVING_NR]);
/* mt_node_tally_json -- our own ports' answers, for the gateway that asks. NULL: no memory. */
json_t *mt_node_tally_json(const struct mt_ask *ask);
/* mt_node_tally_fini -- nobody runs main's loop any more. */
void mt_node_tally_fini(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_NODE_TALLY_H */
