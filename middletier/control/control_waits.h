/* SPDX-License-Identifier: Apache-2.0 */
/* control_waits.h -- what the gateway's shards wait for, as a control request asks */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_WAITS_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_WAITS_H

#include <jansson.h>

struct mt_ask;

#define MT_WAITS_MAX 16u /* shards that an answer names */
/* mt_json_waits -- {"waits":[{"shard":N,"text":T}, ...]} of the first MT_WAITS_MAX; NULL: out of memory. */
json_t *mt_json_waits(const struct mt_ask *ask);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_WAITS_H */
