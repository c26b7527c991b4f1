/* SPDX-License-Identifier: Apache-2.0 */
/* test_slow_node.c -- a node that is much slower than its peers is left out; when all are, none is */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/log.h"
#include "base/num.h"
#include "extent/extent_copies.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/node_link.h"
#include "middletier/extent/slow_node.h"
#include "middletier/gateway/gateway.h"
#include "splitlib/sim/loop_sim.h"
#include "support/mt_rig.h"

#define RIGHT_MARK UINT64_MAX

static struct mt_rig *rig;
static struct mt_extent *extent;

static void
up(uint32_t node_count, uint32_t min_replicas)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = node_count,
	    .min_replicas = min_replicas,
	    .slot_count = 64 });
	rig->gateway_options.node_timeout_ns = NUM_S(20);
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	mt_rig_run(rig, NUM_S(1));
	extent = mt_rig_log_open(rig);
	cr_assert_not_null(extent);
	cr_assert_eq(extent->replica_count, 3);
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(slow_node, .fini = teardown);

static int
append(uint64_t *ret_took_ns)
{
	uint64_t start_ns = sim_world_now_ns(rig->world);
	int rc = mt_rig_append(rig, extent, 0, 2, 7, RIGHT_MARK);

	*ret_took_ns = sim_world_now_ns(rig->world) - start_ns;
	return rc;
}

static uint32_t
node_of(uint32_t replica)
{
	return mt_rig_index(&extent->replicas[replica]);
}

static void
stall(uint32_t node, uint64_t ns)
{
	disk_sim_stall(rig->nodes[node].disk, ns);
}

static uint64_t
slow_count(void)
{
	return mt_gateway_metric(rig->gateway, MT_METRIC_nodes_slow);
}

static bool
is_up_again(void *arg)
{
	return mt_link_is_up(mt_rig_link(rig, *(uint32_t *)arg));
}

Test(slow_node, stalled_one_is_given_up_soon)
{
	uint32_t node;
	uint64_t took_ns;

	up(4, 2);
	node = node_of(0);
	cr_assert_eq(append(&took_ns), 0);
	stall(node, NUM_S(10));
	cr_assert_eq(append(&took_ns), -ETIMEDOUT);
	cr_assert_geq(took_ns, SLOW_NODE_MIN_NS);
	cr_assert_lt(took_ns, SLOW_NODE_MIN_NS + NUM_MS(200));
	cr_assert_eq(slow_count(), 1);
	cr_assert(mt_rig_logged(rig, "it is slow while others answer"));
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(mt_link_is_up(mt_rig_link(rig, i)), i != node);
	/* Back, and left alone for a second. */
	cr_assert(mt_rig_run_until(rig, is_up_again, &node));
	cr_assert(mt_link_is_avoided(mt_rig_link(rig, node), sim_world_now_ns(rig->world)));
	for (uint32_t i = 0; i < 5; i++) {
		struct mt_extent *next = mt_rig_log_open(rig);

		cr_assert_eq(next->replica_count, 3);
		cr_assert_eq(mt_extent_replica(next, node + 1), -1);
	}
}

/* 250 ms each: it is never given up, and all writes are slow. */
Test(slow_node, sluggish_one_is_told_until_it_is_not)
{
	uint64_t took_ns;
	uint32_t node;

	up(4, 2);
	node = node_of(0);
	for (uint32_t i = 0; i < 2; i++)
		cr_assert_eq(append(&took_ns), 0);
	cr_assert(!mt_slow_node_was(mt_rig_link(rig, node), sim_world_now_ns(rig->world)));
	for (uint32_t i = 0; i < 6; i++) {
		stall(node, NUM_MS(250));
		cr_assert_eq(append(&took_ns), 0);
	}
	cr_assert_eq(slow_count(), 0);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(mt_slow_node_was(mt_rig_link(rig, i), sim_world_now_ns(rig->world)),
		    i == node, "node %u", i);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(append(&took_ns), 0);
	cr_assert(!mt_slow_node_was(mt_rig_link(rig, node), sim_world_now_ns(rig->world)));
}

