/* SPDX-License-Identifier: Apache-2.0 */
/* test_read_find.c -- a miss of a run's index where nodes look blocks up: one FIND; what may be wrong with its answer */
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/level.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/index/index.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "unit/fake_runs.h"

#define CHUNK mt_chunk_number(FAKE_SEGMENT, 0)
#define BATCHES 4u

static struct mt_run *run;

/*
 * In batch i from block 100 * i on: frames of 4 blocks of versions 1 to 5, a gap of 2 behind each; then a discard. In the
 * last batch, from block 400 on, there are no gaps.
 */
static void
setup(void)
{
	fake_runs_start(61);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].agreed_level = CLEAVE_LEVEL_FIND;
	for (uint32_t batch = 0; batch < BATCHES; batch++) {
		fake_runs_batch(CHUNK, 5, 0);
		for (uint32_t i = 0; i < 5; i++)
			fake_runs_frame(RECORD_WRITE, 100 * batch + 6 * i, 4, 1 + i);
		fake_runs_frame(RECORD_DISCARD, 100 * batch + 30, 8, 0);
		fake_runs_batch_end();
	}
	fake_runs_batch(CHUNK, 5, 0);
	for (uint32_t i = 0; i < 5; i++)
		fake_runs_frame(RECORD_WRITE, 400 + 4 * i, 4, 1 + i);
	fake_runs_batch_end();
	run = fake_runs_end();
	fake_expect(0, 1);
	mt_run_cache_evict(run);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		memset(fake.nodes[i].counts, 0, sizeof(fake.nodes[i].counts));
}

static void
teardown(void)
{
	fake_runs_fini();
}

TestSuite(read_find, .init = setup, .fini = teardown);

static uint32_t
find_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		count += fake.nodes[i].counts[WIRE_EXTENT_FIND];
	return count;
}

static void
expect_calls(uint32_t finds, uint32_t reads)
{
	cr_assert_eq(find_count(), finds, "%u finds", find_count());
	cr_assert_eq(fake_read_count(), reads, "%u reads", fake_read_count());
}

Test(read_find, a_miss_is_one_request)
{
	fake_expect(109, 2);
	expect_calls(1, 0);
	cr_assert_eq(fake.port.metrics[MT_METRIC_run_pages_loaded], 1);
	cr_assert_eq(fake.port.metrics[MT_METRIC_run_pages_found], 1);
	cr_assert_eq(fake.port.metrics[MT_METRIC_replica_read_errors], 0);
	fake_expect(119, 4);
	expect_calls(1, 1); /* its page was sent along */
	fake_expect(104, 0);
	fake_expect(202, 1);
	expect_calls(2, 1);
}

Test(read_find, a_node_of_before_is_asked_the_old_way)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].agreed_level = CLEAVE_LEVEL_FIND - 1;
	fake_expect(109, 2);
	expect_calls(0, 2);
	cr_assert_eq(fake.port.metrics[MT_METRIC_run_pages_found], 0);
}

Test(read_find, a_tombstone_is_known_by_the_head_alone)
{
	fake_expect(133, 0);
	expect_calls(1, 0);
}

Test(read_find, frames_next_to_each_other_come_with_it)
{
	struct fake_msg *msg = fake_read(402, 8);
	static const uint64_t versions[8] = { 1, 1, 2, 2, 2, 2, 3, 3 };

	cr_assert_eq(fake_wait(msg), 0);
	for (uint32_t i = 0; i < 8; i++) {
		uint64_t version;

		memcpy(&version, msg->payload + i * CLEAVE_BLOCK_BYTES, sizeof(version));
		cr_assert_eq(version, versions[i], "block %u", i);
	}
	expect_calls(1, 0);
}

/* A frame is decompressed for this read, whichever way it came. */
Test(read_find, what_comes_along_warms_its_run)
{
	uint64_t before = run->read_units;

	fake_expect(109, 2);
	expect_calls(1, 0);
	cr_assert_gt(run->read_units, before);
}

Test(read_find, what_has_no_room_is_read)
{
	struct fake_msg *msg = fake_read(400, 16);

	cr_assert_eq(fake_wait(msg), 0);
	expect_calls(1, 1);
}

Test(read_find, several_readers_of_a_page_at_once)
{
	struct fake_msg *msgs[5];

	for (uint32_t i = 0; i < 5; i++)
		msgs[i] = fake_read(300 + 6 * i, 4);
	cr_assert(fake_run_quiet());
	for (uint32_t i = 0; i < 5; i++) {
		uint64_t version;

		cr_assert_eq(msgs[i]->reply.rc, 0);
		memcpy(&version, msgs[i]->payload, sizeof(version));
		cr_assert_eq(version, 1 + i);
	}
	expect_calls(1, 4);
}

/* A frame that is not what the head says is not believed, and the copy is looked at; another is read. */
Test(read_find, a_frame_that_is_not_the_one_is_read_elsewhere)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_astray = true;
	fake_expect(109, 2);
	expect_calls(1, 1);
	cr_assert_eq(fake.port.metrics[MT_METRIC_replica_read_errors], 1);
	cr_assert_eq(fake.port.metrics[MT_METRIC_repairs_queued], 1);
}

Test(read_find, a_head_that_is_not_the_one_is_read_elsewhere)
{
	fake.nodes[0].is_rotten = fake.nodes[1].is_rotten = true;
	for (uint32_t i = 0; i < BATCHES; i++)
		fake_expect(100 * i + 9, 2);
	cr_assert_gt(fake.port.metrics[MT_METRIC_replica_read_errors], 0);
}

Test(read_find, what_fails_once_is_asked_for_the_old_way)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].fault =
		    (struct fake_fault){ .opcode = WIRE_EXTENT_FIND, .countdown = 1, .rc = -EBUSY };
	fake_expect(109, 2);
	expect_calls(0, 2);
}

Test(read_find, a_link_that_is_lost_meanwhile)
{
	for (uint32_t i = 0; i < 2; i++)
		fake.nodes[i].fault = (struct fake_fault){ .opcode = WIRE_EXTENT_FIND,
			.countdown = 1,
			.is_link_lost = true,
			.is_done_anyway = i == 1 };
	for (uint32_t i = 0; i < BATCHES; i++)
		fake_expect(100 * i + 9, 2);
}

/* The run goes, with its load, before the answer is there: what was found is nobody's. */
Test(read_find, a_run_that_goes_meanwhile)
{
	struct fake_msg *msg;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_stalled = true;
	msg = fake_read(109, 1);
	fake_run_for(NUM_MS(1));
	mt_run_forget(run);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_resume(i);
	cr_assert_eq(fake_wait(msg), 0);
}
