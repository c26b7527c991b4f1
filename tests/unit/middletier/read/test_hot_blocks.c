/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hot_blocks.c -- the table of hot blocks: who comes in, who goes, and what is never mixed up
 *
 * It is built in with a planted bug, hot_hold_ignored, that the simulator's histories cannot show: clients compare CRCs.
 */
#define CLEAVE_MUTANTS
#include "middletier/read/hot.c"

#include "base/num.h"
#include "middletier/common/alloc.h"
#include "middletier/read/hot.h"
#include "middletier/read/hot_sketch.h"
#include "unit/fake_port.h"

struct mutant_set mutants_on;

#define SHARD 3u
#define ONE_SET HOT_BYTES_MIN

static struct mt_hot *hot;

static void
make_table(uint64_t bytes)
{
	if (hot != NULL)
		mt_hot_fini(hot);
	fake.port.read->hot = NULL;
	fake.settings.hot_bytes = bytes;
	cr_assert_eq(mt_hot_init(&fake.port), 0);
	hot = fake.port.read->hot;
}

static void
setup(void)
{
	hot = NULL;
	mutants_on = (struct mutant_set){ 0 };
	fake_init(61, false);
	make_table(ONE_SET);
	cr_assert_eq(mt_hot_slot_count(hot), HOT_WAYS);
}

static void
teardown(void)
{
	fake_fini();
}

TestSuite(hot_blocks, .init = setup, .fini = teardown);

/* Block @block, read from a place that @version tells from its others. */
static struct mt_hot_key
key_of(uint32_t block, uint32_t version)
{
	return (struct mt_hot_key){ .extent = 7,
		.segment = FAKE_SEGMENT,
		.offset_bytes = version * 4096,
		.block_in_record = block % 4,
		.block = block };
}

static void
meet(uint32_t block, uint32_t count)
{
	struct mt_hot_key key = key_of(block, 0);

	while (count-- > 0)
		mt_hot_meet(hot, &key);
}

static struct mt_hot_slot *
find(uint32_t block, uint32_t version)
{
	struct mt_hot_key key = key_of(block, version);

	return mt_hot_find(hot, &key);
}

static struct mt_hot_slot *
fill(uint32_t block, uint32_t version)
{
	struct mt_hot_key key = key_of(block, version);

	return mt_hot_fill(hot, &key, block, SHARD);
}

/* A block that was met @count times is in the table. */
static struct mt_hot_slot *
keep(uint32_t block, uint32_t count)
{
	struct mt_hot_slot *slot;

	meet(block, count);
	slot = fill(block, 1);
	cr_assert_not_null(slot);
	cr_assert_eq(slot->sm.state, MT_HOT_FILLING);
	mt_hot_filled(hot, slot, true);
	cr_assert_eq(find(block, 1), slot);
	return slot;
}

/* ---- who comes in ---- */

Test(hot_blocks, what_was_met_once_stays_out)
{
	meet(1, 1);
	cr_assert_null(fill(1, 1));
	meet(1, 1);
	cr_assert_not_null(fill(1, 1));
}

Test(hot_blocks, what_is_being_filled_is_not_found_yet)
{
	struct mt_hot_slot *slot;

	meet(1, 2);
	slot = fill(1, 1);
	cr_assert_null(find(1, 1));
	cr_assert_null(fill(1, 1), "it comes already");
	cr_assert_eq(mt_hot_used_count(hot), 0);
	mt_hot_filled(hot, slot, true);
	cr_assert_eq(find(1, 1), slot);
	cr_assert_null(fill(1, 1), "it is there");
	cr_assert_eq(mt_hot_used_count(hot), 1);
}

Test(hot_blocks, what_did_not_match_is_not_kept)
{
	struct mt_hot_slot *slot;

	meet(1, 2);
	slot = fill(1, 1);
	mt_hot_filled(hot, slot, false);
	cr_assert_eq(slot->sm.state, MT_HOT_EMPTY);
	cr_assert_null(find(1, 1));
	cr_assert_not_null(fill(1, 1));
}

