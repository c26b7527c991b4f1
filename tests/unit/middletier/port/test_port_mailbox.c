/* SPDX-License-Identifier: Apache-2.0 */
/* test_port_mailbox.c -- a value for a port's thread: the newest counts, once; and what a killed process leaves */
#include <criterion/criterion.h>
#include <string.h>

#include "middletier/common/alloc.h"
#include "middletier/port/port_mailbox.h"
#include "splitlib/sim/loop_sim.h"

struct value {
	uint32_t number, other;
};

static struct sim_world *world;
static struct loop *loop;
static struct mt_port_mailbox *mailbox;
static struct value taken;
static uint32_t taken_count;

static void
on_value(void *arg, const void *value)
{
	cr_assert_eq(arg, &taken);
	memcpy(&taken, value, sizeof(taken));
	taken_count++;
}

static void
setup(void)
{
	world = sim_world_create(1);
	loop = sim_loop_create(world, "port");
	mailbox = mt_port_mailbox_create(loop, sizeof(struct value), on_value, &taken);
	cr_assert_not_null(mailbox);
}

static void
teardown(void)
{
	mt_port_mailbox_destroy(mailbox);
	sim_world_destroy(world);
}

TestSuite(port_mailbox, .init = setup, .fini = teardown, .timeout = 60);

static void
put(uint32_t number, uint32_t other)
{
	const struct value value = { number, other };

	mt_port_mailbox_put(mailbox, &value);
}

static void
run(void)
{
	(void)sim_world_run(world, NULL, NULL, SIM_FOR_EVER);
}

Test(port_mailbox, the_newest_is_taken_once)
{
	put(1, 1);
	put(2, 1);
	put(2, 3);
	cr_assert_eq(taken_count, 0, "not inside the call");
	run();
	cr_assert_eq(taken_count, 1);
	cr_assert(taken.number == 2 && taken.other == 3);
	put(4, 3);
	run();
	cr_assert_eq(taken_count, 2);
	cr_assert_eq(taken.number, 4);
}

Test(port_mailbox, what_is_as_the_last_time_is_not_handed_on)
{
	put(0, 0);
	run();
	cr_assert_eq(taken_count, 0, "so it was at the start");
	put(1, 1);
	run();
	put(1, 1);
	run();
	cr_assert_eq(taken_count, 1);
	put(1, 2);
	run();
	cr_assert_eq(taken_count, 2);
}

Test(port_mailbox, one_that_comes_back_before_it_is_taken_is_taken)
{
	put(1, 1);
	run();
	put(2, 2);
	put(1, 1);
	run();
	cr_assert(taken_count == 2 && taken.number == 1);
}

Test(port_mailbox, a_killed_process_leaves_a_post)
{
	put(1, 1);
	loop_destroy(loop);
	mt_port_mailbox_destroy(mailbox);
	mailbox = NULL;
	run();
	cr_assert_eq(taken_count, 0);
}

Test(port_mailbox, no_memory)
{
	mt_alloc_fail_at(1);
	cr_assert_null(mt_port_mailbox_create(loop, sizeof(struct value), on_value, &taken));
	mt_alloc_fail_at(0);
}
