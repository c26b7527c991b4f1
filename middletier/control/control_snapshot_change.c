/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_snapshot_change.c -- snapshots protected, unprotected, renamed
 *
 * A snapshot's key alone changes. Whoever deletes the snapshot compares that, so one of the two comes first.
 */
#include "control/control_snapshot_change.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "control/control_change.h"
#include "control/control_request.h"

/* ---- protect, unprotect ---- */

static void
protect_on_done(struct mt_control_request *request)
{
	const struct mt_snapshot *snapshot = &request->change.snapshot;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	mt_control_event(request, CLEAVE_EVENT_SNAPSHOT_CHANGED, request->volume.name,
	    "snapshot %" PRIu64 ": %s: %s of volume %s", snapshot->number,
	    snapshot->is_protected ? "protected" : "unprotected", snapshot->name,
	    request->volume.name);
	mt_control_finish(request, json_object());
}

static void
protect(struct mt_control_request *request, bool is_protected)
{
	struct mt_snapshot_entry *entry;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (!mt_change_take_request(request))
		return;
	if (!mt_control_has_level(request, CLEAVE_LEVEL_TRASH, "which has no protected snapshots"))
		return;
	entry = mt_change_find_snapshot(request);
	if (entry == NULL)
		return;
	request->change.snapshot = entry->snapshot;
	request->change.snapshot.is_protected = is_protected;
	if (entry->snapshot.is_protected == is_protected) {
		mt_control_finish(request, json_object()); /* as it is wanted */
		return;
	}
	mt_change_put_snapshot(request, entry, protect_on_done);
}

void
mt_control_snapshot_protect(struct mt_control_request *request)
{
	protect(request, true);
}

void
mt_control_snapshot_unprotect(struct mt_control_request *request)
{
	protect(request, false);
}

/* ---- rename ---- */

static void
rename_on_done(struct mt_control_request *request)
{
	const struct mt_snapshot *snapshot = &request->change.snapshot;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	mt_control_event(request, CLEAVE_EVENT_SNAPSHOT_CHANGED, request->volume.name,
	    "snapshot %" PRIu64 ": renamed: %s of volume %s was %s", snapshot->number,
	    snapshot->name, request->volume.name, request->change.snapshot_name);
	mt_control_finish(request, json_object());
}

/* The volume's key is put as it is: two snapshots that are given one name at two gateways both do that. */
static void
rename_submit(struct mt_control_request *request, const struct mt_snapshot_entry *entry)
{
	const struct mt_volume_entry *volume = mt_change_find_volume(request);
	char key[MT_SNAPSHOT_KEY_BYTES], volume_key[MT_VOLUME_KEY_BYTES];
	char *text, *volume_text;

	if (volume == NULL)
		return;
	mt_snapshot_key(entry->snapshot.number, key);
	mt_volume_key(volume->volume.name, volume_key);
	text = mt_snapshot_encode(&request->change.snapshot, NULL);
	volume_text = mt_volume_encode(&volume->volume);
	{
		const struct meta_op ops[] = {
			mt_change_compare(volume_key, volume->version),
			mt_change_compare(key, entry->version),
			mt_change_put(volume_key, volume_text),
			mt_change_put(key, text),
		};

		mt_control_change(request, ops, NUM_COUNT(ops), rename_on_done);
	}
	free(volume_text);
	free(text);
}

void
mt_control_snapshot_rename(struct mt_control_request *request)
{
	struct mt_snapshot_entry *entry;
	const char *name = "", *new_name = "";
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "new", READER_TEXT, true, 0, 0, { .text = &new_name } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (!mt_change_take_snapshot(request, name) ||
	    !mt_change_take_name(request, new_name, request->change.new_name))
		return;
	entry = mt_change_find_snapshot(request);
	if (entry == NULL)
		return;
	if (mt_snapshots_by_name(&request->gateway->volumes.snapshots, entry->snapshot.volume_id,
		request->change.new_name) != NULL) {
		mt_control_refuse(request, -EEXIST,
		    "volume '%s' has a snapshot '%s' already: choose another name",
		    request->volume.name, request->change.new_name);
		return;
	}
	request->change.snapshot = entry->snapshot;
	memcpy(request->change.snapshot.name, request->change.new_name,
	    sizeof(request->change.snapshot.name));
	rename_submit(request, entry);
}
