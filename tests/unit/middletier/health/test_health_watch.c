/* SPDX-License-Identifier: Apache-2.0 */
/* test_health_watch.c -- a gateway looks at its health by itself, and is asked for it, also while a port hangs */
#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#include "base/list.h"
#include "base/num.h"
#include "middletier/cluster/ask.h"
#include "middletier/common/event.h"
#include "middletier/common/port.h"
#include "middletier/health/health.h"
#include "middletier/health/health_watch.h"
#include "support/sim_gateway.h"

#define PORTS 2u
#define ASKED 40u /* more than a port has slots for control requests */

static struct sg sg;
static struct loop *stuck, *loop_of_port;

static bool
is_loaded(void *arg)
{
	const struct mt_gateway *gateway = ((const struct sg *)arg)->gateway;

	return gateway->volumes.is_loaded && gateway->sm.state == MT_GATEWAY_TAKING;
}

static void
setup(void)
{
	sg_init(&sg, 11);
	sg.options.port_count = PORTS;
	sg.options.is_health_watched = true;
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	cr_assert(sg_run(&sg, is_loaded, &sg));
	stuck = NULL;
}

static void
teardown(void)
{
	if (stuck != NULL && sg.gateway != NULL)
		sg.gateway->ports[1].loop = loop_of_port;
	if (sg.gateway != NULL)
		sg_kill(&sg);
	sg_fini(&sg);
}

TestSuite(health_watch, .init = setup, .fini = teardown);

/* Port 1 does not run its loop any more. */
static void
stick(void)
{
	stuck = sim_loop_create(sg.world, "stuck");
	sim_loop_pause(stuck, SIM_FOR_EVER);
	loop_of_port = sg.gateway->ports[1].loop;
	sg.gateway->ports[1].loop = stuck;
}

/* The number of the first event of @code with @words in its text; 0: there is none. */
static uint64_t
event_of(enum cleave_event_code code, const char *words)
{
	static struct mt_event events[MT_EVENTS_MAX];
	uint32_t count = mt_events_read(sg.gateway->shared.events, 0, events, MT_EVENTS_MAX);

	for (uint32_t i = 0; i < count; i++) {
		if (events[i].code == code && strstr(events[i].text, words) != NULL)
			return events[i].number;
	}
	return 0;
}

static bool
is_told(void *arg)
{
	return event_of(CLEAVE_EVENT_HEALTH_ERROR, arg) != 0;
}

static bool
is_over(void *arg)
{
	return event_of(CLEAVE_EVENT_HEALTH_OVER, arg) != 0;
}

Test(health_watch, a_port_that_hangs_is_told_of_and_what_comes_behind_it_as_well)
{
	char silent[] = "port-silent", lease[] = "lease-out", over[] = "port-silent of ";

	stick();
	cr_assert(sg_run(&sg, is_told, silent));
	cr_assert_neq(event_of(CLEAVE_EVENT_HEALTH_ERROR, "the first of them is port 1"), 0);
	/* The watch goes on: nothing else would tell of this. */
	meta_store_set_down(sg.store, true);
	cr_assert(sg_run(&sg, is_told, lease));
	/* The port goes on: that is told, too. */
	sim_loop_pause(stuck, 0);
	cr_assert(sg_run(&sg, is_over, over));
}

static bool
is_warned(void *arg)
{
	return event_of(CLEAVE_EVENT_HEALTH_WARN, arg) != 0;
}

/* Nothing is late, but each answer takes long; a few of them say nothing yet, nor that it is over. */
Test(health_watch, a_store_that_answers_slowly)
{
	char slow[] = "store-slow", over[] = "store-slow of ";

	sg_run_for(&sg, NUM_S(150));
	meta_store_set_delay(sg.store, NUM_MS(200), NUM_MS(200)); /* one way */
	sg_run_for(&sg, NUM_MS(900));
	cr_assert_eq(event_of(CLEAVE_EVENT_HEALTH_WARN, slow), 0);
	cr_assert(sg_run(&sg, is_warned, slow));
	cr_assert_neq(event_of(CLEAVE_EVENT_HEALTH_WARN, "one in a hundred took 400 ms or longer"),
	    0);
	meta_store_set_delay(sg.store, 0, NUM_MS(1));
	sg_run_for(&sg, NUM_S(30));
	cr_assert_eq(event_of(CLEAVE_EVENT_HEALTH_OVER, over), 0, "it is in the window still");
	for (uint32_t i = 0; i < 10 && event_of(CLEAVE_EVENT_HEALTH_OVER, over) == 0; i++)
		sg_run_for(&sg, NUM_S(30));
	cr_assert(is_over(over));
}

Test(health_watch, who_asks_is_answered_though_a_port_hangs_and_no_slot_is_kept)
{
	struct sg_qp qp;

	sg_connect(&sg, &qp, NULL);
	cr_assert_eq(sg_wait_open(&qp), 0);
	stick();
	for (uint32_t i = 0; i < ASKED; i++) {
		int rc;
		json_t *answer = sg_control(&qp, "{\"op\":\"health\"}", &rc), *reason;
		const json_t *health = json_object_get(answer, "health");
		bool is_named = false;
		size_t k;

		cr_assert_eq(rc, 0, "question %u: %d", i, rc);
		cr_assert_str_eq(json_string_value(json_object_get(health, "level")), "ERROR");
		json_array_foreach(json_object_get(health, "reasons"), k, reason)
		{
			const char *code = json_string_value(json_object_get(reason, "code"));

			is_named |= strcmp(code, "port-silent") == 0;
		}
		cr_assert(is_named);
		json_decref(answer);
	}
	sg_close(&qp);
}

Test(health_watch, what_status_asks_is_answered_though_a_port_hangs)
{
	static const char *const asked[] = { "{\"op\":\"status\"}", "{\"op\":\"node.list\"}",
		"{\"op\":\"waits\"}" };
	struct sg_qp qp;

	sg_connect(&sg, &qp, NULL);
	cr_assert_eq(sg_wait_open(&qp), 0);
	stick();
	for (uint32_t i = 0; i < ASKED; i++) {
		int rc;
		json_t *answer = sg_control(&qp, asked[i % 3], &rc);

		cr_assert_eq(rc, 0, "%s: %d", asked[i % 3], rc);
		if (i % 3 == 0)
			cr_assert_eq(json_array_size(json_object_get(answer, "ports")), PORTS);
		json_decref(answer);
	}
	sg_close(&qp);
}

Test(health_watch, the_gateway_may_go_while_a_look_is_out)
{
	stick();
	sg_run_for(&sg, NUM_S(3));
	cr_assert(!list_is_empty(&sg.gateway->asks));
	mt_health_watch_stop(sg.gateway);
	mt_health_watch_stop(sg.gateway);
	sim_loop_pause(stuck, 0);
	sg_run_for(&sg, NUM_S(3));
	cr_assert(list_is_empty(&sg.gateway->asks), "it looks again");
}
