/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.c -- a port of the gateway: its split port, engines, links, shards and sessions
 *
 * Everything here belongs to the port's thread. Main opens ports and lets them listen before any
 * shard can serve, so that clients find somebody and wait there; then it posts "begin", and much later
 * "stop". A port posts back "ready", "failed" and "stopped", once each.
 *
 *	OPENING ---------> RUNNING --------------> STOPPING ------------> STOPPED
 *	listens, knows     shards are taken over   1. requests in flight finish
 *	no shards yet      and serve               2. sessions, shards, links close
 *
 * Main says which of the port's shards it shall own (port_shards.c), and is told of each change; without a word
 * from main, it shall own them all.
 *
 * Device memory has fixed shares: a quarter for receives, the rest in equal rings, one for each shard that is
 * here (port_memory.c).
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/cluster_key.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/port_events.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/capacity.h"
#include "extent/link_revoked.h"
#include "extent/node_link.h"
#include "index/run_index.h"
#include "merge/merge_port.h"
#include "port/dispatch.h"
#include "port/port.h"
#include "port/port_keys.h"
#include "port/port_life.h"
#include "port/port_listen.h"
#include "port/port_memory.h"
#include "port/port_mirror.h"
#include "port/port_nodes.h"
#include "port/port_report.h"
#include "port/port_shards.h"
#include "port/port_work.h"
#include "port/shares.h"
#include "port/throttle.h"
#include "read/read_path.h"
#include "session/session.h"
#include "shard/shard.h"
#include "upkeep/upkeep_port.h"
#include "worker/worker.h"

#define PORT_ENGINE_QUEUE_MAX 4096u
#define PORT_STOP_CHECK_NS NUM_MS(1)
#define PORT_STOP_DRAIN_NS NUM_S(2)
#define PORT_STOP_CLOSE_NS NUM_S(1)
#define PORT_TROUBLE_BYTES 384u /* a sentence for people; cut where too long */

static const struct sm_state port_table[MT_PORT_STATE_NR] = {
	[MT_PORT_OPENING] = { "opening", SM_TO(MT_PORT_RUNNING) | SM_TO(MT_PORT_STOPPING),
	    SM_INITIAL },
	[MT_PORT_RUNNING] = { "running", SM_TO(MT_PORT_STOPPING), 0 },
	[MT_PORT_STOPPING] = { "stopping", SM_TO(MT_PORT_STOPPED), 0 },
	[MT_PORT_STOPPED] = { "stopped", 0, SM_FINAL },
};

static const struct mt_port_events port_events;

static void port_on_stop_timer(struct loop_timer *timer, void *arg);

static int __attribute__((format(printf, 4, 5)))
port_refuse(char *ret_error, size_t error_bytes, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(ret_error, error_bytes, format, args); /* cut where too long */
	va_end(args);
	return rc;
}

/* ---- opening: on main, before the port's thread runs ---- */

/* The port goes on by itself (cleave/split.h): this is for who reads the log. */
static void
port_on_device(bool is_there, const char *text, void *arg)
{
	const struct mt_port *port = arg;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	log_at(is_there ? LOG_INFO : LOG_WARN,
	    "port: RDMA device is %s port=%" PRIu32 " reason=\"%s\"", is_there ? "back" : "lost",
	    port->index, text);
}

/* The peer is told by the library, where it can be. */
static void
port_on_full(const char *peer, int rc, void *arg)
{
	struct mt_port *port = arg;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	port->full = (struct mt_port_full){ loop_now_ns(port->loop), rc };
	if (peer == NULL)
		log_limited(LOG_WARN,
		    "port: the system has no room for another connection, it waits port=%" PRIu32
		    " address=%s rc=%s",
		    port->index, port->address, log_errno(rc));
	else
		log_limited(LOG_WARN,
		    "port: no room for a connection port=%" PRIu32
		    " address=%s peer=%s connections_max=%u rc=%s",
		    port->index, port->address, peer, split_port_accepted_max(port->split),
		    log_errno(rc));
}

