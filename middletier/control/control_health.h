/* SPDX-License-Identifier: Apache-2.0 */
/* control_health.h -- health: what is wrong, as this gateway sees it */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_HEALTH_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_HEALTH_H

#include <jansson.h>

struct mt_ask;
struct mt_control_request;
struct mt_health;

/* mt_control_health -- asks the ports, has the nodes asked how much room they have, and answers what is wrong. */
void mt_control_health(struct mt_control_request *request);
/* mt_json_health -- {"health":{...}}, of what was judged by the answers of @ask. NULL: out of memory. */
json_t *mt_json_health(const struct mt_ask *ask, const struct mt_health *health);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_HEALTH_H */
