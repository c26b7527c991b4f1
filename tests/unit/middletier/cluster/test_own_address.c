/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_own_address.c -- gateways that tell clients the address of another one, or of nobody
 *
 * The question is built in with a planted bug, address_ignored, that the simulator cannot show: no gateway asks there.
 */
#define CLEAVE_MUTANTS
#include "middletier/cluster/own_address.c"

#include "middletier/cluster/own_address.h"
#include "middletier/health/health.h"
#include "unit/control_ask.h"
#include "unit/member_fixture.h"

#define FIRST "gateway 0000000000000001"
#define SECOND "gateway 0000000000000002"
#define PLACES 6u /* for connections that come in */

struct mutant_set mutants_on;

static void
setup_asked(void)
{
	setup();
	rig->gateway_options.is_address_asked = true;
}

TestSuite(own_address, .init = setup_asked, .fini = teardown);

/* Gateway @index tells clients that it is at the host @name. */
static void
start_at(uint32_t index, const char *name)
{
	char *advertise = rig->gateway_options.ports[0].advertise;

	(void)snprintf(advertise, SPLIT_ADDRESS_BYTES_MAX, "sim://%s:7100", name);
	peer_start(index);
	advertise[0] = '\0';
}

struct wanted {
	uint32_t index; /* who says it */
	enum cleave_health_code code;
	const char *object, *words;
};

static bool
says(void *arg)
{
	const struct wanted *wanted = arg;
	static struct mt_health health;

	check_single_owners();
	if (mt_gateway_health(peers[wanted->index].gateway, &health) != 0)
		return false;
	for (uint32_t i = 0; i < health.count; i++) {
		if (health.reasons[i].code == wanted->code &&
		    strcmp(health.reasons[i].object, wanted->object) == 0)
			return strstr(health.reasons[i].text, wanted->words) != NULL;
	}
	return false;
}

static bool
says_not(void *arg)
{
	return !says(arg);
}

static void
wait_said(uint32_t index, enum cleave_health_code code, const char *object, const char *words)
{
	struct wanted wanted = { index, code, object, words };

	cr_assert(mt_rig_run_until(rig, says, &wanted), "%s: %s", object, words);
}

static void
check_not_said(uint32_t index, enum cleave_health_code code, const char *object)
{
	struct wanted wanted = { index, code, object, "" };

	cr_assert(says_not(&wanted), "%s", object);
}

/* ---- who answers ---- */

Test(own_address, the_answer_names_the_gateway_and_its_boot)
{
	struct sg sg = { 0 };
	struct sg_qp qp;
	json_t *answer;

	two_gateways_up(&sg, &qp);
	answer = control_want(&qp, 0, "%s", MT_PEER_QUESTION);
	cr_assert_str_eq(json_string_value(json_object_get(answer, "gateway")), "0000000000000001");
	cr_assert_str_eq(json_string_value(json_object_get(answer, "boot")), "0000000100000001");
	json_decref(answer);
	/* "self" is a number, and not of an upgrade. */
	answer = control_want(&qp, -EINVAL, "%s", "{\"op\":\"cluster.level\",\"self\":2}");
	json_decref(answer);
	answer = control_want(&qp, -EINVAL, "%s",
	    "{\"op\":\"cluster.upgrade\",\"self\":\"0000000000000002\"}");
	json_decref(answer);
	sg_close(&qp);
	sg_client_close(&sg);
}

static uint64_t
id_of(bool is_answered, const char *reply)
{
	char text[80];
	struct mt_peer_call call = { .is_answered = is_answered, .reply = text };

	(void)snprintf(text, sizeof(text), "%s", reply);
	return mt_peer_told_id(&call);
}

Test(own_address, of_an_answer_without_an_id_nothing_is_known)
{
	cr_assert_eq(id_of(true, "{\"gateway\":\"00000000000000a2\"}"), 0xa2);
	cr_assert_eq(id_of(false, "{\"gateway\":\"00000000000000a2\"}"), 0);
	cr_assert_eq(id_of(true, "{\"level\":1}"), 0);
	cr_assert_eq(id_of(true, "{\"gateway\":7}"), 0);
	cr_assert_eq(id_of(true, "{\"gateway\":\"A2\"}"), 0);
	cr_assert_eq(id_of(true, "[]"), 0);
	cr_assert_eq(id_of(true, ""), 0);
}

/* ---- at the start ---- */

