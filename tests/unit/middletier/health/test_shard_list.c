/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard_list.c -- numbers of shards as a text */
#include <criterion/criterion.h>

#include "base/num.h"
#include "middletier/health/shard_list.h"

static void
expect_text(const uint32_t *shards, uint32_t count, const char *text)
{
	struct mt_shard_list list = { .count = 0 };
	char got[MT_SHARD_LIST_BYTES];

	for (uint32_t i = 0; i < count; i++)
		mt_shard_list_add(&list, shards[i]);
	mt_shard_list_text(&list, got);
	cr_assert_str_eq(got, text);
}

Test(shard_list, neighbours_are_a_range)
{
	static const uint32_t one[] = { 3 }, twice[] = { 3, 3 }, pair[] = { 4, 3 };
	static const uint32_t three[] = { 0, 1, 2 }, some[] = { 0, 1, 2, 3, 7, 9, 10 };

	expect_text(one, NUM_COUNT(one), "shard 3");
	expect_text(twice, NUM_COUNT(twice), "shard 3");
	expect_text(pair, NUM_COUNT(pair), "shards 3, 4");
	expect_text(three, NUM_COUNT(three), "shards 0 to 2");
	expect_text(some, NUM_COUNT(some), "shards 0 to 3, 7, 9, 10");
}

Test(shard_list, of_many_the_first_are_told_and_how_many_there_are)
{
	struct mt_shard_list list = { .count = 0 };
	char text[MT_SHARD_LIST_BYTES];

	for (uint32_t i = 1; i <= CLEAVE_SHARDS_MAX; i += 2)
		mt_shard_list_add(&list, CLEAVE_SHARDS_MAX - i);
	mt_shard_list_text(&list, text);
	cr_assert_str_eq(text, "shards 1, 3, 5, 7 ... (2048)");
}

Test(shard_list, the_longest_text_fits)
{
	struct mt_shard_list list = { .count = 0 };
	char text[MT_SHARD_LIST_BYTES];

	for (uint32_t i = 1000; i < CLEAVE_SHARDS_MAX; i++) {
		if (i % 4 != 3)
			mt_shard_list_add(&list, i);
	}
	mt_shard_list_text(&list, text);
	cr_assert_str_eq(text,
	    "shards 1000 to 1002, 1004 to 1006, 1008 to 1010, 1012 to 1014 ... (2322)");
	list = (struct mt_shard_list){ .count = 0 };
	mt_shard_list_add(&list, CLEAVE_SHARDS_MAX - 1);
	mt_shard_list_text(&list, text);
	cr_assert_str_eq(text, "shard 4095");
}
