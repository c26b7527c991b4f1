/* SPDX-License-Identifier: Apache-2.0 */
/* slow_request.h -- a session's request that took long is kept */
#ifndef CLEAVE_MIDDLETIER_SESSION_SLOW_REQUEST_H
#define CLEAVE_MIDDLETIER_SESSION_SLOW_REQUEST_H

struct mt_session;
struct mt_slow_op;
struct wire_io;

/* mt_slow_request -- @io of @session ends with @rc; @op has its times and nodes already, the rest is filled in. */
void mt_slow_request(struct mt_slow_op *op, const struct mt_session *session,
    const struct wire_io *io, int rc);

#endif /* CLEAVE_MIDDLETIER_SESSION_SLOW_REQUEST_H */
