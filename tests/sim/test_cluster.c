/* SPDX-License-Identifier: Apache-2.0 */
/* test_cluster.c -- what a simulated run promises of itself; seeds by the hundred: sim.seeds_* */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/guard.h"
#include "run.h"

static struct sim_run_result
run(uint64_t seed, uint32_t op_count, uint64_t faults)
{
	struct sim_run_options options = { .seed = seed, .op_count = op_count, .faults = faults };
	struct sim_run_result result;
	char text[2048];

	cr_assert_eq(sim_run_seed(&options, &result, text, sizeof(text)), 0, "%s", text);
	return result;
}

Test(cluster, same_seed_same_trace)
{
	uint64_t first = run(1, 3000, SIM_FAULTS_NONE).trace_hash;
	uint64_t second = run(1, 3000, SIM_FAULTS_NONE).trace_hash;

	cr_assert_eq(first, second, "trace hashes differ: %" PRIx64 " and %" PRIx64, first, second);
}

Test(cluster, another_seed_another_trace)
{
	cr_assert_neq(run(2, 300, SIM_FAULTS_NONE).trace_hash,
	    run(4, 300, SIM_FAULTS_NONE).trace_hash);
}

Test(cluster, faults_replay_from_their_seed)
{
	uint64_t first = run(7, 1000, 0).trace_hash, second = run(7, 1000, 0).trace_hash;

	cr_assert_eq(first, second, "trace hashes differ: %" PRIx64 " and %" PRIx64, first, second);
}

Test(cluster, sets_of_faults_are_parsed)
{
	uint64_t faults = 0;

	cr_assert_eq(sim_faults_parse("cut,disk_rot", &faults), 0);
	cr_assert_eq(faults, SIM_FAULT(cut) | SIM_FAULT(disk_rot));
	cr_assert_eq(sim_faults_parse("none", &faults), 0);
	cr_assert_eq(faults, SIM_FAULTS_NONE);
	cr_assert_eq(sim_faults_parse("all", &faults), 0);
	cr_assert_neq(faults & SIM_FAULT(cut), 0);
	cr_assert_lt(sim_faults_parse("cut,nonsense", &faults), 0);
	cr_assert_lt(sim_faults_parse("", &faults), 0);
}

Test(cluster, a_violation_names_the_command_that_repeats_it)
{
	struct sim_run_options options = { .seed = 9, .node_count = 4, .faults = SIM_FAULT(cut) };
	char text[256];

	sim_run_command(&options, text, sizeof(text));
	cr_assert_str_eq(text, "./dev sim --seed 9 --nodes 4 --faults cut");
}

/* I1: any access of host code to device memory is a fault that kills this test. */
Test(cluster, host_code_leaves_payloads_alone)
{
	cr_assert_eq(setenv("CLEAVE_GUARD", "mprotect", 1), 0);
	if (guard_init() != GUARD_MPROTECT)
		cr_skip_test("%s", guard_mode_text());
	/* Some 200,000 times in and out: most of what the end reads. */
	(void)run(3, 100, SIM_FAULTS_NONE);
}
