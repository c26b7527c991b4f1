/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_query.c -- what a session asks main again: whether its volume has grown, whether its client still may
 *
 *	port: MT_ASK_RIGHTS --> each session's question --> main: cluster/rights.h --> port: closed, if it may not any more
 *
 * Rights are asked for again on a port with a key, and with them what is logged has its client's name. A session has one
 * question to main at a time: where another one is out the right is asked for when that is back.
 */
#include "session/session_query.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/event.h"
#include "common/port.h"
#include "common/settings.h"
#include "extent/link_ticket.h"
#include "session/session.h"

static void session_send_right(struct mt_session *session);

/* ---- what is logged by a client's name ---- */

/* A line says who has come, by name: on a port with a key alone. */
void
mt_session_audit(const struct mt_session *session, const char *what)
{
	char who[SPLIT_SUBJECT_TEXT_BYTES_MAX];

	assert(session->qp != NULL);
	if (session->has_subject)
		log_limited(LOG_INFO, "audit: session %s by=%s volume=%s access=%s peer=%s", what,
		    split_subject_text(&session->subject, who), session->volume.name,
		    mt_session_is_reader(session) ? "read" : "write", split_qp_peer(session->qp));
}

void
mt_session_log_refused(const struct mt_session *session, int rc)
{
	char who[SPLIT_SUBJECT_TEXT_BYTES_MAX];

	if (session->has_subject)
		log_limited(LOG_WARN,
		    "audit: session refused by=%s volume=%" PRIu64 " peer=%s rc=%s",
		    split_subject_text(&session->subject, who), session->hello.volume_id,
		    split_qp_peer(session->qp), log_errno(rc));
	else
		log_limited(LOG_INFO, "session: refused peer=%s volume=%" PRIu64 " rc=%s",
		    split_qp_peer(session->qp), session->hello.volume_id, log_errno(rc));
}

/* ---- a right ---- */

static void
session_on_right(struct loop_post *post, void *arg)
{
	struct mt_session *session = arg;
	struct mt_port *port = session->port;
	char who[SPLIT_SUBJECT_TEXT_BYTES_MAX];
	int rc = session->query.rc;

	(void)post;
	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(session->query.is_out && session->has_subject);
	session->query.is_out = false;
	if (!mt_session_is_live(session)) {
		mt_session_try_free(session);
		return;
	}
	if (session->must_ask_right) {
		session_send_right(session); /* rights have changed again */
		return;
	}
	/* Whatever else main says is for who comes anew. */
	if ((rc != -ENOKEY && rc != -ENOENT) || MUTANT(session_kept))
		return;
	mt_event(port->shared->events, loop_now_ns(port->loop), CLEAVE_EVENT_SESSION_CUT,
	    session->volume.name,
	    "audit: session cut off, its right was taken by=%s volume=%s peer=%s",
	    split_subject_text(&session->subject, who), session->volume.name,
	    split_qp_peer(session->qp));
	/* Tickets for nodes end with the session; the next attach has that number, at least. */
	if (!mt_session_is_reader(session))
		mt_port_volume_fence(port, session->hello.volume_id, session->hello.attach + 1);
	mt_session_close(session, rc);
}

static void
session_send_right(struct mt_session *session)
{
	assert(session->has_subject && !session->query.is_out);
	session->must_ask_right = false;
	session->query.attach = session->hello.attach;
	session->query.end_bytes = 0;
	session->query.is_out = true;
	session->port->session.host->ask_volume(&session->query, session->port, session_on_right,
	    session);
}

void
mt_session_right_later(struct mt_session *session)
{
	assert(!session->query.is_out);
	if (session->must_ask_right && mt_session_is_live(session))
		session_send_right(session);
}

void
mt_session_ask_right(struct mt_session *session)
{
	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(mt_session_is_live(session) && session->hello.volume_id != 0);
	if (!session->has_subject)
		return;
	session->must_ask_right = true;
	if (!session->query.is_out)
		session_send_right(session);
}

/* ---- a volume that has grown ---- */

static void
session_on_size(struct loop_post *post, void *arg)
{
	struct mt_session *session = arg;
	const struct mt_volume *volume = &session->query.volume;

	(void)post;
	CHECK_OBJ(session, MT_SESSION_MAGIC);
	assert(session->query.is_out);
	session->query.is_out = false;
	if (session->query.rc == 0 &&
	    (mt_session_is_reader(session) || session->volume.attach == volume->attach)) {
		session->volume.size_bytes = volume->size_bytes;
		session->volume.segment_count = volume->segment_count;
		session->is_size_fresh = volume->size_bytes < session->query.end_bytes;
	}
	mt_session_right_later(session);
	mt_session_try_free(session);
}

bool
mt_session_asks_size(struct mt_session *session, const struct wire_io *io)
{
	const struct mt_volume *volume = &session->volume;

	CHECK_OBJ(session, MT_SESSION_MAGIC);
	if ((session->hello.volume_id & MT_SNAPSHOT_ID) != 0 || session->hello.volume_id == 0 ||
	    io->segment < volume->segment_base ||
	    io->segment - volume->segment_base >= MT_VOLUME_SEGMENTS)
		return false;
	if (session->is_size_fresh && !session->query.is_out) {
		session->is_size_fresh = false;
		return false;
	}
	if (session->query.is_out)
		return true;
	session->query.end_bytes = (io->segment - volume->segment_base) * CLEAVE_SEGMENT_BYTES +
	    io->offset_bytes + io->length_bytes;
	session->query.is_out = true;
	session->port->session.host->ask_volume(&session->query, session->port, session_on_size,
	    session);
	return true;
}
