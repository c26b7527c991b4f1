/* SPDX-License-Identifier: Apache-2.0 */
/* hole.h -- chunks of which a scope has nothing: they read as zeros */
#ifndef CLEAVE_MIDDLETIER_INDEX_HOLE_H
#define CLEAVE_MIDDLETIER_INDEX_HOLE_H

#include <stdbool.h>
#include <stdint.h>

struct mt_index;
struct mt_scope;

/*
 * mt_chunk_is_hole -- nothing is known of the block's chunk in any span of @scope, and no write to it is under way
 *
 * @segment is that of the scope's span 0. The shard is served (all of its log is in the index). Why an empty chunk
 * has no write under way: read/holes.c.
 */
bool mt_chunk_is_hole(const struct mt_index *index, const struct mt_scope *scope, uint64_t segment,
    uint32_t block);

#endif /* CLEAVE_MIDDLETIER_INDEX_HOLE_H */
