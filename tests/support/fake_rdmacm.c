/* SPDX-License-Identifier: Apache-2.0 */
/* fake_rdmacm.c -- the connection manager's part of fake_verbs.h */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fake_verbs.h"

#define EVENTS_MAX 4096u
#define IDS_MAX 4096u
#define REJECTED_BY_NOBODY 8
#define REJECTED_BY_OWNER 28

struct fake_id {
	struct rdma_cm_id id;
	bool is_used, is_listening, is_requested, is_connected;
	uint16_t port;
	struct fake_id *peer;
	uint32_t number, peer_number;
};

struct cm_event {
	struct rdma_cm_event event;
	uint8_t data[256];
	struct rdma_event_channel *channel;
};

static struct fake_id *ids[IDS_MAX];
static struct cm_event cm_events[EVENTS_MAX];
static uint32_t cm_head, cm_tail;
static uint16_t port_next = 20000;
static struct ibv_context other; /* a device that nobody opened */

/* The connection manager. */

static void
cm_event_add(struct fake_id *id, struct fake_id *listener, enum rdma_cm_event_type type, int status,
    const struct rdma_conn_param *param)
{
	struct cm_event *e = &cm_events[cm_tail++ % EVENTS_MAX];

	assert(cm_tail - cm_head <= EVENTS_MAX);
	memset(e, 0, sizeof(*e));
	e->event.id = &id->id;
	e->event.listen_id = listener != NULL ? &listener->id : NULL;
	e->event.event = type;
	e->event.status = status;
	e->channel = id->id.channel;
	if (param != NULL) {
		e->event.param.conn = *param;
		if (param->private_data != NULL) {
			memcpy(e->data, param->private_data, param->private_data_len);
			e->event.param.conn.private_data = e->data;
			if (fake_verbs.on_private_data != NULL)
				fake_verbs.on_private_data(type, e->data);
			/* As over the wire: padded. */
			e->event.param.conn.private_data_len =
			    type == RDMA_CM_EVENT_CONNECT_REQUEST ? 56 : 148;
		}
	}
	assert(write(*(int *)(void *)((char *)e->channel + sizeof(*e->channel)), "x", 1) == 1);
}

struct rdma_event_channel *
rdma_create_event_channel(void)
{
	struct {
		struct rdma_event_channel channel;
		int write_fd;
	} * self;
	int fds[2];

	if (fake_must_fail("rdma_create_event_channel"))
		return NULL;
	self = fake_make(sizeof(*self));
	assert(pipe(fds) == 0);
	self->channel.fd = fds[0];
	self->write_fd = fds[1];
	return &self->channel;
}

void
rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	for (uint32_t i = cm_head; i != cm_tail; i++)
		if (cm_events[i % EVENTS_MAX].channel == channel)
			cm_events[i % EVENTS_MAX].channel = NULL;
	close(channel->fd);
	close(*(int *)(void *)((char *)channel + sizeof(*channel)));
	(void)fake_unmake(channel);
}

static struct fake_id *
id_make(struct rdma_event_channel *channel, void *id_context)
{
	struct fake_id *id = fake_make(sizeof(*id));
	uint32_t i = 0;

	id->id.channel = channel;
	id->id.context = id_context;
	while (ids[i] != NULL)
		i++;
	ids[i] = id;
	return id;
}

int
rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **ret_id, void *id_context,
    enum rdma_port_space ps)
{
	(void)ps;
	if (fake_must_fail("rdma_create_id"))
		return -1;
	*ret_id = &id_make(channel, id_context)->id;
	return 0;
}

