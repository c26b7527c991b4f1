/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiers.c -- the arithmetic of flush and compaction
 *
 * A record is written to the log, once by the flush that takes it to a run, and again each time that its
 * run is merged. Were each flush merged with all that its chunk has, a chunk would be written again for
 * every bit of it that changed; were runs never merged, garbage would fill the disks. So runs pile up on
 * a chunk until their bytes are a good part of what is live, and are merged all at once: with a share g
 * of garbage against live bytes when that happens, a byte is merged 1 / g times.
 *
 * When a chunk's time comes depends on the whole shard: nothing is merged while the shard's garbage is
 * within its budget, and then the worst chunk first. So chunks are spread over all shares from none to g,
 * and the shard has half of g on average: it is that average which the disks must hold, and g, twice as
 * much, that the writes depend on.
 *
 * A flush of a chunk whose time has nearly come takes everything along, which saves its own run: of the
 * newest bytes that a chunk has, the longer its layer waited. So the budget has two marks. Beyond the
 * lower one flushes take along what is worth it, and where loads are even that is enough; beyond the
 * upper one the worst chunk is merged at once. With small layers under large runs the number of runs
 * comes first: then the newest are merged that are of a size, as in any tiered store.
 */
#include "merge/tiers.h"

#include <stddef.h>

#include "base/check.h"

#define TIERS_DIRTY_PER_MILLE 340u   /* of live bytes, in the shard: flushes clean */
#define TIERS_OVERDUE_PER_MILLE 415u /* the worst chunk does not wait for its flush */
#define TIERS_HOLEY_PER_MILLE 130u   /* of run bytes, dead between them in extents */
#define TIERS_STREAM_PER_MILLE 600u  /* the same, while what is left of them is about to go, too */
#define TIERS_FULL_PER_MILLE 640u    /* of a chunk: a flush takes all */

static bool
total_has_garbage(const struct tiers_total *total, uint64_t per_mille)
{
	uint64_t garbage_bytes =
	    total->run_bytes > total->live_bytes ? total->run_bytes - total->live_bytes : 0;

	return garbage_bytes * 1000 > total->live_bytes * per_mille;
}

bool
mt_tiers_is_dirty(const struct tiers_total *total)
{
	return total_has_garbage(total, TIERS_DIRTY_PER_MILLE);
}

bool
mt_tiers_is_overdue(const struct tiers_total *total)
{
	return total_has_garbage(total, TIERS_OVERDUE_PER_MILLE);
}

bool
mt_tiers_is_holey(const struct tiers_total *total)
{
	uint64_t dead_bytes =
	    total->extent_bytes > total->run_bytes ? total->extent_bytes - total->run_bytes : 0;
	uint64_t per_mille = total->has_stream ? TIERS_STREAM_PER_MILLE : TIERS_HOLEY_PER_MILLE;

	return dead_bytes > 2 * total->slot_bytes &&
	    dead_bytes * 1000 > total->run_bytes * per_mille;
}

static uint64_t
group_bytes(const struct tiers_group *group)
{
	uint64_t bytes = group->layer_bytes;

	assert(group->run_count == 0 || group->run_bytes != NULL);
	for (uint32_t i = 0; i < group->run_count; i++)
		bytes += group->run_bytes[i];
	return bytes;
}

uint32_t
mt_tiers_garbage(const struct tiers_group *group)
{
	uint64_t bytes = group_bytes(group), live_bytes = group->live_bytes;

	assert(group->run_count == 0 || group->run_bytes != NULL);
	if (group->run_count == 0)
		return 0;
	/* Nothing is known: the oldest run is likely the whole of an earlier merge. */
	if (live_bytes == 0)
		live_bytes = group->run_bytes[group->run_count - 1];
	if (bytes <= live_bytes)
		return 0;
	if ((bytes - live_bytes) / 1000 >= live_bytes)
		return 1000000;
	return (uint32_t)((bytes - live_bytes) * 1000 / live_bytes);
}

uint32_t
mt_tiers_take(const struct tiers_group *group, bool is_dirty)
{
	uint32_t garbage = mt_tiers_garbage(group), count = 0;
	uint64_t bytes = group->layer_bytes;

	if (garbage >= (is_dirty ? TIERS_FULL_PER_MILLE : TIERS_FULL_MAX_PER_MILLE))
		return group->run_count;
	if (group->run_count < TIERS_RUNS_MAX)
		return 0;
	/* Runs of about one size: none that is larger than all before it together. */
	while (count < group->run_count && (count < 2 || group->run_bytes[count] <= bytes))
		bytes += group->run_bytes[count++];
	assert(count <= group->run_count);
	return count;
}
