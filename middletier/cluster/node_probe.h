/* SPDX-License-Identifier: Apache-2.0 */
/* node_probe.h -- who answers at an address: asked before it becomes a node of the cluster */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_NODE_PROBE_H
#define CLEAVE_MIDDLETIER_CLUSTER_NODE_PROBE_H

#include <stdint.h>

#include "catalog/node_key.h"
#include "extent/node_config.h"

struct mt_gateway;

struct mt_node_found {
	uint32_t node_id; /* 0: nobody of this cluster answered in time, and why says more */
	char disk[MT_NODE_DISK_BYTES];
	uint64_t slots_total, slots_free, slot_bytes;
	char why[MT_TROUBLE_BYTES];
};
typedef void (*mt_node_probe_fn)(const struct mt_node_found *found, void *arg);

/*
 * mt_node_probe_start -- connect to @address as a gateway of this cluster, and hear the node's hello and status
 *
 * A node that obeys no metadata store yet obeys this one then. Returns 0: @fn once, later; -EBUSY another is under way; else
 * a negative errno. One that is under way when the gateway is destroyed ends unseen.
 */
int mt_node_probe_start(struct mt_gateway *gateway, const char *address, mt_node_probe_fn fn,
    void *arg);
/* mt_node_probe_fini -- nobody runs main's loop any more. */
void mt_node_probe_fini(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_NODE_PROBE_H */
