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
 * A port has a struct mt_shard for every number n with n % port_count == index, whoever owns it. Main
 * says which of them it shall own (mt_port_shards), and is told of each change; without a word from
 * main, it shall own them all.
 *
 * Device memory has fixed shares: a quarter for receives, the rest in equal rings, one a shard.
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
#include "extent/node_link.h"
#include "index/run_index.h"
#include "merge/merge.h"
#include "port/dispatch.h"
#include "port/port.h"
#include "port/port_life.h"
#include "read/read_path.h"
#include "session/session.h"
#include "shard/shard.h"
#include "shard/shard_life.h"

#define PORT_MAGIC 0x504f5254u      /* "TROP" */
#define PORT_HOST_BYTES NUM_MIB(48) /* batch heads and what links need; touched as it is used */
#define PORT_RECEIVE_STRIDE_BYTES (MT_RECEIVE_BYTES + 4096u)
/*
 * At least a quarter of the receives is for the nodes' replies. One copy may hold a window of those; all
 * replays together an eighth, or one receive a shard.
 */
#define PORT_RECEIVES_MIN 48u
#define PORT_RECEIVES_MAX 4096u
#define PORT_RING_BYTES_MIN (4u * BATCH_BYTES_MAX)
#define PORT_SPARE_BYTES NUM_KIB(64) /* device memory for the zero page and the arena's edges */
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

/* Opening: on main, before the port's thread runs. */

static uint32_t
port_receive_count(const struct mt_port_options *options)
{
	uint64_t count = options->device_bytes / 4 / PORT_RECEIVE_STRIDE_BYTES;

	/* As many again for the replies of nodes: a read holds its request while a replica is read. */
	if (options->client_receives != 0)
		count = num_min(count, 2 * (uint64_t)options->client_receives);
	return (uint32_t)num_max(PORT_RECEIVES_MIN, num_min(count, PORT_RECEIVES_MAX));
}

static uint32_t
port_shard_count(const struct mt_port *port, uint32_t cluster_shard_count)
{
	uint32_t port_count = port->options->port_count;

	return cluster_shard_count / port_count +
	    (port->index < cluster_shard_count % port_count ? 1 : 0);
}

/* The port goes on by itself (cleave/split.h): this is for who reads the log. */
static void
port_on_device(bool is_there, const char *text, void *arg)
{
	const struct mt_port *port = arg;

	log_at(is_there ? LOG_INFO : LOG_WARN,
	    "port: RDMA device is %s port=%" PRIu32 " reason=\"%s\"", is_there ? "back" : "lost",
	    port->index, text);
}

/* The peer is told by the library, where it can be. */
static void
port_on_full(const char *peer, int rc, void *arg)
{
	const struct mt_port *port = arg;

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

	log_limited(LOG_WARN,
	    "port: closed a connection that uses no volume, %s port=%" PRIu32
	    " address=%s peer=%s silent_ms=%" PRIu64 " connections_max=%u",
	    why, port->index, port->address, peer, silent_ns / NUM_MS(1),
	    split_port_accepted_max(port->split));
}

/* With the port's loop as owner; NULL with errno. */
static struct engine_set *
port_engines(struct mt_port *port, uint32_t thread_count, bool is_background)
{
	const struct mt_port_options *options = port->options;

	/* Threads know nothing of virtual time. */
	assert(thread_count == 0 || options->sim_host == NULL || options->engine_workers != NULL);
	return engine_set_create(port->loop,
	    &(struct engine_set_options){ .thread_count = thread_count,
		.queue_depth_max = PORT_ENGINE_QUEUE_MAX,
		.is_background = is_background,
		.workers = options->engine_workers });
}

