/* SPDX-License-Identifier: Apache-2.0 */
/* test_chunk_map.c -- where the newest blocks of a range lie: each block that is named is what a read returns */
#include "base/num.h"
#include "base/random.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/ticket.h"
#include "cleave/wire.h"
#include "middletier/catalog/scope.h"
#include "middletier/common/alloc.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/index/index.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "middletier/read/read_path.h"
#include "middletier/write/write_path.h"
#include "unit/fake_runs.h"

#define CHUNK mt_chunk_number(FAKE_SEGMENT, 0)
#define ORIGIN 900u /* a segment of another volume */
#define MODEL_BLOCKS 400u

static void
setup(void)
{
	fake_runs_start(61);
	fake_runs_codec = ENGINE_NONE;
}

TestSuite(chunk_map, .init = setup, .fini = fake_runs_fini);

/* An answer, block by block. */
enum seen { UNTOLD, UNNAMED, ZEROS, STORED };
static struct map {
	uint32_t block_count;
	uint32_t source_count, entry_count;
	struct wire_map_source sources[WIRE_MAP_SOURCES_MAX];
	struct {
		enum seen seen;
		struct wire_map_entry entry;
	} blocks[CLEAVE_CHUNK_BLOCKS];
} map;

static struct fake_msg *
ask(uint32_t block, uint32_t count)
{
	struct fake_msg *msg = fake_msg_take();
	struct wire_io io = fake_io(WIRE_CHUNK_MAP, block, count);

	cr_assert_not_null(msg);
	fake_submit(msg, &io);
	return msg;
}

/* The answer is in map; blocks count from @from on. */
static void
take(struct fake_msg *msg, uint32_t from, uint32_t count)
{
	struct wire_map_head head;
	struct wire_map_entry entry;
	struct wire_map_walk walk;
	const uint8_t *at = msg->payload + WIRE_MAP_HEAD_BYTES;
	const char *field = "";
	int rc;

	cr_assert_eq(fake_wait(msg), 0, "rc %d", msg->reply.rc);
	cr_assert_eq(msg->reply.payload_crc, crc32c(0, msg->payload, msg->reply.payload_bytes));
	cr_assert_eq(wire_map_head_decode(msg->payload, msg->reply.payload_bytes, count, &head,
			 &field),
	    0, "%s", field);
	map.block_count = head.block_count;
	map.source_count = head.source_count;
	map.entry_count = 0;
	for (uint32_t i = 0; i < head.source_count; i++, at += WIRE_MAP_SOURCE_BYTES)
		cr_assert_eq(wire_map_source_decode(at, &map.sources[i], &field), 0, "%s", field);
	for (uint32_t i = 0; i < head.block_count; i++)
		map.blocks[from + i].seen = UNNAMED;
	walk = (struct wire_map_walk){ &head, map.sources, at, at + head.entry_bytes, 0 };
	while ((rc = wire_map_walk_next(&walk, &entry, &field)) == 1) {
		map.entry_count++;
		for (uint32_t i = 0; i < entry.block_count; i++) {
			map.blocks[from + entry.block + i].seen =
			    entry.source == WIRE_MAP_ZEROS ? ZEROS : STORED;
			map.blocks[from + entry.block + i].entry = entry;
		}
	}
	cr_assert_eq(rc, 0, "%s", field);
}

static void
look(uint32_t block, uint32_t count)
{
	memset(&map, 0, sizeof(map));
	take(ask(block, count), block, count);
}

/* The bytes at the entry's place, at each of its nodes, are version @version of @block: as a client would check it. */
static void
expect_stored(uint32_t block, uint32_t from, uint64_t version)
{
	const struct wire_map_entry *entry = &map.blocks[block].entry;
	const struct wire_map_source *source = &map.sources[entry->source];
	uint32_t in_entry = block - from - entry->block;
	uint8_t plain[ENGINE_RECORD_BYTES_MAX], expected[CLEAVE_BLOCK_BYTES];
	struct extent_id id = extent_id_unpack(source->extent);

	fake_pattern(expected, block, version);
	cr_assert_eq(entry->block_crcs[in_entry], crc32c(0, expected, sizeof(expected)));
	for (uint32_t i = 0; i < CLEAVE_COPIES && source->copies[i].node_id != 0; i++) {
		const struct engine_ops *ops = engine_by_id(entry->codec_id);
		struct fake_copy *copy =
		    fake_copy_find(&fake.nodes[source->copies[i].node_id - 1], &id);
		void *state = ops->create();

		cr_assert_not_null(copy);
		cr_assert_leq(entry->offset_bytes + entry->stored_bytes, copy->length);
		cr_assert_eq(crc32c(0, copy->bytes + entry->offset_bytes, entry->stored_bytes),
		    entry->stored_crc);
		cr_assert_eq(ops->decompress(state, copy->bytes + entry->offset_bytes,
				 entry->stored_bytes, plain,
				 entry->record_blocks * CLEAVE_BLOCK_BYTES),
		    0);
		ops->destroy(state);
		cr_assert_eq(memcmp(plain +
				     (size_t)(entry->first_block + in_entry) * CLEAVE_BLOCK_BYTES,
				 expected, sizeof(expected)),
		    0);
	}
}

