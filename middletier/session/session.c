/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c -- a client's queue pair on a port: who may write a volume, and when (I11)
 *
 * A volume has one writing session. Its attach number, which main keeps durably, says which; within a
 * session, its incarnation says which of its queue pairs to this port is the newest. A newcomer that
 * is not older closes what is older, and is accepted only when the writes of these have finished on
 * this port: what a client gave up at this port never takes effect after something newer at this port.
 * Other ports do not know: the client sends them no write before it was admitted here again. Writes that
 * wait for a shard which does not serve yet end with their session, unmade.
 *
 *	ASKING ---------> WAITING ---------> READY ------> CLOSING --> DRAINING --> GONE
 *	main knows the    older sessions'    requests      on_closed   requests
 *	volume?           writes, leases end                           in flight end
 *	   |                 |                                            ^
 *	   +-- refused ------+--------------------------------------------+
 *
 * A hello without a volume is a control session: READY at once, and no I/O is taken from it. Every
 * wait has an end: a peer that cannot be accepted within SESSION_ACCEPT_NS is told BUSY.
 *
 * Readers, of a snapshot, or of a volume beside its writer (attach 0), are admitted as they come, and stay when
 * the volume is attached: there is nothing that one could spoil for another. What they read is what the shard's
 * owner has acknowledged, as for the writer (I7).
 *
 * A second writer is not refused here but when it attaches (control_attach.c): whoever has a newer attach number was
 * allowed to come. What main must know for that (holding.c), when a writer's queue pair was last seen, it is told here.
 *
 * A connection without a volume, or of a reader that has not read yet, gives way to others where the port runs
 * out of places or receives (split_qp_keep): anybody can have as many of those as there are places.
 *
 * On a port with a key main also judges whether the peer may have the volume (cluster/rights.h), and again when rights
 * have changed (mt_session_ask_right): who has lost its own is closed, whatever else it has under way.
 *
 * Main posts what is newer (an attach) after the answers that it gave before, and a port keeps their
 * order, so a session that asked before the attach is in the list when the attach closes it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bucket.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "catalog/volume_table.h"
#include "cleave/keyring.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/settings.h"
#include "session/rates.h"
#include "session/read_lease.h"
#include "session/session.h"
#include "session/session_hello.h"
#include "session/session_query.h"

#define SESSION_ACCEPT_NS NUM_S(4)
_Static_assert(SESSION_ACCEPT_NS >= 2 * MT_READ_LEASE_NS, "who waits for leases is not told BUSY");

enum session_state {
	SESSION_ASKING,
	SESSION_WAITING,
	SESSION_READY,
	SESSION_CLOSING,
	SESSION_DRAINING,
	SESSION_GONE,
	SESSION_STATE_NR
};

static const struct sm_state session_table[SESSION_STATE_NR] = {
	[SESSION_ASKING] = { "asking",
	    SM_TO(SESSION_WAITING) | SM_TO(SESSION_READY) | SM_TO(SESSION_DRAINING), SM_INITIAL },
	[SESSION_WAITING] = { "waiting", SM_TO(SESSION_READY) | SM_TO(SESSION_DRAINING), 0 },
	[SESSION_READY] = { "ready", SM_TO(SESSION_CLOSING) | SM_TO(SESSION_DRAINING), 0 },
	[SESSION_CLOSING] = { "closing", SM_TO(SESSION_DRAINING), 0 },
	[SESSION_DRAINING] = { "draining", SM_TO(SESSION_GONE), 0 },
	[SESSION_GONE] = { "gone", 0, SM_FINAL },
};

static void session_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count,
    void *arg);
static void session_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg);

static const struct split_qp_ops session_qp_ops = {
	.on_messages = session_on_messages,
	.on_closed = session_on_closed,
};

static struct mt_session *
session_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct mt_session, link);
}

bool
mt_session_is_live(const struct mt_session *session)
{
	return session->sm.state <= SESSION_READY;
}

bool
mt_session_may_write(const struct mt_session *session)
{
	return mt_session_is_live(session) || MUTANT(gone_admitted);
}

static bool
session_has_volume(const struct mt_session *session, uint64_t volume_id)
{
	return volume_id != 0 && session->hello.volume_id == volume_id;
}

static void
session_count_shares(struct mt_session *session, bool has_shares)
{
	assert(!session->has_shares || session->port->flow.share_sessions > 0);
	session->port->flow.share_sessions += (uint32_t)has_shares - (uint32_t)session->has_shares;
	session->has_shares = has_shares;
}

void
mt_session_try_free(struct mt_session *session)
{
	if (session->sm.state != SESSION_DRAINING || session->request_count > 0 ||
	    session->query.is_out || session->is_telling)
		return;
	sm_move(&session->sm, SESSION_GONE);
	session_count_shares(session, false);
	list_remove(&session->link);
	mt_rate_drop(session->rate);
	session->magic = 0;
	mt_free(session);
}

