/* SPDX-License-Identifier: Apache-2.0 */
/* test_segment_drop.c -- a deleted volume leaves a shard: its runs, its chunks, and then the log of then */
#include "base/crc32c.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/extent/extent.h"
#include "middletier/index/index.h"
#include "middletier/index/run_index.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/merge/reclaim.h"
#include "middletier/merge/reclaim_room.h"
#include "middletier/shard/segment_drop.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/fake_runs.h"

#define OTHER_SEGMENT 9u
#define SLOT_BYTES NUM_KIB(256)

static struct mt_state_extent state_extents[FAKE_EXTENTS_MAX];

static void
setup(void)
{
	fake_init(1, false);
	list_init(&fake.shard.drops);
	fake_set_slot_bytes(SLOT_BYTES);
	fake_start();
	mt_reclaim_start(&fake.shard);
	fake_run_for(NUM_MS(10));
	cr_assert_not_null(fake.shard.log);
	fake_runs.extent = NULL;
	fake_is_settled = true;
}

static void
teardown(void)
{
	mt_segments_drop_reset(&fake.shard);
	fake_fini();
}

TestSuite(segment_drop, .init = setup, .fini = teardown);

/* The manifest of now, as far as extents go. */
static void
look_at_extents(void)
{
	fake_state = (struct mt_manifest_state){ .extents = state_extents };
	for (uint32_t i = 0; i < fake.shard.extent_count; i++) {
		const struct mt_extent *extent = fake.shard.extents[i];

		if (extent != NULL)
			state_extents[fake_state.extent_count++] =
			    (struct mt_state_extent){ .id = extent->id, .kind = extent->kind };
	}
}

static void
on_drop(struct loop_task *task, void *arg)
{
	(void)task;
	*(int *)arg = mt_segments_drop(&fake.shard, FAKE_SEGMENT, 1);
}

static bool
is_dropped(void *arg)
{
	return *(const int *)arg != 1;
}

static void
on_passed(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
}

/* From a handler, as it always is. */
static int
drop(void)
{
	struct loop_task task;
	int rc = 1;

	look_at_extents();
	loop_task_init(&task, on_drop, &rc);
	loop_defer(fake.loop, &task);
	(void)sim_world_run(fake.world, is_dropped, &rc, UINT64_MAX);
	return rc;
}

/* Virtual time goes on with events alone. */
static void
pass(uint64_t ns)
{
	static struct loop_timer timer;

	timer = (struct loop_timer){ 0 };
	loop_timer_init(&timer, on_passed, NULL);
	loop_timer_start(fake.loop, &timer, ns);
	fake_run_for(ns);
}

static bool
is_under_way(int rc)
{
	return rc == -EAGAIN || rc == -EINPROGRESS;
}

/* As drop.c does: again and again. */
static uint64_t
drop_until_done(uint64_t limit_ns)
{
	uint64_t begin_ns = sim_world_now_ns(fake.world);
	int rc;

	while (is_under_way(rc = drop()) && sim_world_now_ns(fake.world) < begin_ns + limit_ns)
		pass(NUM_MS(200));
	cr_assert_eq(rc, 0, "%d", rc);
	return sim_world_now_ns(fake.world) - begin_ns;
}

static void
drop_stays(uint64_t duration_ns)
{
	for (uint64_t i = 0; i < duration_ns / NUM_MS(200); i++) {
		int rc = drop();

		cr_assert(rc == -EAGAIN || (i == 0 && rc == -EINPROGRESS), "%d", rc);
		pass(NUM_MS(200));
	}
}

static int
write_segment(uint64_t segment, uint32_t block)
{
	struct fake_msg *msg = fake_msg_take();
	struct wire_io io = fake_io(WIRE_WRITE, block, 1);
	uint8_t data[CLEAVE_BLOCK_BYTES];

	fake_pattern(data, block, 4);
	fake_to_device(msg->msg.payload, data, sizeof(data));
	msg->msg.payload_bytes = sizeof(data);
	io.segment = segment;
	io.payload_crc = crc32c(0, data, sizeof(data));
	fake_submit(msg, &io);
	return fake_wait(msg);
}

