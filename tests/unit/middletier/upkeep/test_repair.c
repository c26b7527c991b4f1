/* SPDX-License-Identifier: Apache-2.0 */
/* test_repair.c -- copies that are lost, damaged or missing are made again, whatever fails meanwhile */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/wire.h"
#include "extent/extent_copies.h"
#include "middletier/common/alloc.h"
#include "middletier/common/metric.h"
#include "middletier/common/port.h"
#include "middletier/common/replica.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/extent/node_link.h"
#include "middletier/gateway/gateway.h"
#include "middletier/manifest/manifest.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/port/port_nodes.h"
#include "middletier/upkeep/scrub.h"
#include "middletier/upkeep/upkeep.h"
#include "splitlib/sim/loop_sim.h"
#include "support/mt_rig.h"

#define RIGHT_MARK UINT64_MAX
#define REPAIR_AFTER_NS NUM_S(20) /* links come back within 5 s */
#define EXTENTS_MAX 8u

static struct mt_rig *rig;
static struct extent_id ids[EXTENTS_MAX];
static uint32_t id_count;

static void
up(uint32_t node_count, uint32_t min_replicas, uint32_t start_count)
{
	/* Slots enough that the log is never long: what is watched here is not to be flushed. */
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = node_count,
	    .min_replicas = min_replicas,
	    .slot_bytes = NUM_MIB(1),
	    .slot_count = 1024 });
	rig->gateway_options.repair_after_ns = REPAIR_AFTER_NS;
	mt_rig_log_start(rig);
	id_count = 0;
	for (uint32_t i = 0; i < start_count; i++)
		mt_rig_node_start(rig, i);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	mt_rig_run(rig, NUM_S(1));
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(repair, .fini = teardown);

static void
make_extents(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ids[id_count++] = mt_rig_log_filled(rig, i)->id;
}

static uint64_t
metric(enum mt_metric which)
{
	return mt_gateway_metric(rig->gateway, which);
}

/* Every extent has three good replicas at three nodes that are up; their bytes are the same. */
static bool
is_whole(const struct extent_id *id)
{
	const struct mt_extent *extent = mt_rig_extent(rig, id);

	for (uint32_t i = 0; i < extent->replica_count; i++) {
		const struct mt_link *link =
		    mt_port_link(mt_rig_port(rig), extent->replicas[i].node_id);

		if (extent->replicas[i].is_damaged || link == NULL || !mt_link_is_up(link))
			return false;
	}
	return extent->replica_count == MT_REPLICAS_MAX;
}

static bool
all_whole(void *arg)
{
	const struct mt_shard *shard = mt_rig_shard(rig, 0);

	(void)arg;
	if (shard->sm.state != MT_SHARD_SERVING)
		return false;
	for (uint32_t i = 0; i < id_count; i++) {
		if (!is_whole(&ids[i]))
			return false;
	}
	return mt_upkeep_lacking_count(shard) == 0 && mt_manifest_is_settled(shard);
}

static void
expect_same_bytes(const struct extent_id *id)
{
	const struct mt_extent *extent = mt_rig_extent(rig, id);
	uint8_t *bytes[2] = { malloc(MT_RECEIVE_BYTES), malloc(MT_RECEIVE_BYTES) };

	for (uint64_t at = 0; at < extent->sealed_bytes; at += MT_RECEIVE_BYTES) {
		uint32_t count = (uint32_t)num_min(extent->sealed_bytes - at, MT_RECEIVE_BYTES);

		for (uint32_t i = 0; i < extent->replica_count; i++) {
			uint32_t node = mt_rig_index(&extent->replicas[i]);

			cr_assert_eq(mt_rig_read(rig, node, id, at, bytes[i > 0], count), 0,
			    "node %u", node + 1);
			cr_assert(i == 0 || memcmp(bytes[0], bytes[1], count) == 0);
		}
	}
	free(bytes[0]);
	free(bytes[1]);
}

