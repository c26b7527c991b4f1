/* SPDX-License-Identifier: Apache-2.0 */
/* control_rebalance.h -- cluster.rebalance: this gateway's shards even out the nodes, stop, or say how far they are */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_REBALANCE_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_REBALANCE_H

#include <jansson.h>

struct mt_ask;
struct mt_control_request;

/* mt_control_rebalance -- {"action": "start", "stop" or "show"}. */
void mt_control_rebalance(struct mt_control_request *request);
/* mt_json_rebalance -- {"gateway", "rebalance":{...}}: how far this gateway is. NULL: out of memory. */
json_t *mt_json_rebalance(const struct mt_ask *ask);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_REBALANCE_H */
