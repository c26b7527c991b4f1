/* SPDX-License-Identifier: Apache-2.0 */
/* control_node_leave.h -- a storage node leaves the cluster: drain, undrain, remove */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_LEAVE_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_LEAVE_H

struct mt_control_request;

void mt_control_node_drain(struct mt_control_request *request);
void mt_control_node_undrain(struct mt_control_request *request);
void mt_control_node_remove(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_LEAVE_H */
