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
 * gateway_load.c reads "cluster" and the volumes. Ports listen from the start, so that a wrong address is an
 * error of mt_gateway_start, and clients of a restarted gateway wait in their sessions.
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
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/volume_table.h"
#include "cleave/keyring.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cluster/ask.h"
#include "cluster/data_keys.h"
#include "cluster/drop.h"
#include "cluster/flatten.h"
#include "cluster/gateway_state.h"
#include "cluster/holding.h"
#include "cluster/limit_round.h"
#include "cluster/member.h"
#include "cluster/member_view.h"
#include "cluster/meta_proxy.h"
#include "cluster/mirror.h"
#include "cluster/node_table.h"
#include "cluster/own_address.h"
#include "cluster/peer.h"
#include "cluster/relief.h"
#include "cluster/revoked.h"
#include "cluster/severed.h"
#include "cluster/snapshot.h"
#include "cluster/trash.h"
#include "cluster/volume_query.h"
#include "cluster/volume_refresh.h"
#include "common/alloc.h"
#include "common/event.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/shard.h"
#include "common/slow_op.h"
#include "control/control.h"
#include "control/control_answer.h"
#include "control/control_request.h"
#include "gateway/gateway_load.h"
#include "gateway/gateway_options.h"
#include "health/health.h"
#include "health/health_watch.h"
#include "port/port.h"
#include "port/port_shards.h"
#include "port/port_status.h"
#include "session/session.h"

#define GATEWAY_READY_BYTES (MT_PORTS_MAX * SPLIT_ADDRESS_BYTES_MAX)

static void gateway_on_all_served(struct mt_gateway *gateway);

