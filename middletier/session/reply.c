/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c -- the answer of a request that is not done */
#include "session/reply.h"

#include "base/check.h"
#include "base/metrics.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/metric.h"
#include "common/port.h"
#include "session/session.h"

void
mt_reply_error(struct mt_session *session, struct split_msg *msg, const struct wire_io *io, int rc,
    uint32_t epoch)
{
	struct wire_header header;

	assert(rc < 0);
	metric_add(&session->port->metrics[MT_METRIC_requests_refused], 1);
	wire_io_reply(&header, io, rc, 0, epoch);
	mt_reply_tag(session, &header);
	split_msg_reply(msg, &header, NULL, 0, NULL, NULL);
}
