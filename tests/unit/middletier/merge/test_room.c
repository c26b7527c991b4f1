/* SPDX-License-Identifier: Apache-2.0 */
/* test_room.c -- a log that is too long, nodes that are full: who waits, who is refused, who goes on */
#include "base/list.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/catalog/hidden.h"
#include "middletier/common/alloc.h"
#include "middletier/index/index.h"
#include "middletier/index/index_cuts.h"
#include "middletier/merge/compact.h"
#include "middletier/merge/flush_due.h"
#include "middletier/merge/merge.h"
#include "middletier/merge/merge_port.h"
#include "middletier/merge/merge_work.h"
#include "middletier/merge/pace.h"
#include "middletier/merge/reclaim.h"
#include "middletier/merge/reclaim_room.h"
#include "middletier/write/write_path.h"
#include "middletier/write/write_room.h"
#include "unit/fake_runs.h"
#include "unit/index_look.h"

#define CHUNK ((uint32_t)CLEAVE_CHUNK_BLOCKS)
#define FAST_CHUNK 20u

static void
setup(void)
{
	fake_init(1, false);
	fake_set_slot_bytes(NUM_KIB(256));
	cr_assert_eq(mt_merge_port_init(&fake.port, NUM_MIB(32)), 0);
	fake_start();
	mt_reclaim_start(&fake.shard);
}

static void
teardown(void)
{
	mt_merge_port_fini(&fake.port);
	fake_fini();
}

TestSuite(room, .init = setup, .fini = teardown);

static void
set_full(bool is_full, bool is_reserve_full)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.nodes[i].is_full = is_full;
		fake.nodes[i].is_reserve_full = is_reserve_full;
	}
}

static bool
is_answered_within(const struct fake_msg *msg, uint64_t ns)
{
	fake_run_for(ns);
	return msg->is_answered && msg->reply.rc == 0;
}

/* Sixteen blocks that do not compress: 64 KiB of log. */
static struct fake_msg *
write_more(uint32_t i)
{
	return fake_write(16 * (i % 500), 16, 4);
}

static void
drop_layers_of(uint32_t index)
{
	struct mt_chunk *chunk =
	    mt_index_chunk(fake.shard.block_index, mt_chunk_number(FAKE_SEGMENT, index * CHUNK));
	struct loop_link *link;

	if (chunk == NULL)
		return;
	cr_assert_eq(mt_index_freeze(chunk), 0);
	while ((link = chunk->layers.prev) != &chunk->layers &&
	    LIST_ENTRY(link, struct mt_layer, link)->is_frozen)
		mt_index_remove_layer(LIST_ENTRY(link, struct mt_layer, link));
	(void)mt_index_drop_empty(chunk);
	mt_reclaim_kick(&fake.shard);
}

static void
drop_layers(void)
{
	drop_layers_of(0);
}

/* ---- the log's hard limit ---- */

/* Writes, slowed down near the limit, until one waits for room, which is returned. */
static struct fake_msg *
fill_log(void)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slots_total = 1000;
	fake.settings.log_bytes = 1; /* three extents, and two more */
	return fake_write_until_one_waits(write_more, 100);
}

Test(room, a_write_waits_at_the_hard_limit_until_the_log_is_shorter)
{
	struct fake_msg *msg = fill_log();

	cr_assert(mt_reclaim_is_log_full(&fake.shard));
	fake_run_for(NUM_S(5));
	cr_assert_not(msg->is_answered);
	drop_layers();
	fake_run_for(NUM_MS(20));
	cr_assert(msg->is_answered);
	cr_assert_eq(msg->reply.rc, 0);
}

Test(room, flush_that_goes_on_keeps_writes_waiting)
{
	struct fake_msg *msg = fill_log();

	for (uint32_t i = 0; i < 10; i++) {
		fake_run_for(NUM_S(5));
		mt_reclaim_on_merge(&fake.shard, 0);
	}
	cr_assert_not(msg->is_answered);
	drop_layers();
	cr_assert_eq(fake_wait(msg), 0);
}

