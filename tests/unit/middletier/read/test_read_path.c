/* SPDX-License-Identifier: Apache-2.0 */
/* test_read_path.c -- ring, replicas, zeros; bad copies, lost nodes, waits; inline and with threads */
#include "base/list.h"
#include "base/num.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/index/memtable.h"
#include "middletier/index/ring.h"
#include "middletier/write/write_path.h"
#include "unit/fake_port.h"

static void
setup(void)
{
	fake_init(31, false);
	fake_start();
	fake_run_for(NUM_MS(10));
}

static void
teardown(void)
{
	cr_assert_eq(fake_replies_held(), 0, "every reply of a node was released");
	fake_fini();
}

TestSuite(read_path, .init = setup, .fini = teardown);

static void
with_threads(void)
{
	fake_fini();
	fake_init(32, true);
	fake_start();
	fake_run_for(NUM_MS(10));
}

static uint64_t
metric(enum mt_metric which)
{
	return fake.port.metrics[which];
}

/* Write something else until nothing of what was written before is in the ring. */
static void
leave_the_ring(void)
{
	for (uint32_t i = 0; i < 60; i++) {
		if (fake_msg_take_is_empty())
			cr_assert(fake_run_quiet());
		(void)fake_write(8000 + 16 * i, 16, 4);
	}
	cr_assert(fake_run_quiet());
	fake_run_for(NUM_MS(10));
}

static const struct mt_location *
location_of(uint32_t block)
{
	return index_look(fake.shard.block_index, FAKE_SEGMENT, block);
}

static struct fake_node *
node_of(uint32_t block, uint32_t replica_index)
{
	const struct mt_extent *extent =
	    mt_shard_extent(&fake.shard, location_of(block)->extent_index);

	return &fake.nodes[extent->replicas[replica_index].node_id - 1];
}

/* A write of one version over a range, acknowledged. */
static void
write_now(uint32_t block, uint32_t block_count, uint64_t version)
{
	cr_assert_eq(fake_wait(fake_write(block, block_count, version)), 0);
}

static void
expect_range(uint32_t block, uint32_t block_count, const uint64_t *versions)
{
	struct fake_msg *msg = fake_read(block, block_count);

	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(msg->reply.length_bytes, block_count * CLEAVE_BLOCK_BYTES);
	for (uint32_t i = 0; i < block_count; i++) {
		uint8_t expected[CLEAVE_BLOCK_BYTES] = { 0 };

		if (versions[i] != 0)
			fake_pattern(expected, block + i, versions[i]);
		cr_assert_eq(memcmp(expected, msg->payload + i * CLEAVE_BLOCK_BYTES,
				 CLEAVE_BLOCK_BYTES),
		    0, "block %u", block + i);
	}
}

Test(read_path, what_was_never_written_is_zeros)
{
	static const uint64_t zeros[16];

	expect_range(100, 16, zeros);
	cr_assert_eq(metric(MT_METRIC_reads), 1);
	cr_assert_eq(metric(MT_METRIC_read_bytes), 65536);
	cr_assert_eq(metric(MT_METRIC_reads_from_memory), 0);
}

Test(read_path, sixteen_records_and_holes_make_one_answer)
{
	for (uint32_t round = 0; round < 4; round++) {
		uint64_t versions[16];

		if (round == 2)
			with_threads();
		for (uint32_t i = 0; i < 16; i++) {
			versions[i] = i % 5 == 3 ? 0 : 1 + i + 16 * round;
			if (versions[i] != 0)
				write_now(40 + i, 1, versions[i]);
		}
		if (round % 2 == 1)
			leave_the_ring();
		expect_range(40, 16, versions);
		expect_range(43, 5, versions + 3);
	}
	cr_assert_gt(metric(MT_METRIC_reads_from_memory), 0);
	cr_assert_gt(metric(MT_METRIC_reads_from_node), 0);
}

Test(read_path, parts_of_records_that_lie_over_each_other)
{
	static const uint64_t versions[16] = { 1, 1, 4, 4, 4, 1, 2, 3, 3, 2, 2, 2, 0, 0, 5, 5 };

	for (uint32_t round = 0; round < 2; round++) {
		if (round == 1)
			with_threads();
		write_now(0, 12, 1);
		write_now(6, 8, 2);
		write_now(7, 2, 3);
		write_now(2, 3, 4);
		cr_assert_eq(fake_wait(fake_discard(12, 100)), 0);
		write_now(14, 6, 5);
		expect_range(0, 16, versions);
		leave_the_ring();
		expect_range(0, 16, versions);
	}
}

