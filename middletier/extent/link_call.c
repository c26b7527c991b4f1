/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_call.c -- see link_call.h
 *
 * A call is in `calls`, oldest first, and in a slot under request_id modulo their number, from mt_link_submit to
 * its handler. Request ids only grow, so an answer to a call that is gone finds nothing and is a protocol error.
 * The handler runs once the send has completed *and* the answer is here or the queue pair is gone: a call that
 * takes too long closes the queue pair, and never frees a buffer that the transport may still read.
 */
#include "extent/link_call.h"

#include <errno.h>
#include <inttypes.h>

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
#include "common/shard.h"
#include "extent/extent_copies.h"
#include "extent/failing_node.h"
#include "extent/node_link.h"
#include "extent/placement.h"
#include "extent/slow_node.h"

#define LINK_CALL_MAGIC 0x4c4c4143u /* "CALL" */
#define LINK_CALLS_MAX 1024u        /* of a link, out at a time */
#define LINK_VERIFY_NS NUM_S(1200)  /* a node reads a whole copy, behind everybody else */

void
mt_link_close(struct mt_link *link, int rc, const char *reason)
{
	assert(link->qp != NULL);
	assert(rc < 0);
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
	assert(link->call_count > 0);
	assert(link->slots.calls[call->request.request_id % link->slots.count] == call);
	link->slots.calls[call->request.request_id % link->slots.count] = NULL;
	list_remove(&call->link);
	link->call_count--;
	if (msg != NULL) {
		enum wire_opcode opcode = call->request.opcode;

		must_pass_msg = opcode == WIRE_EXTENT_READ || opcode == WIRE_EXTENT_FIND ||
		    opcode == WIRE_EXTENT_GATHER || opcode == WIRE_EXTENT_LIST ||
		    opcode == WIRE_TICKET_KEY || opcode == WIRE_CONTROL;
		if (!must_pass_msg)
			split_msg_release(msg);
		call->reply_msg = NULL;
	}
	if (call->is_answered)
		mt_slow_node_on_answer(link, call);
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
	assert(!call->is_sent);
	call->is_sent = true;
	if (call->is_answered)
		link_call_finish(call->node, call);
}

