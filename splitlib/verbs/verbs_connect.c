/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_connect.c -- listening, asking: what goes through the connection manager; answers: verbs_answer.c
 *
 * verbs.c tells the order. Nothing here blocks: each step ends in an event of the channel.
 */
#include "base/check.h"
#include "verbs.h"

#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "base/num.h"
#include "base/sm.h"
#include "base/tcp_address.h"
#include "cleave/status.h"
#include "core/alloc.h"
#include "core/auth.h"
#include "core/connect.h"
#include "core/port.h"
#include "core/qp.h"
#include "core/qp_life.h"
#include "core/send_post.h"
#include "core/transport.h"
#include "verbs_hello.h"

#define VERBS_READS_MAX 16u
#define VERBS_EVENTS_MAX 64u /* of the connection manager, in one turn */
#define VERBS_BACKLOG 1024
#define VERBS_REJECT_NOBODY 8 /* IB_CM_REJ_INVALID_SERVICE_ID */
#define VERBS_RESOLVE_MS 4000

static uint8_t
reads_max(const struct verbs_port *verbs)
{
	return (uint8_t)num_min((uint64_t)num_max((uint64_t)verbs->attr.max_qp_rd_atom, 1),
	    VERBS_READS_MAX);
}

void
verbs_fail_here(struct verbs_qp *vq, int rc)
{
	const char *reason = vq->verbs->port->reason;

	assert(rc < 0);
	qp_fail(vq->qp, rc, "%s", reason[0] != '\0' ? reason : strerrordesc_np(-rc));
}

/* The source of connections. */

size_t
verbs_address_bytes(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

void
verbs_address_clear_port(struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)address)->sin6_port = 0;
	else
		((struct sockaddr_in *)(void *)address)->sin_port = 0;
}

