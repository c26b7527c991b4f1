/* SPDX-License-Identifier: Apache-2.0 */
/* test_directory_load.c -- a run of which nothing is known, with its directory on the nodes: what is read, and believed */
#include <errno.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/batch_directory.h"
#include "middletier/common/alloc.h"
#include "middletier/index/index.h"
#include "middletier/index/memtable.h"
#include "middletier/index/run_dir.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "unit/fake_runs.h"

#define WAITERS 3u
#include "unit/run_waiters.h"

#define CHUNK mt_chunk_number(FAKE_SEGMENT, 0)
#define BATCHES 6u

static void
setup(void)
{
	fake_runs_start(51);
	memset(waiters, 0, sizeof(waiters));
}

TestSuite(directory_load, .init = setup, .fini = fake_runs_fini);

/* Looks @block up as a read does: asks until it is known. Returns what is said, or why nothing is. */
static int
look(struct mt_run *run, uint32_t block)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct mt_location at;
		enum mt_run_has has = mt_run_look(run, block, &at);
		int rc;

		if (has != MT_RUN_UNLOADED)
			return (int)has;
		mt_run_load_block(run, block, waiter_of(0));
		rc = wait_told();
		if (rc != 0)
			return rc;
	}
	cr_assert(false, "loaded again and again");
	return 0;
}

static void
add_batch(uint32_t batch)
{
	fake_runs_batch(CHUNK, 77, 3);
	for (uint32_t i = 0; i < 10; i++)
		fake_runs_frame(i == 9 ? RECORD_DISCARD : RECORD_WRITE, 100 * batch + 3 * i, 2, 1);
	fake_runs_batch_end();
}

/* Appends @dir as a batch of its own to what @run has. The run of both, of which nothing is known. */
static struct mt_run *
with_directory(struct mt_run *run, const struct mt_run_dir *dir)
{
	struct mt_run like = *run;

	fake_runs_batch(CHUNK, 77, 3);
	fake_runs.info.is_directory = true;
	fake_runs.info.desc_bytes = mt_run_dir_encoded_bytes(dir);
	mt_run_dir_encode(dir, fake_runs.descs);
	fake_runs_batch_end();
	mt_index_remove_run(run);
	like.length_bytes += fake_runs.info.batch_bytes;
	like.directory_bytes = fake_runs.info.batch_bytes;
	like.directory_crc = fake_runs.info.batch_crc;
	run = mt_index_add_run(fake.shard.block_index, CHUNK, &like);
	cr_assert_not_null(run);
	fake_runs.run_from = fake_runs.length;
	return run;
}

static struct mt_run *
sample(void)
{
	struct mt_run_dir *dir;
	struct mt_run *run;

	for (uint32_t batch = 1; batch <= BATCHES; batch++)
		add_batch(batch);
	run = fake_runs_end();
	cr_assert_eq(load(run), 0);
	dir = mt_run_dir_create(run->index);
	cr_assert_not_null(dir);
	run = with_directory(run, dir);
	mt_run_dir_free(dir);
	return run;
}

/* The directory's batch at the first @copy_count copies. */
static void
rot(const struct mt_run *run, uint32_t copy_count)
{
	uint32_t at = run->offset_bytes + run->length_bytes - run->directory_bytes;

	for (uint32_t i = 0; i < copy_count; i++)
		fake_runs_copy(fake_runs.extent, i)->bytes[at + 140] ^= 1;
}

Test(directory_load, the_first_look_is_two_reads_and_what_is_not_there_is_one)
{
	struct mt_run *run = sample();
	uint32_t before = fake_read_count();

	cr_assert_eq(look(run, 99), MT_RUN_NOT);
	cr_assert_eq(fake_read_count(), before + 1);
	cr_assert_eq(fake.port.metrics[MT_METRIC_run_directories_loaded], 1);
	cr_assert_eq(look(run, 300), MT_RUN_HERE);
	cr_assert_eq(look(run, 301), MT_RUN_HERE);
	cr_assert_eq(look(run, 302), MT_RUN_NOT);
	cr_assert_eq(fake_read_count(), before + 2);
	cr_assert_null(run->index);
	/* Without one it is all heads. */
	mt_run_cache_drop(run);
	run->directory_bytes = 0;
	run->length_bytes -= BATCH_ALIGN;
	before = fake_read_count();
	cr_assert_eq(look(run, 99), MT_RUN_NOT);
	cr_assert_eq(fake_read_count(), before + BATCHES);
	run->length_bytes += BATCH_ALIGN;
}

