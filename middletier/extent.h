/* SPDX-License-Identifier: Apache-2.0 */
/* extent.h -- what extent.c, which makes and ends extents, and replicate.c, which fills them, share */
#ifndef CLEAVE_MIDDLETIER_EXTENT_H
#define CLEAVE_MIDDLETIER_EXTENT_H

#include <stdbool.h>

#include "internal.h"

#define MT_EXTENT_MAGIC 0x54545845u     /* "EXTT" */
#define MT_EXTENT_OVERHEAD_BYTES 12288u /* of a node's slot: header page and two state pages */

/* mt_extent_text -- "3.1.7": shard, epoch, counter. Into the caller's buffer, which it returns. */
#define MT_EXTENT_TEXT_BYTES 48
const char *mt_extent_text(const struct mt_extent *extent, char out[MT_EXTENT_TEXT_BYTES]);

/* mt_extent_break -- OPEN becomes BROKEN, with one line that says why; else a no-op. */
void mt_extent_break(struct mt_extent *extent, uint32_t node_id, int rc);

/* mt_extent_replica -- its index among @extent's replicas, or -1. */
int mt_extent_replica(const struct mt_extent *extent, uint32_t node_id);
/* mt_extent_damage -- that replica is of no use: to be made anew elsewhere. Says so once. */
void mt_extent_damage(struct mt_extent *extent, uint32_t replica_index, const char *why, int rc);
/* mt_extent_suspect -- a read at that node has failed; it may have been the wire. */
void mt_extent_suspect(struct mt_extent *extent, uint32_t node_id);
/* mt_is_copy_bad -- @rc of a read: the node answers, but not with what it once acknowledged. */
bool mt_is_copy_bad(int rc);
/* mt_extent_replace -- @replica instead of the one at @index; replica_count: one more. */
void mt_extent_replace(struct mt_extent *extent, uint32_t replica_index,
    const struct mt_replica *replica);
/* mt_extent_drop_copy -- delete that incarnation, best effort: nobody names it. 0, or why not. */
int mt_extent_drop_copy(struct mt_shard *shard, const struct extent_id *id, uint32_t node_id,
    uint64_t incarnation);
/* mt_extent_is_live -- does an extent object of the shard, made or being made, lie on that node? */
bool mt_extent_is_live(const struct mt_shard *shard, const struct extent_id *id, uint32_t node_id);
/* So old is an open extent before it is made anew for want of replicas: not at every blink of a link. */
#define MT_EXTENT_TEND_NS NUM_S(5)
/* mt_extent_is_whole -- OPEN, with @replica_count replicas at least, none of them damaged. */
bool mt_extent_is_whole(const struct mt_extent *extent, uint32_t replica_count);
/* mt_extent_upkeep -- have @shard's copies looked at soon. */
void mt_extent_upkeep(struct mt_shard *shard);

/*
 * mt_extent_requests_fini -- forget what is outstanding at nodes, and free what waited for it
 *
 * For the end of a shard whose links will not answer any more (a process that is killed).
 */
void mt_extent_requests_fini(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_EXTENT_H */
