/* SPDX-License-Identifier: Apache-2.0 */
/* intruder.c -- a gateway with a metadata store of its own comes to the cluster's nodes; see intruder.h */
#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "deletes.h"
#include "intruder.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/extent/node_link.h"
#include "middletier/gateway/gateway.h"
#include "splitlib/sim/loop_sim.h"
#include "storage-node/node_state.h"
#include "support/made_cluster.h"

#define INTRUDER_GATEWAY_ID 77u
#define INTRUDER_OLDER_NS NUM_S(6)  /* at most, behind the end of the leases that its copy has */
#define INTRUDER_OWNERS_NS NUM_S(8) /* for each shard to have another owner */

static void
intruder_on_failed(int rc, const char *text, void *arg)
{
	struct sim_intruder *intruder = arg;

	(void)rc;
	(void)text;
	intruder->has_failed = true;
}

static void
intruder_options(struct sim_intruder *intruder, struct mt_gateway_options *options)
{
	sim_cluster_gateway_options(&intruder->cluster->gateways[0], options);
	options->gateway_id = INTRUDER_GATEWAY_ID;
	options->key = sim_keys_of_number(intruder->cluster->keys, "gateway", INTRUDER_GATEWAY_ID);
	options->boot_id = ++intruder->cluster->boot_count;
	options->sim_host = intruder->host;
	options->loop = intruder->loop;
	options->meta = intruder->meta;
	options->on_ready = NULL;
	options->on_failed = intruder_on_failed;
	options->arg = intruder;
	for (uint32_t i = 0; i < options->port_count; i++)
		(void)snprintf(options->ports[i].address, sizeof(options->ports[i].address),
		    "sim://intruder:%u", i + 1);
}

static void
intruder_start(struct sim_cluster *cluster, struct sim_intruder *intruder, bool is_made,
    bool is_older)
{
	/* Another cluster is kept in a directory of its own. */
	struct sim_store_options store = { .loop = sim_world_nature(cluster->world),
		.is_etcd = is_older && sim_store_is_etcd(cluster->store),
		.has_user = cluster->store->options.has_user };
	struct mt_gateway_options options;
	char error[256] = "";

	if (intruder->host == NULL)
		intruder->host = sim_host_create(cluster->net, "intruder");
	if (!sim_host_is_up(intruder->host))
		sim_host_start(intruder->host);
	sim_world_trace(cluster->world, "start intruder made=%d older=%d", is_made, is_older);
	intruder->cluster = cluster;
	intruder->is_made = is_made;
	intruder->is_older = is_older;
	intruder->has_failed = false;
	intruder->store = sim_store_create(&store);
	if (is_older)
		sim_store_restore(intruder->store, intruder->older);
	intruder->loop = sim_cluster_loop_create(cluster, intruder->host);
	intruder->meta = sim_store_open(intruder->store, intruder->loop,
	    &(struct sim_store_process){ .name = "intruder" });
	intruder_options(intruder, &options);
	intruder->store_id = options.store_id;
	if (is_made)
		made_cluster(intruder->store->memory, &options);
	intruder->gateway = mt_gateway_create(&options, error, sizeof(error));
	if (intruder->gateway == NULL ||
	    mt_gateway_start(intruder->gateway, error, sizeof(error)) != 0)
		sim_cluster_fail(cluster, "the intruder did not start: %s", error);
}

void
sim_intruder_start(struct sim_cluster *cluster, struct sim_intruder *intruder, bool is_made)
{
	if (intruder->gateway == NULL)
		intruder_start(cluster, intruder, is_made, false);
}

/* ---- an older copy ---- */

static void
older_take(struct sim_cluster *cluster, struct sim_intruder *intruder)
{
	for (uint32_t i = 0; i < cluster->options.shard_count; i++)
		intruder->older_epochs[i] = sim_deletes_epoch(cluster->deletes, i);
	intruder->older = sim_store_copy(cluster->store);
}

