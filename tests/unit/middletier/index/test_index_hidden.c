/* SPDX-License-Identifier: Apache-2.0 */
/* test_index_hidden.c -- which gaps behind roll-backs an index keeps, and forgets */
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/catalog/hidden.h"
#include "middletier/index/chunk.h"
#include "middletier/index/index_apply.h"
#include "middletier/index/index_cuts.h"
#include "unit/index_rig.h"

#define SEGMENT UINT64_C(5)
#define KEPT_MAX 64u /* index_cuts.c */

static void
setup(void)
{
	index_rig_init(EXTENT_LOG);
}

static void
teardown(void)
{
	index_rig_fini();
}

TestSuite(index_hidden, .init = setup, .fini = teardown);

static uint64_t
number_of(uint64_t segment)
{
	return mt_chunk_number(segment, 0);
}

static bool
hide(uint64_t segment, uint64_t from, uint64_t below)
{
	return mt_index_hide_all(map, &(struct mt_hidden){ segment, 1, from, below }, 1);
}

static void
write_block(uint64_t segment, uint64_t cut)
{
	static uint64_t sequence;
	struct record_desc record = { .kind = RECORD_WRITE,
		.segment = segment,
		.block_count = 1,
		.stored_bytes = 100,
		.sequence = ++sequence };

	cr_assert_eq(mt_index_apply(map, &record, cut, extent.index, 0, 0), 0);
}

Test(index_hidden, roll_backs_of_one_volume_to_one_snapshot_are_one_gap)
{
	for (uint64_t below = 6; below < 6 + 2 * KEPT_MAX; below++)
		cr_assert(hide(SEGMENT, 5, below));
	cr_assert_eq(mt_index_hidden_count(map), 1);
	cr_assert(mt_index_is_hidden(map, number_of(SEGMENT), 5 + 2 * KEPT_MAX - 1));
	cr_assert_not(mt_index_is_hidden(map, number_of(SEGMENT), 5 + 2 * KEPT_MAX));
	cr_assert_not(mt_index_is_hidden(map, number_of(SEGMENT), 4));
}

Test(index_hidden, gaps_that_touch_are_one_and_what_lies_between_others_is_seen)
{
	cr_assert(hide(SEGMENT, 1, 3));
	cr_assert(hide(SEGMENT, 6, 9));
	cr_assert(hide(SEGMENT + 1, 3, 6));
	cr_assert_eq(mt_index_hidden_count(map), 3);
	cr_assert_not(mt_index_is_hidden(map, number_of(SEGMENT), 4));
	cr_assert(hide(SEGMENT, 3, 6));
	cr_assert_eq(mt_index_hidden_count(map), 2);
	for (uint64_t cut = 0; cut < 10; cut++)
		cr_assert_eq(mt_index_is_hidden(map, number_of(SEGMENT), cut), cut >= 1 && cut < 9);
}

Test(index_hidden, gaps_of_which_nothing_is_left_make_room_for_others)
{
	for (uint64_t i = 0; i < KEPT_MAX; i++)
		cr_assert(hide(SEGMENT + i, 1, 9));
	write_block(SEGMENT + 7, 4);
	write_block(SEGMENT + 8, 9);
	cr_assert(hide(SEGMENT + KEPT_MAX, 1, 9));
	cr_assert_eq(mt_index_hidden_count(map), 2);
	cr_assert(mt_index_is_hidden(map, number_of(SEGMENT + 7), 4));
	cr_assert(mt_index_is_hidden(map, number_of(SEGMENT + KEPT_MAX), 4));
}

/* To go through all chunks costs a turn: not for gaps that find room. */
Test(index_hidden, gaps_that_are_known_already_have_nothing_forgotten)
{
	static const struct mt_hidden known[] = { { SEGMENT, 1, 1, 9 }, { SEGMENT + 1, 1, 5, 20 } };

	for (uint64_t i = 0; i < KEPT_MAX; i++)
		cr_assert(hide(SEGMENT + i, 1, 9));
	cr_assert(mt_index_hide_all(map, known, NUM_COUNT(known)));
	cr_assert_eq(mt_index_hidden_count(map), KEPT_MAX);
	cr_assert(mt_index_is_hidden(map, number_of(SEGMENT + 1), 19));
}

Test(index_hidden, gaps_that_find_no_room_are_told_again)
{
	for (uint64_t i = 0; i < KEPT_MAX; i++) {
		cr_assert(hide(SEGMENT + i, 1, 9));
		write_block(SEGMENT + i, 4);
	}
	cr_assert_not(hide(SEGMENT + KEPT_MAX, 1, 9));
	cr_assert_not(mt_index_is_hidden(map, number_of(SEGMENT + KEPT_MAX), 4));
	cr_assert_eq(mt_index_hidden_count(map), KEPT_MAX);
}
