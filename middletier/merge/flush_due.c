/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flush_due.c -- which merge of a shard is due
 *
 * The first of
 *
 *	the last merge has covered  these: by an edit alone (covered.c)
 *	    older runs of its chunk
 *	too much garbage, and the   the group with the most, or the extent of which the most is dead
 *	last one was a flush
 *	the log gets long           the oldest layer, the faster the longer it is (pace.c)
 *	a layer is old              the same
 *	a layer discards much       that one: its runs take room for nothing
 *	too much garbage            as above
 *	the manifest is long        a chunk's many runs; a layer, with all runs of its chunk
 *	a run was made in haste     its group, a minute or two later, where no writes wait (HASTE.md)
 *	a run is read often         its group, stored for who reads it (index/heat.h), if there is room
 *	a clone is flattened        a copy (flatten.c), in turns with all of these
 *
 * The oldest layer is where the log begins, so the log gets shorter with each. Under an even load it
 * belongs to the chunk that was flushed longest ago: neighbours in time end up in the same extents, and
 * go together. A chunk's layers are flushed oldest first, all that no cut keeps apart, with as many of
 * the newest runs as tiers.c says.
 *
 * While the manifest is long (manifest_room.c) a flush takes all of its chunk's runs along. Where there are
 * none, or a cut keeps them apart, it would leave a run more than it found, and is not begun: the log
 * stays as long as it is, and writes that it has no room for are refused as on full disks. A chunk whose merge missed
 * a data key, or a copy of what its layers have, is put off, and the next oldest layer goes first. Discards are no
 * exception where they hide what a snapshot shows: each chunk of a volume that is discarded would get a run.
 */
#include "merge/flush_due.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "index/heat.h"
#include "index/index.h"
#include "index/index_cuts.h"
#include "index/memtable.h"
#include "manifest/manifest_room.h"
#include "merge/compact.h"
#include "merge/covered.h"
#include "merge/flush_input.h"
#include "merge/merge.h"
#include "merge/pace.h"
#include "merge/reclaim_room.h"
#include "merge/stream.h"
#include "merge/tiers.h"

#define FLUSH_SCAN_NS NUM_MS(5)    /* between two looks at all runs, at least */
#define FLUSH_SCAN_RUN_NS 20000u   /* and so much more for each of them */
#define FLUSH_TOMBSTONE_BYTES 64u  /* a layer with less for each of its keys discards */
#define FLUSH_LOOK_MAX 1024u       /* layers that one look for discards goes over, the oldest */
#define FLUSH_SHORT_PER_MILLE 100u /* of garbage: worth it when room is short */

static struct flush_terms
due_terms(const struct flush_due *due)
{
	return (struct flush_terms){ .shard = due->shard,
		.is_full = due->is_full,
		.is_dirty = mt_tiers_is_dirty(&due->total) };
}

/* ---- layers ---- */

/* A merge of it missed a data key, or a copy that passes, not long ago. */
static bool
is_put_off(const struct flush_due *due, const struct mt_chunk *chunk)
{
	return chunk->pin != MT_PIN_NONE && chunk->retry_ns > loop_now_ns(due->shard->port->loop);
}

/* The oldest layer but for those whose chunks are put off, which stand in the log's way, and not in others'. */
static struct mt_layer *
oldest_mergeable(const struct flush_due *due)
{
	const struct loop_link *head = &due->shard->block_index->layers_by_age;

	/* However many they are: behind them are other volumes' layers. */
	for (struct loop_link *link = head->next; link != head; link = link->next) {
		struct mt_layer *layer = LIST_ENTRY(link, struct mt_layer, age_link);

		if (!is_put_off(due, layer->chunk))
			return layer;
	}
	return NULL;
}

static bool
is_old(const struct flush_due *due)
{
	const struct mt_layer *layer = oldest_mergeable(due);

	return layer != NULL && layer->first_sequence < due->aged_sequence;
}

