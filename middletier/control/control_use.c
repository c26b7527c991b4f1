/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_use.c -- which sessions volumes have, and what each volume holds, for lists
 *
 *	{"op":"volume.use","after":NAME}
 *	{"gateway":ID,"shard_count":N,"shard_total":N,"more":false,"volumes":[{"id":N,"name":NAME,"stored_bytes":N,
 *	    "session_count":N,"sessions":["16 hex digits", ...]}, ...]}
 *
 * As volume.usage it is about the shards that serve here, and the queue pairs of this gateway's ports: who wants the
 * whole asks every gateway, adds the bytes up, and counts a session once, by its id. A volume that has neither bytes
 * nor sessions here is left out. The ports tell counters: no index is walked.
 */
#include "control/control_use.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "control/control_allow.h"
#include "control/control_request.h"
#include "control/control_volume.h"
#include "port/volume_use.h"

#define USE_ID_BYTES 17u

/* Sessions of one volume, once each, although they have a queue pair at several ports. */
struct use_sessions {
	const struct mt_session_use *found[MT_USE_SESSIONS_MAX];
	uint32_t connections[MT_USE_SESSIONS_MAX];
	uint32_t count; /* of found */
	uint32_t more;  /* queue pairs of sessions that found had no room for */
};

/* The snapshot that a session reads; NULL: it is none, or has gone. */
static const struct mt_snapshot *
use_snapshot(const struct mt_volumes *volumes, const struct mt_session_use *session)
{
	const uint64_t flags = MT_SNAPSHOT_ID | MT_SNAPSHOT_OF_VOLUME;
	const struct mt_snapshot_entry *entry;

	if ((session->volume_id & flags) != MT_SNAPSHOT_ID)
		return NULL;
	entry = mt_snapshots_by_number(&volumes->snapshots, session->volume_id & ~flags);
	return entry == NULL ? NULL : &entry->snapshot;
}

/* The volume that a session has open, or a snapshot or difference of; 0: it has gone. */
static uint64_t
use_volume_id(const struct mt_volumes *volumes, const struct mt_session_use *session)
{
	const struct mt_snapshot *snapshot = use_snapshot(volumes, session);

	if (snapshot != NULL)
		return snapshot->volume_id;
	if ((session->volume_id & MT_SNAPSHOT_OF_VOLUME) != 0)
		return session->volume_id & ~(MT_SNAPSHOT_ID | MT_SNAPSHOT_OF_VOLUME);
	return (session->volume_id & MT_SNAPSHOT_ID) != 0 ? 0 : session->volume_id;
}

static void
sessions_add(struct use_sessions *sessions, const struct mt_session_use *session)
{
	uint32_t at = 0;

	assert(sessions->count <= MT_USE_SESSIONS_MAX);
	while (at < sessions->count && sessions->found[at]->session_id != session->session_id)
		at++;
	if (at == MT_USE_SESSIONS_MAX) {
		sessions->more++;
		return;
	}
	if (at == sessions->count) {
		sessions->found[at] = session;
		sessions->connections[at] = 0;
		sessions->count++;
	}
	sessions->connections[at]++;
}

static void
sessions_find(const struct mt_ask *ask, const struct mt_volume *volume,
    struct use_sessions *ret_sessions)
{
	const struct mt_volumes *volumes = &ask->gateway->volumes;

	ret_sessions->count = ret_sessions->more = 0;
	assert(volume->id != 0);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_volume_use *use = &ask->legs[i].status.use;

		for (uint32_t k = 0; k < use->session_count; k++) {
			if (use_volume_id(volumes, &use->sessions[k]) == volume->id)
				sessions_add(ret_sessions, &use->sessions[k]);
		}
	}
}

static json_t *
json_session(const struct mt_volumes *volumes, const struct mt_volume *volume,
    const struct mt_session_use *session, uint32_t connections)
{
	const struct mt_snapshot *snapshot = use_snapshot(volumes, session);
	bool is_holder = !session->is_reader && session->session_id == volume->session_id &&
	    volume->holder.client[0] != '\0';
	char id[USE_ID_BYTES];

	assert(connections > 0);
	(void)snprintf(id, sizeof(id), "%016" PRIx64, session->session_id);
	return json_pack("{s:s, s:s, s:s, s:I, s:s*, s:s*}", "session", id, "access",
	    session->is_reader ? "read" : "write", "peer", session->peer, "connections",
	    (json_int_t)connections, "client", is_holder ? volume->holder.client : NULL, "snapshot",
	    snapshot != NULL ? snapshot->name : NULL);
}

