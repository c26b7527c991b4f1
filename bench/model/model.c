/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model -- the paper's section 5 from its hardware's parameters, and what it does not answer
 *
 *	model PARAMS            all rows, one JSON object a line
 *	model PARAMS --check    only what the paper's text gives a number for; 1 if one is off by more than
 *	                        a tenth
 *
 * A row says in "mark" what it is: "simulated" (by this program), "from the paper", or "measured".
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "designs.h"
#include "params.h"

#define OFF_MAX 0.10
#define REQUESTS 40000u /* of each port, or of a server without cards */
#define LOGICAL_CORES 48u

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
params_read(struct params *params, const char *path)
{
	static const struct params nothing;

	*params = nothing;
	if (params_file_read(path, params_set, params) != 0)
		return -1;
#define PARAMS_CHECK(member)                                                                       \
	if (params->member <= 0) {                                                                 \
		(void)fprintf(stderr, "%s: lacks " #member "\n", path);                            \
		return -1;                                                                         \
	}
	PARAMS_LIST(PARAMS_CHECK)
#undef PARAMS_CHECK
	return 0;
}

struct outcome {
	struct des_result result;
	struct usage usage;
};

static struct outcome
run(const struct params *params, struct server server)
{
	struct outcome outcome;
	uint64_t ports = server.design == DESIGN_SPLIT ? server.port_count * server.card_count : 1;

	design_run(params, &server, REQUESTS * ports, &outcome.result, &outcome.usage);
	return outcome;
}

static struct outcome
run_split(const struct params *params, uint32_t port_count, uint32_t card_count)
{
	return run(params,
	    (struct server){ .design = DESIGN_SPLIT,
		.core_count = 2,
		.port_count = port_count,
		.card_count = card_count });
}

static struct outcome
run_cpu_only(const struct params *params, uint32_t core_count)
{
	return run(params, (struct server){ .design = DESIGN_CPU_ONLY, .core_count = core_count });
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

/* Two threads of one hardware core, which the network of a whole server would never show. */
static double
pair_gbps(const struct params *params)
{
	struct params one = *params;

	one.physical_cores = 1;
	return run_cpu_only(&one, 2).result.gbps;
}

static bool
check(const struct params *params)
{
	double cpu_only = run_cpu_only(params, LOGICAL_CORES).result.gbps;
	struct outcome one = run_split(params, 1, 1), four = run_split(params, 4, 1);
	struct outcome six = run_split(params, 6, 1), eight = run_split(params, 6, 8);
	bool ok = true;

	ok &= expect("cpu-only, one logical core, Gb/s", 2.1, run_cpu_only(params, 1).result.gbps);
	ok &= expect("cpu-only, both threads of a core, Gb/s", 2.7, pair_gbps(params));
	ok &= expect("cpu-only, 48 logical cores, Gb/s (2.8 Tb/s / 51.6)", 2800 / 51.6, cpu_only);
	ok &= expect("split, a port, Gb/s (348 / 6)", 348.0 / 6, one.result.gbps);
	ok &= expect("split, four ports over cpu-only", 4.3, four.result.gbps / cpu_only);
	ok &= expect("split, six ports, Gb/s", 348, six.result.gbps);
	ok &= expect("split, six ports: PCIe, Gb/s", 12.4, six.usage.pcie_gbps);
	ok &= expect("split, six ports: host memory, Gb/s", 49, six.usage.memory_gbps);
	ok &= expect("split, one port: share of PCIe", 0.02, one.usage.pcie_share);
	ok &= expect("split, eight cards, Gb/s", 2800, eight.result.gbps);
	ok &= expect("split, eight cards over cpu-only", 51.6, eight.result.gbps / cpu_only);
	ok &= expect("split, eight cards: host memory, Gb/s", 392, eight.usage.memory_gbps);
	ok &= expect("split, eight cards: a root port, Gb/s", 49.6, eight.usage.root_gbps);
	return ok;
}

/* ---- figures ---- */

static void
row(const char *figure, const struct params *params, const struct server *server,
    const struct outcome *o)
{
	double blocks_gbps = o->result.gbps;

	(void)params;
	(void)printf("{\"figure\": \"%s\", \"design\": \"%s\", \"cores\": %u, \"ports\": %u, "
		     "\"cards\": %u, \"pressure\": %.2f, \"gbps\": %.2f, \"mean_us\": %.1f, "
		     "\"p99_us\": %.1f, \"p999_us\": %.1f, \"memory_gbps\": %.2f, "
		     "\"memory_per_byte\": %.3f, \"pcie_gbps\": %.2f, \"pcie_per_byte\": %.4f, "
		     "\"busiest\": \"%s\", \"busiest_share\": %.3f, \"mark\": \"simulated\"}\n",
	    figure, design_name(server->design), server->core_count, server->port_count,
	    server->card_count, server->pressure, blocks_gbps, o->result.mean_us, o->result.p99_us,
	    o->result.p999_us, o->usage.memory_gbps, o->usage.memory_gbps / blocks_gbps,
	    o->usage.pcie_gbps, o->usage.pcie_gbps / blocks_gbps, o->usage.busiest,
	    o->usage.busiest_share);
}

static void
show(const char *figure, const struct params *params, struct server server)
{
	struct outcome outcome = run(params, server);

	row(figure, params, &server, &outcome);
}

static void
figure_7_8(const struct params *params)
{
	static const uint32_t cores[] = { 1, 2, 4, 8, 16, 24, 32, 40, 48 };

	for (uint32_t i = 0; i < NUM_COUNT(cores); i++)
		show("7 8", params,
		    (struct server){ .design = DESIGN_CPU_ONLY, .core_count = cores[i] });
	for (uint32_t i = 0; i < 4; i++) {
		struct server server = { .design = DESIGN_ACCELERATOR, .core_count = cores[i] };

		show("7 8", params, server);
		server.design = DESIGN_SOC;
		show("7 8", params, server);
		server = (struct server){ DESIGN_SPLIT, cores[i], 1, 1, 0 };
		show("7 8", params, server);
	}
}

/* 16 threads make pressure, 32 serve. */
static void
figure_9(const struct params *params)
{
	for (uint32_t i = 0; i <= 5; i++) {
		double pressure = i / 5.0;

		show("9", params, (struct server){ DESIGN_CPU_ONLY, 32, .pressure = pressure });
		show("9", params, (struct server){ DESIGN_ACCELERATOR, 2, .pressure = pressure });
		show("9", params, (struct server){ DESIGN_SPLIT, 2, 1, 1, pressure });
	}
}

static void
figure_10(const struct params *params)
{
	static const uint32_t ports[] = { 1, 2, 4, 6 };

	for (uint32_t i = 0; i < NUM_COUNT(ports); i++)
		show("10", params, (struct server){ DESIGN_SPLIT, 2, ports[i], 1, 0 });
	for (uint32_t i = 1; i <= 8; i *= 2)
		show("5.5", params, (struct server){ DESIGN_SPLIT, 2, 6, i, 0 });
}

/* ---- sizing: what the paper does not answer ---- */

static void
size_row(const char *question, const char *kind, double wanted_gbps, double server_gbps,
    double cores, double cards, const char *next)
{
	double servers = ceil(wanted_gbps / server_gbps);

	(void)printf("{\"figure\": \"sizing\", \"question\": \"%s\", \"kind\": \"%s\", "
		     "\"server_gbps\": %.1f, \"servers\": %.0f, \"logical_cores\": %.0f, "
		     "\"cards\": %.0f, \"next_bottleneck\": \"%s\", \"mark\": \"simulated\"}\n",
	    question, kind, server_gbps, servers, servers * cores, servers * cards, next);
}

static void
size_for(const struct params *params, const char *question, double wanted_gbps)
{
	struct outcome cpu = run_cpu_only(params, LOGICAL_CORES);
	struct outcome one = run_split(params, 6, 1), four = run_split(params, 6, 4);
	struct outcome eight = run_split(params, 6, 8);
	struct params ours = *params;
	struct outcome software;

	size_row(question, "cpu-only", wanted_gbps, cpu.result.gbps, LOGICAL_CORES, 0,
	    cpu.usage.busiest);
	size_row(question, "split, one card of six ports", wanted_gbps, one.result.gbps, 12, 1,
	    one.usage.busiest);
	/* Two cores a port: 48 threads drive 24 ports, whatever slots there are. */
	size_row(question, "split, four cards: all 48 threads", wanted_gbps, four.result.gbps, 48,
	    4, "cores");
	size_row(question, "split, eight cards: 96 threads", wanted_gbps, eight.result.gbps, 96, 8,
	    eight.usage.busiest);
	/* This gateway's software on such a card, two threads a port. */
	ours.request_core_ns = params->gateway_core_ns;
	software = run_split(&ours, 6, 1);
	size_row(question, "split, one card, this gateway's cost of a write", wanted_gbps,
	    software.result.gbps, 12, 1, software.usage.busiest);
}

/* The resource that runs out first when cards are added to one server, by what each card takes. */
static void
next_bottlenecks(const struct params *params)
{
	struct outcome one = run_split(params, 6, 1);
	const struct {
		const char *name;
		double have, taken;
	} limits[] = {
		{ "logical cores, two a port", LOGICAL_CORES, 12 },
		{ "slots of 16 lanes", 8, 1 },
		{ "host memory, Gb/s", params->memory_gbps, one.usage.memory_gbps },
		{ "two root ports, Gb/s", 2 * params->root_gbps, one.usage.pcie_gbps },
	};

	for (uint32_t i = 0; i < NUM_COUNT(limits); i++)
		(void)printf("{\"figure\": \"next\", \"limit\": \"%s\", \"cards\": %.1f, "
			     "\"gbps\": %.0f, \"mark\": \"simulated\"}\n",
		    limits[i].name, limits[i].have / limits[i].taken,
		    floor(limits[i].have / limits[i].taken) * one.result.gbps);
}

int
main(int argc, char *argv[])
{
	struct params params;
	bool ok;

	if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "--check") != 0)) {
		(void)fprintf(stderr, "usage: model PARAMS [--check]\n");
		return 2;
	}
	if (params_read(&params, argv[1]) != 0)
		return 2;
	ok = check(&params);
	if (argc == 3)
		return ok ? 0 : 1;
	figure_7_8(&params);
	figure_9(&params);
	figure_10(&params);
	size_for(&params, "1 Tb/s of blocks", 1000);
	size_for(&params, "what 100,000 cpu-only servers carry",
	    1e5 * run_cpu_only(&params, LOGICAL_CORES).result.gbps);
	next_bottlenecks(&params);
	return ok ? 0 : 1;
}