/* A client of a release that has no word for it comes again, as where nodes are away. */
static void
session_refuse_keyless(struct mt_session *session)
{
	log_limited(LOG_WARN,
	    "session: refused for want of a data key peer=%s volume=%" PRIu64 " why=\"%s\"",
	    split_qp_peer(session->qp), session->hello.volume_id, session->query.why);
	split_qp_refuse(session->qp,
	    session->level >= CLEAVE_LEVEL_ENCRYPTED ? -ENOMEDIUM : -EHOSTDOWN, session->query.why);
}

/* Refuse the peer of a session that was not accepted yet. @session may be freed. */
static void
session_refuse(struct mt_session *session, int rc)
{
	struct mt_port *port = session->port;

	assert(rc < 0);
	assert(session->sm.state == SESSION_ASKING || session->sm.state == SESSION_WAITING);
	mt_session_log_refused(session, rc);
	metric_add(&port->metrics[MT_METRIC_sessions_refused], 1);
	if (rc == -ENOMEDIUM)
		session_refuse_keyless(session);
	else
		split_qp_reject(session->qp, rc);
	session->qp = NULL;
	loop_timer_stop(port->loop, &session->accept_timer);
	loop_timer_stop(port->loop, &session->lease_timer);
	list_remove(&session->wait_link);
	sm_move(&session->sm, SESSION_DRAINING);
	mt_session_try_free(session);
}

void
mt_session_close(struct mt_session *session, int rc)
{
	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(rc < 0);
	if (session->sm.state == SESSION_READY) {
		mt_read_lease_left(session);
		sm_move(&session->sm, SESSION_CLOSING);
		split_qp_close(session->qp);
	} else if (mt_session_is_live(session)) {
		session_refuse(session, rc);
	}
}

/*
 * Other content is in the volume's scope now (a roll-back), or it has another size: its readers come again,
 * and read that. An attach that leaves both alone is none of their business.
 */
void
mt_session_renew(struct mt_session *session, const struct mt_volume *volume)
{
	const struct mt_volume *old = &session->volume;

	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(mt_session_is_reader(session));
	if (session->sm.state != SESSION_READY || old->size_bytes != volume->size_bytes ||
	    memcmp(&old->scope, &volume->scope, sizeof(old->scope)) != 0)
		mt_session_close(session, -EBUSY);
}

void
mt_session_set_limits(struct mt_session *session, const struct cleave_limits *limits)
{
	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(session->hello.volume_id != 0);
	session->volume.limits = *limits;
	session->limits_tag = limits_tag(limits);
	session_count_shares(session, limits_have_shares(limits));
}

void
mt_session_told(struct mt_session *session)
{
	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(session->is_telling);
	session->is_telling = false;
	mt_session_try_free(session);
}

static void
session_accept(struct mt_session *session)
{
	struct mt_port *port = session->port;
	struct wire_hello hello = {
		.level = session->level,
		.role = WIRE_ROLE_GATEWAY,
		.cluster_id = port->settings->cluster_id,
	};
	uint8_t bytes[WIRE_HELLO_BYTES];

	assert(session->qp != NULL && session->request_count == 0);
	assert(session->level != 0);
	loop_timer_stop(port->loop, &session->accept_timer);
	loop_timer_stop(port->loop, &session->lease_timer);
	list_remove(&session->wait_link);
	sm_move(&session->sm, SESSION_READY);
	metric_add(&port->metrics[MT_METRIC_sessions], 1);
	/* A writer has shown that the volume is its own. A reader does with its first request. */
	if (session->hello.volume_id != 0 && !mt_session_is_reader(session))
		split_qp_keep(session->qp);
	if (session->hello.volume_id != 0)
		mt_session_audit(session, "opened");
	wire_hello_encode(bytes, &hello);
	split_qp_accept(session->qp, &session_qp_ops, session, bytes, sizeof(bytes));
}

static bool
session_has_older_writes(const struct mt_session *session)
{
	struct loop_link *link, *next;

	assert(session->hello.volume_id != 0);
	LIST_FOREACH_SAFE(&session->port->sessions, link, next) {
		const struct mt_session *other = session_of(link);

		if (other != session && other->write_count > 0 && !MUTANT(session_drop_skipped) &&
		    session_has_volume(other, session->hello.volume_id))
			return true;
	}
	return false;
}

/* Nothing of older sessions is left here: no write, and no lease to read by (rule S). */
static bool
session_may_come(struct mt_session *session)
{
	uint64_t wait_ns = mt_read_lease_wait_ns(session);

	if (wait_ns > 0)
		loop_timer_start(session->port->loop, &session->lease_timer, wait_ns);
	return wait_ns == 0 && !session_has_older_writes(session);
}

