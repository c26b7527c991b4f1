/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wire_mirror.c -- MIRROR_HEADS and its answer round trip; every field that is wrong is named; the bytes stay
 *
 * tests/golden/wire_mirror.bin holds a request with two entries, and an answer. CLEAVE_GOLDEN_WRITE=1 writes it anew.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "splitlib/core/wire.h"
#include "unit/wire_fields.h"

#define ODD_BYTES (BATCH_HEADER_BYTES + 41u)
#define PAYLOAD_BYTES (2 * WIRE_MIRROR_ENTRY_BYTES + BATCH_HEADER_BYTES + 48u + BATCH_HEADER_BYTES)

static const struct wire_mirror request = { .request_id = 0x1122334455667788,
	.payload_bytes = PAYLOAD_BYTES };
static const struct wire_mirror answer = { .request_id = 0x1122334455667788,
	.is_reply = true,
	.rc = -ENOTSUP };
static const struct wire_mirror_entry entries[] = {
	{ { 3, 17, 5 }, 8192, ODD_BYTES },
	{ { CLEAVE_SHARDS_MAX - 1, EXTENT_EPOCH_MAX, EXTENT_COUNTER_MAX },
	    CLEAVE_CHUNK_BYTES - BATCH_ALIGN, BATCH_HEADER_BYTES },
};

static void
make_headers(struct wire_header headers[2])
{
	wire_mirror_encode(&headers[0], &request);
	wire_frame_stamp(&headers[0], PAYLOAD_BYTES, 0x0102);
	wire_mirror_encode(&headers[1], &answer);
	wire_frame_stamp(&headers[1], 0, 0x0102);
}

static void
make_payload(uint8_t payload[PAYLOAD_BYTES])
{
	uint8_t head[ODD_BYTES];
	uint32_t at = 0;

	for (uint32_t i = 0; i < ODD_BYTES; i++)
		head[i] = (uint8_t)i;
	for (uint32_t i = 0; i < NUM_COUNT(entries); i++)
		at += wire_mirror_entry_encode(payload + at, &entries[i], head);
	cr_assert_eq(at, PAYLOAD_BYTES);
}

Test(wire_mirror, bytes_stay)
{
	uint8_t bytes[2 * WIRE_HEADER_BYTES + PAYLOAD_BYTES];
	struct wire_header headers[2];

	make_headers(headers);
	memcpy(bytes, headers, sizeof(headers));
	make_payload(bytes + sizeof(headers));
	golden_check("mirror", bytes, sizeof(bytes));
}

static void
expect_same(const struct wire_mirror *mirror, const struct wire_mirror *expected)
{
	cr_assert_eq(mirror->request_id, expected->request_id);
	cr_assert_eq(mirror->payload_bytes, expected->payload_bytes);
	cr_assert_eq(mirror->is_reply, expected->is_reply);
	cr_assert_eq(mirror->rc, expected->rc);
}

Test(wire_mirror, headers_round_trip)
{
	struct wire_header headers[2];
	struct wire_mirror out;
	const char *field = NULL;

	make_headers(headers);
	cr_assert_eq(wire_mirror_decode(&headers[0], &out, &field), 0, "%s", field);
	expect_same(&out, &request);
	cr_assert_eq(wire_mirror_decode(&headers[1], &out, &field), 0, "%s", field);
	expect_same(&out, &answer);
}

static int
decode(const struct wire_header *header, const char **ret_field)
{
	struct wire_mirror out;

	return wire_mirror_decode(header, &out, ret_field);
}

Test(wire_mirror, wrong_fields_of_headers_are_named)
{
	static const struct bad_field bad_request[] = {
		BAD(opcode, WIRE_LEASE, "opcode"),
		BAD(service_class, 1, "service_class"),
		BAD(engine, 1, "engine"),
		BAD(object_id, 1, "object_id"),
		BAD(offset_bytes, 1, "offset_bytes"),
		BAD(length_bytes, 1, "length_bytes"),
		BAD(payload_bytes, WIRE_MIRROR_ENTRY_BYTES - 1, "payload_bytes"),
		BAD(payload_bytes, WIRE_MIRROR_BYTES_MAX + 1, "payload_bytes"),
		BAD(epoch, 1, "epoch"),
		BAD(vm_id, 1, "vm_id"),
		BAD(flags, 1, "flags"),
		BAD(status, 1, "status"),
		BAD(payload_crc, 1, "payload_crc"),
	};
	static const struct bad_field bad_answer[] = {
		BAD(status, CLEAVE_STATUS_NR, "status"),
		BAD(payload_bytes, 1, "payload_bytes"),
	};
	struct wire_header headers[2];

	make_headers(headers);
	bad_fields_check(&headers[0], decode, bad_request, NUM_COUNT(bad_request));
	bad_fields_check(&headers[1], decode, bad_answer, NUM_COUNT(bad_answer));
}

Test(wire_mirror, entries_round_trip)
{
	uint8_t payload[PAYLOAD_BYTES];
	const char *field = NULL;
	uint32_t at = 0;

	make_payload(payload);
	for (uint32_t i = 0; i < NUM_COUNT(entries); i++) {
		struct wire_mirror_entry out;

		cr_assert_eq(wire_mirror_entry_decode(payload + at, PAYLOAD_BYTES - at, &out,
				 &field),
		    0, "%s", field);
		cr_assert_eq(extent_id_pack(&out.id), extent_id_pack(&entries[i].id));
		cr_assert_eq(out.offset_bytes, entries[i].offset_bytes);
		cr_assert_eq(out.head_bytes, entries[i].head_bytes);
		cr_assert_eq(payload[at + WIRE_MIRROR_ENTRY_BYTES + 100], 100);
		at += wire_mirror_entry_bytes(out.head_bytes);
	}
	cr_assert_eq(at, PAYLOAD_BYTES);
}

static void
expect_bad(uint32_t at, uint8_t value, uint32_t bytes, const char *name)
{
	uint8_t payload[PAYLOAD_BYTES];
	struct wire_mirror_entry out;
	const char *field = NULL;

	make_payload(payload);
	payload[at] = value;
	cr_assert_eq(wire_mirror_entry_decode(payload, bytes, &out, &field), -EPROTO);
	cr_assert_str_eq(field, name);
}

Test(wire_mirror, wrong_entries_are_named)
{
	uint32_t first_bytes = wire_mirror_entry_bytes(ODD_BYTES);

	expect_bad(8, 0, WIRE_MIRROR_ENTRY_BYTES - 1, "mirror_bytes");
	expect_bad(7, CLEAVE_SHARDS_MAX >> 6, first_bytes,
	    "mirror_extent"); /* the upper 8 of 14 bits */
	expect_bad(8, 1, first_bytes, "mirror_offset");
	expect_bad(12, 1, first_bytes, "mirror_offset");
	expect_bad(16, 127, first_bytes, "mirror_head");  /* shorter than a header */
	expect_bad(17, 0x41, first_bytes, "mirror_head"); /* longer than any */
	expect_bad(16, (uint8_t)(ODD_BYTES & 0xff), first_bytes - 1, "mirror_head");
	expect_bad(20, 1, first_bytes, "mirror_reserved");
	expect_bad(first_bytes - 1, 1, first_bytes, "mirror_padding");
}
