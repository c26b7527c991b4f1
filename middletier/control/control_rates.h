/* SPDX-License-Identifier: Apache-2.0 */
/* control_rates.h -- rates: what this gateway has answered of each of its busiest volumes */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_RATES_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_RATES_H

#include <jansson.h>
#include <stdint.h>

struct mt_ask;
struct mt_control_request;

/* mt_control_rates -- counters; who asks twice knows the rates. */
void mt_control_rates(struct mt_control_request *request);

/* mt_json_rates -- @max of the busiest volumes, and all others together, as "rates" has them. NULL: no memory. */
json_t *mt_json_rates(const struct mt_ask *ask, uint32_t max);
/* mt_json_latency -- of the last minute, as "latency_us" has it. NULL: no memory. */
json_t *mt_json_latency(const struct mt_ask *ask);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_RATES_H */
