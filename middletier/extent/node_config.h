/* SPDX-License-Identifier: Apache-2.0 */
/* node_config.h -- a storage node as its links know it, by the options or by its key; the state of a link */
#ifndef CLEAVE_MIDDLETIER_EXTENT_NODE_CONFIG_H
#define CLEAVE_MIDDLETIER_EXTENT_NODE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/node_state.h"
#include "cleave/split.h"

/* Zero is what a node of the options has: in, of weight 100, of any id, in no maintenance. */
struct mt_node_config {
	char address[SPLIT_ADDRESS_BYTES_MAX];
	char domain[MT_NODE_DOMAIN_BYTES]; /* "" is a domain of its own per node */
	enum mt_node_state state;
	uint32_t node_id; /* that its hello must say; 0: any */
	uint32_t weight;  /* of its free share, in percent; 0: MT_NODE_WEIGHT_DEFAULT */
	uint64_t maintenance_until_ns; /* by the loop's clock; 0: it is in none */
	uint64_t version;              /* of its key; 0: it is of the options */
	char disk[MT_NODE_DISK_BYTES]; /* the uuid of the disk that it had last; "": not known */
};

/* mt_node_is_gone -- has it left the cluster for good? Nobody connects to it any more. */
static inline bool
mt_node_is_gone(const struct mt_node_config *config)
{
	return config->state == MT_NODE_OUT || config->state == MT_NODE_LOST;
}

/* mt_node_weight -- in percent, never 0. */
static inline uint32_t
mt_node_weight(const struct mt_node_config *config)
{
	return config->weight != 0 ? config->weight : MT_NODE_WEIGHT_DEFAULT;
}

/* mt_node_is_in_maintenance -- it may be away now: nothing new goes there, and nothing is made anew elsewhere. */
static inline bool
mt_node_is_in_maintenance(const struct mt_node_config *config, uint64_t now_ns)
{
	return config->maintenance_until_ns > now_ns;
}

enum mt_link_state { MT_LINK_DOWN, MT_LINK_CONNECTING, MT_LINK_UP, MT_LINK_STATE_NR };
#define MT_TROUBLE_BYTES 128u /* of a text */

#endif /* CLEAVE_MIDDLETIER_EXTENT_NODE_CONFIG_H */
