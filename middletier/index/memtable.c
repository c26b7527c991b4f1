/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memtable.c -- a layer's blocks: block in its chunk -> where its newest record is
 *
 * Open addressing with linear probing; a slot is location and block, 40 bytes. Four neighbouring blocks
 * share a hash and lie next to each other, so that a record of several blocks touches few lines. When
 * seven tenths are taken, a table of twice the size takes over at once: that is short, for a chunk has
 * no more than CLEAVE_CHUNK_BLOCKS blocks. The largest table has a slot for each of them, and no
 * probing.
 */
#include <errno.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "index/memtable.h"

#define MEMTABLE_SLOTS_MIN 16u
#define MEMTABLE_SLOTS_MAX ((uint32_t)CLEAVE_CHUNK_BLOCKS)
#define MEMTABLE_LOAD_TENTHS 7u
#define MEMTABLE_GROUP_BITS 2u
#define MEMTABLE_GROUP_MASK ((1u << MEMTABLE_GROUP_BITS) - 1)

struct mt_memtable_slot {
	struct mt_location location; /* record_kind 0: the slot is free */
	uint32_t block;
	uint32_t unused;
};
_Static_assert(sizeof(struct mt_location) == 32, "location");
_Static_assert(sizeof(struct mt_memtable_slot) == 40, "slot");
_Static_assert((MEMTABLE_SLOTS_MAX & (MEMTABLE_SLOTS_MAX - 1)) == 0, "a power of two");

void
mt_memtable_init(struct mt_memtable *table)
{
	*table = (struct mt_memtable){ 0 };
}

void
mt_memtable_fini(struct mt_memtable *table)
{
	mt_free(table->slots);
	*table = (struct mt_memtable){ 0 };
}

static bool
slot_is_used(const struct mt_memtable_slot *slot)
{
	return slot->location.record_kind != 0;
}

/* How many keys may be in a table of so many slots. */
static uint32_t
slots_limit(uint32_t slot_count)
{
	assert(slot_count >= MEMTABLE_SLOTS_MIN);
	assert(slot_count <= MEMTABLE_SLOTS_MAX);
	return slot_count == MEMTABLE_SLOTS_MAX ? slot_count
						: slot_count * MEMTABLE_LOAD_TENTHS / 10;
}

static uint32_t
slot_home(const struct mt_memtable *table, uint32_t block)
{
	uint32_t group_bits, group;

	if (table->slot_count == MEMTABLE_SLOTS_MAX)
		return block;
	/* The upper bits of the product depend on every bit of the group's number. */
	group_bits = (uint32_t)__builtin_ctz(table->slot_count) - MEMTABLE_GROUP_BITS;
	group = (block >> MEMTABLE_GROUP_BITS) * UINT32_C(0x9e3779b1) >> (32 - group_bits);
	return group << MEMTABLE_GROUP_BITS | (block & MEMTABLE_GROUP_MASK);
}

/* The slot of the key, or the free one where it belongs. */
static struct mt_memtable_slot *
table_find(const struct mt_memtable *table, uint32_t block)
{
	uint32_t at = slot_home(table, block);

	for (;;) {
		struct mt_memtable_slot *slot = &table->slots[at];

		if (!slot_is_used(slot) || slot->block == block)
			return slot;
		at = (at + 1) & (table->slot_count - 1); /* ends: three tenths are free */
	}
}

static int
table_grow(struct mt_memtable *table, uint32_t slot_count)
{
	struct mt_memtable bigger = { .slot_count = slot_count, .key_count = table->key_count };

	assert((slot_count & (slot_count - 1)) == 0);
	assert(slots_limit(slot_count) >= table->key_count);
	bigger.slots = mt_calloc(slot_count, sizeof(*bigger.slots));
	if (bigger.slots == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < table->slot_count; i++) {
		const struct mt_memtable_slot *from = &table->slots[i];

		if (slot_is_used(from))
			*table_find(&bigger, from->block) = *from;
	}
	mt_free(table->slots);
	*table = bigger;
	return 0;
}

int
mt_memtable_reserve(struct mt_memtable *table, uint32_t count)
{
	uint32_t needed = (uint32_t)num_min((uint64_t)table->key_count + count, MEMTABLE_SLOTS_MAX);
	uint32_t slot_count = table->slots == NULL ? MEMTABLE_SLOTS_MIN : table->slot_count;

	if (table->slots != NULL && needed <= slots_limit(table->slot_count))
		return 0;
	while (needed > slots_limit(slot_count))
		slot_count *= 2;
	return table_grow(table, slot_count);
}

void
mt_memtable_put(struct mt_memtable *table, uint32_t block, const struct mt_location *location)
{
	struct mt_memtable_slot *slot;

	assert(table->slots != NULL); /* reserve! */
	assert(block < CLEAVE_CHUNK_BLOCKS);
	assert(location->record_kind != 0);
	slot = table_find(table, block);
	if (!slot_is_used(slot)) {
		table->key_count++;
		assert(table->key_count <= slots_limit(table->slot_count));
		slot->block = block;
	}
	slot->location = *location;
}

const struct mt_location *
mt_memtable_get(const struct mt_memtable *table, uint32_t block)
{
	const struct mt_memtable_slot *slot;

	assert(block < CLEAVE_CHUNK_BLOCKS);
	if (table->key_count == 0)
		return NULL;
	slot = table_find(table, block);
	return slot_is_used(slot) ? &slot->location : NULL;
}

const struct mt_location *
mt_memtable_next(const struct mt_memtable *table, uint32_t *at, uint32_t *ret_block)
{
	assert(*at <= table->slot_count);
	while (*at < table->slot_count) {
		const struct mt_memtable_slot *slot = &table->slots[(*at)++];

		if (slot_is_used(slot)) {
			*ret_block = slot->block;
			return &slot->location;
		}
	}
	return NULL;
}

void
mt_memtable_clear(struct mt_memtable *table)
{
	for (uint32_t i = 0; table->key_count > 0 && i < table->slot_count; i++)
		table->slots[i] = (struct mt_memtable_slot){ 0 };
	table->key_count = 0;
}

void
mt_memtable_prefetch(const struct mt_memtable *table, uint32_t block)
{
	if (table->slots != NULL)
		__builtin_prefetch(&table->slots[slot_home(table, block)], 1);
}

uint64_t
mt_memtable_bytes(const struct mt_memtable *table)
{
	return table->slot_count * sizeof(struct mt_memtable_slot);
}
