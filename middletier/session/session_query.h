/* SPDX-License-Identifier: Apache-2.0 */
/* session_query.h -- what a session asks main again: has its volume grown, may its client still */
#ifndef CLEAVE_MIDDLETIER_SESSION_SESSION_QUERY_H
#define CLEAVE_MIDDLETIER_SESSION_SESSION_QUERY_H

#include <stdbool.h>

struct mt_session;
struct wire_io;

/* mt_session_ask_right -- rights have changed: main is asked anew, and a live session that lost its own is closed, soon. */
void mt_session_ask_right(struct mt_session *session);
/* mt_session_right_later -- the session's question to main is back: is a right still to be asked for? */
void mt_session_right_later(struct mt_session *session);
/*
 * mt_session_asks_size -- a request goes beyond the volume's end: has the volume grown since this session came?
 *
 * True: that is being asked, and its client shall come again with the request. False: it has not grown.
 */
bool mt_session_asks_size(struct mt_session *session, const struct wire_io *io);
/* mt_session_audit -- a line of the log: @what has happened to the session of a client by name; on open ports none. */
void mt_session_audit(const struct mt_session *session, const char *what);
/* mt_session_log_refused -- likewise, of one that is not let in, for @rc. */
void mt_session_log_refused(const struct mt_session *session, int rc);

#endif /* CLEAVE_MIDDLETIER_SESSION_SESSION_QUERY_H */