/* Whole, also for the manifest, and for whoever takes the shard over. */
static void
wait_whole(void)
{
	for (uint32_t life = 0; life < 2; life++) {
		cr_assert(mt_rig_run_until(rig, all_whole, NULL), "life %u", life);
		for (uint32_t i = 0; i < id_count; i++) {
			const struct mt_extent *extent = mt_rig_extent(rig, &ids[i]);
			const struct mt_state_extent *at =
			    mt_manifest_state_find(mt_manifest_state(mt_rig_shard(rig, 0)),
				&ids[i]);

			cr_assert_eq(at->replica_count, extent->replica_count);
			for (uint32_t k = 0; k < at->replica_count; k++) {
				cr_assert_eq(at->replicas[k].node_id, extent->replicas[k].node_id);
				cr_assert_eq(at->replicas[k].incarnation,
				    extent->replicas[k].incarnation);
			}
			expect_same_bytes(&ids[i]);
		}
		if (life == 0)
			mt_rig_gateway_restart(rig);
	}
}

/* How many copies of our extents node @index holds that no replica list names. */
static uint32_t
orphan_count(uint32_t index)
{
	uint32_t count = 0;
	uint8_t page[4096];

	for (uint32_t i = 0; i < id_count; i++) {
		bool is_named = mt_extent_replica(mt_rig_extent(rig, &ids[i]), index + 1) >= 0;
		int rc = mt_rig_read(rig, index, &ids[i], 0, page, sizeof(page));

		cr_assert(rc == 0 || !is_named);
		count += rc == 0 && !is_named;
	}
	return count;
}

static bool
is_swept(void *arg)
{
	return metric(MT_METRIC_orphans_deleted) >= *(uint32_t *)arg;
}

static uint32_t
copies_on(uint32_t index)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < id_count; i++)
		count += mt_extent_replica(mt_rig_extent(rig, &ids[i]), index + 1) >= 0;
	return count;
}

static bool
are_damaged(void *arg)
{
	return metric(MT_METRIC_copies_damaged) >= *(uint64_t *)arg;
}

static bool
all_left(void *arg)
{
	return copies_on(*(uint32_t *)arg) == 0;
}

/* ---- nodes that are away ---- */

Test(repair, node_away_for_long_is_replaced)
{
	uint32_t lost_count;

	up(4, 2, 4);
	make_extents(6);
	lost_count = copies_on(0);
	cr_assert_gt(lost_count, 0);
	mt_rig_node_kill(rig, 0, false);
	mt_rig_run(rig, REPAIR_AFTER_NS - NUM_S(1));
	cr_assert_eq(metric(MT_METRIC_copies_made), 0, "too early");
	wait_whole();
	cr_assert_eq(copies_on(0), 0);
	/* When it is back, what it has is nobody's. */
	mt_rig_node_start(rig, 0);
	cr_assert(mt_rig_run_until(rig, is_swept, &lost_count));
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(orphan_count(0), 0);
	wait_whole();
}

Test(repair, node_that_is_back_soon_costs_nothing)
{
	up(4, 2, 4);
	make_extents(3);
	mt_rig_node_kill(rig, 0, false);
	mt_rig_run(rig, REPAIR_AFTER_NS / 2);
	mt_rig_node_start(rig, 0);
	mt_rig_run(rig, 4 * REPAIR_AFTER_NS);
	cr_assert_eq(metric(MT_METRIC_copies_made), 0);
	wait_whole();
}

Test(repair, node_not_seen_since_the_beginning_counts_as_away)
{
	up(4, 2, 4);
	make_extents(3);
	mt_rig_node_kill(rig, 1, false);
	mt_rig_gateway_restart(rig);
	wait_whole();
	cr_assert_eq(copies_on(1), 0);
}

Test(repair, lost_power_is_no_loss)
{
	up(3, 3, 3);
	make_extents(3);
	mt_rig_node_kill(rig, 1, true);
	mt_rig_run(rig, NUM_S(2));
	mt_rig_node_start(rig, 1);
	wait_whole();
	cr_assert_eq(metric(MT_METRIC_copies_damaged), 0);
}

Test(repair, blank_disk_is_filled_again)
{
	up(3, 2, 3);
	make_extents(4);
	mt_rig_node_kill(rig, 1, false);
	mt_rig_node_blank(rig, 1);
	mt_rig_run(rig, NUM_S(1));
	mt_rig_node_start(rig, 1);
	cr_assert(mt_rig_run_until(rig, are_damaged, &(uint64_t){ 4 }));
	wait_whole();
	cr_assert_eq(copies_on(1), 4);
}

