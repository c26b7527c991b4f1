/* SPDX-License-Identifier: Apache-2.0 */
/* port_nodes.h -- a port's links to nodes: those of its options, and what main says of them while it runs */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_NODES_H
#define CLEAVE_MIDDLETIER_PORT_PORT_NODES_H

#include <stdint.h>

struct mt_node_config;
struct mt_port;

/*
 * mt_port_nodes_set -- main tells a port which nodes there are
 *
 * @nodes: @count, at most MT_NODES_MAX, in the order of port->links: those that the port has already stand where they
 * were, with whatever has changed, and new ones behind them. An index is never given to another node while the port is
 * open; one that left the cluster stays, gone. Posts: the last table counts. Copied. Main's thread.
 */
void mt_port_nodes_set(struct mt_port *port, const struct mt_node_config *nodes, uint32_t count);
/*
 * mt_port_nodes_left -- those that were members, and never come back: @count, at most MT_NODE_KEYS_MAX
 *
 * The port takes them with the table of the mt_port_nodes_set that follows. Copied. Main's thread.
 */
void mt_port_nodes_left(struct mt_port *port, const uint32_t *node_ids, uint32_t count);

/*
 * mt_port_node_set -- the node of link @index is @config from now on; @index == port->link_count: it is new
 *
 * A new link is connected once mt_port_nodes_begin was called. port->events->on_node follows, inside this call, where
 * anything changed. Returns 0; -ENOMEM: nothing has changed. The port's thread.
 */
int mt_port_node_set(struct mt_port *port, uint32_t index, const struct mt_node_config *config);

/* Steps of a port's life, for port.c: it opens; connects to its nodes; closes. */
void mt_port_nodes_init(struct mt_port *port);
void mt_port_nodes_begin(struct mt_port *port);
void mt_port_nodes_stop(struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_NODES_H */
