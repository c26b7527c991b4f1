/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_flush.c -- what is flushed and when, and a gateway that is killed at any time of it
 *
 * A real gateway and real nodes in virtual time (mt_rig.h). The log is written behind the gateway's back
 * and replayed; then the gateway is left alone.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "middletier/catalog/scope.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/gateway/gateway.h"
#include "middletier/index/index.h"
#include "middletier/index/index_cuts.h"
#include "middletier/index/memtable.h"
#include "middletier/index/run_load.h"
#include "middletier/manifest/edit.h"
#include "middletier/merge/flush.h"
#include "middletier/merge/merge_work.h"
#include "middletier/merge/pace.h"
#include "middletier/merge/reclaim_room.h"
#include "middletier/write/cut.h"
#include "support/mt_rig.h"

#define ALL 7u /* replicas */
#define CLONE (wire_segment(1, wire_segment_root(1)))
#define BLOCKS 40u     /* that make_log writes, twice over */
#define APPEND_MAX 16u /* blocks of a batch */

static struct mt_rig *rig;

static void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .slot_bytes = NUM_MIB(1) });
	mt_rig_log_start(rig);
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(flush, .init = setup, .fini = teardown);

static struct mt_chunk *
chunk(void)
{
	return mt_index_chunk(mt_rig_shard(rig, 0)->block_index, mt_chunk_number(1, 0));
}

static void
write_log(struct mt_extent *extent, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i += APPEND_MAX)
		cr_assert_eq(mt_rig_append(rig, extent, first + i,
				 (uint32_t)num_min(count - i, APPEND_MAX), ALL, UINT64_MAX),
		    0);
}

/* Records 1 to 40 are blocks 0 to 39; 41 to 60 are blocks 10 to 29 again. */
static void
make_log(void)
{
	struct mt_extent *extent;

	mt_rig_up(rig);
	extent = mt_rig_log_open(rig);
	cr_assert_not_null(extent);
	write_log(extent, 0, BLOCKS);
	write_log(extent, 10, 20);
	mt_rig_gateway_restart(rig);
	cr_assert_not_null(chunk());
	cr_assert_eq(chunk()->layer_count, 1);
}

static struct {
	int rc;
	bool is_done;
} loaded;

static void
on_loaded(int rc, void *arg)
{
	(void)arg;
	loaded.rc = rc;
	loaded.is_done = true;
}

static bool
is_loaded(void *arg)
{
	(void)arg;
	return loaded.is_done;
}

static void
expect_block(uint32_t block, uint64_t sequence)
{
	struct mt_index *index = mt_rig_shard(rig, 0)->block_index;
	struct mt_location location;
	struct mt_scope scope;
	struct mt_run *run;
	uint8_t data[CLEAVE_BLOCK_BYTES];
	enum mt_found found;

	mt_scope_init(&scope, 1);
	while ((found = mt_index_find(index, &scope, 1, block, &location, &run)) ==
	    MT_FOUND_UNLOADED) {
		struct mt_run_waiter waiter = { .fn = on_loaded };

		loaded.is_done = false;
		mt_run_load(run, &waiter);
		cr_assert(mt_rig_run_until(rig, is_loaded, NULL));
		cr_assert_eq(loaded.rc, 0);
	}
	cr_assert_eq(found, MT_FOUND_RECORD, "block %u", block);
	memset(data, (int)sequence, sizeof(data));
	cr_assert_eq(location.block_crc, crc32c(0, data, sizeof(data)), "block %u", block);
}

static void
expect_log(void)
{
	for (uint32_t i = 0; i < BLOCKS; i++)
		expect_block(i, i < 10 || i >= 30 ? i + 1 : i + 31);
}

static bool
is_flushed(void *arg)
{
	(void)arg;
	return chunk() != NULL && chunk()->layer_count == 0 && chunk()->run_count > 0;
}

static uint32_t
extents_of(enum extent_kind kind)
{
	const struct mt_shard *shard = mt_rig_shard(rig, 0);
	uint32_t count = 0;

	for (uint32_t i = 0; i < shard->extent_count; i++)
		count += shard->extents[i] != NULL && shard->extents[i]->kind == kind;
	return count;
}

Test(flush, a_layer_that_is_old_becomes_a_run_and_its_log_goes)
{
	make_log();
	cr_assert_gt(extents_of(EXTENT_LOG), 0);
	cr_assert(mt_rig_run_until(rig, is_flushed, NULL));
	mt_rig_run(rig, NUM_S(1));
	cr_assert_leq(extents_of(EXTENT_LOG), 1, "the one for new writes");
	cr_assert_geq(mt_gateway_metric(rig->gateway, MT_METRIC_extents_reclaimed), 1);
	cr_assert_eq(chunk()->run_count, 1);
	expect_log();
}

