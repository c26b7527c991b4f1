/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_take.c -- the ops "snapshot.create", of one volume, and "snapshot.group", of several at one point in time
 *
 *	names --check--> wishes --mt_taking_start--> every shard holds --check again--> one transaction
 *
 * The transaction compares each key that it was made from, and puts each volume's as it is, so that no volume is
 * deleted, rolled back, resized or renamed beside it. Where it fails none of the snapshots is there, and all numbers
 * are void.
 */
#include "control/control_take.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/cluster_key.h"
#include "catalog/json.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/snapshot.h"
#include "common/alloc.h"
#include "common/event.h"
#include "control/control_change.h"
#include "control/control_request.h"
#include "control/control_room.h"
#include "control/control_snapshot.h"

_Static_assert(4 * CLEAVE_GROUP_VOLUMES_MAX + 2 <= META_TXN_OPS_MAX, "all, or none");

/* Names of the request, and the volumes that have them now. */
struct take {
	uint32_t count;
	struct take_name {
		char volume[MT_NAME_BYTES], snapshot[MT_NAME_BYTES];
		const struct mt_volume_entry *entry;
	} names[CLEAVE_GROUP_VOLUMES_MAX];
};

/* ---- names ---- */

/* The next name; false, and the request has ended: it cannot be. */
static bool
take_name(struct mt_control_request *request, const char *name, struct take *take)
{
	struct take_name *next = &take->names[take->count];

	assert(take->count < CLEAVE_GROUP_VOLUMES_MAX);
	if (!mt_change_take_snapshot(request, name))
		return false;
	for (uint32_t i = 0; i < take->count; i++) {
		if (strcmp(take->names[i].volume, request->volume.name) == 0) {
			mt_control_refuse(request, -EINVAL,
			    "names: volume '%s' is there twice: one snapshot of each",
			    request->volume.name);
			return false;
		}
	}
	memcpy(next->volume, request->volume.name, sizeof(next->volume));
	memcpy(next->snapshot, request->change.snapshot_name, sizeof(next->snapshot));
	take->count++;
	return true;
}

static bool
take_names(struct mt_control_request *request, struct take *take)
{
	json_t *names = NULL;
	const json_t *name;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "names", READER_ARRAY, true, 0, 0, { .array = &names } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);
	size_t i;

	take->count = 0;
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return false;
	}
	if (json_array_size(names) == 0 || json_array_size(names) > CLEAVE_GROUP_VOLUMES_MAX) {
		mt_control_refuse(request, -EINVAL,
		    "names: must be 1 to %u snapshots, each of another volume",
		    CLEAVE_GROUP_VOLUMES_MAX);
		return false;
	}
	json_array_foreach(names, i, name)
	{
		if (!json_is_string(name)) {
			mt_control_refuse(request, -EINVAL, "names: must be texts");
			return false;
		}
		if (!take_name(request, json_string_value(name), take))
			return false;
	}
	return true;
}

/* The name of snapshot.create. The client may know the id of the volume that it means: take_find_volumes compares. */
static bool
take_one_name(struct mt_control_request *request)
{
	const char *name = "";
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "force", READER_BOOL, false, 0, 0, { .flag = &request->is_forced } },
		{ "id", READER_U64, false, 1, INT64_MAX, { .u64 = &request->attach.id } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	if (rc == 0)
		return mt_change_take_snapshot(request, name);
	mt_control_fail(request, rc, error);
	return false;
}

/* Names of either op's request. False, and the request has ended. */
static bool
take_all_names(struct mt_control_request *request, struct take *take)
{
	take->count = 0;
	if (json_object_get(request->in, "names") != NULL)
		return take_names(request, take);
	if (!take_one_name(request))
		return false;
	memcpy(take->names[0].volume, request->volume.name, sizeof(take->names[0].volume));
	memcpy(take->names[0].snapshot, request->change.snapshot_name,
	    sizeof(take->names[0].snapshot));
	take->count = 1;
	return true;
}

/* Errors that do not name a volume are about this one. */
static void
take_blame(struct mt_control_request *request, const struct take_name *name)
{
	memcpy(request->volume.name, name->volume, sizeof(request->volume.name));
	memcpy(request->change.snapshot_name, name->snapshot,
	    sizeof(request->change.snapshot_name));
}

