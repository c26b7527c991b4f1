/* SPDX-License-Identifier: Apache-2.0 */
/* test_rebuild.c -- a metadata store made anew from real nodes, in virtual time; and when it is refused */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "middletier/catalog/scope.h"
#include "middletier/catalog/snapshot_table.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/cluster/mirror.h"
#include "middletier/cluster/volume_change.h"
#include "middletier/cluster/volume_refresh.h"
#include "middletier/common/alloc.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/index/index.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "middletier/meta/meta_txn.h"
#include "middletier/rebuild/rebuild.h"
#include "splitlib/sim/loop_sim.h"
#include "support/made_cluster.h"
#include "tests/support/mt_rig.h"

static struct mt_rig *rig;
static struct meta_snapshot *empty;
static uint64_t store_count = 1; /* the first is the rig's own */
static uint32_t fail_nth;        /* allocation of the next rebuild; 0: none */
static bool is_storeless;        /* there is no store; a rebuild makes one, if it comes to that */

struct outcome {
	struct mt_rebuild *rebuild;
	struct loop *loop;
	struct meta *meta;
	bool is_done;
	int rc;
	char text[256];
};

static void
setup_with(const struct mt_rig_options *options)
{
	rig = mt_rig_create(options);
	empty = meta_store_snapshot(rig->store);
	mt_rig_log_start(rig);
	mt_rig_up(rig);
}

static void
setup(void)
{
	setup_with(&(struct mt_rig_options){ .shard_count = 2 });
}

static void
teardown(void)
{
	meta_snapshot_destroy(empty);
	mt_rig_destroy(rig);
}

TestSuite(rebuild, .init = setup, .fini = teardown);

/* ---- a rebuild ---- */

static void
on_rebuilt(int rc, const char *text, void *arg)
{
	struct outcome *outcome = arg;

	cr_assert_not(outcome->is_done);
	outcome->is_done = true;
	outcome->rc = rc;
	(void)snprintf(outcome->text, sizeof(outcome->text), "%s", text);
}

static bool
is_done(void *arg)
{
	return ((struct outcome *)arg)->is_done;
}

static struct meta *
open_store(char *ret_error, size_t error_bytes, void *arg)
{
	struct outcome *outcome = arg;

	(void)ret_error;
	(void)error_bytes;
	cr_assert_null(outcome->meta);
	outcome->meta = meta_memory_open(rig->store, outcome->loop);
	return outcome->meta;
}

static void
rebuild_start(struct outcome *outcome, bool is_forced, uint32_t shard_count)
{
	struct mt_rebuild_options options = { .gateway = rig->gateway_options,
		.is_forced = is_forced,
		.open = open_store,
		.fn = on_rebuilt,
		.arg = outcome };

	*outcome = (struct outcome){ 0 };
	if (!sim_host_is_up(rig->gateway_host))
		sim_host_start(rig->gateway_host);
	outcome->loop = sim_loop_create(rig->world, "gateway");
	options.gateway.loop = outcome->loop;
	options.gateway.meta = is_storeless ? NULL : open_store(NULL, 0, outcome);
	options.gateway.shard_count = shard_count;
	options.gateway.store_id = (struct store_id){ 0x570e, ++store_count };
	mt_alloc_fail_at(fail_nth);
	outcome->rebuild = mt_rebuild_start(&options, outcome->text, sizeof(outcome->text));
}

static void
rebuild_end(struct outcome *outcome)
{
	mt_rebuild_destroy(outcome->rebuild);
	if (outcome->meta != NULL)
		outcome->meta->ops->close(outcome->meta);
	loop_destroy(outcome->loop);
	sim_host_kill(rig->gateway_host, SIM_DEATH_RESET);
	sim_host_start(rig->gateway_host);
}

static int
rebuild(bool is_forced, char ret_text[256])
{
	struct outcome outcome;

	rebuild_start(&outcome, is_forced, 0);
	cr_assert_not_null(outcome.rebuild, "%s", outcome.text);
	cr_assert(mt_rig_run_until(rig, is_done, &outcome));
	rebuild_end(&outcome);
	if (ret_text != NULL)
		memcpy(ret_text, outcome.text, 256);
	return outcome.rc;
}

