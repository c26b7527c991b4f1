/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flush.c -- what a shard merges next, and when
 *
 *	       something is due             its merge has ended
 *	IDLE --------------------> MERGING ---------------------> IDLE, and look again
 *	                              | it failed
 *	                              +--------> PAUSING -------> IDLE
 *
 * One merge of a shard at a time. What is due, the first of
 *
 *	too much garbage, and the   the group with the most, or the extent of which the most is dead
 *	last one was a flush
 *	the log gets long           the oldest layer, the faster the longer it is (pace.c)
 *	a layer is old              the same
 *	a layer discards much       that one: its runs take room for nothing
 *	too much garbage            as above
 *	the manifest is long        a chunk's many runs; a layer, with all runs of its chunk
 *
 * The oldest layer is where the log begins, so the log gets shorter with each. Under an even load it
 * belongs to the chunk that was flushed longest ago: neighbours in time end up in the same extents, and
 * go together. A chunk's layers are flushed oldest first, all that no cut keeps apart, with as many of
 * the newest runs as tiers.c says.
 *
 * While the manifest is long (manifest_room.c) a flush takes all of its chunk's runs along. Where there are
 * none, or a cut keeps them apart, it would leave a run more than it found, and is not begun: the log
 * stays as long as it is, and writes that it has no room for are refused as on full disks. Discards are no
 * exception where they hide what a snapshot shows: each chunk of a volume that is discarded would get a run.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "index/index.h"
#include "index/index_cuts.h"
#include "index/memtable.h"
#include "manifest/manifest_room.h"
#include "merge/compact.h"
#include "merge/flush.h"
#include "merge/merge.h"
#include "merge/pace.h"
#include "merge/reclaim.h"
#include "merge/run_roll.h"
#include "merge/tiers.h"

#define FLUSH_MAGIC 0x48534c46u /* "FLSH" */
#define FLUSH_TICK_NS NUM_S(1)
#define FLUSH_PAUSE_NS NUM_S(1)    /* after a failure */
#define FLUSH_AVOID_NS NUM_S(30)   /* a chunk that could not be compacted */
#define FLUSH_AGE_TICKS 60u        /* a layer is old after one to two times as many */
#define FLUSH_SCAN_NS NUM_MS(5)    /* between two looks at all runs, at least */
#define FLUSH_SCAN_RUN_NS 20000u   /* and so much more for each of them */
#define FLUSH_TOMBSTONES_MIN 1024u /* so many in a layer: what they hide is worth a merge */
#define FLUSH_TOMBSTONE_BYTES 64u  /* a layer with less for each of its keys discards */
#define FLUSH_LOOK_MAX 1024u
#define FLUSH_SHORT_PER_MILLE 100u /* of garbage: worth it when room is short */
#define FLUSH_LEVEL 1
#define COMPACT_LEVEL 2

enum flush_state { FLUSH_IDLE, FLUSH_MERGING, FLUSH_PAUSING, FLUSH_STOPPED, FLUSH_STATE_NR };

static const struct sm_state flush_table[FLUSH_STATE_NR] = {
	[FLUSH_IDLE] = { "idle", SM_TO(FLUSH_MERGING) | SM_TO(FLUSH_PAUSING) | SM_TO(FLUSH_STOPPED),
	    SM_INITIAL },
	[FLUSH_MERGING] = { "merging",
	    SM_TO(FLUSH_IDLE) | SM_TO(FLUSH_PAUSING) | SM_TO(FLUSH_STOPPED), 0 },
	[FLUSH_PAUSING] = { "pausing", SM_TO(FLUSH_IDLE) | SM_TO(FLUSH_STOPPED), 0 },
	[FLUSH_STOPPED] = { "stopped", SM_TO(FLUSH_IDLE), SM_FINAL | SM_INITIAL },
};

struct mt_flush {
	uint32_t magic;
	struct mt_shard *shard;
	struct sm sm;
	struct loop_task task;
	struct loop_timer tick_timer; /* age, and what else nobody tells of */
	struct loop_timer pause_timer;
	uint64_t merging_chunk;
	uint64_t gain_bytes; /* MERGING: the log will be so much shorter */
	bool is_compaction;  /* MERGING */
	bool was_flush;      /* the last one */
	bool is_full;        /* it ended with -ENOSPC */
	bool may_look;       /* for layers that discard: once a tick */
	uint32_t tick_count;
	uint64_t aged_sequence, next_aged_sequence; /* layers that began before the first are old */
	uint64_t scan_ns, shrink_ns;                /* not before */
	struct tiers_total total;                   /* as last seen */
};