/* Versions of consecutive blocks; 0: zeros; LOG: not named. */
#define LOG UINT64_MAX

static void
expect(uint32_t block, uint32_t count, const uint64_t *versions)
{
	look(block, count);
	cr_assert_eq(map.block_count, count);
	for (uint32_t i = 0; i < count; i++) {
		enum seen seen = map.blocks[block + i].seen;

		if (versions[i] == LOG)
			cr_assert_eq(seen, UNNAMED, "block %u: %d", block + i, (int)seen);
		else if (versions[i] == 0)
			cr_assert_eq(seen, ZEROS, "block %u: %d", block + i, (int)seen);
		else
			cr_assert_eq(seen, STORED, "block %u: %d", block + i, (int)seen);
		if (versions[i] != LOG && versions[i] != 0)
			expect_stored(block + i, block, versions[i]);
	}
}

static void
write_now(uint32_t block, uint32_t block_count, uint64_t version)
{
	cr_assert_eq(fake_wait(fake_write(block, block_count, version)), 0);
}

Test(chunk_map, a_port_takes_memory_for_maps_with_its_first_one)
{
	cr_assert_null(fake.port.read->map_maker);
	mt_alloc_fail_at(1);
	cr_assert_eq(fake_wait(ask(7, 1)), -ENOMEM);
	mt_alloc_fail_at(0);
	look(7, 1);
	cr_assert_eq(map.blocks[7].seen, ZEROS);
	cr_assert_not_null(fake.port.read->map_maker);
}

static struct mt_run *
one_frame(uint64_t chunk, uint64_t flushed, uint64_t cut, uint8_t kind, uint32_t block,
    uint32_t count, uint64_t version)
{
	fake_runs_batch(chunk, flushed, cut);
	fake_runs_frame(kind, block, count, version);
	fake_runs_batch_end();
	return fake_runs_end();
}

Test(chunk_map, of_what_was_never_written_is_zeros)
{
	look(0, CLEAVE_CHUNK_BLOCKS);
	cr_assert_eq(map.block_count, WIRE_MAP_BLOCKS_MAX, "as much as one answer tells");
	cr_assert_eq(map.entry_count, 1);
	cr_assert_eq(map.blocks[WIRE_MAP_BLOCKS_MAX - 1].seen, ZEROS);
	cr_assert_eq(map.blocks[WIRE_MAP_BLOCKS_MAX].seen, UNTOLD);
	cr_assert_eq(fake.port.metrics[MT_METRIC_chunk_maps], 1);
}

Test(chunk_map, names_frames_of_runs_and_nothing_of_the_log)
{
	static const uint64_t versions[16] = { 1, 2, 2, LOG, 3, 0, 0, LOG, 1, 1, 1, 1, 0, 0, LOG,
		0 };

	fake_runs_codec = ENGINE_LZ4;
	(void)fake_runs_one(5, 0, 12, 1);
	(void)fake_runs_one(9, 4, 1, 3);
	(void)fake_runs_one(7, 1, 2, 2);
	(void)one_frame(CHUNK, 10, 0, RECORD_DISCARD, 5, 2, 0);
	write_now(3, 1, 7);
	write_now(7, 1, 7);
	write_now(14, 1, 9);
	expect(0, 16, versions);
	cr_assert_eq(map.source_count, 3);
	expect(2, 9, versions + 2);
	/* Zeros of the log are zeros. */
	cr_assert_eq(fake_wait(fake_discard(0, 12)), 0);
	expect(0, 12, (const uint64_t[12]){ 0 });
}

