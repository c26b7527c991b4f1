/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_nodes.c -- see rebuild_nodes.h */
#include "rebuild/rebuild_nodes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "cleave/secure.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "extent/list_page.h"
#include "extent/node_link.h"
#include "rebuild/rebuild_revoked.h"
#include "rebuild/survey.h"

void
mt_rebuild_nodes_init(struct mt_rebuild_nodes *nodes, struct mt_port *port,
    struct mt_survey *survey)
{
	const struct split_key *key = split_port_key(port->split);

	assert(port->link_count <= MT_NODES_MAX);
	*nodes = (struct mt_rebuild_nodes){ .port = port,
		.survey = survey,
		.key = key != NULL ? split_key_share(key) : NULL };
	for (uint32_t i = 0; i < port->link_count; i++) {
		nodes->node[i].nodes = nodes;
		nodes->node[i].link = &port->links[i];
	}
}

void
mt_rebuild_nodes_fini(struct mt_rebuild_nodes *nodes)
{
	split_key_free(nodes->key);
	nodes->key = NULL;
}

/* ---- questions ---- */

uint32_t
mt_rebuild_nodes_unlisted(const struct mt_rebuild_nodes *nodes)
{
	uint32_t count = 0;

	assert(nodes->fn == NULL);
	for (uint32_t i = 0; i < nodes->port->link_count; i++)
		count += nodes->node[i].is_listed ? 0 : 1;
	return count;
}

bool
mt_rebuild_nodes_is_listed(const struct mt_rebuild_nodes *nodes, uint32_t node_id)
{
	assert(nodes->fn == NULL && nodes->port->link_count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < nodes->port->link_count; i++) {
		if (nodes->node[i].is_listed && nodes->node[i].node_id == node_id)
			return true;
	}
	return false;
}

bool
mt_rebuild_nodes_obey(const struct mt_rebuild_nodes *nodes, const struct store_id *store_id)
{
	assert(nodes->fn == NULL);
	for (uint32_t i = 0; i < nodes->port->link_count; i++) {
		const struct mt_rebuild_node *node = &nodes->node[i];

		if (node->is_listed && !store_id_is_zero(&node->obeyed) &&
		    !store_id_is_equal(&node->obeyed, store_id))
			return false;
	}
	return true;
}

uint32_t
mt_rebuild_nodes_untold(const struct mt_rebuild_nodes *nodes, const struct store_id *store_id)
{
	uint32_t count = 0;

	assert(nodes->fn == NULL);
	for (uint32_t i = 0; i < nodes->port->link_count; i++) {
		const struct mt_rebuild_node *node = &nodes->node[i];

		count += node->is_listed &&
		    !(mt_link_is_up(node->link) && store_id_is_equal(&node->link->store, store_id));
	}
	return count;
}

/* ---- listing ---- */

static void node_list(struct mt_rebuild_node *node, uint64_t cursor);

/* A node's list has ended, one way or the other; the last one's end is the listing's. */
static void
nodes_check_done(struct mt_rebuild_nodes *nodes)
{
	void (*fn)(void *arg) = nodes->fn;

	assert(fn != NULL);
	for (uint32_t i = 0; i < nodes->port->link_count; i++) {
		if (nodes->node[i].is_out)
			return;
	}
	for (uint32_t i = 0; i < nodes->port->link_count; i++) {
		const struct mt_rebuild_node *node = &nodes->node[i];

		if (node->is_listed)
			log_info("recover: node %" PRIu32 ": address=%s extents=%" PRIu32,
			    node->node_id, node->link->config.address, node->extent_count);
		else
			log_warn("recover: node at %s was not reached", node->link->config.address);
	}
	nodes->fn = NULL;
	fn(nodes->arg);
}

static void
node_failed(struct mt_rebuild_node *node, int rc)
{
	assert(rc < 0 && !node->is_out && !node->is_listed);
	log_warn("recover: node at %s: its list broke off rc=%s", node->link->config.address,
	    log_errno(rc));
	mt_survey_drop_node(node->nodes->survey, node->node_id);
	nodes_check_done(node->nodes);
}

