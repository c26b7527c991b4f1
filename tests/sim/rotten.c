/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rotten.c -- bits flip in extents that are still written to; see check.h
 *
 * What is open has no length on the disks: only the marks that its batches carry, and its owner, know how much
 * of it must be there. A scrub asks the owner; a take-over, whose owner is gone, has the marks.
 */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "check.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/wire.h"
#include "extent/extent_copies.h"
#include "invariant.h"
#include "middletier/common/replica.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/manifest/manifest.h"
#include "splitlib/sim/loop_sim.h"

#define FOUND_LIMIT_NS NUM_S(60)
#define LOOK_EVERY_NS NUM_MS(100)
#define AWAY_NS NUM_S(5) /* behind all time-outs: who believes what is there has begun to serve */

/* An open extent with all its copies, each of them good, and the same as the others. */
struct rotten {
	struct sim_cluster *cluster;
	uint32_t shard;
	struct extent_id id;
	uint32_t copy_count;
	uint32_t nodes[MT_REPLICAS_MAX]; /* indexes */
	struct sim_copy copies[MT_REPLICAS_MAX];
	uint64_t acked_bytes;
	uint64_t marked_bytes; /* of these some batch must say that they were acknowledged */
};

/* ---- which extent ---- */

static void
batch_look(const struct rotten *rotten, uint32_t copy, uint64_t at,
    struct batch_header_disk *ret_header)
{
	disk_sim_peek(rotten->cluster->nodes[rotten->nodes[copy]].disk,
	    rotten->copies[copy].data_offset + at, ret_header, sizeof(*ret_header));
}

/*
 * Whether all of it is a chain of batches, by their lengths. When one is sent, no more than so many are in
 * flight: those before were acknowledged by then.
 */
static bool
chain_look(struct rotten *rotten)
{
	struct batch_header_disk header;
	uint64_t at = 0, starts[BATCH_IN_FLIGHT_MAX] = { 0 };

	rotten->marked_bytes = 0;
	for (uint32_t i = 0; at < rotten->acked_bytes; i++) {
		batch_look(rotten, 0, at, &header);
		if (header.batch_bytes == 0 || header.used_bytes == 0)
			return false;
		rotten->marked_bytes = starts[i % BATCH_IN_FLIGHT_MAX];
		starts[i % BATCH_IN_FLIGHT_MAX] = at;
		at += header.batch_bytes;
	}
	return at == rotten->acked_bytes;
}

static bool
copies_are_equal(const struct rotten *rotten, uint32_t a, uint32_t b)
{
	uint8_t page_a[DISK_ALIGN], page_b[DISK_ALIGN];

	for (uint64_t at = 0; at < rotten->acked_bytes; at += DISK_ALIGN) {
		disk_sim_peek(rotten->cluster->nodes[rotten->nodes[a]].disk,
		    rotten->copies[a].data_offset + at, page_a, sizeof(page_a));
		disk_sim_peek(rotten->cluster->nodes[rotten->nodes[b]].disk,
		    rotten->copies[b].data_offset + at, page_b, sizeof(page_b));
		if (memcmp(page_a, page_b, sizeof(page_a)) != 0)
			return false;
	}
	return true;
}

static bool
rotten_take(struct rotten *rotten, const struct mt_extent *extent)
{
	struct sim_cluster *cluster = rotten->cluster;

	if (extent == NULL || extent->is_going || extent->sm.state != MT_EXTENT_OPEN ||
	    extent->append_count > 0 || extent->acked_bytes == 0)
		return false;
	rotten->id = extent->id;
	rotten->acked_bytes = extent->acked_bytes;
	rotten->copy_count = extent->replica_count;
	if (rotten->copy_count < MT_REPLICAS_MAX)
		return false;
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		uint32_t node = extent->replicas[i].node_id - 1;
		struct sim_copy *copy = &rotten->copies[i];

		if (extent->replicas[i].is_damaged || cluster->nodes[node].node == NULL ||
		    !cluster->nodes[node].is_ready)
			return false;
		rotten->nodes[i] = node;
		sim_node_copy(cluster->nodes[node].node, &extent->id, copy);
		if (!copy->is_held || copy->is_damaged || copy->is_sealed ||
		    copy->incarnation != extent->replicas[i].incarnation ||
		    copy->durable_bytes < extent->acked_bytes ||
		    (i > 0 && !copies_are_equal(rotten, 0, i)))
			return false;
	}
	return chain_look(rotten);
}

