/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.h -- messages of a session, passed to who answers them */
#ifndef CLEAVE_MIDDLETIER_PORT_DISPATCH_H
#define CLEAVE_MIDDLETIER_PORT_DISPATCH_H

#include "session/session.h"

/* mt_dispatch_host -- what the sessions of every port call. */
extern const struct mt_session_host mt_dispatch_host;

#endif /* CLEAVE_MIDDLETIER_PORT_DISPATCH_H */
