/* SPDX-License-Identifier: Apache-2.0 */
/* health_keys.h -- data keys that this gateway cannot open, and who waits for one */
#ifndef CLEAVE_MIDDLETIER_HEALTH_HEALTH_KEYS_H
#define CLEAVE_MIDDLETIER_HEALTH_HEALTH_KEYS_H

struct mt_gateway;
struct mt_health;

/* mt_health_judge_keys -- key-missing, and key-wanted where a client was refused a moment ago. */
void mt_health_judge_keys(const struct mt_gateway *gateway, struct mt_health *health);

#endif /* CLEAVE_MIDDLETIER_HEALTH_HEALTH_KEYS_H */
