/* SPDX-License-Identifier: Apache-2.0 */
/* gateway.h -- a whole gateway as an object, for main() and for the simulator */
#ifndef CLEAVE_MIDDLETIER_GATEWAY_H
#define CLEAVE_MIDDLETIER_GATEWAY_H

#include <stddef.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "common/metric.h"

struct mt_gateway;
struct mt_health;
struct mt_gateway_options;
struct mt_port;

/* mt_gateway_create -- nothing is begun yet. NULL, and the reason in @ret_error. */
struct mt_gateway *mt_gateway_create(const struct mt_gateway_options *options, char *ret_error,
    size_t error_bytes);
/* mt_gateway_start -- listen and take the shards over. 0 or negative errno, with the text. */
int mt_gateway_start(struct mt_gateway *gateway, char *ret_error, size_t error_bytes);
/* mt_gateway_stop -- orderly: finish requests, seal nothing, close; @fn when done. */
void mt_gateway_stop(struct mt_gateway *gateway, void (*fn)(void *arg), void *arg);
/* mt_gateway_destroy -- at once, as a kill would (simulator) or after stop. */
void mt_gateway_destroy(struct mt_gateway *gateway);
/* mt_gateway_status_json -- for tests with options.is_single_loop; caller frees. Others ask by a control request. */
char *mt_gateway_status_json(struct mt_gateway *gateway);
/* mt_gateway_health -- likewise: what is wrong, as the request "health" tells. Returns 0; -ENOMEM. */
int mt_gateway_health(struct mt_gateway *gateway, struct mt_health *ret_health);
/* mt_gateway_metric -- sum over ports. */
uint64_t mt_gateway_metric(struct mt_gateway *gateway, enum mt_metric metric);

#endif /* CLEAVE_MIDDLETIER_GATEWAY_H */
