/* SPDX-License-Identifier: Apache-2.0 */
/* health_member.h -- lease, metadata store, owners of shards, releases */
#ifndef CLEAVE_MIDDLETIER_HEALTH_HEALTH_MEMBER_H
#define CLEAVE_MIDDLETIER_HEALTH_HEALTH_MEMBER_H

struct mt_gateway;
struct mt_health;

/* mt_health_judge_member -- what the main loop knows by itself. */
void mt_health_judge_member(const struct mt_gateway *gateway, struct mt_health *health);

#endif /* CLEAVE_MIDDLETIER_HEALTH_HEALTH_MEMBER_H */