Test(directory_load, says_what_the_heads_say)
{
	struct mt_run *run = sample();

	for (uint32_t block = 0; block < 100 * BATCHES + 200; block++) {
		bool is_there = block >= 100 && block < 100 * (BATCHES + 1) && block % 100 < 29 &&
		    block % 100 % 3 != 2;

		cr_assert_eq(look(run, block), is_there ? MT_RUN_HERE : MT_RUN_NOT, "%u", block);
	}
}

Test(directory_load, the_whole_is_gathered_with_it)
{
	struct mt_run *run = sample();
	uint32_t before = fake_read_count();

	cr_assert_eq(load(run), 0);
	cr_assert_not_null(run->index);
	cr_assert_eq(run->index->place_count, BATCHES);
	cr_assert_eq(fake_read_count(), before + 1 + BATCHES);
	mt_run_cache_evict(run);
	cr_assert_eq(look(run, 100), MT_RUN_HERE);
}

Test(directory_load, a_bad_copy_is_passed_over_and_without_a_good_one_heads_are_read)
{
	struct mt_run *run = sample();
	uint32_t before;

	rot(run, 2);
	cr_assert_eq(look(run, 99), MT_RUN_NOT);
	cr_assert_not_null(run->dir);
	cr_assert_gt(fake.port.metrics[MT_METRIC_repairs_queued], 0);
	mt_run_cache_drop(run);
	rot(run, 3); /* the first two are good again */
	cr_assert_eq(look(run, 99), MT_RUN_NOT);
	cr_assert_not_null(run->dir);
	mt_run_cache_drop(run);
	rot(run, 2);
	cr_assert_eq(look(run, 99), MT_RUN_NOT);
	cr_assert_not_null(run->index);
	mt_run_cache_drop(run);
	before = fake_read_count();
	cr_assert_eq(look(run, 100), MT_RUN_HERE);
	cr_assert_eq(fake_read_count(), before + BATCHES, "it is not asked for again");
}

/* The node that is away may have a good one: it is asked for again when it is there. */
Test(directory_load, while_the_good_copy_is_away_heads_are_read_at_those_that_are_bad)
{
	struct mt_run *run = sample();
	uint64_t before_ns = loop_now_ns(fake.loop);

	rot(run, 2);
	fake_node_down(2, 0);
	cr_assert_eq(look(run, 300), MT_RUN_HERE);
	cr_assert_lt(loop_now_ns(fake.loop) - before_ns, fake.settings.node_timeout_ns);
	cr_assert_not_null(run->index);
	cr_assert_eq(run->index->place_count, BATCHES);
	mt_run_cache_drop(run);
	cr_assert_eq(load(run), 0, "as for a merge");
	mt_run_cache_drop(run);
	fake_node_up(2);
	fake_run_for(NUM_MS(100));
	cr_assert_eq(look(run, 300), MT_RUN_HERE);
	cr_assert_not_null(run->dir);
	cr_assert_null(run->index);
}

/* A lone copy could hide blocks so: its heads have no witness. */
Test(directory_load, a_bad_copy_is_not_asked_for_heads_while_two_are_away)
{
	struct mt_run *run = sample();

	rot(run, 1);
	fake_node_down(1, 0);
	fake_node_down(2, 0);
	cr_assert_eq(look(run, 300), -EHOSTDOWN);
	fake_node_up(1);
	fake_run_for(NUM_MS(100));
	cr_assert_eq(look(run, 300), MT_RUN_HERE);
	cr_assert_not_null(run->dir);
}

