/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_failing_node.c -- a node whose disk fails writes, and no flush, is left out; and comes back when it does not
 *
 * The judgement is built in with a planted bug, failing_ignored, that the simulator cannot show: no disk there fails so.
 */
#define CLEAVE_MUTANTS
#include "middletier/extent/failing_node.c"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/loop.h"
#include "extent/extent_copies.h"
#include "middletier/common/metric.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/failing_node.h"
#include "middletier/extent/node_link.h"
#include "middletier/extent/placement.h"
#include "middletier/gateway/gateway.h"
#include "middletier/manifest/manifest.h"
#include "middletier/upkeep/upkeep.h"
#include "support/mt_rig.h"

#define RIGHT_MARK UINT64_MAX
#define FAILING 1u /* index of the node */

struct mutant_set mutants_on;

static struct mt_rig *rig;

static void
up(uint32_t node_count)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = node_count,
	    .min_replicas = 2,
	    .slot_bytes = NUM_MIB(1),
	    .slot_count = 256 });
	rig->gateway_options.repair_after_ns = NUM_S(20);
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	mt_rig_run(rig, NUM_S(1));
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(failing_node, .fini = teardown);

/* The next @count writes of a node's disk fail; 0: all do. Flushes do not. */
static void
fail_writes(uint32_t index, uint32_t count)
{
	cr_assert_eq(disk_sim_add_rule(rig->nodes[index].disk,
			 &(struct disk_sim_rule){ .ops = DISK_FAULT_OP(DISK_WRITE),
			     .rc = -EIO,
			     .count = count }),
	    0);
}

/* A log extent is made, after a few tries, which the log's owner makes as well. */
static struct mt_extent *
make_one(void)
{
	struct mt_extent *extent = NULL;

	for (uint32_t i = 0; i < 8 && (extent = mt_rig_log_open(rig)) == NULL; i++)
		mt_rig_run(rig, NUM_MS(10));
	cr_assert_not_null(extent, "no extent can be made");
	return extent;
}

static bool
is_on(const struct mt_extent *extent, uint32_t index)
{
	return mt_extent_replica(extent, index + 1) >= 0;
}

/* Does health say of it that it fails writes? */
static bool
is_told(void)
{
	struct mt_port *port = mt_rig_shard(rig, 0)->port;

	return mt_failing_node_is(mt_port_link(port, FAILING + 1), loop_now_ns(port->loop));
}

/* Is it known that new data goes elsewhere? */
static bool
is_left_out(void)
{
	struct mt_port *port = mt_rig_shard(rig, 0)->port;

	return mt_failing_node_is_left_out(mt_port_link(port, FAILING + 1),
	    loop_now_ns(port->loop));
}

static uint32_t
mask_of(const struct mt_extent *extent)
{
	return (1u << extent->replica_count) - 1;
}

Test(failing_node, of_three_is_left_out)
{
	struct mt_extent *extent;

	up(3);
	fail_writes(FAILING, 0);
	for (uint32_t i = 0; i < 3; i++) {
		extent = make_one();
		cr_assert_eq(extent->replica_count, 2);
		cr_assert_not(is_on(extent, FAILING));
		cr_assert_eq(mt_rig_append(rig, extent, i * 100, 4, 3, RIGHT_MARK), 0);
		mt_rig_log_seal(rig, extent);
	}
	cr_assert(mt_rig_logged(rig, "node 2: its disk fails writes"));
	cr_assert_eq(mt_rig_shard(rig, 0)->sm.state, MT_SHARD_SERVING);
}

Test(failing_node, a_planted_bug_picks_it_again_and_again)
{
	up(3);
	mutant_set_add(&mutants_on, MUTANT_failing_ignored);
	fail_writes(FAILING, 0);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_null(mt_rig_log_open(rig));
}

/* A fence cannot be raised there either. */
Test(failing_node, does_not_hold_up_a_take_over)
{
	struct mt_extent *extent;

	up(3);
	extent = make_one();
	cr_assert_eq(extent->replica_count, 3);
	cr_assert_eq(mt_rig_append(rig, extent, 0, 4, 7, RIGHT_MARK), 0);
	fail_writes(FAILING, 0);
	mt_rig_gateway_restart(rig);
	extent = make_one();
	cr_assert_eq(extent->replica_count, 2);
	cr_assert_not(is_on(extent, FAILING));
}

static bool
is_whole(void *arg)
{
	const struct mt_extent *extent = arg;

	return extent->replica_count == 3 && mt_upkeep_lacking_count(mt_rig_shard(rig, 0)) == 0;
}

