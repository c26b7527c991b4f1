/* SPDX-License-Identifier: Apache-2.0 */
/* test_member_sleep.c -- a gateway whose host was suspended, and wakes: what it believes of its lease */
#include "base/num.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/cluster/member.h"
#include "middletier/common/lease.h"
#include "unit/member_fixture.h"

TestSuite(member_sleep, .init = setup, .fini = teardown);

static uint64_t slept_ns; /* that the other clocks of the second peer's loop have not seen */
static struct loop_ops sleeper_ops;

static uint64_t
sleeper_now_boot_ns(struct loop *loop)
{
	return loop_now_ns(loop) + slept_ns;
}

static void
sleeper_start(void)
{
	slept_ns = 0;
	peer_start(0);
	peer_start(1);
	sleeper_ops = *peers[1].loop->ops;
	sleeper_ops.now_boot_ns = sleeper_now_boot_ns;
	peers[1].loop->ops = &sleeper_ops;
	(void)wait_shared(3);
}

static bool
second_is_renewing(void *arg)
{
	(void)arg;
	return peers[1].gateway->member.is_renewing;
}

static bool
second_has_lease(void *arg)
{
	(void)arg;
	return mt_lease_is_held(&peers[1].gateway->shared, peers[1].loop);
}

/* No timer has to ring before it stops answering: they stood still, too. */
Test(member_sleep, awake_again_it_answers_nothing_before_it_has_renewed)
{
	sleeper_start();
	cr_assert(second_has_lease(NULL));
	slept_ns += NUM_S(60);
	cr_assert_not(second_has_lease(NULL));
	cr_assert(mt_rig_run_until(rig, second_has_lease, NULL)); /* the store has kept it */
	(void)wait_shared(3);
}

Test(member_sleep, a_renewal_that_was_sent_before_it_slept_counts_from_then)
{
	sleeper_start();
	cr_assert(mt_rig_run_until(rig, second_is_renewing, NULL));
	slept_ns += NUM_S(60);
	cr_assert(mt_rig_run_until(rig, second_has_lease, NULL));
	cr_assert(mt_rig_logged(rig, "lost its lease"));
	(void)wait_shared(3);
}
