/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wire_lease.c -- LEASE and its answer round trip; every field that is wrong is named; the bytes stay
 *
 * tests/golden/wire_lease.bin holds a request and an answer, wire_lease_reads.bin a request that tells of runs.
 * CLEAVE_GOLDEN_WRITE=1 writes them anew.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/lease_read.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "splitlib/core/wire.h"
#include "unit/wire_fields.h"

#define ANSWER_BYTES (WIRE_LEASE_HEAD_BYTES + 2 * WIRE_LEASE_ENTRY_BYTES)

static const struct wire_lease request = { .request_id = 0x1122334455667788, .is_return = true };
static const struct wire_lease answer = { .request_id = 0x1122334455667788,
	.is_reply = true,
	.payload_bytes = ANSWER_BYTES,
	.payload_crc = 0x51525354 };
static const struct wire_lease_head head = { .lease_ms = 400, .shard_count = 2 };
static const struct wire_lease_entry entries[] = { { 3, 17 },
	{ CLEAVE_SHARDS_MAX - 1, EXTENT_EPOCH_MAX } };

static void
make_headers(struct wire_header headers[2])
{
	wire_lease_encode(&headers[0], &request);
	wire_frame_stamp(&headers[0], 0, 0x0102);
	wire_lease_encode(&headers[1], &answer);
	wire_frame_stamp(&headers[1], ANSWER_BYTES, 0x0102);
}

static void
make_payload(uint8_t payload[ANSWER_BYTES])
{
	wire_lease_head_encode(payload, &head);
	for (uint32_t i = 0; i < NUM_COUNT(entries); i++)
		wire_lease_entry_encode(payload + WIRE_LEASE_HEAD_BYTES +
			i * WIRE_LEASE_ENTRY_BYTES,
		    &entries[i]);
}

Test(wire_lease, bytes_stay)
{
	uint8_t bytes[2 * WIRE_HEADER_BYTES + ANSWER_BYTES];
	struct wire_header headers[2];

	make_headers(headers);
	memcpy(bytes, headers, sizeof(headers));
	make_payload(bytes + sizeof(headers));
	golden_check("lease", bytes, sizeof(bytes));
}

static const struct wire_lease_read run_read = { .segment = 0x0102030405060708,
	.chunk = CLEAVE_SEGMENT_CHUNKS - 1,
	.extent = 0x0012131415161718,
	.from_bytes = 0x21222324,
	.stored_bytes = 0x31323334,
	.read_count = UINT16_MAX,
	.small_count = 0x4142,
	.codec_id = ENGINE_ZSTD };

Test(wire_lease, bytes_of_runs_stay)
{
	uint8_t bytes[WIRE_HEADER_BYTES + WIRE_LEASE_READS_HEAD_BYTES + WIRE_LEASE_READ_BYTES];
	uint8_t *payload = bytes + WIRE_HEADER_BYTES;
	struct wire_header header;

	wire_lease_encode(&header, &(struct wire_lease){ .request_id = 7 });
	wire_frame_stamp(&header, WIRE_LEASE_READS_HEAD_BYTES + WIRE_LEASE_READ_BYTES, 0x0102);
	memcpy(bytes, &header, sizeof(header));
	wire_lease_read_encode(payload + WIRE_LEASE_READS_HEAD_BYTES, &run_read);
	cr_assert_eq(wire_lease_reads_seal(payload, 1), sizeof(bytes) - WIRE_HEADER_BYTES);
	cr_assert(wire_lease_reads_are_whole(payload, sizeof(bytes) - WIRE_HEADER_BYTES));
	golden_check("lease_reads", bytes, sizeof(bytes));
	payload[9] ^= 1;
	cr_assert_not(wire_lease_reads_are_whole(payload, sizeof(bytes) - WIRE_HEADER_BYTES));
	payload[9] ^= 1;
	payload[4] = 1;
	cr_assert_not(wire_lease_reads_are_whole(payload, sizeof(bytes) - WIRE_HEADER_BYTES));
}

Test(wire_lease, runs_round_trip)
{
	uint8_t bytes[WIRE_LEASE_READ_BYTES];
	struct wire_lease_read out;
	const char *field = NULL;

	wire_lease_read_encode(bytes, &run_read);
	cr_assert_eq(wire_lease_read_decode(bytes, &out, &field), 0, "%s", field);
	cr_assert_eq(out.segment, run_read.segment);
	cr_assert_eq(out.chunk, run_read.chunk);
	cr_assert_eq(out.extent, run_read.extent);
	cr_assert_eq(out.from_bytes, run_read.from_bytes);
	cr_assert_eq(out.stored_bytes, run_read.stored_bytes);
	cr_assert_eq(out.read_count, run_read.read_count);
	cr_assert_eq(out.small_count, run_read.small_count);
	cr_assert_eq(out.codec_id, run_read.codec_id);
}

