/* SPDX-License-Identifier: Apache-2.0 */
/* test_extent.c -- slots: created, kept back, deleted, used again, zeroed ahead */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/num.h"
#include "cleave/disk.h"
#include "storage-node/extent.h"
#include "storage-node/node_state.h"
#include "support/node_rig.h"

static struct node_rig *rig;

static void
make(const struct rig_options *options)
{
	rig = rig_create(options);
	rig_up(rig);
}

static void
setup(void)
{
	make(NULL);
}

static void
teardown(void)
{
	rig_destroy(rig);
}

TestSuite(extent, .init = setup, .fini = teardown);

static int
create(uint32_t counter, enum extent_kind kind)
{
	struct rig_extent e;
	int rc;

	rig_extent_init(&e, 1, 1, counter, kind);
	rc = rig_extent_create(rig, &e);
	rig_extent_fini(&e);
	return rc;
}

Test(extent, create_tells_incarnation_and_capacity)
{
	struct wire_node_reply reply;
	struct wire_node request = { .opcode = WIRE_EXTENT_CREATE,
		.id = { 1, 1, 1 },
		.kind = EXTENT_LOG,
		.epoch = 1 };

	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 1);
	cr_assert_eq(reply.length_bytes, rig_capacity(rig));
	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, &reply), -EEXIST);
	request.id.counter = 2;
	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 2);
	/* An id of the future makes no sense; a copy of an older epoch's extent does. */
	request.id = (struct extent_id){ 1, 2, 3 };
	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, &reply), -EINVAL);
	request.id = (struct extent_id){ 1, 1, 3 };
	request.epoch = 9;
	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, &reply), 0);
}

Test(extent, created_under_a_newer_epoch_takes_its_appends)
{
	struct rig_extent e;

	rig_extent_init(&e, 1, 1, 1, EXTENT_LOG);
	e.epoch = 4;
	cr_assert_eq(rig_extent_create(rig, &e), 0);
	cr_assert_eq(rig_append(rig, &e, 1), 0);
	cr_assert_eq(rig_cut(rig, &e, 4, e.end_bytes), 0);
	rig_extent_fini(&e);
}

Test(extent, survives_once_created)
{
	for (uint32_t i = 1; i <= 5; i++)
		cr_assert_eq(create(i, EXTENT_LOG), 0);
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert_eq(node_extent_count(rig->node), 5);
	cr_assert_eq(create(3, EXTENT_LOG), -EEXIST);
	cr_assert_eq(create(6, EXTENT_LOG), 0);
}

Test(extent, space_is_kept_back_by_kind)
{
	uint32_t counter = 1;

	/* 16 slots: 3 kept back from logs, 2 of them from runs. */
	for (int life = 0; life < 2; life++) {
		while (create(counter, EXTENT_LOG) == 0)
			counter++;
		cr_assert_eq(create(counter, EXTENT_LOG), -ENOSPC);
		cr_assert_eq(node_slots_free(rig->node), 3);
		rig_kill(rig, true);
		rig_up(rig);
	}
	cr_assert_eq(create(counter++, EXTENT_RUN), 0);
	cr_assert_eq(create(counter, EXTENT_RUN), -ENOSPC);
	cr_assert_eq(create(counter, EXTENT_LOG), -ENOSPC);
	cr_assert_eq(create(counter++, EXTENT_MANIFEST), 0);
	cr_assert_eq(create(counter++, EXTENT_MANIFEST), 0);
	cr_assert_eq(create(counter, EXTENT_MANIFEST), -ENOSPC);
	cr_assert_eq(counter, 17);
}

/* And leaves the last slot: a take-over may need a manifest. */
static void
fill_with_tombstones(uint32_t slot_count)
{
	struct wire_node request = { .opcode = WIRE_EXTENT_CREATE,
		.kind = EXTENT_LOG,
		.flags = WIRE_FLAG_RESERVE,
		.epoch = 1 };
	struct wire_node_reply reply;
	uint32_t counter = 1;

	rig_destroy(rig);
	make(&(struct rig_options){ .slot_count = slot_count });
	while (create(counter, EXTENT_LOG) == 0)
		counter++;
	while (create(counter, EXTENT_RUN) == 0)
		counter++;
	request.id = (struct extent_id){ 1, 1, counter };
	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, &reply), 0);
	do {
		request.id.counter++;
	} while (rig_call_rc(rig, &request, NULL, 0, &reply) == 0);
	cr_assert_geq(node_slots_free(rig->node), 1, "of %u slots", slot_count);
	cr_assert_eq(create(request.id.counter + 1, EXTENT_MANIFEST), 0);
}

