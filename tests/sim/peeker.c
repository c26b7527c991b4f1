/* SPDX-License-Identifier: Apache-2.0 */
/* peeker.c -- see peeker.h */
#include "peeker.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/num.h"
#include "base/random.h"
#include "cluster.h"
#include "history.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/common/shard_state.h"
#include "middletier/read/hot_inside.h"
#include "middletier/read/read_path.h"
#include "peeker_change.h"
#include "run.h"
#include "splitlib/sim/loop_sim.h"
#include "store.h"
#include "vm-client/library/internal.h"
#include "workload.h"

#define PEEKER_SALT UINT64_C(5805)
#define PEEKER_SEEDS 3u
#define PEEKER_HOT_BYTES_MIN NUM_MIB(2) /* of a port: one page, or two or three, are sessions' */
#define PEEKER_HOT_SHIFTS 3u
#define PEEKER_VOLUME_BYTES NUM_MIB(4) /* that more blocks are hot than a page has room for */
#define PEEKER_IN_FLIGHT 3u            /* so that reads meet changes */
#define PEEKER_ONE_IN 2u               /* of the faults' turns */
/* Until the newer session has got the volume by another gateway, and longer than the lease. */
#define PEEKER_STILL_NS NUM_S(12)
#define PEEKER_CHANGE_NS NUM_S(4)
#define PEEKER_CHANGE_LEASE_NS NUM_S(1) /* with a longer one the next owner comes too late */
/* Some of its seeds have changes alone, often. Leases are short and the network is fast: the next owner comes soon. */
#define PEEKER_CHANGING_SALT UINT64_C(42)
#define PEEKER_CHANGING_SEEDS 4u
#define PEEKER_CHANGING_LEASE_NS NUM_MS(250)
#define PEEKER_AGAIN_NS NUM_US(100)
#define PEEKER_AGAIN_SHIFTS                                                                        \
	9u /* up to 26 ms, in which there are some ten requests: tags that are old */

struct sim_peeker {
	struct sim_cluster *cluster;
	struct workload *const *workloads;
	uint32_t workload_count;
	uint64_t dice[4];
	struct workload *workload; /* whose session reads on; NULL: no fault is on */
	uint32_t gateway;          /* where */
	void *process; /* ... its meta, which is cut off from the store; NULL: it is not */
	struct sim_host *cut_off; /* the session's, from other gateways; NULL: not yet */
	bool is_clock;            /* the client's clock stands still, not the gateway */
	struct sim_peeker_change *change;
	bool is_changing;        /* of seeds in which nothing but changes happens */
	bool is_alone;           /* no other fault comes meanwhile */
	struct loop_timer timer; /* of the world: the gateway is to stand still */
	uint64_t until_ns;       /* of the world */
};

bool
sim_peeks_are_in(uint64_t seed)
{
	return sim_run_hash(seed, PEEKER_SALT) % PEEKER_SEEDS == 0 && !sim_run_has_levels(seed) &&
	    !sim_run_has_keys(seed);
}

/* On an etcd no owner comes soon. */
bool
sim_peeks_are_changing(uint64_t seed)
{
	return sim_run_hash(seed, PEEKER_CHANGING_SALT) % PEEKER_CHANGING_SEEDS == 0 &&
	    sim_peeks_are_in(seed) && !sim_run_is_on_etcd(seed);
}

static void
peeker_hurry(struct sim_cluster_options *options)
{
	options->lease_ns = PEEKER_CHANGING_LEASE_NS;
	options->link =
	    (struct sim_link_options){ NUM_US(20), NUM_US(60), 0, 0, UINT64_C(3000000000) };
}

/* All is in runs soon, so that it may be hot; and another gateway serves while one stands still. */
uint32_t
sim_peeks_choose(uint64_t seed, struct sim_cluster_options *options, uint32_t gateways)
{
	if (!sim_peeks_are_in(seed))
		return gateways;
	options->has_peeks = true;
	options->hot_bytes =
	    (PEEKER_HOT_BYTES_MIN +
		NUM_MIB(sim_run_hash(seed, PEEKER_SALT) / PEEKER_SEEDS % PEEKER_HOT_SHIFTS)) *
	    options->port_count;
	options->log_bytes = options->slot_bytes;
	if (sim_peeks_are_changing(seed))
		peeker_hurry(options);
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

void
sim_peeks_work(struct workload_options *workload)
{
	if (!workload->is_peeking)
		return;
	workload->volume_bytes = num_max(workload->volume_bytes, PEEKER_VOLUME_BYTES);
	workload->in_flight = (uint32_t)num_max(workload->in_flight, PEEKER_IN_FLIGHT);
	/* A request that is given up takes its connection along, and all that is read by it. */
	workload->io_timeout_ns = 0;
}

/* ---- faults ---- */

static uint32_t
below(struct sim_peeker *peeker, uint32_t limit)
{
	return (uint32_t)random_below(peeker->dice, limit);
}

/*
 * From here on the session hears its own gateway alone, and another one takes the volume. A gateway that goes on hears
 * nothing of that: others would tell it, and it would end the session, before its own lease is over.
 */
static void
peeker_part(struct sim_peeker *peeker)
{
	struct sim_cluster *cluster = peeker->cluster;
	struct sim_host *own = cluster->gateways[peeker->gateway].host;

	peeker->cut_off = workload_host(peeker->workload);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		if (i == peeker->gateway)
			continue;
		sim_net_partition(peeker->cut_off, cluster->gateways[i].host);
		if (peeker->is_clock)
			sim_net_partition(own, cluster->gateways[i].host);
	}
	workload_takeover(peeker->workload);
}

