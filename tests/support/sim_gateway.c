/* SPDX-License-Identifier: Apache-2.0 */
/* sim_gateway.c -- see sim_gateway.h */
#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "engines/sim/offload_sim.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/port.h"
#include "middletier/gateway/gateway.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "splitlib/sim/loop_sim.h"
#include "support/made_cluster.h"
#include "support/sim_gateway.h"

#define SG_SEND_BYTES_MAX 65536u

static void
sg_on_failed(int rc, const char *text, void *arg)
{
	struct sg *sg = arg;

	(void)rc;
	sg->has_failed = true;
	(void)snprintf(sg->failure, sizeof(sg->failure), "%s", text);
}

static void
sg_on_stopped(void *arg)
{
	struct sg *sg = arg;

	sg->has_stopped = true;
}

struct split_port *
sg_open_port(struct sg *sg, const struct split_key *key)
{
	struct split_port_options options = {
		.loop = sg->client_loop,
		.sim_host = sg->client_host,
		.host_bytes = NUM_MIB(1),
		.device_bytes = NUM_MIB(16),
		.receive_count = 64,
		.key = key,
	};
	struct split_port *port = open_roce_instance(&options);

	assert(port != NULL);
	return port;
}

void
sg_client_key(struct sg *sg, const struct split_key *key)
{
	split_port_close(sg->client);
	sg->client = sg_open_port(sg, key);
}

void
sg_client_open(struct sg *sg, struct sim_world *world, struct sim_net *net,
    const struct mt_gateway_options *options)
{
	*sg = (struct sg){ .world = world, .net = net, .options = *options };
	sg->client_host = sim_host_create(net, "client");
	sg->client_loop = sim_loop_create(world, "client");
	assert(sg->client_host != NULL && sg->client_loop != NULL);
	sg->client = sg_open_port(sg, NULL);
}

void
sg_client_close(struct sg *sg)
{
	split_port_close(sg->client);
	loop_destroy(sg->client_loop);
}

void
sg_init(struct sg *sg, uint64_t seed)
{
	struct meta_store_options store_options;

	if (getenv("CLEAVE_TEST_LOG") == NULL)
		log_set_level(LOG_OFF);
	*sg = (struct sg){ .world = sim_world_create(seed) };
	sg->net = sim_net_create(sg->world);
	store_options = (struct meta_store_options){ .loop = sim_world_nature(sg->world) };
	sg->store = meta_store_create(&store_options);
	/* The machines of the nodes are there; nobody listens on them. */
	for (unsigned i = 1; i <= 3; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "node%u", i);
		(void)sim_host_create(sg->net, name);
	}
	sg->gateway_host = sim_host_create(sg->net, "gateway");
	sg->client_host = sim_host_create(sg->net, "client");
	assert(sg->store != NULL && sg->gateway_host != NULL && sg->client_host != NULL);
	sg->client_loop = sim_loop_create(sg->world, "client");
	sg->client = sg_open_port(sg, NULL);
	sg->options = (struct mt_gateway_options){
		.cluster_id = SG_CLUSTER_ID,
		.gateway_id = 1,
		.boot_id = 1,
		.shard_count = 4,
		.min_replicas = 2,
		.node_count = 3,
		.port_count = 1,
		.is_single_loop = true,
		.sim_host = sg->gateway_host,
		.engine_workers = &offload_sim_ops,
		.device_bytes = NUM_MIB(16),
		.node_timeout_ns = NUM_S(1),
		.on_failed = sg_on_failed,
		.arg = sg,
	};
	for (unsigned i = 0; i < MT_PORTS_MAX; i++)
		(void)snprintf(sg->options.ports[i].address, SPLIT_ADDRESS_BYTES_MAX,
		    "sim://gateway:%u", 7100 + i);
	for (unsigned i = 0; i < sg->options.node_count; i++)
		(void)snprintf(sg->options.nodes[i].address, SPLIT_ADDRESS_BYTES_MAX,
		    "sim://node%u:7200", i + 1);
}