static void
expect_refused(int rc, const char *text)
{
	char got[256];

	cr_assert_eq(rebuild(false, got), rc, "%s", got);
	cr_assert_not_null(strstr(got, text), "%s", got);
}

static void
expect_rebuilt(void)
{
	char text[256];

	cr_assert_eq(rebuild(false, text), 0, "%s", text);
}

/* ---- what there is to lose ---- */

static void
on_volume(int rc, const struct mt_volume *volume, void *arg)
{
	(void)volume;
	cr_assert_eq(rc, 0);
	*(bool *)arg = true;
}

static bool
is_true(void *arg)
{
	return *(bool *)arg;
}

static bool
is_mirrored(void *arg)
{
	const struct mt_manifest_state *state = mt_manifest_state(mt_rig_shard(rig, 0));

	return state != NULL && state->volume_count == *(uint32_t *)arg &&
	    !rig->gateway->mirror->is_out;
}

static void
make_volume(const char *name, uint32_t count_then)
{
	struct mt_volume wish = { .size_bytes = NUM_GIB(40), .codec_id = 1, .replica_count = 3 };
	bool is_made = false;

	(void)snprintf(wish.name, sizeof(wish.name), "%s", name);
	cr_assert_eq(mt_volume_create(rig->gateway, &wish, on_volume, &is_made), 0);
	cr_assert(mt_rig_run_until(rig, is_true, &is_made));
	cr_assert(mt_rig_run_until(rig, is_mirrored, &count_then));
}

static void
write_blocks(uint32_t first, uint32_t count)
{
	struct mt_extent *log = mt_rig_log_open(rig);

	cr_assert_not_null(log);
	cr_assert_eq(mt_rig_append(rig, log, first, count, 7, UINT64_MAX), 0);
}

static void
start_and_expect(uint32_t volume_count, uint64_t block_count)
{
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert_eq(rig->gateway->volumes.count, volume_count);
	cr_assert_eq(mt_rig_shard(rig, 0)->block_index->key_count, block_count);
}

static void
lose_store(void)
{
	mt_rig_gateway_kill(rig);
	cr_assert_eq(meta_store_restore(rig->store, empty), 0);
}

/* ---- it works ---- */

Test(rebuild, lost_store_is_made_anew)
{
	uint32_t epoch = mt_rig_shard(rig, 0)->epoch;
	const struct mt_volume *volume;

	make_volume("a", 1);
	make_volume("b", 2);
	write_blocks(0, 5);
	lose_store();
	expect_rebuilt();
	start_and_expect(2, 5);
	cr_assert_gt(mt_rig_shard(rig, 0)->epoch, epoch);
	volume = &mt_volumes_by_name(&rig->gateway->volumes, "b")->volume;
	cr_assert_eq(volume->id, 2);
	cr_assert_eq(volume->size_bytes, NUM_GIB(40));
	cr_assert_eq(volume->segment_count, 2);
	cr_assert_eq(volume->segment_base, 2049);
	cr_assert_gt(volume->attach, 1000);
	cr_assert_gt(rig->gateway->cluster.next_volume_id, 1000);
	cr_assert_gt(rig->gateway->cluster.next_segment, 1000);
	/* And it can be lost again. */
	write_blocks(5, 3);
	lose_store();
	expect_rebuilt();
	start_and_expect(2, 8);
}

static bool
has_mirrored_level(void *arg)
{
	const struct mt_manifest_state *state = mt_manifest_state(mt_rig_shard(rig, 0));

	return state != NULL && state->level == *(uint32_t *)arg;
}

/* Writes at that level are there: an older release must not come back by the store's loss. */
Test(rebuild, level_of_the_cluster_comes_back)
{
	struct mt_cluster cluster;
	uint32_t level = 2;

	make_volume("a", 1);
	made_cluster_raise(rig->store, level);
	mt_volumes_refresh_soon(rig->gateway);
	cr_assert(mt_rig_run_until(rig, has_mirrored_level, &level));
	lose_store();
	expect_rebuilt();
	made_cluster_read(rig->store, &cluster);
	cr_assert_eq(cluster.level, level);
	start_and_expect(1, 0);
}

