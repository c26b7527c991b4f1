/* SPDX-License-Identifier: Apache-2.0 */
/* test_leaving.c -- a drain says what the copies wait for that are to leave */
#include <criterion/criterion.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/node_link.h"
#include "middletier/gateway/gateway.h"
#include "middletier/port/node_usage.h"
#include "middletier/port/port_nodes.h"
#include "support/mt_rig.h"

static struct mt_rig *rig;
static struct mt_node_usage usage;

static void
up(uint32_t node_count, uint64_t repair_bytes_per_s)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = node_count,
	    .min_replicas = 2,
	    .slot_bytes = NUM_MIB(1),
	    .slot_count = 1024 });
	rig->gateway_options.repair_after_ns = NUM_S(2);
	rig->gateway_options.repair_bytes_per_s = repair_bytes_per_s;
	mt_rig_up(rig);
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(leaving, .fini = teardown);

static void
make_extents(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		(void)mt_rig_log_filled(rig, i);
}

static void
drain(uint32_t index)
{
	struct mt_node_config config = mt_rig_link(rig, index)->config;

	config.state = MT_NODE_DRAINING;
	config.node_id = index + 1; /* as members' have it */
	cr_assert_eq(mt_port_node_set(mt_rig_port(rig), index, &config), 0);
}

/* Copies at the rig's node 0 that wait for @leaving; 0 of a rig that does not say. */
static uint32_t
count_of(enum mt_leaving leaving)
{
	mt_node_usage_take(mt_rig_port(rig), 1, 1, &usage);
	return usage.leaving[leaving].copy_count;
}

static bool
has_some(void *arg)
{
	return count_of(*(const enum mt_leaving *)arg) > 0;
}

static bool
is_empty(void *arg)
{
	(void)arg;
	mt_node_usage_take(mt_rig_port(rig), 1, 1, &usage);
	return usage.extent_count == 0;
}

Test(leaving, nothing_waits_at_a_node_that_is_in)
{
	up(4, 0);
	make_extents(4);
	for (uint32_t i = 0; i < MT_LEAVING_NR; i++)
		cr_assert_eq(count_of((enum mt_leaving)i), 0);
	cr_assert_gt(usage.extent_count, 0);
}

Test(leaving, all_wait_for_room_where_each_node_has_a_copy)
{
	enum mt_leaving wanted = MT_LEAVING_NO_ROOM;

	up(3, 0);
	make_extents(4);
	drain(0);
	cr_assert(mt_rig_run_until(rig, has_some, &wanted));
	cr_assert_eq(count_of(MT_LEAVING_NO_ROOM), 4);
	cr_assert_eq(usage.leaving[MT_LEAVING_NO_ROOM].shard_count, 1);
	cr_assert_eq(usage.leaving[MT_LEAVING_NO_ROOM].shard, 0);
	cr_assert_eq(count_of(MT_LEAVING_BUDGET) + count_of(MT_LEAVING_MOVING), 0);
}

Test(leaving, a_copy_moves_and_the_others_wait_for_their_turn)
{
	enum mt_leaving wanted = MT_LEAVING_MOVING;

	up(4, NUM_KIB(64));
	make_extents(8);
	drain(0);
	cr_assert(mt_rig_run_until(rig, has_some, &wanted));
	cr_assert_eq(count_of(MT_LEAVING_MOVING), 1, "a shard copies one at a time");
	cr_assert_gt(count_of(MT_LEAVING_BUDGET), 0);
	cr_assert_eq(count_of(MT_LEAVING_NO_ROOM), 0);
	cr_assert(mt_rig_run_until(rig, is_empty, NULL));
	for (uint32_t i = 0; i < MT_LEAVING_NR; i++)
		cr_assert_eq(count_of((enum mt_leaving)i), 0);
}

Test(leaving, what_lacks_copies_is_first)
{
	enum mt_leaving wanted = MT_LEAVING_LACKING;

	up(5, NUM_KIB(64));
	make_extents(8);
	drain(0);
	mt_rig_node_kill(rig, 1, true);
	cr_assert(mt_rig_run_until(rig, has_some, &wanted));
	cr_assert(mt_rig_run_until(rig, is_empty, NULL));
}
