/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_model -- reads with a table of hot blocks, by the costs that bench/ycsb measures: figures that take many machines
 *
 *	bench_read_model PARAMS [PARAMS]...           all rows, one JSON object a line
 *	bench_read_model PARAMS [PARAMS]... --check   only what the papers' texts give a number for; 1 if one is off by more than
 *	                                              a tenth
 *
 * A later file's values count: bench/ycsb --params FILE writes one. A row says in "mark" what it is: "simulated" (by this
 * program), "from the paper". Figures have the numbers that they have in the paper on Scalio.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "params.h"
#include "reads.h"

#define OFF_MAX 0.10
#define SSDS_MAX 16u

#define PARAMS_LIST(X)                                                                             \
	X(miss_client_us)                                                                          \
	X(miss_gateway_us)                                                                         \
	X(miss_node_us)                                                                            \
	X(miss_node_reads)                                                                         \
	X(table_client_us)                                                                         \
	X(table_gateway_us)                                                                        \
	X(table_node_us)                                                                           \
	X(table_node_reads)                                                                        \
	X(table_found)                                                                             \
	X(block_count)                                                                             \
	X(client_cores)                                                                            \
	X(gateway_cores)                                                                           \
	X(node_cores)                                                                              \
	X(ssd_iops)                                                                                \
	X(jbof_cores)                                                                              \
	X(jbof_iops)                                                                               \
	X(jbof_ssds)

struct params {
#define PARAMS_MEMBER(name) double name;
	PARAMS_LIST(PARAMS_MEMBER)
#undef PARAMS_MEMBER
};