Test(read_path, a_run_of_one_record_is_one_request)
{
	uint32_t before = 0, after = 0;
	static const uint64_t versions[16] = { 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8 };

	write_now(0, 16, 8);
	leave_the_ring();
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		before += fake.nodes[i].counts[WIRE_EXTENT_READ];
	expect_range(0, 16, versions);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		after += fake.nodes[i].counts[WIRE_EXTENT_READ];
	cr_assert_eq(after - before, 1);
}

Test(read_path, replicas_take_turns)
{
	write_now(0, 1, 4);
	leave_the_ring();
	for (uint32_t i = 0; i < 30; i++)
		fake_expect(0, 4);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(node_of(0, i)->counts[WIRE_EXTENT_READ], 10);
}

Test(read_path, a_read_sees_what_was_acknowledged_before_it)
{
	struct fake_msg *write, *read;

	write_now(0, 1, 1);
	write = fake_write(0, 1, 2);
	read = fake_read(0, 1);
	cr_assert(read->is_answered, "in memory, inline: at once");
	cr_assert_not(write->is_answered);
	cr_assert_eq(read->payload[0], 1);
	cr_assert_eq(fake_wait(write), 0);
	fake_expect(0, 2);
}

/* ---- bad copies ---- */

Test(read_path, a_bad_copy_is_passed_over_and_counted)
{
	for (uint32_t round = 0; round < 2; round++) {
		if (round == 1)
			with_threads();
		for (uint32_t version = 4; version <= 5; version++) { /* raw, compressed */
			uint64_t before = metric(MT_METRIC_repairs_queued);

			write_now(0, 2, version);
			leave_the_ring();
			node_of(0, 0)->is_rotten = node_of(0, 1)->is_rotten = true;
			for (uint32_t i = 0; i < 6; i++)
				fake_expect(0, version);
			node_of(0, 0)->is_rotten = node_of(0, 1)->is_rotten = false;
			cr_assert_geq(metric(MT_METRIC_repairs_queued) - before, 6);
		}
		cr_assert_eq(metric(MT_METRIC_unreadable_blocks), 0);
	}
}

Test(read_path, each_error_of_a_replica_is_passed_over)
{
	static const int causes[] = { -EIO, -EUCLEAN, -ENOENT, -ERANGE, -EBADMSG, -EBUSY, -ESTALE };

	write_now(0, 1, 4);
	leave_the_ring();
	for (uint32_t i = 0; i < NUM_COUNT(causes); i++) {
		for (uint32_t k = 0; k < 3; k++)
			node_of(0, k)->fault = (struct fake_fault){ .opcode = WIRE_EXTENT_READ,
				.countdown = k < 2,
				.rc = causes[i] };
		fake_expect(0, 4);
		fake_expect(0, 4);
		fake_expect(0, 4);
	}
	cr_assert_eq(metric(MT_METRIC_replica_read_errors), 2 * NUM_COUNT(causes));
	cr_assert_eq(metric(MT_METRIC_repairs_queued), 10);
}

Test(read_path, all_copies_bad_is_an_error_for_that_block_alone)
{
	static const uint64_t versions[2] = { 9, 9 };
	struct fake_msg *msg;

	write_now(0, 1, 4);
	leave_the_ring();
	for (uint32_t i = 0; i < 3; i++)
		node_of(0, i)->is_rotten = true;
	msg = fake_read(0, 2);
	cr_assert_eq(fake_wait(msg), -EIO);
	cr_assert_eq(metric(MT_METRIC_unreadable_blocks), 1);
	fake_expect(1, 0);
	write_now(0, 2, 9);
	expect_range(0, 2, versions); /* an overwrite heals it */
}

