/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_node.c -- storage nodes come and go by request: each way to be refused, and where --force insists */
#include <inttypes.h>

#include "cleave/level.h"
#include "middletier/catalog/node_key.h"
#include "middletier/cluster/node_table.h"
#include "middletier/extent/link_call.h"
#include "middletier/meta/meta_txn.h"
#include "storage-node/node_state.h"
#include "unit/node_control_rig.h"

TestSuite(control_node, .init = node_setup, .fini = node_teardown);
TestSuite(control_node_early, .fini = node_teardown);

static bool
is_down(void *arg)
{
	const struct mt_port *port = &peers[0].gateway->ports[0];
	const uint32_t *index = arg;

	return !mt_link_is_up(&port->links[*index]);
}

static bool
is_back(void *arg)
{
	return !is_down(arg);
}

static void
node_kill(uint32_t index)
{
	mt_rig_node_kill(rig, index, false);
	cr_assert(mt_rig_run_until(rig, is_down, &index));
}

#define ADD_4 "{\"op\":\"node.add\",\"address\":\"sim://node4:1\",\"domain\":\"rack4\"}"
#define ADD_5 "{\"op\":\"node.add\",\"address\":\"sim://node5:1\",\"domain\":\"rack5\"}"
#define ABOUT(op, id) "{\"op\":\"node." op "\",\"node\":" #id "}"
#define FORCED(op, id) "{\"op\":\"node." op "\",\"node\":" #id ",\"force\":true}"
#define LOST(id) "{\"op\":\"node.remove\",\"node\":" #id ",\"lost\":true}"
#define LOST_FORCED(id) "{\"op\":\"node.remove\",\"node\":" #id ",\"lost\":true,\"force\":true}"

/* Node 4 is a member, and drains; nothing was put there. */
static void
drain_an_empty_one(void)
{
	expect_ok(ADD_4, "in");
	expect_ok(ABOUT("drain", 4), "draining");
}

static bool
is_unnamed(void *arg)
{
	int rc;
	json_t *answer = ask(ABOUT("show", 1), &rc);
	bool is_empty = json_is_true(json_object_get(json_object_get(answer, "holds"), "empty"));

	(void)arg;
	cr_assert_eq(rc, 0);
	json_decref(answer);
	return is_empty;
}

/* ---- drain ---- */

Test(control_node, a_drain_that_leaves_fewer_domains_than_copies_wants_force)
{
	expect_refused(ABOUT("drain", 3), -ENOTEMPTY, "2 failure domains would be left for 3");
	cr_assert_eq(state_of(3), MT_NODE_IN);
	expect_ok(FORCED("drain", 3), "draining");
	expect_ok(ABOUT("undrain", 3), "in");
	expect_refused(ABOUT("drain", 3), -ENOTEMPTY, "2 failure domains would be left for 3");
}

Test(control_node, a_drain_that_leaves_fewer_than_min_replicas_is_never_done)
{
	expect_ok(FORCED("drain", 3), "draining");
	expect_refused(ABOUT("drain", 2), -ENOTEMPTY, "--min-replicas is 2");
	expect_refused(FORCED("drain", 2), -ENOTEMPTY, "nothing could be written");
	cr_assert_eq(state_of(2), MT_NODE_IN);
}

Test(control_node, a_drain_that_leaves_fewer_than_min_replicas_that_answer_is_not_done)
{
	mt_rig_node_kill(rig, 2, false);
	mt_rig_run(rig, NUM_S(5));
	expect_refused(FORCED("drain", 1), -ENOTEMPTY, "cannot be drained now");
	cr_assert_eq(state_of(1), MT_NODE_IN);
	/* The one that is down takes nothing away. */
	expect_ok(FORCED("drain", 3), "draining");
	expect_ok(ABOUT("undrain", 3), "in");
	mt_rig_node_start(rig, 2);
	mt_rig_run(rig, NUM_S(5));
	expect_ok(FORCED("drain", 1), "draining");
}

