/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.c -- a port: the paper's RoCE instance
 *
 * Everything of one network interface: memory, pool, queue pairs, events. A port hangs on its loop by
 * a hook at the end of each turn, where all that was queued in the turn is put on the wire together,
 * and by a task that makes sure a turn comes when something was queued from outside of one.
 */
#include <errno.h>

#include "alloc.h"
#include "auth.h"
#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/num.h"
#include "connect.h"
#include "connect_name.h"
#include "credit.h"
#include "dev_memory.h"
#include "device_memory.h"
#include "event.h"
#include "guest.h"
#include "one_sided.h"
#include "port.h"
#include "qp.h"
#include "qp_life.h"
#include "region.h"
#include "sealed.h"
#include "transport.h"

#define PORT_HOST_BYTES_DEFAULT NUM_MIB(4)
#define PORT_DEVICE_BYTES_DEFAULT NUM_MIB(64)
#define PORT_ARENA_BYTES_MAX NUM_GIB(1024)
#define PORT_RECEIVE_PAYLOAD_BYTES_DEFAULT 65536u
#define PORT_QP_COUNT_DEFAULT 1024u
#define PORT_QP_CREDITS_DEFAULT 64u
#define PORT_SEND_DEPTH_DEFAULT 1024u
#define PORT_EVENT_COUNT_DEFAULT 256u
#define PORT_KEEPALIVE_NS_DEFAULT NUM_S(10)
#define PORT_COUNT_MAX (1u << 20) /* of receives, queue pairs, sends, events */

static void
option_default_u64(uint64_t *value, uint64_t to)
{
	if (*value == 0)
		*value = to;
}

static void
option_default_u32(uint32_t *value, uint32_t to)
{
	if (*value == 0)
		*value = to;
}

static int
port_options_check(struct split_port_options *options)
{
	option_default_u64(&options->host_bytes, PORT_HOST_BYTES_DEFAULT);
	option_default_u64(&options->device_bytes, PORT_DEVICE_BYTES_DEFAULT);
	option_default_u32(&options->receive_payload_bytes, PORT_RECEIVE_PAYLOAD_BYTES_DEFAULT);
	option_default_u32(&options->qp_count_max, PORT_QP_COUNT_DEFAULT);
	option_default_u32(&options->qp_credits_max, PORT_QP_CREDITS_DEFAULT);
	option_default_u32(&options->qp_send_depth_max, PORT_SEND_DEPTH_DEFAULT);
	option_default_u32(&options->event_count_max, PORT_EVENT_COUNT_DEFAULT);
	option_default_u64(&options->keepalive_ns, PORT_KEEPALIVE_NS_DEFAULT);
	/* A receive for a request and one for a reply: with less, two ports could wait for each other. */
	if (options->receive_count == 1)
		options->receive_count = 2;
	if (options->loop == NULL || options->host_bytes > PORT_ARENA_BYTES_MAX ||
	    options->device_bytes > PORT_ARENA_BYTES_MAX ||
	    options->receive_count > PORT_COUNT_MAX || options->qp_count_max > PORT_COUNT_MAX ||
	    options->qp_credits_max > UINT16_MAX || options->qp_send_depth_max > PORT_COUNT_MAX ||
	    options->event_count_max > PORT_COUNT_MAX ||
	    options->receive_payload_bytes > WIRE_PAYLOAD_BYTES_MAX)
		return -EINVAL;
	return 0;
}

static void
port_on_wake(struct loop_task *task, void *arg)
{
	assert(task == &((struct split_port *)arg)->wake_task);
	/* Nothing to do here: the end of the turn that this makes flushes. */
	(void)task;
	(void)arg;
}

