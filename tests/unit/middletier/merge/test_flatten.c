/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_flatten.c -- a clone's chunks get what its origin shows: which, in which order, and what is read meanwhile
 *
 * The origin is the fake port's volume. Its snapshot is taken by raising the shard's cut. The clone is read by its own
 * scope, with the origin and without.
 *
 * What a merge takes is built in with a planted bug, flatten_above, that seeds of the simulator come upon once in thousands.
 */
#define CLEAVE_MUTANTS
#include "middletier/merge/merge_input.c"

#include <errno.h>

#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/catalog/scope.h"
#include "middletier/common/alloc.h"
#include "middletier/common/metric.h"
#include "middletier/index/index.h"
#include "middletier/index/index_cuts.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/merge/flatten.h"
#include "middletier/merge/flush_due.h"
#include "unit/fake_merge.h"

#define CUT 5u /* the snapshot */
#define CHUNK ((uint32_t)CLEAVE_CHUNK_BLOCKS)
#define CLONE (wire_segment(1, wire_segment_root(FAKE_SEGMENT)))

struct mutant_set mutants_on;

static struct flatten flatten;
static struct mt_scope seen; /* by the clone: with its origin */

static void
setup(void)
{
	struct mt_scope origin;

	memset(&flatten, 0, sizeof(flatten));
	fake_init(1, false);
	fake_state.epoch = fake.shard.epoch;
	fake_merges_start();
	mt_scope_before(&fake.session.volume.scope, CUT, &origin);
	cr_assert_eq(mt_scope_above(CLONE, 0, &origin, &seen), 0);
}

static void
teardown(void)
{
	fake_merges_fini();
}

TestSuite(flatten, .init = setup, .fini = teardown);

/* ---- the origin, and the clone ---- */

static void
write_origin(uint32_t block, uint64_t version)
{
	cr_assert_eq(fake_wait(fake_write(block, 1, version)), 0);
}

static void
take_snapshot(void)
{
	const struct mt_index_cut cut = { CUT, FAKE_SEGMENT, 1 };

	cr_assert_eq(mt_index_add_cut(fake.shard.block_index, &cut), 0);
	fake.shard.cut = CUT;
}

static void
write_clone(uint32_t block, uint64_t version)
{
	struct wire_io io = fake_io(WIRE_WRITE, block, 1);

	io.segment = CLONE;
	cr_assert_eq(fake_wait(fake_write_as(io, block, version)), 0);
}

static void
discard_clone(uint32_t block)
{
	struct fake_msg *msg = fake_msg_take();
	struct wire_io io = fake_io(WIRE_DISCARD, block, 1);

	io.segment = CLONE;
	fake_submit(msg, &io);
	cr_assert_eq(fake_wait(msg), 0);
}

/* A read of the clone by @scope gives @version; 0: zeros. */
static void
expect_by(const struct mt_scope *scope, uint32_t block, uint64_t version)
{
	struct mt_scope before = fake.session.volume.scope;
	struct fake_msg *msg = fake_msg_take();
	struct wire_io io = fake_io(WIRE_READ, block, 1);
	uint8_t expected[CLEAVE_BLOCK_BYTES] = { 0 };

	fake.session.volume.scope = *scope;
	io.segment = CLONE;
	fake_submit(msg, &io);
	if (version != 0)
		fake_pattern(expected, block, version);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert(memcmp(msg->payload, expected, sizeof(expected)) == 0, "block %u", block);
	fake.session.volume.scope = before;
}

static void
expect_clone(uint32_t block, uint64_t version)
{
	struct mt_scope alone;

	mt_scope_init(&alone, CLONE);
	expect_by(&seen, block, version);
	expect_by(&alone, block, version);
}

/* ---- copies ---- */

/* The next one. -ENOENT: there is none. */
static int
copy(uint64_t *ret_target)
{
	struct mt_merge_input input;
	int rc = mt_flatten_find(&flatten, &fake.shard, &input);

	if (rc != 0)
		return rc;
	mt_flatten_began(&flatten);
	*ret_target = input.target;
	rc = fake_merge_begin(&input);
	if (rc == 0)
		rc = fake_merge_end();
	mt_flatten_ended(&flatten, &fake.shard, input.target, rc);
	cr_assert(mt_merge_is_quiet(&fake.shard));
	return rc;
}

