/* SPDX-License-Identifier: Apache-2.0 */
/* test_hot.c -- what is read again and again is stored for who reads it, and for space again when it has cooled */
#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/lease_read.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/index/heat.h"
#include "middletier/index/index.h"
#include "middletier/index/run_index.h"
#include "middletier/merge/flush_due.h"
#include "middletier/merge/flush_input.h"
#include "middletier/session/direct_told.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/fake_merge.h"
#include "unit/time_passes.h"

#define DENSE_BLOCKS                                                                               \
	20u /* do not compress: their frames make the run longer than HEAT_RUN_BYTES_MIN */
#define PACKED_BLOCKS 8u /* behind them */
#define BLOCKS (DENSE_BLOCKS + PACKED_BLOCKS)
#define FRAME_BLOCKS 4u
#define LONG_BLOCKS ENGINE_RECORD_BLOCKS_MAX /* of a read */

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

TestSuite(hot, .init = setup, .fini = teardown);

static struct mt_run *
newest_run(void)
{
	cr_assert_not_null(fake_chunk());
	cr_assert_gt(fake_chunk()->run_count, 0);
	return mt_run_of(fake_chunk()->runs.next);
}

static void
write_blocks(uint32_t first, uint32_t count, uint64_t version)
{
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(fake_wait(fake_write(first + i, 1, version)), 0);
}

/* The oldest layers, and what flush_input.c takes along. */
static void
flush(void)
{
	struct flush_terms terms = { .shard = &fake.shard, .is_dirty = true };
	struct mt_merge_input input;

	cr_assert_eq(mt_flush_input_chunk(&terms, fake_chunk(), &input), 0);
	fake_merge(&input);
}

static struct mt_merge_input
compaction(void)
{
	struct flush_terms terms = { .shard = &fake.shard };
	struct mt_merge_input input;

	cr_assert_eq(mt_flush_input_group(&terms, newest_run(), &input), 0);
	return input;
}

static void
compact(void)
{
	struct mt_merge_input input = compaction();

	fake_merge(&input);
}

static void
expect_all(void)
{
	for (uint32_t i = 0; i < BLOCKS; i++)
		fake_expect(i, i < DENSE_BLOCKS ? 4 : 1);
}

/* A run of all blocks; the chunk has @run_count with it. */
static void
make_run_beside(uint32_t run_count)
{
	write_blocks(0, DENSE_BLOCKS, 4);
	write_blocks(DENSE_BLOCKS, PACKED_BLOCKS, 1);
	flush();
	cr_assert_eq(fake_chunk()->run_count, run_count);
	cr_assert_geq(newest_run()->length_bytes, HEAT_RUN_BYTES_MIN);
	cr_assert_eq(newest_run()->index->frame_count, BLOCKS / FRAME_BLOCKS);
}

static void
make_run(void)
{
	make_run_beside(1);
}

/* Reads until the run is as hot as that. The dense ones count most, and a packed one shows that it is worth it. */
static void
warm_to(uint32_t heat)
{
	for (uint32_t i = 0; mt_heat_of_run(newest_run()) < heat; i++) {
		cr_assert_lt(i, 10000u);
		cr_assert_eq(fake_wait(fake_read(i % DENSE_BLOCKS, 1)), 0);
	}
	cr_assert_eq(fake_wait(fake_read(DENSE_BLOCKS, 1)), 0);
}

/* Frames of each codec in all runs of the chunk. */
static uint32_t
frames_of(uint8_t codec)
{
	uint32_t count = 0;

	for (struct loop_link *link = fake_chunk()->runs.next; link != &fake_chunk()->runs;
	     link = link->next) {
		const struct mt_run_index *index = mt_run_of(link)->index;

		for (uint32_t i = 0; i < index->frame_count; i++)
			count += ENGINE_CODEC(index->frames[i].codec_id) == codec;
	}
	return count;
}

static int
find(struct mt_merge_input *ret_input)
{
	due.scan_ns = due.shrink_ns = 0;
	return mt_flush_due_find(&due, ret_input);
}

