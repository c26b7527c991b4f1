/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct_node.c -- connections of a volume's session to storage nodes, at which it reads past its gateway
 *
 *	DOWN --a read wants it, not left out--> CONNECTING --> UP --> CLOSING --(on_closed)--> DOWN
 *	  ^                                         |           |
 *	  '----------------(on_closed)--------------'-----------'
 *
 * Which nodes there are, and where: direct_list.c.
 *
 * A request is a DIRECT_READ, and TICKETS before it where the connection has not shown the source's ticket yet: a node
 * judges what comes in its order, so nothing waits for that answer. A ticket that is refused is not shown again on the
 * connection; a newer map brings another.
 *
 * Trouble is a connection that ends or cannot be made, a node that says that it is down, and an answer that takes
 * DIRECT_SLOW_NS, which closes the connection. The node is left out for 1 s then, and twice as long each further time
 * in a row, up to 64 s; up to 16 s where it could not be connected to, which costs nobody anything, and is told to people
 * until it can.
 *
 * Bounds: DIRECT_NODES_MAX nodes, DIRECT_SLOTS tickets a connection, DIRECT_READS_MAX x DIRECT_REQUESTS_MAX
 * requests.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "direct.h"
#include "internal.h"

#define DIRECT_SLOW_NS NUM_MS(250)
#define DIRECT_LEFT_OUT_NS NUM_S(1)
#define DIRECT_LEFT_OUT_SHIFT_MAX 6u
#define DIRECT_UNREACHED_SHIFT_MAX 4u /* of one that cannot be connected to */
#define TICKET_PROBES 8u

static const struct sm_state node_table[DIRECT_NODE_STATE_NR] = {
	[DIRECT_NODE_DOWN] = { "down", SM_TO(DIRECT_NODE_CONNECTING), SM_INITIAL | SM_FINAL },
	[DIRECT_NODE_CONNECTING] = { "connecting",
	    SM_TO(DIRECT_NODE_UP) | SM_TO(DIRECT_NODE_CLOSING) | SM_TO(DIRECT_NODE_DOWN), 0 },
	[DIRECT_NODE_UP] = { "up", SM_TO(DIRECT_NODE_CLOSING) | SM_TO(DIRECT_NODE_DOWN), 0 },
	[DIRECT_NODE_CLOSING] = { "closing", SM_TO(DIRECT_NODE_DOWN), 0 },
};

static struct cleave_client *
client_of(const struct direct *direct)
{
	return direct->volume->client;
}

/* ---- states of a node ---- */

static void
node_leave_out(struct direct_node *node)
{
	uint32_t shift = (uint32_t)num_min(node->failures_in_row,
	    node->dials_failed > 0 ? DIRECT_UNREACHED_SHIFT_MAX : DIRECT_LEFT_OUT_SHIFT_MAX);

	node->failures_in_row++;
	node->left_out_until_ns = loop_now_ns(client_of(node->direct)->loop) +
	    (DIRECT_LEFT_OUT_NS << shift);
}

static bool
node_is_left_out(const struct direct_node *node)
{
	return loop_now_ns(client_of(node->direct)->loop) < node->left_out_until_ns;
}

void
direct_node_close(struct direct_node *node)
{
	if (node->sm.state != DIRECT_NODE_CONNECTING && node->sm.state != DIRECT_NODE_UP)
		return;
	sm_move(&node->sm, DIRECT_NODE_CLOSING);
	split_qp_close(node->qp);
}

/* ---- tickets ---- */

