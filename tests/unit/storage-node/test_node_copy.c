/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_node_copy.c -- a newer owner makes a copy of an old extent, and anything goes wrong
 *
 * The extent is of epoch 1; whoever copies it is of epoch 4. Until it is cut, a copy is something that
 * can be told from a whole one, refused to older owners, deleted by its incarnation and begun again.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleave/disk.h"
#include "support/node_rig.h"

#define OLD 1u
#define NEW 4u
#define BATCHES 4u

static struct node_rig *rig;
static struct rig_extent copy;

static void
setup_seed(uint64_t seed)
{
	uint32_t bytes;

	rig = rig_create(&(struct rig_options){ .seed = seed, .slot_count = 6 });
	rig_up(rig);
	/* Copies of other nodes, batch by batch. */
	rig_extent_init(&copy, 3, OLD, 7, EXTENT_LOG);
	copy.epoch = NEW;
	for (uint32_t i = 0; i < BATCHES; i++)
		(void)rig_batch(rig, &copy, 1 + i % 2, i > 1 ? 8192 : 0, &bytes);
}

static void
setup(void)
{
	setup_seed(1);
}

static void
teardown(void)
{
	rig_extent_fini(&copy);
	rig_destroy(rig);
}

TestSuite(node_copy, .init = setup, .fini = teardown);

static int
create(uint32_t epoch, uint64_t *ret_incarnation)
{
	struct wire_node_reply reply = { 0 };
	int rc = rig_call_rc(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_CREATE,
		.id = copy.id,
		.kind = copy.kind,
		.epoch = epoch },
	    NULL, 0, &reply);

	if (ret_incarnation != NULL)
		*ret_incarnation = reply.offset_bytes;
	return rc;
}

static int
append(uint32_t index, uint32_t epoch, uint16_t flags)
{
	return rig_call_rc(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
		.id = copy.id,
		.kind = copy.kind,
		.offset_bytes = copy.batches[index].offset_bytes,
		.length_bytes = copy.batches[index].bytes,
		.epoch = epoch,
		.flags = flags },
	    copy.data + copy.batches[index].offset_bytes, copy.batches[index].bytes, NULL);
}

static int delete (uint32_t epoch, uint64_t incarnation)
{
	return rig_call_rc(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_DELETE,
		.id = copy.id,
		.offset_bytes = incarnation,
		.epoch = epoch },
	    NULL, 0, NULL);
}

/* Returns the first error; *@ret_is_cut: the whole copy was answered for. */
static int
make_copy(uint32_t epoch, bool *ret_is_cut)
{
	int rc = create(epoch, NULL);

	*ret_is_cut = false;
	for (uint32_t i = 0; rc == 0 && i < BATCHES; i++)
		rc = append(i, epoch, 0);
	if (rc == 0)
		rc = rig_cut(rig, &copy, epoch, copy.end_bytes);
	*ret_is_cut = rc == 0;
	return rc;
}

static bool
find(struct wire_extent_entry *ret_entry)
{
	struct wire_extent_entry entries[8];
	int count = rig_list(rig, 3, entries, 8);

	cr_assert_geq(count, 0);
	for (int i = 0; i < count; i++)
		if (entries[i].extent == extent_id_pack(&copy.id)) {
			*ret_entry = entries[i];
			return true;
		}
	return false;
}

static void
expect_whole(void)
{
	struct wire_extent_entry entry;

	cr_assert(find(&entry));
	cr_assert_eq(entry.state, WIRE_EXTENT_SEALED);
	cr_assert_eq(entry.length_bytes, copy.end_bytes);
	cr_assert_eq(entry.flags, 0);
	cr_assert(rig_extent_matches(rig, &copy, copy.end_bytes));
	cr_assert_eq(rig_verify(rig, &copy, NULL), 0);
}

Test(node_copy, is_made_cut_and_survives)
{
	bool is_cut;

	cr_assert_eq(make_copy(NEW, &is_cut), 0);
	expect_whole();
	rig_kill(rig, true);
	rig_up(rig);
	expect_whole();
}

Test(node_copy, older_owners_have_nothing_to_say)
{
	for (int life = 0; life < 2; life++) {
		struct wire_extent_entry entry;

		if (life == 0)
			cr_assert_eq(create(NEW, NULL), 0);
		else
			rig_kill(rig, true), rig_up(rig);
		cr_assert(find(&entry));
		for (uint32_t epoch = OLD; epoch < NEW; epoch++) {
			cr_assert_eq(create(epoch, NULL), -ESTALE);
			cr_assert_eq(append(0, epoch, 0), -ESTALE);
			cr_assert_eq(append(0, epoch, WIRE_FLAG_RECOVERY), -ESTALE);
			cr_assert_eq(rig_freeze(rig, &copy, epoch, NULL), -ESTALE);
			cr_assert_eq(rig_cut(rig, &copy, epoch, 0), -ESTALE);
			cr_assert_eq(delete (epoch, entry.incarnation), -ESTALE, "%u", epoch);
		}
	}
	/* Other shards do not care. */
	cr_assert_eq(rig_fence(rig, 4, OLD), 0);
}