/* ---- heat ---- */

Test(hot, a_read_costs_its_whole_frame)
{
	uint64_t frame_bytes, before;

	make_run();
	cr_assert_eq(mt_heat_of_run(newest_run()), 0);
	frame_bytes = newest_run()->index->frames[0].stored_bytes;
	before = newest_run()->read_units;
	fake_expect(1, 4);
	cr_assert_eq(newest_run()->read_units,
	    before + (frame_bytes + HEAT_UNIT_BYTES - 1) / HEAT_UNIT_BYTES);
	warm_to(1);
	cr_assert_eq(mt_heat_of_chunk(fake_chunk()), 1);
	warm_to(3);
	cr_assert_eq(mt_heat_of_run(newest_run()), 3);
}

/* By reads as long as they may be. */
static void
read_all(void)
{
	cr_assert_eq(fake_wait(fake_read(0, LONG_BLOCKS)), 0);
	cr_assert_eq(fake_wait(fake_read(LONG_BLOCKS, BLOCKS - LONG_BLOCKS)), 0);
}

/* Frame after frame costs the same, whether it is asked for frame by frame or at once. */
Test(hot, a_read_of_many_frames_costs_all_of_them)
{
	uint64_t one_by_one;

	make_run();
	for (uint32_t i = 0; i < BLOCKS; i += FRAME_BLOCKS)
		cr_assert_eq(fake_wait(fake_read(i, FRAME_BLOCKS)), 0);
	one_by_one = newest_run()->read_units;
	cr_assert_gt(one_by_one * HEAT_UNIT_BYTES, (uint64_t)DENSE_BLOCKS * CLEAVE_BLOCK_BYTES);
	read_all();
	cr_assert_eq(newest_run()->read_units, 2 * one_by_one);
}

/* A long read is a single one, however many frames it takes: who reads block by block still has small frames. */
Test(hot, a_long_read_is_one_of_those_that_were_not_small)
{
	make_run();
	for (uint32_t i = 0; i < 64; i++)
		cr_assert_eq(fake_wait(fake_read(i % DENSE_BLOCKS, 1)), 0);
	cr_assert(mt_heat_is_small(newest_run(), newest_run()));
	for (uint32_t i = 0; i < 4; i++)
		read_all();
	cr_assert(mt_heat_is_small(newest_run(), newest_run()), "8 reads of 28 frames");
	for (uint32_t i = 0; i < 4; i++)
		read_all();
	cr_assert_not(mt_heat_is_small(newest_run(), newest_run()));
}

/* ---- reads that are made elsewhere ---- */

static struct mt_shard *shards[] = { NULL, NULL, NULL, &fake.shard };
static const struct mt_cluster told_cluster = { .shard_count = NUM_COUNT(shards) };

/* So many reads of the newest run, as a client tells of them: one of WIRE_LEASE_SAMPLE, of @stored_bytes together. */
static struct wire_lease_read
read_elsewhere(uint32_t read_count, uint32_t stored_bytes)
{
	const struct mt_run *run = newest_run();

	return (struct wire_lease_read){ .segment = FAKE_SEGMENT,
		.extent = extent_id_pack(&mt_shard_extent(&fake.shard, run->extent_index)->id),
		.from_bytes = run->offset_bytes,
		.stored_bytes = stored_bytes,
		.read_count = read_count,
		.small_count = read_count,
		.codec_id = ENGINE_ZSTD };
}

/* Returns what mt_direct_told does. */
static int
tell(const struct wire_lease_read *read)
{
	uint8_t bytes[WIRE_LEASE_READS_HEAD_BYTES + WIRE_LEASE_READ_BYTES];
	const struct wire_lease lease = { .wants_hot = true, .payload_bytes = sizeof(bytes) };
	struct split_msg *msg = &fake.msgs[0].msg;
	const char *field;

	wire_lease_read_encode(bytes + WIRE_LEASE_READS_HEAD_BYTES, read);
	(void)wire_lease_reads_seal(bytes, 1);
	dev_copy_from_host(NULL, msg->payload, bytes, sizeof(bytes));
	time_passes(fake.world, fake.loop, MT_DIRECT_HEAT_NS);
	return mt_direct_told(&fake.session, msg, &lease, &field);
}

