/* SPDX-License-Identifier: Apache-2.0 */
/* test_sweep.c -- what nobody names is deleted, what somebody may need is not */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/extent/copy.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/extent/node_link.h"
#include "middletier/gateway/gateway.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest.h"
#include "support/mt_rig.h"

#define ALL 7u
#define RIGHT_MARK UINT64_MAX
#define INTERVAL_NS NUM_S(1)

static struct mt_rig *rig;

static void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = 4,
	    .min_replicas = 2,
	    .slot_bytes = NUM_MIB(1),
	    .slot_count = 256 });
	rig->gateway_options.sweep_interval_ns = INTERVAL_NS;
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	mt_rig_run(rig, NUM_S(1));
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(sweep, .init = setup, .fini = teardown);

static struct extent_id
make_orphan(uint32_t index, uint32_t shard, uint64_t counter)
{
	struct wire_node create = { .opcode = WIRE_EXTENT_CREATE,
		.id = { .shard = shard, .epoch = mt_rig_shard(rig, 0)->epoch, .counter = counter },
		.kind = EXTENT_LOG,
		.epoch = mt_rig_shard(rig, 0)->epoch };

	cr_assert_eq(mt_rig_call(rig, index, &create, NULL), 0);
	return create.id;
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

static uint64_t
deleted_count(void)
{
	return mt_gateway_metric(rig->gateway, MT_METRIC_orphans_deleted);
}

Test(sweep, orphans_go_and_others_stay)
{
	struct extent_id orphan = make_orphan(1, 0, 1000);
	struct extent_id foreign = make_orphan(1, 7, 1000);

	mt_rig_run(rig, 2 * INTERVAL_NS);
	cr_assert_not(is_there(1, &orphan));
	cr_assert(is_there(1, &foreign), "another shard's extent was deleted");
	cr_assert_eq(deleted_count(), 1);
	cr_assert(mt_rig_logged(rig, "sweep: orphan deleted extent=0.1.1000 node=2"));
}

Test(sweep, many_at_once)
{
	for (uint32_t i = 0; i < 150; i++)
		(void)make_orphan(i % 4, 0, 1000 + i);
	mt_rig_run(rig, 3 * INTERVAL_NS);
	cr_assert_eq(deleted_count(), 150);
}

Test(sweep, nothing_that_is_in_use_is_touched)
{
	struct mt_extent *extents[3];

	/* Extents: one open and in the manifest, one sealed, one that nobody but us knows of. */
	for (uint32_t i = 0; i < 3; i++) {
		extents[i] = mt_rig_log_open(rig);
		cr_assert_eq(mt_rig_append(rig, extents[i], i, 3, ALL, RIGHT_MARK), 0);
	}
	mt_rig_log_seal(rig, extents[1]);
	mt_rig_run(rig, 10 * INTERVAL_NS);
	cr_assert_eq(deleted_count(), 0);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(mt_rig_append(rig, extents[2], i, 3, ALL, RIGHT_MARK), 0);
	mt_rig_gateway_restart(rig);
	mt_rig_run(rig, 10 * INTERVAL_NS);
	cr_assert_eq(mt_gateway_metric(rig->gateway, MT_METRIC_copies_damaged), 0);
}

static void
on_created(struct mt_extent *extent, int rc, void *arg)
{
	(void)extent;
	*(int *)arg = rc;
}

Test(sweep, what_is_being_made_stays)
{
	int rc = 1;
	struct mt_extent *extent =
	    mt_extent_create(mt_rig_shard(rig, 0), EXTENT_LOG, on_created, &rc);

	mt_rig_run(rig, 5 * INTERVAL_NS);
	cr_assert_eq(rc, 0);
	cr_assert_eq(deleted_count(), 0);
	for (uint32_t i = 0; i < extent->replica_count; i++)
		cr_assert(is_there(mt_rig_index(&extent->replicas[i]), &extent->id));
	/* Nobody's from here on: freed without a word to its nodes. */
	mt_extent_free(extent);
	mt_rig_run(rig, 2 * INTERVAL_NS);
	cr_assert_eq(deleted_count(), 3);
}

static void
on_copied(struct mt_copy *copy, int rc, uint64_t incarnation, void *arg)
{
	(void)copy;
	(void)incarnation;
	*(int *)arg = rc;
}

static bool
is_set(void *arg)
{
	return *(int *)arg != 1;
}

Test(sweep, what_is_being_copied_stays)
{
	struct mt_extent *extent = mt_rig_log_open(rig);
	uint64_t spent_ns = 0;
	struct mt_copy_options options = { .shard = mt_rig_shard(rig, 0),
		.id = extent->id,
		.kind = extent->kind,
		.source_count = 3,
		.target_node_id = 10,
		.bytes_per_s = NUM_KIB(64),
		.spent_ns = &spent_ns,
		.fn = on_copied };
	int rc = 1;

	for (uint32_t i = 0; i < 6; i++)
		cr_assert_eq(mt_rig_append(rig, extent, i * 32, 30, ALL, RIGHT_MARK), 0);
	mt_rig_log_seal(rig, extent);
	for (uint32_t i = 0; i < 3; i++)
		options.target_node_id -= extent->replicas[i].node_id;
	options.arg = &rc;
	options.length_bytes = extent->sealed_bytes;
	memcpy(options.sources, extent->replicas, sizeof(options.sources));
	cr_assert_not_null(mt_copy_start(&options));
	mt_rig_run(rig, 5 * INTERVAL_NS);
	cr_assert_eq(rc, 1, "it is done already");
	cr_assert(mt_rig_run_until(rig, is_set, &rc));
	cr_assert_eq(rc, 0);
	/* Finished, and named by nobody. */
	mt_rig_run(rig, 2 * INTERVAL_NS);
	cr_assert_not(is_there(options.target_node_id - 1, &extent->id));
}

Test(sweep, deleted_while_its_node_was_away)
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
	mt_rig_node_start(rig, index);
	mt_rig_run(rig, NUM_S(10));
	cr_assert(mt_link_is_up(mt_rig_link(rig, index)));
	cr_assert_not(is_there(index, &id));
}

Test(sweep, waits_while_edits_are_under_way)
{
	struct mt_extent *extent = mt_rig_log_open(rig);
	struct extent_id orphan = make_orphan(0, 0, 1000);

	cr_assert_not_null(extent);
	/* Without a node of its manifest, nothing is durable any more. */
	for (uint32_t i = 1; i < 4; i++)
		mt_rig_node_kill(rig, i, false);
	mt_rig_run(rig, NUM_S(10));
	cr_assert(is_there(0, &orphan) || mt_manifest_is_settled(mt_rig_shard(rig, 0)));
	for (uint32_t i = 1; i < 4; i++)
		mt_rig_node_start(rig, i);
	mt_rig_run(rig, NUM_S(20));
	cr_assert_not(is_there(0, &orphan));
}

/* A list that is cut short, or a link that is lost in the middle: it is asked again. */
Test(sweep, lost_list_is_asked_again)
{
	struct extent_id orphan = make_orphan(2, 0, 1000);

	for (uint32_t i = 0; i < 5; i++) {
		mt_rig_run(rig, INTERVAL_NS - NUM_US(50));
		(void)sim_net_reset(rig->gateway_host, rig->nodes[2].host);
	}
	mt_rig_run(rig, NUM_S(10));
	cr_assert_not(is_there(2, &orphan));
	cr_assert_geq(deleted_count(), 1);
}