Test(extent, a_log_for_tombstones_may_take_what_is_kept_from_runs)
{
	for (uint32_t slot_count = 16; slot_count <= 80; slot_count++)
		fill_with_tombstones(slot_count);
}

Test(extent, full_disk_reads_and_deletes)
{
	struct rig_extent e;
	uint32_t counter = 2;

	rig_extent_init(&e, 1, 1, 1, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &e), 0);
	cr_assert_eq(rig_append(rig, &e, 1), 0);
	while (create(counter, EXTENT_MANIFEST) == 0)
		counter++;
	cr_assert_eq(rig_append(rig, &e, 1), 0);
	cr_assert(rig_extent_matches(rig, &e, e.end_bytes));
	cr_assert_eq(rig_delete(rig, &e, 1), 0);
	cr_assert_eq(create(counter, EXTENT_LOG), -ENOSPC);
	cr_assert_eq(create(counter, EXTENT_MANIFEST), 0);
	rig_extent_fini(&e);
}

Test(extent, same_name_avoids_its_former_slot)
{
	struct rig_extent e;
	uint32_t slot;

	rig_extent_init(&e, 1, 1, 1, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &e), 0);
	slot = sn_extent_find(rig->node, &e.id)->slot.slot_index;
	cr_assert_eq(rig_delete(rig, &e, 1), 0);
	cr_assert_eq(rig_extent_create(rig, &e), 0);
	cr_assert_neq(sn_extent_find(rig->node, &e.id)->slot.slot_index, slot);
	rig_extent_fini(&e);
}

Test(extent, delete_waits_for_reads)
{
	struct rig_extent e, next;
	struct rig_call *reads[8], *delete;
	uint8_t *expected;

	rig_destroy(rig);
	make(&(struct rig_options){ .slot_count = 1 });
	rig_extent_init(&e, 1, 1, 1, EXTENT_MANIFEST);
	rig_extent_init(&next, 1, 1, 2, EXTENT_MANIFEST);
	cr_assert_eq(rig_extent_create(rig, &e), 0);
	cr_assert_eq(rig_append(rig, &e, 3), 0);
	expected = malloc(4096);
	memcpy(expected, e.data, 4096);
	disk_sim_set_slowness(rig->disk, 20);
	for (int i = 0; i < 8; i++)
		reads[i] = rig_post(rig,
		    &(struct wire_node){ .opcode = WIRE_EXTENT_READ,
			.id = e.id,
			.length_bytes = 4096 },
		    NULL, 0);
	delete = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_DELETE,
		.id = e.id,
		.offset_bytes = e.incarnation,
		.epoch = 1 },
	    NULL, 0);
	cr_assert_eq(rig_wait(delete), 0);
	for (int i = 0; i < 8; i++) {
		cr_assert(reads[i]->is_answered);
		cr_assert_eq(reads[i]->rc, 0);
		cr_assert_arr_eq(reads[i]->payload, expected, 4096);
		rig_done(reads[i]);
	}
	rig_done(delete);
	cr_assert_eq(rig_extent_create(rig, &next), 0);
	free(expected);
	rig_extent_fini(&e);
	rig_extent_fini(&next);
}

static void
fail_writes(uint32_t count)
{
	cr_assert_eq(disk_sim_add_rule(rig->disk,
			 &(struct disk_sim_rule){ .ops = DISK_FAULT_OP(DISK_WRITE),
			     .rc = -EIO,
			     .count = count }),
	    0);
}

Test(extent, create_that_fails_takes_no_slot)
{
	fail_writes(1);
	cr_assert_eq(create(1, EXTENT_LOG), -EIO);
	cr_assert_eq(node_slots_free(rig->node), 16);
	cr_assert_eq(create(1, EXTENT_LOG), 0, "elsewhere");
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert_eq(node_extent_count(rig->node), 1, "one of the two, the younger");
	cr_assert_eq(node_slots_free(rig->node), 15);
}

