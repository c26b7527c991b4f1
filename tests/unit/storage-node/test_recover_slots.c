/* SPDX-License-Identifier: Apache-2.0 */
/* test_recover_slots.c -- slots whose header is lost are not taken for free, whatever else they say */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "cleave/disk.h"
#include "storage-node/format/ondisk.h"
#include "storage-node/node_state.h"
#include "unit/extent_fixture.h"

TestSuite(recover_slots, .init = setup, .fini = teardown);

enum header_loss { HEADER_ROTTEN, HEADER_UNREADABLE, HEADER_BLANK, HEADER_LOSS_NR };

/* The header of slot @slot_index is lost; the node does not run. */
static void
lose_header(uint32_t slot_index, enum header_loss loss)
{
	const uint64_t offset = ONDISK_SLOTS_OFFSET + (uint64_t)slot_index * RIG_SLOT_BYTES;
	const uint8_t zeros[ONDISK_PAGE_BYTES] = { 0 };

	switch (loss) {
	case HEADER_ROTTEN:
		disk_sim_rot(rig->disk, offset + 40, 1);
		break;
	case HEADER_UNREADABLE:
		cr_assert_eq(disk_sim_set_bad(rig->disk, offset, ONDISK_PAGE_BYTES), 0);
		break;
	default:
		disk_sim_poke(rig->disk, offset, zeros, sizeof(zeros));
		break;
	}
}

/* A disk of one slot, in which a deleted extent of shard 9 was before, and now `extent` with one batch. */
static void
set_up_second_life(void)
{
	struct rig_extent former;

	teardown();
	rig = rig_create(&(struct rig_options){ .slot_count = 1, .seed = seed_next++ });
	rig_up(rig);
	rig_extent_init(&former, 9, 8, 1, EXTENT_MANIFEST);
	cr_assert_eq(rig_extent_create(rig, &former), 0);
	cr_assert_eq(rig_delete(rig, &former, 8), 0);
	rig_extent_fini(&former);
	rig_extent_init(&extent, 3, 5, 1, EXTENT_MANIFEST);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	rig_kill(rig, true);
}

/* The deletion is the former life's: nobody can tell what the slot holds now. */
Test(recover_slots, lost_header_over_a_former_deletion_is_bad)
{
	for (enum header_loss loss = 0; loss < HEADER_LOSS_NR; loss++) {
		struct rig_extent other;

		set_up_second_life();
		lose_header(0, loss);
		rig_up(rig);
		cr_assert_eq(node_extent_count(rig->node), 0);
		cr_assert_eq(node_slots_free(rig->node), 0, "loss %u", (unsigned)loss);
		cr_assert_eq(rig->node->bad_count, 1);
		rig_extent_init(&other, 3, 5, 2, EXTENT_MANIFEST);
		cr_assert_eq(rig_extent_create(rig, &other), -ENOSPC);
		rig_extent_fini(&other);
		cr_assert_eq(rig_fence(rig, 9, 7), -ESTALE, "the former extent's epoch counts");
	}
}

Test(recover_slots, header_that_is_read_again_has_its_extent_back)
{
	set_up_second_life();
	lose_header(0, HEADER_ROTTEN);
	rig_up(rig);
	cr_assert_eq(node_extent_count(rig->node), 0);
	rig_kill(rig, true);
	lose_header(0, HEADER_ROTTEN); /* the same bit: it is as it was */
	rig_up(rig);
	cr_assert_eq(rig->node->bad_count, 0);
	cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
}

/* A disk of one slot: an extent of shard 9 was sealed in it at one batch, and deleted; now `extent` has it, with one batch. */
static void
set_up_life_behind_a_seal(struct ondisk_super *ret_super)
{
	struct rig_extent former;
	struct wire_node_reply reply;

	teardown();
	rig = rig_create(&(struct rig_options){ .slot_count = 1, .seed = seed_next++ });
	rig_up(rig);
	rig_extent_init(&former, 9, 8, 1, EXTENT_MANIFEST);
	cr_assert_eq(rig_extent_create(rig, &former), 0);
	cr_assert_eq(rig_append(rig, &former, 1), 0);
	cr_assert_eq(rig_freeze(rig, &former, 8, &reply), 0);
	cr_assert_eq(rig_cut(rig, &former, 8, reply.offset_bytes), 0);
	cr_assert_eq(rig_delete(rig, &former, 8), 0);
	rig_extent_fini(&former);
	rig_extent_init(&extent, 3, 5, 1, EXTENT_MANIFEST);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	*ret_super = rig->node->super;
	rig_kill(rig, true);
}

/* The state page of slot 0 that says @state is bad; the node does not run. */
static void
lose_state(const struct ondisk_super *super, enum ondisk_slot_state state)
{
	struct ondisk_state page_state;
	uint8_t page[ONDISK_PAGE_BYTES];
	uint32_t lost_count = 0;

	for (uint32_t copy = 0; copy < 2; copy++) {
		uint64_t offset = ondisk_state_offset(super, 0, copy);
		const char *field;

		disk_sim_peek(rig->disk, offset, page, sizeof(page));
		if (ondisk_state_decode(page, super, 0, &page_state, &field) != 0 ||
		    page_state.state != state)
			continue;
		disk_sim_rot(rig->disk, offset + 40, 1);
		lost_count++;
	}
	cr_assert_eq(lost_count, 1);
}

