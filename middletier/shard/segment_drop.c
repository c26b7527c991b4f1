/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment_drop.c -- what a deleted volume leaves in a shard: chunks, runs on nodes, records in the log
 *
 *	its last writes end --> runs are removed from the manifest, a commit after the other --> chunks
 *	are forgotten --> the log of now is trimmed --> done
 *
 * The log comes last: as long as it holds a record of the volume, a take-over brings the chunk back; then the
 * mark "deleted/ID" is there still, and all begins anew. Runs that are being merged, or read, are waited for; a chunk
 * that is busy is not compacted again meanwhile, or it might be so whenever somebody looks.
 * Space comes back by extents, when nothing else is in them (reclaim.c, compact.c).
 *
 * The log's newest extent is trimmed, too, for nobody may ever fill it: at once when no layer is in it, else
 * after a while. Then it goes when the layers that begin in it have been flushed, and that is when they
 * are old, at the latest (flush.c). So a deletion ends, whatever is written meanwhile, or is not.
 */
#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "index/index.h"
#include "manifest/edit.h"
#include "manifest/manifest.h"
#include "manifest/manifest_state.h"
#include "merge/flush.h"
#include "merge/reclaim.h"
#include "shard/segment_drop.h"
#include "write/log_roll.h"
#include "write/write_batch.h"

#define DROP_TRIM_NS NUM_S(30)
#define DROP_AVOID_NS NUM_S(30) /* several times as long as from one look to the next */

struct segment_drop {
	struct loop_link link; /* shard->drops */
	struct mt_shard *shard;
	uint64_t segment_base;
	uint32_t segment_count;
	struct mt_run *runs[MT_COMMIT_EDITS_MAX]; /* being removed; they say is_merging */
	uint32_t run_count;
	bool is_committing, is_committed;
	uint64_t log_id;  /* the newest log extent that may hold a record of it; 0: not known yet */
	uint64_t trim_ns; /* when that is trimmed even if there are layers */
};

static struct segment_drop *
drop_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct segment_drop, link);
}

static bool
drop_has(const struct segment_drop *drop, const struct mt_chunk *chunk)
{
	uint64_t segment = chunk->number / CLEAVE_SEGMENT_CHUNKS;

	assert(drop->segment_count > 0);
	return segment >= drop->segment_base && segment - drop->segment_base < drop->segment_count;
}

static void
drop_on_committed(int rc, void *arg)
{
	struct segment_drop *drop = arg;

	assert(drop->is_committing);
	drop->is_committing = false;
	drop->is_committed = rc == 0;
}

static int
drop_commit(struct segment_drop *drop)
{
	struct mt_edit edits[MT_COMMIT_EDITS_MAX];
	int rc;

	assert(drop->run_count > 0 && !drop->is_committing);
	for (uint32_t i = 0; i < drop->run_count; i++) {
		const struct mt_run *run = drop->runs[i];
		const struct mt_extent *extent = mt_shard_extent(drop->shard, run->extent_index);

		edits[i] = (struct mt_edit){ .kind = MT_EDIT_RUN_REMOVED,
			.id = extent->id,
			.chunk = run->chunk->number,
			.offset_bytes = run->offset_bytes };
	}
	rc = mt_manifest_commit(drop->shard, edits, drop->run_count, drop_on_committed, drop);
	drop->is_committing = rc == 0;
	for (uint32_t i = 0; i < drop->run_count; i++)
		drop->runs[i]->is_merging = rc == 0;
	if (rc != 0)
		drop->run_count = 0;
	return -EAGAIN;
}

/* Runs whose removal is committed go out of the index. */
static bool
drop_forget_runs(struct segment_drop *drop)
{
	assert(drop->is_committed && !drop->is_committing);
	while (drop->run_count > 0) {
		struct mt_run *run = drop->runs[drop->run_count - 1];

		if (run->hold_count > 0)
			return false;
		mt_index_remove_run(run);
		drop->run_count--;
	}
	drop->is_committed = false;
	return true;
}

static bool
chunk_is_busy(const struct mt_chunk *chunk)
{
	const struct loop_link *link;

	for (link = chunk->layers.next; link != &chunk->layers; link = link->next) {
		if (LIST_ENTRY(link, struct mt_layer, link)->is_merging)
			return true;
	}
	for (link = chunk->runs.next; link != &chunk->runs; link = link->next) {
		if (LIST_ENTRY(link, struct mt_run, link)->is_merging)
			return true;
	}
	return chunk->promised_count > 0;
}

