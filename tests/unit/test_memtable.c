/* SPDX-License-Identifier: Apache-2.0 */
/* test_memtable.c -- keys, growth, records */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "base/random.h"
#include "middletier/internal.h"

static struct mt_memtable *table;

static void
setup(void)
{
	table = mt_memtable_create();
	cr_assert_not_null(table);
}

static void
teardown(void)
{
	mt_memtable_destroy(table);
}

TestSuite(memtable, .init = setup, .fini = teardown);

static struct mt_location
location_of(uint32_t value)
{
	return (struct mt_location){ .record_kind = RECORD_WRITE,
		.offset_bytes = value,
		.stored_bytes = 100 };
}

static void
put(uint64_t segment, uint32_t block, uint32_t value)
{
	struct mt_location location = location_of(value);

	cr_assert_eq(mt_memtable_reserve(table, 1), 0);
	mt_memtable_put(table, segment, block, &location);
}

static void
expect(uint64_t segment, uint32_t block, uint32_t value)
{
	const struct mt_location *location = mt_memtable_get(table, segment, block);

	cr_assert_not_null(location, "segment %lu block %u", segment, block);
	cr_assert_eq(location->offset_bytes, value);
}

Test(memtable, an_empty_table_knows_nothing)
{
	cr_assert_null(mt_memtable_get(table, 0, 0));
	cr_assert_null(mt_memtable_get(table, UINT64_MAX / 512, 8388607));
	cr_assert_eq(mt_memtable_count(table), 0);
}

Test(memtable, the_newest_location_counts)
{
	put(1, 2, 10);
	put(2, 2, 20);
	put(1, 3, 30);
	put(1, 2, 40);
	expect(1, 2, 40);
	expect(2, 2, 20);
	expect(1, 3, 30);
	cr_assert_eq(mt_memtable_count(table), 3);
}

Test(memtable, every_key_is_found_while_it_grows)
{
	enum { KEYS = 50000 };

	for (uint32_t i = 0; i < KEYS; i++) {
		put(i % 3, i * 7, i);
		if (i % 97 == 0)
			for (uint32_t k = 0; k <= i; k += 1 + i / 50)
				expect(k % 3, k * 7, k);
		cr_assert_null(mt_memtable_get(table, 4, i));
	}
	for (uint32_t i = 0; i < KEYS; i++)
		expect(i % 3, i * 7, i);
	cr_assert_eq(mt_memtable_count(table), KEYS);
}

/* 48 bytes a slot: 69 to 137 a key, and while it grows the old table's 69 at most on top. */
Test(memtable, a_key_costs_at_most_206_bytes_even_while_growing)
{
	for (uint32_t i = 0; i < 300000; i++) {
		put(9, i, i);
		if (i > 10000)
			cr_assert_leq(mt_memtable_bytes(table) / (i + 1), 206);
	}
}

Test(memtable, one_reserve_for_many_puts)
{
	struct mt_location location = location_of(1);

	put(1, 1, 1);
	cr_assert_eq(mt_memtable_reserve(table, 100000), 0);
	for (uint32_t i = 0; i < 100000; i++)
		mt_memtable_put(table, 5, i, &location);
	cr_assert_eq(mt_memtable_count(table), 100001);
	expect(1, 1, 1);
}

Test(memtable, a_second_reserve_while_moving)
{
	for (uint32_t i = 0; i < 717; i++)
		put(1, i, i); /* the next one starts a move */
	cr_assert_eq(mt_memtable_reserve(table, 10), 0);
	cr_assert_eq(mt_memtable_reserve(table, 100000), 0);
	for (uint32_t i = 0; i < 717; i++)
		expect(1, i, i);
	put(1, 5000, 1);
	cr_assert_eq(mt_memtable_count(table), 718);
}

Test(memtable, what_cannot_be_is_refused)
{
	put(1, 1, 1);
	cr_assert_eq(mt_memtable_reserve(table, UINT64_C(1) << 39), -ENOMEM);
	cr_assert_eq(mt_memtable_reserve(table, UINT64_C(1) << 60), -ENOMEM);
	expect(1, 1, 1);
}

Test(memtable, random_use_against_a_model)
{
	enum { BLOCKS = 20000 };
	uint32_t *model = calloc(BLOCKS, sizeof(*model));
	uint64_t state[4];

	random_seed(state, 7);
	for (uint32_t step = 1; step < 400000; step++) {
		uint32_t block = (uint32_t)random_below(state, BLOCKS);
		const struct mt_location *location;

		if (random_below(state, 2) == 0) {
			put(block % 5, block, step);
			model[block] = step;
		}
		location = mt_memtable_get(table, block % 5, block);
		cr_assert_eq(location == NULL ? 0 : location->offset_bytes, model[block]);
	}
	free(model);
}

Test(memtable, a_record_becomes_its_blocks)
{
	struct record_desc record = { .kind = RECORD_WRITE,
		.codec_id = ENGINE_LZ4,
		.segment = 3,
		.block = 100,
		.block_count = 3,
		.stored_bytes = 555,
		.stored_crc = 0xabc,
		.block_crcs = { 11, 12, 13 },
		.payload_offset_bytes = 300 };

	cr_assert_eq(mt_memtable_reserve(table, 3), 0);
	mt_memtable_apply(table, &record, 8, 40960, 777);
	for (uint32_t i = 0; i < 3; i++) {
		const struct mt_location *location = mt_memtable_get(table, 3, 100 + i);

		cr_assert_not_null(location);
		cr_assert_eq(location->extent_index, 8);
		cr_assert_eq(location->offset_bytes, 41260);
		cr_assert_eq(location->ring_position, 777);
		cr_assert_eq(location->stored_bytes, 555);
		cr_assert_eq(location->stored_crc, 0xabc);
		cr_assert_eq(location->block_crc, 11 + i);
		cr_assert_eq(location->codec_id, ENGINE_LZ4);
		cr_assert_eq(location->record_blocks, 3);
		cr_assert_eq(location->block_in_record, i);
	}
}

Test(memtable, a_tombstone_covers_what_is_there_and_adds_nothing)
{
	struct record_desc discard = { .kind = RECORD_DISCARD,
		.segment = 1,
		.block = 0,
		.block_count = 16384,
		.payload_offset_bytes = 300 };
	struct record_desc zeroes = discard;

	zeroes.kind = RECORD_ZEROES;
	put(1, 5, 10);
	put(1, 16384, 20);
	put(2, 5, 30);
	mt_memtable_apply(table, &discard, 8, 0, 0);
	cr_assert_eq(mt_memtable_count(table), 3);
	cr_assert_eq(mt_memtable_get(table, 1, 5)->record_kind, RECORD_DISCARD);
	cr_assert_eq(mt_memtable_get(table, 1, 5)->stored_bytes, 0);
	cr_assert_null(mt_memtable_get(table, 1, 6));
	expect(1, 16384, 20);
	expect(2, 5, 30);
	mt_memtable_apply(table, &zeroes, 8, 4096, 0);
	cr_assert_eq(mt_memtable_get(table, 1, 5)->record_kind, RECORD_ZEROES);
}