uint64_t
mt_flush_due_gain(const struct flush_due *due, const struct mt_merge_input *input)
{
	const struct mt_shard *shard = due->shard;
	const struct loop_link *head = &shard->block_index->layers_by_age, *link = head->next;
	uint64_t end = UINT64_MAX, bytes = 0;

	assert(input->chunk->index == shard->block_index);
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
	const struct mt_layer *oldest = flush_layer_of(chunk->layers.prev);
	bool leaves_run = !list_is_empty(&chunk->runs) ||
	    wire_segment_is_clone(chunk->number / CLEAVE_SEGMENT_CHUNKS);
	bool is_hidden = true;

	assert(!list_is_empty(&chunk->layers));
	for (const struct loop_link *link = chunk->layers.prev; link != &chunk->layers;
	     link = link->prev) {
		const struct mt_layer *layer = flush_layer_of(link);

		if (flush_layer_is_empty(layer) ||
		    mt_index_is_cut_between(index, chunk->number, oldest->cut, layer->cut))
			break;
		is_hidden = is_hidden && mt_index_is_hidden(index, chunk->number, layer->cut);
		leaves_run = leaves_run || layer_stores(layer);
	}
	return is_hidden || !leaves_run;
}

/* A flush of @chunk would leave a run more than it found, and the manifest is long. */
static bool
due_is_pressed(const struct flush_due *due, const struct mt_chunk *chunk)
{
	const struct mt_index *index = due->shard->block_index;
	const struct mt_run *newest;

	assert(chunk->index == index);
	if (!mt_manifest_is_long(due->shard))
		return false;
	if (!list_is_empty(&chunk->runs)) {
		newest = LIST_ENTRY(chunk->runs.next, struct mt_run, link);
		if (!mt_index_is_cut_between(index, chunk->number, newest->cut,
			flush_layer_of(chunk->layers.prev)->cut))
			return chunk->retry_ns > loop_now_ns(due->shard->port->loop);
	}
	return !layers_leave_no_run(index, chunk);
}

/* A layer that holds little but discards, over runs that take room. Looked for once a tick. */
static struct mt_layer *
discarding_layer(struct flush_due *due)
{
	const struct loop_link *head = &due->shard->block_index->layers_by_age;
	uint32_t count = 0;

	if (!due->may_look)
		return NULL;
	for (struct loop_link *link = head->next; link != head && count < FLUSH_LOOK_MAX;
	     link = link->next, count++) {
		struct mt_layer *layer = LIST_ENTRY(link, struct mt_layer, age_link);
		uint32_t key_count = layer->table.key_count;

		if (layer->chunk->run_count > 0 && !layer->is_merging &&
		    !is_put_off(due, layer->chunk) && !due_is_pressed(due, layer->chunk) &&
		    (layer->hides_all ||
			(key_count >= FLUSH_TOMBSTONES_MIN &&
			    layer->stored_bytes < (uint64_t)key_count * FLUSH_TOMBSTONE_BYTES)))
			return layer;
	}
	due->may_look = false;
	return NULL;
}

/* ---- what is due ---- */

/* Runs that go by an edit alone. */
static int
due_covered(struct flush_due *due, bool is_urgent, struct mt_merge_input *ret_input)
{
	const struct mt_index *index = due->shard->block_index;
	struct mt_chunk *chunk;
	int rc;

	if (!due->may_cover)
		return -ENOENT;
	due->may_cover = false;
	chunk = mt_index_chunk(index, due->merged_chunk);
	if (chunk == NULL || chunk->retry_ns > loop_now_ns(due->shard->port->loop))
		return -ENOENT;
	rc = mt_covered_find(index, chunk, ret_input);
	if (rc == 0)
		ret_input->is_urgent = is_urgent;
	return rc;
}

static int
due_flush(const struct flush_due *due, struct mt_layer *layer, bool is_urgent,
    struct mt_merge_input *ret_input)
{
	struct flush_terms terms;
	int rc;

	if (layer == NULL)
		return -ENOENT;
	if (due_is_pressed(due, layer->chunk))
		return -ENOSPC;
	terms = due_terms(due);
	terms.is_urgent = is_urgent;
	rc = mt_flush_input_chunk(&terms, layer->chunk, ret_input);
	assert(rc != 0 || ret_input->newest_layer->is_frozen);
	ret_input->is_urgent = is_urgent;
	return rc;
}

/* Writes wait for room, and no layers can be flushed now: whatever gives some will do. */
static bool
due_is_short(const struct flush_due *due)
{
	return mt_reclaim_is_log_full(due->shard) && oldest_mergeable(due) == NULL;
}

/* Chunks in which a stream has gone on since are left alone, while there is room for what it makes garbage of. */
static uint64_t
due_stream_sequence(const struct flush_due *due)
{
	bool has_room = !due->is_full && mt_stream_has_room(due->shard->port) &&
	    !mt_manifest_is_long(due->shard);

	return has_room ? due->aged_sequence : UINT64_MAX;
}

