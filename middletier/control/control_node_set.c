/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_node_set.c -- node.set: what an operator says of a node
 *
 *	judged --> another address?  who answers there? --> that node --> does it answer where it was, too? --> put
 *	              | no, or --force                                       | yes: one of them is a copy: refused
 *	              '---------------------------------------------------------------------------------> put
 *
 * A copy of a disk has the disk's id and its node's number. While the node is up where the cluster has it, whoever answers
 * as that node elsewhere is another process with such a copy, which lacks what was written since; or the same one, by
 * another address of its host, which nothing on the wire tells apart.
 *
 * A domain that leaves fewer than three of them is refused as well, but with --force: new data would have fewer copies, or
 * wait.
 */
#include "control/control_node_set.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/reader.h"
#include "catalog/node_key.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/node_table.h"
#include "control/control_node.h"
#include "control/control_request.h"
#include "extent/capacity.h"
#include "extent/node_config.h"

static void __attribute__((format(printf, 2, 3)))
set_add(struct mt_control_request *request, const char *format, ...)
{
	char *text = request->node.changes;
	size_t used = strlen(text);
	va_list args;

	assert(used < sizeof(request->node.changes));
	va_start(args, format);
	(void)vsnprintf(text + used, sizeof(request->node.changes) - used, format, args);
	va_end(args);
}

#define SET_CHANGED "changed"

/* "changed weight=50 (was 100)", for the log; cut where it is too long. Nothing behind the word: nothing has changed. */
static void
set_tell(struct mt_control_request *request, const struct mt_node *old)
{
	const struct mt_node *node = &request->node.node;

	request->node.changes[0] = '\0';
	set_add(request, SET_CHANGED);
	if (strcmp(old->address, node->address) != 0)
		set_add(request, " address=%s (was %s)", node->address, old->address);
	if (strcmp(old->domain, node->domain) != 0)
		set_add(request, " domain=%s (was %s)", node->domain, old->domain);
	if (old->weight != node->weight)
		set_add(request, " weight=%u (was %u)", (unsigned)node->weight,
		    (unsigned)old->weight);
	if (strcmp(old->note, node->note) != 0)
		set_add(request, " note=\"%s\" (was \"%s\")", node->note, old->note);
	if (old->maintenance_until_s != node->maintenance_until_s && node->maintenance_until_s == 0)
		set_add(request, " maintenance=off");
	else if (old->maintenance_until_s != node->maintenance_until_s)
		set_add(request, " maintenance_s=%" PRIu64,
		    node->maintenance_until_s - mt_gateway_time_s(request->gateway));
}

/* The key as it is to be. False: the request has ended. */
static bool
set_take(struct mt_control_request *request, const struct mt_node_entry *entry)
{
	const char *address = json_string_value(json_object_get(request->in, "address"));
	const char *domain = json_string_value(json_object_get(request->in, "domain"));
	const char *note = json_string_value(json_object_get(request->in, "note"));
	const json_t *weight = json_object_get(request->in, "weight");
	const json_t *maintenance = json_object_get(request->in, "maintenance_s");
	struct mt_node *node = &request->node.node;

	if (entry == NULL || entry->node.state > MT_NODE_DRAINING) {
		mt_control_refuse(request, -ENOENT,
		    "node %" PRIu64 ": no such node: see cleave node list", request->node.id);
		return false;
	}
	*node = entry->node;
	if (!mt_control_node_take(request, address, domain, (uint64_t)json_integer_value(weight),
		note))
		return false;
	if (maintenance != NULL && json_integer_value(maintenance) == 0)
		node->maintenance_until_s = 0;
	else if (maintenance != NULL)
		node->maintenance_until_s = mt_gateway_time_s(request->gateway) +
		    (uint64_t)json_integer_value(maintenance);
	for (uint32_t i = 0; i < request->gateway->nodes->count; i++) {
		const struct mt_node *other = &request->gateway->nodes->entries[i].node;

		if (other->id == node->id || other->state > MT_NODE_DRAINING ||
		    strcmp(other->address, node->address) != 0)
			continue;
		mt_control_refuse(request, -EEXIST, "%s is the address of node %" PRIu32,
		    node->address, other->id);
		return false;
	}
	return true;
}

/* How many failure domains members are of, the node that is set by the domain that it has, or @is_then that it gets. */
static uint32_t
set_domain_count(const struct mt_control_request *request, bool is_then)
{
	const struct mt_nodes *nodes = request->gateway->nodes;
	struct mt_node_config members[MT_NODES_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < nodes->count && count < MT_NODES_MAX; i++) {
		const struct mt_node *node = &nodes->entries[i].node;

		if (node->state != MT_NODE_IN)
			continue;
		if (is_then && node->id == request->node.node.id)
			node = &request->node.node;
		members[count] = (struct mt_node_config){ .node_id = node->id };
		(void)snprintf(members[count].domain, sizeof(members[count].domain), "%s",
		    node->domain);
		count++;
	}
	return mt_node_domain_count(members, count);
}