/* Not one that cannot be read, and is made anew: a later release has written it. */
Test(rebuild, store_of_a_level_above_ours_is_left_alone)
{
	const char *text = "{\"format\":1,\"level\":99,\"colour\":\"red\"}";
	const struct meta_op op = { .kind = META_PUT,
		.key = "cluster",
		.value = text,
		.value_bytes = (uint32_t)strlen(text) };
	struct meta_item *items = NULL;
	struct meta_txn *txn;
	uint32_t count = 0;

	mt_rig_gateway_kill(rig);
	mt_rig_run(rig, NUM_S(10));
	cr_assert_eq(meta_txn_copy(&op, 1, &txn), 0);
	cr_assert_eq(meta_store_txn(rig->store, txn), 0);
	mt_free(txn);
	expect_refused(-EPROTONOSUPPORT, "cannot be read");
	cr_assert_eq(meta_store_list(rig->store, "cluster", &items, &count), 0);
	cr_assert_eq(items->value_bytes, strlen(text));
	cr_assert_arr_eq(items->value, text, strlen(text));
	mt_free(items);
}

static void
on_cuts(int rc, void *arg)
{
	cr_assert_eq(rc, 0);
	*(bool *)arg = true;
}

/* Cuts @first .. @first + MT_COMMIT_EDITS_MAX - 1. */
static void
commit_cuts(uint64_t first)
{
	struct mt_edit edits[MT_COMMIT_EDITS_MAX];
	bool is_committed = false;

	for (uint32_t i = 0; i < MT_COMMIT_EDITS_MAX; i++)
		edits[i] =
		    (struct mt_edit){ .kind = MT_EDIT_CUT, .segment_count = 1, .cut = first + i };
	cr_assert_eq(mt_manifest_commit(mt_rig_shard(rig, 0), edits, MT_COMMIT_EDITS_MAX, on_cuts,
			 &is_committed),
	    0);
	cr_assert(mt_rig_run_until(rig, is_true, &is_committed));
}

/* A manifest of several extents, and half-written ones behind it. */
Test(rebuild, manifest_that_goes_on_in_other_extents_is_read)
{
	enum { COMMITS = 30 };

	teardown();
	setup_with(&(struct mt_rig_options){ .shard_count = 2,
	    .slot_bytes = NUM_KIB(64),
	    .slot_count = 256 });
	make_volume("a", 1);
	for (uint64_t i = 0; i < COMMITS; i++)
		commit_cuts(1 + i * MT_COMMIT_EDITS_MAX);
	cr_assert_not_null(mt_manifest_part(mt_rig_shard(rig, 0), 2));
	for (uint32_t i = 1; i <= 20; i++) {
		mt_rig_gateway_kill(rig);
		mt_rig_gateway_start(rig);
		mt_rig_run(rig, NUM_US(700) * i);
	}
	lose_store();
	expect_rebuilt();
	start_and_expect(1, 0);
	cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->cut_count,
	    COMMITS * MT_COMMIT_EDITS_MAX);
}

static void
on_put(int rc, void *arg)
{
	cr_assert_eq(rc, 0);
	*(bool *)arg = true;
}

static bool
is_snapshot_mirrored(void *arg)
{
	const struct mt_manifest_state *state = mt_manifest_state(mt_rig_shard(rig, 0));

	(void)arg;
	return state != NULL && state->snapshot_count == 1 &&
	    mt_manifest_is_settled(mt_rig_shard(rig, 0));
}