static void flush_on_task(struct loop_task *task, void *arg);
static void flush_on_tick(struct loop_timer *timer, void *arg);
static void flush_on_pause(struct loop_timer *timer, void *arg);

/* ---- layers ---- */

static struct mt_layer *
layer_of(const struct loop_link *link)
{
	return NUM_CONTAINER_OF(link, struct mt_layer, link);
}

static bool
layer_is_empty(const struct mt_layer *layer)
{
	return layer->first_sequence == 0;
}

/*
 * The layers to flush: from the oldest up to the next cut. What is active freezes. 0; -ENOENT there is
 * nothing; -ENOMEM.
 */
static int
flush_take_layers(const struct mt_index *index, struct mt_chunk *chunk,
    struct mt_merge_input *input)
{
	struct loop_link *link = chunk->layers.prev;
	int rc;

	if (link == &chunk->layers || layer_is_empty(layer_of(link)))
		return -ENOENT;
	input->newest_layer = input->oldest_layer = layer_of(link);
	for (link = link->prev; link != &chunk->layers; link = link->prev) {
		struct mt_layer *layer = layer_of(link);

		if (layer_is_empty(layer) ||
		    mt_index_is_cut_between(index, chunk->number, input->newest_layer->cut,
			layer->cut))
			break;
		input->newest_layer = layer;
	}
	if (input->newest_layer->is_frozen)
		return 0;
	rc = mt_index_freeze(chunk);
	assert(rc != 0 || input->newest_layer->is_frozen);
	return rc;
}

/* Blocks that the layers discard: at most as many as it takes to know that they are many. */
static bool
layers_discard_much(const struct mt_merge_input *input)
{
	const struct loop_link *link = &input->newest_layer->link;
	uint32_t count = 0;

	for (;; link = link->next) {
		const struct mt_layer *layer = layer_of(link);
		const struct mt_location *location;
		uint32_t at = 0, block;

		if (layer->hides_all)
			return true;
		while ((location = mt_memtable_next(&layer->table, &at, &block)) != NULL)
			count += location->stored_bytes == 0;
		if (count >= FLUSH_TOMBSTONES_MIN)
			return true;
		if (layer == input->oldest_layer)
			return false;
	}
}

static uint64_t
layers_bytes(const struct mt_merge_input *input)
{
	const struct loop_link *link = &input->newest_layer->link;
	uint64_t bytes = 0;

	for (;; link = link->next) {
		bytes += layer_of(link)->stored_bytes;
		if (layer_of(link) == input->oldest_layer)
			return bytes;
	}
}

/* ---- inputs ---- */

/* The newest runs, as far as it pays to take them along. */
static void
flush_take_runs(const struct mt_flush *flush, struct mt_chunk *chunk, struct mt_merge_input *input)
{
	const struct mt_index *index = flush->shard->block_index;
	struct compact_group group;
	struct tiers_group tiers;
	struct mt_run *newest;
	uint32_t count;
	bool is_long = mt_manifest_is_long(flush->shard);

	if (list_is_empty(&chunk->runs))
		return;
	/* Where room is short, as little as can be is written anew, unless that gives room back. */
	if (flush->is_full && !is_long && !layers_discard_much(input))
		return;
	newest = LIST_ENTRY(list_first(&chunk->runs), struct mt_run, link);
	if (chunk->retry_ns > loop_now_ns(flush->shard->port->loop) ||
	    mt_index_is_cut_between(index, chunk->number, newest->cut, input->oldest_layer->cut))
		return;
	compact_group_from(index, newest, &group);
	if (group.is_merging)
		return;
	tiers = (struct tiers_group){ group.bytes, group.generation_count, layers_bytes(input),
		group.live_bytes };
	count = tiers_take(&tiers, tiers_is_dirty(&flush->total));
	if (count < group.generation_count && (is_long || layers_discard_much(input)))
		count = group.generation_count;
	if (count == 0)
		return;
	input->newest_run = newest;
	input->oldest_run = compact_group_run(&group, count);
}

static int
flush_chunk_input(const struct mt_flush *flush, struct mt_chunk *chunk,
    struct mt_merge_input *ret_input)
{
	int rc;

	*ret_input = (struct mt_merge_input){ .chunk = chunk, .level = FLUSH_LEVEL };
	rc = flush_take_layers(flush->shard->block_index, chunk, ret_input);
	if (rc == 0)
		flush_take_runs(flush, chunk, ret_input);
	return rc;
}