static struct mt_chunk *
chunk_of(uint64_t segment)
{
	return mt_index_chunk(fake.shard.block_index, mt_chunk_number(segment, 0));
}

static uint32_t
edits_of(enum mt_edit_kind kind)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < fake.edit_count; i++)
		count += fake.edits[i].kind == kind;
	return count;
}

static bool
has_log(uint64_t id)
{
	for (uint32_t i = 0; i < fake.shard.extent_count; i++) {
		const struct mt_extent *extent = fake.shard.extents[i];

		if (extent != NULL && extent_id_pack(&extent->id) == id)
			return true;
	}
	return false;
}

/* As a flush does. */
static void
forget_layers(struct mt_chunk *chunk)
{
	struct loop_link *link;

	cr_assert_eq(mt_index_freeze(chunk), 0);
	while ((link = list_first(&chunk->layers)) != NULL)
		mt_index_remove_layer(LIST_ENTRY(link, struct mt_layer, link));
	(void)mt_index_drop_empty(chunk);
	mt_reclaim_kick(&fake.shard);
}

/* ---- nothing there ---- */

Test(segment_drop, a_shard_that_never_heard_of_it_is_done_at_once)
{
	cr_assert_eq(drop(), 0);
	cr_assert(list_is_empty(&fake.shard.drops));
}

Test(segment_drop, a_shard_without_a_log_says_later)
{
	struct mt_extent *log = fake.shard.log;

	fake.shard.log = NULL;
	cr_assert_eq(drop(), -EAGAIN);
	fake.shard.log = log;
	cr_assert_eq(drop(), 0);
}

Test(segment_drop, without_memory_it_is_for_later)
{
	cr_assert_eq(write_segment(FAKE_SEGMENT, 1), 0);
	mt_alloc_fail_at(1);
	cr_assert_eq(drop(), -EAGAIN);
	mt_alloc_fail_at(0);
	cr_assert_not_null(chunk_of(FAKE_SEGMENT));
	(void)drop_until_done(NUM_S(5));
}

Test(segment_drop, an_unsettled_manifest_is_waited_for)
{
	fake_is_settled = false;
	drop_stays(NUM_S(1));
	fake_is_settled = true;
	cr_assert_eq(drop(), 0);
}

/* ---- the log ---- */

/* Nobody ever fills the log of an idle shard. */
Test(segment_drop, an_idle_shard_turns_its_log)
{
	uint64_t log_id = extent_id_pack(&fake.shard.log->id);

	cr_assert_eq(write_segment(FAKE_SEGMENT, 1), 0);
	cr_assert_leq(drop_until_done(NUM_S(5)), NUM_S(1));
	cr_assert_null(chunk_of(FAKE_SEGMENT));
	cr_assert_not(has_log(log_id));
	cr_assert_not_null(fake.shard.log, "there is a log again");
	cr_assert_eq(write_segment(OTHER_SEGMENT, 1), 0);
}

Test(segment_drop, a_log_that_others_need_is_turned_after_a_while)
{
	uint64_t log_id = extent_id_pack(&fake.shard.log->id);

	cr_assert_eq(write_segment(FAKE_SEGMENT, 1), 0);
	cr_assert_eq(write_segment(OTHER_SEGMENT, 1), 0);
	drop_stays(NUM_S(29));
	cr_assert_eq(extent_id_pack(&fake.shard.log->id), log_id);
	drop_stays(NUM_S(2));
	cr_assert_neq(extent_id_pack(&fake.shard.log->id), log_id, "it is turned by now");
	/* A trickle of writes goes to the next one, and keeps nothing. */
	cr_assert_eq(write_segment(OTHER_SEGMENT, (uint32_t)CLEAVE_CHUNK_BLOCKS), 0);
	drop_stays(NUM_S(60));
	cr_assert(has_log(log_id), "a layer begins in it");
	forget_layers(chunk_of(OTHER_SEGMENT));
	cr_assert_leq(drop_until_done(NUM_S(5)), NUM_S(1));
	cr_assert_not(has_log(log_id));
}