json_t *
mt_json_sessions(struct mt_ask *ask, const struct mt_volume *volume, uint32_t *ret_count)
{
	struct use_sessions sessions;
	json_t *list = json_array();

	sessions_find(ask, volume, &sessions);
	for (uint32_t i = 0; i < sessions.count; i++)
		json_array_append_new(list,
		    json_session(&ask->gateway->volumes, volume, sessions.found[i],
			sessions.connections[i]));
	*ret_count = sessions.count + sessions.more;
	return list;
}

/* ---- the op ---- */

static uint64_t
use_stored_bytes(const struct mt_ask *ask, const struct mt_volume *volume)
{
	uint64_t bytes = 0;

	assert(volume->segment_count > 0);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_volume_use *use = &ask->legs[i].status.use;

		for (uint32_t k = 0; k < use->segment_count; k++) {
			if (use->segments[k].segment - volume->segment_base < volume->segment_count)
				bytes += use->segments[k].stored_bytes;
		}
	}
	return bytes;
}

static json_t *
json_use(const struct mt_ask *ask, const struct mt_volume *volume)
{
	uint64_t stored_bytes = use_stored_bytes(ask, volume);
	struct use_sessions sessions;
	json_t *ids;

	sessions_find(ask, volume, &sessions);
	if (stored_bytes == 0 && sessions.count == 0)
		return NULL;
	ids = json_array();
	for (uint32_t i = 0; i < num_min(sessions.count, MT_USE_IDS_MAX); i++) {
		char id[USE_ID_BYTES];

		(void)snprintf(id, sizeof(id), "%016" PRIx64, sessions.found[i]->session_id);
		json_array_append_new(ids, json_string(id));
	}
	return json_pack("{s:I, s:s, s:I, s:I, s:o}", "id", (json_int_t)volume->id, "name",
	    volume->name, "stored_bytes", (json_int_t)stored_bytes, "session_count",
	    (json_int_t)sessions.count + sessions.more, "sessions", ids);
}

static void
use_on_answer(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;
	struct mt_volumes *volumes = &ask->gateway->volumes;
	uint32_t first = mt_volumes_after(volumes, request->change.new_name);
	uint32_t seen = 0, at = first;
	const char *last = NULL;
	json_int_t shard_count = 0;
	json_t *list = json_array(), *answer;
	bool is_incomplete = false;
	char id[USE_ID_BYTES];

	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(ask->kind == MT_ASK_USE);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		shard_count += ask->legs[i].status.use.shard_count;
		is_incomplete = is_incomplete || ask->legs[i].status.use.is_incomplete;
	}
	for (; at < volumes->count && seen < MT_VOLUMES_PER_LIST; at++) {
		const struct mt_volume *volume = &volumes->entries[at].volume;
		json_t *use;

		if (!mt_control_sees(request, volume->name))
			continue;
		seen++;
		last = volume->name;
		use = mt_volume_is_trashed(volume) ? NULL : json_use(ask, volume);
		if (use != NULL)
			json_array_append_new(list, use);
	}
	(void)snprintf(id, sizeof(id), "%016" PRIx64, ask->gateway->options.gateway_id);
	answer = json_pack("{s:s, s:I, s:I, s:o, s:b}", "gateway", id, "shard_count",
	    is_incomplete ? 0 : shard_count, "shard_total",
	    (json_int_t)ask->gateway->cluster.shard_count, "volumes", list, "more",
	    at < volumes->count);
	if (answer != NULL && last != NULL)
		json_object_set_new(answer, "last", json_string(last));
	mt_control_finish(request, answer);
}

void
mt_control_volume_use(struct mt_control_request *request)
{
	const char *after = "";
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "after", READER_TEXT, false, 0, CLEAVE_VOLUME_NAME_BYTES_MAX,
		    { .text = &after } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	(void)snprintf(request->change.new_name, sizeof(request->change.new_name), "%s", after);
	rc = mt_ask_ports(request->gateway, MT_ASK_USE, NULL, use_on_answer, request);
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}
