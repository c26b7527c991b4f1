/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_net.c -- see sim_net.h; the side of the simulated network that is outside all processes
 *
 * A connection is two ends; from each a pipe of packets leads to the other. A packet is due when the
 * link has had the time to carry it, never before the one ahead of it. When due it moves to the other
 * end's inbox and that process gets a post; when the link is cut it waits. A packet for an end that
 * is no more, on a host that is up, is answered with a reset, as a kernel does.
 *
 * Silence: while a connection's path is cut in either direction, or the other end was killed, each
 * living end runs a timer of its port's keepalive_ns, and then gives up.
 *
 * Nothing here calls into a process, so a paused one stays paused. What a killed process owned is
 * buried in a turn of nature's own, when nothing of the process can be on the stack.
 */
#include "sim_net.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "core/alloc.h"
#include "core/connect.h"
#include "core/port.h"
#include "core/qp.h"
#include "sim_internal.h"

#define SIM_PORT_NUMBER_FIRST 1024u

static const struct sim_link_options sim_link_default = {
	.latency_min_ns = NUM_US(20),
	.latency_max_ns = NUM_US(60),
	.bytes_per_s = UINT64_C(3000000000),
};

static void sim_on_burial(struct loop_task *task, void *arg);
static void sim_end_on_pipe(struct loop_timer *timer, void *arg);
static void sim_end_on_silence(struct loop_timer *timer, void *arg);

struct sim_net *
sim_net_create(struct sim_world *world)
{
	struct sim_net *net = split_calloc(1, sizeof(*net));

	if (net == NULL)
		return NULL;
	net->world = world;
	net->nature = sim_world_nature(world);
	net->options = sim_link_default;
	list_init(&net->hosts);
	list_init(&net->links);
	list_init(&net->conns);
	list_init(&net->listeners);
	list_init(&net->dead_ports);
	list_init(&net->dead_listeners);
	loop_task_init(&net->burial_task, sim_on_burial, net);
	return net;
}

struct sim_host *
sim_host_create(struct sim_net *net, const char *name)
{
	struct sim_host *host;

	if (strlen(name) >= SIM_HOST_NAME_BYTES || strchr(name, ':') != NULL ||
	    sim_net_host_by_name(net, name, strlen(name)) != NULL) {
		errno = EINVAL;
		return NULL;
	}
	host = split_calloc(1, sizeof(*host));
	if (host == NULL)
		return NULL;
	host->base.ops = &transport_sim_ops;
	host->net = net;
	host->is_up = true;
	host->port_number_next = SIM_PORT_NUMBER_FIRST;
	list_init(&host->ports);
	(void)snprintf(host->name, sizeof(host->name), "%s", name); /* fits */
	list_push_back(&net->hosts, &host->link);
	return host;
}

const char *
sim_host_name(const struct sim_host *host)
{
	return host->name;
}

bool
sim_host_is_up(const struct sim_host *host)
{
	return host->is_up;
}

struct sim_host *
sim_net_host_by_name(struct sim_net *net, const char *name, size_t bytes)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&net->hosts, link, next) {
		struct sim_host *host = LIST_ENTRY(link, struct sim_host, link);

		if (strlen(host->name) == bytes && memcmp(host->name, name, bytes) == 0)
			return host;
	}
	return NULL;
}

/* Links. */

static struct sim_link *
link_find(const struct sim_host *from, const struct sim_host *to)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&from->net->links, link, next) {
		struct sim_link *path = LIST_ENTRY(link, struct sim_link, link);

		if (path->from == from && path->to == to)
			return path;
	}
	return NULL;
}

/* NULL: out of memory. */
static struct sim_link *
link_get(struct sim_host *from, struct sim_host *to)
{
	struct sim_link *path = link_find(from, to);

	assert(from->net == to->net);
	if (path != NULL)
		return path;
	path = split_calloc(1, sizeof(*path));
	if (path == NULL)
		return NULL;
	path->from = from;
	path->to = to;
	path->options = from->net->options;
	list_push_back(&from->net->links, &path->link);
	return path;
}