/* A session that reads at nodes, of the cluster's fourth shard. */
static void
setup_elsewhere(void)
{
	make_run();
	fake.port.cluster = &told_cluster;
	fake.port.shard_by_number = shards;
	fake.session.hello.volume_id = fake.session.hello.attach = 1;
	fake.session.volume.reads = MT_READS_DIRECT;
	fake.session.volume.size_bytes = CLEAVE_SEGMENT_BYTES;
}

Test(hot, reads_elsewhere_are_told_of_and_warm)
{
	struct mt_merge_input input;
	struct wire_lease_read read;

	setup_elsewhere();
	read = read_elsewhere(16, newest_run()->length_bytes);
	cr_assert_eq(tell(&read), 0);
	cr_assert_eq(mt_heat_of_run(newest_run()), WIRE_LEASE_SAMPLE);
	cr_assert(mt_heat_is_small(newest_run(), newest_run()));
	cr_assert_eq(fake.port.metrics[MT_METRIC_direct_heated], 1);
	cr_assert_eq(find(&input), 0, "a merge for its readers is due");
	for (uint32_t i = 0; i < 9; i++) {
		read.read_count = 64;
		read.small_count = 16;
		cr_assert_eq(tell(&read), 0);
	}
	cr_assert_eq(mt_heat_of_run(newest_run()), HEAT_MAX);
	cr_assert_not(mt_heat_is_small(newest_run(), newest_run()), "three of four are not");
}

Test(hot, what_is_told_of_what_is_not_there_warms_nothing)
{
	struct wire_lease_read read, other;

	setup_elsewhere();
	read = read_elsewhere(16, newest_run()->length_bytes);
	other = read;
	other.from_bytes++;
	cr_assert_eq(tell(&other), 0);
	other = read;
	other.extent++;
	cr_assert_eq(tell(&other), 0);
	other = read;
	other.extent = extent_id_pack(&(struct extent_id){ CLEAVE_SHARDS_MAX - 1, 1, 1 });
	cr_assert_eq(tell(&other), 0);
	other = read;
	other.chunk = 1;
	cr_assert_eq(tell(&other), 0);
	other = read;
	other.segment++;
	cr_assert_eq(tell(&other), 0);
	other.segment = 0;
	cr_assert_eq(tell(&other), 0);
	fake.session.volume.scope.spans[0].cut_from = 7; /* it was rolled back behind the run */
	cr_assert_eq(tell(&read), 0);
	fake.session.volume.scope.spans[0].cut_from = 0;
	fake.session.volume.service_class = SERVICE_CAPACITY;
	cr_assert_eq(tell(&read), 0);
	fake.session.volume.service_class = SERVICE_STANDARD;
	fake.session.volume.reads = MT_READS_GATEWAY;
	cr_assert_eq(tell(&read), 0);
	cr_assert_eq(newest_run()->read_units, 0);
	cr_assert_eq(fake.port.metrics[MT_METRIC_direct_heated], 0);
}

