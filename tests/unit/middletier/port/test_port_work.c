/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_port_work.c -- jobs of another gateway that come to a port: what is taken, refused, given up, and what it closes a connection for
 *
 * No node answers here: a job that reads waits for its sources until it is given up, or its time is over.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/job.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/common/port.h"
#include "middletier/gateway/gateway.h"
#include "middletier/merge/recipe.h"
#include "middletier/worker/worker.h"
#include "support/sim_gateway.h"

#define JOBS 2u
#define BLOCKS 1024u /* of a recipe: it takes three parts */

static const struct wire_hello gateway_hello = { .level = 2,
	.role = WIRE_ROLE_GATEWAY,
	.cluster_id = SG_CLUSTER_ID };

static struct sg sg;
static struct sg_qp qp;
static uint8_t recipe[RECIPE_BYTES_MAX];

static void
setup(void)
{
	sg_init(&sg, 5);
	sg.options.worker_jobs = JOBS;
}

static void
teardown(void)
{
	sg_fini(&sg);
}

TestSuite(port_work, .init = setup, .fini = teardown);

static const struct mt_port *
port(void)
{
	return &sg.gateway->ports[0];
}

static uint64_t
metric(enum mt_metric which)
{
	return port()->metrics[which];
}

/* Blocks that were written one by one, and are to become frames of one block; with @target, an extent to append to. */
static uint32_t
make_recipe(uint32_t target)
{
	struct mt_recipe_head head = { .level = 1,
		.shard = 1,
		.epoch = 3,
		.chunk = 1024,
		.frame_bytes = CLEAVE_BLOCK_BYTES,
		.target = target,
		.capacity_bytes = target == RECIPE_NO_TARGET ? 0 : NUM_MIB(8) };
	struct mt_recipe_builder builder;

	mt_recipe_begin(&builder, recipe, &head);
	for (uint32_t i = 0; i < 2; i++) {
		struct mt_recipe_extent extent = { .id = { 1, 2, i + 1 },
			.kind = i == 0 ? EXTENT_RUN : EXTENT_LOG,
			.replica_count = 3,
			.nodes = { 1, 2, 3 } };

		cr_assert_eq(mt_recipe_add_extent(&builder, &extent), 0);
	}
	for (uint32_t i = 0; i < BLOCKS; i++) {
		struct mt_recipe_source source = { .offset_bytes = (i + 1) * CLEAVE_BLOCK_BYTES,
			.stored_bytes = CLEAVE_BLOCK_BYTES,
			.extent = 1,
			.codec_id = ENGINE_NONE,
			.record_blocks = 1,
			.count = 1,
			.is_sure = true,
			.chunk = 1024 };
		struct mt_recipe_frame frame = { i, 1, RECORD_WRITE, false };

		cr_assert_eq(mt_recipe_add_source(&builder, &source), 0);
		cr_assert_eq(mt_recipe_add_frame(&builder, &frame), 0);
		cr_assert_eq(mt_recipe_add_crc(&builder, i), 0);
	}
	return mt_recipe_end(&builder);
}

static void
begin(const struct wire_hello *hello)
{
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_connect(&sg, &qp, hello);
	cr_assert_eq(sg_wait_open(&qp), 0);
}

static void
send_job(const struct wire_job *job, const uint8_t *payload)
{
	struct wire_header header;

	wire_job_encode(&header, job);
	sg_send(&qp, &header, payload, job->payload_bytes);
}

static void
send_part(uint64_t number, uint32_t offset_bytes, uint32_t recipe_bytes)
{
	struct wire_job part = { .opcode = WIRE_JOB_ASSIGN,
		.request_id = 9,
		.job = number,
		.offset_bytes = offset_bytes,
		.recipe_bytes = recipe_bytes,
		.payload_bytes = wire_job_part_bytes(recipe_bytes, offset_bytes) };

	send_job(&part, recipe + offset_bytes);
}

static void
send_other(enum wire_opcode opcode, uint64_t number)
{
	const struct wire_job job = { .opcode = (uint8_t)opcode, .request_id = 9, .job = number };

	send_job(&job, NULL);
}

