/* SPDX-License-Identifier: Apache-2.0 */
/* test_health_peer.c -- which answers of another gateway's ports make it silent, or another one, and which do not */
#define mt_peer_call_within fake_call_within
#include "middletier/health/health_peer.c"

#include <criterion/criterion.h>

#include "splitlib/sim/loop_sim.h"

#define OTHER 0xcdu
#define PORTS 3u
#define LOOKS 12u

static struct sim_world *world;
static struct mt_gateway gateway;
static struct mt_member_peer peers[2];
static struct mt_health_peer peer;
static struct mt_health health;
static int port_rc[PORTS];      /* what becomes of a question; 0: it is answered */
static uint64_t port_id[PORTS]; /* who answers */
static uint32_t asked_count[PORTS], silent_count;
static struct mt_peer_call *out;
static struct loop_timer answer_timer;

int
fake_call_within(struct mt_gateway *of, struct mt_peer_call *call, const char *address,
    const char *text, uint64_t timeout_ns, mt_peer_fn fn, void *arg)
{
	cr_assert(of == &gateway && out == NULL && timeout_ns > 0);
	cr_assert_str_eq(text, MT_PEER_QUESTION);
	(void)snprintf(call->address, sizeof(call->address), "%s", address);
	call->fn = fn;
	call->arg = arg;
	call->is_out = true;
	out = call;
	loop_timer_start(gateway.options.loop, &answer_timer, NUM_MS(1));
	return 0;
}

static void
on_answer(struct loop_timer *timer, void *arg)
{
	struct mt_peer_call *call = out;
	uint32_t port = 0;
	char text[64];

	(void)timer;
	(void)arg;
	out = NULL;
	while (strcmp(call->address, peers[1].ports[port]) != 0)
		cr_assert_lt(++port, PORTS, "%s", call->address);
	asked_count[port]++;
	call->rc = port_rc[port];
	call->is_answered = call->rc == 0;
	call->reply = NULL;
	(void)snprintf(text, sizeof(text), "{\"gateway\":\"%016llx\"}",
	    (unsigned long long)port_id[port]);
	if (call->is_answered)
		call->reply = mt_strdup(text);
	call->is_out = false;
	call->fn(call, call->arg);
}

static void
on_silent(void *arg)
{
	(void)arg;
	silent_count++;
}

static void
setup(void)
{
	world = sim_world_create(5);
	gateway = (struct mt_gateway){ .port_count = 1 };
	gateway.options.loop = sim_loop_create(world, "gateway");
	gateway.options.gateway_id = 0xab;
	peers[0] = (struct mt_member_peer){ .gateway_id = 0xab, .port_count = 1 };
	peers[1] = (struct mt_member_peer){ .gateway_id = OTHER, .port_count = PORTS };
	for (uint32_t i = 0; i < PORTS; i++) {
		(void)snprintf(peers[1].ports[i], sizeof(peers[1].ports[i]), "sim://other:%u", i);
		port_id[i] = OTHER;
	}
	gateway.member = (struct mt_member){ .gateway = &gateway, .peers = peers, .peer_count = 2 };
	loop_timer_init(&answer_timer, on_answer, NULL);
	mt_health_peer_init(&peer, &gateway, on_silent, NULL);
}

static void
teardown(void)
{
	mt_health_peer_fini(&peer);
	loop_timer_stop(gateway.options.loop, &answer_timer);
	loop_destroy(gateway.options.loop);
	sim_world_destroy(world);
}

TestSuite(health_peer, .init = setup, .fini = teardown);

/* A look in a second, as of health_watch.c: the reason that is told after it, or -1. */
static int
look(void)
{
	mt_health_peer_ask(&peer);
	(void)sim_world_run(world, NULL, NULL, sim_world_now_ns(world) + NUM_S(1));
	health.count = 0;
	mt_health_peer_judge(&peer, &health);
	cr_assert_leq(health.count, 1);
	return health.count == 0 ? -1 : (int)health.reasons[0].code;
}

Test(health_peer, each_port_is_asked_in_turn)
{
	for (uint32_t i = 0; i < LOOKS; i++)
		cr_assert_eq(look(), -1);
	for (uint32_t i = 0; i < PORTS; i++)
		cr_assert_eq(asked_count[i], LOOKS / PORTS);
}

/* Such a port is told to clients of another network, say. */
Test(health_peer, one_that_answers_where_gateways_ask_is_not_silent)
{
	port_rc[1] = -ETIMEDOUT;
	for (uint32_t i = 0; i < LOOKS; i++)
		cr_assert_eq(look(), -1, "look %u", i);
	cr_assert_eq(silent_count, 0);
	cr_assert_gt(asked_count[2], 1, "the ports behind it are asked");
	cr_assert_gt(asked_count[1], 1, "and it again");
}

Test(health_peer, one_that_answers_nowhere_is_silent_at_once)
{
	for (uint32_t i = 0; i < PORTS; i++)
		port_rc[i] = -ECONNREFUSED;
	cr_assert_eq(look(), CLEAVE_HEALTH_GATEWAY_SILENT);
	cr_assert_eq(silent_count, 1);
	for (uint32_t i = 0; i < PORTS; i++)
		port_rc[i] = 0;
	cr_assert_eq(look(), -1);
	cr_assert_eq(look(), -1);
	/* Wherever its turn is. */
	for (uint32_t i = 0; i < PORTS; i++)
		port_rc[i] = -ECONNREFUSED;
	cr_assert_eq(look(), CLEAVE_HEALTH_GATEWAY_SILENT);
}

/* Gateways ask at the first port alone. */
Test(health_peer, one_that_answers_at_a_further_port_alone_is_silent)
{
	port_rc[0] = -ETIMEDOUT;
	for (uint32_t i = 0; i < PORTS; i++)
		(void)look();
	for (uint32_t i = 0; i < LOOKS; i++)
		cr_assert_eq(look(), CLEAVE_HEALTH_GATEWAY_SILENT);
}

Test(health_peer, a_port_without_a_place_is_told)
{
	int seen = -1;

	port_rc[1] = -EBUSY;
	for (uint32_t i = 0; i < PORTS && seen < 0; i++)
		seen = look();
	cr_assert_eq(seen, CLEAVE_HEALTH_PORT_FULL);
	cr_assert_eq(look(), CLEAVE_HEALTH_PORT_FULL, "it is asked until it has one");
	port_rc[1] = -ETIMEDOUT; /* then it is one that does not answer */
	(void)look();
	cr_assert_eq(look(), -1);
}

Test(health_peer, another_gateway_at_a_further_port_is_told)
{
	int seen = -1;

	port_id[2] = 0xee;
	for (uint32_t i = 0; i < PORTS && seen < 0; i++)
		seen = look();
	cr_assert_eq(seen, CLEAVE_HEALTH_ADDRESS_WRONG);
	cr_assert_eq(look(), CLEAVE_HEALTH_ADDRESS_WRONG);
	port_id[2] = OTHER;
	cr_assert_eq(look(), -1);
}