Test(room, flush_without_room_for_its_runs_refuses_writes)
{
	struct fake_msg *msg = fill_log();

	mt_reclaim_on_merge(&fake.shard, -ENOSPC);
	cr_assert_eq(fake_wait(msg), -ENOSPC);
	cr_assert_eq(fake_wait(write_more(0)), -ENOSPC);
	cr_assert_eq(fake_wait(fake_discard(0, 16)), 0, "discards go on");
	cr_assert_eq(fake_wait(fake_read(0, 16)), 0, "and reads");
	mt_reclaim_on_merge(&fake.shard, 0);
	drop_layers();
	cr_assert_eq(fake_wait(write_more(0)), 0);
}

Test(room, an_error_of_a_merge_that_is_not_about_room_is_no_news)
{
	struct fake_msg *msg = fill_log();

	mt_reclaim_on_merge(&fake.shard, -EHOSTDOWN);
	fake_run_for(NUM_S(1));
	cr_assert_not(msg->is_answered);
}

Test(room, a_write_that_waits_is_dropped_with_its_shard)
{
	struct fake_msg *msg = fill_log();

	mt_reclaim_stop(&fake.shard);
	fake_stop(-EREMCHG);
	cr_assert_eq(fake_wait(msg), -EREMCHG);
}

/* ---- before it is there: by degrees ---- */

/* A log at its soft limit, which is known to get a MiB a second shorter. */
static void
fill_half(void)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slots_total = 1000;
	fake.settings.log_bytes = NUM_MIB(4);
	for (uint32_t i = 0; mt_reclaim_pressure(&fake.shard, 0) < PACE_HURRY; i++) {
		cr_assert_lt(i, 100);
		cr_assert_eq(fake_wait(write_more(i)), 0, "nothing is slow yet");
	}
	fake_run_for(NUM_S(1));
	fake.port.merge_work->pool.drain.rate = NUM_MIB(1);
}

Test(room, a_volume_without_a_codec_has_one_while_its_log_is_too_long)
{
	struct mt_index *index = fake.shard.block_index;

	fake.session.volume.codec_id = ENGINE_NONE;
	cr_assert_eq(fake_wait(fake_write(0, 1, 1)), 0);
	cr_assert_eq(index_look(index, FAKE_SEGMENT, 0)->codec_id, ENGINE_NONE);
	fill_half();
	cr_assert_eq(fake_wait(fake_write(0, 1, 2)), 0);
	cr_assert_eq(index_look(index, FAKE_SEGMENT, 0)->codec_id, ENGINE_LZ4);
	fake_run_for(NUM_S(1));
	drop_layers();
	fake_run_for(NUM_MS(10));
	cr_assert_lt(mt_reclaim_pressure(&fake.shard, 0), PACE_COMPRESS);
	cr_assert_eq(fake_wait(fake_write(0, 1, 3)), 0);
	cr_assert_eq(index_look(index, FAKE_SEGMENT, 0)->codec_id, ENGINE_NONE);
}

Test(room, behind_the_soft_limit_writes_come_as_fast_as_the_log_gets_shorter)
{
	struct fake_msg *msgs[6];

	fill_half();
	cr_assert_eq(fake_wait(write_more(0)), 0);
	cr_assert_not(mt_reclaim_holds_writes(&fake.shard));
	for (uint32_t i = 0; i < NUM_COUNT(msgs); i++)
		msgs[i] = write_more(1 + i);
	fake_run_for(NUM_MS(10));
	cr_assert_not(msgs[0]->is_answered, "the one before is not paid for");
	cr_assert(mt_reclaim_holds_writes(&fake.shard));
	fake_run_for(NUM_MS(80));
	cr_assert(msgs[0]->is_answered);
	cr_assert_not(msgs[5]->is_answered);
	fake_run_for(NUM_S(1));
	for (uint32_t i = 0; i < NUM_COUNT(msgs); i++)
		cr_assert(msgs[i]->is_answered);
}

Test(room, discards_are_never_slowed_down)
{
	fill_half();
	cr_assert_eq(fake_wait(write_more(0)), 0);
	for (uint32_t i = 0; i < 20; i++) {
		struct fake_msg *msg = fake_discard(16 * i, 16);

		fake_run_for(NUM_MS(5));
		cr_assert(msg->is_answered);
	}
}