Test(rebuild, snapshots_come_back)
{
	struct mt_snapshot snapshot = { .number = 3,
		.name = "monday",
		.size_bytes = 4096,
		.segment_count = 1,
		.state = MT_SNAPSHOT_LIVE,
		.clone_count = 1 };
	const struct mt_snapshot_entry *entry;
	const struct mt_volume *volume;
	char key[MT_SNAPSHOT_KEY_BYTES];
	bool is_put = false;
	char *text;

	make_volume("a", 1);
	volume = &mt_volumes_by_name(&rig->gateway->volumes, "a")->volume;
	snapshot.volume_id = volume->id;
	snapshot.segment_base = volume->segment_base;
	mt_scope_before(&volume->scope, 3, &snapshot.scope);
	mt_snapshot_key(3, key);
	text = mt_snapshot_encode(&snapshot, NULL);
	cr_assert_eq(rig->meta->ops->txn(rig->meta,
			 &(struct meta_op){ .kind = META_PUT,
			     .key = key,
			     .value = text,
			     .value_bytes = (uint32_t)strlen(text) },
			 1, on_put, &is_put),
	    0);
	free(text);
	cr_assert(mt_rig_run_until(rig, is_true, &is_put));
	cr_assert(mt_rig_run_until(rig, is_snapshot_mirrored, NULL));
	lose_store();
	expect_rebuilt();
	start_and_expect(1, 0);
	entry = mt_snapshots_by_number(&rig->gateway->volumes.snapshots, 3);
	cr_assert_not_null(entry);
	cr_assert_str_eq(entry->snapshot.name, "monday");
	cr_assert_eq(entry->snapshot.state, MT_SNAPSHOT_LIVE);
	cr_assert_eq(entry->snapshot.clone_count, 1);
	cr_assert_eq(entry->snapshot.scope.spans[0].cut_below, 3);
	cr_assert_gt(rig->gateway->cluster.next_snapshot, 1000);
	cr_assert_gt(rig->gateway->cluster.next_clone, 1000);
}

Test(rebuild, old_copy_is_refused_by_gateways_and_replaced)
{
	struct meta_snapshot *old;

	make_volume("a", 1);
	old = meta_store_snapshot(rig->store);
	make_volume("b", 2);
	mt_rig_gateway_restart(rig);
	mt_rig_gateway_restart(rig);
	write_blocks(0, 4);
	mt_rig_gateway_kill(rig);
	cr_assert_eq(meta_store_restore(rig->store, old), 0);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_state(rig, MT_SHARD_STOPPED));
	cr_assert(mt_rig_logged(rig, "the metadata store is stale"));
	mt_rig_gateway_kill(rig);
	mt_rig_run(rig, NUM_S(20)); /* its lease ends */
	expect_rebuilt();
	start_and_expect(2, 4);
	meta_snapshot_destroy(old);
}

/* Not even the fences tell: the claim comes to the epoch that was the last. */
Test(rebuild, copy_that_is_one_start_old_is_refused_too)
{
	struct meta_snapshot *old;

	make_volume("a", 1);
	old = meta_store_snapshot(rig->store);
	mt_rig_gateway_restart(rig);
	write_blocks(0, 4);
	mt_rig_gateway_kill(rig);
	cr_assert_eq(meta_store_restore(rig->store, old), 0);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_state(rig, MT_SHARD_STOPPED));
	cr_assert(mt_rig_logged(rig, "the metadata store is stale"));
	mt_rig_gateway_kill(rig);
	mt_rig_run(rig, NUM_S(20));
	expect_rebuilt();
	start_and_expect(1, 4);
	meta_snapshot_destroy(old);
}

Test(rebuild, copy_from_before_the_manifest_moved_is_refused)
{
	struct meta_snapshot *old = meta_store_snapshot(rig->store);
	uint64_t counter = mt_rig_shard(rig, 0)->root->manifest.counter;

	/* A manifest extent that lost a node is replaced with the next edit, in the same epoch. */
	mt_rig_node_kill(rig, 2, false);
	mt_rig_run(rig, NUM_S(5));
	mt_rig_node_start(rig, 2);
	mt_rig_run(rig, NUM_S(10));
	make_volume("a", 1);
	cr_assert_gt(mt_rig_shard(rig, 0)->root->manifest.counter, counter);
	mt_rig_gateway_kill(rig);
	cr_assert_eq(meta_store_restore(rig->store, old), 0);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_state(rig, MT_SHARD_STOPPED));
	cr_assert(mt_rig_logged(rig, "the metadata store is stale"));
	meta_snapshot_destroy(old);
}

