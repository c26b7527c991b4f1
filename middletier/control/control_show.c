/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_show.c -- volumes and snapshots, with what hangs on them: origins, snapshots, clones
 *
 *	volume.show    {"volume":{..., "origin_name":"VOLUME@SNAPSHOT","snapshot_count":N,
 *	                           "flattening":{"shard_count":N,"left":N}},
 *	                "clone_count":N,"clones":[{"name":NAME,"snapshot":NAME}, ...]}
 *	snapshot.show  {"snapshot":{..., "volume":NAME},"clone_count":N,"clones":[{"name":NAME,"snapshot":NAME}, ...]}
 */
#include "control/control_show.h"

#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/wire.h"
#include "cluster/flatten.h"
#include "cluster/gateway_state.h"
#include "control/control_allow.h"
#include "control/control_change.h"
#include "control/control_data_key.h"
#include "control/control_request.h"

json_t *
mt_json_volume_told(const struct mt_control_request *request, const struct mt_volume *volume)
{
	struct mt_gateway *gateway = request->gateway;
	struct mt_volumes *volumes = &gateway->volumes;
	uint32_t left;
	json_t *object = mt_json_volume_held(volume);
	const struct mt_snapshot_entry *origin;
	const struct mt_volume_entry *of;

	if (object == NULL)
		return NULL;
	mt_control_data_key_tell(request, volume, object);
	json_object_set_new(object, "snapshot_count",
	    json_integer(mt_snapshots_live_count(&volumes->snapshots, volume->id)));
	origin = volume->origin == 0 ? NULL
				     : mt_snapshots_by_number(&volumes->snapshots, volume->origin);
	of = origin == NULL ? NULL : mt_volumes_by_id(volumes, origin->snapshot.volume_id);
	if (of != NULL && mt_control_sees(request, of->volume.name))
		json_object_set_new(object, "origin_name",
		    json_sprintf("%s@%s", of->volume.name, origin->snapshot.name));
	if (volume->origin != 0 && mt_flattening_left(gateway, volume->id, &left))
		json_object_set_new(object, "flattening",
		    json_pack("{s:I, s:I}", "shard_count", (json_int_t)gateway->cluster.shard_count,
			"left", (json_int_t)left));
	return object;
}

/* Also of a clone in the trash, which is called as it was: it keeps its snapshot. */
static json_t *
json_clone(const struct mt_volume *clone, const char *snapshot)
{
	bool is_trashed = mt_volume_is_trashed(clone);

	return json_pack("{s:s, s:s, s:b}", "name", is_trashed ? clone->trash.name : clone->name,
	    "snapshot", snapshot, "trash", is_trashed);
}

/* Clones of @number, or of any snapshot of @volume_id, that who asks may see: into @answer, as many as fit. */
static void
show_put_clones(const struct mt_control_request *request, json_t *answer, uint64_t volume_id,
    uint64_t number)
{
	const struct mt_volumes *volumes = &request->gateway->volumes;
	json_t *clones = json_array();
	json_int_t count = 0;

	assert((volume_id == 0) != (number == 0));
	for (uint32_t i = 0; i < volumes->count; i++) {
		const struct mt_volume *clone = &volumes->entries[i].volume;
		const struct mt_snapshot_entry *origin = clone->origin == 0
		    ? NULL
		    : mt_snapshots_by_number(&volumes->snapshots, clone->origin);

		if (origin == NULL ||
		    (number != 0 ? clone->origin != number
				 : origin->snapshot.volume_id != volume_id) ||
		    !mt_control_sees(request,
			mt_volume_is_trashed(clone) ? clone->trash.name : clone->name))
			continue;
		count++;
		if (count <= MT_CLONES_PER_ANSWER)
			json_array_append_new(clones, json_clone(clone, origin->snapshot.name));
	}
	json_object_set_new(answer, "clone_count", json_integer(count));
	json_object_set_new(answer, "clones", clones);
}

/* The member "name", and no other; NULL, and the request has ended: it is missing, or there are others. */
static const char *
show_name(struct mt_control_request *request)
{
	const char *name = NULL;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0)
		return name;
	mt_control_fail(request, rc, error);
	return NULL;
}

void
mt_control_volume_show(struct mt_control_request *request)
{
	const char *name = show_name(request);
	const struct mt_volume_entry *entry;
	json_t *answer;

	if (name == NULL || !mt_change_take_name(request, name, request->volume.name))
		return;
	entry = mt_change_find_volume(request);
	if (entry == NULL)
		return;
	answer = json_pack("{s:o}", "volume", mt_json_volume_told(request, &entry->volume));
	if (answer != NULL)
		show_put_clones(request, answer, entry->volume.id, 0);
	mt_control_finish(request, answer);
}

void
mt_control_snapshot_show(struct mt_control_request *request)
{
	const char *name = show_name(request);
	const struct mt_snapshot_entry *entry;
	json_t *answer, *object;

	if (name == NULL || !mt_change_take_snapshot(request, name))
		return;
	entry = mt_change_find_snapshot(request);
	if (entry == NULL)
		return;
	object = mt_json_snapshot(&entry->snapshot);
	if (object != NULL)
		json_object_set_new(object, "volume", json_string(request->volume.name));
	answer = json_pack("{s:o}", "snapshot", object);
	if (answer != NULL)
		show_put_clones(request, answer, 0, entry->snapshot.number);
	mt_control_finish(request, answer);
}
