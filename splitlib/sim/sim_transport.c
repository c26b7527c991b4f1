/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_transport.c -- queue pairs over the simulated network, as a process sees them
 *
 * A message becomes one packet when it is sent, and is taken out of it when it is received: those
 * are the moments in which a real transport would move the bytes, and the guard is open then. All
 * that comes from the network comes by a post, in the order in which it arrived.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/config_value.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "core/alloc.h"
#include "core/connect.h"
#include "core/port.h"
#include "core/qp.h"
#include "core/recv_split.h"
#include "core/send_assemble.h"
#include "core/send_post.h"
#include "sim_conn.h"
#include "sim_link.h"
#include "sim_one_sided.h"
#include "sim_state.h"
#include "sim_transport.h"

/* A port lives and dies with its host. */
static void
sim_port_open(struct split_port *port)
{
	struct sim_host *host = port->options.sim_host;

	assert(host->is_up); /* sim_host_start */
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	list_push_back(&host->ports, &port->sim_link);
}

static void
sim_port_fini(struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	list_remove(&port->sim_link);
}

/* "HOST:PORT" to a host of the network. */
static int
sim_address_parse(struct sim_net *net, const char *host_port, struct sim_host **ret_host,
    uint32_t *ret_port_number)
{
	const char *colon = strchr(host_port, ':');
	struct sim_host *host;
	uint64_t port_number;

	if (colon == NULL || config_parse_u64(colon + 1, &port_number) != 0 ||
	    port_number > UINT16_MAX)
		return -EINVAL;
	host = sim_net_host_by_name(net, host_port, (size_t)(colon - host_port));
	if (host == NULL)
		return -EINVAL;
	*ret_host = host;
	*ret_port_number = (uint32_t)port_number;
	return 0;
}

static bool
sim_port_number_is_taken(const struct sim_host *host, uint32_t port_number)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&host->net->listeners, link, next) {
		const struct sim_listener *self = LIST_ENTRY(link, struct sim_listener, link);

		if (self->host == host && self->port_number == port_number)
			return true;
	}
	return false;
}

static int
sim_listen(struct split_listener *listener, const char *host_port, char *ret_address)
{
	struct sim_host *here = listener->port->options.sim_host, *host;
	struct sim_listener *self;
	uint32_t port_number;
	int rc;

	CHECK_OBJ(listener, SPLIT_LISTENER_MAGIC);
	rc = sim_address_parse(here->net, host_port, &host, &port_number);
	if (rc != 0)
		return rc;
	if (host != here)
		return -EADDRNOTAVAIL;
	if (port_number == 0)
		port_number = here->port_number_next++;
	if (sim_port_number_is_taken(here, port_number))
		return -EADDRINUSE;
	self = split_calloc(1, sizeof(*self));
	if (self == NULL)
		return -ENOMEM;
	self->host = here;
	self->listener = listener;
	self->port_number = port_number;
	list_push_back(&here->net->listeners, &self->link);
	listener->transport = self;
	(void)snprintf(ret_address, SPLIT_ADDRESS_BYTES_MAX, "sim://%s:%u", here->name,
	    port_number);
	return 0;
}

static void
sim_unlisten(struct split_listener *listener)
{
	struct sim_listener *self = listener->transport;
	struct sim_net *net = self->host->net;
	struct loop_link *link, *next;

	CHECK_OBJ(listener, SPLIT_LISTENER_MAGIC);
	assert(self->listener == listener);
	LIST_FOREACH_SAFE(&net->conns, link, next) {
		struct sim_conn *conn = LIST_ENTRY(link, struct sim_conn, link);

		/* The connection had been let in, but the process has not looked yet. */
		if (conn->ends[1].listener == self) {
			sim_packet_send_kind(&conn->ends[1], SIM_PACKET_RESET);
			sim_end_detach(&conn->ends[1]);
		}
	}
	list_remove(&self->link);
	split_free(self);
	listener->transport = NULL;
}

