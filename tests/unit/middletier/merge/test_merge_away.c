/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_merge_away.c -- merges that another gateway executes: who is asked, what is lent, and what follows when it goes wrong
 *
 * The other gateways are faked but for their worker, which is the port's own: what the owner gave away is executed by
 * the real one, at the nodes that both know. The first merge of each test makes the run extent that is lent.
 */
#include "middletier/merge/merge_sample.h"
#include "unit/away_rig.h"

TestSuite(merge_away, .init = setup, .fini = teardown);

/* Somebody had it: the extent is sealed where it was lent, and the run is in another one. */
static void
expect_made_anew(void)
{
	const struct mt_extent *extent;

	fake_run_for(NUM_MS(50));
	cr_assert_eq(metric(MT_METRIC_merges_away), 0);
	cr_assert_eq(metric(MT_METRIC_merges_recalled) + metric(MT_METRIC_merges_refused), 1);
	extent = mt_shard_extent(&fake.shard, test.lent_index);
	cr_assert_eq(extent->sm.state, MT_EXTENT_SEALED);
	cr_assert_eq(extent->sealed_bytes, test.lent_bytes);
	cr_assert_neq(newest()->extent_index, extent->index);
	cr_assert_eq(fake_chunk()->run_count, 2);
}

Test(merge_away, another_gateway_executes_it)
{
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 1);
	cr_assert_eq(test.peers[0].part_count, 2);
	cr_assert_eq(test.peers[0].cancel_count, 0);
	expect_away(1);
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	expect_away(2);
	/* And its owner goes on behind that, in the same chain. */
	test.peers[0].free_count = 0;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_merges_away), 2);
	cr_assert_eq(newest()->extent_index, test.lent_index);
	cr_assert_eq(fake.shard.run_roll->extent->sm.state, MT_EXTENT_OPEN);
}

Test(merge_away, the_one_that_does_least_is_given_it)
{
	know(2);
	test.peers[0].busy = 300;
	test.peers[1].busy = 299;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 1);
	cr_assert_eq(test.peers[0].part_count, 0);
	cr_assert_eq(test.peers[1].part_count, 2);
	expect_away(1);
}

Test(merge_away, one_that_is_silent_is_not_waited_for)
{
	know(2);
	test.peers[0].is_silent = true;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[1].part_count, 2);
	expect_away(1);
}

static void
first_question_is_on_its_way(void)
{
	test.unforgettable = test.peers[0].request;
}

/* A gateway that is cut off was asked; the other one, which has the recipe, says nothing. */
Test(merge_away, a_question_that_is_on_its_way_is_given_up_once)
{
	struct mt_peer_request *asked;

	know(2);
	test.peers[0].is_silent = test.peers[1].is_hung = true;
	test.on_asked = first_question_is_on_its_way;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	asked = test.peers[0].request;
	cr_assert(asked != NULL && asked->is_forgotten);
	expect_made_anew();
	/* No other recipe goes away before it has come back. */
	test.peers[0].is_silent = test.peers[1].is_hung = false;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_merges_away), 0);
	test.peers[0].request = NULL;
	asked->fn(asked, -ECANCELED, NULL, asked->arg);
	fake_run_for(NUM_S(2)); /* who failed is left alone for a while */
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_merges_away), 1);
}

Test(merge_away, without_room_it_is_made_at_home)
{
	test.peers[0].free_count = 0;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 1);
	cr_assert_eq(test.peers[0].part_count, 0);
	expect_at_home();
	begin(); /* at once: it is not asked again so soon */
	cr_assert_eq(fake_merge_end(), 0);
	fake_pass(NUM_MS(200));
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 2);
}

Test(merge_away, nobody_says_anything)
{
	test.peers[0].is_silent = true;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.away_count, 1);
	expect_at_home();
}

Test(merge_away, who_executes_none_is_not_asked_for_a_minute)
{
	test.peers[0].load_rc = -ENOTSUP;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	expect_at_home();
	fake_pass(NUM_S(50));
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 1);
	test.peers[0].load_rc = 0;
	fake_pass(NUM_S(11));
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 2);
	expect_away(1);
}

/* The recipe had two parts: nobody has all of it. */
Test(merge_away, a_first_part_that_is_refused_leaves_nothing)
{
	test.peers[0].part_rc = -EBUSY;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].part_count, 1);
	expect_at_home();
}

Test(merge_away, what_is_not_worth_it_stays)
{
	fake.settings.offload_bytes_min = NUM_MIB(4);
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 0);
	expect_at_home();
}