/* The answer number @at: to a message of @opcode. */
static struct wire_job
answer_of(uint32_t at, enum wire_opcode opcode)
{
	const char *field = NULL;
	struct wire_job answer;

	cr_assert(sg_wait_replies(&qp, at + 1));
	cr_assert_eq(wire_job_decode(&qp.replies[at].header, &answer, &field), 0, "%s", field);
	cr_assert(answer.is_reply && answer.request_id == 9);
	cr_assert_eq(answer.opcode, opcode);
	return answer;
}

/* All parts but the last are taken. */
static void
send_all(uint64_t number, uint32_t recipe_bytes)
{
	for (uint32_t at = 0; at < recipe_bytes; at += WIRE_JOB_PART_BYTES) {
		uint32_t seen = qp.reply_count;

		send_part(number, at, recipe_bytes);
		if (recipe_bytes - at > WIRE_JOB_PART_BYTES)
			cr_assert_eq(answer_of(seen, WIRE_JOB_ASSIGN).rc, 0);
	}
}

static uint32_t
free_count(void)
{
	return mt_worker_free_count(port());
}

Test(port_work, one_without_jobs_says_so)
{
	sg.options.worker_jobs = 0;
	begin(&gateway_hello);
	send_other(WIRE_JOB_LOAD, 0);
	cr_assert_eq(answer_of(0, WIRE_JOB_LOAD).rc, -ENOTSUP);
	send_other(WIRE_JOB_CANCEL, 1);
	cr_assert_eq(answer_of(1, WIRE_JOB_CANCEL).rc, -ENOTSUP);
	send_part(1, 0, make_recipe(0));
	cr_assert_eq(answer_of(2, WIRE_JOB_ASSIGN).rc, -ENOTSUP);
}

Test(port_work, one_with_some_says_how_many)
{
	struct wire_job answer;

	begin(&gateway_hello);
	send_other(WIRE_JOB_LOAD, 0);
	answer = answer_of(0, WIRE_JOB_LOAD);
	cr_assert_eq(answer.rc, 0);
	cr_assert_eq(answer.free_count, JOBS);
	cr_assert_eq(answer.busy, 0);
	send_part(1, 0, make_recipe(0));
	cr_assert_eq(answer_of(1, WIRE_JOB_ASSIGN).rc, 0);
	send_other(WIRE_JOB_LOAD, 0);
	cr_assert_eq(answer_of(2, WIRE_JOB_LOAD).free_count, JOBS - 1);
}

Test(port_work, a_clients_are_not_taken)
{
	const struct wire_hello client = { .level = 2, .role = WIRE_ROLE_CLIENT };

	begin(&client);
	send_other(WIRE_JOB_LOAD, 0);
	cr_assert(sg_wait_closed(&qp));
}

Test(port_work, a_gateway_of_before_has_no_such_message)
{
	struct wire_hello old = gateway_hello;

	old.level = 1;
	begin(&old);
	send_other(WIRE_JOB_LOAD, 0);
	cr_assert(sg_wait_closed(&qp));
}

Test(port_work, what_is_no_recipe_is_refused_when_all_of_it_is_there)
{
	uint32_t recipe_bytes = make_recipe(0);

	begin(&gateway_hello);
	recipe[RECIPE_HEAD_BYTES + 5] ^= 1;
	send_all(1, recipe_bytes);
	cr_assert_eq(answer_of(2, WIRE_JOB_ASSIGN).rc, -EBADMSG);
	cr_assert_eq(free_count(), JOBS);
	recipe[RECIPE_HEAD_BYTES + 5] ^= 1;
	recipe_bytes = make_recipe(RECIPE_NO_TARGET);
	send_all(1, recipe_bytes);
	cr_assert_eq(answer_of(5, WIRE_JOB_ASSIGN).rc, -EBADMSG, "it says not where to append");
	cr_assert_eq(free_count(), JOBS);
}

Test(port_work, a_part_that_is_not_the_next_ends_the_connection)
{
	uint32_t recipe_bytes = make_recipe(0);

	begin(&gateway_hello);
	send_part(1, 0, recipe_bytes);
	cr_assert_eq(answer_of(0, WIRE_JOB_ASSIGN).rc, 0);
	send_part(1, 2 * WIRE_JOB_PART_BYTES, recipe_bytes);
	cr_assert(sg_wait_closed(&qp));
	cr_assert_eq(free_count(), JOBS);
}

