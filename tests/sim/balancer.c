/* SPDX-License-Identifier: Apache-2.0 */
/* balancer.c -- see balancer.h */
#include "balancer.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "cluster.h"
#include "middletier/catalog/placed_key.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/cluster/member.h"
#include "middletier/cluster/member_view.h"
#include "middletier/cluster/relief.h"
#include "middletier/common/alloc.h"
#include "middletier/common/port.h"
#include "store.h"

/*
 * Gateways promise 12 looks between two moves, and 30 until a shard moves again. Clocks run a tenth too fast at
 * most, and a change is seen here one poll late.
 */
#define BALANCER_POLL_NS NUM_MS(10)
#define BALANCER_PAUSE_NS (SIM_BALANCE_INTERVAL_NS * 12 * 9 / 10 - BALANCER_POLL_NS)
#define BALANCER_STAY_NS (SIM_BALANCE_INTERVAL_NS * 30 * 9 / 10 - BALANCER_POLL_NS)
/* The look that was under way, and one for what has changed between two polls, may end without a word. */
#define BALANCER_IDLE_MAX 2u

/* A gateway with a port that more shards fall to than it has room for, and some of these were placed there. */
struct overfull {
	uint64_t boot_id;    /* 0: it has none */
	uint64_t idle_count; /* of the gateway's looks, when that was first seen */
};

struct sim_balancer {
	struct sim_cluster *cluster;
	struct loop_timer timer;
	struct mt_placed placed;              /* as it was last seen */
	uint64_t moved_ns[CLEAVE_SHARDS_MAX]; /* when each was given away; 0: never */
	uint64_t last_ns;                     /* when one was; 0: never */
	uint64_t count;
	struct overfull overfull[SIM_GATEWAYS_MAX];
};

static void
read_placed(const struct sim_balancer *balancer, struct mt_placed *ret_placed)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;
	const char *field;

	*ret_placed = (struct mt_placed){ .count = 0 };
	if (sim_store_list(balancer->cluster->store, MT_PLACED_KEY, &items, &count) != 0 ||
	    (count > 0 &&
		mt_placed_decode(items->value, items->value_bytes, ret_placed, &field) != 0))
		sim_cluster_fail(balancer->cluster,
		    "balancer: where shards are placed cannot be read");
	mt_free(items);
}

static void
check_move(struct sim_balancer *balancer, uint32_t shard)
{
	struct sim_cluster *cluster = balancer->cluster;
	uint64_t now_ns = sim_world_now_ns(cluster->world);
	uint64_t *moved_ns = &balancer->moved_ns[shard];
	bool is_back = mt_placed_at(&balancer->placed, shard) == 0; /* for lack of room, at once */

	sim_world_trace(cluster->world, "shard %" PRIu32 " placed at %" PRIu64, shard,
	    mt_placed_at(&balancer->placed, shard));
	if (!is_back && *moved_ns != 0 && now_ns - *moved_ns < BALANCER_STAY_NS)
		sim_cluster_fail(cluster,
		    "balancer: shard %" PRIu32 " goes to and fro, after %.3f s", shard,
		    (double)(now_ns - *moved_ns) / 1e9);
	if (!is_back && balancer->last_ns != 0 && now_ns - balancer->last_ns < BALANCER_PAUSE_NS)
		sim_cluster_fail(cluster,
		    "balancer: shard %" PRIu32 " moves %.3f s after another one", shard,
		    (double)(now_ns - balancer->last_ns) / 1e9);
	*moved_ns = balancer->last_ns = now_ns;
	balancer->count++;
}

static bool
port_is_overfull(const struct mt_gateway *gateway, uint32_t port)
{
	uint64_t id = gateway->options.gateway_id;
	uint32_t count = 0, placed_count = 0;

	for (uint32_t i = port; i < gateway->cluster.shard_count; i += gateway->port_count) {
		const struct mt_member_peer *pick = mt_view_pick(&gateway->member, i);

		count += pick != NULL && pick->gateway_id == id;
		placed_count += mt_placed_at(&gateway->member.placed, i) == id;
	}
	return placed_count > 0 && count > gateway->ports[port].ring_max;
}

static bool
is_overfull(const struct mt_gateway *gateway)
{
	if (gateway == NULL || gateway->sm.state != MT_GATEWAY_SERVING ||
	    gateway->member.sm.state != MT_MEMBER_UP || !gateway->member.has_view)
		return false;
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		if (port_is_overfull(gateway, i))
			return true;
	}
	return false;
}

static void
check_room(struct sim_balancer *balancer, uint32_t index)
{
	const struct sim_cluster_gateway *own = &balancer->cluster->gateways[index];
	struct overfull *overfull = &balancer->overfull[index];
	uint64_t idle_count;

	if (!is_overfull(own->gateway)) {
		overfull->boot_id = 0;
		return;
	}
	idle_count = mt_relief_idle_count(own->gateway);
	if (overfull->boot_id != own->boot_id)
		*overfull = (struct overfull){ .boot_id = own->boot_id, .idle_count = idle_count };
	if (idle_count - overfull->idle_count > BALANCER_IDLE_MAX)
		sim_cluster_fail(balancer->cluster,
		    "balancer: gateway %" PRIu32
		    " has no room for all that fall to it, and keeps what was placed there",
		    index + 1);
}

static void
on_timer(struct loop_timer *timer, void *arg)
{
	struct sim_balancer *balancer = arg;
	struct mt_placed before = balancer->placed;

	loop_timer_start(sim_world_nature(balancer->cluster->world), timer, BALANCER_POLL_NS);
	read_placed(balancer, &balancer->placed);
	for (uint32_t i = 0; i < balancer->cluster->options.shard_count; i++) {
		if (mt_placed_at(&before, i) != mt_placed_at(&balancer->placed, i))
			check_move(balancer, i);
	}
	for (uint32_t i = 0; i < balancer->cluster->options.gateway_count; i++)
		check_room(balancer, i);
}

struct sim_balancer *
sim_balancer_create(struct sim_cluster *cluster)
{
	struct sim_balancer *balancer = calloc(1, sizeof(*balancer));

	assert(balancer != NULL);
	balancer->cluster = cluster;
	loop_timer_init(&balancer->timer, on_timer, balancer);
	loop_timer_start(sim_world_nature(cluster->world), &balancer->timer, BALANCER_POLL_NS);
	return balancer;
}

void
sim_balancer_finish(struct sim_balancer *balancer)
{
	struct sim_cluster *cluster;

	if (balancer == NULL)
		return;
	cluster = balancer->cluster;
	loop_timer_stop(sim_world_nature(cluster->world), &balancer->timer);
	cluster->options.has_balance = false;
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		if (cluster->gateways[i].gateway != NULL)
			mt_relief_stop(cluster->gateways[i].gateway);
	}
}

uint64_t
sim_balancer_count(const struct sim_balancer *balancer)
{
	return balancer == NULL ? 0 : balancer->count;
}

void
sim_balancer_destroy(struct sim_balancer *balancer)
{
	free(balancer);
}
