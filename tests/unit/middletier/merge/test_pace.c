/* SPDX-License-Identifier: Apache-2.0 */
/* test_pace.c -- everything that merges and writes do to each other grows by degrees */
#include <criterion/criterion.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "middletier/merge/pace.h"

#define SOFT NUM_MIB(64)
#define HARD NUM_MIB(96)

/* ---- pressure ---- */

Test(pace, pressure_begins_at_half_of_the_soft_limit_and_ends_at_the_hard_one)
{
	cr_assert_eq(mt_pace_pressure(0, SOFT, HARD), 0);
	cr_assert_eq(mt_pace_pressure(SOFT / 2, SOFT, HARD), 0);
	cr_assert_eq(mt_pace_pressure(SOFT * 3 / 4, SOFT, HARD), PACE_HURRY / 2);
	cr_assert_eq(mt_pace_pressure(SOFT, SOFT, HARD), PACE_HURRY);
	cr_assert_eq(mt_pace_pressure((SOFT + HARD) / 2, SOFT, HARD), 750);
	cr_assert_eq(mt_pace_pressure(HARD, SOFT, HARD), PACE_FULL);
	cr_assert_eq(mt_pace_pressure(UINT64_MAX, SOFT, HARD), PACE_FULL);
}

Test(pace, no_limit_is_no_pressure)
{
	cr_assert_eq(mt_pace_pressure(UINT64_MAX, 0, 0), 0);
}

Test(pace, limits_of_a_petabyte_do_not_overflow)
{
	uint64_t soft = UINT64_C(1) << 50;

	cr_assert_eq(mt_pace_pressure(soft, soft, 2 * soft), PACE_HURRY);
	cr_assert_lt(mt_pace_pressure(2 * soft - soft / 100, soft, 2 * soft), PACE_FULL);
}

Test(pace, pressure_never_falls_when_the_log_grows)
{
	uint32_t last = 0;

	for (uint64_t used = 0; used <= HARD; used += NUM_KIB(64)) {
		uint32_t pressure = mt_pace_pressure(used, SOFT, HARD);

		cr_assert_geq(pressure, last);
		cr_assert_leq(pressure - last, 4, "by degrees");
		last = pressure;
	}
}

/* ---- merges ---- */

Test(pace, merges_go_faster_the_longer_the_log_is)
{
	uint64_t last = 0;

	for (uint32_t pressure = 0; pressure < PACE_HURRY; pressure++) {
		uint64_t rate = mt_pace_merge_rate(pressure, PACE_UNLIMITED);

		cr_assert_gt(rate, last);
		cr_assert(last == 0 || rate - last <= last / 50, "by degrees");
		last = rate;
	}
	cr_assert_eq(mt_pace_merge_rate(0, PACE_UNLIMITED), NUM_MIB(96));
	cr_assert_eq(mt_pace_merge_rate(200, PACE_UNLIMITED), 4 * NUM_MIB(96));
	cr_assert_eq(mt_pace_merge_rate(PACE_HURRY, PACE_UNLIMITED), PACE_UNLIMITED);
	cr_assert_eq(mt_pace_merge_rate(PACE_FULL, PACE_UNLIMITED), PACE_UNLIMITED);
}

Test(pace, a_merge_that_writes_wait_for_reads_more_at_a_time)
{
	uint32_t leisure = mt_pace_reads(0);

	cr_assert_geq(leisure, 1);
	cr_assert_eq(mt_pace_reads(PACE_HURRY - 1), leisure);
	cr_assert_gt(mt_pace_reads(PACE_HURRY), leisure);
	cr_assert_eq(mt_pace_reads(PACE_FULL), mt_pace_reads(PACE_HURRY));
}

