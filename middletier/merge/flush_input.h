/* SPDX-License-Identifier: Apache-2.0 */
/* flush_input.h -- the layers and runs that a flush, or a compaction, takes */
#ifndef CLEAVE_MIDDLETIER_MERGE_FLUSH_INPUT_H
#define CLEAVE_MIDDLETIER_MERGE_FLUSH_INPUT_H

#include <stdbool.h>

#include "base/num.h"
#include "index/index.h"

struct mt_merge_input;
struct mt_shard;

#define FLUSH_TOMBSTONES_MIN 1024u /* so many in a layer: what they hide is worth a merge */

/* The shard's state, as far as it says what a flush takes along. */
struct flush_terms {
	struct mt_shard *shard;
	bool is_full;   /* the last merge found no room: as little as can be is written anew */
	bool is_dirty;  /* mt_tiers_is_dirty: runs are taken along where that is worth it */
	bool is_urgent; /* writes wait for it */
};

static inline struct mt_layer *
flush_layer_of(const struct loop_link *link)
{
	return NUM_CONTAINER_OF(link, struct mt_layer, link);
}

/* flush_layer_is_empty -- no record was applied to it. */
static inline bool
flush_layer_is_empty(const struct mt_layer *layer)
{
	return layer->first_sequence == 0;
}

/*
 * mt_flush_input_chunk -- a flush of @chunk: its oldest layers, and those of its newest runs that it pays to take
 *
 * 0; -ENOENT: the chunk has no layer with anything in it; -ENOMEM: its active layer cannot freeze.
 */
int mt_flush_input_chunk(const struct flush_terms *terms, struct mt_chunk *chunk,
    struct mt_merge_input *ret_input);
/*
 * mt_flush_input_group -- a compaction of the group that @run is in; with the layers, if all belong to it
 *
 * 0; -EBUSY: a part of the group is being merged; -ENOMEM.
 */
int mt_flush_input_group(const struct flush_terms *terms, struct mt_run *run,
    struct mt_merge_input *ret_input);
/* mt_flush_input_is_compaction -- was @input made by mt_flush_input_group? */
bool mt_flush_input_is_compaction(const struct mt_merge_input *input);

#endif /* CLEAVE_MIDDLETIER_MERGE_FLUSH_INPUT_H */
