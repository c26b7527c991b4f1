/* SPDX-License-Identifier: Apache-2.0 */
/* test_repair_gone.c -- an extent is reclaimed while the manifest learns of its new copy: none is left behind */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_copies.h"
#include "middletier/extent/extent_table.h"
#include "middletier/gateway/gateway.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest.h"
#include "middletier/upkeep/repair.h"
#include "middletier/upkeep/upkeep.h"
#include "support/mt_rig.h"

#define NODES 5u

static struct mt_rig *rig;

static void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = NODES,
	    .slot_bytes = NUM_MIB(1),
	    .slot_count = 1024 });
	mt_rig_log_start(rig);
	mt_rig_up(rig);
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(repair_gone, .init = setup, .fini = teardown);

static void
on_committed(int rc, void *arg)
{
	(void)arg;
	cr_assert_eq(rc, 0);
}

/* Until then an edit is always on its way: that of the repair waits, and goes together with what comes next. */
static bool
is_committing(void *arg)
{
	const struct mt_extent *extent = arg;
	struct mt_shard *shard = extent->shard;
	struct mt_edit edit = { .kind = MT_EDIT_EXTENT_REPLICAS,
		.id = extent->id,
		.extent_kind = extent->kind,
		.replica_count = extent->replica_count };

	if (shard->upkeep->repair.sm.state == REPAIR_COMMITTING)
		return !mt_manifest_is_settled(shard);
	memcpy(edit.replicas, extent->replicas, sizeof(edit.replicas));
	if (mt_manifest_is_settled(shard))
		cr_assert_eq(mt_manifest_commit(shard, &edit, 1, on_committed, NULL), 0);
	return false;
}

static uint32_t
copies_of(const struct extent_id *id)
{
	uint32_t count = 0;
	uint8_t page[4096];

	for (uint32_t i = 0; i < NODES; i++)
		count += mt_rig_read(rig, i, id, 0, page, sizeof(page)) == 0;
	return count;
}

/* As reclaim.c does it. */
static void
on_deleted(int rc, void *arg)
{
	struct mt_extent *extent = arg;

	cr_assert_eq(rc, 0);
	mt_shard_extent_remove(extent->shard, extent);
	mt_extent_delete(extent);
}

Test(repair_gone, a_copy_that_was_made_goes_with_its_extent)
{
	struct mt_extent *extent = mt_rig_log_open(rig);
	struct mt_shard *shard = mt_rig_shard(rig, 0);
	struct mt_edit edit = { .kind = MT_EDIT_EXTENT_DELETED };
	struct extent_id id;
	uint32_t index;

	cr_assert_not_null(extent);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(mt_rig_append(rig, extent, i * 40, 30, 7, UINT64_MAX), 0);
	mt_rig_log_seal(rig, extent);
	id = edit.id = extent->id;
	index = extent->index;
	cr_assert_eq(copies_of(&id), 3);
	mt_extent_damage(extent, 0, "a test says so", -EIO);
	cr_assert(mt_rig_run_until(rig, is_committing, extent));
	cr_assert_eq(mt_manifest_commit(shard, &edit, 1, on_deleted, extent), 0);
	mt_rig_run(rig, NUM_S(2)); /* as long as a sweep takes to find what was left behind */
	cr_assert_null(mt_shard_extent(shard, index));
	cr_assert_eq(copies_of(&id), 0);
	cr_assert_eq(mt_gateway_metric(rig->gateway, MT_METRIC_orphans_deleted), 0);
}