Test(chunk_map, a_frame_that_a_newer_run_splits_is_named_twice)
{
	static const uint64_t versions[8] = { 1, 1, 1, 2, 1, 1, 1, 1 };

	(void)fake_runs_one(5, 0, 8, 1);
	(void)fake_runs_one(6, 3, 1, 2);
	expect(0, 8, versions);
	cr_assert_eq(map.entry_count, 3);
	cr_assert_eq(map.blocks[0].entry.offset_bytes, map.blocks[4].entry.offset_bytes);
	cr_assert_eq(map.blocks[4].entry.first_block, 4);
	cr_assert_eq(map.blocks[4].entry.record_blocks, 8);
	expect(5, 2, versions + 5);
	cr_assert_eq(map.blocks[5].entry.first_block, 5);
}

Test(chunk_map, zeros_hide_what_is_older)
{
	(void)fake_runs_one(5, 0, 4, 1);
	(void)one_frame(CHUNK, 6, 0, RECORD_ZEROES, 0, 2, 0);
	expect(0, 4, (const uint64_t[4]){ 0, 0, 1, 1 });
	/* A discard of all of the chunk is a flag of its layer. */
	cr_assert_eq(fake_wait(fake_discard(0, CLEAVE_CHUNK_BLOCKS)), 0);
	write_now(3, 1, 5);
	expect(0, 4, (const uint64_t[4]){ 0, 0, 0, LOG });
}

Test(chunk_map, what_is_lost_or_encrypted_is_not_named)
{
	struct mt_run *run = fake_runs_one(5, 0, 8, 1);

	(void)one_frame(CHUNK, 6, 0, RECORD_LOST, 2, 1, 0);
	expect(0, 4, (const uint64_t[4]){ 1, 1, LOG, 1 });
	run->index->frames[0].codec_id |= ENGINE_ENCRYPTED;
	expect(0, 4, (const uint64_t[4]){ LOG, LOG, LOG, LOG });
	cr_assert_eq(map.source_count, 0);
}

Test(chunk_map, a_clone_is_told_of_its_origin)
{
	struct mt_scope *scope = &fake.session.volume.scope;
	uint64_t origin = mt_chunk_number(ORIGIN, 0);

	scope->span_count = 2;
	scope->spans[1] = (struct mt_span){ ORIGIN, 0, 6 };
	(void)one_frame(origin, 9, 6, RECORD_DISCARD, 0, 8, 2); /* after the snapshot */
	(void)one_frame(CHUNK, 6, 7, RECORD_WRITE, 2, 2, 3);
	(void)one_frame(CHUNK, 7, 7, RECORD_DISCARD, 5, 1, 0);
	write_now(6, 1, 4);
	expect(0, 8, (const uint64_t[8]){ 0, 0, 3, 3, 0, 0, LOG, 0 });
	/* Patterns name the block of its segment, and both segments begin at 0. */
	(void)one_frame(origin, 5, 0, RECORD_WRITE, 0, 8, 1);
	expect(0, 8, (const uint64_t[8]){ 1, 1, 3, 3, 1, 0, LOG, 1 });
}

Test(chunk_map, of_a_volume_that_was_rolled_back_hides_what_is_between)
{
	struct mt_scope *scope = &fake.session.volume.scope;
	uint64_t base = scope->spans[0].segment_base;

	(void)one_frame(CHUNK, 5, 0, RECORD_WRITE, 0, 4, 1);
	(void)one_frame(CHUNK, 6, 5, RECORD_WRITE, 1, 1, 2); /* rolled back */
	(void)one_frame(CHUNK, 7, 8, RECORD_WRITE, 2, 1, 3);
	scope->spans[0] = (struct mt_span){ base, 8, UINT64_MAX };
	scope->spans[1] = (struct mt_span){ base, 0, 5 };
	scope->span_count = 2;
	expect(0, 5, (const uint64_t[5]){ 1, 1, 3, 1, 0 });
}

/* ---- copies ---- */

Test(chunk_map, copies_that_are_bad_are_not_named)
{
	(void)fake_runs_one(5, 0, 4, 1);
	fake_runs.extent->replicas[1].is_damaged = true;
	expect(0, 4, (const uint64_t[4]){ 1, 1, 1, 1 });
	cr_assert_eq(map.sources[0].copies[0].node_id, 1);
	cr_assert_eq(map.sources[0].copies[1].node_id, 3);
	cr_assert_eq(map.sources[0].copies[2].node_id, 0);
	fake_runs.extent->replicas[0].is_damaged = fake_runs.extent->replicas[2].is_damaged = true;
	expect(0, 4, (const uint64_t[4]){ LOG, LOG, LOG, LOG });
	cr_assert_eq(map.source_count, 0);
}