Test(room, writes_are_not_slow_any_more_once_the_log_is_shorter)
{
	struct fake_msg *msg;

	fill_half();
	cr_assert_eq(fake_wait(write_more(0)), 0);
	msg = write_more(1);
	fake_run_for(NUM_MS(5));
	cr_assert_not(msg->is_answered);
	drop_layers();
	fake_run_for(NUM_MS(10));
	cr_assert_lt(mt_reclaim_pressure(&fake.shard, 0), PACE_HURRY);
	cr_assert(msg->is_answered);
}

Test(room, what_goes_of_the_log_says_how_fast_it_gets_shorter)
{
	fill_half();
	fake.port.merge_work->pool.drain = (struct pace_drain){ 0 };
	mt_write_path_on_freed(&fake.shard, NUM_MIB(1));
	fake_run_for(NUM_S(2));
	cr_assert_eq(fake_wait(fake_discard(0, 1)), 0);
	mt_write_path_on_freed(&fake.shard, NUM_MIB(4));
}

/* ---- the memory's ---- */

/* Blocks that compress to nothing much: their keys are more than the log has bytes. */
static void
fill_memory(void)
{
	fake.settings.log_bytes = NUM_MIB(8); /* and so 1 MiB of layers, 2 at the most */
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_MS(10));
	for (uint32_t i = 0; !mt_reclaim_is_memory_full(&fake.shard); i++) {
		cr_assert_lt(i, 10000);
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 1)), 0);
		if (fake.shard.block_index->memory_bytes > NUM_MIB(1))
			cr_assert((mt_reclaim_pressure(&fake.shard, 0) >= PACE_HURRY));
	}
}

Test(room, without_memory_for_layers_all_wait_until_some_have_gone)
{
	struct fake_msg *msgs[2], *read;

	fill_memory();
	msgs[0] = write_more(0);
	msgs[1] = fake_discard(0, 16);
	fake_run_for(NUM_S(5));
	cr_assert_not(msgs[0]->is_answered);
	cr_assert_not(msgs[1]->is_answered);
	read = fake_read(16, 1);
	fake_run_for(NUM_MS(50));
	cr_assert(read->is_answered, "reads go on");
	for (uint32_t i = 0; i < 10; i++)
		drop_layers_of(i);
	for (uint32_t i = 0; i < 2; i++)
		cr_assert_eq(fake_wait(msgs[i]), 0);
}

/* Chunks with a run each, as --log-bytes allowed them all their memory before: a volume of 2 TiB. */
static void
add_flushed_chunks(uint32_t count)
{
	struct mt_run like = { .length_bytes = 4096, .flushed_sequence = 1 };

	fake_runs_extent();
	like.extent_index = fake_runs.extent->index;
	for (uint32_t i = 0; i < count; i++)
		cr_assert_not_null(
		    mt_index_add_run(fake.shard.block_index, UINT64_C(1) << 40 | i, &like));
}

Test(room, what_no_flush_can_lower_stops_no_write)
{
	fake.settings.log_bytes = NUM_MIB(8); /* and so 1 MiB of layers, 2 at the most */
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slots_total = 1000;
	add_flushed_chunks(32768);
	cr_assert_gt(mt_index_chunk_bytes(fake.shard.block_index), NUM_MIB(4));
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(mt_reclaim_pressure(&fake.shard, 0), 0);
	cr_assert(is_answered_within(write_more(0), NUM_MS(20)), "not slowed down either");
	cr_assert(is_answered_within(fake_discard(0, 16), NUM_MS(20)));
	cr_assert_not(mt_reclaim_is_memory_full(&fake.shard));
}

Test(room, discards_of_what_was_discarded_leave_no_memory)
{
	uint64_t bytes;

	cr_assert_eq(fake_wait(fake_write(0, 16, 4)), 0);
	cr_assert_eq(fake_wait(fake_discard(0, 16)), 0);
	add_flushed_chunks(1);
	drop_layers();
	bytes = fake.shard.block_index->memory_bytes;
	for (uint32_t i = 1; i < 200; i++)
		cr_assert_eq(fake_wait(fake_discard(16 * i, 16)), 0);
	cr_assert_eq(fake.shard.block_index->memory_bytes, bytes);
}

/* ---- a manifest that is long ---- */

