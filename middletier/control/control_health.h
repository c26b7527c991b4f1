/* SPDX-License-Identifier: Apache-2.0 */
/* control_health.h -- health: what is wrong, as this gateway sees it */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_HEALTH_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_HEALTH_H

struct mt_control_request;

/* mt_control_health -- asks the ports, has the nodes asked how much room they have, and answers what is wrong. */
void mt_control_health(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_HEALTH_H */
