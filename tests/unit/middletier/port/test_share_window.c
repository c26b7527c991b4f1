/* SPDX-License-Identifier: Apache-2.0 */
/* test_share_window.c -- how many requests may be under way: phases of a probe, and what is made of numbers */
#include <criterion/criterion.h>

#include "base/num.h"
#include "middletier/port/share_window.h"

static struct share_window window;
static struct share_seen seen;

static void
setup(void)
{
	mt_share_window_init(&window);
	seen = (struct share_seen){ .now_ns = NUM_S(1) };
	mt_share_window_restart(&window, &seen);
}

TestSuite(share_window, .init = setup);

/* In each of @count ticks @ended requests end, while @under_way are. */
static void
tick(uint32_t count, uint32_t under_way, uint32_t held, uint64_t ended)
{
	for (uint32_t i = 0; i < count; i++) {
		seen.now_ns += SHARE_TICK_NS;
		seen.done += ended;
		seen.area_ns += under_way * SHARE_TICK_NS;
		seen.under_way = under_way;
		seen.held = held;
		mt_share_window_tick(&window, &seen);
	}
}

/* A probe, by which each takes @ticks. */
static void
probe(uint32_t ticks)
{
	cr_assert_eq(window.phase, SHARE_OPEN);
	while (window.phase == SHARE_OPEN)
		tick(1, 100, 100, 100);
	cr_assert_eq(window.phase, SHARE_DRAINING);
	cr_assert_eq(mt_share_window_max(&window), SHARE_WINDOW_MIN);
	tick(1, SHARE_WINDOW_MIN, 192, 92);
	cr_assert_eq(window.phase, SHARE_MEASURING);
	cr_assert_eq(mt_share_window_max(&window), SHARE_WINDOW_MIN);
	for (uint32_t i = 0; window.phase == SHARE_MEASURING; i++)
		tick(1, SHARE_WINDOW_MIN, 192, i % ticks == ticks - 1 ? SHARE_WINDOW_MIN : 0);
}

static void
near(uint32_t value, uint32_t expected)
{
	cr_assert(value * 100 >= expected * 88 && value * 100 <= expected * 112, "%u, not %u",
	    value, expected);
}

Test(share_window, nobody_is_held_before_anything_is_known)
{
	cr_assert_eq(mt_share_window_max(&window), SHARE_WINDOW_ALL);
	tick(1, 3, 0, 100);
	cr_assert_eq(mt_share_window_max(&window), SHARE_WINDOW_ALL);
}

Test(share_window, few_requests_are_no_reason_to_probe)
{
	tick(3 * SHARE_PROBE_TICKS, SHARE_WINDOW_MIN, 0, 4);
	cr_assert_eq(window.phase, SHARE_OPEN);
	cr_assert_eq(window.max, SHARE_WINDOW_ALL);
	tick(1, SHARE_WINDOW_MIN, 1, 4);
	cr_assert_eq(window.phase, SHARE_DRAINING, "one waits");
}

/* 100 end in a tick, and each takes two: 200 are at work, twice as many may be under way. */
/* 100 end in a tick, and each takes two: 200 are at work, twice as many may be under way. */
Test(share_window, as_many_as_are_at_work_twice)
{
	probe(2);
	window.wider = 0;
	tick(3 * SHARE_SPEED_TICKS, 100, 0, 100);
	near(window.max, SHARE_WINDOW_FACTOR * 200);
	for (uint32_t i = 0; i < 3; i++)
		probe(1);
	tick(SHARE_PROBE_TICKS - 1, 100, 0, 100);
	near(window.max, SHARE_WINDOW_FACTOR * 100);
}

/* Some probes are longer, by what disturbs; when all are longer than the one that is known, that is forgotten. */
Test(share_window, the_least_of_some_probes_counts)
{
	probe(1);
	for (uint32_t i = 0; i < SHARE_BASES - 1; i++)
		probe(4);
	tick(SHARE_PROBE_TICKS - 1, 100, 0, 100);
	near(window.max, SHARE_WINDOW_FACTOR * 100);
	probe(4);
	tick(SHARE_PROBE_TICKS - 1, 100, 0, 100);
	near(window.max, SHARE_WINDOW_FACTOR * 400);
}

Test(share_window, it_follows_the_speed)
{
	probe(1);
	tick(SHARE_PROBE_TICKS / 2, 100, 0, 100);
	tick(SHARE_SPEED_TICKS / 2, 100, 0, 20);
	cr_assert_lt(window.max, SHARE_WINDOW_FACTOR * 90);
	cr_assert_gt(window.max, SHARE_WINDOW_FACTOR * 20);
}

