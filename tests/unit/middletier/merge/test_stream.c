/* SPDX-License-Identifier: Apache-2.0 */
/* test_stream.c -- a chunk that is written in order: its older runs are left alone */
#include <errno.h>

#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "middletier/index/index.h"
#include "middletier/merge/compact.h"
#include "middletier/merge/flush_due.h"
#include "middletier/merge/flush_input.h"
#include "middletier/merge/merge.h"
#include "middletier/merge/stream.h"
#include "middletier/merge/tiers.h"
#include "unit/fake_merge.h"

#define RECORD ENGINE_RECORD_BLOCKS_MAX
#define DENSE 4u /* versions of which each block takes 4 KiB: dense, all of them */

static void
setup(void)
{
	fake_init(1, false);
	fake_set_slot_bytes(NUM_MIB(8));
	fake_state.epoch = fake.shard.epoch;
	fake_merges_start();
}

TestSuite(stream, .init = setup, .fini = fake_merges_fini);

/* @count blocks from @block on, in records that go from each other's end to the next one's beginning by @step. */
static void
write_records(uint32_t block, uint32_t count, uint32_t step)
{
	for (uint32_t i = 0; i < count / RECORD; i++)
		cr_assert_eq(fake_wait(fake_write(block + i * step, RECORD, DENSE)), 0);
}

static struct mt_merge_input
flush_input(void)
{
	struct flush_terms terms = { .shard = &fake.shard, .is_dirty = true };
	struct mt_merge_input input;

	cr_assert_eq(mt_flush_input_chunk(&terms, fake_chunk(), &input), 0);
	return input;
}

static void
flush(void)
{
	struct mt_merge_input input = flush_input();

	fake_merge(&input);
	mt_compact_count(fake.shard.block_index, fake_chunk());
}

/* ---- what is one ---- */

Test(stream, a_mebibyte_without_a_gap_is_one)
{
	write_records(7, STREAM_BLOCKS_MIN, RECORD);
	cr_assert(flush_input().is_stream);
}

Test(stream, a_block_less_is_none)
{
	write_records(0, STREAM_BLOCKS_MIN - RECORD, RECORD);
	cr_assert_eq(fake_wait(fake_write(STREAM_BLOCKS_MIN - RECORD, RECORD - 1, DENSE)), 0);
	cr_assert_not(flush_input().is_stream);
}

Test(stream, the_same_with_gaps_is_none)
{
	write_records(0, 2 * STREAM_BLOCKS_MIN, RECORD + 1);
	cr_assert_not(flush_input().is_stream);
}

Test(stream, up_to_as_much_may_come_from_elsewhere)
{
	write_records(0, STREAM_BLOCKS_MIN, RECORD);
	write_records(1000, STREAM_BLOCKS_MIN, RECORD + 1);
	cr_assert(flush_input().is_stream);
	cr_assert_eq(fake_wait(fake_write(5000, 1, DENSE)), 0);
	cr_assert_not(flush_input().is_stream);
}

Test(stream, what_is_discarded_in_order_is_none)
{
	cr_assert_eq(fake_wait(fake_write(9000, 1, DENSE)),
	    0); /* it counts in a chunk that has something */
	cr_assert_eq(fake_wait(fake_discard(0, 4 * STREAM_BLOCKS_MIN)), 0);
	cr_assert_not(flush_input().is_stream);
}

Test(stream, without_room_there_is_none)
{
	write_records(0, STREAM_BLOCKS_MIN, RECORD);
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.links[i].slots_total = 100;
		fake.links[i].slots_free = 24;
	}
	cr_assert_not(flush_input().is_stream);
}

/* ---- what becomes of its chunk ---- */

/* Half of what is live is garbage, and so much more lies in the layer. */
static void
make_garbage(uint32_t step)
{
	write_records(0, 4 * STREAM_BLOCKS_MIN, RECORD);
	flush();
	write_records(0, STREAM_BLOCKS_MIN, step);
	flush();
	cr_assert_eq(fake_chunk()->run_count, 2);
	write_records(STREAM_BLOCKS_MIN * 2, 2 * STREAM_BLOCKS_MIN, step);
}

Test(stream, its_flush_takes_no_run_along)
{
	make_garbage(RECORD);
	cr_assert_null(flush_input().newest_run);
}

Test(stream, any_other_does_where_a_chunk_has_much_garbage)
{
	make_garbage(2 * RECORD);
	cr_assert_not_null(flush_input().newest_run);
}

static struct mt_run *
scan(uint64_t sequence, struct tiers_total *ret_total)
{
	uint32_t garbage;

	return mt_compact_scan(&fake.shard, sequence, ret_total, &garbage);
}

Test(stream, its_chunk_is_not_compacted_while_more_of_it_may_come)
{
	struct tiers_total total;
	uint64_t flushed;

	make_garbage(RECORD);
	flush();
	flushed = fake_newest_run()->flushed_sequence;
	cr_assert(fake_newest_run()->is_of_stream);
	cr_assert_null(scan(flushed, &total));
	cr_assert_eq(total.live_bytes, total.run_bytes, "what it has of garbage does not count");
	cr_assert_eq(total.run_bytes, fake.shard.block_index->run_bytes);
	cr_assert(total.has_stream);
	cr_assert_eq(scan(flushed + 1, &total), fake_newest_run());
	cr_assert_lt(total.live_bytes, total.run_bytes);
	cr_assert_not(total.has_stream);
}

Test(stream, what_came_otherwise_behind_it_ends_it)
{
	struct tiers_total total;

	make_garbage(RECORD);
	flush();
	cr_assert_eq(fake_wait(fake_write(3, RECORD, DENSE)), 0);
	flush();
	cr_assert_not(fake_newest_run()->is_of_stream);
	cr_assert_eq(scan(0, &total), fake_newest_run());
}

Test(stream, a_chunk_that_has_too_much_garbage_is_compacted)
{
	struct compact_group group;

	make_garbage(RECORD);
	flush();
	mt_compact_group_from(fake.shard.block_index, fake_newest_run(), &group);
	cr_assert(mt_stream_is_in(&group, TIERS_FULL_MAX_PER_MILLE - 1, 0));
	cr_assert_not(mt_stream_is_in(&group, TIERS_FULL_MAX_PER_MILLE, 0));
}

/* The whole way: a stream over a chunk leaves what it wrote, once, and nothing of before. */
Test(stream, when_it_has_passed_the_runs_of_before_go_unread)
{
	struct flush_due due = { 0 };
	struct mt_merge_input input;
	uint64_t before;

	mt_flush_due_start(&due, &fake.shard);
	write_records(0, 4 * STREAM_BLOCKS_MIN, RECORD);
	flush();
	before = fake_newest_run()->flushed_sequence;
	for (uint32_t i = 0; i < 4; i++) {
		write_records(i * STREAM_BLOCKS_MIN, STREAM_BLOCKS_MIN, RECORD);
		flush();
		mt_flush_due_merged(&due, fake_chunk()->number);
		due.scan_ns = 0;
		cr_assert_eq(mt_flush_due_find(&due, &input), i < 3 ? -ENOENT : 0);
	}
	cr_assert(input.is_covered);
	fake_merge(&input);
	for (struct loop_link *link = fake_chunk()->runs.next; link != &fake_chunk()->runs;
	     link = link->next)
		cr_assert_gt(mt_run_of(link)->flushed_sequence, before);
	for (uint32_t i = 0; i < 4 * STREAM_BLOCKS_MIN; i += 100)
		fake_expect(i, DENSE);
}
