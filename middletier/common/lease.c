/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c -- may this gateway answer for what it owns? (I7)
 *
 * The membership renews the lease on main (cluster/member.c) and writes down until when it counts; ports
 * look at that before each answer.
 *
 * Its clock is CLOCK_BOOTTIME. A virtual machine that its hypervisor stops may have none that goes on: shard/TAKEOVER.md
 * says what is kept then, and by what.
 */
#include "common/lease.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/mutant.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "common/settings.h"

uint64_t
mt_lease_now_ns(struct loop *loop)
{
	assert(loop != NULL);
	return MUTANT(lease_sleeps) ? loop_now_fresh_ns(loop) : loop_now_boot_ns(loop);
}

uint64_t
mt_lease_until_ns(const struct mt_shared *shared)
{
	return atomic_load_explicit(&shared->lease_until_ns, memory_order_acquire);
}

bool
mt_lease_is_held(const struct mt_shared *shared, struct loop *loop)
{
	assert(loop != NULL);
	/* Asked anew: a process that was paused in the middle of a turn knows the time before. */
	return mt_lease_now_ns(loop) < mt_lease_until_ns(shared) || MUTANT(lease_ignored);
}

/* In this order: main counts a loss before it says that it has another lease. */
bool
mt_port_has_lease(const struct mt_port *port)
{
	assert(port->shared != NULL && port->loop != NULL);
	return mt_lease_is_held(port->shared, port->loop) &&
	    atomic_load_explicit(&port->lease.lost_count, memory_order_acquire) ==
	    port->lease.heard_count;
}

void
mt_port_lease_lose(struct mt_port *port)
{
	atomic_fetch_add_explicit(&port->lease.lost_count, 1, memory_order_release);
}

uint32_t
mt_port_lease_losses(const struct mt_port *port)
{
	return atomic_load_explicit(&port->lease.lost_count, memory_order_relaxed);
}

void
mt_port_lease_heard(struct mt_port *port, uint32_t count)
{
	assert(count <= mt_port_lease_losses(port));
	port->lease.heard_count = count;
}
