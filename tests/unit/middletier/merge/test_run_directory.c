/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_directory.c -- runs that a merge makes end with their directory, where that is worth it and may be */
#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/level.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/index/index.h"
#include "middletier/index/run_dir.h"
#include "middletier/index/run_index.h"
#include "middletier/merge/compact.h"
#include "middletier/merge/merge_work.h"
#include "middletier/merge/run_directory.h"
#include "middletier/merge/run_part.h"
#include "middletier/merge/run_writer.h"
#include "unit/fake_merge.h"

#define BLOCKS 320u /* of 4 KiB that do not compress: five batches and a little */
#define VERSION 4u
#define RUNS_MAX 16u

static void
setup(void)
{
	fake_init(1, false);
	fake_merges_start();
	fake_set_slot_bytes(NUM_MIB(4));
	atomic_store(&fake.shared.cluster_level, CLEAVE_LEVEL_DIRECTORIES);
}

static void
teardown(void)
{
	fake_merges_fini();
}

TestSuite(run_directory, .init = setup, .fini = teardown);

static void
write_blocks(uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i += 16) {
		uint32_t blocks = (uint32_t)num_min(16, count - i);
		int rc = fake_wait(fake_write(first + i, blocks, VERSION));

		cr_assert_eq(rc, 0, "%d", rc);
	}
}

/* The frozen layers of the chunk become runs. */
static int
flush(void)
{
	struct mt_merge_input input = { .chunk = fake_chunk(), .level = 1 };

	cr_assert_eq(mt_index_freeze(input.chunk), 0);
	input.newest_layer = LIST_ENTRY(input.chunk->layers.next, struct mt_layer, link);
	input.oldest_layer = LIST_ENTRY(input.chunk->layers.prev, struct mt_layer, link);
	cr_assert_eq(fake_merge_begin(&input), 0);
	(void)fake_merge_end();
	fake_run_for(NUM_MS(50));
	return fake_merges.rc;
}

static uint32_t
reads(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		count += fake.nodes[i].counts[WIRE_EXTENT_READ];
	return count;
}

/* Nothing is known of any run, as after a take-over. */
static void
forget(void)
{
	for (struct loop_link *link = fake_chunk()->runs.next; link != &fake_chunk()->runs;
	     link = link->next)
		mt_run_cache_drop(mt_run_of(link));
}

static struct mt_run *
newest(void)
{
	cr_assert_gt(fake_chunk()->run_count, 0);
	return mt_run_of(fake_chunk()->runs.next);
}

/* READs until the first block that is asked for is here, and its bytes are right. */
static uint32_t
first_look(uint32_t block)
{
	uint32_t before;

	forget();
	before = reads();
	fake_expect(block, VERSION);
	return reads() - before;
}

/* The run's batches and its directory, from a copy: the directory is what an index of the others would make. */
static void
expect_directory(const struct mt_run *run)
{
	const struct mt_extent *extent = mt_shard_extent(&fake.shard, run->extent_index);
	const struct fake_copy *copy =
	    fake_copy_find(&fake.nodes[extent->replicas[0].node_id - 1], &extent->id);
	uint32_t at = run->offset_bytes + run->length_bytes - run->directory_bytes;
	struct batch_check check = { .id = extent->id,
		.kind = EXTENT_RUN,
		.offset_bytes = at,
		.is_probe = true };
	struct mt_run_dir *dir = mt_run_dir_create(run->index);
	uint8_t expected[BATCH_HEAD_BYTES_MAX];

	cr_assert_not_null(dir);
	mt_run_dir_encode(dir, expected);
	cr_assert_eq(batch_head_check(copy->bytes + at, run->directory_bytes, &check), 0, "%s",
	    check.ret_field);
	cr_assert(check.info.is_directory);
	cr_assert_eq(check.info.batch_crc, run->directory_crc);
	cr_assert_eq(check.info.batch_bytes, run->directory_bytes);
	cr_assert_eq(check.info.desc_bytes, mt_run_dir_encoded_bytes(dir));
	cr_assert_eq(memcmp(copy->bytes + at + BATCH_HEADER_BYTES, expected, check.info.desc_bytes),
	    0);
	mt_run_dir_free(dir);
}