Test(repair, without_a_node_to_go_to_it_waits)
{
	up(3, 2, 3);
	make_extents(2);
	mt_rig_node_kill(rig, 1, false);
	mt_rig_run(rig, 6 * REPAIR_AFTER_NS);
	cr_assert_eq(mt_upkeep_lacking_count(mt_rig_shard(rig, 0)), 2);
	cr_assert(mt_rig_logged(rig, "no node can take a copy"));
	mt_rig_log_clear(rig);
	mt_rig_run(rig, 6 * REPAIR_AFTER_NS);
	cr_assert_not(mt_rig_logged(rig, "no node can take a copy"), "said again and again");
	mt_rig_node_start(rig, 1);
	wait_whole();
	cr_assert_eq(metric(MT_METRIC_copies_made), 0);
}

Test(repair, node_that_is_waited_for_makes_nothing_whole)
{
	up(3, 2, 3);
	make_extents(2);
	mt_rig_node_kill(rig, 1, false);
	mt_rig_run(rig, REPAIR_AFTER_NS + NUM_S(5));
	cr_assert(mt_rig_logged(rig, "no node can take a copy"));
	mt_rig_log_clear(rig);
	mt_rig_link(rig, 1)->config.maintenance_until_ns = UINT64_MAX;
	mt_rig_run(rig, NUM_S(60));
	cr_assert_not(mt_rig_logged(rig, "every extent has its copies"));
	cr_assert_not(mt_rig_logged(rig, "no node can take a copy"), "it was said");
	mt_rig_node_start(rig, 1);
	mt_rig_run(rig, NUM_S(10));
	cr_assert(mt_rig_logged(rig, "every extent has its copies"));
}

Test(repair, disk_that_takes_no_more_writes_is_left)
{
	struct mt_extent *extent;
	uint32_t node;

	up(4, 2, 4);
	make_extents(3);
	extent = mt_rig_log_open(rig);
	node = mt_rig_index(&extent->replicas[0]);
	cr_assert_eq(disk_sim_add_rule(rig->nodes[node].disk,
			 &(struct disk_sim_rule){ .ops = DISK_FAULT_OP(DISK_FLUSH),
			     .rc = -EIO,
			     .count = 1 }),
	    0);
	cr_assert_neq(mt_rig_append(rig, extent, 5000, 3, 7, RIGHT_MARK), 0);
	cr_assert(mt_rig_run_until(rig, all_left, &node));
	mt_rig_run(rig, NUM_S(1));
	wait_whole();
}

/* ---- nodes that drain ---- */

static void
set_state(uint32_t index, enum mt_node_state state)
{
	struct mt_node_config config = mt_rig_link(rig, index)->config;

	config.state = state;
	cr_assert_eq(mt_port_node_set(mt_rig_port(rig), index, &config), 0);
}

/* Nothing of the shard, sealed or open, and no part of its manifest, has a copy at the node. */
static bool
is_empty(void *arg)
{
	uint32_t node_id = *(uint32_t *)arg + 1;
	const struct mt_shard *shard = mt_rig_shard(rig, 0);
	const struct mt_extent *manifest = mt_manifest_extent(shard);

	for (uint32_t i = 0; i < shard->extent_count; i++) {
		if (shard->extents[i] != NULL && mt_extent_replica(shard->extents[i], node_id) >= 0)
			return false;
	}
	return manifest != NULL && mt_extent_replica(manifest, node_id) < 0 &&
	    mt_upkeep_leaving_count(shard) == 0;
}

static bool
has_free_slots(void *arg)
{
	const struct mt_link *link = mt_rig_link(rig, *(uint32_t *)arg);

	mt_link_refresh(mt_rig_link(rig, *(uint32_t *)arg));
	return link->slots_free == link->slots_total;
}