/* All of the chunk was discarded, and nothing lies beneath: there is no frame to ask about, and its last run goes. */
Test(merge_away, nothing_but_zeros_is_asked_of_nobody)
{
	struct mt_merge_input input;

	for (uint32_t i = 0; i < BLOCKS; i += 16)
		cr_assert_eq(fake_wait(fake_discard(i, 16)), 0);
	input = fake_input_of_all(fake_chunk(), true);
	cr_assert_eq(fake_merge_begin(&input), 0);
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 0);
	cr_assert_eq(test.away_count, 0);
	cr_assert_eq(metric(MT_METRIC_merges_away), 0);
	cr_assert(fake_chunk() == NULL || fake_chunk()->run_count == 0);
	cr_assert_eq(fake.shard.run_roll->sm.state, RUN_ROLL_OPEN);
	for (uint32_t i = 0; i < BLOCKS; i += 16)
		cr_assert_eq(fake_wait(fake_read(i, 16)), 0);
}

Test(merge_away, one_that_takes_too_long_is_given_up)
{
	test.peers[0].is_hung = true;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].cancel_count, 1);
	cr_assert_eq(metric(MT_METRIC_merges_recalled), 1);
	expect_made_anew();
}

/* The one who had it says nothing at all, and his connection lasts: merges go to the other one, after a second. */
Test(merge_away, one_that_does_not_say_that_it_has_given_up_is_left)
{
	know(2);
	test.peers[1].busy = 1;
	test.peers[0].is_hung = test.peers[0].is_deaf = true;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	expect_made_anew();
	cr_assert_not_null(test.peers[0].canceled);
	begin(); /* at once: the message is not back */
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[1].load_count, 1);
	fake_pass(NUM_S(1));
	cr_assert_null(test.peers[0].canceled);
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 1, "it has failed twice");
	cr_assert_eq(test.peers[1].load_count, 2);
	cr_assert_eq(metric(MT_METRIC_merges_away), 1);
	/* Later the silent one gets another job. */
	test.peers[0].is_hung = test.peers[0].is_deaf = false;
	fake_pass(NUM_S(2));
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 2);
	cr_assert_eq(metric(MT_METRIC_merges_away), 2);
}

/* He answers late, or his connection ends, and the message's bytes were on their way until then. */
Test(merge_away, a_recall_that_is_on_its_way_is_waited_for)
{
	struct mt_peer_request *canceled;

	test.peers[0].is_hung = test.peers[0].is_deaf = true;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	test.unforgettable = canceled = test.peers[0].canceled;
	fake_pass(NUM_S(1));
	cr_assert(canceled->is_forgotten);
	test.peers[0].is_hung = test.peers[0].is_deaf = false;
	fake_pass(NUM_S(60));
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 1);
	canceled->fn(canceled, -ECANCELED, NULL, canceled->arg);
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 2);
	cr_assert_eq(metric(MT_METRIC_merges_away), 1);
}

Test(merge_away, one_that_says_that_it_has_given_up_is_asked_again)
{
	struct mt_peer_request *canceled;

	test.peers[0].is_hung = test.peers[0].is_deaf = true;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	canceled = test.peers[0].canceled;
	test.peers[0].is_hung = test.peers[0].is_deaf = false;
	canceled->fn(canceled, -ENOENT, NULL, canceled->arg);
	fake_pass(NUM_S(1)); /* once failed */
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 2);
	cr_assert_eq(metric(MT_METRIC_merges_away), 1);
}

/* At first after a second, then after two. */
Test(merge_away, who_failed_is_left_alone_for_a_while)
{
	test.peers[0].is_hung = true;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 1);
	fake_pass(NUM_S(1));
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 2);
	fake_pass(NUM_S(1));
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 2);
}

static void
says_fewer_frames(struct mt_told *told)
{
	told->frame_count--;
}

Test(merge_away, a_part_of_it_is_no_merge)
{
	test.on_told = says_fewer_frames;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_merges_recalled), 1);
	expect_made_anew();
}

/* Each batch is a run of its own: true, and far more runs than who makes it for us would make. */
static void
says_a_part_a_batch(struct mt_told *told)
{
	const struct mt_extent *extent = fake.shard.run_roll->extent;
	const struct fake_copy *copy =
	    fake_copy_find(&fake.nodes[extent->replicas[0].node_id - 1], &extent->id);
	uint32_t at = told->parts[0].offset_bytes, end = at + told->parts[0].length_bytes;

	cr_assert_eq(told->part_count, 1);
	for (told->part_count = 0; at < end; at += told->parts[told->part_count++].length_bytes) {
		struct batch_check check = { .id = extent->id,
			.kind = EXTENT_RUN,
			.offset_bytes = at,
			.is_probe = true };

		cr_assert_eq(batch_head_check(copy->bytes + at, end - at, &check), 0);
		told->parts[told->part_count] = (struct mt_told_part){ .offset_bytes = at,
			.length_bytes = check.info.batch_bytes };
	}
	cr_assert_gt(told->part_count, 2);
}

