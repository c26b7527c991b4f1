/* SPDX-License-Identifier: Apache-2.0 */
/* test_seal.c -- fences, freezes, cuts and re-sent appends: refused, durable, repeated */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "storage-node/extent.h"
#include "storage-node/fence.h"
#include "storage-node/node_state.h"
#include "unit/extent_fixture.h"

TestSuite(seal, .init = setup, .fini = teardown);

static void
restart(bool is_power_loss)
{
	rig_kill(rig, is_power_loss);
	rig_up(rig);
}

Test(seal, fence_refuses_older_epochs_of_its_shard_alone)
{
	struct rig_extent other;

	rig_extent_init(&other, 4, 2, 1, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &other), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_fence(rig, 3, 6), 0);
	for (int life = 0; life < 2; life++) {
		struct rig_extent fresh;

		cr_assert_eq(rig_fence(rig, 3, 5), -ESTALE);
		cr_assert_eq(rig_fence(rig, 3, 6), 0, "the same again");
		cr_assert_eq(rig_append(rig, &extent, 1), -ESTALE);
		cr_assert_eq(rig_cut(rig, &extent, 5, 0), -ESTALE);
		cr_assert_eq(rig_freeze(rig, &extent, 5, NULL), -ESTALE);
		cr_assert_eq(rig_delete(rig, &extent, 5), -ESTALE);
		rig_extent_init(&fresh, 3, 5, 9, EXTENT_LOG);
		cr_assert_eq(rig_extent_create(rig, &fresh), -ESTALE);
		rig_extent_fini(&fresh);
		if (life == 0)
			cr_assert_eq(rig_append(rig, &other, 1), 0);
		restart(true);
	}
	rig_extent_fini(&other);
}

Test(seal, copy_is_safe_from_owners_before_its_maker)
{
	struct rig_extent copy;

	/* An extent of an older epoch, at a node that no freeze has come to. */
	rig_extent_init(&copy, 5, 5, 2, EXTENT_LOG);
	copy.epoch = 7;
	cr_assert_eq(rig_extent_create(rig, &copy), 0);
	cr_assert_eq(rig_delete(rig, &copy, 6), -ESTALE);
	cr_assert_eq(rig_cut(rig, &copy, 6, 0), -ESTALE);
	cr_assert_eq(rig_freeze(rig, &copy, 6, NULL), -ESTALE);
	cr_assert_eq(rig_cut(rig, &copy, 7, 0), 0);
	cr_assert_eq(rig_delete(rig, &copy, 7), 0);
	rig_extent_fini(&copy);
}

Test(seal, freeze_tells_length_mark_and_chain)
{
	struct wire_node_reply reply;

	cr_assert_eq(rig_freeze(rig, &extent, 5, &reply), 0, "empty");
	cr_assert_eq(reply.offset_bytes, 0);
	cr_assert_eq(reply.chain_crc, batch_chain_seed(&extent.id, EXTENT_LOG));
	rig_extent_fini(&extent);
	rig_extent_init(&extent, 3, 5, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_append(rig, &extent, 2), 0);
	for (int life = 0; life < 3; life++) {
		cr_assert_eq(rig_freeze(rig, &extent, 6 + (uint32_t)life / 2, &reply), 0);
		cr_assert_eq(reply.offset_bytes, extent.end_bytes);
		cr_assert_eq(reply.length_bytes, 8192);
		cr_assert_eq(reply.chain_crc, extent.end_crc);
		cr_assert_eq(reply.flags, 0);
		cr_assert_eq(reply.epoch, 6 + (uint32_t)life / 2);
		restart(true);
	}
}

Test(seal, freeze_waits_for_appends_in_flight)
{
	struct rig_call *append = rig_append_post(rig, &extent, 1);
	struct rig_call *freeze = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_FREEZE, .id = extent.id, .epoch = 6 }, NULL,
	    0);

	cr_assert_eq(rig_wait(freeze), 0);
	cr_assert(append->is_answered);
	cr_assert_eq(append->rc, 0);
	cr_assert_eq(freeze->reply.offset_bytes, extent.end_bytes);
	rig_done(append);
	rig_done(freeze);
}

