/* SPDX-License-Identifier: Apache-2.0 */
/*
 * severed.h -- a gateway that reaches the metadata store, and too few storage nodes for any write
 *
 * The main loop's, all of it.
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_SEVERED_H
#define CLEAVE_MIDDLETIER_CLUSTER_SEVERED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cluster/ask.h"

struct mt_gateway;

/*
 * mt_severed_start -- look from now on whether enough nodes are reached; the cluster is known
 *
 * Returns 0; -ENOMEM.
 */
int mt_severed_start(struct mt_gateway *gateway);
/* mt_severed_stop -- nothing is given away any more for that reason; again: a no-op. */
void mt_severed_stop(struct mt_gateway *gateway);
/* mt_severed_fini -- nobody runs the ports' loops any more. */
void mt_severed_fini(struct mt_gateway *gateway);
/* mt_severed_may_take -- gateway @id has answered lately that it reaches enough nodes. */
bool mt_severed_may_take(const struct mt_gateway *gateway, uint64_t id);
/*
 * mt_severed_json -- what this gateway tells another one that reaches too few: {"domains":3,"enough":true}
 *
 * @ask: MT_ASK_REACH_HEARD, answered. "domains": failure domains of nodes that have answered each port lately. "enough": as
 * many as a write needs here, and shards may be given to this gateway. NULL: no memory.
 */
json_t *mt_severed_json(const struct mt_ask *ask);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_SEVERED_H */
