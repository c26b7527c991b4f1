/* SPDX-License-Identifier: Apache-2.0 */
/* test_covered.c -- runs of which newer ones have every block go by an edit alone */
#include <errno.h>

#include "base/num.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/common/shard.h"
#include "middletier/index/index.h"
#include "middletier/index/index_cuts.h"
#include "middletier/index/run_index.h"
#include "middletier/merge/covered.h"
#include "middletier/merge/flush_due.h"
#include "middletier/merge/merge.h"
#include "unit/fake_merge.h"
#include "unit/run_waiters.h"

static struct mt_merge_input input;

static void
setup(void)
{
	fake_init(1, false);
	fake_set_slot_bytes(NUM_MIB(4));
	fake_merges_start();
	fake_run_for(NUM_MS(10));
	fake_state.epoch = fake.shard.epoch;
	memset(&fake_runs, 0, sizeof(fake_runs));
	memset(&input, 0, sizeof(input));
}

TestSuite(covered, .init = setup, .fini = fake_merges_fini);

/* A run of one frame, of which everything is known. */
static struct mt_run *
known(uint64_t flushed_sequence, uint32_t block, uint32_t count, uint64_t version)
{
	struct mt_run *run = fake_runs_one(flushed_sequence, block, count, version);

	cr_assert_eq(load(run), 0);
	return run;
}

static int
find(void)
{
	return mt_covered_find(fake.shard.block_index, fake_chunk(), &input);
}

static uint64_t
metric(enum mt_metric which)
{
	return fake.port.metrics[which];
}

Test(covered, a_run_that_newer_ones_cover_goes_unread)
{
	struct mt_run *old = known(10, 0, 10, 1);
	uint32_t read_count;

	(void)known(20, 0, 5, 2);
	(void)known(30, 5, 5, 3);
	cr_assert_eq(find(), 0);
	cr_assert(input.is_covered);
	cr_assert_eq(input.newest_run, old);
	cr_assert_eq(input.oldest_run, old);
	read_count = fake_read_count();
	fake_merge(&input);
	cr_assert_eq(fake_read_count(), read_count);
	cr_assert_eq(metric(MT_METRIC_covered_runs), 1);
	cr_assert_eq(metric(MT_METRIC_compactions), 0);
	cr_assert_eq(metric(MT_METRIC_compacted_bytes), 0);
	cr_assert_eq(fake_chunk()->run_count, 2);
	cr_assert_eq(find(), -ENOENT);
	for (uint32_t i = 0; i < 10; i++)
		fake_expect(i, i < 5 ? 2 : 3);
}

Test(covered, a_run_with_one_block_more_stays)
{
	(void)known(10, 0, 11, 1);
	(void)known(20, 0, 5, 2);
	(void)known(30, 5, 5, 3);
	cr_assert_eq(find(), -ENOENT);
}

Test(covered, what_was_discarded_later_is_covered)
{
	struct mt_run *old = known(10, 0, 10, 1), *discard;

	fake_runs_batch(mt_chunk_number(FAKE_SEGMENT, 0), 20, 0);
	fake_runs_frame(RECORD_DISCARD, 0, 200, 0);
	fake_runs_batch_end();
	discard = fake_runs_end();
	cr_assert_eq(load(discard), 0);
	cr_assert_eq(find(), 0);
	cr_assert_eq(input.newest_run, old);
	fake_merge(&input);
	fake_expect(3, 0);
}

Test(covered, neighbours_go_together_and_others_after_them)
{
	struct mt_run *oldest = known(10, 0, 4, 1), *older, *old, *middle;

	middle = known(15, 100, 1, 1);
	older = known(20, 0, 2, 2);
	old = known(30, 2, 2, 3);
	(void)known(40, 0, 6, 4);
	cr_assert_eq(find(), 0);
	cr_assert_eq(input.newest_run, old);
	cr_assert_eq(input.oldest_run, older);
	fake_merge(&input);
	cr_assert_eq(find(), 0);
	cr_assert_eq(input.newest_run, oldest);
	cr_assert_eq(input.oldest_run, oldest);
	fake_merge(&input);
	cr_assert_eq(fake_chunk()->run_count, 2);
	cr_assert_eq(mt_run_of(fake_chunk()->runs.prev), middle);
	fake_expect(1, 4);
	fake_expect(100, 1);
}

