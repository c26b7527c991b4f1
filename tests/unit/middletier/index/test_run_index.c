/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_index.c -- indexes of runs: read from any copy, checked, shared, held, and bounded */
#include "base/crc32c.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/index/index.h"
#include "middletier/index/memtable.h"
#include "middletier/index/run_builder.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "unit/fake_runs.h"

#define CHUNK mt_chunk_number(FAKE_SEGMENT, 0)
#define WAITERS 8u

static struct waiter {
	struct mt_run_waiter waiter;
	struct mt_run *run;
	uint32_t told_count;
	int rc;
	bool has_index; /* when it was told */
} waiters[WAITERS];

static void
setup(void)
{
	fake_runs_start(41);
	memset(waiters, 0, sizeof(waiters));
}

TestSuite(run_index, .init = setup, .fini = fake_runs_fini);

static void
on_told(int rc, void *arg)
{
	struct waiter *waiter = arg;

	waiter->told_count++;
	waiter->rc = rc;
	waiter->has_index = rc == 0 && waiter->run->index != NULL;
	cr_assert(rc != 0 || waiter->has_index);
}

static void
ask(uint32_t i, struct mt_run *run)
{
	waiters[i] = (struct waiter){ .run = run };
	waiters[i].waiter.fn = on_told;
	waiters[i].waiter.arg = &waiters[i];
	mt_run_load(run, &waiters[i].waiter);
	cr_assert_eq(waiters[i].told_count, 0, "told from within the call");
}

static int
load(struct mt_run *run)
{
	ask(0, run);
	fake_run_for(NUM_S(5));
	cr_assert_eq(waiters[0].told_count, 1);
	return waiters[0].rc;
}

/* Three batches with all kinds of frames: 10..13 raw, discards, zeros, a lost block, single blocks. */
static struct mt_run *
sample(void)
{
	if (fake_runs.length > NUM_KIB(384))
		fake_runs_extent();
	fake_runs_batch(CHUNK, 77, 3);
	fake_runs_frame(RECORD_WRITE, 10, 4, 4);
	fake_runs_frame(RECORD_DISCARD, 14, 1000, 0);
	fake_runs_batch_end();
	fake_runs_batch(CHUNK, 77, 3);
	fake_runs_frame(RECORD_ZEROES, 2000, 16, 0);
	fake_runs_frame(RECORD_LOST, 2016, 1, 0);
	fake_runs_frame(RECORD_WRITE, 2017, 16, 5);
	fake_runs_batch_end();
	fake_runs_batch(CHUNK, 77, 3);
	fake_runs_frame(RECORD_WRITE, CLEAVE_CHUNK_BLOCKS - 1, 1, 6);
	fake_runs_batch_end();
	return fake_runs_end();
}

static void
expect_sample(struct mt_run *run)
{
	struct mt_location at;
	uint8_t pattern[CLEAVE_BLOCK_BYTES];

	cr_assert_not_null(run->index);
	cr_assert_eq(run->index->frame_count, 6);
	cr_assert_eq(run->index->crc_count, 21);
	cr_assert_eq(run->index->live_bytes, 21 * CLEAVE_BLOCK_BYTES);
	cr_assert_not(mt_run_find(run, 9, &at));
	cr_assert_not(mt_run_find(run, 1014, &at));
	cr_assert_not(mt_run_find(run, 2033, &at));
	cr_assert_not(mt_run_find(run, CLEAVE_CHUNK_BLOCKS - 2, &at));
	cr_assert(mt_run_find(run, 12, &at));
	fake_pattern(pattern, 12, 4);
	cr_assert_eq(at.block_crc, crc32c(0, pattern, sizeof(pattern)));
	cr_assert_eq(at.block_in_record, 2);
	cr_assert_eq(at.record_blocks, 4);
	cr_assert_eq(at.stored_bytes, 16384);
	cr_assert_eq(at.ring_position, 0);
	cr_assert_eq(at.extent_index, run->extent_index);
	cr_assert(mt_run_find(run, 1013, &at));
	cr_assert_eq(at.record_kind, RECORD_DISCARD);
	cr_assert_eq(at.stored_bytes, 0);
	cr_assert(mt_run_find(run, 2000, &at));
	cr_assert_eq(at.record_kind, RECORD_ZEROES);
	cr_assert(mt_run_find(run, 2016, &at));
	cr_assert_eq(at.record_kind, RECORD_LOST);
	cr_assert(mt_run_find(run, 2032, &at));
	cr_assert_eq(at.block_in_record, 15);
	cr_assert(mt_run_find(run, CLEAVE_CHUNK_BLOCKS - 1, &at));
	cr_assert_eq(at.record_blocks, 1);
}

