/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.c -- are the turns of a port's loop to be short, since the latency class is at work?
 *
 * A request of a latency class volume asks for short turns for a second. Writes of others (write_turn.c)
 * and merges (merge_pace.c) then take less of each.
 */
#include "common/turn.h"

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "common/port.h"

#define TURN_AHEAD_NS NUM_S(1)

void
mt_turn_on_ahead(struct mt_port *port, enum service_class service_class)
{
	assert(service_class < SERVICE_CLASS_NR);
	if (service_class != SERVICE_LATENCY)
		return;
	port->ahead.until_ns = loop_now_ns(port->loop) + TURN_AHEAD_NS;
	port->ahead.is_due = true;
}

bool
mt_turn_is_short(const struct mt_port *port)
{
	assert(port->loop != NULL);
	return loop_now_ns(port->loop) < port->ahead.until_ns;
}
