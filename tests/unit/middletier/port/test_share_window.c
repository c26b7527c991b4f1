/* SPDX-License-Identifier: Apache-2.0 */
/* test_share_window.c -- a model of a port, busy or merely far from its disks: how many requests it has under way */
#include <criterion/criterion.h>

#include "base/num.h"
#include "base/random.h"
#include "middletier/port/share_window.h"

#define ROUND (2 * SHARE_PHASE_TICKS * SHARE_WINDOW_ROUNDS) /* ticks of a decision */
#define HERE 400u                                           /* requests at the port, all the time */

static struct share_window window;
static uint64_t done, dice[4];

/* For so many ticks a port ends @a_tick at most, and no more than those under way each @latency_ticks; noise: percent. */
static void
run(uint32_t ticks, uint64_t a_tick, uint32_t latency_ticks, uint32_t noise)
{
	for (uint32_t i = 0; i < ticks; i++) {
		uint64_t ended = mt_share_window_max(&window, HERE) / latency_ticks;

		ended = num_min(ended, a_tick);
		ended = ended * (100 - noise + random_below(dice, 2 * noise + 1)) / 100;
		done += ended;
		mt_share_window_tick(&window, done);
	}
}

static void
setup(void)
{
	mt_share_window_init(&window);
	done = 0;
	random_seed(dice, 7);
}

TestSuite(share_window, .init = setup);

Test(share_window, nobody_waits_at_first)
{
	cr_assert_eq(mt_share_window_max(&window, HERE), HERE);
	cr_assert_eq(mt_share_window_max(&window, 3), SHARE_WINDOW_MIN);
}

Test(share_window, a_busy_port_has_half_of_them_under_way)
{
	run(20 * ROUND, 100, 1, 0);
	cr_assert_eq(window.part, SHARE_PART_MIN);
	cr_assert_leq(mt_share_window_max(&window, HERE), HERE * 65 / 100);
	run(20 * ROUND, 100, 1, 20);
	cr_assert_leq(window.part, 70, "whatever its noise: %u", window.part);
}

Test(share_window, a_port_that_waits_for_disks_has_all_of_them_under_way)
{
	run(40 * ROUND, UINT64_MAX, 4, 0);
	cr_assert_eq(window.part, SHARE_PART_MAX);
	window.part = SHARE_PART_MIN;
	run(20 * ROUND, UINT64_MAX, 4, 0);
	cr_assert_eq(window.part, SHARE_PART_MAX, "it rises again: %u", window.part);
}

/* Half as many would be too few: it ends where the port is just busy, and loses what it tries. */
Test(share_window, it_stops_where_fewer_would_cost)
{
	uint64_t before;

	run(40 * ROUND, HERE * 8 / 10, 1, 0);
	cr_assert(window.part >= 60 && window.part <= 90, "%u", window.part);
	before = done;
	run(12 * ROUND, HERE * 8 / 10, 1, 0);
	cr_assert_geq(done - before, 12 * ROUND * HERE * 8 / 10 * 85 / 100);
}

Test(share_window, what_was_counted_is_forgotten_with_a_restart)
{
	run(ROUND - 1, 100, 1, 0);
	mt_share_window_restart(&window, done + 100000);
	done += 100000;
	run(ROUND - 1, 100, 1, 0);
	cr_assert_eq(window.part, SHARE_PART_MAX, "no decision was due");
	run(1, 100, 1, 0);
	cr_assert_eq(window.part, SHARE_PART_MAX - SHARE_PART_FALL);
}

Test(share_window, a_port_where_nothing_ends_is_no_reason)
{
	run(5 * ROUND, 0, 1, 0);
	cr_assert_eq(window.part, SHARE_PART_MAX);
}
