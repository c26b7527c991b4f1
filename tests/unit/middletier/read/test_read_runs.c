/* SPDX-License-Identifier: Apache-2.0 */
/* test_read_runs.c -- blocks in runs: newest first, cold and warm, lost, moved; snapshots and clones */
#include "base/num.h"
#include "base/random.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "middletier/catalog/scope.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/index/index.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "middletier/read/block_status.h"
#include "middletier/write/write_path.h"
#include "unit/fake_runs.h"

#define CHUNK mt_chunk_number(FAKE_SEGMENT, 0)
#define ORIGIN 900u /* a segment of another volume */

static void
setup(void)
{
	fake_runs_start(51);
}

static void
teardown(void)
{
	fake_runs_fini();
}

TestSuite(read_runs, .init = setup, .fini = teardown);

static uint64_t
metric(enum mt_metric which)
{
	return fake.port.metrics[which];
}

static int
read_rc(uint32_t block, uint32_t count)
{
	return fake_wait(fake_read(block, count));
}

static void
write_now(uint32_t block, uint32_t block_count, uint64_t version)
{
	cr_assert_eq(fake_wait(fake_write(block, block_count, version)), 0);
}

/* Versions of consecutive blocks; 0: zeros. */
static void
expect_range(uint32_t block, uint32_t block_count, const uint64_t *versions)
{
	struct fake_msg *msg = fake_read(block, block_count);

	cr_assert_eq(fake_wait(msg), 0, "rc %d", msg->reply.rc);
	for (uint32_t i = 0; i < block_count; i++) {
		uint8_t expected[CLEAVE_BLOCK_BYTES] = { 0 };

		if (versions[i] != 0)
			fake_pattern(expected, block + i, versions[i]);
		cr_assert_eq(memcmp(expected, msg->payload + i * CLEAVE_BLOCK_BYTES,
				 CLEAVE_BLOCK_BYTES),
		    0, "block %u", block + i);
	}
}

static struct mt_run *
one_frame(uint64_t chunk, uint64_t flushed, uint64_t cut, uint8_t kind, uint32_t block,
    uint32_t count, uint64_t version)
{
	fake_runs_batch(chunk, flushed, cut);
	fake_runs_frame(kind, block, count, version);
	fake_runs_batch_end();
	return fake_runs_end();
}

Test(read_runs, cold_then_warm)
{
	struct mt_run *run = fake_runs_one(5, 10, 8, 4);
	static const uint64_t versions[16] = { 0, 0, 4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0 };

	expect_range(8, 16, versions);
	cr_assert_eq(metric(MT_METRIC_run_indexes_loaded), 1);
	cr_assert_not_null(run->index);
	expect_range(8, 16, versions);
	fake_expect(12, 4);
	cr_assert_eq(metric(MT_METRIC_run_indexes_loaded), 1);
	cr_assert_eq(metric(MT_METRIC_reads_from_node), 3);
}

Test(read_runs, the_newest_of_layers_and_runs)
{
	static const uint64_t versions[16] = { 1, 2, 2, 7, 3, 0, 0, 7, 1, 1, 1, 1, 0, 0, 0, 0 };

	(void)fake_runs_one(5, 0, 12, 1);
	(void)fake_runs_one(9, 4, 1, 3);
	(void)fake_runs_one(7, 1, 2, 2);
	(void)one_frame(CHUNK, 10, 0, RECORD_DISCARD, 5, 2, 0);
	write_now(3, 1, 7);
	write_now(7, 1, 7);
	expect_range(0, 16, versions);
	cr_assert_eq(fake_wait(fake_discard(0, 12)), 0);
	expect_range(0, 16, (const uint64_t[16]){ 0 });
}

Test(read_runs, zeros_hide_what_is_older)
{
	(void)fake_runs_one(5, 0, 4, 1);
	(void)one_frame(CHUNK, 6, 0, RECORD_ZEROES, 0, 2, 0);
	expect_range(0, 4, (const uint64_t[4]){ 0, 0, 1, 1 });
}

