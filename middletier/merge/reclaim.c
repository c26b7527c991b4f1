/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim.c -- extents that hold nothing any more are deleted
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
 */
#include "merge/reclaim.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "manifest/edit.h"
#include "manifest/manifest.h"
#include "merge/flush.h"
#include "merge/reclaim_room.h"

#define RECLAIM_MAGIC 0x4c434552u /* "RECL" */
#define RECLAIM_RETRY_NS NUM_MS(100)

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
	uint64_t log_end = mt_reclaim_log_end(reclaim);
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

/* Room that @lender has gained is room for writes of other shards, too. */
static void
reclaim_wake_borrowers(const struct mt_shard *lender)
{
	const struct mt_port *port = lender->port;

	for (uint32_t i = 0; i < port->shard_count; i++)
		if (&port->shards[i] != lender && mt_reclaim_holds_writes(&port->shards[i]))
			mt_shard_on_room(&port->shards[i]);
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
	mt_reclaim_note_progress(reclaim);
	mt_reclaim_measure(reclaim);
	mt_reclaim_kick(reclaim->shard);
	mt_shard_on_room(reclaim->shard);
	reclaim_wake_borrowers(reclaim->shard);
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
	mt_reclaim_set_limits(reclaim);
	mt_reclaim_measure(reclaim);
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
	mt_reclaim_note_progress(reclaim);
	mt_reclaim_kick(shard);
}

void
mt_reclaim_stop(struct mt_shard *shard)
{
	struct mt_reclaim *reclaim = shard->reclaim;

	CHECK_OBJ(reclaim, RECLAIM_MAGIC);
	reclaim->is_running = false;
	reclaim->log_bytes = reclaim->sealed_bytes = reclaim->pinned_bytes = 0;
	(void)mt_reclaim_tell_pool(shard);
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
