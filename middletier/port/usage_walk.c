/* SPDX-License-Identifier: Apache-2.0 */
/* usage_walk.c -- what a volume holds in the indexes of a port's shards, counted chunk by chunk */
#include "port/usage_walk.h"

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "index/index.h"
#include "merge/compact.h"

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

static void
usage_add_shard(const struct mt_shard *shard, const struct mt_volume *volume,
    struct mt_usage *usage)
{
	const struct mt_index *index = shard->block_index;
	const struct loop_link *link;

	if (shard->sm.state != MT_SHARD_SERVING || index == NULL)
		return;
	usage->shard_count++;
	for (link = index->chunks.next; link != &index->chunks; link = link->next) {
		const struct mt_chunk *chunk = LIST_ENTRY(link, struct mt_chunk, link);
		uint64_t segment = chunk->number / CLEAVE_SEGMENT_CHUNKS;

		if (segment - volume->segment_base < volume->segment_count)
			usage_add_chunk(index, chunk, usage);
	}
}

void
mt_usage_take(const struct mt_port *port, const struct mt_volume *volume,
    struct mt_usage *ret_usage)
{
	assert(volume->segment_count > 0);
	*ret_usage = (struct mt_usage){ 0 };
	for (uint32_t i = 0; i < port->shard_count; i++)
		usage_add_shard(&port->shards[i], volume, ret_usage);
}
