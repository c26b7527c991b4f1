/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_index.c -- which frames a run holds, for the runs of a port's shards that were asked lately
 *
 *	          a merge gives it, or all heads are read            least recently used
 *	nothing ------------------------------------------> whole ----------------------> directory
 *	   ^                                                  ^                            |  |  pages
 *	   |                                                  +---- a merge wants it ------+  |  come and go
 *	   +-------------- directories take more than half of the cache ---------------------+
 *
 * A run's index is its frames in the order of their blocks, and the CRCs of their blocks: 28 bytes a
 * frame and 4 a block. All of them would be too much for the host memory of a gateway that serves many
 * disks, so they are loaded when they are wanted (run_load.c) and the least recently used go when their
 * bytes exceed the port's share of --index-cache. A directory (run_dir.c) is left, which says where the run's
 * batches are and which blocks it holds; a lookup then wants the frames of one batch, a *page*, and those alone
 * of the run that holds the block. A run of some length has the same on the nodes: where nothing is known of one, a lookup
 * goes from there to the directory.
 *
 * A run that is held stays whole. While the whole index of a run is being loaded those of its chunk stay, and the
 * directories: a lookup that needs several runs gets them all, however small the cache. The directories of the chunk
 * that was looked up last stay, too. A page stays until those who had it loaded are told; so do pages that are to be the
 * whole. A page that one reader wants, for the first time in a while, gets no place where there is none: this reader gets
 * a *glimpse*, the frames of its blocks, while it is told (run_ask.c). To make all of a page costs more than the read, and it would push
 * out another.
 */
#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/search.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "index/index.h"
#include "index/memtable.h"
#include "index/run_dir.h"
#include "index/run_index.h"
#include "index/run_load.h"

#define RUN_CACHE_MAGIC 0x434e5552u /* "RUNC" */
#define RUN_PAGE_BYTES                                                                             \
	2048u /* about what a page takes: so many are remembered as would have room */

/* ---- one ---- */

void
mt_run_index_free(struct mt_run_index *index)
{
	if (index == NULL)
		return;
	mt_free(index->frames);
	mt_free(index->crcs);
	mt_free(index->places);
	mt_free(index);
}

uint64_t
mt_run_index_bytes(const struct mt_run_index *index)
{
	return sizeof(*index) + index->frame_count * sizeof(*index->frames) +
	    index->crc_count * sizeof(*index->crcs) + index->place_count * sizeof(*index->places);
}

/* ---- the cache ---- */

struct mt_run_cache *
mt_run_cache_of(const struct mt_run *run)
{
	struct mt_run_cache *cache = run->chunk->index->shard->port->run_cache;

	CHECK_OBJ(cache, RUN_CACHE_MAGIC);
	return cache;
}

static bool
chunk_is_loading(const struct mt_chunk *chunk)
{
	const struct loop_link *link;

	for (link = chunk->runs.next; link != &chunk->runs; link = link->next) {
		if (LIST_ENTRY(link, struct mt_run, link)->load != NULL)
			return true;
	}
	return false;
}

static void
cache_add(struct mt_run_cache *cache, struct mt_run *run, struct mt_run_index *index, uint32_t page)
{
	index->run = run;
	index->page = page;
	cache->bytes += mt_run_index_bytes(index);
	list_push_back(&cache->lru, &index->lru_link);
}

/* The run, or the slot, has it no more. */
static void
cache_remove(struct mt_run_cache *cache, struct mt_run_index *index)
{
	cache->bytes -= mt_run_index_bytes(index);
	list_remove(&index->lru_link);
	mt_run_index_free(index);
}

static void
page_drop(struct mt_run_cache *cache, struct mt_run_index *page)
{
	struct mt_run_dir *dir = page->run->dir;

	assert(dir->slots[page->page].page == page);
	assert(dir->page_count > 0);
	dir->slots[page->page].page = NULL;
	dir->page_count--;
	cache_remove(cache, page);
}

static void
dir_drop(struct mt_run_cache *cache, struct mt_run_dir *dir)
{
	for (uint32_t i = 0; i < dir->slot_count; i++) {
		if (dir->slots[i].page != NULL)
			page_drop(cache, dir->slots[i].page);
	}
	/* A glimpse is of a page of it. Its reader may have the run go while it looks. */
	if (cache->glimpse != NULL && cache->glimpse->run == dir->run)
		cache->glimpse = NULL;
	dir->run->dir = NULL;
	list_remove(&dir->lru_link);
	cache->bytes -= dir->bytes;
	cache->dir_bytes -= dir->bytes;
	mt_run_dir_free(dir);
}