Test(chunk_map, a_source_is_its_run_alone)
{
	struct mt_run *run;

	(void)fake_runs_one(5, 0, 4, 1);
	run = fake_runs_one(6, 20, 4, 2);
	(void)fake_runs_one(7, 40, 4, 3);
	look(20, 4);
	cr_assert_eq(map.source_count, 1);
	cr_assert_eq(map.sources[0].extent, extent_id_pack(&fake_runs.extent->id));
	cr_assert_eq(map.sources[0].from_bytes, run->offset_bytes);
	cr_assert_eq(map.sources[0].to_bytes, run->offset_bytes + run->length_bytes);
}

/* ---- tickets ---- */

#define SESSION UINT64_C(0xabcdef)
#define ATTACH 12u

/* Is copy @copy's ticket one for the session @session_id of @subject, which is attached by @attach? */
static bool
is_good_for(uint32_t copy, uint64_t session_id, uint64_t attach,
    const struct split_subject *subject)
{
	const struct wire_map_source *source = &map.sources[0];
	const struct wire_map_copy *told = &source->copies[copy];
	const struct ticket_bearer bearer = { told->node_id, session_id, subject };
	struct wire_ticket ticket = { .id = extent_id_unpack(source->extent),
		.from_bytes = source->from_bytes,
		.to_bytes = source->to_bytes,
		.volume_id = fake.session.volume.id,
		.attach = attach,
		.key_number = told->key_number };

	memcpy(ticket.mac, told->mac, sizeof(ticket.mac));
	return ticket_is_good(&fake.nodes[told->node_id - 1].ticket_key, &bearer, &ticket);
}

static bool
is_good(uint32_t copy, uint64_t session_id, uint64_t attach)
{
	return is_good_for(copy, session_id, attach, NULL);
}

Test(chunk_map, tickets_are_for_the_client_whose_key_the_session_has)
{
	const struct split_subject other = { .role = SPLIT_ROLE_CLIENT, .name = "other" };

	fake.session.hello = (struct wire_hello){ .volume_id = fake.session.volume.id,
		.session_id = SESSION,
		.attach = ATTACH };
	fake.session.has_subject = true;
	fake.session.subject =
	    (struct split_subject){ .role = SPLIT_ROLE_CLIENT, .name = "client" };
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		cr_assert_eq(ticket_key_draw(&fake.nodes[i].ticket_key), 0);
	(void)fake_runs_one(5, 0, 4, 1);
	look(0, 4);
	for (uint32_t i = 0; i < CLEAVE_COPIES; i++) {
		cr_assert(is_good_for(i, SESSION, ATTACH, &fake.session.subject));
		cr_assert_not(is_good_for(i, SESSION, ATTACH, &other));
		cr_assert_not(is_good(i, SESSION, ATTACH));
	}
}

Test(chunk_map, copies_at_nodes_that_take_clients_have_tickets_of_the_session)
{
	fake.session.hello = (struct wire_hello){ .volume_id = fake.session.volume.id,
		.session_id = SESSION,
		.attach = ATTACH };
	(void)fake_runs_one(5, 0, 4, 1);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		cr_assert_eq(ticket_key_draw(&fake.nodes[i].ticket_key), 0);
	fake.nodes[1].ticket_key = (struct wire_ticket_key){ .number = 0 };
	expect(0, 4, (const uint64_t[4]){ 1, 1, 1, 1 });
	for (uint32_t i = 0; i < CLEAVE_COPIES; i++) {
		uint32_t number =
		    fake.nodes[map.sources[0].copies[i].node_id - 1].ticket_key.number;

		cr_assert_eq(map.sources[0].copies[i].key_number, number);
		if (number == 0)
			continue;
		cr_assert(is_good(i, SESSION, ATTACH));
		cr_assert_not(is_good(i, SESSION + 1, ATTACH));
		cr_assert_not(is_good(i, SESSION, ATTACH + 1));
	}
	cr_assert_eq(map.sources[0].copies[1].key_number, 0, "its node takes no clients");
}

static bool
read_is_mapped(uint32_t block, uint32_t count)
{
	struct fake_msg *msg = fake_read(block, count);

	cr_assert_eq(fake_wait(msg), 0, "rc %d", msg->reply.rc);
	return msg->reply.is_mapped;
}