void
sim_net_set_links(struct sim_net *net, const struct sim_link_options *options)
{
	struct loop_link *link, *next;

	assert(options->latency_min_ns <= options->latency_max_ns);
	net->options = *options;
	LIST_FOREACH_SAFE(&net->links, link, next) {
		LIST_ENTRY(link, struct sim_link, link)->options = *options;
	}
}

void
sim_net_set_link(struct sim_host *from, struct sim_host *to, const struct sim_link_options *options)
{
	struct sim_link *path = link_get(from, to);

	assert(options->latency_min_ns <= options->latency_max_ns);
	assert(path != NULL); /* a test's own set-up ran out of memory */
	path->options = *options;
}

static uint64_t
link_latency_ns(const struct sim_link *path)
{
	const struct sim_link_options *options = &path->options;
	struct sim_world *world = path->from->net->world;
	uint64_t latency_ns = options->latency_min_ns;

	latency_ns +=
	    sim_world_random_below(world, options->latency_max_ns - options->latency_min_ns + 1);
	if (options->tail_ppm > 0 && sim_world_random_below(world, 1000000) < options->tail_ppm)
		latency_ns += options->tail_ns;
	return latency_ns;
}

/* When a packet of @bytes that is sent now has crossed the link. */
static uint64_t
link_carry(struct sim_link *path, uint32_t bytes)
{
	uint64_t now_ns = sim_world_now_ns(path->from->net->world);
	uint64_t start_ns = num_max(now_ns, path->busy_until_ns);

	if (path->options.bytes_per_s > 0)
		start_ns += (uint64_t)bytes * NUM_S(1) / path->options.bytes_per_s;
	path->busy_until_ns = start_ns;
	return start_ns + link_latency_ns(path);
}

/* Packets. */

struct sim_packet *
sim_packet_create(enum sim_packet_kind kind, uint32_t bytes)
{
	struct sim_packet *packet = split_calloc(1, sizeof(*packet) + bytes);

	if (packet == NULL)
		return NULL;
	packet->kind = kind;
	packet->bytes = bytes;
	return packet;
}

static void
packets_free(struct loop_link *packets)
{
	struct loop_link *link;

	while ((link = list_pop_front(packets)) != NULL)
		split_free(LIST_ENTRY(link, struct sim_packet, link));
}

static void
pipe_arm(struct sim_end *end)
{
	struct sim_net *net = end->conn->net;
	struct loop_link *link = list_first(&end->pipe);
	uint64_t now_ns = sim_world_now_ns(net->world);
	uint64_t due_ns;

	if (link == NULL || end->pipe_timer.is_active)
		return;
	due_ns = LIST_ENTRY(link, struct sim_packet, link)->due_ns;
	loop_timer_start(net->nature, &end->pipe_timer, due_ns > now_ns ? due_ns - now_ns : 0);
}

void
sim_packet_send(struct sim_end *end, struct sim_packet *packet)
{
	assert(packet != NULL);
	/* A killed process may still be on the stack: its words reach nobody. */
	if (!end->host->is_up) {
		split_free(packet);
		return;
	}
	packet->due_ns = num_max(link_carry(end->path, packet->bytes), end->last_due_ns);
	end->last_due_ns = packet->due_ns;
	end->pipe_bytes += packet->bytes;
	list_push_back(&end->pipe, &packet->link);
	if (!end->is_held)
		pipe_arm(end);
}

void
sim_packet_send_kind(struct sim_end *end, enum sim_packet_kind kind)
{
	struct sim_packet *packet = sim_packet_create(kind, 0);

	/* The other end finds out by its timer. */
	if (packet != NULL)
		sim_packet_send(end, packet);
}

void
sim_end_post(struct sim_end *end)
{
	if (end->is_post_queued || !end->host->is_up)
		return;
	end->is_post_queued = true;
	loop_post(end->loop, &end->post);
}

