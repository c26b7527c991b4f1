/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c -- a chunk that is being written in order: its older runs are left alone, for they are about to go
 *
 *	block of the chunk     0 ──────────────────────────────────── 16383
 *	flushed last                  ├─────────┤
 *	before that            ├──────┤
 *	runs of before         ├──────────────────────────────────────────┤
 *	                       dead             live yet: the next flushes cover it
 *
 * Who overwrites a chunk in order makes garbage of all its runs within seconds, piece by piece. A merge on the way would
 * write again what is not overwritten yet, for nothing. So while such a *stream* is young, its flushes take runs along only
 * where the chunk has as much garbage as none may have (tiers.c), and no compaction takes its chunk; what it has of
 * garbage does not count for the shard's. When the stream has passed, the runs of before are covered, and go by an
 * edit (covered.c). Where it ends half way they are merged as any, a minute or two later.
 *
 * What goes so leaves holes in extents that it shared with chunks which the stream has yet to come to: more of them are
 * borne meanwhile than else. All that takes room for a while, so there are streams only where a quarter of it is free.
 */
#include "merge/stream.h"

#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "extent/node_link.h"
#include "index/chunk.h"
#include "index/memtable.h"
#include "merge/block_set.h"
#include "merge/compact.h"
#include "merge/merge.h"
#include "merge/tiers.h"

#define STREAM_FREE_SHARE 4u

/* The blocks that @layer stores. */
static void
blocks_add(struct mt_block_set *blocks, const struct mt_layer *layer)
{
	const struct mt_location *location;
	uint32_t at = 0, block;

	while ((location = mt_memtable_next(&layer->table, &at, &block)) != NULL) {
		if (location->stored_bytes > 0)
			(void)mt_block_set_add(blocks, block, block + 1);
	}
}

bool
mt_stream_has_room(const struct mt_port *port)
{
	return mt_port_has_free(port, STREAM_FREE_SHARE);
}

bool
mt_stream_is(const struct mt_merge_input *input)
{
	struct mt_block_set blocks;
	uint32_t count = 0, in_stretches = 0, length = 0;

	assert(input->newest_layer != NULL && input->oldest_layer != NULL);
	memset(&blocks, 0, sizeof(blocks));
	for (struct loop_link *link = &input->newest_layer->link;; link = link->next) {
		blocks_add(&blocks, mt_layer_of(link));
		if (mt_layer_of(link) == input->oldest_layer)
			break;
	}
	for (uint32_t i = 0; i <= CLEAVE_CHUNK_BLOCKS; i++) {
		if (i < CLEAVE_CHUNK_BLOCKS && mt_block_set_has(&blocks, i)) {
			length++;
			continue;
		}
		count += length;
		in_stretches += length >= STREAM_BLOCKS_MIN ? length : 0;
		length = 0;
	}
	return in_stretches > 0 && 2 * in_stretches >= count;
}

bool
mt_stream_is_in(const struct compact_group *group, uint32_t garbage, uint64_t sequence)
{
	const struct mt_run *newest = group->newest;

	assert(newest != NULL);
	return newest->is_of_stream && newest->link.prev == &newest->chunk->runs &&
	    newest->flushed_sequence >= sequence && garbage < TIERS_FULL_MAX_PER_MILLE;
}