Test(control_node, a_drain_counts_on_no_node_that_takes_no_writes)
{
	/* As behind a failed flush, of which a request was told. */
	rig->nodes[1].node->is_read_only = true;
	mt_link_set_read_only(&peers[0].gateway->ports[0].links[1], true);
	expect_refused(FORCED("drain", 1), -ENOTEMPTY, "1 answer and take writes");
	cr_assert_eq(state_of(1), MT_NODE_IN);
	expect_ok(FORCED("drain", 2), "draining");
}

/* Each gateway counts on the node that the other one drains. */
Test(control_node, two_drains_at_two_gateways_do_not_both_happen)
{
	static const char *const texts[2] = { FORCED("drain", 1), FORCED("drain", 2) };
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = 1 };
	struct sg_qp other;

	(void)snprintf(sg.options.ports[0].address, SPLIT_ADDRESS_BYTES_MAX, "sim://peer1:7100");
	sg_connect(&sg, &other, NULL);
	cr_assert_eq(sg_wait_open(&other), 0);
	for (uint64_t us = 0; us < 500; us += 5) {
		control_forget(&qp);
		control_forget(&other);
		sg_send(&qp, &header, texts[0], (uint32_t)strlen(texts[0]));
		mt_rig_run(rig, NUM_US(us));
		sg_send(&other, &header, texts[1], (uint32_t)strlen(texts[1]));
		cr_assert(sg_wait_replies(&qp, 1) && sg_wait_replies(&other, 1));
		mt_rig_run(rig, NUM_MS(100));
		cr_assert_eq((state_of(1) == MT_NODE_IN) + (state_of(2) == MT_NODE_IN), 1,
		    "after %" PRIu64 " us: %s, %s", us, qp.replies[0].text, other.replies[0].text);
		expect_ok(state_of(1) == MT_NODE_IN ? ABOUT("undrain", 2) : ABOUT("undrain", 1),
		    "in");
	}
	sg_close(&other);
}

Test(control_node, two_nodes_of_one_domain_count_once)
{
	expect_ok("{\"op\":\"node.set\",\"node\":1,\"domain\":\"a\"}", "in");
	expect_ok("{\"op\":\"node.add\",\"address\":\"sim://node4:1\",\"domain\":\"a\"}", "in");
	expect_refused(ABOUT("drain", 3), -ENOTEMPTY, "2 failure domains would be left");
	expect_ok(ABOUT("drain", 4), "draining");
}

struct full {
	uint32_t but_id; /* the node that is as it was */
	uint32_t counts[NODES];
};

/* Copies that a start has left over are deleted in between. */
static void
take_room(struct full *full)
{
	for (uint32_t i = 0; i < NODES; i++) {
		if (i + 1 == full->but_id)
			continue;
		full->counts[i] += rig->nodes[i].node->free_count;
		rig->nodes[i].node->free_count = 0;
	}
}

static bool
has_room(void *arg)
{
	const struct mt_port *port = &peers[0].gateway->ports[0];
	const struct full *full = arg;

	for (uint32_t i = 0; i < port->link_count; i++) {
		if (port->links[i].config.node_id == full->but_id)
			continue;
		mt_link_refresh(&peers[0].gateway->ports[0].links[i]);
		if (port->links[i].slots_free != 0)
			return true;
	}
	return false;
}

static bool
is_full(void *arg)
{
	take_room(arg);
	return !has_room(arg);
}

static void
fill(struct full *full, uint32_t but_id)
{
	*full = (struct full){ .but_id = but_id };
	cr_assert(mt_rig_run_until(rig, is_full, full));
}

static void
unfill(const struct full *full)
{
	for (uint32_t i = 0; i < NODES; i++) {
		if (i + 1 != full->but_id)
			rig->nodes[i].node->free_count += full->counts[i];
	}
}

