/* SPDX-License-Identifier: Apache-2.0 */
/* invariant.c -- see invariant.h */
#include <inttypes.h>

#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "invariant.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/lease.h"
#include "middletier/common/port.h"
#include "middletier/common/replica.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/gateway/gateway.h"
#include "middletier/manifest/manifest.h"
#include "middletier/manifest/manifest_edits.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/session/session.h"

#define MANIFEST_SLACK_BYTES 1024u /* a few merges of several runs, a few volumes */

struct look {
	struct sim_cluster *cluster;
	uint32_t spared;
	const struct mt_shard *shard;
};

/* A node of which something may be asked about the shard; else NULL. */
static struct node *
look_node(const struct look *look, uint32_t node_id)
{
	const struct sim_cluster_node *own = &look->cluster->nodes[node_id - 1];
	uint32_t durable;

	if (node_id - 1 == look->spared || own->node == NULL || !own->is_ready)
		return NULL;
	if (sim_node_fence(own->node, look->shard->index, &durable) > look->shard->epoch)
		return NULL;
	return own->node;
}

static void
check_replica(const struct look *look, const struct mt_extent *extent,
    const struct mt_replica *replica)
{
	struct node *node = look_node(look, replica->node_id);
	const struct extent_id *id = &extent->id;
	struct sim_copy copy;

	if (node == NULL)
		return;
	sim_node_copy(node, id, &copy);
	/* A disk that could not be read at a start: it knows, and will say so when it is asked. */
	if (copy.is_damaged)
		return;
	if ((extent->sm.state == MT_EXTENT_OPEN || extent->sm.state == MT_EXTENT_BROKEN) &&
	    copy.durable_bytes < extent->acked_bytes)
		sim_cluster_fail(look->cluster,
		    "extent %" PRIu32 "/%" PRIu32 "/%" PRIu64 ": %" PRIu64
		    " bytes are acknowledged, node %" PRIu32 " holds %" PRIu64,
		    id->shard, id->epoch, id->counter, extent->acked_bytes, replica->node_id,
		    copy.durable_bytes);
	/* The extent was open under this epoch, sealed at what all had acknowledged, not made anew since. */
	if (extent->sm.state == MT_EXTENT_SEALED && id->epoch == look->shard->epoch &&
	    copy.is_held && copy.incarnation == replica->incarnation &&
	    copy.durable_bytes < extent->sealed_bytes)
		sim_cluster_fail(look->cluster,
		    "extent %" PRIu32 "/%" PRIu32 "/%" PRIu64 ": %" PRIu64
		    " bytes are acknowledged and sealed, node %" PRIu32 " holds %" PRIu64,
		    id->shard, id->epoch, id->counter, extent->sealed_bytes, replica->node_id,
		    copy.durable_bytes);
	if (extent->sm.state == MT_EXTENT_SEALED && replica->is_truncated && !replica->is_damaged &&
	    (!copy.is_sealed || copy.durable_bytes != extent->sealed_bytes))
		sim_cluster_fail(look->cluster,
		    "extent %" PRIu32 "/%" PRIu32 "/%" PRIu64 ": sealed at %" PRIu64
		    ", node %" PRIu32 " counts as whole and holds %" PRIu64 "%s",
		    id->shard, id->epoch, id->counter, extent->sealed_bytes, replica->node_id,
		    copy.durable_bytes, copy.is_sealed ? "" : ", not sealed");
}

/* Edits that make a manifest longer are pressed back: a merge that had begun may yet end, no more. */
static void
check_manifest(const struct look *look)
{
	const struct mt_manifest_state *state = mt_manifest_state(look->shard);
	uint64_t bytes_max = look->cluster->options.manifest_bytes;

	if (bytes_max != 0 && state != NULL &&
	    mt_manifest_state_pressed_bytes(state) > bytes_max + MANIFEST_SLACK_BYTES)
		sim_cluster_fail(look->cluster,
		    "shard %" PRIu32 ": a manifest of %" PRIu32 " runs and %" PRIu32
		    " cuts, which may have %" PRIu64 " bytes",
		    look->shard->index, state->runs.count, state->cut_count, bytes_max);
}

static void
check_shard(const struct look *look)
{
	const struct mt_shard *shard = look->shard;

	check_manifest(look);

	for (uint32_t i = 0; i < shard->extent_count; i++) {
		const struct mt_extent *extent = shard->extents[i];

		if (extent == NULL || extent->is_going)
			continue;
		for (uint32_t k = 0; k < extent->replica_count; k++)
			check_replica(look, extent, &extent->replicas[k]);
	}
}

