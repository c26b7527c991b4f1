/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer_link.c -- a queue pair from a port to a port of another gateway: requests, and their answers
 *
 *	      a request                the peer's hello is a gateway's of our cluster
 *	DOWN ----------> CONNECTING -----------------------------------------------> UP
 *	 ^   not before       |                                                      |
 *	 +--- its time -------+----------- refused, lost, stopped: every request ends+
 *
 * A request is in the link's list until its send has completed and its answer is there, or nobody waits for that, or the
 * queue pair has gone. Ids only grow: an answer to none that is there is one to a request that was forgotten, unless its
 * id was never given.
 */
#include "extent/peer_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/settings.h"

#define PEER_LINK_MAGIC 0x4b4c4550u /* "PELK" */
#define PEER_BACKOFF_MIN_NS NUM_S(1)
#define PEER_BACKOFF_MAX_NS NUM_S(30)
#define PEER_OLD_NS NUM_S(60) /* until a release that knows no such hello is asked again */

struct mt_peer_links {
	struct mt_peer_link links[MT_GATEWAYS_MAX];
	uint32_t count;
	bool is_stopped;
};

static const struct sm_state peer_link_table[MT_PEER_LINK_STATE_NR] = {
	[MT_PEER_LINK_DOWN] = { "down", SM_TO(MT_PEER_LINK_CONNECTING), SM_INITIAL },
	[MT_PEER_LINK_CONNECTING] = { "connecting",
	    SM_TO(MT_PEER_LINK_UP) | SM_TO(MT_PEER_LINK_DOWN), 0 },
	[MT_PEER_LINK_UP] = { "up", SM_TO(MT_PEER_LINK_DOWN), 0 },
};

/* ---- requests ---- */

static void
request_remove(struct mt_peer_request *request)
{
	assert(request->peer->request_count > 0);
	request->peer->request_count--;
	list_remove(&request->link);
}

static void
request_finish(struct mt_peer_request *request, int rc)
{
	struct split_msg *answer = request->answer;

	assert(!request->is_posted || request->is_sent);
	request_remove(request);
	request->answer = NULL;
	if (request->is_forgotten)
		rc = -ECANCELED;
	request->fn(request, rc, rc == 0 ? answer : NULL, request->arg);
	if (answer != NULL)
		split_msg_release(answer);
}

static void
peer_close(struct mt_peer_link *link, int rc, const char *reason)
{
	assert(rc < 0 && link->qp != NULL);
	if (link->close_rc != 0)
		return;
	link->close_rc = rc;
	link->close_reason = reason;
	split_qp_close(link->qp);
}

static void
request_on_sent(struct split_send *send, int rc, void *arg)
{
	struct mt_peer_request *request = arg;

	(void)send;
	(void)rc; /* a failure is followed by the connection's end */
	CHECK_OBJ(request->peer, PEER_LINK_MAGIC);
	assert(request->is_posted && !request->is_sent);
	request->is_sent = true;
	if (request->is_forgotten || request->answer != NULL)
		request_finish(request, 0);
}

static void
request_post(struct mt_peer_link *link, struct mt_peer_request *request)
{
	struct wire_header *header = (struct wire_header *)(void *)request->message;
	int rc;

	assert(link->sm.state == MT_PEER_LINK_UP && !request->is_posted);
	header->request_id = ++link->next_request_id;
	request->send = (struct split_send){ .header = header,
		.header_bytes = request->message_bytes,
		.fn = request_on_sent,
		.arg = request };
	rc = split_send(link->qp, &request->send);
	if (rc == 0)
		request->is_posted = true;
	else
		peer_close(link, rc, "a request cannot be sent"); /* which ends it */
}

/* ---- answers ---- */

static struct mt_peer_request *
peer_find(const struct mt_peer_link *link, uint64_t request_id)
{
	for (struct loop_link *at = link->requests.next; at != &link->requests; at = at->next) {
		struct mt_peer_request *request = LIST_ENTRY(at, struct mt_peer_request, link);
		const struct wire_header *header = (const void *)request->message;

		if (request->is_posted && header->request_id == request_id)
			return request;
	}
	return NULL;
}

/* True: @msg is taken. False: it is no answer that could be one to us, and the link closes. */
static bool
peer_take(struct mt_peer_link *link, struct split_msg *msg)
{
	struct mt_peer_request *request = peer_find(link, msg->header->request_id);
	const struct wire_header *asked;

	if ((msg->header->opcode & WIRE_REPLY) == 0 ||
	    msg->header->request_id > link->next_request_id) {
		peer_close(link, -EPROTO, "an answer to no request");
		return false;
	}
	if (request == NULL)
		return false; /* it was forgotten */
	asked = (const void *)request->message;
	if (request->answer != NULL || (asked->opcode | WIRE_REPLY) != msg->header->opcode) {
		peer_close(link, -EPROTO, "an answer of another kind");
		return false;
	}
	request->answer = msg;
	if (request->is_sent)
		request_finish(request, 0);
	return true;
}

