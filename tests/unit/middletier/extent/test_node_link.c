/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_node_link.c -- links to real nodes, and to a peer that only claims to be one
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/extent/link_ticket.h"
#include "middletier/extent/node_link.h"
#include "middletier/gateway/gateway.h"
#include "splitlib/sim/loop_sim.h"
#include "support/mt_rig.h"
#include "unit/link_peer.h"

#define CALLS_MAX 1100u

static struct test_call {
	struct mt_call call;
	uint32_t count;
	int rc;
	bool has_msg;
} calls[CALLS_MAX];
static uint32_t call_count, done_count;

static void
setup(void)
{
	link_setup();
	call_count = done_count = 0;
	memset(calls, 0, sizeof(calls));
}

TestSuite(node_link, .init = setup, .fini = link_teardown);

static void
on_call(struct mt_call *call, int rc, const struct wire_node_reply *reply, struct split_msg *msg,
    void *arg)
{
	struct test_call *test = arg;

	cr_assert_eq(call, &test->call);
	cr_assert(rc != 0 || reply != NULL);
	test->count++;
	test->rc = rc;
	test->has_msg = msg != NULL;
	done_count++;
	if (msg != NULL)
		split_msg_release(msg);
}

static int
post_call(uint32_t index, const struct wire_node *request)
{
	struct test_call *test = &calls[call_count];
	int rc;

	test->call.request = *request;
	test->call.fn = on_call;
	test->call.arg = test;
	rc = mt_link_call(mt_rig_link(rig, index), &test->call);
	if (rc == 0)
		call_count++;
	return rc;
}

/* Some request that changes nothing. */
static int
post_list(uint32_t index)
{
	return post_call(index,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_LIST, .id.shard = 4000 });
}

static bool
all_done(void *arg)
{
	(void)arg;
	return done_count == call_count;
}

static void
wait_calls(int rc)
{
	cr_assert(mt_rig_run_until(rig, all_done, NULL));
	for (uint32_t i = 0; i < call_count; i++) {
		cr_assert_eq(calls[i].count, 1, "call %u came back %u times", i, calls[i].count);
		cr_assert_eq(calls[i].rc, rc, "call %u: %d", i, calls[i].rc);
	}
}

/* ---- real nodes ---- */

Test(node_link, node_says_who_it_is_and_how_much_room_it_has)
{
	const struct mt_link *link = mt_rig_link(rig, 1);

	cr_assert(mt_link_is_up(link));
	cr_assert_eq(link->node_id, 2);
	cr_assert_eq(link->slots_total, 32);
	cr_assert_eq(link->slot_bytes, NUM_KIB(256));
	cr_assert_eq(link->slots_free, node_slots_free(rig->nodes[1].node));
	cr_assert_eq(mt_port_link(mt_rig_port(rig), 2), link);
	cr_assert_null(mt_port_link(mt_rig_port(rig), 77));
	cr_assert_null(mt_port_link(mt_rig_port(rig), 0), "a link without a name was found");
}

Test(node_link, room_is_estimated_between_answers)
{
	struct mt_link *link = mt_rig_link(rig, 0);
	uint64_t slots_free = link->slots_free;
	struct wire_node create = { .opcode = WIRE_EXTENT_CREATE,
		.id = { .shard = 9, .epoch = 1, .counter = 1 },
		.kind = EXTENT_LOG,
		.epoch = 1 };
	struct wire_node_reply reply;

	cr_assert_eq(mt_rig_call(rig, 0, &create, &reply), 0);
	cr_assert_eq(link->slots_free, slots_free - 1);
	create.opcode = WIRE_EXTENT_DELETE;
	create.offset_bytes = reply.offset_bytes;
	cr_assert_eq(mt_rig_call(rig, 0, &create, NULL), 0);
	cr_assert_eq(link->slots_free, slots_free);
}