void
sim_end_consumed(struct sim_end *end, uint32_t bytes)
{
	struct sim_end *sender = sim_end_peer(end);

	sender->pipe_bytes -= num_min(bytes, sender->pipe_bytes);
	if (!sender->is_blocked || sender->pipe_bytes > SIM_PIPE_BYTES_MAX / 2)
		return;
	sender->is_blocked = false;
	if (sender->qp == NULL)
		return;
	sender->must_kick = true;
	sim_end_post(sender);
}

static struct sim_listener *
listener_find(struct sim_net *net, const struct sim_host *host, uint32_t port_number)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&net->listeners, link, next) {
		struct sim_listener *self = LIST_ENTRY(link, struct sim_listener, link);

		if (self->host == host && self->port_number == port_number)
			return self;
	}
	return NULL;
}

/* An OPEN has arrived; its data is the port number. */
static bool
deliver_open(struct sim_end *end, const struct sim_packet *packet)
{
	struct sim_listener *self =
	    listener_find(end->conn->net, end->host, num_get_le32(packet->data));

	if (self == NULL)
		return false;
	end->listener = self;
	end->loop = self->listener->port->loop;
	end->keepalive_ns = self->listener->port->options.keepalive_ns;
	return true;
}

static void
deliver(struct sim_end *from, struct sim_packet *packet)
{
	struct sim_end *to = sim_end_peer(from);
	bool has_end;

	if (!to->host->is_up) {
		split_free(packet);
		return;
	}
	if (packet->kind == SIM_PACKET_OPEN)
		has_end = deliver_open(to, packet);
	else
		has_end = to->qp != NULL || to->listener != NULL;
	if (!has_end) {
		if (packet->kind != SIM_PACKET_RESET)
			sim_packet_send_kind(to, SIM_PACKET_RESET);
		split_free(packet);
		return;
	}
	list_push_back(&to->inbox, &packet->link);
	sim_end_post(to);
}

static void
sim_end_on_pipe(struct loop_timer *timer, void *arg)
{
	struct sim_end *end = arg;
	uint64_t now_ns = sim_world_now_ns(end->conn->net->world);
	struct loop_link *link;

	(void)timer;
	if (end->path->is_cut) {
		end->is_held = true;
		return;
	}
	while ((link = list_first(&end->pipe)) != NULL) {
		struct sim_packet *packet = LIST_ENTRY(link, struct sim_packet, link);

		if (packet->due_ns > now_ns)
			break;
		list_remove(link);
		deliver(end, packet);
	}
	pipe_arm(end);
	sim_conn_try_free(end->conn);
}

/* Connections. */

static void
end_init(struct sim_end *end, struct sim_conn *conn, struct sim_host *host, struct sim_link *path)
{
	end->conn = conn;
	end->host = host;
	end->path = path;
	end->post.fn = sim_end_on_post;
	end->post.arg = end;
	list_init(&end->inbox);
	list_init(&end->pipe);
	loop_timer_init(&end->pipe_timer, sim_end_on_pipe, end);
	loop_timer_init(&end->silence_timer, sim_end_on_silence, end);
}

struct sim_conn *
sim_conn_open(struct split_qp *qp, struct sim_host *to)
{
	struct sim_host *from = qp->port->options.sim_host;
	struct sim_link *there = link_get(from, to);
	struct sim_link *back = link_get(to, from);
	struct sim_conn *conn;

	if (there == NULL || back == NULL)
		return NULL;
	conn = split_calloc(1, sizeof(*conn));
	if (conn == NULL)
		return NULL;
	conn->net = from->net;
	end_init(&conn->ends[0], conn, from, there);
	end_init(&conn->ends[1], conn, to, back);
	conn->ends[0].qp = qp;
	conn->ends[0].loop = qp->port->loop;
	conn->ends[0].keepalive_ns = qp->port->options.keepalive_ns;
	list_push_back(&conn->net->conns, &conn->link);
	return conn;
}

