/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_run_dir.c -- directories of runs, and pages of their indexes: what they say is what the whole index says
 *
 * Directories are built in with a planted bug, set_short.
 */
#define CLEAVE_MUTANTS
#include "middletier/index/run_dir.c"

#include <errno.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "base/random.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/index/index.h"
#include "middletier/index/memtable.h"
#include "middletier/index/run_builder.h"
#include "middletier/index/run_dir.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "unit/fake_runs.h"
#include "unit/run_pages.h"
#include "unit/run_waiters.h"

struct mutant_set mutants_on;

static void
setup(void)
{
	fake_runs_start(43);
	memset(waiters, 0, sizeof(waiters));
}

TestSuite(run_dir, .init = setup, .fini = fake_runs_fini);

/* ---- the set ---- */

/* Frames until the chunk ends: of up to @blocks blocks, with gaps of less than @gap. */
static struct mt_run_index *
random_index(uint64_t random[4], uint32_t blocks, uint32_t gap)
{
	struct mt_run_builder builder = { 0 };
	uint32_t block = (uint32_t)random_below(random, 100), offset = 4096;

	while (block < CLEAVE_CHUNK_BLOCKS - blocks) {
		struct mt_run_place place = { .offset_bytes = offset, .first_block = block };

		cr_assert_eq(mt_run_builder_place(&builder, &place), 0);
		for (uint32_t i = 0; i < 64 && block < CLEAVE_CHUNK_BLOCKS - blocks; i++) {
			struct record_desc frame = { .kind = RECORD_DISCARD,
				.block = block,
				.block_count = 1 + (uint32_t)random_below(random, blocks) };

			cr_assert_eq(mt_run_builder_add(&builder, &frame, offset), 0);
			block += frame.block_count + (uint32_t)random_below(random, gap);
		}
		offset += 4096;
	}
	return mt_run_builder_take(&builder);
}

/* How many blocks of a chunk the directory is wrong about. */
static uint32_t
wrong_count(const struct mt_run_index *index)
{
	struct mt_run_dir *dir = mt_run_dir_create(index);
	uint32_t count = 0, at = 0;

	cr_assert_not_null(dir);
	for (uint32_t block = 0; block < CLEAVE_CHUNK_BLOCKS; block++) {
		bool is_there;

		while (at < index->frame_count &&
		    index->frames[at].block + index->frames[at].block_count <= block)
			at++;
		is_there = at < index->frame_count && index->frames[at].block <= block;
		count += mt_run_dir_has(dir, block) != is_there;
		if (is_there) {
			uint32_t page = mt_run_dir_page(dir, block);

			cr_assert_leq(index->places[page].first_block, block);
			cr_assert(page + 1 == index->place_count ||
			    index->places[page + 1].first_block > block);
		}
	}
	mt_run_dir_free(dir);
	return count;
}

static const struct {
	uint32_t blocks, gap;
} shapes[] = { { 4, 1 }, { 16, 1 }, { 1, 2 }, { 1, 3 }, { 4, 40 }, { 1, 3000 }, { 2, 200 } };

static uint32_t
wrong_count_of_shape(uint32_t shape)
{
	uint64_t random[4];
	struct mt_run_index *index;
	uint32_t count;

	random_seed(random, 1 + shape);
	index = random_index(random, shapes[shape].blocks, shapes[shape].gap);
	count = wrong_count(index);
	mt_run_index_free(index);
	return count;
}

Test(run_dir, the_set_is_exact)
{
	for (uint32_t i = 0; i < NUM_COUNT(shapes); i++)
		cr_assert_eq(wrong_count_of_shape(i), 0, "shape %u", i);
}

Test(run_dir, a_planted_bug_of_the_set_is_seen)
{
	mutant_set_add(&mutants_on, MUTANT_set_short);
	for (uint32_t i = 0; i < NUM_COUNT(shapes); i++)
		cr_assert_eq(wrong_count_of_shape(i), 1, "shape %u", i);
	mutants_on = (struct mutant_set){ 0 };
}

