/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_worker.c -- jobs of other gateways: what ends them, and that they leave their place then
 *
 * Built in with a planted bug, job_works_on, that does no harm which the simulator would see. The recipe is one of the faked
 * shard's own merges, as test_merge_away.c has them: its peer is the port's worker.
 */
#define CLEAVE_MUTANTS
#include "middletier/worker/worker.c"

#include <errno.h>

#include "base/list.h"
#include "middletier/index/index.h"
#include "middletier/merge/merge_away.h"
#include "middletier/merge/merge_by_away.h"
#include "unit/fake_merge.h"

struct mutant_set mutants_on;

#define BLOCKS 64u

static struct {
	dev_ptr part;
	struct mt_peer_request *request; /* the last part's */
	uint64_t number;
	uint32_t ended_count, canceled_count;
	int rc;
	struct loop_timer timer;
	struct wire_job answer;
} test;

static void
on_end(struct mt_worker_job *job, const struct mt_worker_end *end, void *arg)
{
	(void)arg;
	test.ended_count++;
	test.canceled_count += end->canceled != NULL;
	test.rc = end->rc;
	mt_worker_free(job);
}

static void
on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_peer_request *request = test.request;
	struct wire_header header;
	struct split_msg *msg;

	(void)timer;
	(void)arg;
	test.request = NULL;
	wire_job_encode(&header, &test.answer);
	msg = fake_reply_msg(NULL, 0);
	msg->header = &header;
	request->fn(request, 0, msg, request->arg);
	split_msg_release(msg);
}

/* The owner's messages: its recipe, of one part, becomes a job, and the answer never comes. */
static int
on_peer(const char *address, struct mt_peer_request *request)
{
	struct wire_header header;
	const char *field = NULL;
	struct wire_job job;

	(void)address;
	memcpy(&header, request->message, sizeof(header));
	header.payload_bytes = request->message_bytes - WIRE_HEADER_BYTES;
	cr_assert_eq(wire_job_decode(&header, &job, &field), 0, "%s", field);
	if (job.opcode == WIRE_JOB_CANCEL)
		return -ENOTCONN;
	test.request = request;
	if (job.opcode == WIRE_JOB_LOAD) {
		test.answer = (struct wire_job){ .opcode = WIRE_JOB_LOAD,
			.is_reply = true,
			.free_count = mt_worker_free_count(&fake.port) };
		loop_timer_start(fake.loop, &test.timer, NUM_US(100));
		return 0;
	}
	test.number = job.job;
	fake_to_device(test.part, request->message + WIRE_HEADER_BYTES, job.payload_bytes);
	cr_assert_eq(mt_worker_take(fake.port.worker,
			 &(struct mt_worker_part){ .owner = &test,
			     .number = job.job,
			     .recipe_bytes = job.recipe_bytes,
			     .payload_bytes = job.payload_bytes,
			     .payload = test.part },
			 &test, &field),
	    1, "%s", field);
	return 0;
}

static void
on_forgotten(struct mt_peer_request *request)
{
	if (test.request == request)
		test.request = NULL;
}

static void
begin(void)
{
	struct mt_merge_input input = { .level = 1 };

	for (uint32_t i = 0; i < BLOCKS; i += 16)
		cr_assert_eq(fake_wait(fake_write(i, 16, 4)), 0);
	input.chunk = fake_chunk();
	cr_assert_eq(mt_index_freeze(fake_chunk()), 0);
	input.newest_layer = LIST_ENTRY(fake_chunk()->layers.next, struct mt_layer, link);
	input.oldest_layer = LIST_ENTRY(fake_chunk()->layers.prev, struct mt_layer, link);
	cr_assert_eq(fake_merge_begin(&input), 0);
}

static bool
is_at_work(void *arg)
{
	(void)arg;
	return test.number != 0;
}

/* The owner's log is longer than half of what it may be. */
static void
press(void)
{
	fake.port.shards = &fake.shard;
	fake.port.shard_count = 1;
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slots_total = 60;
	fake.settings.log_bytes = NUM_MIB(1);
	for (uint32_t i = 0; mt_merge_port_pressure(&fake.port) < PACE_BACKGROUND; i++)
		cr_assert_eq(fake_wait(
				 fake_write((uint32_t)CLEAVE_CHUNK_BLOCKS + i % 1000 * 16, 16, 1)),
		    0);
}

static void
setup_with(void (*before)(void))
{
	struct mt_away_names names = { .count = 1, .addresses = { "peer" } };

	memset(&test, 0, sizeof(test));
	fake_init(1, false);
	fake.settings.has_offload = true;
	fake.settings.worker_jobs = 1;
	fake.settings.offload_bytes_min = 1;
	fake.on_peer = on_peer;
	fake.on_forgotten = on_forgotten;
	fake_merges_start();
	cr_assert_eq(mt_worker_init(&fake.port, NUM_MIB(32), on_end, NULL), 0);
	test.part = dev_alloc(NULL, WIRE_JOB_PART_BYTES);
	loop_timer_init(&test.timer, on_timer, NULL);
	begin(); /* makes the run extent that is lent */
	cr_assert_eq(fake_merge_end(), 0);
	mt_merge_by_away_names(fake.port.merge_work, &names);
	if (before != NULL)
		before();
	begin();
	cr_assert_eq(sim_world_run(fake.world, is_at_work, NULL,
			 sim_world_now_ns(fake.world) + NUM_S(10)),
	    0);
	cr_assert_eq(mt_worker_free_count(&fake.port), 0);
}

