/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c -- may this gateway answer for what it owns? (I7)
 *
 * The membership renews the lease on main (cluster/member.c) and writes down until when it counts; ports
 * look at that before each answer.
 */
#include "common/lease.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/mutant.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "common/settings.h"

uint64_t
mt_lease_until_ns(const struct mt_shared *shared)
{
	return atomic_load_explicit(&shared->lease_until_ns, memory_order_acquire);
}

bool
mt_lease_is_held(const struct mt_shared *shared, struct loop *loop)
{
	/* Asked anew: a process that was paused in the middle of a turn knows the time before. */
	return loop_now_fresh_ns(loop) < mt_lease_until_ns(shared) || MUTANT(lease_ignored);
}

/* In this order: main counts a loss before it says that it has another lease. */
bool
mt_port_has_lease(const struct mt_port *port)
{
	return mt_lease_is_held(port->shared, port->loop) &&
	    atomic_load_explicit(&port->lease_lost_count, memory_order_acquire) ==
	    port->lease_heard_count;
}
