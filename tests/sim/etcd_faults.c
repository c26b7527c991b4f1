/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_faults.c -- see etcd_faults.h */
#include "etcd_faults.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "splitlib/sim/loop_sim.h"
#include "store.h"
#include "support/fake_etcd.h"

#define REQUEST_FAULTS_MAX 150u /* of 1000 requests, of each kind */
#define STREAM_FAULTS_MAX 100u
#define LAG_NS_MAX NUM_S(10)
/* Each minute all leases are looked at: a lost change is made up for by then. */
#define LEASES_LIMIT_NS NUM_S(90)
#define GAP_PART 2u /* of a lease: whoever lives has renewed its own meanwhile */
/* Behind the lease's time: streams are there again, and a lease's end takes tries. */
#define GAP_LIMIT_NS NUM_S(8)
#define GAP_TRIES 20u

/* Which seeds run on an etcd: when it was chosen, none of those that mutants.tsv and regressions.tsv name. */
#define ETCD_SALT UINT64_C(11606)
#define ETCD_SEEDS 4u

bool
sim_run_is_on_etcd(uint64_t seed)
{
	return sim_run_hash(seed, ETCD_SALT) % ETCD_SEEDS == 0;
}

/* ---- faults ---- */

static uint32_t
chance(struct sim_cluster *cluster, uint32_t max)
{
	return sim_cluster_below(cluster, 2) == 0 ? 0 : sim_cluster_below(cluster, max);
}

/* Half of the time they are slow, too, measured by what a lease leaves for it. */
static void
inject_requests(struct sim_cluster *cluster, struct fake_etcd_faults *faults)
{
	uint32_t *const kinds[] = { &faults->refused, &faults->lost, &faults->unanswered,
		&faults->late, &faults->unavailable, &faults->doubtful, &faults->busy,
		&faults->empty };

	for (uint32_t i = 0; i < NUM_COUNT(kinds); i++)
		*kinds[i] = chance(cluster, REQUEST_FAULTS_MAX);
	if (sim_cluster_below(cluster, 2) == 0)
		sim_store_set_delay(cluster->store, NUM_MS(1),
		    NUM_MS(1) +
			sim_world_random_below(cluster->world, cluster->options.lease_ns / 4));
}

static void
inject_streams(struct sim_cluster *cluster, struct fake_etcd *etcd)
{
	etcd->faults.ended = chance(cluster, STREAM_FAULTS_MAX);
	etcd->faults.silent = chance(cluster, STREAM_FAULTS_MAX);
	etcd->faults.withheld = chance(cluster, STREAM_FAULTS_MAX);
	if (sim_cluster_below(cluster, 4) == 0)
		fake_etcd_end_streams(etcd);
	else if (sim_cluster_below(cluster, 4) == 0)
		fake_etcd_silence_streams(etcd);
}

/* Fewer than half: the others go on. Where there is one alone, it is that one. */
static void
inject_member(struct sim_cluster *cluster, struct sim_fault_active *self)
{
	struct fake_etcd *etcd = cluster->store->etcd;

	self->index = sim_cluster_below(cluster, etcd->member_count);
	switch (sim_cluster_below(cluster, 3)) {
	case 0:
		fake_etcd_set_down(etcd, self->index, true);
		break;
	case 1:
		fake_etcd_set_hung(etcd, self->index, true);
		break;
	default:
		fake_etcd_set_stream_lag(etcd, self->index,
		    sim_world_random_below(cluster->world, LAG_NS_MAX));
		break;
	}
}

bool
sim_etcd_inject(struct sim_faults *faults, struct sim_fault_active *self)
{
	struct sim_cluster *cluster = faults->cluster;
	struct fake_etcd *etcd = cluster->store->etcd;

	/* Leases are renewed under it, or end. */
	self->until_ns += sim_world_random_below(cluster->world, 2 * cluster->options.lease_ns);
	switch (self->fault) {
	case SIM_FAULT_etcd_requests:
		inject_requests(cluster, &etcd->faults);
		return true;
	case SIM_FAULT_etcd_streams:
		inject_streams(cluster, etcd);
		return true;
	case SIM_FAULT_etcd_compacted:
		etcd->faults.compacted = chance(cluster, STREAM_FAULTS_MAX);
		if (sim_cluster_below(cluster, 2) == 0)
			fake_etcd_end_streams(etcd);
		fake_etcd_compact(etcd);
		return true;
	case SIM_FAULT_etcd_member:
		inject_member(cluster, self);
		return true;
	case SIM_FAULT_etcd_foreign:
		/* An etcd of several: somebody has put another one at its address. */
		self->index = sim_cluster_below(cluster, etcd->member_count);
		fake_etcd_set_foreign(etcd, self->index, etcd->member_count > 1);
		return true;
	case SIM_FAULT_etcd_tokens:
		fake_etcd_expire_tokens(etcd);
		etcd->faults.tokens = chance(cluster, STREAM_FAULTS_MAX);
		return true;
	case SIM_FAULT_etcd_set_back:
		self->copy = sim_store_copy(cluster->store);
		return true;
	default:
		return false;
	}
}

