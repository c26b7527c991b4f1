/* SPDX-License-Identifier: Apache-2.0 */
/* room.c -- see room.h */
#include "extent/room.h"

#include "base/check.h"
#include "base/num.h"
#include "common/limits.h"
#include "extent/balance.h"
#include "extent/capacity.h"
#include "extent/node_config.h"

/* A choice of nodes, and the slots of each that copies may take. */
struct room_part {
	struct mt_balance_node nodes[MT_NODES_MAX];
	uint64_t total[MT_NODES_MAX], left[MT_NODES_MAX];
	uint32_t count;
};

static void
part_add(struct room_part *part, const struct mt_room_node *node)
{
	uint32_t i = part->count++;

	assert(i < MT_NODES_MAX);
	assert(node->slots_reserved <= node->slots_total);
	part->nodes[i] = (struct mt_balance_node){ .config = node->config };
	part->total[i] = node->slots_total - node->slots_reserved;
	part->left[i] = node->slots_free - num_min(node->slots_free, node->slots_reserved);
}

void
mt_room_of(const struct mt_room_node *nodes, uint32_t count, uint32_t min_copies,
    struct mt_room *ret_room)
{
	struct room_part all = { .count = 0 }, ready = { .count = 0 };
	struct mt_node_config configs[MT_NODES_MAX];
	bool is_taking[MT_NODES_MAX] = { false };
	uint64_t slot_bytes = UINT64_MAX, total, left, now;

	assert(count <= MT_NODES_MAX);
	*ret_room = (struct mt_room){ 0 };
	for (uint32_t i = 0; i < count; i++) {
		const struct mt_room_node *node = &nodes[i];

		configs[i] = *node->config;
		ret_room->raw_total += node->slots_total * node->slot_bytes;
		ret_room->raw_free += node->slots_free * node->slot_bytes;
		if (node->config->state != MT_NODE_IN || node->is_read_only)
			continue;
		slot_bytes = num_min(slot_bytes, node->slot_bytes);
		part_add(&all, node);
		is_taking[i] = node->is_ready;
		if (node->is_ready)
			part_add(&ready, node);
	}
	total = mt_balance_room(all.nodes, all.count, all.total);
	if (total == 0)
		return;
	left = num_min(mt_balance_room(all.nodes, all.count, all.left), total);
	/* Fewer nodes can have more room, for fewer copies: the others' copies are owed all the same. */
	now = num_min(mt_balance_room(ready.nodes, ready.count, ready.left), left);
	if (mt_node_taking_count(configs, is_taking, count) < min_copies)
		now = 0;
	ret_room->data_total = total * slot_bytes;
	ret_room->data_used = (total - left) * slot_bytes;
	ret_room->data_free = now * slot_bytes;
	ret_room->used_percent = (uint32_t)((total - left) * 100 / total);
}