Test(run_dir, the_set_of_a_full_chunk_is_short_and_no_set_is_long)
{
	uint64_t random[4];
	struct mt_run_index *full, *sparse;
	struct mt_run_dir *dir;

	random_seed(random, 9);
	full = random_index(random, 16, 1);
	dir = mt_run_dir_create(full);
	cr_assert_leq(dir->bytes, sizeof(*dir) + full->place_count * sizeof(*dir->slots) + 4);
	mt_run_dir_free(dir);
	sparse = random_index(random, 1, 3);
	dir = mt_run_dir_create(sparse);
	cr_assert_eq(dir->bytes, sizeof(*dir) + sparse->place_count * sizeof(*dir->slots) + 2048);
	mt_run_dir_free(dir);
	mt_run_index_free(full);
	mt_run_index_free(sparse);
}

Test(run_dir, none_without_places)
{
	struct mt_run_index index = { .page = 0 };

	cr_assert_null(mt_run_dir_create(&index));
}

/* ---- pages ---- */

Test(run_dir, a_page_is_one_read_and_what_is_not_there_is_none)
{
	struct mt_run *run = evicted();
	struct mt_location at;
	uint32_t before = fake_read_count();

	cr_assert_eq(mt_run_look(run, 99, &at), MT_RUN_NOT);
	cr_assert_eq(mt_run_look(run, 102, &at), MT_RUN_NOT);
	cr_assert_eq(mt_run_look(run, 429, &at), MT_RUN_NOT);
	cr_assert_eq(mt_run_look(run, CLEAVE_CHUNK_BLOCKS - 1, &at), MT_RUN_NOT);
	cr_assert_eq(mt_run_look(run, 300, &at), MT_RUN_UNLOADED);
	cr_assert_eq(fake_read_count(), before);
	cr_assert_eq(load_block(run, 300), 0);
	cr_assert_eq(fake_read_count(), before + 1);
	cr_assert_eq(fake.port.metrics[MT_METRIC_run_pages_loaded], 1);
	cr_assert_null(run->index);
	cr_assert_eq(mt_run_look(run, 328, &at), MT_RUN_HERE);
	cr_assert_eq(at.record_kind, RECORD_DISCARD);
	cr_assert_eq(mt_run_look(run, 200, &at), MT_RUN_UNLOADED);
	cr_assert_eq(fake_read_count(), before + 1);
}

Test(run_dir, pages_say_what_the_whole_says)
{
	struct mt_run *run = sample();
	struct mt_location whole[500], at;
	bool is_there[500];

	cr_assert_eq(load(run), 0);
	for (uint32_t block = 0; block < 500; block++)
		is_there[block] = mt_run_find(run, block, &whole[block]);
	mt_run_cache_evict(run);
	for (uint32_t block = 0; block < 500; block++) {
		enum mt_run_has has = mt_run_look(run, block, &at);
		uint32_t frame;

		if (has == MT_RUN_UNLOADED) {
			cr_assert_null(mt_run_index_at(run, block, &frame));
			cr_assert_eq(load_block(run, block), 0);
			has = mt_run_look(run, block, &at);
		}
		cr_assert_eq(has, is_there[block] ? MT_RUN_HERE : MT_RUN_NOT, "%u", block);
		if (!is_there[block])
			continue;
		cr_assert_eq(memcmp(&at, &whole[block], sizeof(at)), 0, "%u", block);
		cr_assert_eq(mt_run_index_at(run, block, &frame)->frames[frame].offset_bytes,
		    at.offset_bytes);
	}
	cr_assert_eq(fake.port.metrics[MT_METRIC_run_pages_loaded], 4);
	/* Whole again, for a merge: pages and directory go. */
	cr_assert_eq(load(run), 0);
	cr_assert_null(run->dir);
	cr_assert_eq(mt_run_cache_bytes(&fake.port), mt_run_index_bytes(run->index));
}