/* A disk was replaced, and the owner died when it had just begun another manifest: not stale. */
Test(rebuild, manifest_that_was_never_finished_is_no_newer_one)
{
	struct mt_shard *shard = mt_rig_shard(rig, 0);
	struct wire_node create = { .opcode = WIRE_EXTENT_CREATE,
		.id = { .shard = 0, .epoch = shard->epoch, .counter = 1000 },
		.kind = EXTENT_MANIFEST,
		.epoch = shard->epoch };

	make_volume("a", 1);
	write_blocks(0, 4);
	cr_assert_eq(mt_rig_call(rig, 0, &create, NULL), 0);
	mt_rig_gateway_kill(rig);
	mt_rig_node_kill(rig, 2, false);
	mt_rig_node_blank(rig, 2);
	mt_rig_node_start(rig, 2);
	start_and_expect(1, 4);
}

Test(rebuild, empty_store_never_begins_anew_what_nodes_hold)
{
	make_volume("a", 1);
	write_blocks(0, 4);
	lose_store();
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_state(rig, MT_SHARD_STOPPED));
	cr_assert(mt_rig_logged(rig, "the metadata store is stale"));
	mt_rig_gateway_kill(rig);
	mt_rig_run(rig, NUM_S(20));
	expect_rebuilt();
	start_and_expect(1, 4);
}

Test(rebuild, volume_of_the_old_store_that_was_deleted_goes)
{
	struct meta_snapshot *old;
	uint32_t none = 0;
	bool is_gone = false;

	make_volume("a", 1);
	old = meta_store_snapshot(rig->store);
	cr_assert_eq(mt_volume_delete(rig->gateway, "a", on_volume, &is_gone), 0);
	cr_assert(mt_rig_run_until(rig, is_true, &is_gone));
	cr_assert(mt_rig_run_until(rig, is_mirrored, &none));
	mt_rig_gateway_restart(rig);
	mt_rig_gateway_restart(rig);
	mt_rig_gateway_kill(rig);
	cr_assert_eq(meta_store_restore(rig->store, old), 0);
	mt_rig_run(rig, NUM_S(20));
	expect_rebuilt();
	cr_assert(mt_rig_logged(rig, "volumes/a is in the old store alone"));
	start_and_expect(0, 0);
	meta_snapshot_destroy(old);
}

Test(rebuild, manifest_without_a_whole_checkpoint_is_passed_over)
{
	struct mt_shard *shard = mt_rig_shard(rig, 0);
	struct wire_node create = { .opcode = WIRE_EXTENT_CREATE,
		.id = { .shard = 0, .epoch = shard->epoch, .counter = 1000 },
		.kind = EXTENT_MANIFEST,
		.epoch = shard->epoch };

	make_volume("a", 1);
	write_blocks(0, 4);
	cr_assert_eq(mt_rig_call(rig, 0, &create, NULL), 0);
	cr_assert_eq(mt_rig_call(rig, 1, &create, NULL), 0);
	lose_store();
	expect_rebuilt();
	start_and_expect(1, 4);
}

Test(rebuild, one_node_that_is_away_does_not_matter)
{
	make_volume("a", 1);
	write_blocks(0, 4);
	lose_store();
	mt_rig_node_kill(rig, 1, false);
	expect_rebuilt();
	cr_assert(mt_rig_logged(rig, "sim://node2:1 was not reached"));
	mt_rig_node_start(rig, 1);
	start_and_expect(1, 4);
}

static void
spoil_manifest(const struct extent_id *id, uint32_t index)
{
	static uint8_t page[DISK_ALIGN];
	int64_t offset = mt_rig_data_offset(rig, index, id, 0);

	cr_assert_geq(offset, 0);
	memset(page, 0x5a, sizeof(page));
	mt_rig_node_kill(rig, index, false);
	disk_sim_poke(rig->nodes[index].disk, (uint64_t)offset, page, sizeof(page));
	mt_rig_node_start(rig, index);
	mt_rig_run(rig, NUM_S(5));
}

