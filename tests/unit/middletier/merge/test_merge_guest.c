/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_merge_guest.c -- a guest executes merges of a shard of which it knows a recipe: what is lent to it, and comes back
 *
 * The first merge of each test makes the run extent that is lent for the second.
 */
#include "base/list.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/level.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/index/index.h"
#include "middletier/index/memtable.h"
#include "middletier/index/run_index.h"
#include "middletier/merge/merge_by_recipe.h"
#include "middletier/merge/merge_work.h"
#include "middletier/merge/run_roll.h"
#include "unit/fake_merge.h"

#define BLOCKS 32u /* a batch */

static struct {
	void (*fn)(void);                   /* when a guest's first window is stored */
	void (*lie)(struct run_part *part); /* before what the guest says of its run is looked at */
	uint32_t storing_count, verifying_count, recalling_count;
	uint64_t lent_bytes; /* the extent's end then */
	uint32_t lent_index;
} seen;

static void
on_move(const struct sm *sm, uint32_t from, uint32_t to)
{
	(void)from;
	if (strcmp(sm->name, "merge") != 0 || !mt_merge_by_recipe_is_guest(fake.port.merge_work))
		return;
	seen.verifying_count += to == MERGE_VERIFYING;
	if (to == MERGE_VERIFYING && seen.lie != NULL)
		seen.lie(&fake.port.merge_work->result.parts[0]);
	seen.recalling_count += to == MERGE_RECALLING;
	if (to != MERGE_STORING || seen.storing_count++ > 0)
		return;
	cr_assert_eq(fake.shard.run_roll->sm.state, RUN_ROLL_LENT);
	seen.lent_bytes = fake.shard.run_roll->extent->end_bytes;
	seen.lent_index = fake.shard.run_roll->extent->index;
	if (seen.fn != NULL)
		seen.fn();
}

static void
begin(void)
{
	struct mt_merge_input input = { .level = 1 };

	for (uint32_t i = 0; i < BLOCKS; i += 16)
		cr_assert_eq(fake_wait(fake_write(i, 16, 4)), 0);
	input.chunk = fake_chunk();
	cr_assert_eq(mt_index_freeze(fake_chunk()), 0);
	input.newest_layer = LIST_ENTRY(fake_chunk()->layers.next, struct mt_layer, link);
	input.oldest_layer = LIST_ENTRY(fake_chunk()->layers.prev, struct mt_layer, link);
	cr_assert_eq(fake_merge_begin(&input), 0);
}

static void
setup(void)
{
	memset(&seen, 0, sizeof(seen));
	fake_init(1, false);
	fake.settings.has_recipes = true;
	fake_merges_start();
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(fake.shard.run_roll->sm.state, RUN_ROLL_OPEN);
	sm_set_tracer(on_move);
}

static void
teardown(void)
{
	sm_set_tracer(NULL);
	fake_merges_fini();
}

TestSuite(merge_guest, .init = setup, .fini = teardown);

static const struct mt_run *
newest(void)
{
	struct mt_run *run = LIST_ENTRY(fake_chunk()->runs.next, struct mt_run, link);
	struct mt_location location;

	cr_assert_not_null(run->index);
	for (uint32_t i = 0; i < BLOCKS; i++)
		cr_assert(mt_run_find(run, i, &location), "block %u", i);
	return run;
}

Test(merge_guest, what_was_lent_comes_back_with_a_new_end)
{
	const struct mt_extent *extent = fake.shard.run_roll->extent;

	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(seen.verifying_count, 1);
	cr_assert_eq(seen.recalling_count, 0);
	cr_assert_eq(fake.shard.run_roll->sm.state, RUN_ROLL_OPEN);
	cr_assert_eq(newest()->extent_index, extent->index);
	cr_assert_eq(newest()->offset_bytes + newest()->length_bytes, extent->end_bytes);
	cr_assert_eq(extent->acked_bytes, extent->end_bytes);
	cr_assert_eq(extent->use_count, 0);
	cr_assert_eq(fake.port.merge_work->executor, &fake.port.merge_work->exec);
	/* And its owner goes on behind that, in the same chain. */
	fake.settings.has_recipes = false;
	mt_merge_by_recipe_destroy(fake.port.merge_work->by_recipe);
	fake.port.merge_work->by_recipe = NULL;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(seen.verifying_count, 1);
	cr_assert_eq(newest()->offset_bytes + newest()->length_bytes, extent->end_bytes);
}

/* The execution has come to nothing: the extent is sealed where it was lent, and a run is made by the plan. */
static void
expect_by_plan(void)
{
	const struct mt_extent *extent;

	fake_run_for(NUM_MS(50));
	cr_assert_eq(fake.port.metrics[MT_METRIC_merges_refused], 1);
	extent = mt_shard_extent(&fake.shard, seen.lent_index);
	cr_assert_eq(extent->sm.state, MT_EXTENT_SEALED);
	cr_assert_eq(extent->sealed_bytes, seen.lent_bytes);
	cr_assert_neq(newest()->extent_index, extent->index);
	cr_assert_eq(fake_chunk()->run_count, 2);
}

static void
fail_append(int rc)
{
	uint32_t node = fake.shard.run_roll->extent->replicas[1].node_id - 1;

	fake.nodes[node].fault =
	    (struct fake_fault){ .opcode = WIRE_EXTENT_APPEND, .countdown = 1, .rc = rc };
}

static void
a_disk_fails(void)
{
	fail_append(-EIO);
}

Test(merge_guest, where_a_replica_fails_the_rest_is_done_by_the_plan)
{
	seen.fn = a_disk_fails;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(seen.recalling_count, 1);
	expect_by_plan();
}