Test(wire_lease, wrong_fields_of_runs_are_named)
{
	static const struct {
		uint32_t at, value;
		const char *field;
	} table[] = {
		{ 15, 0xff, "read_extent" },
		{ 25, 2, "read_chunk" },
		{ 31, 1, "read_reserved" },
	};
	struct wire_lease_read out;
	const char *field = NULL;

	for (uint32_t i = 0; i < NUM_COUNT(table); i++) {
		uint8_t bytes[WIRE_LEASE_READ_BYTES];

		wire_lease_read_encode(bytes, &run_read);
		bytes[table[i].at] = (uint8_t)table[i].value;
		cr_assert_eq(wire_lease_read_decode(bytes, &out, &field), -EPROTO);
		cr_assert_str_eq(field, table[i].field);
	}
	for (uint32_t at = 20; at < 28; at += 6) { /* no bytes; no reads */
		uint8_t bytes[WIRE_LEASE_READ_BYTES];

		wire_lease_read_encode(bytes, &run_read);
		memset(bytes + at, 0, at == 20 ? 4 : 2);
		cr_assert_eq(wire_lease_read_decode(bytes, &out, &field), -EPROTO);
		cr_assert_str_eq(field, at == 20 ? "read_stored_bytes" : "read_count");
	}
	{
		uint8_t bytes[WIRE_LEASE_READ_BYTES];

		wire_lease_read_encode(bytes, &run_read);
		num_put_le16(bytes + 26, 0x4141);
		cr_assert_eq(wire_lease_read_decode(bytes, &out, &field), -EPROTO);
		cr_assert_str_eq(field, "read_small_count");
	}
}

Test(wire_lease, a_request_tells_of_whole_runs)
{
	const uint32_t one = WIRE_LEASE_READS_HEAD_BYTES + WIRE_LEASE_READ_BYTES;
	const struct {
		uint32_t bytes;
		uint16_t flags;
		bool is_right;
	} table[] = {
		{ one, 0, true },
		{ one, WIRE_LEASE_RETURN, true },
		{ one, WIRE_LEASE_HOT, true },
		{ WIRE_LEASE_READS_BYTES_MAX, 0, true },
		{ one + 1, 0, false },
		{ WIRE_LEASE_READS_HEAD_BYTES, 0, false },
		{ WIRE_LEASE_READS_BYTES_MAX + WIRE_LEASE_READ_BYTES, 0, false },
	};

	for (uint32_t i = 0; i < NUM_COUNT(table); i++) {
		struct wire_header header;
		struct wire_lease out;
		const char *field = NULL;

		wire_lease_encode(&header, &(struct wire_lease){ .request_id = 7 });
		header.flags = table[i].flags;
		wire_frame_stamp(&header, table[i].bytes, 0);
		cr_assert_eq(wire_lease_decode(&header, &out, &field),
		    table[i].is_right ? 0 : -EPROTO);
		if (table[i].is_right)
			cr_assert_eq(out.payload_bytes, table[i].bytes);
		else
			cr_assert_str_eq(field, "payload_bytes");
	}
}

static void
expect_same(const struct wire_lease *lease, const struct wire_lease *expected)
{
	cr_assert_eq(lease->request_id, expected->request_id);
	cr_assert_eq(lease->is_return, expected->is_return);
	cr_assert_eq(lease->is_reply, expected->is_reply);
	cr_assert_eq(lease->wants_hot, expected->wants_hot);
	cr_assert_eq(lease->generation, expected->generation);
	cr_assert_eq(lease->peeked_count, expected->peeked_count);
	cr_assert_eq(lease->read_count, expected->read_count);
	cr_assert_eq(lease->read_bytes, expected->read_bytes);
	cr_assert_eq(lease->suspect, expected->suspect);
	cr_assert_eq(lease->suspect_node, expected->suspect_node);
	cr_assert_eq(lease->rc, expected->rc);
	cr_assert_eq(lease->payload_bytes, expected->payload_bytes);
	cr_assert_eq(lease->payload_crc, expected->payload_crc);
}