static void
peeker_on_timer(struct loop_timer *timer, void *arg)
{
	struct sim_peeker *peeker = arg;
	struct sim_cluster_gateway *gateway = &peeker->cluster->gateways[peeker->gateway];

	assert(timer == &peeker->timer && !peeker->is_clock);
	if (gateway->loop == NULL || !workload_is_held(peeker->workload))
		return; /* dead meanwhile */
	sim_world_trace(peeker->cluster->world, "peeker: gateway %u stands still",
	    peeker->gateway + 1);
	sim_loop_pause(gateway->loop, PEEKER_STILL_NS + peeker->cluster->options.lease_ns);
	gateway->still_until_ns = peeker->until_ns;
	sim_store_ring(peeker->cluster->store, gateway->meta, false);
	peeker_part(peeker);
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
	peeker->change = sim_peeker_change_create(cluster);
	peeker->is_changing = sim_peeks_are_changing(seed);
	peeker->workloads = workloads;
	peeker->workload_count = workload_count;
	random_seed(peeker->dice, sim_run_hash(seed, PEEKER_SALT));
	loop_timer_init(&peeker->timer, peeker_on_timer, peeker);
	return peeker;
}

/* The gateway that serves what @workload's session read last, at @offset_bytes; any, where none does now. */
static uint32_t
peeker_choose_gateway(struct sim_peeker *peeker, const struct workload *workload,
    uint64_t offset_bytes)
{
	const struct sim_cluster *cluster = peeker->cluster;
	const struct cleave_volume *volume = workload_volume(workload);
	uint32_t shard =
	    wire_shard_of(volume->info.segment_base + offset_bytes / CLEAVE_SEGMENT_BYTES,
		offset_bytes % CLEAVE_SEGMENT_BYTES, cluster->options.shard_count);

	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		const struct mt_gateway *gateway = cluster->gateways[i].gateway;

		for (uint32_t p = 0; gateway != NULL && p < gateway->port_count; p++) {
			struct mt_shard **shards = gateway->ports[p].shard_by_number;

			if (shards != NULL && shards[shard] != NULL &&
			    shards[shard]->sm.state == MT_SHARD_SERVING)
				return i;
		}
	}
	return below(peeker, cluster->options.gateway_count);
}

/* A gateway and a client's clock that both stand still are more than leases bear. */
static bool
is_any_still(const struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		if (cluster->gateways[i].still_until_ns > sim_world_now_ns(cluster->world))
			return true;
	}
	return false;
}

bool
sim_peeker_forbids_pauses(const struct sim_peeker *peeker)
{
	return peeker != NULL && peeker->workload != NULL && peeker->is_clock;
}

bool
sim_peeker_is_alone(const struct sim_peeker *peeker)
{
	return peeker != NULL && peeker->workload != NULL && peeker->is_alone;
}

static void
peeker_begin(struct sim_peeker *peeker, struct workload *workload, uint32_t gateway)
{
	struct sim_cluster *cluster = peeker->cluster;
	struct sim_cluster_gateway *own = &cluster->gateways[gateway];
	uint64_t wait_ns = 0;

	peeker->workload = workload;
	peeker->gateway = gateway;
	peeker->is_clock = peeker->is_alone = false;
	if (own->meta != NULL && own->gateway != NULL &&
	    cluster->options.lease_ns <= PEEKER_CHANGE_LEASE_NS &&
	    (peeker->is_changing || below(peeker, 2) == 0)) {
		peeker->is_alone = true;
		peeker->until_ns = sim_world_now_ns(cluster->world) + PEEKER_CHANGE_NS +
		    4 * cluster->options.lease_ns;
		sim_peeker_change_begin(peeker->change, workload, gateway);
		return;
	}
	peeker->is_clock = below(peeker, 2) == 0 && !is_any_still(cluster);
	peeker->is_alone = below(peeker, 4) != 0;
	/* Where its lease is about to end the next owner is there while the session's are still good. */
	if (own->meta != NULL && (peeker->is_clock || below(peeker, 2) == 0)) {
		peeker->process = own->meta;
		sim_store_cut_off(cluster->store, own->meta, true);
		wait_ns = random_below(peeker->dice, cluster->options.lease_ns);
	}
	peeker->until_ns = sim_world_now_ns(cluster->world) + wait_ns + PEEKER_STILL_NS +
	    2 * cluster->options.lease_ns;
	if (!peeker->is_clock) {
		loop_timer_start(sim_world_nature(cluster->world), &peeker->timer, wait_ns + 1);
		return;
	}
	sim_world_trace(cluster->world, "peeker: the clock of %s stands still",
	    workload_name(workload));
	workload_stop_clock(workload);
	peeker_part(peeker);
}

