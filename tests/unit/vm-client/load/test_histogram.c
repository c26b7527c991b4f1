/* SPDX-License-Identifier: Apache-2.0 */
/* test_histogram.c -- percentiles are within 1 % of the truth, at any size */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "vm-client/load/histogram.h"

static struct histogram h, other;

static void
expect_near(double percent, uint64_t truth)
{
	uint64_t got = histogram_percentile(&h, percent);

	cr_assert_geq(got, truth, "p%g: %lu below %lu", percent, got, truth);
	cr_assert_leq((double)got, 1.01 * (double)truth, "p%g: %lu, truth %lu", percent, got,
	    truth);
}

Test(histogram, empty)
{
	histogram_init(&h);
	cr_assert_eq(histogram_percentile(&h, 50), 0);
	cr_assert_eq(histogram_percentile(&h, 100), 0);
	cr_assert_eq(histogram_mean(&h), 0);
}

Test(histogram, small_values_are_exact)
{
	histogram_init(&h);
	for (uint64_t v = 1; v <= 100; v++)
		histogram_record(&h, v);
	for (unsigned p = 1; p <= 100; p++)
		cr_assert_eq(histogram_percentile(&h, p), p);
	cr_assert_eq(histogram_percentile(&h, 0), 1);
	cr_assert_float_eq(histogram_mean(&h), 50.5, 1e-9);
}

Test(histogram, error_bound)
{
	for (uint64_t unit = 1; unit < UINT64_C(1) << 40; unit *= 37) {
		histogram_init(&h);
		for (uint64_t v = 1; v <= 10000; v++)
			histogram_record(&h, v * unit);
		expect_near(50, 5000 * unit);
		expect_near(90, 9000 * unit);
		expect_near(99, 9900 * unit);
		expect_near(99.9, 9990 * unit);
		cr_assert_eq(histogram_percentile(&h, 100), 10000 * unit);
	}
}

Test(histogram, every_power_of_two)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		for (int delta = -1; delta <= 1; delta++) {
			uint64_t v = (UINT64_C(1) << bit) + (uint64_t)(int64_t)delta;

			histogram_init(&h);
			histogram_record(&h, v);
			cr_assert_eq(histogram_percentile(&h, 50), v);
			/* Below a larger maximum the bucket shows. */
			histogram_record(&h, UINT64_MAX);
			if (v > 0)
				expect_near(50, v);
		}
	}
	cr_assert_eq(histogram_percentile(&h, 100), UINT64_MAX);
}

Test(histogram, add)
{
	histogram_init(&h);
	histogram_init(&other);
	for (uint64_t v = 1; v <= 500; v++) {
		histogram_record(&h, v);
		histogram_record(&other, v + 500);
	}
	histogram_add(&h, &other);
	cr_assert_eq(h.value_count, 1000);
	cr_assert_eq(h.max, 1000);
	cr_assert_eq(h.min, 1);
	expect_near(50, 500);
	expect_near(99, 990);
}