Test(rebuild, one_good_copy_of_the_manifest_is_enough)
{
	struct extent_id id;

	make_volume("a", 1);
	write_blocks(0, 4);
	id = mt_rig_shard(rig, 0)->root->manifest;
	lose_store();
	spoil_manifest(&id, 0);
	spoil_manifest(&id, 1);
	expect_rebuilt();
}

/* ---- it is refused ---- */

Test(rebuild, store_that_is_not_older_is_left_alone)
{
	make_volume("a", 1);
	mt_rig_gateway_stop(rig);
	mt_rig_run(rig, NUM_S(20));
	expect_refused(-EEXIST, "not older");
	cr_assert_eq(rebuild(true, NULL), 0);
	start_and_expect(1, 0);
}

Test(rebuild, gateway_that_is_registered_is_named)
{
	struct loop *loop;
	struct meta *meta;
	struct meta_op put = { .kind = META_PUT,
		.key = "gateways/7",
		.value = "{}",
		.value_bytes = 2 };
	bool is_put = false;

	lose_store();
	loop = sim_loop_create(rig->world, "other");
	meta = meta_memory_open(rig->store, loop);
	cr_assert_eq(meta->ops->txn(meta, &put, 1, on_put, &is_put), 0);
	cr_assert(mt_rig_run_until(rig, is_true, &is_put));
	expect_refused(-EBUSY, "a gateway is registered");
	cr_assert_eq(rebuild(true, NULL), -EBUSY);
	meta->ops->close(meta);
	loop_destroy(loop);
}

Test(rebuild, nobody_answers)
{
	lose_store();
	for (uint32_t i = 0; i < 3; i++)
		mt_rig_node_kill(rig, i, false);
	expect_refused(-ENODATA, "no node was reached");
}

static void
setup_two_copies(void)
{
	setup_with(&(struct mt_rig_options){ .min_replicas = 2 });
}

TestSuite(rebuild_two_copies, .init = setup_two_copies, .fini = teardown);

Test(rebuild_two_copies, too_few_nodes_answer)
{
	make_volume("a", 1);
	lose_store();
	mt_rig_node_kill(rig, 0, false);
	mt_rig_node_kill(rig, 1, false);
	expect_refused(-ENODATA, "2 nodes were not reached");
	cr_assert_eq(rebuild(true, NULL), 0);
}

/* A node that was away has what an old store names; it does not look newer with each try. */
Test(rebuild_two_copies, old_store_stays_recognizable_however_often_it_is_tried)
{
	struct meta_snapshot *old;

	make_volume("a", 1);
	mt_rig_run(rig, NUM_S(1));
	old = meta_store_snapshot(rig->store);
	mt_rig_node_kill(rig, mt_rig_index(&mt_rig_shard(rig, 0)->root->manifest_replicas[0]),
	    false);
	mt_rig_gateway_restart(rig);
	mt_rig_gateway_kill(rig);
	for (uint32_t i = 0; i < 3; i++)
		if (rig->nodes[i].node == NULL)
			mt_rig_node_start(rig, i);
	cr_assert_eq(meta_store_restore(rig->store, old), 0);
	meta_snapshot_destroy(old);
	for (uint32_t i = 0; i < 4; i++) {
		mt_rig_gateway_start(rig);
		mt_rig_run(rig, NUM_S(20));
		cr_assert_neq(mt_rig_shard(rig, 0)->sm.state, MT_SHARD_SERVING);
		mt_rig_gateway_kill(rig);
	}
	cr_assert(mt_rig_logged(rig, "the metadata store is stale"));
	mt_rig_run(rig, NUM_S(5));
	cr_assert_eq(rebuild(false, NULL), 0);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
}