static void
link_watch(struct mt_link *link, struct mt_call *call)
{
	uint64_t timeout_ns = link->port->settings->node_timeout_ns;

	call->sent_ns = loop_now_ns(link->port->loop);
	if (mt_slow_node_counts(call))
		timeout_ns = num_min(timeout_ns, SLOW_NODE_MIN_NS);
	/* A single timer for all calls: the list is looked at when it fires. */
	if (!link->slots.watch_timer.is_active ||
	    link->slots.watch_timer.due_ns > call->sent_ns + timeout_ns)
		loop_timer_start(link->port->loop, &link->slots.watch_timer, timeout_ns);
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
	assert(timer == &link->slots.watch_timer);
	if (next_ns == UINT64_MAX || link->qp == NULL || link->close_rc != 0)
		return;
	if (next_ns <= now_ns) {
		mt_link_close(link, -ETIMEDOUT, "a call was not answered in time");
		return;
	}
	next_ns = num_min(next_ns, mt_slow_node_judge(link, &is_slow));
	if (is_slow) {
		mt_slow_node_punish(link);
		mt_link_close(link, -ETIMEDOUT, "it is slow while others answer");
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

int
mt_link_submit(struct mt_link *link, struct mt_call *call)
{
	uint8_t *header = call->host != NULL ? call->host : call->own_header;
	struct mt_call **slot;
	int rc;

	assert(call->piece_count <= NUM_COUNT(call->pieces));
	assert(call->host != NULL || call->head_bytes == 0);
	assert(link->qp != NULL);
	if (link->call_count == link->slots.count)
		return -ENOBUFS;
	do {
		slot = &link->slots.calls[++link->slots.next_request_id % link->slots.count];
	} while (*slot != NULL);
	call->magic = LINK_CALL_MAGIC;
	call->node = link;
	call->request.request_id = link->slots.next_request_id;
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

/* ---- answers ---- */

void
mt_link_set_read_only(struct mt_link *link, bool is_read_only)
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

	assert(call->is_answered);
	if (request->opcode == WIRE_EXTENT_DELETE && call->rc == 0) {
		link->slots_free = num_min(link->slots_free + 1, link->slots_total);
		link->full_kinds = 0;
	}
	if (request->opcode != WIRE_EXTENT_CREATE)
		return;
	if (call->rc == 0 && link->slots_free > 0)
		link->slots_free--;
	else if (call->rc == -ENOSPC)
		link->full_kinds |= 1u << mt_placement_kind(request);
	else if (call->rc == -EROFS)
		mt_link_set_read_only(link, true);
}

/*
 * A node that knows our key says that another gateway has come with our epoch (storage-node/claim.c). The store gives an
 * epoch once, so that one has none of its own; ours is of no use there any more. Returns what a fence would be answered
 * with: the shard stops, and is taken over with a higher one.
 */
static int
link_on_other_owner(const struct mt_link *link, const struct mt_call *call)
{
	log_limited(LOG_ERROR,
	    "node %" PRIu32 ": says that another gateway has a shard's epoch shard=%" PRIu32
	    " epoch=%" PRIu32
	    " address=%s: the node's log has its name; is its key where it should be?",
	    link->node_id, call->request.id.shard, call->request.epoch, link->config.address);
	return -ESTALE;
}

/* The call that @reply answers, or NULL with what is wrong. */
static struct mt_call *
link_match(struct mt_link *link, const struct wire_node_reply *reply, const char **ret_field)
{
	struct mt_call *call = link->slots.calls[reply->request_id % link->slots.count];

	if (call == NULL || call->request.request_id != reply->request_id || call->is_answered) {
		*ret_field = "an answer to no request";
		return NULL;
	}
	if (call->request.opcode != reply->opcode) {
		*ret_field = "an answer of another kind";
		return NULL;
	}
	if (reply->rc == 0 &&
	    (((reply->opcode == WIRE_EXTENT_READ || reply->opcode == WIRE_EXTENT_GATHER) &&
		 reply->length_bytes != call->request.length_bytes) ||
		(reply->opcode == WIRE_EXTENT_FIND &&
		    reply->length_bytes < call->request.length_bytes))) {
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

int
mt_link_on_message(struct mt_link *link, struct split_msg *msg, const char **ret_field)
{
	struct wire_node_reply reply;
	struct mt_call *call;
	int rc = link_decode(msg->header, &reply, ret_field);

	assert(link->close_rc == 0);
	if (rc != 0)
		return rc;
	call = link_match(link, &reply, ret_field);
	if (call == NULL)
		return -EPROTO;
	if (reply.rc == -ENOKEY)
		reply.rc = link_on_other_owner(link, call);
	link->heard_ns = loop_now_ns(link->port->loop);
	call->is_answered = true;
	call->reply = reply;
	call->reply_msg = msg;
	call->rc = reply.rc;
	link_note_space(link, call);
	mt_failing_node_on_answer(link, call);
	if (call->is_sent)
		link_call_finish(link, call);
	/* The node obeys another store since we connected: connecting again tells whether for good. */
	if (reply.rc == -ENOTUNIQ && link->close_rc == 0)
		mt_link_close(link, -ENOTUNIQ, "it obeys another metadata store");
	return 0;
}

void
mt_link_calls_finish(struct mt_link *link, int rc)
{
	struct loop_link *first;

	assert(rc < 0);
	assert(link->sm.state == MT_LINK_DOWN);
	/* The link is DOWN: no handler can add a call. */
	while ((first = list_first(&link->calls)) != NULL) {
		struct mt_call *call = LIST_ENTRY(first, struct mt_call, link);

		assert(call->is_sent); /* on_closed comes after every send's completion */
		call->rc = rc;
		link_call_finish(link, call);
	}
}

/* ---- its part of the link's life ---- */

int
mt_link_calls_init(struct mt_link *link)
{
	struct link_slots *slots = &link->slots;

	assert(slots->calls == NULL);
	list_init(&link->calls);
	loop_timer_init(&slots->watch_timer, link_on_watch, link);
	slots->calls = mt_calloc(LINK_CALLS_MAX, sizeof(struct mt_call *));
	if (slots->calls == NULL)
		return -ENOMEM;
	slots->count = LINK_CALLS_MAX;
	return 0;
}

void
mt_link_calls_pause(struct mt_link *link)
{
	loop_timer_stop(link->port->loop, &link->slots.watch_timer);
}

void
mt_link_calls_fini(struct mt_link *link)
{
	mt_link_calls_pause(link);
	mt_free(link->slots.calls);
	link->slots.calls = NULL;
	link->slots.count = 0;
}
