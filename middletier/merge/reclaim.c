/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim.c -- extents that hold nothing any more are deleted; how long the log may be
 *
 *	a log extent    sealed, and older than the one in which the oldest layer begins: what it holds is
 *	                in runs. So the log goes from its oldest extent on, in one commit or in many, and
 *	                what is left of it says everything that was said later about any block: a take-over
 *	                between two of them replays no write whose discard has gone
 *	a run extent    sealed, and no run of the index lies in it
 *
 * Neither while somebody uses it (mt_extent_use): a merge that has written into it what no edit names
 * yet. First the edits are made durable, then the nodes are told, as well as can be: what a node that is
 * away keeps is an orphan (sweep.c). A read that is under way there finds nothing, and looks its blocks
 * up again.
 *
 * The log has two limits. Beyond the *soft* one merges hurry, beyond the *hard* one writes wait until extents have gone.
 * Both are of what its extents take at a node, full or not. The memory of the layers has two as well, an eighth of the
 * --log-bytes option and twice that, for records may be small; chunks and runs, which no flush lowers, do not count there.
 * Writes of the latency class wait later: where one more extent was begun, with a quarter more of memory.
 *
 * A layer whose data key, or every copy, is not here cannot be merged, and *pins* all behind it in the log, also what other
 * volumes have in runs by now. Pinned extents do not count, up to a bound: they cost room, and time of a take-over. The
 * memory of layers that cannot be merged does count: enough of them hold up all writes of the shard.
 */
#include "merge/reclaim.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/limits.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "extent/node_link.h"
#include "index/index.h"
#include "manifest/edit.h"
#include "manifest/manifest.h"
#include "merge/flush.h"
#include "merge/pace.h"

#define RECLAIM_MAGIC 0x4c434552u /* "RECL" */
#define RECLAIM_RETRY_NS NUM_MS(100)
#define RECLAIM_HOPE_NS NUM_S(10)   /* without a merge */
#define RECLAIM_MERGE_NS NUM_S(60)  /* with one at work, or due */
#define RECLAIM_HELD_NS NUM_MS(200) /* twice what a write waits before it asks again */
#define RECLAIM_MEMORY_SHARE 8u     /* of the log's bytes */
#define RECLAIM_MEMORY_MIN NUM_MIB(1)
#define RECLAIM_LOG_EXTENTS_MIN 3u
#define RECLAIM_LOG_SHARE 18u    /* the soft limit is at most this part of the shard's share */
#define RECLAIM_LOG_SHARE_MIN 3u /* ... however few slots it has */
#define RECLAIM_PINNED_TIMES 16u /* the soft limit, at most, and */
#define RECLAIM_PINNED_SHARE 6u  /* this part of the shard's share */

struct mt_reclaim {
	uint32_t magic;
	struct mt_shard *shard;
	struct loop_task task;
	struct loop_timer retry_timer;
	bool is_running;
	bool is_committing;
	uint32_t indexes[MT_COMMIT_EDITS_MAX]; /* being deleted */
	uint32_t count;
	uint64_t soft_bytes, hard_bytes;
	uint64_t slot_bytes;   /* of the log's next extent, at least */
	uint64_t memory_bytes; /* of layers: soft; 0: no limit */
	uint64_t pinned_max_bytes;
	uint64_t pinned_bytes; /* of log extents that stay for want of a data key or a copy */
	uint64_t log_bytes;    /* that the log's other extents take at a node */
	uint64_t sealed_bytes; /* of those, sealed ones */
	bool is_stuck;         /* the last merge found no room */
	uint64_t progress_ns;  /* when a merge, or an extent, has ended last */
	uint64_t held_ns;      /* when a write was held back for room last; 0: none was */
};

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

static void
reclaim_set_limits(struct mt_reclaim *reclaim)
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
	soft_bytes = num_max(soft_bytes, RECLAIM_LOG_EXTENTS_MIN * slot_bytes);
	soft_bytes = num_min(soft_bytes, share_bytes / RECLAIM_LOG_SHARE_MIN);
	reclaim->slot_bytes = slot_bytes;
	reclaim->soft_bytes = num_max(soft_bytes, slot_bytes);
	reclaim->pinned_max_bytes =
	    num_min(RECLAIM_PINNED_TIMES * reclaim->soft_bytes, share_bytes / RECLAIM_PINNED_SHARE);
	reclaim->hard_bytes = reclaim->soft_bytes +
	    num_max(reclaim->soft_bytes / 2, 2 * slot_bytes);
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

