/* SPDX-License-Identifier: Apache-2.0 */
/* index_cuts.h -- cuts that matter to an index, and what nobody sees of it any more */
#ifndef CLEAVE_MIDDLETIER_INDEX_INDEX_CUTS_H
#define CLEAVE_MIDDLETIER_INDEX_INDEX_CUTS_H

#include <stdbool.h>
#include <stdint.h>

struct mt_hidden;
struct mt_index;
struct mt_index_cuts;

/* A cut, and the segments to whose chunks it matters. */
struct mt_index_cut {
	uint64_t cut;
	uint64_t segment_base;
	uint32_t segment_count;
};

/* mt_index_cuts_create -- of an index that is being made. NULL: no memory. */
struct mt_index_cuts *mt_index_cuts_create(void);
void mt_index_cuts_destroy(struct mt_index_cuts *cuts);
/*
 * Cuts that matter. add: -ENOMEM. One is added before the first record that has it is applied, for this
 * one to begin a new layer.
 */
int mt_index_add_cut(struct mt_index *index, const struct mt_index_cut *cut);
void mt_index_drop_cut(struct mt_index *index, uint64_t cut);
/* mt_index_cut_count -- how many were added and not dropped. */
uint32_t mt_index_cut_count(const struct mt_index *index);
/* mt_index_is_cut_between -- must records of cuts @older and @newer of this chunk be kept apart? */
bool mt_index_is_cut_between(const struct mt_index *index, uint64_t chunk_number, uint64_t older,
    uint64_t newer);

/*
 * mt_index_hide -- nobody sees, or ever will, what @hidden says: merges drop it
 *
 * Only until the shard is taken over: to be said again then. One that overlaps one of the same segments, or touches
 * it, becomes a part of that. Returns false: there is no room for it.
 */
bool mt_index_hide(struct mt_index *index, const struct mt_hidden *hidden);
/*
 * mt_index_hide_all -- the same of @count
 *
 * Where one finds no room what no layer or run has any more is forgotten first: that goes through all chunks, once a
 * call. Returns false: there is no room for some even so; they may be told again later.
 */
bool mt_index_hide_all(struct mt_index *index, const struct mt_hidden *hidden, uint32_t count);
/* mt_index_hidden_count -- how many gaps it knows. */
uint32_t mt_index_hidden_count(const struct mt_index *index);
/* mt_index_is_hidden -- is all of a layer or run of this chunk, with this cut? */
bool mt_index_is_hidden(const struct mt_index *index, uint64_t chunk_number, uint64_t cut);

#endif /* CLEAVE_MIDDLETIER_INDEX_INDEX_CUTS_H */
