/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rings.c -- more shards than a gateway's device memory has rings for: owned by three, then by two
 *
 * 16 MiB are ten rings (port_memory.c). Each of the gateways owns its share, and none could own all. A load goes on while
 * one of them dies and comes back; at the end everything is read.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "cluster.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/shard/shard.h"
#include "support/sanitized.h"
#include "workload.h"

#define GATEWAYS 3u
#define RINGS 10u
#define LIMIT_NS NUM_S(300)
#define SEEDS TEST_ROUNDS(3u, 1u)

static struct {
	struct sim_cluster *cluster;
	struct workload *workload;
	uint32_t serving_count; /* to be waited for */
} rig;

static void
start(uint64_t seed, uint32_t shard_count, uint32_t op_count)
{
	struct sim_cluster_options options = { .seed = seed,
		.gateway_count = GATEWAYS,
		.client_count = WORKLOAD_HOSTS,
		.shard_count = shard_count };
	struct workload_options workload = { .volume_bytes = NUM_MIB(16),
		.chunk_count = 64, /* of all shards, then */
		.op_count = op_count,
		.read_percent = 30,
		.discard_percent = 10,
		.in_flight = 2 };

	memset(&rig, 0, sizeof(rig));
	log_set_level(LOG_OFF);
	rig.cluster = sim_cluster_create(&options);
	sim_cluster_start(rig.cluster);
	workload.cluster = rig.cluster;
	rig.workload = workload_create(&workload);
	workload_start(rig.workload);
}

static bool
is_done(void *arg)
{
	(void)arg;
	return workload_is_done(rig.workload);
}

static void
end(void)
{
	sim_cluster_run_until(rig.cluster, is_done, NULL, LIMIT_NS, "the load ends");
	workload_verify_all(rig.workload, LIMIT_NS, "everything is read");
	workload_destroy(rig.workload);
	sim_cluster_destroy(rig.cluster);
}

/* Shards that serve, those that are short; no port has more rings than there are, or fewer than it owns. */
static uint32_t
count(uint32_t *ret_short)
{
	uint32_t serving_count = 0;

	*ret_short = 0;
	for (uint32_t i = 0; i < GATEWAYS; i++) {
		const struct mt_gateway *gateway = rig.cluster->gateways[i].gateway;
		const struct mt_port *port = gateway == NULL ? NULL : &gateway->ports[0];
		uint32_t ring_count = 0;

		for (uint32_t k = 0; port != NULL && k < port->shard_count; k++) {
			const struct mt_shard *shard = &port->shards[k];

			serving_count += shard->sm.state == MT_SHARD_SERVING;
			*ret_short += mt_shard_is_short(shard);
			ring_count += shard->ring != NULL;
		}
		if (port != NULL)
			cr_assert_eq(ring_count, port->ring_count);
		if (port != NULL && port->shard_count > 0)
			cr_assert_eq(port->ring_max, RINGS);
		cr_assert_leq(ring_count, RINGS);
	}
	return serving_count;
}

static bool
serves(void *arg)
{
	uint32_t short_count;

	(void)arg;
	return count(&short_count) == rig.serving_count;
}

static void
wait_serving(uint32_t serving_count, uint32_t short_count, const char *what)
{
	uint32_t now_short;

	rig.serving_count = serving_count;
	sim_cluster_run_until(rig.cluster, serves, NULL, LIMIT_NS, what);
	sim_cluster_run(rig.cluster, NUM_S(4));
	cr_assert_eq(count(&now_short), serving_count, "%s, and stay so", what);
	cr_assert_eq(now_short, short_count, "%s: %u are short", what, now_short);
}

/* 27 shards of three; with two there are 20 rings. */
Test(rings, a_dead_gateways_shards_are_taken_as_far_as_there_is_room)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		start(seed, 27, 8000);
		wait_serving(27, 0, "all serve");
		sim_cluster_gateway_kill(rig.cluster, (uint32_t)seed % GATEWAYS);
		wait_serving(2 * RINGS, 27 - 2 * RINGS, "as many as there are rings serve");
		sim_cluster_gateway_start(rig.cluster, (uint32_t)seed % GATEWAYS);
		wait_serving(27, 0, "all serve again");
		end();
	}
}

/* 18 shards: two gateways have room for them, and a lone one has not. */
Test(rings, two_have_room_for_the_shards_of_a_third)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint32_t before;

		start(seed, 18, 40000);
		wait_serving(18, 0, "all serve");
		sim_cluster_gateway_kill(rig.cluster, 0);
		wait_serving(18, 0, "two serve all");
		before = workload_completed_count(rig.workload);
		sim_cluster_run(rig.cluster, NUM_S(1));
		cr_assert_gt(workload_completed_count(rig.workload), before);
		sim_cluster_gateway_kill(rig.cluster, 1);
		wait_serving(RINGS, 18 - RINGS, "a lone one serves what it can");
		sim_cluster_gateway_start(rig.cluster, 0);
		sim_cluster_gateway_start(rig.cluster, 1);
		wait_serving(18, 0, "all serve again");
		end();
	}
}

static bool
is_stopping(uint32_t index)
{
	return rig.cluster->gateways[index].stop_post.fn != NULL;
}

/* Gateways come and go at any moment, also in the middle of take-overs and releases. */
Test(rings, gateways_come_and_go)
{
	start(7, 24, 20000);
	for (uint32_t i = 0; i < 30; i++) {
		uint32_t at = sim_cluster_below(rig.cluster, GATEWAYS);

		if (rig.cluster->gateways[at].gateway == NULL)
			sim_cluster_gateway_start(rig.cluster, at);
		else if (is_stopping(at) || sim_cluster_below(rig.cluster, 2) == 0)
			sim_cluster_gateway_kill(rig.cluster, at);
		else
			sim_cluster_gateway_stop(rig.cluster, at);
		sim_cluster_run(rig.cluster, NUM_MS(50) * sim_cluster_below(rig.cluster, 100));
	}
	for (uint32_t i = 0; i < GATEWAYS; i++) {
		if (is_stopping(i))
			sim_cluster_gateway_kill(rig.cluster, i);
	}
	sim_cluster_start_all(rig.cluster);
	wait_serving(24, 0, "all serve");
	end();
}
