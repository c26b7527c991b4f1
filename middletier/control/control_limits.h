/* SPDX-License-Identifier: Apache-2.0 */
/* control_limits.h -- the ops that set a volume's limits, and say them to its clients */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_LIMITS_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_LIMITS_H

struct mt_control_request;

/* Ops of control.c's table: each ends @request. */
void mt_control_volume_set(struct mt_control_request *request);
void mt_control_volume_limits(struct mt_control_request *request);
/* mt_control_limits_use -- another gateway asks what our ports use: limit_round.h */
void mt_control_limits_use(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_LIMITS_H */
