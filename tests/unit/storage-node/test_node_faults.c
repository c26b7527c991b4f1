/* SPDX-License-Identifier: Apache-2.0 */
/* test_node_faults.c -- a node on a disk that lies, strays, rots, stalls: what it says stays true */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/disk.h"
#include "storage-node/format/ondisk.h"
#include "support/node_rig.h"

static struct node_rig *rig;
static struct rig_extent a, b;

static void
make(const struct rig_options *options)
{
	rig = rig_create(options);
	rig_up(rig);
	rig_extent_init(&a, 3, 5, 1, EXTENT_LOG);
	rig_extent_init(&b, 4, 5, 1, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &a), 0);
	cr_assert_eq(rig_extent_create(rig, &b), 0);
}

static void
setup(void)
{
	make(NULL);
}

static void
teardown(void)
{
	rig_extent_fini(&a);
	rig_extent_fini(&b);
	rig_destroy(rig);
}

TestSuite(node_faults, .init = setup, .fini = teardown);

static void
append_many(struct rig_extent *extent, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(rig_append(rig, extent, 1), 0);
}

static struct rig_call *
post_read(const struct rig_extent *extent)
{
	return rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_READ,
		.id = extent->id,
		.length_bytes = 4096 },
	    NULL, 0);
}

/* ---- errors ---- */

Test(node_faults, unwritable_place_fails_its_extent_alone)
{
	struct wire_node_reply reply;
	struct rig_extent next;

	append_many(&a, 2);
	cr_assert_eq(disk_sim_add_rule(rig->disk,
			 &(struct disk_sim_rule){ .ops = DISK_FAULT_OP(DISK_WRITE),
			     .rc = -EIO,
			     .offset_bytes = rig_data_offset(rig, 0, 16384),
			     .bytes = 8192 }),
	    0);
	cr_assert_eq(rig_append(rig, &a, 1), -EIO);
	cr_assert_eq(rig_append(rig, &a, 1), -EIO);
	cr_assert_geq(node_counters(rig->node)->disk_errors, 1);
	cr_assert_eq(node_counters(rig->node)->appends_failed, 1);
	cr_assert_not(node_is_read_only(rig->node));
	append_many(&b, 3);
	rig_extent_init(&next, 3, 5, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &next), 0);
	append_many(&next, 2);
	/* The extent is sealed at what was acknowledged. */
	cr_assert_eq(rig_freeze(rig, &a, 6, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 16384);
	cr_assert_eq(rig_cut(rig, &a, 6, 16384), 0);
	cr_assert(rig_extent_matches(rig, &a, 16384));
	rig_extent_fini(&next);
}

Test(node_faults, unreadable_place_is_a_status_of_those_reads_alone)
{
	uint8_t out[4096];

	append_many(&a, 3);
	cr_assert_eq(disk_sim_set_bad(rig->disk, rig_data_offset(rig, 0, 8192), 4096), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(rig_read(rig, &a, 8192, 4096, out), -EIO);
		cr_assert_eq(rig_read(rig, &a, 4096, 4096, out), 0);
		cr_assert_eq(rig_read(rig, &a, 12288, 4096, out), 0);
	}
	cr_assert_eq(rig_append(rig, &a, 1), 0, "appends do not mind");
}

/* Whether the mark survives or not, what was acknowledged before does, and nothing failed is a success. */
Test(node_faults, failed_flush_then_power_loss)
{
	uint32_t read_only_count = 0;

	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct wire_node_reply reply;

		teardown();
		make(&(struct rig_options){ .seed = seed });
		append_many(&a, 3);
		cr_assert_eq(disk_sim_add_rule(rig->disk,
				 &(struct disk_sim_rule){ .ops = DISK_FAULT_OP(DISK_FLUSH),
				     .rc = -EIO,
				     .count = 1 }),
		    0);
		cr_assert_eq(rig_append(rig, &a, 1), -EIO);
		cr_assert_eq(rig_append(rig, &b, 1), -EROFS, "the next flush would succeed");
		rig_kill(rig, true);
		rig_up(rig);
		read_only_count += node_is_read_only(rig->node);
		cr_assert(rig_extent_matches(rig, &a, a.acked_bytes));
		if (node_is_read_only(rig->node)) {
			cr_assert_eq(rig_append(rig, &b, 1), -EROFS);
			cr_assert_eq(rig_freeze(rig, &a, 6, NULL), -EROFS);
			continue;
		}
		cr_assert_eq(rig_freeze(rig, &a, 6, &reply), 0);
		cr_assert_geq(reply.offset_bytes, a.acked_bytes);
		cr_assert_eq(reply.flags, 0);
	}
	cr_assert(read_only_count > 3 && read_only_count < 27, "%u", read_only_count);
}

