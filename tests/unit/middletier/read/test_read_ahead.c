/* SPDX-License-Identifier: Apache-2.0 */
/* test_read_ahead.c -- frames that are read piece by piece: fetched once, and ahead; whatever is wrong with them */
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/index/index.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "middletier/read/read_frames.h"
#include "middletier/write/write_path.h"
#include "unit/fake_runs.h"

#define CHUNK mt_chunk_number(FAKE_SEGMENT, 0)
#define DEVICE_BYTES NUM_MIB(64)
#define FRAME_BLOCKS 4u
#define FRAMES 12u
#define BLOCKS (FRAMES * FRAME_BLOCKS)

static void
setup_with(bool is_threaded)
{
	fake_init(51, is_threaded);
	cr_assert_eq(mt_read_frames_init(&fake.port, DEVICE_BYTES), 0);
	cr_assert_not_null(fake.port.read->frames);
	fake_start();
	fake_run_for(NUM_MS(10));
	memset(&fake_runs, 0, sizeof(fake_runs));
	fake_runs_extent();
}

static void
teardown(void)
{
	fake_run_for(NUM_MS(100)); /* what is read ahead comes back */
	cr_assert_eq(fake_replies_held(), 0, "every reply of a node was released");
	cr_assert_eq(fake.shard.read_count, 0);
	fake_fini();
}

FAKE_SUITES(read_ahead)

static uint64_t
metric(enum mt_metric which)
{
	return fake.port.metrics[which];
}

/* READs that the nodes were asked for. */
static uint32_t
read_requests(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		count += fake.nodes[i].counts[WIRE_EXTENT_READ];
	return count;
}

/* A run of frames of four blocks, of one version. */
static struct mt_run *
add_run(uint64_t version)
{
	return fake_runs_even(5, FRAMES, FRAME_BLOCKS, version);
}

static struct mt_run *
make_run(uint64_t version)
{
	struct mt_run *run = add_run(version);

	fake_expect(BLOCKS, 0); /* its index comes to memory */
	cr_assert_not_null(run->index);
	return run;
}

static void
read_all(uint64_t version)
{
	for (uint32_t i = 0; i < BLOCKS; i++)
		fake_expect(i, version);
}

static void
check_sequential(uint64_t version)
{
	uint32_t before;

	(void)make_run(version);
	before = read_requests();
	read_all(version);
	/* The first read has nothing before it: it fetches the first frame for itself. */
	cr_assert_eq(read_requests() - before, 1 + BLOCKS / READ_FILL_BLOCKS_MAX);
	cr_assert_eq(metric(MT_METRIC_reads_from_frames), BLOCKS - 1);
	cr_assert_eq(metric(MT_METRIC_reads_from_node), 1);
	fake_run_for(NUM_MS(10));
}

Test(read_ahead, a_sequential_read_fetches_each_frame_once)
{
	check_sequential(1);
}

Test(read_ahead_threads, a_sequential_read_fetches_each_frame_once)
{
	check_sequential(1);
}

Test(read_ahead, compressed_frames_too)
{
	for (fake_runs_codec = ENGINE_LZ4; fake_runs_codec < ENGINE_ID_NR; fake_runs_codec++) {
		check_sequential(1);
		teardown();
		setup();
	}
}

/* Frames of a block each, as who reads a volume at random has them: who reads in order has many fetched at once. */
Test(read_ahead, frames_of_one_block_are_fetched_together)
{
	uint32_t before;

	(void)fake_runs_even(5, BLOCKS, 1, 1);
	fake_expect(BLOCKS, 0);
	before = read_requests();
	read_all(1);
	/* The first two: nothing was before the one, and the other has the next ones filled. */
	cr_assert_leq(read_requests() - before, 2 + BLOCKS / READ_FILL_FRAMES_MAX);
	cr_assert_geq(metric(MT_METRIC_reads_from_frames), BLOCKS - 2);
	fake_run_for(NUM_MS(10));
}

