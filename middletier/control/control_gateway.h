/* SPDX-License-Identifier: Apache-2.0 */
/* control_gateway.h -- gateways that shall have no shards: they are drained, and no more; what one has to do */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_GATEWAY_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_GATEWAY_H

struct mt_control_request;

void mt_control_gateway_drain(struct mt_control_request *request);
void mt_control_gateway_undrain(struct mt_control_request *request);
/* mt_control_gateway_load -- another gateway asks, which has more to do than it would like to. */
void mt_control_gateway_load(struct mt_control_request *request);
/* mt_control_gateway_reach -- another gateway asks, which reaches too few storage nodes: does this one reach enough? */
void mt_control_gateway_reach(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_GATEWAY_H */
