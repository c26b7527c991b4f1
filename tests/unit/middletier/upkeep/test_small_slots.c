/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_small_slots.c -- copies of extents that are longer than the slots of some node: they go to others, or wait
 *
 * What slots hold is built in with a planted bug, slots_ignored, that the simulator cannot show: slots differ nowhere there.
 */
#define CLEAVE_MUTANTS
#include "middletier/extent/capacity.c"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "extent/extent_copies.h"
#include "middletier/common/metric.h"
#include "middletier/common/port.h"
#include "middletier/common/replica.h"
#include "middletier/common/shard.h"
#include "middletier/extent/copy.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/node_link.h"
#include "middletier/gateway/gateway.h"
#include "middletier/port/port_nodes.h"
#include "middletier/upkeep/leaving.h"
#include "middletier/upkeep/rebalance.h"
#include "middletier/upkeep/upkeep.h"
#include "support/mt_rig.h"

#define ALL 7u
#define RIGHT_MARK UINT64_MAX
#define EXTENTS 6u
#define SLOTS 1024u   /* so many that the log is never long */
#define SLOTS_FEW 64u /* of which the extents are more than a rebalance tolerates */
#define REPAIR_AFTER_NS NUM_S(20)

struct mutant_set mutants_on;

static struct mt_rig *rig;
static struct extent_id ids[EXTENTS];
static uint32_t small; /* index of the node of small slots: the last */

/* All nodes but the small one are up; they have extents that are longer than its slots. */
static void
up(uint32_t node_count, uint32_t min_replicas, uint32_t slot_count)
{
	struct mt_rig_options options = { .node_count = node_count,
		.min_replicas = min_replicas,
		.slot_bytes = NUM_MIB(1),
		.slot_count = slot_count };

	small = node_count - 1;
	options.node_slot_bytes[small] = NUM_KIB(64);
	rig = mt_rig_create(&options);
	rig->gateway_options.repair_after_ns = REPAIR_AFTER_NS;
	mt_rig_log_start(rig);
	for (uint32_t i = 0; i < small; i++)
		mt_rig_node_start(rig, i);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	mt_rig_run(rig, NUM_S(1));
	for (uint32_t i = 0; i < EXTENTS; i++) {
		const struct mt_extent *extent = mt_rig_log_filled(rig, i);

		cr_assert_gt(extent->sealed_bytes, NUM_KIB(64));
		ids[i] = extent->id;
	}
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(small_slots, .fini = teardown);

static bool
is_link_up(void *arg)
{
	return mt_link_is_up(mt_rig_link(rig, *(const uint32_t *)arg));
}

static void
start_node(uint32_t index)
{
	mt_rig_node_start(rig, index);
	cr_assert(mt_rig_run_until(rig, is_link_up, &index));
}

static uint32_t
copies_on(uint32_t index)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < EXTENTS; i++)
		count += mt_extent_replica(mt_rig_extent(rig, &ids[i]), index + 1) >= 0;
	return count;
}

static bool
has_left(void *arg)
{
	return copies_on(*(const uint32_t *)arg) == 0 &&
	    mt_upkeep_lacking_count(mt_rig_shard(rig, 0)) == 0;
}

static void
set_state(uint32_t index, enum mt_node_state state)
{
	struct mt_node_config config = mt_rig_link(rig, index)->config;

	config.state = state;
	cr_assert_eq(mt_port_node_set(mt_rig_port(rig), index, &config), 0);
}

static uint64_t
metric(enum mt_metric which)
{
	return mt_gateway_metric(rig->gateway, which);
}

Test(small_slots, a_repair_goes_past_them)
{
	uint32_t lost = 0;

	up(5, 2, SLOTS);
	start_node(small); /* nothing is there: it has the largest free share */
	mt_rig_node_kill(rig, lost, false);
	cr_assert(mt_rig_run_until(rig, has_left, &lost));
	cr_assert_eq(copies_on(small), 0);
	cr_assert_eq(metric(MT_METRIC_copies_failed), 0);
}

Test(small_slots, a_planted_bug_has_repairs_to_them_that_fail)
{
	up(4, 2, SLOTS);
	start_node(small);
	mutant_set_add(&mutants_on, MUTANT_slots_ignored);
	mt_rig_node_kill(rig, 0, false);
	mt_rig_run(rig, 6 * REPAIR_AFTER_NS);
	cr_assert_gt(metric(MT_METRIC_copies_failed), 0);
}