/* Nobody has anything: it is said when the time is over, and the next look begins anew. */
Test(directory_load, where_heads_are_bad_too_a_look_ends)
{
	struct mt_run *run = sample();
	uint32_t at = run->offset_bytes;

	rot(run, 2);
	for (uint32_t i = 0; i < 2; i++)
		fake_runs_copy(fake_runs.extent, i)->bytes[at + 140] ^= 1;
	fake_node_down(2, 0);
	cr_assert_eq(look(run, 300), -EHOSTDOWN);
	fake_node_up(2);
	fake_run_for(NUM_MS(100));
	cr_assert_eq(look(run, 300), MT_RUN_HERE);
	cr_assert_not_null(run->dir);
}

Test(directory_load, a_merge_reads_heads_where_no_directory_is_good)
{
	struct mt_run *run = sample();

	rot(run, 3);
	mt_run_load_block(run, 100, waiter_of(1));
	cr_assert_eq(load(run), 0);
	cr_assert_eq(waiters[1].told_count, 1);
	cr_assert_eq(waiters[1].rc, 0);
	cr_assert_not_null(run->index);
	cr_assert_eq(run->index->place_count, BATCHES);
}

/* Another directory than the manifest names, at all copies: of another run, good in itself. */
Test(directory_load, a_directory_with_another_crc_is_not_believed)
{
	struct mt_run *run = sample();
	uint32_t at = run->offset_bytes + run->length_bytes - run->directory_bytes;

	for (uint32_t i = 0; i < 3; i++) {
		uint8_t *bytes = fake_runs_copy(fake_runs.extent, i)->bytes + at;
		uint32_t desc_bytes = num_get_le32(bytes + 64);

		num_put_le64(bytes + 48, 99); /* its cut */
		num_put_le32(bytes + 124,
		    crc32c(crc32c(0, bytes, 124), bytes + BATCH_HEADER_BYTES, desc_bytes));
	}
	cr_assert_eq(look(run, 100), MT_RUN_HERE);
	cr_assert_not_null(run->index, "heads were read");
	/* And it is believed if the manifest names it. */
	mt_run_cache_drop(run);
	run->is_dir_bad = false;
	run->directory_crc = num_get_le32(fake_runs_copy(fake_runs.extent, 0)->bytes + at + 124);
	cr_assert_eq(look(run, 100), MT_RUN_HERE);
	cr_assert_not_null(run->dir);
}

/* A directory that the manifest names, and that is of something else. */
Test(directory_load, a_directory_that_begins_elsewhere_is_not_believed)
{
	struct mt_run_dir *dir;
	struct mt_run *run;

	for (uint32_t batch = 1; batch <= BATCHES; batch++)
		add_batch(batch);
	run = fake_runs_end();
	cr_assert_eq(load(run), 0);
	run->index->place_count--; /* the first batch is left out */
	for (uint32_t i = 0; i < run->index->place_count; i++)
		run->index->places[i] = run->index->places[i + 1];
	for (uint32_t i = 0; i + 10 < run->index->frame_count; i++)
		run->index->frames[i] = run->index->frames[i + 10];
	run->index->frame_count -= 10;
	dir = mt_run_dir_create(run->index);
	run = with_directory(run, dir);
	mt_run_dir_free(dir);
	cr_assert_eq(look(run, 100), MT_RUN_HERE);
	cr_assert_not_null(run->index);
}

Test(directory_load, is_read_once_for_all)
{
	struct mt_run *run = sample();
	uint32_t before = fake_read_count();

	for (uint32_t i = 0; i < WAITERS; i++)
		mt_run_load_block(run, 100 * (i + 1), waiter_of(i));
	fake_run_for(NUM_S(1));
	for (uint32_t i = 0; i < WAITERS; i++)
		cr_assert_eq(waiters[i].told_count, 1);
	cr_assert_eq(fake_read_count(), before + 1);
}

