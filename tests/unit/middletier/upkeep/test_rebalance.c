/* SPDX-License-Identifier: Apache-2.0 */
/* test_rebalance.c -- copies are moved to nodes that have less, and not one is lost by that */
#include <criterion/criterion.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "extent/extent_copies.h"
#include "middletier/common/metric.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/node_link.h"
#include "middletier/gateway/gateway.h"
#include "middletier/port/port_nodes.h"
#include "middletier/upkeep/rebalance.h"
#include "middletier/upkeep/upkeep.h"
#include "support/mt_rig.h"

#define RIGHT_MARK UINT64_MAX
#define EXTENTS 32u
#define NODES 5u
#define SLOTS 64u

static struct mt_rig *rig;

/* Three nodes have all copies: the others drained while these were made. */
static void
set_state(uint32_t index, enum mt_node_state state)
{
	struct mt_node_config config = mt_rig_link(rig, index)->config;

	config.state = state;
	cr_assert_eq(mt_port_node_set(mt_rig_port(rig), index, &config), 0);
}

static void
set_states(enum mt_node_state state)
{
	for (uint32_t i = 3; i < NODES; i++)
		set_state(i, state);
}

static void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = NODES,
	    .min_replicas = 2,
	    .slot_bytes = NUM_KIB(256),
	    .slot_count = SLOTS });
	rig->gateway_options.repair_after_ns = NUM_S(20);
	mt_rig_up(rig);
	set_states(MT_NODE_DRAINING);
	mt_rig_run(rig, NUM_S(5));
	for (uint32_t i = 0; i < EXTENTS; i++) {
		struct mt_extent *extent = mt_rig_log_open(rig);

		cr_assert_not_null(extent);
		cr_assert_eq(mt_rig_append(rig, extent, i * 200, 4, 7, RIGHT_MARK), 0);
		mt_rig_log_seal(rig, extent);
	}
	set_states(MT_NODE_IN);
	mt_rig_run(rig, NUM_S(2));
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(rebalance, .init = setup, .fini = teardown);

static uint32_t
copies_on(uint32_t index)
{
	const struct mt_shard *shard = mt_rig_shard(rig, 0);
	uint32_t count = 0;

	for (uint32_t i = 0; i < shard->extent_count; i++)
		count += shard->extents[i] != NULL &&
		    mt_extent_replica(shard->extents[i], index + 1) >= 0;
	return count;
}

static bool
is_off(void *arg)
{
	struct mt_rebalance_status status;

	(void)arg;
	mt_rebalance_status(mt_rig_port(rig), &status);
	return !status.is_on;
}

static uint64_t
moved(void)
{
	struct mt_rebalance_status status;

	mt_rebalance_status(mt_rig_port(rig), &status);
	return status.copy_count;
}

static bool
has_moved(void *arg)
{
	return moved() >= *(const uint64_t *)arg;
}

/* Three good copies of each extent, at three nodes. */
static void
expect_whole(void)
{
	const struct mt_shard *shard = mt_rig_shard(rig, 0);

	for (uint32_t i = 0; i < shard->extent_count; i++) {
		const struct mt_extent *extent = shard->extents[i];

		if (extent == NULL || extent->sm.state != MT_EXTENT_SEALED)
			continue;
		cr_assert_eq(extent->replica_count, 3);
		for (uint32_t k = 0; k < 3; k++)
			cr_assert(!extent->replicas[k].is_damaged &&
			    extent->replicas[k].node_id != extent->replicas[(k + 1) % 3].node_id);
	}
	cr_assert_eq(mt_upkeep_lacking_count(shard), 0);
}

Test(rebalance, nothing_moves_before_it_is_asked_for)
{
	mt_rig_run(rig, NUM_S(60));
	cr_assert_eq(mt_gateway_metric(rig->gateway, MT_METRIC_copies_made), 0);
	cr_assert_leq(copies_on(3), 1);
	cr_assert_geq(copies_on(0), EXTENTS);
}