Test(run_index, every_kind_of_frame_is_found)
{
	struct mt_run *run = sample();

	cr_assert_eq(load(run), 0);
	expect_sample(run);
	cr_assert_eq(fake_read_count(), 3, "one read a head");
	cr_assert_eq(mt_run_cache_bytes(&fake.port), mt_run_index_bytes(run->index));
}

Test(run_index, a_run_in_the_middle_of_an_extent)
{
	struct mt_run *run;

	(void)fake_runs_one(1, 0, 16, 9);
	run = sample();
	(void)fake_runs_one(2, 0, 16, 9);
	cr_assert_gt(run->offset_bytes, 0);
	cr_assert_eq(load(run), 0);
	expect_sample(run);
}

Test(run_index, heads_of_any_length)
{
	struct mt_run *run;
	struct mt_location at;

	/* Longer than what is read at first, and as long as can be. */
	for (uint32_t i = 0; i < 2; i++) {
		fake_runs_batch(CHUNK, 5, 0);
		for (uint32_t k = 0; k < 200 + i * 200; k++)
			fake_runs_frame(RECORD_DISCARD, 1000 * i + 2 * k, 1, 0);
		fake_runs_batch_end();
	}
	run = fake_runs_end();
	cr_assert_eq(load(run), 0);
	cr_assert_eq(run->index->frame_count, 600);
	cr_assert(mt_run_find(run, 1798, &at));
	cr_assert_not(mt_run_find(run, 1799, &at));
}

Test(run_index, waiters_share_a_load_and_may_withdraw)
{
	struct mt_run *run = sample();

	ask(0, run);
	ask(1, run);
	ask(2, run);
	mt_run_unwait(&waiters[1].waiter);
	fake_run_for(NUM_S(1));
	cr_assert_eq(fake_read_count(), 3);
	cr_assert_eq(waiters[0].told_count, 1);
	cr_assert_eq(waiters[1].told_count, 0);
	cr_assert_eq(waiters[2].told_count, 1);
	cr_assert_null(run->load);
	/* A waiter for an index that is loaded is told soon, too. */
	cr_assert_eq(load(run), 0);
	cr_assert_eq(fake_read_count(), 3);
}

Test(run_index, more_loads_than_readers)
{
	struct mt_run *runs[40];
	struct waiter *many = calloc(40, sizeof(*many));

	for (uint32_t i = 0; i < 40; i++) {
		fake_runs_batch(CHUNK + i, 5, 0);
		fake_runs_frame(RECORD_DISCARD, i, 1, 0);
		fake_runs_batch_end();
		runs[i] = fake_runs_end();
	}
	for (uint32_t i = 0; i < 40; i++) {
		many[i].run = runs[i];
		many[i].waiter = (struct mt_run_waiter){ .fn = on_told, .arg = &many[i] };
		mt_run_load(runs[i], &many[i].waiter);
	}
	cr_assert_not(mt_run_is_quiet(&fake.shard));
	fake_run_for(NUM_S(1));
	for (uint32_t i = 0; i < 40; i++)
		cr_assert(many[i].has_index);
	cr_assert(mt_run_is_quiet(&fake.shard));
	free(many);
}

/* ---- copies that are bad or away ---- */

Test(run_index, a_bad_copy_is_passed_over_head_by_head)
{
	struct mt_run *run = sample();
	uint32_t at[3];
	uint32_t offset = 0;

	for (uint32_t i = 0; i < 3; i++) {
		at[i] = offset;
		offset += num_get_le32(fake_runs_copy(fake_runs.extent, 0)->bytes + offset + 56);
	}
	/* No copy is good for all of it. */
	for (uint32_t i = 0; i < 3; i++)
		fake_runs_copy(fake_runs.extent, i)->bytes[at[i] + 130] ^= 1;
	cr_assert_eq(load(run), 0);
	expect_sample(run);
	cr_assert_gt(fake.port.metrics[MT_METRIC_repairs_queued], 0);
}

Test(run_index, no_good_copy)
{
	struct mt_run *run = sample();

	for (uint32_t i = 0; i < 3; i++)
		fake_runs_copy(fake_runs.extent, i)->bytes[130] ^= 1;
	cr_assert_eq(load(run), -EBADMSG);
	cr_assert_null(run->index);
	cr_assert_eq(mt_run_cache_bytes(&fake.port), 0);
	/* Somebody repaired one. */
	fake_runs_copy(fake_runs.extent, 2)->bytes[130] ^= 1;
	cr_assert_eq(load(run), 0);
	expect_sample(run);
}

