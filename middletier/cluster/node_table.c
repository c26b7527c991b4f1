/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_table.c -- the storage nodes that the cluster has: the keys "nodes/", read, watched and told to the ports
 *
 *	watch "nodes/", a change of ours --> list "cluster" --> list "nodes/" --> entries --> configs --> every port
 *	                                          |
 *	                                          '-- no "next_node" yet: node_import.c writes the options' nodes
 *
 * A config is what a link is made of. Its index is that of the port's link, so it is given to one node for as long as the
 * gateway runs. Nodes of the options come first, since ports are opened before the store is read. One of them that the
 * store does not name is no member: it is not connected to, or, where its link is in use already, it is drained, so that
 * what this gateway has put there goes where all can read it.
 */
#include "cluster/node_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "cleave/level.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/node_import.h"
#include "cluster/node_probe.h"
#include "cluster/node_reach.h"
#include "cluster/node_tally.h"
#include "common/alloc.h"
#include "common/port.h"
#include "port/port_nodes.h"
#include "port/port_status.h"

#define NODES_RETRY_NS NUM_MS(200) /* the store did not answer: until it is asked again */

static void nodes_read(struct mt_nodes *nodes);
static void nodes_on_loaded(struct mt_gateway *gateway);

bool
mt_nodes_are_members(const struct mt_gateway *gateway)
{
	return gateway->nodes->cluster.next_node != 0;
}

const struct mt_node_entry *
mt_nodes_by_id(const struct mt_gateway *gateway, uint64_t id)
{
	const struct mt_nodes *nodes = gateway->nodes;

	for (uint32_t i = 0; i < nodes->count; i++) {
		if (nodes->entries[i].node.id == id)
			return &nodes->entries[i];
	}
	return NULL;
}

uint32_t
mt_nodes_next_id(const struct mt_gateway *gateway)
{
	const struct mt_nodes *nodes = gateway->nodes;
	uint64_t next = num_max(nodes->cluster.next_node, gateway->cluster.next_node);

	for (uint32_t i = 0; i < nodes->count; i++)
		next = num_max(next, nodes->entries[i].node.id + UINT64_C(1));
	return (uint32_t)num_min(next, UINT32_MAX);
}

