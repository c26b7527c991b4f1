/* SPDX-License-Identifier: Apache-2.0 */
/* shard_list.h -- numbers of shards as a text: "shard 3", "shards 0 to 3, 7" */
#ifndef CLEAVE_MIDDLETIER_HEALTH_SHARD_LIST_H
#define CLEAVE_MIDDLETIER_HEALTH_SHARD_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "cleave/wire.h"

#define MT_SHARD_LIST_BYTES 96u

/* Some of the cluster's shards. All zeros: none. */
struct mt_shard_list {
	uint64_t bits[CLEAVE_SHARDS_MAX / 64u];
	uint32_t count;
};

/* mt_shard_list_add -- @shard once. */
void mt_shard_list_add(struct mt_shard_list *list, uint32_t shard);
/* mt_shard_list_text -- into @out; too many end in "...", and how many there are. Never of an empty list. */
void mt_shard_list_text(const struct mt_shard_list *list, char out[MT_SHARD_LIST_BYTES]);

#endif /* CLEAVE_MIDDLETIER_HEALTH_SHARD_LIST_H */
