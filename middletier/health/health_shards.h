/* SPDX-License-Identifier: Apache-2.0 */
/* health_shards.h -- what the shards here wait for, and what they lack */
#ifndef CLEAVE_MIDDLETIER_HEALTH_HEALTH_SHARDS_H
#define CLEAVE_MIDDLETIER_HEALTH_HEALTH_SHARDS_H

struct mt_ask;
struct mt_gateway;
struct mt_health;

/* mt_health_judge_shards -- shards of the ports of this gateway. */
void mt_health_judge_shards(const struct mt_gateway *gateway, const struct mt_ask *ask,
    struct mt_health *health);

#endif /* CLEAVE_MIDDLETIER_HEALTH_HEALTH_SHARDS_H */
