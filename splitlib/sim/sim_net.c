/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_net.c -- see sim_net.h; the side of the simulated network that is outside all processes
 *
 * Hosts, and all that may go wrong: cuts, resets, stranded packets, deaths. Links are sim_link.c's, connections
 * and packets under way sim_conn.c's.
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
#include "sim_conn.h"
#include "sim_link.h"
#include "sim_one_sided.h"
#include "sim_state.h"
#include "sim_transport.h"

#define SIM_PORT_NUMBER_FIRST 1024u

static const struct sim_link_options sim_link_default = {
	.latency_min_ns = NUM_US(20),
	.latency_max_ns = NUM_US(60),
	.bytes_per_s = UINT64_C(3000000000),
};

static void sim_on_burial(struct loop_task *task, void *arg);

struct sim_net *
sim_net_create(struct sim_world *world)
{
	struct sim_net *net = split_calloc(1, sizeof(*net));

	assert(world != NULL);
	if (net == NULL)
		return NULL;
	net->world = world;
	net->nature = sim_world_nature(world);
	net->options = sim_link_default;
	net->on_post = sim_end_on_post;
	list_init(&net->hosts);
	list_init(&net->links);
	list_init(&net->conns);
	list_init(&net->listeners);
	list_init(&net->dead_ports);
	list_init(&net->dead_listeners);
	loop_task_init(&net->burial_task, sim_on_burial, net);
	return net;
}

void
sim_net_offload(struct sim_net *net)
{
	assert(list_is_empty(&net->hosts));
	net->is_offloading = true;
}

struct sim_host *
sim_host_create(struct sim_net *net, const char *name)
{
	struct sim_host *host;

	assert(name != NULL);
	if (strlen(name) >= SIM_HOST_NAME_BYTES || strchr(name, ':') != NULL ||
	    sim_net_host_by_name(net, name, strlen(name)) != NULL) {
		errno = EINVAL;
		return NULL;
	}
	host = split_calloc(1, sizeof(*host));
	if (host == NULL)
		return NULL;
	host->base.ops = net->is_offloading ? &transport_sim_offload_ops : &transport_sim_ops;
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
	assert(host->net != NULL);
	return host->name;
}

bool
sim_host_is_up(const struct sim_host *host)
{
	return host->is_up;
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
	struct sim_link *path = sim_link_get(from, to);

	assert(from != to);
	assert(options->latency_min_ns <= options->latency_max_ns);
	assert(path != NULL); /* a test's own set-up ran out of memory */
	path->options = *options;
}

static void
conns_watch(struct sim_net *net)
{
	struct loop_link *link, *next;

	assert(net->world != NULL);
	LIST_FOREACH_SAFE(&net->conns, link, next) {
		sim_conn_watch(LIST_ENTRY(link, struct sim_conn, link));
	}
}

/* Faults. */

bool
sim_net_is_cut(const struct sim_host *from, const struct sim_host *to)
{
	const struct sim_link *path = sim_link_find(from, to);

	assert(from->net == to->net);
	return path != NULL && path->is_cut;
}

void
sim_net_cut(struct sim_host *from, struct sim_host *to)
{
	struct sim_link *path = sim_link_get(from, to);

	assert(from->net == to->net);
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
	assert(!end->is_held || !end->pipe_timer.is_active);
	if (!end->is_held || end->path->is_cut)
		return;
	end->is_held = false;
	loop_timer_start(end->conn->net->nature, &end->pipe_timer, sim_link_latency_ns(end->path));
}

void
sim_net_heal(struct sim_host *from, struct sim_host *to)
{
	struct sim_link *path = sim_link_find(from, to);
	struct sim_net *net = from->net;
	struct loop_link *link, *next;

	assert(path == NULL || (path->from == from && path->to == to));
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
	assert(a != b);
	sim_net_cut(a, b);
	sim_net_cut(b, a);
}

void
sim_net_join(struct sim_host *a, struct sim_host *b)
{
	assert(a != b);
	sim_net_heal(a, b);
	sim_net_heal(b, a);
}

void
sim_net_heal_all(struct sim_net *net)
{
	struct loop_link *link, *next;

	assert(net->world != NULL);
	LIST_FOREACH_SAFE(&net->links, link, next) {
		struct sim_link *path = LIST_ENTRY(link, struct sim_link, link);

		sim_net_heal(path->from, path->to);
	}
}

static bool
conn_is_between(const struct sim_conn *conn, const struct sim_host *a, const struct sim_host *b)
{
	const struct sim_host *x = conn->ends[0].host, *y = conn->ends[1].host;

	assert(x->net == a->net && y->net == b->net);
	return (x == a && y == b) || (x == b && y == a);
}

uint32_t
sim_net_reset(struct sim_host *a, struct sim_host *b)
{
	struct sim_net *net = a->net;
	struct loop_link *link, *next;
	uint32_t count = 0;

	assert(a->net == b->net);
	sim_world_trace(net->world, "net reset %s %s", a->name, b->name);
	LIST_FOREACH_SAFE(&net->conns, link, next) {
		struct sim_conn *conn = LIST_ENTRY(link, struct sim_conn, link);

		if (!conn_is_between(conn, a, b))
			continue;
		count++;
		for (uint32_t i = 0; i < NUM_COUNT(conn->ends); i++) {
			sim_packets_free(&conn->ends[i].pipe);
			conn->ends[i].pipe_bytes = 0;
			sim_end_tell(&conn->ends[i], SIM_PACKET_RESET);
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

	assert(!list_is_empty(&end->pipe) && delay_ns > 0);
	LIST_FOREACH_SAFE(&end->pipe, link, next) {
		struct sim_packet *packet = LIST_ENTRY(link, struct sim_packet, link);

		packet->due_ns += delay_ns;
		end->last_due_ns = packet->due_ns;
		count += packet->kind == SIM_PACKET_DATA;
	}
	loop_timer_stop(end->conn->net->nature, &end->pipe_timer);
	if (!end->is_held)
		sim_pipe_arm(end);
	return count;
}

uint32_t
sim_net_strand(struct sim_host *from, struct sim_host *to, uint64_t delay_ns)
{
	struct sim_net *net = from->net;
	struct loop_link *link, *next;
	uint32_t count = 0;

	assert(from->net == to->net);
	LIST_FOREACH_SAFE(&net->conns, link, next) {
		struct sim_conn *conn = LIST_ENTRY(link, struct sim_conn, link);

		for (uint32_t i = 0; i < NUM_COUNT(conn->ends); i++) {
			struct sim_end *end = &conn->ends[i];

			if (end->host != from || sim_end_peer(end)->host != to || end->qp == NULL ||
			    list_is_empty(&end->pipe))
				continue;
			count += pipe_delay(end, delay_ns);
			sim_end_tell(end, SIM_PACKET_RESET);
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

	assert(end->is_dead);
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
	sim_packets_free(&end->inbox);
	sim_one_sided_forget(end);
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

	assert(host->is_up);
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

	assert(death <= SIM_DEATH_SILENT);
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
	assert(task == &((struct sim_net *)arg)->burial_task);
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
		sim_conn_free(LIST_ENTRY(link, struct sim_conn, link));
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