Test(hot, who_tells_too_often_or_wrong_bytes_is_not_heard)
{
	uint8_t bytes[WIRE_LEASE_READS_HEAD_BYTES + WIRE_LEASE_READ_BYTES];
	const struct wire_lease lease = { .payload_bytes = sizeof(bytes) };
	struct split_msg *msg = &fake.msgs[0].msg;
	struct wire_lease_read read;
	const char *field = NULL;

	setup_elsewhere();
	read = read_elsewhere(1, HEAT_UNIT_BYTES);
	cr_assert_eq(tell(&read), 0);
	cr_assert_eq(mt_direct_told(&fake.session, msg, &lease, &field), 0);
	cr_assert_eq(newest_run()->read_units, WIRE_LEASE_SAMPLE, "at once again");
	wire_lease_read_encode(bytes + WIRE_LEASE_READS_HEAD_BYTES, &read);
	(void)wire_lease_reads_seal(bytes, 1);
	bytes[WIRE_LEASE_READS_HEAD_BYTES + 31] = 1;
	dev_copy_from_host(NULL, msg->payload, bytes, sizeof(bytes));
	time_passes(fake.world, fake.loop, MT_DIRECT_HEAT_NS);
	cr_assert_eq(mt_direct_told(&fake.session, msg, &lease, &field), 0);
	cr_assert_eq(newest_run()->read_units, WIRE_LEASE_SAMPLE, "not what was sent");
	(void)wire_lease_reads_seal(bytes, 1);
	dev_copy_from_host(NULL, msg->payload, bytes, sizeof(bytes));
	time_passes(fake.world, fake.loop, MT_DIRECT_HEAT_NS);
	cr_assert_eq(mt_direct_told(&fake.session, msg, &lease, &field), -EPROTO);
	cr_assert_str_eq(field, "read_reserved");
}

Test(hot, half_of_it_goes_in_time)
{
	make_run();
	warm_to(8);
	mt_heat_half(fake.shard.block_index);
	cr_assert_eq(mt_heat_of_run(newest_run()), 4);
	mt_heat_half(fake.shard.block_index);
	cr_assert_eq(mt_heat_of_run(newest_run()), 2);
	for (uint32_t i = 0; i < 70; i++)
		mt_heat_half(fake.shard.block_index);
	cr_assert_eq(mt_heat_of_run(newest_run()), 0);
	warm_to(2);
	cr_assert_eq(mt_heat_of_run(newest_run()), 2, "what came before is forgotten");
}

Test(hot, there_is_an_end_to_it)
{
	make_run();
	for (uint32_t i = 0; i < 20 * HEAT_MAX; i++)
		cr_assert_eq(fake_wait(fake_read(i % DENSE_BLOCKS, 1)), 0);
	cr_assert_eq(mt_heat_of_run(newest_run()), HEAT_MAX);
}

Test(hot, who_wants_space_warms_nothing)
{
	make_run();
	fake.session.volume.service_class = SERVICE_CAPACITY;
	for (uint32_t i = 0; i < 200; i++)
		cr_assert_eq(fake_wait(fake_read(i % BLOCKS, 1)), 0);
	cr_assert_eq(newest_run()->read_units, 0);
	cr_assert_null(mt_heat_hottest(fake.shard.block_index));
}

Test(hot, what_is_in_memory_warms_nothing)
{
	write_blocks(0, 8, 1);
	for (uint32_t i = 0; i < 100; i++)
		fake_expect(i % 8, 1);
	flush();
	cr_assert_eq(newest_run()->read_units, 0);
}

Test(hot, the_first_that_is_worth_it_is_remembered_until_it_cools)
{
	make_run();
	warm_to(HEAT_ALONE - 1);
	cr_assert_null(mt_heat_hottest(fake.shard.block_index));
	warm_to(HEAT_ALONE);
	cr_assert_eq(mt_heat_hottest(fake.shard.block_index), newest_run());
	mt_heat_half(fake.shard.block_index);
	cr_assert_null(mt_heat_hottest(fake.shard.block_index));
	warm_to(HEAT_ALONE);
	cr_assert_eq(mt_heat_hottest(fake.shard.block_index), newest_run());
	compact();
	cr_assert_null(mt_heat_hottest(fake.shard.block_index), "it has gone");
}

/* ---- merges ---- */

