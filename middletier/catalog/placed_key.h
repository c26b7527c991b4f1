/* SPDX-License-Identifier: Apache-2.0 */
/* placed_key.h -- shards that are at another gateway than by count: the key MT_PLACED_KEY, read and written */
#ifndef CLEAVE_MIDDLETIER_CATALOG_PLACED_KEY_H
#define CLEAVE_MIDDLETIER_CATALOG_PLACED_KEY_H

#include <stdint.h>

/*
 * A single key, so that of two gateways that would give a shard away at one moment the second fails. It lies among the
 * roots, which all gateways watch, and is read together with them. Level CLEAVE_LEVEL_PLACED.
 */
#define MT_PLACED_KEY "shards/placed"
#define MT_PLACED_MAX 1024u /* shards in it: a value of the store holds twice as many */

struct mt_placed {
	struct mt_placed_shard {
		uint32_t shard;
		uint64_t gateway_id;
	} shards[MT_PLACED_MAX]; /* rising */
	uint32_t count;
	uint64_t version; /* of the key, 0: there is none; not encoded */
};

/* mt_placed_at -- the gateway that @shard is placed at; 0: it is not placed. */
uint64_t mt_placed_at(const struct mt_placed *placed, uint32_t shard);
/* mt_placed_put -- @shard is at @gateway_id from now on. 0; -ENOSPC: as many as can be are. */
int mt_placed_put(struct mt_placed *placed, uint32_t shard, uint64_t gateway_id);
/* mt_placed_remove -- @shard is where it is by count; or it was. */
void mt_placed_remove(struct mt_placed *placed, uint32_t shard);
/* mt_placed_encode -- the key's value. The text is the caller's to free; NULL: no memory. */
char *mt_placed_encode(const struct mt_placed *placed);
/*
 * mt_placed_decode -- @value of @bytes into all of *@ret_placed but version
 *
 * Returns 0; -ENOMEM; -EINVAL: *@ret_field is a sentence that says what is wrong, valid until the thread's next
 * call, and *@ret_placed is as it was.
 */
int mt_placed_decode(const void *value, uint32_t bytes, struct mt_placed *ret_placed,
    const char **ret_field);

#endif /* CLEAVE_MIDDLETIER_CATALOG_PLACED_KEY_H */
