/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.c -- one control request to another gateway
 *
 *	main: text --post--> port 0: connect -> send -> reply, or nothing in time -> close --post--> main
 *
 * A connection a call: there are few, and nobody waits for the next one. It is a client's as far as the
 * other gateway can see. What is sent and received lies in host memory of the call, which is main's
 * before and after, and the port's in between. A port that stops ends its calls first.
 */
#include "cluster/peer.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/reader.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/settings.h"

#define PEER_MAGIC 0x52454550u /* "PEER" */

static void
peer_on_main(struct loop_post *post, void *arg)
{
	struct mt_peer_call *call = arg;

	assert(call->is_out && call->fn != NULL);
	(void)post;
	CHECK_OBJ(call, PEER_MAGIC);
	call->is_out = false;
	call->fn(call, call->arg);
}

/* The last act of the port. */
static void
peer_finish(struct mt_peer_call *call, int rc)
{
	struct mt_port *port = call->port;

	assert(call->qp == NULL);
	assert(call->is_out);
	loop_timer_stop(port->loop, &call->timer);
	list_remove(&call->link);
	mt_free(call->message);
	call->message = NULL;
	if (!call->is_answered)
		call->rc = rc == 0 ? -ECONNRESET : rc;
	call->post = (struct loop_post){ .fn = peer_on_main, .arg = call };
	loop_post(port->main_loop, &call->post);
}

static void
peer_close(struct mt_peer_call *call, int rc)
{
	assert(rc < 0);
	if (call->close_rc == 0)
		call->close_rc = rc;
	if (!call->is_closing) {
		call->is_closing = true;
		split_qp_close(call->qp);
	}
}

static void
peer_on_send(struct split_send *send, int rc, void *arg)
{
	(void)send;
	(void)arg;
	(void)rc; /* a failure is followed by the connection's end */
}

static void
peer_on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct mt_peer_call *call = arg;
	int rc;

	(void)hello;
	(void)hello_bytes;
	CHECK_OBJ(call, PEER_MAGIC);
	if (call->is_closing)
		return;
	call->send = (struct split_send){
		.header = (struct wire_header *)(void *)call->message,
		.header_bytes = call->message_bytes,
		.fn = peer_on_send,
		.arg = call,
	};
	rc = split_send(qp, &call->send);
	if (rc != 0)
		peer_close(call, rc);
}

static void
peer_take(struct mt_peer_call *call, struct split_msg *msg)
{
	struct wire_control answer;
	const char *field;

	assert(call->reply == NULL || call->is_closing);
	assert(call->is_out);
	if (call->is_closing)
		return;
	if (wire_control_decode(msg->header, &answer, &field) != 0 ||
	    (msg->header->opcode & WIRE_REPLY) == 0) {
		peer_close(call, -EPROTO);
		return;
	}
	call->reply = mt_calloc(1, (size_t)answer.payload_bytes + 1);
	if (call->reply != NULL) {
		dev_copy_to_host(call->port->split, call->reply, msg->payload,
		    answer.payload_bytes);
		call->is_answered = true;
		call->rc = status_to_errno(msg->header->status);
	}
	peer_close(call, -ENOMEM);
}

static void
peer_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct mt_peer_call *call = arg;

	(void)qp;
	CHECK_OBJ(call, PEER_MAGIC);
	for (uint32_t i = 0; i < count; i++) {
		peer_take(call, msgs[i]);
		split_msg_release(msgs[i]);
	}
}

static void
peer_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct mt_peer_call *call = arg;

	(void)reason;
	CHECK_OBJ(call, PEER_MAGIC);
	assert(call->qp == qp);
	call->qp = NULL;
	peer_finish(call, call->close_rc != 0 ? call->close_rc : rc);
}

static const struct split_qp_ops peer_qp_ops = {
	.on_ready = peer_on_ready,
	.on_messages = peer_on_messages,
	.on_closed = peer_on_closed,
};

static void
peer_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_peer_call *call = arg;

	(void)timer;
	assert(timer == &call->timer);
	peer_close(call, -ETIMEDOUT);
}

static void
peer_on_port(struct loop_post *post, void *arg)
{
	struct mt_peer_call *call = arg;
	struct mt_port *port = call->port;
	struct wire_hello hello = { .role = WIRE_ROLE_CLIENT,
		.cluster_id = port->settings->cluster_id };
	uint8_t bytes[WIRE_HELLO_BYTES];
	const struct split_connect_options options = {
		.address = call->address,
		.hello = bytes,
		.hello_bytes = sizeof(bytes),
		.timeout_ns = call->timeout_ns,
		.ops = &peer_qp_ops,
		.arg = call,
		.peer_roles = SPLIT_ROLE_GATEWAY,
	};

	assert(call->is_out && call->message != NULL);
	assert(call->qp == NULL);
	assert(!list_contains(&call->link));
	(void)post;
	list_push_back(&port->peer_calls, &call->link);
	loop_timer_init(&call->timer, peer_on_timer, call);
	if (port->sm.state >= MT_PORT_STOPPING) {
		peer_finish(call, -ESHUTDOWN);
		return;
	}
	wire_hello_encode(bytes, &hello);
	call->qp = connect_qp(port->split, &options);
	if (call->qp == NULL)
		peer_finish(call, -errno);
	else
		loop_timer_start(port->loop, &call->timer, call->timeout_ns);
}

