/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_link.c -- one queue pair from a port to a storage node, and the calls that are on it
 *
 *	          start, retry          hello and status are good
 *	   DOWN --------------> CONNECTING ---------------------> UP
 *	    ^                       |                              |
 *	    +-----------------------+------------------------------+  closed, refused, a call too old
 *
 * A link is UP once the node has said who it is (its hello) and how much room it has (the answer to
 * the first "status"). The answer is asked for again at most every LINK_STATUS_NS, when a call is
 * made: an idle gateway makes none and sleeps (I12).
 *
 * A call is in `calls`, oldest first, and in call_slots under request_id modulo their number, from
 * mt_link_call to its handler. Request ids only grow, so an answer to a call that is gone finds
 * nothing and is a protocol error. The handler runs once the send has completed *and* the answer is
 * here or the queue pair is gone: a call that takes too long closes the queue pair, and never frees a
 * buffer that the transport may still read.
 *
 * One line is logged a change, not an attempt.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/reader.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/port_events.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/capacity.h"
#include "extent/extent.h"
#include "extent/link_store.h"
#include "extent/node_link.h"
#include "extent/node_trouble.h"
#include "extent/placement.h"
#include "extent/slow_node.h"

#define LINK_MAGIC 0x4b4e494cu      /* "LINK" */
#define LINK_CALL_MAGIC 0x4c4c4143u /* "CALL" */
#define LINK_CALLS_MAX 1024u
#define LINK_BACKOFF_MIN_NS NUM_MS(100)
#define LINK_BACKOFF_MAX_NS NUM_S(5)
#define LINK_STATUS_NS NUM_S(10)
#define LINK_DUPLICATE_TEXT "its node id is taken"
#define LINK_REFRESH_NS NUM_S(1)
#define LINK_VERIFY_NS NUM_S(1200) /* a node reads a whole copy, behind everybody else */
#define LINK_STATUS_REPLY_BYTES_MAX MT_RECEIVE_BYTES

static const char link_status_text[] = "{\"op\":\"status\"}";
#define LINK_STATUS_TEXT_BYTES ((uint32_t)sizeof(link_status_text) - 1)

static const struct sm_state link_table[MT_LINK_STATE_NR] = {
	[MT_LINK_DOWN] = { "down", SM_TO(MT_LINK_CONNECTING), SM_INITIAL },
	[MT_LINK_CONNECTING] = { "connecting", SM_TO(MT_LINK_UP) | SM_TO(MT_LINK_DOWN), 0 },
	[MT_LINK_UP] = { "up", SM_TO(MT_LINK_DOWN), 0 },
};

static void link_connect(struct mt_link *link);

bool
mt_link_is_up(const struct mt_link *link)
{
	return link->sm.state == MT_LINK_UP;
}

struct mt_link *
mt_port_link(struct mt_port *port, uint32_t node_id)
{
	for (uint32_t i = 0; i < port->link_count; i++) {
		if (port->links[i].node_id == node_id && node_id != 0)
			return &port->links[i];
	}
	return NULL;
}

/* Close for a reason of ours; on_closed does the rest. The first reason stays. */
static void
link_close(struct mt_link *link, int rc, const char *reason)
{
	assert(link->qp != NULL);
	if (link->close_rc == 0) {
		link->close_rc = rc;
		link->close_reason = reason;
	}
	split_qp_close(link->qp);
}

/* ---- calls ---- */

static void
link_call_finish(struct mt_link *link, struct mt_call *call)
{
	struct wire_node_reply reply = call->reply; /* the handler may free the call */
	struct split_msg *msg = call->reply_msg;
	bool must_pass_msg = false;

	assert(call->is_sent);
	link->call_slots[call->request.request_id % link->call_slot_count] = NULL;
	list_remove(&call->link);
	link->call_count--;
	if (msg != NULL) {
		enum wire_opcode opcode = call->request.opcode;

		must_pass_msg = opcode == WIRE_EXTENT_READ || opcode == WIRE_EXTENT_LIST ||
		    opcode == WIRE_CONTROL;
		if (!must_pass_msg)
			split_msg_release(msg);
		call->reply_msg = NULL;
	}
	if (call->is_answered)
		slow_node_on_answer(link, call);
	call->fn(call, call->rc, call->is_answered ? &reply : NULL, must_pass_msg ? msg : NULL,
	    call->arg);
}