static int
port_open_split(struct mt_port *port, char *ret_error, size_t error_bytes)
{
	const struct mt_port_options *options = port->options;
	static const uint8_t zeros[CLEAVE_BLOCK_BYTES];
	struct split_port_options split_options;

	port->engines = port_engines(port, options->engine_threads, false);
	if (port->engines != NULL && options->merge_threads > 0)
		port->merge_engines = port_engines(port, options->merge_threads, true);
	if (port->engines == NULL || (options->merge_threads > 0 && port->merge_engines == NULL))
		return port_refuse(ret_error, error_bytes, -errno, "engines: %s", strerror(errno));
	split_options = (struct split_port_options){
		.loop = port->loop,
		.sim_host = options->sim_host,
		.host_bytes = PORT_HOST_BYTES,
		.device_bytes = options->device_bytes,
		.wants_huge_pages = options->wants_huge_pages,
		.must_populate = options->sim_host == NULL,
		.receive_count = port->receive_count,
		.receive_payload_bytes = MT_RECEIVE_BYTES,
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
	};
	port->split = open_roce_instance(&split_options);
	if (port->split == NULL)
		return port_refuse(ret_error, error_bytes, -errno, "device memory: %s",
		    strerror(errno));
	if (options->wants_huge_pages)
		log_info("port: opened port=%" PRIu32 " device_memory=\"%s\"", port->index,
		    split_port_pages_text(port->split));
	port->zero_page = dev_alloc(port->split, CLEAVE_BLOCK_BYTES);
	if (dev_ptr_is_null(port->zero_page))
		return port_refuse(ret_error, error_bytes, -ENOMEM, "device memory is too small");
	dev_copy_from_host(port->split, port->zero_page, zeros, sizeof(zeros));
	return 0;
}

static int
port_open_links(struct mt_port *port)
{
	const struct mt_port_options *options = port->options;

	port->links = mt_calloc(options->node_count, sizeof(*port->links));
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
	const char *address = port->options->address;
	int rc = port_open_split(port, ret_error, error_bytes);

	if (rc != 0)
		return rc;
	rc = port_open_links(port);
	if (rc == 0)
		rc = mt_read_path_init(port);
	if (rc == 0 && address[0] != '\0')
		rc = mt_merge_port_init(port, port->options->device_bytes);
	if (rc == 0)
		rc = mt_run_cache_init(port);
	if (rc != 0)
		return port_refuse(ret_error, error_bytes, rc, "port %s: %s", address,
		    log_errno(rc));
	if (address[0] == '\0')
		return 0;
	rc = split_listen(port->split, address, mt_session_on_accept, port, port->address);
	if (rc == -EADDRINUSE)
		return port_refuse(ret_error, error_bytes, rc, "port %s: the address is in use",
		    address);
	if (rc != 0)
		return port_refuse(ret_error, error_bytes, rc, "port %s: cannot listen there: %s",
		    address,
		    split_port_reason(port->split)[0] != '\0' ? split_port_reason(port->split)
							      : strerror(-rc));
	return 0;
}

