/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h -- what a node counts and measures */
#ifndef CLEAVE_STORAGE_METRICS_H
#define CLEAVE_STORAGE_METRICS_H

#include <stdio.h>

#include "base/metrics.h"
#include "cleave/split.h"
#include "node.h"

#define SN_METRIC_ONE(name, unit, help) +1
#define SN_COUNTER_NR (0u NODE_COUNTER_LIST(SN_METRIC_ONE))
#define SN_SPLIT_NR (0u SPLIT_COUNTER_LIST(SN_METRIC_ONE))

/* Members of struct node_counters, and of struct split_counters. */
extern const struct metric_member sn_counter_members[SN_COUNTER_NR];
extern const struct metric_member sn_split_members[SN_SPLIT_NR];

/* node_metrics_write -- all that monitors want to know, as text, at any time from node_start on. */
void node_metrics_write(const struct node *node, FILE *out);

#endif /* CLEAVE_STORAGE_METRICS_H */
