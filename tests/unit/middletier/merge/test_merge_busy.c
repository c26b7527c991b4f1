/* SPDX-License-Identifier: Apache-2.0 */
/* test_merge_busy.c -- a merge whose engines take nothing, for clients have filled their queue */
#include "base/num.h"
#include "middletier/index/index.h"
#include "middletier/merge/merge_work.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/fake_merge.h"

static void
setup(void)
{
	fake_init(1, true);
	fake_merges_start();
}

static void
teardown(void)
{
	fake_merges_fini();
}

TestSuite(merge_busy, .init = setup, .fini = teardown, .timeout = 60);

static bool
is_in_state(void *arg)
{
	const struct mt_merge *at_work = fake.port.merge_work->merge;

	return at_work != NULL && at_work->sm.state == *(const enum mt_merge_state *)arg;
}

/* Once a millisecond, not in each turn of the loop. */
static void
expect_patience_in(enum mt_merge_state state)
{
	struct mt_merge_input input = fake_input_of_all(fake_chunk(), true);
	uint32_t count;

	cr_assert_eq(fake_merge_begin(&input), 0);
	cr_assert_eq(sim_world_run(fake.world, is_in_state, &state,
			 sim_world_now_ns(fake.world) + NUM_S(10)),
	    0);
	fake.engines.is_refusing = true;
	fake_run_for(NUM_MS(20)); /* what engines had already is back */
	count = fake.engines.submit_count;
	fake_run_for(NUM_MS(100));
	cr_assert_geq(fake.engines.submit_count, count + 50);
	cr_assert_leq(fake.engines.submit_count, count + 2 * 100);
	fake.engines.is_refusing = false;
	cr_assert_eq(fake_merge_end(), 0);
}

Test(merge_busy, while_the_engines_are_full_it_asks_now_and_then)
{
	for (uint32_t i = 0; i < 30; i++)
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
	expect_patience_in(MERGE_FETCHING);
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_eq(fake_wait(fake_write(3 * i, 1, 1)), 0);
	expect_patience_in(MERGE_STORING);
	for (uint32_t i = 0; i < 100; i++)
		fake_expect(3 * i, 1);
	for (uint32_t i = 0; i < 100; i++)
		fake_expect(3 * i + 1, 4);
}
