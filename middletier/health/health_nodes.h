/* SPDX-License-Identifier: Apache-2.0 */
/* health_nodes.h -- each storage node, failure domains, slots, room */
#ifndef CLEAVE_MIDDLETIER_HEALTH_HEALTH_NODES_H
#define CLEAVE_MIDDLETIER_HEALTH_HEALTH_NODES_H

struct mt_ask;
struct mt_gateway;
struct mt_health;

#define MT_HEALTH_FULL_BYTES 96u
/* mt_health_full_text -- names the nodes that are full while others have room; "": none is, or all are */
void mt_health_full_text(const struct mt_ask *ask, char ret_text[MT_HEALTH_FULL_BYTES]);
/* mt_health_judge_nodes -- as the ports' links know the nodes; also fills @health->room. */
void mt_health_judge_nodes(const struct mt_gateway *gateway, const struct mt_ask *ask,
    struct mt_health *health);

#endif /* CLEAVE_MIDDLETIER_HEALTH_HEALTH_NODES_H */
