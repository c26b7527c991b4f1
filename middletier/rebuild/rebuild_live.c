/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild_live.c -- does any gateway serve from what a recovery would take?
 *
 * The store that is made anew tells of gateways that are registered in it, but an empty one, or a copy, knows
 * of none. The nodes do: each says in its status how many connections gateways of the store that it obeys
 * have. Such a gateway would be refused by the nodes from the recovery on, for good, and its clients with it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "common/port.h"
#include "extent/node_link.h"
#include "rebuild/rebuild_live.h"

int
mt_rebuild_live_check(const struct mt_port *port, bool must_take, char *ret_text, size_t text_bytes)
{
	assert(port->link_count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < port->link_count; i++) {
		const struct mt_link *link = &port->links[i];

		if (!mt_link_is_up(link) || link->gateway_connections == 0)
			continue;
		if (!must_take) {
			(void)snprintf(ret_text, text_bytes,
			    "a gateway is connected to node %" PRIu32
			    " at %s, from %s, and would be locked out for good: is --meta the right "
			    "directory? Stop that gateway first (what a dead one has left ends by itself, "
			    "when the node's keep-alive misses it), or insist with --take",
			    link->node_id, link->config.address, link->gateway_peer); /* cut */
			return -EBUSY;
		}
		log_warn("recover: node %" PRIu32
			 " is taken from a gateway that is connected to it peer=%s "
			 "connections=%" PRIu64,
		    link->node_id, link->gateway_peer, link->gateway_connections);
	}
	return 0;
}
