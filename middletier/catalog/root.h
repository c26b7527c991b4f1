/* SPDX-License-Identifier: Apache-2.0 */
/* root.h -- a shard's root key as text; see root.c */
#ifndef CLEAVE_MIDDLETIER_CATALOG_ROOT_H
#define CLEAVE_MIDDLETIER_CATALOG_ROOT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/root.h"

#define MT_ROOT_PREFIX "shards/"
#define MT_ROOT_KEY_BYTES 32u

/* mt_root_key -- "shards/00003" */
void mt_root_key(char out[MT_ROOT_KEY_BYTES], uint32_t shard);
/* mt_root_is_key -- what begins with MT_ROOT_PREFIX and a digit; other keys there are marks of the whole cluster. */
bool mt_root_is_key(const char *key);
/* mt_root_encode -- JSON, to be freed with free(). NULL: out of memory. Leaves version out. */
char *mt_root_encode(const struct mt_root *root);
/*
 * mt_root_decode -- 0 and everything but version; -EBADMSG and the field; -ENOMEM
 *
 * @shard: whose root it must be.
 */
int mt_root_decode(const void *text, uint32_t bytes, uint32_t shard, struct mt_root *ret_root,
    const char **ret_field);
/* mt_root_is_equal -- the same in everything but version. */
bool mt_root_is_equal(const struct mt_root *a, const struct mt_root *b);

#endif /* CLEAVE_MIDDLETIER_CATALOG_ROOT_H */
