/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memtable.c -- block -> where its newest record is: one hash table in host memory, a shard
 *
 * Open addressing with linear probing; a slot is key and location, 48 bytes. Four neighbouring blocks
 * share a hash and lie next to each other, so that a record of several blocks touches few lines.
 *
 * When seven tenths of the slots are taken a table of twice the size takes over, and each later put
 * moves a few slots from the old one to the new: no put ever waits for the whole.
 *
 *	old:  | gone to the system | moved, still mapped | not moved yet |
 *	                                                 ^ old_at
 *
 * A key is in the new table, or, not yet moved, in the old one at or behind old_at. A key that was put
 * anew meanwhile is in both; the new table is asked first, and the move leaves it alone. Nothing is
 * ever removed.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc.h"
#include "base/check.h"
#include "base/num.h"
#include "internal.h"

#define MEMTABLE_MAGIC 0x4254454du /* "METB" */
#define MEMTABLE_SLOTS_MIN 1024u
#define MEMTABLE_SLOTS_MAX (UINT64_C(1) << 40)
#define MEMTABLE_LOAD_TENTHS 7u
#define MEMTABLE_MOVE_SLOTS 8u /* with each put: the move ends long before the new table is full */
#define MEMTABLE_UNMAP_BYTES NUM_KIB(256)
#define MEMTABLE_GROUP_BITS 2u
#define MEMTABLE_GROUP_MASK ((1u << MEMTABLE_GROUP_BITS) - 1)

struct memtable_slot {
	uint64_t segment;
	struct mt_location location; /* record_kind 0: the slot is free */
	uint32_t block;
	uint32_t unused;
};
_Static_assert(sizeof(struct mt_location) == 32, "location");
_Static_assert(sizeof(struct memtable_slot) == 48, "slot");

struct memtable_array {
	struct memtable_slot *slots; /* NULL: none */
	uint64_t slot_count;         /* a power of two */
	uint64_t used_count;
};

struct mt_memtable {
	uint32_t magic;
	struct memtable_array now;
	struct memtable_array old; /* being moved */
	uint64_t old_at;           /* the first slot that has not been moved */
	uint64_t old_unmapped_bytes;
	uint64_t key_count;
};

/* ---- arrays ---- */

static uint64_t
array_bytes(const struct memtable_array *array)
{
	return array->slot_count * sizeof(struct memtable_slot);
}

static uint64_t
array_limit(uint64_t slot_count)
{
	return slot_count / 10 * MEMTABLE_LOAD_TENTHS;
}

