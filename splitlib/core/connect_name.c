/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect_name.c -- see connect_name.h
 *
 *	connect_qp: ASKING --(answer)--> TRYING address 1 --(nobody there)--> TRYING address 2 ... --> failed
 *	               |                    '--(somebody answers)--> settled: as if it had been a number
 *	               '--(no such name, no answer in time)--> failed
 *
 * The transport sees numbers alone. It fails a queue pair as ever; qp_life.c's close task asks here before
 * it ends one (connect_name_goes_on), and the queue pair connects again instead. So nobody but the two files
 * knows that there was more than one attempt, and an attempt's socket is closed where all are.
 *
 * Time: connect_qp's time-out is the budget for all of it. Each address may have an equal part of what is
 * left, the last one all.
 *
 * A number takes none of this: no memory, no thread, no turn of the loop.
 */
#include "connect_name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "base/resolve.h"
#include "base/sm.h"
#include "base/tcp_address.h"
#include "connect.h"
#include "port.h"
#include "qp.h"
#include "transport.h"

#define LISTEN_LOOKUP_NS NUM_S(10) /* a start: name servers may answer at the second attempt */
_Static_assert(RESOLVE_NAME_BYTES >= SPLIT_ADDRESS_BYTES_MAX, "any name of an address fits");

struct connect_name {
	char name[SPLIT_ADDRESS_BYTES_MAX];
	uint16_t port;
	struct resolve_call *call; /* ASKING; else NULL */
	struct loop_timer timer;   /* an address has had its part of the time */
	uint64_t deadline_ns;
	bool is_settled;
	uint32_t count, next; /* of addresses */
	struct sockaddr_storage addresses[RESOLVE_ADDRESSES_MAX];
};

/* The port's desk, made at the first name. 0 or a negative errno. */
static int
port_desk_get(struct split_port *port)
{
	int rc;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	if (port->desk != NULL)
		return 0;
	port->desk = split_calloc(1, sizeof(*port->desk));
	if (port->desk == NULL)
		return -ENOMEM;
	rc = errand_desk_init(port->desk, port->loop);
	if (rc != 0) {
		split_free(port->desk);
		port->desk = NULL;
	}
	return rc;
}

void
connect_name_port_fini(struct split_port *port)
{
	assert(list_is_empty(&port->qps));
	if (port->desk == NULL)
		return;
	errand_desk_fini(port->desk);
	split_free(port->desk);
	port->desk = NULL;
}

/* "HOST:PORT" of @address, in @text with a scheme before it. */
static const char *
name_format(const struct sockaddr_storage *address, uint16_t port,
    char text[SPLIT_ADDRESS_BYTES_MAX])
{
	struct sockaddr_storage at = *address;

	tcp_address_set_port(&at, port);
	tcp_address_format(&at, text);
	return text + strlen("tcp://");
}

static void
name_try(struct split_qp *qp)
{
	struct connect_name *name = qp->name;
	struct loop *loop = qp->port->loop;
	uint64_t now_ns = loop_now_ns(loop);
	char text[SPLIT_ADDRESS_BYTES_MAX];
	uint32_t left = name->count - name->next;
	int rc;

	assert(qp_is(qp, SPLIT_QP_CONNECTING) && qp->transport == NULL);
	assert(left > 0 && name->deadline_ns > now_ns);
	rc = qp->ops->connect(qp, name_format(&name->addresses[name->next++], name->port, text));
	if (rc != 0)
		qp_fail(qp, -ECONNREFUSED, "connect: %s", strerrordesc_np(-rc));
	if (left > 1 && qp_is_open(qp))
		loop_timer_start(loop, &name->timer, (name->deadline_ns - now_ns) / left);
}

static void
name_on_timer(struct loop_timer *timer, void *arg)
{
	struct split_qp *qp = arg;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(timer == &qp->name->timer);
	(void)timer;
	qp_fail(qp, -ETIMEDOUT, "connect: no answer");
}

static void
name_on_answer(const struct resolve_answer *answer, void *arg)
{
	struct split_qp *qp = arg;
	struct connect_name *name = qp->name;

	assert(name->call != NULL && name->count == 0);
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	name->call = NULL;
	if (!qp_is(qp, SPLIT_QP_CONNECTING))
		return; /* closed, or too late: the close task is on its way */
	if (answer->rc != 0) {
		qp_fail(qp, -ECONNREFUSED, "%.70s: %s", name->name, resolve_text(answer));
		return;
	}
	assert(answer->count > 0 && answer->count <= RESOLVE_ADDRESSES_MAX);
	name->count = answer->count;
	memcpy(name->addresses, answer->addresses, sizeof(name->addresses));
	if (loop_now_ns(qp->port->loop) < name->deadline_ns)
		name_try(qp);
}

