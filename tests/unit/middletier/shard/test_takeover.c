/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_takeover.c -- a shard begins again after whatever state its last owner left it in
 *
 * A real gateway and real nodes in virtual time (mt_rig.h). The test writes a log, leaves the replicas
 * as a crash would, starts the gateway anew and looks at what it agreed upon and replayed.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "middletier/catalog/numbers.h"
#include "middletier/catalog/root.h"
#include "middletier/catalog/scope.h"
#include "middletier/common/alloc.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/gateway/gateway.h"
#include "middletier/index/index.h"
#include "middletier/index/index_cuts.h"
#include "middletier/index/memtable.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/meta/meta_store.h"
#include "middletier/shard/shard.h"
#include "support/mt_rig.h"
#include "unit/index_look.h"

#define ALL 7u /* replicas */
#define RIGHT_MARK UINT64_MAX

static struct mt_rig *rig;
static struct extent_id log_id; /* of the last make_log */

static void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ 0 });
	mt_rig_log_start(rig);
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(takeover, .init = setup, .fini = teardown);

/* Does the shard know @block, written as @sequence? Its raw bytes are all (uint8_t)sequence. */
static void
expect_block(uint32_t block, uint64_t sequence)
{
	const struct mt_location *location =
	    index_look(mt_rig_shard(rig, 0)->block_index, 1, block);
	uint8_t data[CLEAVE_BLOCK_BYTES];

	cr_assert_not_null(location, "block %u is not known", block);
	memset(data, (int)sequence, sizeof(data));
	cr_assert_eq(location->block_crc, crc32c(0, data, sizeof(data)), "block %u", block);
	cr_assert_eq(location->ring_position, 0);
}

static void
expect_no_block(uint32_t block)
{
	cr_assert_null(index_look(mt_rig_shard(rig, 0)->block_index, 1, block));
}

/* The node's word about an extent, asked under the present epoch. */
static struct wire_node_reply
freeze_at(uint32_t node_index, const struct extent_id *id)
{
	struct wire_node request = { .opcode = WIRE_EXTENT_FREEZE,
		.id = *id,
		.epoch = mt_rig_shard(rig, 0)->epoch };
	struct wire_node_reply reply = { 0 };

	cr_assert_eq(mt_rig_call(rig, node_index, &request, &reply), 0);
	return reply;
}

/* Every replica of the log extent is sealed at the same bytes. */
static void
expect_sealed(const struct mt_extent *extent, uint64_t bytes)
{
	cr_assert_eq(extent->sm.state, MT_EXTENT_SEALED);
	cr_assert_eq(extent->sealed_bytes, bytes, "%lu, not %lu",
	    (unsigned long)extent->sealed_bytes, (unsigned long)bytes);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		struct wire_node_reply reply;

		if (extent->replicas[i].is_damaged)
			continue;
		reply = freeze_at(mt_rig_index(&extent->replicas[i]), &extent->id);
		cr_assert_neq(reply.flags & WIRE_FLAG_SEALED, 0);
		cr_assert_eq(reply.offset_bytes, bytes);
	}
}

/* A log of two acknowledged batches, of blocks 0..3 and 2..5. Sequences 1..4 and 5..8. */
static struct mt_extent *
make_log(void)
{
	struct mt_extent *extent;

	mt_rig_up(rig);
	extent = mt_rig_log_open(rig);
	cr_assert_not_null(extent);
	log_id = extent->id;
	cr_assert_eq(mt_rig_append(rig, extent, 0, 4, ALL, RIGHT_MARK), 0);
	cr_assert_eq(mt_rig_append(rig, extent, 2, 4, ALL, RIGHT_MARK), 0);
	return extent;
}

static void
expect_log(void)
{
	expect_block(0, 1);
	expect_block(1, 2);
	expect_block(2, 5);
	expect_block(3, 6);
	expect_block(4, 7);
	expect_block(5, 8);
}

Test(takeover, new_shard_serves_empty)
{
	mt_rig_up(rig);
	cr_assert_eq(mt_rig_shard(rig, 0)->epoch, 1);
	cr_assert_eq(mt_rig_shard(rig, 0)->next_sequence, 1);
	cr_assert(mt_rig_shard(rig, 0)->root->has_manifest);
	cr_assert_eq(mt_rig_shard(rig, 0)->block_index->key_count, 0);
}