Test(read_path, damaged_replicas_are_asked_last)
{
	struct mt_extent *extent;

	write_now(0, 1, 4);
	leave_the_ring();
	extent = mt_shard_extent(&fake.shard, location_of(0)->extent_index);
	extent->replicas[0].is_damaged = extent->replicas[2].is_damaged = true;
	for (uint32_t i = 0; i < 5; i++)
		fake_expect(0, 4);
	cr_assert_eq(node_of(0, 1)->counts[WIRE_EXTENT_READ], 5);
	extent->replicas[1].is_damaged = true;
	fake_expect(0, 4);
	node_of(0, 0)->is_rotten = node_of(0, 2)->is_rotten = true;
	fake_expect(0, 4);
	node_of(0, 1)->is_rotten = true;
	cr_assert_eq(fake_wait(fake_read(0, 1)), -EIO);
}

Test(read_path, memory_that_rots_is_read_from_a_replica)
{
	uint8_t byte;
	dev_ptr at;

	write_now(0, 1, 4);
	at = mt_ring_at(fake.shard.ring, location_of(0)->ring_position + 1000);
	fake_from_device(&byte, at, 1);
	byte ^= 4;
	fake_to_device(at, &byte, 1);
	fake_expect(0, 4);
	cr_assert_eq(metric(MT_METRIC_reads_from_node), 1);
}

/* ---- lost nodes ---- */

Test(read_path, a_link_lost_while_asking_means_the_next_replica)
{
	for (uint32_t i = 0; i < 3; i++) {
		struct fake_msg *msg;

		write_now(0, 1, 4);
		leave_the_ring();
		for (uint32_t k = 0; k < 2; k++)
			node_of(0, k)->fault = (struct fake_fault){ .opcode = WIRE_EXTENT_READ,
				.countdown = 1,
				.is_link_lost = true };
		msg = fake_read(0, 1);
		cr_assert_eq(fake_wait(msg), 0);
		for (uint32_t k = 0; k < FAKE_NODES; k++) {
			fake.nodes[k].fault.countdown = 0;
			fake_node_up(k);
		}
	}
}

Test(read_path, waits_for_a_node_that_is_away_but_not_for_ever)
{
	struct fake_msg *msg;

	write_now(0, 1, 4);
	leave_the_ring();
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_down(i, 0);
	msg = fake_read(0, 1);
	fake_run_for(NUM_S(1));
	cr_assert_not(msg->is_answered);
	fake_node_up(node_of(0, 1)->index);
	fake_run_for(NUM_MS(1));
	cr_assert(msg->is_answered, "a link that comes up is enough, no timer");
	cr_assert_eq(msg->reply.rc, 0);
	fake_node_down(node_of(0, 1)->index, 0);
	msg = fake_read(0, 1);
	cr_assert_eq(fake_wait(msg), -EHOSTDOWN);
	cr_assert_eq(metric(MT_METRIC_unreadable_blocks), 0);
}

Test(read_path, bad_and_away_waits_for_the_one_that_is_away)
{
	struct fake_msg *msg;
	uint32_t good;

	write_now(0, 1, 4);
	leave_the_ring();
	good = node_of(0, 2)->index;
	node_of(0, 0)->is_rotten = node_of(0, 1)->is_rotten = true;
	fake_node_down(good, 0);
	msg = fake_read(0, 1);
	fake_run_for(NUM_MS(500));
	cr_assert_not(msg->is_answered);
	cr_assert_eq(metric(MT_METRIC_replica_read_errors), 2, "nobody is asked twice");
	fake_node_up(good);
	cr_assert_eq(fake_wait(msg), 0);
}

Test(read_path, an_extent_that_is_gone_is_looked_up_again)
{
	struct mt_extent *extent;
	struct fake_msg *msg;
	uint32_t index;

	write_now(0, 1, 4);
	leave_the_ring();
	index = location_of(0)->extent_index;
	extent = mt_shard_extent(&fake.shard, index);
	for (uint32_t i = 0; i < 3; i++)
		node_of(0, i)->is_stalled = true;
	msg = fake_read(0, 1);
	/* While it is out, the block is written anew and its old extent deleted. */
	for (uint32_t i = 0; i < 3; i++)
		node_of(0, i)->fault = (struct fake_fault){ .opcode = WIRE_EXTENT_READ,
			.countdown = 1,
			.rc = -ENOENT };
	for (uint32_t i = 0; i < 3; i++)
		fake_node_resume(extent->replicas[i].node_id - 1);
	write_now(0, 1, 8);
	cr_assert_eq(fake_wait(msg), 0);
	mt_shard_extent_remove(&fake.shard, extent);
	mt_extent_free(extent);
	fake_expect(0, 8);
}

