/* SPDX-License-Identifier: Apache-2.0 */
/* test_read_model.c -- reads as work of stations: which one bounds, and what a cache before them gives */
#include <criterion/criterion.h>
#include <math.h>

#include "bench/model/reads.c"

#define NEAR(a, b, within) (fabs((a) / (b)-1) <= (within))

static const struct read_cluster cluster = { .client_cores = 64,
	.gateway_cores = 8,
	.node_cores = 8,
	.ssd_count = 4,
	.ssd_iops = 500e3 };

/* The paper on Scalio has 3.6, 6.7 and 2.7. */
Test(read_model, a_cache_that_absorbs_a_share_gives_one_by_what_is_left)
{
	static const double cases[][2] = { { 0.722, 3.60 }, { 0.852, 6.76 }, { 0.626, 2.67 } };
	const struct read_cost miss = { .node_us = 7, .node_reads = 1 }, hit = { 0 };
	double before = read_bound(&miss, &cluster).ops_s;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct read_cost cost = read_cost_at(&miss, &hit, cases[i][0]);
		double speed_up = read_bound(&cost, &cluster).ops_s / before;

		cr_assert(NEAR(speed_up, cases[i][1], 0.002), "%g: %g", cases[i][0], speed_up);
	}
}

/* No further than another station goes: the gateway's part of a hit stays. */
Test(read_model, what_is_absorbed_gives_no_more_than_the_next_station_bears)
{
	const struct read_cost miss = { 2, 4, 16, 1 }, hit = { 2, 4, 0, 0 };
	struct read_cost cost = read_cost_at(&miss, &hit, 0.9);
	struct read_bound bound = read_bound(&cost, &cluster);

	cr_assert_eq(read_bound(&miss, &cluster).station, READ_NODES);
	cr_assert_eq(bound.station, READ_GATEWAY);
	cr_assert(NEAR(bound.ops_s, 2e6, 1e-9), "%g", bound.ops_s);
	cr_assert(NEAR(bound.share[READ_NODES], 0.4, 1e-9), "%g", bound.share[READ_NODES]);
	cr_assert(NEAR(bound.share[READ_SSDS], 0.1, 1e-9), "%g", bound.share[READ_SSDS]);
}

Test(read_model, more_ssds_give_more_until_processors_are_busy)
{
	/* 4 cores that bear 600,000 in all, and SSDs of 150,000. */
	const struct read_cost cost = { .node_us = 4e6 / 600e3, .node_reads = 1 };
	struct read_cluster jbof = { .node_cores = 4, .ssd_iops = 150e3 };

	for (uint32_t count = 1; count <= 8; count++) {
		jbof.ssd_count = count;
		cr_assert(
		    NEAR(read_bound(&cost, &jbof).ops_s, count < 4 ? count * 150e3 : 600e3, 1e-9));
	}
}

Test(read_model, what_a_hit_costs_is_what_was_measured_less_the_misses)
{
	const struct read_cost miss = { 3, 8, 9, 1 }, hit = { 2, 2.5, 0, 0 };
	struct read_cost table = read_cost_at(&miss, &hit, 0.8), found;

	found = read_cost_of_hit(&miss, &table, 0.8);
	cr_assert(NEAR(found.client_us, 2, 1e-9) && NEAR(found.gateway_us, 2.5, 1e-9));
	cr_assert(found.node_us < 1e-9 && found.node_reads < 1e-9);
	/* Misses that cost less beside hits than alone make no hit that gives time back. */
	table.node_us = 0;
	cr_assert_eq(read_cost_of_hit(&miss, &table, 0.8).node_us, 0);
}

/* As bench/results/reads.md has them: the best that a table may find. */
Test(read_model, what_a_table_of_the_hottest_finds_by_zipfs_law)
{
	static const double cases[][2] = { { 0.025, 0.64 }, { 0.05, 0.71 }, { 0.1, 0.77 },
		{ 0.2, 0.84 }, { 0.4, 0.91 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double found = read_zipf_found(24576, (uint32_t)(24576 * cases[i][0]), 0.99);

		cr_assert(fabs(found - cases[i][1]) < 0.01, "%g: %g", cases[i][0], found);
	}
	cr_assert_eq(read_zipf_found(100, 100, 0.5), 1);
	cr_assert(NEAR(read_zipf_found(100, 25, 0), 0.25, 1e-9), "all alike");
}