static void
link_on_sent(struct split_send *send, int rc, void *arg)
{
	struct mt_call *call = arg;

	(void)send;
	(void)rc; /* a failure means that the queue pair is closing: on_closed ends the call */
	CHECK_OBJ(call, LINK_CALL_MAGIC);
	call->is_sent = true;
	if (call->is_answered)
		link_call_finish(call->node, call);
}

static void
link_watch(struct mt_link *link, struct mt_call *call)
{
	uint64_t timeout_ns = link->port->settings->node_timeout_ns;

	call->sent_ns = loop_now_ns(link->port->loop);
	if (slow_node_counts(call))
		timeout_ns = num_min(timeout_ns, SLOW_NODE_MIN_NS);
	/* A single timer for all calls: the list is looked at when it fires. */
	if (!link->watch_timer.is_active || link->watch_timer.due_ns > call->sent_ns + timeout_ns)
		loop_timer_start(link->port->loop, &link->watch_timer, timeout_ns);
}

/* When the first call that is out has waited for too long; UINT64_MAX: none is. */
static uint64_t
link_due_ns(const struct mt_link *link)
{
	uint64_t timeout_ns = link->port->settings->node_timeout_ns;
	uint64_t due_ns = UINT64_MAX;

	/* Oldest first, so the first that is no verification, which take their time, decides. */
	for (const struct loop_link *at = link->calls.next; at != &link->calls; at = at->next) {
		const struct mt_call *call = LIST_ENTRY(at, const struct mt_call, link);

		if (call->request.opcode != WIRE_EXTENT_VERIFY)
			return num_min(due_ns, call->sent_ns + timeout_ns);
		due_ns = num_min(due_ns, call->sent_ns + LINK_VERIFY_NS);
	}
	return due_ns;
}

static void
link_on_watch(struct loop_timer *timer, void *arg)
{
	struct mt_link *link = arg;
	uint64_t now_ns = loop_now_ns(link->port->loop);
	uint64_t next_ns = link_due_ns(link);
	bool is_slow;

	CHECK_OBJ(link, LINK_MAGIC);
	if (next_ns == UINT64_MAX || link->qp == NULL || link->close_rc != 0)
		return;
	if (next_ns <= now_ns) {
		link_close(link, -ETIMEDOUT, "a call was not answered in time");
		return;
	}
	next_ns = num_min(next_ns, slow_node_judge(link, &is_slow));
	if (is_slow) {
		slow_node_punish(link);
		link_close(link, -ETIMEDOUT, "it is slow while others answer");
		return;
	}
	loop_timer_start(link->port->loop, timer, next_ns - now_ns);
}

static void
link_encode(struct mt_call *call, struct wire_header *header)
{
	if (call->request.opcode == WIRE_CONTROL)
		*header = (struct wire_header){ .opcode = WIRE_CONTROL,
			.request_id = call->request.request_id };
	else
		wire_node_encode(header, &call->request);
}

/* mt_link_call, whether the link is UP yet or not. */
static int
link_submit(struct mt_link *link, struct mt_call *call)
{
	uint8_t *header = call->host != NULL ? call->host : call->own_header;
	struct mt_call **slot;
	int rc;

	assert(call->piece_count <= NUM_COUNT(call->pieces));
	assert(call->host != NULL || call->head_bytes == 0);
	if (link->call_count == link->call_slot_count)
		return -ENOBUFS;
	do {
		slot = &link->call_slots[++link->next_request_id % link->call_slot_count];
	} while (*slot != NULL);
	call->magic = LINK_CALL_MAGIC;
	call->node = link;
	call->request.request_id = link->next_request_id;
	call->link = (struct loop_link){ NULL, NULL };
	call->reply_msg = NULL;
	call->rc = 0;
	call->is_sent = call->is_answered = false;
	link_encode(call, (struct wire_header *)(void *)header);
	call->send = (struct split_send){ .header = (struct wire_header *)(void *)header,
		.header_bytes = WIRE_HEADER_BYTES + call->head_bytes,
		.piece_count = call->piece_count,
		.pieces = call->pieces,
		.fn = link_on_sent,
		.arg = call };
	rc = split_send(link->qp, &call->send);
	assert(rc != -EINVAL && rc != -EMSGSIZE); /* our callers' shapes */
	if (rc != 0)
		return rc == -ENOBUFS ? rc : -ENOTCONN;
	*slot = call;
	list_push_back(&link->calls, &call->link);
	link->call_count++;
	link_watch(link, call);
	return 0;
}

