/* SPDX-License-Identifier: Apache-2.0 */
/* control_room.c -- is there room in shard 0's manifest for more volumes or snapshots? (manifest_room.c) */
#include "control/control_room.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/mutant.h"
#include "catalog/volume_table.h"
#include "cluster/gateway_state.h"
#include "control/control_request.h"
#include "manifest/edit.h"
#include "manifest/manifest_room.h"

bool
mt_control_has_room(struct mt_control_request *request)
{
	return mt_control_has_room_for(request, 1);
}

bool
mt_control_has_room_for(struct mt_control_request *request, uint32_t count)
{
	const struct mt_gateway *gateway = request->gateway;
	const struct mt_volumes *volumes = &gateway->volumes;
	uint64_t bytes = mt_manifest_mirror_bytes(volumes);
	uint64_t bytes_max = mt_manifest_mirror_bytes_max(&gateway->settings, &gateway->shared);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (bytes + (uint64_t)count * MT_EDIT_BYTES_MAX <= bytes_max ||
	    MUTANT(manifest_room_ignored))
		return true;
	mt_control_refuse(request, -ENOSPC,
	    "%" PRIu32 " volumes and %" PRIu32
	    " snapshots, deleted ones that shards have not dropped yet included, take %" PRIu64
	    " of %" PRIu64 " bytes in shard 0's manifest: delete some",
	    volumes->count, volumes->snapshots.count, bytes, bytes_max);
	return false;
}