Test(segment_drop, one_turn_serves_all_that_wait)
{
	uint32_t opened_count;

	cr_assert_eq(write_segment(FAKE_SEGMENT, 1), 0);
	cr_assert_eq(write_segment(OTHER_SEGMENT, 1), 0);
	opened_count = edits_of(MT_EDIT_EXTENT_OPENED);
	(void)drop();
	(void)mt_segments_drop(&fake.shard, OTHER_SEGMENT, 1);
	(void)drop();
	fake_run_for(NUM_S(1));
	cr_assert_eq(drop(), 0);
	cr_assert_eq(mt_segments_drop(&fake.shard, OTHER_SEGMENT, 1), 0);
	cr_assert_eq(edits_of(MT_EDIT_EXTENT_OPENED), opened_count + 1);
}

Test(segment_drop, full_nodes_are_asked_again_and_nobody_waits_for_them)
{
	uint64_t log_id = extent_id_pack(&fake.shard.log->id);

	cr_assert_eq(write_segment(FAKE_SEGMENT, 1), 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_full = true;
	drop_stays(NUM_S(20));
	cr_assert_eq(extent_id_pack(&fake.shard.log->id), log_id);
	cr_assert_not(mt_reclaim_is_log_full(&fake.shard), "there is room in the log");
	cr_assert_eq(write_segment(FAKE_SEGMENT + 1, 1), 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_full = false;
	drop_stays(NUM_S(12)); /* the other segment's layer */
	cr_assert_neq(extent_id_pack(&fake.shard.log->id), log_id);
	forget_layers(chunk_of(FAKE_SEGMENT + 1));
	(void)drop_until_done(NUM_S(5));
}

Test(segment_drop, nodes_that_are_away_are_asked_again)
{
	cr_assert_eq(write_segment(FAKE_SEGMENT, 1), 0);
	for (uint32_t i = 2; i < FAKE_NODES; i++)
		fake_node_down(i, 0);
	drop_stays(NUM_S(20));
	for (uint32_t i = 2; i < FAKE_NODES; i++)
		fake_node_up(i);
	(void)drop_until_done(NUM_S(5));
}

Test(segment_drop, another_owner_ends_the_shard_that_trims)
{
	cr_assert_eq(write_segment(FAKE_SEGMENT, 1), 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].fault = (struct fake_fault){ .opcode = WIRE_EXTENT_CREATE,
			.countdown = 1,
			.rc = -ESTALE,
			.is_sticky = true };
	(void)drop();
	(void)drop();
	fake_run_for(NUM_S(1));
	cr_assert_eq(fake.stop_rc, -ESTALE);
}

/* ---- chunks and runs ---- */

Test(segment_drop, its_last_writes_end_first)
{
	struct fake_msg *msg;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_stalled = true;
	msg = fake_write(1, 1, 1);
	fake_run_for(NUM_MS(10));
	drop_stays(NUM_MS(600));
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.nodes[i].is_stalled = false;
		fake_node_resume(i);
	}
	cr_assert_eq(fake_wait(msg), 0);
	(void)drop_until_done(NUM_S(5));
	cr_assert_null(chunk_of(FAKE_SEGMENT));
}

Test(segment_drop, others_keep_what_they_have)
{
	(void)fake_runs_one(50, 1, 1, 4);
	fake_runs_batch(mt_chunk_number(OTHER_SEGMENT, 0), 51, 0);
	fake_runs_frame(RECORD_WRITE, 1, 1, 4);
	fake_runs_batch_end();
	(void)fake_runs_end();
	(void)drop_until_done(NUM_S(5));
	cr_assert_null(chunk_of(FAKE_SEGMENT));
	cr_assert_not_null(chunk_of(OTHER_SEGMENT));
	cr_assert_eq(chunk_of(OTHER_SEGMENT)->run_count, 1);
	cr_assert_eq(edits_of(MT_EDIT_RUN_REMOVED), 1);
}

static void
make_runs(uint32_t run_count, uint32_t chunk_count)
{
	for (uint32_t i = 0; i < run_count; i++) {
		if (i % 8 == 0)
			fake_runs_extent();
		fake_runs_batch(mt_chunk_number(FAKE_SEGMENT,
				    i % chunk_count * (uint32_t)CLEAVE_CHUNK_BLOCKS),
		    50 + i, 0);
		fake_runs_frame(RECORD_WRITE, 1, 1, 4);
		fake_runs_batch_end();
		(void)fake_runs_end();
	}
}

/* Commits follow each other without further calls. */
Test(segment_drop, many_runs_go_commit_by_commit_without_being_asked)
{
	uint32_t run_count = 2 * MT_COMMIT_EDITS_MAX + 7;

	make_runs(run_count, 5);
	cr_assert_eq(drop(), -EAGAIN, "nothing has gone yet");
	pass(NUM_MS(50));
	cr_assert_eq(edits_of(MT_EDIT_RUN_REMOVED), run_count);
	cr_assert_eq(fake.shard.block_index->run_count, 0);
	cr_assert_eq(fake.shard.block_index->chunk_count, 0);
	(void)drop_until_done(NUM_S(5));
}

static struct {
	uint64_t before_count, gone_max;
	uint32_t pieces;
} walk;

/* Called after each handler of the loop. */
static bool
is_walk_over(void *arg)
{
	uint64_t count = fake.shard.block_index->chunk_count;

	(void)arg;
	walk.gone_max = num_max(walk.gone_max, walk.before_count - count);
	walk.pieces += count < walk.before_count;
	walk.before_count = count;
	return count == 0;
}

/* Between the pieces the port does what else it has to. */
Test(segment_drop, a_turn_takes_a_bounded_piece)
{
	for (uint32_t i = 0; i < 5000; i++)
		cr_assert_not_null(mt_chunk_create(fake.shard.block_index,
		    mt_chunk_number(FAKE_SEGMENT, 0) + i % CLEAVE_SEGMENT_CHUNKS +
			i / CLEAVE_SEGMENT_CHUNKS * 7 * CLEAVE_SEGMENT_CHUNKS));
	walk.before_count = 5000;
	look_at_extents();
	(void)mt_segments_drop(&fake.shard, FAKE_SEGMENT, 2048);
	(void)is_walk_over(NULL);
	cr_assert_eq(sim_world_run(fake.world, is_walk_over, NULL,
			 sim_world_now_ns(fake.world) + NUM_S(1)),
	    0);
	cr_assert_leq(walk.gone_max, 1024);
	cr_assert_leq(walk.pieces, 20, "nor is it a trickle");
}

#define TOGETHER 8u

static void
on_drop_together(struct loop_task *task, void *arg)
{
	(void)task;
	(void)arg;
	for (uint32_t i = 0; i < TOGETHER; i++)
		(void)mt_segments_drop(&fake.shard, FAKE_SEGMENT + i, 1);
}

/* As when a folder of volumes is deleted: they share the port's turns, and none waits for another one's end. */
Test(segment_drop, many_at_once_take_a_bounded_piece_of_a_turn_together)
{
	struct loop_task task;

	for (uint32_t i = 0; i < TOGETHER * 500; i++)
		cr_assert_not_null(mt_chunk_create(fake.shard.block_index,
		    mt_chunk_number(FAKE_SEGMENT + i / 500, 0) + i % 500));
	walk.before_count = TOGETHER * 500;
	look_at_extents();
	loop_task_init(&task, on_drop_together, NULL);
	loop_defer(fake.loop, &task);
	cr_assert_eq(sim_world_run(fake.world, is_walk_over, NULL,
			 sim_world_now_ns(fake.world) + NUM_S(1)),
	    0);
	cr_assert_leq(walk.gone_max, 1024);
	cr_assert_leq(walk.pieces, 20, "nor is it a trickle");
}

/* How much is called at the end of every turn of the port. */
static uint32_t
turn_end_count(void)
{
	uint32_t count = 0;

	for (const struct loop_link *at = fake.loop->turn_ends.next; at != &fake.loop->turn_ends;
	     at = at->next)
		count++;
	return count;
}

/* A thousand volumes that are deleted wait for half a minute, and longer, until the log of then has gone. */
Test(segment_drop, however_many_wait_a_turn_ends_with_one_call_for_them)
{
	uint32_t count = turn_end_count();

	cr_assert_eq(fake_wait(fake_write(0, 1, 1)), 0); /* the log has a record, maybe of theirs */
	look_at_extents();
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_neq(mt_segments_drop(&fake.shard, FAKE_SEGMENT + i, 1), 0);
	cr_assert_eq(turn_end_count(), count + 1, "the port's");
	mt_segments_drop_reset(&fake.shard);
	cr_assert_eq(turn_end_count(), count);
}

/* A chunk that has to stay for a while holds up none behind it, and is not all that is looked at again. */
Test(segment_drop, what_is_busy_is_left_and_looked_at_again_when_asked)
{
	struct mt_chunk *chunk;

	make_runs(20, 20);
	chunk = mt_index_chunk(fake.shard.block_index, mt_chunk_number(FAKE_SEGMENT, 0) + 3);
	mt_run_of(chunk->runs.next)->is_merging = true;
	cr_assert_eq(drop(), -EAGAIN);
	pass(NUM_MS(50));
	cr_assert_eq(fake.shard.block_index->chunk_count, 1);
	cr_assert_eq(drop(), -EINPROGRESS);
	cr_assert_eq(drop(), -EAGAIN, "nothing has gone since");
	mt_run_of(chunk->runs.next)->is_merging = false;
	(void)drop_until_done(NUM_S(5));
	cr_assert_eq(edits_of(MT_EDIT_RUN_REMOVED), 20);
}

/* A run that no edit has taken out of the manifest is in the index; a flush leaves it alone meanwhile. */
Test(segment_drop, a_failed_commit_is_done_again)
{
	struct mt_run *run = fake_runs_one(50, 1, 1, 4);

	fake.commit_rc = -EIO;
	cr_assert_eq(drop(), -EAGAIN);
	fake_run_for(NUM_MS(10));
	cr_assert(run->is_merging);
	cr_assert_eq(drop(), -EAGAIN);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(fake.shard.block_index->run_count, 1);
	fake.commit_rc = 0;
	(void)drop_until_done(NUM_S(5));
	cr_assert_eq(edits_of(MT_EDIT_RUN_REMOVED), 1);
}

Test(segment_drop, what_is_being_merged_is_waited_for)
{
	struct mt_run *run = fake_runs_one(50, 1, 1, 4);
	struct mt_layer *layer;

	run->is_merging = true;
	drop_stays(NUM_S(1));
	cr_assert_eq(edits_of(MT_EDIT_RUN_REMOVED), 0);
	/* Nor does the next merge begin before anybody looks again. */
	cr_assert_gt(chunk_of(FAKE_SEGMENT)->retry_ns, sim_world_now_ns(fake.world) + NUM_S(20));
	run->is_merging = false;
	cr_assert_eq(write_segment(FAKE_SEGMENT, 5), 0);
	layer = LIST_ENTRY(list_first(&chunk_of(FAKE_SEGMENT)->layers), struct mt_layer, link);
	layer->is_merging = true;
	drop_stays(NUM_S(1));
	cr_assert_eq(edits_of(MT_EDIT_RUN_REMOVED), 0);
	layer->is_merging = false;
	(void)drop_until_done(NUM_S(5));
}

Test(segment_drop, what_is_being_read_is_waited_for)
{
	struct mt_run *run = fake_runs_one(50, 1, 1, 4);

	fake_expect(1, 4);
	mt_run_hold(run);
	drop_stays(NUM_S(1));
	cr_assert_eq(edits_of(MT_EDIT_RUN_REMOVED), 1, "it is gone from the manifest");
	cr_assert_eq(fake.shard.block_index->run_count, 1);
	mt_run_release(run);
	(void)drop_until_done(NUM_S(5));
	cr_assert_eq(fake.shard.block_index->run_count, 0);
}

/* A take-over brings back what the log holds, while the mark is there: then it all begins anew. */
Test(segment_drop, begins_anew_after_a_reset)
{
	cr_assert_eq(write_segment(FAKE_SEGMENT, 1), 0);
	cr_assert(is_under_way(drop()));
	cr_assert_null(chunk_of(FAKE_SEGMENT));
	mt_segments_drop_reset(&fake.shard);
	cr_assert(list_is_empty(&fake.shard.drops));
	cr_assert_eq(write_segment(FAKE_SEGMENT, 1), 0);
	(void)drop_until_done(NUM_S(5));
	cr_assert_null(chunk_of(FAKE_SEGMENT));
	cr_assert(list_is_empty(&fake.shard.drops));
}