Test(node_link, status_is_asked_while_calls_flow_and_never_else)
{
	struct mt_link *link = mt_rig_link(rig, 0);
	uint64_t asked_ns = link->status.asked_ns;

	mt_rig_run(rig, NUM_S(100));
	cr_assert_eq(link->status.asked_ns, asked_ns, "an idle link asked (I12)");
	cr_assert_eq(post_list(0), 0);
	cr_assert_neq(link->status.asked_ns, asked_ns);
	asked_ns = link->status.asked_ns;
	for (uint32_t i = 0; i < 98; i++) {
		cr_assert_eq(post_list(0), 0);
		cr_assert_eq(link->status.asked_ns, asked_ns, "asked again too soon");
		mt_rig_run(rig, NUM_MS(100));
	}
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(post_list(0), 0);
	cr_assert_neq(link->status.asked_ns, asked_ns);
	wait_calls(0);
}

Test(node_link, calls_are_answered_once)
{
	for (uint32_t i = 0; i < 200; i++)
		cr_assert_eq(post_list(i % 3), 0);
	wait_calls(0);
	for (uint32_t i = 0; i < 200; i++)
		cr_assert(calls[i].has_msg);
	cr_assert_eq(mt_rig_link(rig, 0)->call_count, 0);
}

Test(node_link, error_of_the_node_comes_back)
{
	struct wire_node cut = { .opcode = WIRE_EXTENT_TRUNCATE,
		.id = { .shard = 9, .epoch = 1, .counter = 1 },
		.epoch = 1 };

	cr_assert_eq(post_call(0, &cut), 0);
	wait_calls(-ENOENT);
	cr_assert_not(calls[0].has_msg);
}

Test(node_link, calls_are_bounded)
{
	int rc = 0;

	while (rc == 0 && call_count < CALLS_MAX)
		rc = post_list(0);
	cr_assert_eq(rc, -ENOBUFS);
	cr_assert_gt(call_count, 500);
	wait_calls(0);
	cr_assert_eq(post_list(0), 0);
	wait_calls(0);
}

Test(node_link, lost_node_ends_every_call)
{
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_eq(post_list(1), 0);
	mt_rig_node_kill(rig, 1, false);
	wait_calls(-ECONNRESET);
	cr_assert_eq(post_list(1), -ENOTCONN);
	cr_assert(mt_rig_logged(rig, "node 2: lost rc=-ECONNRESET"));
	cr_assert_eq(mt_rig_link(rig, 1)->node_id, 2, "its name is forgotten");
}

Test(node_link, node_that_does_not_answer_is_given_up)
{
	uint64_t start_ns;

	sim_net_partition(rig->gateway_host, rig->nodes[1].host);
	start_ns = sim_world_now_ns(rig->world);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(post_list(1), 0);
	wait_calls(-ETIMEDOUT);
	/* The rig's node_timeout is 2 s. */
	cr_assert_geq(sim_world_now_ns(rig->world) - start_ns, NUM_S(2));
	cr_assert_lt(sim_world_now_ns(rig->world) - start_ns, NUM_S(3));
	cr_assert(mt_rig_logged(rig, "node 2: lost rc=-ETIMEDOUT"));
	sim_net_join(rig->gateway_host, rig->nodes[1].host);
	wait_link(1, true);
}

Test(node_link, comes_back_and_logs_once_a_change)
{
	mt_rig_node_kill(rig, 2, false);
	wait_link(2, false);
	cr_assert(mt_rig_logged(rig, "node 3: lost"));
	mt_rig_log_clear(rig);
	mt_rig_run(rig, NUM_S(10)); /* the first attempt ends in another way, and says so */
	cr_assert(mt_rig_logged(rig, "node: cannot be reached"));
	mt_rig_log_clear(rig);
	mt_rig_run(rig, NUM_S(60));
	cr_assert_not(mt_rig_logged(rig, "node"), "every attempt is logged:\n%s", rig->log);
	mt_rig_node_start(rig, 2);
	wait_link(2, true);
	cr_assert(mt_rig_logged(rig, "node 3: link up"));
	cr_assert_eq(mt_gateway_metric(rig->gateway, MT_METRIC_node_reconnects), 1);
	cr_assert_eq(post_list(2), 0);
	wait_calls(0);
}