/* Zeroed by the system page by page as it is touched: a new table costs nothing at once. */
static int
array_map(struct memtable_array *array, uint64_t slot_count)
{
	void *memory;

	memory = mmap(NULL, slot_count * sizeof(struct memtable_slot), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	*array = (struct memtable_array){ .slots = memory, .slot_count = slot_count };
	return 0;
}

static void
array_unmap(struct memtable_array *array, uint64_t from_bytes)
{
	if (array->slots != NULL)
		(void)munmap((uint8_t *)array->slots + from_bytes, array_bytes(array) - from_bytes);
	*array = (struct memtable_array){ 0 };
}

static uint64_t
slot_home(const struct memtable_array *array, uint64_t segment, uint32_t block)
{
	uint64_t group = segment * UINT64_C(0x9e3779b97f4a7c15) + (block >> MEMTABLE_GROUP_BITS);

	return (num_mix_u64(group) << MEMTABLE_GROUP_BITS | (block & MEMTABLE_GROUP_MASK)) &
	    (array->slot_count - 1);
}

static bool
slot_is_used(const struct memtable_slot *slot)
{
	return slot->location.record_kind != 0;
}

/* The slot of the key, or the free one where it belongs. */
static struct memtable_slot *
array_find(const struct memtable_array *array, uint64_t segment, uint32_t block)
{
	uint64_t at = slot_home(array, segment, block);

	for (;;) {
		struct memtable_slot *slot = &array->slots[at];

		if (!slot_is_used(slot) || (slot->segment == segment && slot->block == block))
			return slot;
		at = (at + 1) & (array->slot_count - 1); /* ends: three tenths are free */
	}
}

/* ---- the move ---- */

/*
 * A key of the old array that has not been moved, or NULL. What lies before old_at may be unmapped: a
 * probe that begins there, or wraps round into it, goes on at old_at, for a run of taken slots has no
 * hole on the way.
 */
static struct memtable_slot *
old_find(const struct mt_memtable *table, uint64_t segment, uint32_t block)
{
	uint64_t left_count = table->old.slot_count - table->old_at;
	uint64_t at = num_max(slot_home(&table->old, segment, block), table->old_at);

	for (; left_count > 0; left_count--) {
		struct memtable_slot *slot = &table->old.slots[at];

		if (!slot_is_used(slot))
			return NULL;
		if (slot->segment == segment && slot->block == block)
			return slot;
		if (++at == table->old.slot_count)
			at = table->old_at;
	}
	return NULL;
}

static void
move_slot(struct mt_memtable *table, const struct memtable_slot *from)
{
	struct memtable_slot *to = array_find(&table->now, from->segment, from->block);

	if (slot_is_used(to))
		return; /* put anew meanwhile */
	*to = *from;
	table->now.used_count++;
}

static void
move_some(struct mt_memtable *table, uint64_t slot_count)
{
	uint64_t end = num_min(table->old_at + slot_count, table->old.slot_count);
	uint64_t moved_bytes;

	for (; table->old_at < end; table->old_at++) {
		const struct memtable_slot *slot = &table->old.slots[table->old_at];

		if (slot_is_used(slot))
			move_slot(table, slot);
	}
	if (table->old_at == table->old.slot_count) {
		array_unmap(&table->old, table->old_unmapped_bytes);
		table->old_at = table->old_unmapped_bytes = 0;
		return;
	}
	/* Giving it all back at the end would be one long call. */
	moved_bytes =
	    num_round_down(table->old_at * sizeof(struct memtable_slot), MEMTABLE_UNMAP_BYTES);
	if (moved_bytes > table->old_unmapped_bytes) {
		(void)munmap((uint8_t *)table->old.slots + table->old_unmapped_bytes,
		    moved_bytes - table->old_unmapped_bytes);
		table->old_unmapped_bytes = moved_bytes;
	}
}

static bool
is_moving(const struct mt_memtable *table)
{
	return table->old.slots != NULL;
}

/* ---- the table ---- */

struct mt_memtable *
mt_memtable_create(void)
{
	struct mt_memtable *table = mt_calloc(1, sizeof(*table));

	if (table == NULL)
		return NULL;
	if (array_map(&table->now, MEMTABLE_SLOTS_MIN) != 0) {
		mt_free(table);
		errno = ENOMEM;
		return NULL;
	}
	table->magic = MEMTABLE_MAGIC;
	return table;
}

void
mt_memtable_destroy(struct mt_memtable *table)
{
	if (table == NULL)
		return;
	CHECK_OBJ(table, MEMTABLE_MAGIC);
	array_unmap(&table->old, table->old_unmapped_bytes);
	array_unmap(&table->now, 0);
	table->magic = 0;
	mt_free(table);
}

int
mt_memtable_reserve(struct mt_memtable *table, uint64_t count)
{
	uint64_t needed = table->key_count + count;
	uint64_t slot_count = table->now.slot_count;
	struct memtable_array bigger;
	int rc;

	CHECK_OBJ(table, MEMTABLE_MAGIC);
	if (needed <= array_limit(slot_count))
		return 0;
	while (needed > array_limit(slot_count) && slot_count < MEMTABLE_SLOTS_MAX)
		slot_count *= 2;
	if (needed > array_limit(slot_count))
		return -ENOMEM;
	/* Only a reserve of more than the table holds finds the last move unfinished. */
	if (is_moving(table))
		move_some(table, table->old.slot_count);
	rc = array_map(&bigger, slot_count);
	if (rc != 0)
		return rc;
	table->old = table->now;
	table->now = bigger;
	return 0;
}

void
mt_memtable_put(struct mt_memtable *table, uint64_t segment, uint32_t block,
    const struct mt_location *location)
{
	struct memtable_slot *slot = array_find(&table->now, segment, block);

	assert(location->record_kind != 0);
	if (!slot_is_used(slot)) {
		if (!is_moving(table) || old_find(table, segment, block) == NULL)
			table->key_count++;
		table->now.used_count++;
		assert(table->now.used_count <= array_limit(table->now.slot_count)); /* reserve! */
		slot->segment = segment;
		slot->block = block;
	}
	slot->location = *location;
	if (is_moving(table))
		move_some(table, MEMTABLE_MOVE_SLOTS);
}

const struct mt_location *
mt_memtable_get(const struct mt_memtable *table, uint64_t segment, uint32_t block)
{
	const struct memtable_slot *slot = array_find(&table->now, segment, block);

	if (slot_is_used(slot))
		return &slot->location;
	if (!is_moving(table))
		return NULL;
	slot = old_find(table, segment, block);
	return slot == NULL ? NULL : &slot->location;
}

void
mt_memtable_prefetch(const struct mt_memtable *table, uint64_t segment, uint32_t block)
{
	__builtin_prefetch(&table->now.slots[slot_home(&table->now, segment, block)], 1);
}

uint64_t
mt_memtable_count(const struct mt_memtable *table)
{
	return table->key_count;
}

uint64_t
mt_memtable_bytes(const struct mt_memtable *table)
{
	return array_bytes(&table->now) + array_bytes(&table->old) - table->old_unmapped_bytes;
}

/* ---- records ---- */

static void
apply_write(struct mt_memtable *table, const struct record_desc *record,
    struct mt_location *location)
{
	for (uint32_t i = 0; i < record->block_count; i++) {
		location->block_crc = record->block_crcs[i];
		location->block_in_record = (uint8_t)i;
		mt_memtable_put(table, record->segment, record->block + i, location);
	}
}

/* A block that no record names reads as zeros: a tombstone only covers what is there. */
static void
apply_tombstone(struct mt_memtable *table, const struct record_desc *record,
    const struct mt_location *location)
{
	for (uint32_t i = 0; i < record->block_count; i++) {
		uint32_t block = record->block + i;

		if (mt_memtable_get(table, record->segment, block) != NULL)
			mt_memtable_put(table, record->segment, block, location);
	}
}

void
mt_memtable_apply(struct mt_memtable *table, const struct record_desc *record,
    uint32_t extent_index, uint64_t batch_offset_bytes, uint64_t ring_position)
{
	struct mt_location location = {
		.extent_index = extent_index,
		.offset_bytes = (uint32_t)batch_offset_bytes + record->payload_offset_bytes,
		.record_kind = record->kind,
	};

	CHECK_OBJ(table, MEMTABLE_MAGIC);
	if (record->kind != RECORD_WRITE) {
		apply_tombstone(table, record, &location);
		return;
	}
	location.ring_position = ring_position;
	location.stored_bytes = record->stored_bytes;
	location.stored_crc = record->stored_crc;
	location.codec_id = record->codec_id;
	location.record_blocks = (uint8_t)record->block_count;
	apply_write(table, record, &location);
}