Test(hot, a_merge_for_readers_is_due_by_reads_alone)
{
	struct mt_merge_input input;

	make_run();
	cr_assert_eq(frames_of(ENGINE_ZSTD), PACKED_BLOCKS / FRAME_BLOCKS);
	cr_assert_eq(find(&input), -ENOENT);
	warm_to(HEAT_ALONE);
	cr_assert_eq(find(&input), 0);
	cr_assert(input.is_hot && input.is_for_readers);
	fake_merge(&input);
	cr_assert_eq(fake.port.metrics[MT_METRIC_hot_merges], 1);
	cr_assert_eq(frames_of(ENGINE_ZSTD), 0);
	cr_assert_eq(frames_of(ENGINE_LZ4), PACKED_BLOCKS / FRAME_BLOCKS);
	cr_assert_eq(frames_of(ENGINE_NONE), DENSE_BLOCKS / FRAME_BLOCKS);
	cr_assert_eq(mt_heat_of_run(newest_run()), HEAT_ALONE / 2,
	    "half of it is left to the new run");
	expect_all();
	warm_to(2 * HEAT_ALONE);
	cr_assert_eq(find(&input), -ENOENT, "nothing in it is dear to read any more");
}

Test(hot, none_is_due_for_readers_where_something_is_short)
{
	struct mt_merge_input input;

	make_run();
	warm_to(HEAT_ALONE);
	fake.settings.run_codec = MT_RUN_CODEC_ZSTD;
	cr_assert_eq(find(&input), -ENOENT);
	fake.settings.run_codec = MT_RUN_CODEC_AUTO;
	due.is_full = true;
	cr_assert_eq(find(&input), -ENOENT);
	due.is_full = false;
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.links[i].slots_total = 100;
		fake.links[i].slots_free = 1;
	}
	cr_assert_eq(find(&input), -ENOENT);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slots_free = 90;
	fake_chunk()->retry_ns = UINT64_MAX;
	cr_assert_eq(find(&input), -ENOENT);
	cr_assert_null(mt_heat_hottest(fake.shard.block_index), "others have their turn");
	fake_chunk()->retry_ns = 0;
	warm_to(HEAT_ALONE);
	cr_assert_eq(find(&input), 0);
	cr_assert(input.is_for_readers);
}

/* A spot's whole group would be written anew, and again with each flush into it. */
Test(hot, a_hot_spot_of_a_cold_group_gets_no_merge_of_its_own)
{
	struct mt_merge_input input;
	struct mt_run *large;

	write_blocks(64, 64, 4);
	flush();
	large = newest_run();
	fake_chunk()->retry_ns = UINT64_MAX; /* the next one takes no run along */
	make_run_beside(2);
	fake_chunk()->retry_ns = 0;
	cr_assert_gt(large->length_bytes, newest_run()->length_bytes);
	warm_to(HEAT_ALONE);
	cr_assert_eq(mt_heat_hottest(fake.shard.block_index), newest_run());
	cr_assert_eq(find(&input), -ENOENT);
	cr_assert_null(mt_heat_hottest(fake.shard.block_index));
	/* With all of it as hot it is worth it. */
	large->read_units = (uint32_t)(HEAT_ALONE * large->length_bytes / HEAT_UNIT_BYTES);
	warm_to(HEAT_ALONE);
	cr_assert_eq(find(&input), 0);
	cr_assert(input.is_for_readers);
}

Test(hot, a_flush_that_writes_wait_for_is_in_no_hurry_for_readers)
{
	struct mt_merge_input input;

	make_run();
	warm_to(HEAT_MERGED);
	write_blocks(BLOCKS, 4, 1);
	mt_flush_due_age(&due);
	mt_flush_due_age(&due);
	cr_assert_eq(find(&input), 0);
	cr_assert(input.is_hot && !input.is_urgent);
	fake.shard.is_log_short = true;
	cr_assert_eq(find(&input), 0);
	cr_assert(input.is_urgent && !input.is_hot);
	cr_assert_eq(input.recoded, ENGINE_NONE);
}

Test(hot, a_merge_that_is_done_anyway_stores_for_readers)
{
	struct mt_merge_input input;

	make_run();
	warm_to(HEAT_MERGED - 1);
	input = compaction();
	cr_assert_not(input.is_hot);
	warm_to(HEAT_MERGED);
	input = compaction();
	cr_assert(input.is_hot && !input.is_for_readers);
	fake_merge(&input);
	cr_assert_eq(frames_of(ENGINE_LZ4), PACKED_BLOCKS / FRAME_BLOCKS);
	expect_all();
}

