/* SPDX-License-Identifier: Apache-2.0 */
/* slow_request.c -- a session's request that took long is kept */
#include "session/slow_request.h"

#include <stdio.h>

#include "base/check.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/slow_op.h"
#include "session/session.h"

void
mt_slow_request(struct mt_slow_op *op, const struct mt_session *session, const struct wire_io *io,
    int rc)
{
	const struct mt_volume *volume = &session->volume;

	assert(rc <= 0 && io->segment >= volume->segment_base);
	op->at_ns = loop_now_ns(session->port->loop);
	op->opcode = io->opcode;
	op->service_class = volume->service_class;
	op->rc = rc;
	op->request_id = io->request_id;
	op->offset_bytes = (io->segment - volume->segment_base) * CLEAVE_SEGMENT_BYTES +
	    io->offset_bytes;
	op->length_bytes = io->length_bytes;
	(void)snprintf(op->volume, sizeof(op->volume), "%s", volume->name);
	mt_slow_op(session->port->shared->slow, op);
}
