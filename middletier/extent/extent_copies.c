/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extent_copies.c -- see extent_copies.h
 *
 * What is found out about a copy is noted in its replica; upkeep/, which is woken, does something about it: it
 * verifies suspects, writes flags that have changed to the manifest, and makes damaged copies anew.
 */
#include "extent/extent_copies.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "common/event.h"
#include "common/lease.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/choose.h"
#include "extent/extent.h"
#include "extent/forgetful_node.h"
#include "extent/node_link.h"

#define EXTENT_DAMAGE_TOLD_NS NUM_S(1)

const char *
mt_extent_text(const struct mt_extent *extent, char out[MT_EXTENT_TEXT_BYTES])
{
	CHECK_OBJ(extent, MT_EXTENT_MAGIC);
	(void)snprintf(out, MT_EXTENT_TEXT_BYTES, "%" PRIu32 ".%" PRIu32 ".%" PRIu64,
	    extent->id.shard, extent->id.epoch, extent->id.counter);
	return out;
}

struct mt_copies
mt_extent_copies(struct mt_extent *extent)
{
	CHECK_OBJ(extent, MT_EXTENT_MAGIC);
	return (struct mt_copies){ .replicas = extent->replicas,
		.count = extent->replica_count,
		.rotor = &extent->read_rotor };
}

void
mt_extent_upkeep(struct mt_shard *shard)
{
	if (shard->upkeep_task != NULL)
		loop_defer(shard->port->loop, shard->upkeep_task);
}

int
mt_extent_replica(const struct mt_extent *extent, uint32_t node_id)
{
	assert(extent->replica_count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		if (extent->replicas[i].node_id == node_id)
			return (int)i;
	}
	return -1;
}

/* A disk that is bad has many: an event a second of a shard is enough, the rest is in the log, and counted. */
static bool
damage_is_told(struct mt_shard *shard)
{
	uint64_t now_ns = loop_now_ns(shard->port->loop);

	if (shard->damage_told_ns != 0 && now_ns < shard->damage_told_ns + EXTENT_DAMAGE_TOLD_NS)
		return false;
	shard->damage_told_ns = now_ns;
	return true;
}

void
mt_extent_damage(struct mt_extent *extent, uint32_t replica_index, const char *why, int rc)
{
	struct mt_replica *replica = &extent->replicas[replica_index];
	bool is_sealed = extent->sm.state == MT_EXTENT_SEALED;
	char text[MT_EXTENT_TEXT_BYTES], line[MT_EVENT_TEXT_BYTES];

	assert(replica_index < extent->replica_count);
	replica->is_suspect = false;
	if (replica->is_damaged)
		return;
	replica->is_damaged = extent->is_dirty = true;
	metric_add(&extent->shard->port->metrics[MT_METRIC_copies_damaged], 1);
	(void)snprintf(line, sizeof(line),
	    "extent: a copy is damaged extent=%s node=%" PRIu32 " %s_bytes=%" PRIu64 " rc=%s: %s",
	    mt_extent_text(extent, text), replica->node_id, is_sealed ? "sealed" : "acked",
	    is_sealed ? extent->sealed_bytes : extent->acked_bytes, log_errno(rc), why);
	if (damage_is_told(extent->shard))
		mt_shard_event(extent->shard, CLEAVE_EVENT_COPY_DAMAGED, "%s", line);
	else
		log_limited(LOG_WARN, "%s", line);
	mt_forgetful_node_note(extent, replica, rc);
	mt_extent_upkeep(extent->shard);
}

void
mt_extent_heal(struct mt_extent *extent, uint32_t replica_index)
{
	struct mt_replica *replica = &extent->replicas[replica_index];
	char text[MT_EXTENT_TEXT_BYTES];

	assert(replica_index < extent->replica_count);
	if (!replica->is_damaged)
		return;
	replica->is_damaged = false;
	extent->is_dirty = true;
	log_limited(LOG_WARN,
	    "extent: a copy is whole again extent=%s node=%" PRIu32 ": its node has verified it",
	    mt_extent_text(extent, text), replica->node_id);
	mt_extent_upkeep(extent->shard);
}

bool
mt_extent_is_whole(const struct mt_extent *extent, uint32_t replica_count)
{
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		if (extent->replicas[i].is_damaged)
			return false;
	}
	return extent->sm.state == MT_EXTENT_OPEN && extent->replica_count >= replica_count;
}

int
mt_extent_leaving(const struct mt_extent *extent)
{
	assert(extent->replica_count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		const struct mt_link *link =
		    mt_port_link(extent->shard->port, extent->replicas[i].node_id);

		if (link != NULL && link->config.state == MT_NODE_DRAINING &&
		    !extent->replicas[i].is_damaged)
			return (int)i;
	}
	return -1;
}

void
mt_extent_suspect(struct mt_extent *extent, uint32_t node_id)
{
	int index = mt_extent_replica(extent, node_id);

	assert(node_id != 0);
	if (index < 0 || extent->replicas[index].is_damaged || extent->replicas[index].is_suspect)
		return;
	extent->replicas[index].is_suspect = true;
	mt_extent_upkeep(extent->shard);
}

void
mt_extent_replace(struct mt_extent *extent, uint32_t replica_index,
    const struct mt_replica *replica)
{
	assert(replica_index <= extent->replica_count);
	assert(replica_index < MT_REPLICAS_MAX);
	assert(replica->node_id != 0);
	if (replica_index == extent->replica_count)
		extent->replica_count++;
	extent->replicas[replica_index] = *replica;
	extent->placed_ns = loop_now_ns(extent->shard->port->loop);
}

bool
mt_extent_is_live(const struct mt_shard *shard, const struct extent_id *id, uint32_t node_id)
{
	assert(id->shard == shard->index);
	if (shard->live_extents.next == NULL)
		return false;
	for (struct loop_link *link = shard->live_extents.next; link != &shard->live_extents;
	     link = link->next) {
		const struct mt_extent *extent = LIST_ENTRY(link, struct mt_extent, shard_link);

		if (extent->id.counter == id->counter && extent->id.epoch == id->epoch &&
		    mt_extent_replica(extent, node_id) >= 0)
			return true;
	}
	return false;
}