int
rdma_destroy_id(struct rdma_cm_id *cm)
{
	struct fake_id *id = (struct fake_id *)cm;

	if (id->peer != NULL) {
		id->peer->peer = NULL;
		if (id->is_connected)
			cm_event_add(id->peer, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		else if (id->is_requested)
			cm_event_add(id->peer, NULL, RDMA_CM_EVENT_REJECTED, REJECTED_BY_OWNER,
			    NULL);
	}
	for (uint32_t i = cm_head; i != cm_tail; i++) {
		struct cm_event *e = &cm_events[i % EVENTS_MAX];
		struct rdma_cm_id *unseen = e->event.id;

		if (unseen == cm)
			e->event.id = NULL;
		if (unseen == NULL || e->channel == NULL || e->event.listen_id != cm)
			continue;
		/* A request that the listener's owner never saw goes with it. */
		e->event.listen_id = NULL;
		(void)rdma_destroy_id(unseen);
	}
	for (uint32_t i = 0; i < IDS_MAX; i++)
		if (ids[i] == id)
			ids[i] = NULL;
	return fake_unmake(id);
}

static void
id_bind(struct fake_id *id, const struct sockaddr *address)
{
	struct sockaddr_in in;

	memcpy(&in, address, sizeof(in));
	if (in.sin_port == 0)
		in.sin_port = htons(port_next++);
	id->port = ntohs(in.sin_port);
	memcpy(&id->id.route.addr.src_addr, &in, sizeof(in));
}

int
rdma_bind_addr(struct rdma_cm_id *cm, struct sockaddr *address)
{
	if (fake_must_fail("rdma_bind_addr"))
		return -1;
	if (fake_verbs.has_no_device) {
		errno = ENODEV;
		return -1;
	}
	for (uint32_t i = 0; i < IDS_MAX; i++)
		if (ids[i] != NULL && ids[i]->is_listening &&
		    htons(ids[i]->port) ==
			((const struct sockaddr_in *)(const void *)address)->sin_port) {
			errno = EADDRINUSE;
			return -1;
		}
	id_bind((struct fake_id *)cm, address);
	cm->verbs = fake_verbs.is_address_elsewhere ? &other : &fake_context;
	return 0;
}

int
rdma_listen(struct rdma_cm_id *cm, int backlog)
{
	(void)backlog;
	if (fake_must_fail("rdma_listen"))
		return -1;
	((struct fake_id *)cm)->is_listening = true;
	return 0;
}

int
rdma_resolve_addr(struct rdma_cm_id *cm, struct sockaddr *from, struct sockaddr *to, int timeout_ms)
{
	struct sockaddr_in route = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000009) };

	(void)timeout_ms;
	if (fake_must_fail("rdma_resolve_addr"))
		return -1;
	if (from != NULL)
		memcpy(&route, from, sizeof(route));
	fake_verbs.source_ip = ntohl(route.sin_addr.s_addr);
	fake_verbs.bound_count += from != NULL;
	memcpy(&cm->route.addr.src_addr, &route, sizeof(route));
	memcpy(&cm->route.addr.dst_addr, to, sizeof(struct sockaddr_in));
	cm->verbs = fake_verbs.has_no_device ? NULL : &fake_context;
	if (fake_must_fail("route to the port's device"))
		cm->verbs = &other;
	cm_event_add((struct fake_id *)cm, NULL,
	    fake_must_fail("address") ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, 0,
	    NULL);
	return 0;
}

int
rdma_resolve_route(struct rdma_cm_id *cm, int timeout_ms)
{
	(void)timeout_ms;
	if (fake_must_fail("rdma_resolve_route"))
		return -1;
	cm_event_add((struct fake_id *)cm, NULL,
	    fake_must_fail("route") ? RDMA_CM_EVENT_ROUTE_ERROR : RDMA_CM_EVENT_ROUTE_RESOLVED, 0,
	    NULL);
	return 0;
}