static void
conn_free(struct sim_conn *conn)
{
	for (uint32_t i = 0; i < NUM_COUNT(conn->ends); i++) {
		struct sim_end *end = &conn->ends[i];

		loop_timer_stop(conn->net->nature, &end->pipe_timer);
		loop_timer_stop(conn->net->nature, &end->silence_timer);
		packets_free(&end->inbox);
		packets_free(&end->pipe);
	}
	list_remove(&conn->link);
	split_free(conn);
}

static bool
end_is_needed(const struct sim_end *end)
{
	return end->qp != NULL || end->listener != NULL || end->is_post_queued ||
	    !list_is_empty(&end->pipe);
}

void
sim_conn_try_free(struct sim_conn *conn)
{
	if (!end_is_needed(&conn->ends[0]) && !end_is_needed(&conn->ends[1]))
		conn_free(conn);
}

void
sim_end_detach(struct sim_end *end)
{
	end->qp = NULL;
	end->listener = NULL;
	loop_timer_stop(end->conn->net->nature, &end->silence_timer);
	while (!list_is_empty(&end->inbox)) {
		struct loop_link *link = list_pop_front(&end->inbox);
		struct sim_packet *packet = LIST_ENTRY(link, struct sim_packet, link);

		sim_end_consumed(end, packet->bytes);
		split_free(packet);
	}
	sim_conn_try_free(end->conn);
}

/* Silence. */

static bool
end_is_cut_off(struct sim_end *end)
{
	struct sim_end *peer = sim_end_peer(end);

	return end->path->is_cut || peer->path->is_cut || !peer->host->is_up || peer->is_dead;
}

static void
end_watch(struct sim_end *end)
{
	struct loop *nature = end->conn->net->nature;

	if (end->qp == NULL || !end_is_cut_off(end))
		loop_timer_stop(nature, &end->silence_timer);
	else if (!end->silence_timer.is_active)
		loop_timer_start(nature, &end->silence_timer, end->keepalive_ns);
}

void
sim_conn_watch(struct sim_conn *conn)
{
	end_watch(&conn->ends[0]);
	end_watch(&conn->ends[1]);
}

/* Into the process's own inbox, ahead of nothing: it comes from its kernel. */
static void
end_tell(struct sim_end *end, enum sim_packet_kind kind)
{
	struct sim_packet *packet = sim_packet_create(kind, 0);

	if (packet == NULL || (end->qp == NULL && end->listener == NULL)) {
		split_free(packet);
		return;
	}
	list_push_back(&end->inbox, &packet->link);
	sim_end_post(end);
}

static void
sim_end_on_silence(struct loop_timer *timer, void *arg)
{
	struct sim_end *end = arg;

	(void)timer;
	end_tell(end, SIM_PACKET_TIMEOUT);
}

static void
conns_watch(struct sim_net *net)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&net->conns, link, next) {
		sim_conn_watch(LIST_ENTRY(link, struct sim_conn, link));
	}
}

/* Faults. */

bool
sim_net_is_cut(const struct sim_host *from, const struct sim_host *to)
{
	const struct sim_link *path = link_find(from, to);

	return path != NULL && path->is_cut;
}

void
sim_net_cut(struct sim_host *from, struct sim_host *to)
{
	struct sim_link *path = link_get(from, to);

	assert(path != NULL); /* a test's own set-up ran out of memory */
	if (path->is_cut)
		return;
	path->is_cut = true;
	sim_world_trace(from->net->world, "net cut %s %s", from->name, to->name);
	conns_watch(from->net);
}

/* Packets that were held are sent again, after a while. */
static void
pipe_release(struct sim_end *end)
{
	if (!end->is_held || end->path->is_cut)
		return;
	end->is_held = false;
	loop_timer_start(end->conn->net->nature, &end->pipe_timer, link_latency_ns(end->path));
}