static void link_ask_status(struct mt_link *link);

int
mt_link_call(struct mt_link *link, struct mt_call *call)
{
	CHECK_OBJ(link, LINK_MAGIC);
	assert(call->fn != NULL);
	if (!mt_link_is_up(link) || link->close_rc != 0)
		return -ENOTCONN;
	if (loop_now_ns(link->port->loop) - link->status_ns >= LINK_STATUS_NS)
		link_ask_status(link);
	return link_submit(link, call);
}

/* ---- answers ---- */

static void
link_set_read_only(struct mt_link *link, bool is_read_only)
{
	struct mt_port *port = link->port;

	if (link->is_read_only == is_read_only)
		return;
	link->is_read_only = is_read_only;
	for (uint32_t i = 0; i < port->shard_count; i++)
		mt_extent_upkeep(&port->shards[i]); /* its copies are to be elsewhere */
}

/* Keeps the estimate between two answers to "status". */
static void
link_note_space(struct mt_link *link, const struct mt_call *call)
{
	const struct wire_node *request = &call->request;

	if (request->opcode == WIRE_EXTENT_DELETE && call->rc == 0) {
		link->slots_free = num_min(link->slots_free + 1, link->slots_total);
		link->full_kinds = 0;
	}
	if (request->opcode != WIRE_EXTENT_CREATE)
		return;
	if (call->rc == 0 && link->slots_free > 0)
		link->slots_free--;
	else if (call->rc == -ENOSPC)
		link->full_kinds |= 1u
		    << ((request->flags & WIRE_FLAG_RESERVE) != 0 ? MT_PLACE_RESERVE
								  : request->kind);
	else if (call->rc == -EROFS)
		link_set_read_only(link, true);
}

/* The call that @reply answers, or NULL with what is wrong. */
static struct mt_call *
link_match(struct mt_link *link, const struct wire_node_reply *reply, const char **ret_field)
{
	struct mt_call *call = link->call_slots[reply->request_id % link->call_slot_count];

	if (call == NULL || call->request.request_id != reply->request_id || call->is_answered) {
		*ret_field = "an answer to no request";
		return NULL;
	}
	if (call->request.opcode != reply->opcode) {
		*ret_field = "an answer of another kind";
		return NULL;
	}
	if (reply->opcode == WIRE_EXTENT_READ && reply->rc == 0 &&
	    reply->length_bytes != call->request.length_bytes) {
		*ret_field = "an answer of another length";
		return NULL;
	}
	return call;
}

static int
link_decode(const struct wire_header *header, struct wire_node_reply *ret_reply,
    const char **ret_field)
{
	struct wire_control control;
	int rc;

	if ((header->opcode & ~WIRE_REPLY) != WIRE_CONTROL)
		return wire_node_reply_decode(header, ret_reply, ret_field);
	if ((header->opcode & WIRE_REPLY) == 0) {
		*ret_field = "opcode";
		return -EPROTO;
	}
	rc = wire_control_decode(header, &control, ret_field);
	if (rc != 0)
		return rc;
	*ret_reply = (struct wire_node_reply){ .opcode = WIRE_CONTROL,
		.request_id = control.request_id,
		.rc = header->status == 0 ? 0 : -EPROTO };
	return 0;
}

/* 0: the call has @msg now, or it is released; else the queue pair is to be closed. */
static int
link_on_message(struct mt_link *link, struct split_msg *msg, const char **ret_field)
{
	struct wire_node_reply reply;
	struct mt_call *call;
	int rc = link_decode(msg->header, &reply, ret_field);

	if (rc != 0)
		return rc;
	call = link_match(link, &reply, ret_field);
	if (call == NULL)
		return -EPROTO;
	call->is_answered = true;
	call->reply = reply;
	call->reply_msg = msg;
	call->rc = reply.rc;
	link_note_space(link, call);
	if (call->is_sent)
		link_call_finish(link, call);
	/* The node obeys another store since we connected: connecting again tells whether for good. */
	if (reply.rc == -ENOTUNIQ && link->close_rc == 0)
		link_close(link, -ENOTUNIQ, "it obeys another metadata store");
	return 0;
}

