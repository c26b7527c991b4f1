/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c -- see cluster.h */
#include "cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "middletier/meta_memory.h"

#define CLUSTER_ID 0x51u
#define START_LIMIT_NS NUM_S(120)

void
sim_cluster_fail(struct sim_cluster *cluster, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "seed %" PRIu64 ", virtual time %.6f s: ", cluster->options.seed,
	    (double)sim_world_now_ns(cluster->world) / 1e9);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\nreproduce: CLEAVE_SIM_SEED=%" PRIu64 " sim_test_cluster\n",
	    cluster->options.seed);
	exit(1);
}

static int
node_poke(void *arg, uint64_t offset_bytes, const void *page)
{
	disk_sim_poke(arg, offset_bytes, page, DISK_ALIGN);
	return 0;
}

static void
node_init(struct sim_cluster *cluster, uint32_t index)
{
	struct sim_cluster_node *node = &cluster->nodes[index];
	struct disk_sim_options disk = { .capacity_bytes = cluster->options.disk_bytes,
		.seed = cluster->options.seed * 1000 + index };
	struct node_format format = { .capacity_bytes = cluster->options.disk_bytes,
		.slot_bytes = cluster->options.slot_bytes,
		.cluster_id = CLUSTER_ID,
		.node_id = index + 1,
		.disk_uuid = { (uint8_t)(index + 1) } };
	char name[24], reason[NODE_REASON_BYTES_MAX];

	(void)snprintf(name, sizeof(name), "node%u", index + 1);
	node->cluster = cluster;
	node->host = sim_host_create(cluster->net, name);
	node->disk = disk_sim_create(&disk);
	if (node->host == NULL || node->disk == NULL)
		sim_cluster_fail(cluster, "out of memory");
	if (node_format(&format, node_poke, node->disk, reason) != 0)
		sim_cluster_fail(cluster, "format: %s", reason);
	(void)snprintf(node->address, sizeof(node->address), "sim://%s:1", name);
}

static void
options_default(struct sim_cluster_options *options)
{
	if (options->node_count == 0)
		options->node_count = 3;
	if (options->client_count == 0)
		options->client_count = 2;
	if (options->shard_count == 0)
		options->shard_count = 2;
	if (options->disk_bytes == 0)
		options->disk_bytes = NUM_MIB(256);
	if (options->slot_bytes == 0)
		options->slot_bytes = NUM_KIB(512);
	assert(options->node_count <= SIM_NODES_MAX);
	assert(options->client_count <= SIM_CLIENTS_MAX);
}

struct sim_cluster *
sim_cluster_create(const struct sim_cluster_options *options)
{
	struct sim_cluster *cluster = calloc(1, sizeof(*cluster));
	struct meta_store_options store = { 0 };

	assert(cluster != NULL);
	cluster->options = *options;
	options_default(&cluster->options);
	cluster->world = sim_world_create(options->seed);
	assert(cluster->world != NULL);
	sim_world_set_shuffle(cluster->world, options->is_shuffled);
	cluster->net = sim_net_create(cluster->world);
	store.loop = sim_world_nature(cluster->world);
	cluster->store = meta_store_create(&store);
	cluster->gateway_host = sim_host_create(cluster->net, "gateway");
	assert(cluster->net != NULL);
	assert(cluster->store != NULL);
	assert(cluster->gateway_host != NULL);
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		node_init(cluster, i);
	for (uint32_t i = 0; i < cluster->options.client_count; i++) {
		char name[24];

		(void)snprintf(name, sizeof(name), "client%u", i + 1);
		cluster->client_hosts[i] = sim_host_create(cluster->net, name);
		assert(cluster->client_hosts[i] != NULL);
	}
	return cluster;
}

void
sim_cluster_destroy(struct sim_cluster *cluster)
{
	sim_cluster_gateway_kill(cluster);
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		sim_cluster_node_kill(cluster, i, false);
	/* What a kill leaves behind is freed in the world's next turn. */
	(void)sim_world_run(cluster->world, NULL, NULL,
	    sim_world_now_ns(cluster->world) + NUM_S(1));
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		disk_sim_destroy(cluster->nodes[i].disk);
	meta_store_destroy(cluster->store);
	sim_net_destroy(cluster->net);
	sim_world_destroy(cluster->world);
	free(cluster);
}

static void
node_on_ready(struct node *node, int rc, const char *reason, void *arg)
{
	struct sim_cluster_node *own = arg;

	(void)node;
	if (rc != 0)
		sim_cluster_fail(own->cluster, "%s did not start: %d, %s", own->address, rc,
		    reason);
	own->is_ready = true;
}

void
sim_cluster_node_start(struct sim_cluster *cluster, uint32_t index)
{
	struct sim_cluster_node *own = &cluster->nodes[index];
	struct node_options options = { .sim_host = own->host,
		.listen = own->address,
		.cluster_id = CLUSTER_ID,
		.device_bytes = NUM_MIB(16),
		.on_ready = node_on_ready,
		.arg = own };

	if (own->node != NULL)
		return;
	sim_world_trace(cluster->world, "start node %u", index + 1);
	if (!sim_host_is_up(own->host))
		sim_host_start(own->host);
	own->loop = sim_loop_create(cluster->world, sim_host_name(own->host));
	own->is_ready = false;
	options.loop = own->loop;
	if (own->loop == NULL || disk_sim_open(own->disk, own->loop, &options.disk) != 0)
		sim_cluster_fail(cluster, "the disk of %s cannot be opened", own->address);
	own->node = node_create(&options);
	if (own->node == NULL)
		sim_cluster_fail(cluster, "node_create: %s", strerror(errno));
	node_start(own->node);
}