static bool
params_set(void *arg, const char *name, double value)
{
	struct params *params = arg;

#define PARAMS_TAKE(member)                                                                        \
	if (strcmp(name, #member) == 0) {                                                          \
		params->member = value;                                                            \
		return true;                                                                       \
	}
	PARAMS_LIST(PARAMS_TAKE)
#undef PARAMS_TAKE
	return false;
}

static int
params_check(const struct params *params)
{
#define PARAMS_CHECK(member)                                                                       \
	if (params->member <= 0) {                                                                 \
		(void)fprintf(stderr, #member ": no file has it\n");                               \
		return -1;                                                                         \
	}
	PARAMS_LIST(PARAMS_CHECK)
#undef PARAMS_CHECK
	if (params->table_found > 1) {
		(void)fprintf(stderr, "table_found: above 1\n");
		return -1;
	}
	return 0;
}

/* ---- what is compared ---- */

struct modes {
	struct read_cost two_sided; /* all is read from nodes */
	struct read_cost hit;       /* of an operation that the table answers */
	struct read_cost
	    one_sided; /* as if the client fetched that by itself: the gateway has no part in it */
};

static struct modes
modes_of(const struct params *p)
{
	const struct read_cost table = { p->table_client_us, p->table_gateway_us, p->table_node_us,
		p->table_node_reads };
	struct modes modes = {
		.two_sided = { p->miss_client_us, p->miss_gateway_us, p->miss_node_us,
		    p->miss_node_reads },
	};

	modes.hit = read_cost_of_hit(&modes.two_sided, &table, p->table_found);
	modes.one_sided = modes.hit;
	modes.one_sided.gateway_us = 0;
	return modes;
}

static struct read_cluster
cluster_of(const struct params *p, double ssd_count)
{
	return (struct read_cluster){ .client_cores = p->client_cores,
		.gateway_cores = p->gateway_cores,
		.node_cores = p->node_cores,
		.ssd_count = ssd_count,
		.ssd_iops = p->ssd_iops };
}

/* Nodes whose processors are busy with @node_us an operation, and nothing else that bounds. */
static double
nodes_alone(double cores, double node_us, double ssd_count, double ssd_iops)
{
	const struct read_cost cost = { .node_us = node_us, .node_reads = 1 };
	const struct read_cluster cluster = { 0, 0, cores, ssd_count, ssd_iops };

	return read_bound(&cost, &cluster).ops_s;
}

/* How many times as much nodes bear where a cache before them absorbs a share of the reads. */
static double
speed_up(double absorbed)
{
	const struct read_cost miss = { .node_us = 1, .node_reads = 1 }, hit = { 0 };
	const struct read_cluster cluster = { .node_cores = 1, .ssd_count = 1, .ssd_iops = 1e9 };
	struct read_cost cost = read_cost_at(&miss, &hit, absorbed);

	return read_bound(&cost, &cluster).ops_s / read_bound(&miss, &cluster).ops_s;
}

/* The number of SSDs from which on one more gives nothing. */
static uint32_t
knee(const struct params *p, double node_us)
{
	double iops = p->jbof_iops / p->jbof_ssds;
	uint32_t count = 1;

	while (count < SSDS_MAX &&
	    nodes_alone(p->jbof_cores, node_us, count + 1, iops) >
		nodes_alone(p->jbof_cores, node_us, count, iops) * 1.001)
		count++;
	return count;
}

/* ---- what the paper's text says ---- */

static bool
expect(const char *what, double paper, double ours)
{
	double off = ours / paper - 1;
	bool is_close = fabs(off) <= OFF_MAX;

	(void)printf("{\"figure\": \"check\", \"what\": \"%s\", \"value\": %.4g, \"mark\": \"from "
		     "the paper\", \"simulated\": %.4g, \"off\": %.3f, \"ok\": %s}\n",
	    what, paper, ours, off, is_close ? "true" : "false");
	return is_close;
}

static bool
check(const struct params *p)
{
	static const double absorbed[][2] = { { 0.722, 3.6 }, { 0.852, 6.7 }, { 0.626, 2.7 } };
	double jbof_us = p->jbof_cores * 1e6 / p->jbof_iops;
	char what[64];
	bool ok = true;

	for (uint32_t i = 0; i < NUM_COUNT(absorbed); i++) {
		(void)snprintf(what, sizeof(what), "13: a cache that absorbs %.1f %%",
		    absorbed[i][0] * 100);
		ok &= expect(what, absorbed[i][1], speed_up(absorbed[i][0]));
	}
	ok &=
	    expect("5, 6: I/O cores are busy from so many SSDs on", p->jbof_ssds, knee(p, jbof_us));
	ok &= expect("5, 6: where I/O costs them nothing, all SSDs are", SSDS_MAX, knee(p, 0));
	return ok;
}

/* ---- figures ---- */

static void
row(const char *figure, const char *mode, const char *of, double value,
    const struct read_bound *bound)
{
	(void)printf("{\"figure\": \"%s\", \"mode\": \"%s\", \"%s\": %.4g, \"kops_s\": %.1f, "
		     "\"busy\": \"%s\"",
	    figure, mode, of, value, bound->ops_s / 1e3, read_station_name(bound->station));
	for (int i = 0; i < READ_STATION_NR; i++)
		(void)printf(", \"%s\": %.3f", read_station_name((enum read_station)i),
		    bound->share[i]);
	(void)printf(", \"mark\": \"simulated\"}\n");
}

static void
rows(const char *figure, const struct params *p, const char *of, double value,
    const struct read_cluster *cluster)
{
	struct modes modes = modes_of(p);
	const struct {
		const char *name;
		struct read_cost cost;
	} each[] = {
		{ "two-sided", modes.two_sided },
		{ "two-sided, hot table",
		    read_cost_at(&modes.two_sided, &modes.hit, p->table_found) },
		{ "one-sided, hot table",
		    read_cost_at(&modes.two_sided, &modes.one_sided, p->table_found) },
	};

	for (uint32_t i = 0; i < NUM_COUNT(each); i++) {
		struct read_bound bound = read_bound(&each[i].cost, cluster);

		row(figure, each[i].name, of, value, &bound);
	}
}

static void
figure_2_11_12(const struct params *p)
{
	for (uint32_t count = 1; count <= SSDS_MAX; count *= 2) {
		struct read_cluster cluster = cluster_of(p, count);

		rows("2 11 12", p, "ssds", count, &cluster);
	}
}

static void
figure_5_6(const struct params *p)
{
	double jbof_us = p->jbof_cores * 1e6 / p->jbof_iops, iops = p->jbof_iops / p->jbof_ssds;

	for (uint32_t count = 1; count <= SSDS_MAX; count *= 2) {
		(void)printf("{\"figure\": \"5 6\", \"ssds\": %u, \"cores_kiops\": %.0f, "
			     "\"offloaded_kiops\": %.0f, \"mark\": \"simulated\"}\n",
		    count, nodes_alone(p->jbof_cores, jbof_us, count, iops) / 1e3,
		    nodes_alone(p->jbof_cores, 0, count, iops) / 1e3);
	}
}

/* Tables of the best: what is held is what is hottest. */
static void
figure_15_16_18(const struct params *p)
{
	static const double thetas[] = { 0.5, 0.7, 0.9, 0.99 };
	static const double shares[] = { 0.025, 0.05, 0.1, 0.2, 0.4 };
	static const uint32_t times[] = { 1, 2, 4 };
	struct modes modes = modes_of(p);
	struct read_cluster cluster = cluster_of(p, SSDS_MAX);
	double none = read_bound(&modes.two_sided, &cluster).ops_s;

	for (uint32_t i = 0; i < NUM_COUNT(thetas); i++) {
		for (uint32_t k = 0; k < NUM_COUNT(shares) * NUM_COUNT(times); k++) {
			double share = shares[k % NUM_COUNT(shares)];
			uint32_t data = times[k / NUM_COUNT(shares)];
			double found = read_zipf_found((uint32_t)p->block_count * data,
			    (uint32_t)(p->block_count * share), thetas[i]);
			struct read_cost cost = read_cost_at(&modes.two_sided, &modes.hit, found);

			(void)printf("{\"figure\": \"15 16 18\", \"theta\": %.2f, \"data\": %u, "
				     "\"slots\": %.3f, \"found\": %.3f, \"of_none\": %.2f, "
				     "\"mark\": \"simulated\"}\n",
			    thetas[i], data, share, found,
			    read_bound(&cost, &cluster).ops_s / none);
		}
	}
}

static void
figure_17(const struct params *p)
{
	for (uint32_t cores = 4; cores <= 16; cores *= 2) {
		struct read_cluster cluster = cluster_of(p, SSDS_MAX);

		cluster.gateway_cores = cores;
		rows("17", p, "gateway_cores", cores, &cluster);
	}
}

int
main(int argc, char *argv[])
{
	struct params params = { 0 };
	bool is_check = argc > 2 && strcmp(argv[argc - 1], "--check") == 0, ok;

	if (argc - is_check < 2) {
		(void)fprintf(stderr, "usage: %s PARAMS [PARAMS]... [--check]\n", argv[0]);
		return 2;
	}
	for (int i = 1; i < argc - is_check; i++) {
		if (params_file_read(argv[i], params_set, &params) != 0)
			return 2;
	}
	if (params_check(&params) != 0)
		return 2;
	ok = check(&params);
	if (!is_check) {
		figure_2_11_12(&params);
		figure_5_6(&params);
		figure_15_16_18(&params);
		figure_17(&params);
	}
	return ok ? 0 : 1;
}
