/* SPDX-License-Identifier: Apache-2.0 */
/* node_state.h -- whether a storage node is of the cluster; the widths of what is known of one */
#ifndef CLEAVE_MIDDLETIER_CATALOG_NODE_STATE_H
#define CLEAVE_MIDDLETIER_CATALOG_NODE_STATE_H

#include "base/domain.h"

#define MT_NODE_DOMAIN_BYTES DOMAIN_BYTES_MAX
#define MT_NODE_DISK_BYTES 37u /* a disk's uuid as text */
#define MT_NODE_WEIGHT_DEFAULT 100u

/*
 *	         add            drain                  remove: no shard has a copy there
 *	(nobody) ----> IN <=============> DRAINING ------------------------------------> OUT
 *	                \    undrain         |
 *	                 +-------------------+-- remove --lost ------------------------> LOST
 *
 * OUT and LOST are tombstones: the id is never given to another node, and the disk is never taken back.
 */
enum mt_node_state { MT_NODE_IN, MT_NODE_DRAINING, MT_NODE_OUT, MT_NODE_LOST, MT_NODE_STATE_NR };

#endif /* CLEAVE_MIDDLETIER_CATALOG_NODE_STATE_H */