static void
peer_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct mt_peer_link *link = arg;

	(void)qp;
	CHECK_OBJ(link, PEER_LINK_MAGIC);
	for (uint32_t i = 0; i < count; i++) {
		if (link->close_rc != 0 || !peer_take(link, msgs[i]))
			split_msg_release(msgs[i]);
	}
}

/* ---- the queue pair ---- */

/* NULL: it is a gateway of our cluster, and knows what gateways say to each other. */
static const char *
peer_check_hello(struct mt_peer_link *link, const void *bytes, uint32_t count)
{
	struct wire_hello hello;
	const char *field;

	if (wire_hello_decode(bytes, count, &hello, &field) != 0)
		return field;
	if (hello.role != WIRE_ROLE_GATEWAY)
		return "it is no gateway";
	if (hello.cluster_id != link->port->settings->cluster_id)
		return "it belongs to another cluster";
	if (wire_level_agreed(&link->level, hello.level) < CLEAVE_LEVEL_PEERS)
		return "its release is older";
	return NULL;
}

static void
peer_on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct mt_peer_link *link = arg;
	const char *wrong;

	CHECK_OBJ(link, PEER_LINK_MAGIC);
	assert(link->qp == qp && link->sm.state == MT_PEER_LINK_CONNECTING);
	if (link->close_rc != 0)
		return;
	wrong = peer_check_hello(link, hello, hello_bytes);
	if (wrong != NULL) {
		peer_close(link, -EPROTONOSUPPORT, wrong);
		return;
	}
	sm_move(&link->sm, MT_PEER_LINK_UP);
	link->backoff_ns = PEER_BACKOFF_MIN_NS;
	for (struct loop_link *at = link->requests.next;
	     at != &link->requests && link->close_rc == 0; at = at->next)
		request_post(link, LIST_ENTRY(at, struct mt_peer_request, link));
}

static void
peer_retry_later(struct mt_peer_link *link, int rc)
{
	uint64_t now_ns = loop_now_ns(link->port->loop);
	bool is_old = rc == -EPROTO || rc == -EPROTONOSUPPORT;

	link->retry_ns = now_ns + (is_old ? PEER_OLD_NS : link->backoff_ns);
	link->backoff_ns = num_min(2 * link->backoff_ns, PEER_BACKOFF_MAX_NS);
}

static void
peer_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct mt_peer_link *link = arg;
	bool was_up = link->sm.state == MT_PEER_LINK_UP;
	struct loop_link *at;

	CHECK_OBJ(link, PEER_LINK_MAGIC);
	assert(link->qp == qp && link->sm.state != MT_PEER_LINK_DOWN);
	link->qp = NULL;
	if (link->close_rc != 0) {
		rc = link->close_rc;
		reason = link->close_reason;
	}
	link->close_rc = 0; /* in its time it is dialled anew */
	sm_move(&link->sm, MT_PEER_LINK_DOWN);
	if (was_up)
		wire_level_forget(&link->level);
	else
		(void)wire_level_refused(&link->level, rc, loop_now_ns(link->port->loop));
	peer_retry_later(link, rc);
	log_limited(LOG_INFO,
	    "peer: a link to another gateway has ended peer=%s reason=\"%s\" rc=%s", link->address,
	    reason == NULL ? "" : reason, log_errno(rc));
	/* DOWN, not dialled before its time, and not for another address: no handler adds one. */
	link->is_ending = true;
	while ((at = list_first(&link->requests)) != NULL) {
		struct mt_peer_request *request = LIST_ENTRY(at, struct mt_peer_request, link);

		request->is_sent = request->is_posted; /* on_closed comes behind every send's end */
		request_finish(request, rc == 0 ? -ECONNRESET : rc);
	}
	link->is_ending = false;
}

static const struct split_qp_ops peer_qp_ops = {
	.on_ready = peer_on_ready,
	.on_messages = peer_on_messages,
	.on_closed = peer_on_closed,
};

/* 0: CONNECTING. */
static int
peer_connect(struct mt_peer_link *link)
{
	const struct mt_settings *settings = link->port->settings;
	uint64_t now_ns = loop_now_ns(link->port->loop);
	struct wire_hello hello = { .level = wire_level_offer(&link->level, now_ns),
		.role = WIRE_ROLE_GATEWAY,
		.cluster_id = settings->cluster_id };
	uint8_t bytes[WIRE_HELLO_BYTES];
	const struct split_connect_options options = {
		.address = link->address,
		.hello = bytes,
		.hello_bytes = sizeof(bytes),
		.ops = &peer_qp_ops,
		.arg = link,
		.peer_roles = SPLIT_ROLE_GATEWAY,
	};

	assert(link->qp == NULL && link->sm.state == MT_PEER_LINK_DOWN);
	wire_hello_encode(bytes, &hello);
	link->close_rc = 0;
	link->close_reason = NULL;
	link->qp = connect_qp(link->port->split, &options);
	if (link->qp == NULL) {
		peer_retry_later(link, -errno);
		return -ENOTCONN;
	}
	sm_move(&link->sm, MT_PEER_LINK_CONNECTING);
	return 0;
}