static void
link_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct mt_link *link = arg;

	CHECK_OBJ(link, LINK_MAGIC);
	assert(link->qp == qp);
	for (uint32_t i = 0; i < count; i++) {
		const char *field = "message";

		if (link->close_rc != 0) {
			split_msg_release(msgs[i]); /* its call is ended by on_closed */
			continue;
		}
		if (link_on_message(link, msgs[i], &field) != 0) {
			split_msg_release(msgs[i]);
			link_close(link, -EPROTO, field);
		}
	}
}

/* ---- status ---- */

/* A node that does not say knows of none. */
static void
link_take_gateways(struct mt_link *link, const json_t *object)
{
	struct reader reader = { NULL };

	link->gateway_connections = reader_u64(&reader, object, "gateway_connections", UINT64_MAX);
	reader_cut(object, "gateway_peer", link->gateway_peer, sizeof(link->gateway_peer));
	if (link->gateway_peer[0] == '\0')
		(void)snprintf(link->gateway_peer, sizeof(link->gateway_peer),
		    "an unknown address");
}

/* Reads what is needed of a node's status; it may say more. */
static int
link_status_decode(struct mt_link *link, const char *text, size_t bytes)
{
	struct reader reader = { NULL };
	json_t *object = reader_load(&reader, text, bytes);
	uint64_t total = reader_u64(&reader, object, "slots_total", WIRE_NODE_SLOTS_MAX);
	uint64_t free_count = reader_u64(&reader, object, "slots_free", total);
	uint64_t slot_bytes = reader_range(&reader, object, "slot_bytes", WIRE_NODE_SLOT_BYTES_MIN,
	    WIRE_NODE_SLOT_BYTES_MAX);

	if (reader.field == NULL) {
		link->slots_total = total;
		link->slots_free = free_count;
		link->slot_bytes = slot_bytes;
		mt_capacity_note_slot(link->port->shared, slot_bytes);
		link->full_kinds = 0;
		link_set_read_only(link, json_is_true(json_object_get(object, "read_only")));
		link_take_gateways(link, object);
	}
	json_decref(object);
	return reader.field == NULL ? 0 : -EPROTO;
}

static int
link_status_read(struct mt_link *link, struct split_msg *msg)
{
	char *text;
	int rc;

	if (msg == NULL || msg->payload_bytes == 0 ||
	    msg->payload_bytes > LINK_STATUS_REPLY_BYTES_MAX)
		return -EPROTO;
	text = mt_calloc(1, msg->payload_bytes);
	if (text == NULL)
		return -ENOMEM;
	dev_copy_to_host(link->port->split, text, msg->payload, msg->payload_bytes);
	rc = link_status_decode(link, text, msg->payload_bytes);
	mt_free(text);
	return rc;
}

static void
link_become_up(struct mt_link *link)
{
	sm_move(&link->sm, MT_LINK_UP);
	link->changed_ns = loop_now_ns(link->port->loop);
	log_info("node %u: link up address=%s slots_free=%llu slots_total=%llu%s", link->node_id,
	    link->config.address, (unsigned long long)link->slots_free,
	    (unsigned long long)link->slots_total, link->is_read_only ? " read-only" : "");
	if (link->was_up)
		metric_add(&link->port->metrics[MT_METRIC_node_reconnects], 1);
	link->was_up = true;
	link->is_refused = false;
	trouble_clear(link);
	link->backoff_ns = LINK_BACKOFF_MIN_NS;
	mt_port_on_link(link->port, link, true);
}

static void
link_on_status(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_link *link = arg;

	(void)call;
	(void)reply;
	CHECK_OBJ(link, LINK_MAGIC);
	link->is_status_asked = false;
	if (rc == 0)
		rc = link_status_read(link, msg);
	if (msg != NULL)
		split_msg_release(msg);
	if (link->qp == NULL || link->close_rc != 0)
		return;
	if (rc == 0 && link->sm.state == MT_LINK_CONNECTING)
		link_become_up(link);
	else if (rc != 0 && rc != -ENOMEM)
		link_close(link, -EPROTO, "its status cannot be understood");
	else if (rc != 0 && link->sm.state == MT_LINK_CONNECTING)
		link_close(link, rc, "no memory for its status");
}

