/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.h -- messages of a session, passed to who answers them */
#ifndef CLEAVE_MIDDLETIER_PORT_DISPATCH_H
#define CLEAVE_MIDDLETIER_PORT_DISPATCH_H

#include "session/session.h"

struct split_msg;
struct wire_io;

/* mt_dispatch_host -- what the sessions of every port call. */
extern const struct mt_session_host mt_dispatch_host;
/* mt_dispatch_held -- a request that throttle.c held: its time has come. It is checked as if it had come now. */
void mt_dispatch_held(struct mt_session *session, struct split_msg *msg, const struct wire_io *io);
/* mt_dispatch_shared -- likewise, of shares.c; its volume's limits have let it pass before. */
void mt_dispatch_shared(struct mt_session *session, struct split_msg *msg,
    const struct wire_io *io);

#endif /* CLEAVE_MIDDLETIER_PORT_DISPATCH_H */