/* Merges make it shorter: runs of one merge count once, and one alone cannot become fewer. */
Test(room, the_chunk_with_the_most_generations_of_runs_is_the_crowded_one)
{
	struct mt_run like = { .length_bytes = 4096 };

	add_flushed_chunks(3);
	cr_assert_null(mt_compact_crowded(&fake.shard));
	like.extent_index = fake_runs.extent->index;
	for (uint32_t i = 0; i < 6; i++) {
		like.flushed_sequence = 2 + i / 3;
		like.offset_bytes = 4096 * (i + 1);
		cr_assert_not_null(mt_index_add_run(fake.shard.block_index,
		    UINT64_C(1) << 40 |
			(i == 0         ? 0
				: i < 3 ? 1
					: 2),
		    &like));
	}
	/* Two generations each, of two, three and four runs. */
	cr_assert_not_null(mt_compact_crowded(&fake.shard));
	like.flushed_sequence = 9;
	cr_assert_not_null(mt_index_add_run(fake.shard.block_index, UINT64_C(1) << 40 | 1, &like));
	cr_assert_eq(mt_compact_crowded(&fake.shard)->chunk->number & 3, 1);
}

/* ---- full nodes ---- */

/* Until a write finds no room: with what the last of its extents has left for tombstones. */
static struct fake_msg *
fill_nodes(void)
{
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(fake_wait(write_more(i)), 0);
	set_full(true, true);
	for (uint32_t i = 0; i < 100; i++) {
		struct fake_msg *msg = write_more(i);

		fake_run_for(NUM_MS(50));
		if (!msg->is_answered || msg->reply.rc != 0)
			return msg;
	}
	cr_assert(false, "there is always room");
	return NULL;
}

Test(room, on_full_nodes_writes_wait_while_there_is_hope)
{
	struct fake_msg *msg = fill_nodes();

	fake_run_for(NUM_S(5));
	cr_assert_not(msg->is_answered);
	set_full(false, false);
	cr_assert_eq(fake_wait(msg), 0);
}

Test(room, on_nodes_that_are_away_writes_wait_however_long)
{
	struct fake_msg *msg = fill_nodes();

	for (uint32_t i = 0; i < 3; i++)
		fake_node_down(i, 0);
	fake_run_for(NUM_S(60));
	cr_assert_not(msg->is_answered);
	set_full(false, false);
	for (uint32_t i = 0; i < 3; i++)
		fake_node_up(i);
	cr_assert_eq(fake_wait(msg), 0);
}

Test(room, on_full_nodes_writes_are_refused_when_nothing_goes)
{
	struct fake_msg *msg = fill_nodes();

	fake_run_for(NUM_S(20));
	cr_assert(msg->is_answered);
	cr_assert_eq(msg->reply.rc, -ENOSPC);
	cr_assert_eq(fake_wait(write_more(0)), -ENOSPC);
	set_full(false, false);
	fake_run_for(NUM_S(2));
	cr_assert_eq(fake_wait(write_more(0)), 0, "room is found without being told of");
}

Test(room, on_full_nodes_a_merge_at_work_gives_hope_for_longer)
{
	struct fake_msg *msg = fill_nodes();

	fake.is_flushing = true;
	fake_run_for(NUM_S(20));
	cr_assert_not(msg->is_answered);
	fake_run_for(NUM_S(60));
	cr_assert(msg->is_answered, "not for ever");
	cr_assert_eq(msg->reply.rc, -ENOSPC);
}

Test(room, on_full_nodes_the_last_of_the_log_is_for_discards)
{
	struct fake_msg *msg;
	uint32_t count = 0;

	fake_set_slot_bytes(NUM_MIB(1));
	msg = fill_nodes();
	mt_reclaim_on_merge(&fake.shard, -ENOSPC);
	cr_assert_eq(fake_wait(msg), -ENOSPC);
	while (fake_wait(fake_discard(16 * count, 16)) == 0)
		cr_assert_lt(++count, 100);
	cr_assert_geq(count, 10);
	cr_assert_eq(fake_wait(fake_read(0, 16)), 0);
	fake_expect(0, 0);
}