/* The slot of the ticket of @source's copy @copy, or the one that it shall have; *@ret_is_there: which of the two. */
static struct direct_ticket *
ticket_find(struct direct_node *node, const struct wire_map_source *source, uint32_t copy,
    bool *ret_is_there)
{
	uint64_t at = num_mix_u64(source->extent ^ num_mix_u64(source->from_bytes));
	struct direct_ticket *oldest = NULL;

	for (uint64_t i = 0; i < TICKET_PROBES; i++) {
		struct direct_ticket *ticket = &node->tickets[(at + i) % DIRECT_SLOTS];

		*ret_is_there = ticket->extent == source->extent &&
		    ticket->from_bytes == source->from_bytes &&
		    ticket->key_number == source->copies[copy].key_number;
		if (*ret_is_there)
			return ticket;
		if (oldest == NULL || ticket->used < oldest->used)
			oldest = ticket;
	}
	return oldest;
}

/* The request's ticket is not believed, or not any more. */
static void
ticket_refuse(struct direct_request *request)
{
	bool is_there;
	struct direct_ticket *ticket =
	    ticket_find(request->node, &request->source, request->copy, &is_there);

	if (is_there)
		ticket->is_refused = true;
	CLIENT_STAT(client_of(request->node->direct), direct_tickets_refused, is_there);
}

static bool
ticket_is_refused(struct direct_node *node, const struct wire_map_source *source, uint32_t copy)
{
	bool is_there;
	const struct direct_ticket *ticket = ticket_find(node, source, copy, &is_there);

	return is_there && ticket->is_refused;
}

/* ---- requests ---- */

/* Nothing of it is with the split library or the node any more: its owner goes on. The last act of whoever calls it. */
static void
request_settle(struct direct_request *request)
{
	if (request->sm.state != DIRECT_REQUEST_ANSWERED || request->is_sending ||
	    request->is_presenting || request->is_ticket_out)
		return;
	assert(request->node->out_count > 0);
	request->node->out_count--;
	list_remove(&request->link);
	request->node = NULL;
	sm_move(&request->sm, DIRECT_REQUEST_IDLE);
	direct_request_over(request, request->rc);
}

static void
request_on_send(struct split_send *send, int rc, void *arg)
{
	struct direct_request *request = arg;

	(void)rc; /* a failure is followed by the connection's end */
	assert(send == &request->send || send == &request->ticket_send);
	if (send == &request->send)
		request->is_sending = false;
	else
		request->is_presenting = false;
	if (!client_of(request->read->direct)->is_destroying)
		request_settle(request);
}

static void
node_on_slow(struct loop_timer *timer, void *arg)
{
	struct direct_node *node = arg;
	struct loop_link *oldest = list_first(&node->requests);
	struct loop *loop = client_of(node->direct)->loop;
	uint64_t due_ns;

	assert(timer == &node->timer);
	if (oldest == NULL)
		return;
	due_ns = LIST_ENTRY(oldest, struct direct_request, link)->sent_ns + DIRECT_SLOW_NS;
	if (due_ns <= loop_now_ns(loop))
		direct_node_close(node);
	else
		loop_timer_start(loop, timer, due_ns - loop_now_ns(loop));
}

static int
request_present(struct direct_request *request, struct direct_node *node,
    struct direct_ticket *ticket)
{
	const struct wire_map_source *source = &request->source;
	const struct cleave_volume *volume = node->direct->volume;
	struct wire_ticket out = { .id = extent_id_unpack(source->extent),
		.from_bytes = source->from_bytes,
		.to_bytes = source->to_bytes,
		.volume_id = volume->info.id,
		.attach = volume->info.attach,
		.slot = request->slot,
		.key_number = source->copies[request->copy].key_number };
	uint8_t bytes[WIRE_TICKET_BYTES];
	int rc;

	assert(!request->is_presenting && !request->is_ticket_out);
	memcpy(out.mac, source->copies[request->copy].mac, sizeof(out.mac));
	wire_ticket_encode(bytes, &out);
	dev_copy_from_host(volume->client->port, request->ticket_piece.ptr, bytes, sizeof(bytes));
	wire_direct_encode(&request->ticket_header,
	    &(struct wire_direct){ .opcode = WIRE_TICKETS,
		.request_id = request->request_id | 1,
		.ticket_count = 1 });
	request->ticket_send = (struct split_send){ .header = &request->ticket_header,
		.header_bytes = WIRE_HEADER_BYTES,
		.pieces = &request->ticket_piece,
		.piece_count = 1,
		.fn = request_on_send,
		.arg = request };
	rc = split_send(node->qp, &request->ticket_send);
	if (rc != 0)
		return rc;
	request->is_presenting = request->is_ticket_out = true;
	*ticket = (struct direct_ticket){ .extent = source->extent,
		.from_bytes = source->from_bytes,
		.key_number = out.key_number };
	return 0;
}

