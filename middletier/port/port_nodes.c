/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port_nodes.c -- a port's links to nodes: those of its options, and what main says of them while it runs
 *
 *	main: mt_port_nodes_set --the newest table--> port: each link that differs --> events->on_node
 *
 * port->links has room for MT_NODES_MAX from the start, so pointers to links stay valid while links are added. The
 * table is handed over under port->life->lock: a post that is out takes along what comes meanwhile.
 */
#include "port/port_nodes.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/port_events.h"
#include "extent/node_config.h"
#include "extent/node_link.h"
#include "port/port.h"
#include "port/port_life.h"

#define PORT_NODES_RETRY_NS NUM_S(1)

static bool
nodes_are_equal(const struct mt_node_config *a, const struct mt_node_config *b)
{
	return a->state == b->state && a->node_id == b->node_id && a->weight == b->weight &&
	    a->version == b->version && a->maintenance_until_ns == b->maintenance_until_ns &&
	    strcmp(a->address, b->address) == 0 && strcmp(a->domain, b->domain) == 0 &&
	    strcmp(a->disk, b->disk) == 0;
}

int
mt_port_node_set(struct mt_port *port, uint32_t index, const struct mt_node_config *config)
{
	struct mt_link *link = &port->links[index];
	int rc;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(index <= port->link_count && index < MT_NODES_MAX);
	if (index < port->link_count) {
		if (nodes_are_equal(&link->config, config))
			return 0;
		mt_link_configure(link, config);
		mt_port_on_node(port, link);
		return 0;
	}
	rc = mt_link_init(link, port, index, config);
	if (rc != 0)
		return rc;
	port->link_count++;
	if (mt_link_is_gone(link))
		mt_link_stop(link);
	else if (port->life->nodes.has_begun)
		mt_link_start(link);
	mt_port_on_node(port, link);
	return 0;
}

static void
nodes_apply(struct mt_port *port)
{
	struct mt_port_nodes *nodes = &port->life->nodes;
	struct mt_node_config *table;
	uint32_t count;
	int rc = 0;

	if (port->sm.state > MT_PORT_RUNNING)
		return; /* links are being closed, for good */
	table = mt_calloc(MT_NODES_MAX, sizeof(*table));
	if (table == NULL) {
		loop_timer_start(port->loop, &nodes->retry_timer, PORT_NODES_RETRY_NS);
		return;
	}
	(void)pthread_mutex_lock(&port->life->lock);
	count = nodes->count;
	assert(count <= MT_NODES_MAX && nodes->left_count <= MT_NODE_KEYS_MAX);
	memcpy(table, nodes->next, count * sizeof(*table));
	memcpy(port->left_ids, nodes->left_ids, nodes->left_count * sizeof(*port->left_ids));
	port->left_count = nodes->left_count;
	(void)pthread_mutex_unlock(&port->life->lock);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = mt_port_node_set(port, i, &table[i]);
	mt_free(table);
	if (rc == 0)
		return;
	log_limited(LOG_WARN,
	    "port: no memory for a link to a node, tries again port=%" PRIu32 " rc=%s", port->index,
	    log_errno(rc));
	loop_timer_start(port->loop, &nodes->retry_timer, PORT_NODES_RETRY_NS);
}

static void
nodes_on_retry(struct loop_timer *timer, void *arg)
{
	(void)timer;
	nodes_apply(arg);
}

static void
nodes_on_set(struct loop_post *post, void *arg)
{
	struct mt_port *port = arg;

	(void)post;
	CHECK_OBJ(port, MT_PORT_MAGIC);
	(void)pthread_mutex_lock(&port->life->lock);
	assert(port->life->nodes.is_out);
	port->life->nodes.is_out = false;
	(void)pthread_mutex_unlock(&port->life->lock);
	nodes_apply(port);
}

void
mt_port_nodes_set(struct mt_port *port, const struct mt_node_config *nodes, uint32_t count)
{
	struct mt_port_nodes *own = &port->life->nodes;
	bool was_out;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(count <= MT_NODES_MAX);
	(void)pthread_mutex_lock(&port->life->lock);
	assert(count >= own->count);
	memcpy(own->next, nodes, count * sizeof(*nodes));
	own->count = count;
	was_out = own->is_out;
	own->is_out = true;
	(void)pthread_mutex_unlock(&port->life->lock);
	if (was_out)
		return;
	own->post = (struct loop_post){ .fn = nodes_on_set, .arg = port };
	loop_post(port->loop, &own->post);
}

void
mt_port_nodes_left(struct mt_port *port, const uint32_t *node_ids, uint32_t count)
{
	struct mt_port_nodes *own = &port->life->nodes;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(count <= MT_NODE_KEYS_MAX);
	(void)pthread_mutex_lock(&port->life->lock);
	memcpy(own->left_ids, node_ids, count * sizeof(*node_ids));
	own->left_count = count;
	(void)pthread_mutex_unlock(&port->life->lock);
}

void
mt_port_nodes_init(struct mt_port *port)
{
	assert(port->life != NULL && !port->life->nodes.has_begun);
	loop_timer_init(&port->life->nodes.retry_timer, nodes_on_retry, port);
}

void
mt_port_nodes_begin(struct mt_port *port)
{
	assert(!port->life->nodes.has_begun);
	port->life->nodes.has_begun = true;
	for (uint32_t i = 0; i < port->link_count; i++) {
		if (!mt_link_is_gone(&port->links[i]))
			mt_link_start(&port->links[i]);
	}
}

void
mt_port_nodes_stop(struct mt_port *port)
{
	assert(port->life != NULL);
	loop_timer_stop(port->loop, &port->life->nodes.retry_timer);
}