Test(node_copy, one_that_is_there_is_told_with_its_incarnation)
{
	uint64_t first, again;

	cr_assert_eq(create(NEW, &first), 0);
	cr_assert_eq(create(NEW, &again), -EEXIST);
	cr_assert_eq(again, first);
	cr_assert_eq(delete (NEW, first + 1), -ENOENT);
	cr_assert_eq(delete (NEW, first), 0);
	cr_assert_eq(create(NEW, &again), 0);
	cr_assert_gt(again, first);
	cr_assert_eq(delete (NEW, first), -ENOENT, "a delete that comes late");
}

Test(node_copy, unfinished_one_goes_on_after_a_restart_only_when_frozen)
{
	struct wire_node_reply reply;

	cr_assert_eq(create(NEW, NULL), 0);
	cr_assert_eq(append(0, NEW, 0), 0);
	cr_assert_eq(append(1, NEW, 0), 0);
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert_eq(append(2, NEW, 0), -EACCES);
	cr_assert_eq(append(2, NEW, WIRE_FLAG_RECOVERY), -EACCES);
	cr_assert_eq(rig_cut(rig, &copy, NEW, copy.end_bytes), -ERANGE);
	cr_assert_eq(rig_freeze(rig, &copy, NEW + 1, &reply), 0);
	cr_assert_eq(reply.offset_bytes, copy.batches[2].offset_bytes);
	for (uint32_t i = 2; i < BATCHES; i++)
		cr_assert_eq(append(i, NEW + 1, WIRE_FLAG_RECOVERY), 0);
	cr_assert_eq(rig_cut(rig, &copy, NEW + 1, copy.end_bytes), 0);
	expect_whole();
}

/* Begin again, whatever is left: by the same owner, or the next. */
static void
repair(uint32_t epoch)
{
	struct wire_extent_entry entry;
	uint64_t incarnation;
	bool is_cut;
	int rc = create(epoch, &incarnation);

	if (rc == -EEXIST) {
		cr_assert(find(&entry));
		cr_assert_eq(entry.incarnation, incarnation);
		cr_assert_eq(delete (epoch, incarnation), 0);
	} else {
		cr_assert_eq(rc, 0);
		cr_assert_eq(delete (epoch, incarnation), 0);
	}
	cr_assert_not(find(&entry));
	cr_assert_eq(make_copy(epoch, &is_cut), 0);
	expect_whole();
}

static void
crash_at(uint64_t seed, uint64_t n, bool is_power_loss, bool *ret_is_over)
{
	struct wire_extent_entry entry;
	struct disk_fault *fault;
	bool is_cut;

	setup_seed(seed * 1000 + n);
	fault = disk_sim_fault(rig->disk);
	*fault =
	    (struct disk_fault){ .ops = DISK_FAULT_ANY, .at_count = n, .verdict = DISK_FAULT_HALT };
	(void)make_copy(NEW, &is_cut);
	*ret_is_over = !fault->is_hit;
	*fault = (struct disk_fault){ 0 };
	rig_kill(rig, is_power_loss);
	rig_up(rig);
	/* A whole one, part of one that says so, or none. */
	if (is_cut)
		expect_whole();
	if (find(&entry)) {
		cr_assert_leq(entry.length_bytes, copy.end_bytes);
		cr_assert(rig_is_boundary(&copy, entry.length_bytes));
		cr_assert(rig_extent_matches(rig, &copy, entry.length_bytes));
		cr_assert_eq(entry.flags, 0);
		if (entry.state == WIRE_EXTENT_SEALED)
			expect_whole();
	}
	repair(NEW + (uint32_t)(n % 2));
	rig_kill(rig, true);
	rig_up(rig);
	expect_whole();
	teardown();
}

Test(node_copy_crash, killed_at_every_point_then_made_afresh)
{
	for (uint64_t seed = 0; seed < 6; seed++) {
		bool is_over = false;

		for (uint64_t n = 1; !is_over; n++)
			crash_at(seed, n, seed % 3 != 0, &is_over);
	}
}

