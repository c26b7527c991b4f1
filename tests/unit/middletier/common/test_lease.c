/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lease.c -- what a gateway answers and sends when its lease ends, and a shard's second life
 *
 * I7 at the place where it is kept: the moment an answer leaves.
 */
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/common/lease.h"
#include "middletier/extent/extent_table.h"
#include "middletier/index/index.h"
#include "middletier/index/ring.h"
#include "middletier/read/read_path.h"
#include "middletier/write/write_path.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/fake_port.h"

static void
setup(void)
{
	fake_init(71, false);
	fake_start();
	fake_run_for(NUM_MS(10));
}

static void
teardown(void)
{
	fake_fini();
}

TestSuite(lease, .init = setup, .fini = teardown);

static void
lease_ends(void)
{
	fake.shared.lease_until_ns = loop_now_ns(fake.loop);
}

static void
lease_goes_on(void)
{
	fake.shared.lease_until_ns = UINT64_MAX;
}

static void
stall_all(void)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.nodes[i].is_stalled = true;
		loop_timer_stop(fake.loop, &fake.nodes[i].timer);
	}
}

static void
resume_all(void)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.nodes[i].is_stalled = false;
		fake_node_resume(i);
	}
}

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

static uint32_t
append_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		count += fake.nodes[i].counts[WIRE_EXTENT_APPEND];
	return count;
}

Test(lease, no_read_from_memory_without_it)
{
	cr_assert_eq(fake_wait(fake_write(1, 1, 2)), 0);
	lease_ends();
	cr_assert_eq(fake_wait(fake_read(1, 1)), -EREMCHG);
	cr_assert_eq(fake_wait(fake_read(500, 4)), -EREMCHG, "zeros are an answer too");
	lease_goes_on();
	fake_expect(1, 2);
}

Test(lease, it_ends_while_a_node_is_read)
{
	struct fake_msg *msg;

	cr_assert_eq(fake_wait(fake_write(1, 1, 2)), 0);
	leave_the_ring();
	stall_all();
	msg = fake_read(1, 1);
	fake_run_for(NUM_MS(1));
	cr_assert_not(msg->is_answered);
	lease_ends();
	resume_all();
	cr_assert_eq(fake_wait(msg), -EREMCHG);
	lease_goes_on();
	fake_expect(1, 2);
}

Test(lease, it_ends_at_each_moment_of_a_read)
{
	cr_assert_eq(fake_wait(fake_write(1, 4, 2)), 0);
	leave_the_ring();
	for (uint32_t i = 0; i < 100; i++) {
		struct fake_msg *msg = fake_read(1, 4);
		uint64_t begin_ns = loop_now_ns(fake.loop);
		int rc;

		fake.shared.lease_until_ns = begin_ns + NUM_US(10) * i;
		rc = fake_wait(msg);
		cr_assert_eq(rc,
		    loop_now_ns(fake.loop) < fake.shared.lease_until_ns ? 0 : -EREMCHG);
		lease_goes_on();
	}
}

Test(lease, a_write_that_became_durable_behind_it_is_not_acknowledged)
{
	struct fake_msg *msg;

	stall_all();
	msg = fake_write(1, 1, 2);
	fake_run_for(NUM_MS(1));
	lease_ends();
	resume_all();
	cr_assert_eq(fake_wait(msg), -EREMCHG);
	cr_assert_eq(fake.port.metrics[MT_METRIC_writes], 0);
	lease_goes_on();
	fake_expect(1, 2); /* it may well have happened */
}

Test(lease, nothing_is_appended_without_it)
{
	uint32_t before = append_count();
	struct fake_msg *msg;

	lease_ends();
	msg = fake_write(1, 1, 2);
	fake_run_for(NUM_S(1));
	cr_assert_not(msg->is_answered);
	cr_assert_eq(append_count(), before);
	lease_goes_on();
	cr_assert_eq(fake_wait(msg), 0);
	fake_expect(1, 2);
}

Test(lease, what_waits_for_it_is_answered_when_the_shard_stops)
{
	struct fake_msg *msg;

	lease_ends();
	msg = fake_write(1, 1, 2);
	fake_run_for(NUM_MS(50));
	fake_stop(-ESTALE);
	cr_assert_eq(fake_wait(msg), -EREMCHG);
}

/* ---- a host that sleeps ---- */

static uint64_t slept_ns; /* that the loop's other clocks have not seen */
static struct loop_ops sleeper_ops;