static void
index_drop(struct mt_run_cache *cache, struct mt_run *run)
{
	assert(run->hold_count == 0);
	cache_remove(cache, run->index);
	run->index = NULL;
}

void
mt_run_cache_put_dir(struct mt_run *run, struct mt_run_dir *dir)
{
	struct mt_run_cache *cache = mt_run_cache_of(run);

	assert(run->dir == NULL && run->index == NULL);
	dir->run = run;
	run->dir = dir;
	cache->bytes += dir->bytes;
	cache->dir_bytes += dir->bytes;
	list_push_back(&cache->dirs, &dir->lru_link);
}

void
mt_run_cache_evict(struct mt_run *run)
{
	struct mt_run_dir *dir = mt_run_dir_create(run->index);

	assert(run->dir == NULL);
	index_drop(mt_run_cache_of(run), run);
	if (dir != NULL) /* else it, or all heads, are read when they are wanted again */
		mt_run_cache_put_dir(run, dir);
}

void
mt_run_cache_drop(struct mt_run *run)
{
	struct mt_run_cache *cache = mt_run_cache_of(run);

	if (run->index != NULL)
		index_drop(cache, run);
	if (run->dir != NULL)
		dir_drop(cache, run->dir);
}

bool
mt_run_cache_distrust(struct mt_run *run)
{
	if (run->hold_count > 0 || chunk_is_loading(run->chunk) ||
	    (run->dir != NULL && !list_is_empty(&run->dir->loads)))
		return false;
	mt_run_cache_drop(run);
	return true;
}

static void
cache_trim_indexes(struct mt_run_cache *cache)
{
	uint64_t *metrics = cache->port->metrics;
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&cache->lru, link, next) {
		struct mt_run_index *index = LIST_ENTRY(link, struct mt_run_index, lru_link);
		struct mt_run *run = index->run;

		if (cache->bytes <= cache->bytes_max)
			return;
		if (index->page != MT_RUN_WHOLE) {
			if (run->load != NULL || mt_run_is_loading_page(run->dir, index->page))
				continue;
			page_drop(cache, index);
			metric_add(&metrics[MT_METRIC_run_pages_dropped], 1);
		} else if (run->hold_count == 0 && !chunk_is_loading(run->chunk)) {
			mt_run_cache_evict(run);
			metric_add(&metrics[MT_METRIC_run_indexes_dropped], 1);
		}
	}
}

/* The chunk that was looked up last keeps what it has: else a lookup that wants all of them would load them each time. */
static void
cache_trim_dirs(struct mt_run_cache *cache)
{
	const struct mt_chunk *last;
	struct loop_link *link, *next;

	if (cache->dir_bytes <= cache->bytes_max / 2)
		return;
	last = LIST_ENTRY(cache->dirs.prev, struct mt_run_dir, lru_link)->run->chunk;
	LIST_FOREACH_SAFE(&cache->dirs, link, next) {
		struct mt_run_dir *dir = LIST_ENTRY(link, struct mt_run_dir, lru_link);

		if (cache->dir_bytes <= cache->bytes_max / 2)
			return;
		if (list_is_empty(&dir->loads) && dir->run->chunk != last &&
		    !chunk_is_loading(dir->run->chunk))
			dir_drop(cache, dir);
	}
}

void
mt_run_cache_trim(struct mt_run_cache *cache)
{
	CHECK_OBJ(cache, RUN_CACHE_MAGIC);
	cache_trim_indexes(cache);
	cache_trim_dirs(cache);
}

/* The frames of @run are known: those longer than merges make them were made in haste (merge/HASTE.md). */
static void
run_note_haste(struct mt_run *run, const struct mt_run_index *index, uint32_t frame_bytes)
{
	uint64_t bytes = 0, all_bytes = 0;

	for (uint32_t i = 0; i < index->frame_count; i++) {
		const struct mt_frame *frame = &index->frames[i];

		all_bytes += frame->stored_bytes;
		if (frame->record_kind == RECORD_WRITE &&
		    frame->block_count * CLEAVE_BLOCK_BYTES > frame_bytes)
			bytes += frame->stored_bytes;
	}
	if (bytes == 0 || run->hasty_percent > 0)
		return;
	run->hasty_percent = (uint8_t)num_max(1, bytes * 100 / all_bytes);
	run->chunk->index->hasty_count++;
}

