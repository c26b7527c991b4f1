/* SPDX-License-Identifier: Apache-2.0 */
/* test_write_batch.c -- how many records a batch takes, and when it goes */
#include "base/num.h"
#include "middletier/common/metric.h"
#include "middletier/extent/replicate.h"
#include "unit/fake_port.h"

static void
setup(void)
{
	fake_init(21, false);
}

static void
teardown(void)
{
	fake_fini();
}

TestSuite(write_batch, .init = setup, .fini = teardown);

/* The same with engine threads, in the tests that ask for it. */
static void
with_threads(void)
{
	fake_fini();
	fake_init(22, true);
}

static uint64_t
metric(enum mt_metric which)
{
	return fake.port.metrics[which];
}

Test(write_batch, two_appends_are_in_flight_and_then_the_batch_fills)
{
	fake_start_quiet();
	fake_stall_all(true);
	for (uint32_t i = 0; i < 20; i++) {
		(void)fake_write(i, 1, 1 + 4 * i + 1);
		fake_run_for(NUM_US(1));
	}
	cr_assert_eq(fake.shard.log->append_count, WRITE_APPENDS_OPEN_MAX);
	cr_assert_eq(fake.shard.write->filling->record_count, 18);
	fake_stall_all(false);
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_batches), 3);
	cr_assert_eq(metric(MT_METRIC_records), 20);
}

/* Batches of one record, one, three, three; later ones wait, closed or filling, and go on after. */
Test(write_batch, full_batches_do_not_wait_until_four_are_in_flight)
{
	for (uint32_t round = 0; round < 2; round++) {
		if (round == 1)
			with_threads();
		fake_start_quiet();
		fake.shard.write->batch_bytes_max = NUM_KIB(
		    64); /* a fake extent holds more of them */
		fake_stall_all(true);
		for (uint32_t i = 0; i < 15; i++) {
			(void)fake_write(4 * i, 4, 4); /* does not compress: three to a batch */
			fake_run_for(NUM_MS(1));
			/* The third is full when the sixth record comes, the fourth at the ninth. */
			cr_assert_eq(fake.shard.log->append_count,
			    i < 2 ? i + 1 : num_min(2 + (i - 2) / 3, MT_APPENDS_IN_FLIGHT_MAX));
		}
		fake_stall_all(false);
		cr_assert(fake_run_quiet());
		cr_assert_eq(metric(MT_METRIC_batches), 7);
		for (uint32_t i = 0; i < 15; i++)
			fake_expect(4 * i + 1, 4);
	}
}

Test(write_batch, one_turn_is_one_batch)
{
	fake_start_quiet();
	for (uint32_t i = 0; i < 20; i++)
		(void)fake_write(i, 1, 1 + 4 * i);
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_batches), 1);
}

Test(write_batch, a_full_batch_is_closed_and_the_next_one_fills)
{
	fake_start_quiet();
	for (uint32_t i = 0; i < 8; i++)
		(void)fake_write(16 * i, 16, 4); /* does not compress: three to a batch */
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_batches), 3);
	for (uint32_t i = 0; i < 8; i++)
		fake_expect(16 * i + 5, 4);
}

/* Many short records: the batch's head is full before anything else. */
Test(write_batch, a_batch_ends_where_its_head_does)
{
	for (uint32_t round = 0; round < 2; round++) {
		if (round == 1)
			with_threads();
		fake_start_quiet();
		fake_stall_all(true);
		for (uint32_t i = 0; i < 400; i++) {
			if (i < 2)
				fake_run_for(NUM_MS(1));
			(void)fake_write(i, 1, 1);
		}
		fake_run_for(NUM_MS(50));
		fake_stall_all(false);
		cr_assert(fake_run_quiet());
		cr_assert_eq(metric(MT_METRIC_writes), 400);
		cr_assert_geq(metric(MT_METRIC_batches), 3);
		cr_assert_eq(metric(MT_METRIC_extents_broken), 0);
		fake_expect(399, 1);
	}
}