/* Wider while it does no harm, and nobody is held any more then; narrower while somebody is short. */
Test(share_window, it_is_as_wide_as_does_no_harm)
{
	uint32_t wide;

	probe(1);
	tick(60, 200, 100, 100);
	wide = window.wider;
	cr_assert_geq(wide, 60);
	cr_assert_leq(wide, 300);
	tick(1, 300, 0, 100);
	cr_assert_eq(window.wider, wide, "nobody was held");
	for (uint32_t i = 0; i < 12; i++) {
		mt_share_window_short(&window, false);
		tick(1, 200, 100, 100);
	}
	cr_assert_leq(window.wider, wide / 8);
	for (uint32_t i = 0; i < 12; i++) {
		mt_share_window_short(&window, false);
		tick(1, 200, 100, 100);
	}
	cr_assert_eq(window.wider, 0);
	cr_assert_eq(mt_share_window_max(&window), window.max);
}

Test(share_window, who_is_short_while_a_probe_holds_all_says_nothing)
{
	probe(1);
	tick(SHARE_PROBE_TICKS / 2, 100, 100, 100);
	while (window.phase == SHARE_OPEN)
		tick(1, 100, 100, 100);
	mt_share_window_short(&window, false);
	cr_assert(!window.is_short);
}

Test(share_window, a_long_probe_is_not_soon_followed)
{
	uint32_t ticks = 0;

	probe(10);
	for (; window.phase == SHARE_OPEN; ticks++)
		tick(1, 100, 100, 100);
	cr_assert_geq(ticks, 40 * SHARE_PROBE_APART);
	cr_assert_leq(ticks, 45 * SHARE_PROBE_APART);
}

/* Twice the time that 400 take, of which 100 end in a tick, and one. */
Test(share_window, a_moment_is_longer_than_requests_take)
{
	cr_assert_eq(mt_share_window_moment_ns(&window), 0, "nothing is known");
	probe(2);
	tick(3 * SHARE_SPEED_TICKS, 100, 0, 100);
	window.wider = 0;
	near((uint32_t)(mt_share_window_moment_ns(&window) / SHARE_TICK_NS), 9);
}

/* Clients that want little are not a slow port. */
Test(share_window, few_requests_say_nothing_of_the_speed)
{
	uint32_t before;

	probe(1);
	tick(4, 100, 100, 100);
	before = window.max;
	tick(3 * SHARE_PROBE_TICKS, SHARE_WINDOW_MIN, 0, 1);
	cr_assert_eq(window.max, before);
}

Test(share_window, it_is_never_less_than_a_probe_has)
{
	probe(1);
	tick(SHARE_PROBE_TICKS / 2, 100, 100, 0);
	tick(SHARE_PROBE_TICKS / 2 - 5, 100, 100, 1);
	cr_assert_geq(mt_share_window_max(&window), SHARE_WINDOW_MIN);
	cr_assert_leq(window.max, 10 * SHARE_WINDOW_MIN);
}

Test(share_window, a_probe_that_does_not_end_is_given_up)
{
	tick(1, 100, 100, 1);
	cr_assert_eq(window.phase, SHARE_DRAINING);
	tick(SHARE_PROBE_TICKS, 100, 100, 0);
	cr_assert_eq(window.phase, SHARE_OPEN, "nothing drains");
	cr_assert_eq(window.max, SHARE_WINDOW_ALL);
	while (window.phase == SHARE_OPEN)
		tick(1, 100, 100, 1);
	tick(1, SHARE_WINDOW_MIN, 100, 1);
	cr_assert_eq(window.phase, SHARE_MEASURING);
	tick(SHARE_PROBE_TICKS, SHARE_WINDOW_MIN, 100, 0);
	cr_assert_eq(window.phase, SHARE_OPEN, "nothing ends");
	cr_assert_eq(window.max, SHARE_WINDOW_ALL, "and nothing is known");
}

Test(share_window, what_is_known_stays_with_a_restart)
{
	uint32_t before;

	probe(1);
	tick(4, 100, 100, 100);
	before = window.max;
	seen.done += 100000;
	seen.now_ns += NUM_S(100);
	mt_share_window_restart(&window, &seen);
	cr_assert_eq(window.max, before);
	tick(1, 100, 100, 100);
	cr_assert_eq(window.phase, SHARE_DRAINING, "it is looked at anew");
	near(window.max, before);
}

/* A minimum that is owed takes away what max has beyond the least, and that comes back by one a tick. */
Test(share_window, it_is_narrower_for_a_minimum_that_is_owed)
{
	uint32_t max, narrower;

	probe(2);
	tick(2, 100, 0, 100);
	window.wider = 0;
	max = window.max;
	mt_share_window_short(&window, true);
	tick(1, 100, 100, 100);
	cr_assert_eq(window.narrower, 1 + max / SHARE_OWED_PARTS);
	cr_assert_lt(mt_share_window_max(&window), max);
	for (uint32_t i = 0; i < 20; i++) {
		mt_share_window_short(&window, true);
		tick(1, 100, 100, 100);
	}
	cr_assert_eq(mt_share_window_max(&window), SHARE_WINDOW_MIN, "and no narrower");
	narrower = window.narrower;
	tick(3, 100, 100, 100);
	cr_assert_eq(window.narrower, narrower - 3);
	mt_share_window_short(&window, false);
	tick(1, 100, 100, 100);
	cr_assert_eq(window.wider, 0, "a volume that is short of others is no reason");
}