Test(takeover, each_start_is_a_later_epoch)
{
	mt_rig_up(rig);
	for (uint32_t epoch = 2; epoch < 6; epoch++) {
		mt_rig_gateway_restart(rig);
		cr_assert_eq(mt_rig_shard(rig, 0)->epoch, epoch);
		cr_assert_eq(mt_rig_shard(rig, 0)->root->epoch, epoch);
	}
}

Test(takeover, equal_lengths_are_sealed_and_replayed)
{
	uint64_t end_bytes = make_log()->end_bytes;

	mt_rig_gateway_restart(rig);
	expect_log();
	expect_sealed(mt_rig_extent(rig, &log_id), end_bytes);
	cr_assert_eq(mt_rig_shard(rig, 0)->next_sequence, 9);
	cr_assert_eq(mt_rig_shard(rig, 0)->log_bytes, end_bytes);
}

Test(takeover, orderly_stop_and_start_keep_the_log)
{
	(void)make_log();
	mt_rig_gateway_stop(rig);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
}

Test(takeover, second_takeover_finds_the_same_log)
{
	(void)make_log();
	mt_rig_gateway_restart(rig);
	mt_rig_gateway_restart(rig);
	expect_log();
	mt_rig_run(rig, NUM_MS(20));
	/* The other one is the write path's. */
	cr_assert_eq(mt_rig_shard(rig, 0)->extent_count, 2);
}

Test(takeover, several_extents_are_replayed_in_order)
{
	struct mt_extent *second;

	(void)make_log();
	second = mt_rig_log_open(rig);
	cr_assert_eq(mt_rig_append(rig, second, 0, 2, ALL, RIGHT_MARK), 0);
	mt_rig_gateway_restart(rig);
	expect_block(0, 9);
	expect_block(1, 10);
	expect_block(2, 5);
	cr_assert_eq(mt_rig_shard(rig, 0)->next_sequence, 11);
}

Test(takeover, unacknowledged_tail_on_one_replica_goes_to_all)
{
	for (uint32_t replica = 0; replica < 3; replica++) {
		struct mt_extent *extent;

		if (replica > 0)
			setup();
		extent = make_log();
		cr_assert_eq(mt_rig_append(rig, extent, 7, 3, 1u << replica, RIGHT_MARK), 0);
		cr_assert_eq(mt_rig_append(rig, extent, 9, 3, 1u << replica, RIGHT_MARK), 0);
		mt_rig_gateway_kill(rig);
		mt_rig_gateway_start(rig);
		cr_assert(mt_rig_wait_ready(rig));
		expect_log();
		expect_block(7, 9);
		expect_block(9, 12);
		expect_sealed(mt_rig_extent(rig, &log_id),
		    mt_rig_extent(rig, &log_id)->sealed_bytes);
		cr_assert_eq(mt_rig_shard(rig, 0)->next_sequence, 15);
		if (replica < 2)
			teardown();
	}
}

Test(takeover, longest_batch_is_repaired_in_pieces)
{
	struct mt_extent *extent = make_log();

	/* 60 blocks: 240 KiB and a head, which is four messages. */
	cr_assert_eq(mt_rig_append(rig, extent, 100, 50, 2, RIGHT_MARK), 0);
	mt_rig_gateway_restart(rig);
	expect_log();
	expect_block(100, 9);
	expect_block(149, 58);
	expect_sealed(mt_rig_extent(rig, &log_id), mt_rig_extent(rig, &log_id)->sealed_bytes);
}

Test(takeover, replica_with_rotten_batch_does_not_count)
{
	struct mt_extent *extent = make_log();
	uint64_t end_bytes = extent->end_bytes;
	uint32_t index = mt_rig_index(&extent->replicas[0]);
	int64_t at = mt_rig_data_offset(rig, index, &log_id, 100);

	cr_assert_geq(at, 0);
	mt_rig_gateway_kill(rig);
	mt_rig_node_kill(rig, index, false);
	disk_sim_rot(rig->nodes[index].disk, (uint64_t)at, 3);
	mt_rig_node_start(rig, index);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
	expect_sealed(mt_rig_extent(rig, &log_id), end_bytes);
	cr_assert(mt_rig_extent(rig, &log_id)->replicas[0].is_damaged);
	cr_assert(mt_rig_logged(rig, "a copy is damaged"));
	/* The bad copy is remembered: the next take-over does not read from it either. */
	mt_rig_gateway_restart(rig);
	cr_assert(mt_rig_extent(rig, &log_id)->replicas[0].is_damaged);
	expect_log();
}

