/* SPDX-License-Identifier: Apache-2.0 */
/* test_hops.c -- stamps of a write to hops; what the last minute had */
#include <criterion/criterion.h>
#include <string.h>

#include "base/num.h"
#include "middletier/common/hops.h"

static struct mt_hops hops;
static uint64_t took[MT_WRITE_HOP_NR];

static void
expect_hops(const uint64_t wanted[MT_WRITE_HOP_NR])
{
	for (uint32_t i = 0; i < MT_WRITE_HOP_NR; i++)
		cr_assert_eq(took[i], wanted[i], "%s: %lu, not %lu",
		    mt_write_hop_name((enum mt_write_hop)i), took[i], wanted[i]);
}

Test(hops, of_a_whole_write_end_where_the_next_begins)
{
	const struct mt_write_stamps stamps = { 100, 110, 130, 170, 250 };

	mt_hops_of(&stamps, 255, took);
	expect_hops((const uint64_t[]){ 10, 20, 40, 80, 5, 155 });
}

/* The clock of the turn is behind one that was read anew in it. */
Test(hops, no_time_runs_backwards)
{
	const struct mt_write_stamps stamps = { 100, 150, 160, 140, 120 };

	mt_hops_of(&stamps, 130, took);
	expect_hops((const uint64_t[]){ 50, 10, 0, 0, 0, 30 });
	mt_hops_of(&stamps, 90, took);
	cr_assert_eq(took[MT_WRITE_HOP_TOTAL], 0);
}

Test(hops, the_one_that_was_not_left_has_what_is_left)
{
	mt_hops_of(&(struct mt_write_stamps){ .taken_ns = 10 }, 60, took);
	expect_hops((const uint64_t[]){ 50, 0, 0, 0, 0, 50 });
	mt_hops_of(&(struct mt_write_stamps){ .taken_ns = 10, .started_ns = 15 }, 60, took);
	expect_hops((const uint64_t[]){ 5, 45, 0, 0, 0, 50 });
	mt_hops_of(&(struct mt_write_stamps){ 10, 15, 20, 0, 0 }, 60, took);
	expect_hops((const uint64_t[]){ 5, 5, 40, 0, 0, 50 });
	mt_hops_of(&(struct mt_write_stamps){ 10, 15, 20, 30, 0 }, 60, took);
	expect_hops((const uint64_t[]){ 5, 5, 10, 30, 0, 50 });
}

static void
count_at(uint64_t now_ns, uint32_t writes, uint32_t reads)
{
	for (uint32_t i = 0; i < writes; i++)
		mt_hops_write(&hops, now_ns, SERVICE_STANDARD,
		    (const uint64_t[MT_WRITE_HOP_NR]){ [MT_WRITE_HOP_TOTAL] = NUM_US(30) });
	for (uint32_t i = 0; i < reads; i++)
		mt_hops_read(&hops, now_ns, SERVICE_LATENCY, i % 2 == 0 ? NUM_US(5) : 0, NUM_MS(3));
}

static void
expect_minute(uint64_t now_ns, uint64_t writes, uint64_t reads)
{
	struct latency write, read;

	mt_hops_minute(&hops, now_ns, &write, &read);
	cr_assert_eq(latency_total(&write), writes, "%lu writes", latency_total(&write));
	cr_assert_eq(latency_total(&read), reads, "%lu reads", latency_total(&read));
	cr_assert_eq(write.counts[latency_bucket(NUM_US(30))], writes);
	cr_assert_eq(read.sum_ns, reads * NUM_MS(3));
}

Test(hops, are_counted_by_class)
{
	count_at(NUM_S(1), 3, 4);
	cr_assert_eq(latency_total(&hops.writes[MT_WRITE_HOP_TOTAL][SERVICE_STANDARD]), 3);
	cr_assert_eq(latency_total(&hops.writes[MT_WRITE_HOP_PARK][SERVICE_STANDARD]), 3);
	cr_assert_eq(latency_total(&hops.writes[MT_WRITE_HOP_REPLY][SERVICE_STANDARD]), 0,
	    "none was held back");
	cr_assert_eq(latency_total(&hops.reads[MT_READ_HOP_TOTAL][SERVICE_LATENCY]), 4);
	cr_assert_eq(latency_total(&hops.reads[MT_READ_HOP_NODE][SERVICE_LATENCY]), 2,
	    "that asked a node");
	cr_assert_eq(latency_total(&hops.reads[MT_READ_HOP_TOTAL][SERVICE_STANDARD]), 0);
}

Test(hops, the_last_minute_forgets_what_is_older)
{
	expect_minute(NUM_S(1000), 0, 0);
	count_at(NUM_S(1001), 5, 1);
	expect_minute(NUM_S(1001), 5, 1);
	expect_minute(NUM_S(1060), 5, 1);
	expect_minute(NUM_S(1076), 0, 0);
}

Test(hops, a_pause_is_no_reason_to_count_what_was_before_it)
{
	count_at(NUM_S(1000), 7, 0);
	count_at(NUM_S(5000), 2, 0); /* nobody has asked in between */
	expect_minute(NUM_S(5001), 2, 0);
	expect_minute(NUM_S(5059), 2, 0);
}

Test(hops, a_steady_stream_has_a_minute_and_at_most_15_s_more)
{
	struct latency write, read;

	for (uint64_t second = 1000; second < 2000; second++) {
		count_at(NUM_S(second), 1, 0);
		if (second < 1080)
			continue;
		mt_hops_minute(&hops, NUM_S(second), &write, &read);
		cr_assert(latency_total(&write) >= 60 && latency_total(&write) <= 76, "%lu at %lu",
		    latency_total(&write), second);
	}
}

Test(hops, have_names)
{
	cr_assert_str_eq(mt_write_hop_name(MT_WRITE_HOP_PARK), "park");
	cr_assert_str_eq(mt_write_hop_name(MT_WRITE_HOP_TOTAL), "total");
	cr_assert_str_eq(mt_read_hop_name(MT_READ_HOP_NODE), "node");
	cr_assert_str_eq(mt_read_hop_name(MT_READ_HOP_TOTAL), "total");
}
