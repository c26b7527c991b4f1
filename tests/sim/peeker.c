/* SPDX-License-Identifier: Apache-2.0 */
/* peeker.c -- see peeker.h */
#include "peeker.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/num.h"
#include "base/random.h"
#include "cluster.h"
#include "run.h"
#include "vm-client/library/internal.h"
#include "workload.h"

#define PEEKER_SALT UINT64_C(5805)
#define PEEKER_SEEDS 6u
#define PEEKER_HOT_BYTES NUM_MIB(3) /* of a port: two sessions have a page each */
#define PEEKER_ONE_IN 4u            /* of the faults' turns */
/* Until the newer session has got the volume by another gateway, and longer than the lease. */
#define PEEKER_STILL_NS NUM_S(12)
#define PEEKER_AGAIN_NS NUM_MS(1)
#define PEEKER_AGAIN_SHIFTS 9u /* up to 256 ms: tags that are old */

struct sim_peeker {
	struct sim_cluster *cluster;
	struct workload *const *workloads;
	uint32_t workload_count;
	uint64_t dice[4];
	struct sim_host *cut_off; /* NULL: none is */
	uint64_t until_ns;        /* of the world */
};

bool
sim_peeks_are_in(uint64_t seed)
{
	return sim_run_hash(seed, PEEKER_SALT) % PEEKER_SEEDS == 0 && !sim_run_has_levels(seed) &&
	    !sim_run_has_keys(seed);
}

/* All is in runs soon, so that it may be hot; and another gateway serves while one stands still. */
uint32_t
sim_peeks_choose(uint64_t seed, struct sim_cluster_options *options, uint32_t gateways)
{
	if (!sim_peeks_are_in(seed))
		return gateways;
	options->has_peeks = true;
	options->hot_bytes = PEEKER_HOT_BYTES * options->port_count;
	options->log_bytes = options->slot_bytes;
	return (uint32_t)num_max(gateways, 2);
}

void
sim_peeks_tune(struct sim_cluster *cluster, struct cleave_volume *volume)
{
	const struct peeks_options options = { .again_ns = PEEKER_AGAIN_NS
		    << sim_run_hash(cluster->options.seed, PEEKER_SALT) / PEEKER_SEEDS %
			PEEKER_AGAIN_SHIFTS,
		.miss_max = 1 };

	if (cluster->options.has_peeks && peeks_want(volume, &options) != 0)
		sim_cluster_fail(cluster, "no memory for what is hot");
}

struct sim_peeker *
sim_peeker_create(struct sim_cluster *cluster, struct workload *const *workloads,
    uint32_t workload_count, uint64_t seed)
{
	struct sim_peeker *peeker;

	if (!cluster->options.has_peeks)
		return NULL;
	peeker = calloc(1, sizeof(*peeker));
	assert(peeker != NULL && workload_count > 0);
	peeker->cluster = cluster;
	peeker->workloads = workloads;
	peeker->workload_count = workload_count;
	random_seed(peeker->dice, sim_run_hash(seed, PEEKER_SALT));
	return peeker;
}

uint64_t
sim_peeker_inject(struct sim_peeker *peeker)
{
	struct sim_cluster *cluster;
	struct workload *workload;
	uint32_t still;

	if (peeker == NULL || peeker->cut_off != NULL ||
	    random_below(peeker->dice, PEEKER_ONE_IN) != 0)
		return 0;
	cluster = peeker->cluster;
	still = (uint32_t)random_below(peeker->dice, cluster->options.gateway_count);
	workload = peeker->workloads[random_below(peeker->dice, peeker->workload_count)];
	if (cluster->gateways[still].loop == NULL || !workload_is_held(workload))
		return 0;
	peeker->cut_off = workload_host(workload);
	peeker->until_ns = sim_world_now_ns(cluster->world) + PEEKER_STILL_NS +
	    2 * cluster->options.lease_ns;
	sim_world_trace(cluster->world, "peeker: gateway %u stands still", still + 1);
	sim_loop_pause(cluster->gateways[still].loop, PEEKER_STILL_NS + cluster->options.lease_ns);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		if (i != still)
			sim_net_partition(peeker->cut_off, cluster->gateways[i].host);
	}
	workload_takeover(workload);
	return peeker->until_ns;
}

void
sim_peeker_heal(struct sim_peeker *peeker)
{
	if (peeker == NULL || peeker->cut_off == NULL)
		return;
	for (uint32_t i = 0; i < peeker->cluster->options.gateway_count; i++)
		sim_net_join(peeker->cut_off, peeker->cluster->gateways[i].host);
	peeker->cut_off = NULL;
}

void
sim_peeker_expire(struct sim_peeker *peeker)
{
	if (peeker != NULL && sim_world_now_ns(peeker->cluster->world) >= peeker->until_ns)
		sim_peeker_heal(peeker);
}

void
sim_peeker_destroy(struct sim_peeker *peeker)
{
	free(peeker);
}
