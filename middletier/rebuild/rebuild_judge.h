/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild_judge.h -- what speaks against a recovery, and may be forced
 *
 * Each objection refuses, unless force was said: then it is a line in the log, and the next one is looked at.
 */
#ifndef CLEAVE_MIDDLETIER_REBUILD_REBUILD_JUDGE_H
#define CLEAVE_MIDDLETIER_REBUILD_REBUILD_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/volume.h"

struct mt_cluster;
struct mt_manifest_state;
struct mt_rebuild_nodes;
struct mt_rebuild_plan;
struct mt_rebuild_reader;
struct mt_rebuild_store;

#define MT_REBUILD_TEXT_BYTES 512u

struct mt_rebuild_judge {
	bool is_forced;
	int rc; /* of the objection that refused, negative, and its text */
	char text[MT_REBUILD_TEXT_BYTES];
};

/* mt_rebuild_judge_may -- object with @rc < 0 and a text. True: forced; false: refused, in judge->rc and text. */
bool mt_rebuild_judge_may(struct mt_rebuild_judge *judge, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/*
 * mt_rebuild_judge_stores -- do the nodes that were listed obey one store, and one that @store replaces?
 *
 * A node of another cluster would be taken over with all that it holds.
 *
 * @is_copy: @store is to be another's copy: a node that obeys a third one refuses, forced or not.
 */
bool mt_rebuild_judge_stores(struct mt_rebuild_judge *judge, const struct mt_rebuild_store *store,
    const struct mt_rebuild_nodes *nodes, bool is_copy);
/*
 * mt_rebuild_judge_plan -- losses that may not be passed over silently, and a store that needs no recovery
 *
 * @reader: it has read every shard; @plan: of its shards, one or more.
 */
bool mt_rebuild_judge_plan(struct mt_rebuild_judge *judge, const struct mt_rebuild_store *store,
    const struct mt_rebuild_reader *reader, const struct mt_rebuild_plan *plan);
/* mt_rebuild_mirror_is_ahead -- did @mirror count ids that @cluster has not? A store counts first: then it is an older one. */
bool mt_rebuild_mirror_is_ahead(const struct mt_manifest_state *mirror,
    const struct mt_cluster *cluster);
/*
 * mt_rebuild_mirror_is_later -- is the store's key @key, of the value @value, a volume that was opened since, as @mirror knows?
 *
 * An attach counts a volume's number up, in the store first: the mirror is never ahead. True: its name is in @ret_name.
 */
bool mt_rebuild_mirror_is_later(const struct mt_manifest_state *mirror, const char *key,
    const void *value, uint32_t value_bytes, char ret_name[MT_NAME_BYTES]);
/* mt_rebuild_judge_is_current -- no node knows more than the store does: there is nothing to recover. */
bool mt_rebuild_judge_is_current(const struct mt_rebuild_store *store,
    const struct mt_rebuild_plan *plan);

#endif /* CLEAVE_MIDDLETIER_REBUILD_REBUILD_JUDGE_H */
