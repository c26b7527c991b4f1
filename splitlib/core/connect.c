/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect.c -- listeners, and the hello that opens a queue pair
 *
 *	connector                                   acceptor
 *	connect_qp
 *	  transport is through
 *	  WIRE_HELLO, private data  ------------>   on_accept(private data)
 *	                                              split_qp_accept or split_qp_reject, now or later
 *	  on_ready or on_closed     <------------   WIRE_HELLO | WIRE_REPLY, status, credits, private data
 *
 * Until its hello has arrived, a connection is a stranger: anything but a well-formed hello within
 * the port's keepalive_ns closes it, and nobody is told. A hello of another version is answered
 * with a status, so that the peer's operator learns why. So is one for which the port has no room:
 * a few connections beyond its room are let in for that answer alone; further ones are reset. Before
 * that, others give way where that is wanted (guest.c).
 *
 * The private data of a refusal, if there is any, is a text for the peer's log: why.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "auth.h"
#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/status.h"
#include "connect.h"
#include "connect_name.h"
#include "guest.h"
#include "port.h"
#include "qp.h"
#include "qp_life.h"
#include "sealed.h"
#include "send_post.h"
#include "transport.h"

#define CONNECT_TIMEOUT_NS_DEFAULT NUM_S(5)
#define CONNECT_SURPLUS_NS NUM_S(1) /* for the hello of a connection that will be refused */

static void
hello_fill(struct split_qp *qp, uint8_t opcode, int rc, const void *hello, uint32_t hello_bytes)
{
	struct qp_control *control = &qp->hello;

	assert(rc <= 0);
	assert(hello_bytes <= WIRE_HELLO_BYTES);
	control->header = (struct wire_header){
		.opcode = opcode,
		.status = status_from_errno(rc),
	};
	if (hello_bytes > 0)
		memcpy(control->hello, hello, hello_bytes);
	control->hello_bytes = hello_bytes;
}

static bool
handlers_use_pool(const struct split_qp_ops *handlers)
{
	return handlers != NULL && handlers->on_messages != NULL;
}

/*
 * Whether @port may use @ops: an RDMA device has all receives of the pool of its port, so such a port
 * has no other transport. 0 or -EXDEV.
 */
static int
port_claim(struct split_port *port, const struct transport_ops *ops)
{
	if (port->transport == NULL || !(port->transport->is_exclusive || ops->is_exclusive))
		port->transport = ops;
	if (port->transport == ops)
		return 0;
	transport_reason(port, "a port speaks either verbs:// or other transports");
	return -EXDEV;
}

struct split_qp *
connect_qp(struct split_port *port, const struct split_connect_options *options)
{
	uint64_t timeout_ns = options->timeout_ns != 0 ? options->timeout_ns
						       : CONNECT_TIMEOUT_NS_DEFAULT;
	const struct transport_ops *ops;
	const char *host_port;
	struct split_qp *qp;
	int rc;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	ops = transport_find(port, options->address, &host_port);
	if (ops == NULL || options->hello_bytes > WIRE_HELLO_BYTES ||
	    (handlers_use_pool(options->ops) && port->pool.count == 0) ||
	    (auth_security(port) != SPLIT_SECURITY_OPEN && options->peer_roles == 0)) {
		errno = EINVAL;
		return NULL;
	}
	rc = port_claim(port, ops);
	if (rc != 0) {
		errno = -rc;
		return NULL;
	}
	qp = qp_create(port, ops, SPLIT_QP_CONNECTING);
	if (qp == NULL)
		return NULL;
	qp->handlers = options->ops;
	qp->arg = options->arg;
	qp->peer_roles = options->peer_roles;
	qp->is_pooled = handlers_use_pool(options->ops);
	hello_fill(qp, WIRE_HELLO, 0, options->hello, options->hello_bytes);
	rc = connect_name_begin(qp, host_port, timeout_ns);
	if (rc == 0)
		rc = ops->connect(qp, host_port);
	if (rc < 0) {
		assert(qp->transport == NULL);
		qp_free(qp);
		errno = -rc;
		return NULL;
	}
	loop_timer_start(port->loop, &qp->timer, timeout_ns);
	return qp;
}

void
connect_on_open(struct split_qp *qp)
{
	assert(qp_is(qp, SPLIT_QP_CONNECTING));
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	connect_name_settle(qp);
	if (auth_security(qp->port) == SPLIT_SECURITY_OPEN)
		send_post_control(qp, &qp->hello);
	else
		auth_begin(qp);
}

