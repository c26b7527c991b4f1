/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c -- see cluster.h */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "balancer.h"
#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/disk.h"
#include "cleave/loop.h"
#include "cluster.h"
#include "deletes.h"
#include "encrypted.h"
#include "engines/sim/offload_sim.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/metric.h"
#include "middletier/gateway/gateway.h"
#include "middletier/meta/meta_etcd.h"
#include "splitlib/sim/loop_sim.h"
#include "storage-node/format/format_pages.h"
#include "store.h"

#define START_LIMIT_NS NUM_S(120)
#define RESTART_AFTER_NS NUM_S(1)
#define BEAT_NS NUM_S(1)
#define OPEN_LOOK_NS NUM_MS(100)
#define CLOCK_OFFSET_NS_MAX NUM_S(100000)

static void (*fail_fn)(const char *text, void *arg);
static void *fail_arg;

void
sim_cluster_set_fail_hook(void (*fn)(const char *text, void *arg), void *arg)
{
	fail_fn = fn;
	fail_arg = arg;
}

void
sim_cluster_fail(struct sim_cluster *cluster, const char *format, ...)
{
	char text[1024];
	va_list args;
	int bytes = snprintf(text, sizeof(text),
	    "%.6f s: ", (double)sim_world_now_ns(cluster->world) / 1e9);

	va_start(args, format);
	(void)vsnprintf(text + bytes, sizeof(text) - (size_t)bytes, format, args);
	va_end(args);
	if (fail_fn != NULL)
		fail_fn(text, fail_arg);
	else
		(void)fprintf(stderr, "seed %" PRIu64 ", at %s\n", cluster->options.seed, text);
	exit(1);
}

uint32_t
sim_cluster_below(struct sim_cluster *cluster, uint32_t limit)
{
	return (uint32_t)sim_world_random_below(cluster->world, limit);
}

/* A machine's clock: booted at another time, its crystal off by a little. */
struct loop *
sim_cluster_loop_create(struct sim_cluster *cluster, struct sim_host *host)
{
	struct loop *loop = sim_loop_create(cluster->world, sim_host_name(host));
	uint32_t range = cluster->options.drift_ppm_max;

	assert(loop != NULL);
	if (cluster->options.has_drift)
		sim_loop_set_skew(loop, sim_world_random_below(cluster->world, CLOCK_OFFSET_NS_MAX),
		    (int32_t)sim_cluster_below(cluster, 2 * range + 1) - (int32_t)range);
	return loop;
}

static int
node_poke(void *arg, uint64_t offset_bytes, const void *page)
{
	disk_sim_poke(arg, offset_bytes, page, DISK_ALIGN);
	return 0;
}

static void
node_format_disk(struct sim_cluster *cluster, uint32_t index)
{
	struct sim_cluster_node *node = &cluster->nodes[index];
	uint32_t count = node->format_count++;
	struct disk_sim_options disk = { .capacity_bytes = cluster->options.disk_bytes,
		.seed = cluster->options.seed * 1000 + index + count * 100 };
	struct node_format format = { .capacity_bytes = cluster->options.disk_bytes,
		.slot_bytes = cluster->options.slot_bytes,
		.cluster_id = SIM_CLUSTER_ID,
		.node_id = index + 1,
		.disk_uuid = { (uint8_t)(index + 1), (uint8_t)count } };
	char reason[FORMAT_REASON_BYTES_MAX];

	disk_sim_destroy(node->disk);
	node->disk = disk_sim_create(&disk);
	if (node->disk == NULL)
		sim_cluster_fail(cluster, "out of memory");
	if (node_format(&format, node_poke, node->disk, reason) != 0)
		sim_cluster_fail(cluster, "format: %s", reason);
}