/* The whole again, made of pages: @index is a copy of what it was. */
static void
expect_whole(const struct mt_run *run, const struct mt_run_index *index)
{
	cr_assert_not_null(run->index);
	cr_assert_eq(run->index->frame_count, index->frame_count);
	cr_assert_eq(run->index->crc_count, index->crc_count);
	cr_assert_eq(run->index->place_count, index->place_count);
	cr_assert_eq(run->index->live_bytes, index->live_bytes);
	for (uint32_t i = 0; i < index->frame_count; i++) {
		const struct mt_frame *frame = &run->index->frames[i], *was = &index->frames[i];

		cr_assert_eq(frame->block, was->block);
		cr_assert_eq(frame->block_count, was->block_count);
		cr_assert_eq(frame->offset_bytes, was->offset_bytes);
		cr_assert_eq(frame->stored_bytes, was->stored_bytes);
		cr_assert_eq(frame->stored_crc, was->stored_crc);
		cr_assert_eq(frame->crcs_at, was->crcs_at);
		cr_assert_eq(frame->record_kind, was->record_kind);
		cr_assert_eq(frame->codec_id, was->codec_id);
	}
	cr_assert_eq(memcmp(run->index->crcs, index->crcs, index->crc_count * sizeof(*index->crcs)),
	    0);
	cr_assert_eq(memcmp(run->index->places, index->places,
			 index->place_count * sizeof(*index->places)),
	    0);
}

Test(run_dir, the_whole_index_is_gathered_from_pages)
{
	struct mt_run *run = sample();
	struct mt_run_index *copy;
	uint32_t before;

	for (uint32_t nth = 0; nth < 40; nth++) {
		int rc;

		cr_assert_eq(load(run), 0);
		mt_run_cache_evict(run);
		before = fake_read_count();
		cr_assert_eq(load_block(run, 300), 0);
		cr_assert_eq(load(run), 0);
		cr_assert_eq(fake_read_count(), before + 4, "a head is read once");
		mt_run_cache_evict(run);
		mt_alloc_fail_at(nth);
		rc = load(run);
		cr_assert(rc == 0 || (nth > 0 && rc == -ENOMEM), "%d", rc);
		mt_alloc_fail_at(0);
	}
	mt_run_cache_drop(run);
	cr_assert_eq(load(run), 0);
	copy = run->index;
	list_remove(&copy->lru_link); /* the cache's no more */
	fake.port.run_cache->bytes -= mt_run_index_bytes(copy);
	run->index = NULL;
	cr_assert_eq(load(run), 0);
	mt_run_cache_evict(run);
	cr_assert_eq(load(run), 0);
	expect_whole(run, copy);
	mt_run_index_free(copy);
	cr_assert_eq(mt_run_cache_bytes(&fake.port), mt_run_index_bytes(run->index));
}

Test(run_dir, a_page_that_cannot_be_had_fails_the_whole)
{
	struct mt_run *run = evicted();
	uint32_t at = run->dir->slots[2].place.offset_bytes + 130;
	struct mt_location location;

	for (uint32_t i = 0; i < 3; i++)
		fake_runs_copy(fake_runs.extent, i)->bytes[at] ^= 1;
	cr_assert_eq(load(run), -EBADMSG);
	cr_assert_eq(mt_run_look(run, 100, &location), MT_RUN_HERE, "others of its pages came");
	fake_runs_copy(fake_runs.extent, 2)->bytes[at] ^= 1;
	cr_assert_eq(load(run), 0);
	cr_assert_not_null(run->index);
}

