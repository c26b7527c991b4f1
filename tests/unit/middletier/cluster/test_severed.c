/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_severed.c -- gateways that reach the store and no node give their shards to one that reaches nodes, or keep them
 *
 * What is tested is built in with a planted bug, severed_blind: who is asked is believed to reach enough.
 */
#define CLEAVE_MUTANTS
#include "middletier/cluster/severed.c"

#include "unit/member_client.h"

#define ALL_NODES 3u

struct mutant_set mutants_on;

TestSuite(severed, .init = client_open, .fini = client_close);

static void
gateways_start(uint32_t count, uint32_t level)
{
	made_cluster_at(rig->store, &rig->gateway_options, level);
	for (uint32_t i = 0; i < count; i++)
		peer_start(i);
	(void)wait_shared((1u << count) - 1);
}

/* The network to the nodes alone: other gateways, clients and the store are reached as ever. */
static void
sever(uint32_t index, bool is_cut)
{
	for (uint32_t i = 0; i < ALL_NODES; i++) {
		if (is_cut)
			sim_net_partition(peers[index].host, rig->nodes[i].host);
		else
			sim_net_join(peers[index].host, rig->nodes[i].host);
	}
}

static struct mt_drained
marked(void)
{
	return stored_marks(MT_SEVERED_KEY);
}

struct owners {
	bool serves[PEERS_MAX][SHARDS];
};

static struct owners
owners_now(void)
{
	struct owners owners;

	for (uint32_t i = 0; i < PEERS_MAX; i++) {
		for (uint32_t k = 0; k < SHARDS; k++)
			owners.serves[i][k] = serves(i, k);
	}
	return owners;
}

static void
check_stay(uint64_t seconds)
{
	struct owners before = owners_now(), after;

	for (uint64_t i = 0; i < seconds; i++) {
		mt_rig_run(rig, NUM_S(1));
		check_single_owners();
		after = owners_now();
		cr_assert_eq(memcmp(&before, &after, sizeof(before)), 0, "after %u s\n%s",
		    (uint32_t)i, getenv("CLEAVE_TEST_LOG") != NULL ? rig->log : "");
	}
	cr_assert(!mt_rig_logged(rig, "given away"));
	cr_assert_eq(marked().count, 0);
}

static bool
is_marked_one(void *arg)
{
	struct mt_drained marks = marked();

	check_single_owners();
	return mt_drained_has(&marks, peers[*(uint32_t *)arg].id);
}

static bool
is_unmarked(void *arg)
{
	return !is_marked_one(arg);
}

static void
expect_state(uint32_t index, const char *state)
{
	json_t *answer = control_want(&qp, 0, "{'op':'gateways'}");
	json_t *gateways = json_object_get(answer, "gateways");

	cr_assert_str_eq(json_string_value(
			     json_object_get(json_array_get(gateways, index), "state")),
	    state);
	json_decref(answer);
}

static json_t *
reach_of(uint32_t index)
{
	connect_to(index);
	return control_want(&qp, 0, "{'op':'gateway.reach'}");
}

static void
expect_reach(uint32_t index, int domains, bool is_enough)
{
	json_t *answer = reach_of(index);

	cr_assert_eq(json_integer_value(json_object_get(answer, "domains")), domains);
	cr_assert_eq(json_boolean_value(json_object_get(answer, "enough")), is_enough);
	json_decref(answer);
}

/* ---- the answer ---- */

Test(severed, nodes_are_counted_that_have_answered_lately)
{
	gateways_start(2, 2);
	json_decref(reach_of(1)); /* idle nodes are asked */
	mt_rig_run(rig, NUM_MS(100));
	expect_reach(1, 3, true);
	/* The connections are believed in for a while yet. */
	sever(1, true);
	mt_rig_run(rig, MT_REACH_HEARD_NS + NUM_MS(10));
	expect_reach(1, 0, false);
	cr_assert(mt_link_is_up(&peers[1].gateway->ports[0].links[0]));
}

Test(severed, an_answer_that_cannot_be_is_none)
{
	struct mt_gateway gateway = { .options = { .min_replicas = 2 } };
	struct mt_severed severed = { .gateway = &gateway };

	cr_assert(severed_read(&severed, "{\"domains\":2,\"enough\":true}"));
	cr_assert_not(severed_read(&severed, "{\"domains\":2,\"enough\":false}"));
	cr_assert_not(severed_read(&severed, "{\"domains\":1,\"enough\":true}"),
	    "of a gateway that needs fewer copies");
	cr_assert_not(severed_read(&severed, "{\"domains\":-1,\"enough\":true}"));
	cr_assert_not(severed_read(&severed, "{\"domains\":2,\"enough\":1}"));
	cr_assert_not(severed_read(&severed, "{\"enough\":true}"));
	cr_assert_not(severed_read(&severed, "[]"));
	cr_assert_not(severed_read(&severed, ""));
	cr_assert_not(severed_read(&severed, NULL));
}

/* ---- a gateway is severed ---- */

Test(severed, its_shards_go_to_the_others_and_come_back)
{
	uint32_t index = 0;
	uint64_t begin_ns;

	gateways_start(3, 2);
	sever(0, true);
	cr_assert(mt_rig_run_until(rig, is_marked_one, &index));
	drained_mask = 1;
	(void)wait_shared(7);
	cr_assert_eq(count_served(0), 0);
	cr_assert(mt_rig_logged(rig, "gateway: it reaches 0 failure domains"));
	cr_assert(mt_rig_logged(rig, "given away, this gateway reaches too few nodes left="));
	cr_assert_eq(mt_events_count(peers[0].gateway->shared.events, CLEAVE_EVENT_GATEWAY_SEVERED),
	    1);
	connect_to(1);
	expect_state(0, "severed");
	expect_state(1, "serving");
	expect_reach(0, 0, false);
	/* Mended: not at once, and then all of its share. */
	sever(0, false);
	begin_ns = sim_world_now_ns(rig->world);
	cr_assert(mt_rig_run_until(rig, is_unmarked, &index));
	cr_assert_geq(sim_world_now_ns(rig->world) - begin_ns, SEVERED_MENDED_NS);
	drained_mask = 0;
	(void)wait_shared(7);
	cr_assert_eq(mt_events_count(peers[0].gateway->shared.events, CLEAVE_EVENT_GATEWAY_MENDED),
	    1);
	connect_to(1);
	expect_state(0, "serving");
}

