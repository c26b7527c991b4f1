/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim_room.c -- how long the log may be, how large its layers, and who waits for that
 *
 * The log has two limits. Beyond the *soft* one merges hurry, beyond the *hard* one writes wait until extents have gone.
 * Both are of what its extents take at a node, full or not. While other logs of the port are shorter than theirs, a log may
 * be longer (log_pool.c), but never longer than the --log-bytes option alone would let it: a take-over reads it.
 *
 * The memory of the layers has two limits as well, an eighth of the --log-bytes option and twice that, for records may be
 * small; chunks and runs, which no flush lowers, do not count there. Writes of the latency class wait later: where one more
 * extent was begun, with a quarter more of memory.
 *
 * A layer whose data key, or every copy, is not here cannot be merged, and *pins* all behind it in the log, also what other
 * volumes have in runs by now. Pinned extents do not count, up to a bound: they cost room, and time of a take-over.
 *
 * Nor does the memory of such layers, for other volumes could wait for ever until it is given back. It has a limit of its
 * own, as large as all layers' hard one: at that, writes are refused whose volume has some of it in the shard
 * (mt_reclaim_refuses). Layers that were there before and turn out to be pinned may take it beyond, by as much again and
 * a quarter; what they take beyond that counts. So a shard's layers take at most as much as 7/8 of --log-bytes, and
 * what a take-over has replayed (I9).
 */
#include "merge/reclaim_room.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/limits.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "extent/node_link.h"
#include "index/index.h"
#include "merge/flush.h"
#include "merge/merge_work.h"
#include "merge/pace.h"
#include "merge/reclaim.h"

#define RECLAIM_HOPE_NS NUM_S(10)   /* without a merge */
#define RECLAIM_MERGE_NS NUM_S(60)  /* with one at work, or due */
#define RECLAIM_HELD_NS NUM_MS(200) /* twice what a write waits before it asks again */
#define RECLAIM_MEMORY_SHARE 8u     /* of the log's bytes */
#define RECLAIM_MEMORY_MIN NUM_MIB(1)
/* Halves of the soft limit of the layers' memory: */
#define RECLAIM_FULL_HALVES 4u    /* all writes wait */
#define RECLAIM_SPENT_HALVES 5u   /* ... of the latency class, too */
#define RECLAIM_REFUSED_HALVES 4u /* pinned: its volumes' writes are refused */
#define RECLAIM_PINNED_HALVES (RECLAIM_REFUSED_HALVES + RECLAIM_SPENT_HALVES)
#define RECLAIM_LOG_EXTENTS_MIN 3u
#define RECLAIM_LOG_SHARE 18u    /* the soft limit is at most this part of the shard's share */
#define RECLAIM_LOG_SHARE_MIN 3u /* ... however few slots it has */
#define RECLAIM_PINNED_TIMES 16u /* the soft limit, at most, and */
#define RECLAIM_PINNED_SHARE 6u  /* this part of the shard's share */

/* ---- limits ---- */

_Static_assert((uint64_t)MT_NODES_MAX *WIRE_NODE_SLOTS_MAX *WIRE_NODE_SLOT_BYTES_MAX < UINT64_C(1)
	    << 62,
    "the bytes of all nodes' slots do not wrap");

/* How much of a replica's room would be this shard's if all had the same. */
static uint64_t
reclaim_share_bytes(const struct mt_port *port, uint64_t *ret_slot_bytes)
{
	uint64_t bytes = 0, slot_bytes = UINT64_MAX;
	uint32_t shard_count = port->cluster->shard_count, node_count = 0;

	for (uint32_t i = 0; i < port->link_count; i++) {
		const struct mt_link *link = &port->links[i];

		if (link->config.state != MT_NODE_IN)
			continue; /* what it holds must find room at the others */
		node_count++;
		if (link->slots_total == 0)
			continue;
		bytes += link->slots_total * link->slot_bytes;
		slot_bytes = num_min(slot_bytes, link->slot_bytes);
	}
	*ret_slot_bytes = slot_bytes;
	return bytes / num_min(num_max(node_count, 1), MT_REPLICAS_MAX) / num_max(shard_count, 1);
}

/* At least; slots may make it more. */
static uint64_t
log_hard_bytes(uint64_t soft_bytes)
{
	return soft_bytes + soft_bytes / 2;
}

