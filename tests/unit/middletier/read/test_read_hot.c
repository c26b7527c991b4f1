/* SPDX-License-Identifier: Apache-2.0 */
/* test_read_hot.c -- reads and the table of hot blocks: what is kept, what is served of it, and whatever is wrong with that */
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/level.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/index/index.h"
#include "middletier/index/ring.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "middletier/read/hot.h"
#include "middletier/read/read_frames.h"
#include "middletier/read/read_hot.h"
#include "middletier/write/write_path.h"
#include "unit/fake_runs.h"

#define CHUNK mt_chunk_number(FAKE_SEGMENT, 0)
#define FRAME_BLOCKS 4u
#define FRAMES 12u
#define BLOCKS (FRAMES * FRAME_BLOCKS)

static void
setup_with(bool is_threaded)
{
	fake_init(71, is_threaded);
	fake.settings.hot_bytes = NUM_MIB(1);
	cr_assert_eq(mt_hot_init(&fake.port), 0);
	fake_start();
	fake_run_for(NUM_MS(10));
	memset(&fake_runs, 0, sizeof(fake_runs));
	fake_runs_codec = ENGINE_LZ4;
	fake_runs_extent();
}

static void
teardown(void)
{
	fake_run_for(NUM_MS(100));
	fake_runs_codec = ENGINE_NONE;
	cr_assert_eq(fake.shard.read_count, 0);
	fake_runs_fini();
}

FAKE_SUITES(read_hot)

static uint64_t
metric(enum mt_metric which)
{
	return fake.port.metrics[which];
}

static struct mt_run *
add_run(uint64_t flushed_sequence, uint64_t version)
{
	return fake_runs_even(flushed_sequence, FRAMES, FRAME_BLOCKS, version);
}

static void
make_run(uint64_t version)
{
	(void)add_run(5, version);
	fake_expect(BLOCKS, 0); /* its index comes to memory */
}

/* Reads a block of @version; no read goes on where the one before it ended. */
static void
read_one(uint32_t block, uint64_t version)
{
	fake.session.read_end_bytes = 0;
	fake.session.read_segment = 0;
	fake_expect(block, version);
}

/* The block is in the table from here on. */
static void
heat(uint32_t block, uint64_t version)
{
	uint64_t fills = metric(MT_METRIC_hot_fills);

	for (uint32_t i = 0; i < HOT_COUNT_MIN; i++)
		read_one(block, version);
	cr_assert_eq(metric(MT_METRIC_hot_fills), fills + 1);
}

static void
check_hit(uint32_t block, uint64_t version)
{
	uint32_t before = fake_read_count();
	uint64_t hits = metric(MT_METRIC_hot_hits);

	read_one(block, version);
	cr_assert_eq(fake_read_count(), before, "no node was asked");
	cr_assert_eq(metric(MT_METRIC_hot_hits), hits + 1);
}

static void
check_miss(uint32_t block, uint64_t version)
{
	uint64_t hits = metric(MT_METRIC_hot_hits);

	read_one(block, version);
	cr_assert_eq(metric(MT_METRIC_hot_hits), hits);
}

static void
check_kept(void)
{
	make_run(1);
	read_one(2, 1);
	cr_assert_eq(metric(MT_METRIC_hot_fills), 0);
	heat(9, 1);
	read_one(2, 1);
	check_hit(9, 1);
	check_hit(2, 1);
	check_miss(3, 1);
	cr_assert_eq(metric(MT_METRIC_hot_misses), 5);
	cr_assert_eq(mt_hot_used_count(fake.port.read->hot), 2);
}

Test(read_hot, a_block_that_is_read_again_is_kept)
{
	check_kept();
}

Test(read_hot_threads, a_block_that_is_read_again_is_kept)
{
	check_kept();
}

Test(read_hot, blocks_of_every_codec)
{
	for (fake_runs_codec = ENGINE_NONE; fake_runs_codec < ENGINE_ID_NR; fake_runs_codec++) {
		uint64_t version = 1 + fake_runs_codec;

		(void)add_run(5 + version, version);
		heat(6, version);
		check_hit(6, version);
	}
}

static void
read_blocks(uint32_t first, uint32_t count, uint64_t version)
{
	uint8_t expected[CLEAVE_BLOCK_BYTES];
	struct fake_msg *msg;

	fake.session.read_end_bytes = 0;
	fake.session.read_segment = 0;
	msg = fake_read(first, count);
	cr_assert_eq(fake_wait(msg), 0);
	for (uint32_t i = 0; i < count; i++) {
		fake_pattern(expected, first + i, version);
		cr_assert_arr_eq(msg->payload + i * CLEAVE_BLOCK_BYTES, expected, sizeof(expected));
	}
}

