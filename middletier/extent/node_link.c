/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_link.c -- one queue pair from a port to a storage node: connected, up, lost, connected again
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
 * The calls on it are link_call.c's, the question for its status link_status.c's.
 *
 * One line is logged a change, not an attempt.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/reader.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/event.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/port_events.h"
#include "common/settings.h"
#include "extent/link_call.h"
#include "extent/link_life.h"
#include "extent/link_revoked.h"
#include "extent/link_status.h"
#include "extent/link_store.h"
#include "extent/link_ticket.h"
#include "extent/node_link.h"
#include "extent/node_trouble.h"

#define LINK_BACKOFF_MIN_NS NUM_MS(100)
#define LINK_BACKOFF_MAX_NS NUM_S(5)
#define LINK_STATUS_NS NUM_S(10) /* so old, a status is asked for again with the next call */
#define LINK_REFRESH_NS NUM_S(1) /* the same, where somebody wants to know */
#define LINK_DUPLICATE_TEXT "its node id is taken"
#define LINK_OLD_TEXT                                                                              \
	"its release is too old since the cluster was upgraded: install the gateways' release on it"

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

bool
mt_port_has_left(const struct mt_port *port, uint32_t node_id)
{
	assert(node_id != 0 && port->left_count <= MT_NODE_KEYS_MAX);
	for (uint32_t i = 0; i < port->left_count; i++) {
		if (port->left_ids[i] == node_id)
			return true;
	}
	return false;
}

int
mt_link_call(struct mt_link *link, struct mt_call *call)
{
	CHECK_OBJ(link, LINK_MAGIC);
	assert(call->fn != NULL);
	if (!mt_link_is_up(link) || link->close_rc != 0)
		return -ENOTCONN;
	if (loop_now_ns(link->port->loop) - link->status.asked_ns >= LINK_STATUS_NS)
		mt_link_status_ask(link);
	return mt_link_submit(link, call);
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
		if (mt_link_on_message(link, msgs[i], &field) != 0) {
			split_msg_release(msgs[i]);
			mt_link_close(link, -EPROTO, field);
		}
	}
}

void
mt_link_refresh(struct mt_link *link)
{
	CHECK_OBJ(link, LINK_MAGIC);
	if (mt_link_is_up(link) && link->close_rc == 0 &&
	    loop_now_ns(link->port->loop) - link->status.asked_ns >= LINK_REFRESH_NS)
		mt_link_status_ask(link);
}

/* ---- connecting ---- */

static void
link_become_up(struct mt_link *link)
{
	assert(link->node_id != 0);
	assert(link->slots_free <= link->slots_total);
	sm_move(&link->sm, MT_LINK_UP);
	link->changed_ns = loop_now_ns(link->port->loop);
	mt_event_of(link->port->shared->events, link->changed_ns, CLEAVE_EVENT_NODE_UP, "node",
	    link->node_id, "node %u: link up address=%s slots_free=%llu slots_total=%llu%s",
	    link->node_id, link->config.address, (unsigned long long)link->slots_free,
	    (unsigned long long)link->slots_total, link->is_read_only ? " read-only" : "");
	if (link->config.disk[0] != '\0' && link->disk[0] != '\0' &&
	    strcmp(link->config.disk, link->disk) != 0)
		log_warn(
		    "node %u: its disk is another one than before address=%s disk=%s before=%s",
		    link->node_id, link->config.address, link->disk, link->config.disk);
	if (link->life->was_up)
		metric_add(&link->port->metrics[MT_METRIC_node_reconnects], 1);
	link->life->was_up = true;
	link->life->is_refused = false;
	mt_trouble_clear(link);
	link->life->backoff_ns = LINK_BACKOFF_MIN_NS;
	mt_port_on_link(link->port, link, true);
}

/* The node's status has come, or not: @rc. */
static void
link_on_status(struct mt_link *link, int rc)
{
	CHECK_OBJ(link, LINK_MAGIC);
	assert(link->qp != NULL);
	if (rc == 0) {
		if (link->sm.state == MT_LINK_CONNECTING)
			link_become_up(link);
		mt_link_revoked_send(link);
		mt_link_ticket_ask(link);
	} else if (rc != -ENOMEM)
		mt_link_close(link, -EPROTO, "its status cannot be understood");
	else if (link->sm.state == MT_LINK_CONNECTING)
		mt_link_close(link, rc, "no memory for its status");
}