void
mt_reclaim_set_limits(struct mt_reclaim *reclaim)
{
	const struct mt_port *port = reclaim->shard->port;
	uint64_t slot_bytes, soft_bytes = port->settings->log_bytes;
	uint64_t share_bytes = reclaim_share_bytes(port, &slot_bytes);

	if (soft_bytes != 0)
		reclaim->memory_bytes =
		    num_max(soft_bytes / RECLAIM_MEMORY_SHARE, RECLAIM_MEMORY_MIN);
	if (share_bytes == 0)
		return; /* no node has told yet */
	soft_bytes = num_min(soft_bytes, share_bytes / RECLAIM_LOG_SHARE);
	reclaim->lent_bytes = soft_bytes;
	soft_bytes = num_max(soft_bytes, RECLAIM_LOG_EXTENTS_MIN * slot_bytes);
	soft_bytes = num_min(soft_bytes, share_bytes / RECLAIM_LOG_SHARE_MIN);
	reclaim->slot_bytes = slot_bytes;
	reclaim->soft_bytes = num_max(soft_bytes, slot_bytes);
	reclaim->pinned_max_bytes =
	    num_min(RECLAIM_PINNED_TIMES * reclaim->soft_bytes, share_bytes / RECLAIM_PINNED_SHARE);
	reclaim->hard_bytes =
	    num_max(log_hard_bytes(reclaim->soft_bytes), reclaim->soft_bytes + 2 * slot_bytes);
}

static uint64_t
extent_room_bytes(const struct mt_extent *extent, uint64_t slot_bytes)
{
	assert(slot_bytes != UINT64_MAX);
	return extent->capacity_bytes != 0 ? extent->capacity_bytes : slot_bytes;
}

/* The extent of the log in which @layer begins. */
static uint64_t
layer_begin(const struct mt_shard *shard, const struct mt_layer *layer)
{
	const struct mt_extent *extent = mt_shard_extent(shard, layer->first_extent);

	assert(extent != NULL);
	return extent_id_pack(&extent->id);
}

uint64_t
mt_reclaim_log_end(const struct mt_reclaim *reclaim)
{
	const struct mt_shard *shard = reclaim->shard;
	struct loop_link *link = list_first(&shard->block_index->layers_by_age);

	return link == NULL ? UINT64_MAX
			    : layer_begin(shard, LIST_ENTRY(link, struct mt_layer, age_link));
}

/* Log extents before this one would not, were it not for chunks that cannot be merged now: without a key, or a copy. */
static uint64_t
reclaim_pinned_end(const struct mt_reclaim *reclaim)
{
	const struct mt_shard *shard = reclaim->shard;
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&shard->block_index->layers_by_age, link, next) {
		const struct mt_layer *layer = LIST_ENTRY(link, struct mt_layer, age_link);

		if (layer->chunk->pin == MT_PIN_NONE)
			return layer_begin(shard, layer);
	}
	return UINT64_MAX;
}

void
mt_reclaim_measure(struct mt_reclaim *reclaim)
{
	const struct mt_shard *shard = reclaim->shard;
	uint64_t log_end = mt_reclaim_log_end(reclaim), pinned_end = reclaim_pinned_end(reclaim);
	uint64_t slot_bytes, bytes = 0, sealed_bytes = 0, pinned_bytes = 0;

	(void)reclaim_share_bytes(shard->port, &slot_bytes);
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		const struct mt_extent *extent = shard->extents[i];

		if (extent == NULL || extent->kind != EXTENT_LOG || slot_bytes == UINT64_MAX)
			continue;
		bytes += extent_room_bytes(extent, slot_bytes);
		if (extent->sm.state != MT_EXTENT_SEALED)
			continue;
		sealed_bytes += extent_room_bytes(extent, slot_bytes);
		if (extent_id_pack(&extent->id) >= log_end &&
		    extent_id_pack(&extent->id) < pinned_end)
			pinned_bytes += extent_room_bytes(extent, slot_bytes);
	}
	pinned_bytes = num_min(pinned_bytes, reclaim->pinned_max_bytes);
	assert(sealed_bytes <= bytes && pinned_bytes <= sealed_bytes);
	reclaim->pinned_bytes = pinned_bytes;
	reclaim->log_bytes = bytes - pinned_bytes;
	reclaim->sealed_bytes = sealed_bytes - pinned_bytes;
}

