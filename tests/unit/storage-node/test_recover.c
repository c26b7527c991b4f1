/* SPDX-License-Identifier: Apache-2.0 */
/* test_recover.c -- what a node makes of a disk: after crashes, rot, lost pages */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "splitlib/core/alloc.h"
#include "storage-node/alloc.h"
#include "storage-node/format/ondisk.h"
#include "storage-node/node_state.h"
#include "unit/extent_fixture.h"

TestSuite(recover, .init = setup, .fini = teardown);

static void
append_many(struct rig_extent *e, int count)
{
	for (int i = 0; i < count; i++)
		cr_assert_eq(rig_append(rig, e, 1), 0);
}

/* A batch of so many blocks that says how much of the extent was acknowledged. */
static void
append_marked_blocks(uint64_t mark_bytes, uint32_t blocks)
{
	uint64_t offset = extent.end_bytes;
	uint32_t bytes;
	const uint8_t *batch = rig_batch(rig, &extent, blocks, mark_bytes, &bytes);

	cr_assert_eq(rig_call_rc(rig,
			 &(struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
			     .id = extent.id,
			     .kind = extent.kind,
			     .offset_bytes = offset,
			     .length_bytes = bytes,
			     .epoch = extent.epoch },
			 batch, bytes, NULL),
	    0);
}

static void
append_marked(uint64_t mark_bytes)
{
	append_marked_blocks(mark_bytes, 1);
}

/* ---- chains ---- */

Test(recover, open_extent_can_only_be_sealed)
{
	struct wire_node_reply reply;

	append_many(&extent, 3);
	rig_kill(rig, false);
	rig_up(rig);
	cr_assert_eq(rig_append(rig, &extent, 1), -EACCES);
	cr_assert_eq(rig_freeze(rig, &extent, 5, &reply), 0);
	cr_assert_eq(reply.offset_bytes, extent.acked_bytes);
	cr_assert_eq(reply.chain_crc, extent.batches[2].crc);
	cr_assert_eq(rig_cut(rig, &extent, 5, extent.acked_bytes), 0);
}

Test(recover, full_extent)
{
	struct wire_node_reply reply;

	/* 5 of 8 KiB, one of 12: the whole capacity. */
	append_many(&extent, 5);
	cr_assert_eq(rig_append(rig, &extent, 2), 0);
	cr_assert_eq(extent.end_bytes, rig_capacity(rig));
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &extent, 5, &reply), 0);
	cr_assert_eq(reply.offset_bytes, extent.end_bytes);
}

/* Rot at @offset_bytes of the extent's data; what does a freeze say then? */
static struct wire_node_reply
reply_after_rot(uint64_t offset_bytes)
{
	struct wire_node_reply reply = { 0 };

	rig_kill(rig, false);
	disk_sim_rot(rig->disk, rig_data_offset(rig, 0, offset_bytes), 3);
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &extent, 6, &reply), 0);
	return reply;
}

Test(recover, rot_in_the_last_batch_is_a_torn_tail)
{
	struct wire_node_reply reply;

	append_many(&extent, 3);
	reply = reply_after_rot(16384 + 5000);
	cr_assert_eq(reply.offset_bytes, 16384);
	cr_assert_eq(reply.flags, 0, "no mark covers it: who can tell?");
}

Test(recover, rot_below_a_frozen_length_is_damage)
{
	struct wire_node_reply reply;

	append_many(&extent, 3);
	cr_assert_eq(rig_freeze(rig, &extent, 6, NULL), 0);
	reply = reply_after_rot(16384 + 5000);
	cr_assert_eq(reply.offset_bytes, 16384);
	cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
	/* Sent again from another copy, it is whole. */
	cr_assert_eq(rig_append_again(rig, &extent, 2, 6), 0);
	cr_assert_eq(rig_freeze(rig, &extent, 7, &reply), 0);
	cr_assert_eq(reply.flags, 0);
	cr_assert_eq(rig_cut(rig, &extent, 7, 24576), 0);
	cr_assert(rig_extent_matches(rig, &extent, 24576));
}