/* Half of the deaths are noticed by nobody until a keep-alive fails. */
static enum sim_death
random_death(struct sim_cluster *cluster)
{
	return sim_world_random_below(cluster->world, 2) == 0 ? SIM_DEATH_RESET : SIM_DEATH_SILENT;
}

void
sim_cluster_node_kill(struct sim_cluster *cluster, uint32_t index, bool is_power_loss)
{
	struct sim_cluster_node *own = &cluster->nodes[index];

	if (own->node == NULL)
		return;
	sim_world_trace(cluster->world, "kill node %u power_loss=%d", index + 1, is_power_loss);
	node_destroy(own->node);
	sim_host_kill(own->host, random_death(cluster));
	loop_destroy(own->loop);
	own->node = NULL;
	own->loop = NULL;
	own->is_ready = false;
	if (is_power_loss)
		disk_sim_power_loss(own->disk);
}

static void
gateway_on_ready(void *arg)
{
	struct sim_cluster *cluster = arg;

	cluster->is_gateway_ready = true;
	sim_world_trace(cluster->world, "gateway ready");
}

static void
gateway_on_failed(int rc, const char *text, void *arg)
{
	sim_cluster_fail(arg, "the gateway gave up: %d, %s", rc, text);
}

void
sim_cluster_gateway_start(struct sim_cluster *cluster)
{
	struct mt_gateway_options options = { .cluster_id = CLUSTER_ID,
		.gateway_id = 1,
		.shard_count = cluster->options.shard_count,
		.min_replicas = 3,
		.node_count = cluster->options.node_count,
		.port_count = 1,
		.is_single_loop = true,
		.sim_host = cluster->gateway_host,
		.device_bytes = NUM_MIB(32),
		.client_receives = 64,
		.node_timeout_ns = NUM_S(5),
		.on_ready = gateway_on_ready,
		.on_failed = gateway_on_failed,
		.arg = cluster };
	char error[256] = "";

	if (cluster->gateway != NULL)
		return;
	sim_world_trace(cluster->world, "start gateway");
	if (!sim_host_is_up(cluster->gateway_host))
		sim_host_start(cluster->gateway_host);
	cluster->is_gateway_ready = false;
	cluster->gateway_loop = sim_loop_create(cluster->world, "gateway");
	assert(cluster->gateway_loop != NULL);
	cluster->meta = meta_memory_open(cluster->store, cluster->gateway_loop);
	assert(cluster->meta != NULL);
	options.loop = cluster->gateway_loop;
	options.meta = cluster->meta;
	options.boot_id = ++cluster->boot_count;
	(void)snprintf(options.ports[0].address, sizeof(options.ports[0].address),
	    "sim://gateway:1");
	options.ports[0].cpu = -1;
	for (uint32_t i = 0; i < cluster->options.node_count; i++) {
		(void)snprintf(options.nodes[i].address, sizeof(options.nodes[i].address), "%s",
		    cluster->nodes[i].address);
		(void)snprintf(options.nodes[i].domain, sizeof(options.nodes[i].domain), "rack%u",
		    i + 1);
	}
	cluster->gateway = mt_gateway_create(&options, error, sizeof(error));
	if (cluster->gateway == NULL ||
	    mt_gateway_start(cluster->gateway, error, sizeof(error)) != 0)
		sim_cluster_fail(cluster, "the gateway did not start: %s", error);
}

void
sim_cluster_gateway_kill(struct sim_cluster *cluster)
{
	if (cluster->gateway == NULL)
		return;
	sim_world_trace(cluster->world, "kill gateway");
	/* The host first: nobody is told anything. */
	sim_host_kill(cluster->gateway_host, random_death(cluster));
	mt_gateway_destroy(cluster->gateway);
	cluster->meta->ops->close(cluster->meta);
	loop_destroy(cluster->gateway_loop);
	cluster->gateway = NULL;
	cluster->meta = NULL;
	cluster->gateway_loop = NULL;
	cluster->is_gateway_ready = false;
}

void
sim_cluster_run(struct sim_cluster *cluster, uint64_t duration_ns)
{
	(void)sim_world_run(cluster->world, NULL, NULL,
	    sim_world_now_ns(cluster->world) + duration_ns);
}

void
sim_cluster_run_until(struct sim_cluster *cluster, bool (*until)(void *arg), void *arg,
    uint64_t limit_ns, const char *what)
{
	int rc =
	    sim_world_run(cluster->world, until, arg, sim_world_now_ns(cluster->world) + limit_ns);

	if (rc != 0)
		sim_cluster_fail(cluster, "waited in vain until %s (%s)", what,
		    rc == -ETIME ? "time is over" : "nothing is left to happen");
}

static bool
gateway_is_ready(void *arg)
{
	const struct sim_cluster *cluster = arg;

	return cluster->is_gateway_ready;
}

void
sim_cluster_start(struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		sim_cluster_node_start(cluster, i);
	sim_cluster_gateway_start(cluster);
	sim_cluster_run_until(cluster, gateway_is_ready, cluster, START_LIMIT_NS,
	    "the gateway is ready");
}