Test(run_dir, a_page_is_loaded_once_for_all)
{
	struct mt_run *run = evicted();
	uint32_t before = fake_read_count();

	mt_run_load_block(run, 100, waiter_of(0));
	mt_run_load_block(run, 101, waiter_of(1));
	mt_run_load_block(run, 104, waiter_of(2));
	mt_run_load_block(run, 200, waiter_of(3));
	mt_run_unwait(&waiters[2].waiter);
	fake_run_for(NUM_S(1));
	cr_assert_eq(fake_read_count(), before + 2);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(waiters[i].told_count, i != 2);
	/* There already. */
	cr_assert_eq(load_block(run, 100), 0);
	cr_assert_eq(fake_read_count(), before + 2);
}

Test(run_dir, a_bad_copy_is_passed_over)
{
	struct mt_run *run = evicted();
	uint32_t at = run->dir->slots[1].place.offset_bytes + 130;
	struct mt_location location;

	for (uint32_t i = 0; i < 3; i++)
		fake_runs_copy(fake_runs.extent, i)->bytes[at] ^= 1;
	cr_assert_eq(load_block(run, 200), -EBADMSG);
	cr_assert_eq(mt_run_look(run, 200, &location), MT_RUN_UNLOADED);
	fake_runs_copy(fake_runs.extent, 1)->bytes[at] ^= 1;
	cr_assert_eq(load_block(run, 200), 0);
	cr_assert_eq(mt_run_look(run, 200, &location), MT_RUN_HERE);
	cr_assert_gt(fake.port.metrics[MT_METRIC_repairs_queued], 0);
}

/* A batch that would be good there, but is not the one that was. */
Test(run_dir, another_batch_at_the_same_place)
{
	struct mt_run *run = evicted();
	uint32_t at = run->dir->slots[3].place.offset_bytes;

	for (uint32_t i = 0; i < 3; i++) {
		uint8_t *bytes = fake_runs_copy(fake_runs.extent, i)->bytes + at;

		num_put_le32(bytes + BATCH_HEADER_BYTES + 28, 7); /* attach, of the first record */
		num_put_le32(bytes + 124,
		    crc32c(crc32c(0, bytes, 124), bytes + BATCH_HEADER_BYTES,
			num_get_le32(bytes + 64)));
	}
	cr_assert_eq(load_block(run, 400), -EBADMSG);
}

/* ---- forged heads ---- */

/* A lookup of @block when copies 0 to @copy_count - 1 lie about its batch, in heads with the right CRC. Returns its rc. */
static int
load_block_of_liars(uint32_t block, const struct lie *lie, uint32_t copy_count)
{
	struct mt_run *run;
	uint32_t at;
	int rc;

	fake_runs_extent();
	run = evicted();
	at = run->dir->slots[mt_run_dir_page(run->dir, block)].place.offset_bytes;
	for (uint32_t i = 0; i < copy_count; i++) {
		uint8_t *head = fake_runs_copy(fake_runs.extent, i)->bytes + at;
		uint8_t *record = head + BATCH_HEADER_BYTES +
		    lie->nth * (BATCH_DESC_FIXED_BYTES + 2 * 4); /* two blocks each before it */

		num_put_le32(record + 16, lie->block);
		num_put_le32(record + 20, lie->block_count);
		forge(head);
	}
	rc = load_block(run, block);
	if (rc == 0) {
		struct mt_location location;

		cr_assert_eq(mt_run_look(run, block, &location), MT_RUN_HERE);
		cr_assert_eq(load(run), 0);
	}
	mt_index_remove_run(run);
	return rc;
}

Test(run_dir, a_head_with_the_right_crc_and_other_blocks_is_not_believed)
{
	static const struct lie lies[] = {
		{ 0, 301, 2 },  /* has not the first block, and one that is not there */
		{ 1, 304, 1 },  /* one block less, in the middle */
		{ 9, 327, 1 },  /* the last one not */
		{ 9, 327, 80 }, /* what the next batch has, too */
		{ 9, 326, 2 },  /* twice */
		{ 9, 500, 2 },  /* behind its page */
		{ 0, 290, 2 },  /* before it */
	};

	for (uint32_t i = 0; i < NUM_COUNT(lies); i++) {
		struct lie lie = lies[i];
		uint32_t first = (uint32_t)(CHUNK % CLEAVE_SEGMENT_CHUNKS * CLEAVE_CHUNK_BLOCKS);

		lie.block += first;
		cr_assert_eq(load_block_of_liars(300, &lie, 3), -EBADMSG, "lie %u", i);
		cr_assert_eq(load_block_of_liars(300, &lie, 2), 0, "lie %u", i);
	}
}