/* All of them, over the border of a frame; where one is not there, a node is asked for its neighbours as well. */
static void
check_few(void)
{
	uint32_t before;

	make_run(1);
	read_blocks(2, READ_HOT_BLOCKS_MAX, 1);
	read_blocks(2, READ_HOT_BLOCKS_MAX, 1);
	cr_assert_eq(metric(MT_METRIC_hot_fills), READ_HOT_BLOCKS_MAX);
	before = fake_read_count();
	read_blocks(2, READ_HOT_BLOCKS_MAX, 1);
	cr_assert_eq(fake_read_count(), before);
	cr_assert_eq(metric(MT_METRIC_hot_hits), READ_HOT_BLOCKS_MAX);
	read_blocks(1, 3, 1);
	cr_assert_eq(fake_read_count(), before + 1);
	cr_assert_eq(metric(MT_METRIC_hot_hits), READ_HOT_BLOCKS_MAX);
	read_blocks(3, 3, 1);
	cr_assert_eq(fake_read_count(), before + 1);
}

Test(read_hot, reads_of_a_few_blocks)
{
	check_few();
}

Test(read_hot_threads, reads_of_a_few_blocks)
{
	check_few();
}

Test(read_hot, long_reads_take_no_part)
{
	make_run(1);
	for (uint32_t i = 0; i < 5; i++)
		read_blocks(0, READ_HOT_BLOCKS_MAX + 1, 1);
	cr_assert_eq(metric(MT_METRIC_hot_fills), 0);
	cr_assert_eq(metric(MT_METRIC_hot_misses), 0);
}

Test(read_hot, scans_make_nothing_hot_and_take_what_is)
{
	uint32_t first;

	make_run(1);
	read_one(0, 1);
	first = fake_read_count();
	for (uint32_t round = 0; round < 3; round++) {
		fake.session.read_end_bytes = CLEAVE_BLOCK_BYTES;
		for (uint32_t i = 1; i < BLOCKS; i++)
			fake_expect(i, 1);
	}
	cr_assert_eq(metric(MT_METRIC_hot_fills), 0);
	cr_assert_eq(fake_read_count() - first, 3 * (BLOCKS - 1));
	cr_assert_eq(metric(MT_METRIC_hot_misses), 1,
	    "the first block's: it was not read in order");
	heat(7, 1);
	fake.session.read_end_bytes = 7 * CLEAVE_BLOCK_BYTES;
	fake_expect(7, 1);
	cr_assert_eq(metric(MT_METRIC_hot_hits), 1);
}

/* ---- what is served is the newest ---- */

Test(read_hot, what_was_written_meanwhile_is_read)
{
	make_run(1);
	heat(3, 1);
	cr_assert_eq(fake_wait(fake_write(3, 1, 7)), 0);
	check_miss(3, 7);
	heat(4, 1);
	cr_assert_eq(fake_wait(fake_discard(4, 1)), 0);
	check_miss(4, 0);
}

/* A merge has moved them. */
Test(read_hot, a_newer_run_is_another_place_and_as_hot)
{
	make_run(1);
	heat(3, 1);
	(void)add_run(9, 3);
	check_miss(3, 3);
	cr_assert_eq(metric(MT_METRIC_hot_fills), 2);
	check_hit(3, 3);
	cr_assert_eq(mt_hot_used_count(fake.port.read->hot), 1);
}

/* A block that has left the ring and was not flushed yet is read from the log at a node. */
static void
write_to_log(uint32_t block, uint64_t version)
{
	cr_assert_eq(fake_wait(fake_write(block, 1, version)), 0);
	fake_run_for(NUM_MS(10));
	mt_ring_reset(fake.shard.ring);
}

Test(read_hot, blocks_in_the_log_too)
{
	write_to_log(5, 2);
	heat(5, 2);
	check_hit(5, 2);
	write_to_log(5, 3);
	check_miss(5, 3);
	check_hit(5, 3);
}

/* A node has sent it along with the page of the index that knows it (FIND): it is kept by the place where it was. */
Test(read_hot, what_came_with_a_page_of_the_index)
{
	struct mt_run *run = add_run(5, 1);

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].agreed_level = CLEAVE_LEVEL_FIND;
	read_one(2, 1);
	write_to_log(BLOCKS, 3);
	read_one(BLOCKS, 3); /* what was asked for last is in another extent */
	mt_run_cache_evict(run);
	read_one(2, 1);
	cr_assert_eq(metric(MT_METRIC_run_pages_found), 1);
	cr_assert_eq(metric(MT_METRIC_hot_fills), 1);
	check_hit(2, 1);
}

Test(read_hot, encrypted_blocks_are_not_kept)
{
	fake_encrypt(FAKE_KEY_ID);
	write_to_log(5, 2);
	for (uint32_t i = 0; i < 5; i++)
		check_miss(5, 2);
	cr_assert_eq(metric(MT_METRIC_hot_fills), 0);
	fake_encrypt(0);
}

/* ---- what goes wrong ---- */