/* A call that has its port, its time, and whom to tell. */
static int
peer_begin(const struct mt_gateway *gateway, struct mt_peer_call *call, const char *address,
    const char *text)
{
	size_t text_bytes = strlen(text);
	struct wire_header *header;

	assert(call->fn != NULL && call->timeout_ns > 0);
	assert(call->qp == NULL && !call->is_out);
	if (gateway->sm.state >= MT_GATEWAY_STOPPING)
		return -ESHUTDOWN;
	if (WIRE_HEADER_BYTES + text_bytes > SPLIT_HEADER_BYTES_MAX)
		return -EMSGSIZE;
	call->message_bytes = (uint32_t)(WIRE_HEADER_BYTES + text_bytes);
	call->is_out = true;
	call->message = mt_calloc(1, call->message_bytes);
	if (call->message == NULL) {
		call->is_out = false;
		return -ENOMEM;
	}
	header = (struct wire_header *)(void *)call->message;
	*header = (struct wire_header){ .opcode = WIRE_CONTROL, .request_id = 1 };
	memcpy(call->message + WIRE_HEADER_BYTES, text, text_bytes);
	(void)snprintf(call->address, sizeof(call->address), "%s", address);
	call->post = (struct loop_post){ .fn = peer_on_port, .arg = call };
	loop_post(call->port->loop, &call->post);
	return 0;
}

int
mt_peer_call(struct mt_gateway *gateway, struct mt_peer_call *call, const char *address,
    const char *text, mt_peer_fn fn, void *arg)
{
	return mt_peer_call_within(gateway, call, address, text, MT_PEER_TIMEOUT_NS, fn, arg);
}

int
mt_peer_call_within(struct mt_gateway *gateway, struct mt_peer_call *call, const char *address,
    const char *text, uint64_t timeout_ns, mt_peer_fn fn, void *arg)
{
	assert(gateway->opened_count > 0);
	assert(!call->is_out && call->qp == NULL);
	*call = (struct mt_peer_call){ .magic = PEER_MAGIC,
		.port = &gateway->ports[0],
		.timeout_ns = timeout_ns,
		.fn = fn,
		.arg = arg };
	return peer_begin(gateway, call, address, text);
}

int
mt_peer_call_own(struct mt_gateway *gateway, struct mt_peer_call *call, uint32_t index,
    const char *text, uint64_t timeout_ns, mt_peer_fn fn, void *arg)
{
	assert(index < gateway->opened_count);
	assert(!call->is_out && call->qp == NULL);
	*call = (struct mt_peer_call){ .magic = PEER_MAGIC,
		.port = &gateway->ports[index],
		.timeout_ns = timeout_ns,
		.fn = fn,
		.arg = arg };
	return peer_begin(gateway, call, gateway->ports[index].address, text);
}

void
mt_peer_tell(const struct mt_gateway *gateway, json_t *answer)
{
	char id[17], boot[17];

	(void)snprintf(id, sizeof(id), "%016" PRIx64, gateway->options.gateway_id);
	(void)snprintf(boot, sizeof(boot), "%016" PRIx64, gateway->options.boot_id);
	/* No memory: as one of a release that does not tell it. */
	(void)json_object_set_new(answer, "gateway", json_string(id));
	(void)json_object_set_new(answer, "boot", json_string(boot));
}

uint64_t
mt_peer_told_id(const struct mt_peer_call *call)
{
	struct reader reader = { 0 };
	json_t *answer =
	    !call->is_answered || call->reply == NULL ? NULL : json_loads(call->reply, 0, NULL);
	uint64_t id = answer == NULL ? 0 : reader_id(&reader, answer, "gateway");

	json_decref(answer);
	return id;
}

void
mt_peer_init(struct mt_port *port)
{
	list_init(&port->peer_calls);
}

bool
mt_peer_is_quiet(const struct mt_port *port)
{
	return list_is_empty(&port->peer_calls);
}

void
mt_peer_stop(struct mt_port *port)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&port->peer_calls, link, next)
		peer_close(LIST_ENTRY(link, struct mt_peer_call, link), -ESHUTDOWN);
}

/* Killed: the queue pairs are gone without a word. */
void
mt_peer_fini(struct mt_port *port)
{
	struct loop_link *link;

	while ((link = list_pop_front(&port->peer_calls)) != NULL) {
		struct mt_peer_call *call = LIST_ENTRY(link, struct mt_peer_call, link);

		loop_timer_stop(port->loop, &call->timer);
		mt_free(call->message);
		call->message = NULL;
	}
}