/* The log's bytes, but for the room that its open extent has yet, or the next. */
static uint64_t
reclaim_used_bytes(const struct mt_reclaim *reclaim)
{
	const struct mt_shard *shard = reclaim->shard;
	const struct mt_extent *old = shard->log_old;

	return reclaim->sealed_bytes + (shard->log == NULL ? 0 : shard->log->end_bytes) +
	    (old == NULL ? 0 : old->end_bytes);
}

struct log_pool *
mt_reclaim_tell_pool(const struct mt_shard *shard)
{
	struct mt_reclaim *reclaim = shard->reclaim;
	struct merge_work *work = shard->port->merge_work;
	struct log_share now = { 0 };

	if (work == NULL)
		return NULL;
	if (reclaim->is_running)
		now = (struct log_share){ .soft_bytes = reclaim->lent_bytes,
			.hard_bytes = log_hard_bytes(reclaim->lent_bytes),
			.used_bytes = reclaim_used_bytes(reclaim) };
	mt_log_pool_tell(&work->pool, &reclaim->told, &now);
	return &work->pool;
}

/* Nodes have no room for the log to go on. */
static bool
is_room_short(const struct mt_shard *shard)
{
	return shard->is_log_short;
}

/* Memory of layers that counts. */
static uint64_t
reclaim_layer_bytes(const struct mt_reclaim *reclaim)
{
	const struct mt_index *index = reclaim->shard->block_index;

	assert(index->pinned_bytes <= index->memory_bytes);
	return index->memory_bytes -
	    num_min(index->pinned_bytes, RECLAIM_PINNED_HALVES * (reclaim->memory_bytes / 2));
}

/* Are the layers @halves / 2 times as large as they should be? */
static bool
is_memory_over(const struct mt_shard *shard, uint64_t halves)
{
	const struct mt_reclaim *reclaim = shard->reclaim;

	assert(halves > 0);
	return reclaim != NULL && reclaim->memory_bytes != 0 && shard->block_index != NULL &&
	    reclaim_layer_bytes(reclaim) > halves * (reclaim->memory_bytes / 2);
}

bool
mt_reclaim_is_memory_full(const struct mt_shard *shard)
{
	return is_memory_over(shard, RECLAIM_FULL_HALVES);
}

/* Beyond its hard limit and @more_bytes, and no other log leaves room for it. */
static bool
is_log_over(const struct mt_shard *shard, uint64_t more_bytes)
{
	const struct mt_reclaim *reclaim = shard->reclaim;
	const struct log_pool *pool;

	if (reclaim == NULL || reclaim->hard_bytes == 0 ||
	    reclaim->log_bytes <= reclaim->hard_bytes + more_bytes)
		return false;
	pool = mt_reclaim_tell_pool(shard);
	return pool == NULL || mt_log_pool_left_bytes(pool) == 0 ||
	    reclaim->log_bytes > log_hard_bytes(shard->port->settings->log_bytes);
}

bool
mt_reclaim_is_log_full(const struct mt_shard *shard)
{
	return is_room_short(shard) || is_memory_over(shard, RECLAIM_FULL_HALVES) ||
	    is_log_over(shard, 0);
}

bool
mt_reclaim_is_log_spent(const struct mt_shard *shard)
{
	const struct mt_reclaim *reclaim = shard->reclaim;

	return is_room_short(shard) || is_memory_over(shard, RECLAIM_SPENT_HALVES) ||
	    (reclaim != NULL && is_log_over(shard, reclaim->slot_bytes));
}

bool
mt_reclaim_refuses(const struct mt_shard *shard, uint64_t segment_base, uint32_t segment_count)
{
	const struct mt_reclaim *reclaim = shard->reclaim;
	const struct mt_index *index = shard->block_index;

	if (reclaim == NULL || reclaim->memory_bytes == 0 || index == NULL ||
	    index->pinned_bytes <= RECLAIM_REFUSED_HALVES * (reclaim->memory_bytes / 2))
		return false;
	for (uint32_t i = 0; i < segment_count; i++) {
		const struct mt_segment *segment = mt_segment_find(index, segment_base + i);

		if (segment != NULL && segment->pinned_count > 0)
			return true;
	}
	return false;
}

