/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extent_table.c -- a shard's extents by index, which is what locations say
 *
 *	index    generation << 16 | slot
 *
 * A slot is given again when its extent has gone, under the next generation: a location that outlived
 * its extent (a read that is under way) is recognised. As few slots are used as there are extents at a
 * time, and new ones take the lowest that is free.
 */
#include <errno.h>

#include "base/check.h"
#include "common/alloc.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_table.h"

#define TABLE_EXTENTS_MIN 16u
#define TABLE_SLOT_BITS 16u
#define TABLE_SLOT_MASK ((1u << TABLE_SLOT_BITS) - 1)
_Static_assert(MT_EXTENTS_PER_SHARD_MAX == 1u << TABLE_SLOT_BITS, "slots");

static int
table_grow(struct mt_shard *shard)
{
	uint32_t max = shard->extent_max == 0 ? TABLE_EXTENTS_MIN : shard->extent_max * 2;
	struct mt_extent **extents;
	uint16_t *generations;

	assert(max <= MT_EXTENTS_PER_SHARD_MAX);
	extents = mt_realloc(shard->extents, max * sizeof(*extents));
	if (extents == NULL)
		return -ENOMEM;
	shard->extents = extents;
	generations = mt_realloc(shard->extent_generations, max * sizeof(*generations));
	if (generations == NULL)
		return -ENOMEM;
	shard->extent_generations = generations;
	for (uint32_t i = shard->extent_max; i < max; i++)
		generations[i] = 0;
	shard->extent_max = max;
	return 0;
}

int
mt_shard_extent_add(struct mt_shard *shard, struct mt_extent *extent)
{
	uint32_t slot = shard->extent_free;

	assert(shard->extent_count <= shard->extent_max);
	while (slot < shard->extent_count && shard->extents[slot] != NULL)
		slot++;
	if (slot == MT_EXTENTS_PER_SHARD_MAX)
		return -ENOSPC;
	if (slot == shard->extent_max && table_grow(shard) != 0)
		return -ENOMEM;
	if (slot == shard->extent_count)
		shard->extent_count++;
	shard->extent_free = slot + 1;
	shard->extents[slot] = extent;
	extent->index = (uint32_t)shard->extent_generations[slot] << TABLE_SLOT_BITS | slot;
	return 0;
}

struct mt_extent *
mt_shard_extent(const struct mt_shard *shard, uint32_t index)
{
	uint32_t slot = index & TABLE_SLOT_MASK;
	struct mt_extent *extent;

	if (slot >= shard->extent_count)
		return NULL;
	extent = shard->extents[slot];
	return extent != NULL && extent->index == index ? extent : NULL;
}

void
mt_shard_extent_remove(struct mt_shard *shard, struct mt_extent *extent)
{
	uint32_t slot = extent->index & TABLE_SLOT_MASK;

	assert(mt_shard_extent(shard, extent->index) == extent);
	shard->extents[slot] = NULL;
	shard->extent_generations[slot]++;
	if (slot < shard->extent_free)
		shard->extent_free = slot;
}

void
mt_shard_extents_free(struct mt_shard *shard)
{
	for (uint32_t i = 0; i < shard->extent_count; i++)
		mt_extent_free(shard->extents[i]);
	mt_free(shard->extents);
	mt_free(shard->extent_generations);
	shard->extents = NULL;
	shard->extent_generations = NULL;
	shard->extent_count = shard->extent_max = shard->extent_free = 0;
}