Test(recover, unreadable_batch_is_damage)
{
	struct wire_node_reply reply;

	append_many(&extent, 3);
	for (int i = 0; i < 2; i++) {
		rig_kill(rig, false);
		/* The batch's payload, then its header too. */
		cr_assert_eq(disk_sim_set_bad(rig->disk,
				 rig_data_offset(rig, 0, i == 0 ? 12288 : 8192), 4096),
		    0);
		rig_up(rig);
		cr_assert_eq(rig_freeze(rig, &extent, 6, &reply), 0);
		cr_assert_eq(reply.offset_bytes, 8192);
		cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
	}
	cr_assert_eq(node_counters(rig->node)->damaged_extents, 1);
}

Test(recover, unreadable_bytes_behind_the_end_are_no_damage)
{
	struct wire_node_reply reply;

	append_many(&extent, 2);
	rig_kill(rig, false);
	cr_assert_eq(disk_sim_set_bad(rig->disk, rig_data_offset(rig, 0, 20480), 4096), 0);
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &extent, 6, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 16384);
	cr_assert_eq(reply.flags, 0);
}

Test(recover, rot_below_a_mark_is_damage_without_any_freeze)
{
	/* Batch i carries what was acknowledged when it was made: i - 1 of them. */
	for (uint32_t rotten = 0; rotten < 6; rotten++) {
		struct wire_node_reply reply;

		teardown();
		setup();
		for (uint32_t i = 0; i < 6; i++)
			append_marked(i > 0 ? (i - 1) * 8192ull : 0);
		reply = reply_after_rot(rotten * 8192ull + 5000);
		cr_assert_eq(reply.offset_bytes, rotten * 8192ull);
		/* The last one to tell is batch 5, which knows of 4; of later ones nobody does. */
		cr_assert_eq(reply.flags, rotten < 4 ? WIRE_FLAG_DAMAGED : 0, "%u", rotten);
		if (rotten < 4)
			cr_assert_eq(reply.length_bytes, 4 * 8192);
	}
}

Test(recover, lost_write_below_a_mark_is_damage)
{
	struct wire_node_reply reply;

	append_marked(0);
	disk_sim_lose_next_write(rig->disk);
	append_marked(8192);
	append_marked(16384);
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &extent, 6, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 8192);
	cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
	/* The damage is remembered, and made good. */
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &extent, 7, &reply), 0);
	cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
	cr_assert_eq(rig_append_again(rig, &extent, 1, 7), 0);
	cr_assert_eq(rig_freeze(rig, &extent, 7, &reply), 0);
	cr_assert_eq(reply.flags, 0);
}

Test(recover, look_ahead_that_cannot_be_read_tells_nothing)
{
	struct wire_node_reply reply;

	for (uint32_t i = 0; i < 5; i++)
		append_marked(i * 8192ull);
	cr_assert_eq(disk_sim_set_bad(rig->disk, rig_data_offset(rig, 0, 45056), 4096), 0);
	reply = reply_after_rot(8192 + 5000);
	cr_assert_eq(reply.offset_bytes, 8192);
	cr_assert_eq(reply.flags, 0);
}

/*
 * Full batches, as many in flight as there may be: the first that was sent when batch @i was acknowledged is
 * batch i + BATCH_IN_FLIGHT_MAX, all of them behind the one that is broken.
 */
