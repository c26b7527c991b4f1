/* SPDX-License-Identifier: Apache-2.0 */
/* port_events.h -- what a port's links and shards tell the port itself, at once, on its loop */
#ifndef CLEAVE_MIDDLETIER_COMMON_PORT_EVENTS_H
#define CLEAVE_MIDDLETIER_COMMON_PORT_EVENTS_H

#include <stdbool.h>

#include "common/port.h"
#include "common/shard.h"

struct mt_link;

#define MT_OBJECTION_BYTES 512u /* of a text */

/*
 * A constant set of a port: port.c's, or that of who made a port without shards (gateway/node_port.h). What each says
 * stands at its call below. on_shard and on_node may be NULL where there are no shards.
 */
struct mt_port_events {
	void (*on_link)(struct mt_port *port, struct mt_link *link, bool is_up);
	void (*on_node)(struct mt_port *port, struct mt_link *link);
	void (*on_objection)(struct mt_port *port, const char *text);
	void (*on_shard)(struct mt_shard *shard);
};

/* mt_port_on_link -- @link came up (its node's id and slots are known), or went down. */
static inline void
mt_port_on_link(struct mt_port *port, struct mt_link *link, bool is_up)
{
	port->events->on_link(port, link, is_up);
}

/* mt_port_on_node -- what the cluster says of @link's node has changed, or it is new; links come and go as ever. */
static inline void
mt_port_on_node(struct mt_port *port, struct mt_link *link)
{
	if (port->events->on_node != NULL)
		port->events->on_node(port, link);
}

/* mt_port_on_objection -- a node shows that nothing can be served: @text says why. */
static inline void
mt_port_on_objection(struct mt_port *port, const char *text)
{
	port->events->on_objection(port, text);
}

/* mt_port_on_shard -- @shard was claimed (its epoch is known), serves, or has stopped. */
static inline void
mt_port_on_shard(struct mt_shard *shard)
{
	shard->port->events->on_shard(shard);
}

#endif /* CLEAVE_MIDDLETIER_COMMON_PORT_EVENTS_H */
