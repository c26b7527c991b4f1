/* SPDX-License-Identifier: Apache-2.0 */
/* test_reclaim.c -- what holds nothing goes, what may be needed stays; how long the log may be */
#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/common/metric.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/index/index.h"
#include "middletier/manifest/edit.h"
#include "middletier/merge/pace.h"
#include "middletier/merge/reclaim.h"
#include "middletier/merge/reclaim_room.h"
#include "unit/fake_port.h"

static void
setup(void)
{
	fake_init(1, false);
	fake_set_slot_bytes(NUM_KIB(256));
	fake_start();
	mt_reclaim_start(&fake.shard);
}

static void
teardown(void)
{
	fake_fini();
}

TestSuite(reclaim, .init = setup, .fini = teardown);

static uint64_t
metric(enum mt_metric metric)
{
	return fake.port.metrics[metric];
}

static uint32_t
extents_of(enum extent_kind kind)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < fake.shard.extent_count; i++)
		count += fake.shard.extents[i] != NULL && fake.shard.extents[i]->kind == kind;
	return count;
}

static uint32_t
copies_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		for (uint32_t k = 0; k < fake.nodes[i].copy_count; k++)
			count += fake.nodes[i].copies[k].exists;
	return count;
}

/* Blocks that do not compress: sixteen of them are 64 KiB of log. */
static void
write_chunk(uint32_t chunk, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(fake_wait(
				 fake_write(chunk * (uint32_t)CLEAVE_CHUNK_BLOCKS + 16 * i, 16, 4)),
		    0);
	fake_run_for(NUM_MS(10));
}

/* As a merge does that has found nothing worth keeping. */
static void
drop_layers(uint32_t chunk_index)
{
	struct mt_chunk *chunk = mt_index_chunk(fake.shard.block_index,
	    mt_chunk_number(FAKE_SEGMENT, chunk_index * (uint32_t)CLEAVE_CHUNK_BLOCKS));
	struct loop_link *link;

	cr_assert_not_null(chunk);
	cr_assert_eq(mt_index_freeze(chunk), 0);
	while ((link = list_first(&chunk->layers)) != NULL)
		mt_index_remove_layer(LIST_ENTRY(link, struct mt_layer, link));
	(void)mt_index_drop_empty(chunk);
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_MS(100));
}

/* ---- log extents ---- */

Test(reclaim, a_log_that_layers_need_stays)
{
	write_chunk(0, 20);
	cr_assert_gt(extents_of(EXTENT_LOG), 4);
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_S(1));
	cr_assert_eq(metric(MT_METRIC_extents_reclaimed), 0);
}

Test(reclaim, the_log_goes_up_to_the_oldest_layer)
{
	uint32_t log_count, copies;
	uint64_t log_bytes;

	write_chunk(0, 10);
	write_chunk(1, 10);
	drop_layers(1);
	cr_assert_eq(metric(MT_METRIC_extents_reclaimed), 0, "chunk 0 is older");
	write_chunk(2, 1);
	log_count = extents_of(EXTENT_LOG);
	log_bytes = fake.shard.log_bytes;
	copies = copies_count();
	drop_layers(0);
	cr_assert_geq(metric(MT_METRIC_extents_reclaimed), 5);
	cr_assert_eq(extents_of(EXTENT_LOG), log_count - metric(MT_METRIC_extents_reclaimed));
	cr_assert_eq(copies_count(), copies - 3 * metric(MT_METRIC_extents_reclaimed));
	cr_assert_lt(fake.shard.log_bytes, log_bytes);
	cr_assert_geq(metric(MT_METRIC_reclaimed_bytes), NUM_KIB(64) * 15);
	fake_expect(2 * (uint32_t)CLEAVE_CHUNK_BLOCKS, 4);
	fake_expect(0, 0);
}

Test(reclaim, the_edits_come_before_the_deletes)
{
	uint32_t copies;

	write_chunk(0, 10);
	copies = copies_count();
	fake.commit_rc = -EIO;
	drop_layers(0);
	fake_run_for(NUM_S(1));
	cr_assert_eq(copies_count(), copies);
	fake.commit_rc = 0;
	fake_run_for(NUM_S(1));
	cr_assert_lt(copies_count(), copies);
	cr_assert_eq(fake.edits[fake.edit_count - 1].kind, MT_EDIT_EXTENT_DELETED);
}

Test(reclaim, another_owner_ends_the_shard)
{
	write_chunk(0, 10);
	fake.commit_rc = -ESTALE;
	drop_layers(0);
	cr_assert_eq(fake.stop_rc, -ESTALE);
	cr_assert_eq(metric(MT_METRIC_extents_reclaimed), 0);
}

Test(reclaim, stopped_it_deletes_nothing)
{
	write_chunk(0, 10);
	mt_reclaim_kick(&fake.shard);
	mt_reclaim_stop(&fake.shard);
	drop_layers(0);
	cr_assert_eq(metric(MT_METRIC_extents_reclaimed), 0);
	mt_reclaim_start(&fake.shard);
	fake_run_for(NUM_MS(100));
	cr_assert_gt(metric(MT_METRIC_extents_reclaimed), 0);
}

Test(reclaim, many_extents_go_commit_by_commit)
{
	write_chunk(0, 60);
	cr_assert_gt(extents_of(EXTENT_LOG), 17);
	drop_layers(0);
	cr_assert_leq(extents_of(EXTENT_LOG), 2, "the open one and a spare");
	write_chunk(0, 10);
	fake_expect(0, 4);
}