Test(repair, node_that_drains_is_left_by_all)
{
	uint32_t node = 0, count;

	up(4, 2, 4);
	make_extents(6);
	count = copies_on(node);
	cr_assert_gt(count, 0);
	set_state(node, MT_NODE_DRAINING);
	mt_rig_run(rig, NUM_MS(1));
	cr_assert_geq(mt_upkeep_leaving_count(mt_rig_shard(rig, 0)), count);
	cr_assert_eq(mt_upkeep_lacking_count(mt_rig_shard(rig, 0)), 0, "its copies are good");
	cr_assert(mt_rig_run_until(rig, is_empty, &node));
	cr_assert_geq(metric(MT_METRIC_copies_made), count);
	cr_assert(mt_rig_run_until(rig, has_free_slots, &node), "the node has deleted them");
	make_extents(2);
	cr_assert_eq(copies_on(node), 0, "and nothing new comes");
	wait_whole();
}

Test(repair, node_that_drains_no_more_keeps_what_it_has)
{
	uint32_t node = 0, count;

	up(3, 2, 3);
	make_extents(3);
	count = copies_on(node);
	set_state(node, MT_NODE_DRAINING);
	mt_rig_run(rig, NUM_S(30));
	cr_assert(mt_rig_logged(rig, "no other node of another domain"));
	cr_assert_eq(copies_on(node), count, "there is nowhere to go");
	cr_assert_eq(mt_upkeep_lacking_count(mt_rig_shard(rig, 0)), 0);
	set_state(node, MT_NODE_IN);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_eq(metric(MT_METRIC_copies_made), 0);
	cr_assert_eq(mt_upkeep_leaving_count(mt_rig_shard(rig, 0)), 0);
}

/* Extents that lack copies are first, and a copy that leaves is a source like any other. */
Test(repair, node_that_drains_waits_for_what_lacks)
{
	uint32_t node = 0;

	up(5, 2, 5);
	make_extents(6);
	set_state(node, MT_NODE_DRAINING);
	mt_rig_node_kill(rig, 1, true);
	cr_assert(mt_rig_run_until(rig, is_empty, &node));
	wait_whole();
	for (uint32_t i = 0; i < id_count; i++)
		expect_same_bytes(&ids[i]);
}

Test(repair, node_that_drains_and_dies_is_replaced)
{
	uint32_t node = 0;

	up(4, 2, 4);
	rig->gateway_options.repair_after_ns = REPAIR_AFTER_NS;
	make_extents(6);
	set_state(node, MT_NODE_DRAINING);
	mt_rig_node_kill(rig, node, false);
	cr_assert(mt_rig_run_until(rig, is_empty, &node));
	wait_whole();
}

/* Three of its port's four shards have nothing to move: they take no part of the budget. */
Test(repair, node_that_drains_is_left_at_the_whole_budget)
{
	uint64_t start_ns, made_bytes;
	uint32_t node = 0;

	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = 4,
	    .shard_count = 4,
	    .min_replicas = 2,
	    .slot_bytes = NUM_MIB(1),
	    .slot_count = 1024 });
	rig->gateway_options.repair_bytes_per_s = NUM_KIB(256);
	mt_rig_up(rig);
	id_count = 0;
	make_extents(8);
	set_state(node, MT_NODE_DRAINING);
	start_ns = sim_world_now_ns(rig->world);
	cr_assert(mt_rig_run_until(rig, is_empty, &node));
	made_bytes = metric(MT_METRIC_copied_bytes);
	cr_assert_gt(made_bytes, NUM_MIB(1), "it would tell nothing");
	/* The first window is for free; then no more than the budget, and not much less. */
	cr_assert_geq((sim_world_now_ns(rig->world) - start_ns) / NUM_MS(1),
	    (made_bytes - NUM_KIB(256)) * 1000 / NUM_KIB(256));
	cr_assert_leq((sim_world_now_ns(rig->world) - start_ns) / NUM_MS(1),
	    made_bytes * 1500 / NUM_KIB(256));
}

/* ---- too few from the beginning ---- */

Test(repair, extents_made_with_two_get_a_third)
{
	up(3, 2, 2);
	make_extents(3);
	cr_assert_eq(mt_rig_extent(rig, &ids[0])->replica_count, 2);
	mt_rig_node_start(rig, 2);
	wait_whole();
	mt_rig_run(rig, NUM_S(30));
	cr_assert_eq(mt_rig_shard(rig, 0)->root->manifest_replica_count, 3,
	    "the manifest has two copies still");
}

