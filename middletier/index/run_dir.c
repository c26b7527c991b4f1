/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_dir.c -- where a run's batches are, and exactly which blocks it holds
 *
 * The rest of a run's index when it has to make room: 24 bytes a batch, and the set of its blocks. A block that is
 * not in the set costs no I/O; of one that is, one head is read, at a known place. Runs of some length have the same as
 * their last batch (batch_directory.h), which is read where nothing is known of them.
 *
 * The set is a list of stretches, two bytes an end, or, where that were longer, a bit for each block of the chunk.
 * Of a compacted chunk it is 4 bytes; it is 2 KiB at most.
 */
#include "index/run_dir.h"

#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/search.h"
#include "cleave/batch_directory.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "index/run_index.h"

#define DIR_BITS_BYTES (CLEAVE_CHUNK_BLOCKS / 8u)
#define DIR_BOUNDS_MAX (DIR_BITS_BYTES / sizeof(uint16_t))

_Static_assert(CLEAVE_CHUNK_BLOCKS <= UINT16_MAX, "a bound is a block, or the chunk's end");

/* Frame @at and those that follow without a gap: returns the frame behind them, *@ret_end is the block behind. */
static uint32_t
stretch_end(const struct mt_run_index *index, uint32_t at, uint32_t *ret_end)
{
	uint32_t end = index->frames[at].block;

	for (; at < index->frame_count && index->frames[at].block == end; at++)
		end += index->frames[at].block_count;
	assert(end <= CLEAVE_CHUNK_BLOCKS);
	if (MUTANT(set_short) && at == index->frame_count)
		end--;
	*ret_end = end;
	return at;
}

static uint32_t
count_bounds(const struct mt_run_index *index)
{
	uint32_t count = 0, end;

	for (uint32_t at = 0; at < index->frame_count; at = stretch_end(index, at, &end))
		count += 2;
	return count;
}

static void
fill_set(struct mt_run_dir *dir, const struct mt_run_index *index)
{
	uint32_t count = 0, next, end;

	for (uint32_t at = 0; at < index->frame_count; at = next) {
		uint32_t block = index->frames[at].block;

		next = stretch_end(index, at, &end);
		if (dir->bits == NULL) {
			dir->bounds[count++] = (uint16_t)block;
			dir->bounds[count++] = (uint16_t)end;
			continue;
		}
		for (; block < end; block++)
			dir->bits[block / 64u] |= UINT64_C(1) << block % 64u;
	}
	assert(count == dir->bound_count);
}

/* Room for @slot_count places and a set of so many bounds; of none: of bits. NULL: no memory. */
static struct mt_run_dir *
dir_alloc(uint32_t slot_count, uint32_t bound_count)
{
	uint64_t slots_bytes = slot_count * sizeof(struct mt_run_slot);
	uint64_t bytes = sizeof(struct mt_run_dir) + slots_bytes +
	    (bound_count == 0 ? DIR_BITS_BYTES : bound_count * sizeof(uint16_t));
	struct mt_run_dir *dir = mt_calloc(1, bytes);
	void *set;

	if (dir == NULL)
		return NULL;
	list_init(&dir->loads);
	dir->bytes = (uint32_t)bytes;
	dir->slot_count = slot_count;
	dir->bound_count = bound_count;
	set = (uint8_t *)dir->slots + slots_bytes;
	if (bound_count == 0)
		dir->bits = set;
	else
		dir->bounds = set;
	return dir;
}

struct mt_run_dir *
mt_run_dir_create(const struct mt_run_index *index)
{
	uint32_t bound_count = count_bounds(index);
	struct mt_run_dir *dir = NULL;

	if (index->place_count != 0)
		dir = dir_alloc(index->place_count, bound_count > DIR_BOUNDS_MAX ? 0 : bound_count);
	if (dir == NULL)
		return NULL;
	for (uint32_t i = 0; i < index->place_count; i++)
		dir->slots[i].place = index->places[i];
	fill_set(dir, index);
	return dir;
}

/* ---- on the nodes ---- */

struct mt_run_dir *
mt_run_dir_decode(const struct batch_directory *from)
{
	struct mt_run_dir *dir = dir_alloc(from->entry_count, from->bound_count);
	struct batch_place place;

	if (dir == NULL)
		return NULL;
	for (uint32_t i = 0; i < from->entry_count; i++) {
		batch_directory_place(from, i, &place);
		dir->slots[i].place = (struct mt_run_place){ .offset_bytes = place.offset_bytes,
			.head_bytes = place.head_bytes,
			.batch_crc = place.batch_crc,
			.first_block = place.first_block };
	}
	for (uint32_t i = 0; i < from->bound_count; i++)
		dir->bounds[i] = (uint16_t)batch_directory_bound(from, i);
	for (uint32_t i = 0; dir->bits != NULL && i < DIR_BITS_BYTES / sizeof(*dir->bits); i++)
		dir->bits[i] = batch_directory_bits(from, i);
	return dir;
}

uint32_t
mt_run_dir_encoded_bytes(const struct mt_run_dir *dir)
{
	return batch_directory_bytes(dir->slot_count, dir->bound_count);
}

