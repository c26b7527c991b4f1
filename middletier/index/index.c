/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.c -- chunks, what is in them, and the way of a block's newest version
 *
 *	promise   memory for an admitted write's keys, in the chunk's active layer
 *	apply     its record, acknowledged: the active layer's, or a new one's behind a cut
 *	unpromise the promise is over: applied, or given up
 *
 * Of what is promised and freezes, the next active layer has the room again. chunk.c has what an index
 * consists of, index_apply.c its records.
 */
#include "index/index.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "catalog/scope.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "index/chunk.h"
#include "index/index_cuts.h"
#include "index/memtable.h"
#include "index/run_index.h"

#define INDEX_BUCKETS_MIN 64u

/* ---- the index ---- */

struct mt_index *
mt_index_create(struct mt_shard *shard)
{
	struct mt_index *index = mt_calloc(1, sizeof(*index));

	assert(shard != NULL);
	if (index == NULL)
		goto err;
	index->buckets = mt_calloc(INDEX_BUCKETS_MIN, sizeof(*index->buckets));
	index->cuts = mt_index_cuts_create();
	if (index->buckets == NULL || index->cuts == NULL)
		goto err_index;
	index->magic = MT_INDEX_MAGIC;
	index->shard = shard;
	index->bucket_count = INDEX_BUCKETS_MIN;
	for (uint64_t i = 0; i < INDEX_BUCKETS_MIN; i++)
		list_init(&index->buckets[i]);
	list_init(&index->chunks);
	list_init(&index->layers_by_age);
	return index;

err_index:
	mt_index_cuts_destroy(index->cuts);
	mt_free(index->buckets);
	mt_free(index);
err:
	errno = ENOMEM;
	return NULL;
}

void
mt_index_destroy(struct mt_index *index)
{
	struct loop_link *link;

	if (index == NULL)
		return;
	CHECK_OBJ(index, MT_INDEX_MAGIC);
	while ((link = list_first(&index->chunks)) != NULL)
		mt_index_remove_chunk(LIST_ENTRY(link, struct mt_chunk, link));
	assert(index->key_count == 0);
	assert(index->memory_bytes == 0);
	mt_free(index->buckets);
	mt_index_cuts_destroy(index->cuts);
	index->magic = 0;
	mt_free(index);
}

uint64_t
mt_index_chunk_bytes(const struct mt_index *index)
{
	CHECK_OBJ(index, MT_INDEX_MAGIC);
	return index->chunk_count * sizeof(struct mt_chunk) +
	    index->bucket_count * sizeof(*index->buckets) +
	    index->run_count * sizeof(struct mt_run);
}

void
mt_index_prefetch(const struct mt_index *index, uint64_t segment, uint32_t block)
{
	struct mt_chunk *chunk = mt_chunk_find(index, mt_chunk_number(segment, block));
	struct mt_layer *active = chunk == NULL ? NULL : mt_chunk_active(chunk);

	if (active != NULL)
		mt_memtable_prefetch(&active->table, mt_block_in_chunk(block));
}

/* ---- promises ---- */

/* A discard of a whole chunk is a flag of its layer: no keys; one stands for it in the count. */
static uint32_t
promise_keys(uint32_t block_count)
{
	return block_count == CLEAVE_CHUNK_BLOCKS ? 1 : block_count;
}

int
mt_index_promise(struct mt_index *index, uint64_t segment, uint32_t block, uint32_t count)
{
	struct mt_chunk *chunk;
	struct mt_layer *active;

	CHECK_OBJ(index, MT_INDEX_MAGIC);
	assert(count > 0);
	assert(mt_block_in_chunk(block) + count <= CLEAVE_CHUNK_BLOCKS);
	chunk = mt_chunk_find_or_create(index, mt_chunk_number(segment, block));
	if (chunk == NULL)
		return -ENOMEM;
	chunk->promised_count += promise_keys(count);
	active = mt_chunk_active(chunk);
	if (active == NULL)
		active = mt_layer_create(chunk);
	if (active != NULL && mt_layer_reserve(active, chunk->promised_count) == 0)
		return 0;
	mt_index_unpromise(index, segment, block, count);
	return -ENOMEM;
}

