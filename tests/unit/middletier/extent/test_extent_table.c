/* SPDX-License-Identifier: Apache-2.0 */
/* test_extent_table.c -- indexes are given again, and never mistaken */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "base/random.h"
#include "middletier/common/alloc.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"

static struct mt_shard shard;

static void
setup(void)
{
	shard = (struct mt_shard){ 0 };
}

static void
teardown(void)
{
	for (uint32_t i = 0; i < shard.extent_count; i++)
		shard.extents[i] = NULL; /* the tests' own */
	mt_shard_extents_free(&shard);
}

TestSuite(extent_table, .init = setup, .fini = teardown);

Test(extent_table, an_extent_is_found_by_its_index)
{
	static struct mt_extent extents[40];

	cr_assert_null(mt_shard_extent(&shard, 0));
	for (uint32_t i = 0; i < 40; i++) {
		cr_assert_eq(mt_shard_extent_add(&shard, &extents[i]), 0);
		cr_assert_eq(extents[i].index, i, "the first ones are in order");
	}
	for (uint32_t i = 0; i < 40; i++)
		cr_assert_eq(mt_shard_extent(&shard, i), &extents[i]);
	cr_assert_null(mt_shard_extent(&shard, 40));
	cr_assert_null(mt_shard_extent(&shard, UINT32_MAX));
}

Test(extent_table, an_extent_is_found_by_its_name)
{
	static struct mt_extent extents[20];
	struct extent_id other = { 3, 9, 4 };

	cr_assert_null(mt_shard_extent_named(&shard, &other));
	for (uint32_t i = 0; i < 20; i++) {
		extents[i].id = (struct extent_id){ 3, 9 + i % 2, 100 + i / 2 };
		cr_assert_eq(mt_shard_extent_add(&shard, &extents[i]), 0);
	}
	mt_shard_extent_remove(&shard, &extents[7]);
	for (uint32_t i = 0; i < 20; i++)
		cr_assert_eq(mt_shard_extent_named(&shard, &extents[i].id),
		    i == 7 ? NULL : &extents[i]);
	cr_assert_null(mt_shard_extent_named(&shard, &other));
}

Test(extent_table, the_index_of_one_that_is_gone_names_nothing)
{
	struct mt_extent a = { 0 }, b = { 0 };
	uint32_t index;

	cr_assert_eq(mt_shard_extent_add(&shard, &a), 0);
	index = a.index;
	mt_shard_extent_remove(&shard, &a);
	cr_assert_null(mt_shard_extent(&shard, index));
	cr_assert_eq(mt_shard_extent_add(&shard, &b), 0);
	cr_assert_null(mt_shard_extent(&shard, index), "its slot is another's now");
	cr_assert_eq(mt_shard_extent(&shard, b.index), &b);
	cr_assert_eq(shard.extent_count, 1);
}

Test(extent_table, an_index_comes_back_after_65536_lives_of_its_slot)
{
	struct mt_extent extent = { 0 };

	for (uint32_t i = 0; i < 65536; i++) {
		cr_assert_eq(mt_shard_extent_add(&shard, &extent), 0);
		cr_assert_eq(extent.index, i << 16);
		mt_shard_extent_remove(&shard, &extent);
	}
	cr_assert_eq(mt_shard_extent_add(&shard, &extent), 0);
	cr_assert_eq(extent.index, 0);
}

Test(extent_table, as_many_live_as_may_be_and_no_more)
{
	struct mt_extent *extents = calloc(MT_EXTENTS_PER_SHARD_MAX + 1, sizeof(*extents));

	for (uint32_t i = 0; i < MT_EXTENTS_PER_SHARD_MAX; i++)
		cr_assert_eq(mt_shard_extent_add(&shard, &extents[i]), 0);
	cr_assert_eq(mt_shard_extent_add(&shard, &extents[MT_EXTENTS_PER_SHARD_MAX]), -ENOSPC);
	mt_shard_extent_remove(&shard, &extents[777]);
	cr_assert_eq(mt_shard_extent_add(&shard, &extents[MT_EXTENTS_PER_SHARD_MAX]), 0);
	cr_assert_eq(extents[MT_EXTENTS_PER_SHARD_MAX].index, 1u << 16 | 777);
	for (uint32_t i = 0; i < shard.extent_count; i++)
		shard.extents[i] = NULL;
	free(extents);
}

Test(extent_table, without_memory_none_is_added)
{
	struct mt_extent extents[20] = { { 0 } };

	for (uint32_t nth = 1; nth <= 2; nth++) {
		mt_alloc_fail_at(nth);
		cr_assert_eq(mt_shard_extent_add(&shard, &extents[0]), -ENOMEM);
	}
	mt_alloc_fail_at(0);
	for (uint32_t i = 0; i < 16; i++)
		cr_assert_eq(mt_shard_extent_add(&shard, &extents[i]), 0);
	for (uint32_t nth = 1; nth <= 2; nth++) {
		mt_alloc_fail_at(nth);
		cr_assert_eq(mt_shard_extent_add(&shard, &extents[16]), -ENOMEM);
		cr_assert_eq(mt_shard_extent(&shard, 7), &extents[7]);
	}
	mt_alloc_fail_at(0);
	cr_assert_eq(mt_shard_extent_add(&shard, &extents[16]), 0);
}

Test(extent_table, random_lives)
{
	enum { LIVE = 100, GONE = 1000 };
	static struct mt_extent extents[LIVE];
	uint32_t gone[GONE];
	uint64_t state[4];

	random_seed(state, 3);
	for (uint32_t i = 0; i < LIVE; i++)
		cr_assert_eq(mt_shard_extent_add(&shard, &extents[i]), 0);
	for (uint32_t i = 0; i < GONE; i++) {
		struct mt_extent *extent = &extents[random_below(state, LIVE)];

		gone[i] = extent->index;
		mt_shard_extent_remove(&shard, extent);
		cr_assert_eq(mt_shard_extent_add(&shard, extent), 0);
	}
	for (uint32_t i = 0; i < GONE; i++)
		cr_assert_null(mt_shard_extent(&shard, gone[i]));
	for (uint32_t i = 0; i < LIVE; i++)
		cr_assert_eq(mt_shard_extent(&shard, extents[i].index), &extents[i]);
	cr_assert_eq(shard.extent_count, LIVE, "slots are given again");
}