/* Anybody can say hello: who shows no more than that gives way. */
static void
port_on_cut(const char *peer, uint64_t silent_ns, const char *why, void *arg)
{
	const struct mt_port *port = arg;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	log_limited(LOG_WARN,
	    "port: closed a connection that uses no volume, %s port=%" PRIu32
	    " address=%s peer=%s silent_ms=%" PRIu64 " connections_max=%u",
	    why, port->index, port->address, peer, silent_ns / NUM_MS(1),
	    split_port_accepted_max(port->split));
}

/* A connection that came in, and was not believed, or did not believe us: the library has ended it. */
static void
port_on_refused(const char *peer, const char *why, void *arg)
{
	const struct mt_port *port = arg;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	log_limited(LOG_WARN,
	    "port: refused a connection port=%" PRIu32 " address=%s peer=%s reason=\"%s\"",
	    port->index, port->address, peer, why);
}

/* With the port's loop as owner; NULL with errno. */
static struct engine_set *
port_engines(struct mt_port *port, uint32_t thread_count, bool is_background)
{
	const struct mt_port_options *options = port->life->options;

	/* Threads know nothing of virtual time. */
	assert(thread_count == 0 || options->sim_host == NULL || options->engine_workers != NULL);
	return engine_set_create(port->loop,
	    &(struct engine_set_options){ .thread_count = thread_count,
		.queue_depth_max = PORT_ENGINE_QUEUE_MAX,
		.is_background = is_background,
		.keys = port->keys,
		.workers = options->engine_workers });
}

static int
port_open_split(struct mt_port *port, char *ret_error, size_t error_bytes)
{
	const struct mt_port_options *options = port->life->options;
	static const uint8_t zeros[CLEAVE_BLOCK_BYTES];
	struct split_port_options split_options;

	assert(port->receive_count > 0);
	port->engines = port_engines(port, options->engine_threads, false);
	if (port->engines != NULL && options->merge_threads > 0)
		port->merge_engines = port_engines(port, options->merge_threads, true);
	if (port->engines == NULL || (options->merge_threads > 0 && port->merge_engines == NULL))
		return port_refuse(ret_error, error_bytes, -errno,
		    "port %s: its engines cannot be started: %s", options->address,
		    strerror(errno));
	split_options = (struct split_port_options){
		.loop = port->loop,
		.sim_host = options->sim_host,
		.host_bytes = mt_port_host_bytes(options),
		.device_bytes = mt_port_device_bytes(options),
		.wants_huge_pages = options->wants_huge_pages,
		.must_populate = options->sim_host == NULL,
		.receive_count = port->receive_count,
		.receive_payload_bytes = MT_RECEIVE_ROOM_BYTES,
		.qp_count_max = options->connections_max,
		.qp_reserved_count = options->connections_own,
		.engines = port->engines,
		.engine_ops = &engine_set_gate_ops,
		.on_device = port_on_device,
		.on_device_arg = port,
		.on_full = port_on_full,
		.on_full_arg = port,
		.guests_give_way = true,
		.on_cut = port_on_cut,
		.on_cut_arg = port,
		.key = options->key,
		.security = options->security,
		.on_refused = port_on_refused,
		.on_refused_arg = port,
	};
	port->split = open_roce_instance(&split_options);
	if (port->split == NULL)
		return port_refuse(ret_error, error_bytes, -errno,
		    "port %s: its memory cannot be had: %s", options->address, strerror(errno));
	if (options->wants_huge_pages)
		log_info("port: opened port=%" PRIu32 " device_memory=\"%s\"", port->index,
		    split_port_pages_text(port->split));
	port->zero_page = dev_alloc(port->split, CLEAVE_BLOCK_BYTES);
	if (dev_ptr_is_null(port->zero_page))
		return port_refuse(ret_error, error_bytes, -ENOMEM,
		    "port %s: --device-memory is too small for a block", options->address);
	dev_copy_from_host(port->split, port->zero_page, zeros, sizeof(zeros));
	return 0;
}

