/* SPDX-License-Identifier: Apache-2.0 */
/* test_rates.c -- what was answered, by volume: rows, who gives way, who is told as busy */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "middletier/common/alloc.h"
#include "middletier/common/port.h"
#include "middletier/session/rates.h"

static struct mt_port port;

static void
setup(void)
{
	port = (struct mt_port){ 0 };
	mt_rates_init(&port);
}

static void
teardown(void)
{
	mt_rates_fini(&port);
}

TestSuite(rates, .init = setup, .fini = teardown);

/* The row of @name as it is told at @now_ns; a row of zeros where it is not. */
static struct mt_rate
told(const char *name, uint64_t now_ns)
{
	struct mt_rate found = { 0 };
	uint32_t count;
	struct mt_rate *rates = mt_rates_take(&port, now_ns, MT_RATES_TOLD_MAX, &count);

	cr_assert_not_null(rates);
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(rates[i].name, name) == 0)
			found = rates[i];
	}
	mt_free(rates);
	return found;
}

Test(rates, requests_are_counted_by_volume_and_op)
{
	struct mt_rate *v = mt_rate_hold(&port, "v", 1), *w = mt_rate_hold(&port, "w", 1);
	struct mt_rate row;

	mt_rate_add(v, MT_RATE_WRITE, 100, 40, 4096, 0);
	mt_rate_add(v, MT_RATE_WRITE, 200, 60, 4096, -EIO);
	mt_rate_add(w, MT_RATE_READ, 200, 5, 512, 0);
	row = told("v", 300);
	cr_assert_eq(row.counts[MT_RATE_WRITE].requests, 2);
	cr_assert_eq(row.counts[MT_RATE_WRITE].errors, 1);
	cr_assert_eq(row.counts[MT_RATE_WRITE].bytes, 4096);
	cr_assert_eq(row.counts[MT_RATE_WRITE].took_ns, 100);
	cr_assert_eq(row.counts[MT_RATE_READ].requests, 0);
	cr_assert_eq(told("w", 300).counts[MT_RATE_READ].bytes, 512);
}

Test(rates, reads_at_nodes_are_counted_apart_and_make_a_volume_busy)
{
	struct mt_rate *v = mt_rate_hold(&port, "v", 1);
	struct mt_rate sum = { .direct_reads = 1 };
	struct mt_rate row;

	mt_rate_add(v, MT_RATE_READ, 100, 40, 4096, 0);
	mt_rate_add_direct(v, 200, 7, 28672);
	mt_rate_add_direct(v, 300, 0, 0);
	mt_rate_add_direct(NULL, 300, 1, 1);
	row = told("v", 400);
	cr_assert_eq(row.direct_reads, 7);
	cr_assert_eq(row.direct_bytes, 28672);
	cr_assert_eq(row.counts[MT_RATE_READ].requests, 1);
	cr_assert_eq(mt_rate_busy(v, 400), 8);
	mt_rate_sum(&sum, &row);
	cr_assert_eq(sum.direct_reads, 8);
}

Test(rates, sessions_of_a_name_share_a_row_that_outlives_them)
{
	struct mt_rate *first = mt_rate_hold(&port, "v", 1), *second = mt_rate_hold(&port, "v", 2);

	cr_assert_eq(first, second);
	mt_rate_add(first, MT_RATE_READ, 3, 1, 1, 0);
	mt_rate_drop(first);
	mt_rate_drop(second);
	cr_assert_eq(mt_rate_hold(&port, "v", 4), first);
	cr_assert_eq(told("v", 5).counts[MT_RATE_READ].requests, 1);
	cr_assert_eq(first->session_count, 1);
}

static void
hold_all(bool must_drop)
{
	char name[32];

	for (uint32_t i = 0; i < MT_RATES_MAX; i++) {
		struct mt_rate *row;

		(void)snprintf(name, sizeof(name), "v%u", i);
		row = mt_rate_hold(&port, name, i + 1);
		mt_rate_add(row, MT_RATE_READ, i + 1, 1, 1, 0);
		if (must_drop)
			mt_rate_drop(row);
	}
}

