/* SPDX-License-Identifier: Apache-2.0 */
/* limit_round.h -- gateways tell each other what volumes with limits use, and their ports keep these together */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_LIMIT_ROUND_H
#define CLEAVE_MIDDLETIER_CLUSTER_LIMIT_ROUND_H

#include <jansson.h>

struct mt_gateway;

/* mt_limit_rounds_start -- the cluster is known; rounds begin when a volume has limits. Returns 0; -ENOMEM. */
int mt_limit_rounds_start(struct mt_gateway *gateway);
/* mt_limit_rounds_kick -- main: the tables have been read. */
void mt_limit_rounds_kick(struct mt_gateway *gateway);
/* mt_limit_rounds_stop -- no round begins any more. mt_limit_rounds_fini: nobody runs the ports' loops any more. */
void mt_limit_rounds_stop(struct mt_gateway *gateway);
void mt_limit_rounds_fini(struct mt_gateway *gateway);
/*
 * mt_limit_rounds_json -- what the ports of this gateway use, for another gateway, which has a round of its own
 *
 * {"volumes":[{"id":N,"wanting":N,"quiet":N,"quiet_spent":N,"spent":N}, ...]}, as struct limit_use has them. NULL: no memory.
 */
json_t *mt_limit_rounds_json(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_LIMIT_ROUND_H */
