/* SPDX-License-Identifier: Apache-2.0 */
/* gateway_options.c -- see gateway_options.h */
#include "gateway/gateway_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/wire.h"
#include "cluster/gateway_state.h"
#include "cluster/peer.h"
#include "common/replica.h"
#include "common/settings.h"
#include "extent/head_mirror.h"
#include "port/port.h"
#include "port/port_memory.h"
#include "read/hot.h"
#include "worker/worker.h"

#define GATEWAY_MIN_REPLICAS_DEFAULT 2u
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
#define GATEWAY_FLUSH_AGE_NS NUM_S(60)
#define GATEWAY_SWEEP_INTERVAL_NS NUM_S(600)
#define GATEWAY_INDEX_CACHE_BYTES NUM_MIB(64)
#define GATEWAY_BALANCE_INTERVAL_NS NUM_S(10)
/* A thousand requests of 4 KiB a second: a hundredth of what a port can do. */
#define GATEWAY_BALANCE_FLOOR NUM_MIB(8)

static int __attribute__((format(printf, 3, 4)))
options_refuse(char *ret_error, size_t error_bytes, const char *format, ...)
{
	va_list args;

	assert(error_bytes > 0);
	va_start(args, format);
	(void)vsnprintf(ret_error, error_bytes, format, args); /* cut where too long */
	va_end(args);
	return -EINVAL;
}

/* 0: a port has room for a shard; else what it takes, in whole MiB. */
static uint64_t
options_least_device_bytes(const struct mt_gateway_options *options)
{
	struct mt_settings settings = { .has_read_ahead = options->has_read_ahead,
		.frame_bytes = options->frame_bytes };
	const struct mt_port_options port = { .settings = &settings,
		.device_bytes = options->device_bytes,
		.client_receives = options->client_receives };

	num_default_u32(&settings.frame_bytes, GATEWAY_FRAME_BYTES);
	return mt_port_device_bytes_least(&port);
}

int
mt_gateway_options_check(const struct mt_gateway_options *options, char *ret_error,
    size_t error_bytes)
{
	uint64_t least_bytes;

	assert(error_bytes > 0);
	if (options->cluster_id == 0)
		return options_refuse(ret_error, error_bytes, "--cluster-id: must not be 0");
	if (options->port_count == 0 || options->port_count > MT_PORTS_MAX)
		return options_refuse(ret_error, error_bytes, "--port: 1 to %u of them",
		    MT_PORTS_MAX);
	if (options->node_count > MT_NODES_MAX)
		return options_refuse(ret_error, error_bytes, "--node: at most %u of them",
		    MT_NODES_MAX);
	if (options->shard_count > CLEAVE_SHARDS_MAX)
		return options_refuse(ret_error, error_bytes, "--shards: at most %u",
		    CLEAVE_SHARDS_MAX);
	if (options->min_replicas > MT_REPLICAS_MAX)
		return options_refuse(ret_error, error_bytes, "--min-replicas: 1 to %u",
		    MT_REPLICAS_MAX);
	least_bytes = options_least_device_bytes(options);
	if (least_bytes > 0)
		return options_refuse(ret_error, error_bytes,
		    "--device-memory: %" PRIu64
		    " bytes are too little for a single shard: at least %" PRIu64 "M%s",
		    options->device_bytes, least_bytes / NUM_MIB(1),
		    options->frame_bytes > GATEWAY_FRAME_BYTES ? ", or a smaller --frame-bytes"
							       : "");
	if (options->hot_bytes != 0 && options->hot_bytes < options->port_count * HOT_BYTES_MIN)
		return options_refuse(ret_error, error_bytes,
		    "--hot-bytes: 0, or at least %" PRIu64 " bytes for each port", HOT_BYTES_MIN);
	if (options->mirror_bytes != 0 &&
	    options->mirror_bytes < (uint64_t)options->port_count * MT_HEAD_MIRROR_BYTES_MIN)
		return options_refuse(ret_error, error_bytes,
		    "--mirror-heads: 0, or at least %u bytes for each port",
		    MT_HEAD_MIRROR_BYTES_MIN);
	if (options->worker_jobs > WORKER_JOBS_MAX)
		return options_refuse(ret_error, error_bytes, "worker-jobs: at most %u",
		    WORKER_JOBS_MAX);
	for (uint32_t i = 0; i < options->node_count; i++) {
		for (uint32_t k = 0; k < i; k++) {
			if (strcmp(options->nodes[i].address, options->nodes[k].address) == 0)
				return options_refuse(ret_error, error_bytes,
				    "--node: %s is given twice", options->nodes[i].address);
		}
	}
	return 0;
}