Test(room, what_is_kept_back_is_for_discards_alone)
{
	struct fake_msg *msg = fill_nodes();

	mt_reclaim_on_merge(&fake.shard, -ENOSPC);
	cr_assert_eq(fake_wait(msg), -ENOSPC);
	set_full(true, false);
	for (uint32_t i = 0; i < 100; i++) {
		cr_assert_eq(fake_wait(fake_discard(16 * (i % 50), 16)), 0, "%u", i);
		cr_assert_eq(fake_wait(write_more(i)), -ENOSPC);
	}
	cr_assert(fake.shard.log->is_reserve);
	set_full(false, false);
	fake_run_for(NUM_S(2));
	cr_assert_eq(fake_wait(write_more(0)), 0);
	cr_assert_not(fake.shard.log->is_reserve, "the log has left it");
}

Test(room, a_shard_that_starts_on_full_nodes_takes_discards)
{
	struct fake_msg *discard;

	set_full(true, false);
	fake_node_down(fake.shard.log == NULL ? 0 : fake.shard.log->replicas[0].node_id - 1, 0);
	mt_reclaim_on_merge(&fake.shard, -ENOSPC);
	discard = fake_discard(0, 16);
	cr_assert_eq(fake_wait(discard), 0);
	cr_assert_eq(fake_wait(write_more(0)), -ENOSPC);
}

Test(room, extents_that_go_end_the_wait_at_once)
{
	struct fake_msg *msg = fill_nodes();

	fake_run_for(NUM_MS(1500));
	set_full(false, false);
	drop_layers();
	fake_run_for(NUM_MS(50));
	cr_assert(msg->is_answered);
	cr_assert_eq(msg->reply.rc, 0);
}

/* ---- the latency class ---- */

/* By a session of another volume, to a chunk that nothing else here writes to. */
static struct fake_msg *
write_fast(uint32_t block, uint32_t block_count, uint64_t version)
{
	struct wire_io io = fake_io(WIRE_WRITE, FAST_CHUNK * CHUNK + block, block_count);
	struct fake_msg *msg;

	io.service_class = SERVICE_LATENCY;
	fake.is_latency = true;
	msg = fake_write_as(io, block, version);
	fake.is_latency = false;
	return msg;
}

Test(room, the_latency_class_is_not_slowed_down)
{
	struct fake_msg *msg;

	fill_half();
	cr_assert_eq(fake_wait(write_more(0)), 0);
	msg = write_more(1);
	for (uint32_t i = 0; i < 5; i++)
		cr_assert(is_answered_within(write_fast(i, 1, 4), NUM_MS(5)));
	cr_assert_not(msg->is_answered, "ahead of it");
	cr_assert_eq(fake_wait(msg), 0);
}

Test(room, others_pay_for_what_the_latency_class_takes_but_not_for_ever)
{
	struct fake_msg *msg;

	fill_half();
	fake.port.merge_work->pool.drain.rate = NUM_KIB(64);
	for (uint32_t i = 0; i < 24; i++) /* a second and a half of a MiB a second */
		cr_assert(is_answered_within(write_fast(16 * i, 16, 4), NUM_MS(5)));
	msg = write_more(0);
	cr_assert_not(is_answered_within(msg, NUM_MS(700)));
	cr_assert(is_answered_within(msg, NUM_MS(350)));
}

Test(room, beyond_the_hard_limit_the_latency_class_goes_on_for_an_extent)
{
	struct fake_msg *msg = fill_log(), *fast;
	uint32_t count = 0;

	for (;;) {
		fast = write_fast(16 * count, 16, 4);
		if (!is_answered_within(fast, NUM_MS(50)))
			break;
		cr_assert_not(msg->is_answered);
		count++;
	}
	cr_assert(mt_reclaim_is_log_spent(&fake.shard));
	cr_assert_geq(count, 3, "256 KiB of log");
	cr_assert_leq(count, 8);
	fake_run_for(NUM_S(5));
	cr_assert_not(fast->is_answered, "then it waits as others do");
	drop_layers();
	drop_layers_of(FAST_CHUNK);
	cr_assert_eq(fake_wait(fast), 0);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_lt(fast->answer_number, msg->answer_number);
}

Test(room, the_latency_class_is_refused_where_there_is_no_hope)
{
	struct fake_msg *msg = fill_nodes();

	mt_reclaim_on_merge(&fake.shard, -ENOSPC);
	cr_assert_eq(fake_wait(msg), -ENOSPC);
	cr_assert_eq(fake_wait(write_fast(0, 1, 4)), -ENOSPC);
}