/* All of them would pass, and then a stage of several pieces has more than a commit can name. */
Test(merge_away, more_runs_than_it_needs_are_refused)
{
	fake.settings.directory_batches_min = UINT32_MAX;
	test.on_told = says_a_part_a_batch;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_merges_recalled), 1);
	expect_made_anew();
}

static void
says_a_longer_part(struct mt_told *told)
{
	told->parts[0].length_bytes += BATCH_ALIGN;
}

Test(merge_away, a_part_that_is_longer_than_it_is_is_refused)
{
	test.on_told = says_a_longer_part;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_merges_refused), 1);
	expect_made_anew();
}

static void
says_another_place(struct mt_told *told)
{
	told->parts[0].offset_bytes += BATCH_ALIGN;
}

Test(merge_away, a_part_elsewhere_is_refused_before_a_node_is_asked)
{
	test.on_told = says_another_place;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_merges_recalled), 1);
	expect_made_anew();
}

/* ---- what is stored under right heads ---- */

/* The fourth that a worker is given is a lie: blocks under another codec's name. */
static void
three_good_ones(void)
{
	for (uint32_t i = 0; i < 3; i++) {
		begin();
		cr_assert_eq(fake_merge_end(), 0);
	}
	expect_away(3);
	fake.settings.recipe_lies = 1000;
}

/* The frames of a merge that another gateway executes which its owner reads: a worker loads each block by itself. */
static uint32_t
sampled(void)
{
	uint32_t before = fake.engines.kind_counts[ENGINE_JOB_LOAD];

	begin();
	cr_assert_eq(fake_merge_end(), 0);
	return fake.engines.kind_counts[ENGINE_JOB_LOAD] - before - BLOCKS;
}

#define FRAMES (BLOCKS / ENGINE_RECORD_BLOCKS_MAX)

Test(merge_away, all_of_who_is_new_is_read_and_later_a_part)
{
	cr_assert_eq(sampled(), FRAMES);
	cr_assert_eq(sampled(), FRAMES);
	cr_assert_eq(sampled(), 1);
	cr_assert_eq(sampled(), 1);
	expect_away(4);
}

Test(merge_away, all_of_who_failed_is_read)
{
	(void)sampled();
	(void)sampled();
	cr_assert_eq(sampled(), 1);
	test.on_told = says_a_longer_part;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	test.on_told = NULL;
	fake_pass(NUM_S(2));
	cr_assert_eq(sampled(), FRAMES);
	cr_assert_eq(metric(MT_METRIC_merges_away), 4);
}

/* Each question for what a frame holds fails once: another replica is asked. */
Test(merge_away, a_question_that_fails_is_asked_elsewhere)
{
	for (uint32_t n = 1; n <= 8; n++) {
		for (uint32_t i = 0; i < 3; i++)
			fake.nodes[i].fault = (struct fake_fault){ .opcode = WIRE_EXTENT_GATHER,
				.countdown = n,
				.rc = n % 2 == 0 ? -EIO : -ENOTCONN };
		begin();
		cr_assert_eq(fake_merge_end(), 0);
		cr_assert_eq(metric(MT_METRIC_merges_away), n);
	}
}

Test(merge_away, frames_that_hold_other_than_their_blocks_are_refused)
{
	three_good_ones();
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_merges_away), 3);
	cr_assert_eq(metric(MT_METRIC_merges_refused), 1);
	cr_assert_eq(mt_shard_extent(&fake.shard, test.lent_index)->sm.state, MT_EXTENT_SEALED);
	cr_assert_neq(newest()->extent_index, test.lent_index);
	for (uint32_t i = 0; i < BLOCKS; i += 16)
		cr_assert_eq(fake_wait(fake_read(i, 16)), 0);
}

/* Flip a byte of the last payload of each batch that was made, at so many of its replicas. */
static uint32_t rotten_count;

