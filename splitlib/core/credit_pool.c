/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credit_pool.c -- how many receives of a port's pool may still be promised, and to which side
 *
 * A quarter of the pool is kept from each side (requests in, and replies in), so neither can lock the other out.
 */
#include "credit_pool.h"

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "port.h"

#define CREDIT_SHARE_KEPT 4u /* one over this part of the pool is kept from each side */

static uint32_t
saturating_sub(uint32_t a, uint32_t b)
{
	return a > b ? a - b : 0;
}

static uint32_t
pool_kept_count(const struct split_port *port)
{
	return (uint32_t)num_max(port->pool.count / CREDIT_SHARE_KEPT, 1);
}

static uint32_t
pool_unpromised_count(const struct split_port *port)
{
	const struct port_credits *credits = &port->credits;
	uint32_t taken = credits->granted_count + credits->reserved_count +
	    credits->held_requests_count + credits->held_replies_count;

	assert(taken <= port->pool.count);
	return port->pool.count - taken;
}

uint32_t
credit_pool_request_cap(const struct split_port *port)
{
	assert(port->pool.count > pool_kept_count(port));
	return port->pool.count - pool_kept_count(port);
}

uint32_t
credit_pool_request_room(const struct split_port *port)
{
	const struct port_credits *credits = &port->credits;
	uint32_t used = credits->granted_count + credits->held_requests_count;

	uint32_t room = saturating_sub(credit_pool_request_cap(port), used);

	return (uint32_t)num_min(pool_unpromised_count(port), room);
}

uint32_t
credit_pool_reply_room(const struct split_port *port)
{
	const struct port_credits *credits = &port->credits;
	uint32_t cap = credits->granting_qp_count > 0 ? credit_pool_request_cap(port)
						      : port->pool.count;
	uint32_t used = credits->reserved_count + credits->held_replies_count;

	return (uint32_t)num_min(pool_unpromised_count(port), saturating_sub(cap, used));
}

void
credit_mark_dirty(struct split_port *port)
{
	struct port_credits *credits = &port->credits;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	if (credits->is_dirty)
		return;
	if (list_is_empty(&credits->reserve_wait) && credits->grant_wait_count == 0)
		return;
	credits->is_dirty = true;
	port_wake(port);
}

bool
credit_is_short(struct split_port *port)
{
	struct port_credits *credits = &port->credits;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	return !list_is_empty(&credits->reserve_wait) ||
	    !list_is_empty(&credits->grant_wait[CREDIT_WAIT_LEAN_WANTED]) ||
	    !list_is_empty(&credits->grant_wait[CREDIT_WAIT_WANTED]);
}
