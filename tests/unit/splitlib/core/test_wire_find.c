/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_find.c -- FIND round trips; every field that is wrong is named; the bytes stay */
#include "base/num.h"
#include "cleave/wire.h"
#include "unit/wire_fields.h"

TestSuite(wire_find, .timeout = 60);

static const struct wire_node find = { .opcode = WIRE_EXTENT_FIND,
	.request_id = 78,
	.id = { 9, 4, 1000 },
	.offset_bytes = 262144,
	.length_bytes = 1472,
	.block = CLEAVE_CHUNK_BLOCKS - 16,
	.block_count = 16,
	.epoch = 6 };

static const struct wire_node_reply found = { .opcode = WIRE_EXTENT_FIND,
	.request_id = 78,
	.id = { 9, 4, 1000 },
	.offset_bytes = 262144 + 5000,
	.length_bytes = 1472 + 8000,
	.epoch = 6 };

static void
encode(struct wire_header headers[2])
{
	wire_node_encode(&headers[0], &find);
	stamp(&headers[0], 0);
	wire_node_reply_encode(&headers[1], &found);
	stamp(&headers[1], found.length_bytes);
}

Test(wire_find, round_trip)
{
	struct wire_header headers[2];
	struct wire_node out;
	struct wire_node_reply reply;
	const char *field = NULL;

	encode(headers);
	golden_check("find", headers, sizeof(headers));
	cr_assert_eq(wire_node_decode(&headers[0], &out, &field), 0, "%s", field);
	cr_assert_eq(out.opcode, WIRE_EXTENT_FIND);
	cr_assert_eq(out.block, find.block);
	cr_assert_eq(out.block_count, find.block_count);
	cr_assert_eq(out.offset_bytes, find.offset_bytes);
	cr_assert_eq(out.length_bytes, find.length_bytes);
	cr_assert_eq(wire_node_reply_decode(&headers[1], &reply, &field), 0, "%s", field);
	cr_assert_eq(reply.offset_bytes, found.offset_bytes);
	cr_assert_eq(reply.length_bytes, found.length_bytes);
}

static int
decode_request(const struct wire_header *header, const char **ret_field)
{
	struct wire_node out = { .epoch = 77 };
	int rc = wire_node_decode(header, &out, ret_field);

	cr_assert(rc == 0 || out.epoch == 77);
	return rc;
}

static int
decode_reply(const struct wire_header *header, const char **ret_field)
{
	struct wire_node_reply out;

	return wire_node_reply_decode(header, &out, ret_field);
}

Test(wire_find, fields_are_checked)
{
	static const struct bad_field bad_request[] = {
		BAD(offset_bytes, 512, "offset_bytes"),
		BAD(offset_bytes, CLEAVE_CHUNK_BYTES, "offset_bytes"),
		BAD(length_bytes, BATCH_HEADER_BYTES, "length_bytes"),
		BAD(length_bytes, BATCH_HEAD_BYTES_MAX + 1, "length_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
		BAD(vm_id, 0, "vm_id"),
		BAD(vm_id, 16, "vm_id"),
		BAD(vm_id, UINT32_MAX, "vm_id"),
		BAD(vm_id, 2u << 16 | (CLEAVE_CHUNK_BLOCKS - 1), "vm_id"),
		BAD(flags, 1, "flags"),
		BAD(engine, 1, "kind"),
	};
	static const struct bad_field bad_reply[] = {
		BAD(length_bytes, WIRE_FIND_BYTES_MAX + 1, "length_bytes"),
		BAD(offset_bytes, CLEAVE_CHUNK_BYTES + 1, "offset_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
		BAD(vm_id, 1, "vm_id"),
	};
	struct wire_header headers[2];

	encode(headers);
	bad_fields_check(&headers[0], decode_request, bad_request, NUM_COUNT(bad_request));
	bad_fields_check(&headers[1], decode_reply, bad_reply, NUM_COUNT(bad_reply));
}
