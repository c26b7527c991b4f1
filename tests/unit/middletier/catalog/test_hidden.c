/* SPDX-License-Identifier: Apache-2.0 */
/* test_hidden.c -- what a roll-back has hidden, and who still sees a part of it */
#include <criterion/criterion.h>

#include "middletier/catalog/hidden.h"
#include "middletier/catalog/numbers.h"
#include "middletier/catalog/scope.h"
#include "middletier/catalog/snapshot_table.h"
#include "middletier/catalog/volume_table.h"

#define BASE 0x801u
#define CLONE ((UINT64_C(5) << 32) | BASE)

static struct mt_volume_entry volume_entries[3];
static struct mt_snapshot_entry snapshot_entries[3];
static struct mt_volumes volumes;
static struct mt_hidden found[4];

/* A volume that was rolled back to snapshot 5 when 9 was the newest. */
static void
setup(void)
{
	struct mt_scope before;

	memset(volume_entries, 0, sizeof(volume_entries));
	memset(snapshot_entries, 0, sizeof(snapshot_entries));
	volumes = (struct mt_volumes){ .entries = volume_entries,
		.count = 1,
		.snapshots = { .entries = snapshot_entries, .count = 1 } };
	volume_entries[0].volume.segment_base = BASE;
	mt_scope_init(&before, BASE);
	mt_scope_before(&before, 5, &before);
	cr_assert_eq(mt_scope_above(BASE, 9, &before, &volume_entries[0].volume.scope), 0);
	snapshot_entries[0].snapshot = (struct mt_snapshot){ .number = 5,
		.segment_base = BASE,
		.state = MT_SNAPSHOT_LIVE,
		.scope = before };
}

TestSuite(hidden, .init = setup);

static void
add_snapshot(uint64_t number, enum mt_snapshot_state state)
{
	struct mt_snapshot *snapshot = &snapshot_entries[volumes.snapshots.count++].snapshot;

	*snapshot = (struct mt_snapshot){ .number = number, .segment_base = BASE, .state = state };
	mt_scope_init(&snapshot->scope, BASE);
	mt_scope_before(&snapshot->scope, number, &snapshot->scope);
}

static void
expect_one(uint64_t from, uint64_t below)
{
	cr_assert_eq(mt_hidden_find(&volumes, &(uint32_t){ 0 }, found, 4), 1);
	cr_assert_eq(found[0].segment_base, BASE);
	cr_assert_eq(found[0].segment_count, MT_VOLUME_SEGMENTS);
	cr_assert_eq(found[0].cut_from, from);
	cr_assert_eq(found[0].cut_below, below);
}

Test(hidden, what_lies_between_a_roll_back_and_its_snapshot)
{
	expect_one(5, 9);
}

Test(hidden, nothing_of_a_volume_that_was_never_rolled_back)
{
	mt_scope_init(&volume_entries[0].volume.scope, BASE);
	cr_assert_eq(mt_hidden_find(&volumes, &(uint32_t){ 0 }, found, 4), 0);
}

Test(hidden, a_snapshot_of_that_time_shows_what_is_before_it)
{
	add_snapshot(7, MT_SNAPSHOT_LIVE);
	expect_one(7, 9);
	snapshot_entries[1].snapshot.state = MT_SNAPSHOT_PENDING;
	expect_one(7, 9);
	snapshot_entries[1].snapshot.state = MT_SNAPSHOT_DELETED;
	expect_one(5, 9);
}

Test(hidden, the_snapshot_of_the_roll_backs_own_number_shows_all)
{
	add_snapshot(9, MT_SNAPSHOT_LIVE);
	cr_assert_eq(mt_hidden_find(&volumes, &(uint32_t){ 0 }, found, 4), 0);
}

Test(hidden, a_clone_shows_what_its_snapshot_did)
{
	struct mt_scope before;

	volumes.count = 2;
	volume_entries[1].volume.segment_base = CLONE;
	mt_scope_init(&before, BASE);
	mt_scope_before(&before, 8, &before);
	cr_assert_eq(mt_scope_above(CLONE, 0, &before, &volume_entries[1].volume.scope), 0);
	expect_one(8, 9);
}

Test(hidden, nothing_where_something_could_not_be_understood)
{
	volumes.snapshots.is_incomplete = true;
	cr_assert_eq(mt_hidden_find(&volumes, &(uint32_t){ 0 }, found, 4), 0);
	volumes.snapshots.is_incomplete = false;
	volumes.is_incomplete = true;
	cr_assert_eq(mt_hidden_find(&volumes, &(uint32_t){ 0 }, found, 4), 0);
}

Test(hidden, no_more_than_there_is_room_for)
{
	cr_assert_eq(mt_hidden_find(&volumes, &(uint32_t){ 0 }, found, 0), 0);
}

/* Each with a gap; the last with two. */
Test(hidden, the_gaps_of_many_volumes_all_get_their_turn)
{
	enum { MANY = 2 * MT_HIDDEN_MAX };
	static struct mt_volume_entry many[MANY];
	static struct mt_hidden some[MT_HIDDEN_MAX];
	uint32_t seen[MANY] = { 0 };
	uint32_t at = 0, turns = 0;

	for (uint32_t i = 0; i < MANY; i++) {
		uint64_t base = BASE + i * MT_VOLUME_SEGMENTS;
		struct mt_scope before;

		many[i].volume.segment_base = base;
		mt_scope_init(&before, base);
		mt_scope_before(&before, 5, &before);
		cr_assert_eq(mt_scope_above(base, 9, &before, &many[i].volume.scope), 0);
	}
	mt_scope_before(&many[MANY - 1].volume.scope, 12, &many[MANY - 1].volume.scope);
	cr_assert_eq(mt_scope_above(many[MANY - 1].volume.segment_base, 15,
			 &many[MANY - 1].volume.scope, &many[MANY - 1].volume.scope),
	    0);
	volumes.entries = many;
	volumes.count = MANY;
	volumes.snapshots.count = 0;
	do {
		uint32_t count = mt_hidden_find(&volumes, &at, some, MT_HIDDEN_MAX);

		cr_assert_gt(count, 0);
		for (uint32_t k = 0; k < count; k++)
			seen[(some[k].segment_base - BASE) / MT_VOLUME_SEGMENTS]++;
		turns++;
	} while (at != 0);
	for (uint32_t i = 0; i < MANY; i++)
		cr_assert_eq(seen[i], i == MANY - 1 ? 2 : 1, "volume %u: %u", i, seen[i]);
	cr_assert_leq(turns, 4);
}
