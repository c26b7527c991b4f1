/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cluster.c -- one gateway, three nodes, two clients in virtual time
 *
 * CLEAVE_SIM_SEED=N runs the fault test with that seed alone; CLEAVE_SIM_SEEDS=N with seeds 1..N.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/guard.h"
#include "base/log.h"
#include "base/num.h"
#include "middletier/meta_memory.h"
#include "workload.h"

#define CLIENTS 2u
#define SEEDS_DEFAULT 12u
#define OPS_PER_FAULT 200u /* on average half of it */
#define HEAL_LIMIT_NS NUM_S(600)

struct run {
	struct sim_cluster *cluster;
	struct workload *workloads[CLIENTS];
};

/* An assertion of the daemons' own does not know the seed. */
static uint64_t running_seed;

static void
on_abort(int number)
{
	(void)number;
	(void)fprintf(stderr, "reproduce: CLEAVE_SIM_SEED=%" PRIu64 " sim_test_cluster\n",
	    running_seed);
}

/* Small slots: the log turns to another extent all the time. */
static void
run_begin(struct run *run, uint64_t seed, uint32_t op_count)
{
	struct sim_cluster_options options = { .seed = seed,
		.is_shuffled = seed % 2 == 1,
		.slot_bytes = NUM_KIB(128) << seed % 3 };

	running_seed = seed;
	(void)signal(SIGABRT, on_abort);
	log_set_level(getenv("CLEAVE_SIM_LOG") != NULL ? LOG_INFO : LOG_OFF);
	run->cluster = sim_cluster_create(&options);
	if (getenv("CLEAVE_SIM_TRACE") != NULL)
		sim_world_set_trace_file(run->cluster->world, stderr);
	sim_cluster_start(run->cluster);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct workload_options workload = { .cluster = run->cluster,
			.client_index = i,
			.volume_bytes = NUM_MIB(4),
			.op_count = op_count,
			.read_percent = 45,
			.discard_percent = 10 };

		run->workloads[i] = workload_create(&workload);
	}
	for (uint32_t i = 0; i < CLIENTS; i++)
		workload_start(run->workloads[i]);
}

static bool
run_is_done(void *arg)
{
	const struct run *run = arg;

	for (uint32_t i = 0; i < CLIENTS; i++)
		if (!workload_is_done(run->workloads[i]))
			return false;
	return true;
}

static void
fault_heal(struct sim_cluster *cluster)
{
	sim_net_heal_all(cluster->net);
	meta_store_set_timeouts(cluster->store, 0, 0);
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		sim_cluster_node_start(cluster, i);
	sim_cluster_gateway_start(cluster);
}

/* Everything heals, everything is answered, everything is there; returns the trace's hash. */
static uint64_t
run_end(struct run *run)
{
	uint64_t hash;

	fault_heal(run->cluster);
	sim_cluster_run_until(run->cluster, run_is_done, run, HEAL_LIMIT_NS,
	    "all operations are answered");
	for (uint32_t i = 0; i < CLIENTS; i++)
		workload_verify_all(run->workloads[i]);
	/* Once more from the disks: a new gateway has nothing in memory. */
	sim_cluster_gateway_kill(run->cluster);
	sim_cluster_gateway_start(run->cluster);
	for (uint32_t i = 0; i < CLIENTS; i++)
		workload_verify_all(run->workloads[i]);
	hash = sim_world_trace_hash(run->cluster->world);
	for (uint32_t i = 0; i < CLIENTS; i++)
		workload_destroy(run->workloads[i]);
	sim_cluster_destroy(run->cluster);
	return hash;
}

static uint64_t
run_quiet(uint64_t seed, uint32_t op_count)
{
	struct run run;

	run_begin(&run, seed, op_count);
	return run_end(&run);
}

/* From a microsecond to eight seconds, each order of magnitude as often as another. */
static uint64_t
random_duration_ns(struct sim_world *world)
{
	return sim_world_random_below(world, UINT64_C(1000) << sim_world_random_below(world, 24));
}

/* A process that does not run for a while: paging, a debugger, a busy machine. */
static void
fault_pause(struct sim_cluster *cluster, struct loop *loop)
{
	if (loop != NULL)
		sim_loop_pause(loop, random_duration_ns(cluster->world));
}