Test(pace, a_turn_of_the_loop_has_fewest_jobs_while_somebody_writes_and_the_log_is_short)
{
	uint32_t busy = mt_pace_turn_jobs(0, true, false),
		 hurry = mt_pace_turn_jobs(PACE_HURRY, true, false);

	cr_assert_geq(busy, 1);
	cr_assert_eq(mt_pace_turn_jobs(PACE_HURRY - 1, true, false), busy);
	cr_assert_lt(busy, hurry);
	cr_assert_lt(hurry, mt_pace_turn_jobs(PACE_HURRY, false, false));
	cr_assert_gt(mt_pace_turn_jobs(PACE_FULL, true, false), hurry);
	cr_assert_eq(mt_pace_turn_jobs(PACE_FULL, false, false),
	    mt_pace_turn_jobs(PACE_FULL, true, false));
}

/* However long the log is: what a turn lasts is what a write of the latency class waits. */
Test(pace, beside_the_latency_class_a_turn_of_the_loop_has_fewest_jobs_always)
{
	uint32_t busy = mt_pace_turn_jobs(0, true, false);

	for (uint32_t pressure = 0; pressure <= PACE_FULL; pressure += 50) {
		cr_assert_eq(mt_pace_turn_jobs(pressure, false, true), busy);
		cr_assert_eq(mt_pace_turn_jobs(pressure, true, true), busy);
	}
}

/* ---- beside little that is written ---- */

/* A log that is long of what came before is no reason to disturb who writes a little now. */
Test(pace, merges_follow_what_is_written_until_writes_wait)
{
	cr_assert_eq(mt_pace_merge_rate(PACE_HURRY - 1, 1), mt_pace_merge_rate(0, 0));
	cr_assert_eq(mt_pace_merge_rate(PACE_HURRY - 1, NUM_MIB(100)), NUM_MIB(400));
	cr_assert_eq(mt_pace_merge_rate(0, NUM_MIB(100)), mt_pace_merge_rate(0, 0));
	cr_assert_eq(mt_pace_merge_rate(PACE_HURRY, 1), PACE_UNLIMITED);
}

Test(pace, the_slower_a_merge_goes_the_less_it_takes_in_one_go)
{
	uint64_t slow = mt_pace_window_bytes(mt_pace_merge_rate(0, 0), 0);
	uint64_t fast = mt_pace_merge_rate(PACE_HURRY - 1, NUM_GIB(1));

	cr_assert_gt(slow, NUM_KIB(64), "a record of the log");
	cr_assert_lt(slow, NUM_MIB(1) / 3);
	cr_assert_gt(mt_pace_window_bytes(fast, NUM_GIB(1)), NUM_MIB(1));
	cr_assert_gt(mt_pace_window_bytes(PACE_UNLIMITED, 0), NUM_GIB(1));
}

/* Such a write would wait for the turn that a job takes in the loop; a log that is too long is worse. */
Test(pace, beside_few_writes_jobs_are_in_the_background_until_writes_wait)
{
	cr_assert(mt_pace_is_background(PACE_BACKGROUND - 1, true, PACE_UNLIMITED));
	cr_assert_not(mt_pace_is_background(PACE_BACKGROUND, true, PACE_UNLIMITED));
	cr_assert(mt_pace_is_background(PACE_HURRY - 1, true, 0));
	cr_assert(mt_pace_is_background(PACE_HURRY - 1, true, NUM_MIB(100)));
	cr_assert_not(mt_pace_is_background(PACE_HURRY, true, 0));
	cr_assert_not(mt_pace_is_background(PACE_BACKGROUND, false, 0), "nobody waits");
}

/* A timer that is late costs a short window more than a long one, and these writes do not stand behind it. */
Test(pace, beside_many_writes_in_flight_merges_go_as_ever)
{
	uint64_t few = mt_pace_followed(1, NUM_MIB(8)), many = mt_pace_followed(100, NUM_MIB(8));

	cr_assert_eq(few, NUM_MIB(8));
	cr_assert_eq(mt_pace_merge_rate(PACE_HURRY - 1, many),
	    mt_pace_merge_rate(PACE_HURRY - 1, PACE_UNLIMITED));
	cr_assert_gt(mt_pace_merge_rate(300, many), mt_pace_merge_rate(300, few));
	cr_assert_gt(mt_pace_window_bytes(mt_pace_merge_rate(0, many), many), NUM_GIB(1));
}