/* ---- time ---- */

Test(node_faults, slow_write_holds_up_neither_reads_nor_other_extents)
{
	struct rig_call *slow;

	append_many(&a, 1);
	append_many(&b, 1);
	disk_sim_set_slowness(rig->disk, 5000);
	slow = rig_append_post(rig, &a, 1);
	rig_run(rig, NUM_US(500));
	disk_sim_set_slowness(rig->disk, 1);
	for (uint32_t i = 0; i < 4; i++) {
		uint8_t out[4096];

		cr_assert_eq(rig_append(rig, &b, 1), 0);
		cr_assert_eq(rig_read(rig, &a, 0, 4096, out), 0);
		cr_assert_eq(rig_fence(rig, 100, i), 0);
	}
	cr_assert_not(slow->is_answered);
	cr_assert_eq(rig_wait(slow), 0);
	rig_done(slow);
}

Test(node_faults, slow_flush_holds_up_no_read)
{
	struct rig_call *slow;
	uint8_t out[4096];

	append_many(&a, 1);
	disk_sim_set_slowness(rig->disk, 500);
	slow = rig_append_post(rig, &b, 1);
	rig_run(rig, NUM_MS(25)); /* written, being flushed */
	disk_sim_set_slowness(rig->disk, 1);
	for (int i = 0; i < 10; i++)
		cr_assert_eq(rig_read(rig, &a, 0, 4096, out), 0);
	cr_assert_not(slow->is_answered);
	cr_assert_eq(rig_wait(slow), 0);
	rig_done(slow);
}

Test(node_faults, stalls_end_and_nothing_is_lost)
{
	append_many(&a, 1);
	for (int i = 0; i < 4; i++) {
		struct rig_call *call, *read;

		disk_sim_stall(rig->disk, NUM_S(2) + NUM_S(7) * (uint64_t)i);
		call = rig_append_post(rig, &a, 1);
		read = post_read(&a);
		cr_assert_eq(rig_wait(call), 0);
		cr_assert_eq(rig_wait(read), 0);
		rig_done(call);
		rig_done(read);
	}
	cr_assert(rig_extent_matches(rig, &a, a.end_bytes));
}

/* ---- writes that go elsewhere or nowhere ---- */

enum stray { STRAY_LOST, STRAY_SELF, STRAY_OTHER, STRAY_NR };

static void
append_stray(enum stray stray)
{
	if (stray == STRAY_LOST)
		disk_sim_lose_next_write(rig->disk);
	else
		disk_sim_misdirect_next_write(rig->disk,
		    rig_data_offset(rig, stray == STRAY_SELF ? 0 : 1, 0));
	append_many(&a, 1);
}

Test(node_faults, stray_writes_are_found_by_verify)
{
	for (enum stray stray = STRAY_LOST; stray < STRAY_NR; stray++) {
		struct wire_node_reply reply;

		teardown();
		setup();
		append_many(&a, 2);
		append_many(&b, 3);
		append_stray(stray);
		append_many(&a, 1);
		cr_assert_eq(rig_verify(rig, &a, &reply), -EBADMSG);
		cr_assert_eq(reply.offset_bytes, stray == STRAY_SELF ? 0 : 16384);
		cr_assert_eq(rig_verify(rig, &b, &reply), stray == STRAY_OTHER ? -EBADMSG : 0);
	}
}

Test(node_faults, stray_writes_below_a_freeze_are_damage_after_a_restart)
{
	for (enum stray stray = STRAY_LOST; stray < STRAY_NR; stray++) {
		struct wire_node_reply reply;

		teardown();
		setup();
		append_many(&a, 2);
		append_many(&b, 3);
		append_stray(stray);
		append_many(&a, 1);
		cr_assert_eq(rig_freeze(rig, &a, 6, NULL), 0);
		cr_assert_eq(rig_freeze(rig, &b, 6, NULL), 0);
		rig_kill(rig, true);
		rig_up(rig);
		cr_assert_eq(rig_freeze(rig, &a, 7, &reply), 0);
		cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
		cr_assert(rig_extent_matches(rig, &a, reply.offset_bytes));
		cr_assert_eq(rig_freeze(rig, &b, 7, &reply), 0);
		cr_assert_eq(reply.flags, stray == STRAY_OTHER ? WIRE_FLAG_DAMAGED : 0);
		cr_assert(rig_extent_matches(rig, &b, reply.offset_bytes));
	}
}

