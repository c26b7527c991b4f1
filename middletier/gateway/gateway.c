/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gateway.c -- a whole gateway: the main loop's part, and the threads of the ports
 *
 *	CREATED -> STARTING -------> TAKING -----------> SERVING ---> STOPPING -> STOPPED
 *	           ports listen;     a member of the     "ready"      every port stops
 *	           "cluster" and     cluster; every                   by itself; then the
 *	           volumes are read  shard gets an owner              lease is given back
 *	               |                 |                  ^
 *	               +----> FAILED <---+  no cluster, another one, disks too small: never serves; still stops
 *
 * The key "cluster" is made by creation.c or by a rebuild, never here: a store without it is the wrong
 * one, or was lost, and a gateway that began anew would take all that the nodes hold for garbage. Ports listen from the start, so that a wrong address is an error of
 * mt_gateway_start, and clients of a restarted gateway wait in their sessions.
 *
 * A port's thread runs its loop until the port has stopped; main joins it and, in mt_gateway_destroy,
 * frees the port. In the simulator all ports run on main's loop.
 */
#include "gateway/gateway.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/cluster_key.h"
#include "catalog/place.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/drop.h"
#include "cluster/gateway_state.h"
#include "cluster/holding.h"
#include "cluster/member.h"
#include "cluster/member_view.h"
#include "cluster/meta_proxy.h"
#include "cluster/mirror.h"
#include "cluster/peer.h"
#include "cluster/snapshot.h"
#include "cluster/volume_change.h"
#include "cluster/volume_refresh.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "control/control.h"
#include "control/control_answer.h"
#include "control/control_request.h"
#include "port/port.h"
#include "port/port_snapshot.h"
#include "session/session.h"

#define GATEWAY_MIN_REPLICAS_DEFAULT 2u
#define GATEWAY_DEVICE_BYTES_MIN NUM_MIB(2)
#define GATEWAY_LOAD_RETRY_NS NUM_MS(200)
#define GATEWAY_LEASE_NS NUM_S(3)
#define GATEWAY_HOLD_NS NUM_S(5)
_Static_assert(GATEWAY_HOLD_NS > MT_PEER_TIMEOUT_NS,
    "who has begun holds until the last gateway has answered, or is given up");
#define GATEWAY_SESSION_NS NUM_S(10)
#define GATEWAY_REPAIR_AFTER_NS NUM_S(60)
#define GATEWAY_FRAME_BYTES NUM_KIB(16)
#define GATEWAY_REPAIR_BYTES_PER_S NUM_MIB(64)
#define GATEWAY_SCRUB_INTERVAL_NS NUM_S(UINT64_C(7) * 24 * 3600)
#define GATEWAY_LOG_BYTES NUM_MIB(256)
#define GATEWAY_SWEEP_INTERVAL_NS NUM_S(600)
#define GATEWAY_INDEX_CACHE_BYTES NUM_MIB(64)
#define GATEWAY_READY_BYTES (MT_PORTS_MAX * SPLIT_ADDRESS_BYTES_MAX)

static void gateway_on_all_served(struct mt_gateway *gateway);

static const struct sm_state gateway_table[MT_GATEWAY_STATE_NR] = {
	[MT_GATEWAY_CREATED] = { "created", SM_TO(MT_GATEWAY_STARTING) | SM_TO(MT_GATEWAY_STOPPED),
	    SM_INITIAL },
	[MT_GATEWAY_STARTING] = { "starting",
	    SM_TO(MT_GATEWAY_TAKING) | SM_TO(MT_GATEWAY_FAILED) | SM_TO(MT_GATEWAY_STOPPING), 0 },
	[MT_GATEWAY_TAKING] = { "taking over",
	    SM_TO(MT_GATEWAY_SERVING) | SM_TO(MT_GATEWAY_FAILED) | SM_TO(MT_GATEWAY_STOPPING), 0 },
	[MT_GATEWAY_SERVING] = { "serving", SM_TO(MT_GATEWAY_FAILED) | SM_TO(MT_GATEWAY_STOPPING),
	    0 },
	[MT_GATEWAY_FAILED] = { "failed", SM_TO(MT_GATEWAY_STOPPING), SM_FAILURE },
	[MT_GATEWAY_STOPPING] = { "stopping", SM_TO(MT_GATEWAY_STOPPED), 0 },
	[MT_GATEWAY_STOPPED] = { "stopped", 0, SM_FINAL },
};

