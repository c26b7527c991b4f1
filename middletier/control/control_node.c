/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_node.c -- changes of the cluster's storage nodes: what is common to them, and add, show, usage
 *
 *	the nodes are read --> judged --> the key is put, by compare-and-swap --> read again --> answered
 *
 * Ports learn of a change by the watch, at this gateway as at all others. Changes run one after the other at a gateway;
 * of two gateways' the second is refused, and may be asked for again.
 */
#include "control/control_node.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/domain.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/reader.h"
#include "base/tcp_address.h"
#include "catalog/cluster_key.h"
#include "catalog/node_key.h"
#include "cleave/level.h"
#include "cleave/status.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/node_table.h"
#include "cluster/node_tally.h"
#include "cluster/volume_change.h"
#include "common/event.h"
#include "control/control_request.h"

/* ---- what all of them do ---- */

static void
node_on_read(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	mt_control_node_fn fn = request->node.fn;

	assert(rc == -ECANCELED || request->sm.state == MT_CONTROL_RUNNING);
	if (rc == -ECANCELED)
		return; /* the port goes, and takes its slots along */
	if (rc != 0) {
		mt_control_fail(request, rc, MT_CONTROL_NO_STORE);
		return;
	}
	if (!mt_nodes_are_members(request->gateway)) {
		mt_control_refuse(request, -EBUSY,
		    "the nodes of --node are not in the metadata store yet: the gateway waits until it "
		    "has heard all of them (cleave node list), and then they are");
		return;
	}
	fn(request);
}

void
mt_control_node_begin(struct mt_control_request *request, mt_control_node_fn fn)
{
	struct mt_gateway *gateway = request->gateway;

	assert(fn != NULL && request->sm.state == MT_CONTROL_RUNNING);
	if (!mt_control_has_level(request, CLEAVE_LEVEL_NODES,
		"and has its nodes from each gateway's --node"))
		return;
	request->node.fn = fn;
	request->node.cluster_version = 0;
	request->node.waiter.fn = node_on_read;
	request->node.waiter.arg = request;
	mt_nodes_refresh(gateway, &request->node.waiter);
}

static json_t *
node_json(const struct mt_node *node)
{
	assert(node->id != 0);
	return json_pack("{s:{s:I, s:s, s:s, s:s, s:i, s:s, s:s}}", "node", "id",
	    (json_int_t)node->id, "member", mt_node_state_name(node->state), "address",
	    node->address, "domain", node->domain, "weight", (int)node->weight, "disk", node->disk,
	    "note", node->note);
}

void
mt_control_node_answer(struct mt_control_request *request, const struct mt_node *node,
    bool is_changed)
{
	json_t *out = node_json(node);

	assert(is_changed || request->node.changes[0] != '\0');
	if (out != NULL && request->node.changes[0] != '\0')
		(void)json_object_set_new(out, "changed", json_boolean(is_changed));
	mt_control_finish(request, out);
}

static void
node_end(struct mt_control_request *request)
{
	const struct mt_node_entry *entry = mt_nodes_by_id(request->gateway, request->node.node.id);

	assert(mt_nodes_are_members(request->gateway));
	mt_control_node_answer(request, entry != NULL ? &entry->node : &request->node.node, true);
}

static void
node_on_put(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_node *node = &request->node.node;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc == -EAGAIN) {
		mt_control_refuse(request, -EBUSY,
		    "node %" PRIu32
		    ": somebody else has changed the nodes meanwhile: look at cleave "
		    "node list, and ask again",
		    node->id);
		return;
	}
	if (rc != 0) {
		mt_control_refuse(request, rc, "node %" PRIu32 ": %s: look at cleave node list",
		    node->id, status_text(status_from_errno(rc)));
		return;
	}
	mt_control_event(request, CLEAVE_EVENT_NODE_CHANGED,
	    mt_event_object((char[MT_EVENT_OBJECT_BYTES]){ 0 }, "node", node->id),
	    "node %" PRIu32 ": %s by an operator address=%s state=%s", node->id, request->node.what,
	    node->address, mt_node_state_name(node->state));
	mt_control_node_begin(request, node_end);
}

void
mt_control_node_put(struct mt_control_request *request, const char *what)
{
	uint64_t cluster_version = request->node.cluster_version;
	int rc;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	assert(request->node.node.version != 0);
	request->node.what = what;
	if (MUTANT(drain_uncompared))
		cluster_version = 0;
	rc = mt_nodes_put(request->gateway, &request->node.node, cluster_version, node_on_put,
	    request);
	if (rc != 0)
		mt_control_refuse(request, rc, "node %" PRIu32 ": %s", request->node.node.id,
		    status_text(status_from_errno(rc)));
}

/* ---- add ---- */

