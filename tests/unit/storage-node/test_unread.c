/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_unread.c -- copies that their disk does not read while the node starts, and reads later
 *
 * What reads on is built in with a planted bug, unread_left, that no seed of the simulator comes upon.
 */
#define CLEAVE_MUTANTS
#include "storage-node/verify.c"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/wire.h"
#include "unit/extent_fixture.h"

struct mutant_set mutants_on;

TestSuite(unread, .init = setup, .fini = teardown);

/* Reads of the extent's data fail, those of its pages do not. */
static void
reads_fail(bool do_fail)
{
	uint64_t first_bytes = rig_data_offset(rig, 0, 0);

	disk_sim_set_faults(rig->disk,
	    &(struct disk_sim_faults){ .read_fails = do_fail ? 1000 : 0,
		.first_bytes = first_bytes,
		.end_bytes = first_bytes + rig_capacity(rig) });
}

static void
restart(bool do_fail)
{
	rig_kill(rig, false);
	reads_fail(do_fail);
	rig_up(rig);
}

static void
append_many(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(rig_append(rig, &extent, 1), 0);
}

static struct wire_node_reply
freeze(uint32_t epoch)
{
	struct wire_node_reply reply = { 0 };

	cr_assert_eq(rig_freeze(rig, &extent, epoch, &reply), 0);
	return reply;
}

static struct wire_extent_entry
listed(void)
{
	struct wire_extent_entry entry = { 0 };

	cr_assert_eq(rig_list(rig, 3, &entry, 1), 1);
	return entry;
}

Test(unread, a_freeze_looks_again)
{
	struct wire_node_reply reply;

	append_many(3);
	restart(true);
	for (uint32_t i = 0; i < 2; i++)
		cr_assert_eq(freeze(6).flags, WIRE_FLAG_DAMAGED);
	reads_fail(false);
	reply = freeze(6);
	cr_assert_eq(reply.flags, 0);
	cr_assert_eq(reply.offset_bytes, extent.end_bytes);
	cr_assert_eq(reply.chain_crc, extent.end_crc);
	cr_assert_eq(rig_cut(rig, &extent, 6, extent.end_bytes), 0);
	cr_assert(rig_extent_matches(rig, &extent, extent.end_bytes));
}

/* An append that was killed anywhere: what a freeze tells of it later outlives a power cut. */
Test(unread, a_length_that_is_told_is_durable)
{
	for (uint64_t wait_ns = NUM_US(10); wait_ns < NUM_US(600); wait_ns += NUM_US(10)) {
		uint64_t told_bytes;

		append_many(1);
		rig_append_post(rig, &extent, 1);
		rig_run(rig, wait_ns);
		restart(true);
		cr_assert_eq(freeze(6).flags, WIRE_FLAG_DAMAGED);
		reads_fail(false);
		told_bytes = freeze(6).offset_bytes;
		cr_assert_geq(told_bytes, extent.acked_bytes);
		rig_kill(rig, true);
		rig_up(rig);
		cr_assert_eq(freeze(6).offset_bytes, told_bytes);
		teardown();
		setup();
	}
}

/* A batch, and what it may have acknowledged behind it: a mark that is not below the end counts. */
static void
append_marked(uint64_t mark_bytes)
{
	uint64_t offset_bytes = extent.end_bytes;
	uint32_t bytes;
	const uint8_t *batch = rig_batch(rig, &extent, 1, mark_bytes, &bytes);

	cr_assert_eq(rig_call_rc(rig,
			 &(struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
			     .id = extent.id,
			     .kind = extent.kind,
			     .offset_bytes = offset_bytes,
			     .length_bytes = bytes,
			     .epoch = extent.epoch },
			 batch, bytes, NULL),
	    0);
}

Test(unread, rot_that_is_read_later_is_damage)
{
	struct wire_node_reply reply;

	for (uint32_t i = 0; i < 4; i++)
		append_marked(extent.end_bytes);
	restart(true);
	cr_assert_eq(freeze(6).flags, WIRE_FLAG_DAMAGED);
	reads_fail(false);
	disk_sim_rot(rig->disk, rig_data_offset(rig, 0, 8192 + 5000), 3);
	reply = freeze(6);
	cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
	cr_assert_eq(reply.offset_bytes, 8192);
	cr_assert_eq(reply.length_bytes, 3 * 8192, "the mark of the last one");
}

