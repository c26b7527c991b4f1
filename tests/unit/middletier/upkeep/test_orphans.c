/* SPDX-License-Identifier: Apache-2.0 */
/* test_orphans.c -- what no manifest names waits, goes by and by, and at once when somebody knows */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "extent/extent_copies.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/extent/node_link.h"
#include "middletier/gateway/gateway.h"
#include "middletier/manifest/edit.h"
#include "middletier/port/port_status.h"
#include "middletier/upkeep/orphans.h"
#include "middletier/upkeep/sweep.h"
#include "middletier/upkeep/upkeep.h"
#include "support/mt_rig.h"

#define ALL 7u
#define RIGHT_MARK UINT64_MAX
#define INTERVAL_NS NUM_S(1)
#define GRACE_NS NUM_S(20)
#define NODES 4u

static struct mt_rig *rig;

static void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = NODES,
	    .min_replicas = 2,
	    .slot_bytes = NUM_KIB(256),
	    .slot_count = 512 });
	rig->gateway_options.sweep_interval_ns = INTERVAL_NS;
	rig->gateway_options.orphan_grace_ns = GRACE_NS;
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	mt_rig_run(rig, NUM_S(1));
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(orphans, .init = setup, .fini = teardown);

static void
make_copy(uint32_t index, const struct extent_id *id)
{
	struct wire_node create = { .opcode = WIRE_EXTENT_CREATE,
		.id = *id,
		.kind = EXTENT_LOG,
		.epoch = mt_rig_shard(rig, 0)->epoch };

	cr_assert_eq(mt_rig_call(rig, index, &create, NULL), 0);
}

static struct extent_id
make_orphan(uint32_t index, uint64_t counter)
{
	struct extent_id id = { .epoch = mt_rig_shard(rig, 0)->epoch, .counter = counter };

	make_copy(index, &id);
	return id;
}

static bool
is_there(uint32_t index, const struct extent_id *id)
{
	struct wire_node verify = { .opcode = WIRE_EXTENT_VERIFY,
		.id = *id,
		.epoch = mt_rig_shard(rig, 0)->epoch };
	int rc = mt_rig_call(rig, index, &verify, NULL);

	cr_assert(rc == 0 || rc == -ENOENT);
	return rc == 0;
}

static struct mt_sweep *
sweep(void)
{
	return &mt_rig_shard(rig, 0)->upkeep->sweep;
}

static uint64_t
deleted_count(void)
{
	return mt_gateway_metric(rig->gateway, MT_METRIC_orphans_deleted);
}

static uint32_t
waiting_count(void)
{
	uint32_t held_count;

	return mt_upkeep_orphan_count(mt_rig_shard(rig, 0), &held_count);
}

static uint32_t
held_count(void)
{
	uint32_t count;

	(void)mt_upkeep_orphan_count(mt_rig_shard(rig, 0), &count);
	return count;
}

static uint32_t
times_logged(const char *text)
{
	uint32_t count = 0;

	for (const char *at = rig->log; (at = strstr(at, text)) != NULL; at++)
		count++;
	return count;
}

Test(orphans, one_waits_for_the_grace)
{
	struct extent_id orphan = make_orphan(1, 1000);

	mt_rig_run(rig, GRACE_NS - NUM_S(2));
	cr_assert(is_there(1, &orphan));
	cr_assert_eq(waiting_count(), 1);
	cr_assert_eq(times_logged("node 2 has 1 extents that no manifest names"), 1,
	    "it is said once");
	mt_rig_run(rig, NUM_S(5));
	cr_assert_not(is_there(1, &orphan));
	cr_assert_eq(waiting_count(), 0);
	cr_assert_eq(deleted_count(), 1);
}

Test(orphans, another_owner_begins_anew)
{
	struct extent_id orphan = make_orphan(1, 1000);

	mt_rig_run(rig, GRACE_NS - NUM_S(4));
	mt_rig_gateway_restart(rig);
	mt_rig_run(rig, GRACE_NS - NUM_S(4));
	cr_assert(is_there(1, &orphan));
	mt_rig_run(rig, NUM_S(10));
	cr_assert_not(is_there(1, &orphan));
}

/* Deleted and made again by somebody: what was seen of the first says nothing of the second. */
Test(orphans, a_new_incarnation_begins_anew)
{
	struct extent_id orphan = make_orphan(1, 1000);
	struct wire_node delete = { .opcode = WIRE_EXTENT_DELETE,
		.id = orphan,
		.epoch = mt_rig_shard(rig, 0)->epoch };

	mt_rig_run(rig, GRACE_NS - NUM_S(4));
	cr_assert_eq(sweep()->orphans.count, 1);
	delete.offset_bytes = sweep()->orphans.entries[0].incarnation;
	cr_assert_eq(mt_rig_call(rig, 1, &delete, NULL), 0);
	make_copy(1, &orphan);
	mt_rig_run(rig, GRACE_NS - NUM_S(4));
	cr_assert(is_there(1, &orphan));
	mt_rig_run(rig, NUM_S(10));
	cr_assert_not(is_there(1, &orphan));
}

Test(orphans, a_sixteenth_goes_in_a_grace_period)
{
	uint32_t listed, limit;

	for (uint32_t i = 0; i < 100; i++)
		(void)make_orphan(1, 1000 + i);
	mt_rig_run(rig, 3 * INTERVAL_NS);
	listed = sweep()->orphans.listed[mt_rig_link(rig, 1)->index];
	limit = listed / MT_ORPHANS_SHARE;
	cr_assert_geq(listed, 100);
	cr_assert_eq(waiting_count(), 100);
	mt_rig_run(rig, GRACE_NS);
	cr_assert_eq(deleted_count(), limit);
	cr_assert_eq(waiting_count(), 100 - limit);
	cr_assert_eq(held_count(), 100 - limit);
	cr_assert_eq(times_logged("more are held back"), 1);
	/* The next ones go when the grace has passed again. */
	mt_rig_run(rig, GRACE_NS + NUM_S(2));
	cr_assert_gt(deleted_count(), limit);
	cr_assert_leq(deleted_count(), 2 * limit);
}