void
mt_run_dir_encode(const struct mt_run_dir *dir, uint8_t *out)
{
	(void)batch_directory_encode(out, dir->slot_count, dir->bound_count);
	for (uint32_t i = 0; i < dir->slot_count; i++) {
		const struct mt_run_place *place = &dir->slots[i].place;

		batch_directory_put_place(out, i,
		    &(struct batch_place){ .offset_bytes = place->offset_bytes,
			.head_bytes = place->head_bytes,
			.batch_crc = place->batch_crc,
			.first_block = place->first_block });
	}
	for (uint32_t i = 0; i < dir->bound_count; i++)
		batch_directory_put_bound(out, i, dir->bounds[i]);
	for (uint32_t i = 0; dir->bits != NULL && i < DIR_BITS_BYTES / sizeof(*dir->bits); i++)
		batch_directory_put_bits(out, i, dir->bits[i]);
}

/* ---- looking ---- */

static bool
place_is_same(const struct mt_run_place *a, const struct mt_run_place *b)
{
	return a->offset_bytes == b->offset_bytes && a->head_bytes == b->head_bytes &&
	    a->batch_crc == b->batch_crc && a->first_block == b->first_block;
}

bool
mt_run_dir_is_same(const struct mt_run_dir *a, const struct mt_run_dir *b)
{
	if (a->slot_count != b->slot_count || a->bound_count != b->bound_count)
		return false;
	for (uint32_t i = 0; i < a->slot_count; i++) {
		if (!place_is_same(&a->slots[i].place, &b->slots[i].place))
			return false;
	}
	if (a->bits != NULL)
		return memcmp(a->bits, b->bits, DIR_BITS_BYTES) == 0;
	return memcmp(a->bounds, b->bounds, a->bound_count * sizeof(*a->bounds)) == 0;
}

void
mt_run_dir_free(struct mt_run_dir *dir)
{
	if (dir == NULL)
		return;
	assert(dir->page_count == 0);
	assert(list_is_empty(&dir->loads));
	mt_free(dir);
}

bool
mt_run_dir_has(const struct mt_run_dir *dir, uint32_t block)
{
	uint32_t at;

	assert(block < CLEAVE_CHUNK_BLOCKS);
	if (dir->bits != NULL)
		return (dir->bits[block / 64u] >> block % 64u & 1) != 0;
	SEARCH_FIRST(at, dir->bound_count, dir->bounds[at] <= block);
	return at % 2 == 1;
}

uint32_t
mt_run_dir_page(const struct mt_run_dir *dir, uint32_t block)
{
	uint32_t at;

	SEARCH_FIRST(at, dir->slot_count, dir->slots[at].place.first_block <= block);
	assert(at > 0);
	return at - 1;
}

/* The first block from @block on that the run holds, or, with @is_gap, that it does not; behind all: CLEAVE_CHUNK_BLOCKS. */
static uint32_t
set_next(const struct mt_run_dir *dir, uint32_t block, bool is_gap)
{
	uint32_t at;

	if (dir->bits != NULL) {
		while (block < CLEAVE_CHUNK_BLOCKS && mt_run_dir_has(dir, block) == is_gap)
			block++;
		return block;
	}
	SEARCH_FIRST(at, dir->bound_count, dir->bounds[at] <= block);
	if ((at % 2 == 0) == is_gap)
		return block;
	return at < dir->bound_count ? dir->bounds[at] : CLEAVE_CHUNK_BLOCKS;
}

bool
mt_run_dir_fits(const struct mt_run_dir *dir, uint32_t page, const struct mt_run_index *index)
{
	const struct mt_run_slot *slot = &dir->slots[page];
	uint32_t page_end = CLEAVE_CHUNK_BLOCKS, at = 0, block = slot->place.first_block;
	uint32_t frame_count = index == NULL ? 0 : index->frame_count;

	assert(page < dir->slot_count);
	if (page + 1 < dir->slot_count)
		page_end = slot[1].place.first_block;
	while (at < frame_count) {
		uint32_t begin = index->frames[at].block, end = begin;

		for (; at < frame_count && index->frames[at].block == end; at++)
			end += index->frames[at].block_count;
		if (begin < block || end > page_end || set_next(dir, block, false) != begin ||
		    set_next(dir, begin, true) < end)
			return false;
		block = end;
	}
	return set_next(dir, block, false) >= page_end;
}

/* The frames of @page, and their CRCs, behind those that @index has. */
static void
join_page(struct mt_run_index *index, const struct mt_run_index *page)
{
	for (uint32_t i = 0; i < page->frame_count; i++) {
		struct mt_frame *frame = &index->frames[index->frame_count++];

		*frame = page->frames[i];
		frame->crcs_at += index->crc_count;
	}
	for (uint32_t i = 0; i < page->crc_count; i++)
		index->crcs[index->crc_count++] = page->crcs[i];
	index->live_bytes += page->live_bytes;
}

struct mt_run_index *
mt_run_dir_join(const struct mt_run_dir *dir)
{
	struct mt_run_index *index = mt_calloc(1, sizeof(*index));
	uint64_t frame_count = 0, crc_count = 0;

	assert(dir->page_count == dir->slot_count);
	if (index == NULL)
		return NULL;
	for (uint32_t i = 0; i < dir->slot_count; i++) {
		frame_count += dir->slots[i].page->frame_count;
		crc_count += dir->slots[i].page->crc_count;
	}
	index->frames = mt_calloc(num_max(frame_count, 1), sizeof(*index->frames));
	index->crcs = mt_calloc(num_max(crc_count, 1), sizeof(*index->crcs));
	index->places = mt_calloc(dir->slot_count, sizeof(*index->places));
	if (index->frames == NULL || index->crcs == NULL || index->places == NULL) {
		mt_run_index_free(index);
		return NULL;
	}
	for (uint32_t i = 0; i < dir->slot_count; i++) {
		index->places[index->place_count++] = dir->slots[i].place;
		join_page(index, dir->slots[i].page);
	}
	return index;
}
