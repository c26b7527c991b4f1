/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_gather.c -- what gateways tell page by page becomes one list, whatever they say */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "splitlib/sim/loop_sim.h"
#include "vm-client/command/command.h"
#include "vm-client/command/command_gather.h"
#include "vm-client/command/table.h"

static struct sim_world *world;
static struct loop *loop;
static struct command_options options;
static struct command_session session;
static struct command_gather gather;
static char printed[512];

static void
setup(void)
{
	world = sim_world_create(3);
	loop = sim_loop_create(world, "command");
	options = (struct command_options){ 0 };
	session = (struct command_session){ .options = &options, .loop = loop, .out = stdout };
	printed[0] = '\0';
	cr_assert_eq(command_gather_init(&gather, &session, "events", "events"), 0);
}

static void
teardown(void)
{
	command_gather_fini(&gather);
	loop_destroy(loop);
	sim_world_destroy(world);
}

TestSuite(gather, .init = setup, .fini = teardown);

static bool
take(struct gather_place *place, const char *page)
{
	json_t *reply = json_loads(page, 0, NULL);
	bool is_more;

	cr_assert_not_null(reply, "%s", page);
	is_more = command_gather_take(&gather, place, reply);
	json_decref(reply);
	return is_more;
}

static void
print(const json_t *entry, FILE *out)
{
	size_t used = strlen(printed);

	(void)out;
	(void)snprintf(printed + used, sizeof(printed) - used, "%s@%u ",
	    command_text(entry, "text"), (unsigned)command_u64(entry, "age_ms"));
}

static void
on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
}

static void
pass(uint64_t ns)
{
	struct loop_timer timer;

	loop_timer_init(&timer, on_timer, NULL);
	loop_timer_start(loop, &timer, ns);
	(void)sim_world_run(world, NULL, NULL, sim_world_now_ns(world) + 2 * ns);
}

/* The second gateway answers ten seconds after the first: what it tells is older than it says, to us. */
Test(gather, ages_are_of_one_moment)
{
	struct gather_place first = { .gateway_id = 1 }, second = { .gateway_id = 2 };

	(void)take(&first,
	    "{\"boot\":\"a\",\"events\":[{\"number\":1,\"age_ms\":1000,\"text\":\"first\"}]}");
	pass(NUM_S(10));
	(void)take(&second,
	    "{\"boot\":\"b\",\"events\":[{\"number\":1,\"age_ms\":5000,\"text\":\"second\"}]}");
	pass(NUM_S(2));
	cr_assert_eq(command_gather_print(&gather, print), 0);
	cr_assert_str_eq(printed, "first@13000 second@7000 ");
}

Test(gather, who_says_more_and_tells_nothing_new_is_not_asked_again)
{
	struct gather_place place = { .gateway_id = 1 };
	const char *page = "{\"boot\":\"a\",\"events\":[{\"number\":7}],\"more\":true}";

	cr_assert(take(&place, page));
	cr_assert_eq(place.number, 7);
	cr_assert(!take(&place, page));
	cr_assert(!take(&place, "{\"boot\":\"a\",\"events\":[{\"number\":3}],\"more\":true}"));
	cr_assert_eq(place.number, 7, "it does not go back");
	cr_assert(!take(&place, "{\"boot\":\"a\",\"more\":true}"));
	cr_assert(take(&place, "{\"boot\":\"b\",\"events\":[{\"number\":1}]}"),
	    "from its begin on");
	cr_assert_eq(place.number, 0);
}

Test(gather, a_boot_longer_than_there_is_room_for_is_the_same_the_next_time)
{
	struct gather_place place = { .gateway_id = 1 };
	const char *page = "{\"boot\":\"0123456789012345678901234567890123456789\",\"events\":"
			   "[{\"number\":7}],\"more\":false}";

	cr_assert(!take(&place, page));
	cr_assert(!take(&place, page));
}

/* Somebody who may set a note, or name a volume, writes no commands for the terminal of others. */
Test(gather, what_is_shown_is_plain)
{
	static const struct table_column columns[] = { { "A", false } };
	struct gather_place place = { .gateway_id = 1 };
	struct table *table = table_create(columns, 1);
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)take(&place,
	    "{\"boot\":\"a\",\"events\":[{\"number\":1,\"text\":\"a\\u001b[2Jb\\nc\"}]}");
	cr_assert_eq(command_gather_print(&gather, print), 0);
	cr_assert_str_eq(printed, "a?[2Jb?c@0 ");
	table_add(table, "%s", "x\x1b[1m");
	cr_assert_eq(table_print(table, 0, out), 0);
	(void)fclose(out);
	cr_assert_str_eq(text, "A\nx?[1m\n");
	table_destroy(table);
	free(text);
}

Test(gather, a_trace_that_is_none_is_refused)
{
	static const char *const bad[] = { "", "x", "-1", "2 a", "2ag", "11112222333344445" };

	session.client = (struct cleave_client *)&session; /* nobody looks at it */
	for (size_t i = 0; i < NUM_COUNT(bad); i++) {
		options.trace = bad[i];
		cr_assert_eq(command_slow(&session), -EINVAL, "'%s'", bad[i]);
	}
}

Test(gather, a_status_that_could_not_be_asked_for_is_no_warning)
{
	const char *words[] = { "status" }, *others[] = { "volume", "list" };
	uint32_t used;

	options.command = command_find(words, 1, &used);
	cr_assert_eq(command_failure(&options), 2);
	options.command = command_find(others, 2, &used);
	cr_assert_eq(command_failure(&options), 1);
	options.command = NULL;
	cr_assert_eq(command_failure(&options), 1);
}
