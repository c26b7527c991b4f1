/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wire_job.c -- the messages about merges that others execute round trip; every field that is wrong is named; the bytes stay
 *
 * tests/golden/wire_job.bin holds a request and an answer of each. CLEAVE_GOLDEN_WRITE=1 writes it anew.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/job.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "splitlib/core/wire.h"
#include "unit/wire_fields.h"

#define REQUEST_ID 0x1122334455667788u
#define RECIPE_BYTES (2 * WIRE_JOB_PART_BYTES + 100u)

enum { ASSIGN, ASSIGNED, CANCEL, CANCELED, LOAD, LOADED, MESSAGES };

static const struct wire_job messages[MESSAGES] = {
	[ASSIGN] = { .opcode = WIRE_JOB_ASSIGN,
	    .request_id = REQUEST_ID,
	    .job = 7,
	    .offset_bytes = 2 * WIRE_JOB_PART_BYTES,
	    .recipe_bytes = RECIPE_BYTES,
	    .payload_bytes = 100 },
	[ASSIGNED] = { .opcode = WIRE_JOB_ASSIGN,
	    .is_reply = true,
	    .request_id = REQUEST_ID,
	    .job = 7,
	    .payload_bytes = 48 },
	[CANCEL] = { .opcode = WIRE_JOB_CANCEL, .request_id = REQUEST_ID, .job = UINT64_MAX },
	[CANCELED] = { .opcode = WIRE_JOB_CANCEL,
	    .is_reply = true,
	    .request_id = REQUEST_ID,
	    .job = UINT64_MAX,
	    .rc = -ENOENT },
	[LOAD] = { .opcode = WIRE_JOB_LOAD, .request_id = REQUEST_ID },
	[LOADED] = { .opcode = WIRE_JOB_LOAD,
	    .is_reply = true,
	    .request_id = REQUEST_ID,
	    .free_count = WIRE_JOB_FREE_MAX,
	    .busy = 250 },
};

static void
make_headers(struct wire_header headers[MESSAGES])
{
	for (uint32_t i = 0; i < MESSAGES; i++) {
		wire_job_encode(&headers[i], &messages[i]);
		wire_frame_stamp(&headers[i], messages[i].payload_bytes, 0x0102);
	}
}

Test(wire_job, bytes_stay)
{
	struct wire_header headers[MESSAGES];

	make_headers(headers);
	golden_check("job", headers, sizeof(headers));
}

Test(wire_job, headers_round_trip)
{
	struct wire_header headers[MESSAGES];

	make_headers(headers);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		const struct wire_job *expected = &messages[i];
		const char *field = NULL;
		struct wire_job out;

		cr_assert_eq(wire_job_decode(&headers[i], &out, &field), 0, "%u %s", i, field);
		cr_assert_eq(out.opcode, expected->opcode);
		cr_assert_eq(out.is_reply, expected->is_reply);
		cr_assert_eq(out.request_id, expected->request_id);
		cr_assert_eq(out.job, expected->job);
		cr_assert_eq(out.offset_bytes, expected->offset_bytes);
		cr_assert_eq(out.recipe_bytes, expected->recipe_bytes);
		cr_assert_eq(out.payload_bytes, expected->payload_bytes);
		cr_assert_eq(out.rc, expected->rc);
		cr_assert_eq(out.free_count, expected->free_count);
		cr_assert_eq(out.busy, expected->busy);
	}
}

static int
decode(const struct wire_header *header, const char **ret_field)
{
	struct wire_job out;

	return wire_job_decode(header, &out, ret_field);
}

Test(wire_job, wrong_fields_of_any_are_named)
{
	static const struct bad_field bad[] = {
		BAD(service_class, 1, "service_class"),
		BAD(engine, 1, "engine"),
		BAD(epoch, 1, "epoch"),
		BAD(vm_id, 1, "vm_id"),
		BAD(flags, 1, "flags"),
		BAD(payload_crc, 1, "payload_crc"),
		BAD(status, CLEAVE_STATUS_NR, "status"),
	};
	struct wire_header headers[MESSAGES];

	make_headers(headers);
	for (uint32_t i = 0; i < MESSAGES; i++)
		bad_fields_check(&headers[i], decode, bad, NUM_COUNT(bad));
}