Test(hot_blocks, another_place_of_a_block_is_not_it)
{
	struct mt_hot_key key = key_of(1, 1);

	(void)keep(1, 2);
	cr_assert_null(find(1, 2));
	key.extent++;
	cr_assert_null(mt_hot_find(hot, &key));
	key = key_of(1, 1);
	key.block_in_record++;
	cr_assert_null(mt_hot_find(hot, &key));
	key = key_of(1, 1);
	key.segment++;
	cr_assert_null(mt_hot_find(hot, &key));
}

/* ---- who goes ---- */

Test(hot_blocks, the_coldest_goes_for_a_hotter_one_and_for_no_other)
{
	for (uint32_t i = 0; i < HOT_WAYS; i++)
		(void)keep(i, i == 5 ? 4 : 6);
	cr_assert_eq(mt_hot_used_count(hot), HOT_WAYS);
	meet(100, 4);
	cr_assert_null(fill(100, 1), "it is as hot as the coldest");
	(void)keep(100, 1);
	cr_assert_null(find(5, 1));
	cr_assert_eq(mt_hot_used_count(hot), HOT_WAYS);
	for (uint32_t i = 0; i < HOT_WAYS; i++)
		cr_assert(i == 5 || find(i, 1) != NULL);
}

/* The least that a set asks for is remembered, and forgotten when counts halve, or a slot is empty. */
Test(hot_blocks, the_coldest_goes_later)
{
	struct mt_hot_slot *slot;

	for (uint32_t i = 0; i < HOT_WAYS; i++)
		(void)keep(i, 20);
	meet(100, 20);
	cr_assert_null(fill(100, 1));
	cr_assert_null(fill(100, 1));
	/* All have half of that by now, and one has more again. */
	while (hot->sketch.age == 0)
		meet(1000, 1);
	meet(100, 1);
	cr_assert_not_null(slot = fill(100, 1));
	mt_hot_filled(hot, slot, false);
	meet(101, HOT_COUNT_MIN);
	cr_assert_eq(fill(101, 1), slot, "an empty one takes any");
}

/* A merge has moved it, or it was written again: nobody asks for the older one, whatever else there is room for. */
Test(hot_blocks, an_older_version_of_a_block_goes_first)
{
	struct mt_hot_slot *slot = keep(1, 9);

	(void)keep(2, 2);
	cr_assert_eq(fill(1, 2), slot);
	cr_assert_null(find(1, 1));
	mt_hot_filled(hot, slot, true);
	cr_assert_eq(find(1, 2), slot);
	cr_assert_eq(mt_hot_used_count(hot), 2);
}

Test(hot_blocks, what_is_being_filled_goes_for_nobody)
{
	struct mt_hot_slot *slots[HOT_WAYS];

	for (uint32_t i = 0; i < HOT_WAYS; i++) {
		meet(i, 2);
		slots[i] = fill(i, 1);
		cr_assert_not_null(slots[i]);
	}
	meet(100, 20);
	cr_assert_null(fill(100, 1));
	meet(1, 20);
	cr_assert_null(fill(1, 2), "a newer version of one of them");
	mt_hot_filled(hot, slots[3], true);
	cr_assert_eq(fill(100, 1), slots[3]);
}

static bool
is_held_slot_taken(void)
{
	struct mt_hot_slot *slot = keep(1, 2);
	bool is_taken;

	for (uint32_t i = 2; i <= HOT_WAYS; i++)
		(void)keep(i, 4);
	mt_hot_hold(slot);
	meet(100, 3);
	is_taken = fill(100, 1) == slot;
	if (!is_taken) {
		meet(1, 20);
		cr_assert_null(fill(1, 2), "not for a newer version either");
		mt_hot_release(slot);
		cr_assert_not_null(fill(1, 2));
	}
	return is_taken;
}

Test(hot_blocks, what_is_being_read_goes_for_nobody)
{
	cr_assert(!is_held_slot_taken());
}

Test(hot_blocks, a_planted_bug_takes_what_is_being_read)
{
	mutant_set_add(&mutants_on, MUTANT_hot_hold_ignored);
	cr_assert(is_held_slot_taken());
}