static int
request_post(struct direct_request *request, struct direct_node *node)
{
	wire_direct_encode(&request->header,
	    &(struct wire_direct){ .opcode = WIRE_DIRECT_READ,
		.request_id = request->request_id,
		.id = extent_id_unpack(request->source.extent),
		.offset_bytes = request->offset_bytes,
		.length_bytes = request->length_bytes,
		.slot = request->slot });
	request->send = (struct split_send){ .header = &request->header,
		.header_bytes = WIRE_HEADER_BYTES,
		.fn = request_on_send,
		.arg = request };
	return split_send(node->qp, &request->send);
}

static void node_connect(struct direct_node *node);

/* The node of @source's copy @copy, if that can be asked now; NULL: it cannot, yet or at all. */
static struct direct_node *
copy_node(struct direct *direct, const struct wire_map_source *source, uint32_t copy)
{
	uint32_t node_id = source->copies[copy].node_id;
	struct direct_node *node = NULL;

	if (node_id == 0 || source->copies[copy].key_number == 0)
		return NULL;
	for (uint32_t i = 0; i < DIRECT_NODES_MAX && direct->nodes[i] != NULL && node == NULL;
	     i++) {
		if (direct->nodes[i]->id == node_id && direct->nodes[i]->is_listed)
			node = direct->nodes[i];
	}
	if (node == NULL) {
		direct_nodes_ask(direct);
		return NULL;
	}
	if (node_is_left_out(node))
		return NULL;
	if (node->sm.state == DIRECT_NODE_DOWN)
		node_connect(node);
	if (node->sm.state != DIRECT_NODE_UP || ticket_is_refused(node, source, copy))
		return NULL;
	return node;
}

/* The copy whose node has the least to do; they take turns where that is the same. CLEAVE_COPIES: there is none. */
static uint32_t
request_pick(struct direct_request *request, struct direct_node **ret_node)
{
	struct direct *direct = request->read->direct;
	uint32_t from = (uint32_t)(direct->request_serial % CLEAVE_COPIES), best = CLEAVE_COPIES;

	for (uint32_t i = 0; i < CLEAVE_COPIES; i++) {
		uint32_t copy = (from + i) % CLEAVE_COPIES;
		struct direct_node *node = (request->tried & 1u << copy) != 0
		    ? NULL
		    : copy_node(direct, &request->source, copy);

		if (node == NULL ||
		    (best < CLEAVE_COPIES && node->out_count >= (*ret_node)->out_count))
			continue;
		best = copy;
		*ret_node = node;
	}
	return best;
}

bool
direct_request_can_be_sent(struct direct_request *request)
{
	struct direct_node *node;

	return request_pick(request, &node) < CLEAVE_COPIES;
}

