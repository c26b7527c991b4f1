/* SPDX-License-Identifier: Apache-2.0 */
/* test_compact.c -- what is merged together of a chunk's runs: groups, and generations that are larger than a merge */
#include "base/num.h"
#include "cleave/wire.h"
#include "middletier/common/shard.h"
#include "middletier/index/index.h"
#include "middletier/merge/compact.h"
#include "middletier/merge/flush_input.h"
#include "middletier/merge/merge.h"
#include "middletier/merge/tiers.h"
#include "unit/fake_merge.h"
#include "unit/fake_runs.h"

#define RUNS 130u /* of one generation */
#define SHARED 7u /* the block that each of them has */

static void
setup(void)
{
	fake_init(1, false);
	fake_set_slot_bytes(NUM_MIB(4));
	fake_merges_start();
	fake_run_for(NUM_MS(10));
	fake_state.epoch = fake.shard.epoch;
	memset(&fake_runs, 0, sizeof(fake_runs));
}

TestSuite(compact, .init = setup, .fini = fake_merges_fini);

/* In an extent of its own. */
static void
make_run(uint64_t flushed_sequence, uint64_t version, bool is_named)
{
	fake_runs_extent();
	fake_runs_batch(mt_chunk_number(FAKE_SEGMENT, 0), flushed_sequence, 0);
	fake_runs_frame(RECORD_WRITE, SHARED, 1, version);
	fake_runs_batch_end();
	fake_runs.extent->end_bytes = fake_runs.length;
	if (is_named)
		(void)fake_runs_end();
}

/* Deleted soon, and counted, it would have a shard merge again and again what has no garbage. */
Test(compact, an_extent_that_no_run_is_in_any_more_is_no_hole)
{
	struct tiers_total before, now;
	uint32_t garbage;

	make_run(50, 1, true);
	(void)mt_compact_scan(&fake.shard, UINT64_MAX, &before, &garbage);
	cr_assert_gt(before.extent_bytes, 0);
	make_run(51, 2, false); /* as those are that a merge has replaced */
	(void)mt_compact_scan(&fake.shard, UINT64_MAX, &now, &garbage);
	cr_assert_eq(now.extent_bytes, before.extent_bytes);
	cr_assert_eq(now.run_bytes, before.run_bytes);
}

/* A merge's runs have no block in common; those that its stages have left may have. */
static void
make_generation(void)
{
	for (uint32_t i = 0; i < RUNS; i++) {
		if (i % 64 == 0)
			fake_runs_extent();
		fake_runs_batch(mt_chunk_number(FAKE_SEGMENT, 0), 50, 0);
		fake_runs_frame(RECORD_WRITE, SHARED, 1, i + 1);
		fake_runs_frame(RECORD_WRITE, 100 + i, 1, i + 1);
		fake_runs_batch_end();
		(void)fake_runs_end();
	}
}

Test(compact, of_a_generation_that_is_too_large_the_newest_runs_are_merged)
{
	struct flush_terms terms = { .shard = &fake.shard };
	struct mt_merge_input input;
	struct compact_group group;
	struct mt_run *next;

	make_generation();
	mt_compact_group_from(fake.shard.block_index, mt_run_of(fake_chunk()->runs.next), &group);
	cr_assert_not(group.is_merging);
	cr_assert_eq(group.run_count, COMPACT_RUNS_MAX);
	cr_assert_eq(mt_compact_group_run(&group, 1), group.oldest);
	next = mt_run_of(group.oldest->link.next);
	mt_compact_group_from(fake.shard.block_index, next, &group);
	cr_assert(group.is_merging, "what is older would come in front");
	cr_assert_eq(mt_flush_input_group(&terms, next, &input), 0);
	cr_assert_eq(input.newest_run, mt_run_of(fake_chunk()->runs.next));
	cr_assert_eq(fake_merge_begin(&input), 0);
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(fake_chunk()->run_count, RUNS - COMPACT_RUNS_MAX + 1);
	fake_expect(SHARED, RUNS);
	for (uint32_t i = 0; i < RUNS; i++)
		fake_expect(100 + i, i + 1);
}
