/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_table.c -- against a flat array: every place at which a run can come and go, and no memory */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "middletier/common/alloc.h"
#include "middletier/common/array.h"
#include "middletier/manifest/run_table.h"

#define RUNS_MAX 6000u

static struct mt_run_table table;
static struct mt_state_run flat[RUNS_MAX];
static uint32_t flat_count;
static uint64_t random_state, next_number;

static void
setup(void)
{
	mt_run_table_init(&table);
	flat_count = 0;
	random_state = 7;
}

static void
teardown(void)
{
	mt_run_table_fini(&table);
}

TestSuite(run_table, .init = setup, .fini = teardown, .timeout = 100);

static uint32_t
random_below(uint32_t limit)
{
	random_state += 0x9e3779b97f4a7c15u;
	return (uint32_t)(num_mix_u64(random_state) % limit);
}

static uint32_t
flat_find(uint64_t chunk)
{
	uint32_t at = 0;

	while (at < flat_count && flat[at].chunk < chunk)
		at++;
	return at;
}

/* Behind the others of its chunk. */
static void
insert(uint64_t chunk)
{
	const struct mt_state_run run = { .chunk = chunk, .offset_bytes = ++next_number };
	uint32_t at = flat_find(chunk + 1);

	cr_assert_lt(flat_count, RUNS_MAX);
	*(struct mt_state_run *)mt_array_insert(flat, &flat_count, at, sizeof(run)) = run;
	cr_assert_eq(mt_run_table_reserve(&table, 1), 0);
	mt_run_table_insert(&table, at, &run);
}

static void
remove_at(uint32_t at)
{
	mt_array_remove(flat, &flat_count, at, sizeof(flat[0]));
	mt_run_table_remove(&table, at);
}

static void
expect_same(void)
{
	cr_assert_eq(table.count, flat_count);
	for (uint32_t i = 0; i < flat_count; i++)
		cr_assert_eq(mt_run_table_at(&table, i)->offset_bytes, flat[i].offset_bytes,
		    "run %u", i);
	for (uint64_t chunk = 0; chunk < 50; chunk++)
		cr_assert_eq(mt_run_table_find(&table, chunk * 20), flat_find(chunk * 20),
		    "chunk %u", (unsigned)chunk * 20);
}

Test(run_table, comes_and_goes_as_a_flat_array)
{
	expect_same();
	/* Grows to thousands, and shrinks to nothing, three times. */
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 5000; i++) {
			insert(random_below(1000));
			if (flat_count > 0 && random_below(4) == 0)
				remove_at(random_below(flat_count));
		}
		expect_same();
		for (uint32_t i = 0; flat_count > 0; i++) {
			remove_at(random_below(flat_count));
			if (random_below(8) == 0)
				insert(random_below(1000));
			if (i % 500 == 0)
				expect_same();
		}
		expect_same();
		cr_assert_eq(table.block_count, 0);
	}
}

Test(run_table, in_order_and_from_either_end)
{
	for (uint32_t i = 0; i < 2000; i++)
		insert(i / 3);
	expect_same();
	for (uint32_t i = 0; i < 700; i++)
		remove_at(0);
	expect_same();
	for (uint32_t i = 0; i < 700; i++)
		remove_at(flat_count - 1);
	expect_same();
	for (uint32_t i = 0; i < 1000; i++)
		insert(0);
	expect_same();
}

/* Blocks that have become small are joined: what has been large does not keep its memory. */
Test(run_table, few_runs_take_few_blocks)
{
	for (uint32_t i = 0; i < 5000; i++)
		insert(i % 1000);
	for (uint32_t i = 0; flat_count > 100; i++)
		remove_at(random_below(flat_count));
	expect_same();
	cr_assert_leq(table.block_count, 4);
	cr_assert_leq(table.spare_count, 8);
}

/* Reserved is enough wherever the runs come, also where each finds a block that is full. */
Test(run_table, reserved_runs_need_no_memory)
{
	enum { RESERVED = 192 };

	for (uint32_t i = 0; i < 5000; i++)
		insert(i);
	cr_assert_eq(mt_run_table_reserve(&table, RESERVED), 0);
	mt_alloc_fail_at(1);
	for (uint32_t i = 0; i < RESERVED; i++) {
		const struct mt_state_run run = { .chunk = i * 26 };

		mt_run_table_insert(&table, mt_run_table_find(&table, run.chunk), &run);
	}
	cr_assert(!mt_alloc_has_failed());
	mt_alloc_fail_at(0);
	cr_assert_eq(table.count, 5000 + RESERVED);
}

Test(run_table, no_memory_loses_nothing)
{
	for (uint32_t nth = 1;; nth++) {
		int rc;

		for (uint32_t i = 0; i < 300; i++)
			insert(i);
		mt_alloc_fail_at(nth);
		rc = mt_run_table_reserve(&table, 5000);
		mt_alloc_fail_at(0);
		expect_same();
		mt_run_table_fini(&table);
		flat_count = 0;
		if (rc == 0)
			break;
		cr_assert_eq(rc, -ENOMEM);
	}
}