int
direct_request_send(struct direct_request *request)
{
	struct direct *direct = request->read->direct;
	struct direct_node *node = NULL;
	struct direct_ticket *ticket;
	bool is_there;
	uint32_t copy = request_pick(request, &node);
	int rc = 0;

	assert(request->sm.state == DIRECT_REQUEST_IDLE);
	if (copy == CLEAVE_COPIES)
		return -EHOSTUNREACH;
	request->copy = copy;
	request->tried |= 1u << copy;
	request->request_id = ++direct->request_serial << REQUEST_INDEX_BITS |
	    request->read->index * 2 * DIRECT_REQUESTS_MAX |
	    (uint32_t)(request - request->read->requests) * 2;
	ticket = ticket_find(node, &request->source, copy, &is_there);
	request->slot = (uint32_t)(ticket - node->tickets);
	if (!is_there)
		rc = request_present(request, node, ticket);
	if (rc != 0)
		return rc;
	ticket->used = ++node->use_count;
	request->is_sending = request_post(request, node) == 0;
	if (!request->is_sending && is_there)
		return -ENOTCONN;
	request->node = node;
	request->sent_ns = loop_now_ns(client_of(direct)->loop);
	sm_move(&request->sm, DIRECT_REQUEST_OUT);
	list_push_back(&node->requests, &request->link);
	node->out_count++;
	if (!node->timer.is_active)
		loop_timer_start(client_of(direct)->loop, &node->timer, DIRECT_SLOW_NS);
	if (!request->is_sending)
		direct_node_close(node); /* its ticket is out: it ends with the connection */
	return 0;
}

/* ---- answers ---- */

/* The request of @node's that an answer names; NULL: there is none. */
static struct direct_request *
node_request(const struct direct_node *node, uint64_t request_id)
{
	uint32_t at = (uint32_t)(request_id & REQUEST_INDEX_MASK) / 2;
	struct direct_request *request;

	if (at >= DIRECT_READS_MAX * DIRECT_REQUESTS_MAX)
		return NULL;
	request = &node->direct->reads[at / DIRECT_REQUESTS_MAX].requests[at % DIRECT_REQUESTS_MAX];
	return request->node == node && request->request_id == (request_id & ~UINT64_C(1)) ? request
											   : NULL;
}

static bool
request_take_ticket(struct direct_request *request, const struct wire_node_reply *reply)
{
	if (reply->opcode != WIRE_TICKETS || !request->is_ticket_out)
		return false;
	request->is_ticket_out = false;
	if (reply->rc != 0 || (reply->offset_bytes & 1) == 0)
		ticket_refuse(request);
	request_settle(request);
	return true;
}

/* False: the answer breaks the protocol. */
static bool
node_take(struct direct_node *node, const struct split_msg *msg)
{
	struct direct_request *request;
	struct wire_node_reply reply;
	const char *field;

	if (wire_node_reply_decode(msg->header, &reply, &field) != 0)
		return false;
	request = node_request(node, reply.request_id);
	if (request == NULL)
		return false;
	if ((reply.request_id & 1) != 0)
		return request_take_ticket(request, &reply);
	if (reply.opcode != WIRE_DIRECT_READ || request->sm.state != DIRECT_REQUEST_OUT ||
	    (reply.rc == 0 && reply.length_bytes != request->length_bytes))
		return false;
	if (reply.rc == 0)
		node->failures_in_row = 0;
	else if (reply.rc == -EKEYREVOKED)
		ticket_refuse(request);
	else if (reply.rc == -EHOSTDOWN)
		node_leave_out(node);
	request->rc = reply.rc == 0 ? direct_request_load(request, msg) : reply.rc;
	sm_move(&request->sm, DIRECT_REQUEST_ANSWERED);
	request_settle(request);
	return true;
}

static void
node_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct direct_node *node = arg;

	(void)qp;
	for (uint32_t i = 0; i < count; i++) {
		if (node->sm.state == DIRECT_NODE_UP && !node_take(node, msgs[i])) {
			CLIENT_STAT(client_of(node->direct), protocol_errors, 1);
			direct_node_close(node);
		}
		split_msg_release(msgs[i]);
	}
}

/* ---- its connection ---- */