static const struct sm_state gateway_table[MT_GATEWAY_STATE_NR] = {
	[MT_GATEWAY_CREATED] = { "created", SM_TO(MT_GATEWAY_STARTING), SM_INITIAL },
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

static void gateway_load_nodes(struct mt_gateway *gateway);
static const struct mt_port_host gateway_port_host;

/* Creating. */

struct mt_gateway *
mt_gateway_create(const struct mt_gateway_options *options, char *ret_error, size_t error_bytes)
{
	struct mt_gateway *gateway;

	assert(error_bytes > 0);
	if (mt_gateway_options_check(options, ret_error, error_bytes) != 0) {
		errno = EINVAL;
		return NULL;
	}
	gateway = mt_calloc(1, sizeof(*gateway));
	if (gateway == NULL)
		goto err;
	gateway->ports = mt_calloc(options->port_count, sizeof(*gateway->ports));
	gateway->port_options = mt_calloc(options->port_count, sizeof(*gateway->port_options));
	gateway->shared.events = mt_events_create();
	gateway->shared.slow = mt_slow_ops_create();
	if (gateway->ports == NULL || gateway->port_options == NULL ||
	    gateway->shared.events == NULL || gateway->shared.slow == NULL ||
	    mt_nodes_init(gateway, options) != 0 || mt_mirror_init(gateway) != 0 ||
	    mt_data_keys_init(gateway) != 0 || mt_taking_init(gateway) != 0)
		goto err_gateway;
	gateway->magic = MT_GATEWAY_MAGIC;
	mt_gateway_options_take(gateway, options, &gateway_port_host);
	mt_volumes_init(&gateway->volumes);
	mt_users_init(gateway);
	mt_revoked_init(gateway, options->key);
	mt_drop_init(gateway);
	mt_trash_init(gateway);
	mt_flattening_init(gateway);
	list_init(&gateway->control_queue);
	list_init(&gateway->asks);
	mt_look_init(&gateway->health_look, gateway->options.loop, MT_ASK_REBALANCE_LOOK);
	mt_look_begin(&gateway->health_look, gateway);
	mt_look_init(&gateway->status_look, gateway->options.loop, MT_ASK_STATUS);
	mt_look_begin(&gateway->status_look, gateway);
	mt_gateway_load_init(gateway, gateway_load_nodes);
	sm_init(&gateway->sm, "gateway", gateway_table, MT_GATEWAY_CREATED, 0);
	return gateway;

err_gateway:
	keyring_destroy(gateway->data_keys.ring);
	mt_slow_ops_destroy(gateway->shared.slow);
	mt_events_destroy(gateway->shared.events);
	mt_free(gateway->nodes);
	mt_free(gateway->mirror);
	mt_free(gateway->port_options);
	mt_free(gateway->ports);
	mt_free(gateway);
err:
	(void)snprintf(ret_error, error_bytes, "out of memory");
	errno = ENOMEM;
	return NULL;
}

/* Starting: the cluster is known. */

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

	assert(gateway->opened_count == gateway->port_count);
	sm_move(&gateway->sm, MT_GATEWAY_TAKING);
	rc = mt_member_init(&gateway->member, gateway, gateway_on_all_served);
	if (rc == 0)
		rc = mt_volumes_watch(gateway);
	if (rc == 0 && gateway->options.kms != NULL) /* else there is nothing to open them with */
		rc = mt_data_keys_watch(gateway);
	if (rc == 0 && gateway->options.key != NULL)
		rc = mt_users_watch(gateway);
	if (rc == 0)
		rc = mt_nodes_start(gateway);
	if (rc == 0)
		rc = mt_own_address_start(gateway);
	if (rc == 0)
		rc = mt_relief_start(gateway);
	if (rc == 0)
		rc = mt_severed_start(gateway);
	if (rc == 0)
		rc = mt_limit_rounds_start(gateway);
	if (rc == 0)
		rc = mt_health_watch_start(gateway);
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
gateway_load_nodes(struct mt_gateway *gateway)
{
	assert(gateway->sm.state == MT_GATEWAY_STARTING);
	mt_nodes_load(gateway, gateway_begin_ports);
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

	assert(!gateway->has_thread[index] && index < gateway->port_count);
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
	assert(index < gateway->port_count);
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

	assert(gateway->sm.state == MT_GATEWAY_CREATED);
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
	/* Before anything that is asked for is answered. */
	if (gateway->revoked.key != NULL && mt_revoked_watch(gateway) != 0) {
		gateway_undo_threads(gateway);
		(void)snprintf(ret_error, error_bytes, "out of memory");
		return -ENOMEM;
	}
	mt_gateway_load(gateway);
	return 0;
}

/* Reports of ports. */

static void
gateway_log_ready(struct mt_gateway *gateway)
{
	char addresses[GATEWAY_READY_BYTES];
	uint32_t epoch_max = 0;
	size_t bytes = 0;

	assert(gateway->sm.state == MT_GATEWAY_SERVING);
	addresses[0] = '\0';
	for (uint32_t i = 0; i < gateway->port_count; i++)
		bytes += (size_t)snprintf(addresses + bytes, sizeof(addresses) - bytes, "%s%s",
		    i == 0 ? "" : ",", gateway->ports[i].address);
	for (uint32_t i = 0; i < gateway->cluster.shard_count; i++)
		epoch_max = (uint32_t)num_max(epoch_max, gateway->member.shards[i].own_epoch);
	mt_event(gateway->shared.events, loop_now_ns(gateway->options.loop),
	    CLEAVE_EVENT_GATEWAY_READY, "gateway",
	    "gateway: ready port=%s shards=%" PRIu32 " epoch=%" PRIu32, addresses,
	    gateway->cluster.shard_count, epoch_max);
}

static void
gateway_on_shard(struct mt_port *port, uint32_t shard, enum mt_shard_state state, uint32_t epoch)
{
	struct mt_gateway *gateway = port->gateway;

	assert(shard < gateway->cluster.shard_count && state < MT_SHARD_STATE_NR);
	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	mt_mirror_on_shard(gateway, shard, state);
	mt_view_on_shard(&gateway->member, shard, state, epoch);
}

/* The gateway may have begun to serve while the report was on its way: nobody is cut off for that. */
static void
gateway_on_port_failed(struct mt_port *port, const char *text)
{
	assert(text[0] != '\0');
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

	assert(gateway->stopped_count == gateway->port_count);
	sm_move(&gateway->sm, MT_GATEWAY_STOPPED);
	if (fn != NULL)
		fn(gateway->stop_arg);
}

static void
gateway_on_port_stopped(struct mt_port *port)
{
	struct mt_gateway *gateway = port->gateway;

	assert(gateway->sm.state == MT_GATEWAY_STOPPING &&
	    gateway->stopped_count < gateway->port_count);
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
	assert(session->port != NULL);
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

	assert(index < gateway->port_count);
	*post = (struct loop_post){ .fn = gateway_stop_port, .arg = &gateway->ports[index] };
	loop_post(gateway->ports[index].loop, post);
}

static void
gateway_undo_threads(struct mt_gateway *gateway)
{
	assert(gateway->sm.state == MT_GATEWAY_STARTING);
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		if (!gateway->has_thread[i])
			continue;
		gateway_post_stop(gateway, i);
		gateway_join(gateway, i);
	}
}

