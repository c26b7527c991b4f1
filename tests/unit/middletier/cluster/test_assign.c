/* SPDX-License-Identifier: Apache-2.0 */
/* test_assign.c -- who takes a drained gateway's shards, and which of them goes next */
#include <criterion/criterion.h>

#include "base/num.h"
#include "middletier/catalog/drained_key.h"
#include "middletier/catalog/placed_key.h"
#include "middletier/cluster/assign.h"

#define SHARDS 64u

static const uint64_t ids[] = { 3, 7, 12, 99 };

static struct mt_drained
drained_of(uint64_t a, uint64_t b)
{
	struct mt_drained drained = { .count = 0 };

	if (a != 0)
		cr_assert_eq(mt_drained_add(&drained, a), 0);
	if (b != 0)
		cr_assert_eq(mt_drained_add(&drained, b), 0);
	return drained;
}

Test(assign, a_drain_moves_what_the_drained_gateway_has_and_nothing_else)
{
	const struct mt_drained drained = drained_of(7, 0);
	uint8_t before[SHARDS], after[SHARDS];

	for (uint32_t shards = 1; shards <= SHARDS; shards++) {
		uint32_t loads[NUM_COUNT(ids)] = { 0 };

		mt_assign(ids, NUM_COUNT(ids), shards, before);
		cr_assert_eq(mt_assign_undrained(ids, NUM_COUNT(ids), &drained, shards, after), 3);
		for (uint32_t i = 0; i < shards; i++) {
			cr_assert(ids[before[i]] == 7 || after[i] == before[i]);
			loads[after[i]]++;
		}
		cr_assert_eq(loads[1], 0);
		for (uint32_t i = 0; i < NUM_COUNT(ids); i++)
			cr_assert(
			    i == 1 || (loads[i] >= shards / 3 && loads[i] <= (shards + 2) / 3));
	}
}

/* A drained gateway may be stopped, and come back: nothing moves for it. */
Test(assign, it_does_not_matter_whether_a_drained_gateway_lives)
{
	const struct mt_drained drained = drained_of(7, 12);
	const uint64_t others[] = { 99, 3 };
	uint8_t picks[SHARDS], without[SHARDS];

	for (uint32_t shards = 1; shards <= SHARDS; shards++) {
		cr_assert_eq(mt_assign_undrained(ids, NUM_COUNT(ids), &drained, shards, picks), 2);
		cr_assert_eq(mt_assign_undrained(others, 2, &drained, shards, without), 2);
		for (uint32_t i = 0; i < shards; i++)
			cr_assert_eq(ids[picks[i]], others[without[i]]);
	}
}

Test(assign, nobody_is_drained_where_all_are_or_none)
{
	const struct mt_drained none = drained_of(0, 0), both = drained_of(3, 7);
	uint8_t picks[SHARDS], expected[SHARDS];

	mt_assign(ids, 2, SHARDS, expected);
	cr_assert_eq(mt_assign_undrained(ids, 2, &none, SHARDS, picks), 2);
	cr_assert_arr_eq(picks, expected, sizeof(picks));
	cr_assert_eq(mt_assign_undrained(ids, 2, &both, SHARDS, picks), 2);
	cr_assert_arr_eq(picks, expected, sizeof(picks));
}

/* Only what is placed is elsewhere; a gateway that does not live, or is drained, has nothing placed at it. */
Test(assign, placed_shards_are_where_they_are_placed_and_all_others_as_before)
{
	const struct mt_drained none = drained_of(0, 0), one = drained_of(12, 0),
				all = drained_of(3, 7);
	struct mt_placed placed = { .count = 0 };
	uint8_t picks[SHARDS], by_count[SHARDS];
	uint32_t takers;

	mt_assign(ids, NUM_COUNT(ids), SHARDS, by_count);
	mt_assign(ids, NUM_COUNT(ids), SHARDS, picks);
	mt_assign_placed(ids, NUM_COUNT(ids), &none, NUM_COUNT(ids), &placed, SHARDS, picks);
	cr_assert_arr_eq(picks, by_count, sizeof(picks));
	cr_assert_eq(mt_placed_put(&placed, 2, 12), 0);
	cr_assert_eq(mt_placed_put(&placed, 5, 7), 0);
	cr_assert_eq(mt_placed_put(&placed, 9, 1234), 0, "nobody of that id lives");
	cr_assert_eq(mt_placed_put(&placed, SHARDS, 3), 0, "there is no such shard");
	mt_assign_placed(ids, NUM_COUNT(ids), &none, NUM_COUNT(ids), &placed, SHARDS, picks);
	for (uint32_t i = 0; i < SHARDS; i++)
		cr_assert_eq(ids[picks[i]], i == 2 ? 12 : i == 5 ? 7 : ids[by_count[i]]);

	takers = mt_assign_undrained(ids, NUM_COUNT(ids), &one, SHARDS, by_count);
	mt_assign_undrained(ids, NUM_COUNT(ids), &one, SHARDS, picks);
	mt_assign_placed(ids, NUM_COUNT(ids), &one, takers, &placed, SHARDS, picks);
	for (uint32_t i = 0; i < SHARDS; i++)
		cr_assert_eq(ids[picks[i]], i == 5 ? 7 : ids[by_count[i]]);

	/* Where all are drained nobody counts as drained. */
	takers = mt_assign_undrained(ids, 2, &all, SHARDS, picks);
	mt_assign_placed(ids, 2, &all, takers, &placed, SHARDS, picks);
	cr_assert_eq(ids[picks[5]], 7);
}

Test(assign, states_follow_from_the_mark_and_the_roots)
{
	cr_assert_eq(mt_drain_state(false, 0), MT_DRAIN_SERVING);
	cr_assert_eq(mt_drain_state(false, 3), MT_DRAIN_SERVING);
	cr_assert_eq(mt_drain_state(true, 1), MT_DRAIN_DRAINING);
	cr_assert_eq(mt_drain_state(true, 0), MT_DRAIN_DRAINED);
	cr_assert_str_eq(mt_drain_state_name(MT_DRAIN_DRAINING), "draining");
}

/* A letter a shard: H held, h held and not served, t with another gateway, w on its way. */
static uint32_t
next_of(const char *text)
{
	enum mt_drain_shard shards[SHARDS];
	uint32_t count = 0;

	for (; text[count] != '\0'; count++)
		shards[count] = text[count] == 'H' ? MT_DRAIN_HELD
		    : text[count] == 'h'           ? MT_DRAIN_HELD_IDLE
		    : text[count] == 't'           ? MT_DRAIN_THERE
						   : MT_DRAIN_ON_ITS_WAY;
	return mt_drain_next(shards, count);
}

Test(assign, shards_go_one_after_the_other)
{
	cr_assert_eq(next_of("HHtH"), 0);
	cr_assert_eq(next_of("wHtH"), 4, "one is on its way");
	cr_assert_eq(next_of("tHtH"), 1);
	cr_assert_eq(next_of("twtH"), 4);
	cr_assert_eq(next_of("tttH"), 3);
	cr_assert_eq(next_of("tttw"), 4);
	cr_assert_eq(next_of("tttt"), 4, "nothing is left");
}

Test(assign, a_shard_that_is_not_served_goes_before_all_and_waits_for_none)
{
	cr_assert_eq(next_of("HHhH"), 2);
	cr_assert_eq(next_of("whHt"), 1);
	cr_assert_eq(next_of("Hwwh"), 3);
}