/* Times of long ago say nothing of now. */
Test(slow_node, sluggish_one_that_is_not_used_is_told_no_more)
{
	uint64_t took_ns;

	up(4, 2);
	for (uint32_t i = 0; i < 8; i++) {
		stall(node_of(0), NUM_MS(250));
		cr_assert_eq(append(&took_ns), 0);
	}
	mt_rig_run(rig, NUM_S(6));
	cr_assert(!mt_slow_node_was(mt_rig_link(rig, node_of(0)), sim_world_now_ns(rig->world)));
}

Test(slow_node, penalty_grows_and_is_forgotten)
{
	struct mt_link *link;

	up(4, 2);
	link = mt_rig_link(rig, 0);
	for (uint64_t s = 1; s < 64; s *= 2) {
		mt_slow_node_punish(link);
		cr_assert_eq(link->slow.penalty.last_ns, NUM_S(s));
		mt_rig_run(rig, NUM_S(s) + NUM_MS(1));
		cr_assert_not(mt_link_is_avoided(link, sim_world_now_ns(rig->world)));
	}
	mt_slow_node_punish(link);
	cr_assert_eq(link->slow.penalty.last_ns, NUM_S(60));
	mt_rig_run(rig, NUM_S(121));
	mt_slow_node_punish(link);
	cr_assert_eq(link->slow.penalty.last_ns, NUM_S(1));
}

Test(slow_node, all_at_once_are_left_in)
{
	uint64_t took_ns;

	up(4, 2);
	cr_assert_eq(append(&took_ns), 0);
	for (uint32_t i = 0; i < 4; i++)
		stall(i, NUM_S(5));
	cr_assert_eq(append(&took_ns), 0);
	cr_assert_geq(took_ns, NUM_S(4));
	cr_assert_eq(slow_count(), 0);
}

Test(slow_node, one_that_writes_cannot_do_without_is_left_in)
{
	uint64_t took_ns;

	up(3, 3);
	cr_assert_eq(append(&took_ns), 0);
	stall(1, NUM_S(5));
	cr_assert_eq(append(&took_ns), 0);
	cr_assert_geq(took_ns, NUM_S(4));
	cr_assert_eq(slow_count(), 0);
}

Test(slow_node, most_are_not_left_out_for_the_sake_of_one)
{
	uint64_t took_ns;

	up(5, 1);
	cr_assert_eq(append(&took_ns), 0);
	mt_rig_run(rig, NUM_MS(100)); /* what the others answered before tells nothing */
	stall(node_of(0), NUM_S(3));
	stall(node_of(1), NUM_S(3));
	cr_assert_eq(append(&took_ns), 0);
	cr_assert_eq(slow_count(), 0);
}

Test(slow_node, hundred_times_slower_is_slow_and_works)
{
	uint64_t took_ns;

	up(4, 2);
	disk_sim_set_slowness(rig->nodes[node_of(2)].disk, 100);
	for (uint32_t i = 0; i < 10; i++) {
		cr_assert_eq(append(&took_ns), 0);
		cr_assert_lt(took_ns, NUM_MS(500));
	}
	cr_assert_eq(slow_count(), 0);
}

Test(slow_node, thousands_of_times_slower_is_given_up)
{
	uint64_t took_ns;

	up(4, 2);
	cr_assert_eq(append(&took_ns), 0);
	disk_sim_set_slowness(rig->nodes[node_of(2)].disk, 10000);
	cr_assert_eq(append(&took_ns), -ETIMEDOUT);
	cr_assert_eq(slow_count(), 1);
}

/* The gateway's answers come late from everywhere but one node: that is the network's doing. */
Test(slow_node, slow_answers_from_all_move_the_limit)
{
	struct sim_link_options slow = { .latency_min_ns = NUM_MS(400),
		.latency_max_ns = NUM_MS(500) };
	uint64_t took_ns;

	up(4, 2);
	for (uint32_t i = 0; i < 4; i++)
		sim_net_set_link(rig->nodes[i].host, rig->gateway_host, &slow);
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(append(&took_ns), 0);
	stall(node_of(0), NUM_S(2));
	cr_assert_eq(append(&took_ns), 0, "2 s are no more than 20 times as long");
	cr_assert_eq(slow_count(), 0);
}
