/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_gather.c -- GATHER round trips, its list too; every field that is wrong is named; the bytes stay */
#include <string.h>

#include "base/num.h"
#include "cleave/gather.h"
#include "cleave/wire.h"
#include "unit/wire_fields.h"

TestSuite(wire_gather, .timeout = 60);

static const struct wire_stretch stretches[] = { { 128, 700 }, { 4096, 2048 }, { 6144, 1 } };

#define COUNT NUM_COUNT(stretches)
#define BYTES (700u + 2048u + 1u)

static const struct wire_node gather = { .opcode = WIRE_EXTENT_GATHER,
	.request_id = 79,
	.id = { 9, 4, 1000 },
	.length_bytes = BYTES,
	.stretch_count = COUNT,
	.epoch = 6 };

static const struct wire_node_reply gathered = { .opcode = WIRE_EXTENT_GATHER,
	.request_id = 79,
	.id = { 9, 4, 1000 },
	.length_bytes = BYTES,
	.epoch = 6 };

static void
encode(struct wire_header headers[2])
{
	wire_node_encode(&headers[0], &gather);
	stamp(&headers[0], COUNT * WIRE_STRETCH_BYTES);
	wire_node_reply_encode(&headers[1], &gathered);
	stamp(&headers[1], gathered.length_bytes);
}

Test(wire_gather, round_trip)
{
	struct {
		struct wire_header headers[2];
		uint8_t list[COUNT * WIRE_STRETCH_BYTES];
	} bytes;
	struct wire_stretch list[WIRE_GATHER_MAX];
	struct wire_node_reply reply;
	const char *field = NULL;
	struct wire_node out;

	encode(bytes.headers);
	wire_gather_encode(bytes.list, stretches, COUNT);
	golden_check("gather", &bytes, sizeof(bytes));
	cr_assert_eq(wire_node_decode(&bytes.headers[0], &out, &field), 0, "%s", field);
	cr_assert_eq(out.opcode, WIRE_EXTENT_GATHER);
	cr_assert_eq(out.stretch_count, COUNT);
	cr_assert_eq(out.length_bytes, BYTES);
	cr_assert_eq(wire_node_reply_decode(&bytes.headers[1], &reply, &field), 0, "%s", field);
	cr_assert_eq(reply.length_bytes, BYTES);
	cr_assert_eq(wire_gather_decode(bytes.list, COUNT, BYTES, list, &field), 0, "%s", field);
	cr_assert_eq(memcmp(list, stretches, sizeof(stretches)), 0);
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

Test(wire_gather, fields_are_checked)
{
	static const struct bad_field bad_request[] = {
		BAD(offset_bytes, 1, "offset_bytes"),
		BAD(length_bytes, 0, "length_bytes"),
		BAD(length_bytes, WIRE_GATHER_BYTES_MAX + 1, "length_bytes"),
		BAD(payload_bytes, 0, "payload_bytes"),
		BAD(payload_bytes, WIRE_STRETCH_BYTES + 1, "payload_bytes"),
		BAD(payload_bytes, (WIRE_GATHER_MAX + 1) * WIRE_STRETCH_BYTES, "payload_bytes"),
		BAD(vm_id, 1, "vm_id"),
		BAD(flags, 1, "flags"),
		BAD(engine, 1, "kind"),
	};
	static const struct bad_field bad_reply[] = {
		BAD(length_bytes, WIRE_PAYLOAD_BYTES_MAX + 1, "length_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
		BAD(vm_id, 1, "vm_id"),
	};
	struct wire_header headers[2];

	encode(headers);
	bad_fields_check(&headers[0], decode_request, bad_request, NUM_COUNT(bad_request));
	bad_fields_check(&headers[1], decode_reply, bad_reply, NUM_COUNT(bad_reply));
}

/* The field of a list that is wrong; "": none. */
static const char *
wrong(const struct wire_stretch *list, uint32_t count, uint32_t bytes)
{
	uint8_t encoded[WIRE_GATHER_MAX * WIRE_STRETCH_BYTES];
	struct wire_stretch out[WIRE_GATHER_MAX];
	const char *field = NULL;

	for (uint32_t i = 0; i < count; i++) {
		num_put_le32(encoded + i * WIRE_STRETCH_BYTES, list[i].offset_bytes);
		num_put_le32(encoded + i * WIRE_STRETCH_BYTES + 4, list[i].length_bytes);
	}
	return wire_gather_decode(encoded, count, bytes, out, &field) == 0 ? "" : field;
}

Test(wire_gather, a_list_is_in_order_and_within_an_extent)
{
	static const struct wire_stretch touching[] = { { 0, 10 }, { 10, 10 } },
					 over[] = { { 0, 10 }, { 9, 10 } },
					 back[] = { { 50, 10 }, { 0, 10 } },
					 none[] = { { 0, 10 }, { 20, 0 } },
					 last[] = { { CLEAVE_CHUNK_BYTES - 10, 10 } },
					 past[] = { { CLEAVE_CHUNK_BYTES - 10, 11 } },
					 far[] = { { UINT32_MAX, UINT32_MAX } };

	cr_assert_str_eq(wrong(touching, 2, 20), "");
	cr_assert_str_eq(wrong(last, 1, 10), "");
	cr_assert_str_eq(wrong(touching, 2, 21), "length_bytes");
	cr_assert_str_eq(wrong(touching, 1, 20), "length_bytes");
	cr_assert_str_eq(wrong(over, 2, 20), "stretch_offset_bytes");
	cr_assert_str_eq(wrong(back, 2, 20), "stretch_offset_bytes");
	cr_assert_str_eq(wrong(none, 2, 10), "stretch_length_bytes");
	cr_assert_str_eq(wrong(past, 1, 11), "stretch_length_bytes");
	cr_assert_str_eq(wrong(far, 1, UINT32_MAX), "stretch_length_bytes");
}