void
sim_net_heal(struct sim_host *from, struct sim_host *to)
{
	struct sim_link *path = link_find(from, to);
	struct sim_net *net = from->net;
	struct loop_link *link, *next;

	if (path == NULL || !path->is_cut)
		return;
	path->is_cut = false;
	sim_world_trace(net->world, "net heal %s %s", from->name, to->name);
	LIST_FOREACH_SAFE(&net->conns, link, next) {
		struct sim_conn *conn = LIST_ENTRY(link, struct sim_conn, link);

		pipe_release(&conn->ends[0]);
		pipe_release(&conn->ends[1]);
	}
	conns_watch(net);
}

void
sim_net_partition(struct sim_host *a, struct sim_host *b)
{
	sim_net_cut(a, b);
	sim_net_cut(b, a);
}

void
sim_net_join(struct sim_host *a, struct sim_host *b)
{
	sim_net_heal(a, b);
	sim_net_heal(b, a);
}

void
sim_net_heal_all(struct sim_net *net)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&net->links, link, next) {
		struct sim_link *path = LIST_ENTRY(link, struct sim_link, link);

		sim_net_heal(path->from, path->to);
	}
}

static bool
conn_is_between(const struct sim_conn *conn, const struct sim_host *a, const struct sim_host *b)
{
	const struct sim_host *x = conn->ends[0].host, *y = conn->ends[1].host;

	return (x == a && y == b) || (x == b && y == a);
}

uint32_t
sim_net_reset(struct sim_host *a, struct sim_host *b)
{
	struct sim_net *net = a->net;
	struct loop_link *link, *next;
	uint32_t count = 0;

	sim_world_trace(net->world, "net reset %s %s", a->name, b->name);
	LIST_FOREACH_SAFE(&net->conns, link, next) {
		struct sim_conn *conn = LIST_ENTRY(link, struct sim_conn, link);

		if (!conn_is_between(conn, a, b))
			continue;
		count++;
		for (uint32_t i = 0; i < NUM_COUNT(conn->ends); i++) {
			packets_free(&conn->ends[i].pipe);
			conn->ends[i].pipe_bytes = 0;
			end_tell(&conn->ends[i], SIM_PACKET_RESET);
		}
	}
	return count;
}

/* Returns how many messages of it are late now. */
static uint32_t
pipe_delay(struct sim_end *end, uint64_t delay_ns)
{
	struct loop_link *link, *next;
	uint32_t count = 0;

	LIST_FOREACH_SAFE(&end->pipe, link, next) {
		struct sim_packet *packet = LIST_ENTRY(link, struct sim_packet, link);

		packet->due_ns += delay_ns;
		end->last_due_ns = packet->due_ns;
		count += packet->kind == SIM_PACKET_DATA;
	}
	loop_timer_stop(end->conn->net->nature, &end->pipe_timer);
	if (!end->is_held)
		pipe_arm(end);
	return count;
}

uint32_t
sim_net_strand(struct sim_host *from, struct sim_host *to, uint64_t delay_ns)
{
	struct sim_net *net = from->net;
	struct loop_link *link, *next;
	uint32_t count = 0;

	LIST_FOREACH_SAFE(&net->conns, link, next) {
		struct sim_conn *conn = LIST_ENTRY(link, struct sim_conn, link);

		for (uint32_t i = 0; i < NUM_COUNT(conn->ends); i++) {
			struct sim_end *end = &conn->ends[i];

			if (end->host != from || sim_end_peer(end)->host != to || end->qp == NULL ||
			    list_is_empty(&end->pipe))
				continue;
			count += pipe_delay(end, delay_ns);
			end_tell(end, SIM_PACKET_RESET);
		}
	}
	if (count > 0)
		sim_world_trace(net->world, "net strand %s %s", from->name, to->name);
	return count;
}

/* Death. */