static uint64_t
sleeper_now_boot_ns(struct loop *loop)
{
	return loop_now_ns(loop) + slept_ns;
}

Test(lease, it_ends_while_the_host_sleeps)
{
	sleeper_ops = *fake.loop->ops;
	sleeper_ops.now_boot_ns = sleeper_now_boot_ns;
	fake.loop->ops = &sleeper_ops;
	fake.shared.lease_until_ns = loop_now_ns(fake.loop) + NUM_S(2);
	cr_assert_eq(fake_wait(fake_write(1, 1, 2)), 0);
	fake_expect(1, 2);
	slept_ns = NUM_S(60);
	cr_assert_not(mt_lease_is_held(&fake.shared, fake.loop));
	cr_assert_eq(fake_wait(fake_read(1, 1)), -EREMCHG);
	lease_goes_on();
	fake_expect(1, 2);
}

/* ---- sessions ---- */

Test(lease, a_write_that_waited_while_its_session_went_is_dropped)
{
	struct fake_msg *msg;

	fake_fini();
	fake_init(72, false);
	msg = fake_write(1, 1, 2);
	fake.is_session_gone = true;
	fake_start();
	cr_assert_eq(fake_wait(msg), -ESHUTDOWN);
	fake.is_session_gone = false;
	fake_expect(1, 0);
}

Test(lease, requests_of_an_older_epoch_do_not_outlive_a_claim)
{
	struct wire_io io = fake_io(WIRE_DISCARD, 1, 1);
	struct fake_msg *write, *read, *good;

	fake_fini();
	fake_init(73, false);
	io.epoch = 4;
	fake_submit(write = fake_msg_take(), &io);
	io.opcode = WIRE_READ;
	fake_submit(read = fake_msg_take(), &io);
	good = fake_write(1, 1, 2);
	mt_write_path_claimed(&fake.shard);
	mt_read_path_claimed(&fake.shard);
	cr_assert(write->is_answered);
	cr_assert_eq(write->reply.rc, -ESTALE);
	cr_assert_eq(write->reply.epoch, 5);
	cr_assert_eq(read->reply.rc, -ESTALE);
	cr_assert_not(good->is_answered);
	fake_start();
	cr_assert_eq(fake_wait(good), 0);
}

/* ---- a second life ---- */

static bool
write_path_is_quiet(void *arg)
{
	(void)arg;
	return fake.session.request_count == 0 && fake.shard.read_count == 0 &&
	    mt_write_path_is_quiet(&fake.shard);
}

/* As shard.c does it: stopped, quiet, everything forgotten; then a new epoch. */
static void
live_again(void)
{
	fake_stop(-EREMCHG);
	cr_assert_eq(sim_world_run(fake.world, write_path_is_quiet, NULL,
			 sim_world_now_ns(fake.world) + NUM_S(60)),
	    0);
	fake.shard.log = NULL;
	mt_write_path_reset(&fake.shard);
	mt_ring_reset(fake.shard.ring);
	mt_index_destroy(fake.shard.block_index);
	fake.shard.block_index = mt_index_create(&fake.shard);
	mt_shard_extents_free(&fake.shard);
	fake.shard.epoch++;
	fake.shard.next_counter = 1;
	fake_start();
}

static void
lives(bool is_threaded)
{
	fake_fini();
	fake_init(74, is_threaded);
	fake_start();
	for (uint32_t life = 0; life < 12; life++) {
		struct fake_msg *msgs[12];

		fake_run_for(NUM_MS(10));
		cr_assert_eq(fake_wait(fake_write(1, 8, life + 1)), 0);
		for (uint32_t i = 0; i < NUM_COUNT(msgs); i++)
			msgs[i] = i % 3 == 0 ? fake_read(1, 8) : fake_write(40 * i, 16, 4 + i);
		fake_run_for(NUM_US(40) * life);
		live_again();
		for (uint32_t i = 0; i < NUM_COUNT(msgs); i++) {
			cr_assert(msgs[i]->is_answered);
			cr_assert(msgs[i]->reply.rc == 0 || msgs[i]->reply.rc == -EREMCHG);
		}
		fake_expect(1, 0); /* nothing is remembered: it was not replayed here */
	}
}

Test(lease, each_life_begins_with_nothing)
{
	lives(false);
}

Test(lease, each_life_begins_with_nothing_with_engine_threads)
{
	lives(true);
}