/* ---- parking and stopping ---- */

Test(read_path, waits_for_its_shard)
{
	struct fake_msg *msg;

	fake_fini();
	fake_init(5, false);
	msg = fake_read(0, 2);
	fake_run_for(NUM_S(1));
	cr_assert_not(msg->is_answered);
	fake_start();
	cr_assert_eq(fake_wait(msg), 0);
}

Test(read_path, a_parked_read_of_a_shard_that_stops_is_answered)
{
	struct fake_msg *msg;

	fake_fini();
	fake_init(5, false);
	msg = fake_read(0, 2);
	fake_stop(-ESTALE);
	cr_assert_eq(fake_wait(msg), -EREMCHG);
	cr_assert_eq(fake_wait(fake_read(0, 2)), -EREMCHG);
}

Test(read_path, a_stopped_shard_serves_nothing_any_more)
{
	struct fake_msg *asking, *waiting;

	write_now(0, 1, 4);
	leave_the_ring();
	for (uint32_t i = 0; i < 3; i++)
		node_of(0, i)->is_stalled = true;
	asking = fake_read(0, 1);
	fake_stop(-ESTALE);
	cr_assert_not(asking->is_answered, "its buffers are in use");
	for (uint32_t i = 0; i < 3; i++)
		fake_node_resume(node_of(0, i)->index);
	cr_assert_eq(fake_wait(asking), -EREMCHG);
	waiting = fake_read(0, 1);
	cr_assert_eq(fake_wait(waiting), -EREMCHG);
}

Test(read_path, a_read_that_waits_is_answered_when_the_shard_stops)
{
	struct fake_msg *msg;

	write_now(0, 1, 4);
	leave_the_ring();
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_down(i, 0);
	msg = fake_read(0, 1);
	cr_assert_not(msg->is_answered);
	fake_stop(-ECANCELED);
	cr_assert(msg->is_answered);
	cr_assert_eq(msg->reply.rc, -ECANCELED);
}

/* ---- bounds ---- */

Test(read_path, more_records_than_pieces_are_read_in_turn)
{
	static struct fake_msg *msgs[FAKE_MSGS];

	for (uint32_t round = 0; round < 2; round++) {
		if (round == 1)
			with_threads();
		for (uint32_t i = 0; i < FAKE_MSGS * 16; i++) {
			if (fake_msg_take_is_empty())
				cr_assert(fake_run_quiet());
			(void)fake_write(i, 1, 1 + i);
		}
		cr_assert(fake_run_quiet());
		leave_the_ring();
		for (uint32_t i = 0; i < FAKE_MSGS; i++)
			msgs[i] = fake_read(16 * i, 16);
		cr_assert(list_is_empty(&fake.port.read->free_pieces));
		cr_assert_not(list_is_empty(&fake.port.read->starved));
		cr_assert(fake_run_quiet());
		for (uint32_t i = 0; i < FAKE_MSGS; i++)
			cr_assert_eq(msgs[i]->reply.rc, 0);
	}
}

Test(read_path, starved_reads_end_when_nodes_are_lost)
{
	static struct fake_msg *msgs[FAKE_MSGS];

	for (uint32_t i = 0; i < FAKE_MSGS * 16; i++) {
		if (fake_msg_take_is_empty())
			cr_assert(fake_run_quiet());
		(void)fake_write(i, 1, 1 + i);
	}
	cr_assert(fake_run_quiet());
	leave_the_ring();
	for (uint32_t i = 0; i < FAKE_MSGS; i++)
		msgs[i] = fake_read(16 * i, 16);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_down(i, 1);
	cr_assert(fake_run_quiet());
	for (uint32_t i = 0; i < FAKE_MSGS; i++)
		cr_assert_eq(msgs[i]->reply.rc, -EHOSTDOWN);
}

Test(read_path, a_full_engine_queue_is_tried_again)
{
	struct fake_msg *msg;

	with_threads();
	write_now(0, 1, 4);
	for (uint32_t round = 0; round < 2; round++) {
		if (round == 1)
			leave_the_ring();
		fake.engines.is_refusing = true;
		msg = fake_read(0, 2);
		fake_run_for(NUM_MS(200));
		cr_assert_not(msg->is_answered);
		fake.engines.is_refusing = false;
		cr_assert_eq(fake_wait(msg), 0);
	}
}
