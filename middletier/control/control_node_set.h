/* SPDX-License-Identifier: Apache-2.0 */
/* control_node_set.h -- node.set: what an operator says of a node */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_SET_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_SET_H

struct mt_control_request;

void mt_control_node_set(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_SET_H */
