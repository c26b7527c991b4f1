/* SPDX-License-Identifier: Apache-2.0 */
/* test_memtable.c -- keys, growth */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/random.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/index/memtable.h"

#define BLOCKS ((uint32_t)CLEAVE_CHUNK_BLOCKS)

static struct mt_memtable table;

static void
setup(void)
{
	mt_memtable_init(&table);
}

static void
teardown(void)
{
	mt_memtable_fini(&table);
}

TestSuite(memtable, .init = setup, .fini = teardown);

static void
put(uint32_t block, uint32_t value)
{
	struct mt_location location = { .record_kind = RECORD_WRITE,
		.offset_bytes = value,
		.stored_bytes = 100 };

	cr_assert_eq(mt_memtable_reserve(&table, 1), 0);
	mt_memtable_put(&table, block, &location);
}

static void
expect(uint32_t block, uint32_t value)
{
	const struct mt_location *location = mt_memtable_get(&table, block);

	cr_assert_not_null(location, "block %u", block);
	cr_assert_eq(location->offset_bytes, value);
}

Test(memtable, an_empty_table_knows_nothing_and_owns_nothing)
{
	cr_assert_null(mt_memtable_get(&table, 0));
	cr_assert_null(mt_memtable_get(&table, BLOCKS - 1));
	cr_assert_eq(table.key_count, 0);
	cr_assert_eq(mt_memtable_bytes(&table), 0);
}

Test(memtable, the_newest_location_counts)
{
	put(2, 10);
	put(3, 30);
	put(2, 40);
	expect(2, 40);
	expect(3, 30);
	cr_assert_null(mt_memtable_get(&table, 4));
	cr_assert_eq(table.key_count, 2);
}

/* Whatever lies between the blocks: strides are what a hash of blocks could fall over. */
Test(memtable, every_block_of_a_chunk_is_found_while_it_grows)
{
	for (uint32_t stride = 1; stride < 2000; stride = stride * 5 + 2) {
		for (uint32_t i = 0; i < BLOCKS; i++) {
			uint32_t block = (uint32_t)((uint64_t)i * stride % BLOCKS);

			put(block, i);
			expect(block, i);
			if (i % 997 == 0)
				for (uint32_t k = 0; k <= i; k += 1 + i / 50)
					expect((uint32_t)((uint64_t)k * stride % BLOCKS), k);
		}
		cr_assert_eq(table.key_count, stride % 2 == 0 ? table.key_count : BLOCKS);
		mt_memtable_fini(&table);
	}
}

/* 40 bytes a slot, at least a third of which are taken; at most one for each block. */
Test(memtable, a_key_costs_at_most_115_bytes)
{
	for (uint32_t i = 0; i < BLOCKS; i++) {
		put(i * 7 % BLOCKS, i);
		if (i >= 16)
			cr_assert_leq(mt_memtable_bytes(&table) / (i + 1), 115);
	}
	cr_assert_eq(mt_memtable_bytes(&table), 40 * (uint64_t)BLOCKS);
}

Test(memtable, one_reserve_for_many_puts)
{
	struct mt_location location = { .record_kind = RECORD_WRITE };

	put(1, 1);
	cr_assert_eq(mt_memtable_reserve(&table, UINT32_MAX), 0);
	mt_alloc_fail_at(1);
	for (uint32_t i = 2; i < BLOCKS; i++)
		mt_memtable_put(&table, i, &location);
	cr_assert_not(mt_alloc_has_failed());
	mt_alloc_fail_at(0);
	cr_assert_eq(table.key_count, BLOCKS - 1);
	expect(1, 1);
}

Test(memtable, without_memory_it_stays_as_it_is)
{
	mt_alloc_fail_at(1);
	cr_assert_eq(mt_memtable_reserve(&table, 1), -ENOMEM);
	for (uint32_t i = 0; i < 11; i++)
		put(i, i);
	mt_alloc_fail_at(1);
	cr_assert_eq(mt_memtable_reserve(&table, 1), -ENOMEM);
	mt_alloc_fail_at(0);
	for (uint32_t i = 0; i < 11; i++)
		expect(i, i);
	put(11, 11);
}

Test(memtable, the_walk_meets_each_key_once)
{
	bool is_met[BLOCKS];
	uint32_t at = 0, block, count = 0;
	const struct mt_location *location;

	memset(is_met, 0, sizeof(is_met));
	cr_assert_null(mt_memtable_next(&table, &at, &block));
	for (uint32_t i = 0; i < 300; i++)
		put(i * 31 % BLOCKS, i * 31 % BLOCKS);
	while ((location = mt_memtable_next(&table, &at, &block)) != NULL) {
		cr_assert_not(is_met[block]);
		is_met[block] = true;
		cr_assert_eq(location->offset_bytes, block);
		count++;
	}
	cr_assert_eq(count, 300);
}

Test(memtable, cleared_it_keeps_its_room)
{
	uint64_t bytes;

	for (uint32_t i = 0; i < 300; i++)
		put(i, i);
	bytes = mt_memtable_bytes(&table);
	mt_memtable_clear(&table);
	cr_assert_eq(table.key_count, 0);
	for (uint32_t i = 0; i < 300; i++)
		cr_assert_null(mt_memtable_get(&table, i));
	put(7, 8);
	expect(7, 8);
	cr_assert_null(mt_memtable_get(&table, 8));
	cr_assert_eq(mt_memtable_bytes(&table), bytes);
}

Test(memtable, random_use_against_a_model)
{
	static uint32_t model[BLOCKS];
	uint64_t state[4];

	random_seed(state, 7);
	for (uint32_t step = 1; step < 200000; step++) {
		uint32_t block = (uint32_t)random_below(state, BLOCKS);
		const struct mt_location *location;

		if (random_below(state, 2) == 0) {
			put(block, step);
			model[block] = step;
		}
		location = mt_memtable_get(&table, block);
		cr_assert_eq(location == NULL ? 0 : location->offset_bytes, model[block]);
	}
}
