/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_usage.c -- what a volume holds: counted in the indexes of the shards that serve here (port/usage_walk.c)
 *
 * A gateway answers for its own shards, and says how many of the cluster's these are; who wants the whole
 * asks every gateway and adds up. Of a clone its own segments are counted, not its origin's.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/volume_table.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "common/port.h"
#include "control/control_change.h"
#include "control/control_request.h"
#include "control/control_usage.h"
#include "port/port_status.h"

static void
usage_on_answer(struct mt_ask *ask, void *arg)
{
	struct mt_usage sum = { 0 };
	json_int_t session_count = 0;
	char id[17];

	assert(((struct mt_control_request *)arg)->sm.state == MT_CONTROL_RUNNING);
	assert(ask->kind == MT_ASK_USAGE);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_usage *usage = &ask->legs[i].status.usage;

		session_count += ask->legs[i].status.asked_session_count;
		sum.shard_count += usage->shard_count;
		sum.chunk_count += usage->chunk_count;
		sum.layer_bytes += usage->layer_bytes;
		sum.run_bytes += usage->run_bytes;
		sum.garbage_bytes += usage->garbage_bytes;
		sum.run_count += usage->run_count;
		sum.run_count_max = (uint32_t)num_max(sum.run_count_max, usage->run_count_max);
	}
	(void)snprintf(id, sizeof(id), "%016" PRIx64, ask->gateway->options.gateway_id);
	mt_control_finish(arg,
	    json_pack("{s:s, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}}", "gateway", id,
		"usage", "shard_count", (json_int_t)sum.shard_count, "shard_total",
		(json_int_t)ask->gateway->cluster.shard_count, "session_count", session_count,
		"chunk_count", (json_int_t)sum.chunk_count, "layer_bytes",
		(json_int_t)sum.layer_bytes, "run_bytes", (json_int_t)sum.run_bytes,
		"garbage_bytes", (json_int_t)sum.garbage_bytes, "run_count",
		(json_int_t)sum.run_count, "run_count_max", (json_int_t)sum.run_count_max));
}

void
mt_control_volume_usage(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry;
	const char *name = NULL;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, CLEAVE_VOLUME_NAME_BYTES_MAX, { .text = &name } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (!mt_change_take_name(request, name, request->volume.name))
		return;
	entry = mt_volumes_by_name(&request->gateway->volumes, name);
	rc = entry == NULL ? -ENOENT
			   : mt_ask_ports(request->gateway, MT_ASK_USAGE, &entry->volume,
				 usage_on_answer, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}
