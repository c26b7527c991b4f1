/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h -- the answer of a request that is not done */
#ifndef CLEAVE_MIDDLETIER_SESSION_REPLY_H
#define CLEAVE_MIDDLETIER_SESSION_REPLY_H

#include <stdint.h>

#include "cleave/level.h"
#include "cleave/message.h"
#include "session/session.h"

struct split_msg;
struct wire_io;

/* mt_reply_error -- answer with a status and count it. Does not call mt_session_request_done. */
void mt_reply_error(struct mt_session *session, struct split_msg *msg, const struct wire_io *io,
    int rc, uint32_t epoch);

/* mt_reply_tag -- a reply to @session says which limits its volume has, where the client knows of that. */
static inline void
mt_reply_tag(const struct mt_session *session, struct wire_header *header)
{
	if (session->level >= CLEAVE_LEVEL_LIMITS)
		header->vm_id = session->limits_tag;
}

#endif /* CLEAVE_MIDDLETIER_SESSION_REPLY_H */
