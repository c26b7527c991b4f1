/* SPDX-License-Identifier: Apache-2.0 */
/* memtable.h -- one layer's blocks, block in chunk -> location */
#ifndef CLEAVE_MIDDLETIER_INDEX_MEMTABLE_H
#define CLEAVE_MIDDLETIER_INDEX_MEMTABLE_H

#include <stdint.h>

#include "cleave/batch.h"

struct mt_memtable_slot;

struct mt_location {
	uint64_t ring_position; /* of the record's stored bytes in the ring; 0: never was there */
	uint32_t extent_index;  /* mt_shard_extent */
	uint32_t offset_bytes;  /* of the stored bytes in the extent */
	uint32_t stored_bytes;  /* 0: tombstone, reads as zeros */
	uint32_t stored_crc;
	uint32_t block_crc;
	uint8_t codec_id;
	uint8_t record_blocks;
	uint8_t block_in_record;
	uint8_t record_kind;
};

struct mt_memtable {
	struct mt_memtable_slot *slots; /* NULL: none yet */
	uint32_t slot_count, key_count;
};
void mt_memtable_init(struct mt_memtable *table);
void mt_memtable_fini(struct mt_memtable *table);
/* mt_memtable_reserve -- room for @count more keys, so that as many puts cannot fail. -ENOMEM. */
int mt_memtable_reserve(struct mt_memtable *table, uint32_t count);
void mt_memtable_put(struct mt_memtable *table, uint32_t block, const struct mt_location *location);
/* mt_memtable_get -- NULL: not here. Valid until the next put. */
const struct mt_location *mt_memtable_get(const struct mt_memtable *table, uint32_t block);
/* mt_memtable_clear -- forgets its keys, and keeps its room. */
void mt_memtable_clear(struct mt_memtable *table);
/* mt_memtable_prefetch -- the cache line that get and put of this block begin with. */
void mt_memtable_prefetch(const struct mt_memtable *table, uint32_t block);
/* mt_memtable_next -- the first key at or behind slot *@at, which moves on; NULL at the end. Unsorted. */
const struct mt_location *mt_memtable_next(const struct mt_memtable *table, uint32_t *at,
    uint32_t *ret_block);
uint64_t mt_memtable_bytes(const struct mt_memtable *table);

#endif /* CLEAVE_MIDDLETIER_INDEX_MEMTABLE_H */
