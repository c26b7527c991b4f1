/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recovered.c -- a cluster that nothing fails any more becomes whole by itself; see check.h
 *
 * Whole: each shard is served by one gateway, every sealed extent has all the copies that it should
 * have, none of them damaged, every node has confirmed its length, and nodes hold nothing that no
 * manifest names. What is looked at is the gateways' own state, and the nodes' disks.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/sm.h"
#include "check.h"
#include "cleave/loop.h"
#include "extent/extent_copies.h"
#include "middletier/common/port.h"
#include "middletier/common/replica.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/manifest/manifest.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/upkeep/scrub.h"
#include "splitlib/sim/loop_sim.h"
#include "storage-node/extent.h"
#include "well.h"

#define RECOVER_LIMIT_NS NUM_S(180)
#define LOOK_EVERY_NS NUM_MS(100)

struct recovery {
	struct sim_cluster *cluster;
	uint32_t wanted_count; /* copies of an extent */
	uint64_t scrubs_done;  /* by then all was verified */
	char text[160];        /* what is not whole */
};

static struct mt_shard *
shard_of_gateway(const struct sim_cluster_gateway *gateway, uint32_t number)
{
	struct mt_port *port;
	struct mt_shard *shard;

	if (gateway->gateway == NULL || !gateway->is_ready)
		return NULL;
	port = &gateway->gateway->ports[number % gateway->gateway->port_count];
	shard = port->shard_by_number == NULL ? NULL : port->shard_by_number[number];
	return shard != NULL && shard->sm.state == MT_SHARD_SERVING ? shard : NULL;
}

static struct mt_shard *
shard_of(const struct sim_cluster *cluster, uint32_t number, uint32_t *ret_count)
{
	struct mt_shard *found = NULL;

	*ret_count = 0;
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		struct mt_shard *shard = shard_of_gateway(&cluster->gateways[i], number);

		if (shard == NULL)
			continue;
		found = shard;
		++*ret_count;
	}
	return *ret_count == 1 ? found : NULL;
}

const struct mt_shard *
sim_check_shard(const struct sim_cluster *cluster, uint32_t number)
{
	uint32_t count;

	return shard_of(cluster, number, &count);
}

/* The shard where it is served: by one gateway. Else NULL and a text. */
static struct mt_shard *
shard_find(struct recovery *recovery, uint32_t number)
{
	uint32_t count;
	struct mt_shard *found = shard_of(recovery->cluster, number, &count);

	if (found != NULL)
		return found;
	(void)snprintf(recovery->text, sizeof(recovery->text), "shard %u is served by %u gateways",
	    number, count);
	return NULL;
}

static bool
extent_is_whole(struct recovery *recovery, const struct mt_extent *extent)
{
	uint32_t good_count = 0, uncut_count = 0;

	for (uint32_t i = 0; i < extent->replica_count; i++) {
		/* Read again before it is judged, if its node could not read it. */
		good_count += !extent->replicas[i].is_damaged && extent->replicas[i].failed_ns == 0;
		uncut_count += !extent->replicas[i].is_truncated;
	}
	if (extent->sm.state != MT_EXTENT_SEALED)
		uncut_count = 0;
	else if (extent->sealed_bytes == 0)
		return true; /* there is nothing to copy */
	if (good_count >= recovery->wanted_count && good_count == extent->replica_count &&
	    uncut_count == 0 && extent->sm.state != MT_EXTENT_BROKEN)
		return true;
	(void)snprintf(recovery->text, sizeof(recovery->text),
	    "%s extent %u.%u.%llu has %u good copies of %u, %u uncut, %u wanted",
	    sm_state_name(&extent->sm), extent->id.shard, extent->id.epoch,
	    (unsigned long long)extent->id.counter, good_count, extent->replica_count, uncut_count,
	    recovery->wanted_count);
	return false;
}

static bool
shards_are_whole(struct recovery *recovery)
{
	recovery->text[0] = 0;
	for (uint32_t n = 0; n < recovery->cluster->options.shard_count; n++) {
		const struct mt_shard *shard = shard_find(recovery, n);

		if (shard == NULL)
			return false;
		for (uint32_t i = 0; i < shard->extent_count; i++)
			if (shard->extents[i] != NULL &&
			    !extent_is_whole(recovery, shard->extents[i]))
				return false;
		/* The extent that the root names: a shard that serves has it. */
		if (!extent_is_whole(recovery, mt_manifest_extent(shard)))
			return false;
	}
	return true;
}

