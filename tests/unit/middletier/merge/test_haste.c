/* SPDX-License-Identifier: Apache-2.0 */
/* test_haste.c -- long records of merges that writes wait for: left in one piece, and stored for space later */
#include "base/crc32c.h"
#include "base/guard.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/index/index.h"
#include "middletier/index/memtable.h"
#include "middletier/index/ring.h"
#include "middletier/index/run_index.h"
#include "middletier/merge/compact.h"
#include "middletier/merge/flush_due.h"
#include "middletier/merge/flush_input.h"
#include "unit/fake_merge.h"
#include "unit/run_waiters.h"

#define LONG_BLOCKS ENGINE_RECORD_BLOCKS_MAX
#define FRAME_BLOCKS 4u
#define PACKED 1u /* versions: compress well */
#define NEWER 2u
#define DENSE 4u /* not at all */

static struct flush_due due;

static void
setup(void)
{
	fake_init(1, false);
	fake_state.epoch = fake.shard.epoch;
	fake_merges_start();
	memset(&due, 0, sizeof(due));
	mt_flush_due_start(&due, &fake.shard);
}

static void
teardown(void)
{
	fake_merges_fini();
}

TestSuite(haste, .init = setup, .fini = teardown);

static struct mt_run *
newest_run(void)
{
	cr_assert_not_null(fake_chunk());
	cr_assert_gt(fake_chunk()->run_count, 0);
	return mt_run_of(fake_chunk()->runs.next);
}

static void
write_at(uint32_t block, uint32_t count, uint64_t version)
{
	cr_assert_eq(fake_wait(fake_write(block, count, version)), 0);
}

static void
expect_blocks(uint32_t block, uint32_t count, uint64_t version)
{
	for (uint32_t i = 0; i < count; i++)
		fake_expect(block + i, version);
}

static struct mt_merge_input
flush_input(bool is_urgent)
{
	struct flush_terms terms = { .shard = &fake.shard,
		.is_dirty = true,
		.is_urgent = is_urgent };
	struct mt_merge_input input;

	cr_assert_eq(mt_flush_input_chunk(&terms, fake_chunk(), &input), 0);
	return input;
}

static void
flush(bool is_urgent)
{
	struct mt_merge_input input = flush_input(is_urgent);

	fake_merge(&input);
}

/* The frame of the newest run that @block is in. */
static struct mt_frame
frame_at(uint32_t block)
{
	const struct mt_run_index *index = newest_run()->index;

	cr_assert_not_null(index);
	for (uint32_t i = 0; i < index->frame_count; i++) {
		const struct mt_frame *frame = &index->frames[i];

		if (block >= frame->block && block < frame->block + frame->block_count)
			return *frame;
	}
	cr_assert(false, "no frame has block %u", block);
	return (struct mt_frame){ 0 };
}

/* Frames of all runs that have 16 blocks. */
static uint32_t
long_frames(void)
{
	uint32_t count = 0;

	for (struct loop_link *link = fake_chunk()->runs.next; link != &fake_chunk()->runs;
	     link = link->next) {
		const struct mt_run_index *index = mt_run_of(link)->index;

		for (uint32_t i = 0; i < index->frame_count; i++)
			count += index->frames[i].block_count == LONG_BLOCKS;
	}
	return count;
}

/* Where the log has @block. */
static struct mt_location
logged_at(uint32_t block)
{
	struct mt_layer *layer =
	    LIST_ENTRY(list_first(&fake_chunk()->layers), struct mt_layer, link);
	const struct mt_location *location = mt_memtable_get(&layer->table, block);

	cr_assert_not_null(location);
	return *location;
}

/* ---- frames ---- */

Test(haste, a_long_record_is_taken_as_it_is_stored)
{
	struct mt_location logged;
	struct mt_frame frame;

	write_at(3, LONG_BLOCKS, PACKED); /* wherever it begins */
	logged = logged_at(3);
	flush(true);
	frame = frame_at(3);
	cr_assert_eq(newest_run()->index->frame_count, 1);
	cr_assert_eq(frame.block_count, LONG_BLOCKS);
	cr_assert_eq(frame.codec_id, logged.codec_id);
	cr_assert_eq(frame.stored_bytes, logged.stored_bytes);
	cr_assert_eq(frame.stored_crc, logged.stored_crc);
	cr_assert_eq(fake.port.metrics[MT_METRIC_hasty_runs], 1);
	expect_blocks(3, LONG_BLOCKS, PACKED);
}

