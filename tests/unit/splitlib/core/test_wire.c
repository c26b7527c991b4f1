/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wire.c -- every group round trips; every field that is wrong is named; the bytes stay
 *
 * tests/golden/wire_*.bin hold the bytes of one message a group. CLEAVE_GOLDEN_WRITE=1 writes them
 * anew: that is a change of the format, and bumps WIRE_VERSION.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/wire.h"
#include "splitlib/core/wire.h"
#include "unit/wire_fields.h"

TestSuite(wire, .timeout = 60);

static const struct wire_io io_write = {
	.opcode = WIRE_WRITE,
	.service_class = SERVICE_CAPACITY,
	.request_id = 0x1122334455667788,
	.segment = 0x99aabbccddeeff01,
	.offset_bytes = 3 * CLEAVE_CHUNK_BYTES - 8192,
	.length_bytes = 8192,
	.epoch = 0x31323334,
	.vm_id = 0x41424344,
	.payload_crc = 0x51525354,
};

static const struct wire_node node_append = {
	.opcode = WIRE_EXTENT_APPEND,
	.request_id = 7,
	.id = { .shard = 4095, .epoch = EXTENT_EPOCH_MAX, .counter = EXTENT_COUNTER_MAX },
	.kind = EXTENT_RUN,
	.offset_bytes = 4096,
	.length_bytes = 262144,
	.epoch = 9,
	.flags = WIRE_FLAG_RECOVERY,
};

static const struct wire_node_reply node_freeze_reply = {
	.opcode = WIRE_EXTENT_FREEZE,
	.request_id = 8,
	.id = { .shard = 1, .epoch = 2, .counter = 3 },
	.offset_bytes = 40960,
	.length_bytes = 36864,
	.chain_crc = 0xdeadbeef,
	.epoch = 4,
	.flags = WIRE_FLAG_SEALED | WIRE_FLAG_DAMAGED,
};

Test(wire, frame_is_stamped_and_checked)
{
	struct wire_header header = { .opcode = WIRE_ECHO, .request_id = 5 };
	const char *field = NULL;

	wire_frame_stamp(&header, 77, 3);
	cr_assert_eq(wire_frame_check(&header, &field), 0);
	cr_assert_eq(header.magic, WIRE_MAGIC);
	cr_assert_eq(header.version, WIRE_VERSION);
	cr_assert_eq(header.payload_bytes, 77);
	cr_assert_eq(header.credits, 3);
	cr_assert_eq(header.header_crc, crc32c(0, &header, 60));
}

Test(wire, every_flipped_bit_of_a_header_is_found)
{
	for (uint32_t bit = 0; bit < WIRE_HEADER_BYTES * 8; bit++) {
		struct wire_header header = { .opcode = WIRE_ECHO, .request_id = 5 };
		const char *field = NULL;
		int rc;

		stamp(&header, 77);
		((uint8_t *)&header)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		rc = wire_frame_check(&header, &field);
		cr_assert_eq(rc, bit / 8 == 4 ? -EPROTONOSUPPORT : -EPROTO, "bit %u", bit);
		cr_assert_str_eq(field,
		    bit / 8 < 4        ? "magic"
			: bit / 8 == 4 ? "version"
				       : "header_crc");
	}
}

static void
frame_expect(struct wire_header *header, const char *expected)
{
	const char *field = NULL;

	header->header_crc = crc32c(0, header, 60);
	cr_assert_eq(wire_frame_check(header, &field), -EPROTO);
	cr_assert_str_eq(field, expected);
}

Test(wire, frame_bounds)
{
	struct wire_header header = { 0 };
	const char *field;

	stamp(&header, WIRE_PAYLOAD_BYTES_MAX);
	cr_assert_eq(wire_frame_check(&header, &field), 0);
	header.payload_bytes++;
	frame_expect(&header, "payload_bytes");
	header.payload_bytes--;
	header.reserved = 1;
	frame_expect(&header, "reserved");
}