/* All of @run's group; of the newest one the layers, too, if all of them belong to it. */
static int
compact_input(const struct mt_flush *flush, struct mt_run *run, struct mt_merge_input *ret_input)
{
	const struct mt_index *index = flush->shard->block_index;
	struct mt_chunk *chunk = run->chunk;
	struct compact_group group;
	int rc;

	*ret_input = (struct mt_merge_input){ .chunk = chunk, .level = COMPACT_LEVEL };
	compact_group_of(index, run, &group);
	if (group.is_merging)
		return -EBUSY;
	ret_input->newest_run = group.newest;
	ret_input->oldest_run = group.oldest;
	if (group.newest->link.prev != &chunk->runs || list_is_empty(&chunk->layers) ||
	    mt_index_is_cut_between(index, chunk->number, group.newest->cut,
		layer_of(chunk->layers.prev)->cut))
		return 0;
	rc = flush_take_layers(index, chunk, ret_input);
	return rc == -ENOENT ? 0 : rc;
}

/* ---- what is due ---- */

static struct mt_layer *
oldest_layer(const struct mt_flush *flush)
{
	struct loop_link *link = list_first(&flush->shard->block_index->layers_by_age);

	return link == NULL ? NULL : LIST_ENTRY(link, struct mt_layer, age_link);
}

static bool
is_old(const struct mt_flush *flush)
{
	const struct mt_layer *layer = oldest_layer(flush);

	return layer != NULL && layer->first_sequence < flush->aged_sequence;
}

/* The bytes of the log that go with @input: all before the oldest layer that stays. */
static uint64_t
flush_gain(const struct mt_flush *flush, const struct mt_merge_input *input)
{
	const struct mt_shard *shard = flush->shard;
	const struct loop_link *head = &shard->block_index->layers_by_age, *link = head->next;
	uint64_t end = UINT64_MAX, bytes = 0;

	if (input->newest_layer == NULL)
		return 0;
	while (link != head && LIST_ENTRY(link, struct mt_layer, age_link)->chunk == input->chunk)
		link = link->next;
	if (link != head)
		end = extent_id_pack(&mt_shard_extent(shard,
		    LIST_ENTRY(link, struct mt_layer, age_link)->first_extent)
					  ->id);
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		const struct mt_extent *extent = shard->extents[i];

		if (extent != NULL && extent->kind == EXTENT_LOG && extent != shard->log &&
		    extent_id_pack(&extent->id) < end)
			bytes += extent->capacity_bytes;
	}
	return bytes;
}

uint32_t
mt_flush_pressure(const struct mt_shard *shard)
{
	const struct mt_flush *flush = shard->flush;

	if (flush == NULL || flush->sm.state != FLUSH_MERGING)
		return mt_reclaim_pressure(shard, 0);
	return mt_reclaim_pressure(shard, flush->gain_bytes / 1000 * mt_merge_progress(shard));
}

static bool
layer_stores(const struct mt_layer *layer)
{
	const struct mt_location *location;
	uint32_t at = 0, block;

	while ((location = mt_memtable_next(&layer->table, &at, &block)) != NULL) {
		if (location->stored_bytes > 0)
			return true;
	}
	return false;
}

/*
 * A flush of @chunk's layers without its runs would leave no run: nobody sees them, or they discard, and
 * nothing is beneath. Where something is (runs behind a cut, what a clone was made from) tombstones are a run.
 */
static bool
layers_leave_no_run(const struct mt_index *index, const struct mt_chunk *chunk)
{
	const struct mt_layer *oldest = layer_of(chunk->layers.prev);
	bool leaves_run = !list_is_empty(&chunk->runs) ||
	    wire_segment_is_clone(chunk->number / CLEAVE_SEGMENT_CHUNKS);
	bool is_hidden = true;

	for (const struct loop_link *link = chunk->layers.prev; link != &chunk->layers;
	     link = link->prev) {
		const struct mt_layer *layer = layer_of(link);

		if (layer_is_empty(layer) ||
		    mt_index_is_cut_between(index, chunk->number, oldest->cut, layer->cut))
			break;
		is_hidden = is_hidden && mt_index_is_hidden(index, chunk->number, layer->cut);
		leaves_run = leaves_run || layer_stores(layer);
	}
	return is_hidden || !leaves_run;
}

