/* SPDX-License-Identifier: Apache-2.0 */
/* test_workload.c -- where requests go, how often, and that a seed repeats them */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "vm-client/load/workload.h"

#define DRAWS 200000u

static struct workload w;

static void
start(enum workload_pattern pattern, uint64_t unit_count, uint32_t read_percent,
    uint32_t discard_percent)
{
	struct workload_options options = {
		.pattern = pattern,
		.unit_count = unit_count,
		.zipf_theta = 0.99,
		.read_percent = read_percent,
		.discard_percent = discard_percent,
		.seed = 42,
	};

	workload_init(&w, &options);
}

static int
compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Draws and returns counts by unit, the largest first if @is_sorted. */
static uint32_t *
draw(uint64_t unit_count, int is_sorted)
{
	uint32_t *counts = calloc(unit_count, sizeof(*counts));

	cr_assert_not_null(counts);
	for (uint32_t i = 0; i < DRAWS; i++) {
		uint64_t unit;

		workload_next(&w, &unit);
		cr_assert_lt(unit, unit_count);
		counts[unit]++;
	}
	if (is_sorted)
		qsort(counts, unit_count, sizeof(*counts), compare_u32);
	return counts;
}

Test(workload, sequential_wraps)
{
	start(WORKLOAD_SEQUENTIAL, 5, 0, 0);
	for (uint64_t i = 0; i < 23; i++) {
		uint64_t unit;

		cr_assert_eq(workload_next(&w, &unit), WORKLOAD_WRITE);
		cr_assert_eq(unit, i % 5);
	}
}

Test(workload, random_is_uniform)
{
	uint32_t *counts;

	start(WORKLOAD_RANDOM, 100, 0, 0);
	counts = draw(100, 0);
	for (uint32_t i = 0; i < 100; i++)
		cr_assert(counts[i] > 1700 && counts[i] < 2300, "unit %u: %u", i, counts[i]);
	free(counts);
}

/* Rank 1 has 1/zeta(n) of all, rank 2 2^-theta of that: zeta(1000) is 7.73 for 0.99. */
Test(workload, zipf_is_skewed)
{
	uint32_t *counts;
	double first;

	start(WORKLOAD_ZIPF, 1000, 0, 0);
	counts = draw(1000, 1);
	first = (double)counts[0] / DRAWS;
	cr_assert(first > 0.12 && first < 0.14, "first %f", first);
	cr_assert(counts[1] > 0.45 * counts[0] && counts[1] < 0.60 * counts[0], "second %u of %u",
	    counts[1], counts[0]);
	free(counts);
}

Test(workload, zipf_of_a_large_volume)
{
	uint64_t unit;

	start(WORKLOAD_ZIPF, UINT64_C(1) << 28, 0, 0);
	/* zeta(2^28, 0.99) by the integral: about 0.5772 + 100 * (2^0.28 - 1). */
	cr_assert_float_eq(w.zeta_n, 0.5772 + 100 * (1.2142 - 1), 0.3, "zeta %f", w.zeta_n);
	for (int i = 0; i < 1000; i++) {
		workload_next(&w, &unit);
		cr_assert_lt(unit, UINT64_C(1) << 28);
	}
}

Test(workload, few_units)
{
	for (uint64_t n = 1; n <= 3; n++) {
		for (int pattern = WORKLOAD_SEQUENTIAL; pattern <= WORKLOAD_LATEST; pattern++) {
			start((enum workload_pattern)pattern, n, 0, 0);
			free(draw(n, 0));
		}
	}
}

Test(workload, shares)
{
	uint32_t counts[3] = { 0 };

	start(WORKLOAD_RANDOM, 1000, 30, 10);
	for (uint32_t i = 0; i < 100000; i++) {
		uint64_t unit;

		counts[workload_next(&w, &unit)]++;
	}
	cr_assert(counts[WORKLOAD_READ] > 29000 && counts[WORKLOAD_READ] < 31000);
	cr_assert(counts[WORKLOAD_DISCARD] > 9300 && counts[WORKLOAD_DISCARD] < 10700);
	start(WORKLOAD_RANDOM, 1000, 100, 0);
	for (uint32_t i = 0; i < 1000; i++) {
		uint64_t unit;

		cr_assert_eq(workload_next(&w, &unit), WORKLOAD_READ);
	}
}

Test(workload, rewrites_have_their_share)
{
	uint32_t counts[4] = { 0 };

	start(WORKLOAD_RANDOM, 1000, 50, 0);
	w.options.rewrite_percent = 50;
	for (uint32_t i = 0; i < 100000; i++) {
		uint64_t unit;

		counts[workload_next(&w, &unit)]++;
	}
	cr_assert(counts[WORKLOAD_REWRITE] > 49000 && counts[WORKLOAD_REWRITE] < 51000);
	cr_assert_eq(counts[WORKLOAD_WRITE], 0);
}

/* Writes go on behind the newest one, around the end; reads are of it and those before it, mostly. */
Test(workload, latest_reads_what_was_written_last)
{
	uint64_t unit, newest = 999;
	uint32_t reads = 0, near = 0, writes = 0;

	start(WORKLOAD_LATEST, 1000, 90, 0);
	for (uint32_t i = 0; i < 20000; i++) {
		if (workload_next(&w, &unit) == WORKLOAD_WRITE) {
			newest = (newest + 1) % 1000;
			cr_assert_eq(unit, newest);
			writes++;
		} else {
			cr_assert_lt(unit, 1000);
			near += (newest + 1000 - unit) % 1000 < 10;
			reads++;
		}
	}
	cr_assert_gt(writes, 1000);
	/* The first ten of 1000 ranks have 0.38 at 0.99. */
	cr_assert(near > reads * 0.35 && near < reads * 0.42, "%u of %u", near, reads);
}

Test(workload, a_seed_repeats)
{
	struct workload first;

	start(WORKLOAD_ZIPF, 12345, 20, 5);
	first = w;
	for (int i = 0; i < 1000; i++) {
		uint64_t a, b;

		cr_assert_eq(workload_next(&first, &a), workload_next(&w, &b));
		cr_assert_eq(a, b);
	}
}
