/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_key.h -- the key "cluster" of the metadata store: JSON, read and written */
#ifndef CLEAVE_MIDDLETIER_CATALOG_CLUSTER_KEY_H
#define CLEAVE_MIDDLETIER_CATALOG_CLUSTER_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/meta.h"
#include "cleave/wire.h"
#include "common/limits.h"

#define MT_CLUSTER_FORMAT 1u
#define MT_REPLACED_MAX 8u /* recoveries that a node may be away for */

/*
 * Written with each upgrade, in its transaction: the level, in digits. All gateways watch what begins with
 * "shards/"; the key "cluster", which changes with every volume that is made, none does.
 */
#define MT_LEVEL_KEY "shards/level"

/* The key "cluster". */
struct mt_cluster {
	uint64_t cluster_id;
	uint32_t shard_count;
	uint64_t next_volume_id;
	uint64_t next_segment;
	uint64_t next_snapshot, next_clone; /* numbers of cuts; of clones' segments */
	uint64_t next_node; /* a storage node's id; 0: the keys "nodes/" do not count yet */
	uint64_t
	    next_key; /* a data key's id; 0: there has been none. UINT32_MAX + 1: none is left */
	uint64_t version;         /* of the key */
	uint32_t level;           /* that writers keep to: cleave/level.h; 0 is CLEAVE_LEVEL_MIN */
	struct store_id store_id; /* whom nodes obey; zero: the key is of before there were any */
	/* Stores that nodes may obey still, since they were away at a recovery; the newest first. */
	struct store_id replaced[MT_REPLACED_MAX];
	uint32_t replaced_count;
	/* The store's file when it was last accepted; "": see place.h. */
	char place[META_PLACE_BYTES];
};

/*
 * mt_cluster_decode -- the key "cluster"
 *
 * Returns 0; -EINVAL and the field; -EPROTONOSUPPORT and a sentence: it is of a level above all that this
 * release speaks.
 */
int mt_cluster_decode(const void *value, uint32_t bytes, struct mt_cluster *ret_cluster,
    const char **ret_field);
/* mt_cluster_encode -- its text, the caller's to free; NULL: no memory. */
char *mt_cluster_encode(const struct mt_cluster *cluster);
/* mt_cluster_is_spoken -- may one that speaks up to @level_max serve a cluster of @level? Else a sentence. */
bool mt_cluster_is_spoken(uint64_t level, uint32_t level_max, char ret_text[MT_ERROR_BYTES]);
/* mt_level_read -- what MT_LEVEL_KEY says; 0: nothing that can be understood. */
uint32_t mt_level_read(const struct meta_item *item);
/* mt_cluster_put -- by compare-and-swap from cluster->version. As meta_ops.txn; -ENOMEM. */
int mt_cluster_put(struct meta *meta, const struct mt_cluster *cluster, meta_txn_fn fn, void *arg);
/* mt_cluster_has_volume -- is there an id, and are there segments, for one more volume? */
bool mt_cluster_has_volume(const struct mt_cluster *cluster);
/* mt_cluster_is_behind -- has @cluster given out less than @other, of whatever is counted but nodes? */
bool mt_cluster_is_behind(const struct mt_cluster *cluster, const struct mt_cluster *other);
/* mt_cluster_skip -- as many ids and numbers as @skipped says are given to nobody; at most all that are left. */
void mt_cluster_skip(struct mt_cluster *cluster, const struct mt_cluster *skipped);
/* mt_cluster_replace -- @id becomes the first of cluster->replaced, unless it is zero, there, or its own. */
void mt_cluster_replace(struct mt_cluster *cluster, const struct store_id *id);

/* A start without a cluster says this; %s is where it looked. */
#define MT_NO_CLUSTER_TEXT                                                                             \
	"%s holds no cluster: a wrong directory? not mounted? lost? Mount it, or name the right one; " \
	"a lost one is made anew from the storage nodes by cleave recover; for a new cluster, run "    \
	"this with --create, once"

#endif /* CLEAVE_MIDDLETIER_CATALOG_CLUSTER_KEY_H */