/* A flush of @chunk would leave a run more than it found, and the manifest is long. */
static bool
flush_is_pressed(const struct mt_flush *flush, const struct mt_chunk *chunk)
{
	const struct mt_index *index = flush->shard->block_index;
	const struct mt_run *newest;

	if (!mt_manifest_is_long(flush->shard))
		return false;
	if (!list_is_empty(&chunk->runs)) {
		newest = LIST_ENTRY(chunk->runs.next, struct mt_run, link);
		if (!mt_index_is_cut_between(index, chunk->number, newest->cut,
			layer_of(chunk->layers.prev)->cut))
			return chunk->retry_ns > loop_now_ns(flush->shard->port->loop);
	}
	return !layers_leave_no_run(index, chunk);
}

/* A layer that holds little but discards, over runs that take room. Looked for once a tick. */
static struct mt_layer *
discarding_layer(struct mt_flush *flush)
{
	const struct loop_link *head = &flush->shard->block_index->layers_by_age;
	uint32_t count = 0;

	if (!flush->may_look)
		return NULL;
	for (struct loop_link *link = head->next; link != head && count < FLUSH_LOOK_MAX;
	     link = link->next, count++) {
		struct mt_layer *layer = LIST_ENTRY(link, struct mt_layer, age_link);
		uint32_t key_count = layer->table.key_count;

		if (layer->chunk->run_count > 0 && !layer->is_merging &&
		    !flush_is_pressed(flush, layer->chunk) &&
		    (layer->hides_all ||
			(key_count >= FLUSH_TOMBSTONES_MIN &&
			    layer->stored_bytes < (uint64_t)key_count * FLUSH_TOMBSTONE_BYTES)))
			return layer;
	}
	flush->may_look = false;
	return NULL;
}

static int
due_flush(const struct mt_flush *flush, struct mt_layer *layer, bool is_urgent,
    struct mt_merge_input *ret_input)
{
	int rc;

	if (layer == NULL)
		return -ENOENT;
	if (flush_is_pressed(flush, layer->chunk))
		return -ENOSPC;
	rc = flush_chunk_input(flush, layer->chunk, ret_input);
	ret_input->is_urgent = is_urgent;
	return rc;
}

/* Writes wait for room, and there are no layers to flush: whatever gives some will do. */
static bool
flush_is_short(const struct mt_flush *flush)
{
	return mt_reclaim_is_log_full(flush->shard) && oldest_layer(flush) == NULL;
}

static int
due_compaction(struct mt_flush *flush, struct mt_merge_input *ret_input)
{
	struct mt_shard *shard = flush->shard;
	uint64_t now_ns = loop_now_ns(shard->port->loop);
	struct mt_run *run, *hidden;
	uint32_t garbage;
	int rc;

	if (now_ns < flush->scan_ns)
		return -ENOENT;
	flush->scan_ns = now_ns + FLUSH_SCAN_NS + shard->block_index->run_count * FLUSH_SCAN_RUN_NS;
	run = compact_scan(shard, &flush->total, &garbage);
	if (!tiers_is_overdue(&flush->total) &&
	    !(garbage >= FLUSH_SHORT_PER_MILLE && flush_is_short(flush)))
		run = tiers_is_holey(&flush->total) ? compact_hole(shard) : NULL;
	hidden = compact_hidden(shard); /* the cheapest of all: nothing is written */
	if (hidden != NULL)
		run = hidden;
	if (run == NULL)
		return -ENOENT;
	rc = compact_input(flush, run, ret_input);
	ret_input->is_urgent = mt_reclaim_pressure(shard, 0) >= PACE_HURRY;
	return rc;
}

/* The manifest is long: what leaves fewer runs, then what leaves no more, and a shorter log. */
static int
due_shrink(struct mt_flush *flush, struct mt_merge_input *ret_input)
{
	const struct mt_shard *shard = flush->shard;
	const struct loop_link *head = &shard->block_index->layers_by_age;
	struct mt_run *run = compact_crowded(shard);

	flush->shrink_ns = loop_now_ns(shard->port->loop) + FLUSH_SCAN_NS +
	    shard->block_index->run_count * FLUSH_SCAN_RUN_NS;
	if (run != NULL)
		return compact_input(flush, run, ret_input);
	if (mt_reclaim_pressure(shard, 0) == 0)
		return -ENOENT;
	for (const struct loop_link *link = head->next; link != head; link = link->next) {
		struct mt_layer *layer = LIST_ENTRY(link, struct mt_layer, age_link);

		if (!layer_is_empty(layer) && !flush_is_pressed(flush, layer->chunk))
			return due_flush(flush, layer, true, ret_input);
	}
	return -ENOENT;
}