uint64_t
mt_peer_link_gateway(const struct mt_peer_link *link)
{
	const struct split_subject *subject;

	CHECK_OBJ(link, PEER_LINK_MAGIC);
	if (link->sm.state != MT_PEER_LINK_UP)
		return 0;
	subject = split_qp_subject(link->qp);
	return subject == NULL ? 0 : strtoull(subject->name, NULL, 10);
}

int
mt_peer_link_send(struct mt_peer_link *link, struct mt_peer_request *request)
{
	CHECK_OBJ(link, PEER_LINK_MAGIC);
	assert(request->fn != NULL);
	assert(request->message_bytes >= WIRE_HEADER_BYTES &&
	    request->message_bytes <= SPLIT_HEADER_BYTES_MAX);
	if (link->request_count == MT_PEER_REQUESTS_MAX)
		return -ENOBUFS;
	if (link->port->peer_links->is_stopped || link->close_rc != 0)
		return -ENOTCONN;
	if (link->sm.state == MT_PEER_LINK_DOWN &&
	    (loop_now_ns(link->port->loop) < link->retry_ns || peer_connect(link) != 0))
		return -ENOTCONN;
	request->peer = link;
	request->link = (struct loop_link){ NULL, NULL };
	request->answer = NULL;
	request->is_posted = request->is_sent = request->is_forgotten = false;
	list_push_back(&link->requests, &request->link);
	link->request_count++;
	if (link->sm.state == MT_PEER_LINK_UP)
		request_post(link, request);
	return 0;
}

bool
mt_peer_link_forget(struct mt_peer_request *request)
{
	struct mt_peer_link *link = request->peer;

	CHECK_OBJ(link, PEER_LINK_MAGIC);
	assert(!request->is_forgotten);
	if (request->is_posted && !request->is_sent &&
	    split_send_cancel(link->qp, &request->send) != 1) {
		request->is_forgotten = true;
		return false;
	}
	request_remove(request);
	/* A peer that guesses at requests has answered what was not sent yet. */
	if (request->answer != NULL)
		split_msg_release(request->answer);
	request->answer = NULL;
	return true;
}

/* ---- a port's ---- */

int
mt_peer_links_init(struct mt_port *port)
{
	assert(port->peer_links == NULL);
	port->peer_links = mt_calloc(1, sizeof(*port->peer_links));
	return port->peer_links == NULL ? -ENOMEM : 0;
}

static void
peer_init(struct mt_peer_link *link, struct mt_port *port, const char *address)
{
	*link = (struct mt_peer_link){ .magic = PEER_LINK_MAGIC,
		.port = port,
		.backoff_ns = PEER_BACKOFF_MIN_NS };
	(void)snprintf(link->address, sizeof(link->address), "%s", address);
	list_init(&link->requests);
	wire_level_init(&link->level, port->settings->level_max);
	sm_init(&link->sm, "peer_link", peer_link_table, MT_PEER_LINK_DOWN, port->index);
}

struct mt_peer_link *
mt_peer_link_to(struct mt_port *port, const char *address)
{
	struct mt_peer_links *all = port->peer_links;
	struct mt_peer_link *idle = NULL;

	if (all == NULL || all->is_stopped)
		return NULL;
	for (uint32_t i = 0; i < all->count; i++) {
		struct mt_peer_link *link = &all->links[i];

		if (strcmp(link->address, address) == 0)
			return link;
		if (link->sm.state == MT_PEER_LINK_DOWN && !link->is_ending && idle == NULL)
			idle = link;
	}
	if (all->count < MT_GATEWAYS_MAX)
		idle = &all->links[all->count++];
	if (idle != NULL)
		peer_init(idle, port, address);
	return idle;
}

void
mt_peer_links_stop(struct mt_port *port)
{
	struct mt_peer_links *all = port->peer_links;

	if (all == NULL)
		return;
	all->is_stopped = true;
	for (uint32_t i = 0; i < all->count; i++) {
		if (all->links[i].qp != NULL)
			peer_close(&all->links[i], -ESHUTDOWN, "stopped");
	}
}

bool
mt_peer_links_are_quiet(const struct mt_port *port)
{
	for (uint32_t i = 0; port->peer_links != NULL && i < port->peer_links->count; i++) {
		if (port->peer_links->links[i].qp != NULL)
			return false;
	}
	return true;
}

void
mt_peer_links_fini(struct mt_port *port)
{
	mt_free(port->peer_links);
	port->peer_links = NULL;
}