/* Two hosts of one rack are one domain, as placement has it where there are three racks. */
Test(control_node, a_drain_counts_the_racks_that_are_up)
{
	expect_ok("{\"op\":\"node.set\",\"node\":1,\"domain\":\"dc/r1/h1\"}", "in");
	expect_ok("{\"op\":\"node.set\",\"node\":2,\"domain\":\"dc/r2/h2\"}", "in");
	expect_ok("{\"op\":\"node.set\",\"node\":3,\"domain\":\"dc/r3/h3\"}", "in");
	expect_ok("{\"op\":\"node.add\",\"address\":\"sim://node4:1\",\"domain\":\"dc/r1/h4\"}",
	    "in");
	expect_ok("{\"op\":\"node.add\",\"address\":\"sim://node5:1\",\"domain\":\"dc/r2/h5\"}",
	    "in");
	node_kill(2);
	node_kill(1);
	expect_refused(FORCED("drain", 5), -ENOTEMPTY, "of the others' failure domains 1 answer");
}

Test(control_node, a_drain_for_which_there_is_no_room_wants_force)
{
	struct full full;

	expect_ok(ADD_4, "in");
	fill(&full, 1);
	expect_refused(ABOUT("drain", 1), -ENOSPC, "the other nodes have 0 MiB of room");
	expect_ok(FORCED("drain", 1), "draining");
	unfill(&full);
}

Test(control_node, whoever_is_no_member_is_named)
{
	expect_refused(ABOUT("drain", 4), -ENOENT, "node 4: no such node: see cleave node list");
	expect_refused(ABOUT("undrain", 4), -ENOENT, "node 4: no such node");
	expect_refused(ABOUT("remove", 4), -ENOENT, "node 4: no such node");
	expect_refused(LOST_FORCED(4), -ENOENT, "node 4: no such node");
	expect_refused(ABOUT("show", 4), -ENOENT, "node 4: no such node");
	expect_refused(ABOUT("set", 4), -ENOENT, "node 4: no such node");
	drain_an_empty_one();
	expect_ok(ABOUT("remove", 4), "out");
	expect_refused(ABOUT("drain", 4), -ENOENT, "node 4: no such node any more");
	expect_refused(ABOUT("undrain", 4), -ENOENT, "node 4: no such node any more");
	expect_refused(ABOUT("remove", 4), -ENOENT, "node 4: no such node any more");
	expect_refused(LOST_FORCED(4), -ENOENT, "node 4: no such node any more");
	expect_refused(ABOUT("set", 4), -ENOENT, "node 4: no such node");
}

Test(control_node, requests_that_make_no_sense_are_named)
{
	static const char *const ops[] = { "add", "set", "drain", "undrain", "remove", "show",
		"usage" };
	char text[128];

	for (uint32_t i = 0; i < NUM_COUNT(ops); i++) {
		(void)snprintf(text, sizeof(text), "{\"op\":\"node.%s\"}", ops[i]);
		expect_refused(text, -EINVAL, i == 0 ? "address" : "node");
		(void)snprintf(text, sizeof(text), "{\"op\":\"node.%s\",\"node\":0}", ops[i]);
		expect_refused(text, -EINVAL, "node");
		(void)snprintf(text, sizeof(text), "{\"op\":\"node.%s\",\"node\":1,\"x\":1}",
		    ops[i]);
		expect_refused(text, -EINVAL, i == 0 ? "node" : "x");
	}
	expect_refused("{\"op\":\"node.drain\",\"node\":1,\"lost\":true}", -EINVAL, "lost");
	expect_refused("{\"op\":\"node.set\",\"node\":1,\"domain\":\"a//b\"}", -EINVAL, "domain");
	expect_refused("{\"op\":\"node.set\",\"node\":1,\"domain\":\"a b\"}", -EINVAL,
	    "without blanks");
	expect_refused("{\"op\":\"node.set\",\"node\":1,\"weight\":0}", -EINVAL, "weight");
	expect_refused("{\"op\":\"node.usage\",\"node\":1}", -EINVAL, "version");
}