static uint32_t
copy_all(void)
{
	uint32_t count = 0;
	uint64_t target;
	int rc;

	cr_assert_eq(mt_flatten_ask(&flatten, &seen), -EAGAIN);
	while ((rc = copy(&target)) == 0)
		count++;
	cr_assert_eq(rc, -ENOENT);
	cr_assert_eq(mt_flatten_ask(&flatten, &seen), 0, "all is copied");
	return count;
}

/* ---- tests ---- */

Test(flatten, the_clone_reads_the_same_with_its_origin_and_without)
{
	write_origin(0, 10);
	write_origin(1, 11);
	write_origin(2, 12);
	cr_assert_eq(fake_wait(fake_discard(2, 1)), 0);
	take_snapshot();
	write_origin(0, 20); /* behind the snapshot */
	write_origin(4, 24);
	cr_assert_eq(copy_all(), 1);
	expect_clone(0, 10);
	expect_clone(1, 11);
	expect_clone(2, 0);
	expect_clone(4, 0);
	fake_expect(0, 20);
	fake_expect(1, 11);
	cr_assert_eq(fake.port.metrics[MT_METRIC_flattened_chunks], 1);
}

Test(flatten, what_was_written_to_the_clone_lies_above)
{
	write_origin(0, 10);
	write_origin(1, 11);
	write_origin(3, 13);
	take_snapshot();
	write_clone(0, 30);
	discard_clone(1);
	cr_assert_eq(copy_all(), 1);
	write_clone(3, 33);
	expect_clone(0, 30);
	expect_clone(1, 0);
	expect_clone(3, 33);
}

/* All layers are in runs. */
static void
flush(void)
{
	struct flush_due due = { 0 };
	struct mt_merge_input input;

	mt_flush_due_start(&due, &fake.shard);
	for (uint32_t i = 0; i < 3; i++) {
		fake_pass(NUM_S(60));
		mt_flush_due_age(&due);
	}
	while (mt_flush_due_find(&due, &input) == 0) {
		cr_assert_eq(fake_merge_begin(&input), 0);
		cr_assert_eq(fake_merge_end(), 0);
	}
	cr_assert(list_is_empty(&fake.shard.block_index->layers_by_age));
}

static void
copy_beneath_a_run(void)
{
	write_origin(0, 10);
	write_origin(1, 11);
	take_snapshot();
	write_clone(0, 30);
	flush();
	cr_assert_eq(copy_all(), 1);
}

Test(flatten, what_lies_in_runs_of_the_clone_lies_above, .timeout = 100)
{
	copy_beneath_a_run();
	expect_clone(0, 30);
	expect_clone(1, 11);
}

Test(flatten, a_copy_that_is_called_as_new_as_the_clone_hides_what_that_has, .timeout = 100)
{
	mutant_set_add(&mutants_on, MUTANT_flatten_above);
	copy_beneath_a_run();
	expect_clone(0, 10);
	mutants_on = (struct mutant_set){ { 0 } };
}

/* A block that the snapshot shows as zeros is one in the clone, whatever becomes of the origin. */
Test(flatten, tombstones_of_the_origin_are_copied)
{
	const struct mt_scope *scope = &seen;
	struct mt_scope alone;
	struct mt_location location;
	struct mt_run *run;

	write_origin(7, 17);
	cr_assert_eq(fake_wait(fake_discard(7, 1)), 0);
	take_snapshot();
	cr_assert_eq(copy_all(), 1);
	mt_scope_init(&alone, scope->spans[0].segment_base);
	cr_assert_eq(mt_index_find(fake.shard.block_index, &alone, CLONE, 7, &location, &run),
	    MT_FOUND_RECORD);
	cr_assert_eq(location.record_kind, RECORD_DISCARD);
	cr_assert_eq(location.stored_bytes, 0);
}

Test(flatten, chunks_go_in_the_order_of_their_numbers)
{
	uint64_t target;

	write_origin(2 * CHUNK, 1);
	write_origin(0, 2);
	write_origin(5 * CHUNK + 3, 3);
	take_snapshot();
	write_origin(4 * CHUNK, 4); /* the snapshot does not show it */
	cr_assert_eq(mt_flatten_ask(&flatten, &seen), -EAGAIN);
	for (uint32_t i = 0; i < 3; i++) {
		static const uint32_t chunks[] = { 0, 2, 5 };

		cr_assert_eq(copy(&target), 0);
		cr_assert_eq(target, mt_chunk_number(CLONE, chunks[i] * CHUNK));
	}
	cr_assert_eq(copy(&target), -ENOENT);
	expect_clone(2 * CHUNK, 1);
	expect_clone(4 * CHUNK, 0);
	expect_clone(5 * CHUNK + 3, 3);
}