Test(wire_job, wrong_fields_of_a_part_are_named)
{
	static const struct bad_field bad[] = {
		BAD(opcode, WIRE_MIRROR_HEADS, "opcode"),
		BAD(object_id, 0, "object_id"),
		BAD(status, 1, "status"),
		BAD(length_bytes, 0, "length_bytes"),
		BAD(length_bytes, WIRE_JOB_RECIPE_BYTES_MAX + 1, "length_bytes"),
		BAD(offset_bytes, WIRE_JOB_PART_BYTES - 1, "offset_bytes"),
		BAD(offset_bytes, 3 * WIRE_JOB_PART_BYTES, "offset_bytes"),
		BAD(offset_bytes, UINT64_C(1) << 32, "offset_bytes"),
		BAD(payload_bytes, 99, "payload_bytes"),
		BAD(payload_bytes, 101, "payload_bytes"),
	};
	struct wire_header headers[MESSAGES];

	make_headers(headers);
	bad_fields_check(&headers[ASSIGN], decode, bad, NUM_COUNT(bad));
}

Test(wire_job, wrong_fields_of_its_answer_are_named)
{
	static const struct bad_field bad[] = {
		BAD(length_bytes, 1, "length_bytes"),
		BAD(offset_bytes, WIRE_JOB_PART_BYTES, "offset_bytes"),
		BAD(payload_bytes, WIRE_JOB_TOLD_BYTES_MAX + 1, "payload_bytes"),
		BAD(status, CLEAVE_STATUS_BUSY, "payload_bytes"),
	};
	struct wire_header headers[MESSAGES];

	make_headers(headers);
	bad_fields_check(&headers[ASSIGNED], decode, bad, NUM_COUNT(bad));
}

Test(wire_job, wrong_fields_of_the_others_are_named)
{
	static const struct bad_field bad_cancel[] = {
		BAD(object_id, 0, "object_id"),
		BAD(length_bytes, 1, "length_bytes"),
		BAD(offset_bytes, 1, "offset_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
	};
	static const struct bad_field bad_load[] = {
		BAD(object_id, 1, "object_id"),
		BAD(length_bytes, 1, "length_bytes"),
		BAD(offset_bytes, 1, "offset_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
	};
	static const struct bad_field bad_loaded[] = {
		BAD(length_bytes, WIRE_JOB_FREE_MAX + 1, "length_bytes"),
		BAD(offset_bytes, WIRE_JOB_BUSY_MAX + 1, "offset_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
		BAD(status, CLEAVE_STATUS_UNSUPPORTED, "length_bytes"),
	};
	struct wire_header headers[MESSAGES];

	make_headers(headers);
	bad_fields_check(&headers[CANCEL], decode, bad_cancel, NUM_COUNT(bad_cancel));
	bad_fields_check(&headers[CANCELED], decode, bad_cancel, NUM_COUNT(bad_cancel));
	bad_fields_check(&headers[LOAD], decode, bad_load, NUM_COUNT(bad_load));
	bad_fields_check(&headers[LOADED], decode, bad_loaded, NUM_COUNT(bad_loaded));
}

Test(wire_job, parts_are_as_long_as_they_can_be)
{
	cr_assert_eq(wire_job_part_bytes(RECIPE_BYTES, 0), WIRE_JOB_PART_BYTES);
	cr_assert_eq(wire_job_part_bytes(RECIPE_BYTES, 2 * WIRE_JOB_PART_BYTES), 100);
	cr_assert_eq(wire_job_part_bytes(WIRE_JOB_PART_BYTES, 0), WIRE_JOB_PART_BYTES);
}