void
mt_index_unpromise(struct mt_index *index, uint64_t segment, uint32_t block, uint32_t count)
{
	struct mt_chunk *chunk = mt_chunk_find(index, mt_chunk_number(segment, block));
	struct mt_layer *active;

	CHECK_OBJ(index, MT_INDEX_MAGIC);
	assert(chunk != NULL);
	assert(chunk->promised_count >= promise_keys(count));
	chunk->promised_count -= promise_keys(count);
	if (chunk->promised_count > 0)
		return;
	active = mt_chunk_active(chunk);
	if (active != NULL && mt_layer_is_empty(active))
		mt_layer_free(active); /* no record has come: nothing would ever flush it */
	if (chunk->layer_count == 0)
		(void)mt_index_drop_empty(chunk);
}

/* ---- the newest version ---- */

static enum mt_found
chunk_find(struct mt_chunk *chunk, const struct mt_span *span, uint32_t block,
    struct mt_location *ret_location, struct mt_run **ret_run)
{
	struct loop_link *link;

	assert(block < CLEAVE_CHUNK_BLOCKS);
	*ret_run = NULL;
	for (link = chunk->layers.next; link != &chunk->layers; link = link->next) {
		const struct mt_layer *layer = mt_layer_of(link);
		const struct mt_location *location;

		if (!mt_span_shows(span, layer->cut))
			continue;
		location = mt_memtable_get(&layer->table, block);
		if (location != NULL) {
			*ret_location = *location;
			return MT_FOUND_RECORD;
		}
		if (layer->hides_all) {
			*ret_location = (struct mt_location){ .record_kind = layer->hides_kind };
			return MT_FOUND_RECORD;
		}
	}
	for (link = chunk->runs.next; link != &chunk->runs; link = link->next) {
		struct mt_run *run = mt_run_of(link);

		if (!mt_span_shows(span, run->cut))
			continue;
		*ret_run = run;
		switch (mt_run_look(run, block, ret_location)) {
		case MT_RUN_UNLOADED:
			return MT_FOUND_UNLOADED;
		case MT_RUN_HERE:
			return MT_FOUND_RECORD;
		case MT_RUN_NOT:
			break;
		}
	}
	return MT_FOUND_NOTHING;
}

enum mt_found
mt_index_find(struct mt_index *index, const struct mt_scope *scope, uint64_t segment,
    uint32_t block, struct mt_location *ret_location, struct mt_run **ret_run)
{
	uint64_t found_segment;

	return mt_index_find_at(index, scope, segment, block, ret_location, ret_run,
	    &found_segment);
}

enum mt_found
mt_index_find_at(struct mt_index *index, const struct mt_scope *scope, uint64_t segment,
    uint32_t block, struct mt_location *ret_location, struct mt_run **ret_run,
    uint64_t *ret_segment)
{
	uint64_t in_volume = segment - scope->spans[0].segment_base;

	CHECK_OBJ(index, MT_INDEX_MAGIC);
	assert(scope->span_count > 0);
	for (uint32_t i = 0; i < scope->span_count; i++) {
		const struct mt_span *span = &scope->spans[i];
		uint64_t number = mt_chunk_number(span->segment_base + in_volume, block);
		struct mt_chunk *chunk = mt_chunk_find(index, number);
		enum mt_found found;

		if (chunk == NULL)
			continue;
		*ret_segment = span->segment_base + in_volume;
		found = chunk_find(chunk, span, mt_block_in_chunk(block), ret_location, ret_run);
		if (found != MT_FOUND_NOTHING)
			return found;
	}
	return MT_FOUND_NOTHING;
}