static void
node_on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct direct_node *node = arg;
	struct wire_hello peer;
	const char *field;
	bool was_named;

	if (node->sm.state != DIRECT_NODE_CONNECTING)
		return;
	assert(node->qp == qp);
	(void)qp;
	sm_move(&node->sm, DIRECT_NODE_UP);
	was_named = node->dials_failed >= DIRECT_UNREACHED_DIALS;
	node->dials_failed = 0;
	CLIENT_STAT(client_of(node->direct), connects, 1);
	if (wire_hello_decode(hello, hello_bytes, &peer, &field) != 0 ||
	    peer.role != WIRE_ROLE_NODE || peer.node_id != node->id ||
	    peer.level < CLEAVE_LEVEL_READS) {
		direct_node_close(node);
		return;
	}
	/* A gateway was told that it is not reached: it is asked without that word, however short ago the last question was. */
	if (was_named) {
		node->direct->asked_ns = 0;
		direct_nodes_ask(node->direct);
	}
}

static void
node_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct direct_node *node = arg;
	struct cleave_client *client = client_of(node->direct);
	struct loop_link *link;

	(void)rc; /* whatever it is, the node is left out for a while */
	(void)reason;
	assert(node->qp == qp);
	(void)qp;
	node->qp = NULL;
	if (client->is_destroying)
		return;
	CLIENT_STAT(client, connection_losses, 1);
	if (node->sm.state == DIRECT_NODE_CONNECTING)
		node->dials_failed++;
	sm_move(&node->sm, DIRECT_NODE_DOWN);
	loop_timer_stop(client->loop, &node->timer);
	memset(node->tickets, 0, sizeof(node->tickets));
	if (!node->direct->is_closing) {
		node_leave_out(node);
		direct_nodes_ask(node->direct);
	}
	/* A request that another copy gets joins another node's list, never this one: it gets shorter. */
	while ((link = list_first(&node->requests)) != NULL) {
		struct direct_request *request = LIST_ENTRY(link, struct direct_request, link);

		assert(!request->is_sending && !request->is_presenting);
		request->is_ticket_out = false;
		if (request->sm.state == DIRECT_REQUEST_OUT) {
			request->rc = -ECONNRESET;
			sm_move(&request->sm, DIRECT_REQUEST_ANSWERED);
		}
		request_settle(request);
	}
	volume_wake(node->direct->volume);
}

static const struct split_qp_ops node_qp_ops = {
	.on_ready = node_on_ready,
	.on_messages = node_on_messages,
	.on_closed = node_on_closed,
};

static void
node_connect(struct direct_node *node)
{
	const struct cleave_volume *volume = node->direct->volume;
	struct wire_hello hello = {
		.level = CLEAVE_LEVEL_MAX,
		.role = WIRE_ROLE_CLIENT,
		.cluster_id = volume->client->cluster_id,
		.session_id = volume->session_id,
	};
	uint8_t bytes[WIRE_HELLO_BYTES];
	struct split_connect_options options = {
		.address = node->address,
		.hello = bytes,
		.hello_bytes = sizeof(bytes),
		.timeout_ns = volume->client->options.connect_timeout_ns,
		.ops = &node_qp_ops,
		.arg = node,
		.peer_roles = SPLIT_ROLE_NODE,
	};

	assert(node->sm.state == DIRECT_NODE_DOWN && node->qp == NULL);
	if (node->direct->is_closing)
		return;
	wire_hello_encode(bytes, &hello);
	node->qp = connect_qp(volume->client->port, &options);
	if (node->qp == NULL)
		node_leave_out(node);
	else
		sm_move(&node->sm, DIRECT_NODE_CONNECTING);
}

/* ---- a node's life ---- */

struct direct_node *
direct_node_create(struct direct *direct, uint32_t id)
{
	struct direct_node *node = client_calloc(1, sizeof(*node));

	if (node == NULL)
		return NULL;
	node->direct = direct;
	node->id = id;
	list_init(&node->requests);
	loop_timer_init(&node->timer, node_on_slow, node);
	sm_init(&node->sm, "direct_node", node_table, DIRECT_NODE_DOWN, id);
	return node;
}

void
direct_node_destroy(struct direct_node *node)
{
	loop_timer_stop(client_of(node->direct)->loop, &node->timer);
	free(node);
}