static int
port_open_links(struct mt_port *port)
{
	const struct mt_port_options *options = port->life->options;

	assert(options->node_count <= MT_NODES_MAX);
	/* As many as there can be: more are added while it runs, and pointers to links stay valid. */
	port->links = mt_calloc(MT_NODES_MAX, sizeof(*port->links));
	if (port->links == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < options->node_count; i++) {
		int rc = mt_link_init(&port->links[i], port, i, &options->nodes[i]);

		if (rc != 0)
			return rc;
		port->link_count++;
	}
	return 0;
}

static int
port_open_parts(struct mt_port *port, char *ret_error, size_t error_bytes)
{
	const char *address = port->life->options->address;
	int rc = port_open_split(port, ret_error, error_bytes);

	if (rc != 0)
		return rc;
	rc = port_open_links(port);
	if (rc == 0)
		rc = mt_read_path_init(port);
	if (rc == 0)
		rc = mt_throttle_init(port, mt_dispatch_held);
	if (rc == 0)
		rc = mt_shares_init(port, mt_dispatch_shared);
	if (rc == 0 && address[0] != '\0')
		rc = mt_port_memory_take(port);
	if (rc == 0)
		rc = mt_run_cache_init(port);
	if (rc == 0)
		rc = mt_upkeep_port_init(port);
	if (rc != 0)
		return port_refuse(ret_error, error_bytes, rc, "port %s: %s", address,
		    log_errno(rc));
	if (address[0] == '\0')
		return 0;
	return mt_port_listen(port, port->life->options, ret_error, error_bytes);
}

int
mt_port_open(struct mt_port *port, const struct mt_port_options *options, char *ret_error,
    size_t error_bytes)
{
	int rc;

	assert(options->host != NULL && options->main_loop != NULL);
	assert(options->index < options->port_count && options->port_count <= MT_PORTS_MAX);
	*port = (struct mt_port){ .magic = MT_PORT_MAGIC,
		.gateway = options->gateway,
		.events = options->events != NULL ? options->events : &port_events,
		.events_arg = options->events_arg,
		.settings = options->settings,
		.shared = options->shared,
		.cluster = options->cluster,
		.main_loop = options->main_loop,
		.index = options->index };
	port->life = mt_calloc(1, sizeof(*port->life));
	if (port->life == NULL) {
		rc = port_refuse(ret_error, error_bytes, -ENOMEM, "port: %s", strerror(ENOMEM));
		*port = (struct mt_port){ 0 };
		return rc;
	}
	port->life->options = options;
	port->life->host = options->host;
	(void)pthread_mutex_init(&port->life->lock, NULL); /* of the default kind: cannot fail */
	mt_sessions_init(port, &mt_dispatch_host);
	loop_timer_init(&port->life->stop_timer, port_on_stop_timer, port);
	mt_port_nodes_init(port);
	sm_init(&port->sm, "port", port_table, MT_PORT_OPENING, port->index);
	port->receive_count = mt_port_receive_count(options, options->device_bytes);
	port->loop = options->loop != NULL ? options->loop : loop_ev_create(0);
	if (port->loop == NULL) {
		rc = port_refuse(ret_error, error_bytes, -errno,
		    "port %s: its event loop cannot be made: %s", options->address,
		    strerror(errno));
		(void)pthread_mutex_destroy(&port->life->lock);
		mt_free(port->life);
		*port = (struct mt_port){ 0 };
		return rc;
	}
	rc = mt_port_keys_init(port);
	if (rc == 0)
		rc = port->life->host->init(port);
	if (rc != 0)
		(void)port_refuse(ret_error, error_bytes, rc, "port %s: %s", options->address,
		    log_errno(rc));
	else
		rc = port_open_parts(port, ret_error, error_bytes);
	if (rc != 0)
		mt_port_close(port);
	return rc;
}

/* ---- running ---- */