/* ---- remove ---- */

Test(control_node, a_node_in_use_is_never_removed)
{
	expect_ok(ADD_4, "in");
	expect_refused(ABOUT("remove", 1), -ENOTEMPTY, "node 1 is in use: drain it");
	expect_refused(FORCED("remove", 1), -ENOTEMPTY, "node 1 is in use");
	expect_refused(ABOUT("remove", 4), -ENOTEMPTY, "node 4 is in use");
}

Test(control_node, a_node_that_holds_copies_is_never_removed_and_goes_when_it_is_empty)
{
	uint64_t begin_ns;

	/* Without room elsewhere nothing is moved. */
	expect_ok(FORCED("drain", 1), "draining");
	expect_refused(ABOUT("remove", 1), -ENOTEMPTY, "node 1 is not empty: shards name");
	expect_refused(FORCED("remove", 1), -ENOTEMPTY, "node 1 is not empty: shards name");
	expect_ok(ADD_4, "in");
	for (uint32_t i = 0; i < 600 && !is_unnamed(NULL); i++)
		mt_rig_run(rig, NUM_MS(100));
	begin_ns = sim_world_now_ns(rig->world);
	expect_ok(ABOUT("remove", 1), "out");
	cr_assert_geq(sim_world_now_ns(rig->world) - begin_ns, CONTROL_ROUND_NS, "asked once");
	cr_assert(mt_rig_logged(rig, "node 1: removed by an operator"));
}

Test(control_node, a_gateway_that_does_not_answer_keeps_the_node)
{
	drain_an_empty_one();
	sim_net_partition(peers[0].host, peers[1].host);
	expect_refused(ABOUT("remove", 4), -EHOSTDOWN,
	    "gateway 0000000000000002 does not say what its shards have there");
	expect_refused(FORCED("remove", 4), -EHOSTDOWN, "gateway 0000000000000002 does not say");
	sim_net_join(peers[0].host, peers[1].host);
}

Test(control_node, a_gateway_that_has_not_read_of_the_drain_keeps_the_node)
{
	expect_ok(ADD_4, "in");
	mt_rig_run(rig, NUM_MS(100));
	meta_memory_cut_off(peers[1].meta, true);
	expect_ok(ABOUT("drain", 4), "draining");
	expect_refused(FORCED("remove", 4), -EBUSY,
	    "gateway 0000000000000002 has not read yet that it drains");
	meta_memory_cut_off(peers[1].meta, false);
}

static bool
is_alone(void *arg)
{
	(void)arg;
	return peers[0].gateway->member.peer_count == 1;
}

Test(control_node, a_shard_that_nobody_serves_keeps_the_node)
{
	drain_an_empty_one();
	/* Too few copies of the second gateway's shards are left for a take-over. */
	node_kill(0);
	node_kill(1);
	peer_kill(1);
	cr_assert(mt_rig_run_until(rig, is_alone, NULL));
	expect_refused(ABOUT("remove", 4), -EBUSY, "shards are served by nobody now");
	expect_refused(FORCED("remove", 4), -EBUSY, "shards are served by nobody now");
}

/* A node's key, put by somebody else: as it was, with a note. */
static void
note(uint32_t id)
{
	struct mt_node node = mt_nodes_by_id(peers[0].gateway, id)->node;
	char key[MT_NODE_KEY_BYTES], *text;

	(void)snprintf(node.note, sizeof(node.note), "somebody was here");
	text = mt_node_encode(&node);
	mt_node_key(key, id);
	made_cluster_put(rig->store, key, text);
	free(text);
}

static void
send(const char *request)
{
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = 1 };

	control_forget(&qp);
	sg_send(&qp, &header, request, (uint32_t)strlen(request));
}