int
mt_port_open(struct mt_port *port, const struct mt_port_options *options, char *ret_error,
    size_t error_bytes)
{
	int rc;

	*port = (struct mt_port){ .magic = PORT_MAGIC,
		.options = options,
		.host = options->host,
		.session_host = &mt_dispatch_host,
		.gateway = options->gateway,
		.events = &port_events,
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
	(void)pthread_mutex_init(&port->life->lock, NULL); /* of the default kind: cannot fail */
	list_init(&port->sessions);
	list_init(&port->sessions_waiting);
	loop_timer_init(&port->life->stop_timer, port_on_stop_timer, port);
	sm_init(&port->sm, "port", port_table, MT_PORT_OPENING, port->index);
	port->receive_count = port_receive_count(options);
	port->loop = options->loop != NULL ? options->loop : loop_ev_create(0);
	if (port->loop == NULL) {
		rc = port_refuse(ret_error, error_bytes, -errno, "loop: %s", strerror(errno));
		(void)pthread_mutex_destroy(&port->life->lock);
		mt_free(port->life);
		*port = (struct mt_port){ 0 };
		return rc;
	}
	rc = port->host->init(port);
	if (rc != 0)
		(void)port_refuse(ret_error, error_bytes, rc, "port %s: %s", options->address,
		    log_errno(rc));
	else
		rc = port_open_parts(port, ret_error, error_bytes);
	if (rc != 0)
		mt_port_close(port);
	return rc;
}

/* Reports to main. */

static void
port_on_ready_report(struct loop_post *post, void *arg)
{
	struct mt_port *port = arg;

	(void)post;
	CHECK_OBJ(port, PORT_MAGIC);
	port->host->on_ready(port);
}

static void
port_on_failed_report(struct loop_post *post, void *arg)
{
	struct mt_port *port = arg;

	(void)post;
	CHECK_OBJ(port, PORT_MAGIC);
	port->host->on_failed(port, port->life->failure);
}

static void
port_on_stopped_report(struct loop_post *post, void *arg)
{
	struct mt_port *port = arg;

	(void)post;
	CHECK_OBJ(port, PORT_MAGIC);
	port->host->on_stopped(port);
}

/* A report is made once. */
static void
port_report(struct mt_port *port, struct mt_port_report *report,
    void (*fn)(struct loop_post *post, void *arg))
{
	if (report->is_out)
		return;
	report->is_out = true;
	report->post = (struct loop_post){ .fn = fn, .arg = port };
	loop_post(port->main_loop, &report->post);
}

static bool
port_has_served(const struct mt_port *port)
{
	return atomic_load_explicit(&port->shared->has_served, memory_order_relaxed);
}

static void __attribute__((format(printf, 2, 3)))
port_fail(struct mt_port *port, const char *format, ...)
{
	va_list args;

	if (port->life->failed_report.is_out)
		return;
	va_start(args, format);
	(void)vsnprintf(port->life->failure, sizeof(port->life->failure), format, args);
	va_end(args);
	port_report(port, &port->life->failed_report, port_on_failed_report);
}

/* Running. */

static int
port_begin_shards(struct mt_port *port)
{
	uint64_t device_bytes = port->options->device_bytes;
	uint32_t cluster_shard_count = port->cluster->shard_count;
	uint32_t count = port_shard_count(port, cluster_shard_count);
	uint64_t taken_bytes = (uint64_t)port->receive_count * PORT_RECEIVE_STRIDE_BYTES +
	    PORT_SPARE_BYTES + mt_merge_device_bytes(device_bytes);
	uint64_t ring_bytes = 0;

	if (device_bytes > taken_bytes && count > 0)
		ring_bytes = (device_bytes - taken_bytes) / count;
	port->ring_bytes = num_round_down(ring_bytes, CLEAVE_BLOCK_BYTES);
	if (count > 0 && port->ring_bytes < PORT_RING_BYTES_MIN) {
		port_fail(port,
		    "device-memory: too little for %" PRIu32 " shards a port: at least "
		    "%" PRIu64 " bytes",
		    count, taken_bytes + (uint64_t)count * PORT_RING_BYTES_MIN);
		return -EINVAL;
	}
	port->shard_by_number = mt_calloc(cluster_shard_count, sizeof(*port->shard_by_number));
	port->shards = mt_calloc(num_max(count, 1), sizeof(*port->shards));
	if (port->shards == NULL || port->shard_by_number == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = port->index + i * port->options->port_count;
		int rc = mt_shard_init(&port->shards[i], port, number);

		if (rc != 0)
			return rc;
		port->shard_count++;
		port->shard_by_number[number] = &port->shards[i];
	}
	return 0;
}

/* Shards: which of them, and what has become of them. */

/* Every shard that it shall own serves: told once, for the first time that it is so. */
static void
port_check_ready(struct mt_port *port)
{
	if (port->life->is_ready || port->sm.state != MT_PORT_RUNNING || !port->life->set.has_begun)
		return;
	for (uint32_t i = 0; i < port->shard_count; i++) {
		const struct mt_shard *shard = &port->shards[i];

		if (!shard->life->is_wanted && shard->sm.state == MT_SHARD_IDLE)
			continue;
		if (shard->sm.state != MT_SHARD_SERVING)
			return;
		port->ready_epoch = (uint32_t)num_max(port->ready_epoch, shard->epoch);
	}
	port->life->is_ready = true;
	port_report(port, &port->life->ready_report, port_on_ready_report);
}

static void
port_on_shard_report(struct loop_post *post, void *arg)
{
	struct mt_shard *shard = arg;
	struct mt_port *port = shard->port;
	enum mt_shard_state state;
	uint32_t epoch;

	(void)post;
	CHECK_OBJ(port, PORT_MAGIC);
	(void)pthread_mutex_lock(&port->life->lock);
	shard->life->report.is_out = false;
	state = shard->life->report.state;
	epoch = shard->life->report.epoch;
	(void)pthread_mutex_unlock(&port->life->lock);
	port->host->on_shard(port, shard->index, state, epoch);
}

static void
port_on_shard(struct mt_shard *shard)
{
	struct mt_port *port = shard->port;
	struct mt_shard_report *report = &shard->life->report;
	bool was_out;

	CHECK_OBJ(port, PORT_MAGIC);
	port_check_ready(port);
	if (port->is_closing)
		return; /* main may not come by any more */
	(void)pthread_mutex_lock(&port->life->lock);
	report->state = (enum mt_shard_state)shard->sm.state;
	report->epoch = shard->epoch;
	was_out = report->is_out;
	report->is_out = true;
	(void)pthread_mutex_unlock(&port->life->lock);
	if (was_out)
		return;
	report->post = (struct loop_post){ .fn = port_on_shard_report, .arg = shard };
	loop_post(port->main_loop, &report->post);
}

static void
port_tell_shards(struct mt_port *port, const uint64_t *wanted)
{
	for (uint32_t i = 0; i < port->shard_count; i++) {
		uint32_t number = port->shards[i].index;

		mt_shard_want(&port->shards[i],
		    (wanted[number / 64] & UINT64_C(1) << number % 64) != 0);
	}
	port_check_ready(port);
}

static void
port_on_set(struct loop_post *post, void *arg)
{
	struct mt_port *port = arg;
	uint64_t wanted[MT_SHARD_SET_WORDS];
	uint32_t lost_count;
	bool is_lost;
	int rc;

	(void)post;
	CHECK_OBJ(port, PORT_MAGIC);
	(void)pthread_mutex_lock(&port->life->lock);
	port->life->set.is_out = false;
	rc = port->life->set.rc;
	memcpy(wanted, port->life->set.wanted, sizeof(wanted));
	is_lost = port->life->set.is_lost;
	port->life->set.is_lost = false;
	lost_count = atomic_load_explicit(&port->lease_lost_count, memory_order_relaxed);
	(void)pthread_mutex_unlock(&port->life->lock);
	port->life->set.has_come = true;
	if (port->sm.state > MT_PORT_RUNNING)
		return; /* too late; what is still in flight has no lease any more */
	port->lease_heard_count = lost_count;
	if (port->sm.state != MT_PORT_RUNNING || !port->life->set.has_begun)
		return; /* begin looks at it */
	for (uint32_t i = 0; i < port->shard_count && is_lost; i++) {
		port->shards[i].life->is_wanted = port->shards[i].life->is_releasing = false;
		mt_shard_stop(&port->shards[i], -ESTALE);
	}
	if (rc == 0)
		port_tell_shards(port, wanted);
}

void
mt_port_shards(struct mt_port *port, const uint64_t wanted[MT_SHARD_SET_WORDS], int rc)
{
	bool was_out;

	CHECK_OBJ(port, PORT_MAGIC);
	assert(rc == 0 || rc == -ESTALE);
	(void)pthread_mutex_lock(&port->life->lock);
	memcpy(port->life->set.wanted, wanted, sizeof(port->life->set.wanted));
	port->life->set.rc = rc;
	port->life->set.is_lost = port->life->set.is_lost || rc != 0;
	if (rc != 0)
		atomic_fetch_add_explicit(&port->lease_lost_count, 1, memory_order_release);
	was_out = port->life->set.is_out;
	port->life->set.is_out = true;
	(void)pthread_mutex_unlock(&port->life->lock);
	if (was_out)
		return;
	port->life->set.post = (struct loop_post){ .fn = port_on_set, .arg = port };
	loop_post(port->loop, &port->life->set.post);
}

void
mt_port_begin(struct mt_port *port)
{
	uint64_t wanted[MT_SHARD_SET_WORDS];
	int rc;

	CHECK_OBJ(port, PORT_MAGIC);
	if (port->sm.state != MT_PORT_OPENING)
		return;
	sm_move(&port->sm, MT_PORT_RUNNING);
	rc = port_begin_shards(port);
	if (rc != 0) {
		port_fail(port, "port %s: %s", port->address, log_errno(rc));
		return;
	}
	port->life->set.has_begun = true;
	memset(wanted, 0xff, sizeof(wanted));
	if (port->life->set.has_come) {
		(void)pthread_mutex_lock(&port->life->lock);
		memcpy(wanted, port->life->set.wanted, sizeof(wanted));
		if (port->life->set.rc != 0)
			memset(wanted, 0, sizeof(wanted)); /* no lease: the next one says */
		(void)pthread_mutex_unlock(&port->life->lock);
	}
	for (uint32_t i = 0; i < port->link_count; i++)
		mt_link_start(&port->links[i]);
	port_tell_shards(port, wanted);
}

/* Fails the gateway, or, once it has served, is logged. */
static void
port_on_objection(struct mt_port *port, const char *text)
{
	if (port->on_link == NULL && !port_has_served(port))
		port_fail(port, "%s", text);
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
	CHECK_OBJ(port, PORT_MAGIC);
	if (port->on_link != NULL) {
		port->on_link(port, link, is_up);
		return;
	}
	if (is_up)
		port_check_nodes(port);
	for (uint32_t i = 0; i < port->shard_count; i++)
		mt_shard_on_link(&port->shards[i], link, is_up);
}

static const struct mt_port_events port_events = {
	.on_link = port_on_link,
	.on_objection = port_on_objection,
	.on_shard = port_on_shard,
};

/* Stopping. */

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
	if (!list_is_empty(&port->sessions) || !port->host->is_quiet(port))
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

	/* Sessions first: what the shards then give up is not answered with an error. */
	LIST_FOREACH_SAFE(&port->sessions, link, next)
		mt_session_close(LIST_ENTRY(link, struct mt_session, link), -EBUSY);
	port->host->stop(port);
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
	CHECK_OBJ(port, PORT_MAGIC);
	if (!port->is_closing && (is_late || port_is_drained(port))) {
		if (is_late)
			log_warn("port: stopping with requests in flight port=%s", port->address);
		port_close_all(port);
	} else if (port->is_closing && (is_late || port_is_closed(port))) {
		sm_move(&port->sm, MT_PORT_STOPPED);
		port_report(port, &port->life->stopped_report, port_on_stopped_report);
		if (port->options->loop == NULL)
			loop_stop(port->loop);
		return;
	}
	loop_timer_start(port->loop, &port->life->stop_timer, PORT_STOP_CHECK_NS);
}

