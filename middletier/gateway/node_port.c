/* SPDX-License-Identifier: Apache-2.0 */
/* node_port.c -- see node_port.h */
#include "gateway/node_port.h"

#include <errno.h>

#include "base/check.h"
#include "cluster/gateway_state.h"
#include "common/port.h"
#include "extent/node_link.h"
#include "gateway/gateway.h"
#include "port/port.h"

int
mt_node_port_open(const struct mt_gateway_options *options, uint64_t device_bytes,
    void (*on_link)(struct mt_port *port, struct mt_link *link, bool is_up), void *arg,
    struct mt_gateway **ret_gateway, char *ret_error, size_t error_bytes)
{
	struct mt_gateway_options own = *options;
	struct mt_gateway *gateway;
	int rc;

	assert(on_link != NULL && device_bytes > 0);
	own.port_count = 1;
	own.ports[0].address[0] = '\0';
	own.ports[0].cpu = -1;
	own.is_single_loop = true;
	own.engine_threads = 0;
	own.device_bytes = device_bytes;
	*ret_gateway = gateway = mt_gateway_create(&own, ret_error, error_bytes);
	if (gateway == NULL)
		return -errno;
	rc = mt_port_open(&gateway->ports[0], &gateway->port_options[0], ret_error, error_bytes);
	if (rc != 0)
		return rc;
	gateway->ports[0].on_link = on_link;
	gateway->ports[0].on_link_arg = arg;
	return 0;
}

void
mt_node_port_connect(struct mt_port *port)
{
	assert(port->link_count > 0 && port->on_link != NULL);
	for (uint32_t i = 0; i < port->link_count; i++)
		mt_link_start(&port->links[i]);
}

bool
mt_node_port_is_connected(const struct mt_port *port)
{
	assert(port->link_count > 0);
	for (uint32_t i = 0; i < port->link_count; i++) {
		if (!mt_link_is_up(&port->links[i]))
			return false;
	}
	return true;
}