/* A write that meets a batch at the disks waits for all of it. */
Test(pace, batches_are_short_beside_few_writes_alone)
{
	uint64_t few = mt_pace_followed(1, NUM_MIB(8)), many = mt_pace_followed(100, NUM_MIB(8));

	cr_assert_leq(mt_pace_batch_bytes(true, few), BATCH_BYTES_MAX / 4);
	cr_assert_gt(mt_pace_batch_bytes(true, few), ENGINE_RECORD_BYTES_MAX / 4, "some frames");
	cr_assert_eq(mt_pace_batch_bytes(true, many), BATCH_BYTES_MAX);
	cr_assert_eq(mt_pace_batch_bytes(false, 0), BATCH_BYTES_MAX);
}

Test(pace, what_is_written_is_measured_from_time_to_time)
{
	struct pace_inflow inflow = { 0 };

	mt_pace_inflow_note(&inflow, NUM_S(9), NUM_GIB(7));
	cr_assert_eq(inflow.rate, 0, "there is nothing to compare with");
	mt_pace_inflow_note(&inflow, NUM_S(9) + NUM_MS(10), NUM_GIB(7) + NUM_MIB(1));
	cr_assert_eq(inflow.rate, 0, "that is too soon");
	mt_pace_inflow_note(&inflow, NUM_S(9) + NUM_MS(100), NUM_GIB(7) + NUM_MIB(1));
	cr_assert_eq(inflow.rate, NUM_MIB(10));
	mt_pace_inflow_note(&inflow, NUM_S(10) + NUM_MS(100), NUM_GIB(7) + NUM_MIB(1));
	cr_assert_eq(inflow.rate, 0);
	mt_pace_inflow_note(&inflow, NUM_S(1000), NUM_GIB(7) + NUM_MIB(1) + 1);
	cr_assert_gt(inflow.rate, 0, "nobody writes: that it is not");
}

/* ---- how fast the log drains ---- */

Test(pace, the_drain_is_known_after_a_second_under_pressure)
{
	struct pace_drain drain = { 0 };

	for (uint32_t i = 0; i < 11; i++) {
		cr_assert_eq(drain.rate, 0);
		mt_pace_drain_note(&drain, NUM_S(5) + i * NUM_MS(100), NUM_MIB(4), PACE_HURRY);
	}
	cr_assert_eq(drain.rate, NUM_MIB(40));
}

Test(pace, what_goes_while_merges_have_pauses_says_nothing)
{
	struct pace_drain drain = { 0 };

	for (uint32_t i = 0; i < 100; i++)
		mt_pace_drain_note(&drain, NUM_S(1 + i), NUM_MIB(1), PACE_HURRY - 1);
	cr_assert_eq(drain.rate, 0);
	mt_pace_drain_note(&drain, NUM_S(200), NUM_MIB(500), PACE_HURRY);
	cr_assert_eq(drain.rate, 0, "it is measured from here on");
	mt_pace_drain_note(&drain, NUM_S(202), NUM_MIB(20), PACE_HURRY);
	cr_assert_eq(drain.rate, NUM_MIB(10));
}

Test(pace, the_drain_follows_what_is_measured)
{
	struct pace_drain drain = { 0 };

	mt_pace_drain_note(&drain, NUM_S(1), 0, PACE_HURRY);
	mt_pace_drain_note(&drain, NUM_S(2), NUM_MIB(40), PACE_FULL);
	mt_pace_drain_note(&drain, NUM_S(3), NUM_MIB(80), PACE_FULL);
	cr_assert_eq(drain.rate, NUM_MIB(50), "a quarter of the way");
	for (uint32_t i = 4; i < 40; i++)
		mt_pace_drain_note(&drain, NUM_S(i), NUM_MIB(80), PACE_FULL);
	cr_assert_gt(drain.rate, NUM_MIB(79));
}