Test(read_ahead, reads_that_are_out_together_share_a_frame)
{
	struct fake_msg *msgs[8];
	uint32_t before;

	(void)make_run(1);
	fake_expect(0, 1);
	before = read_requests();
	for (uint32_t i = 0; i < NUM_COUNT(msgs); i++)
		msgs[i] = fake_read(1 + i, 1);
	for (uint32_t i = 0; i < NUM_COUNT(msgs); i++) {
		uint8_t expected[CLEAVE_BLOCK_BYTES];

		cr_assert_eq(fake_wait(msgs[i]), 0);
		fake_pattern(expected, 1 + i, 1);
		cr_assert_arr_eq(msgs[i]->payload, expected, sizeof(expected));
	}
	cr_assert_eq(read_requests() - before, 1);
}

Test(read_ahead, random_reads_keep_nothing)
{
	uint32_t before;

	(void)make_run(1);
	before = read_requests();
	for (uint32_t i = 0; i < 30; i++)
		fake_expect(i * 29 % BLOCKS, 1);
	cr_assert_eq(read_requests() - before, 30);
	cr_assert_eq(metric(MT_METRIC_reads_from_frames), 0);
}

Test(read_ahead, reads_of_whole_frames_keep_nothing)
{
	(void)make_run(1);
	for (uint32_t i = 0; i < FRAMES; i++)
		cr_assert_eq(fake_wait(fake_read(i * FRAME_BLOCKS, FRAME_BLOCKS)), 0);
	cr_assert_eq(metric(MT_METRIC_reads_from_frames), 0);
}

/* Sixteen blocks that begin in the middle of a frame, once and again. */
Test(read_ahead, longer_reads_that_cut_frames)
{
	(void)make_run(1);
	for (uint32_t first = 2; first + 6 <= BLOCKS; first += 6) {
		struct fake_msg *msg = fake_read(first, 6);

		cr_assert_eq(fake_wait(msg), 0);
		for (uint32_t i = 0; i < 6; i++) {
			uint8_t expected[CLEAVE_BLOCK_BYTES];

			fake_pattern(expected, first + i, 1);
			cr_assert_arr_eq(msg->payload + i * CLEAVE_BLOCK_BYTES, expected,
			    CLEAVE_BLOCK_BYTES);
		}
	}
	cr_assert_gt(metric(MT_METRIC_reads_from_frames), 0);
}

Test(read_ahead, what_was_written_meanwhile_is_read)
{
	(void)make_run(1);
	fake_expect(0, 1);
	fake_expect(1, 1);
	cr_assert_eq(fake_wait(fake_write(2, 1, 7)), 0);
	fake_expect(2, 7);
	fake_expect(3, 1);
	cr_assert_eq(fake_wait(fake_discard(4, 1)), 0);
	fake_expect(4, 0);
	fake_expect(5, 1);
}

/* A newer run of the same blocks lies elsewhere: frames of the older one are not found by mistake. */
Test(read_ahead, a_newer_run_is_another_place)
{
	(void)make_run(1);
	read_all(1);
	fake_runs_batch(CHUNK, 9, 0);
	for (uint32_t i = 0; i < FRAMES; i++)
		fake_runs_frame(RECORD_WRITE, i * FRAME_BLOCKS, FRAME_BLOCKS, 3);
	fake_runs_batch_end();
	(void)fake_runs_end();
	read_all(3);
}

/* Flips a byte of the stored bytes of each frame from @first on, at node @node. */
static void
spoil_copy(const struct mt_run *run, uint32_t node, uint32_t first)
{
	struct fake_copy *copy = fake_runs_copy(fake_runs.extent, node);

	for (uint32_t i = first; i < run->index->frame_count; i++)
		copy->bytes[run->index->frames[i].offset_bytes + 1] ^= 0x10;
}

Test(read_ahead, a_bad_copy_is_found_by_who_reads)
{
	const struct mt_run *run = make_run(1);

	spoil_copy(run, 0, 0);
	spoil_copy(run, 1, 0);
	read_all(1);
	cr_assert_gt(metric(MT_METRIC_replica_read_errors), 0);
}