Test(seal, freeze_forgets_neither_fence_nor_state)
{
	struct wire_extent_entry entry;

	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_freeze(rig, &extent, 8, NULL), 0);
	restart(true);
	cr_assert_eq(rig_list(rig, 3, &entry, 1), 1);
	cr_assert_eq(entry.state, WIRE_EXTENT_FROZEN);
	cr_assert_eq(entry.fence_epoch, 8);
	cr_assert_eq(entry.length_bytes, extent.end_bytes);
	/* The extent's owner goes on after the restart. */
	extent.epoch = 8;
	cr_assert_eq(rig_append(rig, &extent, 1), -EACCES);
	cr_assert_eq(rig_append_again(rig, &extent, 1, 8), 0);
}

Test(seal, recovery_appends_only_under_the_epoch_that_froze)
{
	uint32_t bytes;

	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	(void)rig_batch(rig, &extent, 1, 8192, &bytes);
	cr_assert_eq(rig_append_again(rig, &extent, 1, 5), -EINVAL, "not frozen");
	cr_assert_eq(rig_freeze(rig, &extent, 6, NULL), 0);
	cr_assert_eq(rig_append_again(rig, &extent, 1, 5), -ESTALE);
	cr_assert_eq(rig_append_again(rig, &extent, 1, 7), -ESTALE);
	cr_assert_eq(rig_append_again(rig, &extent, 0, 6), -ESPIPE);
	cr_assert_eq(rig_append_again(rig, &extent, 1, 6), 0);
	cr_assert_eq(rig_freeze(rig, &extent, 7, NULL), 0);
	(void)rig_batch(rig, &extent, 1, 8192, &bytes);
	cr_assert_eq(rig_append_again(rig, &extent, 2, 6), -ESTALE);
	cr_assert_eq(rig_append_again(rig, &extent, 2, 7), 0);
	cr_assert(rig_extent_matches(rig, &extent, extent.end_bytes));
}

Test(seal, cut_at_the_end)
{
	struct wire_node_reply reply;

	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_cut(rig, &extent, 5, extent.end_bytes), 0, "by its owner, unfrozen");
	for (int life = 0; life < 2; life++) {
		cr_assert_eq(rig_cut(rig, &extent, 5, extent.end_bytes), 0, "again");
		cr_assert_eq(rig_cut(rig, &extent, 5, 8192), -EPERM, "elsewhere");
		cr_assert_eq(rig_freeze(rig, &extent, 5, &reply), 0);
		cr_assert_eq(reply.flags, WIRE_FLAG_SEALED);
		cr_assert_eq(reply.offset_bytes, extent.end_bytes);
		cr_assert_eq(reply.length_bytes, 8192);
		cr_assert_eq(reply.chain_crc, extent.end_crc);
		cr_assert(rig_extent_matches(rig, &extent, extent.end_bytes));
		restart(true);
	}
}

Test(seal, cut_below_the_end_is_at_a_batch_boundary)
{
	struct wire_node_reply reply;
	uint8_t block[4096];

	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_append(rig, &extent, 2), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_cut(rig, &extent, 5, extent.end_bytes + 4096), -ERANGE);
	cr_assert_eq(rig_cut(rig, &extent, 5, 4096), -EINVAL);
	cr_assert_eq(rig_cut(rig, &extent, 5, 12288), -EINVAL);
	/* A refused cut changes nothing. */
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_cut(rig, &extent, 5, 20480), 0);
	for (int life = 0; life < 2; life++) {
		cr_assert_eq(rig_freeze(rig, &extent, 5, &reply), 0);
		cr_assert_eq(reply.offset_bytes, 20480);
		cr_assert_eq(reply.length_bytes, 8192);
		cr_assert_eq(reply.chain_crc, extent.batches[1].crc);
		cr_assert_eq(rig_read(rig, &extent, 20480, 4096, block), -ERANGE);
		cr_assert(rig_extent_matches(rig, &extent, 20480));
		restart(true);
	}
}

Test(seal, cut_to_nothing)
{
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_cut(rig, &extent, 6, 0), 0);
	restart(true);
	cr_assert_eq(rig_cut(rig, &extent, 6, 0), 0);
	cr_assert_eq(rig_cut(rig, &extent, 6, 8192), -EPERM);
}

Test(seal, names_that_are_not_there)
{
	struct rig_extent none;

	rig_extent_init(&none, 3, 5, 77, EXTENT_LOG);
	cr_assert_eq(rig_freeze(rig, &none, 5, NULL), -ENOENT);
	cr_assert_eq(rig_cut(rig, &none, 5, 0), -ENOENT);
	cr_assert_eq(rig_delete(rig, &none, 5), -ENOENT);
	cr_assert_eq(rig_read(rig, &none, 0, 1, &none), -ENOENT);
	rig_extent_fini(&none);
}