/* Replies whose queue pair went away before they could leave. */
static void
port_on_orphans(struct loop_task *task, void *arg)
{
	struct split_port *port = arg;
	struct loop_link *link;

	assert(task == &port->orphan_task);
	(void)task;
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	while (!port_is_halted(port) && (link = list_pop_front(&port->orphans)) != NULL) {
		struct split_receive *receive = LIST_ENTRY(link, struct split_receive, link);
		void (*fn)(int, void *) = receive->reply_fn;
		void *arg_of_fn = receive->reply_arg;

		CHECK_OBJ(receive, SPLIT_RECEIVE_MAGIC);
		receive_pool_push(&port->pool, receive);
		credit_on_released(port, receive->is_reply);
		if (fn == NULL)
			continue;
		port_call_begin(port);
		fn(-ECONNRESET, arg_of_fn);
		port_call_end(port);
	}
	if (!list_is_empty(&port->orphans))
		loop_defer(port->loop, &port->orphan_task);
}

static void
port_send_all(struct split_port *port)
{
	struct loop_link due, *link;

	list_init(&due);
	while ((link = list_pop_front(&port->send_due)) != NULL)
		list_push_back(&due, link);
	while ((link = list_pop_front(&due)) != NULL) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, send_link);

		if (port_is_halted(port))
			list_push_back(&port->send_due, link);
		else if (qp_is_open(qp))
			qp->ops->kick_send(qp);
	}
}

static void
port_flush(struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	/* Completions queue more, and free receives that others wait for: go round a few times. */
	for (uint32_t round = 0; round < SPLIT_FLUSH_ROUNDS_MAX; round++) {
		port_send_all(port);
		if (!port_is_halted(port))
			credit_turn(port);
		if (list_is_empty(&port->send_due))
			return;
	}
	port_wake(port);
}

static void
port_on_turn_end(struct loop_turn_end *hook, void *arg)
{
	struct split_port *port = arg;

	assert(hook == &port->turn_end);
	(void)hook;
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	for (uint32_t i = 0; i < port->transport_count; i++) {
		if (port->transports[i]->port_turn != NULL)
			port->transports[i]->port_turn(port);
	}
	port->turn_began_ns = 0;
	if (!list_is_empty(&port->send_due) || port->credits.is_dirty ||
	    !list_is_empty(&port->credits.announce_due))
		port_flush(port);
}

static void
port_lists_init(struct split_port *port)
{
	list_init(&port->qps);
	list_init(&port->guests);
	list_init(&port->lodgers);
	list_init(&port->listeners);
	list_init(&port->send_due);
	list_init(&port->orphans);
	list_init(&port->events_free);
	list_init(&port->events_done);
	list_init(&port->events_called);
	list_init(&port->memories);
}

static int
port_memory_init(struct split_port *port)
{
	int rc = arena_init(&port->host, port->options.host_bytes, 0);

	assert(port->options.host_bytes > 0);
	assert(port->options.device_bytes > 0);
	if (rc != 0)
		return rc;
	rc = arena_init(&port->device, port->options.device_bytes,
	    ARENA_DEVICE | (port->options.wants_huge_pages ? ARENA_HUGE : 0));
	if (rc != 0)
		goto err_host;
	if (port->options.must_populate)
		arena_populate(&port->device);
	rc = receive_pool_init(port);
	if (rc != 0)
		goto err_device;
	rc = event_port_init(port);
	if (rc != 0)
		goto err_pool;
	return 0;

err_pool:
	receive_pool_fini(port);
err_device:
	arena_fini(&port->device);
err_host:
	arena_fini(&port->host);
	return rc;
}

static void
port_memory_fini(struct split_port *port)
{
	event_port_fini(port);
	receive_pool_fini(port);
	arena_fini(&port->strays);
	arena_fini(&port->device);
	arena_fini(&port->host);
}

static void
port_transports_init(struct split_port *port, const struct transport_ops *const *transports,
    uint32_t transport_count)
{
	/* The simulator's struct begins with what is asked for. */
	const struct transport_host *host = (const struct transport_host *)port->options.sim_host;

	assert(transport_count < SPLIT_TRANSPORTS_MAX && port->transport_count == 0);
	assert(host == NULL || host->ops != NULL);
	for (uint32_t i = 0; i < transport_count; i++)
		port->transports[port->transport_count++] = transports[i];
	if (host != NULL)
		port->transports[port->transport_count++] = host->ops;
}

static void
port_transports_open(struct split_port *port)
{
	assert(port->loop != NULL);
	for (uint32_t i = 0; i < port->transport_count; i++) {
		if (port->transports[i]->port_open != NULL)
			port->transports[i]->port_open(port);
	}
}