Test(covered, of_one_merges_runs_the_one_that_is_found_first_covers)
{
	struct mt_run *first = known(10, 0, 4, 1);

	(void)known(10, 0, 4, 2);
	cr_assert_eq(find(), 0);
	cr_assert_eq(input.newest_run, first);
	cr_assert_eq(input.oldest_run, first);
	fake_merge(&input);
	fake_expect(0, 2);
}

/* A run without a cut's records: a snapshot shows what is below it. */
Test(covered, nothing_covers_what_a_snapshot_shows)
{
	struct mt_index_cut cut = { .cut = 1, .segment_base = FAKE_SEGMENT, .segment_count = 1 };
	struct mt_run *run;

	cr_assert_eq(mt_index_add_cut(fake.shard.block_index, &cut), 0);
	(void)known(10, 0, 4, 1);
	fake_runs_batch(mt_chunk_number(FAKE_SEGMENT, 0), 20, 1);
	fake_runs_frame(RECORD_WRITE, 0, 4, 2);
	fake_runs_batch_end();
	run = fake_runs_end();
	cr_assert_eq(load(run), 0);
	cr_assert_eq(find(), -ENOENT);
	mt_index_drop_cut(fake.shard.block_index, 1);
	cr_assert_eq(find(), 0);
}

Test(covered, a_run_of_which_nothing_is_known_neither_covers_nor_goes)
{
	struct mt_run *old = known(10, 0, 4, 1), *newer = known(20, 0, 8, 2);

	mt_run_cache_drop(newer);
	cr_assert_eq(find(), -ENOENT);
	cr_assert_eq(load(newer), 0);
	mt_run_cache_drop(old);
	cr_assert_eq(find(), -ENOENT);
	cr_assert_eq(load(old), 0);
	cr_assert_eq(find(), 0);
}

Test(covered, a_directory_says_enough_of_a_run)
{
	struct mt_run *old = known(10, 0, 4, 1), *newer = known(20, 0, 4, 2);

	mt_run_cache_evict(old);
	mt_run_cache_evict(newer);
	cr_assert_not_null(old->dir);
	cr_assert_null(newer->index);
	cr_assert_eq(find(), 0);
	cr_assert_eq(input.newest_run, old);
	(void)known(5, 3, 2, 1);
	fake_merge(&input);
	cr_assert_eq(find(), -ENOENT, "block 4 is in none of the others");
}

Test(covered, while_a_part_of_them_is_merged_none_goes)
{
	struct mt_run *old = known(10, 0, 4, 1);

	(void)known(20, 0, 4, 2);
	old->is_merging = true;
	cr_assert_eq(find(), -ENOENT);
	old->is_merging = false;
	cr_assert_eq(find(), 0);
}

Test(covered, it_is_due_once_behind_each_merge_of_the_chunk)
{
	struct flush_due due = { 0 };

	mt_flush_due_start(&due, &fake.shard);
	due.scan_ns = UINT64_MAX; /* nothing is compacted */
	(void)known(10, 0, 4, 1);
	(void)known(20, 0, 4, 2);
	cr_assert_eq(mt_flush_due_find(&due, &input), -ENOENT);
	mt_flush_due_merged(&due, fake_chunk()->number);
	fake_chunk()->retry_ns = UINT64_MAX;
	cr_assert_eq(mt_flush_due_find(&due, &input), -ENOENT, "it is put off");
	fake_chunk()->retry_ns = 0;
	mt_flush_due_merged(&due, fake_chunk()->number);
	cr_assert_eq(mt_flush_due_find(&due, &input), 0);
	cr_assert(input.is_covered);
	fake_merge(&input);
	cr_assert_eq(mt_flush_due_find(&due, &input), -ENOENT);
}

Test(covered, a_compaction_that_is_due_takes_them_first)
{
	struct flush_due due = { 0 };
	struct mt_run *old = known(10, 0, 16, 1);

	mt_flush_due_start(&due, &fake.shard);
	(void)known(20, 0, 16, 2);
	cr_assert_eq(mt_flush_due_find(&due, &input), 0);
	cr_assert(input.is_covered);
	cr_assert_eq(input.newest_run, old);
	fake_merge(&input);
	due.scan_ns = 0;
	cr_assert_eq(mt_flush_due_find(&due, &input), -ENOENT);
}