/* A wild epoch would shut the shard's owner out for good. */
Test(seal, epoch_far_above_the_fence_is_refused)
{
	const uint32_t far = 5 + SN_FENCE_JUMP_MAX + 1;
	struct rig_extent other;

	cr_assert_eq(rig_fence(rig, 3, 5), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	for (int life = 0; life < 2; life++) {
		cr_assert_eq(rig_fence(rig, 3, far), -EOVERFLOW);
		cr_assert_eq(rig_freeze(rig, &extent, far, NULL), -EOVERFLOW);
		cr_assert_eq(rig_delete(rig, &extent, far), -EOVERFLOW);
		rig_extent_init(&other, 3, far, 9, EXTENT_LOG);
		cr_assert_eq(rig_extent_create(rig, &other), -EOVERFLOW);
		rig_extent_fini(&other);
		cr_assert_eq(node_counters(rig->node)->epochs_refused, 4);
		cr_assert_eq(rig_fence(rig, 3, 5), 0, "the fence stands where it stood");
		restart(true);
	}
	cr_assert_eq(rig_fence(rig, 3, far - 1), 0);
}

Test(seal, disk_without_a_fence_takes_an_old_clusters_epoch)
{
	cr_assert_eq(rig_fence(rig, 700, EXTENT_EPOCH_MAX), -EOVERFLOW);
	cr_assert_eq(rig_fence(rig, 700, EXTENT_EPOCH_MAX / 2), 0);
}

Test(seal, many_fences_at_once_share_their_pages)
{
	struct rig_call *calls[32];
	uint64_t before = node_counters(rig->node)->fences;

	for (uint32_t i = 0; i < 32; i++)
		calls[i] = rig_post(rig,
		    &(struct wire_node){ .opcode = WIRE_SHARD_FENCE,
			.id = { .shard = i * 100 },
			.epoch = i + 10 },
		    NULL, 0);
	for (uint32_t i = 0; i < 32; i++) {
		cr_assert_eq(rig_wait(calls[i]), 0);
		cr_assert_eq(calls[i]->reply.epoch, i + 10);
		rig_done(calls[i]);
	}
	cr_assert_lt(node_counters(rig->node)->fences - before, 32);
	restart(true);
	for (uint32_t i = 0; i < 32; i++) {
		cr_assert_eq(rig_fence(rig, i * 100, i + 9), -ESTALE);
		cr_assert_eq(rig_fence(rig, i * 100, i + 10), 0);
	}
}

/* Changes of one extent stand in line, whatever order they come in. */
Test(seal, changes_in_line)
{
	static const struct {
		enum wire_opcode opcode;
		int rc;
	} line[] = {
		{ WIRE_EXTENT_FREEZE, 0 },
		{ WIRE_EXTENT_FREEZE, 0 },
		{ WIRE_EXTENT_TRUNCATE, 0 },
		{ WIRE_EXTENT_TRUNCATE, 0 },
		{ WIRE_EXTENT_FREEZE, 0 },
		{ WIRE_EXTENT_DELETE, 0 },
		{ WIRE_EXTENT_FREEZE, -ENOENT },
		{ WIRE_EXTENT_TRUNCATE, -ENOENT },
		{ WIRE_EXTENT_DELETE, -ENOENT },
	};
	struct rig_call *calls[NUM_COUNT(line)];

	for (size_t i = 0; i < NUM_COUNT(line); i++)
		calls[i] = rig_post(rig,
		    &(struct wire_node){ .opcode = line[i].opcode,
			.id = extent.id,
			.epoch = 6,
			.offset_bytes = line[i].opcode == WIRE_EXTENT_DELETE ? extent.incarnation
									     : 0 },
		    NULL, 0);
	for (size_t i = 0; i < NUM_COUNT(line); i++) {
		cr_assert_eq(rig_wait(calls[i]), line[i].rc, "request %zu", i);
		rig_done(calls[i]);
	}
	restart(true);
	cr_assert_eq(node_extent_count(rig->node), 0);
}

/* Somebody newer came while an older one's cut stood in line. */
Test(seal, newer_freeze_stops_an_older_cut_in_line)
{
	struct rig_call *older, *cut, *newer;

	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	older = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_FREEZE, .id = extent.id, .epoch = 5 }, NULL,
	    0);
	cut = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_TRUNCATE,
		.id = extent.id,
		.epoch = 5,
		.offset_bytes = 8192 },
	    NULL, 0);
	newer = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_FREEZE, .id = extent.id, .epoch = 6 }, NULL,
	    0);
	cr_assert_eq(rig_wait(newer), 0);
	cr_assert_eq(rig_wait(older), 0);
	cr_assert_eq(rig_wait(cut), -ESTALE);
	cr_assert_eq(newer->reply.flags, 0, "not sealed");
	rig_done(older);
	rig_done(cut);
	rig_done(newer);
}

