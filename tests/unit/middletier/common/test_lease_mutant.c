/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lease_mutant.c -- a planted bug, lease_sleeps, is found: the lease's clock is built into this test with it
 *
 * Hosts of the simulator pause, and never sleep: all of their clocks go on.
 */
#define CLEAVE_MUTANTS
#include "middletier/common/lease.c"

#include <criterion/criterion.h>

#include "base/num.h"
#include "splitlib/sim/loop_sim.h"

struct mutant_set mutants_on;

static uint64_t slept_ns;

static uint64_t
sleeper_now_boot_ns(struct loop *loop)
{
	return loop_now_ns(loop) + slept_ns;
}

/* Is a lease of two seconds believed in by a host that wakes after a minute? */
static bool
is_believed_awake_again(void)
{
	struct sim_world *world = sim_world_create(1);
	struct loop *loop = sim_loop_create(world, "sleeper");
	struct loop_ops ops = *loop->ops;
	struct mt_shared shared = { .events = NULL };
	bool is_held;

	ops.now_boot_ns = sleeper_now_boot_ns;
	loop->ops = &ops;
	slept_ns = 0;
	shared.lease_until_ns = mt_lease_now_ns(loop) + NUM_S(2);
	cr_assert(mt_lease_is_held(&shared, loop));
	slept_ns = NUM_S(60);
	is_held = mt_lease_is_held(&shared, loop);
	loop_destroy(loop);
	sim_world_destroy(world);
	return is_held;
}

Test(lease_mutant, a_lease_that_sleeps_is_found)
{
	cr_assert_not(is_believed_awake_again());
	mutant_set_add(&mutants_on, MUTANT_lease_sleeps);
	cr_assert(is_believed_awake_again());
}
