/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wire_map.c -- CHUNK_MAP's answer round trips; every field that is wrong is named; the bytes stay
 *
 * tests/golden/wire_map.bin holds a payload. CLEAVE_GOLDEN_WRITE=1 writes it anew.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/wire.h"
#include "unit/wire_fields.h"

#define LEFT 64u
#define PAYLOAD_BYTES_MAX                                                                          \
	(WIRE_MAP_HEAD_BYTES + 2 * WIRE_MAP_SOURCE_BYTES + 3 * WIRE_MAP_ENTRY_BYTES_MAX)

static const struct wire_map_source sources[] = {
	{ .extent = 0x0123456789abcdef,
	    .from_bytes = 4096,
	    .to_bytes = 1u << 20,
	    .copies = { { 1, 8, { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } },
		{ 7, 0x1000, { 0xff } }, { 9, 0, { 0 } } } },
	{ .extent = 5, .to_bytes = CLEAVE_CHUNK_BYTES, .copies = { { .node_id = 3 } } },
};
static const struct wire_map_entry entries[] = {
	{ .block = 0,
	    .block_count = 3,
	    .source = 0,
	    .codec_id = ENGINE_ZSTD,
	    .first_block = 1,
	    .record_blocks = 4,
	    .offset_bytes = 8192,
	    .stored_bytes = 0x1234,
	    .stored_crc = 0x51525354,
	    .block_crcs = { 0x61626364, 0x71727374, 0x81828384 } },
	{ .block = 3, .block_count = 40, .source = WIRE_MAP_ZEROS },
	{ .block = 50,
	    .block_count = 1,
	    .source = 1,
	    .record_blocks = 1,
	    .stored_bytes = 4096,
	    .block_crcs = { 1 } },
};

struct payload {
	struct wire_map_head head;
	uint32_t bytes;
	uint32_t entry_at[NUM_COUNT(entries)];
	uint8_t data[PAYLOAD_BYTES_MAX];
};

static void
make(struct payload *payload)
{
	uint8_t *at = payload->data + WIRE_MAP_HEAD_BYTES;

	for (uint32_t i = 0; i < NUM_COUNT(sources); i++, at += WIRE_MAP_SOURCE_BYTES)
		wire_map_source_encode(at, &sources[i]);
	payload->head =
	    (struct wire_map_head){ .block_count = 60, .source_count = NUM_COUNT(sources) };
	for (uint32_t i = 0; i < NUM_COUNT(entries); i++) {
		payload->entry_at[i] = (uint32_t)(at - payload->data);
		at += wire_map_entry_encode(at, &entries[i]);
	}
	payload->bytes = (uint32_t)(at - payload->data);
	payload->head.entry_bytes = payload->bytes - payload->entry_at[0];
	wire_map_head_encode(payload->data, &payload->head);
}

/* 0, or -EPROTO and the field. */
static int
walk(const struct payload *payload, uint32_t left_count, struct wire_map_entry *ret_entries,
    uint32_t *ret_count, const char **ret_field)
{
	struct wire_map_source out[WIRE_MAP_SOURCES_MAX];
	const uint8_t *at = payload->data + WIRE_MAP_HEAD_BYTES;
	struct wire_map_head head;
	struct wire_map_walk walk;
	int rc;

	*ret_count = 0;
	if (wire_map_head_decode(payload->data, payload->bytes, left_count, &head, ret_field) != 0)
		return -EPROTO;
	for (uint32_t i = 0; i < head.source_count; i++, at += WIRE_MAP_SOURCE_BYTES) {
		if (wire_map_source_decode(at, &out[i], ret_field) != 0)
			return -EPROTO;
	}
	walk = (struct wire_map_walk){ &head, out, at, at + head.entry_bytes, 0 };
	while ((rc = wire_map_walk_next(&walk, &ret_entries[*ret_count], ret_field)) == 1)
		++*ret_count;
	return rc;
}

Test(wire_map, bytes_stay)
{
	struct payload payload;

	make(&payload);
	cr_assert_leq(payload.bytes, 512);
	golden_check("map", payload.data, payload.bytes);
}

Test(wire_map, payload_round_trips)
{
	struct wire_map_entry out[NUM_COUNT(entries) + 1];
	struct wire_map_source source;
	struct payload payload;
	const char *field = NULL;
	uint32_t count;

	make(&payload);
	cr_assert_eq(walk(&payload, LEFT, out, &count, &field), 0, "%s", field);
	cr_assert_eq(count, NUM_COUNT(entries));
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(memcmp(&out[i], &entries[i], sizeof(out[i])), 0, "%u", i);
	for (uint32_t i = 0; i < NUM_COUNT(sources); i++) {
		const uint8_t *at = payload.data + WIRE_MAP_HEAD_BYTES + i * WIRE_MAP_SOURCE_BYTES;

		cr_assert_eq(wire_map_source_decode(at, &source, &field), 0);
		cr_assert_eq(memcmp(&source, &sources[i], sizeof(source)), 0);
	}
}