Test(own_address, its_own_is_nothing_to_tell_of_nor_is_another_boot)
{
	rig->gateway_options.is_health_watched = true;
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	for (uint32_t round = 0; round < 3; round++) {
		mt_rig_run(rig, NUM_S(12));
		cr_assert(!mt_rig_logged(rig, "address-wrong"));
		cr_assert(!mt_rig_logged(rig, "address-silent"));
		cr_assert(!mt_rig_logged(rig, "tells clients"));
		peer_kill(1);
		peer_start(1);
		(void)wait_shared(3);
	}
}

Test(own_address, where_another_gateway_answers_no_shard_is_taken)
{
	peer_start(0);
	(void)wait_shared(1);
	start_at(1, "peer0");
	wait_said(1, CLEAVE_HEALTH_ADDRESS_WRONG, SECOND,
	    SECOND " tells clients that it is at sim://peer0:7100, where " FIRST " answers");
	cr_assert(mt_rig_logged(rig, "this gateway takes no shards"));
	/* The lease that it lacks is no fault of the store's. */
	check_not_said(1, CLEAVE_HEALTH_LEASE_OUT, SECOND);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_eq(count_served(1), 0);
	cr_assert_eq(count_served(0), SHARDS);
	/* Gateway 2 sees who has them, and can send clients there. */
	cr_assert(mt_view_is_live(&peers[1].gateway->member, 1, peers[0].gateway->options.boot_id));
	check_not_said(0, CLEAVE_HEALTH_ADDRESS_WRONG, FIRST);
	/* With an address of its own it has its share. */
	peer_kill(1);
	peer_start(1);
	(void)wait_shared(3);
}

Test(own_address, a_planted_bug_takes_them_all_the_same)
{
	peer_start(0);
	(void)wait_shared(1);
	mutant_set_add(&mutants_on, MUTANT_address_ignored);
	start_at(1, "peer0");
	(void)wait_shared(3);
	cr_assert_gt(count_served(1), 0, "what clients are told to be at gateway 1");
}

/* Gateway 2 asks at the address of gateway 1, which has too much to do for an answer in time. */
static void
start_beside_a_slow_one(void)
{
	peer_start(0);
	(void)wait_shared(1);
	sim_loop_pause(peers[0].loop, OWN_ANSWER_NS + NUM_MS(500));
	start_at(1, "peer0");
	mt_rig_run(rig, OWN_ANSWER_NS + NUM_MS(50));
	cr_assert_eq(peers[1].gateway->own_address->ports[0].silent_count, 1);
}

Test(own_address, one_question_without_an_answer_tells_nothing)
{
	start_beside_a_slow_one();
	cr_assert(peers[1].gateway->own_address->is_kept_out);
	wait_said(1, CLEAVE_HEALTH_ADDRESS_WRONG, SECOND, FIRST);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_eq(count_served(1), 0);
	cr_assert_eq(count_served(0), SHARDS);
	cr_assert(!mt_rig_logged(rig, "it goes on"));
}

Test(own_address, who_asks_once_is_found)
{
	mutant_set_add(&mutants_on, MUTANT_address_asked_once);
	start_beside_a_slow_one();
	cr_assert_not(peers[1].gateway->own_address->is_kept_out);
	(void)wait_shared(3);
	cr_assert_gt(count_served(1), 0);
}

/* Three questions, each for as long as an answer may take, and the pauses between. */
Test(own_address, where_nobody_answers_a_start_is_late_by_seconds_at_most)
{
	uint64_t begin_ns = sim_world_now_ns(rig->world);

	start_at(0, "nobody");
	(void)wait_shared(1);
	cr_assert_leq(sim_world_now_ns(rig->world) - begin_ns,
	    OWN_ASKED_MIN * (OWN_ANSWER_NS + OWN_AGAIN_NS) + NUM_S(1));
}

Test(own_address, whoever_is_found_instead_tells_it_as_well)
{
	struct wanted wanted = { 0, CLEAVE_HEALTH_ADDRESS_WRONG, SECOND, "" };

	peer_start(0);
	(void)wait_shared(1);
	start_at(1, "peer0");
	wait_said(0, CLEAVE_HEALTH_ADDRESS_WRONG, SECOND,
	    SECOND " tells clients that it is at sim://peer0:7100, where " FIRST " answers");
	peer_kill(1);
	cr_assert(mt_rig_run_until(rig, says_not, &wanted));
	peer_start(1);
	(void)wait_shared(3);
	check_not_said(0, CLEAVE_HEALTH_ADDRESS_WRONG, SECOND);
}

/* Gateway 2 waits, and does not end: the other one may be about to leave. */
Test(own_address, shards_are_taken_when_the_other_gateway_is_gone)
{
	peer_start(0);
	(void)wait_shared(1);
	start_at(1, "peer0");
	wait_said(1, CLEAVE_HEALTH_ADDRESS_WRONG, SECOND, FIRST);
	peer_kill(0);
	(void)wait_shared(2);
	/* And that one comes again: the member at its address does not keep it from its place. */
	peer_start(0);
	(void)wait_shared(3);
	wait_said(1, CLEAVE_HEALTH_ADDRESS_WRONG, SECOND, FIRST);
	cr_assert(mt_rig_logged(rig, "clients do not find the shards of this one"));
}

