/* SPDX-License-Identifier: Apache-2.0 */
/* flatten.h -- clones are flattened: they get what their origins show, and let go of them */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_FLATTEN_H
#define CLEAVE_MIDDLETIER_CLUSTER_FLATTEN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct mt_gateway;

/* mt_flattening_init -- cannot fail: without memory for it this gateway's shards copy nothing. */
void mt_flattening_init(struct mt_gateway *gateway);
/* mt_flattening_fini -- nobody runs the ports' loops any more. */
void mt_flattening_fini(struct mt_gateway *gateway);
/* mt_flattening_kick -- main: the tables have been read; look what is to be flattened. */
void mt_flattening_kick(struct mt_gateway *gateway);
/*
 * mt_flattening_left -- is the volume @id being flattened, as far as this gateway knows? *@ret_left shards wait
 *
 * It has been told moments after the fact.
 */
bool mt_flattening_left(const struct mt_gateway *gateway, uint64_t id, uint32_t *ret_left);
/*
 * mt_flattening_json -- [{"name":CLONE,"shard_count":N,"left":N}, ...]: the one at work first, then those that wait
 *
 * NULL: there is none, or no memory.
 */
json_t *mt_flattening_json(const struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_FLATTEN_H */