Test(node_link, backoff_is_bounded)
{
	uint32_t before;

	peer_start(PEER_RIGHT);
	peer.hello.role = WIRE_ROLE_GATEWAY; /* refused each time */
	mt_rig_run(rig, NUM_S(60));
	before = peer.accept_count;
	mt_rig_run(rig, NUM_S(100));
	/* 2.5 to 5 s between attempts. */
	cr_assert_geq(peer.accept_count - before, 15);
	cr_assert_leq(peer.accept_count - before, 45);
}

Test(node_link, duplicate_id_is_refused_and_said_once)
{
	rig->nodes[3].id = 2;
	mt_rig_node_blank(rig, 3);
	mt_rig_log_clear(rig);
	mt_rig_node_start(rig, 3);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_not(mt_link_is_up(mt_rig_link(rig, 3)));
	cr_assert(mt_link_is_up(mt_rig_link(rig, 1)));
	cr_assert(mt_rig_logged(rig, "node 2: found at two addresses"));
	mt_rig_log_clear(rig);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_not(mt_rig_logged(rig, "node 2"));
	cr_assert_eq(mt_port_link(mt_rig_port(rig), 2), mt_rig_link(rig, 1));
}

/* ---- a peer that is none ---- */

Test(node_link, right_peer_is_taken)
{
	peer_start(PEER_RIGHT);
	wait_link(3, true);
	cr_assert_eq(mt_rig_link(rig, 3)->slots_free, 5);
}

Test(node_link, a_node_of_an_older_release_is_dialled_twice)
{
	mt_rig_log_clear(rig);
	peer_start(PEER_RIGHT);
	peer.is_old = true;
	wait_link(3, true);
	cr_assert_eq(peer.accept_count, 2);
	cr_assert_eq(peer.offered, CLEAVE_LEVEL_MIN);
	cr_assert_eq(mt_rig_link(rig, 3)->agreed_level, CLEAVE_LEVEL_MIN);
	cr_assert_not(mt_rig_logged(rig, "node: cannot be reached"), "%s", rig->log);
}

Test(node_link, a_node_of_this_release_is_dialled_once)
{
	peer_start(PEER_RIGHT);
	peer.hello.level = CLEAVE_LEVEL_MAX;
	wait_link(3, true);
	cr_assert_eq(peer.accept_count, 1);
	cr_assert_eq(mt_rig_link(rig, 3)->agreed_level, CLEAVE_LEVEL_MAX);
	cr_assert_eq(mt_rig_link(rig, 0)->agreed_level, CLEAVE_LEVEL_MAX);
}

/* Upgraded within the minute in which it is taken for old: the lowest level would stay for good. */
Test(node_link, a_node_that_was_upgraded_is_offered_the_highest_again)
{
	peer_start(PEER_RIGHT);
	peer.is_old = true;
	wait_link(3, true);
	cr_assert_eq(mt_rig_link(rig, 3)->agreed_level, CLEAVE_LEVEL_MIN);
	peer_stop();
	wait_link(3, false);
	sim_host_start(rig->nodes[3].host);
	peer_start(PEER_RIGHT);
	peer.hello.level = CLEAVE_LEVEL_MAX;
	wait_link(3, true);
	cr_assert_eq(mt_rig_link(rig, 3)->agreed_level, CLEAVE_LEVEL_MAX);
}

/* The release of level 1 refuses us; one of a level between would be refused by us. */
Test(node_link, a_node_below_the_clusters_level_is_refused)
{
	atomic_store(&rig->gateway->shared.cluster_level, CLEAVE_LEVEL_MAX);
	peer_start(PEER_RIGHT);
	peer.is_old = true;
	expect_refused("its release is too old since the cluster was upgraded");
	cr_assert_eq(peer.offered, CLEAVE_LEVEL_MAX, "the lowest will not do");
	cr_assert_not_null(strstr(mt_rig_link(rig, 3)->trouble, "too old"));
	cr_assert_leq(peer.accept_count, 20, "%u attempts in 20 s", peer.accept_count);
	peer.is_old = false;
	peer.hello.level = CLEAVE_LEVEL_MAX - 1;
	expect_refused("");
	cr_assert_not_null(strstr(mt_rig_link(rig, 3)->trouble, "too old"));
	peer.hello.level = CLEAVE_LEVEL_MAX;
	wait_link(3, true);
	cr_assert_eq(mt_rig_link(rig, 3)->trouble[0], '\0');
}