static void gateway_load(struct mt_gateway *gateway);
static void gateway_on_load_timer(struct loop_timer *timer, void *arg);
static const struct mt_port_host gateway_port_host;

/* Creating. */

static int __attribute__((format(printf, 3, 4)))
gateway_refuse(char *ret_error, size_t error_bytes, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(ret_error, error_bytes, format, args); /* cut where too long */
	va_end(args);
	return -EINVAL;
}

static int
gateway_check_options(const struct mt_gateway_options *options, char *ret_error, size_t error_bytes)
{
	if (options->cluster_id == 0)
		return gateway_refuse(ret_error, error_bytes, "cluster-id: must not be 0");
	if (options->port_count == 0 || options->port_count > MT_PORTS_MAX)
		return gateway_refuse(ret_error, error_bytes, "port: 1 to %u of them",
		    MT_PORTS_MAX);
	if (options->node_count == 0 || options->node_count > MT_NODES_MAX)
		return gateway_refuse(ret_error, error_bytes, "node: 1 to %u of them",
		    MT_NODES_MAX);
	if (options->shard_count > CLEAVE_SHARDS_MAX)
		return gateway_refuse(ret_error, error_bytes, "shards: at most %u",
		    CLEAVE_SHARDS_MAX);
	if (options->min_replicas > MT_REPLICAS_MAX)
		return gateway_refuse(ret_error, error_bytes, "min-replicas: 1 to %u",
		    MT_REPLICAS_MAX);
	if (options->device_bytes < GATEWAY_DEVICE_BYTES_MIN)
		return gateway_refuse(ret_error, error_bytes,
		    "device-memory: at least %" PRIu64 " bytes", GATEWAY_DEVICE_BYTES_MIN);
	for (uint32_t i = 0; i < options->node_count; i++) {
		for (uint32_t k = 0; k < i; k++) {
			if (strcmp(options->nodes[i].address, options->nodes[k].address) == 0)
				return gateway_refuse(ret_error, error_bytes,
				    "node: %s is given twice", options->nodes[i].address);
		}
	}
	return 0;
}

static void
gateway_set_defaults(struct mt_gateway_options *options)
{
	if (options->min_replicas == 0)
		options->min_replicas = GATEWAY_MIN_REPLICAS_DEFAULT;
	if (options->lease_ns == 0)
		options->lease_ns = GATEWAY_LEASE_NS;
	if (options->hold_ns == 0)
		options->hold_ns = GATEWAY_HOLD_NS;
	if (options->session_ns == 0)
		options->session_ns = GATEWAY_SESSION_NS;
	if (options->repair_after_ns == 0)
		options->repair_after_ns = GATEWAY_REPAIR_AFTER_NS;
	if (options->frame_bytes == 0)
		options->frame_bytes = GATEWAY_FRAME_BYTES;
	if (options->repair_bytes_per_s == 0)
		options->repair_bytes_per_s = GATEWAY_REPAIR_BYTES_PER_S;
	if (options->scrub_interval_ns == 0)
		options->scrub_interval_ns = GATEWAY_SCRUB_INTERVAL_NS;
	if (options->sweep_interval_ns == 0)
		options->sweep_interval_ns = GATEWAY_SWEEP_INTERVAL_NS;
	if (options->log_bytes == 0)
		options->log_bytes = GATEWAY_LOG_BYTES;
	if (options->index_cache_bytes == 0)
		options->index_cache_bytes = GATEWAY_INDEX_CACHE_BYTES;
}

