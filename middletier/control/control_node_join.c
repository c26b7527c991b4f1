/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_node_join.c -- asked by `cleave-storage join`: is a disk known, and which number does a new one get?
 *
 *	{"op":"node.find","node":N,"disk":UUID}   "cluster_id":"16 hex digits", "nodes":[...]
 *	{"op":"node.reserve"}                     "cluster_id":..., "node":N
 *
 * A reserved number is given once: next_node is past it, by compare-and-swap, before the answer. Whoever does not use
 * it loses nothing but the number.
 */
#include "control/control_node_join.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/cluster_key.h"
#include "catalog/node_key.h"
#include "cleave/status.h"
#include "cluster/gateway_state.h"
#include "cluster/node_table.h"
#include "control/control_node.h"
#include "control/control_request.h"

#define RESERVE_TRIES_MAX                                                                          \
	16u /* changes of the key "cluster" that come first: volumes are made all the time */

/* ---- find ---- */

static json_t *
find_json(const struct mt_gateway *gateway, uint64_t id, const char *disk)
{
	const struct mt_nodes *nodes = gateway->nodes;
	json_t *found = json_array();
	char cluster_id[17];

	assert(!gateway->nodes->is_incomplete);
	for (uint32_t i = 0; i < nodes->count; i++) {
		const struct mt_node *node = &nodes->entries[i].node;
		bool is_disk = disk[0] != '\0' && strcmp(disk, node->disk) == 0;

		if (node->id != id && !is_disk)
			continue;
		if (json_array_append_new(found,
			json_pack("{s:I, s:s, s:s, s:s, s:s}", "id", (json_int_t)node->id, "member",
			    mt_node_state_name(node->state), "address", node->address, "disk",
			    node->disk, "domain", node->domain)) != 0) {
			json_decref(found);
			return NULL;
		}
	}
	(void)snprintf(cluster_id, sizeof(cluster_id), "%016" PRIx64, gateway->cluster.cluster_id);
	return json_pack("{s:s, s:o}", "cluster_id", cluster_id, "nodes", found);
}

static void
find_look(struct mt_control_request *request)
{
	const char *disk = json_string_value(json_object_get(request->in, "disk"));

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (request->gateway->nodes->is_incomplete) {
		mt_control_refuse(request, -EBADMSG,
		    "a key of a node cannot be understood, so nobody knows whether the disk is "
		    "known: see the gateway's log");
		return;
	}
	mt_control_finish(request,
	    find_json(request->gateway, request->node.id, disk == NULL ? "" : disk));
}

void
mt_control_node_find(struct mt_control_request *request)
{
	const char *disk = NULL;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "node", READER_U64, false, 0, UINT32_MAX, { .u64 = &request->node.id } },
		{ "disk", READER_TEXT, false, 0, MT_NODE_DISK_BYTES - 1, { .text = &disk } },
	};
	int rc;

	assert(request->sm.state == MT_CONTROL_RUNNING && !request->op->is_change);
	request->node.id = 0;
	rc = reader_strict(request->in, members, NUM_COUNT(members), error);
	if (rc != 0)
		mt_control_fail(request, rc, error);
	else
		mt_control_node_begin(request, find_look);
}

/* ---- reserve ---- */

static void reserve_put(struct mt_control_request *request);

static void
reserve_on_put(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	char cluster_id[17], who[MT_EVENT_WHO_TEXT_BYTES];

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == -EAGAIN && ++request->node.round < RESERVE_TRIES_MAX) {
		mt_control_node_begin(request, reserve_put);
		return;
	}
	if (rc != 0) {
		mt_control_refuse(request, rc == -EAGAIN ? -EBUSY : rc,
		    "no number could be reserved: %s: ask again",
		    status_text(status_from_errno(rc)));
		return;
	}
	log_info("node %" PRIu64 ": number reserved %s", request->node.id,
	    mt_control_who(request, who));
	(void)snprintf(cluster_id, sizeof(cluster_id), "%016" PRIx64,
	    request->gateway->cluster.cluster_id);
	mt_control_finish(request,
	    json_pack("{s:s, s:I}", "cluster_id", cluster_id, "node",
		(json_int_t)request->node.id));
}

static void
reserve_put(struct mt_control_request *request)
{
	struct mt_gateway *gateway = request->gateway;
	struct mt_cluster next = gateway->nodes->cluster;
	int rc;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	request->node.id = mt_nodes_next_id(gateway);
	if (gateway->nodes->is_incomplete || request->node.id == UINT32_MAX) {
		mt_control_refuse(request, -ENOSPC,
		    gateway->nodes->is_incomplete
			? "a key of a node cannot be understood: see the gateway's log"
			: "the cluster has given away all numbers of nodes");
		return;
	}
	assert(request->node.id >= next.next_node);
	next.next_node = request->node.id + UINT64_C(1);
	rc = mt_cluster_put(gateway->options.meta, &next, reserve_on_put, request);
	if (rc != 0)
		mt_control_refuse(request, rc, "no number could be reserved: %s",
		    status_text(status_from_errno(rc)));
}

void
mt_control_node_reserve(struct mt_control_request *request)
{
	char error[MT_ERROR_BYTES];
	int rc = reader_strict(request->in, NULL, 0, error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	request->node.round = 0;
	if (rc != 0)
		mt_control_fail(request, rc, error);
	else
		mt_control_node_begin(request, reserve_put);
}
