/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdint.h>

#include "base/num.h"
#include "base/search.h"

#define VALUES_MAX 33u

/* As found by looking at one after the other. */
static uint32_t
walk(const uint32_t *values, uint32_t count, uint32_t wanted, uint32_t also_equal)
{
	uint32_t at = 0;

	while (at < count && (values[at] < wanted || (also_equal && values[at] == wanted)))
		at++;
	return at;
}

Test(search, first_not_before_and_first_behind_are_found_at_every_size)
{
	uint32_t values[VALUES_MAX], at;

	for (uint32_t count = 0; count <= VALUES_MAX; count++) {
		/* 1 1 1 3 3 3 5 ...: gaps, and equal ones */
		for (uint32_t i = 0; i < count; i++)
			values[i] = 2 * (i / 3) + 1;
		for (uint32_t wanted = 0; wanted <= VALUES_MAX; wanted++) {
			SEARCH_FIRST(at, count, values[at] < wanted);
			cr_assert_eq(at, walk(values, count, wanted, 0), "%u of %u", wanted, count);
			SEARCH_FIRST(at, count, values[at] <= wanted);
			cr_assert_eq(at, walk(values, count, wanted, 1), "%u of %u", wanted, count);
		}
	}
}

Test(search, nothing_is_asked_of_an_empty_array)
{
	const uint32_t *values = NULL;
	uint32_t at = 7;

	SEARCH_FIRST(at, 0, values[at] < 1);
	cr_assert_eq(at, 0);
}

Test(search, the_greatest_count_neither_overflows_nor_takes_long)
{
	uint32_t at, asked_count = 0;

	SEARCH_FIRST(at, UINT32_MAX, (asked_count++, at < UINT32_MAX - 1));
	cr_assert_eq(at, UINT32_MAX - 1);
	cr_assert_leq(asked_count, 32);
	SEARCH_FIRST(at, UINT32_MAX, at < UINT32_MAX);
	cr_assert_eq(at, UINT32_MAX);
}

Test(search, one_stands_in_a_branch_without_braces)
{
	const uint32_t values[] = { 1, 2 };
	uint32_t at = 9;

	if (NUM_COUNT(values) == 0)
		SEARCH_FIRST(at, 1, values[at] < 2);
	else
		SEARCH_FIRST(at, NUM_COUNT(values), values[at] < 2);
	cr_assert_eq(at, 1);
}