/* The options are whole now: what ports are told of them. */
static void
gateway_set_settings(struct mt_gateway *gateway)
{
	const struct mt_gateway_options *options = &gateway->options;

	gateway->settings = (struct mt_settings){
		.cluster_id = options->cluster_id,
		.gateway_id = options->gateway_id,
		.boot_id = options->boot_id,
		.min_replicas = options->min_replicas,
		.frame_bytes = options->frame_bytes,
		.node_timeout_ns = options->node_timeout_ns,
		.repair_after_ns = options->repair_after_ns,
		.repair_bytes_per_s = options->repair_bytes_per_s,
		.scrub_interval_ns = options->scrub_interval_ns,
		.sweep_interval_ns = options->sweep_interval_ns,
		.orphan_grace_ns = options->orphan_grace_ns,
		.log_bytes = options->log_bytes,
		.index_cache_bytes = options->index_cache_bytes / options->port_count,
		.hold_ns = options->hold_ns,
		.manifest_bytes = options->manifest_bytes,
		.manifest_part_bytes = options->manifest_part_bytes,
	};
}

/* The options of every port, whoever opens it. */
static void
gateway_set_port_options(struct mt_gateway *gateway)
{
	const struct mt_gateway_options *options = &gateway->options;

	for (uint32_t i = 0; i < gateway->port_count; i++) {
		uint32_t connections_max = options->ports[i].connections_max;

		gateway->port_options[i] = (struct mt_port_options){
			.host = &gateway_port_host,
			.gateway = gateway,
			.settings = &gateway->settings,
			.shared = &gateway->shared,
			.cluster = &gateway->cluster,
			.index = i,
			.port_count = gateway->port_count,
			.main_loop = options->loop,
			.loop = options->is_single_loop ? options->loop : NULL,
			.sim_host = options->sim_host,
			.engine_workers = options->engine_workers,
			.address = options->ports[i].address,
			.connections_max = connections_max != 0 ? connections_max
								: MT_PORT_CONNECTIONS_MAX,
			.connections_own = MT_PORT_CONNECTIONS_OWN,
			.nodes = options->nodes,
			.node_count = options->node_count,
			.device_bytes = options->device_bytes,
			.wants_huge_pages = options->wants_huge_pages,
			.engine_threads = options->engine_threads,
			.merge_threads = options->merge_threads,
			.client_receives = options->client_receives,
		};
	}
}

struct mt_gateway *
mt_gateway_create(const struct mt_gateway_options *options, char *ret_error, size_t error_bytes)
{
	struct mt_gateway *gateway;

	if (gateway_check_options(options, ret_error, error_bytes) != 0) {
		errno = EINVAL;
		return NULL;
	}
	gateway = mt_calloc(1, sizeof(*gateway));
	if (gateway == NULL)
		goto err;
	gateway->ports = mt_calloc(options->port_count, sizeof(*gateway->ports));
	if (gateway->ports == NULL || mt_taking_init(gateway) != 0)
		goto err_gateway;
	gateway->magic = MT_GATEWAY_MAGIC;
	gateway->options = *options;
	gateway->port_count = options->port_count;
	gateway_set_defaults(&gateway->options);
	gateway_set_settings(gateway);
	gateway_set_port_options(gateway);
	mt_volumes_init(&gateway->volumes);
	mt_mirror_init(gateway);
	mt_drop_init(gateway);
	list_init(&gateway->control_queue);
	list_init(&gateway->asks);
	loop_timer_init(&gateway->load_timer, gateway_on_load_timer, gateway);
	sm_init(&gateway->sm, "gateway", gateway_table, MT_GATEWAY_CREATED, 0);
	return gateway;

err_gateway:
	mt_free(gateway->ports);
	mt_free(gateway);
err:
	(void)snprintf(ret_error, error_bytes, "out of memory");
	errno = ENOMEM;
	return NULL;
}

/* Starting: the cluster's key and volumes. */

static void
gateway_begin_port(struct loop_post *post, void *arg)
{
	(void)post;
	mt_port_begin(arg);
}