Test(wire, hello_round_trip)
{
	struct wire_hello hello = { .role = WIRE_ROLE_CLIENT,
		.cluster_id = 1,
		.volume_id = 2,
		.session_id = 0x0807060504030201,
		.attach = 4,
		.incarnation = 5 };
	struct wire_hello node = { .role = WIRE_ROLE_NODE, .node_id = 9, .cluster_id = 1 };
	struct wire_hello out;
	uint8_t bytes[WIRE_HELLO_BYTES];
	const char *field = NULL;

	wire_hello_encode(bytes, &hello);
	golden_check("hello", bytes, sizeof(bytes));
	cr_assert_eq(wire_hello_decode(bytes, sizeof(bytes), &out, &field), 0);
	cr_assert_eq(out.role, WIRE_ROLE_CLIENT);
	cr_assert_eq(out.node_id, 0);
	cr_assert_eq(out.cluster_id, 1);
	cr_assert_eq(out.volume_id, 2);
	cr_assert_eq(out.session_id, hello.session_id);
	cr_assert_eq(out.attach, 4);
	cr_assert_eq(out.incarnation, 5);
	wire_hello_encode(bytes, &node);
	cr_assert_eq(wire_hello_decode(bytes, sizeof(bytes), &out, &field), 0);
	cr_assert_eq(out.node_id, 9);
}

static void
hello_expect(const struct wire_hello *hello, uint32_t at, uint8_t value, int rc,
    const char *expected)
{
	struct wire_hello out = { .role = 77 };
	uint8_t bytes[WIRE_HELLO_BYTES];
	const char *field = NULL;

	wire_hello_encode(bytes, hello);
	bytes[at] = value;
	cr_assert_eq(wire_hello_decode(bytes, sizeof(bytes), &out, &field), rc, "byte %u", at);
	cr_assert_str_eq(field, expected);
	cr_assert_eq(out.role, 77); /* untouched */
}

Test(wire, hello_fields_are_checked)
{
	struct wire_hello client = { .role = WIRE_ROLE_CLIENT };
	struct wire_hello node = { .role = WIRE_ROLE_NODE };
	struct wire_hello out;
	uint8_t bytes[WIRE_HELLO_BYTES];
	const char *field = NULL;

	wire_hello_encode(bytes, &client);
	cr_assert_eq(wire_hello_decode(bytes, WIRE_HELLO_BYTES - 1, &out, &field), -EPROTO);
	cr_assert_str_eq(field, "hello_bytes");
	hello_expect(&client, 0, 0, -EPROTO, "magic");
	hello_expect(&client, 4, 0, -EPROTONOSUPPORT, "level");
	hello_expect(&client, 5, 0, -EPROTO, "role");
	hello_expect(&client, 5, WIRE_ROLE_NODE + 1, -EPROTO, "role");
	hello_expect(&client, 6, 1, -EPROTO, "reserved");
	hello_expect(&client, 15, 1, -EPROTO, "reserved");
	hello_expect(&client, 8, 1, -EPROTO, "node_id");
	hello_expect(&node, 24, 1, -EPROTO, "volume_id");
	hello_expect(&node, 48, 1, -EPROTO, "incarnation");
}

Test(wire, extent_ids_round_trip)
{
	static const struct extent_id ids[] = { { 0, 0, 0 },
		{ 4095, EXTENT_EPOCH_MAX, EXTENT_COUNTER_MAX }, { 1, 0, 0 }, { 0, 1, 0 },
		{ 0, 0, 1 } };

	for (size_t i = 0; i < NUM_COUNT(ids); i++) {
		struct extent_id id = extent_id_unpack(extent_id_pack(&ids[i]));

		cr_assert_eq(id.shard, ids[i].shard);
		cr_assert_eq(id.epoch, ids[i].epoch);
		cr_assert_eq(id.counter, ids[i].counter);
	}
	cr_assert_eq(extent_id_pack(&ids[2]), UINT64_C(1) << 50);
	cr_assert_eq(extent_id_pack(&ids[3]), UINT64_C(1) << 26);
}

Test(wire, neighbouring_chunks_go_to_different_shards)
{
	for (uint32_t shards = 1; shards <= 9; shards++)
		for (uint64_t segment = 0; segment < 50; segment++) {
			uint32_t last = UINT32_MAX;

			for (uint64_t i = 0; i < CLEAVE_SEGMENT_CHUNKS; i += 1) {
				uint64_t offset = i * CLEAVE_CHUNK_BYTES;
				uint32_t shard = wire_shard_of(segment, offset, shards);

				cr_assert_lt(shard, shards);
				cr_assert(shards == 1 || shard != last);
				cr_assert_eq(shard,
				    wire_shard_of(segment, offset + CLEAVE_CHUNK_BYTES - 1,
					shards));
				last = shard;
			}
		}
}