Test(room, without_memory_for_layers_the_latency_class_goes_on_for_a_quarter_more)
{
	struct fake_msg *msg;

	fill_memory();
	msg = write_more(0);
	for (uint32_t i = 0; !mt_reclaim_is_log_spent(&fake.shard); i++) {
		cr_assert_lt(i, 2000);
		cr_assert(is_answered_within(write_fast(16 * i, 16, 1), NUM_MS(20)));
	}
	cr_assert_not(msg->is_answered);
	cr_assert_gt(fake.shard.block_index->memory_bytes, NUM_MIB(5) / 2);
	cr_assert_not(is_answered_within(write_fast(0, 16, 1), NUM_S(1)));
}

/* All batches are full: the first write that is parked. */
static struct fake_msg *
fill_batches(void)
{
	fake_stall_all(true);
	for (uint32_t i = 0; i < 100; i++) {
		struct fake_msg *msg = write_more(i);

		if (!list_is_empty(&fake.shard.write->parked[WRITE_LINE_OTHERS]))
			return msg;
		fake_run_for(NUM_US(10));
	}
	cr_assert(false, "there is always room");
	return NULL;
}

Test(room, a_latency_class_write_is_admitted_ahead_of_others_that_wait)
{
	struct fake_msg *others[4], *fast;

	fake_run_for(NUM_MS(10));
	(void)fill_batches();
	for (uint32_t i = 0; i < NUM_COUNT(others); i++)
		others[i] = write_more(100 + i);
	fast = write_fast(0, 1, 4);
	fake_stall_all(false);
	cr_assert_eq(fake_wait(fast), 0);
	for (uint32_t i = 0; i < NUM_COUNT(others); i++) {
		cr_assert_eq(fake_wait(others[i]), 0);
		cr_assert_lt(fast->answer_number, others[i]->answer_number);
	}
}

Test(room, writes_of_a_session_keep_their_order_ahead_of_others)
{
	struct fake_msg *msgs[12];

	fake_run_for(NUM_MS(10));
	(void)fill_batches();
	for (uint32_t i = 0; i < NUM_COUNT(msgs); i++)
		msgs[i] = write_fast(5 + i % 2, 2, 1 + i);
	fake_stall_all(false);
	for (uint32_t i = 0; i < NUM_COUNT(msgs); i++) {
		cr_assert_eq(fake_wait(msgs[i]), 0);
		cr_assert(i == 0 || msgs[i]->answer_number > msgs[i - 1]->answer_number);
	}
}

Test(room, a_latency_class_that_takes_all_leaves_others_a_part)
{
	struct fake_msg *fasts[40], *other;
	uint32_t before_count = 0;

	fake_run_for(NUM_MS(10));
	other = fill_batches();
	for (uint32_t i = 0; i < NUM_COUNT(fasts); i++)
		fasts[i] = write_fast(i, 1, 4);
	fake_stall_all(false);
	cr_assert_eq(fake_wait(other), 0);
	for (uint32_t i = 0; i < NUM_COUNT(fasts); i++) {
		cr_assert_eq(fake_wait(fasts[i]), 0);
		before_count += fasts[i]->answer_number < other->answer_number;
	}
	cr_assert_eq(before_count, 16);
}

/* ---- no memory ---- */

Test(room, what_cannot_be_indexed_behind_a_cut_is_not_acknowledged)
{
	struct mt_index_cut cut = { 1, FAKE_SEGMENT, 1 };
	struct fake_msg *msgs[2];

	cr_assert_eq(fake_wait(write_more(0)), 0);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(mt_index_add_cut(fake.shard.block_index, &cut), 0);
	fake.shard.cut = 1;
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_stalled = true;
	msgs[0] = fake_write(0, 1, 4);
	msgs[1] = fake_write(1, 1, 4);
	fake_run_for(NUM_MS(1));
	mt_alloc_fail_at(1);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_resume(i);
	for (uint32_t i = 0; i < 2; i++)
		cr_assert_eq(fake_wait(msgs[i]), -EREMCHG);
	cr_assert(mt_alloc_has_failed());
	mt_alloc_fail_at(0);
	cr_assert_eq(fake.stop_rc, -ENOMEM, "a take-over replays it");
}

