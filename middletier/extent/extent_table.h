/* SPDX-License-Identifier: Apache-2.0 */
/* extent_table.h -- a shard's extents by index */
#ifndef CLEAVE_MIDDLETIER_EXTENT_EXTENT_TABLE_H
#define CLEAVE_MIDDLETIER_EXTENT_EXTENT_TABLE_H

#include <stdint.h>

struct extent_id;
struct mt_extent;
struct mt_shard;

#define MT_EXTENTS_PER_SHARD_MAX 65536u

/* mt_shard_extent_add -- give @extent an index. -ENOSPC at MT_EXTENTS_PER_SHARD_MAX live ones; -ENOMEM. */
int mt_shard_extent_add(struct mt_shard *shard, struct mt_extent *extent);
/* mt_shard_extent -- NULL: it has gone. An index is not given again for a very long time. */
struct mt_extent *mt_shard_extent(const struct mt_shard *shard, uint32_t index);
/* mt_shard_extent_named -- one that has an index, by its name; NULL: there is none. It looks at all of them. */
struct mt_extent *mt_shard_extent_named(const struct mt_shard *shard, const struct extent_id *id);
/* mt_shard_extent_remove -- its index means nothing any more; the extent is the caller's. */
void mt_shard_extent_remove(struct mt_shard *shard, struct mt_extent *extent);
/* mt_shard_extents_free -- all of them, and the table. */
void mt_shard_extents_free(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_EXTENT_EXTENT_TABLE_H */