/* Blocks of a few bytes each: nearly all of the batch is padding, and none of it is to be had. */
Test(flush, a_run_that_a_merge_would_not_make_smaller_is_left_alone)
{
	make_log();
	cr_assert(mt_rig_run_until(rig, is_flushed, NULL));
	mt_rig_run(rig, NUM_S(60));
	cr_assert_eq(mt_gateway_metric(rig->gateway, MT_METRIC_compactions), 0);
	cr_assert_eq(chunk()->run_count, 1);
}

Test(flush, what_was_flushed_is_not_replayed)
{
	make_log();
	cr_assert(mt_rig_run_until(rig, is_flushed, NULL));
	mt_rig_gateway_restart(rig);
	cr_assert_eq(chunk()->layer_count, 0);
	cr_assert_eq(chunk()->run_count, 1);
	cr_assert_eq(mt_rig_shard(rig, 0)->next_sequence, 61);
	expect_log();
}

Test(flush, a_young_layer_stays)
{
	make_log();
	mt_rig_run(rig, NUM_S(30));
	cr_assert_eq(chunk()->layer_count, 1);
	cr_assert_eq(chunk()->run_count, 0);
}

Test(flush, what_is_old_is_for_the_gateways_options_to_say)
{
	rig->gateway_options.flush_age_ns = NUM_S(10);
	make_log();
	mt_rig_run(rig, NUM_S(2));
	cr_assert_eq(chunk()->layer_count, 1, "it is not that old yet");
	mt_rig_run(rig, NUM_S(20));
	cr_assert_eq(chunk()->layer_count, 0);
	cr_assert_eq(chunk()->run_count, 1);
	expect_log();
}

static bool
has_begun(void *arg)
{
	(void)arg;
	return extents_of(EXTENT_RUN) > 0;
}

/* From the moment that the run extent is there, step by step until the flush has come through. */
Test(flush, killed_at_any_time_of_it_nothing_is_lost, .timeout = 120)
{
	bool was_flushed = false;

	for (uint64_t delay_ns = 0; !was_flushed; delay_ns += NUM_US(50)) {
		cr_assert_lt(delay_ns, NUM_MS(20));
		if (delay_ns > 0) {
			teardown();
			setup();
		}
		make_log();
		cr_assert(mt_rig_run_until(rig, has_begun, NULL));
		mt_rig_run(rig, delay_ns);
		was_flushed = is_flushed(NULL);
		mt_rig_gateway_restart(rig);
		expect_log();
		cr_assert_eq(mt_rig_shard(rig, 0)->next_sequence, 61);
	}
}

/* ---- a log that is too long ---- */

/* The log is of this life: how long its extents are is known. */
static bool
is_half_merged(void *arg)
{
	struct mt_shard *shard;

	(void)arg;
	if (rig->gateway->ports == NULL || mt_rig_port(rig)->shards == NULL)
		return false;
	shard = mt_rig_shard(rig, 0);
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		if (shard->extents[i] != NULL && shard->extents[i]->kind == EXTENT_LOG)
			shard->extents[i]->capacity_bytes = NUM_MIB(1);
	}
	return mt_merge_progress(shard) >= 500;
}

/* Three extents of a MiB, which is the soft limit of so small a disk. */
static void
make_long_log(void)
{
	mt_rig_up(rig);
	for (uint32_t i = 0; i < 3; i++) {
		struct mt_extent *extent = mt_rig_log_open(rig);
		uint32_t block = 0;

		cr_assert_not_null(extent);
		while (extent->end_bytes < NUM_MIB(1) - NUM_KIB(256)) {
			write_log(extent, block, APPEND_MAX);
			block = (block + APPEND_MAX) % (uint32_t)CLEAVE_CHUNK_BLOCKS;
		}
		mt_rig_log_seal(rig, extent);
	}
}

/* Extents go when the merge has ended: what it has done meanwhile gives writes no room. */
Test(flush, a_merge_does_not_slow_down_while_writes_wait_for_it)
{
	struct mt_shard *shard;
	uint32_t pressure;

	make_long_log();
	mt_rig_gateway_kill(rig);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_run_until(rig, is_half_merged, NULL));
	shard = mt_rig_shard(rig, 0);
	pressure = mt_reclaim_pressure(shard, 0);
	cr_assert_geq(pressure, PACE_HURRY);
	cr_assert_lt(mt_flush_pressure(shard), pressure, "none waits");
	mt_reclaim_note_held(shard);
	cr_assert_eq(mt_flush_pressure(shard), pressure);
}

Test(flush, without_nodes_it_waits_and_goes_on)
{
	make_log();
	for (uint32_t i = 0; i < 3; i++)
		mt_rig_node_kill(rig, i, false);
	mt_rig_run(rig, NUM_S(100));
	cr_assert_eq(chunk()->layer_count, 1);
	for (uint32_t i = 0; i < 3; i++)
		mt_rig_node_start(rig, i);
	cr_assert(mt_rig_run_until(rig, is_flushed, NULL));
	expect_log();
}

