/* SPDX-License-Identifier: Apache-2.0 */
/* wire_job.c -- JOB_ASSIGN, JOB_CANCEL, JOB_LOAD: merges that another gateway executes, decoded and encoded */
#include <errno.h>

#include "base/check.h"
#include "base/field.h"
#include "cleave/job.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "wire.h"

#define WIRE_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EPROTO)

_Static_assert(WIRE_HEADER_BYTES + WIRE_JOB_PART_BYTES == SPLIT_HEADER_BYTES_MAX,
    "a part is sent in one piece");

/* A part is as long as it can be. */
static int
assign_decode(const struct wire_header *header, const char **ret_field)
{
	WIRE_EXPECT(header->length_bytes > 0 && header->length_bytes <= WIRE_JOB_RECIPE_BYTES_MAX,
	    "length_bytes");
	WIRE_EXPECT(header->offset_bytes < header->length_bytes &&
		header->offset_bytes % WIRE_JOB_PART_BYTES == 0,
	    "offset_bytes");
	WIRE_EXPECT(header->payload_bytes ==
		wire_job_part_bytes(header->length_bytes, (uint32_t)header->offset_bytes),
	    "payload_bytes");
	return 0;
}

static int
load_reply_decode(const struct wire_header *header, const char **ret_field)
{
	bool is_said = header->status == CLEAVE_STATUS_OK;

	WIRE_EXPECT(header->length_bytes <= (is_said ? WIRE_JOB_FREE_MAX : 0), "length_bytes");
	WIRE_EXPECT(header->offset_bytes <= (is_said ? WIRE_JOB_BUSY_MAX : 0), "offset_bytes");
	WIRE_EXPECT(header->payload_bytes == 0, "payload_bytes");
	return 0;
}

static int
job_sizes_decode(const struct wire_header *header, uint8_t opcode, bool is_reply,
    const char **ret_field)
{
	uint32_t payload_max = 0;

	if (opcode == WIRE_JOB_ASSIGN && !is_reply)
		return assign_decode(header, ret_field);
	if (opcode == WIRE_JOB_LOAD && is_reply)
		return load_reply_decode(header, ret_field);
	if (opcode == WIRE_JOB_ASSIGN && header->status == CLEAVE_STATUS_OK)
		payload_max = WIRE_JOB_TOLD_BYTES_MAX;
	WIRE_EXPECT(header->length_bytes == 0, "length_bytes");
	WIRE_EXPECT(header->offset_bytes == 0, "offset_bytes");
	WIRE_EXPECT(header->payload_bytes <= payload_max, "payload_bytes");
	return 0;
}

int
wire_job_decode(const struct wire_header *header, struct wire_job *ret_job, const char **ret_field)
{
	bool is_reply = (header->opcode & WIRE_REPLY) != 0, is_load, is_assign;
	uint8_t opcode = header->opcode & (uint8_t)~WIRE_REPLY;
	int rc;

	assert(ret_job != NULL && ret_field != NULL);
	is_assign = opcode == WIRE_JOB_ASSIGN;
	is_load = opcode == WIRE_JOB_LOAD;
	WIRE_EXPECT(is_assign || is_load || opcode == WIRE_JOB_CANCEL, "opcode");
	WIRE_EXPECT(header->service_class == 0, "service_class");
	WIRE_EXPECT(header->engine == 0, "engine");
	WIRE_EXPECT((header->object_id == 0) == is_load, "object_id");
	WIRE_EXPECT(header->epoch == 0, "epoch");
	WIRE_EXPECT(header->vm_id == 0, "vm_id");
	WIRE_EXPECT(header->flags == 0, "flags");
	WIRE_EXPECT(is_reply ? header->status < CLEAVE_STATUS_NR : header->status == 0, "status");
	WIRE_EXPECT(header->payload_crc == 0, "payload_crc");
	rc = job_sizes_decode(header, opcode, is_reply, ret_field);
	if (rc != 0)
		return rc;
	*ret_job = (struct wire_job){ .opcode = opcode,
		.is_reply = is_reply,
		.request_id = header->request_id,
		.job = header->object_id,
		.offset_bytes = is_load ? 0 : (uint32_t)header->offset_bytes,
		.recipe_bytes = is_load ? 0 : header->length_bytes,
		.payload_bytes = header->payload_bytes,
		.rc = status_to_errno(header->status),
		.free_count = is_load ? header->length_bytes : 0,
		.busy = is_load ? (uint32_t)header->offset_bytes : 0 };
	return 0;
}

void
wire_job_encode(struct wire_header *header, const struct wire_job *job)
{
	bool is_load = job->opcode == WIRE_JOB_LOAD;

	assert(job->rc <= 0 && (job->is_reply || job->rc == 0));
	assert((job->job == 0) == is_load);
	assert(job->free_count <= WIRE_JOB_FREE_MAX && job->busy <= WIRE_JOB_BUSY_MAX);
	*header = (struct wire_header){
		.opcode = (uint8_t)(job->opcode | (job->is_reply ? WIRE_REPLY : 0)),
		.request_id = job->request_id,
		.object_id = job->job,
		.offset_bytes = is_load ? job->busy : job->offset_bytes,
		.length_bytes = is_load ? job->free_count : job->recipe_bytes,
		.status = status_from_errno(job->rc),
	};
}