/* Killed again while what the first crash left is deleted and begun again. */
Test(node_copy_crash, killed_again_while_it_is_made_afresh)
{
	for (uint64_t n = 1;; n++) {
		struct disk_fault *fault;
		uint64_t incarnation;
		bool is_cut, is_over;
		struct wire_extent_entry entry;

		setup_seed(77 + n);
		cr_assert_eq(create(NEW, NULL), 0);
		cr_assert_eq(append(0, NEW, 0), 0);
		rig_kill(rig, true);
		rig_up(rig);
		cr_assert_eq(create(NEW, &incarnation), -EEXIST);
		fault = disk_sim_fault(rig->disk);
		*fault = (struct disk_fault){ .ops = DISK_FAULT_ANY,
			.at_count = n,
			.verdict = DISK_FAULT_HALT };
		is_cut = false;
		if (delete (NEW, incarnation) == 0) {
			(void)make_copy(NEW, &is_cut);
			is_over = !fault->is_hit;
			*fault = (struct disk_fault){ 0 };
			rig_kill(rig, true);
			rig_up(rig);
			/* Extents that were deleted stay so, also under the same name. */
			if (find(&entry))
				cr_assert_gt(entry.incarnation, incarnation);
			if (is_cut)
				expect_whole();
		} else {
			is_over = false;
			*fault = (struct disk_fault){ 0 };
			rig_kill(rig, true);
			rig_up(rig);
		}
		repair(NEW + 1);
		teardown();
		if (is_over)
			return;
	}
}

Test(node_copy, each_write_and_flush_fails)
{
	for (enum disk_op op = DISK_WRITE; op <= DISK_FLUSH; op++)
		for (uint64_t n = 1;; n++) {
			struct disk_fault *fault = disk_sim_fault(rig->disk);
			struct wire_extent_entry entry;
			bool is_cut, is_over;

			*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(op),
				.at_count = n,
				.verdict = DISK_FAULT_FAIL,
				.rc = -EIO };
			(void)make_copy(NEW, &is_cut);
			is_over = !fault->is_hit;
			*fault = (struct disk_fault){ 0 };
			cr_assert_eq(is_cut, is_over);
			/* A failed copy is never taken for whole, before a restart or after. */
			if (!is_cut && find(&entry))
				cr_assert_neq(entry.state, WIRE_EXTENT_SEALED);
			if (op == DISK_WRITE) {
				repair(NEW);
				rig_kill(rig, true);
				rig_up(rig);
				expect_whole();
			}
			teardown();
			setup_seed(n);
			if (is_over)
				break;
		}
}

Test(node_copy, freeze_of_what_is_not_here_fences_all_the_same)
{
	for (int life = 0; life < 2; life++) {
		if (life == 0)
			cr_assert_eq(rig_freeze(rig, &copy, NEW, NULL), -ENOENT);
		else
			rig_kill(rig, true), rig_up(rig);
		cr_assert_eq(create(NEW - 1, NULL), -ESTALE, "it comes late");
	}
	cr_assert_eq(create(NEW, NULL), 0);
}

Test(node_copy, freeze_of_what_is_being_made_or_deleted_fences_all_the_same)
{
	struct rig_call *calls[4];

	/* Created by the old owner, while the new one freezes. */
	calls[0] = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_CREATE,
		.id = copy.id,
		.kind = copy.kind,
		.epoch = OLD },
	    NULL, 0);
	calls[1] = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_FREEZE, .id = copy.id, .epoch = NEW }, NULL,
	    0);
	cr_assert_eq(rig_wait(calls[1]), -EBUSY);
	cr_assert_eq(rig_wait(calls[0]), 0);
	cr_assert_eq(append(0, OLD, 0), -ESTALE);
	cr_assert_eq(rig_freeze(rig, &copy, NEW, NULL), 0);
	calls[2] = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_DELETE,
		.id = copy.id,
		.offset_bytes = calls[0]->reply.offset_bytes,
		.epoch = NEW },
	    NULL, 0);
	calls[3] = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_FREEZE, .id = copy.id, .epoch = NEW + 1 },
	    NULL, 0);
	cr_assert_eq(rig_wait(calls[3]), -ENOENT);
	cr_assert_eq(rig_wait(calls[2]), 0);
	cr_assert_eq(create(NEW, NULL), -ESTALE);
	for (int i = 0; i < 4; i++)
		rig_done(calls[i]);
}

Test(node_copy, freeze_of_what_is_not_here_tells_when_its_fence_failed)
{
	*disk_sim_fault(rig->disk) = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_WRITE),
		.at_count = 1,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
	cr_assert_eq(rig_freeze(rig, &copy, NEW, NULL), -EIO);
	cr_assert_eq(rig_freeze(rig, &copy, NEW, NULL), -ENOENT);
}