static void
port_transports_fini(struct split_port *port)
{
	assert(list_is_empty(&port->qps) && list_is_empty(&port->listeners));
	for (uint32_t i = 0; i < port->transport_count; i++) {
		if (port->transports[i]->port_fini != NULL)
			port->transports[i]->port_fini(port);
	}
}

struct split_port *
port_create(const struct split_port_options *options, const struct transport_ops *const *transports,
    uint32_t transport_count)
{
	struct split_port *port = split_calloc(1, sizeof(*port));
	int rc;

	assert(transports != NULL || transport_count == 0);
	if (port == NULL)
		return NULL;
	port->magic = SPLIT_PORT_MAGIC;
	port->options = *options;
	port_transports_init(port, transports, transport_count);
	port_lists_init(port);
	rc = port_options_check(&port->options);
	if (rc != 0)
		goto err_port;
	(void)guard_init(); /* off is fine: guard_mode_text tells who asks */
	rc = port_memory_init(port);
	if (rc != 0)
		goto err_port;
	port->loop = port->options.loop;
	port->qp_room = port->options.qp_count_max;
	credit_port_init(port);
	guest_port_init(port);
	auth_port_init(port);
	loop_task_init(&port->wake_task, port_on_wake, port);
	loop_task_init(&port->orphan_task, port_on_orphans, port);
	loop_turn_end_add(port->loop, &port->turn_end, port_on_turn_end, port);
	port_transports_open(port);
	if (options->key != NULL)
		port->options.key = split_key_share(options->key);
	return port;

err_port:
	split_free(port);
	errno = -rc;
	return NULL;
}

static bool
port_engines_are_idle(void *arg)
{
	const struct split_port *port = arg;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	return port->events_running_count == 0;
}

static void
port_free(struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	assert(list_is_empty(&port->qps));
	assert(list_is_empty(&port->listeners));
	port_memory_fini(port);
	split_key_free((struct split_key *)(uintptr_t)port->options.key); /* our share */
	port->magic = 0;
	split_free(port);
}

void
split_port_close(struct split_port *port)
{
	struct loop_link *link;

	if (port == NULL)
		return;
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	assert(port->handler_depth == 0); /* not from one of its own handlers */
	port->is_closing = true;
	while ((link = list_first(&port->listeners)) != NULL)
		connect_unlisten(LIST_ENTRY(link, struct split_listener, link));
	while ((link = list_first(&port->qps)) != NULL)
		qp_finish_now(LIST_ENTRY(link, struct split_qp, link));
	port_on_orphans(&port->orphan_task, port);
	regions_fini(port);
	dev_memories_fini(port);
	port_transports_fini(port);
	connect_name_port_fini(port);
	/* An engine writes into our events and our memory: wait for what it has. */
	if (port->events_running_count > 0)
		(void)loop_run(port->loop, port_engines_are_idle, port);
	assert(port->events_running_count == 0);
	event_run_handlers(port);
	loop_task_cancel(port->loop, &port->wake_task);
	loop_task_cancel(port->loop, &port->orphan_task);
	loop_task_cancel(port->loop, &port->event_task);
	loop_turn_end_remove(port->loop, &port->turn_end);
	credit_port_fini(port);
	guest_port_fini(port);
	auth_port_fini(port);
	port_free(port);
}

void
port_abandon(struct split_port *port)
{
	struct loop_link *link;

	assert(port->options.sim_host != NULL);
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	while ((link = list_pop_front(&port->listeners)) != NULL)
		split_free(LIST_ENTRY(link, struct split_listener, link));
	while ((link = list_pop_front(&port->qps)) != NULL) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, link);

		one_sided_fini(qp);
		auth_wait_end(qp);
		auth_end(qp);
		sealed_end(qp);
		qp->magic = 0;
		split_free(qp);
	}
	regions_fini(port);
	dev_memories_fini(port);
	port_free(port);
}

const struct split_counters *
split_port_counters(const struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	return &port->counters;
}

const char *
split_port_reason(const struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	return port->reason;
}
