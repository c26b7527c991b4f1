/* SPDX-License-Identifier: Apache-2.0 */
/* control_answer.h -- the JSON of answers */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_ANSWER_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_ANSWER_H

#include <jansson.h>
#include <stdbool.h>

struct mt_ask;
struct mt_gateway;

/* Listed one by one in the answer to status, if that is no longer than an answer may be. */
#define MT_STATUS_SHARDS_MAX 256u

json_t *mt_json_map(const struct mt_gateway *gateway, const struct mt_ask *ask);
/* mt_json_gateways -- {"member", "lease_ms", "gateways":[...]}: as main has seen them last. */
json_t *mt_json_gateways(const struct mt_gateway *gateway);
json_t *mt_json_nodes(const struct mt_gateway *gateway, const struct mt_ask *ask);
/* mt_json_direct_nodes -- [{"id":N,"address":A,"keyed":B}, ...]: those that take clients; tickets for it can be made, or not */
json_t *mt_json_direct_nodes(const struct mt_gateway *gateway, const struct mt_ask *ask);
json_t *mt_json_orphans(const struct mt_ask *ask); /* of an MT_ASK_SWEEP */
/*
 * mt_json_status -- the answer to status: the gateway, its ports and their counters
 *
 * @has_shards: and "shards", of each what monitors read of it (metrics.h).
 */
json_t *mt_json_status(const struct mt_gateway *gateway, const struct mt_ask *ask, bool has_shards);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_ANSWER_H */