Test(orphans, an_operator_confirms)
{
	struct extent_id late;

	for (uint32_t i = 0; i < 100; i++)
		(void)make_orphan(i % NODES, 1000 + i);
	mt_rig_run(rig, 3 * INTERVAL_NS);
	cr_assert_eq(deleted_count(), 0);
	cr_assert_eq(mt_sweep_confirm(sweep()), 100);
	late = make_orphan(0, 2000);
	mt_rig_run(rig, 3 * INTERVAL_NS);
	cr_assert_eq(deleted_count(), 100);
	cr_assert(is_there(0, &late), "nobody has confirmed this one");
	cr_assert_eq(mt_sweep_confirm(sweep()), 1);
}

/* The copy's node was away when this owner deleted it: the owner knows what it has given up. */
Test(orphans, what_this_owner_gave_up_does_not_wait)
{
	struct mt_extent *extent = mt_rig_log_open(rig);
	struct mt_edit edit = { .kind = MT_EDIT_EXTENT_DELETED, .id = extent->id };
	struct extent_id id = extent->id;
	uint32_t index = mt_rig_index(&extent->replicas[1]);

	mt_rig_log_seal(rig, extent);
	mt_rig_node_kill(rig, index, false);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(mt_rig_commit(rig, &edit, 1), 0);
	mt_shard_extent_remove(mt_rig_shard(rig, 0), extent);
	mt_extent_delete(extent);
	cr_assert_eq(waiting_count(), 0);
	mt_rig_node_start(rig, index);
	mt_rig_run(rig, NUM_S(10));
	cr_assert(mt_link_is_up(mt_rig_link(rig, index)));
	cr_assert_not(is_there(index, &id));
}

static bool
has_copies(void *arg)
{
	const struct mt_extent *extent = arg;

	return extent->replica_count == 3 && !extent->replicas[0].is_damaged &&
	    !extent->replicas[1].is_damaged && !extent->replicas[2].is_damaged;
}

/* Extents of a dead owner fill the only node that could take a copy. */
Test(orphans, a_repair_is_not_kept_waiting)
{
	struct mt_extent *extent = mt_rig_log_open(rig);
	uint32_t other = NODES * (NODES + 1) / 2;

	cr_assert_eq(mt_rig_append(rig, extent, 0, 3, ALL, RIGHT_MARK), 0);
	mt_rig_log_seal(rig, extent);
	for (uint32_t i = 0; i < 3; i++)
		other -= extent->replicas[i].node_id;
	make_copy(other - 1, &extent->id);
	mt_rig_run(rig, 3 * INTERVAL_NS);
	cr_assert_eq(waiting_count(), 1);
	mt_extent_damage(extent, 0, "the test says so", -EUCLEAN);
	cr_assert(mt_rig_run_until(rig, has_copies, extent));
	cr_assert(mt_extent_replica(extent, other) >= 0);
	cr_assert_lt(loop_now_ns(rig->gateway_loop), GRACE_NS + NUM_S(5));
}

Test(orphans, what_is_remembered_is_bounded)
{
	for (uint32_t i = 0; i < MT_ORPHANS_MAX + 100; i++)
		(void)make_orphan(i % NODES, 1000 + i);
	mt_rig_run(rig, 3 * INTERVAL_NS);
	cr_assert_eq(sweep()->orphans.count, MT_ORPHANS_MAX);
	cr_assert_eq(mt_sweep_confirm(sweep()), MT_ORPHANS_MAX);
	mt_rig_run(rig, 5 * INTERVAL_NS);
	cr_assert_eq(deleted_count(), MT_ORPHANS_MAX);
	/* Orphans that did not fit have begun to wait. */
	cr_assert_eq(waiting_count(), 100);
}

Test(orphans, they_are_listed)
{
	struct extent_id orphan = make_orphan(1, 1000);
	struct mt_port_status snapshot = { .orphan_count = 0 };

	mt_rig_run(rig, 5 * INTERVAL_NS);
	mt_port_status_orphans(mt_rig_port(rig), false, &snapshot);
	cr_assert_eq(snapshot.orphan_total, 1);
	cr_assert_eq(snapshot.orphan_count, 1);
	cr_assert_eq(snapshot.confirmed_count, 0);
	cr_assert_eq(snapshot.orphans[0].node_id, 2);
	cr_assert_eq(snapshot.orphans[0].id.counter, orphan.counter);
	cr_assert_geq(snapshot.orphans[0].age_ns, 3 * INTERVAL_NS);
	cr_assert_eq(snapshot.orphans[0].age_ns + snapshot.orphans[0].left_ns, GRACE_NS);
	cr_assert_not(snapshot.orphans[0].is_held);
	mt_port_status_fini(&snapshot);
	mt_port_status_orphans(mt_rig_port(rig), true, &snapshot);
	cr_assert_eq(snapshot.confirmed_count, 1);
	cr_assert(snapshot.orphans[0].is_confirmed);
	cr_assert_eq(snapshot.orphans[0].left_ns, 0);
	mt_port_status_fini(&snapshot);
	mt_rig_run(rig, 2 * INTERVAL_NS);
	cr_assert_not(is_there(1, &orphan));
}