Test(takeover, blank_node_does_not_count)
{
	struct mt_extent *extent = make_log();
	uint32_t index = mt_rig_index(&extent->replicas[1]);

	mt_rig_gateway_kill(rig);
	mt_rig_node_kill(rig, index, false);
	mt_rig_node_blank(rig, index);
	mt_rig_node_start(rig, index);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
	cr_assert(mt_rig_extent(rig, &log_id)->replicas[1].is_damaged);
}

/* The signs of a store that is too old: a node without the manifest, and a newer one elsewhere. */
Test(takeover, blank_node_beside_a_manifest_that_was_never_finished)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < 40; i++) {
		if (i > 0) {
			teardown();
			setup();
		}
		(void)make_log();
		mt_rig_gateway_kill(rig);
		mt_rig_gateway_start(rig);
		cr_assert(mt_rig_wait_state(rig, MT_SHARD_OPENING));
		mt_rig_run(rig, NUM_US(50) * i);
		found += mt_rig_shard(rig, 0)->sm.state == MT_SHARD_OPENING;
		mt_rig_gateway_kill(rig);
		mt_rig_node_kill(rig, i % 3, false);
		mt_rig_node_blank(rig, i % 3);
		mt_rig_node_start(rig, i % 3);
		mt_rig_run(rig, NUM_S(1));
		mt_rig_gateway_start(rig);
		cr_assert(mt_rig_wait_ready(rig), "round %u", i);
		expect_log();
	}
	cr_assert_gt(found, 3);
}

Test(takeover, rot_on_one_replica_after_sealing_is_read_from_another)
{
	struct mt_extent *extent = make_log();

	cr_assert_eq(mt_rig_append(rig, extent, 8, 4, ALL, RIGHT_MARK), 0);
	mt_rig_gateway_restart(rig);
	mt_rig_gateway_kill(rig);
	/* A batch of each copy: whichever it begins with, it has to change. */
	for (uint32_t i = 0; i < 3; i++) {
		int64_t at = mt_rig_data_offset(rig, i, &log_id, 20480 * i + 200);

		disk_sim_rot(rig->nodes[i].disk, (uint64_t)at, 0);
	}
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
	cr_assert_geq(mt_gateway_metric(rig->gateway, MT_METRIC_replica_read_errors), 1);
}

Test(takeover, waits_while_a_node_is_away)
{
	struct mt_extent *extent = make_log();
	uint32_t index = mt_rig_index(&extent->replicas[2]);
	char text[80];

	mt_rig_gateway_kill(rig);
	mt_rig_node_kill(rig, index, false);
	mt_rig_gateway_start(rig);
	mt_rig_run(rig, NUM_S(20));
	cr_assert_eq(mt_rig_shard(rig, 0)->sm.state, MT_SHARD_AGREEING);
	(void)snprintf(text, sizeof(text), "shard 0: waits for node %u to freeze extent 0.1",
	    index + 1);
	cr_assert(mt_rig_logged(rig, text), "%s", text);
	mt_rig_node_start(rig, index);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
}

Test(takeover, copies_below_a_mark_do_not_count)
{
	struct mt_extent *extent = make_log();

	/* Replica 0 alone has a batch whose mark says that all before it was acknowledged. */
	cr_assert_eq(mt_rig_append(rig, extent, 7, 1, 1, RIGHT_MARK), 0);
	cr_assert_eq(mt_rig_append(rig, extent, 8, 1, 1, extent->end_bytes), 0);
	mt_rig_gateway_restart(rig);
	expect_block(7, 9);
	expect_block(8, 10);
	cr_assert(mt_rig_extent(rig, &log_id)->replicas[1].is_damaged);
	cr_assert(mt_rig_extent(rig, &log_id)->replicas[2].is_damaged);
}