static void
expect_bad(uint32_t at, uint8_t value, const char *name)
{
	struct wire_map_entry out[NUM_COUNT(entries) + 1];
	struct payload payload;
	const char *field = NULL;
	uint32_t count;

	make(&payload);
	payload.data[at] = value;
	cr_assert_eq(walk(&payload, LEFT, out, &count, &field), -EPROTO, "%u: %s", at, name);
	cr_assert_str_eq(field, name, "%u: %s", at, field);
}

Test(wire_map, wrong_heads_are_named)
{
	struct wire_map_entry out[NUM_COUNT(entries) + 1];
	struct payload payload;
	const char *field = NULL;
	uint32_t count;

	expect_bad(0, 2, "map_format");
	expect_bad(4, 0, "map_blocks");
	expect_bad(4, LEFT + 1, "map_blocks");
	expect_bad(5, 0x11, "map_blocks");
	expect_bad(8, WIRE_MAP_SOURCES_MAX + 1, "map_sources");
	expect_bad(8, 1, "map_entry_bytes");
	expect_bad(10, 1, "map_sources");
	expect_bad(12, 1, "map_entry_bytes");
	make(&payload);
	payload.bytes = WIRE_MAP_HEAD_BYTES - 1;
	cr_assert_eq(walk(&payload, LEFT, out, &count, &field), -EPROTO);
	cr_assert_str_eq(field, "map_bytes");
}

Test(wire_map, wrong_sources_are_named)
{
	const uint32_t at = WIRE_MAP_HEAD_BYTES, second = at + WIRE_MAP_SOURCE_BYTES;

	expect_bad(at + 7, 0xff, "map_extent"); /* shards are fewer than the number has bits for */
	expect_bad(at + 10, 0x10, "map_range"); /* it begins where it ends */
	expect_bad(at + 15, 0xff, "map_range"); /* beyond any extent */
	expect_bad(at + 16, 0, "map_ticket");   /* of no node */
	expect_bad(at + 20, 0, "map_ticket");   /* of no key */
	expect_bad(second + 16, 0, "map_node"); /* no copy at all */
	expect_bad(second + 16 + 2 * 24, 4, "map_node"); /* behind one that is not there */
	expect_bad(second + 16 + 24 + 8 + 15, 1, "map_ticket");
}

Test(wire_map, wrong_entries_are_named)
{
	struct payload payload;
	uint32_t record, zeros, last;

	make(&payload);
	record = payload.entry_at[0];
	zeros = payload.entry_at[1];
	last = payload.entry_at[2];
	expect_bad(record + 2, 0, "map_entry_blocks");
	expect_bad(record + 2, ENGINE_RECORD_BLOCKS_MAX + 1, "map_entry_blocks");
	expect_bad(record + 3, NUM_COUNT(sources), "map_source");
	expect_bad(record + 5, 0, "map_offset");    /* before its source */
	expect_bad(record + 7, 0x7f, "map_offset"); /* behind it */
	expect_bad(record + 10, 1, "map_stored_bytes");
	expect_bad(record + 11, ENGINE_ENCRYPTED | ENGINE_ZSTD, "map_codec");
	expect_bad(record + 12, 2, "map_record");
	expect_bad(record + 13, ENGINE_RECORD_BLOCKS_MAX + 1, "map_record");
	expect_bad(record + 14, 1, "map_reserved");
	expect_bad(zeros, 2, "map_block"); /* told already */
	expect_bad(zeros + 2, 1, "map_reserved");
	expect_bad(zeros + 4, 0, "map_entry_blocks");
	expect_bad(zeros + 4, 58, "map_block"); /* beyond what the answer tells of */
	expect_bad(last, 60, "map_block");
	expect_bad(last + 2, 2, "map_entry_bytes"); /* there are no bytes of it */
	expect_bad(last + 9, 0, "map_stored_bytes");
}

/* An answer to a CHUNK_MAP is as long as what it tells. */
Test(wire_map, headers_of_answers_have_bounds)
{
	struct wire_io io = { .opcode = WIRE_CHUNK_MAP, .length_bytes = 1u << 20, .epoch = 7 };
	struct wire_header header;
	struct wire_io_reply reply;
	const char *field = NULL;
	struct wire_io out;

	wire_io_encode(&header, &io);
	cr_assert_eq(wire_io_decode(&header, &out, &field), 0);
	cr_assert_eq(out.opcode, WIRE_CHUNK_MAP);
	header.payload_bytes = 4;
	cr_assert_eq(wire_io_decode(&header, &out, &field), -EPROTO);
	cr_assert_str_eq(field, "payload_bytes");
	wire_io_reply(&header, &io, 0, 5, 7);
	header.flags = WIRE_FLAG_LEASED;
	header.payload_bytes = WIRE_MAP_HEAD_BYTES;
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), 0);
	cr_assert(reply.is_leased);
	cr_assert_eq(reply.payload_bytes, WIRE_MAP_HEAD_BYTES);
	header.payload_bytes = WIRE_MAP_HEAD_BYTES - 1;
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), -EPROTO);
	cr_assert_str_eq(field, "payload_bytes");
	header.payload_bytes = WIRE_CLIENT_PAYLOAD_BYTES_MAX + 1;
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), -EPROTO);
	wire_io_reply(&header, &io, -ENOTSUP, 0, 7);
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), 0);
	cr_assert_eq(reply.rc, -ENOTSUP);
}