void
mt_port_begin(struct mt_port *port)
{
	int rc;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(port->life->options->address[0] != '\0');
	if (port->sm.state != MT_PORT_OPENING)
		return;
	sm_move(&port->sm, MT_PORT_RUNNING);
	rc = mt_port_shards_make(port);
	if (rc != 0) {
		mt_port_fail(port, "port %s: %s", port->address, log_errno(rc));
		return;
	}
	mt_port_nodes_begin(port);
	mt_port_shards_begin(port);
}

static bool
port_has_served(const struct mt_port *port)
{
	return atomic_load_explicit(&port->shared->has_served, memory_order_relaxed);
}

/* Fails the gateway, or, once it has served, is logged. */
static void
port_on_objection(struct mt_port *port, const char *text)
{
	assert(text[0] != '\0');
	if (!port_has_served(port))
		mt_port_fail(port, "%s", text);
	else if (port->index == 0)
		log_error("gateway: %s", text);
}

/* Too little room for the shards: only a look at all nodes shows it. */
static void
port_check_nodes(struct mt_port *port)
{
	char text[PORT_TROUBLE_BYTES];
	int rc = mt_capacity_check(port->links, port->link_count, port->cluster->shard_count, text,
	    sizeof(text));

	assert(port->cluster->shard_count > 0);
	if (rc == 0 || port->life->is_room_told)
		return;
	port->life->is_room_told = true;
	if (rc == -ENOSPC)
		port_on_objection(port, text);
	else if (port->index == 0)
		log_error("gateway: %s",
		    text); /* it may do yet: for few extents, or fewer copies */
}

/* Tells every shard of the port, and checks the disks' size once all are known. */
static void
port_on_link(struct mt_port *port, struct mt_link *link, bool is_up)
{
	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(link == &port->links[link->index]);
	if (is_up)
		port_check_nodes(port);
	for (uint32_t i = 0; i < port->shard_count; i++)
		mt_shard_on_link(&port->shards[i], link, is_up);
}

/* A node was added, drains, or has another weight, domain or state: what depends on it looks anew. */
static void
port_on_node(struct mt_port *port, struct mt_link *link)
{
	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(link == &port->links[link->index]);
	for (uint32_t i = 0; i < port->shard_count; i++)
		mt_shard_on_node(&port->shards[i]);
}

static const struct mt_port_events port_events = {
	.on_link = port_on_link,
	.on_node = port_on_node,
	.on_objection = port_on_objection,
	.on_shard = mt_port_shards_on_state,
};

/* ---- stopping ---- */

static bool
port_is_drained(const struct mt_port *port)
{
	const struct loop_link *link;

	for (link = port->sessions.next; link != &port->sessions; link = link->next) {
		if (LIST_ENTRY(link, struct mt_session, link)->request_count > 0)
			return false;
	}
	return true;
}

static bool
port_is_closed(const struct mt_port *port)
{
	assert(port->is_closing);
	if (!list_is_empty(&port->sessions) || !port->life->host->is_quiet(port) ||
	    !mt_worker_is_quiet(port))
		return false;
	for (uint32_t i = 0; i < port->link_count; i++) {
		if (port->links[i].qp != NULL)
			return false;
	}
	return true;
}

static void
port_close_all(struct mt_port *port)
{
	struct loop_link *link, *next;

	assert(!port->is_closing);
	/* Sessions first: what the shards then give up is not answered with an error. */
	LIST_FOREACH_SAFE(&port->sessions, link, next)
		mt_session_close(LIST_ENTRY(link, struct mt_session, link), -EBUSY);
	port->life->host->stop(port);
	for (uint32_t i = 0; i < port->shard_count; i++)
		mt_shard_stop(&port->shards[i], -ECANCELED);
	for (uint32_t i = 0; i < port->link_count; i++)
		mt_link_stop(&port->links[i]);
	port->is_closing = true;
	port->life->stop_deadline_ns = loop_now_ns(port->loop) + PORT_STOP_CLOSE_NS;
}

