/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_merge_read.c -- what a merge wants of a log comes in few messages, from nodes that know how, and all of it
 *
 * The code that judges it is built in with a planted bug, gather_believed.
 */
#define CLEAVE_MUTANTS
#include "middletier/merge/merge_fetch.c"

#include "base/list.h"
#include "base/num.h"
#include "cleave/level.h"
#include "cleave/wire.h"
#include "middletier/index/index.h"
#include "unit/fake_merge.h"

#define BLOCKS 960u /* more than the ring holds */
#define STEP 601u   /* from a block to the one that is written next: they lie here and there */

struct mutant_set mutants_on;

static void
levels(uint32_t level)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].agreed_level = level;
}

static void
setup(void)
{
	fake_init(1, false);
	fake_merges_start();
	levels(CLEAVE_LEVEL_GATHER);
	for (uint32_t i = 0; i < BLOCKS; i++)
		cr_assert_eq(fake_wait(fake_write(i * STEP % BLOCKS, 1, 4)), 0);
}

static void
teardown(void)
{
	mutants_on = (struct mutant_set){ 0 };
	fake_merges_fini();
}

TestSuite(merge_read, .init = setup, .fini = teardown, .timeout = 120);

static void
merge(void)
{
	struct mt_merge_input input = { .chunk = fake_chunk(), .level = 1 };

	cr_assert_eq(mt_index_freeze(fake_chunk()), 0);
	input.newest_layer = LIST_ENTRY(fake_chunk()->layers.next, struct mt_layer, link);
	input.oldest_layer = LIST_ENTRY(fake_chunk()->layers.prev, struct mt_layer, link);
	fake_merge(&input);
}

static uint32_t
count_of(enum wire_opcode opcode)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		count += fake.nodes[i].counts[opcode];
	return count;
}

static void
expect_all(void)
{
	for (uint32_t i = 0; i < BLOCKS; i++)
		cr_assert_eq(fake_wait(fake_read(i, 1)), 0, "block %u", i);
}

Test(merge_read, what_lies_here_and_there_comes_together)
{
	uint32_t messages;

	merge();
	messages = count_of(WIRE_EXTENT_GATHER) + count_of(WIRE_EXTENT_READ);
	cr_assert_gt(count_of(WIRE_EXTENT_GATHER), 0);
	levels(CLEAVE_LEVEL_GATHER - 1);
	for (uint32_t i = 0; i < BLOCKS; i++)
		cr_assert_eq(fake_wait(fake_write(i * STEP % BLOCKS, 1, 4)), 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		memset(fake.nodes[i].counts, 0, sizeof(fake.nodes[i].counts));
	merge();
	cr_assert_eq(count_of(WIRE_EXTENT_GATHER), 0, "nodes of before are not asked so");
	cr_assert_gt(count_of(WIRE_EXTENT_READ), 4 * messages, "%u", messages);
	expect_all();
}

Test(merge_read, what_fails_together_is_asked_for_by_itself)
{
	static const int errors[] = { -EIO, -EINVAL, -EBUSY, -ERANGE, -EBADMSG };

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].fault = (struct fake_fault){ .opcode = WIRE_EXTENT_GATHER,
			.countdown = 1,
			.rc = errors[i % NUM_COUNT(errors)],
			.is_sticky = true };
	merge();
	cr_assert_gt(count_of(WIRE_EXTENT_READ), 0);
	expect_all();
}

/* Whose bytes are wrong is known by each record's CRC: it is asked for at another node. */
Test(merge_read, a_node_that_lies_is_found_out)
{
	fake.nodes[0].is_rotten = true;
	merge();
	fake.nodes[0].is_rotten = false;
	expect_all();
}

/* ---- frames that are taken as they are stored: no engine sees what is in them, and nodes refuse what is wrong ---- */

#define CHANGED 16u /* blocks: of so many one frame stays as it was */

/* Or a node was to store what is wrong. */
static bool
is_over(void *arg)
{
	return fake_merge_has_ended(arg) || fake.nodes[0].wrong_count > 0;
}

/* Most frames of a run change: the others lie here and there. One node sends wrong bytes; are they found out in time? */
static bool
merge_with_a_liar(void)
{
	struct mt_merge_input input = { .level = 1 };
	uint32_t before;

	merge();
	for (uint32_t i = 0; i < BLOCKS; i++) {
		if (i % CHANGED >= 4)
			cr_assert_eq(fake_wait(fake_write(i, 1, 4)), 0);
	}
	cr_assert_eq(mt_index_freeze(fake_chunk()), 0);
	input.chunk = fake_chunk();
	input.newest_layer = LIST_ENTRY(fake_chunk()->layers.next, struct mt_layer, link);
	input.oldest_layer = LIST_ENTRY(fake_chunk()->layers.prev, struct mt_layer, link);
	input.newest_run = input.oldest_run = fake_newest_run();
	before = count_of(WIRE_EXTENT_GATHER);
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.nodes[i].is_rotten = i == 0;
		fake.nodes[i].refuses_wrong = true;
	}
	cr_assert_eq(fake_merge_begin(&input), 0);
	cr_assert_eq(sim_world_run(fake.world, is_over, NULL,
			 sim_world_now_ns(fake.world) + NUM_S(10)),
	    0);
	cr_assert_gt(count_of(WIRE_EXTENT_GATHER), before);
	fake.nodes[0].is_rotten = false;
	if (!fake_merge_has_ended(NULL)) {
		mt_merge_stop(&fake.shard);
		cr_assert_eq(fake_merge_end(), -ECANCELED);
		return false;
	}
	cr_assert_eq(fake_merges.rc, 0);
	expect_all();
	return true;
}

Test(merge_read, a_frame_that_is_taken_as_it_is_stored_is_checked)
{
	cr_assert(merge_with_a_liar());
}

Test(merge_read, with_its_planted_bug_it_is_not)
{
	mutant_set_add(&mutants_on, MUTANT_gather_believed);
	cr_assert_not(merge_with_a_liar());
}
