/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h -- one array a port; for `cleave status`, and for monitors */
#ifndef CLEAVE_MIDDLETIER_CONTROL_METRICS_H
#define CLEAVE_MIDDLETIER_CONTROL_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "base/metrics.h"
#include "cleave/split.h"
#include "common/metric.h"

struct mt_ask;

extern const struct metric_member mt_metric_members[MT_METRIC_NR]; /* of mt_port.metrics */

#define MT_SPLIT_ONE(name, unit, help) +1
#define MT_SPLIT_NR (0u SPLIT_COUNTER_LIST(MT_SPLIT_ONE))
extern const struct metric_member mt_split_members[MT_SPLIT_NR]; /* of split_port_counters */

extern const struct metric_member mt_shard_members[]; /* of struct mt_shard_status */
extern const uint32_t mt_shard_member_count;

/* mt_metrics_write -- all that monitors want to know, from an MT_ASK_STATUS's answers. 0 or -ENOMEM. */
int mt_metrics_write(FILE *out, const struct mt_ask *ask);

#endif /* CLEAVE_MIDDLETIER_CONTROL_METRICS_H */