Test(node_link, an_answer_above_what_was_offered_is_refused)
{
	peer_start(PEER_RIGHT);
	peer.hello.level = CLEAVE_LEVEL_MAX + 1;
	expect_refused("it answers with a level that was not offered");
}

Test(node_link, other_cluster_is_refused)
{
	peer_start(PEER_RIGHT);
	peer.hello.cluster_id++;
	expect_refused("it belongs to another cluster");
}

Test(node_link, other_role_is_refused)
{
	peer_start(PEER_RIGHT);
	peer.hello.role = WIRE_ROLE_GATEWAY;
	peer.hello.node_id = 0;
	expect_refused("it is no storage node");
}

Test(node_link, node_without_a_name_is_refused)
{
	peer_start(PEER_RIGHT);
	peer.hello.node_id = 0;
	expect_refused("it has no node id");
}

Test(node_link, answer_to_no_request)
{
	peer_start(PEER_WRONG_ID);
	expect_refused("an answer to no request");
}

Test(node_link, answer_of_another_kind)
{
	peer_start(PEER_WRONG_OPCODE);
	expect_refused("an answer of another kind");
}

Test(node_link, request_instead_of_an_answer)
{
	peer_start(PEER_REQUEST);
	expect_refused("opcode");
}

Test(node_link, later_answers_are_matched_too)
{
	peer_start(PEER_RIGHT);
	wait_link(3, true);
	peer.answer = PEER_WRONG_ID;
	cr_assert_eq(post_list(3), 0);
	wait_calls(-ECONNRESET);
}

/* As a fence says it: the shard's owner stops, and comes back with a higher epoch. */
Test(node_link, an_epoch_that_another_gateway_has_is_too_old)
{
	peer_start(PEER_RIGHT);
	wait_link(3, true);
	peer.answer = PEER_OTHER_OWNER;
	cr_assert_eq(post_list(3), 0);
	wait_calls(-ESTALE);
	cr_assert(mt_rig_logged(rig, "says that another gateway has a shard's epoch"));
}

Test(node_link, init_without_memory)
{
	const struct mt_node_config *config = &rig->gateway_options.nodes[0];
	struct mt_link link;
	uint32_t failed_count = 0;
	int rc = -ENOMEM;

	while (rc == -ENOMEM) {
		mt_alloc_fail_at(++failed_count);
		rc = mt_link_init(&link, mt_rig_port(rig), 9, config);
		mt_alloc_fail_at(0);
		mt_link_fini(&link); /* a no-op, but for the one that was made */
	}
	cr_assert_eq(rc, 0);
	cr_assert_gt(failed_count, 2, "it has a life and slots");
}

/* ---- lists that no node may send ---- */

static bool
is_list_refused(void *arg)
{
	return mt_rig_logged(rig, arg);
}

Test(node_link, an_extent_of_no_shard_is_not_believed)
{
	peer_start(PEER_LIST_NO_SHARD);
	cr_assert(mt_rig_run_until(rig, is_list_refused,
	    "node 4: its list of extents is not believed, field=extent"));
	/* Also where a take-over looks. */
	mt_rig_log_clear(rig);
	mt_rig_gateway_restart(rig);
	cr_assert(mt_rig_run_until(rig, is_list_refused, "not believed, field=extent"));
}

Test(node_link, a_list_without_an_end_is_not_believed)
{
	uint32_t requests;

	peer_start(PEER_LIST_NO_END);
	cr_assert(mt_rig_run_until(rig, is_list_refused,
	    "node 4: its list of extents is not believed, field=cursor"));
	mt_rig_run(rig, NUM_S(1));
	requests = peer.request_count;
	mt_rig_run(rig, NUM_S(1));
	cr_assert_leq(peer.request_count, requests + 4, "it is asked on and on");
}