Test(repair, manifest_gets_a_new_extent_when_a_replica_is_lost)
{
	struct extent_id before;

	up(4, 2, 4);
	before = mt_rig_shard(rig, 0)->root->manifest;
	mt_rig_node_kill(rig, mt_rig_index(&mt_rig_shard(rig, 0)->root->manifest_replicas[0]),
	    false);
	mt_rig_run(rig, NUM_S(20));
	cr_assert_neq(extent_id_pack(&mt_rig_shard(rig, 0)->root->manifest),
	    extent_id_pack(&before));
	cr_assert_eq(mt_rig_shard(rig, 0)->root->manifest_replica_count, 3);
	mt_rig_gateway_restart(rig);
}

/* ---- damage ---- */

static void
rot(const struct extent_id *id, uint32_t replica)
{
	uint32_t node = mt_rig_index(&mt_rig_extent(rig, id)->replicas[replica]);

	disk_sim_rot(rig->nodes[node].disk,
	    (uint64_t)mt_rig_data_offset(rig, node, id,
		mt_rig_extent(rig, id)->sealed_bytes / 4 * (replica + 1)),
	    5);
}

static bool
has_scrubbed(void *arg)
{
	return metric(MT_METRIC_scrubs_done) >= *(uint64_t *)arg;
}

static void
scrub(void)
{
	uint64_t count = metric(MT_METRIC_scrubs_done) + 1;

	mt_scrub_now(mt_rig_shard(rig, 0));
	cr_assert(mt_rig_run_until(rig, has_scrubbed, &count));
}

Test(repair, scrub_finds_every_flip_in_one_pass)
{
	up(4, 2, 4);
	make_extents(6);
	for (uint32_t i = 0; i < id_count; i++) {
		rot(&ids[i], i % 3);
		if (i % 2 == 0)
			rot(&ids[i], (i + 1) % 3);
	}
	scrub();
	cr_assert_eq(metric(MT_METRIC_copies_damaged), 9);
	wait_whole();
	scrub();
	cr_assert_eq(metric(MT_METRIC_copies_damaged), 0, "in the gateway's second life");
	cr_assert_geq(metric(MT_METRIC_copies_verified), 18);
}

/* Up to what is acknowledged; then it is sealed without the bad copy, which is made anew. */
Test(repair, scrub_finds_a_flip_in_an_open_extent)
{
	struct mt_extent *extent;
	uint32_t node;

	up(4, 2, 4);
	extent = mt_rig_log_open(rig);
	cr_assert_not_null(extent);
	ids[id_count++] = extent->id;
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(mt_rig_append(rig, extent, i * 40, 30,
				 (1u << extent->replica_count) - 1, RIGHT_MARK),
		    0);
	scrub();
	cr_assert_eq(metric(MT_METRIC_copies_damaged), 0);
	node = mt_rig_index(&extent->replicas[1]);
	disk_sim_rot(rig->nodes[node].disk,
	    (uint64_t)mt_rig_data_offset(rig, node, &extent->id, extent->acked_bytes / 2), 5);
	scrub();
	cr_assert_eq(metric(MT_METRIC_copies_damaged), 1);
	cr_assert(extent->replicas[1].is_damaged);
	cr_assert_eq(mt_upkeep_open_lacking_count(mt_rig_shard(rig, 0)), 1);
	mt_rig_log_seal(rig, extent);
	wait_whole();
	scrub();
	cr_assert_eq(metric(MT_METRIC_copies_damaged), 0, "in the gateway's second life");
}

Test(repair, damaged_copy_is_replaced_in_place_where_no_other_node_is)
{
	up(3, 2, 3);
	make_extents(3);
	for (uint32_t i = 0; i < id_count; i++)
		rot(&ids[i], i);
	scrub();
	cr_assert_eq(metric(MT_METRIC_copies_damaged), 3);
	wait_whole();
}

/* Written while a node was away: of the two copies the damaged one is made anew, though a third has no place. */
Test(repair, damaged_copy_of_two_is_replaced_in_place)
{
	up(2, 2, 2);
	make_extents(1);
	rot(&ids[0], 0);
	scrub();
	cr_assert_eq(metric(MT_METRIC_copies_damaged), 1);
	cr_assert_eq(mt_rig_extent(rig, &ids[0])->replica_count, 2);
	mt_rig_run(rig, NUM_S(30));
	for (uint32_t i = 0; i < 2; i++)
		cr_assert(!mt_rig_extent(rig, &ids[0])->replicas[i].is_damaged);
}

