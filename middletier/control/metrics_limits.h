/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_limits.h -- what ports held for the limits of volumes, for monitors and for `cleave status` */
#ifndef CLEAVE_MIDDLETIER_CONTROL_METRICS_LIMITS_H
#define CLEAVE_MIDDLETIER_CONTROL_METRICS_LIMITS_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

struct mt_ask;
struct mt_throttle_told;

/*
 * mt_metrics_limits -- how long requests were held, all ports together, and by volume and port
 *
 * Of each port the volumes that waited longest, MT_THROTTLE_TOLD_MAX of them. 0 or -ENOMEM.
 */
int mt_metrics_limits(FILE *out, const struct mt_ask *ask);
/* mt_json_limits -- @count volumes that waited: a list, empty where nothing was held; NULL: no memory. */
json_t *mt_json_limits(const struct mt_throttle_told *told, uint32_t count);

#endif /* CLEAVE_MIDDLETIER_CONTROL_METRICS_LIMITS_H */
