/* SPDX-License-Identifier: Apache-2.0 */
/* node_control_rig.h -- two gateways, five storage nodes of which three are members, and a client that asks about nodes */
#ifndef CLEAVE_TESTS_NODE_CONTROL_RIG_H
#define CLEAVE_TESTS_NODE_CONTROL_RIG_H

#include <inttypes.h>

#include "cleave/level.h"
#include "middletier/catalog/node_key.h"
#include "middletier/cluster/node_table.h"
#include "unit/control_ask.h"
#include "unit/member_fixture.h"

#define NODES 5u
#define SEEDS 3u /* of them the gateways' options name */
#define CONTROL_ROUND_NS NUM_S(1)

static struct sg sg; /* the client's half of it */
static struct sg_qp qp;

static inline void
rig_open(uint32_t level)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .shard_count = SHARDS,
	    .node_count = NODES,
	    .min_replicas = 2,
	    .slot_bytes = NUM_KIB(64),
	    .slot_count = 600 });
	rig->gateway_options.node_count = SEEDS;
	mt_rig_log_start(rig);
	for (uint32_t i = 0; i < NODES; i++)
		mt_rig_node_start(rig, i);
	made_cluster_at(rig->store, &rig->gateway_options, level);
	sg_client_open(&sg, rig->world, rig->net, &rig->gateway_options);
}

static inline void
client_connect(void)
{
	(void)snprintf(sg.options.ports[0].address, SPLIT_ADDRESS_BYTES_MAX, "sim://peer0:7100");
	sg_connect(&sg, &qp, NULL);
	cr_assert_eq(sg_wait_open(&qp), 0);
}

static inline bool
are_members(void *arg)
{
	(void)arg;
	return mt_nodes_are_members(peers[0].gateway) && peers[0].gateway->nodes->count == SEEDS &&
	    mt_nodes_are_members(peers[1].gateway) && peers[1].gateway->nodes->count == SEEDS;
}

/* Two gateways, a client of the first, and three of five nodes are members. */
static inline void
node_setup(void)
{
	rig_open(CLEAVE_LEVEL_NODES);
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	cr_assert(mt_rig_run_until(rig, are_members, NULL));
	client_connect();
}

static inline void
node_teardown(void)
{
	if (qp.qp != NULL)
		sg_close(&qp);
	sg_client_close(&sg);
	teardown();
}

/* ---- asking ---- */

static inline json_t *
ask(const char *request, int *ret_rc)
{
	*ret_rc = 0;
	return control_ask(&qp, ret_rc, "%s", request);
}

static inline void
expect_ok(const char *request, const char *member)
{
	json_t *answer = control_want(&qp, 0, "%s", request);

	cr_assert_str_eq(json_string_value(
			     json_object_get(json_object_get(answer, "node"), "member")),
	    member, "%s", request);
	json_decref(answer);
}

/* The request is refused with @rc and a text that says @words, and the keys of all nodes are as they were. */
static inline void
expect_refused(const char *request, int rc, const char *words)
{
	uint64_t versions[NODES + 1] = { 0 };
	const struct mt_nodes *nodes = peers[0].gateway->nodes;

	for (uint32_t i = 0; i < nodes->count; i++)
		versions[nodes->entries[i].node.id] = nodes->entries[i].node.version;
	refused(control_want(&qp, rc, "%s", request), words);
	for (uint32_t i = 0; i < nodes->count; i++)
		cr_assert_eq(nodes->entries[i].node.version, versions[nodes->entries[i].node.id]);
}

static inline enum mt_node_state
state_of(uint32_t id)
{
	const struct mt_node_entry *entry = mt_nodes_by_id(peers[0].gateway, id);

	cr_assert_not_null(entry, "%u", id);
	return entry->node.state;
}

#endif /* CLEAVE_TESTS_NODE_CONTROL_RIG_H */