int
mt_nodes_put(struct mt_gateway *gateway, const struct mt_node *node, uint64_t cluster_version,
    meta_txn_fn fn, void *arg)
{
	struct meta *meta = gateway->options.meta;
	char *text = mt_node_encode(node), key[MT_NODE_KEY_BYTES];
	char *cluster_text = mt_cluster_encode(&gateway->nodes->cluster);
	int rc = -ENOMEM;

	assert(mt_nodes_are_members(gateway));
	assert(node->version != 0 || mt_nodes_by_id(gateway, node->id) == NULL);
	mt_node_key(key, node->id);
	if (text != NULL && cluster_text != NULL) {
		const struct meta_op ops[] = {
			{ .kind = META_COMPARE_VERSION, .key = key, .version = node->version },
			{ .kind = META_PUT,
			    .key = key,
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
			{ .kind = META_COMPARE_VERSION,
			    .key = "cluster",
			    .version = cluster_version },
			{ .kind = META_PUT,
			    .key = "cluster",
			    .value = cluster_text,
			    .value_bytes = (uint32_t)strlen(cluster_text) },
		};

		rc = meta->ops->txn(meta, ops, cluster_version != 0 ? NUM_COUNT(ops) : 2, fn, arg);
	}
	free(cluster_text);
	free(text);
	return rc;
}

/* ---- what ports are told ---- */

static void
nodes_tell(struct mt_nodes *nodes)
{
	struct mt_gateway *gateway = nodes->gateway;
	uint32_t left_ids[MT_NODE_KEYS_MAX], left_count = 0;

	if (gateway->sm.state >= MT_GATEWAY_STOPPING)
		return;
	assert(nodes->config_count <= MT_NODES_MAX && nodes->count <= MT_NODE_KEYS_MAX);
	for (uint32_t i = 0; i < nodes->count; i++) {
		if (nodes->entries[i].node.state > MT_NODE_DRAINING)
			left_ids[left_count++] = nodes->entries[i].node.id;
	}
	for (uint32_t i = 0; i < gateway->opened_count; i++) {
		mt_port_nodes_left(&gateway->ports[i], left_ids, left_count);
		mt_port_nodes_set(&gateway->ports[i], nodes->configs, nodes->config_count);
	}
}

static bool
nodes_is_claimed(const struct mt_nodes *nodes, uint32_t index)
{
	assert(index < nodes->config_count);
	for (uint32_t i = 0; i < nodes->count; i++) {
		if (nodes->entries[i].index == index)
			return true;
	}
	return false;
}

/*
 * A link that is nobody's yet, to the same node, or else to the same address; else a new one; MT_NODE_NO_INDEX: there is no
 * room. Gateways may know a node by different addresses until the store names one.
 */
static uint32_t
nodes_find_index(struct mt_nodes *nodes, const struct mt_node *node)
{
	assert(nodes->config_count <= MT_NODES_MAX);
	assert(node->state == MT_NODE_IN || node->state == MT_NODE_DRAINING);
	for (uint32_t i = 0; i < nodes->config_count; i++) {
		if (nodes->learnt[i] == node->id && !mt_node_is_gone(&nodes->configs[i]) &&
		    !nodes_is_claimed(nodes, i))
			return i;
	}
	for (uint32_t i = 0; i < nodes->config_count; i++) {
		if (!mt_node_is_gone(&nodes->configs[i]) && !nodes_is_claimed(nodes, i) &&
		    strcmp(nodes->configs[i].address, node->address) == 0)
			return i;
	}
	if (nodes->config_count < MT_NODES_MAX)
		return nodes->config_count++;
	log_limited(LOG_ERROR,
	    "node %" PRIu32
	    ": this gateway had links to %u nodes since its start, and has no room for "
	    "another: start it again",
	    node->id, MT_NODES_MAX);
	return MT_NODE_NO_INDEX;
}

static void
nodes_fill_config(struct mt_node_config *config, const struct mt_node_entry *entry)
{
	const struct mt_node *node = &entry->node;
	bool is_new = config->node_id == 0;

	assert(entry->index != MT_NODE_NO_INDEX);
	if (!is_new && config->state != node->state)
		log_info("node %" PRIu32 ": is %s now address=%s", node->id,
		    mt_node_state_name(node->state), node->address);
	*config = (struct mt_node_config){ .state = node->state,
		.node_id = node->id,
		.weight = node->weight,
		.version = node->version,
		.maintenance_until_ns = entry->maintenance_until_ns };
	(void)snprintf(config->address, sizeof(config->address), "%s", node->address);
	(void)snprintf(config->domain, sizeof(config->domain), "%s", node->domain);
	(void)snprintf(config->disk, sizeof(config->disk), "%s", node->disk);
}

/* A line for all that the options name and the store does not, or the other way round. */
static void
nodes_warn(const struct mt_nodes *nodes)
{
	const struct mt_gateway_options *options = &nodes->gateway->options;
	char text[MT_ERROR_BYTES] = "";
	size_t bytes = 0;

	for (uint32_t i = 0; i < options->node_count && bytes < sizeof(text); i++) {
		if (!nodes_is_claimed(nodes, i))
			bytes += (size_t)snprintf(text + bytes, sizeof(text) - bytes, " +%s",
			    options->nodes[i].address);
	}
	for (uint32_t i = 0; i < nodes->count && bytes < sizeof(text); i++) {
		const struct mt_node_entry *entry = &nodes->entries[i];

		if (entry->index != MT_NODE_NO_INDEX && entry->index >= options->node_count)
			bytes += (size_t)snprintf(text + bytes, sizeof(text) - bytes, " -%s",
			    entry->node.address);
	}
	if (bytes > 0)
		log_warn(
		    "gateway: --node differs from the cluster's nodes, which count: see cleave node "
		    "list, and cleave node add for one that is missing there differences=\"%s\"",
		    text + 1);
}

/* The entries are new: links for those that have none, and what is said of each. */
static void
nodes_assign(struct mt_nodes *nodes)
{
	bool was_used = nodes->has_begun;

	assert(nodes->config_count >= nodes->gateway->options.node_count);
	for (uint32_t i = 0; i < nodes->count; i++) {
		struct mt_node_entry *entry = &nodes->entries[i];
		bool is_gone = entry->node.state == MT_NODE_OUT ||
		    entry->node.state == MT_NODE_LOST;

		if (entry->index == MT_NODE_NO_INDEX && !is_gone)
			entry->index = nodes_find_index(nodes, &entry->node);
		if (entry->index != MT_NODE_NO_INDEX)
			nodes_fill_config(&nodes->configs[entry->index], entry);
	}
	for (uint32_t i = 0; i < nodes->config_count; i++) {
		if (nodes->configs[i].state == MT_NODE_IN && !nodes_is_claimed(nodes, i))
			nodes->configs[i].state = was_used ? MT_NODE_DRAINING : MT_NODE_OUT;
	}
	if (!nodes->is_warned && nodes->gateway->options.node_count > 0)
		nodes_warn(nodes);
	nodes->is_warned = true;
	nodes_tell(nodes);
}

/* ---- reading ---- */

static void
nodes_answer(struct loop_link *waiters, int rc)
{
	struct loop_link *link;

	while ((link = list_pop_front(waiters)) != NULL) {
		struct mt_nodes_waiter *waiter = LIST_ENTRY(link, struct mt_nodes_waiter, link);

		waiter->fn(rc, waiter->arg);
	}
}

/* The last act. */
static void
nodes_finish(struct mt_nodes *nodes, int rc)
{
	struct mt_gateway *gateway = nodes->gateway;
	struct loop_link readers;
	struct loop_link *link;

	assert(nodes->is_reading);
	nodes->is_reading = false;
	list_init(&readers);
	while ((link = list_pop_front(&nodes->readers)) != NULL)
		list_push_back(&readers, link);
	if (rc != 0) {
		log_limited(LOG_WARN, "gateway: the nodes cannot be read, asking again rc=%s",
		    log_errno(rc));
		loop_timer_start(gateway->options.loop, &nodes->timer, NODES_RETRY_NS);
	} else if (nodes->is_dirty || !list_is_empty(&nodes->waiters)) {
		loop_timer_start(gateway->options.loop, &nodes->timer, 0);
	}
	/* A gateway that was stopped meanwhile, or has failed, begins nothing. */
	if (rc == 0 && nodes->load_fn != NULL && gateway->sm.state < MT_GATEWAY_FAILED)
		nodes_on_loaded(gateway);
	else if (rc == 0 && nodes->is_watching && !mt_nodes_are_members(gateway) &&
	    nodes->cluster.level >= CLEAVE_LEVEL_NODES)
		mt_node_import(gateway);
	nodes_answer(&readers, rc);
}

/* The old entry's index and times go to the new one of the same id. */
static void
nodes_inherit(const struct mt_nodes *nodes, struct mt_node_entry *entry)
{
	struct mt_gateway *gateway = nodes->gateway;
	const struct mt_node_entry *old = mt_nodes_by_id(gateway, entry->node.id);
	uint64_t now_s = mt_gateway_time_s(gateway);

	entry->index = old != NULL ? old->index : MT_NODE_NO_INDEX;
	entry->maintenance_until_ns = 0;
	if (old != NULL && old->node.version == entry->node.version)
		entry->maintenance_until_ns = old->maintenance_until_ns;
	else if (entry->node.maintenance_until_s > now_s)
		entry->maintenance_until_ns = loop_now_ns(gateway->options.loop) +
		    NUM_S(num_min(entry->node.maintenance_until_s - now_s,
			MT_NODE_MAINTENANCE_S_MAX));
}

static int
nodes_take(struct mt_nodes *nodes, const struct meta_item *items, uint32_t count)
{
	struct mt_node_entry *entries = mt_calloc(num_max(count, 1), sizeof(*entries));
	uint32_t taken = 0;

	assert(nodes->is_reading);
	assert(mt_nodes_are_members(nodes->gateway));
	if (entries == NULL)
		return -ENOMEM;
	nodes->is_incomplete = count > MT_NODE_KEYS_MAX;
	for (uint32_t i = 0; i < count && taken < MT_NODE_KEYS_MAX; i++) {
		struct mt_node_entry *entry = &entries[taken];
		const char *field;
		int rc;

		entry->node.version = items[i].version;
		rc = mt_node_decode(items[i].key, items[i].value, items[i].value_bytes,
		    &entry->node, &field);
		if (rc == -ENOMEM) {
			mt_free(entries);
			return rc;
		}
		if (rc != 0) {
			log_limited(LOG_ERROR,
			    "gateway: unreadable in the metadata store key=%s field=\"%s\"",
			    items[i].key, field);
			nodes->is_incomplete = true;
			continue;
		}
		nodes_inherit(nodes, entry);
		taken++;
	}
	mt_free(nodes->entries);
	nodes->entries = entries;
	nodes->count = taken;
	return 0;
}

/* Which of the options' nodes are which of the table's: their links say it. */
static void
nodes_on_learnt(struct mt_ask *ask, void *arg)
{
	struct mt_nodes *nodes = arg;
	const struct mt_port_status *status = &ask->legs[0].status;

	assert(nodes->is_reading && !nodes->is_warned);
	assert(ask->left_count == 0);
	for (uint32_t i = 0; status->links != NULL && i < nodes->gateway->options.node_count; i++)
		nodes->learnt[i] = status->links[i].node_id;
	nodes_assign(nodes);
	nodes_finish(nodes, 0);
}

static void
nodes_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_nodes *nodes = arg;
	bool must_learn = nodes->has_begun && !nodes->is_warned;

	assert(nodes->is_reading);
	/* Before "next_node" is there an import may be half written: it is not believed. */
	if (rc != 0 || !mt_nodes_are_members(nodes->gateway)) {
		nodes_finish(nodes, rc);
		return;
	}
	rc = nodes_take(nodes, items, count);
	if (rc == 0 && must_learn) {
		rc = mt_ask_ports(nodes->gateway, MT_ASK_STATUS, NULL, nodes_on_learnt, nodes);
		if (rc == 0)
			return;
	}
	if (rc == 0)
		nodes_assign(nodes);
	nodes_finish(nodes, rc);
}

