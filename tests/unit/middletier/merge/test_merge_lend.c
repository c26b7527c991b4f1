/* SPDX-License-Identifier: Apache-2.0 */
/* test_merge_lend.c -- with keys nodes are told who executes a merge, and when nobody does any more */
#include "cleave/level.h"
#include "unit/away_rig.h"

TestSuite(merge_lend, .init = setup, .fini = teardown);

static uint32_t
lent_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		count += fake.nodes[i].lent_to == 7;
	return count;
}

static uint32_t lent_at_work;

static void
count_lent(void)
{
	lent_at_work = lent_count();
}

static void
have_keys(uint32_t level)
{
	fake.peer_gateway = 7;
	test.at_work = count_lent;
	lent_at_work = 0;
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].agreed_level = level;
}

Test(merge_lend, nodes_are_told_who_may_append_and_when_nobody_may_any_more)
{
	have_keys(CLEAVE_LEVEL_LEND);
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	expect_away(1);
	cr_assert_geq(lent_at_work, fake.shard.run_roll->extent->replica_count);
	fake_pass(NUM_S(1));
	cr_assert_eq(lent_count(), 0);
}

Test(merge_lend, where_a_node_knows_no_loans_it_is_made_at_home)
{
	have_keys(CLEAVE_LEVEL_LEND - 1);
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	expect_at_home();
	cr_assert_eq(test.peers[0].part_count, 0);
}

Test(merge_lend, where_a_node_does_not_lend_it_is_made_at_home)
{
	have_keys(CLEAVE_LEVEL_LEND);
	fake.nodes[fake.shard.run_roll->extent->replicas[1].node_id - 1].fault =
	    (struct fake_fault){ .opcode = WIRE_EXTENT_LEND, .countdown = 1, .rc = -EBUSY };
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	expect_at_home();
	cr_assert_eq(test.peers[0].part_count, 0);
	fake_pass(NUM_S(1));
	cr_assert_eq(lent_count(), 0, "the others were told again");
}
