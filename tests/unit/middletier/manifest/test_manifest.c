/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_manifest.c -- commits: durable, in order, over full and broken extents
 *
 * Cuts serve as edits: they need no extent, and a restart shows whether one was kept.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/common/replica.h"
#include "middletier/common/shard.h"
#include "middletier/common/shard_events.h"
#include "middletier/gateway/gateway.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "support/mt_rig.h"

#define COMMITS_MAX 400u

static struct mt_rig *rig;
static uint64_t next_cut;

/* Commits under way, and the order in which they ended. */
static struct commit {
	bool is_done;
	int rc;
	uint32_t order;
} commits[COMMITS_MAX];
static uint32_t commit_count, done_count;

static void
rig_start(const struct mt_rig_options *options)
{
	rig = mt_rig_create(options);
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	mt_rig_run(rig, NUM_MS(50));
	next_cut = 1;
	commit_count = done_count = 0;
	memset(commits, 0, sizeof(commits));
}

static void
setup(void)
{
	rig_start(&(struct mt_rig_options){ .node_count = 4, .lease_ns = NUM_S(3600) });
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(manifest, .init = setup, .fini = teardown);

static void
on_committed(int rc, void *arg)
{
	struct commit *commit = arg;

	cr_assert_not(commit->is_done, "called twice");
	commit->is_done = true;
	commit->rc = rc;
	commit->order = done_count++;
}

/* Returns what mt_manifest_commit said. */
static int
commit_cut(void)
{
	struct mt_edit edit = { .kind = MT_EDIT_CUT,
		.segment_count = 1,
		.cut = next_cut,
		.sequence = next_cut };
	int rc = mt_manifest_commit(mt_rig_shard(rig, 0), &edit, 1, on_committed,
	    &commits[commit_count]);

	if (rc == 0) {
		next_cut++;
		commit_count++;
	}
	return rc;
}

static bool
all_done(void *arg)
{
	(void)arg;
	return done_count == commit_count;
}

static void
wait_commits(void)
{
	cr_assert(mt_rig_run_until(rig, all_done, NULL));
}

static void
expect_all_good(void)
{
	for (uint32_t i = 0; i < commit_count; i++) {
		cr_assert(commits[i].is_done);
		cr_assert_eq(commits[i].rc, 0, "commit %u: %d", i, commits[i].rc);
		cr_assert_eq(commits[i].order, i);
	}
}

/* After a restart the last cut is the last that was committed. */
static void
expect_kept(void)
{
	mt_rig_gateway_restart(rig);
	cr_assert_eq(mt_rig_shard(rig, 0)->cut, next_cut - 1);
	cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->cut_count, next_cut - 1);
}

static struct extent_id
manifest_id(void)
{
	return mt_rig_shard(rig, 0)->root->manifest;
}

static bool
ids_are_equal(struct extent_id a, struct extent_id b)
{
	return extent_id_pack(&a) == extent_id_pack(&b);
}

Test(manifest, commit_is_durable)
{
	cr_assert_eq(commit_cut(), 0);
	cr_assert_eq(done_count, 0, "called within the call");
	wait_commits();
	expect_all_good();
	expect_kept();
}

Test(manifest, commits_of_a_turn_share_a_batch)
{
	uint64_t before = mt_gateway_metric(rig->gateway, MT_METRIC_batches);

	for (uint32_t i = 0; i < 50; i++)
		cr_assert_eq(commit_cut(), 0);
	wait_commits();
	expect_all_good();
	cr_assert_eq(mt_gateway_metric(rig->gateway, MT_METRIC_batches), before + 1);
	expect_kept();
}

Test(manifest, commits_longer_than_a_batch_take_several)
{
	enum { EDITS_COUNT = 16 };
	/* Many commits of one edit fit; of 16 edits they do not. */
	uint64_t before = mt_gateway_metric(rig->gateway, MT_METRIC_batches);

	for (uint32_t i = 0; i < 50; i++) {
		struct mt_edit edits[EDITS_COUNT];

		for (uint32_t k = 0; k < EDITS_COUNT; k++, next_cut++)
			edits[k] = (struct mt_edit){ .kind = MT_EDIT_CUT,
				.segment_count = 1,
				.cut = next_cut };
		cr_assert_eq(mt_manifest_commit(mt_rig_shard(rig, 0), edits, EDITS_COUNT,
				 on_committed, &commits[commit_count++]),
		    0);
	}
	wait_commits();
	expect_all_good();
	cr_assert_eq(mt_gateway_metric(rig->gateway, MT_METRIC_batches), before + 2);
	expect_kept();
}

