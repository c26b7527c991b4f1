/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_usage.c -- what a volume holds: counted in the indexes of the shards that serve here (port/usage_walk.c)
 *
 * A gateway answers for its own shards, and says how many of the cluster's these are; who wants the whole
 * asks every gateway and adds up. Of a clone its own segments are counted, not its origin's.
 *
 *	{"gateway":ID,"usage":{"shard_count":N,"shard_total":N,"session_count":N,"chunk_count":N,"layer_bytes":N,
 *	    "run_bytes":N,"garbage_bytes":N,"run_count":N,"run_count_max":N,
 *	    "sessions":[mt_json_sessions],"snapshots":[{"number":N,"stored_bytes":N,"freed_bytes_max":N}, ...]}}
 *
 * Of a clone "origin":{"bytes":N,"copied_bytes":N,"bytes_s":N}, too: what it shares with its origins, how much of that
 * was copied, as it is flattened, and how fast that goes.
 *
 * snapshots: by rising number; of each, what was written since the one before, and how much of that may go with it. What
 * was written since the newest is the rest.
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
#include "control/control_use.h"
#include "port/port_status.h"

/* The parts that snapshots cut a volume into: each was written before its snapshot, and since the one before. */
static json_t *
json_between(const struct mt_ask *ask)
{
	json_t *list = json_array();

	assert(ask->cuts.count <= MT_USAGE_CUTS_MAX);
	for (uint32_t k = 0; k < ask->cuts.count; k++) {
		uint64_t stored = 0, freed = 0;

		for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
			const struct mt_usage *usage = &ask->legs[i].status.usage;

			stored += usage->between == NULL ? 0 : usage->between[k].stored_bytes;
			freed += usage->between == NULL ? 0 : usage->between[k].freed_bytes_max;
		}
		json_array_append_new(list,
		    json_pack("{s:I, s:I, s:I}", "number", (json_int_t)ask->cuts.numbers[k],
			"stored_bytes", (json_int_t)stored, "freed_bytes_max", (json_int_t)freed));
	}
	return list;
}

static json_t *
json_figures(const struct mt_ask *ask)
{
	struct mt_usage sum = { 0 };
	json_int_t session_count = 0;

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
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "shard_count",
	    (json_int_t)sum.shard_count, "shard_total",
	    (json_int_t)ask->gateway->cluster.shard_count, "session_count", session_count,
	    "chunk_count", (json_int_t)sum.chunk_count, "layer_bytes", (json_int_t)sum.layer_bytes,
	    "run_bytes", (json_int_t)sum.run_bytes, "garbage_bytes", (json_int_t)sum.garbage_bytes,
	    "run_count", (json_int_t)sum.run_count, "run_count_max", (json_int_t)sum.run_count_max);
}

static json_t *
json_origin(const struct mt_ask *ask)
{
	uint64_t bytes = 0, copied = 0, bytes_s = 0;

	assert(ask->kind == MT_ASK_USAGE && ask->volume.origin != 0);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_usage *usage = &ask->legs[i].status.usage;

		bytes += usage->origin_bytes;
		copied += usage->origin_copied_bytes;
		bytes_s += usage->flatten_bytes_s;
	}
	return json_pack("{s:I, s:I, s:I}", "bytes", (json_int_t)bytes, "copied_bytes",
	    (json_int_t)copied, "bytes_s", (json_int_t)bytes_s);
}

static void
usage_on_answer(struct mt_ask *ask, void *arg)
{
	json_t *figures = json_figures(ask);
	uint32_t session_count = 0;
	char id[17];

	assert(((struct mt_control_request *)arg)->sm.state == MT_CONTROL_RUNNING);
	(void)snprintf(id, sizeof(id), "%016" PRIx64, ask->gateway->options.gateway_id);
	if (figures != NULL && ask->cuts.count > 0)
		json_object_set_new(figures, "snapshots", json_between(ask));
	if (figures != NULL && ask->volume.origin != 0)
		json_object_set_new(figures, "origin", json_origin(ask));
	if (figures != NULL)
		json_object_set_new(figures, "sessions",
		    mt_json_sessions(ask, &ask->volume, &session_count));
	mt_control_finish(arg, json_pack("{s:s, s:o}", "gateway", id, "usage", figures));
}

/* The live snapshots of a volume, the newest MT_USAGE_CUTS_MAX of them. */
static void
usage_cuts(const struct mt_snapshots *snapshots, uint64_t volume_id, struct mt_usage_cuts *ret_cuts)
{
	struct mt_usage_cuts cuts = { .count = 0 };

	assert(volume_id != 0);
	for (uint32_t i = snapshots->count; i > 0 && cuts.count < MT_USAGE_CUTS_MAX; i--) {
		const struct mt_snapshot *snapshot = &snapshots->entries[i - 1].snapshot;

		if (snapshot->volume_id == volume_id && snapshot->state == MT_SNAPSHOT_LIVE)
			cuts.numbers[cuts.count++] = snapshot->number;
	}
	ret_cuts->count = cuts.count;
	for (uint32_t i = 0; i < cuts.count; i++)
		ret_cuts->numbers[i] = cuts.numbers[cuts.count - 1 - i];
}

void
mt_control_volume_usage(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry;
	struct mt_usage_cuts cuts;
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
	if (entry == NULL) {
		mt_control_fail_volume(request, -ENOENT);
		return;
	}
	usage_cuts(&request->gateway->volumes.snapshots, entry->volume.id, &cuts);
	rc = mt_ask_usage(request->gateway, &entry->volume, &cuts, usage_on_answer, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}
