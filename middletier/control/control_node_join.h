/* SPDX-License-Identifier: Apache-2.0 */
/* control_node_join.h -- a disk that is to become a node: is it known, and which number does it get? */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_JOIN_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_JOIN_H

struct mt_control_request;

void mt_control_node_find(struct mt_control_request *request);
void mt_control_node_reserve(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_JOIN_H */