/* Each volume is there, is the one that was meant, and has no such snapshot. False, and the request has ended. */
static bool
take_find_volumes(struct mt_control_request *request, struct take *take)
{
	struct mt_volumes *volumes = &request->gateway->volumes;

	assert(take->count > 0);
	for (uint32_t i = 0; i < take->count; i++) {
		struct take_name *name = &take->names[i];

		take_blame(request, name);
		name->entry = mt_change_find_volume(request);
		if (name->entry == NULL || mt_change_is_other_opened(request, &name->entry->volume))
			return false;
		if (mt_snapshots_by_name(&volumes->snapshots, name->entry->volume.id,
			name->snapshot) == NULL)
			continue;
		mt_control_refuse(request, -EEXIST,
		    "volume '%s' has a snapshot '%s' already: choose another name, or delete "
		    "that one",
		    name->volume, name->snapshot);
		return false;
	}
	return true;
}

/* ---- made ---- */

static void
take_tell(struct mt_control_request *request, const struct mt_snapshot *snapshot)
{
	const struct mt_volume_entry *volume =
	    mt_volumes_by_id(&request->gateway->volumes, snapshot->volume_id);
	const char *name = volume == NULL ? "?" : volume->volume.name;

	assert(snapshot->number != 0);
	if (snapshot->group == 0)
		mt_control_event(request, CLEAVE_EVENT_SNAPSHOT_TAKEN, name,
		    "snapshot %" PRIu64 ": taken: %s of volume %s", snapshot->number,
		    snapshot->name, name);
	else
		mt_control_event(request, CLEAVE_EVENT_SNAPSHOT_TAKEN, name,
		    "snapshot %" PRIu64 ": taken: %s of volume %s group=%" PRIu64, snapshot->number,
		    snapshot->name, name, snapshot->group);
}

static void
take_on_made(struct mt_control_request *request)
{
	const struct mt_snapshots *snapshots = &request->gateway->volumes.snapshots;
	const json_t *names = json_object_get(request->in, "names");
	uint64_t first = request->change.snapshot.number;
	json_t *list;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (names == NULL) {
		take_tell(request, &request->change.snapshot);
		mt_control_finish(request,
		    json_pack("{s:o}", "snapshot",
			mt_control_json_snapshot(request, &request->change.snapshot)));
		return;
	}
	list = json_array();
	for (size_t i = 0; i < json_array_size(names); i++) {
		const struct mt_snapshot_entry *entry =
		    mt_snapshots_by_number(snapshots, first + i);

		if (entry == NULL)
			continue; /* somebody was quick to delete it */
		take_tell(request, &entry->snapshot);
		json_array_append_new(list, mt_control_json_snapshot(request, &entry->snapshot));
	}
	mt_control_finish(request, json_pack("{s:o}", "snapshots", list));
}

/* A snapshot's key and its volume's, as they are to be in the transaction. */
struct take_key {
	char key[MT_SNAPSHOT_KEY_BYTES], volume_key[MT_VOLUME_KEY_BYTES];
	char *text, *volume_text;
};

static uint32_t
take_put(struct mt_control_request *request, const struct take *take, struct take_key *keys,
    struct meta_op *ops)
{
	uint32_t made = 0;

	assert(mt_taking_count(request->gateway) == take->count);
	for (uint32_t i = 0; i < take->count; i++) {
		const struct mt_volume_entry *entry = take->names[i].entry;
		struct take_key *key = &keys[i];
		struct mt_snapshot snapshot;
		uint64_t version;

		if (entry == NULL)
			continue; /* a mutant's */
		snapshot = *mt_taking_snapshot(request->gateway, i, &version);
		snapshot.state = MT_SNAPSHOT_LIVE;
		mt_snapshot_key(snapshot.number, key->key);
		mt_volume_key(entry->volume.name, key->volume_key);
		key->text = mt_snapshot_encode(&snapshot, NULL);
		key->volume_text = mt_volume_encode(&entry->volume);
		ops[made++] = mt_change_compare(key->key, version);
		ops[made++] = mt_change_compare(key->volume_key, entry->version);
		ops[made++] = mt_change_put(key->key, key->text);
		ops[made++] = mt_change_put(key->volume_key, key->volume_text);
	}
	return made;
}

static void
take_submit(struct mt_control_request *request, const struct take *take)
{
	struct mt_gateway *gateway = request->gateway;
	struct take_key *keys = mt_calloc(take->count, sizeof(*keys));
	char *cluster_text = mt_cluster_encode(&gateway->cluster);
	struct meta_op ops[4 * CLEAVE_GROUP_VOLUMES_MAX + 2];
	uint32_t count = 0;

	assert(gateway->cluster.version != 0);
	if (keys == NULL) {
		mt_taking_end(gateway, -ENOMEM);
		mt_control_fail_volume(request, -ENOMEM);
	} else {
		ops[count++] = mt_change_compare("cluster", gateway->cluster.version);
		ops[count++] = mt_change_put("cluster", cluster_text);
		count += take_put(request, take, keys, ops + count);
		mt_control_change(request, ops, count, take_on_made);
		for (uint32_t i = 0; i < take->count; i++) {
			free(keys[i].text);
			free(keys[i].volume_text);
		}
	}
	mt_free(keys);
	free(cluster_text);
}