/* 0: no chunk is left. */
static int
drop_chunks(struct segment_drop *drop)
{
	struct mt_index *index = drop->shard->block_index;
	struct loop_link *link, *next, *run_link;
	bool is_busy = false;

	LIST_FOREACH_SAFE(&index->chunks, link, next) {
		struct mt_chunk *chunk = LIST_ENTRY(link, struct mt_chunk, link);

		if (!drop_has(drop, chunk))
			continue;
		if (chunk_is_busy(chunk)) {
			chunk->retry_ns = loop_now_ns(drop->shard->port->loop) + DROP_AVOID_NS;
			is_busy = true;
		} else if (list_is_empty(&chunk->runs)) {
			mt_index_remove_chunk(chunk);
		} else {
			for (run_link = chunk->runs.next;
			     run_link != &chunk->runs && drop->run_count < MT_COMMIT_EDITS_MAX;
			     run_link = run_link->next)
				drop->runs[drop->run_count++] =
				    LIST_ENTRY(run_link, struct mt_run, link);
			if (drop->run_count == MT_COMMIT_EDITS_MAX)
				break;
		}
	}
	if (drop->run_count > 0)
		return drop_commit(drop);
	return is_busy ? -EAGAIN : 0;
}

/* False: not now. The chunks are gone, so nothing of the volume is batched any more. */
static bool
drop_set_log(struct segment_drop *drop)
{
	const struct mt_shard *shard = drop->shard;

	if (drop->log_id != 0)
		return true;
	if (shard->log == NULL)
		return false;
	drop->log_id = extent_id_pack(&shard->log->id);
	if (shard->log->end_bytes == 0)
		drop->log_id--; /* nothing is in it */
	drop->trim_ns = loop_now_ns(shard->port->loop) + DROP_TRIM_NS;
	mt_reclaim_kick(drop->shard);
	return true;
}

/* 0: no log extent of before is left, and that is durable. */
static int
drop_log(struct segment_drop *drop)
{
	struct mt_shard *shard = drop->shard;
	const struct mt_manifest_state *state = mt_manifest_state(shard);

	if (!drop_set_log(drop))
		return -EAGAIN;
	if (shard->log != NULL && extent_id_pack(&shard->log->id) == drop->log_id &&
	    (list_is_empty(&shard->block_index->layers_by_age) ||
		loop_now_ns(shard->port->loop) >= drop->trim_ns))
		mt_log_roll_trim(shard->write);
	for (uint32_t i = 0; i < state->extent_count; i++) {
		if (state->extents[i].kind == EXTENT_LOG &&
		    extent_id_pack(&state->extents[i].id) <= drop->log_id)
			return -EAGAIN;
	}
	return mt_manifest_is_settled(shard) ? 0 : -EAGAIN;
}

static void
drop_free(struct segment_drop *drop)
{
	list_remove(&drop->link);
	mt_free(drop);
}

static struct segment_drop *
drop_find(struct mt_shard *shard, uint64_t segment_base, uint32_t segment_count)
{
	struct loop_link *link, *next;
	struct segment_drop *drop;

	assert(segment_count > 0);
	LIST_FOREACH_SAFE(&shard->drops, link, next) {
		if (drop_of(link)->segment_base == segment_base)
			return drop_of(link);
	}
	drop = mt_calloc(1, sizeof(*drop));
	if (drop == NULL)
		return NULL;
	drop->shard = shard;
	drop->segment_base = segment_base;
	drop->segment_count = segment_count;
	list_push_back(&shard->drops, &drop->link);
	return drop;
}

int
mt_segments_drop(struct mt_shard *shard, uint64_t segment_base, uint32_t segment_count)
{
	struct segment_drop *drop;
	int rc;

	assert(segment_count > 0);
	assert(shard->sm.state == MT_SHARD_SERVING);
	/* Sessions of it have been closed; what they had in flight ends, and so does a copy to it. */
	if (mt_write_is_at(shard->write, segment_base, segment_count) ||
	    mt_flush_drop(shard, segment_base, segment_count) != 0)
		return -EAGAIN;
	drop = drop_find(shard, segment_base, segment_count);
	if (drop == NULL || drop->is_committing || (drop->is_committed && !drop_forget_runs(drop)))
		return -EAGAIN;
	rc = drop_chunks(drop);
	if (rc == 0)
		rc = drop_log(drop);
	if (rc == 0)
		drop_free(drop);
	return rc;
}

int
mt_segments_drop_init(struct mt_shard *shard)
{
	list_init(&shard->drops);
	return 0;
}

void
mt_segments_drop_reset(struct mt_shard *shard)
{
	struct loop_link *link;

	while ((link = list_first(&shard->drops)) != NULL)
		drop_free(drop_of(link));
}