/* Nothing begins any more because the store, the nodes or the clock say so. Once and again is as once. */
static void
gateway_look_no_more(struct mt_gateway *gateway)
{
	mt_volumes_unwatch(gateway);
	mt_users_unwatch(gateway);
	mt_revoked_unwatch(gateway);
	mt_data_keys_unwatch(gateway);
	mt_nodes_stop(gateway);
	mt_relief_stop(gateway);
	mt_severed_stop(gateway);
	mt_limit_rounds_stop(gateway);
	mt_health_watch_stop(gateway);
	mt_own_address_stop(gateway);
}

void
mt_gateway_stop(struct mt_gateway *gateway, void (*fn)(void *arg), void *arg)
{
	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	assert(gateway->sm.state > MT_GATEWAY_CREATED && gateway->sm.state < MT_GATEWAY_STOPPING);
	gateway->stop_fn = fn;
	gateway->stop_arg = arg;
	sm_move(&gateway->sm, MT_GATEWAY_STOPPING);
	gateway_look_no_more(gateway);
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
	mt_gateway_load_stop(gateway);
	gateway_look_no_more(gateway);
	mt_member_fini(&gateway->member);
	mt_control_drop_all(gateway);
	mt_volumes_drop_waiters(gateway);
	mt_users_fini(gateway);
	mt_revoked_fini(gateway);
	mt_data_keys_drop_waiters(gateway);
	for (uint32_t i = 0; i < gateway->port_count; i++)
		mt_port_close(&gateway->ports[i]);
	mt_data_keys_fini(gateway);
	mt_drop_fini(gateway);
	mt_trash_fini(gateway);
	mt_flattening_fini(gateway);
	mt_holder_fini(gateway);
	mt_relief_fini(gateway);
	mt_severed_fini(gateway);
	mt_limit_rounds_fini(gateway);
	mt_health_watch_fini(gateway);
	mt_own_address_fini(gateway);
	mt_taking_fini(gateway);
	mt_mirror_fini(gateway);
	mt_nodes_fini(gateway);
	mt_volumes_fini(&gateway->volumes);
	mt_slow_ops_destroy(gateway->shared.slow);
	mt_events_destroy(gateway->shared.events);
	mt_free(gateway->port_options);
	mt_free(gateway->ports);
	gateway->magic = 0;
	mt_free(gateway);
}

/* Looking in. */

/* Words of all ports, when they run on our loop. Others answer control requests. NULL: no memory. */
static struct mt_ask *
gateway_look(struct mt_gateway *gateway)
{
	struct mt_ask *ask = mt_calloc(1, sizeof(*ask));

	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	assert(gateway->options.is_single_loop);
	if (ask == NULL)
		return NULL;
	ask->gateway = gateway;
	for (uint32_t i = 0; i < gateway->port_count; i++)
		mt_port_status_take(&gateway->ports[i], &ask->legs[i].status);
	return ask;
}

static void
gateway_look_end(struct mt_ask *ask)
{
	for (uint32_t i = 0; i < ask->gateway->port_count; i++)
		mt_port_status_fini(&ask->legs[i].status);
	mt_free(ask);
}

char *
mt_gateway_status_json(struct mt_gateway *gateway)
{
	struct mt_ask *ask = gateway_look(gateway);
	json_t *status;
	char *text;

	if (ask == NULL)
		return NULL;
	status = mt_json_status(gateway, ask, true);
	gateway_look_end(ask);
	text = status == NULL ? NULL : json_dumps(status, JSON_COMPACT);
	json_decref(status);
	return text;
}

int
mt_gateway_health(struct mt_gateway *gateway, struct mt_health *ret_health)
{
	struct mt_ask *ask = gateway_look(gateway);

	if (ask == NULL)
		return -ENOMEM;
	mt_health_judge(gateway, ask, ret_health);
	gateway_look_end(ask);
	return 0;
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