Test(read_runs, a_lost_block_is_an_error_alone)
{
	(void)fake_runs_one(5, 0, 4, 1);
	(void)one_frame(CHUNK, 6, 0, RECORD_LOST, 2, 1, 0);
	cr_assert_eq(read_rc(2, 1), -EIO);
	cr_assert_eq(read_rc(0, 4), -EIO);
	cr_assert_eq(metric(MT_METRIC_unreadable_blocks), 2);
	expect_range(0, 2, (const uint64_t[2]){ 1, 1 });
	fake_expect(3, 1);
	write_now(2, 1, 8);
	expect_range(0, 4, (const uint64_t[4]){ 1, 1, 8, 1 });
}

/* ---- neighbouring frames ---- */

static uint32_t
read_requests(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		count += fake.nodes[i].counts[WIRE_EXTENT_READ];
	return count;
}

/* Frames of 4, 4, 4 and 4 blocks in a batch; of version 4, which does not compress. */
static struct mt_run *
four_frames(void)
{
	fake_runs_batch(CHUNK, 5, 0);
	for (uint32_t i = 0; i < 4; i++)
		fake_runs_frame(RECORD_WRITE, 4 * i, 4, 4 + i);
	fake_runs_batch_end();
	return fake_runs_end();
}

static const uint64_t four_versions[16] = { 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7 };

Test(read_runs, neighbouring_frames_are_one_request)
{
	for (uint32_t round = 0; round < 2; round++) {
		uint32_t before;

		if (round == 1) {
			teardown();
			fake_init(53, true);
			fake_start();
			fake_runs_extent();
		}
		(void)four_frames();
		fake_expect(0, 4);
		before = read_requests();
		expect_range(0, 16, four_versions);
		cr_assert_eq(read_requests() - before, 1);
		expect_range(3, 7, four_versions + 3);
		cr_assert_eq(read_requests() - before, 2);
		cr_assert_eq(metric(MT_METRIC_reads_from_node), 1 + 4 + 3);
	}
}

Test(read_runs, a_frame_in_the_middle_that_is_elsewhere_now)
{
	uint32_t before;

	(void)four_frames();
	fake_expect(0, 4);
	write_now(5, 1, 9);
	before = read_requests();
	expect_range(0, 16, (const uint64_t[16]){ 4, 4, 4, 4, 5, 9, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7 });
	cr_assert_eq(read_requests() - before, 2);
}

Test(read_runs, a_bad_frame_among_neighbours)
{
	(void)four_frames();
	fake_expect(0, 4);
	/* Another one of each copy. */
	for (uint32_t i = 0; i < 3; i++)
		fake_runs_copy(fake_runs.extent, i)->bytes[1000 + (i + 1) * 16384] ^= 1;
	for (uint32_t i = 0; i < 9; i++)
		expect_range(0, 16, four_versions);
	cr_assert_gt(metric(MT_METRIC_repairs_queued), 0);
	/* A frame is bad in every copy: its neighbours can be read. */
	for (uint32_t i = 1; i < 3; i++)
		fake_runs_copy(fake_runs.extent, i)->bytes[1000 + 16384] ^= 1;
	cr_assert_eq(read_rc(0, 16), -EIO);
	expect_range(0, 4, four_versions);
	expect_range(8, 8, four_versions + 8);
}

Test(read_runs, blocks_written_while_neighbours_are_fetched)
{
	for (uint64_t us = 0; us < 300; us += 10) {
		struct fake_msg *read;

		teardown();
		fake_init(60 + us, us % 20 == 0);
		fake_start();
		fake_runs_extent();
		(void)four_frames();
		fake_expect(0, 4);
		read = fake_read(0, 16);
		fake_run_for(NUM_US(us));
		(void)fake_write(6, 4, 9);
		cr_assert(fake_run_quiet());
		cr_assert_eq(read->reply.rc, 0);
		for (uint32_t i = 0; i < 16; i++) {
			uint64_t version;

			memcpy(&version, read->payload + i * CLEAVE_BLOCK_BYTES, sizeof(version));
			cr_assert(
			    version == four_versions[i] || (i >= 6 && i < 10 && version == 9));
		}
	}
}

