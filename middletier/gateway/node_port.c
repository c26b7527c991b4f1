/* SPDX-License-Identifier: Apache-2.0 */
/* node_port.c -- see node_port.h */
#include "gateway/node_port.h"

#include <errno.h>

#include "base/check.h"
#include "base/log.h"
#include "cluster/gateway_state.h"
#include "common/port.h"
#include "extent/node_link.h"
#include "gateway/gateway.h"
#include "port/port.h"

int
mt_node_port_open(const struct mt_gateway_options *options, uint64_t device_bytes,
    const struct mt_port_events *events, void *arg, struct mt_gateway **ret_gateway,
    char *ret_error, size_t error_bytes)
{
	struct mt_gateway_options own = *options;
	struct mt_gateway *gateway;
	int rc;

	assert(device_bytes > 0);
	assert(events->on_link != NULL && events->on_objection != NULL);
	own.port_count = 1;
	own.ports[0].address[0] = '\0';
	own.ports[0].cpu = -1;
	own.is_single_loop = true;
	own.engine_threads = 0;
	own.hot_bytes = 0;
	own.device_bytes = device_bytes;
	*ret_gateway = gateway = mt_gateway_create(&own, ret_error, error_bytes);
	if (gateway == NULL)
		return -errno;
	gateway->port_options[0].events = events;
	gateway->port_options[0].events_arg = arg;
	rc = mt_port_open(&gateway->ports[0], &gateway->port_options[0], ret_error, error_bytes);
	return rc;
}

void
mt_node_port_on_objection(struct mt_port *port, const char *text)
{
	assert(text[0] != '\0');
	(void)port;
	log_error("gateway: %s", text);
}

void
mt_node_port_connect(struct mt_port *port)
{
	assert(port->link_count > 0 && port->events->on_link != NULL);
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
