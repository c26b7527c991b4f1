/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunk.c -- chunks of a shard's index, with their layers and runs
 *
 * Chunks are in a hash table of lists that doubles at once: there is one for 64 MiB. A layer that has no
 * record yet is in no list by age, and a chunk in which there is nothing and nothing is promised goes.
 */
#include "index/chunk.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "index/heat.h"
#include "index/index.h"
#include "index/memtable.h"
#include "index/run_index.h"
#include "index/segment.h"

/* ---- chunks ---- */

static struct loop_link *
index_bucket(const struct mt_index *index, uint64_t number)
{
	return &index->buckets[num_mix_u64(number) & (index->bucket_count - 1)];
}

struct mt_chunk *
mt_chunk_find(const struct mt_index *index, uint64_t number)
{
	const struct loop_link *bucket = index_bucket(index, number);
	struct loop_link *link;

	for (link = bucket->next; link != bucket; link = link->next) {
		struct mt_chunk *chunk = LIST_ENTRY(link, struct mt_chunk, hash_link);

		if (chunk->number == number)
			return chunk;
	}
	return NULL;
}

struct mt_chunk *
mt_index_chunk(const struct mt_index *index, uint64_t number)
{
	CHECK_OBJ(index, MT_INDEX_MAGIC);
	return mt_chunk_find(index, number);
}

/* Longer lists do no harm: without memory it stays as it is. */
static void
index_grow(struct mt_index *index)
{
	uint64_t count = index->bucket_count * 2;
	struct loop_link *buckets = mt_calloc(count, sizeof(*buckets));
	struct loop_link *link;

	assert((index->bucket_count & (index->bucket_count - 1)) == 0);
	if (buckets == NULL)
		return;
	for (uint64_t i = 0; i < count; i++)
		list_init(&buckets[i]);
	mt_free(index->buckets);
	index->buckets = buckets;
	index->bucket_count = count;
	for (link = index->chunks.next; link != &index->chunks; link = link->next) {
		struct mt_chunk *chunk = LIST_ENTRY(link, struct mt_chunk, link);

		chunk->hash_link = (struct loop_link){ NULL, NULL };
		list_push_back(index_bucket(index, chunk->number), &chunk->hash_link);
	}
}

struct mt_chunk *
mt_chunk_create(struct mt_index *index, uint64_t number)
{
	struct mt_chunk *chunk = mt_calloc(1, sizeof(*chunk));

	assert(mt_chunk_find(index, number) == NULL);
	if (chunk == NULL)
		return NULL;
	chunk->segment = mt_segment_join(index, mt_chunk_segment(number));
	if (chunk->segment == NULL) {
		mt_free(chunk);
		return NULL;
	}
	chunk->index = index;
	chunk->number = number;
	list_init(&chunk->layers);
	list_init(&chunk->runs);
	if (index->chunk_count >= index->bucket_count)
		index_grow(index);
	list_push_back(index_bucket(index, number), &chunk->hash_link);
	list_push_back(&index->chunks, &chunk->link);
	index->chunk_count++;
	return chunk;
}

struct mt_chunk *
mt_chunk_find_or_create(struct mt_index *index, uint64_t number)
{
	struct mt_chunk *chunk = mt_chunk_find(index, number);

	return chunk != NULL ? chunk : mt_chunk_create(index, number);
}

struct mt_layer *
mt_chunk_active(struct mt_chunk *chunk)
{
	struct loop_link *link = list_first(&chunk->layers);

	return link == NULL || mt_layer_of(link)->is_frozen ? NULL : mt_layer_of(link);
}

/* ---- layers ---- */

/* The memory of one of its layers was @before_bytes, and is @bytes. */
static void
chunk_count_memory(struct mt_chunk *chunk, uint64_t before_bytes, uint64_t bytes)
{
	struct mt_index *index = chunk->index;

	assert(index->memory_bytes >= before_bytes);
	index->memory_bytes = index->memory_bytes - before_bytes + bytes;
	if (chunk->pin != MT_PIN_NONE)
		index->pinned_bytes = index->pinned_bytes - before_bytes + bytes;
	assert(index->pinned_bytes <= index->memory_bytes);
}

