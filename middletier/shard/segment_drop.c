/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment_drop.c -- what a deleted volume leaves in a shard: chunks, runs on nodes, records in the log
 *
 *	its last writes end --> the walk: runs are removed from the manifest, a commit after the other, and chunks
 *	are forgotten --> the log of now is trimmed --> done
 *
 * The walk goes over the segments' chunks by their numbers, and begins anew when it is asked to, at the first one that
 * it had to leave. All walks of a port together take at most DROP_LOOK_MAX chunks in a turn of its loop, and as many runs
 * more as a commit has; who finds no room in a turn waits in a line. Each goes on by itself: a volume of 64 TiB is a million
 * chunks, and who asks comes once a second at most (drop.c). What it has to wait for, runs that are being merged or read
 * and manifests that take no edit, it leaves until it is asked again.
 *
 * The log comes last: as long as it holds a record of the volume, a take-over brings the chunk back; then the
 * mark "deleted/ID" is there still, and all begins anew. A chunk that is busy is not compacted again meanwhile, or it
 * might be so whenever somebody looks.
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
#define DROP_LOOK_MAX 1024u /* chunks, segments without one, and runs, that a port's turn takes */

#define DROP_NONE UINT64_MAX

struct segment_drop {
	struct loop_link link; /* shard->drops */
	struct mt_shard *shard;
	uint64_t segment_base;
	uint32_t segment_count;
	struct loop_link wait_link; /* in port->drop.waiting: the next piece, in a later turn */
	uint64_t at;      /* chunks before this number are gone, but for those that were busy */
	uint64_t busy_at; /* the walk has ended: where it begins anew; DROP_NONE: nothing is left */
	bool has_progress; /* something has gone since the last call of mt_segments_drop */
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

static uint64_t
drop_first(const struct segment_drop *drop)
{
	return drop->segment_base * CLEAVE_SEGMENT_CHUNKS;
}

/* The number behind the last of its chunks. */
static uint64_t
drop_end(const struct segment_drop *drop)
{
	return drop_first(drop) + (uint64_t)drop->segment_count * CLEAVE_SEGMENT_CHUNKS;
}

static void
drop_go_on(struct segment_drop *drop)
{
	struct mt_port *port = drop->shard->port;

	if (!list_contains(&drop->wait_link))
		list_push_back(&port->drop.waiting, &drop->wait_link);
	if (!port->drop.timer.is_active)
		loop_timer_start(port->loop, &port->drop.timer, 0);
}

/* This turn of the port has something left: other walks have not taken all of it. */
static bool
drop_has_turn(const struct mt_port *port)
{
	return port->drop.look_count < DROP_LOOK_MAX;
}

static void
drop_on_committed(int rc, void *arg)
{
	struct segment_drop *drop = arg;

	assert(drop->is_committing);
	drop->is_committing = false;
	drop->is_committed = rc == 0;
	if (rc == 0)
		drop_go_on(drop);
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

/* Runs whose removal is committed go out of the index. False: not all, yet. */
static bool
drop_forget_runs(struct segment_drop *drop)
{
	assert(drop->is_committed && !drop->is_committing);
	if (!drop_has_turn(drop->shard->port)) {
		drop_go_on(drop);
		return false;
	}
	drop->shard->port->drop.look_count += drop->run_count;
	while (drop->run_count > 0) {
		struct mt_run *run = drop->runs[drop->run_count - 1];

		if (run->hold_count > 0)
			return false;
		mt_index_remove_run(run);
		drop->run_count--;
		drop->has_progress = true;
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

/* False: the commit is full, and some of the chunk's runs are not in it. */
static bool
drop_take_runs(struct segment_drop *drop, const struct mt_chunk *chunk)
{
	for (struct loop_link *link = chunk->runs.next; link != &chunk->runs; link = link->next) {
		if (drop->run_count == MT_COMMIT_EDITS_MAX)
			return false;
		drop->runs[drop->run_count++] = LIST_ENTRY(link, struct mt_run, link);
		drop->shard->port->drop.look_count++;
	}
	return true;
}

/* The walk looks at its place, and goes to the next. True: it stays there. */
static bool
drop_look(struct segment_drop *drop)
{
	const struct mt_index *index = drop->shard->block_index;
	struct mt_chunk *chunk;

	assert(drop->at < drop_end(drop));
	drop->shard->port->drop.look_count++;
	if (mt_segment_find(index, mt_chunk_segment(drop->at)) == NULL) {
		drop->at = (mt_chunk_segment(drop->at) + 1) * CLEAVE_SEGMENT_CHUNKS;
		return false;
	}
	chunk = mt_index_chunk(index, drop->at);
	if (chunk == NULL) {
		drop->at++;
		return false;
	}
	if (chunk_is_busy(chunk)) {
		chunk->retry_ns = loop_now_ns(drop->shard->port->loop) + DROP_AVOID_NS;
		drop->at++;
		return false;
	}
	if (!list_is_empty(&chunk->runs) && !drop_take_runs(drop, chunk))
		return true;
	if (list_is_empty(&chunk->runs)) {
		mt_index_remove_chunk(chunk);
		drop->has_progress = true;
	}
	drop->at++;
	return false;
}

/* The first chunk of the first of the segments that the shard has anything of; DROP_NONE: it has nothing. */
static uint64_t
drop_left(const struct segment_drop *drop)
{
	for (uint32_t i = 0; i < drop->segment_count; i++) {
		if (mt_segment_find(drop->shard->block_index, drop->segment_base + i) != NULL)
			return (drop->segment_base + i) * CLEAVE_SEGMENT_CHUNKS;
	}
	return DROP_NONE;
}

/* A turn's piece of the walk. 0: no chunk is left; -EAGAIN: some are, and it goes on, or is to be asked again. */
static int
drop_walk(struct segment_drop *drop)
{
	uint64_t begin = drop->at;

	assert(drop->run_count == 0 && !drop->is_committing);
	while (drop->at < drop_end(drop) && drop_has_turn(drop->shard->port) && !drop_look(drop))
		;
	if (drop->run_count > 0) {
		drop->at = begin; /* those whose runs are going, go then */
		return drop_commit(drop);
	}
	if (drop->at < drop_end(drop)) {
		drop_go_on(drop);
		return -EAGAIN;
	}
	drop->busy_at = drop_left(drop); /* what was busy, in any case */
	return drop->busy_at == DROP_NONE ? 0 : -EAGAIN;
}

/* Sessions of it have been closed; what they had in flight ends, and so does a copy to it. */
static bool
drop_may_go(struct mt_shard *shard, uint64_t segment_base, uint32_t segment_count)
{
	return !mt_write_is_at(shard->write, segment_base, segment_count) &&
	    mt_flush_drop(shard, segment_base, segment_count) == 0;
}

/* 0: no chunk is left. */
static int
drop_chunks(struct segment_drop *drop)
{
	if (drop->is_committing || (drop->is_committed && !drop_forget_runs(drop)))
		return -EAGAIN;
	if (drop->run_count > 0)
		return drop_commit(drop); /* once more */
	return drop_walk(drop);
}

/* All walks have a timer together, and an end of turns: those that wait cost a turn nothing, however many they are. */
static void
drop_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_port *port = arg;
	struct loop_link *link;

	assert(timer == &port->drop.timer);
	/* Whoever waits again has used the turn up. */
	while (drop_has_turn(port) && (link = list_pop_front(&port->drop.waiting)) != NULL) {
		struct segment_drop *drop = LIST_ENTRY(link, struct segment_drop, wait_link);

		if (drop->shard->sm.state == MT_SHARD_SERVING &&
		    drop_may_go(drop->shard, drop->segment_base, drop->segment_count))
			(void)drop_chunks(drop);
	}
	if (!list_is_empty(&port->drop.waiting) && !timer->is_active)
		loop_timer_start(port->loop, timer, 0);
}

static void
drop_on_turn_end(struct loop_turn_end *hook, void *arg)
{
	struct mt_port *port = arg;

	(void)hook;
	assert(hook == &port->drop.turn_end);
	port->drop.look_count = 0;
}

/* A walk that has come to its end looks again at what it had to leave. */
static void
drop_again(struct segment_drop *drop)
{
	if (list_contains(&drop->wait_link) || drop->at < drop_end(drop) ||
	    drop->busy_at == DROP_NONE)
		return;
	drop->at = drop->busy_at;
	drop->busy_at = DROP_NONE;
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

/* The port has one walk more. */
static void
drop_join(struct mt_port *port)
{
	if (port->drop.count++ > 0)
		return;
	list_init(&port->drop.waiting);
	loop_timer_init(&port->drop.timer, drop_on_timer, port);
	loop_turn_end_add(port->loop, &port->drop.turn_end, drop_on_turn_end, port);
}

static void
drop_free(struct segment_drop *drop)
{
	struct mt_port *port = drop->shard->port;

	list_remove(&drop->wait_link);
	list_remove(&drop->link);
	mt_free(drop);
	assert(port->drop.count > 0);
	if (--port->drop.count > 0)
		return;
	loop_timer_stop(port->loop, &port->drop.timer);
	loop_turn_end_remove(port->loop, &port->drop.turn_end);
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
	drop->at = drop_first(drop);
	drop->busy_at = DROP_NONE;
	drop_join(shard->port);
	list_push_back(&shard->drops, &drop->link);
	return drop;
}

int
mt_segments_drop(struct mt_shard *shard, uint64_t segment_base, uint32_t segment_count)
{
	struct segment_drop *drop;
	bool has_progress;
	int rc = -EAGAIN;

	assert(segment_count > 0);
	assert(shard->sm.state == MT_SHARD_SERVING);
	if (!drop_may_go(shard, segment_base, segment_count))
		return -EAGAIN;
	drop = drop_find(shard, segment_base, segment_count);
	if (drop == NULL)
		return -EAGAIN;
	drop_again(drop);
	if (!list_contains(&drop->wait_link))
		rc = drop_chunks(drop);
	if (rc == 0)
		rc = drop_log(drop);
	has_progress = drop->has_progress;
	drop->has_progress = false;
	if (rc == 0)
		drop_free(drop);
	return rc == -EAGAIN && has_progress ? -EINPROGRESS : rc;
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