Test(wire_lease, headers_round_trip)
{
	const struct wire_lease refused = { .request_id = 5, .is_reply = true, .rc = -EINVAL };
	const struct wire_lease hot = { .request_id = 6,
		.wants_hot = true,
		.generation = 7,
		.peeked_count = 8 };
	const struct wire_lease telling = { .request_id = 7,
		.is_return = true,
		.read_count = 8,
		.read_bytes = UINT64_C(1) << 40,
		.suspect = extent_id_pack(&(struct extent_id){ 4, 5, 6 }),
		.suspect_node = 9 };
	struct wire_header headers[2];
	struct wire_lease out;
	const char *field = NULL;

	make_headers(headers);
	cr_assert_eq(wire_lease_decode(&headers[0], &out, &field), 0, "%s", field);
	expect_same(&out, &request);
	cr_assert_eq(wire_lease_decode(&headers[1], &out, &field), 0, "%s", field);
	expect_same(&out, &answer);
	wire_lease_encode(&headers[0], &refused);
	wire_frame_stamp(&headers[0], 0, 0);
	cr_assert_eq(wire_lease_decode(&headers[0], &out, &field), 0, "%s", field);
	cr_assert_eq(out.rc, -EINVAL);
	wire_lease_encode(&headers[0], &hot);
	wire_frame_stamp(&headers[0], 0, 0);
	cr_assert_eq(wire_lease_decode(&headers[0], &out, &field), 0, "%s", field);
	expect_same(&out, &hot);
	headers[0].flags = 0;
	cr_assert_eq(wire_lease_decode(&headers[0], &out, &field), -EPROTO);
	cr_assert_str_eq(field, "epoch");
	headers[0].epoch = 0;
	cr_assert_eq(wire_lease_decode(&headers[0], &out, &field), -EPROTO);
	cr_assert_str_eq(field, "payload_crc");
	wire_lease_encode(&headers[0], &telling);
	wire_frame_stamp(&headers[0], 0, 0);
	cr_assert_eq(wire_lease_decode(&headers[0], &out, &field), 0, "%s", field);
	expect_same(&out, &telling);
	headers[0].vm_id = 0;
	cr_assert_eq(wire_lease_decode(&headers[0], &out, &field), -EPROTO);
	cr_assert_str_eq(field, "vm_id");
}

static int
decode(const struct wire_header *header, const char **ret_field)
{
	struct wire_lease out;

	return wire_lease_decode(header, &out, ret_field);
}

