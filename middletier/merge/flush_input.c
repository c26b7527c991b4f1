/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flush_input.c -- the layers and runs that a flush, or a compaction, takes
 *
 *	newest                                       oldest
 *	layer  layer | layer  layer   run  run  run | run  run
 *	             ^ a cut between  '----------'  ^ a cut
 *	               '--- a flush: these layers, and as many of the newest runs as tiers.c says
 *
 * A cut that a snapshot needs is never crossed. The active layer freezes when it is taken. Of more layers and runs than
 * a merge takes, a flush leaves the runs, then the newest layers, and a compaction the newest layers: snapshots that have
 * gone leave any number of layers.
 */
#include "merge/flush_input.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "index/heat.h"
#include "index/index.h"
#include "index/index_cuts.h"
#include "index/memtable.h"
#include "manifest/manifest_room.h"
#include "merge/compact.h"
#include "merge/flatten.h"
#include "merge/merge.h"
#include "merge/merge_plan.h"
#include "merge/stream.h"
#include "merge/tiers.h"

#define FLUSH_LEVEL 1   /* of zstd: a log that gets long waits for it */
#define COMPACT_LEVEL 2 /* what is merged again is likely to stay */

_Static_assert(COMPACT_RUNS_MAX < MERGE_INPUTS_MAX, "a layer goes along");

/* ---- layers ---- */

/*
 * The layers to flush: from the oldest up to the next cut, at most @max of them. What is active freezes. 0; -ENOENT
 * there is nothing; -ENOMEM.
 */
static int
input_take_layers(const struct mt_index *index, struct mt_chunk *chunk, uint32_t max,
    struct mt_merge_input *input)
{
	struct loop_link *link = chunk->layers.prev;
	uint32_t count = 1;
	int rc;