Test(reclaim, a_read_that_is_under_way_looks_again)
{
	struct fake_msg *msg;

	write_chunk(0, 10);
	for (uint32_t i = 0; i < 40; i++) /* it leaves the ring */
		cr_assert_eq(fake_wait(fake_write((uint32_t)CLEAVE_CHUNK_BLOCKS + 16 * i, 16, 4)),
		    0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_stalled = true;
	msg = fake_read(0, 1);
	drop_layers(0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_resume(i);
	cr_assert_eq(fake_wait(msg), 0);
}

/* ---- run extents ---- */

static void
on_created(struct mt_extent *extent, int rc, void *arg)
{
	cr_assert_eq(rc, 0);
	*(struct mt_extent **)arg = extent;
}

static struct mt_extent *
make_run_extent(void)
{
	struct mt_extent *extent = NULL;

	cr_assert_not_null(mt_extent_create(&fake.shard, EXTENT_RUN, on_created, &extent));
	fake_run_for(NUM_MS(10));
	cr_assert_not_null(extent);
	cr_assert_eq(mt_shard_extent_add(&fake.shard, extent), 0);
	return extent;
}

Test(reclaim, a_run_extent_goes_with_its_last_run)
{
	struct mt_extent *extent = make_run_extent();
	struct mt_run like = { .extent_index = extent->index,
		.length_bytes = 8192,
		.flushed_sequence = 5 };
	struct mt_run *runs[2];

	for (uint32_t i = 0; i < 2; i++)
		runs[i] = mt_index_add_run(fake.shard.block_index, i, &like);
	mt_extent_seal(extent, 16384);
	mt_index_remove_run(runs[0]);
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_MS(100));
	cr_assert_eq(extents_of(EXTENT_RUN), 1);
	mt_index_remove_run(runs[1]);
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_MS(100));
	cr_assert_eq(extents_of(EXTENT_RUN), 0);
	cr_assert_eq(metric(MT_METRIC_reclaimed_bytes), 16384);
}

Test(reclaim, a_run_extent_that_is_open_or_in_use_stays)
{
	struct mt_extent *extent = make_run_extent();

	mt_extent_use(extent);
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_MS(100));
	mt_extent_seal(extent, 0);
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_MS(100));
	cr_assert_eq(extents_of(EXTENT_RUN), 1);
	mt_extent_unuse(extent);
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_MS(100));
	cr_assert_eq(extents_of(EXTENT_RUN), 0);
}

/* A slot that is free is used again: here young log extents stand before old ones, and all of them among runs' extents. */
Test(reclaim, of_more_than_a_commit_takes_the_log_goes_first_and_from_its_oldest_on)
{
	enum { EARLY = 8, RUNS = MT_COMMIT_EDITS_MAX + EARLY };
	struct mt_extent *runs[RUNS];
	uint32_t log_count;
	uint64_t last = 0;

	for (uint32_t i = 0; i < RUNS; i++)
		runs[i] = make_run_extent();
	write_chunk(0, 10);
	for (uint32_t i = 0; i < EARLY; i++)
		mt_extent_seal(runs[i], 0);
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_MS(100));
	cr_assert_eq(extents_of(EXTENT_RUN), RUNS - EARLY);
	write_chunk(0, 10);
	log_count = extents_of(EXTENT_LOG);
	fake.edit_count = 0;
	for (uint32_t i = EARLY; i < RUNS; i++)
		mt_extent_seal(runs[i], 0);
	drop_layers(0);
	cr_assert_eq(extents_of(EXTENT_RUN), 0);
	log_count -= extents_of(EXTENT_LOG);
	cr_assert_geq(log_count, 4);
	for (uint32_t i = 0; i < log_count; i++) {
		cr_assert_eq(fake.edits[i].kind, MT_EDIT_EXTENT_DELETED);
		cr_assert_gt(extent_id_pack(&fake.edits[i].id), last, "edit %u", i);
		last = extent_id_pack(&fake.edits[i].id);
	}
}

/* ---- limits ---- */

static void
set_slots(uint64_t slots_total, uint64_t log_bytes)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slots_total = slots_total;
	fake.settings.log_bytes = log_bytes;
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_MS(10));
}

static uint32_t
soft_limit(void)
{
	uint32_t count = 0;

	while (!(mt_reclaim_pressure(&fake.shard, 0) >= PACE_HURRY)) {
		cr_assert_not(mt_reclaim_is_log_full(&fake.shard));
		write_chunk(0, 3);
		cr_assert_lt(count++, 200);
	}
	return extents_of(EXTENT_LOG);
}

Test(reclaim, the_log_is_as_long_as_the_option_says)
{
	set_slots(1000, NUM_MIB(4));
	cr_assert_eq(soft_limit(), 17);
}

Test(reclaim, the_log_takes_at_most_an_eighteenth_of_the_shards_share)
{
	set_slots(108, NUM_GIB(1)); /* of 5 nodes, 3 copies: 180 */
	cr_assert_eq(soft_limit(), 11);
}

Test(reclaim, the_log_has_three_extents_at_least)
{
	set_slots(1000, 1);
	cr_assert_eq(soft_limit(), 4);
}

Test(reclaim, without_a_word_from_the_nodes_there_is_no_limit)
{
	write_chunk(0, 60);
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_MS(10));
	cr_assert_not((mt_reclaim_pressure(&fake.shard, 0) >= PACE_HURRY));
	cr_assert_not(mt_reclaim_is_log_full(&fake.shard));
}

Test(reclaim, without_memory_there_is_none)
{
	struct mt_shard shard = { .port = &fake.port };

	mt_alloc_fail_at(1);
	cr_assert_eq(mt_reclaim_init(&shard), -ENOMEM);
	mt_alloc_fail_at(0);
	cr_assert_not(mt_reclaim_is_log_full(&shard));
	mt_reclaim_kick(&shard);
	mt_reclaim_fini(&shard);
}
