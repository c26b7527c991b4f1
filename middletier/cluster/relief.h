/* SPDX-License-Identifier: Apache-2.0 */
/* relief.h -- a gateway that has more to do than the others gives one of its shards away */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_RELIEF_H
#define CLEAVE_MIDDLETIER_CLUSTER_RELIEF_H

#include <jansson.h>
#include <stdint.h>

struct mt_gateway;

/*
 * mt_relief_start -- look at the load from now on, as options.balance says; the cluster is known
 *
 * Nothing is done where that is MT_BALANCE_OFF. Returns 0; -ENOMEM.
 */
int mt_relief_start(struct mt_gateway *gateway);
/* mt_relief_stop -- nothing is given away any more. */
void mt_relief_stop(struct mt_gateway *gateway);
/* mt_relief_fini -- nobody runs the ports' loops any more. */
void mt_relief_fini(struct mt_gateway *gateway);
/*
 * mt_relief_json -- what this gateway tells another one that has more to do: {"balance":true,"load":1048576,"room":3}
 *
 * "load" is of all its shards, in bytes a second; "room" is how many shards more each of its ports has memory for. NULL:
 * no memory.
 */
json_t *mt_relief_json(const struct mt_gateway *gateway);
/* mt_relief_idle_count -- looks that have ended, and said nothing of where a shard shall be. */
uint64_t mt_relief_idle_count(const struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_RELIEF_H */