uint64_t
sim_peeker_inject(struct sim_peeker *peeker)
{
	struct workload *workload;
	uint64_t offset_bytes = 0;
	uint32_t gateway;

	if (peeker == NULL || peeker->workload != NULL ||
	    (!peeker->is_changing && below(peeker, PEEKER_ONE_IN) != 0))
		return 0;
	workload = peeker->workloads[below(peeker, peeker->workload_count)];
	if (!workload_is_held(workload) ||
	    (!workload_peeked(workload, &offset_bytes) && !peeker->is_changing))
		return 0;
	gateway = peeker_choose_gateway(peeker, workload, offset_bytes);
	if (peeker->cluster->gateways[gateway].loop == NULL)
		return 0;
	peeker_begin(peeker, workload, gateway);
	return peeker->until_ns;
}

void
sim_peeker_heal(struct sim_peeker *peeker)
{
	struct sim_cluster *cluster;

	if (peeker == NULL || peeker->workload == NULL)
		return;
	cluster = peeker->cluster;
	sim_peeker_change_heal(peeker->change);
	loop_timer_stop(sim_world_nature(cluster->world), &peeker->timer);
	if (peeker->process != NULL && cluster->gateways[peeker->gateway].meta == peeker->process)
		sim_store_cut_off(cluster->store, peeker->process, false);
	if (peeker->is_clock)
		workload_start_clock(peeker->workload);
	for (uint32_t i = 0; i < cluster->options.gateway_count && peeker->cut_off != NULL; i++) {
		sim_net_join(peeker->cut_off, cluster->gateways[i].host);
		if (peeker->is_clock && i != peeker->gateway)
			sim_net_join(cluster->gateways[peeker->gateway].host,
			    cluster->gateways[i].host);
	}
	peeker->process = NULL;
	peeker->cut_off = NULL;
	peeker->workload = NULL;
}

void
sim_peeker_expire(struct sim_peeker *peeker)
{
	if (peeker != NULL &&
	    (sim_world_now_ns(peeker->cluster->world) >= peeker->until_ns ||
		(peeker->is_changing && sim_peeker_change_is_over(peeker->change))))
		sim_peeker_heal(peeker); /* what came to nothing is tried again soon */
}

/* ---- what may be in a session's pages ---- */

static void
check_slot(const struct sim_peeker *peeker, const struct mt_hot *hot, uint32_t slot, uint32_t index)
{
	uint8_t stamp[HISTORY_STAMP_BYTES];
	uint32_t volume;

	dev_copy_to_host(hot->port->split, stamp, mt_hot_at(hot, &hot->slots[slot]), sizeof(stamp));
	if (history_stamp_decode(stamp, &volume) && volume != index)
		sim_cluster_fail(peeker->cluster,
		    "a page of hot blocks for volume %" PRIu32 " has a block of volume %" PRIu32,
		    index + 1, volume + 1);
}

static void
check_object(const struct sim_peeker *peeker, const struct mt_hot *hot,
    const struct mt_hot_object *object)
{
	for (uint32_t i = 0; i < peeker->workload_count; i++) {
		if (workload_volume_id(peeker->workloads[i]) != object->volume)
			continue;
		for (uint32_t p = 0; p < object->page_count; p++)
			for (uint32_t slot = 0; slot < HOT_PAGE_SLOTS; slot++)
				check_slot(peeker, hot, object->pages[p] * HOT_PAGE_SLOTS + slot,
				    i);
	}
}

void
sim_peeker_check(const struct sim_peeker *peeker)
{
	for (uint32_t i = 0; peeker != NULL && i < peeker->cluster->options.gateway_count; i++) {
		const struct mt_gateway *gateway = peeker->cluster->gateways[i].gateway;

		for (uint32_t p = 0; gateway != NULL && p < gateway->port_count; p++) {
			const struct mt_port *port = &gateway->ports[p];
			struct mt_hot *hot = port->read == NULL ? NULL : port->read->hot;
			struct loop_link *link, *next;

			if (hot == NULL || port->split == NULL)
				continue;
			LIST_FOREACH_SAFE(&hot->objects, link, next)
				check_object(peeker, hot,
				    LIST_ENTRY(link, struct mt_hot_object, link));
		}
	}
}

void
sim_peeker_destroy(struct sim_peeker *peeker)
{
	if (peeker != NULL)
		sim_peeker_change_destroy(peeker->change);
	free(peeker);
}