Test(wire, io_round_trip)
{
	struct wire_header header, again;
	struct wire_io out;
	const char *field = NULL;

	wire_io_encode(&header, &io_write);
	stamp(&header, 8192);
	golden_check("write", &header, sizeof(header));
	cr_assert_eq(wire_io_decode(&header, &out, &field), 0);
	wire_io_encode(&again, &out);
	stamp(&again, 8192);
	cr_assert_eq(memcmp(&again, &header, sizeof(again)), 0);
}

static int
decode_io(const struct wire_header *header, const char **ret_field)
{
	struct wire_io out = { .vm_id = 77 };
	int rc = wire_io_decode(header, &out, ret_field);

	cr_assert(rc == 0 || out.vm_id == 77);
	return rc;
}

Test(wire, io_fields_are_checked)
{
	static const struct bad_field bad[] = {
		BAD(opcode, 0x0f, "opcode"),
		BAD(opcode, 0x16, "opcode"),
		BAD(opcode, WIRE_WRITE | WIRE_REPLY, "opcode"),
		BAD(service_class, SERVICE_CLASS_NR, "service_class"),
		BAD(engine, 1, "engine"),
		BAD(offset_bytes, CLEAVE_SEGMENT_BYTES, "offset_bytes"),
		BAD(offset_bytes, 512, "offset_bytes"),
		BAD(length_bytes, 0, "length_bytes"),
		BAD(length_bytes, 4097, "length_bytes"),
		BAD(length_bytes, 12288, "length_bytes"), /* crosses the chunk's end */
		BAD(length_bytes, 65536 + 4096, "length_bytes"),
		BAD(payload_bytes, 4096, "payload_bytes"),
		BAD(flags, 1, "flags"),
		BAD(status, 1, "status"),
	};
	static const struct bad_field bad_read[] = {
		BAD(payload_bytes, 8192, "payload_bytes"),
		BAD(payload_crc, 1, "payload_crc"),
	};
	struct wire_io io = io_write;
	struct wire_header header;

	wire_io_encode(&header, &io);
	stamp(&header, 8192);
	bad_fields_check(&header, decode_io, bad, NUM_COUNT(bad));
	io.opcode = WIRE_READ;
	wire_io_encode(&header, &io);
	stamp(&header, 0);
	bad_fields_check(&header, decode_io, bad_read, NUM_COUNT(bad_read));
	io.opcode = WIRE_DISCARD;
	io.offset_bytes = 0;
	io.length_bytes = (uint32_t)CLEAVE_CHUNK_BYTES;
	wire_io_encode(&header, &io);
	stamp(&header, 0);
	bad_fields_check(&header, decode_io, bad_read, NUM_COUNT(bad_read));
	io.opcode = WIRE_WRITE_ZEROES;
	io.length_bytes += 4096;
	wire_io_encode(&header, &io);
	stamp(&header, 0);
	cr_assert_eq(decode_io(&header, &(const char *){ NULL }), -EPROTO);
}

static int
decode_io_reply(const struct wire_header *header, const char **ret_field)
{
	struct wire_io_reply out;

	return wire_io_reply_decode(header, &out, ret_field);
}