/* Nothing is in it, which nobody knew when it was frozen. */
Test(unread, an_empty_copy_is_whole_at_the_next_start)
{
	restart(true);
	cr_assert_eq(freeze(6).flags, WIRE_FLAG_DAMAGED);
	restart(false);
	cr_assert_eq(freeze(7).flags, 0);
	cr_assert_eq(rig_cut(rig, &extent, 7, 0), 0);
}

Test(unread, the_length_of_an_earlier_freeze_is_not_forgotten)
{
	append_many(3);
	cr_assert_eq(freeze(6).offset_bytes, extent.end_bytes);
	restart(true);
	cr_assert_eq(freeze(7).flags, WIRE_FLAG_DAMAGED);
	disk_sim_rot(rig->disk, rig_data_offset(rig, 0, 16384 + 5000), 3);
	reads_fail(false);
	cr_assert_eq(freeze(7).flags, WIRE_FLAG_DAMAGED);
	restart(false);
	cr_assert_eq(freeze(7).flags, WIRE_FLAG_DAMAGED);
}

/* A shard's owner asks for nothing else where a node calls a copy damaged. */
Test(unread, a_verification_reads_on)
{
	struct wire_node_reply reply;

	append_many(3);
	restart(true);
	cr_assert_eq(rig_verify(rig, &extent, NULL), -EIO);
	cr_assert_eq(listed().flags, WIRE_FLAG_DAMAGED);
	reads_fail(false);
	cr_assert_eq(rig_verify(rig, &extent, &reply), 0);
	cr_assert_eq(reply.flags, 0);
	cr_assert_eq(reply.offset_bytes, extent.end_bytes);
	cr_assert_eq(listed().flags, 0);
	cr_assert_eq(listed().length_bytes, extent.end_bytes);
	cr_assert(rig_extent_matches(rig, &extent, extent.end_bytes));
	cr_assert_eq(rig_append(rig, &extent, 1), -EACCES, "it is not open again");
}

Test(unread, a_truncation_reads_as_far_as_it_goes)
{
	uint64_t end_bytes;

	append_many(2);
	end_bytes = extent.end_bytes;
	append_many(1);
	restart(true);
	cr_assert_eq(rig_cut(rig, &extent, 6, end_bytes), -EUCLEAN);
	reads_fail(false);
	cr_assert_eq(rig_cut(rig, &extent, 6, rig_capacity(rig) + BATCH_ALIGN), -ERANGE);
	cr_assert_eq(rig_cut(rig, &extent, 6, end_bytes + BATCH_ALIGN), -EINVAL, "no boundary");
	cr_assert_eq(rig_cut(rig, &extent, 6, end_bytes + 2 * 8192), -EUCLEAN, "it is not there");
	cr_assert_eq(rig_cut(rig, &extent, 6, end_bytes), 0);
	for (uint32_t i = 0; i < 2; i++) {
		cr_assert_eq(listed().flags, 0);
		cr_assert_eq(listed().length_bytes, end_bytes);
		cr_assert(rig_extent_matches(rig, &extent, end_bytes));
		restart(false);
	}
}

/* Each moment of the verification: the truncation comes in the middle of it, and knows where it ends. */
Test(unread, a_truncation_during_a_verification)
{
	for (uint64_t wait_ns = 0; wait_ns < NUM_MS(3); wait_ns += NUM_US(20)) {
		struct rig_call *verify;
		int rc;

		if (wait_ns > 0) {
			teardown();
			setup();
		}
		append_many(3);
		restart(true);
		reads_fail(false);
		verify = rig_verify_post(rig, &extent);
		rig_run(rig, wait_ns);
		cr_assert_eq(rig_cut(rig, &extent, 6, 2 * 8192), 0);
		rc = rig_wait(verify);
		cr_assert(rc == 0 || rc == -EBUSY, "%d", rc);
		rig_done(verify);
		cr_assert_eq(listed().flags, 0);
		cr_assert_eq(listed().length_bytes, 2 * 8192);
		cr_assert_eq(rig_verify(rig, &extent, NULL), 0);
	}
}

Test(unread, a_planted_bug_leaves_what_was_not_read)
{
	append_many(3);
	restart(true);
	reads_fail(false);
	mutant_set_add(&mutants_on, MUTANT_unread_left);
	cr_assert_eq(freeze(6).flags, WIRE_FLAG_DAMAGED);
	(void)rig_verify(rig, &extent, NULL);
	cr_assert_eq(listed().flags, WIRE_FLAG_DAMAGED);
}