/* A full thin pool, or a full file system below the disk's file, that somebody extends. */
Test(extent, disk_that_fails_writes_for_a_while_loses_no_slot)
{
	uint32_t counter = 0;

	fail_writes(0);
	while (++counter <= 40)
		cr_assert_eq(create(counter, EXTENT_MANIFEST), -EIO);
	cr_assert_eq(rig->node->bad_count, 0);
	cr_assert_geq(rig->node->counters.disk_errors, 40);
	disk_sim_clear_rules(rig->disk);
	for (uint32_t i = 0; i < 16; i++)
		cr_assert_eq(create(++counter, EXTENT_MANIFEST), 0);
	cr_assert_eq(create(++counter, EXTENT_MANIFEST), -ENOSPC);
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert_eq(node_extent_count(rig->node), 16);
	cr_assert_eq(node_slots_free(rig->node), 0);
}

/* A bad place would fail each create, were its slot among the first. */
Test(extent, slot_whose_create_failed_is_the_last_that_is_tried)
{
	struct rig_extent e;
	uint32_t bad_slot = UINT32_MAX;

	rig_extent_init(&e, 1, 1, 1, EXTENT_MANIFEST);
	fail_writes(1);
	cr_assert_eq(rig_extent_create(rig, &e), -EIO);
	for (uint32_t i = 0; i < rig->node->super.slot_count; i++) {
		if (!rig->node->extents[i].is_virgin)
			bad_slot = i;
	}
	rig_extent_fini(&e);
	for (uint32_t i = 0; i < 15; i++) {
		rig_extent_init(&e, 1, 1, i + 2, EXTENT_MANIFEST);
		cr_assert_eq(rig_extent_create(rig, &e), 0);
		cr_assert_neq(sn_extent_find(rig->node, &e.id)->slot.slot_index, bad_slot);
		rig_extent_fini(&e);
	}
	rig_extent_init(&e, 1, 1, 20, EXTENT_MANIFEST);
	cr_assert_eq(rig_extent_create(rig, &e), 0);
	cr_assert_eq(sn_extent_find(rig->node, &e.id)->slot.slot_index, bad_slot);
	rig_extent_fini(&e);
}

/* Places that fail for good: logs do not fill the good ones until these are all that is kept back for a manifest. */
Test(extent, slots_whose_creates_fail_are_no_reserve)
{
	uint32_t counter = 0, reserve, good;

	for (uint32_t i = 0; i < 3; i++) {
		fail_writes(1);
		cr_assert_eq(create(++counter, EXTENT_MANIFEST), -EIO);
	}
	for (uint32_t i = 0; i < rig->node->super.slot_count; i++) {
		if (rig->node->extents[i].is_failed)
			cr_assert_eq(disk_sim_add_rule(rig->disk,
					 &(struct disk_sim_rule){ .ops = DISK_FAULT_OP(DISK_WRITE),
					     .rc = -EIO,
					     .offset_bytes =
						 ondisk_slot_offset(&rig->node->super, i),
					     .bytes = ONDISK_PAGE_BYTES }),
			    0);
	}
	reserve = sn_extent_reserve(rig->node, EXTENT_LOG);
	good = rig->node->free_count - 3;
	for (uint32_t i = reserve; i < good; i++)
		cr_assert_eq(create(++counter, EXTENT_LOG), 0);
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(create(++counter, EXTENT_LOG), -EIO, "a slot that has failed, again");
	for (uint32_t i = 0; i < reserve; i++)
		cr_assert_eq(create(++counter, EXTENT_MANIFEST), 0, "what is kept back is good");
	cr_assert_eq(create(++counter, EXTENT_MANIFEST), -EIO);
}

