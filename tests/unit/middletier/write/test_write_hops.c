/* SPDX-License-Identifier: Apache-2.0 */
/* test_write_hops.c -- how long writes and reads took, and which node had the most of it: counted, and kept */
#include <errno.h>

#include "base/num.h"
#include "cleave/wire.h"
#include "middletier/common/hops.h"
#include "middletier/common/slow_op.h"
#include "middletier/extent/extent.h"
#include "middletier/write/cut.h"
#include "middletier/write/write_path.h"
#include "unit/fake_port.h"

static struct mt_slow_op kept[8];

static void
begin(uint64_t seed, bool is_threaded)
{
	fake_init(seed, is_threaded);
	fake.shared.slow_op_ns = NUM_MS(500);
	fake.shared.slow = mt_slow_ops_create();
	cr_assert_not_null(fake.shared.slow);
	(void)snprintf(fake.session.volume.name, sizeof(fake.session.volume.name), "disk1");
}

static void
setup(void)
{
	begin(61, false);
}

static void
teardown(void)
{
	mt_slow_ops_destroy(fake.shared.slow);
	fake_fini();
}

TestSuite(write_hops, .init = setup, .fini = teardown);

static void
with_threads(void)
{
	teardown();
	begin(62, true);
}

static uint32_t
kept_count(void)
{
	return mt_slow_ops_read(fake.shared.slow, 0, kept, NUM_COUNT(kept));
}

static void
on_time(struct loop_timer *timer, void *arg)
{
	(void)timer;
	*(bool *)arg = true;
}

/* A world without events stands still. */
static void
let_pass(uint64_t ns)
{
	struct loop_timer timer;
	bool is_over = false;

	loop_timer_init(&timer, on_time, &is_over);
	loop_timer_start(fake.loop, &timer, ns);
	fake_run_for(ns);
	cr_assert(is_over);
}

static struct fake_node *
log_node(uint32_t replica_index)
{
	return &fake.nodes[fake.shard.log->replicas[replica_index].node_id - 1];
}

static uint64_t
counted(enum mt_write_hop hop)
{
	return latency_total(&fake.port.hops.writes[hop][SERVICE_STANDARD]);
}

Test(write_hops, of_writes_that_are_not_slow_are_counted_alone)
{
	for (uint32_t round = 0; round < 2; round++) {
		if (round == 1)
			with_threads();
		fake_start_quiet();
		for (uint32_t i = 0; i < 5; i++)
			cr_assert_eq(fake_wait(fake_write(16 * i, 1, 1)), 0);
		cr_assert_eq(fake_wait(fake_discard(0, 1)), 0);
		for (uint32_t i = 0; i < MT_WRITE_HOP_NR; i++)
			cr_assert_eq(counted((enum mt_write_hop)i), i == MT_WRITE_HOP_REPLY ? 0 : 5,
			    "hop %u", i);
		cr_assert_gt(fake.port.hops.writes[MT_WRITE_HOP_REPLICATE][SERVICE_STANDARD].sum_ns,
		    0);
		cr_assert_eq(kept_count(), 0);
	}
}

Test(write_hops, the_node_that_kept_a_write_waiting_is_named)
{
	struct fake_msg *msg;

	fake_start_quiet();
	log_node(1)->is_stalled = true;
	msg = fake_write(2, 1, 1);
	let_pass(NUM_MS(800));
	fake_node_resume(log_node(1)->index);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(kept_count(), 1);
	cr_assert_eq(kept[0].opcode, WIRE_WRITE);
	cr_assert_str_eq(kept[0].volume, "disk1");
	cr_assert_eq(kept[0].length_bytes, 4096);
	cr_assert_eq(kept[0].offset_bytes, FAKE_SEGMENT * CLEAVE_SEGMENT_BYTES + 8192);
	cr_assert_eq(kept[0].request_id, msg->reply.request_id);
	cr_assert_eq(kept[0].node_count, 3);
	cr_assert_eq(mt_slow_op_longest(&kept[0])->node_id, log_node(1)->index + 1);
	cr_assert_geq(mt_slow_op_longest(&kept[0])->took_ns, NUM_MS(800));
	cr_assert_geq(kept[0].hops_ns[MT_WRITE_HOP_REPLICATE], NUM_MS(800));
	cr_assert_lt(kept[0].hops_ns[MT_WRITE_HOP_PARK], NUM_MS(1));
}

Test(write_hops, a_node_that_was_given_up_is_named_although_others_took_its_place)
{
	struct fake_msg *msg;
	uint32_t lost;
	bool is_named = false;

	fake_start_quiet();
	lost = log_node(0)->index;
	log_node(0)->is_stalled = true;
	msg = fake_write(2, 1, 1);
	let_pass(NUM_MS(700));
	fake.nodes[lost].fault = (struct fake_fault){ .opcode = WIRE_EXTENT_APPEND,
		.countdown = 1,
		.is_link_lost = true };
	fake_node_resume(lost);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(kept_count(), 1);
	for (uint32_t i = 0; i < kept[0].node_count; i++)
		is_named |= kept[0].nodes[i].node_id == lost + 1 && kept[0].nodes[i].is_lost &&
		    kept[0].nodes[i].took_ns >= NUM_MS(700);
	cr_assert(is_named);
	cr_assert_eq(mt_slow_op_longest(&kept[0])->node_id, lost + 1);
}