Test(flush, a_shard_that_is_released_meanwhile_comes_to_rest)
{
	make_log();
	cr_assert(mt_rig_run_until(rig, has_begun, NULL));
	mt_rig_gateway_stop(rig);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
}

/* ---- a manifest that is long ---- */

#define SPREAD 10u /* chunks, a block in each */
#define RUNS_MAX 4u

static struct mt_chunk *
spread_chunk(uint32_t i)
{
	return mt_index_chunk(mt_rig_shard(rig, 0)->block_index,
	    mt_chunk_number(1, i * CLEAVE_CHUNK_BLOCKS));
}

static void
spread_log(uint32_t first, uint32_t count)
{
	struct mt_extent *extent = mt_rig_log_open(rig);

	cr_assert_not_null(extent);
	for (uint32_t i = first; i < first + count; i++)
		cr_assert_eq(mt_rig_append(rig, extent, i * CLEAVE_CHUNK_BLOCKS, 1, ALL,
				 UINT64_MAX),
		    0);
	mt_rig_gateway_restart(rig);
}

static uint64_t
run_count(void)
{
	return mt_rig_shard(rig, 0)->block_index->run_count;
}

static uint32_t
spread_layers(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SPREAD; i++)
		count += spread_chunk(i) != NULL && spread_chunk(i)->layer_count > 0;
	return count;
}

/* The log keeps what runs may not have; nothing stops, and everything is found. */
Test(flush, a_long_manifest_gets_no_more_runs)
{
	rig->gateway_options.manifest_bytes = RUNS_MAX * UINT64_C(52);
	mt_rig_up(rig);
	spread_log(0, SPREAD);
	mt_rig_run(rig, NUM_S(600));
	cr_assert_eq(run_count(), RUNS_MAX);
	cr_assert_eq(spread_layers(), SPREAD - RUNS_MAX);
	cr_assert(mt_rig_logged(rig, "its manifest is long"));
	cr_assert_eq(mt_rig_shard(rig, 0)->sm.state, MT_SHARD_SERVING);
	for (uint32_t i = 0; i < SPREAD; i++)
		expect_block(i * CLEAVE_CHUNK_BLOCKS, i + 1);
	/* A take-over finds the same, and goes on when more may be there. */
	mt_rig_gateway_kill(rig);
	rig->gateway_options.manifest_bytes = 0;
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	mt_rig_run(rig, NUM_S(600));
	cr_assert_eq(run_count(), SPREAD);
	cr_assert_eq(spread_layers(), 0);
	for (uint32_t i = 0; i < SPREAD; i++)
		expect_block(i * CLEAVE_CHUNK_BLOCKS, i + 1);
}

static void
spread_cut(enum mt_edit_kind kind)
{
	const struct mt_edit edit = { .kind = kind,
		.cut = 1,
		.sequence = mt_rig_shard(rig, 0)->next_sequence,
		.segment_base = 1,
		.segment_count = 1 };

	cr_assert_eq(mt_rig_commit(rig, &edit, 1), 0);
	mt_rig_gateway_restart(rig);
}

/* Blocks that a snapshot shows must be hidden from the volume: a run for each discarded chunk. */
Test(flush, discards_over_a_snapshot_are_no_more_runs_of_a_long_manifest)
{
	mt_rig_up(rig);
	spread_log(0, SPREAD);
	mt_rig_run(rig, NUM_S(600));
	cr_assert_eq(run_count(), SPREAD);
	rig->gateway_options.manifest_bytes = SPREAD * UINT64_C(52);
	spread_cut(MT_EDIT_CUT);
	rig->appends_no_write = true;
	spread_log(0, SPREAD);
	mt_rig_run(rig, NUM_S(600));
	cr_assert_eq(run_count(), SPREAD);
	cr_assert_eq(spread_layers(), SPREAD);
	cr_assert(mt_rig_logged(rig, "its manifest is long"));
	/* The snapshot goes: the discards take what they hid along. */
	spread_cut(MT_EDIT_CUT_DROPPED);
	mt_rig_run(rig, NUM_S(600));
	cr_assert_eq(run_count(), 0);
	cr_assert_eq(spread_layers(), 0);
}

static void
disks_fail_reads(bool is_failing)
{
	for (uint32_t i = 0; i < 3; i++)
		disk_sim_set_faults(rig->nodes[i].disk,
		    &(struct disk_sim_faults){ .read_fails = is_failing ? 1000 : 0 });
}

