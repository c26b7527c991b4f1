/* SPDX-License-Identifier: Apache-2.0 */
/* test_inline_write.c -- a slow disk seldom keeps the loop waiting, a quick one that stumbles always may */
#include "storage-node/disk/inline_write.h"

#include <criterion/criterion.h>

#define SLOW_NS (INLINE_WRITE_QUICK_NS + 1)

/* How many of @count lone writes are the thread's own where each takes @ns. */
static uint32_t
tried_of(struct inline_write *policy, uint32_t count, uint64_t ns)
{
	uint32_t tried = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (!inline_write_try(policy, 4096))
			continue;
		tried++;
		inline_write_took(policy, ns);
	}
	return tried;
}

Test(inline_write, quick_ones_are_the_threads_own)
{
	struct inline_write policy = { 0 };

	cr_assert_eq(tried_of(&policy, 1000, INLINE_WRITE_QUICK_NS), 1000);
	cr_assert(inline_write_try(&policy, INLINE_WRITE_BYTES_MAX));
	cr_assert_not(inline_write_try(&policy, INLINE_WRITE_BYTES_MAX + 1));
}

Test(inline_write, slow_disk_is_found_out_and_tried_again_now_and_then)
{
	struct inline_write policy = { 0 };

	cr_assert_eq(tried_of(&policy, INLINE_WRITE_SCORE_MAX + INLINE_WRITE_REST, SLOW_NS),
	    INLINE_WRITE_SCORE_MAX);
	for (unsigned i = 0; i < 10; i++)
		cr_assert_eq(tried_of(&policy, INLINE_WRITE_SCORE_MAX / 2 + INLINE_WRITE_REST,
				 UINT64_MAX),
		    INLINE_WRITE_SCORE_MAX / 2);
}

Test(inline_write, disk_that_became_quick_is_believed)
{
	struct inline_write policy = { 0 };

	(void)tried_of(&policy, INLINE_WRITE_SCORE_MAX + INLINE_WRITE_REST, SLOW_NS);
	cr_assert_eq(tried_of(&policy, 1000, 0), 1000);
	cr_assert_eq(tried_of(&policy, INLINE_WRITE_SCORE_MAX - 1, SLOW_NS),
	    INLINE_WRITE_SCORE_MAX - 1);
	cr_assert_eq(tried_of(&policy, 1000, 0), 1000, "and forgiven again");
}

Test(inline_write, stumbling_less_than_half_of_the_time_is_no_slowness)
{
	struct inline_write policy = { 0 };

	for (unsigned i = 0; i < 10000; i++) {
		cr_assert(inline_write_try(&policy, 4096));
		inline_write_took(&policy, i % 2 == 0 ? SLOW_NS : INLINE_WRITE_QUICK_NS);
	}
}

Test(inline_write, long_one_is_the_rings_and_shortens_no_rest)
{
	struct inline_write policy = { 0 };

	(void)tried_of(&policy, INLINE_WRITE_SCORE_MAX, SLOW_NS);
	for (unsigned i = 0; i < 2 * INLINE_WRITE_REST; i++)
		cr_assert_not(inline_write_try(&policy, INLINE_WRITE_BYTES_MAX + 1));
	cr_assert_eq(tried_of(&policy, INLINE_WRITE_REST, 0), 0);
	cr_assert_eq(tried_of(&policy, 1, 0), 1);
}