/* So its client knows that a map of before is worth to be asked for again. */
Test(chunk_map, a_read_of_what_one_would_name_says_so)
{
	fake.session.hello =
	    (struct wire_hello){ .volume_id = fake.session.volume.id, .attach = ATTACH };
	fake.session.volume.reads = MT_READS_DIRECT;
	fake.session.lease.is_asked = true;
	(void)fake_runs_one(5, 0, 4, 1);
	write_now(2, 1, 7);
	cr_assert(read_is_mapped(0, 1));
	cr_assert_not(read_is_mapped(2, 1), "it lies in the log");
	cr_assert(read_is_mapped(1, 2), "some of it");
	cr_assert_not(read_is_mapped(8, 1), "it was never written");
	fake.session.lease.is_asked = false;
	cr_assert_not(read_is_mapped(0, 1), "its client has no maps");
}

/* ---- pages ---- */

Test(chunk_map, ends_where_its_sources_are_full)
{
	const uint32_t runs = WIRE_MAP_SOURCES_MAX + 6;

	for (uint32_t i = 0; i < runs; i++) {
		if (i % 30 == 0)
			fake_runs_extent(); /* as many as one holds */
		(void)fake_runs_one(5 + i, 2 * i, 1, 1);
	}
	look(0, 4 * WIRE_MAP_SOURCES_MAX);
	cr_assert_eq(map.block_count, 2 * WIRE_MAP_SOURCES_MAX);
	cr_assert_eq(map.source_count, WIRE_MAP_SOURCES_MAX);
	look(map.block_count, 100);
	cr_assert_eq(map.block_count, 100);
	cr_assert_eq(map.source_count, runs - WIRE_MAP_SOURCES_MAX);
}

/* Every second block is zeros in a newer run: as many entries as there are blocks. */
static void
make_sieve(void)
{
	fake_runs_codec = ENGINE_LZ4;
	for (uint32_t block = 0; block < WIRE_MAP_BLOCKS_MAX;) {
		fake_runs_batch(CHUNK, 5, 0);
		for (uint32_t i = 0; i < 64; i++, block += 16)
			fake_runs_frame(RECORD_WRITE, block, 16, 1);
		fake_runs_batch_end();
	}
	(void)fake_runs_end();
	for (uint32_t block = 0; block < WIRE_MAP_BLOCKS_MAX;) {
		fake_runs_batch(CHUNK, 6, 0);
		for (uint32_t i = 0; i < 256; i++, block += 2)
			fake_runs_frame(RECORD_DISCARD, block, 1, 0);
		fake_runs_batch_end();
	}
	(void)fake_runs_end();
}

Test(chunk_map, ends_where_its_bytes_are_full)
{
	uint32_t told;

	make_sieve();
	look(0, WIRE_MAP_BLOCKS_MAX);
	told = map.block_count;
	cr_assert_lt(told, WIRE_MAP_BLOCKS_MAX);
	cr_assert_gt(told, WIRE_MAP_BLOCKS_MAX / 2);
	cr_assert_eq(map.entry_count, told);
	take(ask(told, WIRE_MAP_BLOCKS_MAX - told), told, WIRE_MAP_BLOCKS_MAX - told);
	cr_assert_eq(map.block_count, WIRE_MAP_BLOCKS_MAX - told);
	for (uint32_t i = 0; i < WIRE_MAP_BLOCKS_MAX; i++)
		cr_assert_eq(map.blocks[i].seen, i % 2 == 0 ? ZEROS : STORED, "block %u", i);
}

/* ---- turns ---- */

Test(chunk_map, a_turn_makes_one)
{
	struct fake_msg *msgs[3];

	(void)fake_runs_one(5, 0, 4, 1);
	look(0, 4); /* its index is in memory */
	fake_pass(NUM_MS(1));
	for (uint32_t i = 0; i < NUM_COUNT(msgs); i++)
		msgs[i] = ask(0, 4);
	cr_assert(msgs[0]->is_answered);
	cr_assert_not(msgs[1]->is_answered);
	for (uint32_t i = 0; i < NUM_COUNT(msgs); i++)
		take(msgs[i], 0, 4);
}

/* ---- errors ---- */