/* The guest says that the batch was written. */
Test(merge_guest, a_batch_that_failed_is_not_named_though_the_guest_says_so)
{
	fake.settings.recipe_lies = 1000; /* which has every second one count what failed */
	seen.fn = a_disk_fails;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(seen.recalling_count, 0);
	cr_assert_eq(seen.verifying_count, 1);
	expect_by_plan();
}

static void
another_owner(void)
{
	fail_append(-ESTALE);
}

/* The owner hears of it by itself. */
Test(merge_guest, a_newer_owner_is_no_end_of_the_guests)
{
	seen.fn = another_owner;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(seen.recalling_count, 1);
	cr_assert_eq(fake.stop_rc, 0);
	expect_by_plan();
}

/* The second batch of the guest's is its run's directory. */
static void
another_owner_behind(void)
{
	another_owner();
	fake.nodes[fake.shard.run_roll->extent->replicas[1].node_id - 1].fault.countdown = 2;
}

Test(merge_guest, nor_one_that_its_directory_meets)
{
	fake.settings.directory_batches_min = 1;
	atomic_store(&fake.shared.cluster_level, CLEAVE_LEVEL_DIRECTORIES);
	seen.fn = another_owner_behind;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(seen.recalling_count, 1);
	cr_assert_eq(fake.stop_rc, 0);
	expect_by_plan();
}

static void
a_disk_fails_behind(void)
{
	a_disk_fails();
	fake.nodes[fake.shard.run_roll->extent->replicas[1].node_id - 1].fault.countdown = 2;
}

/* The run is as good without its directory, but nobody appends to what has broken. */
Test(merge_guest, an_extent_that_broke_behind_the_run_is_sealed_there)
{
	const struct mt_extent *extent = fake.shard.run_roll->extent;

	fake.settings.directory_batches_min = 1;
	atomic_store(&fake.shared.cluster_level, CLEAVE_LEVEL_DIRECTORIES);
	seen.fn = a_disk_fails_behind;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	fake_run_for(NUM_MS(50));
	cr_assert_eq(seen.verifying_count, 1);
	cr_assert_eq(newest()->extent_index, extent->index);
	cr_assert_eq(newest()->directory_bytes, 0);
	cr_assert_eq(extent->sm.state, MT_EXTENT_SEALED);
	cr_assert_eq(extent->sealed_bytes, newest()->offset_bytes + newest()->length_bytes);
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(fake.port.metrics[MT_METRIC_merges_refused], 0);
}

Test(merge_guest, what_is_refused_is_sealed_off)
{
	fake.settings.recipe_lies = 1;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(seen.verifying_count, 1);
	expect_by_plan();
}

static void
of_another_extent(struct run_part *part)
{
	part->id.counter += 1000;
}

static void
behind_a_gap(struct run_part *part)
{
	part->offset_bytes += BATCH_ALIGN;
}

static void
before_the_end(struct run_part *part)
{
	part->offset_bytes = 0;
}

static void
longer_than_an_extent(struct run_part *part)
{
	part->length_bytes = UINT32_MAX / BATCH_ALIGN * BATCH_ALIGN;
}

static void
with_no_bytes(struct run_part *part)
{
	part->length_bytes = 0;
}

static void
with_nothing_but_a_directory(struct run_part *part)
{
	part->directory_bytes = part->length_bytes;
}

/* No node is asked for what cannot be, and nothing is asserted of it. */
Test(merge_guest, a_run_that_cannot_be_is_made_by_the_plan)
{
	static void (*const lies[])(struct run_part * part) = { of_another_extent, behind_a_gap,
		before_the_end, longer_than_an_extent, with_no_bytes,
		with_nothing_but_a_directory };

	for (uint32_t i = 0; i < NUM_COUNT(lies); i++) {
		uint64_t refused = fake.port.metrics[MT_METRIC_merges_refused];

		seen.lie = lies[i];
		seen.verifying_count = seen.storing_count = 0;
		begin();
		cr_assert_eq(fake_merge_end(), 0, "lie %u", i);
		fake_run_for(NUM_MS(50));
		cr_assert_eq(seen.verifying_count, 1, "lie %u", i);
		cr_assert_eq(fake.port.metrics[MT_METRIC_merges_refused], refused + 1, "lie %u", i);
		cr_assert_eq(mt_shard_extent(&fake.shard, seen.lent_index)->sealed_bytes,
		    seen.lent_bytes, "lie %u", i);
		(void)newest();
	}
}

static bool
is_storing(void *arg)
{
	(void)arg;
	return seen.storing_count > 0;
}

static void
all_nodes_stall(void)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_stalled = true;
}

static void
stall_while_storing(void)
{
	seen.fn = all_nodes_stall;
	begin();
	cr_assert_eq(sim_world_run(fake.world, is_storing, NULL,
			 sim_world_now_ns(fake.world) + NUM_S(10)),
	    0);
	fake_run_for(NUM_MS(20));
}

Test(merge_guest, a_merge_that_is_stopped_waits_for_what_the_guest_has_out)
{
	stall_while_storing();
	mt_run_roll_stop(&fake.shard);
	mt_merge_stop(&fake.shard);
	fake_run_for(NUM_MS(1));
	cr_assert(!mt_merge_is_quiet(&fake.shard));
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_resume(i);
	cr_assert_eq(fake_merge_end(), -ECANCELED);
	cr_assert(mt_merge_is_quiet(&fake.shard));
	cr_assert(!mt_merge_by_recipe_is_guest(fake.port.merge_work));
	cr_assert_eq(fake_chunk()->run_count, 1);
}

/* As in a process that is killed: teardown finds a guest at work. */
Test(merge_guest, a_process_may_end_in_the_middle)
{
	stall_while_storing();
	cr_assert(mt_merge_by_recipe_is_guest(fake.port.merge_work));
}
