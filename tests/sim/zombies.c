/* SPDX-License-Identifier: Apache-2.0 */
/* zombies.c -- see zombies.h */
#include "zombies.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/extent/node_link.h"
#include "middletier/upkeep/repair.h"
#include "middletier/upkeep/upkeep.h"
#include "splitlib/sim/loop_sim.h"

#define ZOMBIE_WAIT_NS NUM_S(3)   /* for the moment */
#define ZOMBIE_AWAY_NS NUM_S(5)   /* a node, so that its copies are made anew elsewhere */
#define ZOMBIE_SLEEP_NS NUM_S(4)  /* at most, behind the end of the lease */
#define STRANDED_MIN_NS NUM_MS(1) /* longer than it takes to connect anew */

struct trap {
	struct sim_cluster *cluster;
	struct sim_cluster_gateway *gateway;
	uint64_t delay_ns; /* of what is stranded */
};

/* Is a request out there that changes which copies there are? */
static bool
link_is_changing(const struct mt_link *link)
{
	for (const struct loop_link *at = link->calls.next; at != &link->calls; at = at->next) {
		const struct mt_call *call = LIST_ENTRY(at, struct mt_call, link);

		if (call->request.opcode == WIRE_EXTENT_DELETE ||
		    call->request.opcode == WIRE_EXTENT_CREATE)
			return true;
	}
	return false;
}

static bool
shard_is_repairing(const struct mt_shard *shard)
{
	return shard->upkeep != NULL && shard->upkeep->is_running &&
	    shard->upkeep->repair.sm.state != REPAIR_IDLE;
}

static bool
gateway_is_repairing(void *arg)
{
	const struct trap *trap = arg;
	const struct mt_gateway *gateway = trap->gateway->gateway;

	for (uint32_t i = 0; gateway != NULL && i < gateway->port_count; i++) {
		const struct mt_port *port = &gateway->ports[i];

		for (uint32_t k = 0; k < port->shard_count; k++)
			if (shard_is_repairing(&port->shards[k]))
				return true;
		for (uint32_t k = 0; k < port->link_count; k++)
			if (mt_link_is_up(&port->links[k]) && link_is_changing(&port->links[k]))
				return true;
	}
	return gateway == NULL;
}

/* At the first node to which such a request is on its way. */
static bool
strand_one(void *arg)
{
	const struct trap *trap = arg;
	const struct mt_gateway *gateway = trap->gateway->gateway;

	for (uint32_t i = 0; gateway != NULL && i < gateway->port_count; i++) {
		const struct mt_port *port = &gateway->ports[i];

		for (uint32_t k = 0; k < port->link_count; k++) {
			const struct mt_link *link = &port->links[k];

			if (mt_link_is_up(link) && link->node_id != 0 && link_is_changing(link) &&
			    sim_net_strand(trap->gateway->host,
				trap->cluster->nodes[link->node_id - 1].host, trap->delay_ns) > 0)
				return true;
		}
	}
	return gateway == NULL;
}

static void
trap_wait(struct trap *trap, bool (*until)(void *arg))
{
	struct sim_world *world = trap->cluster->world;

	(void)sim_world_run(world, until, trap, sim_world_now_ns(world) + ZOMBIE_WAIT_NS);
}

/* So that there is something to repair. */
static void
take_node_away(struct sim_faults *faults)
{
	struct sim_cluster *cluster = faults->cluster;
	struct sim_fault_active away = { .fault = SIM_FAULT_node_kill,
		.index = sim_cluster_below(cluster, cluster->options.node_count),
		.until_ns = sim_world_now_ns(cluster->world) + ZOMBIE_AWAY_NS };

	if (faults->active_count + 1 >= SIM_FAULTS_ACTIVE_MAX)
		return;
	sim_cluster_node_kill(cluster, away.index, false);
	faults->active[faults->active_count++] = away;
}

void
sim_zombies_inject(struct sim_faults *faults, struct sim_fault_active *self, uint32_t index)
{
	struct sim_cluster *cluster = faults->cluster;
	struct trap trap = { .cluster = cluster,
		.gateway = &cluster->gateways[index],
		.delay_ns = STRANDED_MIN_NS + sim_faults_duration_ns(cluster) };
	uint64_t sleep_ns;

	if (self->fault == SIM_FAULT_stranded) {
		trap_wait(&trap, strand_one);
		return;
	}
	if (sim_cluster_below(cluster, 2) == 0)
		take_node_away(faults);
	trap_wait(&trap, gateway_is_repairing);
	if (trap.gateway->loop == NULL)
		return;
	sleep_ns = cluster->options.lease_ns +
	    sim_world_random_below(cluster->world, ZOMBIE_SLEEP_NS);
	sim_loop_pause(trap.gateway->loop, sleep_ns);
	trap.gateway->still_until_ns = sim_world_now_ns(cluster->world) + sleep_ns;
	sim_store_ring(cluster->store, trap.gateway->meta, false);
}
