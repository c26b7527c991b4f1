/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_apply.c -- a record becomes the newest version of its blocks
 *
 * A write adds its blocks' keys to the active layer of its chunk. A tombstone, which reads as zeros, adds
 * keys only where something else might be seen; one of a whole chunk is a flag of its layer.
 */
#include "index/index_apply.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "index/chunk.h"
#include "index/index.h"
#include "index/index_cuts.h"
#include "index/memtable.h"
#include "index/run_index.h"

/* The layer that takes @record: a new one behind a cut, and where there was none. */
static struct mt_layer *
apply_layer(struct mt_chunk *chunk, const struct record_desc *record, uint64_t cut,
    uint32_t extent_index)
{
	struct mt_layer *layer = mt_chunk_active(chunk);

	assert(chunk->number == mt_chunk_number(record->segment, record->block));
	if (layer != NULL && !mt_layer_is_empty(layer) && cut != layer->cut &&
	    mt_index_is_cut_between(chunk->index, chunk->number, layer->cut, cut)) {
		if (mt_index_freeze(chunk) != 0)
			return NULL;
		layer = mt_chunk_active(chunk);
	}
	if (layer == NULL)
		layer = mt_layer_create(chunk);
	if (layer == NULL)
		return NULL;
	if (mt_layer_is_empty(layer)) {
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
	uint32_t block = mt_block_in_chunk(record->block), before_count = layer->table.key_count;
	int rc = mt_layer_reserve(layer, record->block_count);

	assert(record->block_count > 0);
	assert(!layer->is_frozen);
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
	chunk->segment->layer_bytes += record->stored_bytes;
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
		const struct mt_layer *layer = mt_layer_of((struct loop_link *)link);

		if (!mt_layer_is_empty(layer) && !MUTANT(tombstone_scope_ignored) &&
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

	assert(block < CLEAVE_CHUNK_BLOCKS);
	for (link = chunk->layers.next; link != &chunk->layers; link = link->next) {
		const struct mt_layer *layer = mt_layer_of((struct loop_link *)link);
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
		struct mt_run *run = mt_run_of((struct loop_link *)link);
		struct mt_location location;

		if (mt_run_look(run, block, &location) != MT_RUN_NOT)
			return true;
	}
	return wire_segment_is_clone(mt_chunk_segment(chunk->number));
}

/* All that the layer holds of the chunk is hidden, and so is what lies under it. */
static void
apply_to_whole(struct mt_layer *layer, const struct record_desc *record)
{
	struct mt_chunk *chunk = layer->chunk;

	assert(record->block_count == CLEAVE_CHUNK_BLOCKS);
	assert(!layer->is_frozen);
	chunk->index->key_count -= layer->table.key_count;
	mt_memtable_clear(&layer->table);
	chunk->layer_bytes -= layer->stored_bytes;
	chunk->segment->layer_bytes -= layer->stored_bytes;
	layer->stored_bytes = 0;
	layer->hides_all = true;
	layer->hides_kind = record->kind;
}

/* A block of which nothing is known reads as zeros: a tombstone covers only what may be there. */
static int
apply_tombstone(struct mt_chunk *chunk, const struct record_desc *record, uint64_t cut,
    const struct mt_location *location)
{
	uint32_t block = mt_block_in_chunk(record->block), needed_count = 0, before_count;
	const struct loop_link *parted = chunk_parted(chunk, cut);
	struct mt_layer *layer;

	assert(record->block_count > 0);
	assert(record->kind != RECORD_WRITE);
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
	if (mt_layer_reserve(layer, needed_count) != 0)
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
	struct mt_chunk *chunk = mt_chunk_find(index, number);
	struct mt_layer *layer;

	CHECK_OBJ(index, MT_INDEX_MAGIC);
	if (chunk == NULL && (is_write || wire_segment_is_clone(record->segment))) {
		chunk = mt_chunk_create(index, number);
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