static int
due_compaction(struct flush_due *due, struct mt_merge_input *ret_input)
{
	struct mt_shard *shard = due->shard;
	uint64_t now_ns = loop_now_ns(shard->port->loop), stream_sequence;
	struct mt_run *run, *hidden;
	struct flush_terms terms;
	uint32_t garbage;
	int rc;

	if (now_ns < due->scan_ns)
		return -ENOENT;
	due->scan_ns = now_ns + FLUSH_SCAN_NS + shard->block_index->run_count * FLUSH_SCAN_RUN_NS;
	stream_sequence = due_stream_sequence(due);
	run = mt_compact_scan(shard, stream_sequence, &due->total, &garbage);
	if (!mt_tiers_is_overdue(&due->total) &&
	    !(garbage >= FLUSH_SHORT_PER_MILLE && due_is_short(due)))
		run = mt_tiers_is_holey(&due->total) ? mt_compact_hole(shard, stream_sequence)
						     : NULL;
	hidden = mt_compact_hidden(shard); /* the cheapest of all: nothing is written */
	if (hidden != NULL)
		run = hidden;
	if (run == NULL)
		return -ENOENT;
	terms = due_terms(due);
	/* Without the covered ones there may be room enough. */
	rc = run == hidden ? -ENOENT : mt_covered_find(shard->block_index, run->chunk, ret_input);
	if (rc != 0)
		rc = mt_flush_input_group(&terms, run, ret_input);
	ret_input->is_urgent = mt_reclaim_pressure(shard, 0) >= PACE_HURRY;
	return rc == -EBUSY ? -ENOENT : rc; /* what else is due goes on beside it */
}

/* The manifest is long: what leaves fewer runs, then what leaves no more, and a shorter log. */
static int
due_shrink(struct flush_due *due, struct mt_merge_input *ret_input)
{
	const struct mt_shard *shard = due->shard;
	const struct loop_link *head = &shard->block_index->layers_by_age;
	struct mt_run *run = mt_compact_crowded(shard);
	struct flush_terms terms = due_terms(due);

	assert(mt_manifest_is_long(shard));
	due->shrink_ns = loop_now_ns(shard->port->loop) + FLUSH_SCAN_NS +
	    shard->block_index->run_count * FLUSH_SCAN_RUN_NS;
	if (run != NULL)
		return mt_flush_input_group(&terms, run, ret_input);
	if (mt_reclaim_pressure(shard, 0) == 0)
		return -ENOENT;
	for (const struct loop_link *link = head->next; link != head; link = link->next) {
		struct mt_layer *layer = LIST_ENTRY(link, struct mt_layer, age_link);

		if (!flush_layer_is_empty(layer) && !is_put_off(due, layer->chunk) &&
		    !due_is_pressed(due, layer->chunk))
			return due_flush(due, layer, true, ret_input);
	}
	return -ENOENT;
}

/* Do writes of any shard of the port wait for merges? The port does one at a time. */
static bool
port_is_pressed(const struct mt_port *port)
{
	for (uint32_t i = 0; i < port->shard_count; i++) {
		if (mt_reclaim_pressure(&port->shards[i], 0) >= PACE_HURRY)
			return true;
	}
	return false;
}

/* A run that was stored in haste is stored for space. */
static int
due_tidy(struct flush_due *due, struct mt_merge_input *ret_input)
{
	const struct mt_shard *shard = due->shard;
	uint64_t now_ns = loop_now_ns(shard->port->loop);
	struct flush_terms terms = due_terms(due);
	struct mt_run *run;
	int rc;

	if (now_ns < due->tidy_ns || due->is_full || mt_reclaim_pressure(shard, 0) > 0 ||
	    port_is_pressed(shard->port))
		return -ENOENT;
	due->tidy_ns = now_ns + FLUSH_SCAN_NS + shard->block_index->run_count * FLUSH_SCAN_RUN_NS;
	run = mt_compact_hasty(shard, due->aged_sequence);
	if (run == NULL)
		return -ENOENT;
	rc = mt_flush_input_group(&terms, run, ret_input);
	assert(rc != 0 || !ret_input->is_hasty);
	return rc == -EBUSY ? -ENOENT : rc;
}

