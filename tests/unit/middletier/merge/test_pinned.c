/* SPDX-License-Identifier: Apache-2.0 */
/* test_pinned.c -- layers that no merge can move: whose writes they hold up, and how much memory they take at most */
#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/common/room_waits.h"
#include "middletier/common/shard.h"
#include "middletier/index/index.h"
#include "middletier/index/index_apply.h"
#include "middletier/index/memtable.h"
#include "middletier/merge/pace.h"
#include "middletier/merge/reclaim.h"
#include "middletier/merge/reclaim_room.h"
#include "unit/fake_port.h"

#define CHUNK ((uint32_t)CLEAVE_CHUNK_BLOCKS)
#define PINNED_SEGMENT (FAKE_SEGMENT + 1)

static struct mt_session pinned_session;

static void
setup(void)
{
	fake_init(1, false);
	fake_set_slot_bytes(NUM_MIB(1));
	fake_start();
	mt_reclaim_start(&fake.shard);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slots_total = 100000;
	fake.settings.log_bytes = NUM_MIB(8); /* of memory 1 MiB, and 2 */
	fake.session.volume.segment_base = FAKE_SEGMENT;
	fake.session.volume.segment_count = 1;
	pinned_session = fake.session;
	pinned_session.volume.id = 2;
	memcpy(pinned_session.volume.name, "pinned", 7);
	pinned_session.volume.segment_base = PINNED_SEGMENT;
	mt_reclaim_kick(&fake.shard);
	fake_run_for(NUM_MS(10));
	cr_assert_not_null(fake.shard.log);
}

static void
teardown(void)
{
	fake_fini();
}

TestSuite(pinned, .init = setup, .fini = teardown);

/* The chunk's layer takes @count records of 16 blocks that say nothing: as many keys, and next to no log. */
static struct mt_chunk *
fill(uint64_t segment, uint32_t chunk, uint32_t count)
{
	struct record_desc record = { .segment = segment,
		.block_count = 16,
		.kind = RECORD_WRITE,
		.stored_bytes = 4096 };

	for (uint32_t i = 0; i < count; i++) {
		record.block = chunk * CHUNK + 16 * i;
		record.sequence = fake.shard.next_sequence++;
		cr_assert_eq(mt_index_apply(fake.shard.block_index, &record, 0,
				 fake.shard.log->index, 4096, 0),
		    0);
	}
	return mt_index_chunk(fake.shard.block_index, mt_chunk_number(segment, chunk * CHUNK));
}

/* As a flush does that misses what they have. */
static void
pin(struct mt_chunk *chunk)
{
	mt_chunk_pin(chunk, MT_PIN_COPY);
}

/* Layers of the pinned volume, until they take @bytes more. */
static void
fill_pinned(uint64_t bytes)
{
	static uint32_t at = 1;
	uint64_t end_bytes = fake.shard.block_index->memory_bytes + bytes;

	while (fake.shard.block_index->memory_bytes < end_bytes)
		pin(fill(PINNED_SEGMENT, at++, 1000));
}

Test(pinned, they_hold_up_no_other_volume)
{
	fill_pinned(NUM_MIB(2));
	cr_assert_gt(fake.shard.block_index->memory_bytes, NUM_MIB(2));
	cr_assert_not(mt_reclaim_is_memory_full(&fake.shard));
	cr_assert_lt(mt_reclaim_pressure(&fake.shard, 0), PACE_HURRY, "nor does anybody hurry");
	cr_assert_eq(fake_wait(fake_write(0, 16, 1)), 0);
}

/* By a session of the volume that has the segment. */
static struct fake_msg *
submit(uint64_t segment, enum wire_opcode opcode)
{
	struct wire_io io = fake_io(opcode, 0, 16);
	struct mt_volume volume = fake.session.volume;
	struct fake_msg *msg;

	io.segment = segment;
	if (segment == PINNED_SEGMENT)
		fake.session.volume = pinned_session.volume;
	if (opcode == WIRE_WRITE) {
		msg = fake_write_as(io, 0, 1);
	} else {
		msg = fake_msg_take();
		fake_submit(msg, &io);
	}
	fake_run_for(NUM_S(2));
	fake.session.volume = volume;
	return msg;
}