Test(run_index, a_copy_that_is_gone_is_a_bad_one)
{
	struct mt_run *run = sample();

	for (uint32_t i = 0; i < 2; i++)
		fake_runs_copy(fake_runs.extent, i)->exists = false;
	cr_assert_eq(load(run), 0);
	fake_runs_copy(fake_runs.extent, 2)->exists = false;
	mt_run_cache_drop(run);
	cr_assert_eq(load(run), -EBADMSG);
}

static void
patch_and_expect(struct mt_run *run, uint32_t at, uint32_t value, int rc)
{
	for (uint32_t i = 0; i < 3; i++) {
		uint8_t *bytes = fake_runs_copy(fake_runs.extent, i)->bytes + run->offset_bytes;
		uint32_t desc_bytes;

		num_put_le32(bytes + at, value);
		desc_bytes = num_get_le32(bytes + 64);
		if (desc_bytes < BATCH_HEAD_BYTES_MAX)
			num_put_le32(bytes + 124,
			    crc32c(crc32c(0, bytes, 124), bytes + BATCH_HEADER_BYTES, desc_bytes));
	}
	cr_assert_eq(load(run), rc);
	cr_assert_null(run->index);
}

Test(run_index, garbage_with_a_good_checksum)
{
	static const struct {
		uint32_t at, value;
	} bad[] = {
		{ 0, 0 },         /* magic */
		{ 16, 7 },        /* another extent's */
		{ 24, 4096 },     /* of another place */
		{ 56, 1u << 16 }, /* batch_bytes: of another batch, or behind the run's end */
		{ 64, 15000 },    /* desc_bytes: more than there is */
		{ 64, 1u << 20 }, /* more than there can be */
		{ 72, 12345 },    /* another chunk's */
		{ 80, 78 },       /* of another flush */
	};

	for (uint32_t i = 0; i < NUM_COUNT(bad); i++)
		patch_and_expect(sample(), bad[i].at, bad[i].value, -EBADMSG);
}

Test(run_index, frames_out_of_order)
{
	struct mt_run *run;

	fake_runs_batch(CHUNK, 5, 0);
	fake_runs_frame(RECORD_WRITE, 10, 2, 1);
	fake_runs_frame(RECORD_WRITE, 11, 2, 1);
	fake_runs_batch_end();
	run = fake_runs_end();
	cr_assert_eq(load(run), -EBADMSG);
	/* Also from batch to batch. */
	fake_runs_batch(CHUNK, 6, 0);
	fake_runs_frame(RECORD_WRITE, 10, 2, 1);
	fake_runs_batch_end();
	fake_runs_batch(CHUNK, 6, 0);
	fake_runs_frame(RECORD_WRITE, 9, 2, 1);
	fake_runs_batch_end();
	run = fake_runs_end();
	cr_assert_eq(load(run), -EBADMSG);
}

Test(run_index, a_run_that_ends_in_the_middle_of_a_batch)
{
	struct mt_run *run = sample();

	run->length_bytes -= 4096;
	cr_assert_eq(load(run), -EBADMSG);
	run->length_bytes += 4096;
	cr_assert_eq(load(run), 0);
}

Test(run_index, a_batch_that_does_not_follow_the_one_before)
{
	struct mt_run *run;

	fake_runs_batch(CHUNK, 5, 0);
	fake_runs_frame(RECORD_DISCARD, 1, 1, 0);
	fake_runs_batch_end();
	fake_runs_batch(CHUNK, 5, 0);
	fake_runs.info.prev_crc ^= 1;
	fake_runs_frame(RECORD_DISCARD, 2, 1, 0);
	fake_runs_batch_end();
	run = fake_runs_end();
	cr_assert_eq(load(run), -EBADMSG);
}

Test(run_index, nodes_away_then_back)
{
	struct mt_run *run = sample();

	for (uint32_t i = 0; i < 3; i++)
		fake_node_down(i, 0);
	ask(0, run);
	fake_run_for(NUM_S(1));
	cr_assert_eq(waiters[0].told_count, 0);
	fake_node_up(1);
	fake_run_for(NUM_S(1));
	cr_assert_eq(waiters[0].told_count, 1);
	cr_assert_eq(waiters[0].rc, 0);
	expect_sample(run);
}

