/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cut.c -- a shard's part in a snapshot: what is held, what is cut, and every way that it ends
 *
 * Cuts are built in with a planted bug, number_unpassed, that no seed of the simulator comes upon.
 */
#define CLEAVE_MUTANTS
#include "middletier/write/cut.c"

#include "base/num.h"
#include "cleave/loop.h"
#include "middletier/catalog/scope.h"
#include "middletier/common/shard.h"
#include "middletier/common/shard_events.h"
#include "middletier/index/index.h"
#include "middletier/index/index_cuts.h"
#include "middletier/index/memtable.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/write/cut.h"
#include "unit/fake_port.h"

#define HOLD_NS NUM_S(5)

struct mutant_set mutants_on;

#define ORDER(n, base)                                                                             \
	{                                                                                          \
		.number = (n), .segment_count = 1, .volume_count = 1, .segment_bases = {(base) }   \
	}

static const struct mt_cut_order order = ORDER(7, FAKE_SEGMENT);

/* The answer that mt_cut_begin's handler was given. */
static struct {
	uint32_t count;
	int rc;
} answer;

static void
setup(void)
{
	fake_init(31, false);
	answer.count = 0;
	answer.rc = 1;
	fake_start();
	fake_run_for(NUM_MS(10));
	cr_assert_not_null(fake.shard.log);
}

static void
teardown(void)
{
	fake_fini();
}

TestSuite(cut, .init = setup, .fini = teardown);

static void
on_cut(int rc, void *arg)
{
	cr_assert_eq(arg, &answer);
	answer.count++;
	answer.rc = rc;
}

static void
begin(const struct mt_cut_order *wanted)
{
	cr_assert_eq(mt_cut_begin(&fake.shard, wanted, on_cut, &answer), 0);
	cr_assert_eq(answer.count, 0);
}

static void
begin_held(void)
{
	begin(&order);
	fake_run_for(NUM_MS(20));
	cr_assert_eq(answer.count, 1);
	cr_assert_eq(answer.rc, 0);
	cr_assert(mt_cut_is_held(&fake.shard, 7));
}

Test(cut, is_durable_before_it_is_answered)
{
	begin_held();
	cr_assert_eq(fake.shard.cut, 7);
	cr_assert_eq(fake.edits[fake.edit_count - 1].kind, MT_EDIT_CUT);
	cr_assert_eq(fake.edits[fake.edit_count - 1].cut, 7);
	cr_assert_eq(fake.edits[fake.edit_count - 1].sequence, fake.shard.next_sequence);
	cr_assert_eq(fake.edits[fake.edit_count - 1].segment_base, FAKE_SEGMENT);
	cr_assert_eq(mt_index_cut_count(fake.shard.block_index), 1);
}

Test(cut, answers_are_kept_back_until_they_are_released)
{
	struct fake_msg *msg;

	begin_held();
	msg = fake_write(1, 1, 1);
	fake_run_for(NUM_MS(100));
	cr_assert_not(msg->is_answered);
	cr_assert_eq(fake.session.write_count, 1);
	mt_cut_release(&fake.shard, 6);
	cr_assert_not(msg->is_answered);
	mt_cut_release(&fake.shard, 7);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_not(mt_cut_is_held(&fake.shard, 7));
	cr_assert_eq(fake.session.write_count, 0);
	cr_assert_eq(answer.count, 1);
}

Test(cut, errors_and_other_volumes_are_not_kept_back)
{
	const struct mt_cut_order other = ORDER(7, FAKE_SEGMENT + 1);

	begin(&other);
	fake_run_for(NUM_MS(20));
	cr_assert_eq(answer.rc, 0);
	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), 0);
	mt_cut_release(&fake.shard, 7);
}