static void
rot_with_all_in_flight(uint32_t rotten, uint32_t count, bool is_damage)
{
	struct wire_node_reply reply;

	teardown();
	rig = rig_create(&(
	    struct rig_options){ .slot_bytes = NUM_MIB(4), .slot_count = 4, .seed = seed_next++ });
	rig_up(rig);
	rig_extent_init(&extent, 3, 5, 1, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	for (uint32_t i = 0; i < count; i++)
		append_marked_blocks(i < BATCH_IN_FLIGHT_MAX
			? 0
			: (i + 1 - BATCH_IN_FLIGHT_MAX) * BATCH_BYTES_MAX,
		    63);
	cr_assert_eq(extent.end_bytes, count * BATCH_BYTES_MAX, "full batches");
	reply = reply_after_rot(rotten * BATCH_BYTES_MAX + 5000);
	cr_assert_eq(reply.offset_bytes, rotten * BATCH_BYTES_MAX);
	cr_assert_eq(reply.flags, is_damage ? WIRE_FLAG_DAMAGED : 0, "%u of %u", rotten, count);
}

Test(recover, rot_below_a_mark_is_damage_with_all_batches_in_flight)
{
	rot_with_all_in_flight(0, BATCH_IN_FLIGHT_MAX + 1, true);
	rot_with_all_in_flight(3, BATCH_IN_FLIGHT_MAX + 4, true);
	/* No batch was sent since it was acknowledged. */
	rot_with_all_in_flight(1, BATCH_IN_FLIGHT_MAX + 1, false);
}

Test(recover, mark_above_the_end_is_damage)
{
	/* A batch cannot carry a mark above itself, so the chain must break under a later one: the
	 * last one's mark is in the chain only if it is. What remains is the freeze's length. */
	struct wire_node_reply reply;

	append_many(&extent, 4);
	cr_assert_eq(rig_freeze(rig, &extent, 6, NULL), 0);
	reply = reply_after_rot(8192 + 130);
	cr_assert_eq(reply.offset_bytes, 8192);
	cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
}

Test(recover, batches_across_the_buffers_end)
{
	struct wire_node_reply reply;
	struct rig_extent big;

	teardown();
	rig = rig_create(&(struct rig_options){ .slot_bytes = NUM_MIB(4), .slot_count = 4 });
	rig_up(rig);
	rig_extent_init(&extent, 1, 1, 1, EXTENT_LOG);
	rig_extent_init(&big, 1, 1, 2, EXTENT_RUN);
	cr_assert_eq(rig_extent_create(rig, &big), 0);
	/* 60 blocks: 248 KiB, which does not divide a MiB. */
	for (int i = 0; i < 15; i++)
		cr_assert_eq(rig_append(rig, &big, 60 - (uint32_t)i), 0);
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &big, 2, &reply), 0);
	cr_assert_eq(reply.offset_bytes, big.end_bytes);
	cr_assert_eq(reply.chain_crc, big.end_crc);
	cr_assert_eq(rig_cut(rig, &big, 2, big.batches[9].offset_bytes), 0);
	cr_assert(rig_extent_matches(rig, &big, big.batches[9].offset_bytes));
	rig_extent_fini(&big);
}

Test(recover, batch_that_claims_more_than_the_slot_has)
{
	struct wire_node_reply reply;
	struct batch_info info = { .kind = EXTENT_LOG,
		.offset_bytes = 49152,
		.used_bytes = 12288,
		.batch_bytes = 12288 };
	uint8_t page[4096] = { 0 };

	append_many(&extent, 5);
	cr_assert_eq(rig_append(rig, &extent, 1), 0); /* 49152 of 53248 */
	info.id = extent.id;
	info.prev_crc = extent.end_crc;
	batch_head_encode(page, &info);
	rig_kill(rig, false);
	disk_sim_poke(rig->disk, rig_data_offset(rig, 0, 49152), page, sizeof(page));
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &extent, 6, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 49152);
	cr_assert_eq(reply.flags, 0);
}

/* ---- slots used again ---- */

Test(recover, recycled_slots_old_bytes_never_pass)
{
	/* Two slots, so that each is used again and again. */
	teardown();
	rig = rig_create(&(struct rig_options){ .slot_count = 3 });
	rig_up(rig);
	rig_extent_init(&extent, 3, 5, 1, EXTENT_MANIFEST);
	for (uint32_t life = 1; life < 12; life++) {
		struct rig_extent e;
		struct wire_node_reply reply;
		uint64_t length = (life * 7) % 5;

		/* The same shard and epoch; only the counter differs. */
		rig_extent_init(&e, 1, 1, life, EXTENT_MANIFEST);
		e.kind = EXTENT_MANIFEST;
		cr_assert_eq(rig_extent_create(rig, &e), 0);
		cr_assert_eq(e.incarnation, life);
		for (uint64_t i = 0; i < length; i++)
			cr_assert_eq(rig_append(rig, &e, 1), 0);
		rig_kill(rig, life % 2 == 0);
		rig_up(rig);
		cr_assert_eq(rig_freeze(rig, &e, 1, &reply), 0);
		cr_assert_eq(reply.offset_bytes, e.end_bytes, "life %u", life);
		cr_assert_eq(rig_delete(rig, &e, 1), 0);
		rig_extent_fini(&e);
	}
}

