/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_conn.c -- connections of the simulated network, and packets under way on them
 *
 * A connection is two ends; from each a pipe of packets leads to the other. A packet is due when the
 * link has had the time to carry it, never before the one ahead of it. When due it moves to the other
 * end's inbox and that process gets a post; when the link is cut it waits. A packet for an end that
 * is no more, on a host that is up, is answered with a reset, as a kernel does.
 *
 * Silence: while a connection's path is cut in either direction, or the other end was killed, each
 * living end runs a timer of its port's keepalive_ns, and then gives up.
 */
#include "sim_conn.h"

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "core/alloc.h"
#include "core/connect.h"
#include "core/port.h"
#include "core/qp.h"
#include "sim_link.h"
#include "sim_one_sided.h"
#include "sim_state.h"

static void sim_end_on_pipe(struct loop_timer *timer, void *arg);
static void sim_end_on_silence(struct loop_timer *timer, void *arg);

struct sim_packet *
sim_packet_create(enum sim_packet_kind kind, uint32_t bytes)
{
	struct sim_packet *packet = split_calloc(1, sizeof(*packet) + bytes);

	assert(kind <= SIM_PACKET_READ_DONE);
	if (packet == NULL)
		return NULL;
	packet->kind = kind;
	packet->bytes = bytes;
	return packet;
}

void
sim_packets_free(struct loop_link *packets)
{
	struct loop_link *link;

	assert(packets != NULL);
	while ((link = list_pop_front(packets)) != NULL)
		split_free(LIST_ENTRY(link, struct sim_packet, link));
}

void
sim_pipe_arm(struct sim_end *end)
{
	struct sim_net *net = end->conn->net;
	struct loop_link *link = list_first(&end->pipe);
	uint64_t now_ns = sim_world_now_ns(net->world);
	uint64_t due_ns;

	assert(
	    link == NULL || LIST_ENTRY(link, struct sim_packet, link)->due_ns <= end->last_due_ns);
	assert(!end->is_held);
	if (link == NULL || end->pipe_timer.is_active)
		return;
	due_ns = LIST_ENTRY(link, struct sim_packet, link)->due_ns;
	loop_timer_start(net->nature, &end->pipe_timer, due_ns > now_ns ? due_ns - now_ns : 0);
}

void
sim_packet_send(struct sim_end *end, struct sim_packet *packet)
{
	assert(packet->bytes > 0 || packet->kind != SIM_PACKET_DATA);
	assert(packet != NULL);
	assert(!list_contains(&packet->link));
	/* A killed process may still be on the stack: its words reach nobody. */
	if (!end->host->is_up) {
		split_free(packet);
		return;
	}
	packet->due_ns = num_max(sim_link_carry(end->path, packet->bytes), end->last_due_ns);
	end->last_due_ns = packet->due_ns;
	end->pipe_bytes += packet->bytes;
	list_push_back(&end->pipe, &packet->link);
	if (!end->is_held)
		sim_pipe_arm(end);
}

void
sim_packet_send_kind(struct sim_end *end, enum sim_packet_kind kind)
{
	struct sim_packet *packet = sim_packet_create(kind, 0);

	assert(end->path->from == end->host);
	assert(kind != SIM_PACKET_DATA);
	assert(kind != SIM_PACKET_OPEN);
	/* The other end finds out by its timer. */
	if (packet != NULL)
		sim_packet_send(end, packet);
}

void
sim_end_post(struct sim_end *end)
{
	if (end->is_post_queued || !end->host->is_up)
		return;
	assert(end->loop != NULL);
	end->is_post_queued = true;
	loop_post(end->loop, &end->post);
}

void
sim_end_consumed(struct sim_end *end, uint32_t bytes)
{
	struct sim_end *sender = sim_end_peer(end);

	assert(sender != end && sim_end_peer(sender) == end);
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

	assert(host->net == net);
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

	assert(end->qp == NULL);
	assert(packet->kind == SIM_PACKET_OPEN);
	assert(packet->bytes == sizeof(uint32_t));
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

	assert(to->path->to == from->host);
	assert(!list_contains(&packet->link));
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
	if (packet->kind == SIM_PACKET_READ) {
		if (to->qp != NULL)
			sim_one_sided_serve(to, packet);
		sim_end_consumed(to, packet->bytes);
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

	assert(timer == &end->pipe_timer);
	(void)timer;
	assert(!end->is_held);
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
	sim_pipe_arm(end);
	sim_conn_try_free(end->conn);
}

static void
end_init(struct sim_end *end, struct sim_conn *conn, struct sim_host *host, struct sim_link *path)
{
	assert(path->from == host);
	end->conn = conn;
	end->host = host;
	end->path = path;
	end->post.fn = conn->net->on_post;
	end->post.arg = end;
	list_init(&end->inbox);
	list_init(&end->pipe);
	list_init(&end->torn);
	loop_timer_init(&end->pipe_timer, sim_end_on_pipe, end);
	loop_timer_init(&end->silence_timer, sim_end_on_silence, end);
}

struct sim_conn *
sim_conn_open(struct split_qp *qp, struct sim_host *to)
{
	struct sim_host *from = qp->port->options.sim_host;
	struct sim_link *there = sim_link_get(from, to);
	struct sim_link *back = sim_link_get(to, from);
	struct sim_conn *conn;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(from->net == to->net);
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

void
sim_conn_free(struct sim_conn *conn)
{
	for (uint32_t i = 0; i < NUM_COUNT(conn->ends); i++) {
		struct sim_end *end = &conn->ends[i];

		loop_timer_stop(conn->net->nature, &end->pipe_timer);
		loop_timer_stop(conn->net->nature, &end->silence_timer);
		sim_packets_free(&end->inbox);
		sim_packets_free(&end->pipe);
		sim_one_sided_forget(end);
	}
	list_remove(&conn->link);
	split_free(conn);
}

static bool
end_is_needed(const struct sim_end *end)
{
	return end->qp != NULL || end->listener != NULL || end->is_post_queued ||
	    !list_is_empty(&end->pipe) || !list_is_empty(&end->torn);
}

void
sim_conn_try_free(struct sim_conn *conn)
{
	assert(conn->ends[0].conn == conn && conn->ends[1].conn == conn);
	if (!end_is_needed(&conn->ends[0]) && !end_is_needed(&conn->ends[1]))
		sim_conn_free(conn);
}

void
sim_end_detach(struct sim_end *end)
{
	assert(end->qp != NULL || end->listener != NULL || end->is_dead);
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

static bool
end_is_cut_off(struct sim_end *end)
{
	struct sim_end *peer = sim_end_peer(end);

	assert(sim_end_peer(peer) == end);
	return end->path->is_cut || peer->path->is_cut || !peer->host->is_up || peer->is_dead;
}

static void
end_watch(struct sim_end *end)
{
	struct loop *nature = end->conn->net->nature;

	assert(end->qp == NULL || end->keepalive_ns > 0);
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

void
sim_end_tell(struct sim_end *end, enum sim_packet_kind kind)
{
	struct sim_packet *packet = sim_packet_create(kind, 0);

	assert(kind == SIM_PACKET_RESET || kind == SIM_PACKET_TIMEOUT);
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

	assert(timer == &end->silence_timer && end->keepalive_ns > 0);
	(void)timer;
	assert(end->qp != NULL);
	sim_end_tell(end, SIM_PACKET_TIMEOUT);
}