Test(run_dir, each_allocation_may_fail)
{
	struct mt_run *run = evicted();
	struct mt_location at;

	for (uint32_t nth = 1;; nth++) {
		int rc;

		mt_alloc_fail_at(nth);
		rc = load_block(run, 100);
		if (!mt_alloc_has_failed())
			break;
		cr_assert(rc == -ENOMEM || rc == 0, "%d", rc);
		cr_assert_eq(mt_run_look(run, 100, &at), rc == 0 ? MT_RUN_HERE : MT_RUN_UNLOADED);
		mt_alloc_fail_at(0);
		mt_run_cache_drop(run);
		cr_assert_eq(mt_run_cache_bytes(&fake.port), 0);
		cr_assert_eq(load(run), 0);
		mt_run_cache_evict(run);
	}
	mt_alloc_fail_at(0);
	/* Without memory for a directory there is none. */
	cr_assert_eq(load(run), 0);
	mt_alloc_fail_at(1);
	mt_run_cache_evict(run);
	mt_alloc_fail_at(0);
	cr_assert_null(run->dir);
	cr_assert_eq(mt_run_look(run, 1, &at), MT_RUN_UNLOADED);
	cr_assert_eq(mt_run_cache_bytes(&fake.port), 0);
}

/* ---- what goes meanwhile ---- */

Test(run_dir, a_run_that_goes_while_a_page_is_loaded)
{
	for (uint64_t us = 0; us < 600; us += 20) {
		struct mt_run *run;

		fake_runs_extent();
		run = evicted();
		mt_run_load_block(run, 100, waiter_of(0));
		mt_run_load_block(run, 200, waiter_of(1));
		mt_run_load(run, waiter_of(2));
		fake_run_for(NUM_US(us));
		mt_index_remove_run(run);
		fake_run_for(NUM_S(1));
		for (uint32_t i = 0; i < 3; i++) {
			cr_assert_eq(waiters[i].told_count, 1);
			cr_assert(waiters[i].rc == -ESTALE || waiters[i].rc == 0);
		}
		cr_assert_eq(mt_run_cache_bytes(&fake.port), 0);
		cr_assert(mt_run_is_quiet(&fake.shard));
	}
}

Test(run_dir, a_shard_that_stops_while_a_page_is_loaded)
{
	for (uint64_t us = 0; us < 600; us += 20) {
		struct mt_run *run;

		fake_runs_extent();
		run = evicted();
		mt_run_load_block(run, 100, waiter_of(0));
		mt_run_load(run, waiter_of(1));
		fake_run_for(NUM_US(us));
		mt_run_stop(&fake.shard);
		fake_run_for(NUM_S(1));
		for (uint32_t i = 0; i < 2; i++) {
			cr_assert_eq(waiters[i].told_count, 1);
			cr_assert(waiters[i].rc == -ECANCELED || waiters[i].rc == 0);
		}
		cr_assert(mt_run_is_quiet(&fake.shard));
		mt_index_remove_run(run);
	}
}