Test(recover, state_pages_of_a_former_life_do_not_count)
{
	struct wire_node_reply reply;

	teardown();
	rig = rig_create(&(struct rig_options){ .slot_count = 1 });
	rig_up(rig);
	rig_extent_init(&extent, 1, 1, 1, EXTENT_MANIFEST);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_freeze(rig, &extent, 1, NULL), 0);
	cr_assert_eq(rig_cut(rig, &extent, 1, 4096), 0);
	cr_assert_eq(rig_delete(rig, &extent, 1), 0);
	rig_extent_fini(&extent);
	rig_extent_init(&extent, 1, 1, 2, EXTENT_MANIFEST);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(extent.incarnation, 2);
	for (int life = 0; life < 2; life++) {
		rig_kill(rig, true);
		rig_up(rig);
		cr_assert_eq(rig_freeze(rig, &extent, 2, &reply), 0);
		cr_assert_eq(reply.flags, 0);
		cr_assert_eq(reply.offset_bytes, 0);
	}
}

Test(recover, deleted_extents_stay_deleted_and_incarnations_grow)
{
	struct rig_extent again;

	cr_assert_eq(rig_delete(rig, &extent, 5), 0);
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert_eq(node_extent_count(rig->node), 0);
	rig_extent_init(&again, 3, 5, 1, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &again), 0);
	cr_assert_gt(again.incarnation, extent.incarnation);
	/* The former copy's name deletes nothing. */
	cr_assert_eq(rig_delete(rig, &extent, 5), -ENOENT);
	cr_assert_eq(rig_delete(rig, &again, 5), 0);
	rig_extent_fini(&again);
}

/* ---- pages lost ---- */

Test(recover, lost_header_is_made_good_by_a_state_page)
{
	struct wire_node_reply reply;

	append_many(&extent, 2);
	cr_assert_eq(rig_freeze(rig, &extent, 6, NULL), 0);
	rig_kill(rig, false);
	disk_sim_rot(rig->disk, ONDISK_SLOTS_OFFSET + 40, 1);
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &extent, 6, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 16384);
	rig_kill(rig, false);
	cr_assert_eq(disk_sim_set_bad(rig->disk, ONDISK_SLOTS_OFFSET, 4096), 0);
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &extent, 6, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 16384);
}

Test(recover, slot_without_any_good_page_is_not_used_again)
{
	uint32_t free_before;

	append_many(&extent, 2);
	free_before = node_slots_free(rig->node);
	rig_kill(rig, false);
	disk_sim_rot(rig->disk, ONDISK_SLOTS_OFFSET + 40, 1);
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &extent, 6, NULL), -ENOENT);
	cr_assert_eq(node_slots_free(rig->node), free_before);
	cr_assert_eq(rig->node->bad_count, 1);
}

/* Reads of the heads of @count slots, from @first on, fail. Returns what on_ready was told. */
static int
start_with_unreadable_slots(uint32_t first, uint32_t count)
{
	rig_kill(rig, false);
	cr_assert_eq(disk_sim_set_bad(rig->disk, ONDISK_SLOTS_OFFSET + first * RIG_SLOT_BYTES,
			 count * RIG_SLOT_BYTES),
	    0);
	return rig_start(rig);
}

Test(recover, slot_that_cannot_be_read_is_not_used)
{
	uint32_t free_before = node_slots_free(rig->node);

	append_many(&extent, 2);
	cr_assert_eq(start_with_unreadable_slots(5, 1), 0);
	cr_assert_eq(rig_connect(rig), 0);
	cr_assert_eq(node_slots_free(rig->node), free_before - 1);
	cr_assert(rig_extent_matches(rig, &extent, 16384));
}