/*
 * A run that is read often is stored for its readers, where nothing else is to be done and nothing is short. Its whole
 * group is written anew, so that is what has to be as hot: a spot that is changed and read again and again would have
 * all of its chunk rewritten with each flush.
 */
static int
due_hot(const struct flush_due *due, struct mt_merge_input *ret_input)
{
	struct mt_shard *shard = due->shard;
	struct mt_run *run = mt_heat_hottest(shard->block_index);
	struct flush_terms terms = due_terms(due);
	struct compact_group group;
	int rc;

	if (run == NULL || shard->port->settings->run_codec != MT_RUN_CODEC_AUTO || due->is_full ||
	    mt_reclaim_pressure(shard, 0) > 0 || mt_manifest_is_long(shard) ||
	    !mt_flatten_has_room(shard->port))
		return -ENOENT;
	mt_compact_group_of(shard->block_index, run, &group);
	/* Another run comes of it; and where it has to wait, others have their turn. */
	mt_heat_forget(run);
	if (run->chunk->retry_ns > loop_now_ns(shard->port->loop) ||
	    mt_heat_of_runs(group.newest, group.oldest) < HEAT_ALONE)
		return -ENOENT;
	rc = mt_flush_input_group(&terms, run, ret_input);
	if (rc == -EBUSY)
		return -ENOENT;
	ret_input->is_hot = ret_input->is_for_readers = true;
	ret_input->recoded = ENGINE_ZSTD;
	return rc;
}

int
mt_flush_due_find(struct flush_due *due, struct mt_merge_input *ret_input)
{
	const struct mt_shard *shard = due->shard;
	uint32_t pressure = mt_reclaim_pressure(shard, 0);
	bool is_urgent = pressure >= PACE_HURRY, is_pressed;
	uint64_t now_ns = loop_now_ns(shard->port->loop);
	int rc = -ENOENT;

	if (due_covered(due, is_urgent, ret_input) == 0)
		return 0;
	/* In turns, too; but a copy makes no room, and waits when that is short. */
	if (!due->was_copy && !is_urgent && mt_flatten_find(&due->flatten, shard, ret_input) == 0)
		return 0;
	/* In turns: a log that stays full must not let garbage fill the disks. */
	if (due->was_flush)
		rc = due_compaction(due, ret_input);
	if (rc == -ENOENT && (pressure > 0 || is_old(due)))
		rc = due_flush(due, oldest_mergeable(due), is_urgent, ret_input);
	is_pressed = rc == -ENOSPC;
	if (rc != 0 && mt_manifest_is_long(shard) && (is_pressed || now_ns >= due->shrink_ns))
		rc = due_shrink(due, ret_input);
	if (rc == -ENOENT)
		rc = due_flush(due, discarding_layer(due), false, ret_input);
	if (rc == -ENOENT || rc == -ENOSPC)
		rc = due_compaction(due, ret_input);
	if (rc == -ENOENT)
		rc = due_tidy(due, ret_input);
	if (rc == -ENOENT)
		rc = due_hot(due, ret_input);
	if (rc == -ENOENT && due->was_copy && !is_urgent)
		rc = mt_flatten_find(&due->flatten, shard, ret_input);
	return rc == -ENOENT && is_pressed ? -ENOSPC : rc;
}

/* ---- what it is told ---- */

void
mt_flush_due_start(struct flush_due *due, struct mt_shard *shard)
{
	bool may_look = due->may_look;
	uint64_t shrink_ns = due->shrink_ns;

	assert(shard->sm.state == MT_SHARD_SERVING);
	assert(shard->block_index != NULL);
	/* The log that was replayed is not old yet. */
	*due = (struct flush_due){ .shard = shard,
		.next_aged_sequence = shard->next_sequence,
		.may_look = may_look,
		.shrink_ns = shrink_ns };
}

void
mt_flush_due_merged(struct flush_due *due, uint64_t number)
{
	due->merged_chunk = number;
	due->may_cover = true;
}

void
mt_flush_due_age(struct flush_due *due)
{
	assert(due->aged_sequence <= due->next_aged_sequence);
	assert(due->next_aged_sequence <= due->shard->next_sequence);
	due->aged_sequence = due->next_aged_sequence;
	due->next_aged_sequence = due->shard->next_sequence;
}

bool
mt_flush_due_has_layers(const struct flush_due *due)
{
	return oldest_mergeable(due) != NULL;
}
