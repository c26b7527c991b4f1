/* SPDX-License-Identifier: Apache-2.0 */
/* test_merge.c -- layers and runs become runs: what is kept, in which frames, whatever fails */
#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/catalog/hidden.h"
#include "middletier/catalog/scope.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/alloc.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/index/index.h"
#include "middletier/index/index_cuts.h"
#include "middletier/index/run_index.h"
#include "middletier/merge/merge_work.h"
#include "middletier/merge/pace.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/fake_merge.h"

static void
setup_with(bool is_threaded)
{
	fake_init(1, is_threaded);
	fake_merges_start();
}

static void
teardown(void)
{
	fake_merges_fini();
}

FAKE_SUITES(merge)

static struct mt_chunk *
chunk_at(uint32_t index)
{
	return mt_index_chunk(fake.shard.block_index,
	    mt_chunk_number(FAKE_SEGMENT, index * (uint32_t)CLEAVE_CHUNK_BLOCKS));
}

static void
write_blocks(uint32_t first, uint32_t count, uint32_t step, uint64_t version)
{
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(fake_wait(fake_write(first + i * step, 1, version)), 0);
}

static void
expect_blocks(uint32_t first, uint32_t count, uint32_t step, uint64_t version)
{
	for (uint32_t i = 0; i < count; i++)
		fake_expect(first + i * step, version);
}

static struct mt_run *
run_at(struct mt_chunk *chunk, uint32_t index)
{
	struct loop_link *link = chunk->runs.next;

	while (index-- > 0)
		link = link->next;
	return LIST_ENTRY(link, struct mt_run, link);
}

/* All frozen layers of chunk 0 (the active one freezes) and its @run_count newest runs. */
static struct mt_merge_input
input_of(uint32_t chunk_index, bool has_layers, uint32_t run_count)
{
	struct mt_chunk *chunk = chunk_at(chunk_index);
	struct mt_merge_input input = { .chunk = chunk, .level = 1 };

	cr_assert_not_null(chunk);
	if (has_layers) {
		cr_assert_eq(mt_index_freeze(chunk), 0);
		input.newest_layer = LIST_ENTRY(chunk->layers.next, struct mt_layer, link);
		input.oldest_layer = LIST_ENTRY(chunk->layers.prev, struct mt_layer, link);
	}
	if (run_count > 0) {
		input.newest_run = run_at(chunk, 0);
		input.oldest_run = run_at(chunk, run_count - 1);
	}
	return input;
}

static int
merge(uint32_t chunk_index, bool has_layers, uint32_t run_count)
{
	struct mt_merge_input input = input_of(chunk_index, has_layers, run_count);
	int rc = fake_merge_begin(&input);

	if (rc != 0)
		return rc;
	(void)fake_merge_end();
	cr_assert(mt_merge_is_quiet(&fake.shard));
	cr_assert_eq(fake_replies_held(), 0);
	fake_run_for(NUM_MS(50));
	return fake_merges.rc;
}

/* All of chunk 0, stopped after @ns: it has ended by itself, or was cancelled. */
static void
merge_and_stop(uint64_t ns)
{
	struct mt_merge_input input = input_of(0, true, chunk_at(0)->run_count);

	cr_assert_eq(fake_merge_begin(&input), 0);
	fake_run_for(ns);
	mt_merge_stop(&fake.shard);
	(void)fake_merge_end_within(NUM_S(10));
	cr_assert(mt_merge_is_quiet(&fake.shard));
	cr_assert(fake_merges.rc == 0 || fake_merges.rc == -ECANCELED);
}

static uint32_t
frames_of(const struct mt_chunk *chunk)
{
	uint32_t count = 0;

	for (const struct loop_link *link = chunk->runs.next; link != &chunk->runs;
	     link = link->next)
		count += NUM_CONTAINER_OF(link, struct mt_run, link)->index->frame_count;
	return count;
}

static uint64_t
metric(enum mt_metric metric)
{
	return fake.port.metrics[metric];
}

/* ---- what is kept ---- */

