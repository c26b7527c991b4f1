/* SPDX-License-Identifier: Apache-2.0 */
/* usage_walk.c -- what a volume holds in the indexes of a port's shards, counted chunk by chunk */
#include "port/usage_walk.h"

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "index/index.h"
#include "merge/compact.h"
#include "merge/flatten.h"
#include "merge/flush.h"

/* Compaction's estimate (merge/compact.h): too much rather than too little, until it has counted. */
static uint64_t
usage_garbage(const struct mt_index *index, const struct mt_chunk *chunk)
{
	struct loop_link *link = chunk->runs.next;
	uint64_t garbage_bytes = 0;

	assert(chunk->index == index);
	while (link != &chunk->runs) {
		struct compact_group group;
		uint64_t run_bytes = 0;

		mt_compact_group_from(index, LIST_ENTRY(link, struct mt_run, link), &group);
		for (uint32_t i = 0; i < group.generation_count; i++)
			run_bytes += group.bytes[i];
		garbage_bytes += run_bytes - num_min(run_bytes, group.live_bytes);
		link = group.oldest->link.next;
	}
	return garbage_bytes;
}

/* A chunk's part between two cuts, while it is counted; all zeros between two chunks. */
struct usage_part {
	uint64_t stored_bytes;
	bool is_written;
};

/* How many of the cuts a record of @cut was written behind: those snapshots do not have it. */
static uint32_t
usage_part_of(const struct mt_usage_cuts *cuts, uint64_t cut)
{
	uint32_t first = 0, end = cuts->count;

	assert(cuts->count <= MT_USAGE_CUTS_MAX);
	while (first < end) {
		uint32_t middle = first + (end - first) / 2;

		if (cuts->numbers[middle] <= cut)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

static void
usage_add_parts(const struct mt_chunk *chunk, const struct mt_usage_cuts *cuts,
    struct usage_part parts[static MT_USAGE_CUTS_MAX + 1], struct mt_usage *usage)
{
	struct loop_link *link;

	for (link = chunk->layers.next; link != &chunk->layers; link = link->next) {
		const struct mt_layer *layer = mt_layer_of(link);
		struct usage_part *part = &parts[usage_part_of(cuts, layer->cut)];

		part->stored_bytes += layer->stored_bytes;
		part->is_written = part->is_written || !mt_layer_is_empty(layer);
	}
	for (link = chunk->runs.next; link != &chunk->runs; link = link->next) {
		const struct mt_run *run = mt_run_of(link);
		struct usage_part *part = &parts[usage_part_of(cuts, run->cut)];

		part->stored_bytes += run->length_bytes;
		part->is_written = true;
	}
	for (uint32_t i = 0; i < cuts->count; i++) {
		usage->between[i].stored_bytes += parts[i].stored_bytes;
		if (parts[i + 1].is_written)
			usage->between[i].freed_bytes_max += parts[i].stored_bytes;
		parts[i] = (struct usage_part){ .stored_bytes = 0 };
	}
	parts[cuts->count] = (struct usage_part){ .stored_bytes = 0 };
}

static void
usage_add_chunk(const struct mt_index *index, const struct mt_chunk *chunk, struct mt_usage *usage)
{
	assert(chunk->index == index);
	usage->garbage_bytes += usage_garbage(index, chunk);
	usage->chunk_count++;
	usage->layer_bytes += chunk->layer_bytes;
	usage->run_bytes += chunk->run_bytes;
	usage->run_count += chunk->run_count;
	usage->run_count_max = (uint32_t)num_max(usage->run_count_max, chunk->run_count);
}

/* A clone: bytes of its origins that it reads, and how fast they are copied. */
static void
usage_add_origin(const struct mt_shard *shard, const struct mt_volume *volume,
    struct mt_usage *usage)
{
	struct mt_flatten_share share = { 0 };
	const struct flatten *flatten = mt_flush_flatten_of(shard);

	assert(volume->origin != 0);
	mt_flatten_count(&volume->scope, shard->block_index, &share);
	usage->origin_bytes += share.bytes;
	usage->origin_copied_bytes += share.copied_bytes;
	if (flatten != NULL && flatten->scope.span_count > 0 &&
	    flatten->scope.spans[0].segment_base == volume->segment_base)
		usage->flatten_bytes_s +=
		    mt_flatten_bytes_s(flatten, loop_now_ns(shard->port->loop));
}

static void
usage_add_shard(const struct mt_shard *shard, const struct mt_volume *volume,
    const struct mt_usage_cuts *cuts, struct mt_usage *usage)
{
	struct usage_part parts[MT_USAGE_CUTS_MAX + 1] = { { .stored_bytes = 0 } };
	const struct mt_index *index = shard->block_index;
	const struct loop_link *link;

	if (shard->sm.state != MT_SHARD_SERVING || index == NULL)
		return;
	usage->shard_count++;
	if (volume->origin != 0)
		usage_add_origin(shard, volume, usage);
	for (link = index->chunks.next; link != &index->chunks; link = link->next) {
		const struct mt_chunk *chunk = LIST_ENTRY(link, struct mt_chunk, link);
		uint64_t segment = chunk->number / CLEAVE_SEGMENT_CHUNKS;

		if (segment - volume->segment_base >= volume->segment_count)
			continue;
		usage_add_chunk(index, chunk, usage);
		if (usage->between != NULL)
			usage_add_parts(chunk, cuts, parts, usage);
	}
}

void
mt_usage_take(const struct mt_port *port, const struct mt_volume *volume,
    const struct mt_usage_cuts *cuts, struct mt_usage *ret_usage)
{
	assert(volume->segment_count > 0);
	*ret_usage = (struct mt_usage){ 0 };
	if (cuts->count > 0)
		ret_usage->between = mt_calloc(cuts->count, sizeof(*ret_usage->between));
	for (uint32_t i = 0; i < port->shard_count; i++)
		usage_add_shard(&port->shards[i], volume, cuts, ret_usage);
}

void
mt_usage_fini(struct mt_usage *usage)
{
	mt_free(usage->between);
	*usage = (struct mt_usage){ 0 };
}