static void
options_set_defaults(struct mt_gateway_options *options)
{
	num_default_u32(&options->min_replicas, GATEWAY_MIN_REPLICAS_DEFAULT);
	num_default_u64(&options->lease_ns, GATEWAY_LEASE_NS);
	num_default_u64(&options->hold_ns, GATEWAY_HOLD_NS);
	num_default_u64(&options->session_ns, GATEWAY_SESSION_NS);
	num_default_u64(&options->repair_after_ns, GATEWAY_REPAIR_AFTER_NS);
	num_default_u32(&options->frame_bytes, GATEWAY_FRAME_BYTES);
	num_default_u64(&options->repair_bytes_per_s, GATEWAY_REPAIR_BYTES_PER_S);
	num_default_u64(&options->scrub_interval_ns, GATEWAY_SCRUB_INTERVAL_NS);
	num_default_u64(&options->sweep_interval_ns, GATEWAY_SWEEP_INTERVAL_NS);
	num_default_u64(&options->log_bytes, GATEWAY_LOG_BYTES);
	num_default_u64(&options->flush_age_ns, GATEWAY_FLUSH_AGE_NS);
	num_default_u64(&options->index_cache_bytes, GATEWAY_INDEX_CACHE_BYTES);
	num_default_u64(&options->balance_interval_ns, GATEWAY_BALANCE_INTERVAL_NS);
	num_default_u64(&options->balance_floor, GATEWAY_BALANCE_FLOOR);
	if (options->wall_ms == NULL && options->sim_host == NULL)
		options->wall_ms = log_wall_ms;
}

/* The options are whole now: what ports are told of them. */
static void
options_set_settings(struct mt_gateway *gateway)
{
	const struct mt_gateway_options *options = &gateway->options;

	assert(options->port_count > 0 && options->frame_bytes > 0);
	gateway->settings = (struct mt_settings){
		.cluster_id = options->cluster_id,
		.gateway_id = options->gateway_id,
		.boot_id = options->boot_id,
		.min_replicas = options->min_replicas,
		.frame_bytes = options->frame_bytes,
		.read_frame_bytes = options->read_frame_bytes,
		.run_codec = options->run_codec,
		.has_read_ahead = options->has_read_ahead,
		.node_timeout_ns = options->node_timeout_ns,
		.repair_after_ns = options->repair_after_ns,
		.repair_bytes_per_s = options->repair_bytes_per_s,
		.scrub_interval_ns = options->scrub_interval_ns,
		.sweep_interval_ns = options->sweep_interval_ns,
		.orphan_grace_ns = options->orphan_grace_ns,
		.log_bytes = options->log_bytes,
		.flush_age_s = (uint32_t)(options->flush_age_ns / NUM_S(1)),
		.index_cache_bytes = options->index_cache_bytes / options->port_count,
		.hot_bytes = options->hot_bytes / options->port_count,
		.mirror_bytes = options->mirror_bytes / options->port_count,
		.hot_count_min = options->hot_count_min,
		.wall_ms = options->wall_ms,
		.hold_ns = options->hold_ns,
		.level_max = options->level_max,
		.manifest_bytes = options->manifest_bytes,
		.manifest_part_bytes = options->manifest_part_bytes,
		.has_recipes = options->has_recipes,
		.directory_batches_min = options->directory_batches_min,
		.has_offload = options->has_offload,
		.worker_jobs = options->worker_jobs,
		.offload_bytes_min = options->offload_bytes_min,
		.mirror_faults = options->mirror_faults,
		.recipe_lies = options->recipe_lies,
	};
}

/* The options of every port, whoever opens it. */
static void
options_set_ports(struct mt_gateway *gateway, const struct mt_port_host *host)
{
	const struct mt_gateway_options *options = &gateway->options;

	assert(host != NULL && gateway->port_count == options->port_count);
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		uint32_t connections_max = options->ports[i].connections_max;

		gateway->port_options[i] = (struct mt_port_options){
			.host = host,
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
			.advertise = options->ports[i].advertise,
			.local = options->local,
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
			.key = options->key,
			.security = options->security,
		};
	}
}

void
mt_gateway_options_take(struct mt_gateway *gateway, const struct mt_gateway_options *options,
    const struct mt_port_host *host)
{
	assert(options->port_count > 0 && options->port_count <= MT_PORTS_MAX);
	assert(options->node_count <= MT_NODES_MAX);
	gateway->options = *options;
	gateway->port_count = options->port_count;
	options_set_defaults(&gateway->options);
	options_set_settings(gateway);
	atomic_store_explicit(&gateway->shared.slow_op_ns, options->slow_op_ns,
	    memory_order_relaxed);
	options_set_ports(gateway, host);
}