Test(merge, a_layer_becomes_a_run)
{
	write_blocks(0, 40, 1, 3);
	write_blocks(100, 10, 7, 4);
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_eq(chunk_at(0)->layer_count, 0);
	cr_assert_eq(chunk_at(0)->run_count, 1);
	cr_assert_eq(frames_of(chunk_at(0)), 10 + 10);
	cr_assert_eq(metric(MT_METRIC_flushes), 1);
	cr_assert_eq(metric(MT_METRIC_flushed_bytes), chunk_at(0)->run_bytes);
	expect_blocks(0, 40, 1, 3);
	expect_blocks(100, 10, 7, 4);
	fake_expect(41, 0);
}

static void
on_passed(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
}

/* Virtual time goes on where something is due. */
static void
pass(uint64_t ns)
{
	struct loop_timer timer;

	loop_timer_init(&timer, on_passed, NULL);
	loop_timer_start(fake.loop, &timer, ns);
	fake_run_for(ns);
	loop_timer_stop(fake.loop, &timer);
}

/* A run that only two nodes hold is in an open extent: no repair looks at it before it is sealed. */
Test(merge, an_extent_of_few_replicas_is_sealed_when_there_are_more_nodes)
{
	const struct mt_extent *extent;

	fake.settings.min_replicas = 2;
	for (uint32_t i = 0; i < 3; i++)
		fake_node_down(i, 0);
	write_blocks(0, 40, 1, 3);
	cr_assert_eq(merge(0, true, 0), 0);
	extent = fake.shard.run_roll->extent;
	cr_assert_eq(extent->replica_count, 2);
	pass(NUM_S(10));
	mt_run_roll_tend(&fake.shard);
	fake_run_for(NUM_S(1));
	cr_assert_eq(extent->sm.state, MT_EXTENT_OPEN, "there is no third node to go to");
	fake_node_up(0);
	mt_run_roll_tend(&fake.shard);
	fake_run_for(NUM_S(1));
	cr_assert_eq(extent->sm.state, MT_EXTENT_SEALED);
	expect_blocks(0, 40, 1, 3);
}

Test(merge, the_newest_version_of_a_block_counts)
{
	write_blocks(0, 64, 1, 3);
	write_blocks(0, 32, 2, 8);
	cr_assert_eq(merge(0, true, 0), 0);
	write_blocks(0, 16, 4, 12);
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_eq(chunk_at(0)->run_count, 2);
	expect_blocks(0, 16, 4, 12);
	expect_blocks(2, 16, 4, 8);
	expect_blocks(1, 32, 2, 3);
	cr_assert_eq(merge(0, false, 2), 0);
	cr_assert_eq(chunk_at(0)->run_count, 1);
	cr_assert_eq(metric(MT_METRIC_compactions), 1);
	expect_blocks(0, 16, 4, 12);
	expect_blocks(2, 16, 4, 8);
	expect_blocks(1, 32, 2, 3);
}

Test(merge, layers_and_runs_are_merged_at_once)
{
	write_blocks(0, 30, 1, 1);
	cr_assert_eq(merge(0, true, 0), 0);
	write_blocks(10, 30, 1, 2);
	cr_assert_eq(merge(0, true, 1), 0);
	cr_assert_eq(chunk_at(0)->run_count, 1);
	expect_blocks(0, 10, 1, 1);
	expect_blocks(10, 30, 1, 2);
}

Test(merge, the_new_run_says_up_to_which_record_it_has_all)
{
	uint64_t sequence;

	write_blocks(0, 5, 1, 1);
	sequence = fake.shard.next_sequence - 1;
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_eq(run_at(chunk_at(0), 0)->flushed_sequence, sequence);
	cr_assert_eq(mt_index_flushed(fake.shard.block_index, chunk_at(0)->number), sequence);
}

Test(merge, tombstones_beneath_which_nothing_lies_are_left_out)
{
	write_blocks(0, 32, 1, 1);
	cr_assert_eq(fake_wait(fake_discard(0, 16)), 0);
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_eq(frames_of(chunk_at(0)), 4);
	expect_blocks(0, 16, 1, 0);
	expect_blocks(16, 16, 1, 1);
}