Test(wire_lease, wrong_fields_of_headers_are_named)
{
	static const struct bad_field bad_request[] = {
		BAD(opcode, WIRE_HOLES, "opcode"),
		BAD(service_class, 1, "service_class"),
		BAD(engine, 1, "engine"),
		BAD(object_id, UINT64_MAX, "object_id"),
		BAD(object_id, 1, "vm_id"),
		BAD(offset_bytes, 1, "offset_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
		BAD(epoch, 1, "epoch"),
		BAD(vm_id, 1, "vm_id"),
		BAD(flags, 3, "flags"), /* a page is for who reads by himself */
		BAD(flags, 4, "flags"),
		BAD(status, 1, "status"),
		BAD(payload_crc, 1, "payload_crc"),
	};
	static const struct bad_field bad_answer[] = {
		BAD(object_id, 1, "object_id"),
		BAD(length_bytes, 1, "length_bytes"),
		BAD(vm_id, 1, "vm_id"),
		BAD(epoch, 1, "epoch"),
		BAD(status, CLEAVE_STATUS_NR, "payload_bytes"),
		BAD(status, 1, "payload_bytes"), /* who refuses tells nothing */
		BAD(payload_bytes, WIRE_LEASE_HEAD_BYTES - 1, "payload_bytes"),
		BAD(payload_bytes, WIRE_LEASE_BYTES_MAX + 1, "payload_bytes"),
	};
	struct wire_header headers[2];

	make_headers(headers);
	bad_fields_check(&headers[0], decode, bad_request, NUM_COUNT(bad_request));
	bad_fields_check(&headers[1], decode, bad_answer, NUM_COUNT(bad_answer));
}

Test(wire_lease, payload_round_trips)
{
	uint8_t payload[ANSWER_BYTES];
	struct wire_lease_head out;
	struct wire_lease_entry entry;
	const char *field = NULL;
	uint32_t from = 0;

	make_payload(payload);
	cr_assert_eq(wire_lease_head_decode(payload, sizeof(payload), &out, &field), 0);
	cr_assert_eq(memcmp(&out, &head, sizeof(out)), 0);
	for (uint32_t i = 0; i < NUM_COUNT(entries); i++) {
		cr_assert_eq(wire_lease_entry_decode(payload + WIRE_LEASE_HEAD_BYTES +
				     i * WIRE_LEASE_ENTRY_BYTES,
				 from, CLEAVE_SHARDS_MAX, &entry, &field),
		    0);
		cr_assert_eq(memcmp(&entry, &entries[i], sizeof(entry)), 0);
		from = entry.shard + 1;
	}
}

static void
expect_bad_head(uint32_t at, uint8_t value, uint32_t bytes, const char *name)
{
	uint8_t payload[ANSWER_BYTES + WIRE_LEASE_PAGE_BYTES] = { 0 };
	struct wire_lease_head out;
	const char *field = NULL;

	make_payload(payload);
	payload[at] = value;
	cr_assert_eq(wire_lease_head_decode(payload, bytes, &out, &field), -EPROTO);
	cr_assert_str_eq(field, name);
}

Test(wire_lease, wrong_heads_are_named)
{
	expect_bad_head(0, 1, WIRE_LEASE_HEAD_BYTES - 1, "lease_bytes");
	expect_bad_head(0, 2, ANSWER_BYTES, "lease_format");
	expect_bad_head(5, 0xff, ANSWER_BYTES, "lease_ms"); /* longer than any */
	expect_bad_head(8, 1, ANSWER_BYTES, "lease_bytes");
	expect_bad_head(9, 0xff, ANSWER_BYTES, "lease_shards");
	expect_bad_head(10, 1, ANSWER_BYTES, "lease_bytes");
	expect_bad_head(11, 0xff, ANSWER_BYTES, "lease_pages");
	expect_bad_head(10, 1, ANSWER_BYTES + WIRE_LEASE_PAGE_BYTES, "lease_generation");
}

Test(wire_lease, wrong_entries_are_named)
{
	uint8_t bytes[WIRE_LEASE_ENTRY_BYTES];
	struct wire_lease_entry out;
	const char *field = NULL;

	wire_lease_entry_encode(bytes, &entries[0]);
	cr_assert_eq(wire_lease_entry_decode(bytes, 4, 8, &out, &field), -EPROTO);
	cr_assert_str_eq(field, "lease_shard"); /* told already */
	cr_assert_eq(wire_lease_entry_decode(bytes, 0, 3, &out, &field), -EPROTO);
	cr_assert_str_eq(field, "lease_shard"); /* there is none of that number */
	num_put_le32(bytes + 4, 0);
	cr_assert_eq(wire_lease_entry_decode(bytes, 0, 8, &out, &field), -EPROTO);
	cr_assert_str_eq(field, "lease_epoch");
	num_put_le32(bytes + 4, EXTENT_EPOCH_MAX + 1);
	cr_assert_eq(wire_lease_entry_decode(bytes, 0, 8, &out, &field), -EPROTO);
	cr_assert_str_eq(field, "lease_epoch");
}

/* A success on a shard may tell of a lease; nothing else does. */
Test(wire_lease, the_flag_goes_with_successes_alone)
{
	struct wire_io io = { .opcode = WIRE_DISCARD, .length_bytes = 4096, .epoch = 7 };
	struct wire_header header;
	struct wire_io_reply reply;
	const char *field = NULL;

	wire_io_reply(&header, &io, 0, 0, 7);
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), 0);
	cr_assert_not(reply.is_leased);
	header.flags = WIRE_FLAG_LEASED;
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), 0);
	cr_assert(reply.is_leased);
	header.flags |= 1;
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), -EPROTO);
	cr_assert_str_eq(field, "flags");
	wire_io_reply(&header, &io, -EIO, 0, 7);
	header.flags = WIRE_FLAG_LEASED;
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), -EPROTO);
	cr_assert_str_eq(field, "flags");
	header.flags = WIRE_FLAG_LEASED | WIRE_FLAG_MAPPED;
	header.status = 0;
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), -EPROTO, "of no READ");
	io.opcode = WIRE_READ;
	wire_io_reply(&header, &io, 0, 5, 7);
	header.payload_bytes = io.length_bytes;
	header.flags = WIRE_FLAG_LEASED | WIRE_FLAG_MAPPED;
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), 0, "%s", field);
	cr_assert(reply.is_leased && reply.is_mapped);
	header.flags = WIRE_FLAG_MAPPED;
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), -EPROTO, "without a lease");
	io.opcode = WIRE_HOLES;
	io.length_bytes = WIRE_HOLES_BYTES;
	wire_io_reply(&header, &io, 0, 0, 0);
	header.payload_bytes = WIRE_HOLES_BYTES;
	header.flags = WIRE_FLAG_LEASED;
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), -EPROTO);
	cr_assert_str_eq(field, "flags");
}