/* Volumes at FAKE_SEGMENT + 1 and FAKE_SEGMENT: snapshots 7 and 8, and nothing lies between. */
Test(cut, several_volumes_are_cut_in_one_step)
{
	static const struct mt_cut_order both = { .number = 7,
		.segment_count = 1,
		.volume_count = 2,
		.segment_bases = { FAKE_SEGMENT + 1, FAKE_SEGMENT } };
	struct fake_msg *msg;
	const struct mt_edit *edits;

	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), 0);
	begin(&both);
	fake_run_for(NUM_MS(20));
	cr_assert_eq(answer.rc, 0);
	cr_assert_eq(fake.shard.cut, 8);
	edits = &fake.edits[fake.edit_count - 2];
	for (uint32_t i = 0; i < 2; i++) {
		cr_assert_eq(edits[i].kind, MT_EDIT_CUT);
		cr_assert_eq(edits[i].cut, 7 + i);
		cr_assert_eq(edits[i].segment_base, both.segment_bases[i]);
		cr_assert_eq(edits[i].segment_count, 1);
	}
	cr_assert_eq(mt_index_cut_count(fake.shard.block_index), 2);
	msg = fake_write(1, 1, 2);
	fake_run_for(NUM_MS(20));
	cr_assert_not(msg->is_answered, "the second volume is not held");
	cr_assert(mt_cut_is_held(&fake.shard, 7));
	cr_assert(mt_index_is_cut_between(fake.shard.block_index, mt_chunk_number(FAKE_SEGMENT, 1),
	    6, 8));
	cr_assert_eq(mt_cut_can_begin(&fake.shard, 8), -EBUSY);
	mt_cut_release(&fake.shard, 7);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(mt_cut_can_begin(&fake.shard, 8), -EAGAIN);
	cr_assert_eq(mt_cut_can_begin(&fake.shard, 9), 0);
}

Test(cut, volumes_that_were_not_named_are_not_kept_back)
{
	static const struct mt_cut_order both = { .number = 7,
		.segment_count = 1,
		.volume_count = 2,
		.segment_bases = { FAKE_SEGMENT + 1, FAKE_SEGMENT + 2 } };

	begin(&both);
	fake_run_for(NUM_MS(20));
	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), 0);
	for (uint64_t i = 0; i < 4; i++)
		cr_assert_eq(mt_cut_has(&both, FAKE_SEGMENT + i), i == 1 || i == 2);
	mt_cut_release(&fake.shard, 7);
}

Test(cut, reads_go_on)
{
	struct fake_msg *msg, *read;

	begin_held();
	msg = fake_write(1, 1, 1);
	fake_run_for(NUM_MS(20));
	read = fake_read(1, 1);
	fake_run_for(NUM_MS(20));
	cr_assert(read->is_answered);
	cr_assert_eq(read->reply.rc, 0);
	cr_assert_not(msg->is_answered);
	mt_cut_release(&fake.shard, 7);
}

/* Writes batched before are durable before the answer; they have the cut of before. */
Test(cut, waits_for_what_was_batched_before)
{
	struct fake_msg *before, *behind;

	fake_stall_all(true);
	before = fake_write(1, 1, 1);
	fake_run_for(NUM_MS(5));
	begin(&order);
	behind = fake_write(2, 1, 1);
	fake_run_for(NUM_MS(100));
	cr_assert_eq(answer.count, 0);
	cr_assert_eq(fake.shard.write->cut.sm.state, MT_CUT_DRAINING);
	fake_stall_all(false);
	fake_run_for(NUM_MS(100));
	cr_assert_eq(answer.count, 1);
	cr_assert_eq(answer.rc, 0);
	cr_assert_not(before->is_answered, "held, although it is in the snapshot");
	cr_assert_not(behind->is_answered);
	mt_cut_release(&fake.shard, 7);
	cr_assert_eq(fake_wait(before), 0);
	cr_assert_eq(fake_wait(behind), 0);
}

/* A reader of the snapshot sees what was there, one of the volume what is. */
Test(cut, keeps_both_sides_apart)
{
	struct mt_scope now, then;
	struct mt_location location, older;
	struct mt_run *run;

	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), 0);
	begin_held();
	mt_cut_release(&fake.shard, 7);
	cr_assert_eq(fake_wait(fake_write(1, 1, 2)), 0);
	mt_scope_init(&now, FAKE_SEGMENT);
	mt_scope_before(&now, 7, &then);
	cr_assert_eq(mt_index_find(fake.shard.block_index, &now, FAKE_SEGMENT, 1, &location, &run),
	    MT_FOUND_RECORD);
	cr_assert_eq(mt_index_find(fake.shard.block_index, &then, FAKE_SEGMENT, 1, &older, &run),
	    MT_FOUND_RECORD);
	cr_assert_neq(location.offset_bytes, older.offset_bytes);
}

Test(cut, hold_ends_by_itself)
{
	struct fake_msg *msg;

	begin_held();
	msg = fake_write(1, 1, 1);
	fake_run_for(HOLD_NS + NUM_MS(10));
	cr_assert(msg->is_answered);
	cr_assert_not(mt_cut_is_held(&fake.shard, 7));
	mt_cut_release(&fake.shard, 7); /* too late, and harmless */
}