Test(run_directory, a_first_look_is_a_read_of_it_one_of_a_page_and_one_of_the_frame)
{
	struct mt_run *run;
	uint32_t without;

	write_blocks(0, BLOCKS);
	cr_assert_eq(flush(), 0);
	cr_assert_eq(fake_chunk()->run_count, 1);
	run = newest();
	cr_assert_eq(run->directory_bytes, BATCH_ALIGN);
	cr_assert_geq(run->index->place_count, 5);
	expect_directory(run);
	cr_assert_eq(first_look(BLOCKS - 1), 3);
	run->is_dir_bad = true; /* as of a release of before */
	without = first_look(BLOCKS - 1);
	cr_assert_geq(without, 6);
}

Test(run_directory, none_in_a_cluster_of_before)
{
	atomic_store(&fake.shared.cluster_level, CLEAVE_LEVEL_DIRECTORIES - 1);
	write_blocks(0, BLOCKS);
	cr_assert_eq(flush(), 0);
	cr_assert_eq(newest()->directory_bytes, 0);
	cr_assert_geq(first_look(0), 6);
}

Test(run_directory, none_of_a_short_run)
{
	write_blocks(0, 100);
	cr_assert_eq(flush(), 0);
	cr_assert_lt(newest()->index->place_count, RUN_DIRECTORY_BATCHES_MIN);
	cr_assert_eq(newest()->directory_bytes, 0);
	cr_assert_leq(first_look(99), 1 + RUN_DIRECTORY_BATCHES_MIN);
}

Test(run_directory, each_part_that_fills_an_extent_has_one)
{
	uint32_t count = 0;

	fake_set_slot_bytes(NUM_MIB(1) + NUM_KIB(512) + MT_EXTENT_OVERHEAD_BYTES);
	write_blocks(0, 4 * BLOCKS);
	cr_assert_eq(flush(), 0);
	cr_assert_geq(fake_chunk()->run_count, 3);
	for (struct loop_link *link = fake_chunk()->runs.next; link != &fake_chunk()->runs;
	     link = link->next) {
		struct mt_run *run = mt_run_of(link);

		cr_assert_leq(run->offset_bytes + run->length_bytes, NUM_MIB(1) + NUM_KIB(512));
		if (run->index->place_count < RUN_DIRECTORY_BATCHES_MIN)
			continue;
		expect_directory(run);
		cr_assert_eq(run->directory_bytes, BATCH_ALIGN);
		count++;
	}
	cr_assert_geq(count, 3);
	for (uint32_t block = 0; block < 4 * BLOCKS; block += 37)
		(void)first_look(block);
}

Test(run_directory, runs_of_one_extent_each_have_their_own)
{
	write_blocks(0, BLOCKS);
	cr_assert_eq(flush(), 0);
	write_blocks(BLOCKS, BLOCKS);
	cr_assert_eq(flush(), 0);
	cr_assert_eq(fake_chunk()->run_count, 2);
	cr_assert_eq(newest()->extent_index, mt_run_of(fake_chunk()->runs.prev)->extent_index);
	for (struct loop_link *link = fake_chunk()->runs.next; link != &fake_chunk()->runs;
	     link = link->next)
		expect_directory(mt_run_of(link));
	/* The one has it not, and costs its directory alone. */
	cr_assert_eq(first_look(0), 4);
}

/* Kept back of a part of @count batches with @gap_count gaps, and one more. */
static uint32_t
kept_bytes(uint32_t count, uint32_t gap_count, const struct run_batch *next)
{
	struct run_writer *writer = &fake.port.merge_work->exec.writer;
	uint32_t bytes;

	writer->shard = &fake.shard;
	writer->part_count = 1;
	writer->parts[0] = (struct run_part){ .extent_index = newest()->extent_index,
		.batch_count = count,
		.gap_count = gap_count };
	bytes = mt_run_directory_bytes(writer, next);
	writer->part_count = 0;
	return bytes;
}

