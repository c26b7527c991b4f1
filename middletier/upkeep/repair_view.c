/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repair_view.c -- which copies of an extent are good, and where another may go
 *
 *	damaged, by its node's own check                     not good, and gives way first
 *	node away for repair_after, or not seen since then   not good, and gives way next: it may be whole
 *	its disk takes no more writes                        not good: it can be read, and is to be somewhere else
 *	node away for less, or in maintenance                good, for now
 *	node has left the cluster                            as one that was away for long enough
 *	node drains                                          good, and moved when no extent lacks copies
 */
#include "upkeep/repair_view.h"

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "extent/node_link.h"
#include "extent/placement.h"
#include "manifest/manifest.h"
#include "manifest/manifest_state.h"
#include "upkeep/repair.h"
#include "upkeep/upkeep.h"

uint64_t
mt_repair_now_ns(const struct mt_repair *repair)
{
	return loop_now_ns(repair->shard->port->loop);
}

struct mt_link *
mt_repair_link(const struct mt_repair *repair, uint32_t node_id)
{
	assert(node_id != 0);
	return mt_port_link(repair->shard->port, node_id);
}

static bool
repair_is_up(const struct mt_repair *repair, uint32_t node_id)
{
	const struct mt_link *link = mt_repair_link(repair, node_id);

	return link != NULL && mt_link_is_up(link);
}

bool
mt_repair_is_ours(const struct mt_repair *repair, const struct mt_extent *extent)
{
	const struct mt_state_extent *at;

	assert(extent == NULL || extent->shard == repair->shard);
	if (extent == NULL || extent->sm.state != MT_EXTENT_SEALED || extent->is_going ||
	    extent->sealed_bytes == 0)
		return false;
	at = mt_manifest_state_find(mt_manifest_state(repair->shard), &extent->id);
	return at != NULL && at->is_sealed;
}

struct mt_extent *
mt_repair_object(const struct mt_repair *repair)
{
	struct mt_extent *extent = mt_shard_extent(repair->shard, repair->extent_index);

	return extent != NULL && extent_id_pack(&extent->id) == extent_id_pack(&repair->id) ? extent
											    : NULL;
}

/* ---- good copies ---- */

/* Until when @replica's node may be away; 0: it is not. A time of long ago: it will not come back. */
static uint64_t
repair_away_until_ns(const struct mt_repair *repair, const struct mt_replica *replica)
{
	const struct mt_link *link = mt_repair_link(repair, replica->node_id);
	uint64_t since_ns = repair->started_ns;

	assert(replica->node_id != 0);
	if (link != NULL && mt_link_is_up(link))
		return 0;
	if (link == NULL)
		return since_ns + repair->shard->port->settings->repair_after_ns;
	if (mt_link_is_gone(link))
		return 1;
	return num_max(link->changed_ns + repair->shard->port->settings->repair_after_ns,
	    link->config.maintenance_until_ns);
}

/* The node's disk takes no more writes: what is there can be read, and is to be somewhere else. */
static bool
repair_is_failing(const struct mt_repair *repair, const struct mt_replica *replica)
{
	const struct mt_link *link = mt_repair_link(repair, replica->node_id);

	return link != NULL && link->is_read_only;
}

struct repair_view
mt_repair_view_of(const struct mt_repair *repair, const struct mt_extent *extent)
{
	struct repair_view view = { .victim = -1,
		.damaged = -1,
		.leaving = mt_extent_leaving(extent),
		.next_ns = UPKEEP_NEVER };
	uint64_t now_ns = mt_repair_now_ns(repair);

	assert(extent->replica_count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		const struct mt_replica *replica = &extent->replicas[i];
		uint64_t until_ns = repair_away_until_ns(repair, replica);
		bool is_failing = repair_is_failing(repair, replica);

		view.up_count += until_ns == 0;
		if (replica->is_damaged && until_ns == 0)
			view.damaged = (int)i;
		if (!replica->is_damaged && until_ns == 0 && !replica->is_truncated && !is_failing)
			view.is_uncut = true;
		if (!replica->is_damaged && !is_failing && (until_ns == 0 || until_ns > now_ns)) {
			view.good_count++;
			if (until_ns != 0)
				view.next_ns = num_min(view.next_ns, until_ns);
			continue;
		}
		/* The damaged before the lost, whose copy may be whole. */
		if (view.victim < 0 ||
		    (replica->is_damaged && !extent->replicas[view.victim].is_damaged))
			view.victim = (int)i;
	}
	if (view.good_count < MT_REPLICAS_MAX && extent->replica_count < MT_REPLICAS_MAX)
		view.victim = -1;
	assert(
	    view.victim < (int)extent->replica_count && view.good_count <= extent->replica_count);
	return view;
}

/* ---- nodes ---- */

/* The nodes of all replicas but @victim, which -1 is none of, in @ret_others: what a new copy is to be apart from. */
static struct mt_placement_copy
repair_wish(const struct mt_extent *extent, int victim, uint32_t ret_others[MT_REPLICAS_MAX])
{
	struct mt_placement_copy copy = { .kind = extent->kind,
		.bytes = extent->sealed_bytes,
		.others = ret_others };

	assert(victim < (int)extent->replica_count);
	assert(victim >= -1);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		if ((int)i != victim)
			ret_others[copy.other_count++] = extent->replicas[i].node_id;
	}
	return copy;
}

struct mt_link *
mt_repair_find_node(const struct mt_repair *repair, const struct mt_extent *extent, int victim)
{
	struct mt_port *port = repair->shard->port;
	uint32_t others[MT_REPLICAS_MAX];
	struct mt_placement_copy copy = repair_wish(extent, -1, others);
	struct mt_link *link;

	if (mt_placement_pick_one(port, &copy, &link) == 0)
		return link;
	if (victim < 0)
		return NULL;
	copy = repair_wish(extent, victim, others);
	return mt_placement_pick_one(port, &copy, &link) == 0 ? link : NULL;
}

struct mt_link *
mt_repair_find_target(const struct mt_repair *repair, const struct mt_extent *extent,
    struct repair_view *view)
{
	struct mt_link *target = mt_repair_find_node(repair, extent, view->victim);

	if (target == NULL && view->victim < 0 && view->damaged >= 0) {
		view->victim = view->damaged;
		target = mt_repair_find_node(repair, extent, view->victim);
	}
	/* In place only where a good copy can be verified first. */
	if (target != NULL && view->victim >= 0 &&
	    target->node_id == extent->replicas[view->victim].node_id &&
	    mt_repair_find_good(repair, extent) == 0)
		return NULL;
	return target;
}

bool
mt_repair_has_node(const struct mt_repair *repair, const struct mt_extent *extent, int victim)
{
	uint32_t others[MT_REPLICAS_MAX];
	struct mt_placement_copy copy = repair_wish(extent, victim, others);

	return mt_placement_has_one(repair->shard->port, &copy);
}

uint32_t
mt_repair_find_good(const struct mt_repair *repair, const struct mt_extent *extent)
{
	assert(extent->replica_count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		const struct mt_replica *replica = &extent->replicas[i];

		if (!replica->is_damaged && repair_is_up(repair, replica->node_id))
			return replica->node_id;
	}
	return 0;
}
