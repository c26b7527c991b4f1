/* SPDX-License-Identifier: Apache-2.0 */
/* test_clock_gap.c -- what of another's clock no delay explains */
#include <criterion/criterion.h>

#include "base/clock_gap.h"
#include "base/num.h"

Test(clock_gap, a_clock_that_may_agree_is_not_apart)
{
	cr_assert_eq(clock_gap_ms(1000, 0, 1000), 0);
	cr_assert_eq(clock_gap_ms(1000, NUM_MS(500), 1000), 0, "told at once, answered late");
	cr_assert_eq(clock_gap_ms(1000, NUM_MS(500), 1500), 0, "asked late, answered at once");
	cr_assert_eq(clock_gap_ms(1000, NUM_MS(500), 1502), 0, "parts of a millisecond");
}

Test(clock_gap, what_is_ahead_of_the_answer_is_ahead)
{
	cr_assert_eq(clock_gap_ms(1000, NUM_MS(500), 1503), 1);
	cr_assert_eq(clock_gap_ms(1000, NUM_MS(500), 6502), 5000);
}

Test(clock_gap, what_is_behind_the_question_is_behind)
{
	cr_assert_eq(clock_gap_ms(1000, NUM_S(100), 999), -1, "a slow answer hides nothing of it");
	cr_assert_eq(clock_gap_ms(6000, 0, 1000), -5000);
}

Test(clock_gap, no_clock_is_too_wrong)
{
	cr_assert_eq(clock_gap_ms(0, 0, UINT64_MAX), INT64_MAX);
	cr_assert_eq(clock_gap_ms(UINT64_MAX, 0, 0), -INT64_MAX);
	cr_assert_eq(clock_gap_ms(UINT64_MAX, NUM_S(1), UINT64_MAX), 0);
	cr_assert_eq(clock_gap_ms(0, UINT64_MAX, 0), 0);
}