static uint64_t
layer_bytes(const struct mt_layer *layer)
{
	return sizeof(*layer) + mt_memtable_bytes(&layer->table);
}

void
mt_chunk_pin(struct mt_chunk *chunk, enum mt_pin pin)
{
	struct mt_index *index = chunk->index;
	bool was_pinned = chunk->pin != MT_PIN_NONE, is_pinned = pin != MT_PIN_NONE;
	const struct loop_link *link;
	uint64_t bytes = 0;

	chunk->pin = pin;
	if (is_pinned == was_pinned)
		return;
	assert(is_pinned || chunk->segment->pinned_count > 0);
	for (link = chunk->layers.next; link != &chunk->layers; link = link->next)
		bytes += layer_bytes(LIST_ENTRY(link, struct mt_layer, link));
	if (is_pinned) {
		chunk->segment->pinned_count++;
		index->pinned_bytes += bytes;
	} else {
		chunk->segment->pinned_count--;
		index->pinned_bytes -= bytes;
	}
}

int
mt_layer_reserve(struct mt_layer *layer, uint64_t count)
{
	uint64_t before_bytes = mt_memtable_bytes(&layer->table);
	int rc = mt_memtable_reserve(&layer->table, (uint32_t)num_min(count, CLEAVE_CHUNK_BLOCKS));

	assert(count > 0);
	assert(!layer->is_frozen);
	chunk_count_memory(layer->chunk, before_bytes, mt_memtable_bytes(&layer->table));
	return rc;
}

void
mt_layer_free(struct mt_layer *layer)
{
	struct mt_chunk *chunk = layer->chunk;
	struct mt_index *index = chunk->index;

	assert(chunk->layer_count > 0);
	assert(index->key_count >= layer->table.key_count);
	assert(chunk->layer_bytes >= layer->stored_bytes);
	index->key_count -= layer->table.key_count;
	chunk_count_memory(chunk, layer_bytes(layer), 0);
	chunk->layer_bytes -= layer->stored_bytes;
	chunk->segment->layer_bytes -= layer->stored_bytes;
	chunk->layer_count--;
	list_remove(&layer->link);
	list_remove(&layer->age_link);
	mt_memtable_fini(&layer->table);
	mt_free(layer);
}

struct mt_layer *
mt_layer_create(struct mt_chunk *chunk)
{
	struct mt_layer *layer = mt_calloc(1, sizeof(*layer));

	assert(chunk->layer_count > 0 || list_is_empty(&chunk->layers));
	if (layer == NULL)
		return NULL;
	layer->chunk = chunk;
	list_push_front(&chunk->layers, &layer->link);
	chunk->layer_count++;
	chunk_count_memory(chunk, 0, sizeof(*layer));
	if (chunk->promised_count > 0 && mt_layer_reserve(layer, chunk->promised_count) != 0) {
		mt_layer_free(layer);
		return NULL;
	}
	return layer;
}

int
mt_index_freeze(struct mt_chunk *chunk)
{
	struct mt_layer *active = mt_chunk_active(chunk);

	assert(chunk->index != NULL);
	if (active == NULL || mt_layer_is_empty(active))
		return 0;
	if (chunk->promised_count > 0 && mt_layer_create(chunk) == NULL)
		return -ENOMEM;
	active->is_frozen = true;
	return 0;
}

void
mt_index_remove_layer(struct mt_layer *layer)
{
	assert(layer->is_frozen);
	mt_layer_free(layer);
}

/* ---- a chunk goes ---- */

