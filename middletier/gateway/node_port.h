/* SPDX-License-Identifier: Apache-2.0 */
/* node_port.h -- a gateway of one port that reaches nodes and serves nobody: a cluster is made, or its store anew */
#ifndef CLEAVE_MIDDLETIER_GATEWAY_NODE_PORT_H
#define CLEAVE_MIDDLETIER_GATEWAY_NODE_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/port_events.h"

struct mt_gateway;
struct mt_gateway_options;
struct mt_port;

/*
 * mt_node_port_open -- the port is (*@ret_gateway)->ports[0], on the loop of @options, and listens nowhere
 *
 * @events hear of its links, and find @arg in port->events_arg; on_shard is never called. No link is connected yet.
 * Of @options those of ports and engines are not looked at. The gateway is never started, and the caller's to destroy; also
 * after an error, where it is NULL or has no open port. Returns 0, or a negative errno and the reason.
 * Threads: the one of the loop.
 */
int mt_node_port_open(const struct mt_gateway_options *options, uint64_t device_bytes,
    const struct mt_port_events *events, void *arg, struct mt_gateway **ret_gateway,
    char *ret_error, size_t error_bytes);
/* mt_node_port_on_objection -- for @events: the log says what a node objects to, and whoever made the port goes on. */
void mt_node_port_on_objection(struct mt_port *port, const char *text);
/* mt_node_port_connect -- to all nodes. Threads: the one of the loop. */
void mt_node_port_connect(struct mt_port *port);
/* mt_node_port_is_connected -- to all of them, now. Threads: the one of the loop. */
bool mt_node_port_is_connected(const struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_GATEWAY_NODE_PORT_H */
