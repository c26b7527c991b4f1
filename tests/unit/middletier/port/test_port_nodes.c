/* SPDX-License-Identifier: Apache-2.0 */
/* test_port_nodes.c -- nodes that are added, drained, moved and removed while a port runs */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "middletier/common/alloc.h"
#include "middletier/extent/link_life.h"
#include "middletier/extent/node_link.h"
#include "middletier/extent/placement.h"
#include "middletier/gateway/gateway.h"
#include "middletier/port/port_nodes.h"
#include "support/mt_rig.h"

#define NODES 4u

static struct mt_rig *rig;
static struct mt_node_config table[MT_NODES_MAX];

/* Four nodes run, and the gateway was given the first three. */
static void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = NODES, .min_replicas = 2 });
	rig->gateway_options.node_count = NODES - 1;
	mt_rig_up(rig);
	memset(table, 0, sizeof(table));
	for (uint32_t i = 0; i < NODES; i++) {
		(void)snprintf(table[i].address, sizeof(table[i].address), "%s",
		    rig->nodes[i].address);
		table[i].node_id = i + 1;
	}
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(port_nodes, .init = setup, .fini = teardown);

static uint32_t waited;

static bool
is_up(void *arg)
{
	(void)arg;
	return waited < mt_rig_port(rig)->link_count && mt_link_is_up(mt_rig_link(rig, waited));
}

static bool
is_down(void *arg)
{
	return !is_up(arg);
}

static void
set_nodes(uint32_t count)
{
	mt_port_nodes_set(mt_rig_port(rig), table, count);
	mt_rig_run(rig, NUM_MS(1));
}

Test(port_nodes, a_node_is_added_while_the_port_runs)
{
	struct mt_link *first = mt_rig_link(rig, 0), *picked[MT_REPLICAS_MAX];

	set_nodes(NODES);
	cr_assert_eq(mt_rig_port(rig)->link_count, NODES);
	waited = NODES - 1;
	cr_assert(mt_rig_run_until(rig, is_up, NULL));
	cr_assert_eq(first, mt_rig_link(rig, 0), "pointers to links stay");
	cr_assert(mt_link_is_up(first), "and nothing happened to the others");
	cr_assert_eq(mt_placement_domain_count(mt_rig_port(rig)), NODES);
	cr_assert_eq(mt_placement_pick(mt_rig_port(rig), EXTENT_LOG, 3, picked), 0);
	cr_assert(strlen(mt_rig_link(rig, waited)->disk) == MT_NODE_DISK_BYTES - 1,
	    "its disk's uuid is known: %s", mt_rig_link(rig, waited)->disk);
}

Test(port_nodes, the_newest_table_counts)
{
	table[0].state = MT_NODE_DRAINING;
	mt_port_nodes_set(mt_rig_port(rig), table, NODES - 1);
	table[0].state = MT_NODE_IN;
	table[1].state = MT_NODE_DRAINING;
	set_nodes(NODES);
	cr_assert_eq(mt_rig_link(rig, 0)->config.state, MT_NODE_IN);
	cr_assert_eq(mt_rig_link(rig, 1)->config.state, MT_NODE_DRAINING);
	cr_assert_eq(mt_rig_port(rig)->link_count, NODES);
}

Test(port_nodes, a_node_that_drains_stays_connected)
{
	table[2].state = MT_NODE_DRAINING;
	set_nodes(NODES - 1);
	cr_assert(mt_link_is_up(mt_rig_link(rig, 2)));
	cr_assert_eq(mt_placement_domain_count(mt_rig_port(rig)), 2);
	table[2].state = MT_NODE_IN;
	set_nodes(NODES - 1);
	cr_assert_eq(mt_placement_domain_count(mt_rig_port(rig)), 3);
}

Test(port_nodes, a_node_that_is_gone_is_not_connected_to_again)
{
	set_nodes(NODES);
	waited = NODES - 1;
	cr_assert(mt_rig_run_until(rig, is_up, NULL));
	table[waited].state = MT_NODE_OUT;
	set_nodes(NODES);
	cr_assert(mt_rig_run_until(rig, is_down, NULL));
	mt_rig_run(rig, NUM_S(60));
	cr_assert_eq(mt_rig_link(rig, waited)->sm.state, MT_LINK_DOWN);
	cr_assert_null(mt_rig_link(rig, waited)->qp);
	cr_assert_eq(mt_rig_port(rig)->link_count, NODES, "its index stays");
	cr_assert_eq(mt_port_node_count(mt_rig_port(rig)), NODES - 1);
}

Test(port_nodes, a_tombstone_that_the_port_never_knew_is_not_connected_to)
{
	table[NODES - 1].state = MT_NODE_LOST;
	set_nodes(NODES);
	mt_rig_run(rig, NUM_S(10));
	cr_assert_eq(mt_rig_link(rig, NODES - 1)->sm.state, MT_LINK_DOWN);
	cr_assert_not(mt_rig_link(rig, NODES - 1)->life->was_up);
}

Test(port_nodes, a_node_that_moved_is_found_at_its_new_address)
{
	/* Node 3 is said to live where node 4 does, which is refused; and is taken back. */
	waited = 2;
	(void)snprintf(table[2].address, sizeof(table[2].address), "%s", rig->nodes[3].address);
	set_nodes(NODES - 1);
	cr_assert(mt_rig_run_until(rig, is_down, NULL));
	mt_rig_run(rig, NUM_S(10));
	cr_assert_not(mt_link_is_up(mt_rig_link(rig, 2)));
	cr_assert_not_null(strstr(mt_rig_link(rig, 2)->trouble, "cleave node set ID --address"),
	    "%s", mt_rig_link(rig, 2)->trouble);
	(void)snprintf(table[2].address, sizeof(table[2].address), "%s", rig->nodes[2].address);
	set_nodes(NODES - 1);
	cr_assert(mt_rig_run_until(rig, is_up, NULL));
}

Test(port_nodes, another_id_than_the_node_showed_closes_its_link)
{
	waited = 1;
	table[1].node_id = 9;
	set_nodes(NODES - 1);
	cr_assert(mt_rig_run_until(rig, is_down, NULL));
	table[1].node_id = 2;
	set_nodes(NODES - 1);
	cr_assert(mt_rig_run_until(rig, is_up, NULL));
}

Test(port_nodes, a_link_without_memory_is_tried_again)
{
	struct mt_port *port = mt_rig_port(rig);

	mt_alloc_fail_at(1);
	cr_assert_eq(mt_port_node_set(port, NODES - 1, &table[NODES - 1]), -ENOMEM);
	cr_assert_eq(port->link_count, NODES - 1);
	for (uint32_t n = 1; port->link_count < NODES && n < 100; n++) {
		mt_alloc_fail_at(n);
		set_nodes(NODES);
		mt_alloc_fail_at(0);
		mt_rig_run(rig, NUM_S(2));
	}
	waited = NODES - 1;
	cr_assert(mt_rig_run_until(rig, is_up, NULL));
}
