/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_holder.c -- the op "volume.holder": another gateway asks whether a session is still here
 *
 * An attach number that not every port here knows yet is read first: whoever asked may rely on it that nothing is taken
 * here any more from sessions that are older.
 */
#include "control/control_holder.h"

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/volume_table.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/holding.h"
#include "cluster/volume_refresh.h"
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

static void
holder_ask_ports(struct mt_control_request *request)
{
	int rc = mt_ask_ports(request->gateway, MT_ASK_SESSIONS, &request->volume,
	    control_on_holder, request);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}

static void
holder_on_read(int rc, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == -ECANCELED)
		return; /* the port goes, and takes its slots along */
	if (rc == 0)
		holder_ask_ports(request);
	else
		mt_control_fail(request, rc, MT_CONTROL_NO_STORE);
}

static bool
holder_is_known(const struct mt_control_request *request)
{
	const struct mt_volume_entry *entry =
	    mt_volumes_by_id(&request->gateway->volumes, request->volume.id);

	assert(request->volume.id != 0);
	/* Tables are replaced first, then one port-wide word follows the other. */
	return MUTANT(attach_untold) ||
	    (entry != NULL && entry->told_attach >= request->volume.attach) ||
	    (MUTANT(holder_untold) && entry != NULL &&
		entry->volume.attach >= request->volume.attach);
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
	if (rc != 0) {
		mt_control_fail(request, rc, error);
	} else if (holder_is_known(request)) {
		holder_ask_ports(request);
	} else {
		request->waiter =
		    (struct mt_volumes_waiter){ .fn = holder_on_read, .arg = request };
		mt_volumes_refresh(request->gateway, &request->waiter);
	}
}
