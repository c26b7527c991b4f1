/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.c -- chunks, what is in them, and the way of a block's newest version
 *
 *	promise   memory for an admitted write's keys, in the chunk's active layer
 *	apply     its record, acknowledged: the active layer's, or a new one's behind a cut
 *	keep      the promise is over
 *
 * Of what is promised and freezes, the next active layer has the room again. A layer that has no record
 * yet is in no list by age, and a chunk in which there is nothing and nothing is promised goes.
 *
 * Chunks are in a hash table of lists that doubles at once: there is one for 64 MiB.
 */
#include "index/index.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/search.h"
#include "catalog/hidden.h"
#include "catalog/scope.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "index/memtable.h"
#include "index/run_index.h"

#define INDEX_MAGIC 0x58444e49u /* "INDX" */
#define INDEX_BUCKETS_MIN 64u
#define INDEX_CUTS_MIN 8u

static struct mt_layer *
layer_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct mt_layer, link);
}

static struct mt_run *
run_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct mt_run, link);
}

static uint32_t
block_in_chunk(uint32_t block)
{
	return block % (uint32_t)CLEAVE_CHUNK_BLOCKS;
}

static uint64_t
chunk_segment(uint64_t number)
{
	return number / CLEAVE_SEGMENT_CHUNKS;
}

/* ---- chunks ---- */

static struct loop_link *
index_bucket(const struct mt_index *index, uint64_t number)
{
	return &index->buckets[num_mix_u64(number) & (index->bucket_count - 1)];
}

static struct mt_chunk *
index_find_chunk(const struct mt_index *index, uint64_t number)
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
	CHECK_OBJ(index, INDEX_MAGIC);
	return index_find_chunk(index, number);
}