Test(manifest, queue_is_bounded)
{
	uint32_t count = 0;

	while (commit_cut() == 0)
		cr_assert_lt(++count, COMMITS_MAX);
	cr_assert_eq(count, 256);
	cr_assert_eq(commit_cut(), -ENOBUFS);
	wait_commits();
	expect_all_good();
	cr_assert_eq(commit_cut(), 0);
	wait_commits();
	expect_kept();
}

Test(manifest, full_extent_is_replaced)
{
	struct extent_id first = manifest_id();
	uint32_t free_before = node_slots_free(rig->nodes[0].node);

	/* An extent of 244 KiB takes 61 batches. */
	for (uint32_t i = 0; i < 150; i++) {
		cr_assert_eq(commit_cut(), 0);
		wait_commits();
	}
	expect_all_good();
	cr_assert_not(ids_are_equal(manifest_id(), first));
	cr_assert_eq(manifest_id().epoch, first.epoch);
	mt_rig_run(rig, NUM_MS(50));
	/* Extents of the manifest of before are gone again. */
	cr_assert_geq(node_slots_free(rig->nodes[0].node) + 1, free_before);
	expect_kept();
}

Test(manifest, lost_node_moves_it_to_others)
{
	struct extent_id first = manifest_id();
	uint32_t lost = mt_rig_index(&mt_rig_shard(rig, 0)->root->manifest_replicas[0]);

	cr_assert_eq(commit_cut(), 0);
	mt_rig_node_kill(rig, lost, false);
	cr_assert_eq(commit_cut(), 0);
	wait_commits();
	cr_assert_eq(commit_cut(), 0);
	wait_commits();
	expect_all_good();
	cr_assert_not(ids_are_equal(manifest_id(), first));
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_neq(mt_rig_index(&mt_rig_shard(rig, 0)->root->manifest_replicas[i]),
		    lost);
	mt_rig_node_start(rig, lost);
	expect_kept();
}

Test(manifest, waits_for_nodes_and_says_so_once)
{
	mt_rig_node_kill(rig, 0, false);
	mt_rig_node_kill(rig, 1, false);
	mt_rig_run(rig, NUM_MS(100));
	mt_rig_log_clear(rig);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(commit_cut(), 0);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_eq(done_count, 0);
	cr_assert(mt_rig_logged(rig, "manifest waits for storage nodes rc=-EHOSTDOWN"));
	mt_rig_log_clear(rig);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_not(mt_rig_logged(rig, "manifest waits"));
	mt_rig_node_start(rig, 0);
	wait_commits();
	expect_all_good();
	mt_rig_node_start(rig, 1);
	expect_kept();
}

Test(manifest, node_that_is_cut_off_is_given_up)
{
	uint32_t lost = mt_rig_index(&mt_rig_shard(rig, 0)->root->manifest_replicas[1]);

	sim_net_partition(rig->gateway_host, rig->nodes[lost].host);
	cr_assert_eq(commit_cut(), 0);
	wait_commits();
	expect_all_good();
	sim_net_join(rig->gateway_host, rig->nodes[lost].host);
	expect_kept();
}

Test(manifest, metadata_time_outs_delay_a_new_extent)
{
	meta_store_set_timeouts(rig->store, 400, 400);
	for (uint32_t i = 0; i < 200; i++) {
		cr_assert_eq(commit_cut(), 0);
		wait_commits();
	}
	expect_all_good();
	meta_store_set_timeouts(rig->store, 0, 0);
	expect_kept();
}

Test(manifest, store_that_is_away_delays_it)
{
	for (uint32_t i = 0; i < 50; i++) {
		cr_assert_eq(commit_cut(), 0);
		wait_commits();
	}
	meta_memory_cut_off(rig->meta, true);
	for (uint32_t i = 0; i < 30; i++)
		cr_assert_eq(commit_cut(), 0);
	wait_commits(); /* the extent has room: the store is not asked */
	while (done_count == commit_count && commit_count < 150) {
		cr_assert_eq(commit_cut(), 0);
		mt_rig_run(rig, NUM_S(1));
	}
	cr_assert_lt(done_count, commit_count);
	mt_rig_run(rig, NUM_S(20));
	cr_assert_lt(done_count, commit_count);
	cr_assert(mt_rig_logged(rig, "manifest waits for the metadata store"));
	meta_memory_cut_off(rig->meta, false);
	wait_commits();
	expect_all_good();
	expect_kept();
}

