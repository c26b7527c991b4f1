/* SPDX-License-Identifier: Apache-2.0 */
/* control_rates.h -- rates: what this gateway has answered of each of its busiest volumes */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_RATES_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_RATES_H

struct mt_control_request;

/* mt_control_rates -- counters; who asks twice knows the rates. */
void mt_control_rates(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_RATES_H */