Test(chunk_map, where_an_index_cannot_be_had)
{
	(void)fake_runs_one(5, 0, 4, 1);
	for (uint32_t i = 0; i < 3; i++)
		fake_node_down(i, 0);
	cr_assert_eq(fake_wait(ask(0, 4)), -EHOSTDOWN);
	for (uint32_t i = 0; i < 3; i++) {
		fake_node_up(i);
		fake_runs_copy(fake_runs.extent, i)->bytes[130] ^= 1;
	}
	cr_assert_eq(fake_wait(ask(0, 4)), -EIO);
	cr_assert_eq(fake.port.metrics[MT_METRIC_chunk_maps], 0);
}

Test(chunk_map, of_a_shard_that_stops_or_does_not_serve)
{
	struct fake_msg *msg;

	(void)fake_runs_one(5, 0, 4, 1);
	msg = ask(0, 4);
	fake_stop(-EREMCHG);
	mt_run_stop(&fake.shard);
	cr_assert_eq(fake_wait(msg), -EREMCHG);
	fake_fini();
	fake_init(62, false);
	msg = ask(0, 4);
	fake_run_for(NUM_MS(5));
	cr_assert_not(msg->is_answered);
	fake_start();
	take(msg, 0, 4);
	cr_assert_eq(map.blocks[3].seen, ZEROS);
}

/* A shard that stops waits for its reads: this one waits for no node any more. */
Test(chunk_map, that_waits_for_its_turn_when_the_shard_stops)
{
	struct fake_msg *msg;

	(void)fake_runs_one(5, 0, 4, 1);
	(void)one_frame(CHUNK + 1, 5, 0, RECORD_WRITE, 0, 4, 1);
	look(0, 4); /* of this one the index is in memory */
	for (uint32_t i = 0; i < 3; i++)
		fake_node_down(i, 0);
	fake_pass(NUM_MS(1));
	cr_assert_eq(fake_wait(ask(0, 4)), 0);
	msg = ask(CLEAVE_CHUNK_BLOCKS, 4);
	fake_stop(-EREMCHG);
	mt_run_stop(&fake.shard);
	fake_run_for(NUM_MS(5));
	cr_assert(msg->is_answered);
	cr_assert_eq(msg->reply.rc, -EREMCHG);
}

/* Another owner may have taken changes: nothing is told. */
Test(chunk_map, without_a_lease_of_the_gateway)
{
	(void)fake_runs_one(5, 0, 4, 1);
	look(0, 4);
	fake.shared.lease_until_ns = 1;
	cr_assert_eq(fake_wait(ask(0, 4)), -EREMCHG);
}

/* ---- against reads ---- */

static void
random_runs(uint64_t random[4], uint64_t *model)
{
	for (uint64_t flushed = 1; flushed <= 6; flushed++) {
		fake_runs_batch(CHUNK, flushed, 0);
		for (uint32_t block = (uint32_t)random_below(random, 30); block < MODEL_BLOCKS;) {
			bool is_write = random_below(random, 4) != 0;
			uint32_t count = 1 + (uint32_t)random_below(random, is_write ? 4 : 20);

			count = (uint32_t)num_min(count, MODEL_BLOCKS - block);
			if (fake_runs.payload_bytes + 5 * CLEAVE_BLOCK_BYTES > 240000)
				break;
			fake_runs_frame(is_write ? RECORD_WRITE : RECORD_DISCARD, block, count,
			    flushed);
			for (uint32_t i = 0; i < count; i++)
				model[block + i] = is_write ? flushed : 0;
			block += count + (uint32_t)random_below(random, 30);
		}
		fake_runs_batch_end();
		(void)fake_runs_end();
	}
}

Test(chunk_map, of_random_layers_over_random_runs)
{
	uint64_t model[MODEL_BLOCKS] = { 0 }, random[4];

	random_seed(random, 78);
	fake_runs_codec = ENGINE_LZ4;
	random_runs(random, model);
	for (uint32_t step = 0; step < 100; step++) {
		uint32_t count = 1 + (uint32_t)random_below(random, 8);
		uint32_t block = (uint32_t)random_below(random, MODEL_BLOCKS - 16);
		bool is_write = random_below(random, 2) == 0;
		uint32_t from;

		if (is_write)
			write_now(block, count, 100 + step);
		else
			cr_assert_eq(fake_wait(fake_discard(block, count)), 0);
		for (uint32_t i = 0; i < count; i++)
			model[block + i] = is_write ? LOG : 0;
		from = (uint32_t)random_below(random, MODEL_BLOCKS - 1);
		expect(from, MODEL_BLOCKS - from, model + from);
	}
}