Test(read_runs, a_stop_while_neighbours_are_fetched)
{
	for (uint64_t us = 0; us < 300; us += 10) {
		teardown();
		fake_init(60 + us, us % 20 == 0);
		fake_start();
		fake_runs_extent();
		(void)four_frames();
		fake_expect(0, 4);
		(void)fake_read(0, 16);
		fake_run_for(NUM_US(us));
		fake_stop(-EREMCHG);
		cr_assert(fake_run_quiet());
		fake_run_for(NUM_MS(1));
	}
}

/* ---- scopes ---- */

Test(read_runs, a_snapshot_sees_what_is_older_than_it)
{
	struct mt_scope *scope = &fake.session.volume.scope;

	(void)one_frame(CHUNK, 5, 0, RECORD_WRITE, 0, 4, 1);
	(void)one_frame(CHUNK, 6, 3, RECORD_WRITE, 1, 1, 2);
	(void)one_frame(CHUNK, 7, 8, RECORD_WRITE, 2, 1, 3);
	write_now(3, 1, 9);
	expect_range(0, 4, (const uint64_t[4]){ 1, 2, 3, 9 });
	scope->spans[0].cut_below = 4;
	/* The layer's cut is 0: older than the snapshot as well. */
	expect_range(0, 4, (const uint64_t[4]){ 1, 2, 1, 9 });
	scope->spans[0].cut_from = 3;
	expect_range(0, 4, (const uint64_t[4]){ 0, 2, 0, 0 });
}

Test(read_runs, a_clone_sees_its_origin_where_it_has_nothing_itself)
{
	struct mt_scope *scope = &fake.session.volume.scope;
	uint64_t origin = mt_chunk_number(ORIGIN, 0);

	scope->span_count = 2;
	scope->spans[1] = (struct mt_span){ ORIGIN, 0, 6 };
	(void)one_frame(origin, 5, 0, RECORD_WRITE, 0, 8, 1);
	(void)one_frame(origin, 9, 6, RECORD_WRITE, 0, 8, 2); /* after the snapshot */
	(void)one_frame(CHUNK, 6, 7, RECORD_WRITE, 2, 2, 3);
	(void)one_frame(CHUNK, 7, 7, RECORD_DISCARD, 5, 1, 0);
	expect_range(0, 10, (const uint64_t[10]){ 1, 1, 3, 3, 1, 0, 1, 1, 0, 0 });
}

/* ---- what changes meanwhile ---- */

Test(read_runs, blocks_written_while_the_index_is_read)
{
	for (uint64_t us = 0; us < 400; us += 40) {
		uint32_t block = (uint32_t)us;
		struct fake_msg *read;
		uint64_t version;

		(void)fake_runs_one(5 + us, block, 4, 1);
		read = fake_read(block, 4);
		fake_run_for(NUM_US(us));
		write_now(block + 1, 1, 2);
		cr_assert(fake_run_quiet());
		cr_assert_eq(read->reply.rc, 0);
		memcpy(&version, read->payload + CLEAVE_BLOCK_BYTES, sizeof(version));
		cr_assert(version == 1 || version == 2);
		expect_range(block, 4, (const uint64_t[4]){ 1, 2, 1, 1 });
	}
}

