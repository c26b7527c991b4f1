/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_pace.c -- limits of a volume, kept by the library: in virtual time, to the request */
#include "unit/client_fixture.h"
#include "vm-client/library/internal.h"

#define BLOCK CLEAVE_BLOCK_BYTES
#define BURST                                                                                      \
	63u /* of 250 operations a second, in the default 250 ms; and one that may overshoot */

static struct fixture *f;
static uint8_t data[BLOCK];

static void
begin(uint64_t iops)
{
	f = fixture_create(NET_SIM, 2, 4);
	fake_gateway_add(&f->fake, "v", NUM_MIB(256));
	f->fake.limits.iops = iops;
	f->options.io_timeout_ns = NUM_MS(400);
	fixture_client(f);
	cr_assert_eq(fixture_open(f, "v"), 0, "%s", f->error);
	fixture_pass(f, NUM_MS(100)); /* connections are up */
}

static uint64_t
now_ns(void)
{
	return loop_now_ns(f->client_loop);
}

static void
submit(uint32_t from, uint32_t count, enum cleave_op op, uint64_t bytes)
{
	for (uint32_t i = from; i < from + count; i++)
		cr_assert_eq(fixture_submit(f, i, op, i * bytes, bytes, data), 0);
}

static void
expect_all(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(f->ios[i].rc, 0, "request %u: %d", i, f->ios[i].rc);
}

/* Longer than io_timeout_ns: what waits for limits has no deadline. */
Test(client_pace, a_limit_is_kept_and_nothing_times_out)
{
	uint64_t began_ns;

	begin(250);
	began_ns = now_ns();
	submit(0, 563, CLEAVE_WRITE, BLOCK);
	fixture_pass(f, NUM_MS(100));
	cr_assert_leq(f->fake.log_count, BURST + 26, "%u at first", f->fake.log_count);
	fixture_wait(f, 563);
	expect_all(563);
	cr_assert_geq(now_ns() - began_ns, NUM_MS(1990));
	cr_assert_leq(now_ns() - began_ns, NUM_MS(2050));
	cr_assert_eq(cleave_client_stats(f->client)->timeouts, 0);
	cr_assert_gt(cleave_client_stats(f->client)->limit_waits, 0);
	cr_assert_gt(cleave_client_stats(f->client)->limit_wait_ns, NUM_MS(1500));
	fixture_destroy(f);
}

Test(client_pace, large_requests_cost_more)
{
	static uint8_t large[65536];
	uint64_t began_ns;

	begin(250);
	began_ns = now_ns();
	for (uint32_t i = 0; i < 141; i++)
		cr_assert_eq(fixture_submit(f, i, CLEAVE_WRITE, i * 65536ul, 65536, large), 0);
	fixture_wait(f, 141); /* 564 operations */
	expect_all(141);
	cr_assert_geq(now_ns() - began_ns, NUM_MS(1970));
	cr_assert_leq(now_ns() - began_ns, NUM_MS(2050));
	fixture_destroy(f);
}

Test(client_pace, other_limits_are_learnt_from_answers)
{
	uint64_t began_ns;

	begin(250);
	began_ns = now_ns();
	submit(0, 1000, CLEAVE_WRITE, BLOCK);
	fixture_pass(f, NUM_MS(500));
	f->fake.limits.iops = 0;
	fixture_wait(f, 1000);
	expect_all(1000);
	cr_assert_leq(now_ns() - began_ns, NUM_S(1));
	cr_assert_eq(f->fake.limits_count, 1);
	cr_assert_eq(cleave_volume_info(f->volume)->limits.iops, 0);
	f->fake.limits.iops = 100;
	fixture_io(f, CLEAVE_WRITE, 0, BLOCK, data);
	fixture_pass(f, NUM_S(1));
	fixture_io(f, CLEAVE_WRITE, 0, BLOCK, data);
	fixture_pass(f, NUM_MS(50));
	cr_assert_eq(cleave_volume_info(f->volume)->limits.iops, 100);
	fixture_destroy(f);
}

/* No answer has a tag while the next request is four seconds away. */
Test(client_pace, lifted_limits_are_learnt_while_nothing_is_answered)
{
	static uint8_t large[65536];
	uint64_t began_ns;

	begin(1);
	for (uint32_t i = 0; i < 20; i++)
		cr_assert_eq(fixture_submit(f, i, CLEAVE_WRITE, i * 65536ul, 65536, large), 0);
	fixture_pass(f, NUM_MS(1500));
	f->fake.limits.iops = 0;
	began_ns = now_ns();
	fixture_wait(f, 20);
	expect_all(20);
	cr_assert_leq(now_ns() - began_ns, NUM_MS(1500));
	fixture_destroy(f);
}

Test(client_pace, each_part_of_a_status_is_charged)
{
	static struct cleave_extent extents[256];
	uint64_t began_ns;

	begin(50);
	f->fake.status_blocks_max = 1;
	began_ns = now_ns();
	f->ios[0] = (struct cleave_io){ .op = CLEAVE_BLOCK_STATUS,
		.length_bytes = 113 * BLOCK,
		.extents = extents,
		.extent_max = 256,
		.fn = fixture_on_io,
		.arg = f,
		.rc = 1 };
	cr_assert_eq(cleave_submit(f->volume, &f->ios[0]), 0);
	fixture_wait(f, 1);
	cr_assert_eq(f->ios[0].rc, 0, "%d", f->ios[0].rc);
	cr_assert_geq(f->fake.log_count, 113);
	cr_assert_geq(now_ns() - began_ns, NUM_MS(1960), "%lu",
	    (unsigned long)(now_ns() - began_ns));
	cr_assert_leq(now_ns() - began_ns, NUM_MS(2600));
	fixture_destroy(f);
}

/* A release before echoes in a tag's place what it was sent. */
Test(client_pace, a_gateway_of_level_1_tells_no_tag)
{
	f = fixture_create(NET_SIM, 2, 4);
	fake_gateway_add(&f->fake, "v", NUM_MIB(256));
	f->fake.is_old = true;
	fixture_client(f);
	cr_assert_eq(fixture_open(f, "v"), 0, "%s", f->error);
	f->fake.limits.iops = 1;
	submit(0, 100, CLEAVE_WRITE, BLOCK);
	fixture_wait(f, 100);
	cr_assert_eq(f->fake.limits_count, 0);
	fixture_destroy(f);
}

static void
on_reader(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	fixture_on_open(volume, rc, error, arg);
}

/* The question for limits is out, and nobody answers it. */
Test(client_pace, a_volume_that_is_closed_waits_for_no_answer)
{
	uint64_t began_ns;

	f = fixture_create(NET_SIM, 2, 4);
	fake_gateway_add(&f->fake, "v", NUM_MIB(256));
	fixture_client(f);
	f->is_answered = false;
	cr_assert_eq(cleave_volume_open(f->client, "v", CLEAVE_OPEN_READ_ONLY, on_reader, f), 0);
	fixture_run(f, fixture_is_answered);
	f->fake.control_is_holding = true;
	f->fake.limits.iops = 7;
	cr_assert_eq(fixture_io(f, CLEAVE_READ, 0, BLOCK, data), 0);
	fixture_pass(f, NUM_MS(50));
	cr_assert(f->client->is_limits_call_out);
	began_ns = now_ns();
	fixture_close(f);
	cr_assert_leq(now_ns() - began_ns, NUM_MS(100));
	f->fake.control_is_holding = false;
	fixture_destroy(f);
}