static void
node_init(struct sim_cluster *cluster, uint32_t index)
{
	struct sim_cluster_node *node = &cluster->nodes[index];
	char name[24];

	(void)snprintf(name, sizeof(name), "node%u", index + 1);
	node->cluster = cluster;
	node->is_listed = true;
	node->host = sim_host_create(cluster->net, name);
	if (node->host == NULL)
		sim_cluster_fail(cluster, "out of memory");
	node_format_disk(cluster, index);
	(void)snprintf(node->address, sizeof(node->address), "sim://%s:1", name);
}

uint32_t
sim_cluster_node_add(struct sim_cluster *cluster)
{
	uint32_t index = cluster->options.node_count;

	assert(index < SIM_NODES_MAX);
	node_init(cluster, index);
	cluster->nodes[index].is_listed = false;
	cluster->options.node_count++;
	return index;
}

uint32_t
sim_cluster_here_count(const struct sim_cluster *cluster)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		count += !cluster->nodes[i].is_away;
	return count;
}

static void
gateway_init(struct sim_cluster *cluster, uint32_t index)
{
	struct sim_cluster_gateway *gateway = &cluster->gateways[index];
	char name[24];

	(void)snprintf(name, sizeof(name), "gateway%u", index + 1);
	gateway->cluster = cluster;
	gateway->index = index;
	gateway->host = sim_host_create(cluster->net, name);
	assert(gateway->host != NULL);
	(void)snprintf(gateway->address, sizeof(gateway->address), "sim://%s:1", name);
}