static void
setup(void)
{
	setup_with(NULL);
}

static void
setup_pressed(void)
{
	setup_with(press);
}

static void
teardown(void)
{
	mutants_on = (struct mutant_set){ 0 };
	mt_merge_stop(&fake.shard);
	cr_assert_eq(fake_merge_end(), -ECANCELED);
	loop_timer_stop(fake.loop, &test.timer);
	mt_worker_fini(&fake.port);
	fake_merges_fini();
}

TestSuite(worker, .init = setup, .fini = teardown, .timeout = 120);
TestSuite(worker_pressed, .init = setup_pressed, .fini = teardown, .timeout = 120);

/* Was a job that was given up so early that none of it had been made over without having been executed? */
static bool
ends_when_given_up(void)
{
	uint64_t done = fake.port.metrics[MT_METRIC_jobs_done];

	cr_assert_eq(mt_worker_cancel(fake.port.worker, &test, test.number, &test), 1);
	fake_run_for(NUM_S(5));
	return test.ended_count == 1 && test.rc == -ECANCELED && test.canceled_count == 1 &&
	    fake.port.metrics[MT_METRIC_jobs_done] == done &&
	    mt_worker_free_count(&fake.port) == 1 && mt_worker_is_quiet(&fake.port);
}

Test(worker, a_job_that_is_given_up_ends)
{
	cr_assert(ends_when_given_up());
}

Test(worker, the_planted_bug_works_on)
{
	mutant_set_add(&mutants_on, MUTANT_job_works_on);
	cr_assert_not(ends_when_given_up());
}

Test(worker, a_job_is_given_up_by_who_gave_it_and_once)
{
	struct mt_worker *worker = fake.port.worker;

	cr_assert_eq(mt_worker_cancel(worker, &worker, test.number, &test), -ENOENT);
	cr_assert_eq(mt_worker_cancel(worker, &test, test.number + 1, &test), -ENOENT);
	cr_assert_eq(mt_worker_cancel(worker, &test, test.number, &test), 1);
	cr_assert_eq(mt_worker_cancel(worker, &test, test.number, &test), -ENOENT);
	fake_run_for(NUM_S(5));
	cr_assert_eq(test.ended_count, 1);
}

Test(worker, a_job_whose_owner_has_gone_ends)
{
	mt_worker_left(fake.port.worker, &test);
	fake_run_for(NUM_S(5));
	cr_assert_eq(test.ended_count, 1);
	cr_assert_eq(test.rc, -ECANCELED);
	cr_assert_eq(mt_worker_free_count(&fake.port), 1);
}

Test(worker, a_port_that_stops_takes_none)
{
	mt_worker_stop(&fake.port);
	fake_run_for(NUM_S(5));
	cr_assert_eq(test.rc, -ECANCELED);
	cr_assert_eq(mt_worker_free_count(&fake.port), 0);
}

/* The one that does least is asked, of several that have room. */
Test(worker, jobs_count_as_work)
{
	uint32_t busy = mt_worker_busy(&fake.port);

	mt_worker_left(fake.port.worker, &test);
	fake_run_for(NUM_S(5));
	cr_assert_eq(test.ended_count, 1);
	cr_assert_eq(mt_worker_busy(&fake.port), busy - WORKER_JOB_BUSY);
}

/* ---- how fast ---- */

static const struct merge_guest *
guest(void)
{
	return &fake.port.worker->jobs[0].guest;
}

Test(worker, a_job_for_who_is_at_leisure_is_at_leisure)
{
	cr_assert_eq(guest()->pressure, 0);
}

Test(worker_pressed, a_job_knows_how_pressed_its_owner_is)
{
	cr_assert_geq(guest()->pressure, PACE_BACKGROUND);
	cr_assert_eq(guest()->pressure, mt_merge_port_pressure(&fake.port));
}

Test(worker, a_job_goes_as_fast_as_a_merge_under_its_owners_pressure)
{
	static const uint32_t pressures[] = { 0, PACE_BACKGROUND, PACE_HURRY, PACE_FULL };

	fake.port.write_count = 64;
	for (uint32_t i = 0; i < NUM_COUNT(pressures); i++) {
		uint32_t pressure = pressures[i];
		struct merge_turn turn = { 0 };
		uint64_t paid_ns = 0;

		mt_merge_guest_turn(&fake.port, pressure, &turn);
		cr_assert_eq(turn.budget, TURN_JOB * mt_pace_turn_jobs(pressure, true, false));
		cr_assert_eq(turn.reads, mt_pace_reads(pressure));
		cr_assert_eq(turn.is_background, pressure < PACE_BACKGROUND);
		for (uint32_t k = 0; k < 4; k++)
			(void)mt_merge_guest_pause_ns(&fake.port, pressure, &paid_ns, NUM_MIB(1));
		cr_assert_eq(paid_ns > loop_now_ns(fake.loop), pressure < PACE_HURRY);
	}
	fake.port.write_count = 0;
}

/* Writes wait here: the background would stand still. */
Test(worker_pressed, who_is_pressed_himself_does_nothing_in_the_background)
{
	struct merge_turn turn = { 0 };

	mt_merge_guest_turn(&fake.port, 0, &turn);
	cr_assert(!turn.is_background);
}