Test(haste, without_it_frames_are_cut_and_compressed_for_space)
{
	write_at(0, LONG_BLOCKS, PACKED);
	flush(false);
	cr_assert_eq(newest_run()->index->frame_count, LONG_BLOCKS / FRAME_BLOCKS);
	cr_assert_eq(ENGINE_CODEC(frame_at(0).codec_id), ENGINE_ZSTD);
	cr_assert_eq(newest_run()->hasty_percent, 0);
	cr_assert_eq(fake.port.metrics[MT_METRIC_hasty_runs], 0);
}

Test(haste, a_record_that_is_partly_old_is_cut)
{
	write_at(0, LONG_BLOCKS, PACKED);
	write_at(LONG_BLOCKS, LONG_BLOCKS, PACKED);
	write_at(LONG_BLOCKS - 1, 1, NEWER); /* the last of the first one */
	flush(true);
	cr_assert_eq(frame_at(0).block_count, FRAME_BLOCKS);
	cr_assert_eq(frame_at(LONG_BLOCKS).block_count, LONG_BLOCKS);
	expect_blocks(0, LONG_BLOCKS - 1, PACKED);
	fake_expect(LONG_BLOCKS - 1, NEWER);
	expect_blocks(LONG_BLOCKS, LONG_BLOCKS, PACKED);
}

Test(haste, a_long_record_between_others_ends_their_frames)
{
	write_at(0, 6, PACKED);
	write_at(6, 5, NEWER); /* longer than a frame, and within two of them */
	write_at(11, 2, PACKED);
	flush(true);
	cr_assert_eq(frame_at(0).block_count, 6);
	cr_assert_eq(frame_at(6).block_count, 5);
	cr_assert_eq(frame_at(11).block, 11);
	cr_assert_eq(frame_at(11).block_count, 1); /* to the next multiple */
	cr_assert_eq(frame_at(12).block_count, 1);
	expect_blocks(0, 6, PACKED);
	expect_blocks(6, 5, NEWER);
	expect_blocks(11, 2, PACKED);
}

Test(haste, what_is_stored_plain_is_compressed_in_one_piece)
{
	fake.session.volume.codec_id = ENGINE_NONE;
	write_at(0, LONG_BLOCKS, PACKED);
	cr_assert_eq(ENGINE_CODEC(logged_at(0).codec_id), ENGINE_NONE);
	write_at(LONG_BLOCKS, LONG_BLOCKS, DENSE);
	flush(true);
	cr_assert_eq(frame_at(0).block_count, LONG_BLOCKS);
	cr_assert_eq(ENGINE_CODEC(frame_at(0).codec_id), ENGINE_LZ4);
	cr_assert_eq(frame_at(LONG_BLOCKS).block_count, LONG_BLOCKS);
	cr_assert_eq(ENGINE_CODEC(frame_at(LONG_BLOCKS).codec_id), ENGINE_NONE);
	expect_blocks(0, LONG_BLOCKS, PACKED);
	expect_blocks(LONG_BLOCKS, LONG_BLOCKS, DENSE);
}

/* ---- pressed: what is stored plain is gone over once ---- */

static void
store_plain(void)
{
	fake.session.volume.codec_id = ENGINE_NONE;
	fake_encrypt(0);
}

/* A write of LONG_BLOCKS, stored plain: how many jobs of @kind its hasty flush takes. */
static uint32_t
flush_jobs(enum engine_job_kind kind, uint64_t version)
{
	uint32_t before;

	store_plain();
	write_at(0, LONG_BLOCKS, version);
	before = fake.engines.kind_counts[kind];
	flush(true);
	return fake.engines.kind_counts[kind] - before;
}

/* The bytes of the ring that have @block, stored plain. */
static uint8_t *
ring_block(uint32_t block)
{
	struct mt_location location = logged_at(block);
	dev_ptr record = mt_ring_at(fake.shard.ring, location.ring_position);

	cr_assert(mt_ring_contains(fake.shard.ring, location.ring_position));
	cr_assert_eq(location.codec_id, ENGINE_NONE);
	return (uint8_t *)record.device_address_private +
	    location.block_in_record * CLEAVE_BLOCK_BYTES;
}