Test(read_runs, a_run_that_is_merged_while_it_is_read)
{
	/* At any moment of a read, cold or warm, its run and its extent go: another has the blocks. */
	for (uint64_t us = 0; us < 800; us += 20) {
		uint32_t block = (uint32_t)us;
		struct mt_extent *old_extent;
		struct fake_msg *read;
		struct mt_run *old;

		fake_runs_extent();
		old = fake_runs_one(5 + us, block, 4, 1);
		old_extent = fake_runs.extent;
		if (us % 40 == 0)
			fake_expect(block, 1);
		read = fake_read(block, 4);
		fake_run_for(NUM_US(us % 400));
		fake_runs_extent();
		(void)fake_runs_one(5 + us, block, 4, 1);
		mt_index_remove_run(old);
		for (uint32_t i = 0; i < 3; i++)
			fake_runs_copy(old_extent, i)->exists = false;
		mt_shard_extent_remove(&fake.shard, old_extent);
		mt_extent_free(old_extent);
		cr_assert(fake_run_quiet());
		cr_assert_eq(read->reply.rc, 0, "rc %d", read->reply.rc);
	}
	cr_assert_eq(metric(MT_METRIC_repairs_queued), 0, "no copy was bad");
	cr_assert_eq(metric(MT_METRIC_unreadable_blocks), 0);
}

Test(read_runs, a_copy_that_is_gone_while_its_run_is_not)
{
	(void)fake_runs_one(5, 0, 4, 1);
	fake_expect(0, 1);
	fake_runs_copy(fake_runs.extent, 0)->exists = false;
	for (uint32_t i = 0; i < 6; i++)
		fake_expect(0, 1);
	cr_assert_gt(metric(MT_METRIC_repairs_queued), 0);
	for (uint32_t i = 1; i < 3; i++)
		fake_runs_copy(fake_runs.extent, i)->exists = false;
	cr_assert_eq(read_rc(0, 1), -EIO);
}

Test(read_runs, bad_copies_of_a_frame)
{
	(void)fake_runs_one(5, 0, 4, 1);
	fake_expect(0, 1);
	fake.nodes[0].is_rotten = fake.nodes[1].is_rotten = true;
	for (uint32_t i = 0; i < 4; i++)
		fake_expect(i, 1);
	fake.nodes[2].is_rotten = true;
	cr_assert_eq(read_rc(0, 1), -EIO);
}

/* ---- indexes that cannot be had ---- */

Test(read_runs, no_good_copy_of_an_index)
{
	(void)fake_runs_one(5, 0, 4, 1);
	write_now(2, 1, 9);
	for (uint32_t i = 0; i < 3; i++)
		fake_runs_copy(fake_runs.extent, i)->bytes[130] ^= 1;
	cr_assert_eq(read_rc(0, 1), -EIO);
	fake_expect(2, 9); /* a layer has it: nobody asks */
	cr_assert_eq(metric(MT_METRIC_unreadable_blocks), 1);
}

Test(read_runs, no_node_has_an_index_now)
{
	struct fake_msg *read;

	(void)fake_runs_one(5, 0, 4, 1);
	for (uint32_t i = 0; i < 3; i++)
		fake_node_down(i, 0);
	cr_assert_eq(read_rc(0, 1), -EHOSTDOWN);
	read = fake_read(0, 1);
	fake_run_for(NUM_S(1));
	cr_assert_not(read->is_answered);
	fake_node_up(2);
	cr_assert_eq(fake_wait(read), 0);
}

Test(read_runs, a_stop_while_an_index_is_read)
{
	struct fake_msg *reads[3];

	(void)fake_runs_one(5, 0, 4, 1);
	for (uint32_t i = 0; i < 3; i++)
		reads[i] = fake_read(i, 1);
	fake_stop(-EREMCHG);
	mt_run_stop(&fake.shard);
	cr_assert(fake_run_quiet());
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(reads[i]->reply.rc, -EREMCHG);
	fake_run_for(NUM_MS(10));
	cr_assert(mt_run_is_quiet(&fake.shard));
}