static void
copies_rot(struct mt_told *told)
{
	const struct mt_extent *extent = fake.shard.run_roll->extent;

	for (uint32_t i = 0; i < rotten_count; i++) {
		struct fake_copy *copy =
		    fake_copy_find(&fake.nodes[extent->replicas[i].node_id - 1], &extent->id);
		uint32_t at = told->parts[0].offset_bytes;
		uint32_t end = at + told->parts[0].length_bytes - told->parts[0].directory_bytes;

		while (at < end) {
			struct batch_check check = { .id = extent->id,
				.kind = EXTENT_RUN,
				.offset_bytes = at,
				.is_probe = true };

			cr_assert_eq(batch_head_check(copy->bytes + at, end - at, &check), 0);
			copy->bytes[at + check.info.used_bytes - 1] ^= 1;
			at += check.info.batch_bytes;
		}
	}
}

/* All of the first piece of a peer is read: the copy that has rotted since is no fault of the peer's. */
Test(merge_away, a_copy_that_rots_is_read_elsewhere)
{
	test.on_told = copies_rot;
	rotten_count = 2;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	expect_away(1);
}

Test(merge_away, frames_that_pass_at_no_replica_are_refused)
{
	test.on_told = copies_rot;
	rotten_count = 3;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_merges_refused), 1);
	expect_made_anew();
}

static void
fail_append(int rc)
{
	uint32_t node = fake.shard.run_roll->extent->replicas[1].node_id - 1;

	fake.nodes[node].fault =
	    (struct fake_fault){ .opcode = WIRE_EXTENT_APPEND, .countdown = 1, .rc = rc };
}

static void
a_disk_fails(void)
{
	fail_append(-EIO);
}

Test(merge_away, a_disk_that_fails_there_is_seen_here)
{
	test.at_work = a_disk_fails;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_jobs_failed), 1);
	expect_made_anew();
}

static void
another_owner(void)
{
	fail_append(-ESTALE);
}

/* The owner hears of it by itself. */
Test(merge_away, a_newer_owner_ends_the_job_alone)
{
	test.at_work = another_owner;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_jobs_failed), 1);
	cr_assert_eq(fake.stop_rc, 0);
	expect_made_anew();
}

/* ---- a moment after it was given ---- */

static struct loop_timer later_timer;
static void (*later_fn)(void);

static void
on_later(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
	later_fn();
}

static void
a_moment_later_by(uint64_t ns)
{
	loop_timer_init(&later_timer, on_later, NULL);
	loop_timer_start(fake.loop, &later_timer, ns);
}

static void
a_moment_later(void)
{
	a_moment_later_by(NUM_US(300));
}

static void
the_shard_stops(void)
{
	mt_merge_stop(&fake.shard);
}

/* ---- more than an extent holds ---- */

static void
setup_small(void)
{
	setup_slots(NUM_MIB(1));
}

TestSuite(merge_away_pieces, .init = setup_small, .fini = teardown);

/* Each block is in one of the @count newest runs. */
static void
expect_in_runs(uint32_t count)
{
	for (uint32_t i = 0; i < BLOCKS; i++) {
		struct loop_link *link = fake_chunk()->runs.next;
		struct mt_location location;
		uint32_t found = 0;

		for (uint32_t k = 0; k < count; k++, link = link->next)
			found += mt_run_find(mt_run_of(link), i, &location);
		cr_assert_eq(found, 1, "block %u", i);
	}
}

static uint32_t
added_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < fake.edit_count; i++)
		count += fake.edits[i].kind == MT_EDIT_RUN_ADDED;
	return count;
}

Test(merge_away_pieces, one_commit_names_them_all)
{
	uint32_t before = added_count(), runs = fake_chunk()->run_count;

	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_gt(test.away_count, 1);
	cr_assert_eq(metric(MT_METRIC_merges_away), test.away_count);
	cr_assert_eq(metric(MT_METRIC_merges_recalled) + metric(MT_METRIC_merges_refused), 0);
	cr_assert_eq(added_count() - before, test.away_count);
	cr_assert_eq(fake_chunk()->run_count, runs + test.away_count);
	expect_in_runs(test.away_count);
}

static void
the_second_fails(void)
{
	if (test.away_count == 2)
		a_disk_fails();
}

/* The first piece was made away and seen: one commit names it, and what the shard's gateway has made behind it. */
static void
expect_the_first_and_the_rest(uint32_t before, uint32_t runs)
{
	uint32_t first = 0;

	cr_assert_eq(metric(MT_METRIC_merges_away), 1);
	cr_assert_gt(added_count() - before, 1);
	cr_assert_eq(fake_chunk()->run_count, runs + added_count() - before);
	expect_in_runs(added_count() - before);
	for (uint32_t i = 0; i < fake.edit_count; i++)
		first += fake.edits[i].kind == MT_EDIT_RUN_ADDED &&
		    fake.edits[i].id.counter == test.first_counter &&
		    fake.edits[i].offset_bytes == test.first_bytes;
	cr_assert_eq(first, 1, "it stayed");
	for (uint32_t i = 0; i < fake.shard.extent_count; i++)
		cr_assert(fake.shard.extents[i] == NULL || fake.shard.extents[i]->use_count == 0);
}