static struct mt_hot_slot *
slot_of(uint32_t block)
{
	const struct mt_run *run = mt_index_chunk(fake.shard.block_index, CHUNK) == NULL
	    ? NULL
	    : NUM_CONTAINER_OF(mt_index_chunk(fake.shard.block_index, CHUNK)->runs.next,
		  struct mt_run, link);
	struct mt_hot_key key = { .extent = extent_id_pack(&fake_runs.extent->id),
		.segment = FAKE_SEGMENT,
		.block_in_record = block % FRAME_BLOCKS,
		.block = block };

	cr_assert_not_null(run);
	key.offset_bytes = run->index->frames[block / FRAME_BLOCKS].offset_bytes;
	return mt_hot_find(fake.port.read->hot, &key);
}

static void
check_changed_memory(void)
{
	static const uint8_t zeros[CLEAVE_BLOCK_BYTES];
	uint32_t before;

	make_run(1);
	heat(2, 1);
	cr_assert_not_null(slot_of(2));
	fake_to_device(mt_hot_at(fake.port.read->hot, slot_of(2)), zeros, sizeof(zeros));
	before = fake_read_count();
	read_one(2, 1);
	cr_assert_eq(fake_read_count(), before + 1);
	cr_assert_eq(metric(MT_METRIC_hot_spoiled), 1);
	cr_assert_eq(metric(MT_METRIC_hot_hits), 0);
	cr_assert_eq(metric(MT_METRIC_replica_read_errors), 0, "no copy is blamed");
	check_hit(2, 1);
}

Test(read_hot, memory_that_has_changed_is_not_believed)
{
	check_changed_memory();
}

Test(read_hot_threads, memory_that_has_changed_is_not_believed)
{
	check_changed_memory();
}

Test(read_hot, without_nodes_what_is_hot_is_read)
{
	make_run(1);
	heat(2, 1);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_down(i, 0);
	check_hit(2, 1);
	fake.session.read_end_bytes = 0;
	cr_assert_neq(fake_wait(fake_read(9, 1)), 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_up(i);
}

/* No room in the engine's queue: a hit waits for it, a block that would be kept is not. */
Test(read_hot_threads, a_full_engine)
{
	struct fake_msg *msg;

	make_run(1);
	heat(2, 1);
	fake.session.read_end_bytes = 0;
	fake.engines.is_refusing = true;
	msg = fake_read(2, 1);
	fake_run_for(NUM_MS(1));
	cr_assert(!msg->is_answered);
	fake.engines.is_refusing = false;
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(metric(MT_METRIC_hot_hits), 1);
}

Test(read_hot, a_stop_leaves_nothing)
{
	make_run(1);
	heat(2, 1);
	heat(9, 1);
	cr_assert_eq(mt_hot_used_count(fake.port.read->hot), 2);
	fake_stop(-EREMCHG);
	cr_assert_eq(mt_hot_used_count(fake.port.read->hot), 0);
}

/* The answer waits for the copy, so that goes ahead of others' jobs as well. */
Test(read_hot_threads, the_latency_class_keeps_blocks_as_urgently)
{
	struct fake_msg *msg;
	struct wire_io io;
	uint32_t count;

	make_run(1);
	read_one(2, 1);
	fake.session.read_end_bytes = 0;
	count = fake.engines.submit_count;
	io = fake_io(WIRE_READ, 2, 1);
	io.service_class = SERVICE_LATENCY;
	msg = fake_msg_take();
	fake_submit(msg, &io);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(metric(MT_METRIC_hot_fills), 1);
	cr_assert_eq(fake.engines.urgent_count, 2);
	cr_assert_eq(fake.engines.submit_count, count + 2);
}

static uint32_t forgotten_count;

static void
on_move(const struct sm *sm, uint32_t from, uint32_t to)
{
	(void)from;
	forgotten_count += strcmp(sm->name, "hot") == 0 && to == MT_HOT_FORGOTTEN;
}

/* At any moment of a read that brings a block into the table, and of one that finds it there. */
static void
stop_at(uint32_t us, bool is_there)
{
	struct fake_msg *msg;

	make_run(1);
	read_one(2, 1);
	if (is_there)
		read_one(2, 1);
	fake.session.read_end_bytes = 0;
	msg = fake_read(2, 1);
	fake_run_for(NUM_US(us));
	fake_stop(-EREMCHG);
	(void)fake_wait(msg);
	fake_run_for(NUM_MS(100));
	cr_assert_eq(mt_hot_used_count(fake.port.read->hot), 0);
	cr_assert_eq(fake.shard.read_count, 0);
}

Test(read_hot_threads, a_stop_while_a_block_is_kept_or_read)
{
	sm_set_tracer(on_move);
	for (uint32_t us = 0; us < 400; us += 5) {
		stop_at(us, us % 2 == 1);
		teardown();
		setup_threads();
	}
	sm_set_tracer(NULL);
	cr_assert_gt(forgotten_count, 0);
}
