/* SPDX-License-Identifier: Apache-2.0 */
/* node_usage.c -- see node_usage.h */
#include "port/node_usage.h"

#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/sm.h"
#include "cleave/meta.h"
#include "common/port.h"
#include "common/root.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "extent/copy_state.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/node_link.h"

static void
usage_add_leaving(struct mt_node_usage *usage, const struct mt_shard *shard,
    enum mt_leaving leaving, uint32_t copy_count)
{
	struct mt_leaving_count *count = &usage->leaving[leaving];

	assert(leaving < MT_LEAVING_NR);
	/* A shard's extents are looked at one after the other. */
	if (copy_count > 0 && (count->shard_count == 0 || count->last_shard != shard->index)) {
		if (count->shard_count++ == 0)
			count->shard = shard->index;
		count->last_shard = shard->index;
	}
	count->copy_count += copy_count;
}

static void
usage_add_extent(const struct mt_extent *extent, uint32_t node_id, bool is_draining,
    struct mt_node_usage *usage)
{
	assert(extent->replica_count <= MT_REPLICAS_MAX);
	if (mt_extent_replica(extent, node_id) < 0)
		return;
	usage->extent_count++;
	usage->bytes += extent->sealed_bytes;
	if (is_draining)
		usage_add_leaving(usage, extent->shard, mt_leaving_of(extent), 1);
}

static void
usage_add_shard(const struct mt_shard *shard, uint32_t node_id, bool is_draining,
    struct mt_node_usage *usage)
{
	const struct mt_root *root = shard->root;
	uint32_t begun_count = 0;
	const struct loop_link *link;

	assert(shard->sm.state == MT_SHARD_SERVING);
	assert(shard->index < CLEAVE_SHARDS_MAX);
	usage->serving[shard->index / 64] |= UINT64_C(1) << shard->index % 64;
	for (link = shard->live_extents.next; link != NULL && link != &shard->live_extents;
	     link = link->next)
		usage_add_extent(LIST_ENTRY(link, struct mt_extent, shard_link), node_id,
		    is_draining, usage);
	for (link = shard->copies.next; link != NULL && link != &shard->copies; link = link->next)
		begun_count += LIST_ENTRY(link, struct mt_copy, link)->options.target_node_id ==
		    node_id;
	for (uint32_t i = 0; root != NULL && root->has_manifest && i < root->manifest_replica_count;
	     i++)
		begun_count += root->manifest_replicas[i].node_id == node_id;
	usage->extent_count += begun_count;
	if (is_draining)
		usage_add_leaving(usage, shard, MT_LEAVING_OPEN, begun_count);
}

void
mt_node_usage_take(const struct mt_port *port, uint32_t node_id, uint64_t version,
    struct mt_node_usage *ret_usage)
{
	bool is_draining = false;

	assert(node_id != 0);
	memset(ret_usage, 0, sizeof(*ret_usage));
	for (uint32_t i = 0; i < port->link_count; i++) {
		const struct mt_node_config *config = &port->links[i].config;

		ret_usage->is_current |= config->node_id == node_id &&
		    ((config->version ^ version) & META_VERSION_COMMON) == 0;
		is_draining |= config->node_id == node_id && config->state == MT_NODE_DRAINING;
	}
	for (uint32_t i = 0; i < port->shard_count; i++) {
		if (port->shards[i].sm.state == MT_SHARD_SERVING)
			usage_add_shard(&port->shards[i], node_id, is_draining, ret_usage);
	}
}