/* Longer lists do no harm: without memory it stays as it is. */
static void
index_grow(struct mt_index *index)
{
	uint64_t count = index->bucket_count * 2;
	struct loop_link *buckets = mt_calloc(count, sizeof(*buckets));
	struct loop_link *link;

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

static struct mt_chunk *
chunk_create(struct mt_index *index, uint64_t number)
{
	struct mt_chunk *chunk = mt_calloc(1, sizeof(*chunk));

	if (chunk == NULL)
		return NULL;
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

static struct mt_chunk *
chunk_find_or_create(struct mt_index *index, uint64_t number)
{
	struct mt_chunk *chunk = index_find_chunk(index, number);

	return chunk != NULL ? chunk : chunk_create(index, number);
}

/* The layer that takes records; NULL: there is none. */
static struct mt_layer *
chunk_active(struct mt_chunk *chunk)
{
	struct loop_link *link = list_first(&chunk->layers);

	return link == NULL || layer_of(link)->is_frozen ? NULL : layer_of(link);
}

/* ---- layers ---- */

static bool
layer_is_empty(const struct mt_layer *layer)
{
	return !list_contains(&layer->age_link);
}

static int
layer_reserve(struct mt_layer *layer, uint64_t count)
{
	uint64_t before_bytes = mt_memtable_bytes(&layer->table);
	int rc = mt_memtable_reserve(&layer->table, (uint32_t)num_min(count, CLEAVE_CHUNK_BLOCKS));

	layer->chunk->index->memory_bytes += mt_memtable_bytes(&layer->table) - before_bytes;
	return rc;
}

static void
layer_free(struct mt_layer *layer)
{
	struct mt_chunk *chunk = layer->chunk;
	struct mt_index *index = chunk->index;

	index->key_count -= layer->table.key_count;
	index->memory_bytes -= sizeof(*layer) + mt_memtable_bytes(&layer->table);
	chunk->layer_bytes -= layer->stored_bytes;
	chunk->layer_count--;
	list_remove(&layer->link);
	list_remove(&layer->age_link);
	mt_memtable_fini(&layer->table);
	mt_free(layer);
}

/* A new active layer, with room for all that is promised. */
static struct mt_layer *
layer_create(struct mt_chunk *chunk)
{
	struct mt_layer *layer = mt_calloc(1, sizeof(*layer));

	if (layer == NULL)
		return NULL;
	layer->chunk = chunk;
	list_push_front(&chunk->layers, &layer->link);
	chunk->layer_count++;
	chunk->index->memory_bytes += sizeof(*layer);
	if (chunk->promised_count > 0 && layer_reserve(layer, chunk->promised_count) != 0) {
		layer_free(layer);
		return NULL;
	}
	return layer;
}

int
mt_index_freeze(struct mt_chunk *chunk)
{
	struct mt_layer *active = chunk_active(chunk);

	if (active == NULL || layer_is_empty(active))
		return 0;
	if (chunk->promised_count > 0 && layer_create(chunk) == NULL)
		return -ENOMEM;
	active->is_frozen = true;
	return 0;
}

void
mt_index_remove_layer(struct mt_layer *layer)
{
	assert(layer->is_frozen);
	layer_free(layer);
}

/* ---- a chunk goes ---- */

void
mt_index_remove_chunk(struct mt_chunk *chunk)
{
	struct mt_index *index = chunk->index;
	struct loop_link *link;

	while ((link = list_first(&chunk->layers)) != NULL)
		layer_free(layer_of(link));
	while ((link = list_first(&chunk->runs)) != NULL)
		mt_index_remove_run(run_of(link));
	list_remove(&chunk->hash_link);
	list_remove(&chunk->link);
	index->chunk_count--;
	mt_free(chunk);
}

bool
mt_index_drop_empty(struct mt_chunk *chunk)
{
	const struct mt_layer *active = chunk_active(chunk);

	if (chunk->promised_count > 0 || chunk->run_count > 0 || chunk->layer_count > 1 ||
	    (chunk->layer_count == 1 && (active == NULL || !layer_is_empty(active))))
		return false;
	mt_index_remove_chunk(chunk);
	return true;
}

/* ---- the index ---- */

struct mt_index *
mt_index_create(struct mt_shard *shard)
{
	struct mt_index *index = mt_calloc(1, sizeof(*index));

	if (index == NULL)
		goto err;
	index->buckets = mt_calloc(INDEX_BUCKETS_MIN, sizeof(*index->buckets));
	if (index->buckets == NULL)
		goto err_index;
	index->magic = INDEX_MAGIC;
	index->shard = shard;
	index->bucket_count = INDEX_BUCKETS_MIN;
	for (uint64_t i = 0; i < INDEX_BUCKETS_MIN; i++)
		list_init(&index->buckets[i]);
	list_init(&index->chunks);
	list_init(&index->layers_by_age);
	return index;

err_index:
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
	CHECK_OBJ(index, INDEX_MAGIC);
	while ((link = list_first(&index->chunks)) != NULL)
		mt_index_remove_chunk(LIST_ENTRY(link, struct mt_chunk, link));
	assert(index->key_count == 0);
	assert(index->memory_bytes == 0);
	mt_free(index->buckets);
	mt_free(index->cuts);
	index->magic = 0;
	mt_free(index);
}

uint64_t
mt_index_chunk_bytes(const struct mt_index *index)
{
	CHECK_OBJ(index, INDEX_MAGIC);
	return index->chunk_count * sizeof(struct mt_chunk) +
	    index->bucket_count * sizeof(*index->buckets) +
	    index->run_count * sizeof(struct mt_run);
}

void
mt_index_prefetch(const struct mt_index *index, uint64_t segment, uint32_t block)
{
	struct mt_chunk *chunk = index_find_chunk(index, mt_chunk_number(segment, block));
	struct mt_layer *active = chunk == NULL ? NULL : chunk_active(chunk);

	if (active != NULL)
		mt_memtable_prefetch(&active->table, block_in_chunk(block));
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

	CHECK_OBJ(index, INDEX_MAGIC);
	chunk = chunk_find_or_create(index, mt_chunk_number(segment, block));
	if (chunk == NULL)
		return -ENOMEM;
	chunk->promised_count += promise_keys(count);
	active = chunk_active(chunk);
	if (active == NULL)
		active = layer_create(chunk);
	if (active != NULL && layer_reserve(active, chunk->promised_count) == 0)
		return 0;
	mt_index_keep(index, segment, block, count);
	return -ENOMEM;
}

void
mt_index_keep(struct mt_index *index, uint64_t segment, uint32_t block, uint32_t count)
{
	struct mt_chunk *chunk = index_find_chunk(index, mt_chunk_number(segment, block));
	struct mt_layer *active;

	assert(chunk != NULL);
	assert(chunk->promised_count >= promise_keys(count));
	chunk->promised_count -= promise_keys(count);
	if (chunk->promised_count > 0)
		return;
	active = chunk_active(chunk);
	if (active != NULL && layer_is_empty(active))
		layer_free(active); /* no record has come: nothing would ever flush it */
	if (chunk->layer_count == 0)
		(void)mt_index_drop_empty(chunk);
}

/* ---- records ---- */

/* The layer that takes @record: a new one behind a cut, and where there was none. */
static struct mt_layer *
apply_layer(struct mt_chunk *chunk, const struct record_desc *record, uint64_t cut,
    uint32_t extent_index)
{
	struct mt_layer *layer = chunk_active(chunk);

	if (layer != NULL && !layer_is_empty(layer) && cut != layer->cut &&
	    mt_index_is_cut_between(chunk->index, chunk->number, layer->cut, cut)) {
		if (mt_index_freeze(chunk) != 0)
			return NULL;
		layer = chunk_active(chunk);
	}
	if (layer == NULL)
		layer = layer_create(chunk);
	if (layer == NULL)
		return NULL;
	if (layer_is_empty(layer)) {
		layer->first_sequence = record->sequence;
		layer->first_extent = extent_index;
		list_push_back(&chunk->index->layers_by_age, &layer->age_link);
	}
	layer->cut = num_max(layer->cut, cut);
	return layer;
}

static int
apply_write(struct mt_chunk *chunk, struct mt_layer *layer, const struct record_desc *record,
    struct mt_location *location)
{
	uint32_t block = block_in_chunk(record->block), before_count = layer->table.key_count;
	int rc = layer_reserve(layer, record->block_count);

	if (rc != 0)
		return rc;
	for (uint32_t i = 0; i < record->block_count; i++) {
		location->block_crc = record->block_crcs[i];
		location->block_in_record = (uint8_t)i;
		mt_memtable_put(&layer->table, block + i, location);
	}
	chunk->index->key_count += layer->table.key_count - before_count;
	layer->stored_bytes += record->stored_bytes;
	chunk->layer_bytes += record->stored_bytes;
	return 0;
}

/*
 * The first layer that a cut parts from records of @cut, or the list's head. Whoever sees such a record
 * sees the layers before it, too; it and those behind it perhaps not: the volume may have been rolled back.
 */
static const struct loop_link *
chunk_parted(const struct mt_chunk *chunk, uint64_t cut)
{
	const struct loop_link *link;

	for (link = chunk->layers.next; link != &chunk->layers; link = link->next) {
		const struct mt_layer *layer = layer_of((struct loop_link *)link);

		if (!layer_is_empty(layer) && !MUTANT(tombstone_scope_ignored) &&
		    mt_index_is_cut_between(chunk->index, chunk->number, layer->cut, cut))
			break;
	}
	return link;
}

/*
 * May anything but zeros of @kind be seen of the block by one who sees a record that is applied now? A
 * tombstone in a layer before @parted answers that. One behind it is there for others alone, perhaps: it
 * hides nothing, and what lies under it counts.
 */
static bool
chunk_may_hold(struct mt_chunk *chunk, uint32_t block, uint8_t kind, const struct loop_link *parted)
{
	const struct loop_link *link;
	bool is_parted = false;

	for (link = chunk->layers.next; link != &chunk->layers; link = link->next) {
		const struct mt_layer *layer = layer_of((struct loop_link *)link);
		const struct mt_location *location = mt_memtable_get(&layer->table, block);

		is_parted = is_parted || link == parted;
		if (location == NULL && !layer->hides_all)
			continue;
		if (location != NULL ? location->stored_bytes > 0 || location->record_kind != kind
				     : layer->hides_kind != kind)
			return true;
		if (!is_parted)
			return false;
	}
	for (link = chunk->runs.next; link != &chunk->runs; link = link->next) {
		struct mt_run *run = run_of((struct loop_link *)link);
		struct mt_location location;

		if (run->index == NULL || mt_run_find(run, block, &location))
			return true;
	}
	return wire_segment_is_clone(chunk_segment(chunk->number));
}

/* All that the layer holds of the chunk is hidden, and so is what lies under it. */
static void
apply_to_whole(struct mt_layer *layer, const struct record_desc *record)
{
	struct mt_chunk *chunk = layer->chunk;

	chunk->index->key_count -= layer->table.key_count;
	mt_memtable_clear(&layer->table);
	chunk->layer_bytes -= layer->stored_bytes;
	layer->stored_bytes = 0;
	layer->hides_all = true;
	layer->hides_kind = record->kind;
}

/* A block of which nothing is known reads as zeros: a tombstone covers only what may be there. */
static int
apply_tombstone(struct mt_chunk *chunk, const struct record_desc *record, uint64_t cut,
    const struct mt_location *location)
{
	uint32_t block = block_in_chunk(record->block), needed_count = 0, before_count;
	const struct loop_link *parted = chunk_parted(chunk, cut);
	struct mt_layer *layer;

	for (uint32_t i = 0; i < record->block_count; i++)
		needed_count += chunk_may_hold(chunk, block + i, record->kind, parted);
	if (needed_count == 0)
		return 0;
	layer = apply_layer(chunk, record, cut, location->extent_index);
	if (layer == NULL)
		return -ENOMEM;
	layer->last_sequence = record->sequence;
	if (record->block_count == CLEAVE_CHUNK_BLOCKS) {
		apply_to_whole(layer, record);
		return 0;
	}
	if (layer_reserve(layer, needed_count) != 0)
		return -ENOMEM;
	before_count = layer->table.key_count;
	for (uint32_t i = 0; i < record->block_count; i++) {
		if (chunk_may_hold(chunk, block + i, record->kind, parted))
			mt_memtable_put(&layer->table, block + i, location);
	}
	chunk->index->key_count += layer->table.key_count - before_count;
	return 0;
}

int
mt_index_apply(struct mt_index *index, const struct record_desc *record, uint64_t cut,
    uint32_t extent_index, uint64_t batch_offset_bytes, uint64_t ring_position)
{
	uint64_t number = mt_chunk_number(record->segment, record->block);
	struct mt_location location = {
		.extent_index = extent_index,
		.offset_bytes = (uint32_t)batch_offset_bytes + record->payload_offset_bytes,
		.record_kind = record->kind,
	};
	bool is_write = record->kind == RECORD_WRITE;
	struct mt_chunk *chunk = index_find_chunk(index, number);
	struct mt_layer *layer;

	CHECK_OBJ(index, INDEX_MAGIC);
	if (chunk == NULL && (is_write || wire_segment_is_clone(record->segment))) {
		chunk = chunk_create(index, number);
		if (chunk == NULL)
			return -ENOMEM;
	}
	if (!is_write)
		return chunk == NULL ? 0 : apply_tombstone(chunk, record, cut, &location);
	layer = apply_layer(chunk, record, cut, extent_index);
	if (layer == NULL)
		return -ENOMEM;
	layer->last_sequence = record->sequence;
	location.ring_position = ring_position;
	location.stored_bytes = record->stored_bytes;
	location.stored_crc = record->stored_crc;
	location.codec_id = record->codec_id;
	location.record_blocks = (uint8_t)record->block_count;
	return apply_write(chunk, layer, record, &location);
}

/* ---- the newest version ---- */

static bool
span_shows(const struct mt_span *span, uint64_t cut)
{
	return cut >= span->cut_from && cut < span->cut_below;
}

static enum mt_found
chunk_find(struct mt_chunk *chunk, const struct mt_span *span, uint32_t block,
    struct mt_location *ret_location, struct mt_run **ret_run)
{
	struct loop_link *link;

	for (link = chunk->layers.next; link != &chunk->layers; link = link->next) {
		const struct mt_layer *layer = layer_of(link);
		const struct mt_location *location;

		if (!span_shows(span, layer->cut))
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
		struct mt_run *run = run_of(link);

		if (!span_shows(span, run->cut))
			continue;
		if (run->index == NULL) {
			*ret_run = run;
			return MT_FOUND_UNLOADED;
		}
		if (mt_run_find(run, block, ret_location))
			return MT_FOUND_RECORD;
	}
	return MT_FOUND_NOTHING;
}

enum mt_found
mt_index_find(struct mt_index *index, const struct mt_scope *scope, uint64_t segment,
    uint32_t block, struct mt_location *ret_location, struct mt_run **ret_run)
{
	uint64_t in_volume = segment - scope->spans[0].segment_base;

	CHECK_OBJ(index, INDEX_MAGIC);
	assert(scope->span_count > 0);
	for (uint32_t i = 0; i < scope->span_count; i++) {
		const struct mt_span *span = &scope->spans[i];
		uint64_t number = mt_chunk_number(span->segment_base + in_volume, block);
		struct mt_chunk *chunk = index_find_chunk(index, number);
		enum mt_found found;

		if (chunk == NULL)
			continue;
		found = chunk_find(chunk, span, block_in_chunk(block), ret_location, ret_run);
		if (found != MT_FOUND_NOTHING)
			return found;
	}
	return MT_FOUND_NOTHING;
}

/* ---- runs ---- */

uint64_t
mt_index_flushed(const struct mt_index *index, uint64_t chunk_number)
{
	struct mt_chunk *chunk = mt_index_chunk(index, chunk_number);

	if (chunk == NULL || list_is_empty(&chunk->runs))
		return 0;
	return run_of(chunk->runs.next)->flushed_sequence;
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
	struct mt_chunk *chunk = chunk_find_or_create(index, chunk_number);
	struct mt_run *run = mt_calloc(1, sizeof(*run));
	struct loop_link *at;

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
	run->flushed_sequence = like->flushed_sequence;
	run->cut = like->cut;
	at = chunk->runs.next;
	while (at != &chunk->runs &&
	    run_of(at)->flushed_sequence + MUTANT(run_order_ignored) > run->flushed_sequence)
		at = at->next;
	list_insert_before(at, &run->link);
	chunk->run_count++;
	chunk->run_bytes += run->length_bytes;
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
	mt_run_forget(run);
	run_count_in_extent(run, false);
	chunk->run_count--;
	chunk->run_bytes -= run->length_bytes;
	chunk->index->run_count--;
	chunk->index->run_bytes -= run->length_bytes;
	list_remove(&run->link);
	mt_free(run);
}

/* ---- cuts ---- */

int
mt_index_add_cut(struct mt_index *index, const struct mt_index_cut *cut)
{
	uint32_t at;

	CHECK_OBJ(index, INDEX_MAGIC);
	if (index->cut_count == index->cut_max) {
		uint32_t max = index->cut_max == 0 ? INDEX_CUTS_MIN : index->cut_max * 2;
		struct mt_index_cut *cuts = mt_realloc(index->cuts, max * sizeof(*cuts));

		if (cuts == NULL)
			return -ENOMEM;
		index->cuts = cuts;
		index->cut_max = max;
	}
	for (at = index->cut_count; at > 0 && index->cuts[at - 1].cut > cut->cut; at--)
		index->cuts[at] = index->cuts[at - 1];
	index->cuts[at] = *cut;
	index->cut_count++;
	return 0;
}

/* The first that is at least @cut. */
static uint32_t
cut_position(const struct mt_index *index, uint64_t cut)
{
	uint32_t at;

	SEARCH_FIRST(at, index->cut_count, index->cuts[at].cut < cut);
	return at;
}

void
mt_index_drop_cut(struct mt_index *index, uint64_t cut)
{
	uint32_t at = cut_position(index, cut);

	CHECK_OBJ(index, INDEX_MAGIC);
	if (at == index->cut_count || index->cuts[at].cut != cut)
		return;
	index->cut_count--;
	for (; at < index->cut_count; at++)
		index->cuts[at] = index->cuts[at + 1];
}

bool
mt_index_is_cut_between(const struct mt_index *index, uint64_t chunk_number, uint64_t older,
    uint64_t newer)
{
	uint64_t segment = chunk_segment(chunk_number);

	/* Snapshot n sees what is below n: it parts older < n <= newer. */
	for (uint32_t i = cut_position(index, older + 1);
	     i < index->cut_count && index->cuts[i].cut <= newer; i++) {
		const struct mt_index_cut *cut = &index->cuts[i];

		if (segment >= cut->segment_base &&
		    segment - cut->segment_base < cut->segment_count)
			return true;
	}
	return false;
}

/* ---- what nobody sees ---- */

/* The same hidden records, or more of them by now: a snapshot has gone. */
static bool
hidden_is_same(const struct mt_hidden *a, const struct mt_hidden *b)
{
	return a->segment_base == b->segment_base && a->cut_below == b->cut_below;
}

void
mt_index_hide(struct mt_index *index, const struct mt_hidden *hidden)
{
	uint32_t at = 0;

	CHECK_OBJ(index, INDEX_MAGIC);
	assert(hidden->cut_from < hidden->cut_below);
	while (at < index->hidden_count && !hidden_is_same(&index->hidden[at], hidden))
		at++;
	if (at == INDEX_HIDDEN_MAX)
		return;
	if (at == index->hidden_count)
		index->hidden[index->hidden_count++] = *hidden;
	else
		index->hidden[at].cut_from = num_min(index->hidden[at].cut_from, hidden->cut_from);
}

bool
mt_index_is_hidden(const struct mt_index *index, uint64_t chunk_number, uint64_t cut)
{
	uint64_t segment = chunk_segment(chunk_number);

	for (uint32_t i = 0; i < index->hidden_count; i++) {
		const struct mt_hidden *hidden = &index->hidden[i];

		if (segment >= hidden->segment_base &&
		    segment - hidden->segment_base < hidden->segment_count &&
		    cut >= hidden->cut_from && cut < hidden->cut_below)
			return true;
	}
	return false;
}
