/* SPDX-License-Identifier: Apache-2.0 */
/* drop_mark.h -- a mark of the metadata store: what is to be dropped, and which shards have not yet; for drop.c */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_DROP_MARK_H
#define CLEAVE_MIDDLETIER_CLUSTER_DROP_MARK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"

struct mt_volumes;

/* A key with shards that wait: a deleted volume's (number 0), or a cut's. */
struct drop_mark {
	char *key;
	uint64_t version;
	json_t *object; /* its text */
	uint64_t number, segment_base;
	uint32_t segment_count;
	uint64_t waiting[CLEAVE_SHARDS_MAX / 64u];
};

/* mt_drop_mark_take -- fill @mark from its object, for @shard_count shards. NULL, or what is wrong with it. */
const char *mt_drop_mark_take(struct drop_mark *mark, uint32_t shard_count);
/*
 * mt_drop_mark_is_contested -- a volume that is there has the mark's segments, or some: what is on it does not go for a
 * wrong number
 */
bool mt_drop_mark_is_contested(const struct drop_mark *mark, const struct mt_volumes *volumes);
/* mt_drop_is_named -- does any scope of a volume, or of a snapshot that is not deleted, name this cut? */
bool mt_drop_is_named(const struct mt_volumes *volumes, uint64_t number);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_DROP_MARK_H */
