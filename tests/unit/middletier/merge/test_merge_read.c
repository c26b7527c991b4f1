/* SPDX-License-Identifier: Apache-2.0 */
/* test_merge_read.c -- what a merge wants of a log comes in few messages, from nodes that know how, and all of it */
#include "base/list.h"
#include "base/num.h"
#include "cleave/level.h"
#include "cleave/wire.h"
#include "middletier/index/index.h"
#include "unit/fake_merge.h"

#define BLOCKS 960u /* more than the ring holds */
#define STEP 601u   /* from a block to the one that is written next: they lie here and there */

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