Test(cut, gives_up_waiting_for_replicas)
{
	fake_stall_all(true);
	(void)fake_write(1, 1, 1);
	fake_run_for(NUM_MS(5));
	begin(&order);
	fake_run_for(HOLD_NS + NUM_MS(10));
	cr_assert_eq(answer.count, 1);
	cr_assert_eq(answer.rc, -ETIMEDOUT);
	cr_assert_eq(fake.shard.write->cut.sm.state, MT_CUT_IDLE);
	cr_assert_eq(fake.shard.cut, 7, "a number is never given back");
	fake_stall_all(false);
	fake_run_for(NUM_S(1));
	cr_assert_eq(answer.count, 1);
}

Test(cut, released_while_its_edit_is_on_its_way)
{
	begin(&order);
	cr_assert_eq(fake.shard.write->cut.sm.state, MT_CUT_COMMITTING);
	mt_cut_release(&fake.shard, 7);
	cr_assert_eq(answer.count, 1);
	cr_assert_eq(answer.rc, -ECANCELED);
	cr_assert_eq(fake.shard.write->cut.sm.state, MT_CUT_BROKEN);
	cr_assert_eq(mt_cut_begin(&fake.shard, &(struct mt_cut_order)ORDER(8, FAKE_SEGMENT), on_cut,
			 &answer),
	    -EBUSY);
	fake_run_for(NUM_MS(20));
	cr_assert_eq(fake.shard.write->cut.sm.state, MT_CUT_IDLE);
	cr_assert_eq(answer.count, 1);
}

Test(cut, edit_that_fails_is_an_answer)
{
	fake.commit_rc = -ESTALE;
	begin(&order);
	fake_run_for(NUM_MS(20));
	cr_assert_eq(answer.count, 1);
	cr_assert_eq(answer.rc, -ESTALE);
	cr_assert_eq(fake.shard.write->cut.sm.state, MT_CUT_IDLE);
	fake.commit_rc = 0;
}

Test(cut, refuses_what_is_not_newer)
{
	begin_held();
	cr_assert_eq(mt_cut_begin(&fake.shard, &order, on_cut, &answer), -EBUSY);
	mt_cut_release(&fake.shard, 7);
	cr_assert_eq(mt_cut_begin(&fake.shard, &order, on_cut, &answer), -EAGAIN);
	answer.count = 0;
	begin(&(struct mt_cut_order)ORDER(9, FAKE_SEGMENT));
	fake_run_for(NUM_MS(20));
	cr_assert_eq(answer.rc, 0);
	mt_cut_release(&fake.shard, 9);
}

Test(cut, a_shard_that_does_not_serve_has_no_part)
{
	fake.shard.sm.state = MT_SHARD_REPLAYING;
	cr_assert_eq(mt_cut_begin(&fake.shard, &order, on_cut, &answer), -EREMCHG);
	fake.shard.sm.state = MT_SHARD_SERVING;
}

/* I5: a hold counts for nothing when another owner may have answered. */
Test(cut, is_not_held_without_a_lease)
{
	begin_held();
	fake.shared.lease_until_ns = loop_now_ns(fake.loop) + NUM_MS(1);
	cr_assert(mt_cut_is_held(&fake.shard, 7));
	fake_run_for(NUM_MS(2));
	cr_assert_not(mt_cut_is_held(&fake.shard, 7));
	fake.shared.lease_until_ns = UINT64_MAX;
}

/* Questions that may come before a number is taken: nothing comes of them. */
Test(cut, says_whether_it_would_begin)
{
	cr_assert_eq(mt_cut_can_begin(&fake.shard, 7), 0);
	fake.shared.lease_until_ns = loop_now_ns(fake.loop);
	cr_assert_eq(mt_cut_can_begin(&fake.shard, 7), -ETIMEDOUT);
	fake.shared.lease_until_ns = UINT64_MAX;
	fake.shard.sm.state = MT_SHARD_REPLAYING;
	cr_assert_eq(mt_cut_can_begin(&fake.shard, 7), -EREMCHG);
	fake.shard.sm.state = MT_SHARD_SERVING;
	cr_assert_eq(fake.shard.cut, 0);
	begin_held();
	cr_assert_eq(mt_cut_can_begin(&fake.shard, 8), -EBUSY);
	mt_cut_release(&fake.shard, 7);
	cr_assert_eq(mt_cut_can_begin(&fake.shard, 7), -EAGAIN);
	cr_assert_eq(mt_cut_can_begin(&fake.shard, 8), 0);
}