static void
expect(uint64_t segment, enum wire_opcode opcode, int rc)
{
	struct fake_msg *msg = submit(segment, opcode);

	cr_assert(msg->is_answered);
	cr_assert_eq(msg->reply.rc, rc, "%d", msg->reply.rc);
}

Test(pinned, at_their_limit_their_own_volume_is_refused_and_no_other)
{
	const struct mt_room_wait *wait = &fake.port.room_waits.volumes[0];

	fill_pinned(NUM_MIB(1));
	expect(PINNED_SEGMENT, WIRE_WRITE, 0);
	fill_pinned(NUM_MIB(1));
	expect(PINNED_SEGMENT, WIRE_WRITE, -ENOSPC);
	expect(PINNED_SEGMENT, WIRE_DISCARD, -ENOSPC);
	expect(FAKE_SEGMENT, WIRE_WRITE, 0);
	expect(FAKE_SEGMENT, WIRE_DISCARD, 0);
	cr_assert_str_eq(wait->name, "pinned");
	cr_assert_eq(wait->refused_count, 2);
	/* A merge has moved one of them. */
	mt_index_remove_chunk(
	    mt_index_chunk(fake.shard.block_index, mt_chunk_number(PINNED_SEGMENT, CHUNK)));
	expect(PINNED_SEGMENT, WIRE_WRITE, 0);
}

/* Many volumes whose layers turn out to be pinned all at once. */
Test(pinned, their_memory_is_bounded)
{
	struct fake_msg *msg;

	fill_pinned(NUM_MIB(9) / 2);
	cr_assert_not(mt_reclaim_is_memory_full(&fake.shard));
	fill_pinned(NUM_MIB(2));
	cr_assert(mt_reclaim_is_memory_full(&fake.shard));
	msg = submit(FAKE_SEGMENT, WIRE_WRITE);
	cr_assert_not(msg->is_answered, "it waits");
}

/* A chunk's layers count as pinned by what they are now. */
static uint64_t
bytes_of(const struct mt_chunk *chunk)
{
	uint64_t bytes = 0;

	for (const struct loop_link *link = chunk->layers.next; link != &chunk->layers;
	     link = link->next)
		bytes += sizeof(struct mt_layer) +
		    mt_memtable_bytes(&LIST_ENTRY(link, struct mt_layer, link)->table);
	return bytes;
}

Test(pinned, they_are_counted_as_layers_come_and_go)
{
	struct mt_index *index = fake.shard.block_index;
	struct mt_chunk *chunk = fill(PINNED_SEGMENT, 1, 100);

	(void)fill(FAKE_SEGMENT, 1, 100);
	cr_assert_eq(index->pinned_bytes, 0);
	pin(chunk);
	cr_assert_eq(index->pinned_bytes, bytes_of(chunk));
	cr_assert_eq(mt_index_freeze(chunk), 0);
	(void)fill(PINNED_SEGMENT, 1, 500);
	cr_assert_eq(chunk->layer_count, 2);
	mt_chunk_pin(chunk, MT_PIN_KEY);
	cr_assert_eq(index->pinned_bytes, bytes_of(chunk));
	mt_index_remove_layer(mt_layer_of(chunk->layers.prev));
	cr_assert_eq(index->pinned_bytes, bytes_of(chunk));
	cr_assert_eq(mt_segment_find(index, PINNED_SEGMENT)->pinned_count, 1);
	mt_chunk_pin(chunk, MT_PIN_NONE);
	cr_assert_eq(index->pinned_bytes, 0);
	cr_assert_eq(mt_segment_find(index, PINNED_SEGMENT)->pinned_count, 0);
	pin(chunk);
	mt_index_remove_chunk(chunk);
	cr_assert_eq(index->pinned_bytes, 0);
	cr_assert_null(mt_segment_find(index, PINNED_SEGMENT));
}