Test(read_runs, a_cache_that_holds_next_to_nothing)
{
	struct fake_msg *msgs[60];

	fake.port.run_cache->bytes_max = 1;
	for (uint32_t chunk = 0; chunk < 6; chunk++) {
		fake_runs_extent();
		for (uint32_t i = 0; i < 9; i++)
			(void)one_frame(CHUNK + chunk, 5 + i, 0, RECORD_WRITE, 16 * i, 2, 1 + i);
	}
	for (uint32_t i = 0; i < 60; i++)
		msgs[i] = fake_read((i % 6) * (uint32_t)CLEAVE_CHUNK_BLOCKS + 16 * (i % 9), 2);
	cr_assert(fake_run_quiet());
	for (uint32_t i = 0; i < 60; i++) {
		uint64_t version;

		cr_assert_eq(msgs[i]->reply.rc, 0);
		memcpy(&version, msgs[i]->payload, sizeof(version));
		cr_assert_eq(version, 1 + i % 9);
	}
	cr_assert_eq(mt_run_cache_bytes(&fake.port), fake.port.run_cache->dir_bytes);
	cr_assert_leq(fake.port.run_cache->dir_bytes, 9 * 150, "those of one chunk");
}

/* Else each block would want all of them to be loaded anew. */
Test(read_runs, directories_of_a_chunk_that_is_read_stay)
{
	fake.port.run_cache->bytes_max = 1;
	fake_runs_extent();
	for (uint32_t i = 0; i < 20; i++)
		(void)one_frame(CHUNK, 5 + i, 0, RECORD_WRITE, 16 * i, 2, 1 + i);
	for (uint32_t i = 0; i < 20; i++)
		fake_expect(16 * i + 1, 1 + i);
	cr_assert_leq(metric(MT_METRIC_run_indexes_loaded), 20);
}

static uint32_t
node_read_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		count += fake.nodes[i].counts[WIRE_EXTENT_READ];
	return count;
}

Test(read_runs, a_miss_reads_one_head_of_the_run_that_has_the_block)
{
	struct mt_run *older, *newer;
	uint32_t before;

	fake_runs_extent();
	for (uint32_t i = 0; i < 5; i++) {
		fake_runs_batch(CHUNK, 5, 0);
		fake_runs_frame(RECORD_WRITE, 10 + 20 * i, 4, 1);
		fake_runs_batch_end();
	}
	older = fake_runs_end();
	newer = one_frame(CHUNK, 6, 0, RECORD_WRITE, 32, 1, 2);
	fake_expect(10, 1);
	fake_expect(32, 2);
	mt_run_cache_evict(older);
	mt_run_cache_evict(newer);
	before = node_read_count();
	fake_expect(50, 1);
	cr_assert_eq(node_read_count(), before + 2, "a head, and a frame");
	fake_expect(53, 1);
	cr_assert_eq(node_read_count(), before + 3, "the frame");
	fake_expect(40, 0);
	cr_assert_eq(node_read_count(), before + 3, "a block that no run holds");
	fake_expect(32, 2);
	cr_assert_eq(node_read_count(), before + 5);
	fake_expect(31, 1);
	cr_assert_eq(node_read_count(), before + 7);
	cr_assert_eq(metric(MT_METRIC_run_pages_loaded), 3);
	cr_assert_eq(metric(MT_METRIC_run_indexes_loaded), 2);
}

/* ---- against a model ---- */

#define MODEL_BLOCKS 400u

static void
random_runs(uint64_t random[4], uint64_t *model)
{
	for (uint64_t flushed = 1; flushed < 12; flushed++) {
		uint32_t block = (uint32_t)random_below(random, 40);

		fake_runs_extent();
		fake_runs_batch(CHUNK, flushed, 0);
		while (block < MODEL_BLOCKS - 16) {
			uint32_t count = 1 + (uint32_t)random_below(random, 4);
			bool is_write = random_below(random, 3) > 0;

			if (fake_runs.payload_bytes > NUM_KIB(128)) {
				fake_runs_batch_end();
				fake_runs_batch(CHUNK, flushed, 0);
			}
			fake_runs_frame(is_write ? RECORD_WRITE : RECORD_DISCARD, block, count,
			    flushed);
			for (uint32_t i = 0; i < count; i++)
				model[block + i] = is_write ? flushed : 0;
			block += count + (uint32_t)random_below(random, 30);
		}
		fake_runs_batch_end();
		(void)fake_runs_end();
	}
}