Test(haste, what_is_stored_plain_is_checked_and_compressed_at_once)
{
	cr_assert_eq(flush_jobs(ENGINE_JOB_LOAD, PACKED), 0);
	cr_assert_eq(ENGINE_CODEC(frame_at(0).codec_id), ENGINE_LZ4);
	expect_blocks(0, LONG_BLOCKS, PACKED);
}

Test(haste, what_does_not_compress_is_checked_and_copied_at_once)
{
	cr_assert_eq(flush_jobs(ENGINE_JOB_STORE, DENSE), 1);
	cr_assert_eq(ENGINE_CODEC(frame_at(0).codec_id), ENGINE_NONE);
	expect_blocks(0, LONG_BLOCKS, DENSE);
}

Test(haste, plain_blocks_that_have_changed_in_memory_are_read_from_a_node)
{
	store_plain();
	write_at(0, LONG_BLOCKS, PACKED);
	guard_enter();
	ring_block(LONG_BLOCKS - 1)[7] ^= 1;
	guard_leave();
	flush(true);
	cr_assert_eq(frame_at(0).block_count, LONG_BLOCKS);
	expect_blocks(0, LONG_BLOCKS, PACKED);
}

Test(haste, plain_blocks_that_are_not_those_of_the_index_are_no_frame)
{
	struct mt_merge_input input;
	struct mt_location *location;

	store_plain();
	write_at(0, LONG_BLOCKS, PACKED);
	input = flush_input(true);
	location = (struct mt_location *)mt_memtable_get(&input.newest_layer->table, 3);
	location->block_crc ^= 1; /* that of all of the record stays as it is */
	cr_assert_eq(fake_merge_begin(&input), 0);
	cr_assert_lt(fake_merge_end(), 0);
	cr_assert_eq(fake_chunk()->run_count, 0);
}

Test(haste, plain_blocks_of_zeros_leave_no_frame)
{
	static const uint8_t zeros[CLEAVE_BLOCK_BYTES];
	struct mt_merge_input input;
	uint32_t crc = crc32c(0, zeros, sizeof(zeros)), whole = crc;

	if (fake.settings.has_recipes)
		cr_skip_test("no recipe is accepted of what the log never has");
	store_plain();
	write_at(0, LONG_BLOCKS, PACKED);
	for (uint32_t i = 1; i < LONG_BLOCKS; i++)
		whole = crc32c_combine(whole, crc, CLEAVE_BLOCK_BYTES);
	for (uint32_t i = 0; i < LONG_BLOCKS; i++) {
		guard_enter();
		memset(ring_block(i), 0, CLEAVE_BLOCK_BYTES);
		guard_leave();
	}
	input = flush_input(true);
	for (uint32_t i = 0; i < LONG_BLOCKS; i++) {
		struct mt_location *location =
		    (struct mt_location *)mt_memtable_get(&input.newest_layer->table, i);

		location->block_crc = crc;
		location->stored_crc = whole;
	}
	fake_merge(&input);
	cr_assert(fake_chunk() == NULL || fake_chunk()->run_count == 0, "zeros are a hole");
}

Test(haste, what_is_to_be_encrypted_is_loaded_first)
{
	store_plain();
	write_at(0, LONG_BLOCKS, PACKED);
	fake_encrypt(FAKE_KEY_ID);
	write_at(LONG_BLOCKS, 1, PACKED);
	flush(true);
	cr_assert_neq(frame_at(0).codec_id & ENGINE_ENCRYPTED, 0);
	expect_blocks(0, LONG_BLOCKS + 1, PACKED);
}

Test(haste, more_than_a_window_of_it)
{
	for (uint32_t i = 0; i < 40; i++)
		write_at(1 + i * LONG_BLOCKS, LONG_BLOCKS, i % 3 == 0 ? DENSE : PACKED);
	flush(true);
	cr_assert_eq(long_frames(), 40);
	for (uint32_t i = 0; i < 40; i++)
		fake_expect(1 + i * LONG_BLOCKS + i % LONG_BLOCKS, i % 3 == 0 ? DENSE : PACKED);
}