Test(takeover, never_starts_without_an_undamaged_copy)
{
	(void)make_log();
	/* A take-over that went no further: nodes remember how long it was. */
	for (uint32_t i = 0; i < 3; i++) {
		struct wire_node freeze = { .opcode = WIRE_EXTENT_FREEZE,
			.id = log_id,
			.epoch = 2 };

		cr_assert_eq(mt_rig_call(rig, i, &freeze, NULL), 0);
	}
	mt_rig_gateway_kill(rig);
	for (uint32_t i = 0; i < 3; i++) {
		int64_t at = mt_rig_data_offset(rig, i, &log_id, 100);

		mt_rig_node_kill(rig, i, false);
		disk_sim_rot(rig->nodes[i].disk, (uint64_t)at, 3);
		mt_rig_node_start(rig, i);
	}
	mt_rig_gateway_start(rig);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_eq(mt_rig_shard(rig, 0)->sm.state, MT_SHARD_AGREEING);
	cr_assert(mt_rig_logged(rig, "cannot be taken over"));
	/* A copy heals: the take-over goes on by itself. */
	mt_rig_node_kill(rig, 1, false);
	disk_sim_rot(rig->nodes[1].disk, (uint64_t)mt_rig_data_offset(rig, 1, &log_id, 100), 3);
	mt_rig_node_start(rig, 1);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
}

Test(takeover, never_starts_without_its_manifest)
{
	struct mt_root root;

	(void)make_log();
	root = *mt_rig_shard(rig, 0)->root;
	mt_rig_gateway_kill(rig);
	for (uint32_t i = 0; i < 3; i++) {
		mt_rig_node_kill(rig, i, false);
		mt_rig_node_blank(rig, i);
		mt_rig_node_start(rig, i);
	}
	mt_rig_gateway_start(rig);
	mt_rig_run(rig, NUM_S(60));
	cr_assert_eq(mt_rig_shard(rig, 0)->sm.state, MT_SHARD_AGREEING);
	cr_assert_eq(mt_rig_shard(rig, 0)->root->manifest.epoch, root.manifest.epoch);
	cr_assert(mt_rig_logged(rig, "no copy is undamaged"));
}

/* A whole manifest, and not ours to read: nothing of it is passed over, and what helps is said. */
Test(takeover, manifest_of_a_newer_release_is_left_to_it)
{
	(void)make_log();
	cr_assert_eq(mt_rig_commit_newer(rig), 0);
	mt_rig_gateway_kill(rig);
	mt_rig_gateway_start(rig);
	mt_rig_run(rig, NUM_S(10));
	cr_assert_neq(mt_rig_shard(rig, 0)->sm.state, MT_SHARD_SERVING);
	cr_assert(mt_rig_logged(rig, "an edit that a newer release has written in the manifest"));
	cr_assert_str_eq(mt_shard_failed_why(mt_rig_shard(rig, 0)),
	    "a newer release has written its manifest: start that one here");
}

Test(takeover, manifest_of_many_batches)
{
	struct mt_extent *extent = make_log();
	struct mt_edit edits[16];
	uint64_t sequence = 1;

	/* Runs are cheap to make up: they name the log extent. */
	for (uint32_t i = 0; i < 60; i++) {
		for (uint32_t k = 0; k < 16; k++)
			edits[k] = (struct mt_edit){ .kind = MT_EDIT_RUN_ADDED,
				.id = extent->id,
				.chunk = 1000 + i * 16 + k,
				.offset_bytes = 4096,
				.length_bytes = 4096,
				.flushed_sequence = sequence++ };
		cr_assert_eq(mt_rig_commit(rig, edits, 16), 0);
	}
	for (uint32_t i = 0; i < 3; i++) {
		mt_rig_gateway_restart(rig);
		cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->runs.count, 960);
		expect_log();
	}
}

static struct {
	uint64_t count, more_max;
	uint32_t turns;
} restored;

/* Called after each turn of a loop. */
static bool
are_runs_restored(void *arg)
{
	const struct mt_index *index =
	    mt_rig_port(rig)->shard_count == 0 ? NULL : mt_rig_shard(rig, 0)->block_index;
	uint64_t count = index == NULL ? 0 : index->run_count;

	restored.turns += count > restored.count;
	restored.more_max = num_max(restored.more_max, count - num_min(restored.count, count));
	restored.count = count;
	return count == *(const uint64_t *)arg;
}

/* Other shards of the port serve meanwhile. */
Test(takeover, runs_are_restored_in_pieces)
{
	struct mt_extent *extent = make_log();
	static struct mt_edit edits[MT_COMMIT_EDITS_MAX];
	uint64_t sequence = 1, count = UINT64_C(64) * MT_COMMIT_EDITS_MAX;

	for (uint32_t i = 0; i < count / MT_COMMIT_EDITS_MAX; i++) {
		for (uint32_t k = 0; k < MT_COMMIT_EDITS_MAX; k++, sequence++)
			edits[k] = (struct mt_edit){ .kind = MT_EDIT_RUN_ADDED,
				.id = extent->id,
				.chunk = 1000 + sequence,
				.offset_bytes = 4096,
				.length_bytes = 4096,
				.flushed_sequence = sequence };
		cr_assert_eq(mt_rig_commit(rig, edits, MT_COMMIT_EDITS_MAX), 0);
	}
	mt_rig_gateway_kill(rig);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_run_until(rig, are_runs_restored, &count));
	cr_assert_leq(restored.more_max, 4096);
	cr_assert_leq(restored.turns, 4, "nor is it a trickle");
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert_gt(mt_rig_shard(rig, 0)->next_sequence, count);
}

