/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact.c -- what the runs of a shard come to, and which are worth a merge (tiers.c)
 *
 * What is live of a group is known when the indexes of all its runs are in memory, which they are after
 * the merges that made them; it is kept with the group's oldest runs. Later flushes make it too small,
 * never too large but for discards: a group seems to have more garbage than it has, and is counted again
 * when its next merge ends.
 *
 * Whole batches are written: what is live takes no fewer bytes than a merge of it would write. Else a run of
 * one frame, most of whose batch is padding, would look like garbage for ever, and be merged again and again. So
 * would the directory that it ends with.
 */
#include "merge/compact.h"

#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "index/index.h"
#include "index/index_cuts.h"
#include "index/run_index.h"
#include "merge/stream.h"
#include "merge/tiers.h"

/* Beside its stored bytes a frame has a descriptor, and its share of heads and padding. */
#define COMPACT_FRAME_BYTES (BATCH_DESC_FIXED_BYTES + 8u)
/* So much of a chunk was made in haste that all of it is written anew. */
#define COMPACT_HASTY_PERCENT 25u

static struct mt_run *
run_of(const struct loop_link *link)
{
	return NUM_CONTAINER_OF(link, struct mt_run, link);
}

static uint64_t
run_live_bytes(const struct mt_run *run)
{
	return run->live_bytes != 0 ? run->live_bytes : run->length_bytes;
}

/* ---- groups ---- */

/* How many runs @run and those behind it are that the same merge made. */
static uint32_t
generation_count(const struct mt_run *run)
{
	const struct mt_chunk *chunk = run->chunk;
	uint32_t count = 1;

	assert(run->chunk->run_count > 0);
	for (const struct loop_link *link = run->link.next;
	     link != &chunk->runs && run_of(link)->flushed_sequence == run->flushed_sequence;
	     link = link->next)
		count++;
	return count;
}

/* Does the same merge's next run stand before @run? */
static bool
is_inside_generation(const struct mt_run *run)
{
	return run->link.prev != &run->chunk->runs &&
	    run_of(run->link.prev)->flushed_sequence == run->flushed_sequence;
}

/*
 * A generation of more runs than a merge takes is split: the newest of them are the group. Merged, they stand before the
 * others again, which are no group: merged, they would stand before these.
 */
void
mt_compact_group_from(const struct mt_index *index, struct mt_run *newest,
    struct compact_group *ret_group)
{
	const struct mt_chunk *chunk = newest->chunk;
	struct loop_link *link = &newest->link;

	assert(newest->chunk->index == index);
	*ret_group =
	    (struct compact_group){ .newest = newest, .is_merging = is_inside_generation(newest) };
	while (link != &chunk->runs && !ret_group->is_split) {
		struct mt_run *run = run_of(link);
		uint32_t count = generation_count(run);
		uint64_t *bytes = &ret_group->bytes[ret_group->generation_count];

		if (ret_group->generation_count > 0 &&
		    (ret_group->generation_count == COMPACT_GENERATIONS_MAX ||
			ret_group->run_count + count > COMPACT_RUNS_MAX ||
			mt_index_is_cut_between(index, chunk->number, run->cut,
			    ret_group->oldest->cut)))
			break;
		ret_group->is_split = count > COMPACT_RUNS_MAX;
		count = (uint32_t)num_min(count, COMPACT_RUNS_MAX);
		ret_group->generation_count++;
		ret_group->run_count += count;
		ret_group->live_bytes = 0; /* that of the oldest counts */
		for (; count > 0; count--, link = link->next) {
			run = run_of(link);
			*bytes += run->length_bytes;
			ret_group->live_bytes += run_live_bytes(run);
			ret_group->is_merging |= run->is_merging;
			ret_group->oldest = run;
		}
	}
	assert(ret_group->oldest != NULL);
	assert(ret_group->run_count <= num_min(chunk->run_count, COMPACT_RUNS_MAX));
}

void
mt_compact_group_of(const struct mt_index *index, struct mt_run *run,
    struct compact_group *ret_group)
{
	const struct mt_chunk *chunk = run->chunk;