Test(read_ahead, blocks_that_are_bad_in_every_copy_are_errors_and_no_others)
{
	const struct mt_run *run = make_run(1);

	for (uint32_t node = 0; node < 3; node++)
		spoil_copy(run, node, 2);
	for (uint32_t i = 0; i < BLOCKS; i++) {
		if (i < 2 * FRAME_BLOCKS)
			fake_expect(i, 1);
		else
			cr_assert_eq(fake_wait(fake_read(i, 1)), -EIO);
	}
}

Test(read_ahead, without_nodes_reads_fail_as_ever_and_go_on_later)
{
	(void)make_run(1);
	fake_expect(0, 1);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_down(i, 0);
	cr_assert_neq(fake_wait(fake_read(1, 1)), 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_up(i);
	read_all(1);
}

Test(read_ahead, a_stop_while_frames_are_filled)
{
	struct fake_msg *msgs[4];

	(void)make_run(1);
	fake_expect(0, 1);
	for (uint32_t i = 0; i < NUM_COUNT(msgs); i++)
		msgs[i] = fake_read(1 + i, 1);
	cr_assert_gt(fake.shard.read_count, 0);
	fake_stop(-EREMCHG);
	for (uint32_t i = 0; i < NUM_COUNT(msgs); i++)
		cr_assert_neq(fake_wait(msgs[i]), 0);
	fake_run_for(NUM_MS(10));
}

/* A run of the same frames once more, and @run goes. */
static void
replace_run(struct mt_run *run)
{
	(void)add_run(1);
	mt_index_remove_run(run);
}

/* The run goes while its frames are on their way: whoever waits looks again. */
Test(read_ahead, a_run_that_goes_while_its_frames_are_filled)
{
	struct mt_run *run = make_run(1);
	struct fake_msg *msg;
	uint8_t expected[CLEAVE_BLOCK_BYTES];

	fake_expect(0, 1);
	msg = fake_read(1, 1);
	replace_run(run);
	cr_assert_eq(fake_wait(msg), 0);
	fake_pattern(expected, 1, 1);
	cr_assert_arr_eq(msg->payload, expected, sizeof(expected));
	read_all(1);
}

/* At any moment of a read whose second frame is bad in two copies. Sanitizers tell of a run that is looked at too late. */
Test(read_ahead_threads, a_run_that_goes_while_its_second_frame_is_loaded)
{
	for (uint32_t us = 0; us < 400; us += 10) {
		struct mt_run *run = make_run(1);
		uint8_t expected[CLEAVE_BLOCK_BYTES];
		struct fake_msg *msg;

		spoil_copy(run, 0, 1);
		spoil_copy(run, 1, 1);
		msg = fake_read(0, 2 * FRAME_BLOCKS);
		fake_run_for(NUM_US(us));
		replace_run(run);
		cr_assert_eq(fake_wait(msg), 0);
		fake_pattern(expected, FRAME_BLOCKS, 1);
		cr_assert_arr_eq(msg->payload + FRAME_BLOCKS * CLEAVE_BLOCK_BYTES, expected,
		    sizeof(expected));
		fake_run_for(NUM_MS(10));
		fake_runs_extent(); /* with room for the next ones */
	}
}

/* Memory that has changed is noticed by the block's CRC, and a copy is read instead. */
Test(read_ahead, a_frame_whose_memory_has_changed_is_not_believed)
{
	struct mt_run *run = make_run(1);
	uint8_t zeros[CLEAVE_BLOCK_BYTES] = { 0 };
	struct read_frame *frame;

	fake_expect(0, 1);
	fake_expect(1, 1);
	frame = mt_read_frames_find(fake.port.read->frames, extent_id_pack(&fake_runs.extent->id),
	    run->index->frames[0].offset_bytes);
	cr_assert_not_null(frame);
	cr_assert_eq(frame->sm.state, READ_FRAME_READY);
	fake_to_device(dev_ptr_add(frame->plain, 2 * CLEAVE_BLOCK_BYTES), zeros, sizeof(zeros));
	fake_expect(2, 1);
	cr_assert_null(mt_read_frames_find(fake.port.read->frames,
	    extent_id_pack(&fake_runs.extent->id), run->index->frames[0].offset_bytes));
	fake_expect(3, 1);
	fake_run_for(NUM_MS(10));
}

static struct read_frame *
kept(const struct mt_run *run, uint32_t at)
{
	return mt_read_frames_find(fake.port.read->frames, extent_id_pack(&fake_runs.extent->id),
	    run->index->frames[at].offset_bytes);
}

static bool
is_first_ready(void *arg)
{
	const struct read_frame *frame = kept(arg, 0);

	return frame != NULL && frame->sm.state == READ_FRAME_READY;
}

/* A port's end: its engines go while a thread has a frame of a fill, and nobody waits for that. */
Test(read_ahead_threads, a_port_that_ends_while_frames_are_filled)
{
	struct mt_run *run = make_run(1);
	struct engine_set *engines = fake.port.engines;

	cr_assert_not_null(mt_read_frames_fill(fake.port.read->frames, &fake.shard, run, 0));
	cr_assert_eq(sim_world_run(fake.world, is_first_ready, run,
			 sim_world_now_ns(fake.world) + NUM_S(1)),
	    0);
	cr_assert_eq(kept(run, 1)->sm.state, READ_FRAME_FILLING);
	fake_stop(-EREMCHG);
	fake.port.engines = NULL;
	fake_run_for(NUM_MS(100));
	fake.port.engines = engines;
	cr_assert_null(kept(run, 2));
}

/* While the rest of a fill is at work, its first frame may be taken for another one. */
Test(read_ahead_threads, a_frame_that_goes_while_its_neighbours_are_filled)
{
	struct mt_read_frames *frames;
	struct mt_run *run;

	mt_read_frames_fini(fake.port.read->frames);
	fake.port.read->frames = NULL;
	cr_assert_eq(mt_read_frames_init(&fake.port,
			 READ_FRAMES_MIN * NUM_KIB(16) * READ_FRAMES_SHARE),
	    0);
	frames = fake.port.read->frames;
	fake_runs_codec = ENGINE_ZSTD;
	fake_runs_batch(CHUNK, 5, 0);
	for (uint32_t i = 0; i < 16; i++)
		fake_runs_frame(RECORD_WRITE, i * FRAME_BLOCKS, FRAME_BLOCKS, 1);
	fake_runs_batch_end();
	run = fake_runs_end();
	fake_expect(16 * FRAME_BLOCKS, 0);
	cr_assert_not_null(mt_read_frames_fill(frames, &fake.shard, run, 4 * FRAME_BLOCKS));
	fake_run_for(NUM_MS(100));
	cr_assert_not_null(mt_read_frames_fill(frames, &fake.shard, run, 0));
	cr_assert_eq(sim_world_run(fake.world, is_first_ready, run,
			 sim_world_now_ns(fake.world) + NUM_S(1)),
	    0);
	cr_assert_eq(kept(run, 1)->sm.state, READ_FRAME_FILLING);
	cr_assert_not_null(mt_read_frames_fill(frames, &fake.shard, run, 8 * FRAME_BLOCKS));
	cr_assert_not_null(mt_read_frames_fill(frames, &fake.shard, run, 12 * FRAME_BLOCKS));
	cr_assert_null(kept(run, 0), "it was the oldest that nobody used");
	fake_run_for(NUM_MS(100));
	for (uint32_t i = 1; i < 4; i++) {
		cr_assert_not_null(kept(run, i));
		cr_assert_eq(kept(run, i)->sm.state, READ_FRAME_READY);
		fake_expect(i * FRAME_BLOCKS, 1);
	}
}

Test(read_ahead, two_clients_worth_of_frames_fit)
{
	uint32_t before;

	(void)make_run(1);
	read_all(1);
	before = read_requests();
	read_all(1); /* all of it is kept */
	cr_assert_leq(read_requests() - before, 1);
}

Test(read_ahead, without_room_none_is_kept)
{
	cr_assert_eq(mt_read_frames_device_bytes(NUM_KIB(16), NUM_MIB(4)), 0);
	cr_assert_eq(mt_read_frames_device_bytes(CLEAVE_BLOCK_BYTES, NUM_GIB(1)), 0);
	cr_assert_eq(mt_read_frames_device_bytes(NUM_KIB(16), NUM_GIB(1)),
	    READ_FRAMES_MAX * NUM_KIB(16));
}