static void
nodes_on_cluster(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_nodes *nodes = arg;
	struct meta *meta = nodes->gateway->options.meta;
	struct mt_cluster cluster;
	const char *field;

	assert(nodes->is_reading);
	if (rc == 0 && (count == 0 || strcmp(items[0].key, "cluster") != 0))
		rc = -ENOENT;
	if (rc == 0)
		rc = mt_cluster_decode(items[0].value, items[0].value_bytes, &cluster, &field);
	if (rc == 0) {
		nodes->cluster = cluster;
		nodes->cluster.version = items[0].version;
		rc = meta->ops->list(meta, MT_NODE_PREFIX, nodes_on_list, nodes);
	}
	if (rc != 0)
		nodes_finish(nodes, rc);
}

static void
nodes_read(struct mt_nodes *nodes)
{
	struct meta *meta = nodes->gateway->options.meta;
	struct loop_link *link;
	int rc;

	if (nodes->gateway->sm.state >= MT_GATEWAY_FAILED)
		return;
	if (nodes->is_reading) {
		nodes->is_dirty = true;
		return;
	}
	loop_timer_stop(nodes->gateway->options.loop, &nodes->timer);
	nodes->is_reading = true;
	nodes->is_dirty = false;
	while ((link = list_pop_front(&nodes->waiters)) != NULL)
		list_push_back(&nodes->readers, link);
	rc = meta->ops->list(meta, "cluster", nodes_on_cluster, nodes);
	if (rc != 0)
		nodes_finish(nodes, rc);
}