Test(flatten, begun_again_it_passes_over_what_was_copied)
{
	uint64_t target;

	write_origin(0, 1);
	write_origin(CHUNK, 2);
	take_snapshot();
	cr_assert_eq(mt_flatten_ask(&flatten, &seen), -EAGAIN);
	cr_assert_eq(copy(&target), 0);
	memset(&flatten, 0, sizeof(flatten)); /* a take-over */
	cr_assert_eq(copy_all(), 1);
	expect_clone(0, 1);
	expect_clone(CHUNK, 2);
}

/* A copy lies at cut 0: snapshots of the clone from before see it, too. */
Test(flatten, snapshots_of_the_clone_see_it)
{
	const struct mt_index_cut cut = { 9, CLONE, 1 };
	struct mt_scope snapshot, alone;

	write_origin(0, 1);
	take_snapshot();
	cr_assert_eq(mt_index_add_cut(fake.shard.block_index, &cut), 0);
	fake.shard.cut = 9;
	write_clone(0, 40); /* behind the clone's snapshot */
	cr_assert_eq(copy_all(), 1);
	mt_scope_init(&alone, CLONE);
	mt_scope_before(&alone, 9, &snapshot);
	expect_by(&snapshot, 0, 1);
	expect_clone(0, 40);
}

/* A clone that is called off goes, and is begun anew only once the copy under way has ended. */
Test(flatten, called_off_it_ends_with_the_copy_under_way)
{
	struct mt_merge_input input;

	write_origin(0, 1);
	write_origin(CHUNK, 2);
	take_snapshot();
	cr_assert_eq(mt_flatten_ask(&flatten, &seen), -EAGAIN);
	cr_assert_eq(mt_flatten_find(&flatten, &fake.shard, &input), 0);
	mt_flatten_began(&flatten);
	cr_assert_eq(fake_merge_begin(&input), 0);
	cr_assert_eq(mt_flatten_ask(&flatten, NULL), 0);
	cr_assert_eq(mt_flatten_ask(&flatten, &seen), -EAGAIN);
	cr_assert(flatten.is_off);
	mt_flatten_ended(&flatten, &fake.shard, input.target, fake_merge_end());
	cr_assert_eq(mt_flatten_find(&flatten, &fake.shard, &input), -ENOENT);
	cr_assert_eq(copy_all(), 1, "the other chunk");
	cr_assert_eq(mt_flatten_ask(&flatten, NULL), 0);
	cr_assert_eq(flatten.scope.span_count, 0);
}

Test(flatten, a_copy_that_fails_changes_nothing_and_is_tried_again)
{
	struct mt_merge_input input;
	uint64_t target;

	write_origin(0, 1);
	take_snapshot();
	cr_assert_eq(mt_flatten_ask(&flatten, &seen), -EAGAIN);
	cr_assert_eq(mt_flatten_find(&flatten, &fake.shard, &input), 0);
	mt_flatten_began(&flatten);
	cr_assert_eq(fake_merge_begin(&input), 0);
	mt_merge_stop(&fake.shard);
	fake_run_for(NUM_S(1));
	cr_assert_eq(fake_merges.rc, -ECANCELED);
	mt_flatten_ended(&flatten, &fake.shard, input.target, fake_merges.rc);
	cr_assert_null(mt_index_chunk(fake.shard.block_index, input.target));
	cr_assert_eq(copy(&target), -ENOENT, "not at once");
	cr_assert_eq(mt_flatten_ask(&flatten, &seen), -EAGAIN, "it is not done");
	fake_pass(NUM_S(6));
	cr_assert_eq(copy(&target), 0);
	expect_clone(0, 1);
}