/* Checks the node's hello. NULL when it is the node that we want, else what is wrong. */
static const char *
link_hello_check(struct mt_link *link, const void *bytes, uint32_t count,
    struct wire_hello *ret_hello)
{
	const struct split_subject *subject = split_qp_subject(link->qp);
	const char *field;

	if (wire_hello_decode(bytes, count, ret_hello, &field) != 0)
		return field;
	if (ret_hello->role != WIRE_ROLE_NODE)
		return "it is no storage node";
	if (ret_hello->cluster_id != link->port->settings->cluster_id)
		return "it belongs to another cluster";
	if (ret_hello->node_id == 0)
		return "it has no node id";
	if (subject != NULL && split_subject_number(subject) != ret_hello->node_id &&
	    !MUTANT(number_ignored))
		return "its key is of another node than it says that it is";
	if (link->config.node_id != 0 && link->config.node_id != ret_hello->node_id)
		return "another node answers there: if nodes have other addresses now, cleave node set ID --address";
	if (wire_level_agreed(&link->life->level, ret_hello->level) == 0)
		return "it answers with a level that was not offered";
	return NULL;
}

/* Level 1 is refused by the node itself (VERSION), all others by us. */
static uint32_t
link_level_least(const struct mt_link *link)
{
	return atomic_load_explicit(&link->port->shared->cluster_level, memory_order_relaxed);
}

/* The first address that a node was found at keeps it. */
static bool
link_is_duplicate(const struct mt_link *link, uint32_t node_id)
{
	struct mt_link *other = mt_port_link(link->port, node_id);

	assert(node_id != 0);
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
		mt_link_close(link, -EXDEV, wrong);
		return;
	}
	if (hello.level < link_level_least(link)) {
		mt_link_close(link, -EPROTONOSUPPORT, LINK_OLD_TEXT);
		return;
	}
	if (link_is_duplicate(link, hello.node_id)) {
		mt_trouble_on_duplicate(link, mt_port_link(link->port, hello.node_id),
		    hello.node_id);
		link->life->backoff_ns = LINK_BACKOFF_MAX_NS;
		mt_link_close(link, -EEXIST, LINK_DUPLICATE_TEXT);
		return;
	}
	link->agreed_level = wire_level_agreed(&link->life->level, hello.level);
	link->store = (struct store_id){ hello.session_id, hello.attach };
	if (link->node_id != 0 && link->node_id != hello.node_id)
		log_warn("node %u: another node now answers at its address address=%s node=%u",
		    link->node_id, link->config.address, hello.node_id);
	link->node_id = hello.node_id;
	mt_link_status_ask(link);
}

static void
link_retry_later(struct mt_link *link)
{
	struct mt_link_life *life = link->life;
	uint64_t delay_ns = life->backoff_ns;

	assert(link->qp == NULL);
	assert(life->backoff_ns >= LINK_BACKOFF_MIN_NS);
	if (life->is_stopped)
		return;
	/* Half fixed, half by chance: a cluster's gateways do not knock in step. */
	delay_ns = delay_ns / 2 + loop_random_below(link->port->loop, delay_ns / 2 + 1);
	life->backoff_ns = num_min(life->backoff_ns * 2, LINK_BACKOFF_MAX_NS);
	loop_timer_start(link->port->loop, &life->retry_timer, delay_ns);
}

/* The lowest level would not do any more; and it may have been offered since the node was old before. */
static void
link_on_old(struct mt_link *link)
{
	wire_level_forget(&link->life->level);
	mt_trouble_on_closed(link, false, -EPROTONOSUPPORT, LINK_OLD_TEXT);
}

