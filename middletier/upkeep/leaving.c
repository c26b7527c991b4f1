/* SPDX-License-Identifier: Apache-2.0 */
/* leaving.c -- see leaving.h */
#include "upkeep/leaving.h"

#include "base/check.h"
#include "base/sm.h"
#include "common/replica.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "upkeep/repair.h"
#include "upkeep/repair_view.h"
#include "upkeep/upkeep.h"

const char *
mt_leaving_name(enum mt_leaving leaving)
{
#define LEAVING_NAME(symbol, name) [MT_LEAVING_##symbol] = name,
	static const char *const names[MT_LEAVING_NR] = { MT_LEAVING_LIST(LEAVING_NAME) };
#undef LEAVING_NAME

	assert(leaving < MT_LEAVING_NR);
	return names[leaving];
}

enum mt_leaving
mt_leaving_of(const struct mt_extent *extent)
{
	const struct mt_upkeep *upkeep = extent->shard->upkeep;
	const struct mt_repair *repair = &upkeep->repair;
	struct repair_view view;

	assert(upkeep != NULL);
	if (extent->sm.state != MT_EXTENT_SEALED || extent->is_going || extent->sealed_bytes == 0 ||
	    !upkeep->is_running)
		return MT_LEAVING_OPEN;
	if (repair->sm.state != REPAIR_IDLE &&
	    extent_id_pack(&repair->id) == extent_id_pack(&extent->id))
		return MT_LEAVING_MOVING;
	view = mt_repair_view_of(repair, extent);
	if (view.good_count < MT_REPLICAS_MAX)
		return MT_LEAVING_LACKING;
	if (!mt_repair_has_node(repair, extent, view.leaving))
		return MT_LEAVING_NO_ROOM;
	if (repair->lacking_count > 0)
		return MT_LEAVING_LACKING;
	if (extent->repair_ns > mt_repair_now_ns(repair))
		return MT_LEAVING_FAILED;
	return MT_LEAVING_BUDGET;
}
