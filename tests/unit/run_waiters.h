/* SPDX-License-Identifier: Apache-2.0 */
/* run_waiters.h -- who waits for indexes of runs, of fake_runs.h: told once, and never from within the call */
#ifndef CLEAVE_TESTS_RUN_WAITERS_H
#define CLEAVE_TESTS_RUN_WAITERS_H

#include "middletier/index/run_load.h"
#include "unit/fake_runs.h"

#ifndef WAITERS /* a test may have fewer */
#define WAITERS 8u
#endif

static struct waiter {
	struct mt_run_waiter waiter;
	uint32_t told_count;
	int rc;
} waiters[WAITERS];

static inline void
on_told(int rc, void *arg)
{
	struct waiter *waiter = arg;

	waiter->told_count++;
	waiter->rc = rc;
}

static inline struct mt_run_waiter *
waiter_of(uint32_t i)
{
	waiters[i] = (struct waiter){ .waiter = { .fn = on_told, .arg = &waiters[i] } };
	return &waiters[i].waiter;
}

/* wait_told -- the first waiter is; returns what. */
static inline int
wait_told(void)
{
	cr_assert_eq(waiters[0].told_count, 0, "told from within the call");
	fake_run_for(NUM_S(5));
	cr_assert_eq(waiters[0].told_count, 1);
	return waiters[0].rc;
}

/* load -- @run's whole index. */
static inline int
load(struct mt_run *run)
{
	mt_run_load(run, waiter_of(0));
	return wait_told();
}

#endif /* CLEAVE_TESTS_RUN_WAITERS_H */