/* The ports are told that they own nothing yet; then the membership gives them their shards. */
static void
gateway_begin_ports(struct mt_gateway *gateway)
{
	static const uint64_t none[MT_SHARD_SET_WORDS];
	int rc;

	sm_move(&gateway->sm, MT_GATEWAY_TAKING);
	rc = mt_member_init(&gateway->member, gateway, gateway_on_all_served);
	if (rc == 0)
		rc = mt_volumes_watch(gateway);
	if (rc == 0)
		rc = mt_member_start(&gateway->member);
	if (rc != 0) {
		mt_gateway_fail(gateway, rc, "membership: %s", strerror(-rc));
		return;
	}
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		struct loop_post *post = &gateway->begin_posts[i];

		mt_port_shards(&gateway->ports[i], none, 0);
		*post = (struct loop_post){ .fn = gateway_begin_port, .arg = &gateway->ports[i] };
		loop_post(gateway->ports[i].loop, post);
	}
}

static void
gateway_on_load_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	gateway_load(arg);
}

static void
gateway_load_later(struct mt_gateway *gateway)
{
	log_limited(LOG_WARN, "gateway: the metadata store does not answer, asking again");
	loop_timer_start(gateway->options.loop, &gateway->load_timer, GATEWAY_LOAD_RETRY_NS);
}

static const char *
gateway_meta_name(const struct mt_gateway *gateway)
{
	const char *name = gateway->options.meta_name;

	return name != NULL ? name : "the metadata store";
}

/* Written by us or by another gateway just now: look again, either way. */
static void
gateway_on_completed(int rc, void *arg)
{
	struct mt_gateway *gateway = arg;
	const struct mt_cluster *before = &gateway->cluster;
	char id[STORE_ID_TEXT_BYTES], place[META_PLACE_BYTES];

	store_id_text(&gateway->options.store_id, id);
	mt_place_of(gateway->options.meta, place);
	if (rc == 0 && store_id_is_zero(&before->store_id))
		log_info("gateway: the metadata store had no identity, and got one store_id=%s",
		    id);
	if (rc == 0 && before->place[0] == '\0' && place[0] != '\0')
		log_info(
		    "gateway: the metadata store did not name its place, and does now place=%s",
		    place);
	if (rc == 0 || rc == -EAGAIN)
		gateway_load(gateway);
	else if (rc == -ETIMEDOUT)
		gateway_load_later(gateway);
	else
		mt_gateway_fail(gateway, rc, "the metadata store cannot be written: %s",
		    strerror(-rc));
}

/* A store that was made before stores had identities, or places. */
static bool
gateway_is_incomplete(const struct mt_gateway *gateway)
{
	const struct mt_cluster *cluster = &gateway->cluster;
	char place[META_PLACE_BYTES];

	mt_place_of(gateway->options.meta, place);
	return (store_id_is_zero(&cluster->store_id) &&
		   !store_id_is_zero(&gateway->options.store_id)) ||
	    (cluster->place[0] == '\0' && place[0] != '\0');
}

static void
gateway_complete(struct mt_gateway *gateway)
{
	struct mt_cluster cluster = gateway->cluster;
	int rc;

	if (store_id_is_zero(&cluster.store_id))
		cluster.store_id = gateway->options.store_id;
	mt_place_of(gateway->options.meta, cluster.place);
	rc = mt_cluster_put(gateway->options.meta, &cluster, gateway_on_completed, gateway);
	if (rc != 0)
		mt_gateway_fail(gateway, rc, "the metadata store cannot be written: %s",
		    strerror(-rc));
}

static void
gateway_fail_elsewhere(struct mt_gateway *gateway)
{
	char place[META_PLACE_BYTES];

	mt_place_of(gateway->options.meta, place);
	mt_gateway_fail(gateway, -EXDEV, MT_PLACE_TEXT, gateway_meta_name(gateway),
	    gateway->cluster.place, place);
}

/* Not tried again: a directory that is mounted later is another one. */
static void
gateway_fail_without_cluster(struct mt_gateway *gateway)
{
	mt_gateway_fail(gateway, -ENOENT, MT_NO_CLUSTER_TEXT, gateway_meta_name(gateway));
}