Test(wire, io_replies_round_trip)
{
	static const struct bad_field bad[] = {
		BAD(opcode, WIRE_READ, "opcode"), BAD(opcode, 0x20 | WIRE_REPLY, "opcode"),
		BAD(service_class, SERVICE_CLASS_NR, "service_class"), BAD(engine, 1, "engine"),
		BAD(length_bytes, CLEAVE_CHUNK_BYTES + 1, "length_bytes"),
		BAD(payload_bytes, 0, "payload_bytes"), BAD(flags, 1, "flags"),
		BAD(status, 999, "payload_bytes"), /* a failed READ has none */
	};
	struct wire_io io = io_write;
	struct wire_io_reply out;
	struct wire_header header;
	const char *field = NULL;

	io.opcode = WIRE_READ;
	wire_io_reply(&header, &io, 0, 0xabcd, 17);
	stamp(&header, 8192);
	golden_check("read_reply", &header, sizeof(header));
	bad_fields_check(&header, decode_io_reply, bad, NUM_COUNT(bad));
	cr_assert_eq(wire_io_reply_decode(&header, &out, &field), 0);
	cr_assert_eq(out.opcode, WIRE_READ);
	cr_assert_eq(out.request_id, io.request_id);
	cr_assert_eq(out.rc, 0);
	cr_assert_eq(out.length_bytes, 8192);
	cr_assert_eq(out.payload_crc, 0xabcd);
	cr_assert_eq(out.epoch, 17);

	wire_io_reply(&header, &io, -EREMCHG, 0xabcd, 18);
	stamp(&header, 0);
	cr_assert_eq(wire_io_reply_decode(&header, &out, &field), 0);
	cr_assert_eq(out.rc, -EREMCHG);
	cr_assert_eq(out.payload_crc, 0);
	header.status = 999;
	cr_assert_eq(wire_io_reply_decode(&header, &out, &field), -EPROTO);
	cr_assert_str_eq(field, "status");
}

Test(wire, holes_round_trip)
{
	static const struct bad_field bad_request[] = { BAD(offset_bytes, 4096, "offset_bytes"),
		BAD(length_bytes, 4096, "length_bytes"), BAD(payload_bytes, 64, "payload_bytes") };
	static const struct bad_field bad_reply[] = { BAD(length_bytes, 65, "length_bytes"),
		BAD(payload_bytes, 63, "payload_bytes"), BAD(status, 999, "payload_bytes") };
	struct wire_io io = io_write, out;
	struct wire_header headers[2];
	struct wire_io_reply reply;
	const char *field = NULL;

	io.opcode = WIRE_HOLES;
	io.offset_bytes = 0;
	io.length_bytes = WIRE_HOLES_BYTES;
	io.payload_crc = 0;
	wire_io_encode(&headers[0], &io);
	stamp(&headers[0], 0);
	cr_assert_eq(wire_io_decode(&headers[0], &out, &field), 0);
	cr_assert_eq(memcmp(&out, &io, sizeof(out)), 0);
	bad_fields_check(&headers[0], decode_io, bad_request, NUM_COUNT(bad_request));
	wire_io_reply(&headers[1], &io, 0, 0xabcd, 0);
	stamp(&headers[1], WIRE_HOLES_BYTES);
	golden_check("holes", headers, sizeof(headers));
	bad_fields_check(&headers[1], decode_io_reply, bad_reply, NUM_COUNT(bad_reply));
	cr_assert_eq(wire_io_reply_decode(&headers[1], &reply, &field), 0);
	cr_assert_eq(reply.payload_bytes, WIRE_HOLES_BYTES);
	cr_assert_eq(reply.payload_crc, 0xabcd);
}