/* Two runs of a deleted volume that had been rolled back; a step of its deletion has taken one of them. */
Test(room, a_flush_is_found_beside_a_group_that_is_busy)
{
	const struct mt_hidden hidden = { FAKE_SEGMENT, 1, 0, 5 };
	struct flush_due due = { 0 };
	struct mt_merge_input input;

	fake_state.epoch = fake.shard.epoch;
	fake_runs_extent();
	(void)fake_runs_one(10, 0, 4, 1);
	fake_runs_one(20, 4, 4, 1)->is_merging = true;
	mt_index_hide(fake.shard.block_index, &hidden);
	fake.shard.next_sequence = 100;
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slots_total = 1000;
	/* Another volume's chunk, with a layer that is old. */
	cr_assert_eq(fake_wait(fake_write(CHUNK, 16, 4)), 0);
	mt_flush_due_start(&due, &fake.shard);
	mt_flush_due_age(&due);
	mt_flush_due_age(&due);
	due.was_flush = true; /* the last merge was one */
	cr_assert_null(mt_compact_hidden(&fake.shard));
	fake_pass(NUM_S(1));
	cr_assert_eq(mt_flush_due_find(&due, &input), 0);
	cr_assert_eq(input.chunk->number, mt_chunk_number(FAKE_SEGMENT, CHUNK));
	cr_assert_not_null(input.newest_layer);
}

/* A merge of the first chunk's hidden run could not read it. */
Test(room, a_hidden_run_whose_merge_has_failed_lets_others_go_first)
{
	const struct mt_hidden hidden = { FAKE_SEGMENT, 1, 0, 5 };
	struct mt_run *runs[2];

	fake_state.epoch = fake.shard.epoch;
	runs[0] = fake_runs_one(10, 0, 4, 1);
	fake_runs_batch(mt_chunk_number(FAKE_SEGMENT, CHUNK), 20, 0);
	fake_runs_frame(RECORD_WRITE, CHUNK, 4, 1);
	fake_runs_batch_end();
	runs[1] = fake_runs_end();
	mt_index_hide(fake.shard.block_index, &hidden);
	cr_assert_eq(mt_compact_hidden(&fake.shard), runs[0]);
	runs[0]->chunk->retry_ns = loop_now_ns(fake.loop) + NUM_S(30);
	cr_assert_eq(mt_compact_hidden(&fake.shard), runs[1]);
	runs[1]->chunk->retry_ns = runs[0]->chunk->retry_ns;
	cr_assert_null(mt_compact_hidden(&fake.shard));
	fake_pass(NUM_S(31));
	cr_assert_eq(mt_compact_hidden(&fake.shard), runs[0]);
}

/* Garbage that is otherwise left alone: a quarter of what is live. */
Test(room, layers_that_are_put_off_do_not_keep_garbage_from_its_merge_when_room_is_short)
{
	struct flush_due due = { 0 };
	struct mt_merge_input input;
	struct mt_chunk *pinned;
	struct mt_run *run;

	fake_state.epoch = fake.shard.epoch;
	run = fake_runs_one(10, 0, 4, 1);
	run->live_bytes = run->length_bytes / 5 * 4;
	fake.shard.next_sequence = 100;
	cr_assert_eq(fake_wait(fake_write(CHUNK, 16, 4)), 0);
	pinned = mt_index_chunk(fake.shard.block_index, mt_chunk_number(FAKE_SEGMENT, CHUNK));
	mt_chunk_pin(pinned, MT_PIN_COPY);
	pinned->retry_ns = loop_now_ns(fake.loop) + NUM_S(30);
	mt_flush_due_start(&due, &fake.shard);
	cr_assert_eq(mt_flush_due_find(&due, &input), -ENOENT);
	fake_pass(NUM_S(1));
	fake.shard.is_log_short = true;
	cr_assert_eq(mt_flush_due_find(&due, &input), 0);
	cr_assert_eq(input.newest_run, run);
	fake_pass(NUM_S(1));
	mt_chunk_pin(pinned, MT_PIN_NONE);
	cr_assert_eq(mt_flush_due_find(&due, &input), 0);
	cr_assert_eq(input.chunk, pinned, "what can be flushed goes first");
}