static void
session_on_lease_timer(struct loop_timer *timer, void *arg)
{
	struct mt_session *session = arg;

	(void)timer;
	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(session->sm.state == SESSION_WAITING);
	if (session_may_come(session))
		session_accept(session);
}

/* @other writes the volume that @session writes. */
static bool
session_is_rival(const struct mt_session *other, const struct mt_session *session)
{
	return session_has_volume(other, session->hello.volume_id) && !mt_session_is_reader(other);
}

/* A live session of the same volume that @session must not replace. */
static bool
session_is_newer(const struct mt_session *other, const struct mt_session *session)
{
	assert(other != session);
	if (other->hello.attach != session->hello.attach)
		return other->hello.attach > session->hello.attach;
	return other->hello.incarnation >= session->hello.incarnation;
}

/* The volume knows @session's attach: put it in the place of older ones, or refuse it. */
static void
session_admit(struct mt_session *session)
{
	struct mt_port *port = session->port;
	struct loop_link *link, *next;

	assert(session->sm.state == SESSION_ASKING);
	assert(!mt_session_is_reader(session));
	LIST_FOREACH_SAFE(&port->sessions, link, next) {
		const struct mt_session *other = session_of(link);

		if (other != session && session_is_rival(other, session) &&
		    mt_session_is_live(other) && session_is_newer(other, session)) {
			session_refuse(session, -ESHUTDOWN);
			return;
		}
	}
	LIST_FOREACH_SAFE(&port->sessions, link, next) {
		struct mt_session *other = session_of(link);

		if (other != session && session_is_rival(other, session))
			mt_session_close(other, -ESHUTDOWN);
	}
	if (session_may_come(session)) {
		session_accept(session);
		return;
	}
	sm_move(&session->sm, SESSION_WAITING);
	list_push_back(&port->session.waiting, &session->wait_link);
}

static int
session_check_attach(const struct mt_session *session)
{
	const struct mt_volume *volume = &session->volume;

	/* An attach that main does not know yet cannot be newer: the store lost it. Attach again. */
	if (mt_session_is_reader(session) || MUTANT(attach_ignored))
		return 0;
	if (session->hello.attach != volume->attach || volume->attach == 0)
		return -ESHUTDOWN;
	/* 0: nobody's, since it was closed, or changed by no session. */
	return session->hello.session_id == volume->session_id && volume->session_id != 0
	    ? 0
	    : -ESHUTDOWN;
}

static void
session_on_answer(struct loop_post *post, void *arg)
{
	struct mt_session *session = arg;
	int rc = session->query.rc;

	(void)post;
	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(session->query.is_out);
	session->query.is_out = false;
	if (session->sm.state != SESSION_ASKING) {
		mt_session_try_free(session);
		return;
	}
	if (rc == 0) {
		session->volume = session->query.volume;
		mt_session_set_limits(session, &session->query.volume.limits);
		rc = session_check_attach(session);
		/* Main has posted it; the port may have had no memory for it. */
		if (rc == 0 && session->volume.key_id != 0 &&
		    !keyring_has(session->port->keys, session->volume.key_id)) {
			(void)snprintf(session->query.why, sizeof(session->query.why),
			    "the port has no memory for the volume's data key");
			rc = -ENOMEDIUM;
		}
	}
	if (rc == 0 && session->port->sm.state >= MT_PORT_STOPPING)
		rc = -EBUSY;
	if (rc != 0) {
		session_refuse(session, rc);
		return;
	}
	session->rate =
	    mt_rate_hold(session->port, session->volume.name, loop_now_ns(session->port->loop));
	mt_session_right_later(session);
	if (mt_session_is_reader(session))
		session_accept(session); /* there are as many as want to */
	else
		session_admit(session);
}

static void
session_on_accept_timer(struct loop_timer *timer, void *arg)
{
	struct mt_session *session = arg;

	(void)timer;
	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(session->qp != NULL);
	session_refuse(session, -EBUSY);
}