void
mt_index_remove_chunk(struct mt_chunk *chunk)
{
	struct mt_index *index = chunk->index;
	struct loop_link *link;

	assert(index->chunk_count > 0);
	while ((link = list_first(&chunk->layers)) != NULL)
		mt_layer_free(mt_layer_of(link));
	while ((link = list_first(&chunk->runs)) != NULL)
		mt_index_remove_run(mt_run_of(link));
	mt_chunk_pin(chunk, MT_PIN_NONE);
	list_remove(&chunk->hash_link);
	list_remove(&chunk->link);
	mt_segment_leave(index, chunk->segment);
	index->chunk_count--;
	mt_free(chunk);
}

bool
mt_index_drop_empty(struct mt_chunk *chunk)
{
	const struct mt_layer *active = mt_chunk_active(chunk);

	assert(chunk->layer_count > 0 || list_is_empty(&chunk->layers));
	if (chunk->promised_count > 0 || chunk->run_count > 0 || chunk->layer_count > 1 ||
	    (chunk->layer_count == 1 && (active == NULL || !mt_layer_is_empty(active))))
		return false;
	mt_index_remove_chunk(chunk);
	return true;
}

/* ---- runs ---- */

uint64_t
mt_index_flushed(const struct mt_index *index, uint64_t chunk_number)
{
	struct mt_chunk *chunk = mt_index_chunk(index, chunk_number);

	if (chunk == NULL || list_is_empty(&chunk->runs))
		return 0;
	return mt_run_of(chunk->runs.next)->flushed_sequence;
}

static void
run_count_in_extent(const struct mt_run *run, bool is_added)
{
	struct mt_extent *extent = mt_shard_extent(run->chunk->index->shard, run->extent_index);

	assert(extent != NULL);
	if (is_added) {
		extent->run_count++;
		extent->run_bytes += run->length_bytes;
		return;
	}
	assert(extent->run_count > 0);
	assert(extent->run_bytes >= run->length_bytes);
	extent->run_count--;
	extent->run_bytes -= run->length_bytes;
}

struct mt_run *
mt_index_add_run(struct mt_index *index, uint64_t chunk_number, const struct mt_run *like)
{
	struct mt_chunk *chunk = mt_chunk_find_or_create(index, chunk_number);
	struct mt_run *run = mt_calloc(1, sizeof(*run));
	struct loop_link *at;

	assert(like->length_bytes > 0);
	if (chunk == NULL || run == NULL) {
		mt_free(run);
		if (chunk != NULL)
			(void)mt_index_drop_empty(chunk);
		errno = ENOMEM;
		return NULL;
	}
	run->chunk = chunk;
	run->extent_index = like->extent_index;
	run->offset_bytes = like->offset_bytes;
	run->length_bytes = like->length_bytes;
	run->directory_bytes = like->directory_bytes;
	run->directory_crc = like->directory_crc;
	run->flushed_sequence = like->flushed_sequence;
	run->cut = like->cut;
	at = chunk->runs.next;
	while (at != &chunk->runs &&
	    mt_run_of(at)->flushed_sequence + MUTANT(run_order_ignored) > run->flushed_sequence)
		at = at->next;
	list_insert_before(at, &run->link);
	chunk->run_count++;
	chunk->run_bytes += run->length_bytes;
	chunk->segment->run_bytes += run->length_bytes;
	index->run_count++;
	index->run_bytes += run->length_bytes;
	run_count_in_extent(run, true);
	return run;
}

void
mt_index_remove_run(struct mt_run *run)
{
	struct mt_chunk *chunk = run->chunk;

	assert(run->hold_count == 0);
	assert(chunk->run_count > 0);
	assert(chunk->run_bytes >= run->length_bytes);
	mt_run_forget(run);
	mt_heat_forget(run);
	chunk->index->hasty_count -= run->hasty_percent > 0;
	run_count_in_extent(run, false);
	chunk->run_count--;
	chunk->run_bytes -= run->length_bytes;
	chunk->segment->run_bytes -= run->length_bytes;
	chunk->index->run_count--;
	chunk->index->run_bytes -= run->length_bytes;
	list_remove(&run->link);
	mt_free(run);
}