Test(repair, damaged_manifest_is_begun_anew)
{
	struct extent_id before;
	uint32_t node;

	up(4, 2, 4);
	before = mt_rig_shard(rig, 0)->root->manifest;
	node = mt_rig_index(&mt_rig_shard(rig, 0)->root->manifest_replicas[1]);
	disk_sim_rot(rig->nodes[node].disk, (uint64_t)mt_rig_data_offset(rig, node, &before, 140),
	    5);
	scrub();
	cr_assert_eq(metric(MT_METRIC_copies_damaged), 1);
	mt_rig_run(rig, NUM_S(10));
	cr_assert_neq(extent_id_pack(&mt_rig_shard(rig, 0)->root->manifest),
	    extent_id_pack(&before));
	scrub();
	cr_assert_eq(metric(MT_METRIC_copies_damaged), 1);
	mt_rig_gateway_restart(rig);
}

Test(repair, suspect_copy_is_verified_and_may_be_innocent)
{
	up(4, 2, 4);
	make_extents(2);
	mt_extent_suspect(mt_rig_extent(rig, &ids[0]),
	    mt_rig_extent(rig, &ids[0])->replicas[1].node_id);
	rot(&ids[1], 2);
	mt_extent_suspect(mt_rig_extent(rig, &ids[1]),
	    mt_rig_extent(rig, &ids[1])->replicas[2].node_id);
	mt_extent_suspect(mt_rig_extent(rig, &ids[1]), 99);
	mt_rig_run(rig, NUM_S(10));
	cr_assert_eq(metric(MT_METRIC_copies_damaged), 1);
	wait_whole();
}

Test(repair, pass_goes_by_itself_within_its_interval)
{
	up(3, 3, 3);
	mt_rig_gateway_kill(rig);
	rig->gateway_options.scrub_interval_ns = NUM_S(1000);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	make_extents(2);
	mt_rig_run(rig, NUM_S(400));
	cr_assert_gt(metric(MT_METRIC_copies_verified), 0);
	cr_assert_lt(metric(MT_METRIC_copies_verified), 6);
	cr_assert_geq(mt_upkeep_scrub_age_ns(mt_rig_shard(rig, 0)), NUM_S(400));
	mt_rig_run(rig, NUM_S(1700));
	cr_assert_lt(mt_upkeep_scrub_age_ns(mt_rig_shard(rig, 0)), NUM_S(1100), "a pass has ended");
	cr_assert_geq(metric(MT_METRIC_scrubs_done), 1);
	cr_assert_leq(metric(MT_METRIC_scrubs_done), 3);
}

Test(repair, flags_outlive_the_gateway)
{
	up(3, 2, 3);
	make_extents(1);
	/* Two of three are bad, each in a place of its own, and the third is away. */
	rot(&ids[0], 0);
	rot(&ids[0], 1);
	scrub();
	mt_rig_node_kill(rig, mt_rig_index(&mt_rig_extent(rig, &ids[0])->replicas[2]), false);
	mt_rig_run(rig, NUM_S(3));
	mt_rig_gateway_restart(rig);
	cr_assert(mt_rig_extent(rig, &ids[0])->replicas[0].is_damaged ||
	    mt_rig_extent(rig, &ids[0])->replicas[1].is_damaged);
}

/* ---- what fails meanwhile ---- */

static bool
is_copying(void *arg)
{
	(void)arg;
	return mt_rig_shard(rig, 0)->upkeep->repair.copy != NULL;
}

Test(repair, second_failure_during_the_first)
{
	up(5, 2, 5);
	make_extents(6);
	mt_rig_node_kill(rig, 0, false);
	cr_assert(mt_rig_run_until(rig, is_copying, NULL));
	mt_rig_node_kill(rig, mt_rig_shard(rig, 0)->upkeep->repair.made.node_id - 1, false);
	wait_whole();
}

