/* SPDX-License-Identifier: Apache-2.0 */
/* test_node_table.c -- nodes of the options become the cluster's, and changes of them reach the ports */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/level.h"
#include "middletier/catalog/node_key.h"
#include "middletier/cluster/node_table.h"
#include "middletier/common/alloc.h"
#include "middletier/gateway/gateway.h"
#include "middletier/meta/meta_store.h"
#include "middletier/meta/meta_txn.h"
#include "support/made_cluster.h"
#include "support/mt_rig.h"

#define NODES 4u

static struct mt_rig *rig;

static void
create(uint32_t level, uint32_t seed_count)
{
	rig = mt_rig_create(
	    &(struct mt_rig_options){ .node_count = NODES, .min_replicas = 2, .level = level });
	rig->gateway_options.node_count = seed_count;
	mt_rig_log_start(rig);
	for (uint32_t i = 0; i < NODES; i++)
		mt_rig_node_start(rig, i);
}

static void
start(void)
{
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
}

static bool
are_members(void *arg)
{
	(void)arg;
	return mt_nodes_are_members(rig->gateway) && rig->gateway->nodes->count > 0;
}

/* Three of four nodes are the options', and have been imported. */
static void
setup(void)
{
	create(CLEAVE_LEVEL_NODES, NODES - 1);
	start();
	cr_assert(mt_rig_run_until(rig, are_members, NULL));
	mt_rig_run(rig, NUM_MS(1)); /* the port is told */
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(node_table, .init = setup, .fini = teardown);
TestSuite(node_import, .fini = teardown);

/* A node's key, put by somebody else. */
static void
put(const struct mt_node *node)
{
	char key[MT_NODE_KEY_BYTES], *text = mt_node_encode(node);
	const struct meta_op op = { .kind = META_PUT,
		.key = key,
		.value = text,
		.value_bytes = (uint32_t)strlen(text) };
	struct meta_txn *txn;

	mt_node_key(key, node->id);
	cr_assert_eq(meta_txn_copy(&op, 1, &txn), 0);
	cr_assert_eq(meta_store_txn(rig->store, txn), 0);
	mt_free(txn);
	free(text);
	mt_rig_run(rig, NUM_MS(100));
}

static struct mt_node
entry(uint32_t id)
{
	const struct mt_node_entry *found = mt_nodes_by_id(rig->gateway, id);

	cr_assert_not_null(found, "%u", id);
	return found->node;
}

Test(node_import, the_options_nodes_become_the_clusters)
{
	setup();
	cr_assert_eq(rig->gateway->nodes->count, NODES - 1);
	cr_assert_eq(mt_nodes_next_id(rig->gateway), NODES);
	for (uint32_t i = 0; i < NODES - 1; i++) {
		struct mt_node node = entry(i + 1);

		cr_assert_str_eq(node.address, rig->nodes[i].address);
		cr_assert_eq(node.state, MT_NODE_IN);
		cr_assert_eq(node.weight, MT_NODE_WEIGHT_DEFAULT);
		cr_assert_str_eq(node.disk, mt_rig_link(rig, i)->disk);
		cr_assert_eq(mt_rig_link(rig, i)->config.node_id, i + 1);
		cr_assert(mt_link_is_up(mt_rig_link(rig, i)), "nothing was closed for it");
	}
	cr_assert(mt_rig_logged(rig, "are the cluster's now nodes=3 next_node=4"));
	cr_assert_not(mt_rig_logged(rig, "--node differs"));
}

Test(node_import, waits_until_every_node_was_heard)
{
	create(CLEAVE_LEVEL_NODES, NODES - 1);
	mt_rig_node_kill(rig, 2, false);
	start();
	mt_rig_run(rig, NUM_S(30));
	cr_assert_not(mt_nodes_are_members(rig->gateway), "a node that is away was left out");
	cr_assert(
	    mt_rig_logged(rig, "one was not: start it, or leave it out address=sim://node3:1"));
	mt_rig_node_start(rig, 2);
	cr_assert(mt_rig_run_until(rig, are_members, NULL));
	cr_assert_eq(rig->gateway->nodes->count, NODES - 1);
}

Test(node_import, nothing_is_written_at_the_first_level)
{
	create(0, NODES - 1);
	start();
	mt_rig_run(rig, NUM_S(30));
	cr_assert_not(mt_nodes_are_members(rig->gateway));
	cr_assert_eq(rig->gateway->nodes->count, 0);
	cr_assert_eq(rig->gateway->cluster.next_node, 0);
}

Test(node_import, an_upgrade_while_the_gateway_runs_begins_it)
{
	create(0, NODES - 1);
	start();
	made_cluster_raise(rig->store, CLEAVE_LEVEL_NODES);
	rig->gateway->cluster.level = CLEAVE_LEVEL_NODES;
	mt_nodes_on_level(rig->gateway);
	cr_assert(mt_rig_run_until(rig, are_members, NULL));
}

/* Whatever it reads just then. */
Test(node_import, a_gateway_stops_at_any_time_of_its_start)
{
	create(CLEAVE_LEVEL_NODES, NODES - 1);
	for (uint64_t us = 0; us < 3000; us += 20) {
		mt_rig_gateway_start(rig);
		mt_rig_run(rig, NUM_US(us));
		mt_rig_gateway_stop(rig);
	}
}

Test(node_import, a_gateway_without_any_node_does_not_start)
{
	create(CLEAVE_LEVEL_NODES, 0);
	mt_rig_gateway_start(rig);
	mt_rig_run(rig, NUM_S(5));
	cr_assert(rig->has_failed);
	cr_assert(mt_rig_logged(rig, "names no storage nodes yet: give them with --node"));
}

Test(node_table, a_gateway_needs_no_list_any_more)
{
	rig->gateway_options.node_count = 0;
	mt_rig_gateway_restart(rig);
	cr_assert_eq(mt_rig_port(rig)->link_count, NODES - 1);
	cr_assert_not(mt_rig_logged(rig, "--node differs"));
}

Test(node_table, a_list_that_differs_is_a_warning_and_does_not_count)
{
	rig->gateway_options.node_count = 2;
	rig->gateway_options.nodes[1] = rig->gateway_options.nodes[2];
	(void)snprintf(rig->gateway_options.nodes[0].address,
	    sizeof(rig->gateway_options.nodes[0].address), "%s", rig->nodes[3].address);
	mt_rig_gateway_restart(rig);
	cr_assert(
	    mt_rig_logged(rig, "differences=\"+sim://node4:1 -sim://node1:1 -sim://node2:1\""));
	mt_rig_run(rig, NUM_S(10));
	cr_assert_not(mt_link_is_up(mt_rig_link(rig, 0)), "it is no member");
	for (uint32_t i = 1; i <= 3; i++)
		cr_assert(mt_link_is_up(mt_port_link(mt_rig_port(rig), i)));
}

Test(node_import, a_node_that_the_store_names_by_another_address_keeps_its_link)
{
	struct mt_node node = { .id = 2, .weight = 100 };
	struct mt_cluster cluster;

	create(0, NODES - 1);
	start();
	/* As another gateway imports them: node 2 at the address of node 4, which is a lie to be seen. */
	(void)snprintf(node.address, sizeof(node.address), "%s", rig->nodes[3].address);
	put(&node);
	made_cluster_raise(rig->store, CLEAVE_LEVEL_NODES);
	made_cluster_read(rig->store, &cluster);
	cluster.version = 0;
	cluster.next_node = 3;
	rig->gateway->cluster.level = CLEAVE_LEVEL_NODES;
	made_cluster_write(rig->store, &cluster);
	mt_nodes_on_level(rig->gateway);
	cr_assert(mt_rig_run_until(rig, are_members, NULL));
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(mt_rig_port(rig)->link_count, NODES - 1, "no second link to it");
	cr_assert_eq(mt_rig_link(rig, 1)->config.node_id, 2);
	cr_assert_str_eq(mt_rig_link(rig, 1)->config.address, rig->nodes[3].address);
	cr_assert_eq(mt_rig_link(rig, 0)->config.state, MT_NODE_DRAINING,
	    "the store does not name it");
	cr_assert(mt_rig_logged(rig, "differences=\"+sim://node1:1 +sim://node3:1\""));
}

Test(node_table, a_change_of_a_key_reaches_the_port)
{
	struct mt_node node = entry(2);

	node.state = MT_NODE_DRAINING;
	node.maintenance_until_s = mt_gateway_time_s(rig->gateway) + 60;
	put(&node);
	cr_assert_eq(mt_rig_link(rig, 1)->config.state, MT_NODE_DRAINING);
	cr_assert_eq(mt_rig_link(rig, 1)->config.version,
	    mt_nodes_by_id(rig->gateway, 2)->node.version);
	cr_assert(
	    mt_node_is_in_maintenance(&mt_rig_link(rig, 1)->config, sim_world_now_ns(rig->world)));
	cr_assert(mt_rig_logged(rig, "node 2: is draining now"));
}

Test(node_table, a_new_key_is_a_new_link)
{
	struct mt_node node = { .id = 4, .weight = 100 };

	(void)snprintf(node.address, sizeof(node.address), "%s", rig->nodes[3].address);
	put(&node);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(mt_rig_port(rig)->link_count, NODES);
	cr_assert(mt_link_is_up(mt_rig_link(rig, 3)));
	/* And it leaves again. */
	node.state = MT_NODE_OUT;
	put(&node);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_not(mt_link_is_up(mt_rig_link(rig, 3)));
	cr_assert_eq(mt_nodes_next_id(rig->gateway), 5, "its number is not given again");
	/* A tombstone has no link in a gateway that starts later. */
	mt_rig_gateway_restart(rig);
	cr_assert_eq(mt_rig_port(rig)->link_count, NODES - 1);
}

Test(node_table, a_key_that_is_not_understood_changes_nothing)
{
	const struct meta_op op = { .kind = META_PUT,
		.key = "nodes/0000000001",
		.value = "{}",
		.value_bytes = 2 };
	struct meta_txn *txn;

	cr_assert_eq(meta_txn_copy(&op, 1, &txn), 0);
	cr_assert_eq(meta_store_txn(rig->store, txn), 0);
	mt_free(txn);
	mt_rig_run(rig, NUM_S(1));
	cr_assert(rig->gateway->nodes->is_incomplete);
	cr_assert(mt_rig_logged(rig, "key=nodes/0000000001"));
	cr_assert_eq(mt_rig_link(rig, 1)->config.state, MT_NODE_IN);
}