Test(run_dir, the_whole_index_comes_while_a_page_is_loaded)
{
	for (uint64_t us = 0; us < 1200; us += 20) {
		struct mt_location at;
		struct mt_run *run;

		fake_runs_extent();
		run = evicted();
		mt_run_load(run, waiter_of(1));
		fake_run_for(NUM_US(us));
		/* More bytes than the cache may have: each is there when it is told, all the same. */
		fake.port.run_cache->bytes_max = 1;
		if (mt_run_look(run, 300, &at) != MT_RUN_UNLOADED)
			waiters[0].told_count = 1;
		else
			mt_run_load_block(run, 300, waiter_of(0));
		fake_run_for(NUM_S(1));
		cr_assert_eq(waiters[0].told_count, 1);
		cr_assert_eq(waiters[1].told_count, 1);
		cr_assert_eq(waiters[0].rc, 0);
		cr_assert_eq(waiters[1].rc, 0);
		fake.port.run_cache->bytes_max = NUM_MIB(1);
		mt_index_remove_run(run);
	}
}

Test(run_dir, an_end_in_the_middle_of_everything)
{
	struct mt_run *runs[WAITERS];

	for (uint32_t i = 0; i < WAITERS; i++) {
		fake_runs_extent();
		runs[i] = evicted();
	}
	for (uint32_t i = 0; i < WAITERS; i++) {
		if (i == WAITERS / 2)
			fake_node_down(0, 0);
		mt_run_load_block(runs[i], 100, waiter_of(i));
	}
	for (uint32_t k = 1; k < 3; k++)
		fake_node_down(k, 0);
	fake_run_for(NUM_MS(10));
}

/* ---- room ---- */

Test(run_dir, the_page_that_was_used_last_stays)
{
	struct mt_run *run = evicted();
	struct mt_run_cache *cache = fake.port.run_cache;
	struct mt_location at;
	uint64_t dir_bytes = mt_run_cache_bytes(&fake.port), page_bytes;

	cr_assert_eq(load_block(run, 100), 0);
	page_bytes = mt_run_cache_bytes(&fake.port) - dir_bytes;
	cache->bytes_max = dir_bytes + 2 * page_bytes;
	cr_assert_leq(dir_bytes, cache->bytes_max / 2);
	cr_assert_eq(load_block(run, 200), 0);
	cr_assert_eq(mt_run_look(run, 100, &at), MT_RUN_HERE);
	cr_assert_eq(load_block(run, 300), 0);
	cr_assert_eq(mt_run_look(run, 100, &at), MT_RUN_HERE);
	cr_assert_eq(mt_run_look(run, 200, &at), MT_RUN_UNLOADED);
	cr_assert_eq(mt_run_look(run, 300, &at), MT_RUN_HERE);
	cr_assert_eq(fake.port.metrics[MT_METRIC_run_pages_dropped], 1);
	cr_assert_leq(mt_run_cache_bytes(&fake.port), cache->bytes_max);
}

Test(run_dir, directories_take_half_of_the_cache_at_most)
{
	struct mt_run_cache *cache = fake.port.run_cache;
	struct mt_run *runs[6];
	struct mt_location at;
	uint64_t each = 0;

	for (uint32_t i = 0; i < 6; i++) {
		fake_runs_batch(CHUNK + i, 5, 0);
		fake_runs_frame(RECORD_DISCARD, 7, 1, 0);
		fake_runs_batch_end();
		runs[i] = fake_runs_end();
		cr_assert_eq(load(runs[i]), 0);
		mt_run_cache_evict(runs[i]);
		each = runs[i]->dir->bytes;
	}
	cr_assert_eq(cache->dir_bytes, 6 * each);
	cache->bytes_max = 8 * each;
	cr_assert_eq(mt_run_look(runs[0], 1, &at), MT_RUN_NOT);
	cr_assert_eq(load_block(runs[5], 7), 0);
	cr_assert_eq(cache->dir_bytes, 4 * each);
	cr_assert_null(runs[1]->dir);
	cr_assert_null(runs[2]->dir);
	cr_assert_not_null(runs[0]->dir, "it was asked last");
	/* A directory takes its pages along; those of the chunk that was asked last stay. */
	cache->bytes_max = 1;
	mt_run_cache_trim(cache);
	cr_assert_not_null(runs[0]->dir);
	cr_assert_eq(mt_run_cache_bytes(&fake.port), each);
}