static void
nodes_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	nodes_read(arg);
}

static void
nodes_on_watch(void *arg)
{
	nodes_read(arg);
}

void
mt_nodes_refresh(struct mt_gateway *gateway, struct mt_nodes_waiter *waiter)
{
	assert(waiter->fn != NULL && !list_contains(&waiter->link));
	list_push_back(&gateway->nodes->waiters, &waiter->link);
	if (!gateway->nodes->is_reading)
		loop_timer_start(gateway->options.loop, &gateway->nodes->timer, 0);
}

/* ---- its life ---- */

int
mt_nodes_init(struct mt_gateway *gateway, const struct mt_gateway_options *options)
{
	struct mt_nodes *nodes = mt_calloc(1, sizeof(*nodes));

	assert(gateway->nodes == NULL && options->node_count <= MT_NODES_MAX);
	if (nodes == NULL)
		return -ENOMEM;
	nodes->gateway = gateway;
	list_init(&nodes->waiters);
	list_init(&nodes->readers);
	loop_timer_init(&nodes->timer, nodes_on_timer, nodes);
	for (uint32_t i = 0; i < options->node_count; i++)
		nodes->configs[i] = options->nodes[i];
	nodes->config_count = options->node_count;
	gateway->nodes = nodes;
	return 0;
}