static void
gateway_on_loaded(int rc, const struct mt_volume *volume, void *arg)
{
	struct mt_gateway *gateway = arg;
	const struct mt_gateway_options *options = &gateway->options;
	const struct mt_cluster *cluster = &gateway->cluster;

	(void)volume;
	if (gateway->sm.state != MT_GATEWAY_STARTING)
		return;
	if (rc == -ENOENT)
		gateway_fail_without_cluster(gateway);
	else if (rc == -ETIMEDOUT)
		gateway_load_later(gateway);
	else if (rc != 0)
		mt_gateway_fail(gateway, rc, "the metadata store cannot be read: %s",
		    strerror(-rc));
	else if (cluster->cluster_id != options->cluster_id)
		mt_gateway_fail(gateway, -EXDEV,
		    "cluster-id: the metadata store belongs to cluster %016" PRIx64
		    ", not to %016" PRIx64,
		    cluster->cluster_id, options->cluster_id);
	else if (options->shard_count != 0 && options->shard_count != cluster->shard_count)
		mt_gateway_fail(gateway, -EINVAL,
		    "shards: the cluster was made with %" PRIu32 ", not with %" PRIu32,
		    cluster->shard_count, options->shard_count);
	else if (mt_place_is_other(options->meta, cluster))
		gateway_fail_elsewhere(gateway);
	else if (gateway_is_incomplete(gateway))
		gateway_complete(gateway);
	else
		gateway_begin_ports(gateway);
}

static void
gateway_load(struct mt_gateway *gateway)
{
	int rc;

	if (gateway->sm.state != MT_GATEWAY_STARTING)
		return;
	rc = mt_volumes_load(gateway, gateway_on_loaded, gateway);
	if (rc != 0)
		mt_gateway_fail(gateway, rc, "the metadata store cannot be read: %s",
		    strerror(-rc));
}

/* Starting: ports and threads. */

static void *
gateway_port_thread(void *arg)
{
	struct mt_port *port = arg;

	(void)loop_run(port->loop, NULL, NULL); /* ends when the port has stopped */
	return NULL;
}

static int
gateway_start_thread(struct mt_gateway *gateway, uint32_t index)
{
	int cpu = gateway->options.ports[index].cpu;
	char name[16];
	cpu_set_t set;
	int rc;

	rc = pthread_create(&gateway->threads[index], NULL, gateway_port_thread,
	    &gateway->ports[index]);
	if (rc != 0)
		return -rc;
	gateway->has_thread[index] = true;
	(void)snprintf(name, sizeof(name), "port%u", index % MT_PORTS_MAX);
	(void)pthread_setname_np(gateway->threads[index], name); /* for those who look at it */
	if (cpu < 0)
		return 0;
	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	rc = pthread_setaffinity_np(gateway->threads[index], sizeof(set), &set);
	if (rc != 0)
		log_warn("gateway: cannot pin port=%" PRIu32 " cpu=%d rc=%s", index, cpu,
		    log_errno(-rc));
	return 0;
}

static void
gateway_join(struct mt_gateway *gateway, uint32_t index)
{
	if (!gateway->has_thread[index])
		return;
	(void)pthread_join(gateway->threads[index], NULL); /* it was created, and is not joined */
	gateway->has_thread[index] = false;
}

/* Threads that run already end as in an orderly stop; nothing was served yet. */
static void gateway_undo_threads(struct mt_gateway *gateway);

int
mt_gateway_start(struct mt_gateway *gateway, char *ret_error, size_t error_bytes)
{
	int rc = 0;

	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	gateway->started_ns = loop_now_ns(gateway->options.loop);
	while (gateway->opened_count < gateway->port_count && rc == 0) {
		uint32_t index = gateway->opened_count;

		rc = mt_port_open(&gateway->ports[index], &gateway->port_options[index], ret_error,
		    error_bytes);
		if (rc == 0)
			gateway->ports[gateway->opened_count++].root_ops = &mt_meta_proxy;
	}
	if (rc != 0)
		return rc; /* mt_gateway_destroy closes those that are open */
	sm_move(&gateway->sm, MT_GATEWAY_STARTING);
	for (uint32_t i = 0; i < gateway->port_count && !gateway->options.is_single_loop; i++) {
		rc = gateway_start_thread(gateway, i);
		if (rc != 0) {
			gateway_undo_threads(gateway);
			(void)snprintf(ret_error, error_bytes, "threads: %s", strerror(-rc));
			return rc;
		}
	}
	gateway_load(gateway);
	return 0;
}

