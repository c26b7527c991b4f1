/* SPDX-License-Identifier: Apache-2.0 */
/* node_usage.h -- what a node holds of a port's shards, and whether the port knows the node's newest state */
#ifndef CLEAVE_MIDDLETIER_PORT_NODE_USAGE_H
#define CLEAVE_MIDDLETIER_PORT_NODE_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"
#include "upkeep/leaving.h"

struct mt_port;

/* Copies that wait for the same before they leave a node. */
struct mt_leaving_count {
	uint32_t copy_count, shard_count;
	uint32_t shard, last_shard; /* of them; 0 where there are none */
};

struct mt_node_usage {
	bool is_current; /* the port acts on the version of the node's key that was asked about */
	uint32_t extent_count; /* copies that shards name there, or are making there */
	uint64_t bytes;        /* of the sealed ones */
	struct mt_leaving_count leaving[MT_LEAVING_NR]; /* all 0: it does not drain */
	uint64_t serving[CLEAVE_SHARDS_MAX / 64u];      /* bit set of shards that were counted */
};

/*
 * mt_node_usage_take -- counts the copies on @node_id of every shard that serves here
 *
 * Also those that are being created, copied or put into the manifest: whoever finds none, after the port has learnt that
 * the node takes no more, finds none later. @version may be another process's. On the port's thread.
 */
void mt_node_usage_take(const struct mt_port *port, uint32_t node_id, uint64_t version,
    struct mt_node_usage *ret_usage);

#endif /* CLEAVE_MIDDLETIER_PORT_NODE_USAGE_H */