Test(control_node, a_change_between_the_two_counts_keeps_the_node)
{
	drain_an_empty_one();
	send(ABOUT("remove", 4));
	mt_rig_run(rig, CONTROL_ROUND_NS / 2);
	cr_assert_eq(qp.reply_count, 0, "it is between them");
	note(4);
	cr_assert(sg_wait_replies(&qp, 1));
	cr_assert_neq(qp.replies[0].header.status, 0);
	mt_rig_run(rig, NUM_MS(100));
	cr_assert_eq(state_of(4), MT_NODE_DRAINING);
	expect_ok(ABOUT("remove", 4), "out");
}

Test(control_node, a_gateway_stops_between_the_two_counts)
{
	drain_an_empty_one();
	send(ABOUT("remove", 4));
	mt_rig_run(rig, CONTROL_ROUND_NS / 2);
	mt_gateway_stop(peers[0].gateway, on_stopped, &peers[0]);
	cr_assert(mt_rig_run_until(rig, has_stopped, &peers[0]));
	cr_assert_eq(qp.reply_count, 0);
}

/* ---- remove --lost ---- */

Test(control_node, a_node_that_answers_is_lost_by_force_alone)
{
	expect_refused(LOST(3), -ENOTEMPTY, "node 3 answers, so it is not lost");
	expect_ok(LOST_FORCED(3), "lost");
	cr_assert(mt_rig_logged(rig, "node 3: given up for lost by an operator"));
}

Test(control_node, the_last_nodes_are_lost_by_force_alone)
{
	node_kill(2);
	expect_ok(LOST(3), "lost");
	node_kill(1);
	expect_refused(LOST(2), -ENOTEMPTY, "1 failure domains would be left, and --min-replicas");
	expect_ok(LOST_FORCED(2), "lost");
}

/* Data that was written while a third one was away may have both copies there. */
Test(control_node, of_two_that_are_silent_none_is_lost_but_by_force)
{
	uint32_t index = 2;

	expect_ok(ADD_4, "in");
	node_kill(2);
	node_kill(1);
	expect_refused(LOST(2), -ENOTEMPTY, "node 3 does not answer either");
	expect_refused(LOST(3), -ENOTEMPTY, "node 2 does not answer either");
	mt_rig_node_start(rig, 2);
	cr_assert(mt_rig_run_until(rig, is_back, &index));
	expect_ok(LOST(2), "lost");
}

static bool
is_added(void *arg)
{
	(void)arg;
	return mt_nodes_by_id(peers[0].gateway, 4) != NULL;
}

/* Node 4 has become a member, and no port has heard of it yet. */
static void
add_and_hold(void (*hold)(void))
{
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = 100 };

	sg_send(&qp, &header, ADD_4, (uint32_t)strlen(ADD_4));
	cr_assert(mt_rig_run_until(rig, is_added, NULL));
	hold();
	cr_assert(sg_wait_replies(&qp, 1));
	cr_assert_eq(qp.replies[0].header.status, 0, "%s", qp.replies[0].text);
	control_forget(&qp);
}

static void
hold_a_while(void)
{
	sim_loop_pause(rig->nodes[3].loop, NUM_MS(700));
}

static void
hold_for_good(void)
{
	sim_loop_pause(rig->nodes[3].loop, SIM_FOR_EVER);
}

/* Whether it answers is seen when its first connection has come about, or has failed: that is waited for. */
Test(control_node, one_that_was_just_added_keeps_no_other_from_being_lost)
{
	node_kill(2);
	add_and_hold(hold_a_while);
	expect_ok(LOST(3), "lost");
}

Test(control_node, one_that_was_just_added_and_does_not_answer_is_silent)
{
	node_kill(2);
	add_and_hold(hold_for_good);
	expect_refused(LOST(3), -ENOTEMPTY, "node 4 does not answer either");
	expect_ok(LOST_FORCED(3), "lost");
	sim_loop_pause(rig->nodes[3].loop, 0);
}

