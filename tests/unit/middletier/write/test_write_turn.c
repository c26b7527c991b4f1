/* SPDX-License-Identifier: Apache-2.0 */
/* test_write_turn.c -- what others' writes have of a turn while latency class volumes write */
#include "base/list.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "middletier/common/metric.h"
#include "middletier/write/write_path.h"
#include "unit/fake_port.h"

static void
setup(void)
{
	fake_init(31, false);
}

static void
teardown(void)
{
	fake_fini();
}

TestSuite(write_turn, .init = setup, .fini = teardown);

static struct fake_msg *
latency_write(uint32_t block)
{
	struct fake_msg *msg;

	fake.is_latency = true;
	msg = fake_write(block, 1, 2);
	fake.is_latency = false;
	return msg;
}

static void
others_write(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		(void)fake_write(100 + i, 1, 1);
}

static uint32_t
others_parked(void)
{
	const struct loop_link *head = &fake.shard.write->parked[WRITE_LINE_OTHERS];
	uint32_t count = 0;

	for (const struct loop_link *link = head->next; link != head; link = link->next)
		count++;
	return count;
}

static uint64_t
metric(enum mt_metric which)
{
	return fake.port.metrics[which];
}

Test(write_turn, others_have_all_of_it_alone)
{
	fake_start_quiet();
	others_write(20);
	cr_assert_eq(others_parked(), 0);
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_batches), 1);
}

/* The latency class's leaves with what there is; the others are together all the same. */
Test(write_turn, a_latency_write_takes_one_of_the_others_along)
{
	fake_start_quiet();
	(void)latency_write(1);
	others_write(20);
	cr_assert_eq(others_parked(), 19);
	cr_assert_eq(fake.shard.write->filling->record_count, 2);
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_batches), 2);
	cr_assert_eq(metric(MT_METRIC_records), 21);
	fake_expect(119, 1);
}

static void
on_pause(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
}

/* Virtual time stands still while there is nothing to do. */
static void
pause_for(uint64_t ns)
{
	struct loop_timer timer;

	loop_timer_init(&timer, on_pause, NULL);
	loop_timer_start(fake.loop, &timer, ns);
	fake_run_for(ns);
}

Test(write_turn, for_a_second_it_is_sixteen_kilobytes)
{
	fake_start_quiet();
	cr_assert_eq(fake_wait(latency_write(1)), 0);
	others_write(20);
	cr_assert_eq(others_parked(), 16);
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_batches), 2, "the others' is one batch");
	pause_for(NUM_S(1));
	others_write(20);
	cr_assert_eq(others_parked(), 0);
	cr_assert(fake_run_quiet());
}

/* A longer write goes, too, alone in a turn. */
Test(write_turn, a_long_write_is_a_turns_only_one)
{
	fake_start_quiet();
	cr_assert_eq(fake_wait(latency_write(1)), 0);
	for (uint32_t i = 0; i < 3; i++)
		(void)fake_write(100 + 16 * i, 16, 1);
	cr_assert_eq(others_parked(), 2);
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_writes), 4);
}

static void
others_on_reply(struct fake_msg *msg, void *arg)
{
	uint32_t *ret_parked = arg;

	(void)msg;
	others_write(6);
	*ret_parked = others_parked();
}

Test(write_turn, an_answer_cuts_it_short_too)
{
	struct fake_msg *msg;
	uint32_t parked = 0;

	fake_start_quiet();
	msg = latency_write(1);
	msg->on_reply = others_on_reply;
	msg->arg = &parked;
	cr_assert(fake_run_quiet());
	cr_assert_eq(parked, 5);
	cr_assert_eq(metric(MT_METRIC_writes), 7);
}

Test(write_turn, a_read_cuts_it_short_too)
{
	fake_start_quiet();
	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), 0);
	fake.is_latency = true;
	(void)fake_read(1, 1);
	fake.is_latency = false;
	others_write(6);
	cr_assert_eq(others_parked(), 5);
	cr_assert(fake_run_quiet());
}

Test(write_turn, the_latency_class_itself_does_not_wait)
{
	fake_start_quiet();
	for (uint32_t i = 0; i < 20; i++)
		(void)latency_write(i);
	cr_assert(list_is_empty(&fake.shard.write->parked[WRITE_LINE_AHEAD]));
	cr_assert_eq(fake.shard.write->filling->record_count, 20);
	others_write(1);
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_batches), 1);
}

/* With threads the engine's work is not the turn's. */
Test(write_turn, engine_threads_have_no_share_of_it)
{
	fake_fini();
	fake_init(32, true);
	fake_start_quiet();
	(void)latency_write(1);
	others_write(3);
	cr_assert_eq(others_parked(), 0);
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_writes), 4);
}

/* A write that waits for the next turn and is dropped there does not keep the batch. */
Test(write_turn, a_batch_does_not_wait_for_what_has_gone)
{
	fake_start_quiet();
	cr_assert_eq(fake_wait(latency_write(1)), 0);
	others_write(6);
	cr_assert_eq(others_parked(), 2);
	mt_write_path_drop(&fake.shard, &fake.session);
	cr_assert_eq(others_parked(), 0);
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_writes), 5);
}