Test(pace, a_log_that_does_not_drain_still_lets_something_in)
{
	struct pace_drain drain = { 0 };

	for (uint32_t i = 1; i < 100; i++)
		mt_pace_drain_note(&drain, NUM_S(i), 0, PACE_FULL);
	cr_assert_eq(drain.rate, NUM_MIB(1));
	cr_assert_eq(mt_pace_write_rate(PACE_FULL, drain.rate, 0), NUM_MIB(1));
}

/* ---- writes ---- */

Test(pace, writes_are_slowed_by_degrees_behind_the_soft_limit_only)
{
	uint64_t last = UINT64_MAX;

	cr_assert_eq(mt_pace_write_rate(PACE_HURRY - 1, NUM_MIB(40), SOFT), PACE_UNLIMITED);
	for (uint32_t pressure = PACE_HURRY; pressure <= PACE_FULL; pressure++) {
		uint64_t rate = mt_pace_write_rate(pressure, NUM_MIB(40), 0);

		cr_assert_leq(rate, last);
		cr_assert(last == UINT64_MAX || last - rate <= last / 100, "by degrees");
		last = rate;
	}
}

Test(pace, writes_come_as_fast_as_the_log_drains_a_quarter_of_the_way_between_the_limits)
{
	cr_assert_float_eq((double)mt_pace_write_rate(625, 40000000, 0), 40e6, 1e5);
}

Test(pace, half_of_what_the_log_drains_is_not_slowed_down_before_half_of_the_room_has_gone)
{
	for (uint32_t pressure = 0; pressure <= 750; pressure++)
		cr_assert_geq(mt_pace_write_rate(pressure, 40000000, 0), 20000000);
}

Test(pace, the_last_half_of_the_room_is_made_to_last)
{
	cr_assert_eq(mt_pace_write_rate(875, 40000000, 0), 14000000);
	cr_assert_eq(mt_pace_write_rate(PACE_FULL, 40000000, 0), 8000000);
}

Test(pace, the_room_that_is_left_lasts_where_it_is_not_known_how_fast_the_log_drains)
{
	cr_assert_eq(mt_pace_write_rate(PACE_HURRY - 1, 0, NUM_MIB(32)), PACE_UNLIMITED);
	cr_assert_eq(mt_pace_write_rate(PACE_HURRY, 0, NUM_MIB(32)), NUM_MIB(32));
	cr_assert_eq(mt_pace_write_rate(750, 0, NUM_MIB(16)), NUM_MIB(16));
	cr_assert_eq(mt_pace_write_rate(PACE_FULL, 0, 0), NUM_MIB(1));
}

/*
 * A bulk load into an empty log that loses nothing for three seconds, and then, every three, all that was
 * there before: as where each merge has some of the oldest extent's blocks, and the last one all.
 */
Test(pace, a_first_load_never_stands_still)
{
	uint64_t used = 0, paid_ns = 0, written = 0, gap_ms = 0, gap_ms_max = 0, merge_ms = 0,
		 merged = 0;
	struct pace_drain drain = { 0 };

	for (uint64_t ms = 1; ms < 30000; ms++) {
		uint32_t pressure = mt_pace_pressure(used, SOFT, HARD);
		uint64_t rate = mt_pace_write_rate(pressure, drain.rate, HARD - used);
		uint64_t before = written;

		/* 128 MiB a second is all that they can. */
		for (uint32_t i = 0; i < 2 && paid_ns <= ms * NUM_MS(1) && used < HARD; i++) {
			used += NUM_KIB(64);
			written += NUM_KIB(64);
			paid_ns = mt_pace_pay(paid_ns, ms * NUM_MS(1), NUM_KIB(64), rate);
		}
		gap_ms = written > before ? 0 : gap_ms + 1;
		gap_ms_max = num_max(gap_ms, gap_ms_max);
		if (merge_ms == 0 && pressure > 0) {
			merge_ms = ms + 3000;
			merged = used;
		}
		if (merge_ms == ms) {
			for (; merged >= NUM_MIB(4); merged -= NUM_MIB(4), used -= NUM_MIB(4))
				mt_pace_drain_note(&drain, ms * NUM_MS(1), NUM_MIB(4),
				    mt_pace_pressure(used, SOFT, HARD));
			merge_ms = 0;
		}
	}
	cr_assert_leq(gap_ms_max, 100, "%ju ms", (uintmax_t)gap_ms_max);
	cr_assert_geq(written, NUM_MIB(250), "%ju MiB", (uintmax_t)(written / NUM_MIB(1)));
}