static bool
address_is_any(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(
		    &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
	return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr == INADDR_ANY;
}

/*
 * A port has one device. Where the system has several that reach a peer, its routes would choose;
 * whoever connects from an address of the port's device stays with that.
 */
static void
source_learn(struct verbs_port *verbs, struct rdma_cm_id *id)
{
	struct sockaddr *local = rdma_get_local_addr(id);

	if (verbs->has_source)
		return;
	memset(&verbs->source, 0, sizeof(verbs->source));
	memcpy(&verbs->source, local, verbs_address_bytes(local));
	verbs_address_clear_port(&verbs->source);
	verbs->has_source = !address_is_any(&verbs->source);
}

/* The connector. */

/* Neither address nor route: say from where to where, because a missing GID or cable has no other name. */
static void
fail_no_way(struct verbs_qp *vq, int err)
{
	const struct verbs_port *verbs = vq->verbs;
	char from[SPLIT_ADDRESS_BYTES_MAX];

	assert(err > 0);
	if (!vq->is_from_source) {
		qp_fail(vq->qp, -ECONNREFUSED, "connect: no RDMA device reaches %s: %s",
		    vq->qp->peer, strerrordesc_np(err));
		return;
	}
	tcp_address_format_as("verbs", &verbs->source, from);
	qp_fail(vq->qp, -ECONNREFUSED, "connect: %s does not reach %s from %s: %s",
	    verbs->device_name[0] != '\0' ? verbs->device_name : "no RDMA device", vq->qp->peer,
	    from, strerrordesc_np(err));
}

/* Look for the device that reaches the peer. What goes wrong later comes as an event. */
static int
connect_start(struct verbs_qp *vq)
{
	struct verbs_port *verbs = vq->verbs;
	struct sockaddr *source = NULL;

	assert(verbs_is(vq, VERBS_ADDRESS));
	if (verbs->has_source && verbs->source.ss_family == vq->address.ss_family)
		source = (struct sockaddr *)&verbs->source;
	vq->is_from_source = source != NULL;
	if (rdma_create_id(verbs->channel, &vq->id, vq, RDMA_PS_TCP) != 0)
		return -errno;
	if (verbs->device.state == VERBS_DEVICE_LEAVING)
		qp_fail(vq->qp, -ECONNREFUSED, "connect: %s is gone", verbs->device_name);
	else if (rdma_resolve_addr(vq->id, source, (struct sockaddr *)&vq->address,
		     VERBS_RESOLVE_MS) != 0)
		fail_no_way(vq, errno);
	return 0;
}

int
verbs_connect(struct split_qp *qp, const char *host_port)
{
	struct sockaddr_storage address;
	struct verbs_port *verbs;
	struct verbs_qp *vq;
	uint8_t hello[WIRE_HELLO_BYTES];
	socklen_t bytes;
	int rc;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	rc = tcp_address_parse(host_port, &address, &bytes);
	if (rc == 0)
		rc = verbs_hello_pack(qp, 0, hello);
	if (rc == 0)
		rc = verbs_port_get(qp->port, &verbs);
	if (rc != 0)
		return rc;
	tcp_address_format_as("verbs", &address, qp->peer);
	vq = verbs_qp_create(verbs, qp, VERBS_ADDRESS);
	if (vq == NULL)
		return -ENOMEM;
	vq->is_shared = qp->is_pooled;
	vq->is_keyed = auth_security(qp->port) != SPLIT_SECURITY_OPEN;
	vq->address = address;
	rc = connect_start(vq);
	if (rc != 0) {
		list_remove(&vq->link);
		split_free(vq);
		return rc;
	}
	qp->transport = vq;
	return 0;
}

/* The connection was asked for before the port had a device: once more, from that one. */
static void
on_other_device(struct verbs_qp *vq)
{
	struct rdma_cm_id *old = vq->id;
	int rc = connect_start(vq);

	if (rc != 0)
		qp_fail(vq->qp, rc, "connect: %s", strerrordesc_np(-rc));
	else
		(void)rdma_destroy_id(old); /* whatever it says: nothing can be done */
}

static void
on_address(struct verbs_qp *vq)
{
	int rc;

	assert(verbs_is(vq, VERBS_ADDRESS));
	vq->verbs->port->reason[0] = '\0';
	rc = verbs_device_open(vq->verbs, vq->id);
	if (rc == -EXDEV && !vq->is_from_source && vq->verbs->has_source) {
		on_other_device(vq);
		return;
	}
	if (rc != 0) {
		verbs_fail_here(vq, rc);
		/* Our address may be another device's by now: then the next attempt finds that. */
		if (rc == -EXDEV)
			verbs_address_check(vq->verbs);
		return;
	}
	source_learn(vq->verbs, vq->id);
	sm_move(&vq->sm, VERBS_ROUTE);
	if (rdma_resolve_route(vq->id, VERBS_RESOLVE_MS) != 0)
		fail_no_way(vq, errno);
}

static void
on_route(struct verbs_qp *vq)
{
	uint8_t hello[WIRE_HELLO_BYTES];
	struct rdma_conn_param param;
	int rc;

	assert(verbs_is(vq, VERBS_ROUTE));
	vq->verbs->port->reason[0] = '\0';
	rc = verbs_lanes_create(vq);
	if (rc != 0) {
		verbs_fail_here(vq, rc);
		return;
	}
	vq->reads_max = reads_max(vq->verbs);
	if (vq->is_keyed)
		verbs_hello_pack_keyed(vq->control.ibv->qp_num, hello);
	else
		(void)verbs_hello_pack(vq->qp, vq->control.ibv->qp_num,
		    hello); /* checked by verbs_connect */
	param = verbs_param(vq, hello, sizeof(hello));
	if (rdma_connect(vq->id, &param) != 0) {
		qp_fail(vq->qp, -ECONNREFUSED, "connect: %s", strerrordesc_np(errno));
		return;
	}
	sm_move(&vq->sm, VERBS_ASKED);
}

static void
on_reply(struct verbs_qp *vq, const struct rdma_conn_param *param)
{
	struct split_qp *qp = vq->qp;
	struct verbs_reply reply;
	int rc = verbs_reply_unpack(param, &reply);

	assert(verbs_is(vq, VERBS_ASKED));
	if (rc == 0 && reply.status == 0 && vq->is_keyed && !reply.is_keyed) {
		qp_fail(qp, -EKEYREJECTED, "the peer answered without a handshake");
		return;
	}
	if (rc != 0 || reply.status != 0 || reply.control_number == 0 ||
	    reply.is_keyed != vq->is_keyed) {
		qp_fail(qp, rc != 0 ? rc : -EPROTO, "the peer's answer is not of this protocol");
		return;
	}
	vq->verbs->port->reason[0] = '\0';
	vq->control.peer_number = reply.control_number;
	vq->reads_max = (uint8_t)num_min(vq->reads_max, param->initiator_depth);
	rc = verbs_lanes_connect(vq);
	if (rc != 0) {
		verbs_fail_here(vq, rc);
		return;
	}
	if (rdma_establish(vq->id) != 0) {
		qp_fail(qp, -ECONNRESET, "establish: %s", strerrordesc_np(errno));
		return;
	}
	sm_move(&vq->sm, VERBS_OPEN);
	if (vq->is_keyed) {
		connect_on_open(qp);
		return;
	}
	qp->hello_header =
	    (struct wire_header){ .opcode = WIRE_HELLO | WIRE_REPLY, .credits = reply.credits };
	qp->hello_in_bytes = reply.hello_bytes;
	memcpy(qp->hello_in, reply.hello, sizeof(reply.hello));
	connect_on_hello(qp);
}

static void
on_rejected(struct verbs_qp *vq, const struct rdma_conn_param *param, int reason)
{
	struct verbs_reply reply;

	if (verbs_reply_unpack(param, &reply) == 0 && reply.status != 0) {
		vq->qp->hello_in_bytes = reply.hello_bytes;
		memcpy(vq->qp->hello_in, reply.hello, sizeof(reply.hello));
		connect_refused(vq->qp, reply.status);
	} else if (reason == VERBS_REJECT_NOBODY)
		qp_fail(vq->qp, -ECONNREFUSED, "connect: nobody listens there");
	else
		qp_fail(vq->qp, -ECONNRESET, "connect: the peer gave up (%d)", reason);
}

/* The acceptor. */

/* Bind and listen with @self->id, which is new. */
static int
listener_bind(struct verbs_listener *self)
{
	struct split_port *port = self->listener->port;
	struct verbs_port *verbs = port->verbs;
	char text[SPLIT_ADDRESS_BYTES_MAX];
	int rc;

	CHECK_OBJ(self, VERBS_LISTENER_MAGIC);
	if (rdma_bind_addr(self->id, (struct sockaddr *)&self->address) != 0) {
		rc = -errno;
		tcp_address_format_as("verbs", &self->address, text);
		if (rc == -ENODEV || rc == -EADDRNOTAVAIL)
			transport_reason(port, "there is no RDMA device with this address (%s)",
			    text);
		return rc;
	}
	/* "Any address" has no device until a connection comes. */
	rc = self->id->verbs != NULL ? verbs_device_open(verbs, self->id) : 0;
	if (rc != 0)
		return rc;
	source_learn(verbs, self->id);
	return rdma_listen(self->id, VERBS_BACKLOG) == 0 ? 0 : -errno;
}

int
verbs_listener_open(struct verbs_listener *self)
{
	struct verbs_port *verbs = self->listener->port->verbs;
	struct rdma_cm_id *id;
	int rc;

	CHECK_OBJ(self, VERBS_LISTENER_MAGIC);
	assert(self->id == NULL);
	if (rdma_create_id(verbs->channel, &id, self, RDMA_PS_TCP) != 0)
		return -errno;
	self->id = id;
	rc = listener_bind(self);
	if (rc != 0)
		verbs_listener_close(self);
	return rc;
}

void
verbs_listener_close(struct verbs_listener *self)
{
	CHECK_OBJ(self, VERBS_LISTENER_MAGIC);
	if (self->id != NULL)
		(void)rdma_destroy_id(self->id); /* whatever it says: nothing can be done */
	self->id = NULL;
}

int
verbs_listen(struct split_listener *listener, const char *host_port, char *ret_address)
{
	struct split_port *port = listener->port;
	struct verbs_listener *self;
	struct verbs_port *verbs;
	socklen_t bytes;
	int rc;

	CHECK_OBJ(listener, SPLIT_LISTENER_MAGIC);
	port->reason[0] = '\0';
	self = split_calloc(1, sizeof(*self));
	if (self == NULL)
		return -ENOMEM;
	self->magic = VERBS_LISTENER_MAGIC;
	self->listener = listener;
	rc = tcp_address_parse(host_port, &self->address, &bytes);
	if (rc == 0)
		rc = verbs_port_get(port, &verbs);
	if (rc == 0)
		rc = verbs_listener_open(self);
	if (rc != 0) {
		split_free(self);
		return rc;
	}
	/* The port that it got is the one to listen at again. */
	memcpy(&self->address, rdma_get_local_addr(self->id), bytes);
	tcp_address_format_as("verbs", &self->address, ret_address);
	listener->transport = self;
	return 0;
}

void
verbs_unlisten(struct split_listener *listener)
{
	struct verbs_listener *self = listener->transport;

	CHECK_OBJ(listener, SPLIT_LISTENER_MAGIC);
	assert(self->listener == listener);
	verbs_listener_close(self);
	self->magic = 0;
	split_free(self);
	listener->transport = NULL;
}

/* A request without a queue pair: the peer may try again later. */
static void
request_refuse(struct rdma_cm_id *id)
{
	(void)rdma_reject(id, NULL, 0); /* the peer runs into its time-out, then */
	(void)rdma_destroy_id(id);
}

static void
on_request(struct verbs_listener *self, struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
	struct split_port *port = self->listener->port;
	struct sockaddr_storage peer = { 0 };
	char address[SPLIT_ADDRESS_BYTES_MAX];
	struct split_qp *qp;
	struct verbs_qp *vq;

	CHECK_OBJ(self, VERBS_LISTENER_MAGIC);
	if (param->private_data == NULL || param->private_data_len < WIRE_HELLO_BYTES ||
	    verbs_device_open(port->verbs, id) != 0) {
		request_refuse(id);
		return;
	}
	memcpy(&peer, rdma_get_peer_addr(id), verbs_address_bytes(rdma_get_peer_addr(id)));
	tcp_address_format_as("verbs", &peer, address);
	qp = connect_accept(self->listener, address);
	vq = qp != NULL ? verbs_qp_create(port->verbs, qp, VERBS_OFFERED) : NULL;
	if (vq == NULL) {
		if (qp != NULL)
			qp_free(qp);
		request_refuse(id);
		return;
	}
	vq->id = id;
	id->context = vq;
	qp->transport = vq;
	vq->control.peer_number = verbs_hello_unpack_keyed(param->private_data);
	vq->is_keyed = vq->control.peer_number != 0;
	if (!vq->is_keyed)
		vq->control.peer_number = verbs_hello_unpack(qp, param->private_data);
	vq->reads_max = (uint8_t)num_min(reads_max(port->verbs), param->initiator_depth);
	if (vq->is_keyed)
		verbs_admit(vq);
	else if (vq->control.peer_number == 0)
		qp_fail(qp, -EPROTO, "bad hello");
	else
		connect_on_hello(qp);
}

/* Events of the connection manager. */

static void
on_established(struct verbs_qp *vq)
{
	if (!verbs_is(vq, VERBS_ANSWERED))
		return;
	sm_move(&vq->sm, VERBS_OPEN);
	vq->heard_ns = loop_now_ns(vq->verbs->port->loop);
	send_kick_later(vq->qp);
}

static void
vq_on_event(struct verbs_qp *vq, const struct rdma_cm_event *event)
{
	struct split_qp *qp = vq->qp;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	if (qp == NULL || !qp_is_open(qp))
		return;
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		on_address(vq);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		on_route(vq);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		on_reply(vq, &event->param.conn);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		on_established(vq);
		break;
	case RDMA_CM_EVENT_REJECTED:
		on_rejected(vq, &event->param.conn, event->status);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		fail_no_way(vq, event->status < 0 ? -event->status : EHOSTUNREACH);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		qp_fail(qp, qp->is_acceptor ? -ECONNRESET : -ECONNREFUSED, "connect: %s (%d)",
		    rdma_event_str(event->event), event->status);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		/* Newer kernels tell also of one that was reached, and is no longer. */
		if (verbs_is(vq, VERBS_OPEN)) {
			qp_fail(qp, -ETIMEDOUT, "the peer has become unreachable");
			break;
		}
		qp_fail(qp, qp->is_acceptor ? -ECONNRESET : -ETIMEDOUT,
		    "connect: the peer does not answer");
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		/* Messages from before are delivered first. */
		(void)verbs_poll(vq->verbs);
		qp_fail(qp, -ECONNRESET, "the peer closed the connection");
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		qp_fail(qp, -ECONNRESET, "the device's address has changed");
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		verbs_device_lost(vq->verbs, "the RDMA device is gone");
		break;
	default:
		break;
	}
}