static bool
slot_is_named(const struct mt_shard *shard, const struct sim_slot *slot)
{
	const struct mt_state_extent *extent =
	    mt_manifest_state_find(mt_manifest_state(shard), &slot->id);

	for (uint32_t i = 0; extent != NULL && i < extent->replica_count; i++)
		if (extent->replicas[i].node_id == slot->node + 1)
			return true;
	return mt_extent_is_live(shard, &slot->id, slot->node + 1);
}

/* Room that a failed create or delete has left on the disk is nobody's until the node starts anew. */
bool
sim_check_slot_is_known(const struct sim_cluster *cluster, const struct sim_slot *slot)
{
	struct node *node = cluster->nodes[slot->node].node;
	const struct sn_extent *extent = node == NULL ? NULL : sn_extent_find(node, &slot->id);

	return extent != NULL && extent->slot.incarnation == slot->incarnation;
}

static bool
slot_look(const struct sim_slot *slot, void *arg)
{
	struct recovery *recovery = arg;
	const struct mt_shard *shard = shard_find(recovery, slot->id.shard);

	if (!sim_check_slot_is_known(recovery->cluster, slot) ||
	    (shard != NULL && slot_is_named(shard, slot)))
		return true;
	(void)snprintf(recovery->text, sizeof(recovery->text),
	    "node %u holds extent %u.%u.%llu, which nobody names", slot->node + 1, slot->id.shard,
	    slot->id.epoch, (unsigned long long)slot->id.counter);
	return false;
}

static bool
cluster_is_whole(struct recovery *recovery)
{
	struct sim_cluster *cluster = recovery->cluster;

	if (!shards_are_whole(recovery))
		return false;
	if (sim_cluster_metric(cluster, MT_METRIC_scrubs_done) < recovery->scrubs_done) {
		(void)snprintf(recovery->text, sizeof(recovery->text), "scrubbing goes on");
		return false;
	}
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		if (!sim_check_each_slot(cluster, i, slot_look, recovery))
			return false;
	return true;
}

/* Inside the gateway's process. */
static void
on_scrub_post(struct loop_post *post, void *arg)
{
	const struct sim_cluster_gateway *gateway = arg;

	(void)post;
	for (uint32_t n = 0; n < gateway->cluster->options.shard_count; n++) {
		struct mt_shard *shard = shard_of_gateway(gateway, n);

		if (shard != NULL)
			mt_scrub_now(shard);
	}
}

uint64_t
sim_check_scrub(struct sim_cluster *cluster)
{
	static struct loop_post posts[SIM_GATEWAYS_MAX];

	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		posts[i] = (struct loop_post){ .fn = on_scrub_post, .arg = &cluster->gateways[i] };
		if (cluster->gateways[i].gateway != NULL)
			loop_post(cluster->gateways[i].loop, &posts[i]);
	}
	/* A scrub of each shard may have been under way. */
	return sim_cluster_metric(cluster, MT_METRIC_scrubs_done) +
	    2 * cluster->options.shard_count;
}

static void
wait_until(struct recovery *recovery, bool (*is_so)(struct recovery *recovery))
{
	struct sim_cluster *cluster = recovery->cluster;
	uint64_t end_ns = sim_world_now_ns(cluster->world) + RECOVER_LIMIT_NS;

	while (!is_so(recovery)) {
		if (sim_world_now_ns(cluster->world) >= end_ns)
			sim_cluster_fail(cluster, "does not become whole: %s", recovery->text);
		sim_cluster_run(cluster, LOOK_EVERY_NS);
	}
}

static void
recovery_init(struct recovery *recovery, struct sim_cluster *cluster)
{
	*recovery = (struct recovery){ .cluster = cluster,
		.wanted_count =
		    (uint32_t)num_min(MT_REPLICAS_MAX, sim_cluster_here_count(cluster)) };
}

void
sim_check_copied(struct sim_cluster *cluster)
{
	struct recovery recovery;

	recovery_init(&recovery, cluster);
	wait_until(&recovery, shards_are_whole);
}

void
sim_check_recovers(struct sim_cluster *cluster, bool must_scrub)
{
	struct recovery recovery;

	recovery_init(&recovery, cluster);
	wait_until(&recovery, cluster_is_whole);
	if (must_scrub) {
		recovery.scrubs_done = sim_check_scrub(cluster);
		wait_until(&recovery, cluster_is_whole);
	}
	sim_check_well(cluster);
}