Test(rebalance, ends_with_even_nodes)
{
	uint64_t count;

	mt_rebalance_start(mt_rig_port(rig));
	cr_assert(mt_rig_run_until(rig, is_off, NULL));
	mt_rig_run(rig, NUM_S(10)); /* old copies are deleted */
	count = moved();
	for (uint32_t i = 0; i < NODES; i++) {
		uint32_t copies = copies_on(i), share = EXTENTS * 3 / NODES;

		cr_assert(copies + 5 >= share && copies <= share + 5, "node %u: %u of %u", i + 1,
		    copies, share);
	}
	cr_assert_eq(count, mt_gateway_metric(rig->gateway, MT_METRIC_copies_made));
	cr_assert_leq(count, 3 * EXTENTS - 3 * (EXTENTS * 3 / NODES) + 6, "no more than needed");
	expect_whole();
	mt_rebalance_start(mt_rig_port(rig));
	cr_assert(mt_rig_run_until(rig, is_off, NULL));
	cr_assert_leq(moved(), 2, "what is even stays");
}

static bool
is_stopped(void)
{
	struct mt_rebalance_status status;

	mt_rebalance_status(mt_rig_port(rig), &status);
	return status.is_stopped;
}

Test(rebalance, stops_when_told)
{
	uint64_t count = 3;

	rig->gateway_options.repair_bytes_per_s = 0;
	mt_rebalance_start(mt_rig_port(rig));
	cr_assert(mt_rig_run_until(rig, has_moved, &count));
	mt_rebalance_stop(mt_rig_port(rig));
	cr_assert(is_off(NULL));
	cr_assert(is_stopped());
	mt_rig_run(rig, NUM_S(30));
	cr_assert_leq(moved(), count + 1, "the copy under way");
	expect_whole();
	mt_rebalance_start(mt_rig_port(rig));
	cr_assert_not(is_stopped());
	cr_assert(mt_rig_run_until(rig, is_off, NULL));
	mt_rebalance_stop(mt_rig_port(rig));
	cr_assert_not(is_stopped(), "it was done before");
}

Test(rebalance, waits_for_a_member_that_is_down)
{
	struct mt_rebalance_status status;

	mt_rig_node_kill(rig, 3, false);
	mt_rig_run(rig, NUM_S(1));
	mt_rebalance_start(mt_rig_port(rig));
	mt_rig_run(rig, NUM_S(5));
	mt_rebalance_status(mt_rig_port(rig), &status);
	cr_assert(status.is_on);
	cr_assert_eq(status.wait, MT_REBALANCE_NODE);
	cr_assert_eq(status.wait_node_id, 4);
	cr_assert_eq(status.copy_count, 0);
	mt_rig_node_start(rig, 3);
	cr_assert(mt_rig_run_until(rig, is_off, NULL));
	cr_assert_gt(moved(), 0);
	expect_whole();
}

Test(rebalance, a_drain_is_first)
{
	struct mt_rebalance_status status;

	/* Nobody takes what leaves: each of the others has a copy, or is down for as long. */
	set_state(3, MT_NODE_OUT);
	set_state(4, MT_NODE_OUT);
	set_state(0, MT_NODE_DRAINING);
	mt_rebalance_start(mt_rig_port(rig));
	mt_rig_run(rig, NUM_S(10));
	mt_rebalance_status(mt_rig_port(rig), &status);
	cr_assert(status.is_on);
	cr_assert_eq(status.wait, MT_REBALANCE_DRAINING);
	cr_assert_eq(status.copy_count, 0);
	set_state(0, MT_NODE_IN);
	cr_assert(mt_rig_run_until(rig, is_off, NULL));
	expect_whole();
}

Test(rebalance, a_target_that_dies_costs_no_copy)
{
	uint64_t count = 2;

	mt_rebalance_start(mt_rig_port(rig));
	cr_assert(mt_rig_run_until(rig, has_moved, &count));
	mt_rig_node_kill(rig, 4, true);
	mt_rig_run(rig, NUM_S(5));
	mt_rig_node_start(rig, 4);
	cr_assert(mt_rig_run_until(rig, is_off, NULL));
	mt_rig_run(rig, NUM_S(30));
	expect_whole();
}