/* 0; -ENOENT: nothing is due; -ENOSPC: the log cannot be shortened, its manifest is long. */
static int
flush_find(struct mt_flush *flush, struct mt_merge_input *ret_input)
{
	const struct mt_shard *shard = flush->shard;
	uint32_t pressure = mt_reclaim_pressure(shard, 0);
	bool is_urgent = pressure >= PACE_HURRY, is_pressed;
	uint64_t now_ns = loop_now_ns(shard->port->loop);
	int rc = -ENOENT;

	/* In turns: a log that stays full must not let garbage fill the disks. */
	if (flush->was_flush)
		rc = due_compaction(flush, ret_input);
	if (rc == -ENOENT && (pressure > 0 || is_old(flush)))
		rc = due_flush(flush, oldest_layer(flush), is_urgent, ret_input);
	is_pressed = rc == -ENOSPC;
	if (rc != 0 && mt_manifest_is_long(shard) && (is_pressed || now_ns >= flush->shrink_ns))
		rc = due_shrink(flush, ret_input);
	if (rc == -ENOENT)
		rc = due_flush(flush, discarding_layer(flush), false, ret_input);
	if (rc == -ENOENT || rc == -ENOSPC)
		rc = due_compaction(flush, ret_input);
	return rc == -ENOENT && is_pressed ? -ENOSPC : rc;
}

/* ---- merges ---- */

static void
flush_pause(struct mt_flush *flush)
{
	sm_move(&flush->sm, FLUSH_PAUSING);
	loop_timer_start(flush->shard->port->loop, &flush->pause_timer, FLUSH_PAUSE_NS);
}

static void
flush_failed(struct mt_flush *flush, int rc)
{
	struct mt_shard *shard = flush->shard;
	struct mt_chunk *chunk = mt_index_chunk(shard->block_index, flush->merging_chunk);

	log_limited(LOG_WARN, "shard %" PRIu32 ": a merge has failed chunk=%" PRIu64 " rc=%s",
	    shard->index, flush->merging_chunk, log_errno(rc));
	flush->is_full = rc == -ENOSPC;
	/* Runs that cannot be read or are too many are left alone for a while: the layers go without them. */
	if (chunk != NULL && rc != -ENOSPC && rc != -EHOSTDOWN)
		chunk->retry_ns = loop_now_ns(shard->port->loop) + FLUSH_AVOID_NS;
	flush_pause(flush);
}

/* Nothing that may be done makes the log shorter. */
static void
flush_pressed(struct mt_flush *flush)
{
	log_limited(LOG_WARN,
	    "shard %" PRIu32 ": its manifest is long, runs=%" PRIu64
	    ": what was written to new places stays in the log; delete volumes or snapshots",
	    flush->shard->index, flush->shard->block_index->run_count);
	mt_reclaim_on_merge(flush->shard, -ENOSPC);
}

static void
flush_on_merged(int rc, void *arg)
{
	struct mt_flush *flush = arg;
	struct mt_chunk *chunk;

	CHECK_OBJ(flush, FLUSH_MAGIC);
	if (flush->sm.state == FLUSH_STOPPED)
		return;
	assert(flush->sm.state == FLUSH_MERGING);
	flush->was_flush = !flush->is_compaction;
	mt_reclaim_on_merge(flush->shard, rc);
	if (rc != 0) {
		flush_failed(flush, rc);
		return;
	}
	flush->is_full = false;
	chunk = mt_index_chunk(flush->shard->block_index, flush->merging_chunk);
	if (chunk != NULL)
		compact_count(flush->shard->block_index, chunk);
	sm_move(&flush->sm, FLUSH_IDLE);
	mt_flush_kick(flush->shard);
}

static void
flush_on_task(struct loop_task *task, void *arg)
{
	struct mt_flush *flush = arg;
	struct mt_merge_input input;
	int rc;

	(void)task;
	CHECK_OBJ(flush, FLUSH_MAGIC);
	if (flush->sm.state != FLUSH_IDLE)
		return;
	rc = flush_find(flush, &input);
	if (rc == -ENOENT)
		return;
	if (rc == 0) {
		flush->merging_chunk = input.chunk->number;
		flush->gain_bytes = flush_gain(flush, &input);
		flush->is_compaction = input.newest_run != NULL && input.level == COMPACT_LEVEL;
		sm_move(&flush->sm, FLUSH_MERGING);
		rc = mt_merge_start(flush->shard, &input, flush_on_merged, flush);
		if (rc != 0)
			flush_on_merged(rc, flush);
		return;
	}
	if (rc == -ENOSPC)
		flush_pressed(flush);
	flush_pause(flush);
}