/* The first slot's extent is in the state that @arg points at. */
static bool
is_first_slot(void *arg)
{
	return rig->node->extents[0].sm.state == *(enum extent_state *)arg;
}

static bool
is_fence_written(void *arg)
{
	(void)arg;
	return rig->node->fences[0].sm.state == FENCE_WRITING;
}

static struct rig_call *
post_change(enum wire_opcode opcode, uint64_t offset_bytes)
{
	return rig_post(rig,
	    &(struct wire_node){ .opcode = opcode,
		.id = extent.id,
		.epoch = 6,
		.offset_bytes = offset_bytes },
	    NULL, 0);
}

/* In line are a cut that is refused, a delete, a freeze whose fence takes long, and a cut. */
static void
post_line(struct rig_call **ret_calls)
{
	enum extent_state state = EXTENT_SEALING;

	disk_sim_set_slowness(rig->disk, 20);
	ret_calls[0] = post_change(WIRE_EXTENT_TRUNCATE, 4096);
	ret_calls[1] = post_change(WIRE_EXTENT_DELETE, extent.incarnation);
	rig_run_until(rig, is_first_slot, &state);
	disk_sim_set_slowness(rig->disk, 1000);
	ret_calls[2] = post_change(WIRE_EXTENT_FREEZE, 0);
	ret_calls[3] = post_change(WIRE_EXTENT_TRUNCATE, 0);
	rig_run_until(rig, is_fence_written, NULL);
	disk_sim_set_slowness(rig->disk, 1);
	cr_assert(is_first_slot(&state));
	cr_assert_not(ret_calls[3]->is_answered);
}

/* A freeze whose extent is deleted before its turn waits for its fence alone: the slot's next extent is not its own. */
Test(seal, freeze_behind_a_delete_leaves_the_next_extent_alone)
{
	enum extent_state state = EXTENT_FREE;
	struct rig_call *calls[4];
	struct rig_extent next;

	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	post_line(calls);
	rig_run_until(rig, is_first_slot, &state);
	rig_extent_init(&next, 3, 6, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &next), 0);
	state = EXTENT_OPEN;
	cr_assert(is_first_slot(&state), "it has the same slot");
	cr_assert_not(calls[2]->is_answered, "its fence is not durable");
	cr_assert_eq(rig_wait(calls[0]), -EINVAL);
	cr_assert_eq(rig_wait(calls[1]), 0);
	cr_assert_eq(rig_wait(calls[3]), -ENOENT);
	cr_assert_not(calls[2]->is_answered, "the cut behind it has not waited");
	cr_assert_eq(rig_wait(calls[2]), -ENOENT);
	for (int i = 0; i < 4; i++)
		rig_done(calls[i]);
	cr_assert_eq(rig_append(rig, &next, 1), 0, "nobody has sealed it");
	restart(true);
	cr_assert_eq(rig_fence(rig, 3, 5), -ESTALE);
	cr_assert(rig_extent_matches(rig, &next, next.acked_bytes));
	rig_extent_fini(&next);
}