Test(failing_node, that_has_room_again_is_taken_again)
{
	struct mt_extent *extent;

	up(3);
	fail_writes(FAILING, 0);
	extent = make_one();
	cr_assert_eq(mt_rig_append(rig, extent, 0, 4, mask_of(extent), RIGHT_MARK), 0);
	mt_rig_log_seal(rig, extent);
	mt_rig_run(rig, NUM_S(100)); /* tried, and failed again, now and then */
	cr_assert_eq(extent->replica_count, 2);
	for (uint32_t i = 0; i < extent->replica_count; i++)
		cr_assert_not(extent->replicas[i].is_damaged);
	disk_sim_clear_rules(rig->nodes[FAILING].disk);
	cr_assert(mt_rig_run_until(rig, is_whole, extent));
	cr_assert(is_on(extent, FAILING));
	cr_assert(is_told());
	mt_rig_run(rig, MT_PENALTY_MAX_NS);
	cr_assert_not(is_told(), "health says it although no extent begins");
	extent = make_one();
	cr_assert(mt_rig_logged(rig, "node 2: its disk takes writes again"));
	cr_assert_eq(extent->replica_count, 3);
}

Test(failing_node, of_more_than_three_costs_no_copy)
{
	struct mt_extent *extent;

	up(4);
	fail_writes(FAILING, 0);
	for (uint32_t i = 0; i < 8; i++) {
		extent = make_one();
		cr_assert_eq(extent->replica_count, 3);
		cr_assert_not(is_on(extent, FAILING));
	}
}

Test(failing_node, with_a_bad_place_is_no_failing_node)
{
	struct mt_extent *extent;

	up(3);
	fail_writes(FAILING, 1);
	extent = make_one();
	cr_assert_eq(extent->replica_count, 3);
	cr_assert_not(mt_rig_logged(rig, "its disk fails writes"));
}

/* Headers are written, and what an extent holds is not: its first batch fails, in each one. */
Test(failing_node, whose_slots_alone_fail_is_left_out)
{
	struct mt_extent *extent;
	bool has_two = false;

	up(3);
	for (uint32_t i = 0; i < 8 && !has_two; i++) {
		extent = make_one();
		has_two = extent->replica_count == 2 && !is_on(extent, FAILING);
		if (has_two)
			break;
		fail_writes(FAILING, 1);
		cr_assert_neq(mt_rig_append(rig, extent, 0, 4, mask_of(extent), RIGHT_MARK), 0);
	}
	cr_assert(has_two);
}

/* A copy that the disk of its target fails says nothing of its sources. */
Test(failing_node, target_of_a_copy_blames_no_source)
{
	struct mt_extent *extent;
	uint32_t lost, other = 0;

	up(4);
	extent = make_one();
	cr_assert_eq(mt_rig_append(rig, extent, 0, 30, mask_of(extent), RIGHT_MARK), 0);
	mt_rig_log_seal(rig, extent);
	while (is_on(extent, other))
		other++;
	lost = mt_rig_index(&extent->replicas[0]);
	fail_writes(other, 0);
	mt_rig_node_kill(rig, lost, false);
	mt_rig_run(rig, NUM_S(60));
	cr_assert_gt(mt_gateway_metric(rig->gateway, MT_METRIC_copies_failed), 0);
	disk_sim_clear_rules(rig->nodes[other].disk);
	/* Long before the 300 s after which one that no source had would be tried again. */
	cr_assert(mt_rig_run_until(rig, is_whole, extent));
	cr_assert(is_on(extent, other));
}

/* A thin pool that is full fails writes to blocks that it has not, and takes those to blocks that it has. */
Test(failing_node, that_fails_now_and_then_stays_away_for_longer)
{
	struct mt_extent *extent;

	up(3);
	fail_writes(FAILING, 2);
	extent = make_one();
	cr_assert_eq(extent->replica_count, 2);
	cr_assert(is_left_out() && is_told());
	mt_rig_run(rig, MT_PENALTY_MIN_NS);
	extent = make_one();
	cr_assert_eq(extent->replica_count, 3);
	cr_assert(!is_left_out() && is_told(), "on trial it gets new data");
	cr_assert_eq(mt_rig_append(rig, extent, 0, 4, 7, RIGHT_MARK), 0);
	/* On trial one that fails is enough: the node is out for twice as long. */
	fail_writes(FAILING, 1);
	extent = make_one();
	cr_assert_eq(extent->replica_count, 2);
	mt_rig_run(rig, MT_PENALTY_MIN_NS + NUM_MS(500));
	cr_assert_eq(make_one()->replica_count, 2);
	mt_rig_run(rig, MT_PENALTY_MIN_NS);
	extent = make_one();
	cr_assert_eq(extent->replica_count, 3);
	cr_assert_eq(mt_rig_append(rig, extent, 100, 4, 7, RIGHT_MARK), 0);
	cr_assert_not(mt_rig_logged(rig, "its disk takes writes again"),
	    "people are told too soon");
	mt_rig_run(rig, MT_PENALTY_MAX_NS);
	cr_assert_eq(make_one()->replica_count, 3);
	cr_assert(mt_rig_logged(rig, "node 2: its disk takes writes again"));
	/* From the beginning: one may be a bad place. */
	fail_writes(FAILING, 1);
	cr_assert_eq(make_one()->replica_count, 3);
}