void
mt_run_cache_put(struct mt_run *run, struct mt_run_index *index)
{
	struct mt_run_cache *cache = mt_run_cache_of(run);

	assert(run->index == NULL);
	if (run->dir != NULL) {
		mt_run_load_end_pages(run->dir, 0);
		dir_drop(cache, run->dir);
	}
	run->index = index;
	run->is_dir_away = false;
	run_note_haste(run, index, cache->port->settings->frame_bytes);
	cache_add(cache, run, index, MT_RUN_WHOLE);
}

static uint32_t
asked_slot_count(const struct mt_run_cache *cache)
{
	uint32_t count = 1;

	while (count < UINT32_MAX / 4 && (uint64_t)count * 2 * RUN_PAGE_BYTES <= cache->bytes_max)
		count *= 2;
	return count;
}

bool
mt_run_cache_admits(struct mt_run_cache *cache, const struct mt_run *run, uint32_t page)
{
	const struct mt_run_place *place = &run->dir->slots[page].place;
	/* An index takes less than the head that it is made of, and the room of its own. */
	uint64_t bytes = place->head_bytes + sizeof(struct mt_run_index), hash;
	uint32_t *asked;
	bool is_again;

	if (cache->bytes + bytes <= cache->bytes_max)
		return true;
	hash = ((uint64_t)run->extent_index << 32 | place->offset_bytes) *
	    UINT64_C(0x9e3779b97f4a7c15);
	asked = &cache->asked[hash >> 32 & cache->asked_mask];
	is_again = *asked == (uint32_t)(hash >> 16);
	*asked = (uint32_t)(hash >> 16);
	return is_again;
}

void
mt_run_cache_put_page(struct mt_run *run, uint32_t page, struct mt_run_index *index)
{
	struct mt_run_slot *slot = &run->dir->slots[page];

	assert(page < run->dir->slot_count);
	assert(slot->page == NULL);
	slot->page = index;
	run->dir->page_count++;
	cache_add(mt_run_cache_of(run), run, index, page);
}

void
mt_run_index_give(struct mt_run *run, struct mt_run_index *index)
{
	assert(index != NULL);
	if (run->index != NULL) {
		mt_run_index_free(index); /* a load was faster, and found the same */
		return;
	}
	mt_run_cache_put(run, index);
	mt_run_load_end(run, 0);
	mt_run_cache_trim(mt_run_cache_of(run));
}

void
mt_run_hold(struct mt_run *run)
{
	assert(run->index != NULL);
	assert(run->hold_count < UINT16_MAX);
	run->hold_count++;
}

void
mt_run_release(struct mt_run *run)
{
	assert(run->hold_count > 0);
	if (--run->hold_count == 0)
		mt_run_cache_trim(mt_run_cache_of(run));
}

void
mt_run_forget(struct mt_run *run)
{
	mt_run_load_end(run, -ESTALE);
	if (run->index != NULL || run->dir != NULL)
		mt_run_cache_drop(run);
}

uint64_t
mt_run_cache_bytes(const struct mt_port *port)
{
	return port->run_cache == NULL ? 0 : port->run_cache->bytes;
}

int
mt_run_cache_init(struct mt_port *port)
{
	struct mt_run_cache *cache = mt_calloc(1, sizeof(*cache));
	int rc;

	assert(port->run_cache == NULL);
	if (cache == NULL)
		return -ENOMEM;
	cache->magic = RUN_CACHE_MAGIC;
	cache->port = port;
	cache->bytes_max = num_max(port->settings->index_cache_bytes, RUN_CACHE_BYTES_MIN);
	list_init(&cache->lru);
	list_init(&cache->dirs);
	cache->asked_mask = asked_slot_count(cache) - 1;
	cache->asked = mt_calloc(cache->asked_mask + 1, sizeof(*cache->asked));
	rc = cache->asked == NULL ? -ENOMEM : mt_run_loads_init(cache);
	if (rc != 0) {
		cache->magic = 0;
		mt_free(cache->asked);
		mt_free(cache);
		return rc;
	}
	port->run_cache = cache;
	return 0;
}

void
mt_run_cache_fini(struct mt_port *port)
{
	struct mt_run_cache *cache = port->run_cache;

	if (cache == NULL)
		return;
	CHECK_OBJ(cache, RUN_CACHE_MAGIC);
	assert(list_is_empty(&cache->lru)); /* the shards' indexes went before */
	assert(list_is_empty(&cache->dirs));
	mt_run_loads_fini(cache);
	cache->magic = 0;
	mt_free(cache->asked);
	mt_free(cache);
	port->run_cache = NULL;
}