/* A frame may be longer than what is left of an extent, and goes to the next then. */
Test(haste, a_long_frame_that_does_not_fit_an_extent_goes_to_the_next)
{
	fake_set_slot_bytes(NUM_KIB(844)); /* three frames a batch, four of these, and 48 KiB */
	for (uint32_t i = 0; i < 40; i++)
		write_at(i * LONG_BLOCKS, LONG_BLOCKS, DENSE);
	flush(true);
	cr_assert_gt(fake_chunk()->run_count, 1);
	expect_blocks(0, 40 * LONG_BLOCKS, DENSE);
}

/* ---- when ---- */

Test(haste, only_where_writes_wait_and_nodes_have_room)
{
	write_at(0, LONG_BLOCKS, PACKED);
	cr_assert_not(flush_input(false).is_hasty);
	cr_assert(flush_input(true).is_hasty);
	fake.settings.run_codec = MT_RUN_CODEC_ZSTD;
	cr_assert_not(flush_input(true).is_hasty, "an option wants space");
	fake.settings.run_codec = MT_RUN_CODEC_AUTO;
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.links[i].slots_total = 100;
		fake.links[i].slots_free = 1;
	}
	cr_assert_not(flush_input(true).is_hasty, "it would take more of it");
}

/* ---- for space again ---- */

static int
find(struct mt_merge_input *ret_input)
{
	due.scan_ns = due.shrink_ns = due.tidy_ns = 0;
	return mt_flush_due_find(&due, ret_input);
}

Test(haste, a_minute_later_it_is_stored_for_space)
{
	struct mt_merge_input input;

	write_at(0, LONG_BLOCKS, PACKED);
	write_at(LONG_BLOCKS, LONG_BLOCKS, DENSE);
	flush(true);
	cr_assert_eq(fake.shard.block_index->hasty_count, 1);
	cr_assert_eq(find(&input), -ENOENT, "more of it may come");
	mt_flush_due_age(&due);
	mt_flush_due_age(&due);
	due.is_full = true;
	cr_assert_eq(find(&input), -ENOENT);
	due.is_full = false;
	fake.shard.is_log_short = true;
	cr_assert_eq(find(&input), -ENOENT, "writes wait");
	fake.shard.is_log_short = false;
	cr_assert_eq(find(&input), 0);
	cr_assert_not(input.is_hasty || input.is_urgent);
	fake_merge(&input);
	for (uint32_t i = 0; i < 2 * LONG_BLOCKS; i++)
		cr_assert_eq(frame_at(i).block_count, FRAME_BLOCKS);
	cr_assert_eq(ENGINE_CODEC(frame_at(0).codec_id), ENGINE_ZSTD);
	cr_assert_eq(fake.shard.block_index->hasty_count, 0);
	cr_assert_eq(find(&input), -ENOENT, "once");
	expect_blocks(0, LONG_BLOCKS, PACKED);
	expect_blocks(LONG_BLOCKS, LONG_BLOCKS, DENSE);
}

Test(haste, a_little_of_a_chunk_is_not_worth_a_merge)
{
	struct mt_merge_input input;

	for (uint32_t i = 0; i < 8; i++)
		write_at(i * LONG_BLOCKS, LONG_BLOCKS, DENSE);
	flush(false);
	write_at(8 * LONG_BLOCKS, LONG_BLOCKS, DENSE);
	fake_chunk()->retry_ns = UINT64_MAX; /* takes no run along */
	flush(true);
	fake_chunk()->retry_ns = 0;
	cr_assert_gt(newest_run()->hasty_percent, 0);
	cr_assert_eq(long_frames(), 1);
	mt_flush_due_age(&due);
	mt_flush_due_age(&due);
	cr_assert_eq(find(&input), -ENOENT);
}

Test(haste, whoever_reads_a_runs_index_knows_it)
{
	struct mt_run *run;

	write_at(0, LONG_BLOCKS, PACKED);
	flush(true);
	run = newest_run();
	cr_assert_eq(mt_compact_hasty(&fake.shard, UINT64_MAX), run);
	run->hasty_percent = 0; /* as where the shard was taken over */
	fake.shard.block_index->hasty_count = 0;
	mt_run_cache_drop(run);
	cr_assert_eq(load(run), 0);
	cr_assert_eq(mt_compact_hasty(&fake.shard, UINT64_MAX), run);
}
