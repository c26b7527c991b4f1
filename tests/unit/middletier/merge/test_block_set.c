/* SPDX-License-Identifier: Apache-2.0 */
/* test_block_set.c -- blocks of a chunk: what is new to the set is said, at the borders of its words, too */
#include <criterion/criterion.h>

#include "middletier/merge/block_set.h"

static struct mt_block_set set;

Test(block_set, what_is_added_is_there_and_nothing_else)
{
	cr_assert(mt_block_set_add(&set, 60, 70));
	for (uint32_t block = 0; block < 200; block++)
		cr_assert_eq(mt_block_set_has(&set, block), block >= 60 && block < 70, "%u", block);
}

Test(block_set, it_says_whether_one_is_new)
{
	cr_assert(mt_block_set_add(&set, 0, 64));
	cr_assert(!mt_block_set_add(&set, 0, 64));
	cr_assert(!mt_block_set_add(&set, 5, 5), "none at all");
	cr_assert(mt_block_set_add(&set, 63, 65));
	cr_assert(!mt_block_set_add(&set, 64, 65));
	cr_assert(mt_block_set_add(&set, CLEAVE_CHUNK_BLOCKS - 1, CLEAVE_CHUNK_BLOCKS));
	cr_assert(mt_block_set_has(&set, CLEAVE_CHUNK_BLOCKS - 1));
}

Test(block_set, another_sets_words_are_added_likewise)
{
	static struct mt_block_set other;

	cr_assert(!mt_block_set_add_words(&set, other.words), "an empty one");
	(void)mt_block_set_add(&other, 100, 300);
	cr_assert(mt_block_set_add_words(&set, other.words));
	cr_assert(!mt_block_set_add_words(&set, other.words));
	cr_assert(mt_block_set_has(&set, 299) && !mt_block_set_has(&set, 300));
	(void)mt_block_set_add(&set, 0, 100);
	cr_assert(!mt_block_set_add_words(&set, other.words), "a part of what is there");
}