	assert(run->chunk->index == index);
	while (run->link.prev != &chunk->runs) {
		struct mt_run *newer = run_of(run->link.prev);

		if (newer->flushed_sequence != run->flushed_sequence &&
		    mt_index_is_cut_between(index, chunk->number, run->cut, newer->cut))
			break;
		run = newer;
	}
	mt_compact_group_from(index, run, ret_group);
}

/* A part of @run's group is being merged, or deleted; or @run is of a split generation's part that is no group. */
static bool
group_is_busy(const struct mt_index *index, struct mt_run *run)
{
	struct compact_group group;
	const struct mt_run *at;

	mt_compact_group_of(index, run, &group);
	if (group.is_merging || !group.is_split)
		return group.is_merging;
	for (at = group.newest; at != run && at != group.oldest;)
		at = run_of(at->link.next);
	return at != run;
}

struct mt_run *
mt_compact_group_run(const struct compact_group *group, uint32_t count)
{
	struct mt_run *run = group->newest;

	assert(count >= 1 && count <= group->generation_count);
	if (count == group->generation_count)
		return group->oldest; /* its generation may go on behind it */
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t k = generation_count(run) - (i + 1 < count ? 0 : 1); k > 0; k--)
			run = run_of(run->link.next);
	}
	return run;
}

/* ---- counting ---- */

/* Bytes of the frames' blocks that no newer run of the group has; false: an index is not there. */
static bool
group_count(const struct compact_group *group, uint64_t *ret_bytes)
{
	uint64_t seen[CLEAVE_CHUNK_BLOCKS / 64u];
	uint64_t bytes = 0, batch_bytes = BATCH_HEADER_BYTES; /* were it all in one batch */
	uint64_t directory_bytes = 0;

	assert(group->newest != NULL && group->oldest != NULL);
	memset(seen, 0, sizeof(seen));
	for (const struct mt_run *run = group->newest;; run = run_of(run->link.next)) {
		const struct mt_run_index *frames = run->index;

		if (frames == NULL)
			return false;
		if (run->flushed_sequence == group->oldest->flushed_sequence)
			directory_bytes += run->directory_bytes;
		for (uint32_t i = 0; i < frames->frame_count; i++) {
			const struct mt_frame *frame = &frames->frames[i];
			uint64_t stored = frame->stored_bytes +
			    4u * (frame->stored_bytes > 0 ? frame->block_count : 0);
			uint32_t count = 0;

			assert(frame->block_count > 0);
			assert(frame->block + frame->block_count <= CLEAVE_CHUNK_BLOCKS);
			for (uint32_t b = frame->block; b < frame->block + frame->block_count;
			     b++) {
				uint64_t bit = UINT64_C(1) << b % 64u;

				count += (seen[b / 64u] & bit) == 0;
				seen[b / 64u] |= bit;
			}
			bytes += (stored + COMPACT_FRAME_BYTES) * count / frame->block_count;
			batch_bytes += (stored * count + frame->block_count - 1) /
				frame->block_count +
			    (count > 0 ? BATCH_DESC_FIXED_BYTES : 0);
		}
		if (run == group->oldest)
			break;
	}
	*ret_bytes = num_max(bytes, num_round_up(batch_bytes, BATCH_ALIGN)) + directory_bytes;
	return true;
}

/* Live bytes are believed to be spread evenly over the group's oldest runs, by their lengths. */
static void
group_keep(const struct compact_group *group, uint64_t live_bytes)
{
	struct mt_run *run = group->oldest;
	uint64_t sum_bytes = 0;

	assert(live_bytes > 0);
	for (; run != group->newest &&
	     run_of(run->link.prev)->flushed_sequence == run->flushed_sequence;
	     run = run_of(run->link.prev))
		sum_bytes += run->length_bytes;
	sum_bytes += run->length_bytes;
	assert(sum_bytes > 0);
	for (;; run = run_of(run->link.next)) {
		run->live_bytes = num_max(1, live_bytes * run->length_bytes / sum_bytes);
		if (run == group->oldest)
			return;
	}
}