static int
node_take(const struct wire_listed *listed, void *arg)
{
	struct mt_rebuild_node *node = arg;
	int rc = mt_survey_add(node->nodes->survey, node->node_id, listed);

	assert(!node->is_out && !node->is_listed);
	if (rc == 0)
		node->extent_count++;
	return rc;
}

static void
node_on_asked(struct mt_rebuild_node *node)
{
	assert(node->is_out && !node->is_listed);
	node->is_out = false;
	node->is_listed = true;
	if (node->nodes->fn != NULL)
		nodes_check_done(node->nodes);
}

static void
node_on_listed(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_rebuild_node *node = arg;
	struct mt_rebuild_nodes *nodes = node->nodes;
	uint64_t cursor = reply == NULL ? 0 : reply->offset_bytes;

	assert(node->is_out && call == &node->call);
	node->is_out = false;
	if (rc == 0)
		rc = mt_list_page(nodes->port, call, reply, msg, node_take, node);
	if (msg != NULL)
		split_msg_release(msg);
	if (nodes->fn == NULL)
		return;
	if (rc != 0) {
		node_failed(node, rc);
	} else if (cursor != 0) {
		node_list(node, cursor);
	} else {
		node->obeyed = node->link->store;
		node->is_out = true;
		if (nodes->key == NULL || mt_rebuild_revoked_ask(node, node_on_asked) != 0)
			node_on_asked(node);
	}
}

static void
node_list(struct mt_rebuild_node *node, uint64_t cursor)
{
	int rc;

	assert(node->nodes->fn != NULL && !node->is_listed);
	node->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_LIST,
		.id = { .shard = UINT32_MAX },
		.offset_bytes = cursor };
	node->call.fn = node_on_listed;
	node->call.arg = node;
	rc = mt_link_call(node->link, &node->call);
	node->is_out = rc == 0;
	if (rc != 0)
		node_failed(node, rc);
}

/* A copy that is seen twice would count as two. */
static int
nodes_check_ids(const struct mt_rebuild_nodes *nodes, char *ret_text, size_t text_bytes)
{
	assert(nodes->port->link_count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < nodes->port->link_count; i++) {
		const struct mt_link *link = nodes->node[i].link;

		for (uint32_t k = 0; k < i && link->node_id != 0; k++) {
			const struct mt_link *other = nodes->node[k].link;

			if (other->node_id != link->node_id)
				continue;
			(void)snprintf(ret_text, text_bytes,
			    "%s and %s both say that they are node %" PRIu32
			    ": leave the one that is a copy out of --node",
			    other->config.address, link->config.address, link->node_id);
			return -EINVAL;
		}
	}
	return 0;
}

int
mt_rebuild_nodes_list(struct mt_rebuild_nodes *nodes, void (*fn)(void *arg), void *arg,
    char *ret_text, size_t text_bytes)
{
	uint32_t up_count = 0;
	int rc = nodes_check_ids(nodes, ret_text, text_bytes);

	assert(nodes->fn == NULL && fn != NULL);
	if (rc != 0)
		return rc;
	for (uint32_t i = 0; i < nodes->port->link_count; i++) {
		struct mt_rebuild_node *node = &nodes->node[i];

		if (!mt_link_is_up(node->link))
			continue;
		up_count++;
		node->node_id = node->link->node_id;
		node->is_out = true; /* none ends the listing before all were asked */
	}
	if (up_count == 0) {
		(void)snprintf(ret_text, text_bytes,
		    "no node was reached: start the storage nodes, and name them with --node");
		return -ENODATA;
	}
	nodes->fn = fn;
	nodes->arg = arg;
	for (uint32_t i = 0; i < nodes->port->link_count; i++) {
		if (nodes->node[i].is_out)
			node_list(&nodes->node[i], 0);
	}
	return 0;
}