/* Copies on it would be told to be absent, and its room to be used up. */
Test(recover, disk_that_cannot_be_read_is_refused)
{
	char offset[32];

	append_many(&extent, 2);
	cr_assert_eq(start_with_unreadable_slots(5, 2), -EIO);
	(void)snprintf(offset, sizeof(offset), "offset %u",
	    (unsigned)ONDISK_SLOTS_OFFSET + 5 * RIG_SLOT_BYTES);
	cr_assert_not_null(strstr(rig->ready_reason, offset), "%s", rig->ready_reason);
	cr_assert_not_null(strstr(rig->ready_reason, "2 of 16 slots"), "%s", rig->ready_reason);
	cr_assert_not_null(strstr(rig->ready_reason, rig->node->disk_name), "%s",
	    rig->ready_reason);
}

/* Each of the first reads in turn is the first that fails, and all after it do. */
Test(recover, disk_that_fails_while_its_heads_are_read_is_refused)
{
	append_many(&extent, 2);
	for (uint64_t n = 1; n <= 2 + 2 * ONDISK_FENCE_PAGES + 15; n++) {
		int rc;

		rig_kill(rig, false);
		*disk_sim_fault(rig->disk) = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_READ),
			.at_count = n,
			.is_sticky = true,
			.verdict = DISK_FAULT_FAIL,
			.rc = -EIO };
		rc = rig_start(rig);
		*disk_sim_fault(rig->disk) = (struct disk_fault){ 0 };
		cr_assert_eq(rc, -EIO, "n=%lu rc=%d", (unsigned long)n, rc);
		cr_assert_not_null(strstr(rig->ready_reason, "offset "), "n=%lu %s",
		    (unsigned long)n, rig->ready_reason);
	}
	rig_kill(rig, false);
	rig_up(rig);
	cr_assert(rig_extent_matches(rig, &extent, 16384));
}

Test(recover, younger_state_page_rotten_the_older_counts)
{
	struct wire_node_reply reply;

	append_many(&extent, 2);
	cr_assert_eq(rig_freeze(rig, &extent, 6, NULL), 0); /* generation 1: copy 1 */
	cr_assert_eq(rig_freeze(rig, &extent, 7, NULL), 0); /* generation 2: copy 0 */
	rig_kill(rig, false);
	disk_sim_rot(rig->disk, ONDISK_SLOTS_OFFSET + 4096 + 80, 1);
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &extent, 6, NULL), -ESTALE, "the fence is elsewhere");
	cr_assert_eq(rig_freeze(rig, &extent, 7, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 16384);
}

Test(recover, superblock_copy_lost)
{
	for (uint32_t copy = 0; copy < 2; copy++) {
		rig_kill(rig, false);
		disk_sim_rot(rig->disk, ondisk_super_offset(copy) + 50, 1);
		rig_up(rig);
		rig_kill(rig, false);
		disk_sim_rot(rig->disk, ondisk_super_offset(copy) + 50, 1);
	}
	cr_assert_eq(disk_sim_set_bad(rig->disk, ondisk_super_offset(0), 4096), 0);
	rig_up(rig);
}

Test(recover, fence_page_copy_lost)
{
	cr_assert_eq(rig_fence(rig, 0, 7), 0); /* generation 2: copy 0 */
	cr_assert_eq(rig_fence(rig, 1, 8), 0); /* generation 3: copy 1 */
	rig_kill(rig, false);
	disk_sim_rot(rig->disk, ondisk_fence_offset(0, 0) + 70, 1);
	rig_up(rig);
	cr_assert_eq(rig_fence(rig, 0, 6), -ESTALE);
	cr_assert_eq(rig_fence(rig, 1, 7), -ESTALE);
	cr_assert_eq(rig_fence(rig, 1, 9), 0);
	rig_kill(rig, false);
	rig_up(rig);
	cr_assert_eq(rig_fence(rig, 1, 8), -ESTALE);
}