/* The volume is what it was when the snapshot was begun; else why not, for people, with its name in it once. */
static const char *
take_what_changed(const struct mt_volume_entry *entry, const struct mt_snapshot *taken)
{
	struct mt_scope scope;

	/* Perhaps before the cut, and then what was written behind the old end would be missing (I5). */
	if (entry->volume.size_bytes != taken->size_bytes)
		return "resized";
	/* With a number below ours: it would show what was before. */
	mt_scope_before(&entry->volume.scope, taken->number, &scope);
	if (scope.span_count != taken->scope.span_count ||
	    memcmp(scope.spans, taken->scope.spans, scope.span_count * sizeof(*scope.spans)) != 0)
		return "rolled back";
	return NULL;
}

/* A volume that changed is in the way of all. False, and the request has ended, and the taking, too. */
static bool
take_check(struct mt_control_request *request, struct take *take)
{
	struct mt_gateway *gateway = request->gateway;
	uint64_t version;

	for (uint32_t i = 0; i < take->count; i++) {
		struct take_name *name = &take->names[i];
		const struct mt_snapshot *taken = mt_taking_snapshot(gateway, i, &version);
		const char *changed = NULL;

		name->entry = mt_volumes_by_name(&gateway->volumes, name->volume);
		if (name->entry != NULL && name->entry->volume.id != taken->volume_id)
			name->entry = NULL;
		if (name->entry != NULL)
			changed = take_what_changed(name->entry, taken);
		if (name->entry != NULL && changed == NULL)
			continue;
		if (MUTANT(group_in_part) && take->count > 1) {
			name->entry = NULL;
			continue;
		}
		take_blame(request, name);
		mt_taking_end(gateway, changed == NULL ? -ENOENT : -EAGAIN);
		if (changed == NULL)
			mt_control_fail_volume(request, -ENOENT);
		else
			mt_control_refuse(request, -EAGAIN,
			    "volume '%s': it was %s while the snapshot was being taken: take it "
			    "again",
			    name->volume, changed);
		return false;
	}
	return true;
}

/* Every shard holds: one transaction makes them all. */
static void
take_on_taken(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	struct take *take;
	uint64_t version;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0) {
		mt_control_fail(request, rc, mt_taking_error(request->gateway));
		return;
	}
	take = mt_calloc(1, sizeof(*take));
	if (take == NULL) {
		mt_taking_end(request->gateway, -ENOMEM);
		mt_control_fail_volume(request, -ENOMEM);
		return;
	}
	request->change.snapshot = *mt_taking_snapshot(request->gateway, 0, &version);
	request->change.snapshot.state = MT_SNAPSHOT_LIVE;
	/* The names were right before: no end of the request leaves the hold behind. */
	if (take_all_names(request, take) && take_check(request, take))
		take_submit(request, take);
	mt_free(take);
}

/* ---- asked ---- */

static void
take_start(struct mt_control_request *request, struct take *take)
{
	struct mt_taking_wish wishes[CLEAVE_GROUP_VOLUMES_MAX];
	int rc;

	if (!take_find_volumes(request, take) || !mt_control_has_room_for(request, take->count) ||
	    !mt_control_may_count(request))
		return;
	for (uint32_t i = 0; i < take->count; i++)
		wishes[i] = (struct mt_taking_wish){ &take->names[i].entry->volume,
			take->names[i].snapshot };
	rc = mt_taking_start(request->gateway, wishes, take->count, take_on_taken, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}

static void
take_begin(struct mt_control_request *request)
{
	struct take *take = mt_calloc(1, sizeof(*take));

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (take == NULL)
		mt_control_fail(request, -ENOMEM, "out of memory");
	else if (take_all_names(request, take))
		take_start(request, take);
	mt_free(take);
}

void
mt_control_snapshot_create(struct mt_control_request *request)
{
	/* "names" would be taken for those of a group. */
	if (json_object_get(request->in, "names") != NULL)
		mt_control_fail(request, -EINVAL, "names: of several volumes: snapshot.group");
	else
		take_begin(request);
}

void
mt_control_snapshot_group(struct mt_control_request *request)
{
	if (!mt_control_has_level(request, CLEAVE_LEVEL_GROUPS,
		"which takes snapshots of one volume at a time"))
		return;
	if (json_object_get(request->in, "names") == NULL)
		mt_control_fail(request, -EINVAL, "names: required");
	else
		take_begin(request);
}