Test(wire, block_status_round_trips)
{
	static const struct bad_field bad[] = {
		BAD(payload_bytes, 0, "payload_bytes"),
		BAD(payload_bytes, 12, "payload_bytes"),
		BAD(payload_bytes, 65536 + 8, "payload_bytes"),
		BAD(status, 999, "payload_bytes"),
	};
	static const struct wire_status statuses[] = { { 1, 0 },
		{ 16384, WIRE_STATUS_HOLE | WIRE_STATUS_ZERO }, { 77, WIRE_STATUS_ZERO } };
	struct wire_io io = io_write;
	struct wire_io_reply reply;
	struct wire_io out;
	uint8_t bytes[WIRE_HEADER_BYTES + WIRE_STATUS_ENTRY_BYTES * NUM_COUNT(statuses)];
	struct wire_header header;
	const char *field = NULL;

	io.opcode = WIRE_BLOCK_STATUS;
	io.offset_bytes = CLEAVE_CHUNK_BYTES;
	io.length_bytes = (uint32_t)CLEAVE_CHUNK_BYTES;
	io.payload_crc = 0;
	wire_io_encode(&header, &io);
	stamp(&header, 0);
	cr_assert_eq(wire_io_decode(&header, &out, &field), 0);
	cr_assert_eq(memcmp(&out, &io, sizeof(out)), 0);

	wire_io_reply(&header, &io, 0, 0xabcd, 17);
	stamp(&header, sizeof(bytes) - WIRE_HEADER_BYTES);
	memcpy(bytes, &header, sizeof(header));
	for (size_t i = 0; i < NUM_COUNT(statuses); i++)
		wire_status_encode(bytes + WIRE_HEADER_BYTES + i * WIRE_STATUS_ENTRY_BYTES,
		    &statuses[i]);
	golden_check("block_status_reply", bytes, sizeof(bytes));
	bad_fields_check(&header, decode_io_reply, bad, NUM_COUNT(bad));
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), 0);
	cr_assert_eq(reply.length_bytes, CLEAVE_CHUNK_BYTES);
	cr_assert_eq(reply.payload_bytes, sizeof(bytes) - WIRE_HEADER_BYTES);
	cr_assert_eq(reply.payload_crc, 0xabcd);
	for (size_t i = 0; i < NUM_COUNT(statuses); i++) {
		const uint8_t *at = bytes + WIRE_HEADER_BYTES + i * WIRE_STATUS_ENTRY_BYTES;
		struct wire_status status;

		cr_assert_eq(wire_status_decode(at, 16384, &status, &field), 0);
		cr_assert_eq(memcmp(&status, &statuses[i], sizeof(status)), 0);
	}
	wire_io_reply(&header, &io, -EIO, 0xabcd, 17);
	stamp(&header, 0);
	cr_assert_eq(wire_io_reply_decode(&header, &reply, &field), 0);
}

Test(wire, block_status_entries_are_checked)
{
	static const struct {
		struct wire_status status;
		uint32_t left_count;
		const char *field;
	} bad[] = {
		{ { 0, 0 }, 10, "block_count" },
		{ { 11, 0 }, 10, "block_count" },
		{ { UINT32_MAX, 0 }, 10, "block_count" },
		{ { 1, 4 }, 10, "status_flags" },
		{ { 1, UINT32_MAX }, 10, "status_flags" },
		{ { 1, 0 }, 0, "block_count" },
	};

	for (size_t i = 0; i < NUM_COUNT(bad); i++) {
		struct wire_status out = { 77, 77 };
		uint8_t bytes[WIRE_STATUS_ENTRY_BYTES];
		const char *field = NULL;

		wire_status_encode(bytes, &bad[i].status);
		cr_assert_eq(wire_status_decode(bytes, bad[i].left_count, &out, &field), -EPROTO);
		cr_assert_str_eq(field, bad[i].field);
		cr_assert_eq(out.block_count, 77);
	}
}

static int
decode_node(const struct wire_header *header, const char **ret_field)
{
	struct wire_node out = { .epoch = 77 };
	int rc = wire_node_decode(header, &out, ret_field);

	cr_assert(rc == 0 || out.epoch == 77);
	return rc;
}

Test(wire, node_requests_round_trip)
{
	static const struct wire_node nodes[] = {
		{ .opcode = WIRE_EXTENT_CREATE, .id = { 1, 2, 3 }, .kind = EXTENT_LOG, .epoch = 2 },
		{ .opcode = WIRE_EXTENT_READ,
		    .id = { 1, 2, 3 },
		    .offset_bytes = 100,
		    .length_bytes = 262144,
		    .epoch = 2 },
		{ .opcode = WIRE_EXTENT_FREEZE, .id = { 1, 2, 3 }, .epoch = EXTENT_EPOCH_MAX },
		{ .opcode = WIRE_EXTENT_TRUNCATE,
		    .id = { 1, 2, 3 },
		    .offset_bytes = CLEAVE_CHUNK_BYTES,
		    .epoch = 2 },
		{ .opcode = WIRE_EXTENT_DELETE, .id = { 1, 2, 3 }, .offset_bytes = UINT64_MAX },
		{ .opcode = WIRE_EXTENT_LIST,
		    .id = { .shard = UINT32_MAX },
		    .offset_bytes = 123456789 },
		{ .opcode = WIRE_EXTENT_LIST, .id = { .shard = 7 } },
		{ .opcode = WIRE_SHARD_FENCE, .id = { .shard = 4095 }, .epoch = 3 },
		{ .opcode = WIRE_EXTENT_VERIFY, .id = { 1, 2, 3 }, .epoch = 9 },
	};
	struct wire_header header, again;
	struct wire_node out;
	const char *field = NULL;

	wire_node_encode(&header, &node_append);
	stamp(&header, 262144);
	golden_check("append", &header, sizeof(header));
	cr_assert_eq(wire_node_decode(&header, &out, &field), 0, "%s", field);
	wire_node_encode(&again, &out);
	stamp(&again, 262144);
	cr_assert_eq(memcmp(&again, &header, sizeof(again)), 0);
	for (size_t i = 0; i < NUM_COUNT(nodes); i++) {
		wire_node_encode(&header, &nodes[i]);
		stamp(&header, 0);
		cr_assert_eq(wire_node_decode(&header, &out, &field), 0, "%zu: %s", i, field);
		cr_assert_eq(out.opcode, nodes[i].opcode);
		cr_assert_eq(out.id.shard, nodes[i].id.shard);
		cr_assert_eq(out.id.counter, nodes[i].id.counter);
		cr_assert_eq(out.offset_bytes, nodes[i].offset_bytes);
		cr_assert_eq(out.length_bytes, nodes[i].length_bytes);
		cr_assert_eq(out.epoch, nodes[i].epoch);
	}
}