Test(directory_load, each_allocation_may_fail)
{
	struct mt_run *run = sample();

	for (uint32_t nth = 1;; nth++) {
		struct mt_location at;
		int rc;

		mt_alloc_fail_at(nth);
		rc = look(run, 100);
		if (!mt_alloc_has_failed())
			break;
		cr_assert(rc == -ENOMEM || rc == MT_RUN_HERE, "%d", rc);
		mt_alloc_fail_at(nth);
		rc = load(run);
		cr_assert(rc == -ENOMEM || rc == 0, "%d", rc);
		mt_alloc_fail_at(0);
		cr_assert(!run->is_dir_bad);
		mt_run_cache_drop(run);
		cr_assert_eq(mt_run_look(run, 100, &at), MT_RUN_UNLOADED);
		cr_assert_eq(mt_run_cache_bytes(&fake.port), 0);
	}
	mt_alloc_fail_at(0);
}

/* ---- what goes, or comes, meanwhile ---- */

static void
expect_quiet(void)
{
	for (uint32_t i = 0; i < WAITERS; i++)
		cr_assert_eq(waiters[i].told_count, 1, "%u", i);
	cr_assert(mt_run_is_quiet(&fake.shard));
}

static struct mt_run *
begin_all(uint64_t us, uint64_t cache_bytes)
{
	struct mt_run *run;

	fake.port.run_cache->bytes_max = NUM_MIB(1);
	fake_runs_extent();
	run = sample();
	fake.port.run_cache->bytes_max = cache_bytes;
	mt_run_load_block(run, 100, waiter_of(0));
	mt_run_load_block(run, 200, waiter_of(1));
	mt_run_load(run, waiter_of(2));
	fake_run_for(NUM_US(us));
	return run;
}

Test(directory_load, a_run_that_goes)
{
	for (uint64_t us = 0; us < 1200; us += 40) {
		mt_index_remove_run(begin_all(us, NUM_MIB(1)));
		fake_run_for(NUM_S(1));
		expect_quiet();
		for (uint32_t i = 0; i < WAITERS; i++)
			cr_assert(waiters[i].rc == -ESTALE || waiters[i].rc == 0);
		cr_assert_eq(mt_run_cache_bytes(&fake.port), 0);
	}
}

Test(directory_load, a_shard_that_stops)
{
	for (uint64_t us = 0; us < 1200; us += 40) {
		struct mt_run *run = begin_all(us, NUM_MIB(1));

		mt_run_stop(&fake.shard);
		fake_run_for(NUM_S(1));
		expect_quiet();
		for (uint32_t i = 0; i < WAITERS; i++)
			cr_assert(waiters[i].rc == -ECANCELED || waiters[i].rc == 0);
		mt_index_remove_run(run);
	}
}

Test(directory_load, an_index_that_a_merge_gives)
{
	for (uint64_t us = 0; us < 1200; us += 40) {
		struct mt_run *run;
		struct mt_run_index *index;

		fake_runs_extent();
		run = sample();
		cr_assert_eq(load(run), 0);
		index = run->index;
		list_remove(&index->lru_link); /* the cache's no more */
		fake.port.run_cache->bytes -= mt_run_index_bytes(index);
		run->index = NULL;
		mt_run_load_block(run, 100, waiter_of(0));
		mt_run_load_block(run, 200, waiter_of(1));
		mt_run_load(run, waiter_of(2));
		fake_run_for(NUM_US(us));
		mt_run_index_give(run, index);
		fake_run_for(NUM_S(1));
		expect_quiet();
		for (uint32_t i = 0; i < WAITERS; i++)
			cr_assert_eq(waiters[i].rc, 0);
		mt_index_remove_run(run);
	}
}

Test(directory_load, a_cache_without_room)
{
	for (uint64_t us = 0; us < 1200; us += 40) {
		struct mt_run *run = begin_all(us, 1);

		fake_run_for(NUM_S(1));
		expect_quiet();
		for (uint32_t i = 0; i < WAITERS; i++)
			cr_assert_eq(waiters[i].rc, 0);
		mt_index_remove_run(run);
		cr_assert_eq(mt_run_cache_bytes(&fake.port), 0);
	}
}

Test(directory_load, an_end_in_the_middle)
{
	mt_run_load_block(sample(), 100, waiter_of(0));
	for (uint32_t k = 0; k < 3; k++)
		fake_node_down(k, 0);
	fake_run_for(NUM_MS(10));
}