	assert(chunk->index == index && max > 0);
	if (link == &chunk->layers || flush_layer_is_empty(flush_layer_of(link)))
		return -ENOENT;
	input->newest_layer = input->oldest_layer = flush_layer_of(link);
	for (link = link->prev; link != &chunk->layers && count < max; link = link->prev, count++) {
		struct mt_layer *layer = flush_layer_of(link);

		if (flush_layer_is_empty(layer) ||
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
input_discards_much(const struct mt_merge_input *input)
{
	const struct loop_link *link = &input->newest_layer->link;
	uint32_t count = 0;

	assert(input->newest_layer != NULL && input->oldest_layer != NULL);
	for (;; link = link->next) {
		const struct mt_layer *layer = flush_layer_of(link);
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
input_layer_bytes(const struct mt_merge_input *input)
{
	const struct loop_link *link = &input->newest_layer->link;
	uint64_t bytes = 0;

	assert(input->newest_layer != NULL && input->oldest_layer != NULL);
	for (;; link = link->next) {
		bytes += flush_layer_of(link)->stored_bytes;
		if (flush_layer_of(link) == input->oldest_layer)
			return bytes;
	}
}

/* More than a merge takes. */
static bool
input_is_large(const struct mt_merge_input *input)
{
	uint32_t count = 2; /* the oldest of both */

	for (const struct loop_link *link = &input->newest_layer->link;
	     link != &input->oldest_layer->link; link = link->next)
		count++;
	for (const struct loop_link *link = &input->newest_run->link;
	     link != &input->oldest_run->link; link = link->next)
		count++;
	return count > MERGE_INPUTS_MAX;
}

/* ---- codecs ---- */

/*
 * How its frames are stored: for space, or for who reads them, by how often that was done since the last merges. Where room
 * is short nothing is made larger; where writes wait, nothing is compressed for three times as long. What a flush does
 * not change stays as it is; a compaction makes cold frames small again.
 */
static void
input_choose_codec(const struct flush_terms *terms, struct mt_merge_input *input)
{
	const struct mt_port *port = terms->shard->port;
	enum mt_run_codec codec = port->settings->run_codec;
	bool has_room = !terms->is_full && mt_flatten_has_room(port);

	input->is_hot = codec == MT_RUN_CODEC_LZ4 ||
	    (codec == MT_RUN_CODEC_AUTO && has_room && !terms->is_urgent &&
		mt_heat_of_chunk(input->chunk) >= HEAT_MERGED);
	input->is_hasty = codec == MT_RUN_CODEC_AUTO && has_room && terms->is_urgent;
	input->recoded = ENGINE_NONE;
	if (input->is_hot)
		input->recoded = has_room ? ENGINE_ZSTD : ENGINE_NONE;
	else if (mt_flush_input_is_compaction(input) &&
	    (codec == MT_RUN_CODEC_ZSTD || mt_heat_is_cold(input->chunk)))
		input->recoded = ENGINE_LZ4;
}

/* ---- inputs ---- */

/* The newest runs, as far as it pays to take them along. */
static void
input_take_runs(const struct flush_terms *terms, struct mt_chunk *chunk,
    struct mt_merge_input *input)
{
	const struct mt_index *index = terms->shard->block_index;
	struct compact_group group;
	struct tiers_group tiers;
	struct mt_run *newest;
	uint32_t count;
	bool is_long = mt_manifest_is_long(terms->shard);

	assert(input->oldest_layer != NULL && input->newest_run == NULL);
	if (list_is_empty(&chunk->runs))
		return;
	/* Where room is short, as little as can be is written anew, unless that gives room back. */
	if (terms->is_full && !is_long && !input_discards_much(input))
		return;
	newest = LIST_ENTRY(list_first(&chunk->runs), struct mt_run, link);
	if (chunk->retry_ns > loop_now_ns(terms->shard->port->loop) ||
	    mt_index_is_cut_between(index, chunk->number, newest->cut, input->oldest_layer->cut))
		return;
	mt_compact_group_from(index, newest, &group);
	if (group.is_merging)
		return;
	tiers = (struct tiers_group){ group.bytes, group.generation_count, input_layer_bytes(input),
		group.live_bytes };
	count = mt_tiers_take(&tiers, terms->is_dirty && !input->is_stream);
	if (count < group.generation_count && (is_long || input_discards_much(input)))
		count = group.generation_count;
	if (count == 0)
		return;
	input->newest_run = newest;
	input->oldest_run = mt_compact_group_run(&group, count);
	if (input_is_large(input))
		input->newest_run = input->oldest_run = NULL;
}

int
mt_flush_input_chunk(const struct flush_terms *terms, struct mt_chunk *chunk,
    struct mt_merge_input *ret_input)
{
	int rc;

	assert(chunk->index == terms->shard->block_index);
	*ret_input = (struct mt_merge_input){ .chunk = chunk, .level = FLUSH_LEVEL };
	rc = input_take_layers(terms->shard->block_index, chunk, MERGE_INPUTS_MAX, ret_input);
	if (rc != 0)
		return rc;
	ret_input->is_stream = mt_stream_has_room(terms->shard->port) && mt_stream_is(ret_input);
	input_take_runs(terms, chunk, ret_input);
	input_choose_codec(terms, ret_input);
	return 0;
}

int
mt_flush_input_group(const struct flush_terms *terms, struct mt_run *run,
    struct mt_merge_input *ret_input)
{
	const struct mt_index *index = terms->shard->block_index;
	struct mt_chunk *chunk = run->chunk;
	struct compact_group group;
	int rc;

	assert(chunk->index == index);
	*ret_input = (struct mt_merge_input){ .chunk = chunk, .level = COMPACT_LEVEL };
	mt_compact_group_of(index, run, &group);
	if (group.is_merging)
		return -EBUSY;
	ret_input->newest_run = group.newest;
	ret_input->oldest_run = group.oldest;
	input_choose_codec(terms, ret_input);
	if (group.newest->link.prev != &chunk->runs || list_is_empty(&chunk->layers) ||
	    mt_index_is_cut_between(index, chunk->number, group.newest->cut,
		flush_layer_of(chunk->layers.prev)->cut))
		return 0;
	rc = input_take_layers(index, chunk, MERGE_INPUTS_MAX - group.run_count, ret_input);
	return rc == -ENOENT ? 0 : rc;
}

bool
mt_flush_input_is_compaction(const struct mt_merge_input *input)
{
	assert(input->newest_layer != NULL || input->newest_run != NULL);
	return input->newest_run != NULL && input->level == COMPACT_LEVEL;
}