static void
port_on_stop_timer(struct loop_timer *timer, void *arg)
{
	struct mt_port *port = arg;
	bool is_late = loop_now_ns(port->loop) >= port->life->stop_deadline_ns;

	(void)timer;
	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(port->sm.state == MT_PORT_STOPPING);
	if (!port->is_closing && (is_late || port_is_drained(port))) {
		if (is_late)
			log_warn("port: stopping with requests in flight port=%s", port->address);
		port_close_all(port);
	} else if (port->is_closing && (is_late || port_is_closed(port))) {
		sm_move(&port->sm, MT_PORT_STOPPED);
		mt_port_tell_stopped(port);
		if (port->life->options->loop == NULL)
			loop_stop(port->loop);
		return;
	}
	loop_timer_start(port->loop, &port->life->stop_timer, PORT_STOP_CHECK_NS);
}

void
mt_port_stop(struct mt_port *port)
{
	CHECK_OBJ(port, MT_PORT_MAGIC);
	if (port->sm.state >= MT_PORT_STOPPING)
		return;
	sm_move(&port->sm, MT_PORT_STOPPING);
	mt_port_work_stop(port);
	port->life->stop_deadline_ns = loop_now_ns(port->loop) + PORT_STOP_DRAIN_NS;
	loop_timer_start(port->loop, &port->life->stop_timer, 0);
}

static void
port_on_last_turn(struct loop_task *task, void *arg)
{
	(void)task;
	*(bool *)arg = true;
}

static bool
port_is_last_turn_over(void *arg)
{
	return *(const bool *)arg;
}

/* Posts that crossed the port's end, such as an answer of the metadata store, find it still there. */
static void
port_run_last_turn(struct mt_port *port)
{
	struct loop_task task;
	bool is_over = false;

	assert(port->life->options->loop == NULL);
	memset(&task, 0, sizeof(task));
	loop_task_init(&task, port_on_last_turn, &is_over);
	loop_defer(port->loop, &task);
	(void)loop_run(port->loop, port_is_last_turn_over, &is_over);
}

/*
 * Engine threads go first, while what their jobs refer to is still there: shards, reads, the port's
 * device memory. What they have finished is told in the last turn. Then the split port, which takes its
 * queue pairs along: outstanding calls and sends end in their handlers, which need links and shards.
 * In the simulator a killed process's port is gone already, without a word to anyone.
 */
void
mt_port_close(struct mt_port *port)
{
	if (port->magic == 0)
		return;
	CHECK_OBJ(port, MT_PORT_MAGIC);
	loop_timer_stop(port->loop, &port->life->stop_timer);
	mt_port_nodes_stop(port);
	if (!port->is_closing && !port->shared->is_killed)
		port_close_all(port); /* nothing submits a job behind this */
	engine_set_destroy(port->engines);
	engine_set_destroy(port->merge_engines);
	port->engines = port->merge_engines = NULL;
	mt_port_keys_fini(port);
	if (port->sm.state == MT_PORT_STOPPED && port->life->options->loop == NULL)
		port_run_last_turn(port);
	if (!port->shared->is_killed) {
		mt_port_revoked_fini(port);
		split_port_close(port->split);
	}
	port->split = NULL;
	for (uint32_t i = 0; i < port->link_count; i++)
		mt_link_fini(&port->links[i]);
	for (uint32_t i = 0; i < port->shard_count; i++)
		mt_shard_fini(&port->shards[i]);
	port->life->host->fini(port);
	mt_session_fini_all(port);
	mt_port_work_fini(port);
	mt_merge_port_fini(port);
	mt_read_path_fini(port);
	mt_throttle_fini(port);
	mt_shares_fini(port);
	mt_run_cache_fini(port);
	mt_upkeep_port_fini(port);
	mt_port_mirror_fini(port);
	mt_free(port->links);
	mt_free(port->shards);
	mt_free(port->shard_by_number);
	if (port->life->options->loop == NULL)
		loop_destroy(port->loop);
	(void)pthread_mutex_destroy(&port->life->lock);
	mt_free(port->life);
	*port = (struct mt_port){ 0 };
}