/* The former life's seal is all that can be read: what was deleted does not come back over the bytes of another. */
Test(recover_slots, lost_header_and_lost_deletion_are_bad)
{
	for (enum header_loss loss = 0; loss < HEADER_LOSS_NR; loss++) {
		struct ondisk_super super;

		set_up_life_behind_a_seal(&super);
		lose_state(&super, ONDISK_SLOT_DELETED);
		lose_header(0, loss);
		rig_up(rig);
		cr_assert_eq(node_extent_count(rig->node), 0, "loss %u", (unsigned)loss);
		cr_assert_eq(rig->node->bad_count, 1);
		cr_assert_eq(rig_fence(rig, 9, 7), -ESTALE, "the former extent's epoch counts");
	}
}

/* Slot 5 has a state page of @incarnation of `extent`, and no header that can be read. */
static void
put_older_copy(uint64_t incarnation)
{
	const struct ondisk_super super = rig->node->super;
	const struct ondisk_state state = {
		.slot = { .slot_index = 5,
		    .id = extent.id,
		    .kind = extent.kind,
		    .create_epoch = extent.epoch,
		    .incarnation = incarnation },
		.generation = 1,
		.state = ONDISK_SLOT_SEALED,
	};
	uint8_t page[ONDISK_PAGE_BYTES];

	rig_kill(rig, false);
	ondisk_state_encode(page, &super, &state);
	disk_sim_poke(rig->disk, ondisk_state_offset(&super, 5, 1), page, sizeof(page));
	lose_header(5, HEADER_UNREADABLE);
}

/* An older copy's slot is free, and so may have been used again, under the header that is lost. */
Test(recover_slots, lost_header_of_an_older_copy_is_bad)
{
	/* Heads are read at once: a seed decides which of the two copies is looked at first. */
	for (int round = 0; round < 16; round++) {
		struct rig_extent first;

		teardown();
		setup();
		rig_extent_init(&first, 3, 5, 2, EXTENT_LOG);
		cr_assert_eq(rig_extent_create(rig, &first), 0);
		rig_extent_fini(&extent);
		extent = first;
		cr_assert_eq(extent.incarnation, 2);
		cr_assert_eq(rig_append(rig, &extent, 1), 0);
		put_older_copy(1);
		rig_up(rig);
		cr_assert_eq(node_extent_count(rig->node), 2);
		cr_assert_eq(rig->node->bad_count, 1, "round %d", round);
		cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
	}
}

/* Slot 1 holds the disk's youngest copy, and is not read at this start: its extent is made anew, in another slot. */
static void
make_anew(struct rig_extent *lost, struct rig_extent *anew, enum header_loss loss)
{
	rig_extent_init(lost, 3, 5, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, lost), 0);
	rig_kill(rig, true);
	lose_header(1, loss);
	rig_up(rig);
	rig_extent_init(anew, 3, 5, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, anew), 0);
	cr_assert_eq(rig_append(rig, anew, 1), 0);
}

/* Two copies of an id with one incarnation: a delete of the one would be a delete of the other. */
Test(recover_slots, incarnation_that_was_not_seen_is_not_given_again)
{
	struct rig_extent lost, anew;

	make_anew(&lost, &anew, HEADER_ROTTEN);
	cr_assert_gt(anew.incarnation, lost.incarnation);
	cr_assert_eq(rig_delete(rig, &lost, 5), -ENOENT);
	rig_kill(rig, true);
	lose_header(1, HEADER_ROTTEN); /* the same bit: it is as it was */
	rig_up(rig);
	cr_assert_eq(rig->node->bad_count, 0);
	cr_assert(rig_extent_matches(rig, &anew, anew.acked_bytes));
	cr_assert_eq(rig_delete(rig, &lost, 5), -ENOENT);
	cr_assert_eq(rig_delete(rig, &anew, 5), 0);
	rig_extent_fini(&lost);
	rig_extent_fini(&anew);
}

Test(recover_slots, incarnations_leap_at_each_start_that_misses_one)
{
	struct rig_extent lost, anew;
	uint64_t before;

	make_anew(&lost, &anew, HEADER_UNREADABLE);
	for (uint32_t i = 0; i < 4; i++) {
		before = anew.incarnation;
		cr_assert_geq(before, (i + 1ull) << 32);
		rig_extent_fini(&anew);
		rig_kill(rig, true);
		rig_up(rig);
		rig_extent_init(&anew, 3, 5, 3 + i, EXTENT_LOG);
		cr_assert_eq(rig_extent_create(rig, &anew), 0);
		cr_assert_gt(anew.incarnation, before + 1);
	}
	rig_extent_fini(&lost);
	rig_extent_fini(&anew);
}

/* The count of incarnations has an end, and a leap over it is none. */
Test(recover_slots, leap_ends_where_incarnations_do)
{
	const struct ondisk_super super = rig->node->super;
	const struct ondisk_slot slot = {
		.slot_index = 5,
		.id = { .shard = 3, .epoch = 5, .counter = 7 },
		.kind = EXTENT_LOG,
		.create_epoch = 5,
		.incarnation = ONDISK_COUNT_MAX - 1,
	};
	uint8_t page[ONDISK_PAGE_BYTES];
	struct rig_extent other;

	rig_kill(rig, false);
	ondisk_slot_encode(page, &super, &slot);
	disk_sim_poke(rig->disk, ondisk_slot_offset(&super, 5), page, sizeof(page));
	lose_header(0, HEADER_ROTTEN);
	rig_up(rig);
	cr_assert_eq(rig->node->incarnation_last, ONDISK_COUNT_MAX);
	rig_extent_init(&other, 3, 5, 8, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &other), -ENOSPC);
	rig_extent_fini(&other);
}