int
sg_start(struct sg *sg)
{
	int rc;

	sg->gateway_loop = sim_loop_create(sg->world, "gateway");
	sg->meta = meta_memory_open(sg->store, sg->gateway_loop);
	if (sg->meta == NULL)
		return -ENOMEM;
	if (!sg->is_unmade)
		made_cluster(sg->store, &sg->options);
	sg->options.loop = sg->gateway_loop;
	sg->options.meta = sg->meta;
	sg->options.boot_id++;
	sg->has_failed = sg->has_stopped = false;
	sg->gateway = mt_gateway_create(&sg->options, sg->error, sizeof(sg->error));
	if (sg->gateway == NULL)
		return -EINVAL;
	rc = mt_gateway_start(sg->gateway, sg->error, sizeof(sg->error));
	if (rc != 0) {
		mt_gateway_destroy(sg->gateway);
		sg->gateway = NULL;
	}
	return rc;
}

static void
sg_end_gateway(struct sg *sg)
{
	mt_gateway_destroy(sg->gateway);
	sg->gateway = NULL;
	if (sg->meta != NULL)
		sg->meta->ops->close(sg->meta);
	sg->meta = NULL;
	loop_destroy(sg->gateway_loop);
	sg->gateway_loop = NULL;
}

static bool
sg_is_stopped(void *arg)
{
	const struct sg *sg = arg;

	return sg->has_stopped;
}

void
sg_stop(struct sg *sg)
{
	if (sg->gateway != NULL) {
		mt_gateway_stop(sg->gateway, sg_on_stopped, sg);
		if (!sg_run(sg, sg_is_stopped, sg))
			abort();
	}
	sg_end_gateway(sg);
}

void
sg_kill(struct sg *sg)
{
	sim_host_kill(sg->gateway_host, SIM_DEATH_RESET);
	sg_end_gateway(sg);
	sim_host_start(sg->gateway_host);
}

void
sg_fini(struct sg *sg)
{
	if (sg->gateway_loop != NULL)
		sg_stop(sg);
	split_port_close(sg->client);
	loop_destroy(sg->client_loop);
	meta_store_destroy(sg->store);
	sg_run_for(sg, NUM_MS(1)); /* killed ports are freed in a turn of the world */
	sim_net_destroy(sg->net);
	sim_world_destroy(sg->world);
}

bool
sg_run(struct sg *sg, bool (*until)(void *arg), void *arg)
{
	return sim_world_run(sg->world, until, arg, sim_world_now_ns(sg->world) + SG_DEADLINE_NS) ==
	    0;
}

void
sg_run_for(struct sg *sg, uint64_t ns)
{
	(void)sim_world_run(sg->world, NULL, NULL, sim_world_now_ns(sg->world) + ns);
}

/* Clients. */

static void
qp_on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct sg_qp *self = arg;

	(void)qp;
	(void)hello;
	(void)hello_bytes;
	self->is_ready = true;
}

static void
qp_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct sg_qp *self = arg;

	(void)qp;
	for (uint32_t i = 0; i < count; i++) {
		struct sg_reply *reply = &self->replies[self->reply_count++];

		assert(self->reply_count <= SG_REPLIES_MAX);
		reply->header = *msgs[i]->header;
		reply->text = calloc(1, msgs[i]->payload_bytes + 1u);
		dev_copy_to_host(self->port, reply->text, msgs[i]->payload, msgs[i]->payload_bytes);
		split_msg_release(msgs[i]);
	}
}

static void
qp_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct sg_qp *self = arg;

	(void)qp;
	(void)reason;
	self->is_closed = true;
	self->close_rc = rc;
	self->qp = NULL;
}

static const struct split_qp_ops sg_qp_ops = {
	.on_ready = qp_on_ready,
	.on_messages = qp_on_messages,
	.on_closed = qp_on_closed,
};

struct wire_hello
sg_hello(uint64_t volume_id, uint64_t session_id, uint64_t attach, uint64_t incarnation)
{
	return (struct wire_hello){
		.role = WIRE_ROLE_CLIENT,
		.cluster_id = SG_CLUSTER_ID,
		.volume_id = volume_id,
		.session_id = session_id,
		.attach = attach,
		.incarnation = incarnation,
	};
}

void
sg_connect(struct sg *sg, struct sg_qp *qp, const struct wire_hello *hello)
{
	struct wire_hello control = { .role = WIRE_ROLE_CLIENT };
	uint8_t bytes[WIRE_HELLO_BYTES];
	struct split_connect_options options = {
		.address = sg->options.ports[0].address,
		.hello = bytes,
		.hello_bytes = sizeof(bytes),
		.timeout_ns = NUM_S(30),
		.ops = &sg_qp_ops,
		.arg = qp,
		.peer_roles = SPLIT_ROLE_GATEWAY,
	};

	*qp = (struct sg_qp){ .sg = sg, .port = sg->client, .next_request_id = 1 };
	wire_hello_encode(bytes, hello == NULL ? &control : hello);
	qp->qp = connect_qp(sg->client, &options);
	assert(qp->qp != NULL);
}