/* Clients that write all they can: the log settles between its limits, whatever the drain is. */
Test(pace, the_log_settles_between_its_limits)
{
	static const uint64_t drains[] = { NUM_MIB(2), NUM_MIB(20), NUM_MIB(50) };

	for (uint32_t i = 0; i < NUM_COUNT(drains); i++) {
		uint64_t used = 0, freed = 0, paid_ns = 0, ms;
		struct pace_drain drain = { 0 };

		for (ms = 1; ms < 60000; ms++) {
			uint32_t pressure = mt_pace_pressure(used, SOFT, HARD);
			uint64_t rate = mt_pace_write_rate(pressure, drain.rate, HARD - used);

			while (paid_ns <= ms * NUM_MS(1) && used < HARD) {
				used += NUM_KIB(64);
				paid_ns = mt_pace_pay(paid_ns, ms * NUM_MS(1), NUM_KIB(64), rate);
				if (rate == PACE_UNLIMITED)
					break; /* 64 MiB a second is all that they can */
			}
			freed += pressure > 0 ? drains[i] / 1000 : 0;
			if (freed >= NUM_MIB(4)) { /* an extent */
				used -= NUM_MIB(4);
				freed = 0;
				mt_pace_drain_note(&drain, ms * NUM_MS(1), NUM_MIB(4), pressure);
			}
			if (ms > 40000)
				cr_assert_lt(used, HARD, "%lu: full", (unsigned long)drains[i]);
		}
		cr_assert_gt(used, SOFT / 2);
	}
}

/* ---- a rate, kept ---- */

Test(pace, what_is_taken_is_paid_for_in_time)
{
	uint64_t paid_ns = mt_pace_pay(NUM_S(10), NUM_S(10), 1000000, 10000000);

	cr_assert_eq(paid_ns, NUM_S(10) + NUM_MS(100));
	cr_assert_eq(mt_pace_pay(paid_ns, NUM_S(10), 1000000, 10000000), paid_ns + NUM_MS(100));
}

Test(pace, what_was_not_used_is_not_kept)
{
	uint64_t paid_ns = mt_pace_pay(NUM_S(1), NUM_S(10), 1000000, 10000000);

	cr_assert_lt(NUM_S(10), paid_ns);
	cr_assert_leq(paid_ns, NUM_S(10) + NUM_MS(100));
	cr_assert_geq(paid_ns, NUM_S(10) + NUM_MS(90));
	cr_assert_lt(mt_pace_pay(0, 0, 1000, 1000000000), NUM_MS(1), "the clock's beginning");
}

Test(pace, no_more_than_a_second_is_ever_owed)
{
	uint64_t paid_ns = 0;

	for (uint32_t i = 0; i < 100; i++)
		paid_ns = mt_pace_pay(paid_ns, NUM_S(10), 1000000, 10000000);
	cr_assert_eq(paid_ns, NUM_S(11));
}

Test(pace, without_a_limit_nothing_is_to_be_paid)
{
	cr_assert_leq(mt_pace_pay(0, NUM_S(10), UINT64_MAX, PACE_UNLIMITED), NUM_S(10));
}