/* Nobody takes a domain away by a word that says where a node is. False: the request has ended. */
static bool
set_keeps_domains(struct mt_control_request *request)
{
	uint32_t now = set_domain_count(request, false), then = set_domain_count(request, true);
	uint32_t min_replicas = request->gateway->options.min_replicas;

	if (request->is_forced || then >= now || then >= CLEAVE_COPIES)
		return true;
	mt_control_refuse(request, -ENOTEMPTY,
	    "node %" PRIu32 ": in domain '%s' it would leave %" PRIu32
	    " failure domains for %u copies, now it is %" PRIu32
	    "%s: give it another one, or say --force",
	    request->node.node.id, request->node.node.domain, then, CLEAVE_COPIES, now,
	    then < min_replicas ? ", and fewer than --min-replicas, so writes would wait" : "");
	return false;
}

static void
set_put(struct mt_control_request *request)
{
	const struct mt_node_entry *entry = mt_nodes_by_id(request->gateway, request->node.id);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (!set_take(request, entry) || !set_keeps_domains(request))
		return;
	set_tell(request, &entry->node);
	if (strcmp(request->node.changes, SET_CHANGED) == 0)
		mt_control_node_answer(request, &entry->node, false);
	else
		mt_control_node_put(request, request->node.changes);
}

/* Do ports reach node @id where the cluster has it now? */
static bool
set_is_up(const struct mt_ask *ask, uint64_t id)
{
	for (uint32_t leg = 0; leg < ask->gateway->port_count; leg++) {
		const struct mt_port_status *status = &ask->legs[leg].status;

		for (uint32_t i = 0; status->links != NULL && i < status->link_count; i++) {
			if (status->links[i].config.node_id == id && status->links[i].is_up)
				return true;
		}
	}
	return false;
}

static void
set_on_asked(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_node *node = &request->node.node;
	const struct mt_node_entry *entry = mt_nodes_by_id(request->gateway, request->node.id);

	assert(request->sm.state == MT_CONTROL_RUNNING && !request->is_forced);
	if (entry != NULL && set_is_up(ask, node->id))
		mt_control_refuse(request, -EEXIST,
		    "node %" PRIu32
		    " answers at %s still, so who answers at %s has a copy of its disk: end one of "
		    "them; where both addresses are of one process, --force",
		    node->id, entry->node.address, node->address);
	else
		mt_control_node_begin(request, set_put);
}

static void
set_on_found(const struct mt_node_found *found, void *arg)
{
	int rc;
	struct mt_control_request *request = arg;
	const struct mt_node *node = &request->node.node;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (found->node_id == 0)
		mt_control_refuse(request, -ENOENT,
		    "%s is not where node %" PRIu32
		    " is: %s: start it there first, or, where it comes there later, --force",
		    node->address, node->id, found->why);
	else if (found->node_id != node->id ||
	    (node->disk[0] != '\0' && strcmp(found->disk, node->disk) != 0))
		mt_control_refuse(request, -EEXIST,
		    "%s answers as node %" PRIu32 ", disk %s: not as node %" PRIu32 ", disk %s",
		    node->address, found->node_id, found->disk, node->id, node->disk);
	else if ((rc = mt_ask_ports(request->gateway, MT_ASK_STATUS, NULL, set_on_asked,
		      request)) != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}

/* Where the node is to be now somebody answers as that node, unless an operator insists. */
static void
set_look(struct mt_control_request *request)
{
	const struct mt_node_entry *entry = mt_nodes_by_id(request->gateway, request->node.id);

	if (!set_take(request, entry) || !set_keeps_domains(request))
		return;
	if (strcmp(entry->node.address, request->node.node.address) == 0 || request->is_forced)
		set_put(request);
	else
		mt_control_node_probe(request, set_on_found);
}

void
mt_control_node_set(struct mt_control_request *request)
{
	const char *address = NULL, *domain = NULL, *note = NULL;
	uint64_t weight = 0, maintenance_s = 0;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "node", READER_U64, true, 1, UINT32_MAX, { .u64 = &request->node.id } },
		{ "address", READER_TEXT, false, 0, SPLIT_ADDRESS_BYTES_MAX - 1,
		    { .text = &address } },
		{ "domain", READER_TEXT, false, 0, MT_NODE_DOMAIN_BYTES - 1, { .text = &domain } },
		{ "weight", READER_U64, false, 1, MT_NODE_WEIGHT_MAX, { .u64 = &weight } },
		{ "note", READER_TEXT, false, 0, MT_NODE_NOTE_BYTES - 1, { .text = &note } },
		{ "maintenance_s", READER_U64, false, 0, MT_NODE_MAINTENANCE_S_MAX,
		    { .u64 = &maintenance_s } },
		{ "force", READER_BOOL, false, 0, 0, { .flag = &request->is_forced } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0)
		mt_control_fail(request, rc, error);
	else
		mt_control_node_begin(request, set_look);
}
