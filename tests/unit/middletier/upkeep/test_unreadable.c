/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_unreadable.c -- disks that fail reads for a moment, or for good: which copies are damaged, and which are again good
 *
 * What a take-over agrees upon is built in with a planted bug, damaged_unasked, that no seed of the simulator comes upon.
 */
#define CLEAVE_MUTANTS
#include "middletier/shard/agree.c"

#include <criterion/criterion.h>
#include <errno.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/common/replica.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_copies.h"
#include "middletier/gateway/gateway.h"
#include "middletier/upkeep/scrub.h"
#include "middletier/upkeep/upkeep.h"
#include "support/mt_rig.h"

#define EXTENTS 3u
#define HOPELESS_NS NUM_S(600) /* scrub.c */

struct mutant_set mutants_on;

static struct mt_rig *rig;
static struct extent_id ids[EXTENTS];
static uint32_t node_count;

static void
up(uint32_t count)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = count,
	    .min_replicas = 2,
	    .slot_bytes = NUM_MIB(1),
	    .slot_count = 1024 });
	node_count = count;
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	for (uint32_t i = 0; i < EXTENTS; i++)
		ids[i] = mt_rig_log_filled(rig, i)->id;
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(unreadable, .fini = teardown);

/* Disks of the first @count nodes fail all reads; none of the others'. */
static void
disks_fail(uint32_t count)
{
	for (uint32_t i = 0; i < node_count; i++)
		disk_sim_set_faults(rig->nodes[i].disk,
		    &(struct disk_sim_faults){ .read_fails = i < count ? 1000 : 0 });
}

static bool
has_scrubbed(void *arg)
{
	return mt_gateway_metric(rig->gateway, MT_METRIC_scrubs_done) > *(const uint64_t *)arg;
}

static void
scrub(void)
{
	uint64_t before = mt_gateway_metric(rig->gateway, MT_METRIC_scrubs_done);

	mt_scrub_now(mt_rig_shard(rig, 0));
	cr_assert(mt_rig_run_until(rig, has_scrubbed, &before));
}

static uint32_t
damaged_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < EXTENTS; i++)
		for (uint32_t k = 0; k < mt_rig_extent(rig, &ids[i])->replica_count; k++)
			count += mt_rig_extent(rig, &ids[i])->replicas[k].is_damaged;
	return count;
}

Test(unreadable, a_moment_of_all_disks_damages_nothing)
{
	up(3);
	disks_fail(3);
	scrub();
	scrub();
	mt_rig_run(rig, NUM_S(300)); /* sweeps have seen what nodes say of them */
	cr_assert_eq(damaged_count(), 0);
	disks_fail(0);
	mt_rig_run(rig, HOPELESS_NS);
	scrub();
	cr_assert_eq(damaged_count(), 0);
	cr_assert_eq(mt_upkeep_lacking_count(mt_rig_shard(rig, 0)), 0);
}

Test(unreadable, what_one_disk_fails_for_longer_is_damaged_and_made_anew)
{
	uint64_t before;
	uint32_t node;

	up(5);
	before = mt_gateway_metric(rig->gateway, MT_METRIC_copies_damaged);
	node = mt_rig_extent(rig, &ids[0])->replicas[0].node_id;
	disk_sim_set_faults(rig->nodes[node - 1].disk,
	    &(struct disk_sim_faults){ .read_fails = 1000 });
	scrub();
	cr_assert_eq(damaged_count(), 0);
	mt_rig_run(rig, NUM_S(300));
	cr_assert_gt(mt_gateway_metric(rig->gateway, MT_METRIC_copies_damaged), before);
	cr_assert_eq(damaged_count(), 0, "others have them");
	for (uint32_t i = 0; i < EXTENTS; i++)
		cr_assert_lt(mt_extent_replica(mt_rig_extent(rig, &ids[i]), node), 0);
}

Test(unreadable, all_copies_that_were_damaged_are_good_again_when_their_nodes_find_them_whole)
{
	up(3);
	disks_fail(3);
	scrub();
	mt_rig_run(rig, 2 * HOPELESS_NS);
	cr_assert_eq(damaged_count(), EXTENTS * 3);
	disks_fail(0);
	mt_rig_run(rig, 2 * HOPELESS_NS);
	cr_assert_eq(damaged_count(), 0);
	cr_assert_eq(mt_upkeep_lacking_count(mt_rig_shard(rig, 0)), 0);
}

Test(unreadable, a_gateway_that_begins_anew_looks_again_at_what_was_damaged)
{
	up(3);
	disks_fail(3);
	scrub();
	mt_rig_run(rig, 2 * HOPELESS_NS);
	cr_assert_eq(damaged_count(), EXTENTS * 3);
	disks_fail(0);
	mt_rig_gateway_restart(rig);
	mt_rig_run(rig, NUM_S(60));
	cr_assert_eq(damaged_count(), 0);
}

