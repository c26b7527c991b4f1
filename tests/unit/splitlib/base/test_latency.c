/* SPDX-License-Identifier: Apache-2.0 */
/* test_latency.c -- times in fixed buckets: each edge, percentiles, and the text for monitors */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/latency.h"
#include "base/num.h"

/* The definition, without the table. */
static uint32_t
bucket_by_search(uint64_t ns)
{
	uint32_t i = 0;

	while (i < LATENCY_BOUNDS && ns > latency_bounds_ns[i])
		i++;
	return i;
}

Test(latency, bounds_are_1_2_5_from_10_us_to_10_s)
{
	uint64_t unit = NUM_US(10);

	for (uint32_t i = 0; i < LATENCY_BOUNDS; i++) {
		static const uint32_t factors[] = { 1, 2, 5 };

		cr_assert_eq(latency_bounds_ns[i], factors[i % 3] * unit, "bound %u", i);
		unit *= i % 3 == 2 ? 10 : 1;
	}
	cr_assert_eq(latency_bounds_ns[LATENCY_BOUNDS - 1], NUM_S(10));
}

Test(latency, a_bound_is_in_its_bucket_and_a_nanosecond_more_in_the_next)
{
	cr_assert_eq(latency_bucket(0), 0);
	cr_assert_eq(latency_bucket(1), 0);
	for (uint32_t i = 0; i < LATENCY_BOUNDS; i++) {
		cr_assert_eq(latency_bucket(latency_bounds_ns[i] - 1), i, "below bound %u", i);
		cr_assert_eq(latency_bucket(latency_bounds_ns[i]), i, "bound %u", i);
		cr_assert_eq(latency_bucket(latency_bounds_ns[i] + 1), i + 1, "above %u", i);
	}
	cr_assert_eq(latency_bucket(UINT64_MAX), LATENCY_BOUNDS);
}

Test(latency, the_table_is_right_at_each_power_of_two)
{
	for (uint32_t bits = 0; bits < 64; bits++) {
		uint64_t ns = UINT64_C(1) << bits;

		cr_assert_eq(latency_bucket(ns - 1), bucket_by_search(ns - 1), "2^%u - 1", bits);
		cr_assert_eq(latency_bucket(ns), bucket_by_search(ns), "2^%u", bits);
		cr_assert_eq(latency_bucket(ns + ns / 2), bucket_by_search(ns + ns / 2));
	}
}

Test(latency, what_was_counted_is_summed_and_told_apart)
{
	struct latency a = { .sum_ns = 0 }, b = { .sum_ns = 0 }, sum = { .sum_ns = 0 }, since;

	latency_count(&a, 0);
	latency_count(&a, NUM_US(15));
	latency_count(&b, NUM_S(100));
	latency_read(&sum, &a);
	latency_read(&sum, &b);
	cr_assert_eq(latency_total(&sum), 3);
	cr_assert_eq(sum.sum_ns, NUM_US(15) + NUM_S(100));
	cr_assert(sum.counts[0] == 1 && sum.counts[1] == 1 && sum.counts[LATENCY_BOUNDS] == 1);
	since = latency_since(&sum, &a);
	cr_assert_eq(memcmp(&since, &b, sizeof(since)), 0);
	cr_assert_eq(latency_total(&a), 2, "it is read, not moved");
}

Test(latency, percentiles_lie_within_their_bucket)
{
	struct latency latency = { .sum_ns = 0 };

	cr_assert_eq(latency_quantile_ns(&latency, 50), 0, "nothing was counted");
	for (uint32_t i = 0; i < 98; i++)
		latency_count(&latency, NUM_US(150)); /* above 100 us, up to 200 us */
	latency_count(&latency, NUM_MS(3));
	latency_count(&latency, NUM_S(60));
	cr_assert_eq(latency_quantile_ns(&latency, 1), NUM_US(100) + NUM_US(100) / 98);
	cr_assert_eq(latency_quantile_ns(&latency, 98), NUM_US(200));
	cr_assert_eq(latency_quantile_ns(&latency, 99), NUM_MS(5));
	cr_assert_eq(latency_quantile_ns(&latency, 100), NUM_S(10),
	    "the last bound is all it knows");
}

/* ---- text ---- */

static char *
text_of(const struct metric_object *objects, size_t count)
{
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	cr_assert_not_null(out);
	latency_print(out, "x_latency", "how long", objects, count);
	cr_assert_eq(fclose(out), 0);
	return text;
}

Test(latency, text_has_cumulative_buckets_a_sum_in_seconds_and_a_count)
{
	struct latency latency = { .sum_ns = 0 };
	struct metric_object object = { .values = &latency };
	char *text;

	latency_count(&latency, NUM_US(10));
	latency_count(&latency, NUM_MS(1500));
	latency_count(&latency, NUM_S(11));
	metric_label(&object, "op", "write");
	text = text_of(&object, 1);
	cr_assert_eq(strncmp(text,
			 "# TYPE x_latency_seconds histogram\n"
			 "# UNIT x_latency_seconds seconds\n"
			 "# HELP x_latency_seconds how long\n"
			 "x_latency_seconds_bucket{op=\"write\",le=\"1e-05\"} 1\n"
			 "x_latency_seconds_bucket{op=\"write\",le=\"2e-05\"} 1\n",
			 200),
	    0, "%s", text);
	cr_assert_not_null(strstr(text, "{op=\"write\",le=\"1.0\"} 1\n"));
	cr_assert_not_null(strstr(text,
	    "{op=\"write\",le=\"2.0\"} 2\n"
	    "x_latency_seconds_bucket{op=\"write\",le=\"5.0\"} 2\n"
	    "x_latency_seconds_bucket{op=\"write\",le=\"10.0\"} 2\n"
	    "x_latency_seconds_bucket{op=\"write\",le=\"+Inf\"} 3\n"
	    "x_latency_seconds_count{op=\"write\"} 3\n"
	    "x_latency_seconds_sum{op=\"write\"} 12.500010000\n"));
	free(text);
}

Test(latency, text_needs_no_label_and_nothing_is_written_for_no_object)
{
	const struct latency latency = { .sum_ns = 5 };
	struct metric_object object = { .values = &latency };
	char *text = text_of(&object, 1);

	cr_assert_not_null(strstr(text, "\nx_latency_seconds_bucket{le=\"+Inf\"} 0\n"));
	cr_assert_not_null(
	    strstr(text, "\nx_latency_seconds_count 0\nx_latency_seconds_sum 0.000000005\n"));
	free(text);
	text = text_of(NULL, 0);
	cr_assert_str_eq(text, "");
	free(text);
}