Test(merge_away_pieces, where_one_fails_the_rest_is_made_here)
{
	uint32_t before = added_count(), runs = fake_chunk()->run_count;

	test.at_work = the_second_fails;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.away_count, 2);
	cr_assert_eq(metric(MT_METRIC_merges_recalled), 1);
	expect_the_first_and_the_rest(before, runs);
}

static void
no_room_any_more(void)
{
	test.peers[0].free_count = 0;
}

Test(merge_away_pieces, where_nobody_has_room_the_rest_is_made_here)
{
	uint32_t before = added_count(), runs = fake_chunk()->run_count;

	test.at_work = no_room_any_more;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_merges_recalled) + metric(MT_METRIC_merges_refused), 0);
	expect_the_first_and_the_rest(before, runs);
	cr_assert_eq(fake.port.merge_work->exec.writer.part_max, MERGE_PARTS_MAX - 1,
	    "both together are as many as one commit names");
}

static void
the_second_is_cut_off(void)
{
	later_fn = the_shard_stops;
	if (test.away_count == 2)
		a_moment_later();
}

/* A piece that was seen before is let go with the merge. */
Test(merge_away_pieces, a_shard_that_stops_names_none)
{
	uint32_t before = added_count();

	test.at_work = the_second_is_cut_off;
	begin();
	cr_assert_eq(fake_merge_end(), -ECANCELED);
	cr_assert_eq(metric(MT_METRIC_merges_away), 1);
	cr_assert_eq(added_count(), before);
	fake_pass(NUM_S(1));
	for (uint32_t i = 0; i < fake.shard.extent_count; i++)
		cr_assert(fake.shard.extents[i] == NULL || fake.shard.extents[i]->use_count == 0);
}

/* ---- while somebody is at work on it ---- */

Test(merge_away, a_shard_that_stops_gives_it_up)
{
	test.at_work = a_moment_later;
	later_fn = the_shard_stops;
	begin();
	cr_assert_eq(fake_merge_end(), -ECANCELED);
	cr_assert_eq(test.peers[0].cancel_count, 1);
	cr_assert_eq(metric(MT_METRIC_merges_away), 0);
	fake_pass(NUM_S(1));
	cr_assert(mt_worker_is_quiet(&fake.port));
	cr_assert_eq(mt_worker_free_count(&fake.port), 1);
}

static void
its_connection_ends(void)
{
	peer_cut(&test.peers[0]);
}

/* Nobody waits for what it does yet. */
Test(merge_away, one_whose_connection_ends_is_replaced_at_once)
{
	test.at_work = a_moment_later;
	later_fn = its_connection_ends;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(metric(MT_METRIC_merges_recalled), 1);
	expect_made_anew();
	cr_assert_eq(test.peers[0].cancel_count, 0);
}

/* A question for what frames hold is out. */
static void
on_sampled(const struct sm *sm, uint32_t from, uint32_t to)
{
	on_move(sm, from, to);
	if (strcmp(sm->name, "merge_sample") == 0 && to == SAMPLE_ASKED)
		a_moment_later_by(1);
}

Test(merge_away, a_shard_that_stops_while_frames_are_read_names_none)
{
	uint32_t before = added_count();

	sm_set_tracer(on_sampled);
	later_fn = the_shard_stops;
	begin();
	cr_assert_eq(fake_merge_end(), -ECANCELED);
	cr_assert_eq(added_count(), before);
	fake_pass(NUM_S(1));
	for (uint32_t i = 0; i < fake.shard.extent_count; i++)
		cr_assert(fake.shard.extents[i] == NULL || fake.shard.extents[i]->use_count == 0);
}

/* ---- where merges at home are executed by recipes, too ---- */

static void
setup_recipes(void)
{
	rig_has_recipes = true;
	setup();
}

TestSuite(merge_away_recipes, .init = setup_recipes, .fini = teardown);

/* The recipe of the merge before it is over. */
Test(merge_away_recipes, without_room_all_of_it_is_made_at_home)
{
	test.peers[0].free_count = 0;
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(test.peers[0].load_count, 1);
	cr_assert_eq(fake_chunk()->run_count, 2);
	expect_at_home();
}