Test(hot_blocks, memory_that_has_changed_is_not_found)
{
	struct mt_hot_slot *slot = keep(1, 2);

	mt_hot_hold(slot);
	mt_hot_hold(slot);
	mt_hot_spoil(hot, slot);
	cr_assert_null(find(1, 1));
	mt_hot_spoil(hot, slot); /* another reader has seen it, too */
	cr_assert_eq(mt_hot_used_count(hot), 0);
	mt_hot_release(slot);
	mt_hot_release(slot);
	cr_assert_not_null(fill(1, 1));
}

/* ---- a shard stops ---- */

Test(hot_blocks, nothing_of_a_shard_that_stops_is_kept_and_all_of_others)
{
	struct mt_hot_key key = key_of(50, 1);
	struct mt_hot_slot *other, *slot, *filling;

	slot = keep(1, 2);
	mt_hot_hold(slot);
	meet(2, 2);
	filling = fill(2, 1);
	meet(50, 2);
	other = mt_hot_fill(hot, &key, 0, SHARD + 1);
	mt_hot_filled(hot, other, true);
	mt_hot_drop_shard(hot, SHARD);
	cr_assert_null(find(1, 1));
	cr_assert_eq(filling->sm.state, MT_HOT_FORGOTTEN);
	cr_assert_eq(mt_hot_find(hot, &key), other);
	cr_assert_eq(mt_hot_used_count(hot), 1);
	/* Engines are still at two of them. */
	mt_hot_drop_shard(hot, SHARD);
	meet(2, 20);
	cr_assert_null(fill(2, 1));
	mt_hot_filled(hot, filling, true);
	cr_assert_eq(filling->sm.state, MT_HOT_EMPTY);
	cr_assert_null(find(2, 1));
	mt_hot_release(slot);
	cr_assert_not_null(fill(2, 1));
}

/* ---- memory ---- */

Test(hot_blocks, bytes_are_pages_and_what_is_left_is_sets)
{
	cr_assert_eq(mt_hot_device_bytes(0), 0);
	cr_assert_eq(mt_hot_device_bytes(HOT_BYTES_MIN - 1), 0);
	cr_assert_eq(mt_hot_device_bytes(HOT_BYTES_MIN), HOT_PAGE_TAG_BYTES + HOT_SET_BYTES);
	cr_assert_eq(mt_hot_device_bytes(NUM_MIB(1)), NUM_MIB(1));
	cr_assert_eq(mt_hot_device_bytes(NUM_MIB(1) + NUM_KIB(33)), NUM_MIB(1));
	cr_assert_eq(mt_hot_device_bytes(NUM_MIB(65) - 1),
	    NUM_MIB(64) + HOT_PAGE_TAG_BYTES + HOT_PAGE_SETS * HOT_SET_BYTES);
}

/* Each slot's block is in its page, behind the tags, and nowhere else. */
Test(hot_blocks, slots_lie_behind_each_other)
{
	uint64_t end = 0, page_slots = HOT_PAGE_SETS * HOT_WAYS;

	make_table(NUM_MIB(2) + NUM_KIB(100));
	cr_assert_eq(mt_hot_slot_count(hot), (2 * HOT_PAGE_SETS + 3) * HOT_WAYS);
	for (uint32_t i = 0; i < mt_hot_slot_count(hot); i++) {
		uint64_t at = mt_hot_at(hot, &hot->slots[i]).device_address_private -
		    hot->memory.device_address_private;

		if (i % page_slots == 0) {
			cr_assert_leq(end, i / page_slots * HOT_PAGE_BYTES);
			end = i / page_slots * HOT_PAGE_BYTES + HOT_PAGE_TAG_BYTES;
		}
		cr_assert_eq(at, end + HOT_HEAD_BYTES);
		cr_assert_eq(at % 64, 0);
		end = at + CLEAVE_BLOCK_BYTES;
	}
	cr_assert_leq(end, mt_hot_device_bytes(fake.settings.hot_bytes));
}

Test(hot_blocks, without_bytes_there_is_none)
{
	make_table(0);
	cr_assert_null(hot);
	cr_assert_eq(mt_hot_slot_count(NULL), 0);
	cr_assert_eq(mt_hot_used_count(NULL), 0);
}