/* Against its own limits, or, where that is less, of all logs against the pool's: then it takes what others leave. */
static uint32_t
log_pressure(const struct mt_shard *shard, uint64_t gained_bytes)
{
	const struct mt_reclaim *reclaim = shard->reclaim;
	const struct log_pool *pool = mt_reclaim_tell_pool(shard);
	uint64_t used_bytes = reclaim_used_bytes(reclaim);
	uint64_t most_bytes = shard->port->settings->log_bytes;
	uint32_t pressure, of_pool;

	used_bytes -= num_min(gained_bytes, used_bytes);
	pressure = mt_pace_pressure(used_bytes, reclaim->soft_bytes, reclaim->hard_bytes);
	if (pool == NULL)
		return pressure;
	of_pool = mt_log_pool_pressure(pool, gained_bytes);
	of_pool = (uint32_t)num_max(of_pool,
	    mt_pace_pressure(used_bytes, most_bytes, log_hard_bytes(most_bytes)));
	return (uint32_t)num_min(pressure, of_pool);
}

uint32_t
mt_reclaim_pressure(const struct mt_shard *shard, uint64_t gained_bytes)
{
	const struct mt_reclaim *reclaim = shard->reclaim;
	uint64_t memory_bytes;

	assert(reclaim == NULL || reclaim->shard == shard);
	if (reclaim == NULL || !reclaim->is_running || shard->block_index == NULL)
		return 0;
	if (is_room_short(shard))
		return PACE_FULL;
	memory_bytes = reclaim_layer_bytes(reclaim);
	return (uint32_t)num_max(mt_pace_pressure(memory_bytes, reclaim->memory_bytes,
				     2 * reclaim->memory_bytes),
	    log_pressure(shard, gained_bytes));
}

/* The log is full with the extent that goes beyond the limit, not with its last byte. */
uint64_t
mt_reclaim_left_bytes(const struct mt_shard *shard, uint32_t pressure)
{
	const struct mt_reclaim *reclaim = shard->reclaim;
	const struct log_pool *pool;
	uint64_t room_bytes, left_bytes, share_bytes;

	if (reclaim == NULL || reclaim->hard_bytes == 0)
		return UINT64_MAX;
	assert(reclaim->hard_bytes > reclaim->soft_bytes);
	room_bytes = reclaim->hard_bytes - reclaim->soft_bytes;
	left_bytes = reclaim->hard_bytes -
	    num_min(reclaim_used_bytes(reclaim), reclaim->hard_bytes);
	pool = mt_reclaim_tell_pool(shard);
	if (pool != NULL && mt_log_pool_left_bytes(pool) > left_bytes) {
		left_bytes = mt_log_pool_left_bytes(pool);
		room_bytes = num_max(room_bytes, pool->all.hard_bytes - pool->all.soft_bytes);
	}
	left_bytes -= num_min(left_bytes, reclaim->slot_bytes);
	share_bytes = room_bytes / PACE_HURRY * (PACE_FULL - num_min(pressure, PACE_FULL));
	return num_min(left_bytes, share_bytes);
}

void
mt_reclaim_note_held(struct mt_shard *shard)
{
	if (shard->reclaim != NULL)
		shard->reclaim->held_ns = loop_now_ns(shard->port->loop);
}

bool
mt_reclaim_holds_writes(const struct mt_shard *shard)
{
	const struct mt_reclaim *reclaim = shard->reclaim;

	return reclaim != NULL && reclaim->held_ns != 0 &&
	    loop_now_ns(shard->port->loop) < reclaim->held_ns + RECLAIM_HELD_NS;
}

bool
mt_reclaim_can_gain(const struct mt_shard *shard)
{
	const struct mt_reclaim *reclaim = shard->reclaim;

	if (reclaim == NULL || !reclaim->is_running || reclaim->is_stuck)
		return false;
	if (!is_room_short(shard))
		return true; /* only the log is too long */
	return loop_now_ns(shard->port->loop) <
	    reclaim->progress_ns + (mt_flush_can_gain(shard) ? RECLAIM_MERGE_NS : RECLAIM_HOPE_NS);
}

void
mt_reclaim_note_progress(struct mt_reclaim *reclaim)
{
	assert(reclaim->is_running);
	reclaim->is_stuck = false;
	reclaim->progress_ns = loop_now_ns(reclaim->shard->port->loop);
}

void
mt_reclaim_on_merge(struct mt_shard *shard, int rc)
{
	struct mt_reclaim *reclaim = shard->reclaim;

	assert(rc <= 0);
	if (reclaim == NULL || !reclaim->is_running)
		return;
	if (rc == -ENOSPC) {
		reclaim->is_stuck = true;
		mt_shard_on_room(shard);
	} else if (rc == 0) {
		mt_reclaim_note_progress(reclaim);
		mt_reclaim_kick(shard);
	}
}