int
connect_name_begin(struct split_qp *qp, const char *host_port, uint64_t timeout_ns)
{
	struct split_port *port = qp->port;
	char text[SPLIT_ADDRESS_BYTES_MAX];
	struct connect_name *name;
	uint16_t port_number;
	int rc;

	assert(qp->name == NULL && qp_is(qp, SPLIT_QP_CONNECTING));
	if (!qp->ops->has_names || !tcp_address_is_name(host_port, text, &port_number))
		return 0;
	rc = port_desk_get(port);
	if (rc != 0)
		return rc;
	name = split_calloc(1, sizeof(*name));
	if (name == NULL)
		return -ENOMEM;
	memcpy(name->name, text, sizeof(name->name));
	name->port = port_number;
	name->deadline_ns = loop_now_ns(port->loop) + timeout_ns;
	loop_timer_init(&name->timer, name_on_timer, qp);
	name->call = resolve_start(port->desk, name->name, name_on_answer, qp);
	if (name->call == NULL) {
		rc = -errno;
		split_free(name);
		return rc;
	}
	qp->name = name;
	(void)snprintf(qp->peer, sizeof(qp->peer), "%s://%.*s", qp->ops->scheme,
	    (int)(sizeof(qp->peer) - 16), host_port); /* it came with that scheme: it fits */
	return 1;
}

void
connect_name_settle(struct split_qp *qp)
{
	assert(qp->name == NULL || qp->name->call == NULL);
	if (qp->name == NULL)
		return;
	qp->name->is_settled = true;
	loop_timer_stop(qp->port->loop, &qp->name->timer);
}

void
connect_name_on_timeout(struct split_qp *qp)
{
	assert(qp_is(qp, SPLIT_QP_CONNECTING));
	if (qp->name != NULL && qp->name->call != NULL)
		qp_fail(qp, -ETIMEDOUT, "%.70s: the name was not looked up in time",
		    qp->name->name);
	else
		qp_fail(qp, -ETIMEDOUT, "no answer in time");
}

/* All were tried: the reason says which one its words are about. */
static void
name_explain(struct split_qp *qp)
{
	const struct connect_name *name = qp->name;
	char text[SPLIT_ADDRESS_BYTES_MAX], reason[SPLIT_REASON_BYTES_MAX];
	const char *at;

	assert(name->next <= name->count);
	if (name->is_settled || name->next == 0 || qp->close_rc == 0)
		return;
	at = name_format(&name->addresses[name->next - 1], name->port, text);
	memcpy(reason, qp->reason, sizeof(reason));
	(void)snprintf(qp->reason, sizeof(qp->reason), "%.60s (%.47s, %u of %u)", reason, at,
	    name->next, name->count); /* cut where too long */
}

bool
connect_name_goes_on(struct split_qp *qp)
{
	struct connect_name *name = qp->name;
	uint64_t now_ns = loop_now_ns(qp->port->loop);

	assert(qp_is(qp, SPLIT_QP_CLOSING));
	if (name == NULL)
		return false;
	loop_timer_stop(qp->port->loop, &name->timer);
	if (name->is_settled || qp->is_abandoned || qp->close_rc == 0 ||
	    name->next == name->count || now_ns >= name->deadline_ns) {
		name_explain(qp);
		return false;
	}
	if (qp->transport != NULL)
		qp->ops->close(qp);
	sm_move(&qp->sm, SPLIT_QP_CONNECTING);
	qp->close_rc = 0;
	qp->reason[0] = '\0';
	loop_timer_start(qp->port->loop, &qp->timer, name->deadline_ns - now_ns);
	name_try(qp);
	return true;
}

void
connect_name_end(struct split_qp *qp)
{
	struct connect_name *name = qp->name;

	if (name == NULL)
		return;
	qp->name = NULL;
	loop_timer_stop(qp->port->loop, &name->timer);
	if (name->call != NULL)
		resolve_cancel(name->call);
	split_free(name);
}

int
connect_name_listen(struct split_listener *listener, const char *host_port, char *ret_address)
{
	const struct transport_ops *ops = listener->ops;
	char name[SPLIT_ADDRESS_BYTES_MAX], text[SPLIT_ADDRESS_BYTES_MAX];
	struct resolve_answer answer;
	uint16_t port_number;
	int rc = -EADDRNOTAVAIL;

	assert(ret_address != NULL);
	if (!ops->has_names || !tcp_address_is_name(host_port, name, &port_number))
		return ops->listen(listener, host_port, ret_address);
	resolve_wait(name, LISTEN_LOOKUP_NS, &answer);
	if (answer.rc != 0) {
		transport_reason(listener->port, "%.70s: %s", name, resolve_text(&answer));
		return rc;
	}
	for (uint32_t i = 0; i < answer.count && rc != 0; i++) {
		rc = ops->listen(listener, name_format(&answer.addresses[i], port_number, text),
		    ret_address);
	}
	if (rc == -EADDRNOTAVAIL)
		transport_reason(listener->port, "%.70s is no address of this machine", name);
	return rc;
}