Test(rates, the_row_used_least_recently_gives_way_and_is_counted_with_others)
{
	struct mt_rate *late;

	hold_all(true);
	late = mt_rate_hold(&port, "late", MT_RATES_MAX + 1);
	cr_assert_str_eq(late->name, "late");
	cr_assert_eq(late->counts[MT_RATE_READ].requests, 0);
	cr_assert_eq(mt_rate_hold(&port, "v1", MT_RATES_MAX + 2)->counts[MT_RATE_READ].requests, 1);
	cr_assert_eq(mt_rate_hold(&port, "v0", MT_RATES_MAX + 3)->counts[MT_RATE_READ].requests, 0,
	    "its row was the oldest: it begins anew");
}

Test(rates, a_row_that_a_session_holds_stays)
{
	struct mt_rate *late;

	hold_all(false);
	late = mt_rate_hold(&port, "late", MT_RATES_MAX + 1);
	cr_assert_str_eq(late->name, "", "it is counted with others");
	mt_rate_add(late, MT_RATE_WRITE, MT_RATES_MAX + 2, 1, 7, 0);
	cr_assert_eq(told("", MT_RATES_MAX + 2).counts[MT_RATE_WRITE].bytes, 7);
	mt_rate_drop(late);
}

Test(rates, the_busiest_of_the_last_minute_are_told_first)
{
	struct mt_rate *was = mt_rate_hold(&port, "was", 1), *is = mt_rate_hold(&port, "is", 1);
	uint64_t now_ns = 10 * MT_RATE_WINDOW_NS;
	uint32_t count;
	struct mt_rate *rates;

	for (uint32_t i = 0; i < 100; i++)
		mt_rate_add(was, MT_RATE_READ, MT_RATE_WINDOW_NS, 1, 1, 0);
	mt_rate_add(is, MT_RATE_READ, now_ns, 1, 1, 0);
	cr_assert_eq(mt_rate_busy(was, 2 * MT_RATE_WINDOW_NS), 100);
	cr_assert_eq(mt_rate_busy(was, now_ns), 0);
	rates = mt_rates_take(&port, now_ns, 1, &count);
	cr_assert_eq(count, 2);
	cr_assert_str_eq(rates[0].name, "is");
	cr_assert_str_eq(rates[1].name, "");
	cr_assert_eq(rates[1].counts[MT_RATE_READ].requests, 100, "all others");
	mt_free(rates);
}

Test(rates, a_window_that_ends_is_the_one_before)
{
	struct mt_rate *row = mt_rate_hold(&port, "v", 1);

	mt_rate_add(row, MT_RATE_READ, MT_RATE_WINDOW_NS, 1, 1, 0);
	mt_rate_add(row, MT_RATE_READ, 2 * MT_RATE_WINDOW_NS, 1, 1, 0);
	cr_assert_eq(mt_rate_busy(row, 2 * MT_RATE_WINDOW_NS), 2);
	cr_assert_eq(mt_rate_busy(row, 3 * MT_RATE_WINDOW_NS), 1);
	mt_rate_add(row, MT_RATE_READ, 9 * MT_RATE_WINDOW_NS, 1, 1, 0);
	cr_assert_eq(mt_rate_busy(row, 9 * MT_RATE_WINDOW_NS), 1);
}

Test(rates, without_memory_nothing_is_counted, .fini = NULL)
{
	uint32_t count;

	mt_rates_fini(&port);
	cr_assert_null(mt_rate_hold(&port, "v", 1));
	mt_rate_add(NULL, MT_RATE_READ, 1, 1, 1, 0);
	mt_rate_drop(NULL);
	cr_assert_null(mt_rates_take(&port, 1, 1, &count));
	cr_assert_eq(count, 0);
}