void
mt_compact_count(const struct mt_index *index, struct mt_chunk *chunk)
{
	struct loop_link *link = chunk->runs.next;

	assert(chunk->index == index);
	while (link != &chunk->runs) {
		struct compact_group group;
		uint64_t live_bytes;

		mt_compact_group_from(index, run_of(link), &group);
		if (group_count(&group, &live_bytes))
			group_keep(&group, live_bytes);
		link = group.oldest->link.next;
	}
}

/* ---- the shard ---- */

static void
total_extents(const struct mt_shard *shard, struct tiers_total *total)
{
	assert(total->extent_bytes == 0 && total->slot_bytes == 0);
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		const struct mt_extent *extent = shard->extents[i];

		if (extent == NULL || extent->kind != EXTENT_RUN)
			continue;
		total->slot_bytes = num_max(total->slot_bytes, extent->capacity_bytes);
		/* Without a run it goes by itself: the last merge's are still here when the next one is looked for. */
		if (extent->run_count > 0)
			total->extent_bytes += extent->end_bytes;
	}
	if (total->slot_bytes == 0)
		total->slot_bytes = CLEAVE_CHUNK_BYTES; /* none was made in this life yet */
}

static uint32_t
group_garbage(const struct compact_group *group)
{
	return mt_tiers_garbage(
	    &(struct tiers_group){ group->bytes, group->generation_count, 0, group->live_bytes });
}

struct mt_run *
mt_compact_scan(const struct mt_shard *shard, uint64_t stream_sequence,
    struct tiers_total *ret_total, uint32_t *ret_garbage)
{
	const struct mt_index *index = shard->block_index;
	uint64_t now_ns = loop_now_ns(shard->port->loop);
	struct mt_run *worst = NULL;
	uint32_t worst_garbage = 0;

	assert(index != NULL);
	*ret_total = (struct tiers_total){ 0 };
	for (const struct loop_link *at = index->chunks.next; at != &index->chunks; at = at->next) {
		const struct mt_chunk *chunk = NUM_CONTAINER_OF(at, struct mt_chunk, link);
		const struct loop_link *link = chunk->runs.next;

		while (link != &chunk->runs) {
			struct compact_group group;
			uint64_t bytes;
			uint32_t garbage;
			bool is_stream;

			mt_compact_group_from(index, run_of(link), &group);
			link = group.oldest->link.next;
			garbage = group_garbage(&group);
			is_stream = mt_stream_is_in(&group, garbage, stream_sequence);
			bytes = 0;
			for (uint32_t i = 0; i < group.generation_count; i++)
				bytes += group.bytes[i];
			ret_total->run_bytes += bytes;
			ret_total->live_bytes += is_stream ? bytes : group.live_bytes;
			ret_total->has_stream |= is_stream;
			if (garbage <= worst_garbage || group.is_merging || is_stream ||
			    chunk->retry_ns > now_ns)
				continue;
			worst_garbage = garbage;
			worst = group.newest;
		}
	}
	total_extents(shard, ret_total);
	*ret_garbage = worst_garbage;
	return worst;
}

/* The sealed run extent of which the most is dead. */
static const struct mt_extent *
worst_extent(const struct mt_shard *shard)
{
	const struct mt_extent *worst = NULL;
	uint64_t worst_dead = 0;

	for (uint32_t i = 0; i < shard->extent_count; i++) {
		const struct mt_extent *extent = shard->extents[i];
		uint64_t dead;

		if (extent == NULL || extent->kind != EXTENT_RUN || extent->run_count == 0 ||
		    extent->sm.state != MT_EXTENT_SEALED ||
		    extent->sealed_bytes <= extent->run_bytes)
			continue;
		dead = (extent->sealed_bytes - extent->run_bytes) * 1000 / extent->sealed_bytes;
		if (dead <= worst_dead)
			continue;
		worst_dead = dead;
		worst = extent;
	}
	return worst;
}

/* A stream goes on in @run's group behind @sequence. */
static bool
run_is_in_stream(const struct mt_index *index, struct mt_run *run, uint64_t sequence)
{
	struct compact_group group;

	mt_compact_group_of(index, run, &group);
	return mt_stream_is_in(&group, group_garbage(&group), sequence);
}

