/* SPDX-License-Identifier: Apache-2.0 */
/* enemy_node.c -- what a rogue gateway asks a node for, by a look into the node's memory; see enemy.h */
#include "base/check.h"
#include "base/num.h"
#include "cleave/wire.h"
#include "cluster.h"
#include "enemy_inside.h"
#include "storage-node/extent.h"
#include "storage-node/fence.h"
#include "storage-node/format/ondisk.h"
#include "storage-node/node_state.h"

bool
sim_enemy_node_hello(const struct sim_cluster *cluster, uint32_t index, struct wire_hello *hello)
{
	const struct sim_cluster_node *own = &cluster->nodes[index];
	struct store_id store;

	if (own->node == NULL || !own->is_ready)
		return false;
	store = sn_fence_store_id(own->node);
	if (hello->role == WIRE_ROLE_GATEWAY) {
		hello->session_id = store.high;
		hello->attach = store.low;
	}
	return true;
}

static const struct sn_extent *
extent_choose(struct sim_enemy *enemy, const struct node *node)
{
	uint32_t first = sim_enemy_below(enemy, node->super.slot_count);

	for (uint32_t i = 0; i < node->super.slot_count; i++) {
		const struct sn_extent *extent =
		    &node->extents[(first + i) % node->super.slot_count];
		const struct sn_claims *claims = &node->claims[extent->slot.id.shard];

		if (sn_extent_is_held(extent) && claims->now.gateway != 0 &&
		    claims->now.gateway != ENEMY_ROGUE_NUMBER)
			return extent;
	}
	return NULL;
}

bool
sim_enemy_node_request(struct sim_enemy *enemy, const struct sim_cluster *cluster, uint32_t index,
    struct wire_node *ret_request)
{
	static const enum wire_opcode opcodes[] = { WIRE_EXTENT_CREATE, WIRE_EXTENT_APPEND,
		WIRE_EXTENT_READ, WIRE_EXTENT_FREEZE, WIRE_EXTENT_TRUNCATE, WIRE_EXTENT_DELETE,
		WIRE_EXTENT_VERIFY, WIRE_SHARD_FENCE };
	const struct node *node = cluster->nodes[index].node;
	const struct sn_extent *extent;

	extent = node == NULL ? NULL : extent_choose(enemy, node);
	if (extent == NULL)
		return false;
	*ret_request =
	    (struct wire_node){ .opcode = opcodes[sim_enemy_below(enemy, NUM_COUNT(opcodes))],
		    .request_id = 1,
		    .id = extent->slot.id,
		    .kind = extent->slot.kind,
		    .epoch = node->claims[extent->slot.id.shard].now.epoch };
	switch (ret_request->opcode) {
	case WIRE_EXTENT_READ:
		ret_request->length_bytes = 4096;
		break;
	case WIRE_EXTENT_CREATE:
		ret_request->id.counter = EXTENT_COUNTER_MAX - sim_enemy_below(enemy, 1000);
		break;
	case WIRE_EXTENT_DELETE:
		ret_request->offset_bytes = extent->slot.incarnation;
		break;
	case WIRE_EXTENT_APPEND:
		ret_request->length_bytes = ENEMY_MESSAGE_BYTES;
		ret_request->offset_bytes = extent->durable_bytes;
		break;
	default:
		break;
	}
	return true;
}