/* Each n-th write or flush fails: what was answered 0 is there after a power loss. */
static void
fail_loop(enum disk_op op)
{
	for (uint64_t n = 1;; n++) {
		struct disk_fault *fault = disk_sim_fault(rig->disk);
		struct wire_node_reply reply;
		int freeze_rc, cut_rc, fence_rc, delete_rc;
		struct rig_extent other;
		bool is_over;

		cr_assert_eq(rig_append(rig, &extent, 1), 0);
		cr_assert_eq(rig_append(rig, &extent, 1), 0);
		rig_extent_init(&other, 9, 5, 1, EXTENT_RUN);
		cr_assert_eq(rig_extent_create(rig, &other), 0);
		*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(op),
			.at_count = n,
			.verdict = DISK_FAULT_FAIL,
			.rc = -EIO };
		fence_rc = rig_fence(rig, 100, 3);
		freeze_rc = rig_freeze(rig, &extent, 6, &reply);
		if (freeze_rc == 0)
			cr_assert_eq(reply.offset_bytes, 16384);
		cut_rc = rig_cut(rig, &extent, 6, 8192);
		delete_rc = rig_delete(rig, &other, 5);
		is_over = !fault->is_hit;
		*fault = (struct disk_fault){ 0 };
		rig_kill(rig, true);
		rig_up(rig);
		if (fence_rc == 0)
			cr_assert_eq(rig_fence(rig, 100, 2),
			    node_is_read_only(rig->node) ? -EROFS : -ESTALE);
		if (freeze_rc == 0 && !node_is_read_only(rig->node))
			cr_assert_eq(rig_freeze(rig, &extent, 5, NULL), -ESTALE);
		if (cut_rc == 0 && !node_is_read_only(rig->node)) {
			cr_assert_eq(rig_freeze(rig, &extent, 7, &reply), 0);
			cr_assert_eq(reply.flags, WIRE_FLAG_SEALED);
			cr_assert_eq(reply.offset_bytes, 8192);
		}
		cr_assert_eq(node_extent_count(rig->node) == 1,
		    delete_rc == 0 || node_extent_count(rig->node) == 1, "deleted means gone");
		rig_extent_fini(&other);
		teardown();
		setup();
		if (is_over)
			return;
	}
}

Test(seal, every_write_fails)
{
	fail_loop(DISK_WRITE);
}

Test(seal, every_flush_fails)
{
	fail_loop(DISK_FLUSH);
}

Test(seal, every_read_fails)
{
	fail_loop(DISK_READ);
}

/* Killed at each write and flush, with a sampled loss: the same promises. */
Test(seal, killed_at_each_request)
{
	for (int round = 0; round < 4; round++)
		for (uint64_t n = 1;; n++) {
			struct disk_fault *fault = disk_sim_fault(rig->disk);
			struct rig_call *calls[4];
			struct wire_node_reply reply;
			bool is_over;

			cr_assert_eq(rig_append(rig, &extent, 1), 0);
			cr_assert_eq(rig_append(rig, &extent, 1), 0);
			*fault = (struct disk_fault){ .ops = DISK_FAULT_ANY,
				.at_count = n,
				.verdict = DISK_FAULT_HALT };
			calls[0] = rig_post(rig,
			    &(struct wire_node){ .opcode = WIRE_SHARD_FENCE,
				.id = { .shard = 100 },
				.epoch = 3 },
			    NULL, 0);
			calls[1] = rig_append_post(rig, &extent, 1);
			calls[2] = rig_post(rig,
			    &(struct wire_node){ .opcode = WIRE_EXTENT_FREEZE,
				.id = extent.id,
				.epoch = 6 },
			    NULL, 0);
			calls[3] = rig_post(rig,
			    &(struct wire_node){ .opcode = WIRE_EXTENT_TRUNCATE,
				.id = extent.id,
				.epoch = 6,
				.offset_bytes = 8192 },
			    NULL, 0);
			rig_run(rig, NUM_MS(100));
			is_over = !fault->is_hit;
			/* Answers that were on their way count: look before the peer is gone. */
			bool is_ok[4];
			for (int i = 0; i < 4; i++)
				is_ok[i] = calls[i]->is_answered && calls[i]->rc == 0;
			*fault = (struct disk_fault){ 0 };
			rig_kill(rig, true);
			for (int i = 0; i < 4; i++)
				rig_done(calls[i]);
			rig_up(rig);
			if (is_ok[0])
				cr_assert_eq(rig_fence(rig, 100, 2), -ESTALE);
			if (is_ok[2])
				cr_assert_eq(rig_freeze(rig, &extent, 5, NULL), -ESTALE);
			cr_assert_eq(rig_freeze(rig, &extent, 7, &reply), 0);
			cr_assert(rig_is_boundary(&extent, reply.offset_bytes));
			if (is_ok[3])
				cr_assert_eq(reply.offset_bytes, 8192);
			else if ((reply.flags & WIRE_FLAG_SEALED) == 0)
				cr_assert_geq(reply.offset_bytes,
				    is_ok[1] ? extent.end_bytes : 16384);
			cr_assert_eq(reply.flags & WIRE_FLAG_DAMAGED, 0);
			cr_assert(rig_extent_matches(rig, &extent, reply.offset_bytes));
			teardown();
			setup();
			if (is_over)
				break;
		}
}