Test(recover, epochs_of_extents_are_fences_too)
{
	struct rig_extent newer;

	/* The fence page says nothing of epoch 9; the slot does. */
	rig_extent_init(&newer, 3, 9, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &newer), 0);
	rig_kill(rig, false);
	rig_up(rig);
	cr_assert_eq(rig_freeze(rig, &extent, 8, NULL), -ESTALE);
	rig_extent_fini(&newer);
}

Test(recover, stop_before_it_is_ready)
{
	rig_kill(rig, false);
	rig_start_begin(rig);
	rig_run(rig, NUM_US(300));
	cr_assert_eq(rig_stop(rig), 0);
	rig_kill(rig, false);
	rig_up(rig);
}

/* ---- loops ---- */

/* Each allocation of a start fails: refused with a reason, nothing leaks (under asan). */
Test(recover, every_allocation_fails)
{
	append_many(&extent, 2);
	rig->options.direct = NODE_DIRECT_TRUSTED; /* so that it has all that a node may have */
	for (uint32_t n = 1;; n++) {
		struct node_options options = { .sim_host = rig->node_host,
			.listen = "sim://node:1",
			.device_bytes = NUM_MIB(24) };
		struct node *node;
		int rc;

		rig_kill(rig, false);
		/* node_create itself. */
		rig->node_loop = sim_loop_create(rig->world, "node");
		sim_host_start(rig->node_host);
		options.loop = rig->node_loop;
		cr_assert_eq(disk_sim_open(rig->disk, rig->node_loop, &options.disk), 0);
		sn_alloc_fail_at(n);
		node = node_create(&options);
		if (node == NULL) {
			cr_assert_eq(errno, ENOMEM);
			disk_close(options.disk);
			loop_destroy(rig->node_loop);
			rig->node_loop = NULL;
			sim_host_kill(rig->node_host, SIM_DEATH_RESET);
			sn_alloc_fail_at(0);
			continue;
		}
		node_destroy(node);
		sim_host_kill(rig->node_host, SIM_DEATH_RESET);
		loop_destroy(rig->node_loop);
		rig->node_loop = NULL;
		/* The whole start. */
		sn_alloc_fail_at(n);
		rc = rig_start(rig);
		sn_alloc_fail_at(0);
		cr_assert(rc == 0 || rc == -ENOMEM, "n=%u rc=%d", n, rc);
		if (rc == 0)
			break;
		cr_assert_not_null(strstr(rig->ready_reason, "memory"));
	}
	cr_assert_eq(rig_connect(rig), 0);
	cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
}

/* The same for what the port allocates. */
Test(recover, every_allocation_of_the_port_fails)
{
	append_many(&extent, 2);
	for (uint32_t n = 1;; n++) {
		int rc;

		rig_kill(rig, false);
		split_alloc_fail_at(n);
		rc = rig_start(rig);
		split_alloc_fail_at(0);
		cr_assert(rc == 0 || rc == -ENOMEM, "n=%u rc=%d", n, rc);
		if (rc == 0)
			break;
	}
	cr_assert_eq(rig_connect(rig), 0);
	cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
}

/* Each read of a start fails: what is told is true, or there is no answer. */
Test(recover, every_read_fails)
{
	append_many(&extent, 3);
	for (uint64_t n = 1;; n++) {
		struct disk_fault *fault = disk_sim_fault(rig->disk);
		struct wire_node_reply reply;
		uint64_t seen;
		int rc;

		rig_kill(rig, false);
		*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_READ),
			.at_count = n,
			.verdict = DISK_FAULT_FAIL,
			.rc = -EIO };
		rc = rig_start(rig);
		seen = fault->seen_count;
		*fault = (struct disk_fault){ 0 };
		cr_assert_eq(rc, 0, "one failed read is always survived");
		cr_assert_eq(rig_connect(rig), 0);
		rc = rig_freeze(rig, &extent, 5, &reply);
		if (rc == 0 && (reply.flags & WIRE_FLAG_DAMAGED) == 0)
			cr_assert_eq(reply.offset_bytes, extent.acked_bytes, "n=%lu",
			    (unsigned long)n);
		rig_kill(rig, false);
		if (seen < n)
			return;
		/* As before: open, with its chain. */
		teardown();
		setup();
		append_many(&extent, 3);
	}
}