Test(own_address, a_gateway_that_is_started_again_keeps_its_place)
{
	peer_start(0);
	(void)wait_shared(1);
	start_at(1, "peer0");
	wait_said(1, CLEAVE_HEALTH_ADDRESS_WRONG, SECOND, FIRST);
	peer_kill(0);
	mt_rig_run(rig, NUM_S(2)); /* asked in between, and nobody is there */
	cr_assert_gt(peers[1].gateway->own_address->ports[0].silent_count, 0);
	peer_start(0);
	(void)wait_shared(1);
	mt_rig_run(rig, NUM_S(10));
	(void)wait_shared(1);
	cr_assert(mt_own_address_keeps_out(peers[1].gateway));
}

Test(own_address, a_gateway_that_is_starting_says_who_it_is_too)
{
	meta_store_set_down(rig->store, true);
	peer_start(0); /* it reads the store, in vain */
	mt_rig_run(rig, NUM_S(1));
	meta_store_set_down(rig->store, false);
	start_at(1, "peer0");
	mt_rig_run(rig, NUM_MS(1));
	cr_assert_neq(peers[0].gateway->sm.state, MT_GATEWAY_SERVING);
	wait_said(1, CLEAVE_HEALTH_ADDRESS_WRONG, SECOND, FIRST);
	(void)wait_shared(1);
}

Test(own_address, where_nobody_answers_shards_are_taken_and_it_is_told)
{
	start_at(0, "nobody");
	(void)wait_shared(1);
	wait_said(0, CLEAVE_HEALTH_ADDRESS_SILENT, FIRST,
	    "sim://nobody:7100, where nobody answers");
	cr_assert(mt_rig_logged(rig, "it goes on"));
	check_not_said(0, CLEAVE_HEALTH_ADDRESS_WRONG, FIRST);
}

/* A router that leads no host back to itself, and an operator who knows. */
Test(own_address, silence_from_the_start_is_no_warning_where_it_is_expected)
{
	rig->gateway_options.is_address_outside = true;
	start_at(0, "nobody");
	(void)wait_shared(1);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_eq(peers[0].gateway->own_address->ports[0].silent_count, MT_OWN_SILENT_MAX);
	check_not_said(0, CLEAVE_HEALTH_ADDRESS_SILENT, FIRST);
	/* Another gateway that answers there is wrong all the same. */
	peer_kill(0);
	peer_start(1);
	(void)wait_shared(2);
	start_at(0, "peer1");
	wait_said(0, CLEAVE_HEALTH_ADDRESS_WRONG, FIRST, SECOND);
}

Test(own_address, silence_behind_an_answer_is_told_in_any_case)
{
	rig->gateway_options.is_address_outside = true;
	peer_start(0);
	(void)wait_shared(1);
	mt_rig_run(rig, NUM_S(1));
	sim_net_cut(peers[0].host, peers[0].host);
	wait_said(0, CLEAVE_HEALTH_ADDRESS_SILENT, FIRST, "sim://peer0:7100, where nobody answers");
}

static bool
has_been_refused(void *arg)
{
	const struct mt_gateway *gateway = arg;

	return gateway->own_address->ports[0].rc == -EBUSY;
}