/* Log extents before this one hold nothing that counts. */
static uint64_t
reclaim_log_end(const struct mt_reclaim *reclaim)
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

		if (!layer->chunk->is_keyless && !layer->chunk->is_unreadable)
			return layer_begin(shard, layer);
	}
	return UINT64_MAX;
}

static void
reclaim_measure_log(struct mt_reclaim *reclaim)
{
	const struct mt_shard *shard = reclaim->shard;
	uint64_t log_end = reclaim_log_end(reclaim), pinned_end = reclaim_pinned_end(reclaim);
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

/* Nodes have no room for the log to go on. */
static bool
is_room_short(const struct mt_shard *shard)
{
	return shard->is_log_short;
}

/* Are the layers @halves / 2 times as large as they should be? */
static bool
is_memory_over(const struct mt_shard *shard, uint64_t halves)
{
	const struct mt_reclaim *reclaim = shard->reclaim;

	assert(halves > 0);
	return reclaim != NULL && reclaim->memory_bytes != 0 && shard->block_index != NULL &&
	    shard->block_index->memory_bytes > halves * (reclaim->memory_bytes / 2);
}

bool
mt_reclaim_is_memory_full(const struct mt_shard *shard)
{
	return is_memory_over(shard, 4);
}

bool
mt_reclaim_is_log_full(const struct mt_shard *shard)
{
	const struct mt_reclaim *reclaim = shard->reclaim;

	return is_room_short(shard) || is_memory_over(shard, 4) ||
	    (reclaim != NULL && reclaim->hard_bytes != 0 &&
		reclaim->log_bytes > reclaim->hard_bytes);
}

bool
mt_reclaim_is_log_spent(const struct mt_shard *shard)
{
	const struct mt_reclaim *reclaim = shard->reclaim;

	return is_room_short(shard) || is_memory_over(shard, 5) ||
	    (reclaim != NULL && reclaim->hard_bytes != 0 &&
		reclaim->log_bytes > reclaim->hard_bytes + reclaim->slot_bytes);
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

uint32_t
mt_reclaim_pressure(const struct mt_shard *shard, uint64_t gained_bytes)
{
	const struct mt_reclaim *reclaim = shard->reclaim;
	uint64_t used_bytes, memory_bytes;

	assert(reclaim == NULL || reclaim->shard == shard);
	if (reclaim == NULL || !reclaim->is_running || shard->block_index == NULL)
		return 0;
	if (is_room_short(shard))
		return PACE_FULL;
	used_bytes = reclaim_used_bytes(reclaim);
	used_bytes -= num_min(gained_bytes, used_bytes);
	memory_bytes = shard->block_index->memory_bytes;
	return (uint32_t)num_max(mt_pace_pressure(memory_bytes, reclaim->memory_bytes,
				     2 * reclaim->memory_bytes),
	    mt_pace_pressure(used_bytes, reclaim->soft_bytes, reclaim->hard_bytes));
}

/* The log is full with the extent that goes beyond the limit, not with its last byte. */
uint64_t
mt_reclaim_left_bytes(const struct mt_shard *shard, uint32_t pressure)
{
	const struct mt_reclaim *reclaim = shard->reclaim;
	uint64_t room_bytes, used_bytes, share_bytes;

	if (reclaim == NULL || reclaim->hard_bytes == 0)
		return UINT64_MAX;
	assert(reclaim->hard_bytes > reclaim->soft_bytes);
	used_bytes =
	    num_min(reclaim_used_bytes(reclaim) + reclaim->slot_bytes, reclaim->hard_bytes);
	room_bytes = reclaim->hard_bytes - reclaim->soft_bytes;
	share_bytes = room_bytes / PACE_HURRY * (PACE_FULL - num_min(pressure, PACE_FULL));
	return num_min(reclaim->hard_bytes - used_bytes, share_bytes);
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

static void
reclaim_note_progress(struct mt_reclaim *reclaim)
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
		reclaim_note_progress(reclaim);
		mt_reclaim_kick(shard);
	}
}

/* ---- which extents ---- */

static bool
reclaim_may_go(const struct mt_extent *extent, uint64_t log_end)
{
	if (extent == NULL || extent->sm.state != MT_EXTENT_SEALED || extent->is_going ||
	    extent->use_count > 0)
		return false;
	/* An empty one holds nothing wherever it is. It is not copied, and a node that drains would wait for it. */
	if (extent->kind == EXTENT_LOG)
		return extent_id_pack(&extent->id) < log_end ||
		    (extent->sealed_bytes == 0 && mt_extent_leaving(extent) >= 0);
	return extent->kind == EXTENT_RUN && extent->run_count == 0;
}

/* Likewise, but for one that may not go yet: those behind it stay, too. */
static uint64_t
reclaim_log_kept(const struct mt_reclaim *reclaim)
{
	const struct mt_shard *shard = reclaim->shard;
	uint64_t log_end = reclaim_log_end(reclaim);
	uint64_t kept = log_end;

	for (uint32_t i = 0; i < shard->extent_count; i++) {
		const struct mt_extent *extent = shard->extents[i];

		if (extent != NULL && extent->kind == EXTENT_LOG && !extent->is_going &&
		    !reclaim_may_go(extent, log_end))
			kept = num_min(kept, extent_id_pack(&extent->id));
	}
	return kept;
}

/* ---- their end ---- */

static void
reclaim_delete(struct mt_reclaim *reclaim, struct mt_extent *extent)
{
	struct mt_shard *shard = reclaim->shard;
	uint64_t *metrics = shard->port->metrics;

	assert(extent->sm.state == MT_EXTENT_SEALED && extent->use_count == 0);
	assert(extent->kind != EXTENT_RUN || extent->run_count == 0);
	if (extent->kind == EXTENT_LOG) {
		assert(shard->log_bytes >= extent->sealed_bytes);
		mt_shard_on_freed(shard, extent->sealed_bytes);
		shard->log_bytes -= extent->sealed_bytes;
	}
	metric_add(&metrics[MT_METRIC_extents_reclaimed], 1);
	metric_add(&metrics[MT_METRIC_reclaimed_bytes], extent->sealed_bytes);
	mt_shard_extent_remove(shard, extent);
	mt_extent_delete(extent);
}

static void
reclaim_on_committed(int rc, void *arg)
{
	struct mt_reclaim *reclaim = arg;

	CHECK_OBJ(reclaim, RECLAIM_MAGIC);
	assert(reclaim->is_committing);
	reclaim->is_committing = false;
	if (!reclaim->is_running)
		return;
	if (rc == -ESTALE) {
		mt_shard_stop(reclaim->shard, -ESTALE);
		return;
	}
	if (rc != 0) {
		log_limited(LOG_WARN,
		    "shard %" PRIu32 ": its manifest takes no edit now, it is tried again rc=%s",
		    reclaim->shard->index, log_errno(rc));
		loop_timer_start(reclaim->shard->port->loop, &reclaim->retry_timer,
		    RECLAIM_RETRY_NS);
		return;
	}
	for (uint32_t i = 0; i < reclaim->count; i++) {
		struct mt_extent *extent = mt_shard_extent(reclaim->shard, reclaim->indexes[i]);

		assert(extent != NULL);
		reclaim_delete(reclaim, extent);
	}
	reclaim_note_progress(reclaim);
	reclaim_measure_log(reclaim);
	mt_reclaim_kick(reclaim->shard);
	mt_shard_on_room(reclaim->shard);
}

/* Is @a to go before @b? The log's from the oldest on, then runs. */
static bool
reclaim_is_before(const struct mt_extent *a, const struct mt_extent *b)
{
	if (a->kind != b->kind)
		return a->kind == EXTENT_LOG;
	return extent_id_pack(&a->id) < extent_id_pack(&b->id);
}

/* The first of those that may go, in order; returns how many. */
static uint32_t
reclaim_choose(const struct mt_reclaim *reclaim,
    const struct mt_extent *chosen[MT_COMMIT_EDITS_MAX])
{
	const struct mt_shard *shard = reclaim->shard;
	uint64_t log_end = reclaim_log_kept(reclaim);
	uint32_t count = 0;

	for (uint32_t i = 0; i < shard->extent_count; i++) {
		const struct mt_extent *extent = shard->extents[i];
		uint32_t at = count;

		if (!reclaim_may_go(extent, log_end))
			continue;
		while (at > 0 && reclaim_is_before(extent, chosen[at - 1]))
			at--;
		if (at == MT_COMMIT_EDITS_MAX)
			continue;
		count = (uint32_t)num_min(count + 1, MT_COMMIT_EDITS_MAX);
		memmove(&chosen[at + 1], &chosen[at], (count - at - 1) * sizeof(chosen[0]));
		chosen[at] = extent;
	}
	return count;
}

static void
reclaim_commit(struct mt_reclaim *reclaim)
{
	struct mt_shard *shard = reclaim->shard;
	const struct mt_extent *chosen[MT_COMMIT_EDITS_MAX];
	struct mt_edit edits[MT_COMMIT_EDITS_MAX];
	uint32_t count = reclaim_choose(reclaim, chosen);
	int rc;

	assert(!reclaim->is_committing);
	for (uint32_t i = 0; i < count; i++) {
		reclaim->indexes[i] = chosen[i]->index;
		edits[i] = (struct mt_edit){ .kind = MT_EDIT_EXTENT_DELETED, .id = chosen[i]->id };
	}
	if (count == 0)
		return;
	reclaim->count = count;
	reclaim->is_committing = true;
	rc = mt_manifest_commit(shard, edits, count, reclaim_on_committed, reclaim);
	if (rc == 0)
		return;
	reclaim->is_committing = false;
	loop_timer_start(shard->port->loop, &reclaim->retry_timer, RECLAIM_RETRY_NS);
}

static void
reclaim_on_task(struct loop_task *task, void *arg)
{
	struct mt_reclaim *reclaim = arg;
	uint64_t pinned_bytes = reclaim->pinned_bytes;

	(void)task;
	CHECK_OBJ(reclaim, RECLAIM_MAGIC);
	if (!reclaim->is_running)
		return;
	reclaim_set_limits(reclaim);
	reclaim_measure_log(reclaim);
	if (reclaim->pinned_bytes > pinned_bytes)
		mt_shard_on_room(reclaim->shard);
	if (!reclaim->is_committing)
		reclaim_commit(reclaim);
	mt_flush_kick(reclaim->shard);
}

static void
reclaim_on_retry(struct loop_timer *timer, void *arg)
{
	struct mt_reclaim *reclaim = arg;

	(void)timer;
	mt_reclaim_kick(reclaim->shard);
}

void
mt_reclaim_kick(struct mt_shard *shard)
{
	struct mt_reclaim *reclaim = shard->reclaim;

	assert(reclaim == NULL || reclaim->shard == shard);
	if (reclaim != NULL && reclaim->is_running)
		loop_defer(shard->port->loop, &reclaim->task);
}

/* ---- its life ---- */

int
mt_reclaim_init(struct mt_shard *shard)
{
	struct mt_reclaim *reclaim = mt_calloc(1, sizeof(*reclaim));

	assert(shard->reclaim == NULL);
	if (reclaim == NULL)
		return -ENOMEM;
	reclaim->magic = RECLAIM_MAGIC;
	reclaim->shard = shard;
	loop_task_init(&reclaim->task, reclaim_on_task, reclaim);
	loop_timer_init(&reclaim->retry_timer, reclaim_on_retry, reclaim);
	shard->reclaim = reclaim;
	return 0;
}

void
mt_reclaim_start(struct mt_shard *shard)
{
	struct mt_reclaim *reclaim = shard->reclaim;

	CHECK_OBJ(reclaim, RECLAIM_MAGIC);
	assert(!reclaim->is_running);
	assert(!reclaim->is_committing);
	reclaim->is_running = true;
	reclaim_note_progress(reclaim);
	mt_reclaim_kick(shard);
}

void
mt_reclaim_stop(struct mt_shard *shard)
{
	struct mt_reclaim *reclaim = shard->reclaim;

	CHECK_OBJ(reclaim, RECLAIM_MAGIC);
	reclaim->is_running = false;
	reclaim->log_bytes = reclaim->sealed_bytes = reclaim->pinned_bytes = 0;
	loop_task_cancel(shard->port->loop, &reclaim->task);
	loop_timer_stop(shard->port->loop, &reclaim->retry_timer);
}

void
mt_reclaim_fini(struct mt_shard *shard)
{
	struct mt_reclaim *reclaim = shard->reclaim;

	if (reclaim == NULL)
		return;
	mt_reclaim_stop(shard);
	reclaim->magic = 0;
	mt_free(reclaim);
	shard->reclaim = NULL;
}
