/* SPDX-License-Identifier: Apache-2.0 */
/* time_passes.h -- a simulated world goes on though nothing else happens in it */
#ifndef CLEAVE_TESTS_TIME_PASSES_H
#define CLEAVE_TESTS_TIME_PASSES_H

#include "cleave/loop.h"
#include "splitlib/sim/loop_sim.h"

static inline void
time_on_passed(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
}

/* time_passes -- @ns of it: a timer of @loop sees to it that there is something to wait for. */
static inline void
time_passes(struct sim_world *world, struct loop *loop, uint64_t ns)
{
	struct loop_timer timer;

	loop_timer_init(&timer, time_on_passed, NULL);
	loop_timer_start(loop, &timer, ns);
	(void)sim_world_run(world, NULL, NULL, sim_world_now_ns(world) + ns);
	loop_timer_stop(loop, &timer);
}

#endif /* CLEAVE_TESTS_TIME_PASSES_H */
