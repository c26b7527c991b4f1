/* SPDX-License-Identifier: Apache-2.0 */
/* flatten_key.h -- the keys "flattening/ID": clones that are to get what their origins show, and the shards that wait */
#ifndef CLEAVE_MIDDLETIER_CATALOG_FLATTEN_KEY_H
#define CLEAVE_MIDDLETIER_CATALOG_FLATTEN_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"

#define MT_FLATTEN_PREFIX "flattening/" /* and the clone's id */
#define MT_FLATTEN_KEY_BYTES 40u

/* The shards that have not copied all of a clone yet: a bit each. */
struct mt_flatten_mark {
	uint64_t id; /* of the clone */
	uint64_t waiting[CLEAVE_SHARDS_MAX / 64u];
};

/* mt_flatten_key -- of the clone @id. */
void mt_flatten_key(uint64_t id, char ret_key[MT_FLATTEN_KEY_BYTES]);
/* mt_flatten_mark_all -- of clone @id, when nothing is copied yet. */
void mt_flatten_mark_all(uint64_t id, uint32_t shard_count, struct mt_flatten_mark *ret_mark);
/* mt_flatten_left -- how many shards wait. */
uint32_t mt_flatten_left(const struct mt_flatten_mark *mark);
/* mt_flatten_encode -- the text is to be freed with free(); NULL: no memory. */
char *mt_flatten_encode(const struct mt_flatten_mark *mark, uint32_t shard_count);
/* mt_flatten_decode -- 0; -EINVAL and what is wrong. */
int mt_flatten_decode(const char *key, const void *value, uint32_t bytes, uint32_t shard_count,
    struct mt_flatten_mark *ret_mark, const char **ret_field);

#endif /* CLEAVE_MIDDLETIER_CATALOG_FLATTEN_KEY_H */