Test(wire, verify_round_trip)
{
	const struct wire_node verify = { .opcode = WIRE_EXTENT_VERIFY,
		.request_id = 77,
		.id = { 9, 4, 1000 },
		.epoch = 6 };
	const struct wire_node_reply bad = { .opcode = WIRE_EXTENT_VERIFY,
		.request_id = 77,
		.id = { 9, 4, 1000 },
		.rc = -EBADMSG,
		.offset_bytes = 65536,
		.epoch = 6 };
	struct wire_header headers[2];
	struct wire_node out;
	struct wire_node_reply reply;
	const char *field = NULL;

	wire_node_encode(&headers[0], &verify);
	stamp(&headers[0], 0);
	wire_node_reply_encode(&headers[1], &bad);
	stamp(&headers[1], 0);
	golden_check("verify", headers, sizeof(headers));
	cr_assert_eq(wire_node_decode(&headers[0], &out, &field), 0, "%s", field);
	cr_assert_eq(out.opcode, WIRE_EXTENT_VERIFY);
	cr_assert_eq(out.id.counter, 1000);
	cr_assert_eq(wire_node_reply_decode(&headers[1], &reply, &field), 0, "%s", field);
	cr_assert_eq(reply.rc, -EBADMSG);
	cr_assert_eq(reply.offset_bytes, 65536);
}

static void
node_good(struct wire_header *header, enum wire_opcode opcode)
{
	struct wire_node node = { .opcode = opcode, .id = { 1, 2, 3 }, .kind = EXTENT_LOG };

	if (opcode == WIRE_EXTENT_READ || opcode == WIRE_EXTENT_APPEND)
		node.length_bytes = 4096;
	wire_node_encode(header, &node);
	stamp(header, opcode == WIRE_EXTENT_APPEND ? 4096 : 0);
}

Test(wire, append_fields_are_checked)
{
	static const struct bad_field bad_append[] = {
		BAD(opcode, 0x3f, "opcode"),
		BAD(opcode, 0x4e, "opcode"),
		BAD(service_class, 1, "service_class"),
		BAD(engine, 0, "kind"),
		BAD(engine, EXTENT_MANIFEST + 1, "kind"),
		BAD(object_id, UINT64_MAX, "object_id"),
		BAD(object_id, (uint64_t)CLEAVE_SHARDS_MAX << 50, "object_id"),
		BAD(offset_bytes, 512, "offset_bytes"),
		BAD(offset_bytes, CLEAVE_CHUNK_BYTES, "offset_bytes"),
		BAD(offset_bytes, UINT64_MAX - 4095, "offset_bytes"),
		BAD(length_bytes, 0, "length_bytes"),
		BAD(length_bytes, 4097, "length_bytes"),
		BAD(length_bytes, 262144 + 4096, "length_bytes"),
		BAD(payload_bytes, 8192, "payload_bytes"),
		BAD(epoch, EXTENT_EPOCH_MAX + 1, "epoch"),
		BAD(vm_id, 1, "vm_id"),
		BAD(flags, WIRE_FLAG_SEALED, "flags"),
		BAD(status, 1, "status"),
		BAD(payload_crc, 1, "payload_crc"),
	};
	struct wire_header header;

	node_good(&header, WIRE_EXTENT_APPEND);
	bad_fields_check(&header, decode_node, bad_append, NUM_COUNT(bad_append));
}

