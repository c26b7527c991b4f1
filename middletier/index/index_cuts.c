/* SPDX-License-Identifier: Apache-2.0 */
/* index_cuts.c -- see index_cuts.h */
#include "index/index_cuts.h"

#include <errno.h>

#include "base/check.h"
#include "base/num.h"
#include "base/search.h"
#include "catalog/hidden.h"
#include "common/alloc.h"
#include "index/chunk.h"
#include "index/index.h"

#define CUTS_ROOM_MIN 8u
#define CUTS_HIDDEN_MAX 64u

struct mt_index_cuts {
	struct mt_index_cut *entries; /* that have not been dropped, ascending */
	uint32_t count, max;
	struct mt_hidden hidden[CUTS_HIDDEN_MAX];
	uint32_t hidden_count;
};

struct mt_index_cuts *
mt_index_cuts_create(void)
{
	return mt_calloc(1, sizeof(struct mt_index_cuts));
}

void
mt_index_cuts_destroy(struct mt_index_cuts *cuts)
{
	if (cuts != NULL)
		mt_free(cuts->entries);
	mt_free(cuts);
}

/* ---- cuts ---- */

static int
cuts_grow(struct mt_index_cuts *cuts)
{
	uint32_t max = cuts->max == 0 ? CUTS_ROOM_MIN : cuts->max * 2;
	struct mt_index_cut *entries = mt_realloc(cuts->entries, max * sizeof(*entries));

	if (entries == NULL)
		return -ENOMEM;
	cuts->entries = entries;
	cuts->max = max;
	assert(cuts->count < cuts->max);
	return 0;
}

int
mt_index_add_cut(struct mt_index *index, const struct mt_index_cut *cut)
{
	struct mt_index_cuts *cuts = index->cuts;
	uint32_t at;

	CHECK_OBJ(index, MT_INDEX_MAGIC);
	assert(cut->cut != 0);
	if (cuts->count == cuts->max && cuts_grow(cuts) != 0)
		return -ENOMEM;
	for (at = cuts->count; at > 0 && cuts->entries[at - 1].cut > cut->cut; at--)
		cuts->entries[at] = cuts->entries[at - 1];
	cuts->entries[at] = *cut;
	cuts->count++;
	return 0;
}

/* The first that is at least @cut. */
static uint32_t
cut_position(const struct mt_index_cuts *cuts, uint64_t cut)
{
	uint32_t at;

	SEARCH_FIRST(at, cuts->count, cuts->entries[at].cut < cut);
	assert(at <= cuts->count);
	return at;
}

void
mt_index_drop_cut(struct mt_index *index, uint64_t cut)
{
	struct mt_index_cuts *cuts = index->cuts;
	uint32_t at;

	CHECK_OBJ(index, MT_INDEX_MAGIC);
	at = cut_position(cuts, cut);
	if (at == cuts->count || cuts->entries[at].cut != cut)
		return;
	cuts->count--;
	for (; at < cuts->count; at++)
		cuts->entries[at] = cuts->entries[at + 1];
}

bool
mt_index_is_cut_between(const struct mt_index *index, uint64_t chunk_number, uint64_t older,
    uint64_t newer)
{
	const struct mt_index_cuts *cuts = index->cuts;
	uint64_t segment = mt_chunk_segment(chunk_number);

	assert(older < UINT64_MAX);
	/* Snapshot n sees what is below n: it parts older < n <= newer. */
	for (uint32_t i = cut_position(cuts, older + 1);
	     i < cuts->count && cuts->entries[i].cut <= newer; i++) {
		const struct mt_index_cut *cut = &cuts->entries[i];

		if (segment >= cut->segment_base &&
		    segment - cut->segment_base < cut->segment_count)
			return true;
	}
	return false;
}

uint32_t
mt_index_cut_count(const struct mt_index *index)
{
	CHECK_OBJ(index, MT_INDEX_MAGIC);
	return index->cuts->count;
}

/* ---- what nobody sees ---- */

/* True: both are of the same segments, with nothing in between: more of them by now (a snapshot has gone, another roll-back). */
static bool
hidden_joins(const struct mt_hidden *a, const struct mt_hidden *b)
{
	return a->segment_base == b->segment_base && a->segment_count == b->segment_count &&
	    a->cut_from <= b->cut_below && b->cut_from <= a->cut_below;
}