Test(cut, stop_sends_clients_to_the_next_owner)
{
	struct fake_msg *msg;

	begin_held();
	msg = fake_write(1, 1, 1);
	fake_run_for(NUM_MS(20));
	mt_shard_stop(&fake.shard, -ESTALE);
	cr_assert_eq(fake_wait(msg), -EREMCHG);
	cr_assert_not(mt_cut_is_held(&fake.shard, 7));
}

Test(cut, stop_in_the_middle_is_an_answer)
{
	fake_stall_all(true);
	(void)fake_write(1, 1, 1);
	fake_run_for(NUM_MS(5));
	begin(&order);
	mt_shard_stop(&fake.shard, -ESTALE);
	cr_assert_eq(answer.count, 1);
	cr_assert_eq(answer.rc, -ESTALE);
	fake_stall_all(false);
	fake_run_for(NUM_S(1));
}

/* The order of a snapshot that was given up may come late. A next owner reads the number in the manifest. */
Test(cut, a_number_that_is_dropped_is_not_begun_any_more)
{
	struct mt_state_cut passed[] = { { .cut = 7 } };
	uint32_t count = fake.edit_count;

	cr_assert_eq(mt_cut_drop(&fake.shard, 7), -EAGAIN);
	cr_assert_eq(mt_cut_begin(&fake.shard, &order, on_cut, &answer), -EAGAIN);
	fake_run_for(NUM_MS(20));
	cr_assert_eq(fake.edit_count, count + 1);
	cr_assert_eq(fake.edits[fake.edit_count - 1].kind, MT_EDIT_CUT);
	cr_assert_eq(fake.edits[fake.edit_count - 1].cut, 7);
	cr_assert_eq(fake.edits[fake.edit_count - 1].segment_count, 0, "nothing is cut");
	fake_state.cuts = passed;
	fake_state.cut_count = fake_state.cut_max = 1;
	cr_assert_eq(mt_cut_drop(&fake.shard, 7), 0);
	cr_assert_eq(mt_index_cut_count(fake.shard.block_index), 0);
	cr_assert_eq(mt_cut_begin(&fake.shard, &order, on_cut, &answer), -EAGAIN);
	cr_assert_eq(mt_cut_can_begin(&fake.shard, 8), 0);
}

Test(cut, a_planted_bug_begins_a_number_that_is_dropped)
{
	mutant_set_add(&mutants_on, MUTANT_number_unpassed);
	cr_assert_eq(mt_cut_drop(&fake.shard, 7), 0);
	begin(&order);
	fake_run_for(NUM_MS(20));
	cr_assert_eq(answer.rc, 0);
	cr_assert_eq(mt_index_cut_count(fake.shard.block_index), 1);
	mt_cut_release(&fake.shard, 7);
}

Test(cut, a_drop_waits_for_the_order_that_is_at_work)
{
	uint32_t count;

	fake_stall_all(true);
	(void)fake_write(1, 1, 1);
	fake_run_for(NUM_MS(5));
	begin(&order);
	count = fake.edit_count;
	cr_assert_eq(mt_cut_drop(&fake.shard, 7), -EAGAIN);
	cr_assert_eq(mt_index_cut_count(fake.shard.block_index), 1);
	fake_run_for(NUM_MS(20));
	cr_assert_eq(fake.edit_count, count);
	fake_stall_all(false);
	fake_run_for(NUM_MS(200));
	cr_assert_eq(answer.rc, 0);
	mt_cut_release(&fake.shard, 7);
}

Test(cut, dropped_cuts_leave_the_manifest_once)
{
	struct mt_state_cut cuts[] = { { .cut = 7, .segment_base = 1, .segment_count = 1 } };

	begin_held();
	mt_cut_release(&fake.shard, 7);
	fake_state.cuts = cuts;
	fake_state.cut_count = fake_state.cut_max = 1;
	cr_assert_eq(mt_cut_drop(&fake.shard, 7), -EAGAIN);
	fake_run_for(NUM_MS(20));
	cr_assert_eq(fake.edits[fake.edit_count - 1].kind, MT_EDIT_CUT_DROPPED);
	cr_assert_eq(mt_index_cut_count(fake.shard.block_index), 0);
	cuts[0].segment_count = 0;
	fake_is_settled = false;
	cr_assert_eq(mt_cut_drop(&fake.shard, 7), -EAGAIN);
	fake_is_settled = true;
	cr_assert_eq(mt_cut_drop(&fake.shard, 7), 0);
}