Test(hot, a_flush_into_a_hot_chunk_stores_for_readers)
{
	make_run();
	warm_to(HEAT_MERGED);
	write_blocks(DENSE_BLOCKS + PACKED_BLOCKS, 4, 1);
	flush();
	cr_assert_geq(frames_of(ENGINE_LZ4), 1u);
	expect_all();
	fake_expect(BLOCKS, 1);
}

Test(hot, what_has_cooled_is_stored_for_space_by_a_compaction)
{
	make_run();
	warm_to(HEAT_MERGED);
	compact();
	cr_assert_eq(frames_of(ENGINE_LZ4), 2u);
	compact();
	cr_assert_eq(frames_of(ENGINE_LZ4), 2u,
	    "a shard that is new here does not know what is cold");
	for (uint32_t i = 0; i < 4; i++)
		mt_heat_half(fake.shard.block_index);
	compact();
	cr_assert_eq(frames_of(ENGINE_LZ4), 0u);
	cr_assert_eq(frames_of(ENGINE_ZSTD), 2u);
	expect_all();
}

Test(hot, between_hot_and_cold_frames_stay_as_they_are)
{
	uint32_t crc;

	make_run();
	warm_to(HEAT_MERGED);
	compact();
	crc = newest_run()->index->frames[DENSE_BLOCKS / FRAME_BLOCKS].stored_crc;
	mt_heat_half(fake.shard.block_index);
	warm_to(HEAT_COLD + 1);
	compact();
	cr_assert_eq(frames_of(ENGINE_LZ4), 2u);
	cr_assert_eq(newest_run()->index->frames[DENSE_BLOCKS / FRAME_BLOCKS].stored_crc, crc);
}

/* CRCs of the stored bytes of the frames that hold the packed blocks, one frame a block. */
static void
small_frames(uint32_t ret_crcs[PACKED_BLOCKS])
{
	const struct mt_run_index *index = newest_run()->index;
	uint32_t count = 0;

	for (uint32_t i = 0; i < index->frame_count; i++)
		if (ENGINE_CODEC(index->frames[i].codec_id) == ENGINE_LZ4) {
			cr_assert_eq(index->frames[i].block_count, 1);
			cr_assert_lt(count, PACKED_BLOCKS);
			ret_crcs[count++] = index->frames[i].stored_crc;
		}
	cr_assert_eq(count, PACKED_BLOCKS);
}

Test(hot, a_read_of_what_is_hot_fetches_no_more_than_its_block)
{
	uint32_t crcs[PACKED_BLOCKS], now[PACKED_BLOCKS];
	struct mt_merge_input input;

	fake.settings.read_frame_bytes = CLEAVE_BLOCK_BYTES;
	make_run();
	warm_to(HEAT_ALONE);
	cr_assert_eq(find(&input), 0);
	fake_merge(&input);
	small_frames(crcs);
	cr_assert_eq(frames_of(ENGINE_NONE), DENSE_BLOCKS);
	expect_all();
	/* Between hot and cold they stay so, beside others that are as long as ever. */
	mt_heat_half(fake.shard.block_index);
	write_blocks(BLOCKS, FRAME_BLOCKS, 1);
	flush();
	compact();
	small_frames(now);
	cr_assert_arr_eq(now, crcs, sizeof(crcs));
	cr_assert_eq(frames_of(ENGINE_ZSTD), 1);
	expect_all();
	for (uint32_t i = 0; i < 8; i++)
		mt_heat_half(fake.shard.block_index);
	compact();
	cr_assert_eq(frames_of(ENGINE_LZ4), 0);
	cr_assert_eq(frames_of(ENGINE_ZSTD), 1 + PACKED_BLOCKS / FRAME_BLOCKS);
	expect_all();
}