struct mt_run *
mt_compact_hole(const struct mt_shard *shard, uint64_t stream_sequence)
{
	const struct mt_index *index = shard->block_index;
	const struct mt_extent *extent = worst_extent(shard);
	uint64_t now_ns = loop_now_ns(shard->port->loop);

	assert(index != NULL);
	if (extent == NULL)
		return NULL;
	for (const struct loop_link *at = index->chunks.next; at != &index->chunks; at = at->next) {
		const struct mt_chunk *chunk = NUM_CONTAINER_OF(at, struct mt_chunk, link);

		if (chunk->retry_ns > now_ns)
			continue;
		for (const struct loop_link *link = chunk->runs.next; link != &chunk->runs;
		     link = link->next) {
			struct mt_run *run = run_of(link);

			if (run->extent_index == extent->index && !group_is_busy(index, run) &&
			    !run_is_in_stream(index, run, stream_sequence))
				return run;
		}
	}
	return NULL;
}

struct mt_run *
mt_compact_crowded(const struct mt_shard *shard)
{
	const struct mt_index *index = shard->block_index;
	uint64_t now_ns = loop_now_ns(shard->port->loop);
	struct mt_run *worst = NULL;
	uint32_t most = 1;

	assert(index != NULL);
	for (const struct loop_link *at = index->chunks.next; at != &index->chunks; at = at->next) {
		const struct mt_chunk *chunk = NUM_CONTAINER_OF(at, struct mt_chunk, link);
		const struct loop_link *link = chunk->runs.next;

		while (link != &chunk->runs) {
			struct compact_group group;

			mt_compact_group_from(index, run_of(link), &group);
			link = group.oldest->link.next;
			if (group.generation_count <= most || group.is_merging ||
			    chunk->retry_ns > now_ns)
				continue;
			most = group.generation_count;
			worst = group.newest;
		}
	}
	return worst;
}

struct mt_run *
mt_compact_hidden(const struct mt_shard *shard)
{
	const struct mt_index *index = shard->block_index;
	uint64_t now_ns = loop_now_ns(shard->port->loop);

	assert(index != NULL);
	if (mt_index_hidden_count(index) == 0)
		return NULL;
	for (const struct loop_link *at = index->chunks.next; at != &index->chunks; at = at->next) {
		const struct mt_chunk *chunk = NUM_CONTAINER_OF(at, struct mt_chunk, link);

		if (chunk->retry_ns > now_ns)
			continue;
		for (const struct loop_link *link = chunk->runs.next; link != &chunk->runs;
		     link = link->next) {
			struct mt_run *run = run_of(link);

			if (mt_index_is_hidden(index, chunk->number, run->cut) &&
			    !group_is_busy(index, run))
				return run;
		}
	}
	return NULL;
}

/* Likewise of @chunk. */
static struct mt_run *
chunk_hasty(const struct mt_index *index, const struct mt_chunk *chunk, uint64_t sequence)
{
	struct mt_run *found = NULL;
	uint64_t bytes = 0;

	for (const struct loop_link *link = chunk->runs.next; link != &chunk->runs;
	     link = link->next) {
		struct mt_run *run = run_of(link);

		if (run->hasty_percent == 0)
			continue;
		if (run->flushed_sequence >= sequence)
			return NULL; /* more of it may come */
		bytes += (uint64_t)run->length_bytes * run->hasty_percent;
		if (found == NULL && !group_is_busy(index, run))
			found = run;
	}
	return bytes < chunk->run_bytes * COMPACT_HASTY_PERCENT ? NULL : found;
}

struct mt_run *
mt_compact_hasty(const struct mt_shard *shard, uint64_t sequence)
{
	const struct mt_index *index = shard->block_index;
	uint64_t now_ns = loop_now_ns(shard->port->loop);

	assert(index != NULL);
	if (index->hasty_count == 0)
		return NULL;
	for (const struct loop_link *at = index->chunks.next; at != &index->chunks; at = at->next) {
		const struct mt_chunk *chunk = NUM_CONTAINER_OF(at, struct mt_chunk, link);
		struct mt_run *run = chunk->retry_ns > now_ns ? NULL
							      : chunk_hasty(index, chunk, sequence);

		if (run != NULL)
			return run;
	}
	return NULL;
}