/* Damage that a freeze has written down is damage for whoever freezes later. */
Test(node_faults, damage_outlives_freezes_and_restarts)
{
	struct wire_node_reply reply;

	append_many(&a, 4);
	cr_assert_eq(rig_freeze(rig, &a, 6, NULL), 0);
	disk_sim_rot(rig->disk, rig_data_offset(rig, 0, 8192 + 5000), 1);
	for (uint32_t epoch = 7; epoch < 11; epoch++) {
		rig_kill(rig, true);
		rig_up(rig);
		cr_assert_eq(rig_freeze(rig, &a, epoch, &reply), 0);
		cr_assert_eq(reply.offset_bytes, 8192);
		cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED, "epoch %u", epoch);
	}
	/* Until it is whole again. */
	for (uint32_t i = 1; i < 4; i++)
		cr_assert_eq(rig_append_again(rig, &a, i, 10), 0);
	cr_assert_eq(rig_freeze(rig, &a, 11, &reply), 0);
	cr_assert_eq(reply.flags, 0);
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &a, 12, &reply), 0);
	cr_assert_eq(reply.flags, 0);
	cr_assert_eq(reply.offset_bytes, 32768);
}

/* ---- a lying disk ---- */

/* The node may lose what was acknowledged: one disk alone cannot know. It never tells garbage. */
Test(node_faults, lying_flush_loses_but_never_makes_up)
{
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct wire_node_reply reply;

		teardown();
		make(&(struct rig_options){ .seed = seed });
		append_many(&a, 2);
		disk_sim_set_lying(rig->disk, true);
		append_many(&a, 2);
		append_many(&b, 2);
		rig_kill(rig, true);
		disk_sim_set_lying(rig->disk, false);
		rig_up(rig);
		cr_assert_eq(rig_freeze(rig, &a, 6, &reply), 0);
		cr_assert_geq(reply.offset_bytes, 16384);
		cr_assert(rig_is_boundary(&a, reply.offset_bytes));
		cr_assert(rig_extent_matches(rig, &a, reply.offset_bytes));
	}
}

/* ---- everything at once ---- */

static void
check_extent(struct rig_extent *extent, uint64_t seed)
{
	struct wire_extent_entry entries[8];
	uint8_t *out = malloc(rig_capacity(rig));
	int count = rig_list(rig, extent->id.shard, entries, 8);

	for (int i = 0; i < count; i++) {
		uint64_t length = entries[i].length_bytes;

		if (entries[i].extent != extent_id_pack(&extent->id) || length == 0)
			continue;
		cr_assert(rig_is_boundary(extent, length), "seed %lu", (unsigned long)seed);
		/* Unread or found bad, or as it was sent. */
		if (rig_verify(rig, extent, NULL) != 0)
			continue;
		if (rig_read(rig, extent, 0, (uint32_t)length, out) == 0)
			cr_assert_arr_eq(out, extent->data, length, "seed %lu",
			    (unsigned long)seed);
	}
	free(out);
}

Test(node_faults, every_fault_by_the_dice)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		teardown();
		make(&(struct rig_options){ .seed = seed });
		disk_sim_set_faults(rig->disk,
		    &(struct disk_sim_faults){ .read_fails = 20,
			.write_fails = 20,
			.flush_fails = seed % 4 == 0 ? 20 : 0,
			.write_lost = 20,
			.write_misdirected = 20,
			.rot = 30,
			.rot_places_max = 3,
			.slow_requests = 10,
			.stalls = 5,
			.first_bytes = ONDISK_SLOTS_OFFSET });
		for (int life = 0; life < 4; life++) {
			for (uint32_t i = 0; i < 3; i++) {
				(void)rig_append(rig, &a, 1);
				(void)rig_append(rig, &b, 1);
			}
			if (life == 2) {
				(void)rig_freeze(rig, &a, 6, NULL);
				(void)rig_cut(rig, &a, 6, a.acked_bytes);
			}
			rig_kill(rig, life % 2 == 0);
			rig_up(rig); /* a disk with a good superblock always starts */
		}
		disk_sim_set_faults(rig->disk, &(struct disk_sim_faults){ 0 });
		check_extent(&a, seed);
		check_extent(&b, seed);
	}
}