void
mt_session_on_accept(struct split_qp *qp, const void *hello_data, uint32_t hello_bytes, void *arg)
{
	struct mt_port *port = arg;
	struct mt_session *session;
	struct wire_hello hello;
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	const char *field = "memory";
	int rc;

	rc = wire_hello_decode(hello_data, hello_bytes, &hello, &field);
	if (rc == 0)
		rc = mt_session_check_hello(port, &hello, &field);
	if (rc == 0 && (rc = mt_session_check_subject(split_qp_subject(qp), &hello, why)) != 0)
		field = why;
	if (rc != 0)
		goto err;
	session = mt_calloc(1, sizeof(*session));
	if (session == NULL) {
		rc = -ENOMEM;
		goto err;
	}
	session->magic = MT_SESSION_MAGIC;
	session->port = port;
	session->qp = qp;
	session->hello = hello;
	if (split_qp_subject(qp) != NULL) {
		session->has_subject = true;
		session->subject = *split_qp_subject(qp);
	}
	session->level = wire_level_answer(hello.level, port->settings->level_max);
	sm_init(&session->sm, "session", session_table, SESSION_ASKING, port->session.next_id++);
	list_push_back(&port->sessions, &session->link);
	loop_timer_init(&session->accept_timer, session_on_accept_timer, session);
	loop_timer_init(&session->lease_timer, session_on_lease_timer, session);
	if (hello.volume_id == 0) {
		session_accept(session);
		return;
	}
	loop_timer_start(port->loop, &session->accept_timer, SESSION_ACCEPT_NS);
	session->query.volume_id = hello.volume_id;
	session->query.attach = hello.attach;
	session->query.subject = session->has_subject ? &session->subject : NULL;
	session->query.is_write = !mt_session_is_reader(session);
	session->query.is_out = true;
	port->session.host->ask_volume(&session->query, port, session_on_answer, session);
	return;

err:
	log_limited(LOG_WARN, "session: hello refused peer=%s field=\"%s\" rc=%s",
	    split_qp_peer(qp), field, log_errno(rc));
	metric_add(&port->metrics[MT_METRIC_sessions_refused], 1);
	split_qp_refuse(qp, rc, rc == -EKEYREJECTED ? why : NULL);
}

static void
session_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct mt_session *session = arg;

	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(session->qp == qp && session->sm.state >= SESSION_READY);
	session->port->session.host->on_messages(session, msgs, count);
}

static void
session_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct mt_session *session = arg;

	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(session->qp == qp);
	/* A peer that closes or dies is nothing to warn about; one that breaks the protocol is. */
	if (rc == -EPROTO || rc == -EPROTONOSUPPORT)
		log_limited(LOG_WARN, "session: closed peer=%s reason=\"%s\"", split_qp_peer(qp),
		    reason == NULL ? "" : reason);
	else
		log_debug("session: closed peer=%s volume=%" PRIu64 " rc=%s", split_qp_peer(qp),
		    session->hello.volume_id, log_errno(rc));
	session->qp = NULL;
	session->port->session.host->on_left(session);
	mt_read_lease_left(session);
	sm_move(&session->sm, SESSION_DRAINING);
	mt_session_try_free(session);
}

void
mt_session_begin(struct mt_session *session, bool is_write)
{
	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(session->sm.state >= SESSION_READY && session->sm.state < SESSION_GONE);
	assert(!is_write || session->hello.volume_id != 0);
	session->request_count++;
	mt_port_flow_begin(session->port, is_write);
	if (is_write) {
		session->write_count++;
		session->port->write_count++;
	} else
		session->port->flow.read_count++;
}

/*
 * The last write of an older session has ended: whoever waited for it may come in. Asked after each write
 * of a session that has one at a time: those that do not wait are not looked at.
 */
static void
session_wake(struct mt_port *port, uint64_t volume_id)
{
	struct loop_link *link, *next;

	assert(volume_id != 0);
	LIST_FOREACH_SAFE(&port->session.waiting, link, next) {
		struct mt_session *session = LIST_ENTRY(link, struct mt_session, wait_link);

		assert(session->sm.state == SESSION_WAITING);
		if (session_has_volume(session, volume_id) && session_may_come(session))
			session_accept(session);
	}
}

void
mt_session_request_done(struct mt_session *session, bool is_write)
{
	struct mt_port *port = session->port;

	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(session->request_count > 0);
	session->request_count--;
	mt_port_flow_end(port, is_write);
	if (port->flow.waiting != NULL)
		loop_defer(port->loop, port->flow.waiting);
	if (is_write) {
		assert(session->write_count > 0);
		session->write_count--;
		port->write_count--;
		if (session->write_count == 0)
			session_wake(port, session->hello.volume_id);
	} else {
		assert(port->flow.read_count > 0);
		port->flow.read_count--;
	}
	mt_session_try_free(session);
}

void
mt_sessions_init(struct mt_port *port, const struct mt_session_host *host)
{
	assert(host != NULL);
	list_init(&port->sessions);
	list_init(&port->session.waiting);
	port->session.host = host;
	port->session.next_id = 0;
	mt_rates_init(port);
}

void
mt_session_fini_all(struct mt_port *port)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&port->sessions, link, next) {
		struct mt_session *session = session_of(link);

		CHECK_OBJ(session, MT_SESSION_MAGIC);
		loop_timer_stop(port->loop, &session->accept_timer);
		loop_timer_stop(port->loop, &session->lease_timer);
		list_remove(&session->link);
		list_remove(&session->wait_link);
		port->write_count -= session->write_count;
		port->flow.read_count -= session->request_count - session->write_count;
		session_count_shares(session, false);
		mt_free(session);
	}
	mt_rates_fini(port);
}
