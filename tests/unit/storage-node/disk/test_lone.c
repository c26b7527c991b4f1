/* SPDX-License-Identifier: Apache-2.0 */
/* test_lone.c -- a slow disk seldom keeps the loop waiting, a quick one that stumbles always may */
#include "storage-node/disk/lone.h"

#include <criterion/criterion.h>

#define SLOW_NS (LONE_QUICK_NS + 1)

/* How many of @count lone writes are the thread's own where each takes @ns. */
static uint32_t
tried_of(struct lone *lone, uint32_t count, uint64_t ns)
{
	uint32_t tried = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (!lone_try(lone, 4096))
			continue;
		tried++;
		lone_took(lone, ns);
	}
	return tried;
}

Test(lone, quick_ones_are_the_threads_own)
{
	struct lone lone = { 0 };

	cr_assert_eq(tried_of(&lone, 1000, LONE_QUICK_NS), 1000);
	cr_assert(lone_try(&lone, LONE_BYTES_MAX));
	cr_assert_not(lone_try(&lone, LONE_BYTES_MAX + 1));
}

Test(lone, slow_disk_is_found_out_and_tried_again_now_and_then)
{
	struct lone lone = { 0 };

	cr_assert_eq(tried_of(&lone, LONE_SCORE_MAX + LONE_REST, SLOW_NS), LONE_SCORE_MAX);
	for (unsigned i = 0; i < 10; i++)
		cr_assert_eq(tried_of(&lone, LONE_SCORE_MAX / 2 + LONE_REST, UINT64_MAX),
		    LONE_SCORE_MAX / 2);
}

Test(lone, disk_that_became_quick_is_believed)
{
	struct lone lone = { 0 };

	(void)tried_of(&lone, LONE_SCORE_MAX + LONE_REST, SLOW_NS);
	cr_assert_eq(tried_of(&lone, 1000, 0), 1000);
	cr_assert_eq(tried_of(&lone, LONE_SCORE_MAX - 1, SLOW_NS), LONE_SCORE_MAX - 1);
	cr_assert_eq(tried_of(&lone, 1000, 0), 1000, "and forgiven again");
}

Test(lone, stumbling_less_than_half_of_the_time_is_no_slowness)
{
	struct lone lone = { 0 };

	for (unsigned i = 0; i < 10000; i++) {
		cr_assert(lone_try(&lone, 4096));
		lone_took(&lone, i % 2 == 0 ? SLOW_NS : LONE_QUICK_NS);
	}
}

Test(lone, long_one_is_the_rings_and_shortens_no_rest)
{
	struct lone lone = { 0 };

	(void)tried_of(&lone, LONE_SCORE_MAX, SLOW_NS);
	for (unsigned i = 0; i < 2 * LONE_REST; i++)
		cr_assert_not(lone_try(&lone, LONE_BYTES_MAX + 1));
	cr_assert_eq(tried_of(&lone, LONE_REST, 0), 0);
	cr_assert_eq(tried_of(&lone, 1, 0), 1);
}
