/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h -- JOB_ASSIGN, JOB_CANCEL, JOB_LOAD: a merge of one gateway's shard, a *job*, is executed by another gateway
 *
 * On a connection as for MIRROR_HEADS, of CLEAVE_LEVEL_WORKERS. A job is a number that its owner gives it, and is of that
 * connection: it ends with it. ASSIGN brings a part of its recipe, all WIRE_JOB_PART_BYTES long but the last, one behind
 * the other, each when the one before it was answered. The answer to the last comes when the job has ended: with 0 it
 * says in its payload what was made, else there is none. CANCEL is answered when nothing of the job is out any more.
 * LOAD asks whether there is room for one.
 *
 *	ASSIGN 0x60   object_id job, length_bytes of its recipe, offset_bytes of the part, which is the payload
 *	  answer      object_id job, status; the last: with OK the payload says what was made
 *	CANCEL 0x63   object_id job
 *	  answer      object_id job, status: NOT_FOUND where it has ended
 *	LOAD 0x64     nothing
 *	  answer      status: NOT_SUPPORTED from who takes none; with OK length_bytes: jobs that it takes yet, offset_bytes:
 *	              per mille of what it can do that it does
 *
 * All other fields are zero.
 */
#ifndef CLEAVE_JOB_H
#define CLEAVE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/message.h"

#define WIRE_JOB_PART_BYTES (16384u - WIRE_HEADER_BYTES) /* sent from one piece of host memory */
#define WIRE_JOB_RECIPE_BYTES_MAX (1024u * 1024u)
#define WIRE_JOB_TOLD_BYTES_MAX 2048u
#define WIRE_JOB_FREE_MAX 1024u
#define WIRE_JOB_BUSY_MAX 1000u
struct wire_job {
	uint8_t opcode; /* without WIRE_REPLY */
	bool is_reply;
	uint64_t request_id;
	uint64_t job;           /* not 0; of LOAD 0 */
	uint32_t offset_bytes;  /* ASSIGN: of the part in the recipe */
	uint32_t recipe_bytes;  /* ASSIGN: of all of it */
	uint32_t payload_bytes; /* ASSIGN: of the part; its last answer: of what was made */
	int rc;                 /* a reply's */
	uint32_t
	    free_count; /* LOAD's reply with 0: jobs that it takes yet, up to WIRE_JOB_FREE_MAX */
	uint32_t
	    busy; /* LOAD's reply with 0: per mille of what it can do is done, up to WIRE_JOB_BUSY_MAX */
};
/* wire_job_decode -- either way, of the three. 0, or -EPROTO and the field's name. */
int wire_job_decode(const struct wire_header *header, struct wire_job *ret_job,
    const char **ret_field);
void wire_job_encode(struct wire_header *header, const struct wire_job *job);
/* wire_job_part_bytes -- how long the part at @offset_bytes of a recipe of @recipe_bytes is. */
static inline uint32_t
wire_job_part_bytes(uint32_t recipe_bytes, uint32_t offset_bytes)
{
	uint32_t left_bytes = recipe_bytes - offset_bytes;

	return left_bytes < WIRE_JOB_PART_BYTES ? left_bytes : WIRE_JOB_PART_BYTES;
}

#endif /* CLEAVE_JOB_H */