Test(write_hops, what_waited_for_its_shard_was_parked)
{
	struct fake_msg *msg = fake_write(1, 1, 1), *discard = fake_discard(64, 1);

	let_pass(NUM_S(1));
	fake_start();
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(fake_wait(discard), 0);
	cr_assert_eq(kept_count(), 2);
	for (uint32_t i = 0; i < 2; i++)
		cr_assert_geq(kept[i].hops_ns[MT_WRITE_HOP_PARK], NUM_S(1));
}

Test(write_hops, what_is_stopped_is_kept_with_its_error)
{
	struct fake_msg *msg = fake_write(1, 1, 1);

	let_pass(NUM_S(1));
	fake_stop(-EIO);
	cr_assert_eq(fake_wait(msg), -EREMCHG);
	cr_assert_eq(kept_count(), 1);
	cr_assert_eq(kept[0].rc, -EREMCHG);
	cr_assert_eq(kept[0].node_count, 0);
	cr_assert_eq(kept[0].hops_ns[MT_WRITE_HOP_PARK], kept[0].hops_ns[MT_WRITE_HOP_TOTAL]);
	cr_assert_eq(counted(MT_WRITE_HOP_TOTAL), 0, "failures are not counted");
}

Test(write_hops, nothing_is_kept_where_that_is_off)
{
	struct fake_msg *msg = fake_write(1, 1, 1);

	fake.shared.slow_op_ns = 0;
	let_pass(NUM_S(60));
	fake_start();
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(kept_count(), 0);
	cr_assert_eq(counted(MT_WRITE_HOP_TOTAL), 1);
}

Test(write_hops, a_read_that_waited_for_its_shard_is_kept_without_nodes)
{
	struct fake_msg *msg = fake_read(1, 1);

	let_pass(NUM_S(1));
	fake_start();
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(kept_count(), 1);
	cr_assert_eq(kept[0].opcode, WIRE_READ);
	cr_assert_eq(kept[0].node_count, 0);
	cr_assert_eq(latency_total(&fake.port.hops.reads[MT_READ_HOP_TOTAL][SERVICE_STANDARD]), 1);
	cr_assert_eq(latency_total(&fake.port.hops.reads[MT_READ_HOP_NODE][SERVICE_STANDARD]), 0);
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
}

Test(write_hops, a_read_that_waited_for_a_node_names_it)
{
	struct fake_msg *msg;

	fake_start_quiet();
	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), 0);
	leave_the_ring();
	fake_stall_all(true);
	msg = fake_read(1, 1);
	let_pass(NUM_MS(600));
	fake_stall_all(false);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(kept_count(), 1);
	cr_assert_eq(kept[0].opcode, WIRE_READ);
	cr_assert_eq(kept[0].node_count, 1);
	cr_assert_neq(kept[0].nodes[0].node_id, 0);
	cr_assert_geq(kept[0].nodes[0].took_ns, NUM_MS(600));
	cr_assert_geq(kept[0].hops_ns[MT_WRITE_HOP_TOTAL], NUM_MS(600));
	cr_assert_eq(latency_total(&fake.port.hops.reads[MT_READ_HOP_NODE][SERVICE_STANDARD]), 1);
}

static void
on_cut(int rc, void *arg)
{
	*(bool *)arg = rc == 0;
}

Test(write_hops, an_answer_that_is_held_back_is_late_at_the_end)
{
	static const struct mt_cut_order order = { .number = 7,
		.segment_count = 1,
		.volume_count = 1,
		.segment_bases = { FAKE_SEGMENT } };
	struct fake_msg *msg;
	bool is_cut = false;

	fake_start_quiet();
	cr_assert_eq(mt_cut_begin(&fake.shard, &order, on_cut, &is_cut), 0);
	let_pass(NUM_MS(20));
	cr_assert(is_cut);
	msg = fake_write(1, 1, 1);
	let_pass(NUM_S(1));
	mt_cut_release(&fake.shard, 7);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(kept_count(), 1);
	cr_assert_geq(kept[0].hops_ns[MT_WRITE_HOP_REPLY], NUM_MS(900));
	cr_assert_gt(kept[0].hops_ns[MT_WRITE_HOP_REPLICATE], 0);
	cr_assert_lt(kept[0].hops_ns[MT_WRITE_HOP_REPLICATE], NUM_MS(100));
	cr_assert_eq(counted(MT_WRITE_HOP_REPLY), 1);
}