/* ---- looking ---- */

/* The last frame that begins at or before @block; NULL: all begin behind it. */
static const struct mt_frame *
run_frame_before(const struct mt_run_index *index, uint32_t block)
{
	uint32_t at;

	SEARCH_FIRST(at, index->frame_count, index->frames[at].block <= block);
	return at == 0 ? NULL : &index->frames[at - 1];
}

static bool
index_find(const struct mt_run_index *index, uint32_t block, struct mt_location *ret_location)
{
	const struct mt_frame *frame = run_frame_before(index, block);

	if (frame == NULL || block - frame->block >= frame->block_count)
		return false;
	*ret_location = (struct mt_location){
		.extent_index = index->run->extent_index,
		.offset_bytes = frame->offset_bytes,
		.stored_bytes = frame->stored_bytes,
		.stored_crc = frame->stored_crc,
		.codec_id = frame->codec_id,
		.record_kind = frame->record_kind,
	};
	if (frame->record_kind == RECORD_WRITE) {
		ret_location->block_crc = index->crcs[frame->crcs_at + block - frame->block];
		ret_location->record_blocks = (uint8_t)frame->block_count;
		ret_location->block_in_record = (uint8_t)(block - frame->block);
	}
	return true;
}

/* A reader of the page, which is not here, is being shown this much of it; NULL: nobody is. */
static const struct mt_run_index *
run_glimpse(const struct mt_run *run, uint32_t page)
{
	const struct mt_run_index *glimpse = mt_run_cache_of(run)->glimpse;

	return glimpse != NULL && glimpse->run == run && glimpse->page == page ? glimpse : NULL;
}

/* The index, or the page, that has the block, or may have it; NULL: it is not loaded, or there is none. */
static const struct mt_run_index *
run_index_of(const struct mt_run *run, uint32_t block)
{
	const struct mt_run_dir *dir = run->dir;
	uint32_t page;

	if (run->index != NULL)
		return run->index;
	if (dir == NULL || !mt_run_dir_has(dir, block))
		return NULL;
	page = mt_run_dir_page(dir, block);
	return dir->slots[page].page != NULL ? dir->slots[page].page : run_glimpse(run, page);
}

const struct mt_run_index *
mt_run_index_at(const struct mt_run *run, uint32_t block, uint32_t *ret_at)
{
	const struct mt_run_index *index = run_index_of(run, block);
	const struct mt_frame *frame = index == NULL ? NULL : run_frame_before(index, block);

	if (frame == NULL || block - frame->block >= frame->block_count)
		return NULL;
	*ret_at = (uint32_t)(frame - index->frames);
	return index;
}

static void
lru_touch(struct loop_link *lru, struct loop_link *link)
{
	if (lru->prev == link)
		return;
	list_remove(link);
	list_push_back(lru, link);
}

bool
mt_run_find(struct mt_run *run, uint32_t block, struct mt_location *ret_location)
{
	assert(run->index != NULL);
	lru_touch(&mt_run_cache_of(run)->lru, &run->index->lru_link);
	return index_find(run->index, block, ret_location);
}

/* The page is not here. */
static enum mt_run_has
run_look_glimpse(const struct mt_run *run, uint32_t page, uint32_t block,
    struct mt_location *ret_location)
{
	const struct mt_run_index *glimpse = run_glimpse(run, page);

	return glimpse != NULL && index_find(glimpse, block, ret_location) ? MT_RUN_HERE
									   : MT_RUN_UNLOADED;
}

enum mt_run_has
mt_run_look(struct mt_run *run, uint32_t block, struct mt_location *ret_location)
{
	struct mt_run_cache *cache;
	struct mt_run_index *page;
	uint32_t at;
	bool is_there;

	if (run->index != NULL)
		return mt_run_find(run, block, ret_location) ? MT_RUN_HERE : MT_RUN_NOT;
	if (run->dir == NULL)
		return MT_RUN_UNLOADED;
	cache = mt_run_cache_of(run);
	lru_touch(&cache->dirs, &run->dir->lru_link);
	if (!mt_run_dir_has(run->dir, block))
		return MT_RUN_NOT;
	at = mt_run_dir_page(run->dir, block);
	page = run->dir->slots[at].page;
	if (page == NULL)
		return run_look_glimpse(run, at, block, ret_location);
	lru_touch(&cache->lru, &page->lru_link);
	is_there = index_find(page, block, ret_location);
	assert(is_there); /* the set was made of these frames */
	return MT_RUN_HERE;
}