/* A workload, killed at each of its requests to the disk, with a sampled loss. */
static void
crash_at(uint64_t n, uint64_t seed, bool *ret_is_over)
{
	struct rig_extent e[3];
	struct rig_call *calls[12];
	struct disk_fault *fault;
	uint32_t count = 0;
	uint64_t freed = 0;

	rig = rig_create(&(struct rig_options){ .seed = seed * 100000 + n });
	rig_up(rig);
	for (uint32_t i = 0; i < 3; i++) {
		rig_extent_init(&e[i], i, 1, 1, (enum extent_kind)(i + 1));
		cr_assert_eq(rig_extent_create(rig, &e[i]), 0);
	}
	cr_assert_eq(rig_append(rig, &e[0], 2), 0);
	fault = disk_sim_fault(rig->disk);
	*fault =
	    (struct disk_fault){ .ops = DISK_FAULT_ANY, .at_count = n, .verdict = DISK_FAULT_HALT };
	for (uint32_t i = 0; i < 12; i++) {
		calls[count++] = rig_append_post(rig, &e[i % 3], 1 + i % 2);
		rig_run(rig, rig_random(rig, NUM_US(200)));
	}
	rig_run(rig, NUM_MS(20));
	*ret_is_over = !fault->is_hit;
	for (uint32_t i = 0; i < count; i++)
		if (calls[i]->is_answered && calls[i]->rc == 0)
			e[i % 3].acked_bytes =
			    num_max(e[i % 3].acked_bytes, calls[i]->reply.offset_bytes);
	*fault = (struct disk_fault){ 0 };
	rig_kill(rig, true);
	for (uint32_t i = 0; i < count; i++)
		rig_done(calls[i]);
	rig_up(rig);
	for (uint32_t i = 0; i < 3; i++) {
		struct wire_node_reply reply;

		cr_assert_eq(rig_freeze(rig, &e[i], 2, &reply), 0);
		cr_assert_geq(reply.offset_bytes, e[i].acked_bytes, "n=%lu seed=%lu",
		    (unsigned long)n, (unsigned long)seed);
		cr_assert(rig_is_boundary(&e[i], reply.offset_bytes));
		cr_assert_eq(reply.flags, 0);
		cr_assert(rig_extent_matches(rig, &e[i], reply.offset_bytes));
		freed += reply.offset_bytes;
		rig_extent_fini(&e[i]);
	}
	rig_destroy(rig);
	(void)freed;
}

Test(recover_crash, killed_at_each_request)
{
	for (uint64_t seed = 0; seed < 6; seed++) {
		bool is_over = false;

		for (uint64_t n = 1; !is_over; n++)
			crash_at(n, seed, &is_over);
	}
}

Test(recover, killed_in_a_start)
{
	append_many(&extent, 3);
	for (uint64_t n = 1;; n++) {
		struct disk_fault *fault = disk_sim_fault(rig->disk);
		bool is_hit;

		rig_kill(rig, true);
		*fault = (struct disk_fault){ .ops = DISK_FAULT_ANY,
			.at_count = n,
			.verdict = DISK_FAULT_HALT };
		rig_start_begin(rig);
		rig_run(rig, NUM_MS(50));
		is_hit = fault->is_hit;
		*fault = (struct disk_fault){ 0 };
		rig_kill(rig, true);
		rig_up(rig);
		cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
		if (!is_hit)
			return;
	}
}

Test(recover, failed_flush_of_a_start_makes_it_read_only)
{
	struct disk_fault *fault = disk_sim_fault(rig->disk);

	append_many(&extent, 3);
	rig_kill(rig, false);
	*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_FLUSH),
		.at_count = 1,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
	rig_up(rig);
	cr_assert(node_is_read_only(rig->node));
	cr_assert_eq(rig_freeze(rig, &extent, 6, NULL), -EROFS);
}