Test(read_runs, random_layers_over_random_runs)
{
	uint64_t model[MODEL_BLOCKS] = { 0 }, random[4];

	for (uint64_t seed = 1; seed <= 8; seed++) {
		if (seed > 1) {
			fake_fini();
			fake_init(seed, seed % 2 == 0);
			fake_start();
		}
		memset(model, 0, sizeof(model));
		random_seed(random, seed);
		random_runs(random, model);
		fake.port.run_cache->bytes_max =
		    (const uint64_t[]){ 1, NUM_KIB(4), NUM_MIB(64) }[seed % 3];
		for (uint32_t step = 0; step < 120; step++) {
			uint32_t count = 1 + (uint32_t)random_below(random, 16);
			uint32_t block = (uint32_t)random_below(random, MODEL_BLOCKS - 16);
			uint64_t dice = random_below(random, 6);

			if (dice == 0)
				write_now(block, count, 100 + step);
			else if (dice == 1)
				cr_assert_eq(fake_wait(fake_discard(block, count)), 0);
			for (uint32_t i = 0; i < count && dice < 2; i++)
				model[block + i] = dice == 0 ? 100 + step : 0;
			expect_range(block, count, model + block);
		}
	}
}

/* ---- block status ---- */

static struct fake_msg *
ask_status(uint32_t block, uint32_t count)
{
	struct fake_msg *msg = fake_msg_take();
	struct wire_io io = fake_io(WIRE_BLOCK_STATUS, block, count);

	cr_assert_not_null(msg);
	fake_submit(msg, &io);
	return msg;
}

/* Pairs of count and flags, to {0, 0}. Returns the blocks that were told of. */
static uint32_t
expect_status(struct fake_msg *msg, const uint32_t (*expected)[2])
{
	uint32_t sum = 0, bytes = 0;

	cr_assert_eq(fake_wait(msg), 0, "rc %d", msg->reply.rc);
	for (; (*expected)[0] > 0; expected++) {
		struct wire_status status;
		const char *field;

		cr_assert_lt(bytes, msg->reply.payload_bytes);
		cr_assert_eq(wire_status_decode(msg->payload + bytes, UINT32_MAX, &status, &field),
		    0);
		cr_assert_eq(status.block_count, (*expected)[0], "%u", status.block_count);
		cr_assert_eq(status.flags, (*expected)[1]);
		sum += status.block_count;
		bytes += WIRE_STATUS_ENTRY_BYTES;
	}
	cr_assert_eq(bytes, msg->reply.payload_bytes);
	return sum;
}

#define HOLE (WIRE_STATUS_HOLE | WIRE_STATUS_ZERO)
#define ZERO WIRE_STATUS_ZERO

Test(read_runs, status_of_every_kind_of_block)
{
	static const uint32_t expected[][2] = { { 10, HOLE }, { 4, 0 }, { 1, ZERO }, { 1, 0 },
		{ 2, HOLE }, { 1, 0 }, { 1, HOLE }, { 0, 0 } };
	uint64_t before;

	(void)fake_runs_one(5, 10, 8, 1);
	(void)one_frame(CHUNK, 6, 0, RECORD_ZEROES, 14, 1, 0);
	(void)one_frame(CHUNK, 7, 0, RECORD_LOST, 15, 1, 0);
	(void)one_frame(CHUNK, 8, 0, RECORD_DISCARD, 16, 2, 0);
	write_now(18, 1, 3);
	before = metric(MT_METRIC_reads_from_node);
	cr_assert_eq(expect_status(ask_status(0, 20), expected), 20);
	cr_assert_eq(expect_status(ask_status(0, 20), expected), 20);
	cr_assert_eq(metric(MT_METRIC_block_statuses), 2);
	cr_assert_eq(metric(MT_METRIC_reads_from_node), before);
	cr_assert_eq(fake_wait(fake_discard(18, 1)), 0);
	cr_assert_eq(expect_status(ask_status(16, 4),
			 (const uint32_t[][2]){ { 4, HOLE }, { 0, 0 } }),
	    4);
}