Test(takeover, records_below_a_run_are_skipped)
{
	struct mt_extent *extent = make_log();
	struct mt_edit edit = { .kind = MT_EDIT_RUN_ADDED,
		.id = extent->id,
		.chunk = 1 * CLEAVE_SEGMENT_CHUNKS,
		.length_bytes = 4096,
		.flushed_sequence = 6 };

	cr_assert_eq(mt_rig_commit(rig, &edit, 1), 0);
	mt_rig_gateway_restart(rig);
	expect_no_block(0);
	expect_no_block(3);
	expect_block(4, 7);
	expect_block(5, 8);
}

Test(takeover, cuts_survive)
{
	struct mt_edit edit = { .kind = MT_EDIT_CUT, .cut = 1, .sequence = 40 };

	(void)make_log();
	cr_assert_eq(mt_rig_commit(rig, &edit, 1), 0);
	mt_rig_gateway_restart(rig);
	cr_assert_eq(mt_rig_shard(rig, 0)->cut, 1);
	cr_assert_eq(mt_rig_shard(rig, 0)->next_sequence, 41);
}

Test(takeover, old_manifest_extents_are_deleted)
{
	mt_rig_up(rig);
	for (uint32_t i = 0; i < 40; i++) {
		mt_rig_run(rig, NUM_MS(20));
		mt_rig_gateway_restart(rig);
	}
	mt_rig_run(rig, NUM_MS(20));
	/* 32 slots a node: they would be full by now. */
	cr_assert_leq(32 - node_slots_free(rig->nodes[0].node), 3);
}

static bool
is_nonzero(void *arg)
{
	return *(int *)arg != 0;
}

Test(takeover, metadata_time_outs_are_ridden_out)
{
	(void)make_log();
	meta_store_set_timeouts(rig->store, 200, 200);
	for (uint32_t i = 0; i < 10; i++) {
		mt_rig_gateway_restart(rig);
		expect_log();
	}
}

Test(takeover, killed_at_any_moment_it_can_be_done_again)
{
	uint64_t step_ns = NUM_US(300);

	for (uint32_t i = 0; i < 60; i++) {
		if (i == 0)
			(void)make_log();
		mt_rig_gateway_kill(rig);
		mt_rig_gateway_start(rig);
		mt_rig_run(rig, i * step_ns);
	}
	mt_rig_gateway_restart(rig);
	expect_log();
}

Test(takeover, nodes_that_come_and_go_only_delay_it)
{
	(void)make_log();
	for (uint32_t i = 0; i < 30; i++) {
		mt_rig_gateway_kill(rig);
		mt_rig_gateway_start(rig);
		mt_rig_run(rig, NUM_US(200) * i);
		mt_rig_node_kill(rig, i % 3, i % 2 == 0);
		mt_rig_run(rig, NUM_MS(5));
		mt_rig_node_start(rig, i % 3);
		cr_assert(mt_rig_wait_ready(rig), "round %u", i);
		expect_log();
	}
}

Test(takeover, nth_allocation_fails)
{
	(void)make_log();
	for (uint32_t nth = 1;; nth++) {
		mt_rig_gateway_kill(rig);
		mt_rig_gateway_start(rig);
		mt_alloc_fail_at(nth);
		cr_assert(mt_rig_run_until(rig, is_nonzero, &rig->is_ready) || rig->has_failed,
		    "allocation %u", nth);
		if (!mt_alloc_has_failed())
			break;
		mt_alloc_fail_at(0);
		cr_assert_lt(nth, 200);
		if (!rig->has_failed)
			expect_log();
	}
	mt_alloc_fail_at(0);
	expect_log();
}

/* ---- runs and cuts ---- */

static void
on_run_extent(struct mt_extent *extent, int rc, void *arg)
{
	(void)extent;
	*(int *)arg = rc;
}