/* Nothing was connected to yet. */
static void
nodes_on_loaded(struct mt_gateway *gateway)
{
	void (*fn)(struct mt_gateway * gateway) = gateway->nodes->load_fn;

	assert(fn != NULL && !gateway->nodes->is_reading);
	gateway->nodes->load_fn = NULL;
	if (!mt_nodes_are_members(gateway) && gateway->options.node_count == 0) {
		mt_gateway_fail(gateway, -EINVAL,
		    "node: the metadata store names no storage nodes yet: give them with --node, once");
		return;
	}
	fn(gateway);
}

void
mt_nodes_load(struct mt_gateway *gateway, void (*fn)(struct mt_gateway *gateway))
{
	assert(gateway->nodes != NULL && !gateway->nodes->has_begun);
	assert(fn != NULL && gateway->nodes->load_fn == NULL);
	gateway->nodes->load_fn = fn;
	if (gateway->cluster.level < CLEAVE_LEVEL_NODES)
		nodes_on_loaded(gateway);
	else
		nodes_read(gateway->nodes);
}

int
mt_nodes_start(struct mt_gateway *gateway)
{
	struct mt_nodes *nodes = gateway->nodes;
	struct meta *meta = gateway->options.meta;
	int rc;

	assert(!nodes->is_watching);
	assert(nodes->config_count <= MT_NODES_MAX);
	nodes->has_begun = true;
	if (gateway->cluster.level < CLEAVE_LEVEL_NODES)
		return 0;
	rc = meta->ops->watch(meta, MT_NODE_PREFIX, nodes_on_watch, nodes);
	nodes->is_watching = rc == 0;
	if (rc == 0) /* a change before the watch may not have called it */
		loop_timer_start(gateway->options.loop, &nodes->timer, 0);
	return rc;
}

void
mt_nodes_on_level(struct mt_gateway *gateway)
{
	struct mt_nodes *nodes = gateway->nodes;

	if (nodes == NULL || !nodes->has_begun || nodes->is_watching ||
	    gateway->sm.state >= MT_GATEWAY_FAILED)
		return;
	if (mt_nodes_start(gateway) != 0)
		log_error("gateway: no memory to watch the nodes: start it again");
}

void
mt_nodes_stop(struct mt_gateway *gateway)
{
	struct mt_nodes *nodes = gateway->nodes;
	struct meta *meta = gateway->options.meta;

	if (nodes == NULL)
		return;
	loop_timer_stop(gateway->options.loop, &nodes->timer);
	loop_timer_stop(gateway->options.loop, &nodes->pause_timer);
	mt_node_import_stop(gateway);
	nodes->load_fn = NULL; /* a list that is out ends in vain */
	if (nodes->is_watching && !gateway->shared.is_killed)
		meta->ops->unwatch(meta, nodes_on_watch, nodes);
	nodes->is_watching = false;
	nodes_answer(&nodes->readers, -ECANCELED);
	nodes_answer(&nodes->waiters, -ECANCELED);
}

void
mt_nodes_fini(struct mt_gateway *gateway)
{
	if (gateway->nodes == NULL)
		return;
	mt_nodes_stop(gateway);
	mt_node_import_fini(gateway);
	mt_node_tally_fini(gateway);
	mt_node_reach_fini(gateway);
	mt_node_probe_fini(gateway);
	mt_free(gateway->nodes->entries);
	mt_free(gateway->nodes);
	gateway->nodes = NULL;
}