int
split_listen(struct split_port *port, const char *address, split_accept_fn on_accept, void *arg,
    char *ret_address)
{
	struct split_listener *listener;
	const struct transport_ops *ops;
	char bound[SPLIT_ADDRESS_BYTES_MAX];
	const char *host_port;
	int rc;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	assert(on_accept != NULL);
	ops = transport_find(port, address, &host_port);
	if (ops == NULL)
		return -EINVAL;
	rc = port_claim(port, ops);
	if (rc != 0)
		return rc;
	listener = split_calloc(1, sizeof(*listener));
	if (listener == NULL)
		return -ENOMEM;
	listener->magic = SPLIT_LISTENER_MAGIC;
	listener->port = port;
	listener->ops = ops;
	listener->on_accept = on_accept;
	listener->arg = arg;
	rc = connect_name_listen(listener, host_port, bound);
	if (rc != 0) {
		split_free(listener);
		return rc;
	}
	memcpy(listener->address, bound, sizeof(bound));
	list_push_back(&port->listeners, &listener->link);
	if (ret_address != NULL)
		memcpy(ret_address, bound, sizeof(bound));
	return 0;
}

void
connect_unlisten(struct split_listener *listener)
{
	CHECK_OBJ(listener, SPLIT_LISTENER_MAGIC);
	listener->ops->unlisten(listener);
	list_remove(&listener->link);
	listener->magic = 0;
	split_free(listener);
}

void
connect_on_full(struct split_port *port, const char *peer, int rc)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	assert(rc < 0);
	metric_add(peer != NULL ? &port->counters.qps_refused : &port->counters.accept_pauses, 1);
	if (port->options.on_full == NULL)
		return;
	port_call_begin(port);
	port->options.on_full(peer, rc, port->options.on_full_arg);
	port_call_end(port);
}

struct split_qp *
connect_accept(struct split_listener *listener, const char *peer)
{
	struct split_port *port = listener->port;
	struct split_qp *qp;
	int err;

	CHECK_OBJ(listener, SPLIT_LISTENER_MAGIC);
	assert(peer[0] != '\0');
	qp = qp_create(port, listener->ops, SPLIT_QP_ACCEPTING);
	err = qp == NULL ? errno : ENOBUFS;
	if (qp == NULL || qp->is_surplus)
		connect_on_full(port, peer, -err);
	if (qp == NULL) {
		errno = err;
		return NULL;
	}
	qp->listener = listener;
	(void)snprintf(qp->peer, sizeof(qp->peer), "%s", peer);
	loop_timer_start(port->loop, &qp->timer,
	    qp->is_surplus ? num_min(port->options.keepalive_ns, CONNECT_SURPLUS_NS)
			   : port->options.keepalive_ns);
	return qp;
}

int
connect_hello_check(const struct split_qp *qp, const struct wire_header *header,
    const char **ret_field)
{
	uint8_t expected = qp->is_acceptor ? WIRE_HELLO : WIRE_HELLO | WIRE_REPLY;

	*ret_field = NULL;
	if (header->opcode != expected)
		*ret_field = "opcode";
	else if (header->payload_bytes > WIRE_HELLO_BYTES)
		*ret_field = "payload_bytes";
	else if (header->flags != 0)
		*ret_field = "flags";
	else if (header->status >= CLEAVE_STATUS_NR || (qp->is_acceptor && header->status != 0))
		*ret_field = "status";
	return *ret_field == NULL ? 0 : -EPROTO;
}

void
connect_reject_surplus(struct split_qp *qp)
{
	char why[WIRE_HELLO_BYTES];

	assert(qp->is_surplus);
	(void)snprintf(why, sizeof(why), "no room for more connections, it has %u",
	    split_port_accepted_max(qp->port));
	connect_reject(qp, -EBUSY, why);
}

static void
connect_on_request(struct split_qp *qp)
{
	struct split_port *port = qp->port;

	assert(qp->is_acceptor);
	assert(!qp->is_offered);
	if (qp->is_surplus) {
		connect_reject_surplus(qp);
		return;
	}
	if (split_qp_subject(qp) == NULL && auth_security(port) != SPLIT_SECURITY_OPEN &&
	    !MUTANT(plain_believed)) {
		auth_refused(qp, "it came without a key: start it with --key");
		connect_reject(qp, -EKEYREJECTED, "this cluster wants a key: --key");
		return;
	}
	qp->is_offered = true;
	guest_on_heard(qp);
	loop_timer_start(port->loop, &qp->timer, port->options.keepalive_ns);
	port_call_begin(port);
	qp->listener->on_accept(qp, qp->hello_in, qp->hello_in_bytes, qp->listener->arg);
	port_call_end(port);
}

