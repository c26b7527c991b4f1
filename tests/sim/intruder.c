/* SPDX-License-Identifier: Apache-2.0 */
/* intruder.c -- a gateway with a metadata store of its own comes to the cluster's nodes; see intruder.h */
#include "intruder.h"

#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "middletier/control.h"
#include "middletier/meta_memory.h"
#include "storage-node/internal.h"
#include "support/made_cluster.h"

#define INTRUDER_GATEWAY_ID 77u

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

void
sim_intruder_start(struct sim_cluster *cluster, struct sim_intruder *intruder, bool is_made)
{
	struct meta_store_options store = { .loop = sim_world_nature(cluster->world) };
	struct mt_gateway_options options;
	char error[256] = "";

	if (intruder->gateway != NULL)
		return;
	if (intruder->host == NULL)
		intruder->host = sim_host_create(cluster->net, "intruder");
	if (!sim_host_is_up(intruder->host))
		sim_host_start(intruder->host);
	sim_world_trace(cluster->world, "start intruder made=%d", is_made);
	intruder->cluster = cluster;
	intruder->is_made = is_made;
	intruder->has_failed = false;
	intruder->store = meta_store_create(&store);
	intruder->loop = sim_cluster_loop_create(cluster, intruder->host);
	intruder->meta = meta_memory_open(intruder->store, intruder->loop);
	intruder_options(intruder, &options);
	intruder->store_id = options.store_id;
	if (is_made)
		made_cluster(intruder->store, &options);
	intruder->gateway = mt_gateway_create(&options, error, sizeof(error));
	if (intruder->gateway == NULL ||
	    mt_gateway_start(intruder->gateway, error, sizeof(error)) != 0)
		sim_cluster_fail(cluster, "the intruder did not start: %s", error);
}

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
intruder_check(const struct sim_intruder *intruder)
{
	const struct mt_gateway *gateway = intruder->gateway;

	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_port *port = &gateway->ports[i];

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
	intruder->meta->ops->close(intruder->meta);
	loop_destroy(intruder->loop);
	meta_store_destroy(intruder->store);
	intruder->gateway = NULL;
	for (uint32_t i = 0; i < intruder->cluster->options.node_count; i++)
		intruder_give_back(intruder, i);
}