/* Reports of ports. */

static void
gateway_log_ready(struct mt_gateway *gateway)
{
	char addresses[GATEWAY_READY_BYTES];
	uint32_t epoch_max = 0;
	size_t bytes = 0;

	addresses[0] = '\0';
	for (uint32_t i = 0; i < gateway->port_count; i++)
		bytes += (size_t)snprintf(addresses + bytes, sizeof(addresses) - bytes, "%s%s",
		    i == 0 ? "" : ",", gateway->ports[i].address);
	for (uint32_t i = 0; i < gateway->cluster.shard_count; i++)
		epoch_max = (uint32_t)num_max(epoch_max, gateway->member.shards[i].own_epoch);
	log_info("gateway: ready port=%s shards=%" PRIu32 " epoch=%" PRIu32, addresses,
	    gateway->cluster.shard_count, epoch_max);
}

static void
gateway_on_shard(struct mt_port *port, uint32_t shard, enum mt_shard_state state, uint32_t epoch)
{
	struct mt_gateway *gateway = port->gateway;

	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	if (epoch != gateway->member.shards[shard].own_epoch)
		mt_holder_on_claim(gateway);
	mt_mirror_on_shard(gateway, shard, state);
	mt_view_on_shard(&gateway->member, shard, state, epoch);
}

/* Its own shards serve; those of other gateways may not yet. The membership knows. */
static void
gateway_on_port_ready(struct mt_port *port)
{
	log_debug("gateway: port=%s serves its shards epoch=%" PRIu32, port->address,
	    port->ready_epoch);
}

/* The gateway may have begun to serve while the report was on its way: nobody is cut off for that. */
static void
gateway_on_port_failed(struct mt_port *port, const char *text)
{
	if (atomic_load_explicit(&port->shared->has_served, memory_order_relaxed))
		log_error("gateway: %s", text);
	else
		mt_gateway_fail(port->gateway, -EINVAL, "%s", text);
}

static void
gateway_on_all_served(struct mt_gateway *gateway)
{
	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	if (gateway->sm.state != MT_GATEWAY_TAKING)
		return;
	sm_move(&gateway->sm, MT_GATEWAY_SERVING);
	atomic_store_explicit(&gateway->shared.has_served, true, memory_order_relaxed);
	gateway_log_ready(gateway);
	if (gateway->options.on_ready != NULL)
		gateway->options.on_ready(gateway->options.arg);
}

static void
gateway_on_left(void *arg)
{
	struct mt_gateway *gateway = arg;
	void (*fn)(void *arg) = gateway->stop_fn;

	sm_move(&gateway->sm, MT_GATEWAY_STOPPED);
	if (fn != NULL)
		fn(gateway->stop_arg);
}

static void
gateway_on_port_stopped(struct mt_port *port)
{
	struct mt_gateway *gateway = port->gateway;

	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	gateway_join(gateway, port->index);
	gateway->stopped_count++;
	if (gateway->stopped_count < gateway->port_count)
		return;
	/* Nothing of ours is under way any more: whoever waits for our shards may take them. */
	if (gateway->member.gateway != NULL)
		mt_member_leave(&gateway->member, gateway_on_left, gateway);
	else
		gateway_on_left(gateway);
}

/* On a port's thread. */

static int
gateway_init_port(struct mt_port *port)
{
	mt_peer_init(port);
	return mt_control_init(port);
}

static void
gateway_fini_port(struct mt_port *port)
{
	mt_peer_fini(port);
	mt_control_fini(port);
}

static void
gateway_on_session_left(struct mt_session *session)
{
	mt_control_on_left(session);
	if (session->hello.volume_id != 0 && !mt_session_is_reader(session) &&
	    session->port->sm.state < MT_PORT_STOPPING)
		mt_holder_on_left(session);
}

