/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_latency.h -- how long requests and nodes take, for monitors */
#ifndef CLEAVE_MIDDLETIER_CONTROL_METRICS_LATENCY_H
#define CLEAVE_MIDDLETIER_CONTROL_METRICS_LATENCY_H

#include <stdio.h>

struct mt_ask;

/* mt_metrics_latency -- histograms of requests, by operation, class and hop, and of nodes. 0 or -ENOMEM. */
int mt_metrics_latency(FILE *out, const struct mt_ask *ask);

#endif /* CLEAVE_MIDDLETIER_CONTROL_METRICS_LATENCY_H */
