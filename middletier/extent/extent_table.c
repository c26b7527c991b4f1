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
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_table.h"

#define TABLE_EXTENTS_MIN 16u
#define TABLE_SLOT_BITS 16u
#define TABLE_SLOT_MASK ((1u << TABLE_SLOT_BITS) - 1)
_Static_assert(MT_EXTENTS_PER_SHARD_MAX == 1u << TABLE_SLOT_BITS, "slots");

struct mt_extent_slots {
	uint16_t *generations;
	uint32_t max;  /* there is memory for so many slots */
	uint32_t free; /* no slot before it is free */
};

static int
table_grow(struct mt_shard *shard)
{
	struct mt_extent_slots *slots = shard->extent_slots;
	struct mt_extent **extents;
	uint16_t *generations;
	uint32_t max;

	if (slots == NULL)
		shard->extent_slots = slots = mt_calloc(1, sizeof(*slots));
	if (slots == NULL)
		return -ENOMEM;
	assert(shard->extent_count == slots->max);
	max = slots->max == 0 ? TABLE_EXTENTS_MIN : slots->max * 2;
	assert(max <= MT_EXTENTS_PER_SHARD_MAX);
	extents = mt_realloc(shard->extents, max * sizeof(*extents));
	if (extents == NULL)
		return -ENOMEM;
	shard->extents = extents;
	generations = mt_realloc(slots->generations, max * sizeof(*generations));
	if (generations == NULL)
		return -ENOMEM;
	slots->generations = generations;
	for (uint32_t i = slots->max; i < max; i++)
		generations[i] = 0;
	slots->max = max;
	return 0;
}

int
mt_shard_extent_add(struct mt_shard *shard, struct mt_extent *extent)
{
	struct mt_extent_slots *slots = shard->extent_slots;
	uint32_t slot = slots == NULL ? 0 : slots->free;

	assert(slots == NULL || shard->extent_count <= slots->max);
	while (slot < shard->extent_count && shard->extents[slot] != NULL)
		slot++;
	if (slot == MT_EXTENTS_PER_SHARD_MAX)
		return -ENOSPC;
	if ((slots == NULL || slot == slots->max) && table_grow(shard) != 0)
		return -ENOMEM;
	slots = shard->extent_slots;
	if (slot == shard->extent_count)
		shard->extent_count++;
	slots->free = slot + 1;
	shard->extents[slot] = extent;
	extent->index = (uint32_t)slots->generations[slot] << TABLE_SLOT_BITS | slot;
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

struct mt_extent *
mt_shard_extent_named(const struct mt_shard *shard, const struct extent_id *id)
{
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		struct mt_extent *extent = shard->extents[i];

		if (extent != NULL && extent_id_pack(&extent->id) == extent_id_pack(id))
			return extent;
	}
	return NULL;
}

void
mt_shard_extent_remove(struct mt_shard *shard, struct mt_extent *extent)
{
	struct mt_extent_slots *slots = shard->extent_slots;
	uint32_t slot = extent->index & TABLE_SLOT_MASK;

	assert(mt_shard_extent(shard, extent->index) == extent);
	shard->extents[slot] = NULL;
	slots->generations[slot]++;
	if (slot < slots->free)
		slots->free = slot;
}

void
mt_shard_extents_free(struct mt_shard *shard)
{
	for (uint32_t i = 0; i < shard->extent_count; i++)
		mt_extent_free(shard->extents[i]);
	mt_free(shard->extents);
	if (shard->extent_slots != NULL)
		mt_free(shard->extent_slots->generations);
	mt_free(shard->extent_slots);
	shard->extents = NULL;
	shard->extent_slots = NULL;
	shard->extent_count = 0;
}