Test(merge, tombstones_hide_what_lies_beneath)
{
	write_blocks(0, 32, 1, 1);
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_eq(fake_wait(fake_discard(8, 16)), 0);
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_eq(chunk_at(0)->run_count, 2);
	cr_assert_eq(run_at(chunk_at(0), 0)->index->frame_count, 1, "one for all neighbours");
	expect_blocks(8, 16, 1, 0);
	cr_assert_eq(merge(0, false, 2), 0);
	cr_assert_eq(frames_of(chunk_at(0)), 4);
	expect_blocks(0, 8, 1, 1);
	expect_blocks(8, 16, 1, 0);
	expect_blocks(24, 8, 1, 1);
}

Test(merge, a_chunk_that_was_discarded_leaves_nothing)
{
	write_blocks(0, 32, 1, 1);
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_eq(fake_wait(fake_discard(0, (uint32_t)CLEAVE_CHUNK_BLOCKS)), 0);
	expect_blocks(0, 3, 1, 0);
	cr_assert_eq(merge(0, true, 1), 0);
	cr_assert_null(chunk_at(0));
	expect_blocks(0, 3, 1, 0);
	cr_assert_eq(fake.shard.block_index->run_count, 0);
}

Test(merge, a_discard_of_a_whole_chunk_hides_its_runs)
{
	write_blocks(0, 32, 1, 1);
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_eq(fake_wait(fake_discard(0, (uint32_t)CLEAVE_CHUNK_BLOCKS)), 0);
	write_blocks(5, 1, 1, 3);
	cr_assert_eq(merge(0, true, 0), 0);
	expect_blocks(0, 5, 1, 0);
	fake_expect(5, 3);
	expect_blocks(6, 26, 1, 0);
}

Test(merge, what_nobody_sees_is_dropped_and_no_more)
{
	struct mt_index *index = fake.shard.block_index;
	uint64_t base = FAKE_SEGMENT;

	write_blocks(0, 32, 1, 1);
	cr_assert_eq(merge(0, true, 0), 0);
	mt_index_hide(index, &(struct mt_hidden){ base, 1, 1, 9 });
	cr_assert_not(mt_index_is_hidden(index, chunk_at(0)->number, 0), "its cut is below");
	mt_index_hide(index, &(struct mt_hidden){ base + 1, 1, 0, 9 });
	cr_assert_not(mt_index_is_hidden(index, chunk_at(0)->number, 0), "another's");
	write_blocks(0, 8, 1, 2);
	cr_assert_eq(merge(0, true, 1), 0);
	expect_blocks(0, 8, 1, 2);
	/* The same gap begins lower now: a snapshot has gone. */
	mt_index_hide(index, &(struct mt_hidden){ base, 1, 0, 9 });
	cr_assert_eq(mt_index_hidden_count(index), 2);
	cr_assert(mt_index_is_hidden(index, chunk_at(0)->number, 0));
	cr_assert_not(mt_index_is_hidden(index, chunk_at(0)->number, 9));
	write_blocks(40, 8, 1, 3);
	cr_assert_eq(merge(0, true, 1), 0);
	cr_assert_null(chunk_at(0));
	cr_assert_eq(index->run_count, 0);
}

/* ---- frames ---- */

Test(merge, frames_begin_at_multiples_of_their_size)
{
	write_blocks(2, 9, 1, 1);
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_eq(run_at(chunk_at(0), 0)->index->frame_count, 3);
	cr_assert_eq(run_at(chunk_at(0), 0)->index->frames[0].block_count, 2);
	cr_assert_eq(run_at(chunk_at(0), 0)->index->frames[1].block_count, 4);
	cr_assert_eq(run_at(chunk_at(0), 0)->index->frames[2].block_count, 3);
}

Test(merge, frames_of_64_kib)
{
	fake.settings.frame_bytes = NUM_KIB(64);
	write_blocks(0, 40, 1, 1);
	write_blocks(40, 24, 1, 4);
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_eq(run_at(chunk_at(0), 0)->index->frame_count, 4);
	expect_blocks(0, 40, 1, 1);
	expect_blocks(40, 24, 1, 4);
}

Test(merge, a_frame_that_has_not_changed_is_taken_as_it_is_stored)
{
	uint32_t crc;

	write_blocks(0, 16, 1, 1);
	cr_assert_eq(merge(0, true, 0), 0);
	crc = run_at(chunk_at(0), 0)->index->frames[3].stored_crc;
	write_blocks(0, 4, 1, 4);
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_eq(merge(0, false, 2), 0);
	cr_assert_eq(run_at(chunk_at(0), 0)->index->frame_count, 4);
	cr_assert_eq(run_at(chunk_at(0), 0)->index->frames[3].stored_crc, crc);
	expect_blocks(0, 4, 1, 4);
	expect_blocks(4, 12, 1, 1);
}