void
mt_port_stop(struct mt_port *port)
{
	CHECK_OBJ(port, PORT_MAGIC);
	if (port->sm.state >= MT_PORT_STOPPING)
		return;
	sm_move(&port->sm, MT_PORT_STOPPING);
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
	CHECK_OBJ(port, PORT_MAGIC);
	loop_timer_stop(port->loop, &port->life->stop_timer);
	if (!port->is_closing && !port->shared->is_killed)
		port_close_all(port); /* nothing submits a job behind this */
	engine_set_destroy(port->engines);
	engine_set_destroy(port->merge_engines);
	port->engines = port->merge_engines = NULL;
	if (port->sm.state == MT_PORT_STOPPED && port->options->loop == NULL)
		port_run_last_turn(port);
	if (!port->shared->is_killed)
		split_port_close(port->split);
	port->split = NULL;
	for (uint32_t i = 0; i < port->link_count; i++)
		mt_link_fini(&port->links[i]);
	for (uint32_t i = 0; i < port->shard_count; i++)
		mt_shard_fini(&port->shards[i]);
	port->host->fini(port);
	mt_session_fini_all(port);
	mt_merge_port_fini(port);
	mt_read_path_fini(port);
	mt_run_cache_fini(port);
	mt_free(port->links);
	mt_free(port->shards);
	mt_free(port->shard_by_number);
	if (port->options->loop == NULL)
		loop_destroy(port->loop);
	(void)pthread_mutex_destroy(&port->life->lock);
	mt_free(port->life);
	*port = (struct mt_port){ 0 };
}
