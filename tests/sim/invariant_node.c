/* SPDX-License-Identifier: Apache-2.0 */
/* invariant_node.c -- a look into a storage node's memory; see invariant.h */
#include "invariant.h"

#include "storage-node/internal.h"

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

uint32_t
sim_node_fence(const struct node *node, uint32_t shard, uint32_t *ret_durable)
{
	const struct sn_fence_page *page = &node->fences[shard / ONDISK_FENCE_SHARDS];

	*ret_durable = page->durable_epochs[shard % ONDISK_FENCE_SHARDS];
	return page->now.epochs[shard % ONDISK_FENCE_SHARDS];
}