static void
default_u32(uint32_t *value, uint32_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void
default_u64(uint64_t *value, uint64_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void
options_default(struct sim_cluster_options *options)
{
	default_u32(&options->gateway_count, 1);
	default_u32(&options->node_count, 3);
	default_u32(&options->client_count, 2);
	default_u32(&options->shard_count, 2);
	default_u32(&options->min_replicas, 2);
	default_u64(&options->device_bytes, NUM_MIB(16));
	default_u32(&options->port_count, 1);
	default_u32(&options->client_receives, 64);
	default_u64(&options->disk_bytes, NUM_MIB(256));
	default_u64(&options->slot_bytes, NUM_KIB(512));
	default_u64(&options->node_timeout_ns, NUM_S(5));
	assert(options->gateway_count <= SIM_GATEWAYS_MAX);
	assert(options->node_count <= SIM_NODES_MAX);
	assert(options->client_count <= SIM_CLIENTS_MAX);
}

static void restart_later(struct sim_cluster *cluster);

static void
on_restart(struct loop_timer *timer, void *arg)
{
	struct sim_cluster *cluster = arg;

	(void)timer;
	for (uint32_t i = 0; i < cluster->options.node_count; i++) {
		struct sim_cluster_node *node = &cluster->nodes[i];

		if (cluster->must_replace && node->is_ready && node_is_read_only(node->node))
			sim_cluster_node_replace(cluster, i);
		else if (node->has_failed)
			sim_cluster_node_kill(cluster, i, false);
		else
			continue;
		sim_cluster_node_start(cluster, i);
	}
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		if (cluster->gateways[i].has_failed) {
			sim_cluster_gateway_kill(cluster, i);
			sim_cluster_gateway_start(cluster, i);
		}
	}
}

/* So that time goes on while nothing runs at all. */
static void
on_beat(struct loop_timer *timer, void *arg)
{
	struct sim_cluster *cluster = arg;

	loop_timer_start(sim_world_nature(cluster->world), timer, BEAT_NS);
}

void
sim_cluster_replace_broken(struct sim_cluster *cluster)
{
	cluster->must_replace = true;
	restart_later(cluster);
}

static void
restart_later(struct sim_cluster *cluster)
{
	if (!cluster->restart_timer.is_active)
		loop_timer_start(sim_world_nature(cluster->world), &cluster->restart_timer,
		    RESTART_AFTER_NS);
}

struct sim_cluster *
sim_cluster_create(const struct sim_cluster_options *options)
{
	struct sim_cluster *cluster = calloc(1, sizeof(*cluster));
	struct sim_store_options store = { .knows_deaths = options->knows_deaths,
		.is_etcd = options->is_on_etcd,
		.member_count = options->etcd_members,
		.has_user = options->has_etcd_user,
		.try_ns = options->etcd_try_ns };

	assert(cluster != NULL);
	cluster->options = *options;
	options_default(&cluster->options);
	cluster->world = sim_world_create(options->seed);
	assert(cluster->world != NULL);
	sim_world_set_shuffle(cluster->world, options->is_shuffled);
	cluster->net = sim_net_create(cluster->world);
	if (cluster->net != NULL && options->has_peeks)
		sim_net_offload(cluster->net);
	if (options->link.latency_max_ns > 0)
		sim_net_set_links(cluster->net, &options->link);
	store.loop = sim_world_nature(cluster->world);
	cluster->store = sim_store_create(&store);
	assert(cluster->net != NULL);
	cluster->spared_node = SIM_NODES_MAX;
	if (options->has_keys)
		cluster->keys = sim_keys_create();
	cluster->deletes = sim_deletes_create(cluster);
	loop_timer_init(&cluster->restart_timer, on_restart, cluster);
	loop_timer_init(&cluster->beat_timer, on_beat, cluster);
	on_beat(&cluster->beat_timer, cluster);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		gateway_init(cluster, i);
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
	loop_timer_stop(sim_world_nature(cluster->world), &cluster->restart_timer);
	loop_timer_stop(sim_world_nature(cluster->world), &cluster->beat_timer);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_kill(cluster, i);
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		sim_cluster_node_kill(cluster, i, false);
	/* Memory that a kill leaves behind is freed in the world's next turn. */
	(void)sim_world_run(cluster->world, NULL, NULL,
	    sim_world_now_ns(cluster->world) + NUM_S(1));
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		disk_sim_destroy(cluster->nodes[i].disk);
	sim_store_destroy(cluster->store);
	sim_net_destroy(cluster->net);
	sim_world_destroy(cluster->world);
	sim_deletes_destroy(cluster->deletes);
	sim_keys_destroy(cluster->keys);
	free(cluster);
}

/* Storage nodes. */

static void
node_on_ready(struct node *node, int rc, const char *reason, void *arg)
{
	struct sim_cluster_node *own = arg;

	if (rc == 0) {
		own->is_ready = true;
		if (node_is_read_only(node))
			restart_later(own->cluster);
		return;
	}
	sim_world_trace(own->cluster->world, "%s did not start: %d", own->address, rc);
	log_error("sim: %s did not start: %d, %s", own->address, rc, reason);
	own->has_failed = true;
	restart_later(own->cluster);
}

void
sim_cluster_node_start(struct sim_cluster *cluster, uint32_t index)
{
	struct sim_cluster_node *own = &cluster->nodes[index];
	struct node_options options = { .sim_host = own->host,
		.listen = own->address,
		.cluster_id = SIM_CLUSTER_ID,
		.device_bytes = NUM_MIB(16),
		.level_max = own->level_max,
		.direct = cluster->options.has_direct ? NODE_DIRECT_TRUSTED : NODE_DIRECT_OFF,
		.key = sim_keys_of_number(cluster->keys, "node", index + 1),
		.on_ready = node_on_ready,
		.arg = own };

	if (own->node != NULL || own->is_away)
		return;
	if (cluster->on_node_start != NULL)
		cluster->on_node_start(index, cluster->on_node_start_arg);
	sim_world_trace(cluster->world, "start node %u", index + 1);
	if (!sim_host_is_up(own->host))
		sim_host_start(own->host);
	own->loop = sim_cluster_loop_create(cluster, own->host);
	own->is_ready = own->has_failed = false;
	own->taken_count = 0;
	own->start_count++;
	options.loop = own->loop;
	if (disk_sim_open(own->disk, own->loop, &options.disk) != 0)
		sim_cluster_fail(cluster, "the disk of %s cannot be opened", own->address);
	own->node = node_create(&options);
	if (own->node == NULL)
		sim_cluster_fail(cluster, "node_create: %s", strerror(errno));
	sim_deletes_watch(cluster, index);
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
	sim_deletes_unwatch(cluster, index);
	node_destroy(own->node);
	sim_host_kill(own->host, random_death(cluster));
	loop_destroy(own->loop);
	own->node = NULL;
	own->loop = NULL;
	own->is_ready = own->has_failed = false;
	if (is_power_loss)
		disk_sim_power_loss(own->disk);
}

void
sim_cluster_node_replace(struct sim_cluster *cluster, uint32_t index)
{
	sim_cluster_node_kill(cluster, index, false);
	sim_world_trace(cluster->world, "replace disk %u", index + 1);
	node_format_disk(cluster, index);
}

/* Gateways. */

static void
gateway_on_ready(void *arg)
{
	struct sim_cluster_gateway *own = arg;

	own->is_ready = true;
	sim_world_trace(own->cluster->world, "%s ready", own->address);
}

static void
gateway_on_failed(int rc, const char *text, void *arg)
{
	struct sim_cluster_gateway *own = arg;

	sim_world_trace(own->cluster->world, "%s gave up: %d", own->address, rc);
	log_error("sim: %s gave up: %d, %s", own->address, rc, text);
	own->has_failed = true;
	restart_later(own->cluster);
}

void
sim_cluster_gateway_options(struct sim_cluster_gateway *own, struct mt_gateway_options *options)
{
	struct sim_cluster *cluster = own->cluster;
	const struct sim_cluster_options *from = &cluster->options;

	*options = (struct mt_gateway_options){ .cluster_id = SIM_CLUSTER_ID,
		.gateway_id = own->index + 1,
		.store_id = { SIM_CLUSTER_ID, ++cluster->store_count },
		.shard_count = from->shard_count,
		.min_replicas = from->min_replicas,
		.port_count = from->port_count,
		.engine_threads = from->engine_threads,
		.merge_threads = from->merge_threads,
		.is_single_loop = true,
		.sim_host = own->host,
		.engine_workers = &offload_sim_ops,
		.device_bytes = from->device_bytes,
		.log_bytes = from->log_bytes,
		.index_cache_bytes = from->index_cache_bytes,
		.hot_bytes = from->hot_bytes,
		.mirror_bytes = from->mirror_bytes,
		.mirror_faults = SIM_MIRROR_FAULTS,
		.hot_count_min = 1, /* blocks are seldom read from a node, and again from there */
		.has_read_ahead = from->has_heat,
		.run_codec = from->has_heat ? MT_RUN_CODEC_AUTO : MT_RUN_CODEC_ZSTD,
		.read_frame_bytes = from->has_heat ? CLEAVE_BLOCK_BYTES : 0,
		.manifest_bytes = from->manifest_bytes,
		.manifest_part_bytes = from->manifest_part_bytes,
		.has_recipes = from->has_recipes,
		.directory_batches_min = from->directory_batches_min,
		.recipe_lies = from->has_recipes || from->has_offload ? SIM_RECIPE_LIES : 0,
		.has_offload = from->has_offload,
		.worker_jobs = from->has_offload ? SIM_WORKER_JOBS : 0,
		.offload_bytes_min = 1,
		.hold_ns = from->hold_ns,
		.level_max = own->level_max,
		.client_receives = from->client_receives,
		.node_timeout_ns = from->node_timeout_ns,
		.lease_ns = from->lease_ns,
		.session_ns = SIM_SESSION_NS,
		.repair_after_ns = from->repair_after_ns,
		.sweep_interval_ns = from->sweep_interval_ns,
		.orphan_grace_ns = from->orphan_grace_ns,
		.scrub_interval_ns = from->scrub_interval_ns,
		.is_health_watched = from->is_health_watched,
		.key = sim_keys_of_number(cluster->keys, "gateway", own->index + 1),
		.on_ready = gateway_on_ready,
		.on_failed = gateway_on_failed };
	if (from->has_balance) {
		options->balance = MT_BALANCE_LOAD;
		options->balance_interval_ns = SIM_BALANCE_INTERVAL_NS;
		options->balance_floor = SIM_BALANCE_FLOOR;
	}
	for (uint32_t i = 0; i < from->port_count; i++) {
		(void)snprintf(options->ports[i].address, sizeof(options->ports[i].address),
		    "sim://%s:%u", sim_host_name(own->host), i + 1);
		options->ports[i].cpu = -1;
	}
	for (uint32_t i = 0; i < from->node_count; i++) {
		struct mt_node_config *node = &options->nodes[options->node_count];

		if (!cluster->nodes[i].is_listed)
			continue;
		(void)snprintf(node->address, sizeof(node->address), "%s",
		    cluster->nodes[i].address);
		(void)snprintf(node->domain, sizeof(node->domain), "rack%u", i + 1);
		options->node_count++;
	}
}

static void
gateway_begin(struct sim_cluster_gateway *own)
{
	struct sim_cluster *cluster = own->cluster;
	struct mt_gateway_options options;
	char error[256] = "";

	sim_cluster_gateway_options(own, &options);
	options.loop = own->loop;
	options.meta = own->meta;
	options.boot_id = own->boot_id;
	options.arg = own;
	own->gateway = mt_gateway_create(&options, error, sizeof(error));
	if (own->gateway == NULL || mt_gateway_start(own->gateway, error, sizeof(error)) != 0)
		sim_cluster_fail(cluster, "gateway %u did not start: %s", own->index + 1, error);
	sim_encrypted_on_gateway(cluster->encrypted, own);
}

/* ---- on an etcd: the claim of a gateway's id comes first ---- */

/* Gateways of one cluster: there is one a process at a time. */
static const struct sim_cluster *claim_cluster;

/* "gateway 2 boot 17": as who runs on the same host sees it. */
static bool
claim_is_of_dead(const char *process)
{
	uint64_t boot_id;
	uint32_t id;

	if (sscanf(process, "gateway %" SCNu32 " boot %" SCNu64, &id, &boot_id) != 2)
		return false;
	assert(id > 0 && id <= claim_cluster->options.gateway_count);
	return claim_cluster->gateways[id - 1].loop == NULL ||
	    claim_cluster->gateways[id - 1].boot_id != boot_id;
}

static void
gateway_on_claim(int rc, const char *other, void *arg)
{
	struct sim_cluster_gateway *own = arg;

	if (rc == 0)
		gateway_begin(own);
	else
		gateway_on_failed(rc, other, own);
}

/* Until it has answered; a process that is refused gives up, and is started again. */
static void
gateway_on_open_timer(struct loop_timer *timer, void *arg)
{
	struct sim_cluster_gateway *own = arg;
	const char *trouble;
	bool is_refused;
	int rc;

	if (own->gateway != NULL)
		return;
	trouble = meta_etcd_trouble(own->meta, &is_refused);
	if (is_refused) {
		gateway_on_failed(-EACCES, trouble, own);
		return;
	}
	loop_timer_start(own->loop, timer, OPEN_LOOK_NS);
	if (own->is_claiming || !meta_etcd_is_ready(own->meta))
		return;
	own->is_claiming = true;
	rc = meta_etcd_claim(own->meta, own->index + 1, own->cluster->options.lease_ns,
	    gateway_on_claim, own);
	assert(rc == 0);
	(void)rc;
}

static void
gateway_claim(struct sim_cluster_gateway *own)
{
	own->is_claiming = false;
	loop_timer_init(&own->open_timer, gateway_on_open_timer, own);
	loop_timer_start(own->loop, &own->open_timer, 0);
}

static struct meta *
gateway_open(struct sim_cluster_gateway *own)
{
	struct sim_cluster *cluster = own->cluster;
	char name[64];

	(void)snprintf(name, sizeof(name), "gateway %" PRIu32 " boot %" PRIu64, own->index + 1,
	    own->boot_id);
	claim_cluster = cluster;
	return sim_store_open(cluster->store, own->loop,
	    &(struct sim_store_process){ .name = name, .is_dead = claim_is_of_dead });
}

const char *
sim_cluster_client_key(const struct sim_cluster *cluster)
{
	return sim_keys_path(cluster->keys, SIM_KEY_OPERATOR);
}

struct meta *
sim_cluster_tool_open(struct sim_cluster *cluster, struct loop *loop)
{
	return sim_store_open(cluster->store, loop, &(struct sim_store_process){ 0 });
}

void
sim_cluster_gateway_start(struct sim_cluster *cluster, uint32_t index)
{
	struct sim_cluster_gateway *own = &cluster->gateways[index];

	if (own->loop != NULL)
		return;
	sim_world_trace(cluster->world, "start gateway %u", index + 1);
	if (!sim_host_is_up(own->host))
		sim_host_start(own->host);
	own->is_ready = own->has_failed = false;
	own->loop = sim_cluster_loop_create(cluster, own->host);
	own->boot_id = ++cluster->boot_count;
	own->meta = gateway_open(own);
	if (sim_store_is_etcd(cluster->store))
		gateway_claim(own);
	else
		gateway_begin(own);
}

void
sim_cluster_gateway_kill(struct sim_cluster *cluster, uint32_t index)
{
	struct sim_cluster_gateway *own = &cluster->gateways[index];

	if (own->loop == NULL)
		return;
	sim_world_trace(cluster->world, "kill gateway %u", index + 1);
	for (uint32_t i = 0; i < MT_METRIC_NR && own->gateway != NULL; i++)
		cluster->metrics[i] += mt_gateway_metric(own->gateway, (enum mt_metric)i);
	sim_store_ring(cluster->store, own->meta, true);
	/* The host first: nobody is told anything. */
	sim_host_kill(own->host, random_death(cluster));
	if (own->gateway != NULL)
		mt_gateway_destroy(own->gateway);
	loop_timer_stop(own->loop, &own->open_timer);
	sim_store_close(cluster->store, own->meta);
	loop_destroy(own->loop);
	own->gateway = NULL;
	own->meta = NULL;
	own->loop = NULL;
	own->stop_post.fn = NULL;
	own->is_ready = own->has_failed = false;
}

/* In its process. */
static void
gateway_on_stop_post(struct loop_post *post, void *arg)
{
	struct sim_cluster_gateway *own = arg;

	(void)post;
	mt_gateway_stop(own->gateway, NULL, NULL);
}

void
sim_cluster_gateway_stop(struct sim_cluster *cluster, uint32_t index)
{
	struct sim_cluster_gateway *own = &cluster->gateways[index];

	if (own->gateway == NULL || own->stop_post.fn != NULL)
		return;
	sim_world_trace(cluster->world, "stop gateway %u", index + 1);
	own->stop_post = (struct loop_post){ .fn = gateway_on_stop_post, .arg = own };
	loop_post(own->loop, &own->stop_post);
}

uint64_t
sim_cluster_metric(const struct sim_cluster *cluster, enum mt_metric metric)
{
	uint64_t sum = cluster->metrics[metric];

	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		if (cluster->gateways[i].gateway != NULL)
			sum += mt_gateway_metric(cluster->gateways[i].gateway, metric);
	return sum;
}

/* Running. */

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
gateways_are_ready(void *arg)
{
	const struct sim_cluster *cluster = arg;

	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		if (!cluster->gateways[i].is_ready)
			return false;
	return true;
}

void
sim_cluster_start_all(struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		sim_cluster_node_start(cluster, i);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_start(cluster, i);
}

void
sim_cluster_start(struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		sim_cluster_node_start(cluster, i);
	if (!cluster->is_made)
		sim_cluster_make(cluster);
	sim_cluster_start_gateways(cluster);
}

void
sim_cluster_start_gateways(struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_start(cluster, i);
	sim_cluster_run_until(cluster, gateways_are_ready, cluster, START_LIMIT_NS,
	    "the gateways are ready");
}
