/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_rates.c -- what clients did lately, of samples that come when looks are made */
#include <criterion/criterion.h>

#include "base/num.h"
#include "middletier/health/client_rates.h"

static struct mt_client_rates rates;

/* A look at @at_ms: @count reads since the start, and twice as many writes. */
static void
note(uint64_t at_ms, uint64_t count)
{
	const struct mt_client_sample sample = { .at_ns = NUM_MS(at_ms),
		.reads = count,
		.read_bytes = 4096 * count,
		.writes = 2 * count,
		.write_bytes = 8192 * count };

	mt_client_rates_note(&rates, &sample);
}

static struct mt_client_sample
grown(void)
{
	struct mt_client_sample sample;

	mt_client_rates_grown(&rates, &sample);
	return sample;
}

Test(client_rates, two_looks_are_needed)
{
	cr_assert_eq(grown().at_ns, 0);
	note(1000, 50);
	cr_assert_eq(grown().at_ns, 0, "what was before the first look is no rate");
	note(2000, 60);
	cr_assert_eq(grown().at_ns, NUM_S(1));
	cr_assert_eq(grown().reads, 10);
	cr_assert_eq(grown().read_bytes, 40960);
	cr_assert_eq(grown().writes, 20);
	cr_assert_eq(grown().write_bytes, 81920);
}

Test(client_rates, ten_seconds_count_and_no_more)
{
	for (uint64_t s = 1; s <= 100; s++)
		note(1000 * s, s <= 90 ? 1000000 * s : 90000000 + s);
	cr_assert_eq(grown().at_ns, NUM_S(10));
	cr_assert_eq(grown().reads, 100);
}

Test(client_rates, looks_that_are_close_are_one)
{
	for (uint64_t i = 0; i <= 1000; i++)
		note(1000 + 100 * i, i);
	cr_assert_geq(grown().at_ns, NUM_S(9));
	cr_assert_leq(grown().at_ns, NUM_S(10));
	cr_assert_eq(grown().reads, grown().at_ns / NUM_MS(100));
}

Test(client_rates, looks_that_are_far_apart_are_compared_all_the_same)
{
	note(1000, 5);
	note(61000, 605);
	cr_assert_eq(grown().at_ns, NUM_S(60));
	cr_assert_eq(grown().reads, 600);
	note(121000, 605);
	cr_assert_eq(grown().reads, 0, "the two newest");
}