Test(rebuild, manifest_that_nobody_can_read_is_not_replaced_by_nothing)
{
	struct extent_id id;

	make_volume("a", 1);
	id = mt_rig_shard(rig, 0)->root->manifest;
	lose_store();
	for (uint32_t i = 0; i < 3; i++)
		spoil_manifest(&id, i);
	expect_refused(-ENODATA, "shard 0");
}

Test(rebuild, manifest_of_a_newer_release_is_left_to_it)
{
	make_volume("a", 1);
	cr_assert_eq(mt_rig_commit_newer(rig), 0);
	lose_store();
	expect_refused(-EPROTONOSUPPORT, "written shard 0: run cleave recover of that one");
}

Test(rebuild, empty_nodes_hold_no_cluster)
{
	lose_store();
	for (uint32_t i = 0; i < 3; i++) {
		mt_rig_node_kill(rig, i, false);
		mt_rig_node_blank(rig, i);
		mt_rig_node_start(rig, i);
	}
	mt_rig_run(rig, NUM_S(1));
	expect_refused(-ENODATA, "there is no cluster");
}

/* A recovery that is refused leaves no directory with an empty store behind. */
Test(rebuild, store_is_made_for_a_rebuild_that_is_not_refused)
{
	struct outcome outcome;

	make_volume("a", 1);
	write_blocks(0, 4);
	lose_store();
	is_storeless = true;
	rebuild_start(&outcome, false, 3);
	cr_assert(mt_rig_run_until(rig, is_done, &outcome));
	cr_assert_eq(outcome.rc, -EINVAL, "%s", outcome.text);
	cr_assert_null(outcome.meta);
	rebuild_end(&outcome);
	rebuild_start(&outcome, false, 2);
	cr_assert(mt_rig_run_until(rig, is_done, &outcome));
	cr_assert_eq(outcome.rc, 0, "%s", outcome.text);
	cr_assert_not_null(outcome.meta);
	rebuild_end(&outcome);
	start_and_expect(1, 4);
}

Test(rebuild, wrong_number_of_shards_is_named)
{
	struct outcome outcome;

	lose_store();
	rebuild_start(&outcome, false, 3);
	cr_assert(mt_rig_run_until(rig, is_done, &outcome));
	cr_assert_eq(outcome.rc, -EINVAL);
	cr_assert_not_null(strstr(outcome.text, "of 2 shards, not of 3"), "%s", outcome.text);
	rebuild_end(&outcome);
}

Test(rebuild, store_that_does_not_answer_is_left)
{
	lose_store();
	meta_store_set_down(rig->store, true);
	expect_refused(-ETIMEDOUT, "the metadata store cannot be read");
}

/* ---- cut off ---- */

Test(rebuild, killed_at_any_time_it_can_be_run_again)
{
	struct outcome outcome;
	uint32_t round = 0;

	make_volume("a", 1);
	write_blocks(0, 4);
	lose_store();
	do {
		rebuild_start(&outcome, false, 0);
		mt_rig_run(rig, NUM_US(200) * ++round);
		rebuild_end(&outcome);
		mt_rig_run(rig, NUM_MS(10));
	} while (!outcome.is_done);
	cr_assert_gt(round, 5);
	/* Done or nearly so: either it is whole, or it can be made whole. */
	if (outcome.rc != 0 && outcome.rc != -EEXIST)
		expect_rebuilt();
	start_and_expect(1, 4);
}

Test(rebuild, nth_allocation_fails)
{
	bool is_over = false;

	make_volume("a", 1);
	write_blocks(0, 4);
	lose_store();
	for (fail_nth = 1; !is_over; fail_nth++) {
		struct outcome outcome;

		rebuild_start(&outcome, true, 0);
		if (outcome.rebuild != NULL)
			cr_assert(mt_rig_run_until(rig, is_done, &outcome));
		is_over = !mt_alloc_has_failed();
		mt_alloc_fail_at(0);
		cr_assert(!is_over || outcome.rc == 0);
		rebuild_end(&outcome);
		mt_rig_run(rig, NUM_MS(10));
	}
	cr_assert_gt(fail_nth, 20);
	start_and_expect(1, 4);
}