Test(flush, layers_that_no_disk_reads_stay_and_are_told_until_one_does)
{
	make_log();
	disks_fail_reads(true);
	mt_rig_run(rig, NUM_S(300));
	cr_assert_eq(mt_rig_shard(rig, 0)->sm.state, MT_SHARD_SERVING);
	cr_assert_eq(chunk()->layer_count, 1);
	cr_assert_geq(mt_flush_unread_ns(mt_rig_shard(rig, 0)), NUM_S(60));
	disks_fail_reads(false);
	mt_rig_run(rig, NUM_S(180));
	cr_assert_eq(chunk()->layer_count, 0);
	cr_assert_eq(mt_flush_unread_ns(mt_rig_shard(rig, 0)), 0);
	expect_log();
}

/* A copy for a clone is a merge as well. */
Test(flush, a_copy_that_no_disk_reads_is_told_with_its_clone)
{
	const struct mt_index_cut cut = { 9, 1, 1 };
	struct mt_scope scope, origin;
	struct mt_shard *shard;

	make_log();
	mt_rig_run(rig, NUM_S(300));
	cr_assert_eq(chunk()->run_count, 1);
	shard = mt_rig_shard(rig, 0);
	cr_assert_eq(mt_index_add_cut(shard->block_index, &cut), 0);
	mt_scope_init(&scope, 1);
	mt_scope_before(&scope, 9, &origin);
	cr_assert_eq(mt_scope_above(CLONE, 0, &origin, &scope), 0);
	disks_fail_reads(true);
	cr_assert_eq(mt_flush_flatten(shard, &scope, 0), -EAGAIN);
	mt_rig_run(rig, NUM_S(60));
	cr_assert_geq(mt_flush_unread_ns(shard), NUM_S(30));
	cr_assert_eq(mt_flush_unread_clone(shard), CLONE);
	disks_fail_reads(false);
	mt_rig_run(rig, NUM_S(180));
	cr_assert_eq(mt_flush_flatten(shard, &scope, 0), 0);
	cr_assert_eq(mt_flush_unread_ns(shard), 0);
	cr_assert_eq(mt_flush_unread_clone(shard), 0);
}

#define UNREAD                                                                                     \
	40u /* chunks: more than would be tried a second apart before the first is due again */

/* Each has been tried, and none is due again. */
static bool
are_all_put_off(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < UNREAD; i++) {
		const struct mt_chunk *tried = spread_chunk(i);

		if (tried->pin != MT_PIN_COPY || tried->retry_ns <= sim_world_now_ns(rig->world))
			return false;
	}
	return true;
}

Test(flush, many_chunks_that_no_disk_reads_keep_none_from_its_turn)
{
	mt_rig_up(rig);
	spread_log(0, UNREAD);
	disks_fail_reads(true);
	cr_assert(mt_rig_run_until(rig, are_all_put_off, NULL) ||
	    mt_rig_run_until(rig, are_all_put_off, NULL));
	disks_fail_reads(false);
	mt_rig_run(rig, NUM_S(180));
	for (uint32_t i = 0; i < UNREAD; i++)
		expect_block(i * CLEAVE_CHUNK_BLOCKS, i + 1);
	cr_assert_eq(run_count(), UNREAD);
}

/* Each snapshot has a layer of its own; their cuts go before any of them is flushed. */
Test(flush, more_layers_of_snapshots_that_have_gone_than_a_merge_takes, .timeout = 300)
{
	const uint32_t count = 125; /* MERGE_INPUTS_MAX is 120 */
	struct mt_extent *extent;
	struct mt_shard *shard;

	mt_rig_up(rig);
	extent = mt_rig_log_open(rig);
	cr_assert_not_null(extent);
	shard = mt_rig_shard(rig, 0);
	for (uint32_t i = 0; i < count; i++) {
		const struct mt_edit edit = { .kind = MT_EDIT_CUT,
			.cut = i + 1,
			.sequence = shard->next_sequence,
			.segment_base = 1,
			.segment_count = 1 };

		cr_assert_eq(mt_rig_append(rig, extent, i % 4, 1, ALL, UINT64_MAX), 0);
		cr_assert_eq(mt_rig_commit(rig, &edit, 1), 0);
		shard->cut = i + 1;
	}
	mt_rig_gateway_restart(rig);
	shard = mt_rig_shard(rig, 0);
	cr_assert_eq(chunk()->layer_count, count);
	for (uint32_t i = 0; i < count; i++) {
		while (mt_cut_drop(shard, i + 1) != 0)
			mt_rig_run(rig, NUM_MS(10));
	}
	cr_assert_eq(mt_index_cut_count(shard->block_index), 0);
	cr_assert(mt_rig_run_until(rig, is_flushed, NULL));
	for (uint32_t i = 0; i < 4; i++)
		expect_block(i, i + 1 + (count - 1 - i) / 4 * 4);
}
