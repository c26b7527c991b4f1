/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_probe.c -- who answers at an address: asked before it becomes a node of the cluster
 *
 *	a port of its own, on main's loop, with one link: up --> who it is; not up in time --> why not --> closed, fn
 *
 * A link of the ports would be asked too late: the store would name the node already.
 */
#include "cluster/node_probe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cluster/gateway_state.h"
#include "cluster/node_table.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/port_events.h"
#include "extent/node_link.h"
#include "port/port.h"

#define PROBE_NS NUM_S(2)
#define PROBE_DEVICE_BYTES NUM_MIB(16)
#define PROBE_ERROR_BYTES 256u

struct mt_node_probe {
	struct mt_gateway *gateway;
	struct mt_port port;
	struct mt_port_options options;
	struct mt_node_config config;
	struct loop_timer timer; /* the node's time; then, at once, the end */
	bool is_heard;
	struct mt_node_found found;
	mt_node_probe_fn fn;
	void *arg;
};

static void
probe_free(struct mt_node_probe *probe)
{
	assert(probe->gateway->nodes->probe == probe);
	probe->gateway->nodes->probe = NULL;
	loop_timer_stop(probe->gateway->options.loop, &probe->timer);
	mt_port_close(&probe->port);
	mt_free(probe);
}

static void
probe_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_node_probe *probe = arg;
	struct mt_node_found found = probe->found;
	const char *trouble = probe->port.links[0].trouble;
	mt_node_probe_fn fn = probe->fn;
	void *fn_arg = probe->arg;

	assert(probe->fn != NULL);
	(void)timer;
	if (!probe->is_heard)
		(void)snprintf(found.why, sizeof(found.why), "%s",
		    trouble[0] != '\0' ? trouble : "no answer");
	probe_free(probe);
	fn(&found, fn_arg);
}

static void
probe_on_link(struct mt_port *port, struct mt_link *link, bool is_up)
{
	struct mt_node_probe *probe = port->events_arg;

	assert(link == &probe->port.links[0]);
	if (!is_up || probe->is_heard)
		return;
	probe->is_heard = true;
	probe->found = (struct mt_node_found){ .node_id = link->node_id,
		.slots_total = link->slots_total,
		.slots_free = link->slots_free,
		.slot_bytes = link->slot_bytes };
	memcpy(probe->found.disk, link->disk, sizeof(probe->found.disk));
	/* The port is not closed inside one of its own calls. */
	loop_timer_start(port->loop, &probe->timer, 0);
}

static void
probe_on_objection(struct mt_port *port, const char *text)
{
	(void)port;
	log_warn("gateway: %s", text);
}

static const struct mt_port_events probe_events = { .on_link = probe_on_link,
	.on_objection = probe_on_objection };

/* A port without clients, shards or calls to gateways. */
static int
probe_init_port(struct mt_port *port)
{
	(void)port;
	return 0;
}

static void
probe_fini_port(struct mt_port *port)
{
	(void)port;
}

static bool
probe_is_quiet(const struct mt_port *port)
{
	(void)port;
	return true;
}

static const struct mt_port_host probe_host = { .init = probe_init_port,
	.fini = probe_fini_port,
	.stop = probe_fini_port,
	.is_quiet = probe_is_quiet };

int
mt_node_probe_start(struct mt_gateway *gateway, const char *address, mt_node_probe_fn fn, void *arg)
{
	struct mt_nodes *nodes = gateway->nodes;
	char error[PROBE_ERROR_BYTES];
	struct mt_node_probe *probe;
	int rc;

	assert(fn != NULL && address[0] != '\0');
	if (nodes->probe != NULL)
		return -EBUSY;
	if (gateway->sm.state >= MT_GATEWAY_STOPPING)
		return -ESHUTDOWN;
	probe = mt_calloc(1, sizeof(*probe));
	if (probe == NULL)
		return -ENOMEM;
	probe->gateway = gateway;
	probe->fn = fn;
	probe->arg = arg;
	(void)snprintf(probe->config.address, sizeof(probe->config.address), "%s", address);
	probe->options = gateway->port_options[0];
	probe->options.host = &probe_host;
	probe->options.events = &probe_events;
	probe->options.events_arg = probe;
	probe->options.index = 0;
	probe->options.port_count = 1;
	probe->options.loop = gateway->options.loop;
	probe->options.address = "";
	probe->options.nodes = &probe->config;
	probe->options.node_count = 1;
	probe->options.device_bytes = PROBE_DEVICE_BYTES;
	probe->options.wants_huge_pages = false;
	probe->options.engine_threads = 0;
	probe->options.merge_threads = 0;
	rc = mt_port_open(&probe->port, &probe->options, error, sizeof(error));
	if (rc != 0) {
		log_error("node: cannot be looked at address=%s reason=\"%s\"", address, error);
		mt_free(probe);
		return rc;
	}
	loop_timer_init(&probe->timer, probe_on_timer, probe);
	nodes->probe = probe;
	mt_link_start(&probe->port.links[0]);
	loop_timer_start(gateway->options.loop, &probe->timer, PROBE_NS);
	return 0;
}

void
mt_node_probe_fini(struct mt_gateway *gateway)
{
	if (gateway->nodes->probe != NULL)
		probe_free(gateway->nodes->probe);
}