/* Clients were promised what the durable keys say: a backup without it is the operator's loss. */
static void
undo_set_back(struct sim_cluster *cluster, struct sim_store_copy *copy)
{
	if (sim_store_is_as(cluster->store, copy)) {
		sim_world_trace(cluster->world, "etcd set back");
		sim_store_restore(cluster->store, copy);
	}
	sim_store_copy_destroy(copy);
}

void
sim_etcd_undo(struct sim_faults *faults, const struct sim_fault_active *self)
{
	struct sim_cluster *cluster = faults->cluster;
	struct fake_etcd *etcd = cluster->store->etcd;
	struct fake_etcd_faults *chances = &etcd->faults;

	switch (self->fault) {
	case SIM_FAULT_etcd_requests:
		chances->refused = chances->lost = chances->unanswered = chances->late = 0;
		chances->unavailable = chances->doubtful = chances->busy = chances->empty = 0;
		sim_store_set_delay(cluster->store, NUM_US(50), NUM_US(500));
		break;
	case SIM_FAULT_etcd_streams:
		chances->ended = chances->silent = chances->withheld = 0;
		break;
	case SIM_FAULT_etcd_compacted:
		chances->compacted = 0;
		break;
	case SIM_FAULT_etcd_member:
		fake_etcd_set_down(etcd, self->index, false);
		fake_etcd_set_hung(etcd, self->index, false);
		fake_etcd_set_stream_lag(etcd, self->index, 0);
		break;
	case SIM_FAULT_etcd_foreign:
		fake_etcd_set_foreign(etcd, self->index, false);
		break;
	case SIM_FAULT_etcd_tokens:
		chances->tokens = 0;
		break;
	default:
		assert(self->fault == SIM_FAULT_etcd_set_back);
		undo_set_back(cluster, self->copy);
		break;
	}
}

/* ---- checks ---- */

static bool
no_lease_is_over(void *arg)
{
	struct sim_cluster *cluster = arg;

	return sim_store_oldest_lease_ns(cluster->store) == 0;
}

void
sim_etcd_check_leases(struct sim_cluster *cluster)
{
	sim_cluster_run_until(cluster, no_lease_is_over, cluster,
	    LEASES_LIMIT_NS + cluster->options.lease_ns, "each lease that nobody renews is ended");
}

struct outsider {
	struct sim_store *store;
	uint64_t lease;
};

static void
outsider_on_granted(int rc, uint64_t lease, void *arg)
{
	((struct outsider *)arg)->lease = rc == 0 ? lease : 0;
}

static bool
outsider_is_granted(void *arg)
{
	return ((struct outsider *)arg)->lease != 0;
}

static bool
outsider_is_over(void *arg)
{
	const struct outsider *outsider = arg;

	return !sim_store_has_lease(outsider->store, outsider->lease);
}

/* A process that gets a lease, and dies. */
static void
outsider_live(struct sim_cluster *cluster, struct outsider *outsider)
{
	struct loop *loop = sim_loop_create(cluster->world, "outsider");
	struct meta *meta;

	assert(loop != NULL);
	*outsider = (struct outsider){ .store = cluster->store };
	meta = sim_cluster_tool_open(cluster, loop);
	if (meta->ops->lease_grant(meta, cluster->options.lease_ns, outsider_on_granted,
		outsider) != 0)
		sim_cluster_fail(cluster, "out of memory");
	sim_cluster_run_until(cluster, outsider_is_granted, outsider, NUM_S(10),
	    "a lease is granted to an outsider");
	sim_store_close(cluster->store, meta);
	loop_destroy(loop);
}

/* A moment in which nothing durable changes. False: there is none. */
static bool
gap_set_back(struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < GAP_TRIES; i++) {
		struct sim_store_copy *copy = sim_store_copy(cluster->store);
		bool is_same;

		sim_cluster_run(cluster, cluster->options.lease_ns / GAP_PART);
		is_same = sim_store_is_as(cluster->store, copy);
		if (is_same)
			sim_store_restore(cluster->store, copy);
		sim_store_copy_destroy(copy);
		if (is_same)
			return true;
	}
	return false;
}

void
sim_etcd_check_gap(struct sim_cluster *cluster)
{
	struct fake_etcd *etcd = cluster->store->etcd;
	/* By the seed alone: what finds it is found whatever its history was. */
	bool is_set_back = cluster->options.seed % 2 == 0 && gap_set_back(cluster);
	struct outsider outsider;

	fake_etcd_hold_streams(etcd, true);
	outsider_live(cluster, &outsider);
	if (!is_set_back)
		fake_etcd_compact(etcd);
	fake_etcd_hold_streams(etcd, false);
	sim_cluster_run_until(cluster, outsider_is_over, &outsider,
	    3 * cluster->options.lease_ns / 2 + GAP_LIMIT_NS,
	    is_set_back ? "a lease granted after the etcd was set back is ended"
			: "a lease granted while streams were broken is ended");
}