Test(merge, more_than_an_extent_holds_becomes_several_runs)
{
	uint32_t before;

	for (uint32_t i = 0; i < 20; i++) /* 1.25 MiB that do not compress; slots of 512 KiB */
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_geq(chunk_at(0)->run_count, 3);
	expect_blocks(0, 320, 1, 4);
	write_blocks(0, 16, 20, 8);
	before = chunk_at(0)->run_count;
	cr_assert_eq(merge(0, true, before), 0);
	cr_assert_geq(chunk_at(0)->run_count, 3);
	expect_blocks(0, 16, 20, 8);
	expect_blocks(1, 16, 20, 4);
}

Test(merge, what_has_left_the_ring_is_read_from_nodes)
{
	for (uint32_t i = 0; i < 60; i++) /* the ring has 2 MiB */
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_gt(metric(MT_METRIC_merge_read_bytes), NUM_MIB(1));
	cr_assert_eq(metric(MT_METRIC_merge_log_read_bytes), metric(MT_METRIC_merge_read_bytes));
	expect_blocks(0, 137, 7, 4);
}

Test(merge, extents_without_a_run_are_reclaimed)
{
	uint32_t count = 0;

	for (uint32_t round = 0; round < 12; round++) {
		for (uint32_t i = 0; i < 10; i++)
			cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4 + 4 * round)), 0);
		cr_assert_eq(merge(0, true, round == 0 ? 0 : chunk_at(0)->run_count), 0);
	}
	for (uint32_t i = 0; i < fake.shard.extent_count; i++)
		count += fake.shard.extents[i] != NULL;
	cr_assert_leq(count, 8);
	expect_blocks(0, 160, 1, 48);
}

/* ---- what fails ---- */

Test(merge, a_bad_copy_is_read_elsewhere)
{
	for (uint32_t i = 0; i < 60; i++)
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
	fake.nodes[0].is_rotten = fake.nodes[1].is_rotten = true;
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_gt(metric(MT_METRIC_replica_read_errors), 0);
	fake.nodes[0].is_rotten = fake.nodes[1].is_rotten = false;
	expect_blocks(0, 137, 7, 4);
}