Test(wire, node_request_fields_are_checked)
{
	static const struct bad_field bad_create[] = {
		BAD(offset_bytes, 1, "offset_bytes"),
		BAD(length_bytes, 1, "length_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
		BAD(flags, WIRE_FLAG_RECOVERY, "flags"),
		BAD(flags, WIRE_FLAG_RECOVERY | WIRE_FLAG_RESERVE, "flags"),
		BAD(engine, 0, "kind"),
	};
	static const struct bad_field bad_read[] = {
		BAD(engine, 1, "kind"),
		BAD(offset_bytes, CLEAVE_CHUNK_BYTES, "offset_bytes"),
		BAD(length_bytes, 0, "length_bytes"),
		BAD(length_bytes, WIRE_PAYLOAD_BYTES_MAX + 1, "length_bytes"),
		BAD(payload_bytes, 4096, "payload_bytes"),
	};
	static const struct bad_field bad_cut[] = {
		BAD(offset_bytes, 1, "offset_bytes"),
		BAD(offset_bytes, CLEAVE_CHUNK_BYTES + 4096, "offset_bytes"),
		BAD(length_bytes, 1, "length_bytes"),
	};
	static const struct bad_field bad_short[] = {
		/* DELETE, LIST */
		BAD(length_bytes, 1, "length_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
	};
	static const struct bad_field bad_fence[] = {
		BAD(object_id, CLEAVE_SHARDS_MAX, "object_id"),
		BAD(object_id, UINT32_MAX, "object_id"),
		BAD(offset_bytes, 1, "offset_bytes"),
	};
	static const struct bad_field bad_verify[] = {
		BAD(offset_bytes, 4096, "offset_bytes"),
		BAD(length_bytes, 4096, "length_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
		BAD(flags, WIRE_FLAG_RECOVERY, "flags"),
		BAD(engine, 1, "kind"),
	};
	static const struct bad_field bad_list[] = {
		BAD(object_id, CLEAVE_SHARDS_MAX, "object_id"),
		BAD(object_id, (uint64_t)UINT32_MAX + 1, "object_id"),
	};
	struct wire_header header;

	node_good(&header, WIRE_EXTENT_CREATE);
	bad_fields_check(&header, decode_node, bad_create, NUM_COUNT(bad_create));
	node_good(&header, WIRE_EXTENT_READ);
	bad_fields_check(&header, decode_node, bad_read, NUM_COUNT(bad_read));
	node_good(&header, WIRE_EXTENT_TRUNCATE);
	bad_fields_check(&header, decode_node, bad_cut, NUM_COUNT(bad_cut));
	node_good(&header, WIRE_EXTENT_DELETE);
	bad_fields_check(&header, decode_node, bad_short, NUM_COUNT(bad_short));
	node_good(&header, WIRE_EXTENT_LIST);
	bad_fields_check(&header, decode_node, bad_short, NUM_COUNT(bad_short));
	bad_fields_check(&header, decode_node, bad_list, NUM_COUNT(bad_list));
	node_good(&header, WIRE_EXTENT_VERIFY);
	bad_fields_check(&header, decode_node, bad_verify, NUM_COUNT(bad_verify));
	node_good(&header, WIRE_SHARD_FENCE);
	bad_fields_check(&header, decode_node, bad_fence, NUM_COUNT(bad_fence));
}

static int
decode_node_reply(const struct wire_header *header, const char **ret_field)
{
	struct wire_node_reply out;

	return wire_node_reply_decode(header, &out, ret_field);
}

Test(wire, node_replies_round_trip)
{
	struct wire_node_reply list = {
		.opcode = WIRE_EXTENT_LIST,
		.id = { .shard = UINT32_MAX },
		.length_bytes = 80,
	};
	struct wire_node_reply out;
	struct wire_header header, again;
	const char *field = NULL;

	wire_node_reply_encode(&header, &node_freeze_reply);
	stamp(&header, 0);
	golden_check("freeze_reply", &header, sizeof(header));
	cr_assert_eq(wire_node_reply_decode(&header, &out, &field), 0, "%s", field);
	wire_node_reply_encode(&again, &out);
	stamp(&again, 0);
	cr_assert_eq(memcmp(&again, &header, sizeof(again)), 0);
	wire_node_reply_encode(&header, &list);
	stamp(&header, 80);
	cr_assert_eq(wire_node_reply_decode(&header, &out, &field), 0, "%s", field);
	cr_assert_eq(out.id.shard, UINT32_MAX);
	list.rc = -EUCLEAN;
	wire_node_reply_encode(&header, &list);
	stamp(&header, 0);
	cr_assert_eq(wire_node_reply_decode(&header, &out, &field), 0, "%s", field);
	cr_assert_eq(out.rc, -EUCLEAN);
}

Test(wire, node_reply_fields_are_checked)
{
	static const struct bad_field bad[] = {
		BAD(opcode, WIRE_EXTENT_FREEZE, "opcode"),
		BAD(opcode, 0x4e | WIRE_REPLY, "opcode"),
		BAD(service_class, 1, "service_class"),
		BAD(engine, 1, "kind"),
		BAD(object_id, UINT64_MAX, "object_id"),
		BAD(status, 999, "status"),
		BAD(payload_bytes, 1, "payload_bytes"),
		BAD(epoch, EXTENT_EPOCH_MAX + 1, "epoch"),
		BAD(vm_id, 1, "vm_id"),
		BAD(flags, 1u << 3, "flags"),
	};
	static const struct bad_field bad_read[] = {
		BAD(length_bytes, WIRE_PAYLOAD_BYTES_MAX + 1, "length_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
		BAD(payload_crc, 1, "payload_crc"),
	};
	static const struct bad_field bad_list[] = { BAD(length_bytes, 39, "length_bytes") };
	struct wire_node_reply reply = { .opcode = WIRE_EXTENT_READ, .length_bytes = 100 };
	struct wire_header header;

	wire_node_reply_encode(&header, &node_freeze_reply);
	stamp(&header, 0);
	bad_fields_check(&header, decode_node_reply, bad, NUM_COUNT(bad));
	wire_node_reply_encode(&header, &reply);
	stamp(&header, 100);
	bad_fields_check(&header, decode_node_reply, bad_read, NUM_COUNT(bad_read));
	reply.opcode = WIRE_EXTENT_LIST;
	reply.length_bytes = 40;
	wire_node_reply_encode(&header, &reply);
	stamp(&header, 40);
	bad_fields_check(&header, decode_node_reply, bad_list, NUM_COUNT(bad_list));
}

static int
decode_control(const struct wire_header *header, const char **ret_field)
{
	struct wire_control out;

	return wire_control_decode(header, &out, ret_field);
}

Test(wire, control_fields_are_checked)
{
	static const struct bad_field bad[] = {
		BAD(opcode, 0x21, "opcode"),
		BAD(service_class, 1, "service_class"),
		BAD(engine, 1, "engine"),
		BAD(object_id, 1, "object_id"),
		BAD(offset_bytes, 1, "offset_bytes"),
		BAD(length_bytes, 1, "length_bytes"),
		BAD(payload_bytes, WIRE_CLIENT_PAYLOAD_BYTES_MAX + 1, "payload_bytes"),
		BAD(epoch, 1, "epoch"),
		BAD(vm_id, 1, "vm_id"),
		BAD(flags, 1, "flags"),
		BAD(status, 1, "status"),
	};
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = 3 };
	struct wire_control out;
	const char *field = NULL;

	stamp(&header, 1000);
	bad_fields_check(&header, decode_control, bad, NUM_COUNT(bad));
	header.opcode |= WIRE_REPLY;
	header.status = 5;
	cr_assert_eq(wire_control_decode(&header, &out, &field), 0);
	cr_assert_eq(out.request_id, 3);
	cr_assert_eq(out.payload_bytes, 1000);
	header.status = 999;
	cr_assert_eq(wire_control_decode(&header, &out, &field), -EPROTO);
}