/* The slot holds the bytes of the extent before the one whose create failed. */
Test(extent, slot_whose_create_failed_is_not_given_to_the_extent_before)
{
	struct rig_extent first, other;

	rig_destroy(rig);
	make(&(struct rig_options){ .slot_count = 1 });
	rig_extent_init(&first, 1, 1, 1, EXTENT_MANIFEST);
	rig_extent_init(&other, 1, 1, 2, EXTENT_MANIFEST);
	cr_assert_eq(rig_extent_create(rig, &first), 0);
	cr_assert_eq(rig_append(rig, &first, 3), 0);
	cr_assert_eq(rig_delete(rig, &first, 1), 0);
	for (uint32_t i = 0; i < 2; i++) {
		fail_writes(1);
		cr_assert_eq(rig_extent_create(rig, &other), -EIO);
		cr_assert_eq(rig_extent_create(rig, &first), -EBUSY);
	}
	rig_extent_fini(&first);
	rig_extent_init(&first, 1, 1, 3, EXTENT_MANIFEST);
	cr_assert_eq(rig_extent_create(rig, &first), 0);
	rig_extent_fini(&first);
	rig_extent_fini(&other);
}

Test(extent, list_pages_through_all)
{
	static struct wire_extent_entry entries[4000];
	uint32_t count;

	rig_destroy(rig);
	make(&(struct rig_options){ .slot_count = 3000 });
	for (uint32_t i = 0; i < 2000; i++) {
		struct wire_node request = { .opcode = WIRE_EXTENT_CREATE,
			.id = { i % 3, 1, i },
			.kind = EXTENT_LOG,
			.epoch = 1 };

		cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, NULL), 0);
	}
	cr_assert_eq(rig_list(rig, UINT32_MAX, entries, 4000), 2000);
	for (uint32_t i = 0; i < 2000; i++) {
		struct extent_id id = extent_id_unpack(entries[i].extent);

		cr_assert_eq(id.counter, i);
		cr_assert_eq(entries[i].incarnation, i + 1);
	}
	count = (uint32_t)rig_list(rig, 1, entries, 4000);
	cr_assert_eq(count, 667);
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(extent_id_unpack(entries[i].extent).shard, 1);
	cr_assert_eq(rig_list(rig, 77, entries, 4000), 0);
}

Test(extent, zeroes_one_slot_ahead_of_logs)
{
	struct rig_extent e;
	uint64_t flushes;

	rig_destroy(rig);
	make(&(struct rig_options){ .must_prewrite = true, .write_cache = NODE_CACHE_PROTECTED });
	rig_run(rig, NUM_S(1));
	cr_assert_eq(node_counters(rig->node)->zeroed_bytes, rig_capacity(rig));
	cr_assert_eq(node_slots_free(rig->node), 16);
	rig_extent_init(&e, 1, 1, 1, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &e), 0);
	flushes = node_counters(rig->node)->flushes;
	cr_assert_eq(rig_append(rig, &e, 1), 0);
	cr_assert_eq(node_counters(rig->node)->flushes, flushes, "its blocks are written");
	rig_run(rig, NUM_S(1));
	cr_assert_eq(node_counters(rig->node)->zeroed_bytes, 2 * rig_capacity(rig));
	/* An idle node sleeps. */
	rig_run(rig, NUM_S(60));
	cr_assert_eq(node_counters(rig->node)->zeroed_bytes, 2 * rig_capacity(rig));
	cr_assert_eq(rig_stop(rig), 0);
	rig_extent_fini(&e);
}

Test(extent, blocks_that_the_disk_calls_written_are_neither_zeroed_nor_flushed)
{
	struct rig_extent e;
	uint64_t flushes;

	rig_destroy(rig);
	make(&(struct rig_options){ .must_prewrite = true,
	    .is_written_ahead = true,
	    .write_cache = NODE_CACHE_PROTECTED });
	for (uint32_t i = 1; i <= 3; i++) {
		rig_extent_init(&e, 1, 1, i, EXTENT_LOG);
		flushes = node_counters(rig->node)->flushes;
		cr_assert_eq(rig_extent_create(rig, &e), 0);
		cr_assert_gt(node_counters(rig->node)->flushes, flushes,
		    "what it says may be in memory alone");
		flushes = node_counters(rig->node)->flushes;
		cr_assert_eq(rig_append(rig, &e, 1), 0);
		cr_assert_eq(node_counters(rig->node)->flushes, flushes);
		rig_extent_fini(&e);
	}
	rig_run(rig, NUM_S(1));
	cr_assert_eq(node_counters(rig->node)->zeroed_bytes, 0);
	cr_assert_eq(node_slots_free(rig->node), 13);
}