Test(merge, without_nodes_it_fails_and_changes_nothing)
{
	for (uint32_t i = 0; i < 60; i++)
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_down(i, 0);
	cr_assert_eq(merge(0, true, 0), -EHOSTDOWN);
	cr_assert_eq(chunk_at(0)->run_count, 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_up(i);
	expect_blocks(0, 137, 7, 4);
	cr_assert_eq(merge(0, true, 0), 0);
	expect_blocks(0, 137, 7, 4);
}

Test(merge, without_room_it_fails_and_changes_nothing)
{
	write_blocks(0, 40, 1, 4);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_full = fake.nodes[i].is_reserve_full = true;
	cr_assert_eq(merge(0, true, 0), -ENOSPC);
	cr_assert_eq(chunk_at(0)->layer_count, 1);
	cr_assert_eq(chunk_at(0)->run_count, 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_full = fake.nodes[i].is_reserve_full = false;
	cr_assert_eq(merge(0, true, 0), 0);
	expect_blocks(0, 40, 1, 4);
}

/* The @nth append to a run extent fails at one node, the batch done or not. */
static void
break_append(uint32_t nth, bool is_done_anyway)
{
	for (uint32_t i = 0; i < 20; i++)
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].fault = (struct fake_fault){ .opcode = WIRE_EXTENT_APPEND,
			.countdown = nth,
			.rc = -EIO,
			.is_done_anyway = is_done_anyway };
	cr_assert_eq(merge(0, true, 0), 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].fault.countdown = 0;
	expect_blocks(0, 320, 1, 4);
}

Test(merge, a_run_extent_that_breaks_is_left_at_what_it_acknowledged)
{
	break_append(2, false);
}

Test(merge, a_run_extent_that_breaks_at_its_first_batch)
{
	break_append(1, true);
}

Test(merge, a_commit_that_fails_changes_nothing)
{
	write_blocks(0, 40, 1, 4);
	cr_assert_eq(merge(0, true, 0), 0); /* the extent is there */
	write_blocks(0, 20, 1, 8);
	fake.commit_rc = -EIO;
	cr_assert_eq(merge(0, true, 1), -EIO);
	fake.commit_rc = 0;
	cr_assert_eq(chunk_at(0)->run_count, 1);
	cr_assert_eq(chunk_at(0)->layer_count, 1);
	expect_blocks(0, 20, 1, 8);
	expect_blocks(20, 20, 1, 4);
	cr_assert_eq(merge(0, true, 1), 0);
	expect_blocks(0, 20, 1, 8);
	expect_blocks(20, 20, 1, 4);
}

Test(merge, another_owner_ends_the_shard)
{
	write_blocks(0, 40, 1, 4);
	cr_assert_eq(merge(0, true, 0), 0);
	write_blocks(0, 40, 1, 8);
	fake.commit_rc = -ESTALE;
	cr_assert_eq(merge(0, true, 0), -ECANCELED);
	cr_assert_eq(fake.stop_rc, -ESTALE);
}

Test(merge, stopped_at_any_time_it_comes_back)
{
	for (uint32_t steps = 0; steps < 60; steps++) {
		write_blocks(0, 30, 3, 4);
		merge_and_stop(NUM_US(40) * steps);
		expect_blocks(0, 30, 3, 4);
	}
}

Test(merge, memory_that_is_not_there_changes_nothing)
{
	for (uint32_t nth = 1; nth < 40; nth++) {
		int rc;

		write_blocks(0, 20, 1, 4 * nth);
		mt_alloc_fail_at(0);
		struct mt_merge_input input = input_of(0, true, chunk_at(0)->run_count);

		mt_alloc_fail_at(nth);
		rc = fake_merge_begin(&input);
		if (rc == 0)
			rc = fake_merge_end();
		mt_alloc_fail_at(0);
		if (fake.stop_rc != 0)
			break; /* committed, and not to be put into the index: a take-over's */
		cr_assert(rc == 0 || rc == -ENOMEM || rc == -EHOSTDOWN, "allocation %u: %d", nth,
		    rc);
		expect_blocks(0, 20, 1, 4 * nth);
	}
}

Test(merge, two_merges_are_done_one_after_the_other)
{
	struct mt_merge_input inputs[2];

	write_blocks(0, 30, 1, 1);
	write_blocks((uint32_t)CLEAVE_CHUNK_BLOCKS, 30, 1, 2);
	for (uint32_t i = 0; i < 2; i++) {
		inputs[i] = input_of(i, true, 0);
		cr_assert_eq(fake_merge_begin(&inputs[i]), 0);
	}
	(void)fake_merge_end_within(NUM_S(10));
	expect_blocks(0, 30, 1, 1);
	expect_blocks((uint32_t)CLEAVE_CHUNK_BLOCKS, 30, 1, 2);
}

/* ---- in stages ---- */

#define STAGES_WRITES 64u /* of 16 blocks: 4 MiB that do not compress, slots of 512 KiB */

/* Twice as many runs as extents that one result fills. */
static void
make_two_generations(uint32_t chunk_at_step)
{
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < STAGES_WRITES; i++)
			cr_assert_eq(fake_wait(fake_write(chunk_at_step * i, 16, 4 + 4 * round)),
			    0);
		cr_assert_eq(merge(0, true, 0), 0);
	}
	cr_assert_geq(chunk_at(0)->run_count, 16);
}

static void
set_slots(uint32_t more)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].slots_max = fake_slots_taken(&fake.nodes[i]) + more;
}

Test(merge, room_comes_back_while_a_merge_goes_on)
{
	make_two_generations(16);
	set_slots(4); /* half of what the result takes */
	cr_assert_eq(merge(0, false, chunk_at(0)->run_count), 0, "rc %d", fake_merges.rc);
	cr_assert_leq(chunk_at(0)->run_count, 12);
	cr_assert_eq(metric(MT_METRIC_compactions), 1);
	expect_blocks(0, 256, 4, 8);
}