void
verbs_on_channel_fd(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct verbs_port *verbs = arg;

	(void)watcher;
	(void)events;
	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	for (uint32_t i = 0; i < VERBS_EVENTS_MAX; i++) {
		uint8_t private_data[UINT8_MAX];
		struct rdma_cm_event *event, copy;
		void *context;

		if (rdma_get_cm_event(verbs->channel, &event) != 0)
			return;
		copy = *event;
		if (copy.param.conn.private_data != NULL) {
			memcpy(private_data, copy.param.conn.private_data,
			    copy.param.conn.private_data_len);
			copy.param.conn.private_data = private_data;
		}
		/* Before its id may be destroyed. */
		(void)rdma_ack_cm_event(event);
		context = copy.listen_id != NULL ? copy.listen_id->context : copy.id->context;
		if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			on_request(context, copy.id, &copy.param.conn);
		else if (*(const uint32_t *)context == VERBS_QP_MAGIC)
			vq_on_event(context, &copy);
		else if (*(const uint32_t *)context == VERBS_PORT_MAGIC)
			verbs_on_holder_event(verbs, copy.event);
		else if (copy.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
			verbs_device_lost(verbs, "the RDMA device is gone");
		else if (copy.event == RDMA_CM_EVENT_ADDR_CHANGE)
			verbs_device_lost(verbs, "the device's address has changed");
	}
}
