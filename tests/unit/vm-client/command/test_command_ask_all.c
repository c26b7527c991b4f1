/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_ask_all.c -- all gateways are asked at once: those that answer, and those that do not, each by itself */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "unit/client_fixture.h"
#include "vm-client/command/command.h"
#include "vm-client/command/command_ask_all.h"
#include "vm-client/command/command_health.h"

#define GATEWAYS 3u

static struct fixture *f;
static struct command_options options;
static struct command_session session;
static struct cleave_gateway_entry gateways[GATEWAYS];
static struct command_asked *asked;

/* The gateways: one answers, at one address nobody listens, and one has none. */
static void
setup(void)
{
	f = fixture_create(NET_TCP, 1, 1);
	options = (struct command_options){ .timeout_ns = NUM_S(60) };
	session = (struct command_session){ .options = &options, .loop = f->client_loop };
	(void)snprintf(gateways[0].address, sizeof(gateways[0].address), "%s",
	    f->fake.addresses[0]);
	(void)snprintf(gateways[1].address, sizeof(gateways[1].address), "tcp://127.0.0.1:1");
	gateways[2].address[0] = '\0';
	asked = command_ask_all_init(&session, gateways, GATEWAYS);
	cr_assert_not_null(asked);
}

static void
teardown(void)
{
	command_ask_all_fini(asked, GATEWAYS);
	fixture_destroy(f);
}

TestSuite(ask_all, .init = setup, .fini = teardown);

static void
ask(const char *op, uint64_t within_ns)
{
	for (uint32_t i = 0; i < GATEWAYS; i++)
		asked[i].question = json_pack("{s:s}", "op", op);
	command_ask_all(&session, asked, GATEWAYS, within_ns);
}

Test(ask_all, each_has_an_answer_or_a_reason)
{
	ask("status", NUM_S(20));
	cr_assert_eq(asked[0].rc, 0, "%s", asked[0].error);
	cr_assert_str_eq(command_text(asked[0].reply, "state"), "serving");
	cr_assert_eq(asked[1].rc, -ECONNREFUSED);
	cr_assert_not_null(strstr(asked[1].error, "127.0.0.1:1"), "%s", asked[1].error);
	cr_assert_null(asked[1].reply);
	cr_assert_eq(asked[2].rc, -EHOSTUNREACH);
	cr_assert_str_not_empty(asked[2].error);
	cr_assert_eq(f->fake.control_count, 1);
}

Test(ask_all, the_next_question_goes_over_the_same_connection)
{
	ask("status", NUM_S(20));
	ask("nonsense", NUM_S(20));
	cr_assert_eq(asked[0].rc, -EINVAL);
	cr_assert_not_null(strstr(asked[0].error, "unknown"), "%s", asked[0].error);
	cr_assert_null(asked[0].reply, "the answer before is gone");
	ask("status", NUM_S(20));
	cr_assert_eq(asked[0].rc, 0);
	cr_assert_str_eq(asked[0].error, "");
	cr_assert_eq(f->fake.hello_count, 1);
}

Test(ask_all, one_without_a_question_is_not_asked)
{
	command_ask_all(&session, asked, GATEWAYS, NUM_S(20));
	for (uint32_t i = 0; i < GATEWAYS; i++)
		cr_assert_eq(asked[i].rc, -ENODATA);
	cr_assert_eq(f->fake.hello_count, 0);
}

Test(ask_all, one_that_is_silent_is_given_up)
{
	f->fake.control_is_holding = true;
	ask("status", NUM_MS(50));
	cr_assert_eq(asked[0].rc, -ETIMEDOUT, "%s", asked[0].error);
	cr_assert_eq(asked[1].rc, -ECONNREFUSED);
	/* The time that the user gave is less. */
	options.timeout_ns = NUM_MS(30);
	ask("status", NUM_S(3600));
	cr_assert_eq(asked[0].rc, -ETIMEDOUT);
}

Test(ask_all, an_answer_that_is_no_object_is_none)
{
	f->fake.control_answer = "[1]";
	ask("status", NUM_S(20));
	cr_assert_eq(asked[0].rc, -EPROTO);
	f->fake.control_answer = "{";
	ask("status", NUM_S(20));
	cr_assert_eq(asked[0].rc, -EPROTO);
	f->fake.control_answer = NULL;
}

Test(ask_all, of_several_addresses_each_that_is_silent_is_named)
{
	struct command_health health;
	char list[256];

	(void)snprintf(list, sizeof(list), "127.0.0.1:1,%s", f->fake.addresses[0]);
	options.gateways =
	    (struct config_list){ .items = { list, "tcp://127.0.0.1:2" }, .count = 2 };
	cr_assert_eq(command_health_unreached(&session, -ECONNREFUSED, "the last one's", &health),
	    0);
	cr_assert_eq(health.level, CLEAVE_HEALTH_ERROR);
	/* The fake gateway does not know the question: it answers, and yet is none that could be asked. */
	cr_assert_eq(json_array_size(health.reasons), 3);
	cr_assert_str_eq(command_text(json_array_get(health.reasons, 0), "code"), "no-gateway");
	cr_assert_str_eq(command_text(json_array_get(health.reasons, 0), "object"),
	    "tcp://127.0.0.1:1");
	cr_assert_str_eq(command_text(json_array_get(health.reasons, 2), "object"),
	    "tcp://127.0.0.1:2");
	cr_assert_not_null(
	    strstr(command_text(json_array_get(health.reasons, 2), "text"), "refused"));
	command_health_fini(&health);
	options.gateways = (struct config_list){ .items = { "127.0.0.1:1" }, .count = 1 };
	cr_assert_eq(command_health_unreached(&session, -ECONNREFUSED, "the last one's", &health),
	    0);
	cr_assert_eq(json_array_size(health.reasons), 1);
	cr_assert_str_eq(command_text(json_array_get(health.reasons, 0), "text"), "the last one's");
	command_health_fini(&health);
	/* A gateway that refuses the key runs: who reads it shall not go and start one. */
	cr_assert_eq(command_health_unreached(&session, -EKEYREJECTED, "the peer refused", &health),
	    0);
	cr_assert_str_eq(command_text(json_array_get(health.reasons, 0), "code"), "key-refused");
	command_health_fini(&health);
}

Test(ask_all, a_gateway_that_is_in_no_list_is_asked_itself)
{
	struct command_health health;

	fixture_client(f);
	session.client = f->client;
	f->fake.control_answer =
	    "{\"health\":{\"level\":\"ERROR\",\"reasons\":[{\"code\":\"lease-out\",\"level\":\"ERROR\","
	    "\"object\":\"gateway 1\",\"text\":\"it has no lease\"}]}}";
	cr_assert_eq(command_health_ask(&session, NULL, 0, &health), 0, "%s", session.error);
	cr_assert_eq(health.level, CLEAVE_HEALTH_ERROR, "all was well, and nobody was asked");
	cr_assert_eq(health.gateway_count, 1);
	cr_assert_str_eq(command_text(json_array_get(health.reasons, 0), "code"), "lease-out");
	command_health_fini(&health);
	/* A release that does not know the question. */
	f->fake.control_answer = NULL;
	cr_assert_eq(command_health_ask(&session, NULL, 0, &health), 0, "%s", session.error);
	cr_assert_str_eq(command_text(json_array_get(health.reasons, 0), "code"), "levels-mixed");
	command_health_fini(&health);
}