Test(small_slots, a_repair_that_has_none_but_them_waits_and_says_so)
{
	up(4, 2, SLOTS);
	start_node(small);
	mt_rig_node_kill(rig, 0, false);
	mt_rig_run(rig, 6 * REPAIR_AFTER_NS);
	cr_assert_eq(mt_upkeep_lacking_count(mt_rig_shard(rig, 0)), EXTENTS);
	cr_assert(mt_rig_logged(rig, "no node can take a copy"));
	cr_assert_eq(metric(MT_METRIC_copies_failed), 0);
	mt_rig_node_start(rig, 0);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_eq(mt_upkeep_lacking_count(mt_rig_shard(rig, 0)), 0);
	for (uint32_t i = 0; i < EXTENTS; i++) {
		for (uint32_t k = 0; k < 3; k++)
			cr_assert_not(mt_rig_extent(rig, &ids[i])->replicas[k].is_damaged);
	}
}

Test(small_slots, a_drain_goes_past_them)
{
	uint32_t node = 1;

	up(5, 2, SLOTS);
	start_node(small);
	set_state(node, MT_NODE_DRAINING);
	cr_assert(mt_rig_run_until(rig, has_left, &node));
	cr_assert_eq(copies_on(small), 0);
	cr_assert_eq(metric(MT_METRIC_copies_failed), 0);
}

Test(small_slots, a_drain_that_has_none_but_them_waits_and_says_so)
{
	up(4, 2, SLOTS);
	start_node(small);
	set_state(1, MT_NODE_DRAINING);
	mt_rig_run(rig, NUM_S(60));
	cr_assert_eq(copies_on(1), EXTENTS);
	cr_assert(mt_rig_logged(rig, "no other node of another domain"));
	cr_assert_eq(mt_leaving_of(mt_rig_extent(rig, &ids[0])), MT_LEAVING_NO_ROOM);
	cr_assert_eq(metric(MT_METRIC_copies_failed), 0);
}

static bool
is_balanced(void *arg)
{
	struct mt_rebalance_status status;

	(void)arg;
	mt_rebalance_status(mt_rig_port(rig), &status);
	return !status.is_on;
}

Test(small_slots, a_rebalance_goes_past_them)
{
	uint32_t before;

	up(5, 2, SLOTS_FEW);
	start_node(small);
	for (uint32_t i = 0; i < 3; i++)
		mt_rig_link(rig, i)->config.weight = 1; /* they have too much */
	before = copies_on(3);
	mt_rig_run(rig, NUM_S(2));
	mt_rebalance_start(mt_rig_port(rig));
	cr_assert(mt_rig_run_until(rig, is_balanced, NULL));
	cr_assert_eq(copies_on(small), 0);
	cr_assert_gt(copies_on(3), before);
	cr_assert_eq(metric(MT_METRIC_copies_failed), 0);
}

static int copy_rc;

static void
on_copy(struct mt_copy *copy, int rc, uint64_t incarnation, void *arg)
{
	(void)copy;
	(void)incarnation;
	(void)arg;
	copy_rc = rc;
}

static bool
has_copy_ended(void *arg)
{
	(void)arg;
	return copy_rc != 1;
}

/* As where a disk was replaced by one of smaller slots, and its status is not known yet. */
Test(small_slots, a_copy_that_does_not_fit_says_no_room_and_blames_no_source)
{
	struct mt_copy_options options = { .fn = on_copy };
	struct mt_extent *extent;

	up(4, 2, SLOTS);
	start_node(small);
	extent = mt_rig_extent(rig, &ids[0]);
	options.shard = mt_rig_shard(rig, 0);
	options.id = extent->id;
	options.kind = extent->kind;
	options.length_bytes = extent->sealed_bytes;
	options.source_count = extent->replica_count;
	options.target_node_id = small + 1;
	memcpy(options.sources, extent->replicas, sizeof(options.sources));
	copy_rc = 1;
	cr_assert_not_null(mt_copy_start(&options));
	cr_assert(mt_rig_run_until(rig, has_copy_ended, NULL));
	cr_assert_eq(copy_rc, -ENOSPC);
}

/* Two have the end of the log, three should, and the only further node cannot hold it. */
Test(small_slots, a_take_over_tries_no_copy_to_them)
{
	struct mt_extent *extent;
	uint32_t nodes[3];

	up(4, 3, SLOTS);
	extent = mt_rig_log_open(rig);
	cr_assert_not_null(extent);
	for (uint32_t i = 0; i < 3; i++)
		nodes[i] = mt_rig_index(&extent->replicas[i]);
	cr_assert_eq(mt_rig_append(rig, extent, 3000, 30, ALL, RIGHT_MARK), 0);
	cr_assert_eq(mt_rig_append(rig, extent, 3040, 30, 1, RIGHT_MARK), 0);
	mt_rig_gateway_kill(rig);
	mt_rig_node_kill(rig, nodes[2], false);
	mt_rig_node_start(rig, small);
	mt_rig_gateway_start(rig);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_eq(mt_rig_shard(rig, 0)->sm.state, MT_SHARD_AGREEING);
	cr_assert_not(mt_rig_logged(rig, "cannot be copied"));
	mt_rig_node_start(rig, nodes[2]);
	cr_assert(mt_rig_wait_ready(rig));
}