Test(read_runs, status_of_a_whole_chunk)
{
	uint32_t chunk_blocks = CLEAVE_CHUNK_BLOCKS;

	/* A volume never written to is told of at once, another as far as holds nobody up. */
	cr_assert_eq(expect_status(ask_status(0, chunk_blocks),
			 (const uint32_t[][2]){ { chunk_blocks, HOLE }, { 0, 0 } }),
	    chunk_blocks);
	write_now(100, 1, 1);
	cr_assert_eq(expect_status(ask_status(0, chunk_blocks),
			 (const uint32_t[][2]){ { 100, HOLE }, { 1, 0 },
			     { READ_STATUS_BLOCKS_MAX - 101, HOLE }, { 0, 0 } }),
	    READ_STATUS_BLOCKS_MAX);
}

Test(read_runs, status_waits_for_indexes)
{
	(void)fake_runs_one(5, 20, 1, 1);
	(void)fake_runs_one(6, 22, 1, 1);
	write_now(0, 8, 1);
	cr_assert_eq(expect_status(ask_status(0, 30),
			 (const uint32_t[][2]){ { 8, 0 }, { 12, HOLE }, { 1, 0 }, { 1, HOLE },
			     { 1, 0 }, { 7, HOLE }, { 0, 0 } }),
	    30);
	cr_assert_eq(metric(MT_METRIC_run_indexes_loaded), 2);
}

/* Block by block it is what a read would find. */
static void
expect_status_as_reads(const uint64_t *model)
{
	struct fake_msg *msg = ask_status(0, MODEL_BLOCKS);
	uint32_t at = 0;

	cr_assert_eq(fake_wait(msg), 0);
	for (uint32_t bytes = 0; bytes < msg->reply.payload_bytes; bytes += 8) {
		struct wire_status status;
		const char *field;

		cr_assert_eq(wire_status_decode(msg->payload + bytes, MODEL_BLOCKS - at, &status,
				 &field),
		    0);
		for (uint32_t i = 0; i < status.block_count; i++)
			cr_assert_eq(status.flags, model[at + i] == 0 ? HOLE : 0, "%u", at + i);
		at += status.block_count;
	}
	cr_assert_eq(at, MODEL_BLOCKS);
}

Test(read_runs, status_of_random_layers_over_random_runs)
{
	uint64_t model[MODEL_BLOCKS] = { 0 }, random[4];

	random_seed(random, 77);
	random_runs(random, model);
	for (uint32_t step = 0; step < 200; step++) {
		uint32_t count = 1 + (uint32_t)random_below(random, 16);
		uint32_t block = (uint32_t)random_below(random, MODEL_BLOCKS - 16);
		bool is_write = random_below(random, 2) == 0;

		if (is_write)
			write_now(block, count, 100 + step);
		else
			cr_assert_eq(fake_wait(fake_discard(block, count)), 0);
		for (uint32_t i = 0; i < count; i++)
			model[block + i] = is_write ? 100 + step : 0;
		expect_status_as_reads(model);
	}
	/* A discard of all of it, and something over that. */
	cr_assert_eq(fake_wait(fake_discard(0, CLEAVE_CHUNK_BLOCKS)), 0);
	write_now(7, 3, 5);
	memset(model, 0, sizeof(model));
	model[7] = model[8] = model[9] = 5;
	expect_status_as_reads(model);
}

