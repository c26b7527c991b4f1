/* SPDX-License-Identifier: Apache-2.0 */
/* control_snapshot_delete.c -- a snapshot's deletion, and that of all of a volume */
#include "control/control_snapshot_delete.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/volume_delete.h"
#include "control/control_change.h"
#include "control/control_request.h"

#define SNAPSHOTS_PER_TXN 12u

static void
delete_on_done(struct mt_control_request *request)
{
	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(request->change.snapshot.state == MT_SNAPSHOT_DELETED);
	mt_control_event(request, CLEAVE_EVENT_SNAPSHOT_DELETED, request->volume.name,
	    "snapshot %" PRIu64 ": deleted: %s of volume %s", request->change.snapshot.number,
	    request->change.snapshot_name, request->volume.name);
	mt_control_finish(request, json_object());
}

/* For a refusal: a clone in the trash is one still, though volume list does not show it. */
static const char *
clones_in_trash(const struct mt_control_request *request, uint64_t number)
{
	const struct mt_volumes *volumes = &request->gateway->volumes;
	uint32_t first, count = mt_volumes_trash(volumes, &first);

	assert(number != 0);
	for (uint32_t i = first; i < first + count; i++) {
		if (volumes->entries[i].volume.origin == number)
			return " (in the trash, too: cleave trash purge)";
	}
	return "";
}

void
mt_control_snapshot_delete(struct mt_control_request *request)
{
	struct mt_snapshot_entry *entry;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (!mt_change_take_request(request))
		return;
	entry = mt_change_find_snapshot(request);
	if (entry == NULL)
		return;
	if (entry->snapshot.clone_count > 0) {
		mt_control_refuse(request, -ENOTEMPTY,
		    "snapshot '%s@%s' has %" PRIu32 " clones%s: delete them first, or keep it",
		    request->volume.name, request->change.snapshot_name,
		    entry->snapshot.clone_count, clones_in_trash(request, entry->snapshot.number));
		return;
	}
	if (entry->snapshot.is_protected) {
		mt_control_refuse(request, -ENOTEMPTY,
		    "snapshot '%s@%s' is protected: cleave snapshot unprotect it first, or keep it",
		    request->volume.name, request->change.snapshot_name);
		return;
	}
	request->change.snapshot = entry->snapshot;
	request->change.snapshot.state = MT_SNAPSHOT_DELETED;
	mt_change_put_snapshot(request, entry, delete_on_done);
}

bool
mt_control_refuse_obstacle(struct mt_control_request *request, uint64_t volume_id)
{
	const struct mt_snapshot *snapshot =
	    mt_delete_obstacle(&request->gateway->volumes, volume_id);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (snapshot == NULL)
		return false;
	if (snapshot->clone_count > 0)
		mt_control_refuse(request, -ENOTEMPTY,
		    "volume '%s': its snapshot '%s' has %" PRIu32 " clones%s: delete them first",
		    request->volume.name, snapshot->name, snapshot->clone_count,
		    clones_in_trash(request, snapshot->number));
	else
		mt_control_refuse(request, -ENOTEMPTY,
		    "volume '%s': its snapshot '%s' is protected: cleave snapshot unprotect it first, "
		    "or keep the volume",
		    request->volume.name, snapshot->name);
	return true;
}

bool
mt_control_delete_snapshots(struct mt_control_request *request, uint64_t volume_id,
    void (*again)(struct mt_control_request *request))
{
	struct mt_volumes *volumes = &request->gateway->volumes;
	const struct mt_snapshots *snapshots = &volumes->snapshots;
	const struct mt_volume_entry *volume = mt_volumes_by_id(volumes, volume_id);
	char volume_key[MT_VOLUME_KEY_BYTES];
	char keys[SNAPSHOTS_PER_TXN][MT_SNAPSHOT_KEY_BYTES];
	char *texts[SNAPSHOTS_PER_TXN];
	struct meta_op ops[2 * SNAPSHOTS_PER_TXN + 1];
	uint32_t count = 0;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	assert(volume != NULL);
	if (mt_control_refuse_obstacle(request, volume_id))
		return true;
	for (uint32_t i = 0; i < snapshots->count && count < SNAPSHOTS_PER_TXN; i++) {
		struct mt_snapshot snapshot = snapshots->entries[i].snapshot;

		if (snapshot.volume_id != volume_id || snapshot.state != MT_SNAPSHOT_LIVE)
			continue;
		snapshot.state = MT_SNAPSHOT_DELETED;
		mt_snapshot_key(snapshot.number, keys[count]);
		texts[count] = mt_snapshot_encode(&snapshot, NULL);
		ops[2 * count] = mt_change_compare(keys[count], snapshots->entries[i].version);
		ops[2 * count + 1] = mt_change_put(keys[count], texts[count]);
		count++;
	}
	if (count == 0)
		return false;
	/* The snapshots stay, too, where somebody has attached the volume meanwhile. */
	mt_volume_key(volume->volume.name, volume_key);
	ops[2 * count] = mt_change_compare(volume_key, volume->version);
	mt_control_change(request, ops, 2 * count + 1, again);
	while (count > 0)
		free(texts[--count]);
	return true;
}