bool
mt_index_hide(struct mt_index *index, const struct mt_hidden *hidden)
{
	struct mt_index_cuts *cuts = index->cuts;
	struct mt_hidden all = *hidden;
	uint32_t kept = 0;

	CHECK_OBJ(index, MT_INDEX_MAGIC);
	assert(hidden->segment_count > 0);
	assert(hidden->cut_from < hidden->cut_below);
	for (uint32_t i = 0; i < cuts->hidden_count; i++) {
		if (!hidden_joins(&cuts->hidden[i], &all)) {
			cuts->hidden[kept++] = cuts->hidden[i];
			continue;
		}
		all.cut_from = num_min(all.cut_from, cuts->hidden[i].cut_from);
		all.cut_below = num_max(all.cut_below, cuts->hidden[i].cut_below);
	}
	cuts->hidden_count = kept;
	if (kept == CUTS_HIDDEN_MAX)
		return false;
	cuts->hidden[cuts->hidden_count++] = all;
	return true;
}

static bool
is_of_segment(const struct mt_hidden *hidden, uint64_t segment)
{
	return segment >= hidden->segment_base &&
	    segment - hidden->segment_base < hidden->segment_count;
}

static bool
is_of_cut(const struct mt_hidden *hidden, uint64_t cut)
{
	return cut >= hidden->cut_from && cut < hidden->cut_below;
}

/* A layer or a run of @chunk, which is of its segments, is hidden by it. */
static bool
chunk_has_hidden(const struct mt_chunk *chunk, const struct mt_hidden *hidden)
{
	for (const struct loop_link *link = chunk->layers.next; link != &chunk->layers;
	     link = link->next) {
		if (is_of_cut(hidden, NUM_CONTAINER_OF(link, struct mt_layer, link)->cut))
			return true;
	}
	for (const struct loop_link *link = chunk->runs.next; link != &chunk->runs;
	     link = link->next) {
		if (is_of_cut(hidden, NUM_CONTAINER_OF(link, struct mt_run, link)->cut))
			return true;
	}
	return false;
}

/* Forgets what no layer or run has any more: merges have taken it away. All chunks are gone through. */
static void
hidden_tidy(struct mt_index *index)
{
	struct mt_index_cuts *cuts = index->cuts;
	bool is_there[CUTS_HIDDEN_MAX] = { false };
	uint32_t kept = 0;

	assert(cuts->hidden_count <= CUTS_HIDDEN_MAX);
	for (const struct loop_link *at = index->chunks.next; at != &index->chunks; at = at->next) {
		const struct mt_chunk *chunk = NUM_CONTAINER_OF(at, struct mt_chunk, link);
		uint64_t segment = mt_chunk_segment(chunk->number);

		for (uint32_t i = 0; i < cuts->hidden_count; i++) {
			if (!is_there[i] && is_of_segment(&cuts->hidden[i], segment))
				is_there[i] = chunk_has_hidden(chunk, &cuts->hidden[i]);
		}
	}
	for (uint32_t i = 0; i < cuts->hidden_count; i++) {
		if (is_there[i])
			cuts->hidden[kept++] = cuts->hidden[i];
	}
	cuts->hidden_count = kept;
}

bool
mt_index_hide_all(struct mt_index *index, const struct mt_hidden *hidden, uint32_t count)
{
	bool is_tidy = false, has_all = true;

	CHECK_OBJ(index, MT_INDEX_MAGIC);
	for (uint32_t i = 0; i < count; i++) {
		bool is_kept = mt_index_hide(index, &hidden[i]);

		if (!is_kept && !is_tidy) {
			hidden_tidy(index);
			is_tidy = true;
			is_kept = mt_index_hide(index, &hidden[i]);
		}
		has_all = has_all && is_kept;
	}
	return has_all;
}

bool
mt_index_is_hidden(const struct mt_index *index, uint64_t chunk_number, uint64_t cut)
{
	const struct mt_index_cuts *cuts = index->cuts;
	uint64_t segment = mt_chunk_segment(chunk_number);

	assert(cuts->hidden_count <= CUTS_HIDDEN_MAX);
	for (uint32_t i = 0; i < cuts->hidden_count; i++) {
		if (is_of_segment(&cuts->hidden[i], segment) && is_of_cut(&cuts->hidden[i], cut))
			return true;
	}
	return false;
}

uint32_t
mt_index_hidden_count(const struct mt_index *index)
{
	CHECK_OBJ(index, MT_INDEX_MAGIC);
	return index->cuts->hidden_count;
}