/* Gateway 0 does not reach the node @index, and gateway 1 does. */
static void
node_hide(uint32_t index)
{
	sim_net_partition(peers[0].host, rig->nodes[index].host);
	cr_assert(mt_rig_run_until(rig, is_down, &index));
}

Test(control_node, a_node_that_another_gateway_reaches_is_lost_by_force_alone)
{
	expect_ok(ADD_4, "in");
	node_hide(1);
	expect_refused(LOST(2), -ENOTEMPTY,
	    "node 2 answers gateway 0000000000000002, so it is not lost");
	/* When that one has ended nobody is left who reaches it. */
	peer_kill(1);
	(void)wait_shared(1);
	expect_ok(LOST(2), "lost");
}

Test(control_node, a_node_that_another_gateway_reaches_is_not_silent)
{
	expect_ok(ADD_4, "in");
	node_kill(2);
	node_hide(1);
	expect_ok(LOST(3), "lost");
}

static void
gateways_restart(void)
{
	if (qp.qp != NULL)
		sg_close(&qp);
	memset(&qp, 0, sizeof(qp));
	peer_kill(0);
	peer_kill(1);
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	client_connect();
}

/* A log of a shard of the second gateway, on the three nodes that there are. */
static void
open_log(void)
{
	cr_assert(serves(1, 0));
	rig->gateway = peers[1].gateway;
	cr_assert_not_null(mt_rig_log_open(rig));
	rig->gateway = NULL;
}

Test(control_node, a_node_whose_copies_find_no_room_elsewhere_is_lost_by_force_alone)
{
	struct full full;

	open_log();
	expect_ok(ADD_4, "in");
	node_kill(2);
	fill(&full, 3);
	expect_refused(LOST(3), -ENOSPC, "node 3 is kept: it holds");
	expect_refused(LOST(3), -ENOSPC, "the other nodes have 0 MiB of room");
	unfill(&full);
	cr_assert(mt_rig_run_until(rig, has_room, &full));
	expect_ok(LOST(3), "lost");
}

/* Copies that its link heard of last have been made anew elsewhere since. */
Test(control_node, a_node_that_holds_nothing_more_is_lost_whatever_room_there_is)
{
	struct full full;

	expect_ok(ADD_4, "in");
	node_kill(2);
	mt_rig_run(rig, NUM_S(120)); /* longer than --repair-after */
	fill(&full, 3);
	expect_ok(LOST(3), "lost");
	unfill(&full);
}

/* The asked gateway has never heard how much it holds: the shards, at the other one, know what they have there. */
Test(control_node, a_node_that_was_never_heard_since_the_start_and_finds_no_room_is_kept)
{
	struct full full;

	open_log();
	expect_ok(ADD_4, "in");
	node_kill(2);
	sg_close(&qp);
	memset(&qp, 0, sizeof(qp));
	peer_kill(0);
	peer_start(0);
	(void)wait_shared(3);
	client_connect();
	mt_rig_run(rig, NUM_S(10)); /* copies that the start has left over are deleted */
	fill(&full, 3);
	expect_refused(LOST(3), -ENOSPC, "node 3 is kept: it holds");
	expect_ok(LOST_FORCED(3), "lost");
	unfill(&full);
}

/* Extents that were written to are on two nodes; one of these will never be heard of again. */
Test(control_node, a_take_over_does_not_wait_for_a_node_that_was_lost)
{
	node_kill(2);
	gateways_restart();
	node_kill(1);
	expect_ok(LOST_FORCED(2), "lost");
	sg_close(&qp);
	memset(&qp, 0, sizeof(qp));
	peer_kill(0);
	peer_kill(1);
	mt_rig_node_start(rig, 2);
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
}

/* ---- add ---- */

Test(control_node, whoever_is_no_node_is_not_added)
{
	mt_rig_node_kill(rig, 4, false);
	expect_refused(ADD_5, -ENOENT, "sim://node5:1 is no node that can be added");
	expect_refused("{\"op\":\"node.add\",\"address\":\"sim://peer1:7100\"}", -ENOENT,
	    "is no node that can be added");
	expect_refused("{\"op\":\"node.add\",\"address\":\"sim://node4:1\",\"domain\":\"/\"}",
	    -EINVAL, "domain");
}