static void
link_ask_status(struct mt_link *link)
{
	int rc;

	if (link->is_status_asked)
		return;
	link->status_ns = loop_now_ns(link->port->loop);
	link->status_call.request = (struct wire_node){ .opcode = WIRE_CONTROL };
	link->status_call.host = link->status_host;
	link->status_call.head_bytes = LINK_STATUS_TEXT_BYTES;
	link->status_call.piece_count = 0;
	link->status_call.fn = link_on_status;
	link->status_call.arg = link;
	rc = link_submit(link, &link->status_call);
	link->is_status_asked = rc == 0;
	/* Without room for one more call it is asked again with the next one. */
	if (rc != 0 && link->sm.state == MT_LINK_CONNECTING)
		link_close(link, rc, "its status cannot be asked for");
}

void
mt_link_refresh(struct mt_link *link)
{
	CHECK_OBJ(link, LINK_MAGIC);
	if (mt_link_is_up(link) && link->close_rc == 0 &&
	    loop_now_ns(link->port->loop) - link->status_ns >= LINK_REFRESH_NS)
		link_ask_status(link);
}

/* ---- connecting ---- */

/* Checks the node's hello. NULL when it is the node that we want, else what is wrong. */
static const char *
link_hello_check(struct mt_link *link, const void *bytes, uint32_t count,
    struct wire_hello *ret_hello)
{
	const char *field;

	if (wire_hello_decode(bytes, count, ret_hello, &field) != 0)
		return field;
	if (ret_hello->role != WIRE_ROLE_NODE)
		return "it is no storage node";
	if (ret_hello->cluster_id != link->port->settings->cluster_id)
		return "it belongs to another cluster";
	if (ret_hello->node_id == 0)
		return "it has no node id";
	return NULL;
}

/* The first address that a node was found at keeps it. */
static bool
link_is_duplicate(const struct mt_link *link, uint32_t node_id)
{
	struct mt_link *other = mt_port_link(link->port, node_id);

	return other != NULL && other != link;
}

static void
link_on_ready(struct split_qp *qp, const void *hello_bytes, uint32_t bytes, void *arg)
{
	struct mt_link *link = arg;
	struct wire_hello hello;
	const char *wrong;

	CHECK_OBJ(link, LINK_MAGIC);
	assert(link->qp == qp);
	assert(link->sm.state == MT_LINK_CONNECTING);
	if (link->close_rc != 0)
		return;
	wrong = link_hello_check(link, hello_bytes, bytes, &hello);
	if (wrong != NULL) {
		link_close(link, -EXDEV, wrong);
		return;
	}
	if (link_is_duplicate(link, hello.node_id)) {
		trouble_on_duplicate(link, mt_port_link(link->port, hello.node_id), hello.node_id);
		link->backoff_ns = LINK_BACKOFF_MAX_NS;
		link_close(link, -EEXIST, LINK_DUPLICATE_TEXT);
		return;
	}
	link->store = (struct store_id){ hello.session_id, hello.attach };
	if (link->node_id != 0 && link->node_id != hello.node_id)
		log_warn("node %u: another node now answers at its address address=%s node=%u",
		    link->node_id, link->config.address, hello.node_id);
	link->node_id = hello.node_id;
	link_ask_status(link);
}

static void
link_retry_later(struct mt_link *link)
{
	uint64_t delay_ns = link->backoff_ns;

	if (link->is_stopped)
		return;
	/* Half fixed, half by chance: a cluster's gateways do not knock in step. */
	delay_ns = delay_ns / 2 + loop_random_below(link->port->loop, delay_ns / 2 + 1);
	link->backoff_ns = num_min(link->backoff_ns * 2, LINK_BACKOFF_MAX_NS);
	loop_timer_start(link->port->loop, &link->retry_timer, delay_ns);
}

static void
link_finish_calls(struct mt_link *link, int rc)
{
	struct loop_link *first;

	/* The link is DOWN: no handler can add a call. */
	while ((first = list_first(&link->calls)) != NULL) {
		struct mt_call *call = LIST_ENTRY(first, struct mt_call, link);

		assert(call->is_sent); /* on_closed comes after every send's completion */
		call->rc = rc;
		link_call_finish(link, call);
	}
}