static bool
qp_is_decided(void *arg)
{
	const struct sg_qp *qp = arg;

	return qp->is_ready || qp->is_closed;
}

int
sg_wait_open(struct sg_qp *qp)
{
	if (!sg_run(qp->sg, qp_is_decided, qp))
		return -ETIME;
	return qp->is_closed ? qp->close_rc : 0;
}

static bool
qp_is_closed(void *arg)
{
	const struct sg_qp *qp = arg;

	return qp->is_closed;
}

bool
sg_wait_closed(struct sg_qp *qp)
{
	return sg_run(qp->sg, qp_is_closed, qp);
}

void
sg_close(struct sg_qp *qp)
{
	for (uint32_t i = 0; i < qp->reply_count; i++)
		free(qp->replies[i].text);
	qp->reply_count = 0;
	if (qp->qp == NULL)
		return;
	split_qp_close(qp->qp);
	(void)sg_wait_closed(qp);
}

/* A send in flight, freed when it is done. */
struct sg_send {
	struct split_send send;
	struct wire_header header;
	struct dev_piece piece;
	struct split_port *port;
};

static void
sg_on_sent(struct split_send *send, int rc, void *arg)
{
	struct sg_send *self = arg;

	(void)send;
	(void)rc;
	if (!dev_ptr_is_null(self->piece.ptr))
		dev_free(self->port, self->piece.ptr);
	free(self);
}

void
sg_send(struct sg_qp *qp, const struct wire_header *header, const void *payload, uint32_t bytes)
{
	struct sg_send *self = calloc(1, sizeof(*self));
	int rc;

	assert(self != NULL && bytes <= SG_SEND_BYTES_MAX);
	self->port = qp->port;
	self->header = *header;
	if (bytes > 0) {
		self->piece = (struct dev_piece){ dev_alloc(self->port, bytes), bytes };
		assert(!dev_ptr_is_null(self->piece.ptr));
		dev_copy_from_host(self->port, self->piece.ptr, payload, bytes);
	}
	self->send = (struct split_send){
		.header = &self->header,
		.header_bytes = WIRE_HEADER_BYTES,
		.pieces = &self->piece,
		.piece_count = bytes > 0,
		.fn = sg_on_sent,
		.arg = self,
	};
	rc = split_send(qp->qp, &self->send);
	assert(rc == 0);
}

struct sg_wait {
	const struct sg_qp *qp;
	uint32_t count;
};

static bool
qp_has_replies(void *arg)
{
	const struct sg_wait *wait = arg;

	return wait->qp->reply_count >= wait->count || wait->qp->is_closed;
}

bool
sg_wait_replies(struct sg_qp *qp, uint32_t count)
{
	struct sg_wait wait = { qp, count };

	return sg_run(qp->sg, qp_has_replies, &wait) && qp->reply_count >= count;
}

json_t *
sg_control(struct sg_qp *qp, const char *text, int *ret_rc)
{
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = qp->next_request_id++ };
	uint32_t count = qp->reply_count + 1;
	const struct sg_reply *reply;

	sg_send(qp, &header, text, (uint32_t)strlen(text));
	if (!sg_wait_replies(qp, count)) {
		*ret_rc = -ETIME;
		return NULL;
	}
	reply = &qp->replies[count - 1];
	assert(reply->header.opcode == (WIRE_CONTROL | WIRE_REPLY));
	assert(reply->header.request_id == header.request_id);
	*ret_rc = status_to_errno(reply->header.status);
	return json_loads(reply->text, 0, NULL);
}

struct wire_header
sg_io(enum wire_opcode opcode, uint64_t segment, uint64_t offset_bytes, uint32_t length_bytes,
    uint32_t epoch)
{
	struct wire_header header;
	struct wire_io io = {
		.opcode = opcode,
		.request_id = 1,
		.segment = segment,
		.offset_bytes = offset_bytes,
		.length_bytes = length_bytes,
		.epoch = epoch,
	};

	wire_io_encode(&header, &io);
	return header;
}