/* Is @node, which is about to be added, somebody that the cluster has or had? Then the request has ended. */
static bool
add_is_taken(struct mt_control_request *request, const struct mt_node *node)
{
	const struct mt_nodes *nodes = request->gateway->nodes;

	assert(node->address[0] != '\0');
	for (uint32_t i = 0; i < nodes->count; i++) {
		const struct mt_node *other = &nodes->entries[i].node;
		bool is_gone = other->state == MT_NODE_OUT || other->state == MT_NODE_LOST;
		bool is_disk = node->disk[0] != '\0' && strcmp(other->disk, node->disk) == 0;

		if (!is_gone && strcmp(other->address, node->address) == 0) {
			mt_control_refuse(request, -EEXIST, "%s is the address of node %" PRIu32,
			    node->address, other->id);
			return true;
		}
		if (node->id == 0 || (other->id != node->id && !is_disk) ||
		    (is_gone && MUTANT(removed_taken_back)))
			continue;
		if (is_gone)
			mt_control_refuse(request, -EEXIST,
			    "%s answers as node %" PRIu32
			    ", disk %s, which has left the cluster (%s), "
			    "and never comes back: format it with another id, --node-id %" PRIu32
			    ", and what it holds is gone",
			    node->address, node->id, node->disk, mt_node_state_name(other->state),
			    mt_nodes_next_id(request->gateway));
		else
			mt_control_refuse(request, -EEXIST,
			    "%s answers as node %" PRIu32
			    ", which is %s already: is it another address "
			    "of it (cleave node set), or was its disk formatted with an id that is taken? "
			    "--node-id %" PRIu32 " is free",
			    node->address, node->id, other->address,
			    mt_nodes_next_id(request->gateway));
		return true;
	}
	return false;
}

static uint32_t
add_member_count(const struct mt_nodes *nodes)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < nodes->count; i++)
		count += nodes->entries[i].node.state <= MT_NODE_DRAINING;
	return count;
}

static void
add_put(struct mt_control_request *request)
{
	struct mt_gateway *gateway = request->gateway;
	struct mt_cluster next = gateway->nodes->cluster;
	char key[MT_NODE_KEY_BYTES], *text;
	int rc;

	assert(request->node.node.id != 0 && request->node.node.disk[0] != '\0');
	if (add_is_taken(request, &request->node.node))
		return;
	if (MUTANT(removed_taken_back) && mt_nodes_by_id(gateway, request->node.node.id) != NULL) {
		request->node.node.version =
		    mt_nodes_by_id(gateway, request->node.node.id)->node.version;
		mt_control_node_put(request, "added");
		return;
	}
	request->node.what = "added";
	request->node.node.added_s = mt_gateway_time_s(gateway);
	next.next_node = num_max(mt_nodes_next_id(gateway), request->node.node.id + UINT64_C(1));
	mt_node_key(key, request->node.node.id);
	text = mt_node_encode(&request->node.node);
	rc = mt_cluster_count(gateway, &next, key, text, NULL, node_on_put, request);
	free(text);
	if (rc != 0)
		mt_control_refuse(request, rc, "node %" PRIu32 ": %s", request->node.node.id,
		    status_text(status_from_errno(rc)));
}

static void
add_on_found(const struct mt_node_found *found, void *arg)
{
	struct mt_control_request *request = arg;
	struct mt_node *node = &request->node.node;
	const char *disk = json_string_value(json_object_get(request->in, "disk"));

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (found->node_id == 0) {
		mt_control_refuse(request, -ENOENT, "%s is no node that can be added: %s",
		    node->address, found->why);
		return;
	}
	if (found->disk[0] == '\0') {
		mt_control_refuse(request, -EPROTO,
		    "%s does not say which disk it has: install the gateways' release on it",
		    node->address);
		return;
	}
	if (disk != NULL && strcmp(disk, found->disk) != 0) {
		mt_control_refuse(request, -EEXIST,
		    "%s answers as node %" PRIu32 ", disk %s: not the disk %s that is to be added",
		    node->address, found->node_id, found->disk, disk);
		return;
	}
	node->id = found->node_id;
	(void)snprintf(node->disk, sizeof(node->disk), "%s", found->disk);
	mt_control_node_begin(request, add_put);
}

void
mt_control_node_probe(struct mt_control_request *request, mt_node_probe_fn fn)
{
	const char *address = request->node.node.address;
	int rc = mt_node_probe_start(request->gateway, address, fn, request);

	if (rc != 0)
		mt_control_refuse(request, rc, "%s: %s", address,
		    status_text(status_from_errno(rc)));
}

static void
add_probe(struct mt_control_request *request)
{
	const struct mt_nodes *nodes = request->gateway->nodes;

	assert(request->node.node.id == 0);
	if (nodes->is_incomplete || nodes->count >= MT_NODE_KEYS_MAX) {
		mt_control_refuse(request, -ENOSPC,
		    nodes->is_incomplete
			? "a key of a node cannot be understood: see the gateway's log"
			: "the cluster has had as many nodes as it can");
		return;
	}
	if (add_member_count(nodes) >= MT_NODES_MAX) {
		mt_control_refuse(request, -ENOSPC,
		    "the cluster has %u nodes, and can have no more", MT_NODES_MAX);
		return;
	}
	if (add_is_taken(request, &request->node.node))
		return;
	mt_control_node_probe(request, add_on_found);
}