Test(repair, extent_that_is_reclaimed_meanwhile_raises_no_alarm)
{
	struct mt_shard *shard;
	struct mt_extent *extent;

	up(4, 2, 4);
	mt_rig_gateway_kill(rig);
	rig->gateway_options.repair_bytes_per_s = NUM_KIB(256);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	make_extents(1);
	mt_rig_node_kill(rig, mt_rig_index(&mt_rig_extent(rig, &ids[0])->replicas[0]), false);
	cr_assert(mt_rig_run_until(rig, is_copying, NULL));
	shard = mt_rig_shard(rig, 0);
	extent = mt_shard_extent(shard, shard->upkeep->repair.extent_index);
	cr_assert_not_null(extent);
	mt_shard_extent_remove(shard, extent);
	mt_extent_delete(extent); /* as reclaim does, behind its edit */
	mt_rig_log_clear(rig);
	mt_rig_run(rig, NUM_S(20));
	cr_assert(!is_copying(NULL));
	cr_assert_not(mt_rig_logged(rig, "not copied"));
	cr_assert_not(mt_rig_logged(rig, "another source"));
	cr_assert_eq(metric(MT_METRIC_copies_failed), 0);
}

Test(repair, gateway_that_dies_in_the_middle)
{
	up(4, 2, 4);
	make_extents(6);
	mt_rig_node_kill(rig, 0, false);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert(mt_rig_run_until(rig, is_copying, NULL));
		mt_rig_run(rig, NUM_US(300) * (i + 1));
		mt_rig_gateway_restart(rig);
	}
	wait_whole();
	mt_rig_run(rig, NUM_S(2));
	for (uint32_t i = 1; i < 4; i++)
		cr_assert_eq(orphan_count(i), 0, "node %u", i + 1);
}

Test(repair, gateway_that_stops_in_the_middle)
{
	up(4, 2, 4);
	make_extents(6);
	mt_rig_node_kill(rig, 0, false);
	cr_assert(mt_rig_run_until(rig, is_copying, NULL));
	mt_rig_gateway_stop(rig);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	wait_whole();
}

/* Each allocation on the way fails once: it is late, and done. */
Test(repair, goes_on_without_memory)
{
	uint32_t failed_count = 0;

	up(4, 2, 4);
	make_extents(6);
	mt_rig_node_kill(rig, 0, false);
	cr_assert(mt_rig_run_until(rig, is_copying, NULL));
	for (uint32_t i = 0; i < 200; i++) {
		mt_alloc_fail_at(1 + i % 3);
		mt_rig_run(rig, NUM_MS(100));
		failed_count += (uint32_t)mt_alloc_has_failed();
	}
	mt_alloc_fail_at(0);
	cr_assert_gt(failed_count, 3);
	wait_whole();
}

/* Two nodes fail in turns, always another; whatever is going on then must find its way. */
Test(repair, nodes_that_come_and_go)
{
	up(5, 2, 5);
	make_extents(6);
	for (uint32_t i = 0; i < 12; i++) {
		mt_rig_node_kill(rig, i % 5, i % 2 == 0);
		mt_rig_run(rig, REPAIR_AFTER_NS + NUM_S(i));
		if (i % 3 == 0)
			mt_scrub_now(mt_rig_shard(rig, 0));
		if (i % 4 == 1)
			mt_rig_node_blank(rig, i % 5);
		mt_rig_node_start(rig, i % 5);
		mt_rig_run(rig, NUM_MS(700) * i);
	}
	wait_whole();
	mt_rig_run(rig, NUM_S(20));
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(orphan_count(i), 0, "node %u", i + 1);
}

Test(repair, keeps_to_the_budget_of_its_port)
{
	uint64_t start_ns;

	up(4, 2, 4);
	mt_rig_gateway_kill(rig);
	rig->gateway_options.repair_bytes_per_s = NUM_KIB(256);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	make_extents(6);
	mt_rig_node_kill(rig, 0, false);
	cr_assert(mt_rig_run_until(rig, is_copying, NULL));
	start_ns = sim_world_now_ns(rig->world);
	cr_assert(mt_rig_run_until(rig, all_whole, NULL));
	/* The last window of an extent, and one that is no longer than that, are paid for by the next. */
	cr_assert_geq((sim_world_now_ns(rig->world) - start_ns) / NUM_MS(1),
	    (metric(MT_METRIC_copied_bytes) - NUM_KIB(256)) * 1000 / NUM_KIB(256));
}