Test(read_runs, status_of_a_snapshot)
{
	struct mt_scope *scope = &fake.session.volume.scope;

	(void)one_frame(CHUNK, 5, 0, RECORD_WRITE, 0, 4, 1);
	(void)one_frame(CHUNK, 7, 8, RECORD_DISCARD, 2, 1, 3);
	(void)one_frame(CHUNK, 8, 8, RECORD_WRITE, 6, 1, 3);
	scope->spans[0].cut_below = 4;
	cr_assert_eq(expect_status(ask_status(0, 8),
			 (const uint32_t[][2]){ { 4, 0 }, { 4, HOLE }, { 0, 0 } }),
	    8);
	cr_assert_eq(metric(MT_METRIC_run_indexes_loaded), 1, "what it does not show is not read");
}

Test(read_runs, status_where_an_index_cannot_be_had)
{
	(void)fake_runs_one(5, 0, 4, 1);
	for (uint32_t i = 0; i < 3; i++)
		fake_node_down(i, 0);
	cr_assert_eq(fake_wait(ask_status(0, 4)), -EHOSTDOWN);
	for (uint32_t i = 0; i < 3; i++) {
		fake_node_up(i);
		fake_runs_copy(fake_runs.extent, i)->bytes[130] ^= 1;
	}
	cr_assert_eq(fake_wait(ask_status(0, 4)), -EIO);
}

Test(read_runs, status_of_a_shard_that_stops_or_does_not_serve)
{
	struct fake_msg *msg;

	(void)fake_runs_one(5, 0, 4, 1);
	msg = ask_status(0, 4);
	fake_stop(-EREMCHG);
	mt_run_stop(&fake.shard);
	cr_assert_eq(fake_wait(msg), -EREMCHG);
	fake_fini();
	fake_init(52, false);
	msg = ask_status(0, 4);
	fake_run_for(NUM_MS(5));
	cr_assert_not(msg->is_answered);
	fake_start();
	cr_assert_eq(expect_status(msg, (const uint32_t[][2]){ { 4, HOLE }, { 0, 0 } }), 4);
}

Test(read_runs, status_of_a_clone)
{
	struct mt_scope *scope = &fake.session.volume.scope;

	scope->span_count = 2;
	scope->spans[1] = (struct mt_span){ ORIGIN, 0, 6 };
	(void)one_frame(mt_chunk_number(ORIGIN, 0), 5, 0, RECORD_WRITE, 0, 2, 1);
	cr_assert_eq(expect_status(ask_status(0, 4),
			 (const uint32_t[][2]){ { 2, 0 }, { 2, HOLE }, { 0, 0 } }),
	    4);
}

/* Zeros that were rolled back, in segments that the older end sees alone; and what is zeros now. */
Test(read_runs, status_of_a_difference_tells_no_zeros)
{
	struct mt_scope *scope = &fake.session.volume.scope;
	uint64_t base = scope->spans[0].segment_base;

	(void)one_frame(CHUNK, 5, 0, RECORD_WRITE, 0, 8, 1);
	(void)one_frame(CHUNK, 6, 5, RECORD_DISCARD, 1, 1, 2);
	(void)one_frame(CHUNK, 7, 5, RECORD_ZEROES, 2, 2, 3);
	(void)one_frame(CHUNK, 8, 8, RECORD_WRITE, 3, 1, 4);
	(void)one_frame(CHUNK, 9, 8, RECORD_DISCARD, 5, 1, 5);
	scope->spans[0] = (struct mt_span){ base, 0, 0 };
	scope->spans[1] = (struct mt_span){ base, 5, 6 };
	scope->spans[2] = (struct mt_span){ base, 8, 9 };
	scope->span_count = 3;
	fake.session.volume.is_difference = true;
	cr_assert_eq(expect_status(ask_status(0, 8),
			 (const uint32_t[][2]){ { 1, HOLE }, { 3, 0 }, { 1, HOLE }, { 1, 0 },
			     { 2, HOLE }, { 0, 0 } }),
	    8);
}