/* A node that starts knows nothing of what the one before it has written. */
Test(extent, a_used_slot_is_flushed_unless_the_disk_calls_it_written)
{
	for (uint32_t is_written = 0; is_written < 2; is_written++) {
		struct rig_extent e, f;
		uint64_t flushes;

		rig_destroy(rig);
		make(&(struct rig_options){ .must_prewrite = true,
		    .write_cache = NODE_CACHE_PROTECTED });
		rig_run(rig, NUM_S(1));
		rig_extent_init(&e, 1, 1, 1, EXTENT_LOG);
		cr_assert_eq(rig_extent_create(rig, &e), 0);
		cr_assert_eq(rig_delete(rig, &e, 1), 0);
		rig_kill(rig, false);
		disk_sim_set_written_ahead(rig->disk, is_written == 1);
		rig_up(rig);
		rig_run(rig, NUM_S(1));
		rig_extent_init(&f, 1, 1, 2, EXTENT_LOG);
		cr_assert_eq(rig_extent_create(rig, &f), 0);
		flushes = node_counters(rig->node)->flushes;
		cr_assert_eq(rig_append(rig, &f, 1), 0);
		cr_assert_eq(node_counters(rig->node)->flushes, flushes + (is_written == 0));
		rig_extent_fini(&e);
		rig_extent_fini(&f);
	}
}

/* Blocks written ahead are not when a copy of the file has them, too: they are written anew. */
Test(extent, blocks_shared_with_a_copy_of_the_file_are_flushed)
{
	rig_destroy(rig);
	make(&(struct rig_options){ .must_prewrite = true,
	    .is_written_ahead = true,
	    .write_cache = NODE_CACHE_PROTECTED });
	for (uint32_t round = 0; round < 3; round++) {
		bool is_shared = round == 1;
		struct rig_extent e;
		uint64_t flushes;

		disk_sim_set_shared(rig->disk, is_shared);
		disk_sim_set_written_ahead(rig->disk, !is_shared);
		rig_extent_init(&e, 1, 1, round + 1, EXTENT_LOG);
		cr_assert_eq(rig_extent_create(rig, &e), 0);
		flushes = node_counters(rig->node)->flushes;
		cr_assert_eq(rig_append(rig, &e, 1), 0);
		cr_assert_eq(node_counters(rig->node)->flushes, flushes + is_shared);
		cr_assert_eq(node_counters(rig->node)->shared_slots, round > 0);
		/* The slot that was known as written is the one used again. */
		cr_assert_eq(rig_delete(rig, &e, 1), 0);
		rig_extent_fini(&e);
	}
}

Test(extent, blocks_never_written_are_flushed_in_any_case)
{
	struct rig_extent e;
	uint64_t flushes;

	rig_destroy(rig);
	make(&(struct rig_options){ .slot_count = 2,
	    .must_prewrite = true,
	    .write_cache = NODE_CACHE_PROTECTED });
	rig_extent_init(&e, 1, 1, 1, EXTENT_MANIFEST);
	cr_assert_eq(rig_extent_create(rig, &e), 0);
	flushes = node_counters(rig->node)->flushes;
	cr_assert_eq(rig_append(rig, &e, 1), 0);
	cr_assert_eq(node_counters(rig->node)->flushes, flushes + 1);
	rig_extent_fini(&e);
}

Test(extent, zeroing_that_fails_is_given_up)
{
	rig_destroy(rig);
	rig = rig_create(&(struct rig_options){ .must_prewrite = true });
	*disk_sim_fault(rig->disk) = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_WRITE),
		.at_count = 1,
		.is_sticky = true,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
	rig_up(rig);
	rig_run(rig, NUM_S(1));
	cr_assert_eq(node_slots_free(rig->node), 16);
	cr_assert_eq(node_counters(rig->node)->zeroed_bytes, 0);
	*disk_sim_fault(rig->disk) = (struct disk_fault){ 0 };
	cr_assert_eq(create(1, EXTENT_LOG), 0);
}