Test(severed, two_of_three_give_theirs_to_the_third)
{
	uint32_t indexes[] = { 0, 1 };

	gateways_start(3, 2);
	sever(0, true);
	sever(1, true);
	for (uint32_t i = 0; i < 2; i++)
		cr_assert(mt_rig_run_until(rig, is_marked_one, &indexes[i]));
	drained_mask = 3;
	(void)wait_shared(7);
	cr_assert_eq(count_served(2), SHARDS);
}

/* Nodes have to be reached for twice as long, the next time, before there are shards again. */
Test(severed, loose_cable_moves_few_shards)
{
	uint32_t index = 0;
	uint64_t begin_ns;

	gateways_start(2, 2);
	for (uint32_t i = 0; i < 3; i++) {
		sever(0, true);
		cr_assert(mt_rig_run_until(rig, is_marked_one, &index));
		sever(0, false);
		begin_ns = sim_world_now_ns(rig->world);
		cr_assert(mt_rig_run_until(rig, is_unmarked, &index));
		cr_assert_geq(sim_world_now_ns(rig->world) - begin_ns, SEVERED_MENDED_NS << i);
	}
	(void)wait_shared(3);
}

/* The mark outlives the process: it takes nothing before it reaches nodes. */
Test(severed, one_that_starts_again_severed_takes_nothing)
{
	uint32_t index = 0;

	gateways_start(3, 2);
	sever(0, true);
	cr_assert(mt_rig_run_until(rig, is_marked_one, &index));
	drained_mask = 1;
	(void)wait_shared(7);
	peer_kill(0);
	peer_start(0);
	for (uint32_t i = 0; i < 30; i++) {
		mt_rig_run(rig, NUM_S(1));
		cr_assert_eq(count_served(0), 0);
		cr_assert_eq(count_served(1) + count_served(2), SHARDS);
	}
	sever(0, false);
	drained_mask = 0;
	(void)wait_shared(7);
}

/* Whoever shall have no shards can serve, whoever reaches no node cannot. */
Test(severed, a_drained_gateway_serves_rather_than_a_severed_one)
{
	uint32_t index = 0;

	gateways_start(2, 2);
	sever(0, true);
	cr_assert(mt_rig_run_until(rig, is_marked_one, &index));
	drained_mask = 1;
	(void)wait_shared(3);
	connect_to(1);
	json_decref(control_want(&qp, 0,
	    "{'op':'gateway.drain','gateway':'0000000000000002','force':true}"));
	for (uint32_t i = 0; i < 20; i++) {
		mt_rig_run(rig, NUM_S(1));
		check_single_owners();
		cr_assert_eq(count_served(1), SHARDS);
	}
}

/* ---- nothing moves ---- */

Test(severed, where_nobody_reaches_the_nodes_all_is_kept)
{
	gateways_start(3, 2);
	for (uint32_t i = 0; i < 3; i++)
		sever(i, true);
	check_stay(60);
	cr_assert(mt_rig_logged(rig, "no other gateway says that it reaches enough"));
}

/* Nodes come back as they went, to one gateway some seconds before the next. */
Test(severed, nor_when_all_nodes_die_and_come_back)
{
	gateways_start(3, 2);
	for (uint32_t i = 0; i < ALL_NODES; i++)
		mt_rig_node_kill(rig, i, false);
	check_stay(60);
	for (uint32_t i = 0; i < ALL_NODES; i++)
		mt_rig_node_start(rig, i);
	check_stay(20);
}

Test(severed, a_blip_is_none)
{
	gateways_start(2, 2);
	for (uint32_t i = 0; i < 5; i++) {
		for (uint32_t k = 0; k < ALL_NODES; k++)
			(void)sim_net_reset(peers[0].host, rig->nodes[k].host);
		sever(0, true);
		mt_rig_run(rig, NUM_S(4));
		sever(0, false);
		check_stay(8);
	}
}

Test(severed, a_drained_gateway_is_given_nothing)
{
	gateways_start(2, 2);
	connect_to(0);
	json_decref(control_want(&qp, 0, "{'op':'gateway.drain','gateway':'0000000000000002'}"));
	drained_mask = 2;
	(void)wait_shared(3);
	mt_rig_log_clear(rig);
	sever(0, true);
	check_stay(30);
}

Test(severed, a_cluster_of_the_first_level_knows_of_none)
{
	gateways_start(2, 1);
	sever(0, true);
	check_stay(30);
}

Test(severed, alone_it_keeps_its_shards)
{
	gateways_start(1, 2);
	sever(0, true);
	check_stay(30);
}

/* ---- the planted bug ---- */

static bool
is_given_away(void *arg)
{
	(void)arg;
	check_single_owners();
	return mt_rig_logged(rig, "given away");
}

Test(severed, giving_to_who_reaches_no_nodes_either_is_found)
{
	mutant_set_add(&mutants_on, MUTANT_severed_blind);
	gateways_start(2, 2);
	sever(0, true);
	sever(1, true);
	cr_assert(mt_rig_run_until(rig, is_given_away, NULL));
}
