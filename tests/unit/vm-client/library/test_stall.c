/* SPDX-License-Identifier: Apache-2.0 */
/* test_stall.c -- requests that nobody answers are told once, with the reason, and once when that is over */
#include "unit/client_fixture.h"

#define VOLUME_BYTES NUM_MIB(1)

static struct fixture *f;
static uint8_t data[CLEAVE_BLOCK_BYTES];
static uint32_t told_count, over_count;
static char reason[1024], over_reason[1024];
static uint64_t waited_ns;

static void
on_stall(const struct cleave_stall *stall, void *arg)
{
	cr_assert_eq(arg, f);
	cr_assert_str_eq(stall->volume, "v");
	waited_ns = stall->waited_ns;
	if (stall->is_over) {
		over_count++;
		(void)snprintf(over_reason, sizeof(over_reason), "%s", stall->reason);
		return;
	}
	told_count++;
	(void)snprintf(reason, sizeof(reason), "%s", stall->reason);
}

static void
begin_for(uint64_t io_timeout_ns)
{
	f = fixture_create(NET_SIM, 1, 1);
	told_count = over_count = 0;
	fake_gateway_add(&f->fake, "v", VOLUME_BYTES);
	f->options.on_stall = on_stall;
	f->options.stall_arg = f;
	f->options.io_timeout_ns = io_timeout_ns;
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
}

static void
begin(void)
{
	begin_for(CLEAVE_FOREVER);
}

static void
begin_in_time(void)
{
	begin_for(NUM_S(5));
}

static void
end(void)
{
	fixture_destroy(f);
}

TestSuite(stall, .init = begin, .fini = end);
TestSuite(stall_in_time, .init = begin_in_time, .fini = end);

static bool
is_told(void *arg)
{
	(void)arg;
	return told_count > 0;
}

static bool
is_over(void *arg)
{
	(void)arg;
	return over_count > 0;
}

Test(stall, a_silent_gateway_is_told_once_with_what_it_says)
{
	f->fake.is_holding = true;
	f->fake.control_answer =
	    "{\"waits\":[{\"shard\":3,\"text\":\"waits for room\"},{\"shard\":5,\"text\":\"x\"}]}";
	cr_assert_eq(fixture_submit(f, 0, CLEAVE_WRITE, 0, 4096, data), 0);
	fixture_run(f, is_told);
	cr_assert_geq(waited_ns, NUM_S(1));
	cr_assert(strstr(reason, "has not answered") != NULL, "%s", reason);
	cr_assert(strstr(reason, "shard 3 waits for room; shard 5 x") != NULL, "%s", reason);
	fixture_pass(f, NUM_S(8));
	cr_assert_eq(told_count, 1);
	f->fake.is_holding = false;
	fake_gateway_release(&f->fake, false);
	fixture_run(f, is_over);
	cr_assert_eq(f->done_count, 1);
	cr_assert_eq(f->ios[0].rc, 0);
	cr_assert_geq(waited_ns, NUM_S(8));
	cr_assert_str_eq(over_reason, "");
}

Test(stall_in_time, requests_that_were_given_up_are_not_answered_ones)
{
	f->fake.is_holding = true;
	cr_assert_eq(fixture_submit(f, 0, CLEAVE_WRITE, 0, 4096, data), 0);
	fixture_run(f, is_over);
	cr_assert_eq(f->ios[0].rc, -ETIMEDOUT);
	cr_assert(strstr(over_reason, "nobody has answered") != NULL, "%s", over_reason);
	f->fake.is_holding = false;
	fake_gateway_release(&f->fake, false);
}

Test(stall, a_reason_that_shards_share_is_told_once)
{
	f->fake.is_holding = true;
	f->fake.control_answer =
	    "{\"waits\":[{\"shard\":0,\"text\":\"waits\"},{\"shard\":1,\"text\":\"waits\"},"
	    "{\"shard\":2,\"text\":\"x\"},{\"shard\":3,\"text\":\"waits\"}]}";
	cr_assert_eq(fixture_submit(f, 0, CLEAVE_WRITE, 0, 4096, data), 0);
	fixture_run(f, is_told);
	cr_assert(strstr(reason, "shard 0 waits (and 2 more shards); shard 2 x") != NULL, "%s",
	    reason);
	f->fake.is_holding = false;
	fake_gateway_release(&f->fake, false);
	fixture_run(f, is_over);
}

Test(stall, a_gateway_that_tells_no_reason_is_not_waited_for)
{
	f->fake.is_holding = f->fake.control_is_holding = true;
	cr_assert_eq(fixture_submit(f, 0, CLEAVE_READ, 0, 4096, data), 0);
	fixture_run(f, is_told);
	cr_assert_leq(waited_ns, NUM_S(4));
	cr_assert(strstr(reason, "has not answered") != NULL, "%s", reason);
	cr_assert(strstr(reason, "the gateway says") == NULL, "%s", reason);
	f->fake.is_holding = false;
	fake_gateway_release(&f->fake, false);
	fixture_run(f, is_over);
}

Test(stall, an_error_that_is_tried_again_is_the_reason)
{
	f->fake.status_rc = -EBUSY;
	f->fake.status_count = UINT32_MAX;
	cr_assert_eq(fixture_submit(f, 0, CLEAVE_WRITE, 0, 4096, data), 0);
	fixture_run(f, is_told);
	cr_assert(strstr(reason, "shard 0") != NULL || strstr(reason, "has not answered") != NULL,
	    "%s", reason);
	f->fake.status_count = 0;
	fixture_wait(f, 1);
	cr_assert_eq(f->ios[0].rc, 0);
	fixture_run(f, is_over);
}

Test(stall, requests_that_are_answered_are_no_stall)
{
	f->fake.delay_ns = NUM_MS(900);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(fixture_io(f, CLEAVE_WRITE, 0, 4096, data), 0);
	cr_assert_eq(told_count, 0);
}

Test(stall, a_volume_that_is_closed_takes_its_question_along)
{
	f->fake.is_holding = f->fake.control_is_holding = true;
	cr_assert_eq(fixture_submit(f, 0, CLEAVE_WRITE, 0, 4096, data), 0);
	fixture_pass(f, NUM_MS(1500)); /* asked, not answered */
	f->fake.is_holding = f->fake.control_is_holding = false;
	fake_gateway_release(&f->fake, false);
	fixture_wait(f, 1);
	fixture_close(f);
	for (uint32_t i = 0; i < 2; i++)
		fixture_pass(f, NUM_S(20)); /* until the call ends */
}

Test(stall, without_a_time_no_request_is_given_up)
{
	f->fake.is_holding = true;
	cr_assert_eq(fixture_submit(f, 0, CLEAVE_WRITE, 0, 4096, data), 0);
	for (uint32_t i = 0; i < 20; i++)
		fixture_pass(f, NUM_S(25));
	cr_assert_eq(f->done_count, 0);
	cr_assert_eq(told_count, 1);
	f->fake.is_holding = false;
	fake_gateway_release(&f->fake, false);
	fixture_wait(f, 1);
	cr_assert_eq(f->ios[0].rc, 0);
}
