/* SPDX-License-Identifier: Apache-2.0 */
/* test_old_disk.c -- an older image of a node's disk is put back: it is said, and what it lacks is made anew */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/event.h"
#include "middletier/common/event.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_copies.h"
#include "middletier/extent/forgetful_node.h"
#include "middletier/extent/node_link.h"
#include "middletier/gateway/gateway.h"
#include "middletier/manifest/manifest.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/upkeep/repair.h"
#include "middletier/upkeep/upkeep.h"
#include "support/mt_rig.h"

#define ALL 7u
#define RIGHT_MARK UINT64_MAX
#define INTERVAL_NS NUM_S(1)
#define OLD 1u /* the index of the node whose disk is put back */

static struct mt_rig *rig;
static uint8_t *image;
static uint64_t image_bytes;

static void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = 3,
	    .min_replicas = 2,
	    .slot_bytes = NUM_KIB(256),
	    .slot_count = 32 });
	rig->gateway_options.sweep_interval_ns = INTERVAL_NS;
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	mt_rig_run(rig, NUM_S(1));
	image_bytes = disk_sim_capacity(rig->nodes[OLD].disk);
	image = malloc(image_bytes);
	cr_assert_not_null(image);
}

static void
teardown(void)
{
	free(image);
	mt_rig_destroy(rig);
}

TestSuite(old_disk, .init = setup, .fini = teardown);

static void
stop_and_copy(void)
{
	mt_rig_node_kill(rig, OLD, false);
	disk_sim_peek(rig->nodes[OLD].disk, 0, image, image_bytes);
	mt_rig_node_start(rig, OLD);
	mt_rig_run(rig, NUM_S(5));
}

static void
put_back(void)
{
	mt_rig_node_kill(rig, OLD, false);
	disk_sim_poke(rig->nodes[OLD].disk, 0, image, image_bytes);
	mt_rig_node_start(rig, OLD);
}

static void
write_extent(uint32_t count)
{
	struct mt_extent *extent = mt_rig_log_open(rig);

	cr_assert_not_null(extent);
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(mt_rig_append(rig, extent, i, 3, ALL, RIGHT_MARK), 0);
	mt_rig_log_seal(rig, extent);
}

static struct mt_link *
old_link(void)
{
	return mt_port_link(mt_rig_port(rig), rig->nodes[OLD].id);
}

static bool
is_forgetful(void)
{
	return mt_forgetful_node_is(old_link(), loop_now_ns(mt_rig_port(rig)->loop));
}

static bool
is_found(void *arg)
{
	(void)arg;
	return is_forgetful() && old_link()->forgetful.count >= 2;
}

static bool
is_whole(void *arg)
{
	(void)arg;
	return mt_upkeep_lacking_count(mt_rig_shard(rig, 0)) == 0;
}

Test(old_disk, is_told_and_made_whole)
{
	write_extent(3);
	stop_and_copy();
	cr_assert_not(is_forgetful());
	write_extent(4);
	write_extent(5);
	mt_rig_run(rig, 5 * INTERVAL_NS);
	cr_assert_not(is_forgetful(), "a node that was restarted has all that it had");
	put_back();
	cr_assert(mt_rig_run_until(rig, is_found, NULL));
	cr_assert(mt_rig_logged(rig, "node 2: it does not have copies that it had"));
	cr_assert(mt_rig_run_until(rig, is_whole, NULL));
	cr_assert(is_forgetful(), "people are told for longer than a repair takes");
	mt_rig_run(rig, MT_FORGETFUL_NS + NUM_S(10));
	cr_assert_not(is_forgetful());
}

static bool
has_damaged(void *arg)
{
	(void)arg;
	return mt_gateway_metric(rig->gateway, MT_METRIC_copies_damaged) > 0;
}

/* The end of an extent that nobody was told of: a node that was away when it was agreed upon never had it. */
Test(old_disk, a_node_that_a_take_over_left_short_has_forgotten_nothing)
{
	struct mt_extent *extent = mt_rig_log_open(rig);
	uint32_t replica;

	cr_assert_not_null(extent);
	replica = (uint32_t)mt_extent_replica(extent, rig->nodes[OLD].id);
	cr_assert_eq(mt_rig_append(rig, extent, 0, 3, ALL, RIGHT_MARK), 0);
	cr_assert_eq(mt_rig_append(rig, extent, 3, 3, ALL & ~(1u << replica), RIGHT_MARK), 0);
	mt_rig_node_kill(rig, OLD, false);
	mt_rig_gateway_restart(rig);
	mt_rig_node_start(rig, OLD);
	cr_assert(mt_rig_run_until(rig, has_damaged, NULL));
	cr_assert(mt_rig_run_until(rig, is_whole, NULL));
	cr_assert_not(is_forgetful());
	cr_assert_not(mt_rig_logged(rig, "it does not have copies that it had"));
}

/* A repair had replaced the copy, and ended before it was named: the manifest knows the one of before. */
Test(old_disk, a_copy_that_a_repair_has_replaced_was_not_forgotten)
{
	struct mt_state_extent *named;
	struct mt_extent *extent;

	write_extent(1); /* the node's first incarnation */
	extent = mt_rig_log_open(rig);
	cr_assert_not_null(extent);
	cr_assert_eq(mt_rig_append(rig, extent, 0, 3, ALL, RIGHT_MARK), 0);
	mt_rig_log_seal(rig, extent);
	named = mt_manifest_state_find(mt_manifest_state(mt_rig_shard(rig, 0)), &extent->id);
	cr_assert_not_null(named);
	for (uint32_t i = 0; i < named->replica_count; i++)
		named->replicas[i].incarnation -= named->replicas[i].node_id == rig->nodes[OLD].id;
	mt_rig_node_kill(rig, OLD, false);
	mt_rig_node_start(rig, OLD);
	cr_assert(mt_rig_run_until(rig, has_damaged, NULL));
	cr_assert(mt_rig_run_until(rig, is_whole, NULL));
	cr_assert_not(is_forgetful());
	cr_assert(mt_rig_logged(rig, "a newer one is in its place"));
}

/* The image was taken in the middle of an extent, which its node has had to its end since. */
Test(old_disk, a_copy_that_was_sealed_and_is_short_was_forgotten)
{
	struct mt_extent *extent = mt_rig_log_open(rig);

	cr_assert_not_null(extent);
	cr_assert_eq(mt_rig_append(rig, extent, 0, 3, ALL, RIGHT_MARK), 0);
	disk_sim_peek(rig->nodes[OLD].disk, 0, image, image_bytes);
	cr_assert_eq(mt_rig_append(rig, extent, 3, 3, ALL, RIGHT_MARK), 0);
	mt_rig_log_seal(rig, extent);
	mt_rig_run(rig, NUM_S(1));
	put_back();
	cr_assert(mt_rig_run_until(rig, has_damaged, NULL));
	cr_assert(is_forgetful());
	cr_assert(mt_rig_logged(rig, "rc=-ERANGE"));
}