Test(manifest, stop_ends_every_commit)
{
	for (uint32_t i = 0; i < 20; i++)
		cr_assert_eq(commit_cut(), 0);
	mt_shard_stop(mt_rig_shard(rig, 0), -ECANCELED);
	cr_assert_eq(done_count, commit_count);
	for (uint32_t i = 0; i < commit_count; i++)
		cr_assert_eq(commits[i].rc, -ECANCELED);
	cr_assert_eq(commit_cut(), -ECANCELED);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(mt_rig_shard(rig, 0)->sm.state, MT_SHARD_IDLE);
	cr_assert_null(mt_rig_shard(rig, 0)->manifest);
	mt_rig_gateway_stop(rig);
}

Test(manifest, stop_with_a_batch_in_flight)
{
	for (uint32_t i = 0; i < 60; i++) {
		cr_assert_eq(commit_cut(), 0);
		mt_rig_run(rig, NUM_US(30 * i));
	}
	mt_rig_gateway_stop(rig);
	cr_assert_eq(done_count, commit_count);
}

Test(manifest, killed_anywhere_it_keeps_what_it_confirmed)
{
	for (uint32_t round = 0; round < 40; round++) {
		uint64_t kept, confirmed = next_cut - 1;

		for (uint32_t i = 0; i < 9 && commit_count < COMMITS_MAX; i++) {
			cr_assert_eq(commit_cut(), 0);
			mt_rig_run(rig, NUM_US(37) * round);
		}
		for (uint32_t i = 0; i < commit_count; i++)
			confirmed += commits[i].is_done;
		mt_rig_gateway_restart(rig);
		kept = mt_rig_shard(rig, 0)->cut;
		cr_assert_geq(kept, confirmed, "round %u", round);
		cr_assert_lt(kept, next_cut);
		next_cut = kept + 1;
		commit_count = done_count = 0;
		memset(commits, 0, sizeof(commits));
	}
}

/* ---- more than an extent holds ---- */

/* A commit of as many cuts as one may have. */
static void
commit_cuts(void)
{
	struct mt_edit edits[MT_COMMIT_EDITS_MAX];

	for (uint32_t k = 0; k < MT_COMMIT_EDITS_MAX; k++, next_cut++)
		edits[k] =
		    (struct mt_edit){ .kind = MT_EDIT_CUT, .segment_count = 1, .cut = next_cut };
	cr_assert_lt(commit_count, COMMITS_MAX);
	cr_assert_eq(mt_manifest_commit(mt_rig_shard(rig, 0), edits, MT_COMMIT_EDITS_MAX,
			 on_committed, &commits[commit_count++]),
	    0);
}

static uint32_t
part_count(void)
{
	uint32_t count = 0;

	while (mt_manifest_part(mt_rig_shard(rig, 0), count) != NULL)
		count++;
	return count;
}

/* A checkpoint of 64 KiB slots, some of them. */
static void
rig_start_long(uint32_t commits_of_cuts)
{
	teardown();
	rig_start(&(struct mt_rig_options){ .node_count = 4,
	    .slot_bytes = NUM_KIB(64),
	    .slot_count = 256,
	    .lease_ns = NUM_S(3600) });
	for (uint32_t i = 0; i < commits_of_cuts; i++) {
		commit_cuts();
		wait_commits();
	}
	expect_all_good();
}

Test(manifest, checkpoint_goes_on_in_other_extents)
{
	rig_start_long(60);
	cr_assert_geq(part_count(), 6);
	expect_kept();
	cr_assert_geq(part_count(), 6, "the take-over's");
	/* Extents written before are gone again, and nothing else is. */
	mt_rig_run(rig, NUM_S(1));
	expect_kept();
	cr_assert_eq(rig->options.slot_count - node_slots_free(rig->nodes[0].node) <= 16, true);
}

static void
on_dropped(int rc, void *arg)
{
	(void)arg;
	cr_assert_eq(rc, 0);
}