/* A set of its blocks is as long as they have stretches, up to 2 KiB of bits. */
Test(run_directory, as_much_room_is_kept_back_as_it_needs)
{
	struct run_batch next = { .gap_count = 600 };

	write_blocks(0, 16);
	cr_assert_eq(flush(), 0);
	cr_assert_eq(kept_bytes(3, 0, NULL), BATCH_ALIGN);
	cr_assert_eq(kept_bytes(255, 0, NULL), BATCH_ALIGN, "an extent of one run without gaps");
	cr_assert_eq(kept_bytes(255, 600, NULL), 2 * BATCH_ALIGN);
	cr_assert_eq(kept_bytes(255, 0, &next), 2 * BATCH_ALIGN);
	cr_assert_eq(kept_bytes(100, 600, &next), BATCH_ALIGN);
	cr_assert_eq(kept_bytes(2, 0, NULL), 0);
}

Test(run_directory, the_index_that_it_is_made_of_is_the_runs)
{
	const struct run_writer *writer = &fake.port.merge_work->exec.writer;
	struct run_part part = { .index = NULL };
	struct mt_run_index *index;

	write_blocks(0, BLOCKS);
	cr_assert_eq(flush(), 0);
	part.frame_count = writer->frame_count;
	part.batch_count = writer->place_count;
	index = mt_run_part_index(writer, &part);
	cr_assert_eq(index->frame_count, newest()->index->frame_count);
	cr_assert_eq(mt_run_part_index(writer, &part), index, "made once");
	cr_assert_eq(mt_run_part_take_index(writer, &part), index);
	cr_assert_null(part.index);
	mt_run_index_free(index);
}

Test(run_directory, is_no_garbage)
{
	fake.settings.directory_batches_min = 1;
	write_blocks(0, 1);
	cr_assert_eq(flush(), 0);
	cr_assert_eq(newest()->directory_bytes, BATCH_ALIGN);
	mt_compact_count(fake.shard.block_index, fake_chunk());
	cr_assert_eq(newest()->live_bytes, newest()->length_bytes, "it would be merged for ever");
}

Test(run_directory, whatever_the_nodes_do_meanwhile)
{
	uint32_t with = 0, without = 0;

	write_blocks(0, BLOCKS);
	for (uint64_t us = 0; us < 8000; us += 250) {
		struct mt_merge_input input;

		/* The runs become one again, with what is new. */
		write_blocks((uint32_t)us / 250, 1);
		input = fake_input_of_all(fake_chunk(), true);
		cr_assert_eq(fake_merge_begin(&input), 0);
		fake_run_for(NUM_US(us));
		fake_node_down(us / 250 % FAKE_NODES, 0);
		fake_run_for(NUM_MS(20));
		fake_node_up(us / 250 % FAKE_NODES);
		(void)fake_merge_end();
		fake_run_for(NUM_MS(100));
		if (fake_merges.rc != 0)
			continue;
		for (struct loop_link *link = fake_chunk()->runs.next; link != &fake_chunk()->runs;
		     link = link->next) {
			const struct mt_run *run = mt_run_of(link);

			if (run->directory_bytes > 0)
				expect_directory(run);
			with += run->directory_bytes > 0;
			without += run->directory_bytes == 0;
		}
		(void)first_look(BLOCKS / 2);
	}
	cr_assert_gt(with, 0);
	cr_assert_gt(without, 0);
}

Test(run_directory, each_allocation_may_fail)
{
	bool has_failed = true;

	for (uint32_t nth = 1; has_failed; nth++) {
		struct mt_merge_input input = { .level = 1 };
		int rc;

		teardown();
		setup();
		write_blocks(0, BLOCKS);
		input.chunk = fake_chunk();
		cr_assert_eq(mt_index_freeze(input.chunk), 0);
		input.newest_layer = LIST_ENTRY(input.chunk->layers.next, struct mt_layer, link);
		input.oldest_layer = LIST_ENTRY(input.chunk->layers.prev, struct mt_layer, link);
		mt_alloc_fail_at(nth);
		rc = fake_merge_begin(&input);
		if (rc == 0)
			rc = fake_merge_end();
		has_failed = mt_alloc_has_failed();
		mt_alloc_fail_at(0);
		if (rc != 0)
			continue;
		cr_assert_eq(fake_chunk()->run_count, 1);
		if (newest()->directory_bytes > 0 && newest()->index != NULL)
			expect_directory(newest());
		cr_assert_leq(first_look(0), 8);
	}
	cr_assert_gt(newest()->directory_bytes, 0);
}