Test(merge, layers_are_taken_along_in_stages)
{
	uint64_t sequence;

	make_two_generations(16);
	write_blocks(3, 100, 9, 12);
	sequence = fake.shard.next_sequence - 1;
	set_slots(5);
	cr_assert_eq(merge(0, true, chunk_at(0)->run_count), 0);
	cr_assert_eq(chunk_at(0)->layer_count, 0);
	cr_assert_eq(mt_index_flushed(fake.shard.block_index, chunk_at(0)->number), sequence);
	expect_blocks(3, 100, 9, 12);
	expect_blocks(4, 100, 9, 8);
}

Test(merge, tombstones_stay_as_long_as_runs_that_a_stage_leaves)
{
	make_two_generations(16);
	cr_assert_eq(fake_wait(fake_discard(16 * 8, 16 * 8)), 0);
	cr_assert_eq(merge(0, true, chunk_at(0)->run_count), 0);
	expect_blocks(16 * 8, 16 * 8, 1, 0);
	expect_blocks(0, 16 * 8, 1, 8);
	expect_blocks(16 * 16, 64, 8, 8);
	/* Nothing is beneath by now. */
	cr_assert_eq(merge(0, false, chunk_at(0)->run_count), 0, "rc %d", fake_merges.rc);
	expect_blocks(16 * 8, 16 * 8, 1, 0);
	for (struct loop_link *link = chunk_at(0)->runs.next; link != &chunk_at(0)->runs;
	     link = link->next) {
		const struct mt_run_index *index = LIST_ENTRY(link, struct mt_run, link)->index;

		for (uint32_t i = 0; i < index->frame_count; i++)
			cr_assert_eq(index->frames[i].record_kind, RECORD_WRITE);
	}
}

Test(merge, without_room_what_earlier_stages_did_stays)
{
	uint32_t before;

	make_two_generations(16);
	before = chunk_at(0)->run_count;
	set_slots(0);
	cr_assert_eq(merge(0, false, before), -ENOSPC);
	expect_blocks(0, 256, 4, 8);
	set_slots(3);
	cr_assert_eq(merge(0, false, chunk_at(0)->run_count), 0, "rc %d", fake_merges.rc);
	expect_blocks(0, 256, 4, 8);
}

Test(merge, stopped_in_any_stage_it_loses_nothing)
{
	make_two_generations(16);
	for (uint32_t steps = 0; steps < 24; steps++) {
		write_blocks(0, 60, 16, 12 + 4 * steps);
		merge_and_stop(NUM_US(500) * steps);
		for (struct loop_link *link = chunk_at(0)->runs.next; link != &chunk_at(0)->runs;
		     link = link->next)
			cr_assert(!LIST_ENTRY(link, struct mt_run, link)->is_merging);
		expect_blocks(0, 60, 16, 12 + 4 * steps);
		expect_blocks(1, 60, 16, 8);
	}
}

/* ---- beside few writes ---- */

/* A write that meets a batch at the disks waits for all of it. */
Test(merge, beside_few_writes_its_batches_are_short)
{
	uint32_t before, at_leisure;

	for (uint32_t i = 0; i < 30; i++)
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
	before = fake.nodes[0].counts[WIRE_EXTENT_APPEND];
	cr_assert_eq(merge(0, true, 0), 0);
	at_leisure = fake.nodes[0].counts[WIRE_EXTENT_APPEND] - before;

	for (uint32_t i = 0; i < 30; i++)
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
	before = fake.nodes[0].counts[WIRE_EXTENT_APPEND];
	fake.port.write_count = 1;
	cr_assert_eq(merge(0, true, 0), 0);
	fake.port.write_count = 0;
	cr_assert_geq(fake.nodes[0].counts[WIRE_EXTENT_APPEND] - before, 3 * at_leisure);
	expect_blocks(0, 480, 1, 4);
}

/* ---- where its jobs run ---- */