static void
link_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct mt_link *link = arg;
	struct mt_link_life *life = link->life;
	bool was_up = mt_link_is_up(link);

	CHECK_OBJ(link, LINK_MAGIC);
	assert(link->qp == qp);
	assert(link->sm.state != MT_LINK_DOWN);
	link->qp = NULL;
	mt_link_calls_pause(link);
	mt_link_revoked_lost(link);
	mt_link_ticket_lost(link);
	if (link->close_rc != 0) {
		rc = link->close_rc;
		reason = link->close_reason;
	}
	sm_move(&link->sm, MT_LINK_DOWN);
	if (was_up) {
		link->changed_ns = loop_now_ns(link->port->loop);
		wire_level_forget(
		    &life->level); /* its process may be a newer one when it is back */
	}
	if (rc == -ENOTUNIQ && !was_up && mt_link_store_next(link))
		life->backoff_ns = LINK_BACKOFF_MIN_NS;
	else if (rc == -ENOTUNIQ && !was_up)
		mt_link_store_refused(link);
	else if (rc == -EPROTONOSUPPORT && !was_up && link_level_least(link) > CLEAVE_LEVEL_MIN)
		link_on_old(link);
	else if (!was_up && wire_level_refused(&life->level, rc, loop_now_ns(link->port->loop)))
		life->backoff_ns = LINK_BACKOFF_MIN_NS;
	else
		mt_trouble_on_closed(link, was_up, rc, reason != NULL ? reason : "");
	mt_link_calls_finish(link, rc == -ETIMEDOUT ? -ETIMEDOUT : -ECONNRESET);
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
	struct wire_hello hello = { .level = wire_level_offer(&link->life->level,
					loop_now_ns(link->port->loop)),
		.role = WIRE_ROLE_GATEWAY,
		.cluster_id = link->port->settings->cluster_id };
	struct split_connect_options options = {
		.address = link->config.address,
		.hello = bytes,
		.hello_bytes = sizeof(bytes),
		.ops = &link_qp_ops,
		.arg = link,
		.peer_roles = SPLIT_ROLE_NODE,
	};

	assert(link->qp == NULL);
	mt_link_store_hello(link, &hello);
	wire_hello_encode(bytes, &hello);
	link->close_rc = 0;
	link->close_reason = NULL;
	link->qp = connect_qp(link->port->split, &options);
	if (link->qp == NULL) {
		mt_trouble_on_closed(link, false, -errno, "connect_qp");
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
	int rc;

	*link = (struct mt_link){ .port = port,
		.index = index,
		.config = *config,
		.node_id = config->node_id,
		.changed_ns = loop_now_ns(port->loop),
		.life = mt_calloc(1, sizeof(*link->life)) };
	if (link->life == NULL)
		return -ENOMEM;
	link->life->backoff_ns = LINK_BACKOFF_MIN_NS;
	wire_level_init(&link->life->level, port->settings->level_max);
	loop_timer_init(&link->life->retry_timer, link_on_retry, link);
	sm_init(&link->sm, "link", link_table, MT_LINK_DOWN, index);
	link->magic = LINK_MAGIC;
	rc = mt_link_calls_init(link);
	if (rc == 0)
		rc = mt_link_status_init(link, link_on_status);
	if (rc != 0)
		mt_link_fini(link);
	return rc;
}

void
mt_link_start(struct mt_link *link)
{
	CHECK_OBJ(link, LINK_MAGIC);
	assert(link->sm.state == MT_LINK_DOWN);
	assert(!link->life->is_stopped);
	link_connect(link);
}

void
mt_link_renew(struct mt_link *link, const char *reason)
{
	CHECK_OBJ(link, LINK_MAGIC);
	link->life->backoff_ns = LINK_BACKOFF_MIN_NS;
	if (link->qp != NULL && link->close_rc == 0)
		mt_link_close(link, -ECANCELED, reason);
}

void
mt_link_configure(struct mt_link *link, const struct mt_node_config *config)
{
	bool is_moved = strcmp(link->config.address, config->address) != 0;

	CHECK_OBJ(link, LINK_MAGIC);
	assert(!mt_link_is_gone(link) || mt_node_is_gone(config));
	link->config = *config;
	if (mt_link_is_gone(link)) {
		if (!link->life->is_stopped)
			mt_link_stop(link);
		return;
	}
	if (link->node_id == 0)
		link->node_id = config->node_id;
	if (is_moved)
		mt_link_renew(link, "its address has changed");
	else if (config->node_id != 0 && link->node_id != config->node_id)
		mt_link_renew(link, "the cluster knows another node id for its address");
}

void
mt_link_stop(struct mt_link *link)
{
	CHECK_OBJ(link, LINK_MAGIC);
	link->life->is_stopped = true;
	loop_timer_stop(link->port->loop, &link->life->retry_timer);
	if (link->qp != NULL)
		mt_link_close(link, -ECANCELED, "stopped");
}

void
mt_link_fini(struct mt_link *link)
{
	if (link->magic != LINK_MAGIC)
		return;
	/* Open only when the process is being killed (simulator): the port has gone before, or goes
	 * without calling anyone. */
	loop_timer_stop(link->port->loop, &link->life->retry_timer);
	mt_link_calls_fini(link);
	mt_link_ticket_fini(link);
	mt_free(link->life);
	link->life = NULL;
	link->magic = 0;
}
