/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deletes_node.c -- a node's state pages, as they reach its disk; see deletes.h
 *
 * The request that has asked for a page is the first in its extent's queue of changes.
 */
#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/disk.h"
#include "deletes.h"
#include "storage-node/change.h"
#include "storage-node/extent.h"
#include "storage-node/format/ondisk.h"
#include "storage-node/node_state.h"
#include "storage-node/request.h"

/* The slot whose state page lies at @offset_bytes. False: it is another page. */
static bool
slot_of_page(const struct node *node, uint64_t offset_bytes, uint32_t *ret_slot)
{
	const struct ondisk_super *super = &node->super;
	uint64_t in_slot;

	if (node->extents == NULL || offset_bytes < ONDISK_SLOTS_OFFSET)
		return false;
	in_slot = (offset_bytes - ONDISK_SLOTS_OFFSET) % super->slot_bytes;
	*ret_slot = (uint32_t)((offset_bytes - ONDISK_SLOTS_OFFSET) / super->slot_bytes);
	return in_slot > 0 && in_slot < ONDISK_SLOT_HEAD_BYTES && *ret_slot < super->slot_count;
}

static void
on_disk_event(const struct disk_sim_event *event, void *arg)
{
	const struct sim_cluster_node *own = arg;
	const struct sn_request *req;
	struct sn_extent *extent;
	struct loop_link *link;
	uint32_t slot;

	if (event->op != DISK_WRITE || event->bytes != ONDISK_PAGE_BYTES || own->node == NULL ||
	    !slot_of_page(own->node, event->offset_bytes, &slot))
		return;
	extent = &own->node->extents[slot];
	link = list_first(&extent->changes);
	if (link == NULL)
		return; /* a write that strayed here */
	req = NUM_CONTAINER_OF(LIST_ENTRY(link, struct sn_change, link), struct sn_request, change);
	if (req->change.sm.state != CHANGE_WRITING)
		return;
	sim_deletes_judge(own->cluster->deletes,
	    &(struct sim_node_change){ .node = own->node->super.node_id - 1,
		.is_delete = req->change.state.state == ONDISK_SLOT_DELETED,
		.id = extent->slot.id,
		.incarnation = extent->slot.incarnation,
		.durable_bytes = extent->durable_bytes,
		.maker_epoch = extent->slot.create_epoch,
		.is_damaged = sn_extent_is_damaged(extent),
		.owner_epoch = req->wire.epoch,
		.owner_incarnation = req->wire.offset_bytes });
}

void
sim_deletes_watch(struct sim_cluster *cluster, uint32_t index)
{
	disk_sim_trace(cluster->nodes[index].disk, on_disk_event, &cluster->nodes[index]);
}

void
sim_deletes_unwatch(struct sim_cluster *cluster, uint32_t index)
{
	disk_sim_trace(cluster->nodes[index].disk, NULL, NULL);
}
