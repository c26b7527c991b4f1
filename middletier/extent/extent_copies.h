/* SPDX-License-Identifier: Apache-2.0 */
/* extent_copies.h -- what is known of an extent's copies: where they are, damaged, suspect */
#ifndef CLEAVE_MIDDLETIER_EXTENT_EXTENT_COPIES_H
#define CLEAVE_MIDDLETIER_EXTENT_EXTENT_COPIES_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/batch.h"

struct mt_copies;
struct mt_extent;
struct mt_replica;
struct mt_shard;

/* mt_extent_text -- "3.1.7": shard, epoch, counter. Into the caller's buffer, which it returns. */
#define MT_EXTENT_TEXT_BYTES 48
const char *mt_extent_text(const struct mt_extent *extent, char out[MT_EXTENT_TEXT_BYTES]);
/* mt_extent_copies -- @extent's replicas, for a chooser (choose.h); valid until @extent is freed. */
struct mt_copies mt_extent_copies(struct mt_extent *extent);
/* mt_extent_replica -- its index among @extent's replicas, or -1. */
int mt_extent_replica(const struct mt_extent *extent, uint32_t node_id);
/* mt_extent_damage -- that replica is of no use: to be made anew elsewhere. Says so once. */
void mt_extent_damage(struct mt_extent *extent, uint32_t replica_index, const char *why, int rc);
/* mt_extent_heal -- its node has verified that replica as whole: it counts again, if it did not. */
void mt_extent_heal(struct mt_extent *extent, uint32_t replica_index);
/* mt_extent_suspect -- a read at that node has failed; it may have been the wire. */
void mt_extent_suspect(struct mt_extent *extent, uint32_t node_id);
/* mt_extent_replace -- @replica instead of the one at @index; replica_count: one more. */
void mt_extent_replace(struct mt_extent *extent, uint32_t replica_index,
    const struct mt_replica *replica);
/* mt_extent_is_live -- does an extent object of the shard, made or being made, lie on that node? */
bool mt_extent_is_live(const struct mt_shard *shard, const struct extent_id *id, uint32_t node_id);
/* mt_extent_is_whole -- OPEN, with @replica_count replicas at least, none of them damaged. */
bool mt_extent_is_whole(const struct mt_extent *extent, uint32_t replica_count);
/* mt_extent_leaving -- the first undamaged replica whose node drains; -1: there is none. */
int mt_extent_leaving(const struct mt_extent *extent);
/* mt_extent_upkeep -- have @shard's copies looked at soon. */
void mt_extent_upkeep(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_EXTENT_EXTENT_COPIES_H */