Test(flatten, full_nodes_are_not_filled)
{
	uint64_t target;

	write_origin(0, 1);
	take_snapshot();
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.links[i].slots_total = 100;
		fake.links[i].slots_reserved = 10;
		fake.links[i].slots_free = 15;
	}
	cr_assert_eq(mt_flatten_ask(&flatten, &seen), -EAGAIN);
	cr_assert_eq(copy(&target), -ENOENT);
	cr_assert_eq(mt_flatten_ask(&flatten, &seen), -EAGAIN, "it waits for room");
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slots_free = 16;
	fake_pass(NUM_S(6));
	cr_assert_eq(copy(&target), 0);
}

/* ---- how much, how fast ---- */

static struct mt_flatten_share
share_now(void)
{
	struct mt_flatten_share share = { 0 };

	mt_flatten_count(&seen, fake.shard.block_index, &share);
	return share;
}

Test(flatten, counts_what_the_clone_shows_of_its_origin)
{
	struct mt_flatten_share share;
	struct mt_scope alone;
	uint64_t target, bytes;

	write_origin(0, 1);
	write_origin(CHUNK, 2);
	take_snapshot();
	share = share_now();
	bytes = share.bytes;
	cr_assert(bytes > 0 && share.copied_bytes == 0);
	write_origin(1, 3); /* the snapshot does not show it */
	write_clone(2, 4);
	cr_assert_eq(share_now().bytes, bytes, "it is of the origin alone");
	cr_assert_eq(mt_flatten_ask(&flatten, &seen), -EAGAIN);
	cr_assert_eq(copy(&target), 0);
	share = share_now();
	cr_assert(share.copied_bytes > 0 && share.copied_bytes < share.bytes);
	cr_assert_eq(copy(&target), 0);
	share = share_now();
	cr_assert_eq(share.copied_bytes, share.bytes);
	mt_scope_init(&alone, CLONE);
	share = (struct mt_flatten_share){ 0 };
	mt_flatten_count(&alone, fake.shard.block_index, &share);
	cr_assert_eq(share.bytes, 0, "it is no clone");
}

Test(flatten, tells_how_fast_it_goes)
{
	uint64_t target, total, now_ns, before;

	write_origin(0, 1);
	write_origin(CHUNK, 2);
	take_snapshot();
	total = share_now().bytes;
	cr_assert_eq(mt_flatten_bytes_s(&flatten, NUM_S(1)), 0, "none is flattened");
	cr_assert_eq(mt_flatten_ask(&flatten, &seen), -EAGAIN);
	cr_assert_eq(mt_flatten_bytes_s(&flatten, NUM_S(1)), 0, "nothing was copied yet");
	cr_assert_eq(copy(&target), 0);
	before = flatten.began_ns;
	fake_pass(NUM_S(10));
	now_ns = before + NUM_S(10);
	cr_assert_eq(mt_flatten_bytes_s(&flatten, now_ns), share_now().copied_bytes / 10);
	cr_assert_eq(copy(&target), 0);
	cr_assert_eq(flatten.copied_bytes, total);
	cr_assert_eq(copy(&target), -ENOENT);
	cr_assert_eq(mt_flatten_bytes_s(&flatten, now_ns), 0, "it is done");
}

/*
 * Whatever there is no memory for: nothing changes, and the next try has it all. Or the shard stops: its manifest has the copy,
 * its index could not take it.
 */
Test(flatten, the_nth_allocation_of_a_copy_fails)
{
	bool has_failed = true;
	uint32_t nth, stopped = 0;

	for (nth = 1; has_failed; nth++) {
		uint64_t target;
		int rc;

		write_origin(0, 1);
		write_origin(9, 2);
		take_snapshot();
		write_clone(9, 3);
		cr_assert_eq(mt_flatten_ask(&flatten, &seen), -EAGAIN);
		mt_alloc_fail_at(nth);
		rc = copy(&target);
		has_failed = mt_alloc_has_failed();
		mt_alloc_fail_at(0);
		cr_assert(rc == 0 || has_failed, "%u: %d", nth, rc);
		stopped += fake.stop_rc != 0;
		if (fake.stop_rc == 0) {
			expect_by(&seen, 0, 1);
			expect_by(&seen, 9, 3);
			fake_pass(NUM_S(6));
			if (rc != 0)
				cr_assert_eq(copy(&target), 0, "%u", nth);
			expect_clone(0, 1);
			expect_clone(9, 3);
		}
		if (has_failed) {
			teardown();
			setup();
		}
	}
	cr_assert(nth > 4 && stopped < nth / 2, "%u of %u stopped the shard", stopped, nth);
}