static int
sim_connect(struct split_qp *qp, const char *host_port)
{
	struct sim_host *here = qp->port->options.sim_host, *to;
	struct sim_packet *packet;
	struct sim_conn *conn;
	uint32_t port_number;
	int rc;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(qp->transport == NULL);
	rc = sim_address_parse(here->net, host_port, &to, &port_number);
	if (rc != 0)
		return rc;
	packet = sim_packet_create(SIM_PACKET_OPEN, sizeof(port_number));
	if (packet == NULL)
		return -ENOMEM;
	conn = sim_conn_open(qp, to);
	if (conn == NULL) {
		split_free(packet);
		return -ENOMEM;
	}
	num_put_le32(packet->data, port_number);
	qp->transport = &conn->ends[0];
	(void)snprintf(qp->peer, sizeof(qp->peer), "sim://%s:%u", to->name, port_number);
	sim_packet_send(&conn->ends[0], packet);
	sim_conn_watch(conn);
	return 0;
}

static void
sim_close(struct split_qp *qp)
{
	struct sim_end *end = qp->transport;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	qp->transport = NULL;
	sim_packet_send_kind(end, SIM_PACKET_FIN);
	sim_end_detach(end);
}

/* Puts a message into a packet. Returns false when there is none, or no memory. */
static bool
sim_send_one(struct split_qp *qp, struct sim_end *end)
{
	struct iovec iov[SPLIT_PIECES_MAX + 1];
	struct sim_packet *packet;
	uint64_t bytes, at = 0;
	uint32_t count = send_gather(qp, iov, NUM_COUNT(iov), 1, &bytes);

	if (count == 0)
		return false;
	packet = sim_packet_create(SIM_PACKET_DATA, (uint32_t)bytes);
	if (packet == NULL) {
		qp_fail(qp, -ECONNRESET, "send: out of memory");
		return false;
	}
	guard_enter();
	for (uint32_t i = 0; i < count; i++) {
		assert(at + iov[i].iov_len <= bytes);
		memcpy(packet->data + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	guard_leave();
	metric_add(&qp->port->counters.send_calls, 1);
	sim_packet_send(end, packet);
	send_advance(qp, bytes);
	return true;
}

static void
sim_kick_send(struct split_qp *qp)
{
	struct sim_end *end = qp->transport;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	while (end != NULL && !port_is_halted(qp->port) && qp_is_open(qp)) {
		end->is_blocked = !list_is_empty(&qp->sendable) &&
		    end->pipe_bytes >= SIM_PIPE_BYTES_MAX;
		if (end->is_blocked || !sim_send_one(qp, end))
			return;
	}
	if (qp_is_open(qp) && !list_is_empty(&qp->sendable))
		send_kick_later(qp);
}

static void
sim_kick_receive(struct split_qp *qp)
{
	struct sim_end *end = qp->transport;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (!end->is_paused)
		return;
	end->is_paused = false;
	sim_end_post(end);
}

/* Returns false when the packet has to wait. */
static bool
sim_receive_data(struct sim_end *end, struct sim_packet *packet)
{
	struct split_qp *qp = end->qp;
	uint32_t head_bytes = recv_head_bytes(qp);
	const uint8_t *payload = packet->data + head_bytes;
	struct recv_fill *fill = &qp->fill;

	assert(packet->kind == SIM_PACKET_DATA);
	if (packet->bytes < head_bytes) {
		/* From who does not know yet that it is sealed: no stream would make a head of it. */
		qp_fail(qp, -EPROTO, "bad message: field head (too short)");
		return true;
	}
	/* A packet that waits is opened already. */
	if (!packet->is_opened && !recv_open(qp, packet->data))
		return true;
	packet->is_opened = true;
	switch (recv_begin(qp, (const struct wire_header *)packet->data, NULL)) {
	case RECV_WAIT:
		end->is_paused = true;
		return false;
	case RECV_DONE:
	case RECV_BROKEN:
		return true;
	case RECV_FILL:
		break;
	}
	guard_enter();
	if (fill->host_left > 0)
		memcpy(fill->host, payload, fill->host_left);
	if (fill->device_left > 0)
		memcpy(fill->device, payload + fill->host_left, fill->device_left);
	guard_leave();
	metric_add(&qp->port->counters.receive_calls, 1);
	fill->host_left = fill->device_left = fill->discard_left = 0;
	recv_finish(qp);
	return true;
}

/* An OPEN, for a listener of this process. */
static void
sim_receive_open(struct sim_end *end)
{
	char peer[SPLIT_ADDRESS_BYTES_MAX];
	struct split_qp *qp;

	assert(end->qp == NULL);
	(void)snprintf(peer, sizeof(peer), "sim://%s", sim_end_peer(end)->host->name);
	qp = connect_accept(end->listener->listener, peer);
	end->listener = NULL;
	if (qp == NULL) {
		sim_packet_send_kind(end, SIM_PACKET_RESET);
		return;
	}
	qp->transport = end;
	end->qp = qp;
	sim_packet_send_kind(end, SIM_PACKET_OPENED);
	sim_conn_watch(end->conn);
}

/* Returns false when the packet has to wait. */
static bool
sim_receive(struct sim_end *end, struct sim_packet *packet)
{
	struct split_qp *qp = end->qp;

	if (packet->kind == SIM_PACKET_OPEN) {
		sim_receive_open(end);
		return true;
	}
	if (qp == NULL || !qp_is_open(qp) || qp->is_rejecting)
		return true;
	switch (packet->kind) {
	case SIM_PACKET_OPENED:
		connect_on_open(qp);
		return true;
	case SIM_PACKET_DATA:
		return sim_receive_data(end, packet);
	case SIM_PACKET_READ_DONE:
		sim_one_sided_done(qp, packet);
		return true;
	case SIM_PACKET_FIN:
		qp_fail(qp, -ECONNRESET, "the peer closed the connection");
		return true;
	case SIM_PACKET_RESET:
		if (qp_is(qp, SPLIT_QP_CONNECTING))
			qp_fail(qp, -ECONNREFUSED, "connect: refused");
		else
			qp_fail(qp, -ECONNRESET, "the connection was reset");
		return true;
	case SIM_PACKET_TIMEOUT:
		qp_fail(qp, -ETIMEDOUT, "the peer is silent");
		return true;
	case SIM_PACKET_OPEN:
	case SIM_PACKET_READ:
		break;
	}
	return true;
}

/* The turn was cut short, or a packet arrived meanwhile. */
static bool
end_has_work(const struct sim_end *end)
{
	if (end->qp == NULL || !qp_is_open(end->qp))
		return false;
	return end->must_kick || end->qp->batch_count > 0 ||
	    (!end->is_paused && !list_is_empty(&end->inbox));
}

void
sim_end_on_post(struct loop_post *post, void *arg)
{
	struct sim_end *end = arg;
	struct loop *loop = end->loop;
	struct loop_link *link;

	(void)post;
	assert(end->is_post_queued);
	/* While this runs the connection may not be freed, though its queue pair may close. */
	while (!loop->is_halted && !end->is_paused && (link = list_first(&end->inbox)) != NULL) {
		struct sim_packet *packet = LIST_ENTRY(link, struct sim_packet, link);
		uint32_t bytes = packet->bytes;

		list_remove(link);
		if (!sim_receive(end, packet)) {
			list_push_front(&end->inbox, link);
			break;
		}
		split_free(packet);
		if (!loop->is_halted)
			sim_end_consumed(end, bytes);
	}
	/* Killed or paused by a handler: what belongs to the process is not ours any more. */
	if (end->qp != NULL && !loop->is_halted) {
		if (end->must_kick)
			send_kick_later(end->qp);
		end->must_kick = false;
		recv_deliver(end->qp);
	}
	end->is_post_queued = false;
	if (end_has_work(end))
		sim_end_post(end);
	else
		sim_conn_try_free(end->conn);
}

/* The network finds a region by itself. */
static int
sim_region_open(struct dev_region *region)
{
	(void)region;
	return 0;
}

static void
sim_region_close(struct dev_region *region)
{
	(void)region;
}

#define SIM_OPS                                                                                    \
	.scheme = "sim", .listen = sim_listen, .unlisten = sim_unlisten, .connect = sim_connect,   \
	.close = sim_close, .kick_send = sim_kick_send, .kick_receive = sim_kick_receive,          \
	.port_open = sim_port_open, .port_fini = sim_port_fini

const struct transport_ops transport_sim_ops = { SIM_OPS };

const struct transport_ops transport_sim_offload_ops = {
	SIM_OPS,
	.kick_one_sided = sim_one_sided_kick,
	.region_open = sim_region_open,
	.region_close = sim_region_close,
};