Test(run_index, a_node_lost_in_the_middle)
{
	for (uint32_t nth = 1; nth <= 3; nth++) {
		struct mt_run *run = sample();

		for (uint32_t i = 0; i < 3; i++)
			fake.nodes[i].fault = (struct fake_fault){ .opcode = WIRE_EXTENT_READ,
				.countdown = nth,
				.is_link_lost = true };
		ask(0, run);
		fake_run_for(NUM_MS(500));
		for (uint32_t i = 0; i < 3; i++) {
			fake.nodes[i].fault.countdown = 0;
			fake_node_up(i);
		}
		fake_run_for(NUM_S(1));
		cr_assert_eq(waiters[0].told_count, 1);
		cr_assert_eq(waiters[0].rc, 0);
	}
}

Test(run_index, no_copy_until_the_time_is_over)
{
	struct mt_run *run = sample();

	for (uint32_t i = 0; i < 3; i++)
		fake_node_down(i, 0);
	cr_assert_eq(load(run), -EHOSTDOWN);
	for (uint32_t i = 0; i < 3; i++)
		fake_node_up(i);
	/* Two are bad and one is away: there is hope. */
	for (uint32_t i = 0; i < 2; i++)
		fake_runs_copy(fake_runs.extent, i)->bytes[130] ^= 1;
	fake_node_down(2, 0);
	cr_assert_eq(load(run), -EHOSTDOWN);
	fake_node_up(2);
	cr_assert_eq(load(run), 0);
}

Test(run_index, each_allocation_may_fail)
{
	struct mt_run *run = sample();
	uint32_t failed_count = 0;

	for (uint32_t nth = 1;; nth++) {
		int rc;

		mt_alloc_fail_at(nth);
		rc = load(run);
		if (!mt_alloc_has_failed())
			break;
		/* A smaller array that cannot be had is no loss. */
		cr_assert(rc == -ENOMEM || rc == 0, "%d", rc);
		failed_count += rc != 0;
		if (run->index != NULL) {
			expect_sample(run);
			mt_run_cache_drop(run);
		}
		cr_assert_eq(mt_run_cache_bytes(&fake.port), 0);
	}
	mt_alloc_fail_at(0);
	cr_assert_geq(failed_count, 4);
	expect_sample(run);
}

/* ---- runs and shards that go ---- */

Test(run_index, a_run_that_goes_while_it_is_loaded)
{
	for (uint64_t us = 0; us < 600; us += 20) {
		struct mt_run *run = sample();

		ask(0, run);
		fake_run_for(NUM_US(us));
		mt_index_remove_run(run);
		fake_run_for(NUM_S(1));
		cr_assert_eq(waiters[0].told_count, 1);
		cr_assert(waiters[0].rc == -ESTALE || waiters[0].rc == 0);
		cr_assert_eq(mt_run_cache_bytes(&fake.port), 0);
		cr_assert(mt_run_is_quiet(&fake.shard));
	}
}

Test(run_index, a_shard_that_stops_while_it_is_loaded)
{
	for (uint64_t us = 0; us < 600; us += 20) {
		struct mt_run *run = sample();

		ask(0, run);
		ask(1, run);
		fake_run_for(NUM_US(us));
		mt_run_stop(&fake.shard);
		cr_assert(waiters[0].told_count == 1 || !mt_run_is_quiet(&fake.shard));
		fake_run_for(NUM_S(1));
		for (uint32_t i = 0; i < 2; i++) {
			cr_assert_eq(waiters[i].told_count, 1);
			cr_assert(waiters[i].rc == -ECANCELED || waiters[i].rc == 0);
		}
		cr_assert(mt_run_is_quiet(&fake.shard));
		mt_index_remove_run(run);
	}
}

Test(run_index, an_end_in_the_middle_of_everything)
{
	/* As of a process that is killed: nobody is told, nothing leaks. */
	for (uint32_t i = 0; i < WAITERS; i++)
		ask(i, sample());
	for (uint32_t i = 0; i < 3; i++)
		fake_node_down(i, 0);
	fake_run_for(NUM_MS(10));
}

static uint32_t taken[SM_STATES_MAX];
static const struct sm_state *load_states;

static void
on_move(const struct sm *sm, uint32_t from, uint32_t to)
{
	if (strcmp(sm->name, "run_load") != 0)
		return;
	load_states = sm->table;
	taken[from] |= SM_TO(to);
}