/* Extents of the log rather than of a manifest, which is never empty. */
static bool
rotten_find(struct rotten *rotten, struct sim_cluster *cluster)
{
	uint32_t count = cluster->options.shard_count, first = sim_cluster_below(cluster, count);

	*rotten = (struct rotten){ .cluster = cluster };
	for (uint32_t i = 0; i < 2 * count; i++) {
		const struct mt_shard *shard;

		rotten->shard = (first + i) % count;
		shard = sim_check_shard(cluster, rotten->shard);
		if (shard == NULL)
			continue;
		if (i >= count && rotten_take(rotten, mt_manifest_extent(shard)))
			return true;
		for (uint32_t k = 0; i < count && k < shard->extent_count; k++)
			if (shard->extents[k] != NULL && shard->extents[k]->kind == EXTENT_LOG &&
			    rotten_take(rotten, shard->extents[k]))
				return true;
	}
	return false;
}

/* Not that on the disk that may have destroyed what nobody has read yet. */
static uint32_t
copy_choose(const struct rotten *rotten, uint32_t spared)
{
	uint32_t copy = sim_cluster_below(rotten->cluster, rotten->copy_count);

	return rotten->nodes[copy] == spared ? (copy + 1) % rotten->copy_count : copy;
}

/* A bit that somebody reads, of a batch that begins below @limit_bytes: not of its padding. */
static void
rot_copy(const struct rotten *rotten, uint32_t copy, uint64_t limit_bytes)
{
	struct sim_cluster *cluster = rotten->cluster;
	uint64_t where = sim_world_random_below(cluster->world, limit_bytes), at = 0;
	struct batch_header_disk header;

	/* The copy's own heads: another's may have rotted a moment ago, and tell of no next one. */
	batch_look(rotten, copy, at, &header);
	while (header.batch_bytes != 0 && at + header.batch_bytes <= where) {
		at += header.batch_bytes;
		batch_look(rotten, copy, at, &header);
	}
	at += sim_cluster_below(cluster, (uint32_t)num_max(header.used_bytes, 1));
	sim_world_trace(cluster->world, "rot of node %u at %" PRIu64, rotten->nodes[copy] + 1, at);
	disk_sim_rot(cluster->nodes[rotten->nodes[copy]].disk,
	    rotten->copies[copy].data_offset + at, sim_cluster_below(cluster, 8));
}

/* ---- a scrub finds it ---- */

/* Does its owner still count the copy as a good one? */
static bool
is_trusted(const struct rotten *rotten, const struct mt_extent *extent, uint32_t copy)
{
	int index;

	if (extent == NULL || extent->is_going ||
	    extent_id_pack(&extent->id) != extent_id_pack(&rotten->id))
		return false;
	index = mt_extent_replica(extent, rotten->nodes[copy] + 1);
	return index >= 0 && !extent->replicas[index].is_damaged &&
	    extent->replicas[index].incarnation == rotten->copies[copy].incarnation;
}

static bool
is_found(const struct rotten *rotten, uint32_t copy)
{
	const struct mt_shard *shard = sim_check_shard(rotten->cluster, rotten->shard);

	if (shard == NULL)
		return false;
	for (uint32_t i = 0; i < shard->extent_count; i++)
		if (is_trusted(rotten, shard->extents[i], copy))
			return false;
	return !is_trusted(rotten, mt_manifest_extent(shard), copy);
}

void
sim_check_scrubs_open(struct sim_cluster *cluster, uint32_t spared)
{
	struct rotten rotten;
	uint64_t end_ns;
	uint32_t copy;

	if (!rotten_find(&rotten, cluster))
		return;
	copy = copy_choose(&rotten, spared);
	rot_copy(&rotten, copy, rotten.acked_bytes);
	(void)sim_check_scrub(cluster);
	end_ns = sim_world_now_ns(cluster->world) + FOUND_LIMIT_NS;
	while (!is_found(&rotten, copy)) {
		if (sim_world_now_ns(cluster->world) >= end_ns)
			sim_cluster_fail(cluster,
			    "open extent %u/%u/%llu: no scrub has found the rot of node %u",
			    rotten.id.shard, rotten.id.epoch, (unsigned long long)rotten.id.counter,
			    rotten.nodes[copy] + 1);
		sim_cluster_run(cluster, LOOK_EVERY_NS);
	}
}

/* ---- two of three, while the third is away ---- */

bool
sim_check_two_rotten(struct sim_cluster *cluster, uint32_t spared)
{
	struct rotten rotten;
	uint32_t away;

	if (!rotten_find(&rotten, cluster) || rotten.marked_bytes == 0)
		return false;
	away = copy_choose(&rotten, spared);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_kill(cluster, i);
	for (uint32_t i = 0; i < rotten.copy_count; i++) {
		sim_cluster_node_kill(cluster, rotten.nodes[i], false);
		if (i == away)
			continue;
		rot_copy(&rotten, i, rotten.marked_bytes);
		sim_cluster_node_start(cluster, rotten.nodes[i]);
	}
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_start(cluster, i);
	sim_cluster_run(cluster,
	    2 * (cluster->options.node_timeout_ns + cluster->options.lease_ns) + AWAY_NS);
	sim_cluster_start(cluster);
	return true;
}
