/* SPDX-License-Identifier: Apache-2.0 */
/* node_config.h -- a storage node, as the gateway's options name it; the state of a link to it */
#ifndef CLEAVE_MIDDLETIER_EXTENT_NODE_CONFIG_H
#define CLEAVE_MIDDLETIER_EXTENT_NODE_CONFIG_H

#include "cleave/split.h"

struct mt_node_config {
	char address[SPLIT_ADDRESS_BYTES_MAX];
	char domain[32]; /* failure domain; "" is a domain of its own per node */
};

enum mt_link_state { MT_LINK_DOWN, MT_LINK_CONNECTING, MT_LINK_UP, MT_LINK_STATE_NR };
#define MT_TROUBLE_BYTES 128u /* of a text */

#endif /* CLEAVE_MIDDLETIER_EXTENT_NODE_CONFIG_H */
