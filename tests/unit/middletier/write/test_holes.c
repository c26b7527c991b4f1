/* SPDX-License-Identifier: Apache-2.0 */
/* test_holes.c -- discards of nothing leave nothing behind, and what the map of a segment's holes says */
#include "base/num.h"
#include "cleave/wire.h"
#include "middletier/catalog/scope.h"
#include "middletier/common/metric.h"
#include "middletier/common/shard.h"
#include "middletier/read/holes.h"
#include "middletier/write/write_path.h"
#include "unit/fake_port.h"

#define CHUNK_BLOCKS ((uint32_t)CLEAVE_CHUNK_BLOCKS)

static struct mt_shard *shards[1];

static void
setup(void)
{
	fake_init(31, false);
	shards[0] = &fake.shard;
	fake.port.shard_by_number = shards;
}

static void
teardown(void)
{
	fake_fini();
}

TestSuite(holes, .init = setup, .fini = teardown);

static uint64_t
metric(enum mt_metric which)
{
	return fake.port.metrics[which];
}

/* Is chunk @index said to be a hole, of @count that are? */
static bool
map_says(uint32_t index, uint32_t count)
{
	struct fake_msg *msg = fake_msg_take();
	struct wire_io io = { .opcode = WIRE_HOLES,
		.segment = FAKE_SEGMENT,
		.length_bytes = WIRE_HOLES_BYTES };
	uint32_t sum = 0;

	msg->msg.payload_bytes = 0;
	mt_holes(&fake.session, &msg->msg, &io);
	fake_run_for(NUM_MS(1));
	cr_assert(msg->is_answered);
	cr_assert_eq(msg->reply.rc, 0);
	cr_assert_eq(msg->reply.payload_bytes, WIRE_HOLES_BYTES);
	for (uint32_t i = 0; i < CLEAVE_SEGMENT_CHUNKS; i++)
		sum += msg->payload[i / 8] >> i % 8 & 1;
	cr_assert_eq(sum, count, "%u", sum);
	return (msg->payload[index / 8] >> index % 8 & 1) != 0;
}

Test(holes, a_discard_of_nothing_has_no_record_and_no_chunk)
{
	uint64_t sequence;

	fake_start_quiet();
	sequence = fake.shard.next_sequence;
	cr_assert_eq(fake_wait(fake_discard(0, CHUNK_BLOCKS)), 0);
	cr_assert_eq(fake_wait(fake_discard(CHUNK_BLOCKS + 5, 9)), 0);
	cr_assert_eq(metric(MT_METRIC_discards), 2);
	cr_assert_eq(metric(MT_METRIC_hole_discards), 2);
	cr_assert_eq(fake.shard.next_sequence, sequence);
	cr_assert_eq(fake.shard.block_index->chunk_count, 0);
}

Test(holes, a_discard_of_something_has_a_record)
{
	fake_start_quiet();
	cr_assert_eq(fake_wait(fake_write(7, 1, 1)), 0);
	cr_assert_eq(fake_wait(fake_discard(0, CHUNK_BLOCKS)), 0);
	cr_assert_eq(metric(MT_METRIC_hole_discards), 0);
	fake_expect(7, 0);
}

/* The write may become durable yet: nothing that comes after it is needless. */
Test(holes, a_write_under_way_is_something)
{
	struct fake_msg *write, *discard;

	fake_start_quiet();
	fake_stall_all(true);
	write = fake_write(7, 1, 1);
	discard = fake_discard(0, CHUNK_BLOCKS);
	fake_run_for(NUM_MS(1));
	cr_assert_not(map_says(0, CLEAVE_SEGMENT_CHUNKS - 1));
	cr_assert_not(discard->is_answered);
	fake_stall_all(false);
	cr_assert_eq(fake_wait(discard), 0);
	cr_assert_eq(write->reply.rc, 0);
	cr_assert_eq(metric(MT_METRIC_hole_discards), 0);
	fake_expect(7, 0);
}

Test(holes, a_clone_has_what_its_origin_has)
{
	struct mt_scope *scope = &fake.session.volume.scope;
	struct wire_io io = fake_io(WIRE_DISCARD, 0, CHUNK_BLOCKS);
	struct fake_msg *msg = fake_msg_take();
	uint64_t clone = wire_segment(1, FAKE_SEGMENT);

	fake_start_quiet();
	cr_assert_eq(fake_wait(fake_write(7, 1, 1)), 0);
	scope->spans[1] = scope->spans[0];
	scope->spans[0].segment_base = clone;
	scope->span_count = 2;
	io.segment = clone;
	fake_submit(msg, &io);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(metric(MT_METRIC_hole_discards), 0);
	io.offset_bytes = CLEAVE_CHUNK_BYTES;
	msg = fake_msg_take();
	fake_submit(msg, &io);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(metric(MT_METRIC_hole_discards), 1);
}

Test(holes, a_session_that_is_gone_has_nothing_done)
{
	struct fake_msg *msg;

	fake_start_quiet();
	fake.is_session_gone = true;
	msg = fake_discard(0, CHUNK_BLOCKS);
	cr_assert_eq(fake_wait(msg), -ESHUTDOWN);
}

Test(holes, the_map_knows_what_is_served_and_under_a_lease)
{
	cr_assert_not(map_says(3, 0));
	fake_start_quiet();
	cr_assert(map_says(3, CLEAVE_SEGMENT_CHUNKS));
	cr_assert_eq(fake_wait(fake_write(3 * CHUNK_BLOCKS + 1, 1, 1)), 0);
	cr_assert_not(map_says(3, CLEAVE_SEGMENT_CHUNKS - 1));
	fake.shared.lease_until_ns = 1;
	cr_assert_not(map_says(4, 0));
	fake.shared.lease_until_ns = UINT64_MAX;
	fake.port.shard_by_number = NULL;
	cr_assert_not(map_says(4, 0));
	fake.port.shard_by_number = shards;
	fake_stop(-ECANCELED);
	cr_assert_not(map_says(4, 0));
}