/* Small frames would cost a reader of whole ones four loads in place of one. */
Test(hot, frames_that_are_read_whole_stay_large)
{
	struct mt_merge_input input;

	fake.settings.read_frame_bytes = CLEAVE_BLOCK_BYTES;
	make_run();
	for (uint32_t i = 0; mt_heat_of_run(newest_run()) < HEAT_ALONE; i++) {
		cr_assert_lt(i, 10000u);
		cr_assert_eq(fake_wait(fake_read(i * FRAME_BLOCKS % DENSE_BLOCKS, FRAME_BLOCKS)),
		    0);
	}
	cr_assert_eq(fake_wait(fake_read(DENSE_BLOCKS, FRAME_BLOCKS)), 0);
	cr_assert_eq(find(&input), 0);
	fake_merge(&input);
	cr_assert_eq(frames_of(ENGINE_LZ4), PACKED_BLOCKS / FRAME_BLOCKS);
	/* The new run's readers are those of the old one, until others come. */
	mt_heat_half(fake.shard.block_index);
	cr_assert_not(mt_heat_is_small(newest_run(), newest_run()));
	warm_to(HEAT_MERGED);
	cr_assert(mt_heat_is_small(newest_run(), newest_run()));
	compact();
	cr_assert_eq(frames_of(ENGINE_LZ4), PACKED_BLOCKS);
	expect_all();
}

Test(hot, frames_have_one_size_where_an_option_says_which_codec)
{
	fake.settings.read_frame_bytes = CLEAVE_BLOCK_BYTES;
	fake.settings.run_codec = MT_RUN_CODEC_LZ4;
	make_run();
	cr_assert_eq(frames_of(ENGINE_LZ4), PACKED_BLOCKS / FRAME_BLOCKS);
	compact();
	cr_assert_eq(frames_of(ENGINE_LZ4), PACKED_BLOCKS / FRAME_BLOCKS);
}

Test(hot, an_option_says_which_codec_whatever_is_read)
{
	fake.settings.run_codec = MT_RUN_CODEC_LZ4;
	make_run();
	cr_assert_eq(frames_of(ENGINE_LZ4), 2u);
	expect_all();
	fake.settings.run_codec = MT_RUN_CODEC_ZSTD;
	warm_to(HEAT_ALONE);
	compact();
	cr_assert_eq(frames_of(ENGINE_ZSTD), 2u);
	expect_all();
}

Test(hot, on_nodes_that_are_nearly_full_nothing_is_made_larger)
{
	struct mt_merge_input input;

	make_run();
	warm_to(HEAT_ALONE);
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.links[i].slots_total = 100;
		fake.links[i].slots_free = 1;
	}
	input = compaction();
	cr_assert_not(input.is_hot);
	cr_assert_eq(input.recoded, ENGINE_NONE);
}

Test(hot, encrypted_frames_are_stored_for_readers_too)
{
	struct mt_merge_input input;

	fake_encrypt(FAKE_KEY_ID);
	make_run();
	warm_to(HEAT_ALONE);
	cr_assert_eq(find(&input), 0);
	fake_merge(&input);
	cr_assert_eq(frames_of(ENGINE_LZ4), 2u);
	for (uint32_t i = 0; i < newest_run()->index->frame_count; i++)
		cr_assert(newest_run()->index->frames[i].codec_id & ENGINE_ENCRYPTED);
	expect_all();
}

Test(hot, a_volume_reads_the_same_whatever_part_of_a_frame_is_asked_for)
{
	fake.settings.run_codec = MT_RUN_CODEC_LZ4;
	make_run();
	for (uint32_t first = DENSE_BLOCKS; first < BLOCKS; first++)
		for (uint32_t count = 1; first + count <= BLOCKS; count++) {
			struct fake_msg *msg = fake_read(first, count);

			cr_assert_eq(fake_wait(msg), 0);
			for (uint32_t i = 0; i < count; i++) {
				uint8_t expected[CLEAVE_BLOCK_BYTES];

				fake_pattern(expected, first + i, 1);
				cr_assert_arr_eq(msg->payload + i * CLEAVE_BLOCK_BYTES, expected,
				    CLEAVE_BLOCK_BYTES);
			}
		}
}