Test(merge, in_no_hurry_it_compresses_in_the_background)
{
	struct engine_set background = { 0 };
	uint32_t count;

	cr_assert_eq(engine_runner_init(&background.runner, fake.keys), 0);
	fake.port.merge_engines = &background;
	fake.port.shards = &fake.shard;
	fake.port.shard_count = 1;
	write_blocks(0, 40, 1, 3);
	count = fake.engines.submit_count;
	cr_assert_eq(merge(0, true, 0), 0);
	cr_assert_geq(background.submit_count, 40 / 4);
	cr_assert_lt(background.submit_count, 40, "what is short is no work for a thread");
	cr_assert_eq(fake.engines.submit_count, count + 40);
	expect_blocks(0, 40, 1, 3);

	write_blocks(0, 40, 1, 5);
	background.submit_count = 0;
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slots_total = 60;
	fake.settings.log_bytes = NUM_MIB(1);
	for (uint32_t i = 0; mt_reclaim_pressure(&fake.shard, 0) < PACE_BACKGROUND; i++)
		cr_assert_eq(fake_wait(
				 fake_write((uint32_t)CLEAVE_CHUNK_BLOCKS + i % 1000 * 16, 16, 1)),
		    0);
	count = fake.engines.submit_count;
	cr_assert_eq(merge(0, true, chunk_at(0)->run_count), 0);
	cr_assert_eq(background.submit_count, 0);
	cr_assert_geq(fake.engines.submit_count, count + 40 / 4);
	expect_blocks(0, 40, 1, 5);
	fake.port.merge_engines = NULL;
	engine_runner_fini(&background.runner);
}

/* ---- with engine threads ---- */

Test(merge_threads, layers_and_runs_are_merged)
{
	for (uint32_t i = 0; i < 60; i++)
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
	cr_assert_eq(merge(0, true, 0), 0);
	write_blocks(0, 100, 3, 1);
	cr_assert_eq(merge(0, true, chunk_at(0)->run_count), 0);
	expect_blocks(0, 100, 3, 1);
	expect_blocks(1, 100, 3, 4);
	expect_blocks(301, 600, 1, 4);
}

Test(merge_threads, stopped_at_any_time_it_comes_back)
{
	for (uint32_t steps = 0; steps < 60; steps++) {
		write_blocks(0, 30, 3, 4);
		merge_and_stop(NUM_US(40) * steps);
		expect_blocks(0, 30, 3, 4);
	}
}

/* Where its run would go there is no extent any more: a job's thread may be at work for it. */
static bool
is_read_while_stored(void *arg)
{
	const struct merge_work *work = fake.port.merge_work;
	bool is_out = false;

	(void)arg;
	if (work->merge == NULL || work->merge->sm.state != MERGE_STORING)
		return false;
	for (uint32_t i = 0; i < MERGE_READS_MAX; i++)
		is_out = is_out || work->exec.reads[i].is_out;
	return is_out;
}

Test(merge, the_next_window_is_read_while_one_is_stored)
{
	struct mt_merge_input input;

	for (uint32_t i = 0; i < 30; i++)
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
	cr_assert_eq(merge(0, true, 0), 0); /* from here on it is at nodes alone */
	input = input_of(0, false, chunk_at(0)->run_count);
	cr_assert_eq(fake_merge_begin(&input), 0);
	cr_assert_eq(sim_world_run(fake.world, is_read_while_stored, NULL,
			 sim_world_now_ns(fake.world) + NUM_S(10)),
	    0);
	cr_assert_eq(fake_merge_end(), 0);
	expect_blocks(0, 480, 1, 4);
}

Test(merge_threads, without_nodes_at_any_time_it_fails_and_changes_nothing)
{
	uint32_t failed_count = 0;

	for (uint32_t i = 0; i < 60; i++)
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
	for (uint32_t steps = 0; steps < 60; steps++) {
		struct mt_merge_input input;

		write_blocks(0, 30, 3, 4);
		input = input_of(0, true, chunk_at(0)->run_count);
		cr_assert_eq(fake_merge_begin(&input), 0);
		fake_run_for(NUM_US(200) * steps);
		for (uint32_t i = 0; i < FAKE_NODES; i++)
			fake_node_down(i, 0);
		(void)fake_merge_end_within(NUM_S(10));
		cr_assert(fake_merges.rc == 0 || fake_merges.rc == -EHOSTDOWN, "rc %d",
		    fake_merges.rc);
		failed_count += fake_merges.rc != 0;
		for (uint32_t i = 0; i < FAKE_NODES; i++)
			fake_node_up(i);
		fake_run_for(NUM_MS(50));
		expect_blocks(0, 137, 7, 4);
	}
	cr_assert_gt(failed_count, 5u);
}