/* What a fault is undone by comes a random while later, or at the end. */
static void
fault_inject(struct sim_cluster *cluster)
{
	uint32_t node =
	    (uint32_t)sim_world_random_below(cluster->world, cluster->options.node_count);
	struct sim_host *host = cluster->nodes[node].host;
	struct sim_host *client =
	    cluster->client_hosts[sim_world_random_below(cluster->world, CLIENTS)];

	switch (sim_world_random_below(cluster->world, 13)) {
	case 8:
		fault_pause(cluster, cluster->nodes[node].loop);
		break;
	case 9:
		fault_pause(cluster, cluster->gateway_loop);
		break;
	case 10:
		meta_store_set_timeouts(cluster->store, 200, 200);
		break;
	case 11:
		sim_net_partition(cluster->gateway_host, client);
		break;
	case 12:
		sim_net_cut(client, cluster->gateway_host);
		break;
	case 0:
		sim_cluster_node_kill(cluster, node, false);
		break;
	case 1:
		sim_cluster_node_kill(cluster, node, true);
		break;
	case 2:
		sim_cluster_gateway_kill(cluster);
		break;
	case 3: /* power fails everywhere */
		sim_cluster_gateway_kill(cluster);
		for (uint32_t i = 0; i < cluster->options.node_count; i++)
			sim_cluster_node_kill(cluster, i, true);
		break;
	case 4:
		sim_net_partition(cluster->gateway_host, host);
		break;
	case 5:
		sim_net_cut(host, cluster->gateway_host);
		break;
	case 6:
		(void)sim_net_reset(cluster->gateway_host, host);
		break;
	default:
		(void)sim_net_reset(cluster->gateway_host, client);
		break;
	}
}

/* What stops a pause: so many operations more, or all of them. */
struct progress {
	struct run *run;
	uint32_t completed_count;
};

static uint32_t
run_completed_count(const struct run *run)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < CLIENTS; i++)
		sum += workload_completed_count(run->workloads[i]);
	return sum;
}

static bool
progress_is_made(void *arg)
{
	const struct progress *progress = arg;

	return run_completed_count(progress->run) >= progress->completed_count ||
	    run_is_done(progress->run);
}

/*
 * Faults come by work done, so that they meet every part of it, and a little after, so that they meet
 * it halfway. Some come in pairs.
 */
static uint64_t
run_with_faults(uint64_t seed, uint32_t op_count)
{
	struct sim_world *world;
	struct run run;

	run_begin(&run, seed, op_count);
	world = run.cluster->world;
	while (!run_is_done(&run)) {
		struct progress progress = { &run, run_completed_count(&run) };

		progress.completed_count += (uint32_t)sim_world_random_below(world, OPS_PER_FAULT);
		(void)sim_world_run(world, progress_is_made, &progress,
		    sim_world_now_ns(world) + NUM_S(20));
		sim_cluster_run(run.cluster, sim_world_random_below(world, NUM_US(500)));
		fault_inject(run.cluster);
		if (sim_world_random_below(world, 3) == 0) {
			sim_cluster_run(run.cluster, random_duration_ns(world));
			fault_inject(run.cluster);
		}
		sim_cluster_run(run.cluster, random_duration_ns(world));
		fault_heal(run.cluster);
	}
	return run_end(&run);
}

static uint64_t
env_u64(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

Test(cluster, same_seed_same_trace)
{
	uint64_t first = run_quiet(1, 5000), second = run_quiet(1, 5000);

	cr_assert_eq(first, second, "trace hashes differ: %" PRIx64 " and %" PRIx64, first, second);
}

Test(cluster, another_seed_another_trace)
{
	cr_assert_neq(run_quiet(2, 300), run_quiet(4, 300));
}

Test(cluster, nothing_acknowledged_is_lost_whatever_fails)
{
	uint64_t only = env_u64("CLEAVE_SIM_SEED", 0);
	uint64_t last = env_u64("CLEAVE_SIM_SEEDS", SEEDS_DEFAULT);

	if (only != 0) {
		(void)run_with_faults(only, 2000);
		return;
	}
	for (uint64_t seed = 1; seed <= last; seed++)
		(void)run_with_faults(seed, 2000);
}

Test(cluster, faults_replay_from_their_seed)
{
	uint64_t first = run_with_faults(7, 1000), second = run_with_faults(7, 1000);

	cr_assert_eq(first, second, "trace hashes differ: %" PRIx64 " and %" PRIx64, first, second);
}

/* I1: any access of host code to device memory is a fault that kills this test. */
Test(cluster, host_code_leaves_payloads_alone)
{
	cr_assert_eq(setenv("CLEAVE_GUARD", "mprotect", 1), 0);
	if (guard_init() != GUARD_MPROTECT)
		cr_skip_test("%s", guard_mode_text());
	(void)run_quiet(3, 1000);
}