/* A run that says it holds all that chunk 0 of segment 1 had up to @flushed_sequence. */
static struct mt_extent *
commit_run(uint64_t flushed_sequence, uint64_t cut)
{
	struct mt_shard *shard = mt_rig_shard(rig, 0);
	int rc = 1;
	struct mt_extent *extent = mt_extent_create(shard, EXTENT_RUN, on_run_extent, &rc);
	struct mt_edit edits[3] = { { .kind = MT_EDIT_EXTENT_OPENED, .extent_kind = EXTENT_RUN },
		{ .kind = MT_EDIT_EXTENT_SEALED },
		{ .kind = MT_EDIT_RUN_ADDED,
		    .chunk = mt_chunk_number(1, 0),
		    .length_bytes = 8192,
		    .flushed_sequence = flushed_sequence,
		    .cut = cut } };

	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(rc, 0);
	edits[0].replica_count = extent->replica_count;
	memcpy(edits[0].replicas, extent->replicas, sizeof(extent->replicas));
	for (uint32_t i = 0; i < 3; i++)
		edits[i].id = extent->id;
	cr_assert_eq(mt_rig_commit(rig, edits, 3), 0);
	return extent;
}

Test(takeover, what_runs_hold_is_not_replayed)
{
	struct mt_index *index;

	(void)make_log();
	(void)commit_run(6, 2);
	mt_rig_gateway_restart(rig);
	index = mt_rig_shard(rig, 0)->block_index;
	cr_assert_eq(index->run_count, 1);
	cr_assert_eq(mt_index_flushed(index, mt_chunk_number(1, 0)), 6);
	cr_assert_eq(index->key_count, 2, "sequences 7 and 8, of blocks 4 and 5");
	expect_block(4, 7);
	expect_block(5, 8);
	cr_assert_eq(mt_rig_shard(rig, 0)->cut, 2);
}

/* The next record's number would wrap, and whoever made it stop with an assertion: so would every heir. */
Test(takeover, log_of_numbers_that_cannot_be_is_not_replayed)
{
	struct mt_extent *extent = make_log();

	mt_rig_shard(rig, 0)->next_sequence = MT_NUMBER_MAX - 1;
	cr_assert_eq(mt_rig_append(rig, extent, 2, 4, ALL, RIGHT_MARK), 0);
	mt_rig_gateway_kill(rig);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_state(rig, MT_SHARD_STOPPED));
	cr_assert(mt_rig_logged(rig, "the log's numbers cannot be"));
}

/* The log that would tell of them may have been deleted. */
Test(takeover, sequences_go_on_behind_runs_and_cuts)
{
	struct mt_edit cut = { .kind = MT_EDIT_CUT,
		.cut = 9,
		.sequence = 70,
		.segment_base = 1,
		.segment_count = 2 };

	(void)make_log();
	(void)commit_run(50, 2);
	mt_rig_gateway_restart(rig);
	cr_assert_eq(mt_rig_shard(rig, 0)->next_sequence, 51);
	cr_assert_eq(mt_rig_shard(rig, 0)->block_index->key_count, 0);
	cr_assert_eq(mt_rig_commit(rig, &cut, 1), 0);
	mt_rig_gateway_restart(rig);
	cr_assert_eq(mt_rig_shard(rig, 0)->next_sequence, 71);
	cr_assert_eq(mt_rig_shard(rig, 0)->cut, 9);
	cr_assert(mt_index_is_cut_between(mt_rig_shard(rig, 0)->block_index, mt_chunk_number(2, 0),
	    8, 9));
}

Test(takeover, what_was_flushed_is_reclaimed_after_it)
{
	struct mt_extent *log = make_log();
	struct extent_id id = log->id;

	(void)commit_run(50, 2);
	mt_rig_log_seal(rig, log);
	mt_rig_gateway_restart(rig);
	mt_rig_run(rig, NUM_S(5));
	cr_assert_geq(mt_gateway_metric(rig->gateway, MT_METRIC_extents_reclaimed), 1);
	for (uint32_t i = 0; i < mt_rig_shard(rig, 0)->extent_count; i++)
		cr_assert(mt_rig_shard(rig, 0)->extents[i] == NULL ||
		    extent_id_pack(&mt_rig_shard(rig, 0)->extents[i]->id) != extent_id_pack(&id));
	mt_rig_gateway_restart(rig);
	cr_assert_eq(mt_rig_shard(rig, 0)->block_index->run_count, 1);
}