/* A random part of what was under way is lost. */
static void
pipe_truncate(struct sim_end *end)
{
	struct sim_world *world = end->conn->net->world;

	while (!list_is_empty(&end->pipe) && sim_world_random_below(world, 2) == 0) {
		struct loop_link *link = end->pipe.prev;

		list_remove(link);
		split_free(LIST_ENTRY(link, struct sim_packet, link));
	}
}

static void
end_kill(struct sim_end *end, enum sim_death death)
{
	bool was_alive = end->qp != NULL || end->listener != NULL;

	end->is_dead = true;
	/* The queue pair's memory, and a post in its loop, are the dead process's. */
	end->qp = NULL;
	end->listener = NULL;
	end->is_post_queued = false;
	packets_free(&end->inbox);
	loop_timer_stop(end->conn->net->nature, &end->silence_timer);
	if (!was_alive)
		return;
	pipe_truncate(end);
	/* Sent by the kernel, which survives. */
	if (death == SIM_DEATH_RESET)
		sim_packet_send_kind(end, SIM_PACKET_RESET);
}

static void
listeners_kill(struct sim_host *host)
{
	struct sim_net *net = host->net;
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&net->listeners, link, next) {
		struct sim_listener *self = LIST_ENTRY(link, struct sim_listener, link);

		if (self->host != host)
			continue;
		list_remove(link);
		list_push_back(&net->dead_listeners, link);
	}
}

void
sim_host_kill(struct sim_host *host, enum sim_death death)
{
	struct sim_net *net = host->net;
	struct loop_link *link, *next;

	if (!host->is_up)
		return;
	sim_world_trace(net->world, "net kill %s %u", host->name, (unsigned)death);
	listeners_kill(host);
	LIST_FOREACH_SAFE(&net->conns, link, next) {
		struct sim_conn *conn = LIST_ENTRY(link, struct sim_conn, link);

		for (uint32_t i = 0; i < NUM_COUNT(conn->ends); i++)
			if (conn->ends[i].host == host)
				end_kill(&conn->ends[i], death);
	}
	while ((link = list_pop_front(&host->ports)) != NULL)
		list_push_back(&net->dead_ports, link);
	host->is_up = false;
	conns_watch(net);
	loop_defer(net->nature, &net->burial_task);
}

void
sim_host_start(struct sim_host *host)
{
	assert(!host->is_up);
	host->is_up = true;
	sim_world_trace(host->net->world, "net start %s", host->name);
	conns_watch(host->net);
}

static void
sim_bury(struct sim_net *net)
{
	struct loop_link *link, *next;

	while ((link = list_pop_front(&net->dead_ports)) != NULL)
		port_abandon(LIST_ENTRY(link, struct split_port, sim_link));
	while ((link = list_pop_front(&net->dead_listeners)) != NULL)
		split_free(LIST_ENTRY(link, struct sim_listener, link));
	LIST_FOREACH_SAFE(&net->conns, link, next) {
		sim_conn_try_free(LIST_ENTRY(link, struct sim_conn, link));
	}
}

static void
sim_on_burial(struct loop_task *task, void *arg)
{
	(void)task;
	sim_bury(arg);
}

void
sim_net_destroy(struct sim_net *net)
{
	struct loop_link *link;

	if (net == NULL)
		return;
	sim_bury(net);
	loop_task_cancel(net->nature, &net->burial_task);
	while ((link = list_first(&net->conns)) != NULL)
		conn_free(LIST_ENTRY(link, struct sim_conn, link));
	while ((link = list_pop_front(&net->links)) != NULL)
		split_free(LIST_ENTRY(link, struct sim_link, link));
	assert(list_is_empty(&net->listeners)); /* a port was not closed */
	while ((link = list_pop_front(&net->hosts)) != NULL) {
		struct sim_host *host = LIST_ENTRY(link, struct sim_host, link);

		assert(list_is_empty(&host->ports)); /* a port was not closed */
		split_free(host);
	}
	split_free(net);
}