int
rdma_connect(struct rdma_cm_id *cm, struct rdma_conn_param *param)
{
	struct fake_id *id = (struct fake_id *)cm, *request;
	struct sockaddr_in to;

	if (fake_must_fail("rdma_connect"))
		return -1;
	if (fake_must_fail("unreachable")) {
		cm_event_add(id, NULL, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
		return 0;
	}
	memcpy(&to, &cm->route.addr.dst_addr, sizeof(to));
	id->number = param->qp_num;
	for (uint32_t i = 0; i < IDS_MAX; i++) {
		if (ids[i] == NULL || !ids[i]->is_listening || ids[i]->port != ntohs(to.sin_port))
			continue;
		request = id_make(ids[i]->id.channel, ids[i]->id.context);
		request->id.verbs = &fake_context;
		request->peer = id;
		request->is_requested = true;
		request->peer_number = param->qp_num;
		memcpy(&request->id.route.addr.dst_addr, &to, sizeof(to));
		id->peer = request;
		cm_event_add(request, ids[i], RDMA_CM_EVENT_CONNECT_REQUEST, 0, param);
		return 0;
	}
	cm_event_add(id, NULL, RDMA_CM_EVENT_REJECTED, REJECTED_BY_NOBODY, NULL);
	return 0;
}

int
rdma_accept(struct rdma_cm_id *cm, struct rdma_conn_param *param)
{
	struct fake_id *id = (struct fake_id *)cm;

	if (fake_must_fail("rdma_accept"))
		return -1;
	id->number = param->qp_num;
	id->is_connected = true;
	if (id->peer == NULL) {
		cm_event_add(id, NULL, RDMA_CM_EVENT_CONNECT_ERROR, 0, NULL);
		return 0;
	}
	id->peer->peer_number = param->qp_num;
	id->peer->is_connected = true;
	cm_event_add(id->peer, NULL, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, param);
	return 0;
}

int
rdma_reject(struct rdma_cm_id *cm, const void *data, uint8_t bytes)
{
	struct fake_id *id = (struct fake_id *)cm;
	struct rdma_conn_param param = { .private_data = data, .private_data_len = bytes };

	if (fake_must_fail("rdma_reject") || id->peer == NULL)
		return -1;
	cm_event_add(id->peer, NULL, RDMA_CM_EVENT_REJECTED, REJECTED_BY_OWNER, &param);
	id->peer->peer = NULL;
	id->peer = NULL;
	return 0;
}

int
rdma_establish(struct rdma_cm_id *cm)
{
	struct fake_id *id = (struct fake_id *)cm;

	if (fake_must_fail("rdma_establish"))
		return -1;
	if (id->peer != NULL && !fake_must_fail("confirmation"))
		cm_event_add(id->peer, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	return 0;
}

int
rdma_disconnect(struct rdma_cm_id *cm)
{
	struct fake_id *id = (struct fake_id *)cm;

	if (id->peer == NULL || fake_must_fail("rdma_disconnect"))
		return -1;
	cm_event_add(id->peer, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	id->peer->peer = NULL;
	id->peer = NULL;
	return 0;
}

int
rdma_init_qp_attr(struct rdma_cm_id *cm, struct ibv_qp_attr *attr, int *mask)
{
	if (fake_must_fail("rdma_init_qp_attr"))
		return -1;
	*mask = IBV_QP_STATE;
	if (attr->qp_state == IBV_QPS_RTR) {
		attr->dest_qp_num = ((struct fake_id *)cm)->peer_number;
		*mask |= IBV_QP_DEST_QPN;
	}
	return 0;
}

int
rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **ret_event)
{
	char byte;

	while (read(channel->fd, &byte, 1) == 1)
		for (uint32_t i = cm_head; i != cm_tail; i++) {
			struct cm_event *e = &cm_events[i % EVENTS_MAX];

			if (e->channel != channel)
				continue;
			e->channel = NULL;
			while (
			    cm_head != cm_tail && cm_events[cm_head % EVENTS_MAX].channel == NULL)
				cm_head++;
			if (e->event.id == NULL)
				break;
			*ret_event = &e->event;
			return 0;
		}
	errno = EAGAIN;
	return -1;
}

int
rdma_ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	return 0;
}

void
fake_verbs_remove(void)
{
	fake_verbs.has_no_device = true;
	for (uint32_t i = 0; i < IDS_MAX; i++)
		if (ids[i] != NULL && ids[i]->id.verbs == &fake_context)
			cm_event_add(ids[i], NULL, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
}

void
fake_verbs_return(void)
{
	for (uint32_t i = 0; i < IDS_MAX; i++)
		assert(ids[i] == NULL || ids[i]->id.verbs != &fake_context);
	fake_verbs.has_no_device = false;
	assert(++fake_device_index < FAKE_CONTEXTS);
}

void
fake_verbs_cm_event(uint32_t number, enum rdma_cm_event_type type)
{
	for (uint32_t i = 0; i < IDS_MAX; i++)
		if (ids[i] != NULL && ids[i]->number == number)
			cm_event_add(ids[i], NULL, type, 0, NULL);
}