Test(hot_blocks, any_allocation_may_fail)
{
	uint32_t nth = 0;
	int rc;

	do {
		make_table(0);
		fake.settings.hot_bytes = ONE_SET;
		mt_alloc_fail_at(++nth);
		rc = mt_hot_init(&fake.port);
		hot = fake.port.read->hot;
		cr_assert_eq(rc, mt_alloc_has_failed() ? -ENOMEM : 0);
	} while (rc != 0);
	cr_assert_eq(nth, 7, "its six allocations");
	mt_alloc_fail_at(0);
}

/* A set has room for eight of the hottest, so nearly all of those that are met again and again find theirs. */
Test(hot_blocks, hot_blocks_stay_among_many_cold_ones)
{
	uint32_t slots, found = 0;

	make_table(NUM_MIB(4));
	slots = mt_hot_slot_count(hot);
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < slots; i++) {
			/* Half as many hot ones as slots, and each time cold ones that nobody has met. */
			uint32_t block = i % 2 == 0 ? i : slots + round * slots + i;
			struct mt_hot_slot *slot;

			meet(block, 1);
			slot = find(block, 1) == NULL ? fill(block, 1) : NULL;
			if (slot != NULL)
				mt_hot_filled(hot, slot, true);
		}
	}
	for (uint32_t i = 0; i < slots; i += 2)
		found += find(i, 1) != NULL;
	cr_assert_geq(found, slots / 2 * 95 / 100, "%u of %u", found, slots / 2);
}

/* ---- the sketch ---- */

static uint64_t
hash_of(uint64_t key)
{
	return num_mix_u64(key + 1);
}

Test(hot_blocks, counts_are_never_too_low_and_seldom_too_high)
{
	struct hot_sketch sketch;
	uint32_t high = 0;

	cr_assert_eq(mt_hot_sketch_init(&sketch, 1000), 0);
	for (uint32_t i = 0; i < 1000; i++)
		for (uint32_t k = 0; k <= i % 5; k++)
			mt_hot_sketch_meet(&sketch, hash_of(i));
	for (uint32_t i = 0; i < 1000; i++) {
		cr_assert_geq(mt_hot_sketch_count(&sketch, hash_of(i)), i % 5 + 1);
		high += mt_hot_sketch_count(&sketch, hash_of(i)) > i % 5 + 1;
	}
	cr_assert_lt(high, 50);
	mt_hot_sketch_fini(&sketch);
}

Test(hot_blocks, counts_end_somewhere)
{
	struct hot_sketch sketch;

	cr_assert_eq(mt_hot_sketch_init(&sketch, 1000), 0);
	for (uint32_t i = 0; i < 2 * HOT_SKETCH_MAX; i++)
		mt_hot_sketch_meet(&sketch, hash_of(1));
	cr_assert_eq(mt_hot_sketch_count(&sketch, hash_of(1)), HOT_SKETCH_MAX);
	mt_hot_sketch_fini(&sketch);
}

/* All counts halve, also those of lines that nobody has looked at for long. */
Test(hot_blocks, counts_halve_all_together)
{
	struct hot_sketch sketch;

	cr_assert_eq(mt_hot_sketch_init(&sketch, 1000), 0);
	for (uint32_t i = 0; i < 100; i++)
		for (uint32_t k = 0; k < 8; k++)
			mt_hot_sketch_meet(&sketch, hash_of(i));
	for (uint32_t halvings = 1; halvings <= 4; halvings++) {
		while (sketch.age < halvings)
			mt_hot_sketch_meet(&sketch, hash_of(1u << 20));
		for (uint32_t i = 0; i < 50; i++)
			cr_assert_eq(mt_hot_sketch_count(&sketch, hash_of(i)), 8u >> halvings);
	}
	while (sketch.age < 12)
		mt_hot_sketch_meet(&sketch, hash_of(1u << 20));
	for (uint32_t i = 50; i < 100; i++)
		cr_assert_eq(mt_hot_sketch_count(&sketch, hash_of(i)), 0);
	mt_hot_sketch_fini(&sketch);
}
