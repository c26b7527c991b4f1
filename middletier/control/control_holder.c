/* SPDX-License-Identifier: Apache-2.0 */
/* control_holder.c -- the op "volume.holder": another gateway asks whether a session is still here */
#include "control/control_holder.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "cluster/ask.h"
#include "cluster/holding.h"
#include "control/control_request.h"

static void
control_on_holder(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;
	uint32_t reader_count;
	bool is_connected = mt_holder_count(ask, &reader_count);
	uint64_t silent_ns = is_connected
	    ? 0
	    : mt_holder_silent_ns(ask->gateway, ask->volume.id, ask->volume.attach);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(ask->kind == MT_ASK_SESSIONS);
	mt_control_finish(request,
	    json_pack("{s:b, s:I, s:I}", "connected", (int)is_connected, "silent_ms",
		(json_int_t)(silent_ns / NUM_MS(1)), "readers", (json_int_t)reader_count));
}

void
mt_control_volume_holder(struct mt_control_request *request)
{
	char error[MT_ERROR_BYTES];
	struct mt_volume *volume = &request->volume;
	const struct reader_member members[] = {
		{ "id", READER_U64, true, 1, INT64_MAX, { .u64 = &volume->id } },
		{ "attach", READER_U64, true, 0, INT64_MAX, { .u64 = &volume->attach } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0) {
		(void)snprintf(error, sizeof(error), "the gateway cannot answer now");
		rc = mt_ask_ports(request->gateway, MT_ASK_SESSIONS, volume, control_on_holder,
		    request);
	}
	if (rc != 0)
		mt_control_fail(request, rc, error);
}
