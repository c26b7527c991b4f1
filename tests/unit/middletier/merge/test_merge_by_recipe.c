/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_merge_by_recipe.c -- merges that are executed from their recipes make the bytes that their plans would
 *
 * One story is told twice, in worlds that differ in nothing else. What nodes hold of the runs that are left is compared.
 */
#include <inttypes.h>

#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/index/index.h"
#include "middletier/index/memtable.h"
#include "middletier/index/run_index.h"
#include "middletier/merge/merge_by_recipe.h"
#include "middletier/merge/merge_work.h"
#include "unit/fake_merge.h"

#define OUTCOME_BYTES NUM_MIB(16)

/* The runs that a story leaves, one behind the other: what they say, and their bytes. */
struct outcome {
	uint8_t bytes[OUTCOME_BYTES];
	uint64_t length_bytes;
	uint32_t run_count;
	uint64_t stages;
};

static struct outcome by_plan, by_recipe;

/* Layers, if @has_layers, and as many of the newest runs. */
static void
merge(bool has_layers, uint32_t run_count)
{
	struct mt_merge_input input = { .chunk = fake_chunk(), .level = 1 };
	struct loop_link *link = fake_chunk()->runs.next;

	if (has_layers) {
		cr_assert_eq(mt_index_freeze(fake_chunk()), 0);
		input.newest_layer = LIST_ENTRY(fake_chunk()->layers.next, struct mt_layer, link);
		input.oldest_layer = LIST_ENTRY(fake_chunk()->layers.prev, struct mt_layer, link);
	}
	for (uint32_t i = 0; i < run_count; i++, link = link->next) {
		input.newest_run = i == 0 ? LIST_ENTRY(link, struct mt_run, link)
					  : input.newest_run;
		input.oldest_run = LIST_ENTRY(link, struct mt_run, link);
	}
	/* As if nothing had been written lately: windows, at which stages end, depend on time otherwise. */
	fake.port.merge_work->inflow = (struct pace_inflow){ 0 };
	cr_assert_eq(fake_merge_begin(&input), 0);
	cr_assert_eq(fake_merge_end(), 0);
	fake_run_for(NUM_MS(50));
}

static void
outcome_add(struct outcome *outcome, const void *bytes, uint64_t length_bytes)
{
	cr_assert_leq(outcome->length_bytes + length_bytes, OUTCOME_BYTES);
	memcpy(outcome->bytes + outcome->length_bytes, bytes, length_bytes);
	outcome->length_bytes += length_bytes;
}

static void
outcome_take(struct outcome *outcome)
{
	struct loop_link *link, *next;

	outcome->stages = fake.port.metrics[MT_METRIC_merge_stages];
	LIST_FOREACH_SAFE(&fake_chunk()->runs, link, next) {
		const struct mt_run *run = LIST_ENTRY(link, struct mt_run, link);
		const struct mt_extent *extent = mt_shard_extent(&fake.shard, run->extent_index);
		const struct fake_copy *copy =
		    fake_copy_find(&fake.nodes[extent->replicas[0].node_id - 1], &extent->id);
		uint64_t says[] = { extent_id_pack(&extent->id), run->offset_bytes,
			run->length_bytes, run->flushed_sequence, run->cut };

		outcome_add(outcome, says, sizeof(says));
		outcome_add(outcome, copy->bytes + run->offset_bytes, run->length_bytes);
		outcome->run_count++;
	}
}

static void
tell(struct outcome *outcome, bool has_recipes, void (*story)(void))
{
	fake_init(1, false);
	fake.settings.has_recipes = has_recipes;
	fake_merges_start();
	cr_assert_eq(fake.port.merge_work->by_recipe != NULL, has_recipes);
	memset(outcome, 0, sizeof(*outcome));
	story();
	outcome_take(outcome);
	fake_merges_fini();
}

