/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h -- what a node counts and measures */
#ifndef CLEAVE_STORAGE_METRICS_H
#define CLEAVE_STORAGE_METRICS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/metrics.h"
#include "cleave/split.h"
#include "node.h"

#define SN_METRIC_ONE(name, unit, help) +1
#define SN_COUNTER_NR (0u NODE_COUNTER_LIST(SN_METRIC_ONE))
/* The last ones of them. */
#define SN_DIRECT_COUNTER_NR (0u NODE_DIRECT_COUNTER_LIST(SN_METRIC_ONE))
#define SN_SPLIT_NR (0u SPLIT_COUNTER_LIST(SN_METRIC_ONE))

/* NODE_COUNTER_LIST in struct node_counters, SPLIT_COUNTER_LIST in struct split_counters, for metric_member_read. */
extern const struct metric_member sn_counter_members[SN_COUNTER_NR];
extern const struct metric_member sn_split_members[SN_SPLIT_NR];

/*
 * node_metrics_write -- counters and gauges as OpenMetrics text, to @out, whose errors the caller sees
 *
 * At any time from node_create on; members of the disk and the port are left out before the node is READY.
 */
void node_metrics_write(const struct node *node, FILE *out);
/* node_health_write -- "ok", or why the node does not serve, to @out. Returns whether it serves and its disk takes writes. */
bool node_health_write(const struct node *node, FILE *out);

#endif /* CLEAVE_STORAGE_METRICS_H */