/* A node lists as damaged what it could not read once: a new owner hears that before anything else, and verifies it. */
Test(unreadable, a_take_over_condemns_nothing_that_could_not_be_read_once)
{
	uint32_t node;

	up(5);
	node = mt_rig_extent(rig, &ids[0])->replicas[0].node_id;
	disk_sim_set_faults(rig->nodes[node - 1].disk,
	    &(struct disk_sim_faults){ .read_fails = 1000 });
	scrub();
	cr_assert_eq(mt_gateway_metric(rig->gateway, MT_METRIC_copies_damaged), 0);
	mt_rig_gateway_restart(rig);
	mt_rig_run(rig, NUM_S(10));
	cr_assert_eq(mt_gateway_metric(rig->gateway, MT_METRIC_copies_damaged), 0);
}

/* Their nodes take every copy for rotten, the open manifest's too, and nobody but a take-over is there to look again. */
Test(unreadable, a_take_over_goes_on_when_nodes_could_not_read_any_copy_for_a_moment)
{
	up(3);
	disks_fail(3);
	scrub();
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_gt(node_counters(rig->nodes[i].node)->verifies_bad, EXTENTS);
	mt_rig_gateway_kill(rig);
	disks_fail(0);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert_eq(mt_gateway_metric(rig->gateway, MT_METRIC_copies_damaged), 0);
}

Test(unreadable, a_take_over_waits_for_disks_that_cannot_be_read)
{
	up(3);
	disks_fail(3);
	scrub();
	mt_rig_gateway_kill(rig);
	mt_rig_gateway_start(rig);
	mt_rig_run(rig, NUM_S(60));
	cr_assert_not(rig->is_ready);
	cr_assert(mt_rig_logged(rig, "no copy is undamaged"));
	disks_fail(0);
	cr_assert(mt_rig_wait_ready(rig));
}

/* The gateway begins anew without the last node; disks of the first @count of the two others fail reads for a while. */
static void
begin_without_the_third(uint32_t count)
{
	up(3);
	disks_fail(count);
	scrub(); /* a freeze has to look at what it has marked */
	mt_rig_gateway_kill(rig);
	mt_rig_node_kill(rig, 2, false);
	mt_rig_gateway_start(rig);
	mt_rig_run(rig, NUM_S(60));
	cr_assert_not(rig->is_ready, "one copy is no proof");
	disks_fail(0);
}

static void
expect_served_without_the_third(uint32_t count)
{
	begin_without_the_third(count);
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert_eq(mt_gateway_metric(rig->gateway, MT_METRIC_copies_damaged), 0);
	for (uint32_t i = 0; i < EXTENTS; i++)
		cr_assert_eq(mt_rig_extent(rig, &ids[i])->replica_count, 3);
}

Test(unreadable, a_take_over_goes_on_with_two_nodes_when_both_can_read_again)
{
	expect_served_without_the_third(2);
	cr_assert(mt_rig_logged(rig, "no copy is undamaged"));
}

Test(unreadable, a_take_over_goes_on_with_two_nodes_when_one_of_them_can_read_again)
{
	expect_served_without_the_third(1);
}

Test(unreadable, a_planted_bug_asks_no_damaged_copy_again)
{
	mutant_set_add(&mutants_on, MUTANT_damaged_unasked);
	begin_without_the_third(2);
	mt_rig_run(rig, NUM_S(60));
	cr_assert_not(rig->is_ready, "the third one is waited for");
}

static bool
is_suspect(uint32_t index)
{
	return mt_rig_extent(rig, &ids[index])->replicas[0].is_suspect;
}

static void
suspect(uint32_t index)
{
	struct mt_extent *extent = mt_rig_extent(rig, &ids[index]);

	mt_extent_suspect(extent, extent->replicas[0].node_id);
	cr_assert(is_suspect(index));
}

static bool
is_one_verified(void *arg)
{
	(void)arg;
	return !is_suspect(0) || !is_suspect(1);
}

/* Reads of it go on and fail: it is not verified again for each of them, before the others. */
Test(unreadable, a_copy_is_not_verified_again_before_its_time)
{
	up(3);
	suspect(1);
	disks_fail(3);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_not(is_suspect(1));
	disks_fail(0);
	suspect(1);
	mt_rig_run(rig, NUM_S(10));
	cr_assert(is_suspect(1));
	mt_rig_run(rig, NUM_S(60));
	cr_assert_not(is_suspect(1));
	cr_assert_eq(damaged_count(), 0);
}

Test(unreadable, suspects_take_turns)
{
	uint32_t first = 0, other = 1;

	up(3);
	if (mt_rig_extent(rig, &ids[0])->index > mt_rig_extent(rig, &ids[1])->index)
		first = 1, other = 0;
	suspect(first);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_not(is_suspect(first));
	suspect(first);
	suspect(other);
	cr_assert(mt_rig_run_until(rig, is_one_verified, NULL));
	cr_assert(is_suspect(first));
	cr_assert_not(is_suspect(other), "the first one again");
}
