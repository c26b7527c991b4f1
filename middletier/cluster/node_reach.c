/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_reach.c -- which storage nodes do the other gateways reach?
 *
 *	each other gateway: {"op":"node.list"} --> {"nodes":[{"id":3,"state":"up"}, ...]} --> all of them in one list
 *
 * "up" says that every port of that gateway has a connection. What a gateway knows of nodes that it does not reach is
 * of no interest: one that reaches a node is enough to know that it answers.
 */
#include "cluster/node_reach.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/check.h"
#include "cluster/gateway_state.h"
#include "cluster/node_table.h"
#include "cluster/peer.h"
#include "common/alloc.h"

struct mt_node_reach {
	struct mt_gateway *gateway;
	mt_node_reach_fn fn;
	void *arg;
	uint32_t left_count; /* gateways that have not answered */
	struct mt_node_reached reached;
	uint64_t peer_ids[MT_GATEWAYS_MAX];
	struct mt_peer_call calls[MT_GATEWAYS_MAX];
};

uint64_t
mt_node_reached_by(const struct mt_node_reached *reached, uint32_t node_id)
{
	assert(reached->count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < reached->count; i++) {
		if (reached->node_ids[i] == node_id)
			return reached->gateway_ids[i];
	}
	return 0;
}

static void
reach_add(struct mt_node_reached *reached, json_int_t node_id, uint64_t gateway_id)
{
	if (node_id <= 0 || node_id > UINT32_MAX || reached->count == MT_NODES_MAX ||
	    mt_node_reached_by(reached, (uint32_t)node_id) != 0)
		return;
	reached->node_ids[reached->count] = (uint32_t)node_id;
	reached->gateway_ids[reached->count++] = gateway_id;
}

/* Another gateway may say anything: what is no node that is up is passed over. */
static void
reach_read(struct mt_node_reached *reached, const char *reply, uint64_t gateway_id)
{
	json_t *answer = reply == NULL ? NULL : json_loads(reply, 0, NULL), *node;
	size_t i;

	assert(gateway_id != 0);
	json_array_foreach(json_object_get(answer, "nodes"), i, node)
	{
		const char *state = json_string_value(json_object_get(node, "state"));

		if (state != NULL && strcmp(state, "up") == 0)
			reach_add(reached, json_integer_value(json_object_get(node, "id")),
			    gateway_id);
	}
	json_decref(answer);
}

/* The last act. */
static void
reach_done(struct mt_node_reach *reach)
{
	struct mt_node_reached reached;
	mt_node_reach_fn fn = reach->fn;
	void *arg = reach->arg;

	assert(reach->left_count > 0 && reach->gateway->nodes->reach_out == reach);
	if (--reach->left_count > 0)
		return;
	reached = reach->reached;
	reach->gateway->nodes->reach_out = NULL;
	mt_free(reach);
	fn(&reached, arg);
}

static void
reach_on_answer(struct mt_peer_call *call, void *arg)
{
	struct mt_node_reach *reach = arg;

	assert(call >= reach->calls && call < reach->calls + MT_GATEWAYS_MAX);
	if (call->rc == 0)
		reach_read(&reach->reached, call->reply, reach->peer_ids[call - reach->calls]);
	mt_free(call->reply);
	call->reply = NULL;
	reach_done(reach);
}

static void
reach_ask(struct mt_node_reach *reach)
{
	const struct mt_member *member = &reach->gateway->member;

	assert(reach->left_count == 0 && member->peer_count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < member->peer_count; i++) {
		const struct mt_member_peer *peer = &member->peers[i];

		reach->peer_ids[i] = peer->gateway_id;
		if (peer->gateway_id != reach->gateway->options.gateway_id &&
		    peer->port_count > 0 &&
		    mt_peer_call(reach->gateway, &reach->calls[i], peer->ports[0],
			"{\"op\":\"node.list\"}", reach_on_answer, reach) == 0)
			reach->left_count++;
	}
}

int
mt_node_reach_start(struct mt_gateway *gateway, mt_node_reach_fn fn, void *arg)
{
	struct mt_node_reach *reach;

	assert(fn != NULL);
	if (gateway->nodes->reach_out != NULL)
		return -EBUSY;
	reach = mt_calloc(1, sizeof(*reach));
	if (reach == NULL)
		return -ENOMEM;
	reach->gateway = gateway;
	reach->fn = fn;
	reach->arg = arg;
	reach_ask(reach);
	if (reach->left_count == 0) {
		mt_free(reach);
		return -ENOENT;
	}
	gateway->nodes->reach_out = reach;
	return 0;
}

void
mt_node_reach_fini(struct mt_gateway *gateway)
{
	struct mt_node_reach *reach = gateway->nodes->reach_out;

	gateway->nodes->reach_out = NULL;
	for (uint32_t i = 0; reach != NULL && i < MT_GATEWAYS_MAX; i++)
		mt_free(reach->calls[i].reply);
	mt_free(reach);
}
