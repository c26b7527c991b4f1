/* SPDX-License-Identifier: Apache-2.0 */
/* invariant_node.c -- a look into a storage node's memory; see invariant.h */
#include "invariant.h"

#include "storage-node/extent.h"
#include "storage-node/fence.h"
#include "storage-node/format/ondisk.h"
#include "storage-node/node_state.h"

void
sim_node_copy(struct node *node, const struct extent_id *id, struct sim_copy *ret_copy)
{
	const struct sn_extent *extent = sn_extent_find(node, id);

	*ret_copy = (struct sim_copy){ 0 };
	if (extent == NULL || !sn_extent_is_held(extent))
		return;
	ret_copy->is_held = true;
	ret_copy->is_damaged = sn_extent_is_damaged(extent);
	ret_copy->is_sealed = extent->sm.state == EXTENT_SEALED;
	ret_copy->incarnation = extent->slot.incarnation;
	ret_copy->durable_bytes = extent->durable_bytes;
	ret_copy->data_offset = ondisk_data_offset(&node->super, extent->slot.slot_index);
}

bool
sim_node_has_lost(struct node *node, const struct disk_sim *disk, struct extent_id *ret_id)
{
	/* Broken: it has acknowledged nothing since, and says so to whoever comes. */
	if (disk_sim_counts(disk)->failed_flushes == 0 || node_is_read_only(node))
		return false;
	for (uint32_t i = 0; i < node->super.slot_count; i++) {
		const struct sn_extent *extent = &node->extents[i];

		if (!sn_extent_is_held(extent) || sn_extent_is_damaged(extent) ||
		    !disk_sim_is_lost(disk, ondisk_data_offset(&node->super, i),
			extent->durable_bytes))
			continue;
		*ret_id = extent->slot.id;
		return true;
	}
	return false;
}

uint32_t
sim_node_fence(const struct node *node, uint32_t shard, uint32_t *ret_durable)
{
	const struct sn_fence_page *page = &node->fences[shard / ONDISK_FENCE_SHARDS];

	*ret_durable = page->durable_epochs[shard % ONDISK_FENCE_SHARDS];
	return page->now.epochs[shard % ONDISK_FENCE_SHARDS];
}