static void
flush_on_pause(struct loop_timer *timer, void *arg)
{
	struct mt_flush *flush = arg;

	(void)timer;
	CHECK_OBJ(flush, FLUSH_MAGIC);
	sm_move(&flush->sm, FLUSH_IDLE);
	mt_flush_kick(flush->shard);
}

static void
flush_on_tick(struct loop_timer *timer, void *arg)
{
	struct mt_flush *flush = arg;
	struct mt_shard *shard = flush->shard;

	CHECK_OBJ(flush, FLUSH_MAGIC);
	if (++flush->tick_count % FLUSH_AGE_TICKS == 0) {
		flush->aged_sequence = flush->next_aged_sequence;
		flush->next_aged_sequence = shard->next_sequence;
	}
	flush->may_look = true;
	mt_run_roll_tend(shard);
	mt_flush_kick(shard);
	loop_timer_start(shard->port->loop, timer, FLUSH_TICK_NS);
}

/* ---- its life ---- */

int
mt_flush_init(struct mt_shard *shard)
{
	struct mt_flush *flush = mt_calloc(1, sizeof(*flush));

	if (flush == NULL)
		return -ENOMEM;
	flush->magic = FLUSH_MAGIC;
	flush->shard = shard;
	loop_task_init(&flush->task, flush_on_task, flush);
	loop_timer_init(&flush->tick_timer, flush_on_tick, flush);
	loop_timer_init(&flush->pause_timer, flush_on_pause, flush);
	sm_init(&flush->sm, "flush", flush_table, FLUSH_STOPPED, shard->index);
	shard->flush = flush;
	return 0;
}

void
mt_flush_start(struct mt_shard *shard)
{
	struct mt_flush *flush = shard->flush;

	CHECK_OBJ(flush, FLUSH_MAGIC);
	sm_move(&flush->sm, FLUSH_IDLE);
	flush->was_flush = flush->is_full = false;
	flush->tick_count = 0;
	flush->aged_sequence = 0;
	flush->next_aged_sequence = shard->next_sequence; /* what was replayed */
	flush->scan_ns = 0;
	flush->total = (struct tiers_total){ 0 };
	loop_timer_start(shard->port->loop, &flush->tick_timer, FLUSH_TICK_NS);
	mt_flush_kick(shard);
}

void
mt_flush_stop(struct mt_shard *shard)
{
	struct mt_flush *flush = shard->flush;

	CHECK_OBJ(flush, FLUSH_MAGIC);
	if (flush->sm.state == FLUSH_STOPPED)
		return;
	sm_move(&flush->sm, FLUSH_STOPPED);
	loop_task_cancel(shard->port->loop, &flush->task);
	loop_timer_stop(shard->port->loop, &flush->tick_timer);
	loop_timer_stop(shard->port->loop, &flush->pause_timer);
}

void
mt_flush_fini(struct mt_shard *shard)
{
	struct mt_flush *flush = shard->flush;

	if (flush == NULL)
		return;
	mt_flush_stop(shard);
	flush->magic = 0;
	mt_free(flush);
	shard->flush = NULL;
}

void
mt_flush_kick(struct mt_shard *shard)
{
	struct mt_flush *flush = shard->flush;

	if (flush != NULL && flush->sm.state == FLUSH_IDLE)
		loop_defer(shard->port->loop, &flush->task);
}

bool
mt_flush_can_gain(const struct mt_shard *shard)
{
	const struct mt_flush *flush = shard->flush;

	if (flush == NULL || flush->is_full)
		return false;
	return flush->sm.state == FLUSH_MERGING ||
	    (flush->sm.state == FLUSH_IDLE && oldest_layer(flush) != NULL);
}

void
mt_flush_totals(const struct mt_shard *shard, struct mt_flush_totals *ret_totals)
{
	const struct mt_flush *flush = shard->flush;

	*ret_totals = (struct mt_flush_totals){ 0 };
	if (flush == NULL || flush->sm.state == FLUSH_STOPPED || shard->block_index == NULL)
		return;
	ret_totals->run_bytes = shard->block_index->run_bytes;
	ret_totals->run_count = shard->block_index->run_count;
	ret_totals->extent_bytes = flush->total.extent_bytes;
	ret_totals->live_bytes = num_min(flush->total.live_bytes, ret_totals->run_bytes);
}
