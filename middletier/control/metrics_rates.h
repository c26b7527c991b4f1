/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_rates.h -- metrics of the busiest volumes */
#ifndef CLEAVE_MIDDLETIER_CONTROL_METRICS_RATES_H
#define CLEAVE_MIDDLETIER_CONTROL_METRICS_RATES_H

#include <stdio.h>

struct mt_ask;

/* mt_metrics_write_rates -- 50 volumes at most, and all others together. Errors are @out's. 0 or -ENOMEM. */
int mt_metrics_write_rates(FILE *out, const struct mt_ask *ask);

#endif /* CLEAVE_MIDDLETIER_CONTROL_METRICS_RATES_H */