Test(port_work, a_part_of_a_job_that_has_not_begun_does_as_well)
{
	begin(&gateway_hello);
	send_part(1, WIRE_JOB_PART_BYTES, make_recipe(0));
	cr_assert(sg_wait_closed(&qp));
}

Test(port_work, there_are_no_more_than_there_may_be)
{
	uint32_t recipe_bytes = make_recipe(0);

	begin(&gateway_hello);
	for (uint32_t i = 0; i < JOBS; i++) {
		send_part(i + 1, 0, recipe_bytes);
		cr_assert_eq(answer_of(i, WIRE_JOB_ASSIGN).rc, 0);
	}
	send_part(JOBS + 1, 0, recipe_bytes);
	cr_assert_eq(answer_of(JOBS, WIRE_JOB_ASSIGN).rc, -EBUSY);
	send_other(WIRE_JOB_CANCEL, 1);
	cr_assert_eq(answer_of(JOBS + 1, WIRE_JOB_CANCEL).rc, 0);
	send_part(JOBS + 1, 0, recipe_bytes);
	cr_assert_eq(answer_of(JOBS + 2, WIRE_JOB_ASSIGN).rc, 0);
}

Test(port_work, a_job_whose_parts_do_not_come_goes)
{
	begin(&gateway_hello);
	send_part(1, 0, make_recipe(0));
	cr_assert_eq(answer_of(0, WIRE_JOB_ASSIGN).rc, 0);
	cr_assert_eq(free_count(), JOBS - 1);
	sg_run_for(&sg, NUM_S(11));
	cr_assert_eq(free_count(), JOBS);
}

/* First the job has ended, then who gave it up hears. */
Test(port_work, one_that_is_given_up_ends)
{
	begin(&gateway_hello);
	send_all(7, make_recipe(0));
	sg_run_for(&sg, NUM_MS(100));
	cr_assert_eq(qp.reply_count, 2, "it waits for a node: status %u",
	    qp.replies[2].header.status);
	send_other(WIRE_JOB_CANCEL, 7);
	cr_assert_eq(answer_of(2, WIRE_JOB_ASSIGN).rc, -ECANCELED);
	cr_assert_eq(answer_of(3, WIRE_JOB_CANCEL).rc, 0);
	cr_assert_eq(metric(MT_METRIC_jobs_failed), 1);
	cr_assert_eq(metric(MT_METRIC_jobs_done), 0);
	cr_assert_eq(free_count(), JOBS);
	send_other(WIRE_JOB_CANCEL, 7);
	cr_assert_eq(answer_of(4, WIRE_JOB_CANCEL).rc, -ENOENT);
}

Test(port_work, one_that_cannot_be_done_says_so)
{
	begin(&gateway_hello);
	send_all(7, make_recipe(0));
	cr_assert_eq(answer_of(2, WIRE_JOB_ASSIGN).rc, -EHOSTDOWN);
	cr_assert_eq(metric(MT_METRIC_jobs_failed), 1);
	cr_assert_eq(free_count(), JOBS);
}

static bool
all_are_free(void *arg)
{
	(void)arg;
	return free_count() == JOBS;
}

Test(port_work, jobs_end_with_their_owners_connection)
{
	begin(&gateway_hello);
	send_part(6, 0, make_recipe(0));
	cr_assert_eq(answer_of(0, WIRE_JOB_ASSIGN).rc, 0);
	send_all(7, make_recipe(0));
	sg_run_for(&sg, NUM_MS(100));
	cr_assert_eq(free_count(), 0);
	sg_close(&qp);
	cr_assert(sg_run(&sg, all_are_free, NULL));
	cr_assert_eq(metric(MT_METRIC_jobs_failed), 1);
}

Test(port_work, a_gateway_that_stops_says_so_and_does_not_wait_for_them)
{
	begin(&gateway_hello);
	send_all(7, make_recipe(0));
	sg_run_for(&sg, NUM_MS(100));
	sg_stop(&sg);
	cr_assert_eq(answer_of(2, WIRE_JOB_ASSIGN).rc, -ECANCELED);
}

Test(port_work, one_that_is_killed_leaves_nothing)
{
	begin(&gateway_hello);
	send_all(7, make_recipe(0));
	sg_run_for(&sg, NUM_MS(100));
	sg_kill(&sg);
	cr_assert(sg_wait_closed(&qp));
}