static const struct mt_port_host gateway_port_host = {
	.init = gateway_init_port,
	.fini = gateway_fini_port,
	.stop = mt_peer_stop,
	.is_quiet = mt_peer_is_quiet,
	.on_control = mt_control_on_message,
	.on_left = gateway_on_session_left,
	.ask_volume = mt_volume_query_send,
	.on_ready = gateway_on_port_ready,
	.on_stopped = gateway_on_port_stopped,
	.on_failed = gateway_on_port_failed,
	.on_shard = gateway_on_shard,
};

/* Stopping. */

static void
gateway_stop_port(struct loop_post *post, void *arg)
{
	(void)post;
	mt_port_stop(arg);
}

static void
gateway_post_stop(struct mt_gateway *gateway, uint32_t index)
{
	struct loop_post *post = &gateway->stop_posts[index];

	*post = (struct loop_post){ .fn = gateway_stop_port, .arg = &gateway->ports[index] };
	loop_post(gateway->ports[index].loop, post);
}

static void
gateway_undo_threads(struct mt_gateway *gateway)
{
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		if (!gateway->has_thread[i])
			continue;
		gateway_post_stop(gateway, i);
		gateway_join(gateway, i);
	}
}

void
mt_gateway_stop(struct mt_gateway *gateway, void (*fn)(void *arg), void *arg)
{
	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	assert(gateway->sm.state > MT_GATEWAY_CREATED && gateway->sm.state < MT_GATEWAY_STOPPING);
	gateway->stop_fn = fn;
	gateway->stop_arg = arg;
	sm_move(&gateway->sm, MT_GATEWAY_STOPPING);
	mt_volumes_unwatch(gateway);
	if (gateway->member.gateway != NULL)
		mt_view_stop(&gateway->member);
	for (uint32_t i = 0; i < gateway->port_count; i++)
		gateway_post_stop(gateway, i);
}

void
mt_gateway_destroy(struct mt_gateway *gateway)
{
	if (gateway == NULL)
		return;
	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	/* Threads end by mt_gateway_stop alone: a process that has threads is killed by a signal. */
	for (uint32_t i = 0; i < gateway->port_count; i++)
		assert(!gateway->has_thread[i]);
	gateway->shared.is_killed = gateway->options.sim_host != NULL &&
	    gateway->sm.state > MT_GATEWAY_CREATED && gateway->sm.state < MT_GATEWAY_STOPPED;
	loop_timer_stop(gateway->options.loop, &gateway->load_timer);
	mt_volumes_unwatch(gateway);
	mt_member_fini(&gateway->member);
	mt_control_drop_all(gateway);
	mt_volumes_drop_waiters(gateway);
	for (uint32_t i = 0; i < gateway->port_count; i++)
		mt_port_close(&gateway->ports[i]);
	mt_drop_fini(gateway);
	mt_holder_fini(gateway);
	mt_taking_fini(gateway);
	mt_mirror_fini(gateway);
	mt_volumes_fini(&gateway->volumes);
	mt_free(gateway->ports);
	gateway->magic = 0;
	mt_free(gateway);
}

/* Looking in. */

char *
mt_gateway_status_json(struct mt_gateway *gateway)
{
	struct mt_ask *ask = mt_calloc(1, sizeof(*ask));
	json_t *status = NULL;
	char *text = NULL;

	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	/* Ports with threads of their own answer the control request "status". */
	assert(gateway->options.is_single_loop);
	if (ask != NULL) {
		for (uint32_t i = 0; i < gateway->port_count; i++)
			mt_port_snapshot_take(&gateway->ports[i], &ask->legs[i].snapshot);
		status = mt_json_status(gateway, ask, true);
		for (uint32_t i = 0; i < gateway->port_count; i++)
			mt_port_snapshot_fini(&ask->legs[i].snapshot);
	}
	if (status != NULL)
		text = json_dumps(status, JSON_COMPACT);
	json_decref(status);
	mt_free(ask);
	return text;
}

uint64_t
mt_gateway_metric(struct mt_gateway *gateway, enum mt_metric metric)
{
	uint64_t sum = 0;

	assert(metric < MT_METRIC_NR);
	for (uint32_t i = 0; i < gateway->port_count; i++)
		sum += metric_read(&gateway->ports[i].metrics[metric]);
	return sum;
}