/* By its own clock, which may be a hundredth slower than the store's. */
static void
check_lease(const struct look *look, const struct sim_cluster_gateway *own)
{
	const struct mt_gateway *gateway = own->gateway;
	uint64_t until_ns = mt_lease_until_ns(&gateway->shared),
		 now_ns = mt_lease_now_ns(own->loop);
	const struct sim_store *store = look->cluster->store;
	uint64_t believed_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	uint64_t left_ns = sim_store_lease_left_ns(look->cluster->store, gateway->member.lease);

	/* A backup knows of no later lease: its owner finds out by its next renewal. */
	if (sim_store_is_etcd(store) && store->set_back_ns != 0 &&
	    sim_world_now_ns(look->cluster->world) < store->set_back_ns + gateway->options.lease_ns)
		return;
	if (believed_ns > left_ns + gateway->options.lease_ns / 32)
		sim_cluster_fail(look->cluster,
		    "gateway %" PRIu32 " believes in its lease for %" PRIu64
		    " ns, the store for %" PRIu64,
		    own->index + 1, believed_ns, left_ns);
}

static void
note_epochs(struct sim_invariants *invariants, const struct mt_gateway *gateway)
{
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_port *port = &gateway->ports[i];

		for (uint32_t k = 0; k < port->shard_count; k++) {
			const struct mt_shard *shard = &port->shards[k];
			uint32_t *latest;

			if (shard->index >= SIM_INVARIANT_SHARDS_MAX)
				continue;
			latest = &invariants->epochs[shard->index];
			*latest = (uint32_t)num_max(*latest, shard->epoch);
		}
	}
}

/* A later owner may have replaced and deleted copies that an earlier one, unaware, still counts. */
static bool
is_deposed(const struct sim_invariants *invariants, const struct mt_shard *shard)
{
	return shard->index < SIM_INVARIANT_SHARDS_MAX &&
	    shard->epoch < invariants->epochs[shard->index];
}

/* Merges and copies give way to the port's count: it is what its sessions have, at any time. */
static void
check_writes(const struct look *look, const struct mt_port *port)
{
	struct loop_link *link, *next;
	uint32_t count = 0;

	LIST_FOREACH_SAFE((struct loop_link *)&port->sessions, link, next)
		count += LIST_ENTRY(link, struct mt_session, link)->write_count;
	if (port->write_count != count)
		sim_cluster_fail(look->cluster,
		    "%s: counts %" PRIu32 " writes, its sessions have %" PRIu32, port->address,
		    port->write_count, count);
}

static void
check_gateway(const struct sim_invariants *invariants, struct look *look,
    const struct mt_gateway *gateway)
{
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_port *port = &gateway->ports[i];

		check_writes(look, port);
		for (uint32_t k = 0; k < port->shard_count; k++) {
			look->shard = &port->shards[k];
			if (look->shard->sm.state == MT_SHARD_SERVING &&
			    !is_deposed(invariants, look->shard))
				check_shard(look);
		}
	}
}

static void
check_fences(struct sim_invariants *invariants, struct sim_cluster *cluster, uint32_t index)
{
	const struct sim_cluster_node *own = &cluster->nodes[index];
	uint32_t count = (uint32_t)num_min(cluster->options.shard_count, SIM_INVARIANT_SHARDS_MAX);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t *highest = &invariants->fences[index][i], durable;
		uint32_t now = sim_node_fence(own->node, i, &durable);

		if (now < *highest)
			sim_cluster_fail(cluster,
			    "node %" PRIu32 ": its fence of shard %" PRIu32 " was %" PRIu32
			    " and is %" PRIu32,
			    index + 1, i, *highest, now);
		*highest = (uint32_t)num_max(*highest, durable);
	}
}

static void
check_flushes(struct sim_cluster *cluster, uint32_t index)
{
	const struct sim_cluster_node *own = &cluster->nodes[index];
	struct extent_id id;

	if (sim_node_has_lost(own->node, own->disk, &id))
		sim_cluster_fail(cluster,
		    "extent %" PRIu32 "/%" PRIu32 "/%" PRIu64 ": node %" PRIu32
		    " counts as durable what a failed flush gave up",
		    id.shard, id.epoch, id.counter, index + 1);
}

void
sim_invariants_check(struct sim_invariants *invariants, struct sim_cluster *cluster,
    uint32_t spared)
{
	struct look look = { .cluster = cluster, .spared = spared };

	for (uint32_t i = 0; i < cluster->options.node_count; i++) {
		if (i == spared || cluster->nodes[i].node == NULL || !cluster->nodes[i].is_ready ||
		    cluster->nodes[i].has_left)
			continue;
		check_fences(invariants, cluster, i);
		check_flushes(cluster, i);
	}
	/* Twice: the first gateway may be the one that does not know of the second's epoch. */
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		if (cluster->gateways[i].gateway != NULL)
			note_epochs(invariants, cluster->gateways[i].gateway);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		if (cluster->gateways[i].gateway == NULL)
			continue;
		check_lease(&look, &cluster->gateways[i]);
		check_gateway(invariants, &look, cluster->gateways[i].gateway);
	}
}
