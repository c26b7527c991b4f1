/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/num.h"
#include "cleave/level.h"

TestSuite(level, .timeout = 60);

static struct wire_level level;

Test(level, the_highest_is_offered_first)
{
	wire_level_init(&level, 0);
	cr_assert_eq(wire_level_offer(&level, NUM_S(1)), CLEAVE_LEVEL_MAX);
	cr_assert_eq(wire_level_offer(&level, NUM_S(2)), CLEAVE_LEVEL_MAX);
}

Test(level, a_peer_that_refuses_it_is_offered_the_lowest_for_a_minute)
{
	wire_level_init(&level, 0);
	(void)wire_level_offer(&level, NUM_S(1));
	cr_assert(wire_level_refused(&level, -EPROTONOSUPPORT, NUM_S(1)));
	cr_assert_eq(wire_level_offer(&level, NUM_S(1)), CLEAVE_LEVEL_MIN);
	cr_assert_eq(wire_level_offer(&level, NUM_S(61) - 1), CLEAVE_LEVEL_MIN);
	cr_assert_eq(wire_level_offer(&level, NUM_S(61)), CLEAVE_LEVEL_MAX);
}

/* The peer was up, and has gone: another release may come back before the minute is over. */
Test(level, a_peer_that_was_forgotten_is_offered_the_highest)
{
	wire_level_init(&level, 0);
	(void)wire_level_offer(&level, NUM_S(1));
	cr_assert(wire_level_refused(&level, -EPROTONOSUPPORT, NUM_S(1)));
	cr_assert_eq(wire_level_offer(&level, NUM_S(2)), CLEAVE_LEVEL_MIN);
	wire_level_forget(&level);
	cr_assert_eq(wire_level_offer(&level, NUM_S(3)), CLEAVE_LEVEL_MAX);
}

Test(level, who_refuses_the_lowest_speaks_nothing_that_we_do)
{
	wire_level_init(&level, 0);
	(void)wire_level_offer(&level, NUM_S(1));
	cr_assert(wire_level_refused(&level, -EPROTONOSUPPORT, NUM_S(1)));
	(void)wire_level_offer(&level, NUM_S(1));
	cr_assert_not(wire_level_refused(&level, -EPROTONOSUPPORT, NUM_S(1)));
}

Test(level, other_refusals_say_nothing_of_levels)
{
	wire_level_init(&level, 0);
	(void)wire_level_offer(&level, NUM_S(1));
	cr_assert_not(wire_level_refused(&level, -EBUSY, NUM_S(1)));
	cr_assert_not(wire_level_refused(&level, -ECONNRESET, NUM_S(1)));
	cr_assert_eq(wire_level_offer(&level, NUM_S(1)), CLEAVE_LEVEL_MAX);
}

Test(level, an_old_release_offers_the_lowest_alone)
{
	wire_level_init(&level, CLEAVE_LEVEL_MIN);
	cr_assert_eq(wire_level_offer(&level, NUM_S(1)), CLEAVE_LEVEL_MIN);
	cr_assert_not(wire_level_refused(&level, -EPROTONOSUPPORT, NUM_S(1)));
}

Test(level, an_answer_above_the_offer_is_none)
{
	wire_level_init(&level, CLEAVE_LEVEL_MIN);
	(void)wire_level_offer(&level, NUM_S(1));
	cr_assert_eq(wire_level_agreed(&level, CLEAVE_LEVEL_MIN), CLEAVE_LEVEL_MIN);
	cr_assert_eq(wire_level_agreed(&level, CLEAVE_LEVEL_MIN + 1), 0);
}

Test(level, the_answer_is_the_lower_of_the_two)
{
	cr_assert_eq(wire_level_answer(CLEAVE_LEVEL_MIN, 0), CLEAVE_LEVEL_MIN);
	cr_assert_eq(wire_level_answer(CLEAVE_LEVEL_MAX, 0), CLEAVE_LEVEL_MAX);
	cr_assert_eq(wire_level_answer(255, 0), CLEAVE_LEVEL_MAX);
	cr_assert_eq(wire_level_answer(255, CLEAVE_LEVEL_MIN), CLEAVE_LEVEL_MIN);
}