bool
mt_control_node_take(struct mt_control_request *request, const char *address, const char *domain,
    uint64_t weight, const char *note)
{
	struct mt_node *node = &request->node.node;
	const char *wrong = address != NULL ? tcp_address_check(address, true) : NULL;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(weight <= MT_NODE_WEIGHT_MAX);
	/* The simulator's are checked by nobody. */
	if (wrong != NULL && request->gateway->options.sim_host == NULL) {
		mt_control_refuse(request, -EINVAL, "address: '%s': %s", address, wrong);
		return false;
	}
	wrong = domain != NULL ? domain_check(domain) : NULL;
	if (wrong != NULL) {
		mt_control_refuse(request, -EINVAL, "domain: '%s': %s", domain, wrong);
		return false;
	}
	if (address != NULL)
		(void)snprintf(node->address, sizeof(node->address), "%s", address);
	if (domain != NULL)
		(void)snprintf(node->domain, sizeof(node->domain), "%s", domain);
	if (note != NULL)
		(void)snprintf(node->note, sizeof(node->note), "%s", note);
	if (weight != 0)
		node->weight = (uint32_t)weight;
	return true;
}

void
mt_control_node_add(struct mt_control_request *request)
{
	const char *address = NULL, *domain = NULL, *note = NULL;
	const char *disk = NULL; /* nobody but the node that has it; NULL: whoever answers there */
	uint64_t weight = MT_NODE_WEIGHT_DEFAULT;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "address", READER_TEXT, true, 0, SPLIT_ADDRESS_BYTES_MAX - 1,
		    { .text = &address } },
		{ "domain", READER_TEXT, false, 0, MT_NODE_DOMAIN_BYTES - 1, { .text = &domain } },
		{ "weight", READER_U64, false, 1, MT_NODE_WEIGHT_MAX, { .u64 = &weight } },
		{ "note", READER_TEXT, false, 0, MT_NODE_NOTE_BYTES - 1, { .text = &note } },
		{ "disk", READER_TEXT, false, 0, MT_NODE_DISK_BYTES - 1, { .text = &disk } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	request->node.node = (struct mt_node){ .state = MT_NODE_IN };
	if (rc != 0)
		mt_control_fail(request, rc, error);
	else if (mt_control_node_take(request, address, domain, weight, note))
		mt_control_node_begin(request, add_probe);
}

/* ---- show: what it holds, for whoever waits until it is empty ---- */

static void
show_on_tally(const struct mt_node_tally *tally, void *arg)
{
	struct mt_control_request *request = arg;
	json_t *out = node_json(&request->node.node);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (out != NULL)
		json_object_set_new(out, "holds",
		    json_pack("{s:I, s:I, s:I, s:o, s:I, s:b, s:b}", "copies",
			(json_int_t)tally->extent_count, "bytes", (json_int_t)tally->bytes, "rate",
			(json_int_t)tally->bytes_per_s, "waits",
			mt_node_leaving_json(tally->leaving), "shards_unserved",
			(json_int_t)tally->unserved_count, "unknown",
			tally->unknown_gateway != 0 || tally->behind_gateway != 0, "empty",
			mt_node_tally_is_empty(tally)));
	mt_control_finish(request, out);
}

static void
show_count(struct mt_control_request *request)
{
	const struct mt_node_entry *entry = mt_nodes_by_id(request->gateway, request->node.id);
	int rc;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (entry == NULL) {
		mt_control_refuse(request, -ENOENT,
		    "node %" PRIu64 ": no such node: see cleave node list", request->node.id);
		return;
	}
	request->node.node = entry->node;
	rc = mt_node_tally_start(request->gateway, entry->node.id, entry->node.version,
	    show_on_tally, request);
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}

void
mt_control_node_show(struct mt_control_request *request)
{
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "node", READER_U64, true, 1, UINT32_MAX, { .u64 = &request->node.id } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && !request->op->is_change);
	if (rc != 0)
		mt_control_fail(request, rc, error);
	else
		mt_control_node_begin(request, show_count);
}

/* ---- usage: asked by other gateways ---- */

static void
usage_on_asked(struct mt_ask *ask, void *arg)
{
	assert(ask->kind == MT_ASK_NODE);
	mt_control_finish(arg, mt_node_tally_json(ask));
}

void
mt_control_node_usage(struct mt_control_request *request)
{
	uint64_t id = 0, version = 0;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "node", READER_U64, true, 1, UINT32_MAX, { .u64 = &id } },
		{ "version", READER_U64, true, 1, INT64_MAX, { .u64 = &version } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0) {
		(void)snprintf(error, sizeof(error), MT_CONTROL_NOT_NOW);
		rc = mt_ask_node(request->gateway, (uint32_t)id, version, usage_on_asked, request);
	}
	if (rc != 0)
		mt_control_fail(request, rc, error);
}