/* Whether it is a text that may stand in our log: the peer chose every byte of it. */
static bool
refusal_is_text(const struct split_qp *qp)
{
	assert(qp->hello_in_bytes <= WIRE_HELLO_BYTES);
	for (uint32_t i = 0; i < qp->hello_in_bytes; i++) {
		if (qp->hello_in[i] < ' ' || qp->hello_in[i] > '~' || qp->hello_in[i] == '"')
			return false;
	}
	return qp->hello_in_bytes > 0;
}

void
connect_refused(struct split_qp *qp, uint16_t status)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(status != 0);
	connect_name_settle(qp);
	/* In the clear, on the way to a sealed one, anybody may have said it: it ends the connection, no more. */
	if (auth_security(qp->port) != SPLIT_SECURITY_OPEN && qp->sealed == NULL &&
	    status_to_errno(status) != -EBUSY)
		status = status_from_errno(-EKEYREJECTED);
	if (refusal_is_text(qp))
		qp_fail(qp, status_to_errno(status), "the peer refused: %.*s",
		    (int)qp->hello_in_bytes, (const char *)qp->hello_in);
	else
		qp_fail(qp, status_to_errno(status), "the peer refused: %s", status_text(status));
}

static void
connect_on_answer(struct split_qp *qp)
{
	uint16_t status = qp->hello_header.status;

	assert(!qp->is_acceptor);
	if (status == 0 && split_qp_subject(qp) == NULL &&
	    auth_security(qp->port) != SPLIT_SECURITY_OPEN) {
		qp_fail(qp, -EKEYREJECTED, "the peer answered without a handshake");
		return;
	}
	if (status != 0) {
		connect_refused(qp, status);
		return;
	}
	qp_become_ready(qp);
	if (qp->handlers == NULL || qp->handlers->on_ready == NULL)
		return;
	port_call_begin(qp->port);
	qp->handlers->on_ready(qp, qp->hello_in, qp->hello_in_bytes, qp->arg);
	port_call_end(qp->port);
}

void
connect_on_hello(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	connect_name_settle(qp);
	qp->credits = qp->hello_header.credits;
	if (qp->is_acceptor)
		connect_on_request(qp);
	else
		connect_on_answer(qp);
}

void
split_qp_accept(struct split_qp *qp, const struct split_qp_ops *handlers, void *arg,
    const void *hello, uint32_t hello_bytes)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(qp->is_offered);
	assert(hello_bytes <= WIRE_HELLO_BYTES);
	assert(!handlers_use_pool(handlers) || qp->port->pool.count > 0);
	qp->is_offered = false;
	qp->handlers = handlers;
	qp->arg = arg;
	qp->is_pooled = handlers_use_pool(handlers);
	if (!qp_is_open(qp)) {
		/* The queue pair died while its owner was thinking: only on_closed is left. */
		loop_defer(qp->port->loop, &qp->close_task);
		return;
	}
	hello_fill(qp, WIRE_HELLO | WIRE_REPLY, 0, hello, hello_bytes);
	qp_become_ready(qp);
	send_post_control(qp, &qp->hello);
	loop_defer(qp->port->loop, &qp->ready_task);
}

void
connect_reject(struct split_qp *qp, int rc, const char *why)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(rc < 0);
	qp->is_abandoned = true;
	qp->is_rejecting = true;
	hello_fill(qp, WIRE_HELLO | WIRE_REPLY, rc, why,
	    why != NULL ? (uint32_t)strnlen(why, WIRE_HELLO_BYTES) : 0);
	send_post_control(qp, &qp->hello);
}

void
split_qp_reject(struct split_qp *qp, int rc)
{
	split_qp_refuse(qp, rc, NULL);
}

void
split_qp_refuse(struct split_qp *qp, int rc, const char *why)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(qp->is_offered);
	assert(rc < 0);
	qp->is_offered = false;
	qp->is_abandoned = true;
	if (qp_is_open(qp))
		connect_reject(qp, rc, why);
	else
		loop_defer(qp->port->loop, &qp->close_task);
}