Test(own_address, a_port_that_has_no_place_left_is_full_and_not_silent)
{
	struct wanted full = { 0, CLEAVE_HEALTH_PORT_FULL, FIRST, "" };
	struct sg_qp control = { 0 }, sessions[PLACES] = { 0 };
	struct wire_hello hello;
	struct sg sg = { 0 };

	rig->gateway_options.ports[0].connections_max = 2 * PLACES; /* half are its own to make */
	rig->gateway_options.is_health_watched = true;
	sg_client_open(&sg, rig->world, rig->net, &rig->gateway_options);
	peer_start(0);
	(void)wait_shared(1);
	(void)snprintf(sg.options.ports[0].address, SPLIT_ADDRESS_BYTES_MAX, "sim://peer0:7100");
	sg_connect(&sg, &control, NULL);
	cr_assert_eq(sg_wait_open(&control), 0);
	for (uint32_t i = 0; i < PLACES; i++) {
		json_decref(control_want(&control, 0,
		    "{\"op\":\"volume.create\",\"name\":\"v%u\",\"size_bytes\":65536}", i));
		json_decref(control_want(&control, 0,
		    "{\"op\":\"volume.attach\",\"name\":\"v%u\",\"session\":"
		    "\"000000000000000a\"}",
		    i));
	}
	sg_close(&control);
	for (uint32_t i = 0; i < PLACES; i++) {
		hello = sg_hello(i + 1, 0xa, 1, 1);
		hello.cluster_id = 0;
		sg_connect(&sg, &sessions[i], &hello);
		cr_assert_eq(sg_wait_open(&sessions[i]), 0);
	}
	cr_assert(mt_rig_run_until(rig, has_been_refused, peers[0].gateway));
	wait_said(0, CLEAVE_HEALTH_PORT_FULL, FIRST,
	    "port 0 has no place for more than 6 connections");
	mt_rig_run(rig, NUM_S(60));
	check_not_said(0, CLEAVE_HEALTH_ADDRESS_SILENT, FIRST);
	cr_assert(says(&full), "it is over though nothing has changed");
	/* Another gateway that asks it says the same. */
	rig->gateway_options.ports[0].connections_max = 0;
	peer_start(1);
	wait_said(1, CLEAVE_HEALTH_PORT_FULL, FIRST, "has no place for another connection");
	check_not_said(1, CLEAVE_HEALTH_GATEWAY_SILENT, FIRST);
	for (uint32_t i = 0; i < PLACES; i++)
		sg_close(&sessions[i]);
	cr_assert(mt_rig_run_until(rig, says_not, &full));
	sg_client_close(&sg);
}

/* ---- while they run ---- */

/* Neither has asked at its own address: their clients go to and fro, and each sees the other one's. */
Test(own_address, the_next_gateway_is_told_of_where_another_one_answers)
{
	rig->gateway_options.is_address_asked = false;
	rig->gateway_options.is_health_watched = true;
	start_at(0, "peer1");
	start_at(1, "peer0");
	(void)wait_shared(3);
	wait_said(0, CLEAVE_HEALTH_ADDRESS_WRONG, SECOND,
	    SECOND " tells clients that it is at sim://peer0:7100, where " FIRST " answers");
	wait_said(1, CLEAVE_HEALTH_ADDRESS_WRONG, FIRST,
	    FIRST " tells clients that it is at sim://peer1:7100, where " SECOND " answers");
	mt_rig_run(rig, NUM_S(3));
	cr_assert(mt_rig_logged(rig, "health: address-wrong: "));
}

/* Two gateways that look at each other alone; the second one has a second port, and tells clients that it is at @address. */
static void
start_with_a_further_port(const char *address)
{
	rig->gateway_options.is_address_asked = false;
	rig->gateway_options.is_health_watched = true;
	peer_start(0);
	rig->gateway_options.port_count = 2;
	rig->gateway_options.ports[1] = rig->gateway_options.ports[0];
	(void)snprintf(rig->gateway_options.ports[1].address, SPLIT_ADDRESS_BYTES_MAX,
	    "sim://peer1:7101");
	(void)snprintf(rig->gateway_options.ports[1].advertise, SPLIT_ADDRESS_BYTES_MAX, "%s",
	    address);
	peer_start(1);
}

Test(own_address, each_port_of_the_next_gateway_is_asked)
{
	struct wanted wrong = { 0, CLEAVE_HEALTH_ADDRESS_WRONG, SECOND, "sim://peer0:7100" };

	start_with_a_further_port(wrong.words);
	wait_said(0, wrong.code, wrong.object, wrong.words);
	mt_rig_run(rig, NUM_S(30));
	cr_assert(says(&wrong), "it is over though nothing has changed");
}

Test(own_address, a_further_port_that_no_gateway_reaches_makes_nobody_silent)
{
	start_with_a_further_port("sim://nobody:7101");
	mt_rig_run(rig, NUM_S(30));
	check_not_said(0, CLEAVE_HEALTH_GATEWAY_SILENT, SECOND);
	cr_assert_not(mt_rig_logged(rig, "health: gateway-silent"));
}

/* ---- its life ---- */

Test(own_address, ends_with_a_question_under_way)
{
	struct peer *peer = &peers[0];

	for (uint32_t round = 0; round < 60; round++) {
		start_at(0, round % 2 == 0 ? "nobody" : "peer0");
		mt_rig_run(rig, NUM_US(97) * (round + 1) * (round + 1));
		if (peer->gateway->sm.state > MT_GATEWAY_STARTING && round % 3 != 0) {
			mt_gateway_stop(peer->gateway, on_stopped, peer);
			cr_assert(mt_rig_run_until(rig, has_stopped, peer));
			peer_end(peer);
		} else
			peer_kill(0);
	}
}
