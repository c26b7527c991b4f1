/* SPDX-License-Identifier: Apache-2.0 */
/* test_workload.c -- all is read when all is verified, also when the session is lost at that */
#include <criterion/criterion.h>
#include <string.h>

#include "base/num.h"
#include "cluster.h"
#include "workload.h"

#define SEED 5u
#define LIMIT_NS NUM_S(60)
#define TAKEOVERS 8u /* the dice say both: to take, and to wait */

static struct {
	struct sim_cluster *cluster;
	struct workload *workload; /* its volume is all holes */
	/* Somebody else, who attaches the volume. */
	struct sim_host *host;
	struct loop *loop;
	struct cleave_client *client;
	bool is_open;
} rig;

static bool
is_attached(void *arg)
{
	(void)arg;
	return workload_is_done(rig.workload);
}

static void
other_start(void)
{
	const char *gateway = rig.cluster->gateways[0].address;
	struct cleave_client_options options = { .gateways = &gateway,
		.gateway_count = 1,
		.message_count_max = 64 };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	rig.host = rig.cluster->client_hosts[WORKLOAD_HOSTS];
	rig.loop = sim_cluster_loop_create(rig.cluster, rig.host);
	options.loop = rig.loop;
	options.sim_host = rig.host;
	cr_assert_eq(cleave_client_create(&options, &rig.client, error), 0, "%s", error);
}

static void
start(void)
{
	struct sim_cluster_options options = { .seed = SEED, .client_count = WORKLOAD_HOSTS + 1 };
	struct workload_options workload = { .volume_bytes = NUM_MIB(16),
		.chunk_count = 1,
		.in_flight = 4 };

	memset(&rig, 0, sizeof(rig));
	rig.cluster = sim_cluster_create(&options);
	sim_cluster_start(rig.cluster);
	workload.cluster = rig.cluster;
	rig.workload = workload_create(&workload);
	workload_start(rig.workload);
	sim_cluster_run_until(rig.cluster, is_attached, NULL, LIMIT_NS, "it is attached");
	other_start();
}

static void
end(void)
{
	sim_host_kill(rig.host, SIM_DEATH_RESET);
	cleave_client_destroy(rig.client);
	loop_destroy(rig.loop);
	workload_destroy(rig.workload);
	sim_cluster_destroy(rig.cluster);
}

static void
on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	(void)arg;
	cr_assert_eq(rc, 0, "%s", error);
	cleave_volume_close(volume, NULL, NULL); /* the other one comes back */
	rig.is_open = true;
}

static bool
is_open(void *arg)
{
	(void)arg;
	return rig.is_open;
}

static void
other_attaches(void)
{
	cr_assert_eq(cleave_volume_open(rig.client, workload_name(rig.workload), CLEAVE_OPEN_TAKE,
			 on_open, NULL),
	    0);
}

Test(workload, verifies_what_a_lost_session_was_not_let_read)
{
	start();
	other_attaches();
	sim_cluster_run_until(rig.cluster, is_open, NULL, LIMIT_NS, "another attaches");
	workload_verify_all(rig.workload, LIMIT_NS, "everything is read");
	cr_assert_eq(workload_counters(rig.workload)->sessions, 2);
	end();
}

Test(workload, verifies_what_was_in_flight_when_its_session_was_lost)
{
	start();
	other_attaches();
	workload_verify_all(rig.workload, LIMIT_NS, "everything is read");
	cr_assert(rig.is_open);
	cr_assert_gt(workload_counters(rig.workload)->ops_fenced, 0);
	cr_assert_eq(workload_counters(rig.workload)->sessions, 2);
	end();
}

/* The volume's holder lives on, and need not let go of it for one that waits. */
Test(workload, takes_the_volume_though_its_process_died_at_it)
{
	start();
	for (uint32_t i = 0; i < TAKEOVERS; i++) {
		workload_takeover(rig.workload);
		workload_kill(rig.workload);
		workload_restart(rig.workload);
		sim_cluster_run_until(rig.cluster, is_attached, NULL, LIMIT_NS, "it is attached");
	}
	end();
}