Test(run_index, every_edge_is_taken)
{
	struct mt_run *run = sample();

	sm_set_tracer(on_move);
	cr_assert_eq(load(run), 0);
	cr_assert_eq(load(run), 0); /* there already */
	mt_run_cache_evict(run);
	cr_assert_eq(load(run), 0); /* gathered */
	mt_run_cache_drop(run);
	run->directory_bytes = BATCH_ALIGN; /* its end is none, so heads are read */
	(void)load(run);
	cr_assert(run->is_dir_bad);
	mt_run_cache_drop(run);
	run->directory_bytes = 0;
	for (uint32_t i = 0; i < 3; i++)
		fake_node_down(i, 0);
	ask(0, run);
	fake_run_for(NUM_MS(10));
	mt_run_stop(&fake.shard);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(waiters[0].rc, -ECANCELED);
	cr_assert_eq(load(run), -EHOSTDOWN);
	sm_set_tracer(NULL);
	for (uint32_t from = 0; from < 5; from++)
		cr_assert_eq(load_states[from].to & ~taken[from], 0, "%u", from);
}

/* ---- the cache ---- */

static struct mt_run_index *
index_of(uint32_t frame_count)
{
	struct mt_run_builder builder = { 0 };

	for (uint32_t i = 0; i < frame_count; i++) {
		struct record_desc frame = { .kind = RECORD_WRITE,
			.block = 16 * i,
			.block_count = 16,
			.stored_bytes = 4096,
			.payload_offset_bytes = i };

		cr_assert_eq(mt_run_builder_add(&builder, &frame, 4096), 0);
	}
	return mt_run_builder_take(&builder);
}

/* A run of its own chunk with an index that is given. */
static struct mt_run *
given(uint64_t number, uint32_t frame_count)
{
	struct mt_run *run;

	fake_runs_batch(CHUNK + 1000 + number, 5, 0);
	fake_runs_frame(RECORD_DISCARD, 1, 1, 0);
	fake_runs_batch_end();
	run = fake_runs_end();
	mt_run_index_give(run, index_of(frame_count));
	return run;
}

Test(run_index, the_least_recently_used_go)
{
	struct mt_run *runs[20];
	struct mt_location at;
	uint64_t each;

	for (uint32_t i = 0; i < 4; i++)
		runs[i] = given(i, 100);
	each = mt_run_cache_bytes(&fake.port) / 4;
	fake.port.run_cache->bytes_max = 4 * each;
	(void)mt_run_find(runs[0], 7, &at);
	for (uint32_t i = 4; i < 7; i++)
		runs[i] = given(i, 100);
	cr_assert_not_null(runs[0]->index);
	for (uint32_t i = 1; i < 4; i++)
		cr_assert_null(runs[i]->index);
	cr_assert_eq(mt_run_cache_bytes(&fake.port), 4 * each);
	cr_assert_eq(fake.port.metrics[MT_METRIC_run_indexes_dropped], 3);
}

Test(run_index, what_is_held_stays)
{
	struct mt_run *held = given(0, 100), *other;

	fake.port.run_cache->bytes_max = 1;
	mt_run_hold(held);
	mt_run_hold(held);
	other = given(1, 100);
	cr_assert_null(other->index);
	cr_assert_not_null(held->index);
	mt_run_release(held);
	cr_assert_not_null(held->index);
	mt_run_release(held);
	cr_assert_null(held->index);
	cr_assert_eq(mt_run_cache_bytes(&fake.port), 0);
}

Test(run_index, what_is_loaded_stays_until_all_are_told)
{
	struct mt_run *run = sample();

	fake.port.run_cache->bytes_max = 1;
	ask(1, run);
	cr_assert_eq(load(run), 0);
	cr_assert(waiters[1].has_index);
	cr_assert_null(run->index);
}

Test(run_index, what_is_given_ends_a_load)
{
	struct mt_run *run = sample();

	ask(0, run);
	fake_run_for(NUM_US(30));
	mt_run_index_give(run, index_of(3));
	cr_assert_eq(waiters[0].told_count, 0);
	fake_run_for(NUM_S(1));
	cr_assert(waiters[0].has_index);
	cr_assert_eq(run->index->frame_count, 3);
	/* Twice is once. */
	mt_run_index_give(run, index_of(4));
	cr_assert_eq(run->index->frame_count, 3);
}

Test(run_index, frames_that_a_builder_refuses)
{
	struct mt_run_builder builder = { 0 };
	struct record_desc frame = { .kind = RECORD_DISCARD, .block = 5, .block_count = 5 };

	cr_assert_eq(mt_run_builder_add(&builder, &frame, 0), 0);
	frame.block = 9;
	cr_assert_eq(mt_run_builder_add(&builder, &frame, 0), -EBADMSG);
	frame.block = 10;
	cr_assert_eq(mt_run_builder_add(&builder, &frame, 0), 0);
	cr_assert_eq(builder.index->frame_count, 2);
	mt_run_builder_fini(&builder);
	cr_assert_null(builder.index);
}