Test(manifest, shorter_again_it_needs_one_extent)
{
	uint64_t last;

	rig_start_long(60);
	last = next_cut - 1;
	for (uint64_t cut = 1; cut < last; cut++) {
		struct mt_edit edit = { .kind = MT_EDIT_CUT_DROPPED, .cut = cut };

		cr_assert_eq(mt_manifest_commit(mt_rig_shard(rig, 0), &edit, 1, on_dropped, NULL),
		    0);
		while ((cut % 200 == 0 || cut == last - 1) &&
		    !mt_manifest_is_settled(mt_rig_shard(rig, 0)))
			mt_rig_run(rig, NUM_MS(1));
	}
	mt_rig_gateway_restart(rig);
	cr_assert_eq(part_count(), 0);
	cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->cut_count, 1);
}

Test(manifest, nothing_is_kept_of_a_long_one_that_fails)
{
	uint32_t lost;

	rig_start_long(60);
	lost = mt_rig_index(&mt_manifest_part(mt_rig_shard(rig, 0), 1)->replicas[0]);
	/* Away for a while: its copies are read elsewhere. */
	mt_rig_node_kill(rig, lost, false);
	commit_cuts();
	wait_commits();
	expect_all_good();
	expect_kept();
	mt_rig_node_start(rig, lost);
	mt_rig_run(rig, NUM_S(5));
	expect_kept();
}

Test(manifest, killed_anywhere_a_long_one_is_kept)
{
	rig_start_long(40);
	for (uint32_t round = 0; round < 60; round++) {
		uint64_t kept, confirmed;

		commit_count = done_count = 0;
		memset(commits, 0, sizeof(commits));
		confirmed = next_cut - 1;
		commit_cuts();
		mt_rig_run(rig, NUM_US(61) * round);
		if (done_count == commit_count)
			confirmed = next_cut - 1;
		mt_rig_gateway_kill(rig);
		mt_rig_gateway_start(rig);
		/* In the middle of its checkpoint, too. */
		mt_rig_run(rig, NUM_US(311) * (round % 13));
		mt_rig_gateway_kill(rig);
		mt_rig_gateway_start(rig);
		cr_assert(mt_rig_wait_ready(rig));
		kept = mt_rig_shard(rig, 0)->cut;
		cr_assert_geq(kept, confirmed, "round %u", round);
		cr_assert_lt(kept, next_cut);
		cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->cut_count, kept);
		next_cut = kept + 1;
	}
}

static bool
parts_are_elsewhere(void *arg)
{
	const struct mt_shard *shard = mt_rig_shard(rig, 0);
	uint32_t node_id = *(uint32_t *)arg;

	for (uint32_t i = 0; i < part_count(); i++) {
		for (uint32_t k = 0; k < mt_manifest_part(shard, i)->replica_count; k++) {
			const struct mt_replica *replica = &mt_manifest_part(shard, i)->replicas[k];

			if (replica->node_id == node_id || replica->is_damaged)
				return false;
		}
	}
	return mt_manifest_is_settled(shard);
}

/* A node that is gone for good: the manifest is written anew on the others. */
Test(manifest, long_one_leaves_a_node_that_stays_away)
{
	const struct mt_replica *replica;
	uint32_t node_id;

	rig_start_long(60);
	replica = &mt_manifest_part(mt_rig_shard(rig, 0), 2)->replicas[1];
	node_id = replica->node_id;
	mt_rig_node_kill(rig, mt_rig_index(replica), false);
	cr_assert(mt_rig_run_until(rig, parts_are_elsewhere, &node_id));
	expect_kept();
}

Test(manifest, nth_allocation_of_a_long_one_fails)
{
	rig_start_long(30);
	for (uint32_t nth = 1; nth < 60; nth++) {
		mt_alloc_fail_at(nth);
		/* Full every few commits. */
		if (commit_cut() == 0)
			wait_commits();
		mt_alloc_fail_at(0);
		commit_cuts();
		wait_commits();
	}
	expect_all_good();
	expect_kept();
}

Test(manifest, nth_allocation_fails)
{
	for (uint32_t nth = 1; nth < 30; nth++) {
		for (uint32_t i = 0; i < 8; i++) {
			int rc;

			mt_alloc_fail_at(nth);
			rc = commit_cut();
			cr_assert(rc == 0 || rc == -ENOMEM);
			wait_commits();
			mt_alloc_fail_at(0);
		}
	}
	expect_all_good();
	expect_kept();
}