static void
compare(void (*story)(void))
{
	tell(&by_plan, false, story);
	tell(&by_recipe, true, story);
	cr_assert_gt(by_plan.run_count, 0);
	cr_assert_eq(by_recipe.run_count, by_plan.run_count);
	cr_assert_eq(by_recipe.stages, by_plan.stages);
	cr_assert_eq(by_recipe.length_bytes, by_plan.length_bytes);
	for (uint64_t i = 0; i < by_plan.length_bytes; i++)
		cr_assert_eq(by_recipe.bytes[i], by_plan.bytes[i], "byte %" PRIu64, i);
}

/* Records of all lengths, which frames cut, overwritten in part; zeros; tombstones; more than the ring holds. */
static void
many_kinds(void)
{
	for (uint32_t i = 0; i < 60; i++)
		cr_assert_eq(fake_wait(fake_write(16 * i + i % 5, 1 + i * 7 % 16, 3 + i)), 0);
	cr_assert_eq(fake_wait(fake_write(3000, 16, 0)), 0);
	cr_assert_eq(fake_wait(fake_discard(500, 90)), 0);
	merge(true, 0);
	for (uint32_t i = 0; i < 90; i++)
		cr_assert_eq(fake_wait(fake_write(11 * i, 1, 200 + i)), 0);
	cr_assert_eq(fake_wait(fake_discard(0, 3)), 0);
	merge(true, 0);
	for (uint32_t i = 0; i < 20; i++)
		cr_assert_eq(fake_wait(fake_write(47 * i, 2, 500 + i)), 0);
	merge(true, 1); /* something lies beneath */
	for (uint32_t i = 0; i < 20; i++)
		cr_assert_eq(fake_wait(fake_write(31 * i, 3, 700 + i)), 0);
	merge(true, fake_chunk()->run_count);
}

Test(merge_by_recipe, makes_the_bytes_that_the_plan_makes)
{
	compare(many_kinds);
	cr_assert_eq(by_plan.stages, 0);
}

/* 4 MiB that do not compress, twice, in slots of 512 KiB. */
static void
two_generations(void)
{
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 64; i++)
			cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4 + 4 * round)), 0);
		merge(true, 0);
	}
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_eq(fake_wait(fake_write(3 + 9 * i, 1, 12)), 0);
	merge(true, fake_chunk()->run_count);
}

Test(merge_by_recipe, makes_the_bytes_that_the_plan_makes_in_stages)
{
	compare(two_generations);
	cr_assert_gt(by_plan.stages, 0);
}

/* The result of nothing but what was discarded is nothing. */
static void
discarded(void)
{
	cr_assert_eq(fake_wait(fake_write(0, 16, 4)), 0);
	cr_assert_eq(fake_wait(fake_write(64, 16, 4)), 0);
	merge(true, 0);
	cr_assert_eq(fake_wait(fake_discard(0, 80)), 0);
	cr_assert_eq(fake_wait(fake_write(200, 1, 4)), 0);
	merge(true, fake_chunk()->run_count);
}

Test(merge_by_recipe, leaves_out_what_was_discarded)
{
	compare(discarded);
}

/* A frame that is left out, then a part that is said to go on. */
Test(merge_by_recipe, what_is_executed_wrongly_is_made_anew)
{
	struct mt_location location;

	fake_init(1, false);
	fake.settings.has_recipes = true;
	fake.settings.recipe_lies = 1;
	fake_merges_start();
	for (uint32_t round = 0; round < 2; round++) {
		struct mt_run *run;

		for (uint32_t i = 0; i < 2; i++)
			cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
		merge(true, 0);
		cr_assert_eq(fake.port.metrics[MT_METRIC_merges_refused], round + 1);
		cr_assert_eq(fake_chunk()->run_count, round + 1);
		run = LIST_ENTRY(fake_chunk()->runs.next, struct mt_run, link);
		cr_assert_not_null(run->index);
		for (uint32_t i = 0; i < 32; i++)
			cr_assert(mt_run_find(run, i, &location), "block %" PRIu32, i);
	}
	fake_merges_fini();
}

Test(merge_by_recipe, there_is_none_without_the_setting)
{
	fake_init(1, false);
	fake_merges_start();
	cr_assert_null(fake.port.merge_work->by_recipe);
	fake_merges_fini();
}