Test(control_node, an_address_or_a_number_that_is_taken_is_not_added)
{
	expect_refused("{\"op\":\"node.add\",\"address\":\"sim://node2:1\"}", -EEXIST,
	    "is the address of node 2");
	expect_refused("{\"op\":\"node.set\",\"node\":1,\"address\":\"sim://node2:1\"}", -EEXIST,
	    "is the address of node 2");
	mt_rig_node_kill(rig, 4, false);
	rig->nodes[4].id = 2;
	mt_rig_node_blank(rig, 4);
	mt_rig_node_start(rig, 4);
	expect_refused(ADD_5, -EEXIST, "answers as node 2, which is sim://node2:1 already");
}

Test(control_node, a_node_that_has_left_never_comes_back)
{
	drain_an_empty_one();
	expect_ok(ABOUT("remove", 4), "out");
	expect_refused(ADD_4, -EEXIST, "which has left the cluster (out), and never comes back");
	mt_rig_node_kill(rig, 3, false);
	mt_rig_node_blank(rig, 3);
	mt_rig_node_start(rig, 3);
	expect_refused(ADD_4, -EEXIST, "--node-id 5");
	expect_ok(ADD_5, "in");
	cr_assert_eq(state_of(4), MT_NODE_OUT);
}

Test(control_node, a_node_that_was_lost_never_comes_back)
{
	node_kill(2);
	expect_ok(LOST(3), "lost");
	mt_rig_node_start(rig, 2);
	expect_refused("{\"op\":\"node.add\",\"address\":\"sim://node3:1\"}", -EEXIST,
	    "which has left the cluster (lost)");
}

/* ---- usage: what another gateway is told ---- */

/* How often an etcd was set back is counted by each process for itself. */
Test(control_node, ports_that_act_on_another_version_say_so)
{
	static const struct {
		uint64_t ahead;
		bool is_current;
	} cases[] = { { 0, true }, { 1, false }, { UINT64_C(3) << 48, true } };
	char text[128];
	int rc;
	json_t *answer;

	mt_rig_run(rig, NUM_MS(100));
	for (uint32_t i = 0; i < NUM_COUNT(cases); i++) {
		(void)snprintf(text, sizeof(text),
		    "{\"op\":\"node.usage\",\"node\":1,\"version\":%" PRIu64 "}",
		    mt_nodes_by_id(peers[0].gateway, 1)->node.version + cases[i].ahead);
		answer = ask(text, &rc);
		cr_assert_eq(rc, 0);
		cr_assert_eq(json_is_true(json_object_get(answer, "current")), cases[i].is_current);
		cr_assert_gt(json_integer_value(json_object_get(answer, "extents")), 0);
		json_decref(answer);
	}
}

/* ---- before nodes are members ---- */

Test(control_node_early, changes_wait_for_the_level)
{
	rig_open(0);
	peer_start(0);
	(void)wait_shared(1);
	client_connect();
	expect_refused(ABOUT("drain", 1), -ENOTSUP, "run cleave cluster upgrade");
	expect_refused(LOST_FORCED(1), -ENOTSUP, "run cleave cluster upgrade");
	expect_refused(ADD_4, -ENOTSUP, "run cleave cluster upgrade");
}

Test(control_node_early, changes_wait_until_all_nodes_were_heard)
{
	rig_open(CLEAVE_LEVEL_NODES);
	mt_rig_node_kill(rig, 2, false);
	peer_start(0);
	(void)wait_shared(1);
	client_connect();
	expect_refused(FORCED("drain", 1), -EBUSY, "are not in the metadata store yet");
	expect_refused(LOST_FORCED(3), -EBUSY, "are not in the metadata store yet");
}