/* Is @shard served under a later epoch than the copy knows of? Then enough nodes know of it, too. */
static bool
older_shard_is_old(const struct sim_cluster *cluster, const struct sim_intruder *intruder,
    uint32_t shard)
{
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		const struct mt_gateway *gateway = cluster->gateways[i].gateway;

		for (uint32_t k = 0; gateway != NULL && k < gateway->port_count; k++) {
			const struct mt_port *port = &gateway->ports[k];

			for (uint32_t n = 0; n < port->shard_count; n++)
				if (port->shards[n].index == shard &&
				    port->shards[n].sm.state == MT_SHARD_SERVING &&
				    port->shards[n].epoch > intruder->older_epochs[shard])
					return true;
		}
	}
	return false;
}

static bool
older_is_old(void *arg)
{
	const struct sim_intruder *intruder = arg;

	for (uint32_t i = 0; i < intruder->cluster->options.shard_count; i++)
		if (!older_shard_is_old(intruder->cluster, intruder, i))
			return false;
	return true;
}

/* Every shard gets another owner, or the same under another epoch, if all goes well. */
static void
older_make_old(struct sim_cluster *cluster, struct sim_intruder *intruder)
{
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_kill(cluster, i);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_start(cluster, i);
	(void)sim_world_run(cluster->world, older_is_old, intruder,
	    sim_world_now_ns(cluster->world) + INTRUDER_OWNERS_NS);
}

void
sim_intruder_start_older(struct sim_cluster *cluster, struct sim_intruder *intruder,
    uint64_t *ret_until_ns)
{
	if (intruder->gateway != NULL)
		return;
	intruder->cluster = cluster;
	if (intruder->older == NULL)
		older_take(cluster, intruder);
	if (!older_is_old(intruder) && sim_cluster_below(cluster, 2) == 0)
		older_make_old(cluster, intruder);
	if (!older_is_old(intruder))
		return;
	intruder_start(cluster, intruder, false, true);
	*ret_until_ns = sim_world_now_ns(cluster->world) + 2 * cluster->options.lease_ns +
	    sim_world_random_below(cluster->world, INTRUDER_OLDER_NS);
}

/* ---- its end ---- */

/* A node with a new disk obeys whoever comes first. An operator formats it again. */
static void
intruder_give_back(struct sim_intruder *intruder, uint32_t index)
{
	struct sim_cluster *cluster = intruder->cluster;
	const struct node *node = cluster->nodes[index].node;

	if (node == NULL || !store_id_is_equal(&node->fences[0].now.store, &intruder->store_id))
		return;
	sim_cluster_node_replace(cluster, index);
	sim_cluster_node_start(cluster, index);
}

static void
intruder_check_older(const struct sim_intruder *intruder, const struct mt_port *port)
{
	for (uint32_t i = 0; i < port->shard_count; i++)
		if (port->shards[i].sm.state == MT_SHARD_SERVING)
			sim_cluster_fail(intruder->cluster,
			    "an intruder serves shard %u by an old metadata store, beside its owner",
			    port->shards[i].index);
}

static void
intruder_check(const struct sim_intruder *intruder)
{
	const struct mt_gateway *gateway = intruder->gateway;

	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_port *port = &gateway->ports[i];

		if (intruder->is_older) {
			intruder_check_older(intruder, port);
			continue;
		}

		for (uint32_t k = 0; k < port->link_count; k++)
			if (mt_link_is_up(&port->links[k]) &&
			    !store_id_is_equal(&port->links[k].store, &intruder->store_id))
				sim_cluster_fail(intruder->cluster,
				    "node %u let in a gateway of another metadata store", k + 1);
	}
}

void
sim_intruder_kill(struct sim_intruder *intruder)
{
	if (intruder->gateway == NULL)
		return;
	intruder_check(intruder);
	sim_world_trace(intruder->cluster->world, "kill intruder");
	sim_host_kill(intruder->host, SIM_DEATH_RESET);
	mt_gateway_destroy(intruder->gateway);
	sim_store_close(intruder->store, intruder->meta);
	loop_destroy(intruder->loop);
	sim_store_destroy(intruder->store);
	intruder->gateway = NULL;
	for (uint32_t i = 0; i < intruder->cluster->options.node_count && !intruder->is_older; i++)
		intruder_give_back(intruder, i);
}

void
sim_intruder_fini(struct sim_intruder *intruder)
{
	assert(intruder->gateway == NULL);
	sim_store_copy_destroy(intruder->older);
	intruder->older = NULL;
}