static void
link_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct mt_link *link = arg;
	bool was_up = mt_link_is_up(link);

	CHECK_OBJ(link, LINK_MAGIC);
	assert(link->qp == qp);
	link->qp = NULL;
	loop_timer_stop(link->port->loop, &link->watch_timer);
	if (link->close_rc != 0) {
		rc = link->close_rc;
		reason = link->close_reason;
	}
	sm_move(&link->sm, MT_LINK_DOWN);
	if (was_up)
		link->changed_ns = loop_now_ns(link->port->loop);
	if (rc == -ENOTUNIQ && !was_up && mt_link_store_next(link))
		link->backoff_ns = LINK_BACKOFF_MIN_NS;
	else if (rc == -ENOTUNIQ && !was_up)
		mt_link_store_refused(link);
	else
		trouble_on_closed(link, was_up, rc, reason != NULL ? reason : "");
	link_finish_calls(link, rc == -ETIMEDOUT ? -ETIMEDOUT : -ECONNRESET);
	if (was_up)
		mt_port_on_link(link->port, link, false);
	link_retry_later(link);
}

static const struct split_qp_ops link_qp_ops = {
	.on_ready = link_on_ready,
	.on_messages = link_on_messages,
	.on_closed = link_on_closed,
};

static void
link_connect(struct mt_link *link)
{
	uint8_t bytes[WIRE_HELLO_BYTES];
	struct wire_hello hello = { .role = WIRE_ROLE_GATEWAY,
		.cluster_id = link->port->settings->cluster_id };
	struct split_connect_options options = {
		.address = link->config.address,
		.hello = bytes,
		.hello_bytes = sizeof(bytes),
		.ops = &link_qp_ops,
		.arg = link,
	};

	assert(link->qp == NULL);
	mt_link_store_hello(link, &hello);
	wire_hello_encode(bytes, &hello);
	link->close_rc = 0;
	link->close_reason = NULL;
	link->qp = connect_qp(link->port->split, &options);
	if (link->qp == NULL) {
		trouble_on_closed(link, false, -errno, "connect_qp");
		link_retry_later(link);
		return;
	}
	sm_move(&link->sm, MT_LINK_CONNECTING);
}

static void
link_on_retry(struct loop_timer *timer, void *arg)
{
	(void)timer;
	link_connect(arg);
}

int
mt_link_init(struct mt_link *link, struct mt_port *port, uint32_t index,
    const struct mt_node_config *config)
{
	*link = (struct mt_link){ .port = port,
		.index = index,
		.config = *config,
		.changed_ns = loop_now_ns(port->loop),
		.backoff_ns = LINK_BACKOFF_MIN_NS };
	list_init(&link->calls);
	loop_timer_init(&link->retry_timer, link_on_retry, link);
	loop_timer_init(&link->watch_timer, link_on_watch, link);
	sm_init(&link->sm, "link", link_table, MT_LINK_DOWN, index);
	link->call_slot_count = LINK_CALLS_MAX;
	link->call_slots = mt_calloc(LINK_CALLS_MAX, sizeof(struct mt_call *));
	if (link->call_slots == NULL)
		return -ENOMEM;
	link->status_host = host_alloc(port->split, WIRE_HEADER_BYTES + LINK_STATUS_TEXT_BYTES);
	if (link->status_host == NULL) {
		mt_free(link->call_slots);
		link->call_slots = NULL;
		return -ENOMEM;
	}
	memcpy(link->status_host + WIRE_HEADER_BYTES, link_status_text, LINK_STATUS_TEXT_BYTES);
	link->magic = LINK_MAGIC;
	return 0;
}

void
mt_link_start(struct mt_link *link)
{
	CHECK_OBJ(link, LINK_MAGIC);
	assert(link->sm.state == MT_LINK_DOWN);
	link_connect(link);
}

void
mt_link_renew(struct mt_link *link)
{
	CHECK_OBJ(link, LINK_MAGIC);
	link->backoff_ns = LINK_BACKOFF_MIN_NS;
	if (link->qp != NULL)
		link_close(link, -ECANCELED, "the metadata store is a new one");
}

void
mt_link_stop(struct mt_link *link)
{
	CHECK_OBJ(link, LINK_MAGIC);
	link->is_stopped = true;
	loop_timer_stop(link->port->loop, &link->retry_timer);
	if (link->qp != NULL)
		link_close(link, -ECANCELED, "stopped");
}

void
mt_link_fini(struct mt_link *link)
{
	if (link->magic != LINK_MAGIC)
		return;
	/* Open only when the process is being killed (simulator): the port has gone before, or goes
	 * without calling anyone. */
	loop_timer_stop(link->port->loop, &link->retry_timer);
	loop_timer_stop(link->port->loop, &link->watch_timer);
	mt_free(link->call_slots); /* status_host goes with the port's arena */
	link->magic = 0;
}
