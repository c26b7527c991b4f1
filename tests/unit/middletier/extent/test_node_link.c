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

#define CALLS_MAX 1100u

static struct mt_rig *rig;

static struct test_call {
	struct mt_call call;
	uint32_t count;
	int rc;
	bool has_msg;
} calls[CALLS_MAX];
static uint32_t call_count, done_count;

/* ---- a peer that answers as it is told ---- */

enum peer_answer {
	PEER_RIGHT,
	PEER_SILENT,
	PEER_WRONG_ID,
	PEER_WRONG_OPCODE,
	PEER_NO_JSON,
	PEER_LACKING_JSON,
	PEER_WRONG_JSON,
	PEER_SLOTS_WRAP, /* slots_total * slot_bytes is 2^64 */
	PEER_SLOTS_MANY,
	PEER_SLOTS_SMALL,
	PEER_CLOCK,      /* tells a clock on the wall */
	PEER_CLOCK_TEXT, /* tells what is no clock */
	PEER_ERROR_STATUS,
	PEER_OTHER_OWNER,   /* says that another gateway has the epoch */
	PEER_REQUEST,       /* answers with a request */
	PEER_NO_KEY,        /* says that it takes clients, and tells a key of no bytes */
	PEER_LIST_NO_SHARD, /* lists an extent of a shard that there cannot be */
	PEER_LIST_NO_END,   /* lists a page that leads to itself */
};

static struct peer {
	struct sim_host *host;
	struct loop *loop;
	struct split_port *port;
	struct wire_hello hello;
	enum peer_answer answer;
	uint32_t accept_count, request_count;
	uint8_t offered; /* level, in the last hello */
	bool is_old;     /* refuses every hello but of level 1 */
	dev_ptr text;
	struct peer_extra {
		struct split_send send;
		struct wire_header header;
		struct dev_piece piece;
	} extras[64];
} peer;

static void
peer_on_sent(struct split_send *send, int rc, void *arg)
{
	(void)send;
	(void)rc;
	(void)arg;
}

static const char *
peer_text(void)
{
	switch (peer.answer) {
	case PEER_NO_JSON:
		return "{\"slots_total\":";
	case PEER_LACKING_JSON:
		return "{\"slots_total\":10,\"slots_free\":5}";
	case PEER_WRONG_JSON:
		return "{\"slots_total\":10,\"slots_free\":11,\"slot_bytes\":65536}";
	case PEER_SLOTS_WRAP:
		return "{\"slots_total\":1048576,\"slots_free\":5,\"slot_bytes\":17592186044416}";
	case PEER_SLOTS_MANY:
		return "{\"slots_total\":1048577,\"slots_free\":5,\"slot_bytes\":65536}";
	case PEER_CLOCK:
		return "{\"slots_total\":10,\"slots_free\":5,\"slot_bytes\":65536,"
		       "\"wall_ms\":1000000}";
	case PEER_CLOCK_TEXT:
		return "{\"slots_total\":10,\"slots_free\":5,\"slot_bytes\":65536,"
		       "\"wall_ms\":\"noon\"}";
	case PEER_NO_KEY:
		return "{\"slots_total\":10,\"slots_free\":5,\"slot_bytes\":65536,\"direct\":\"on\"}";
	case PEER_SLOTS_SMALL:
		return "{\"slots_total\":10,\"slots_free\":5,\"slot_bytes\":65535}";
	default:
		return "{\"slots_total\":10,\"slots_free\":5,\"slot_bytes\":65536,\"more\":[]}";
	}
}

static void
peer_answer_with(struct split_msg *msg, struct wire_header *header)
{
	const char *text = peer_text();
	bool has_text = header->opcode == (WIRE_CONTROL | WIRE_REPLY);
	struct dev_piece piece = { peer.text, (uint32_t)strlen(text) };

	if (header->opcode == (WIRE_EXTENT_LIST | WIRE_REPLY) &&
	    peer.answer >= PEER_LIST_NO_SHARD) {
		struct wire_extent_entry entry = { .extent = UINT64_C(1) << 26,
			.kind = EXTENT_LOG,
			.state = WIRE_EXTENT_OPEN };

		if (peer.answer == PEER_LIST_NO_SHARD)
			entry.extent |= UINT64_C(4096) << 50;
		else
			header->offset_bytes = num_max(msg->header->offset_bytes, 1);
		header->length_bytes = sizeof(entry);
		piece.bytes = sizeof(entry);
		dev_copy_from_host(peer.port, peer.text, &entry, sizeof(entry));
		split_msg_reply(msg, header, &piece, 1, NULL, NULL);
		return;
	}
	dev_copy_from_host(peer.port, peer.text, text, strlen(text));
	split_msg_reply(msg, header, &piece, has_text ? 1 : 0, NULL, NULL);
}

static void
peer_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < count; i++) {
		struct wire_header header = { .opcode = msgs[i]->header->opcode | WIRE_REPLY,
			.request_id = msgs[i]->header->request_id };

		peer.request_count++;
		if (peer.answer == PEER_SILENT) {
			split_msg_release(msgs[i]);
			continue;
		}
		if (peer.answer == PEER_WRONG_ID)
			header.request_id += 1000;
		if (peer.answer == PEER_WRONG_OPCODE)
			header.opcode = WIRE_EXTENT_TRUNCATE | WIRE_REPLY;
		if (peer.answer == PEER_ERROR_STATUS)
			header.status = CLEAVE_STATUS_NO_MEMORY;
		if (peer.answer == PEER_OTHER_OWNER)
			header.status = CLEAVE_STATUS_RIGHT;
		if (peer.answer == PEER_REQUEST) {
			struct peer_extra *extra =
			    &peer.extras[peer.request_count % NUM_COUNT(peer.extras)];

			extra->header = header;
			extra->header.opcode = WIRE_CONTROL;
			extra->piece =
			    (struct dev_piece){ peer.text, (uint32_t)strlen(peer_text()) };
			extra->send = (struct split_send){ .header = &extra->header,
				.header_bytes = WIRE_HEADER_BYTES,
				.pieces = &extra->piece,
				.piece_count = 1,
				.fn = peer_on_sent };
			(void)split_send(qp, &extra->send);
		}
		peer_answer_with(msgs[i], &header);
	}
}

static void
peer_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	(void)qp;
	(void)rc;
	(void)reason;
	(void)arg;
}

static const struct split_qp_ops peer_ops = { .on_messages = peer_on_messages,
	.on_closed = peer_on_closed };

static void
peer_on_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	uint8_t bytes[WIRE_HELLO_BYTES];
	struct wire_hello theirs;
	const char *field;

	(void)arg;
	cr_assert_eq(wire_hello_decode(hello, hello_bytes, &theirs, &field), 0);
	cr_assert_eq(theirs.role, WIRE_ROLE_GATEWAY);
	cr_assert_eq(theirs.cluster_id, MT_RIG_CLUSTER_ID);
	peer.accept_count++;
	peer.offered = theirs.level;
	if (peer.is_old && theirs.level != CLEAVE_LEVEL_MIN) {
		split_qp_reject(qp, -EPROTONOSUPPORT);
		return;
	}
	wire_hello_encode(bytes, &peer.hello);
	split_qp_accept(qp, &peer_ops, NULL, bytes, sizeof(bytes));
}

/* In the place of node 4, with which the rig was made and which does not run. */
static void
peer_start(enum peer_answer answer)
{
	struct split_port_options options = { .sim_host = rig->nodes[3].host, .receive_count = 64 };

	peer = (struct peer){ .host = rig->nodes[3].host, .answer = answer };
	peer.hello = (struct wire_hello){ .role = WIRE_ROLE_NODE,
		.node_id = 4,
		.cluster_id = MT_RIG_CLUSTER_ID };
	peer.loop = sim_loop_create(rig->world, "peer");
	options.loop = peer.loop;
	peer.port = open_roce_instance(&options);
	cr_assert_not_null(peer.port);
	peer.text = dev_alloc(peer.port, 4096);
	cr_assert_eq(split_listen(peer.port, rig->nodes[3].address, peer_on_accept, NULL, NULL), 0);
}

static void
peer_stop(void)
{
	sim_host_kill(peer.host, SIM_DEATH_RESET);
	loop_destroy(peer.loop);
	peer.port = NULL;
}

/* ---- the rig ---- */

static uint64_t wall_now_ms;

/* The gateway's clock on the wall. */
static uint64_t
wall_ms(void)
{
	return wall_now_ms;
}

static void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = 4 });
	rig->gateway_options.wall_ms = wall_ms;
	wall_now_ms = 1;
	mt_rig_log_start(rig);
	for (uint32_t i = 0; i < 3; i++)
		mt_rig_node_start(rig, i);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	mt_rig_run(rig, NUM_S(1));
	call_count = done_count = 0;
	memset(calls, 0, sizeof(calls));
}

static void
teardown(void)
{
	if (peer.port != NULL)
		peer_stop();
	mt_rig_destroy(rig);
}

TestSuite(node_link, .init = setup, .fini = teardown);

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

struct link_wait {
	uint32_t index;
	bool is_up;
};

static bool
link_is(void *arg)
{
	const struct link_wait *wait = arg;

	return mt_link_is_up(mt_rig_link(rig, wait->index)) == wait->is_up;
}

static void
wait_link(uint32_t index, bool is_up)
{
	struct link_wait wait = { index, is_up };

	cr_assert(mt_rig_run_until(rig, link_is, &wait));
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

static void
expect_refused(const char *text)
{
	mt_rig_log_clear(rig);
	mt_rig_run(rig, NUM_S(20));
	cr_assert_not(mt_link_is_up(mt_rig_link(rig, 3)));
	cr_assert(mt_rig_logged(rig, text), "%s", text);
	cr_assert_geq(peer.accept_count, 2, "not tried again");
}

Test(node_link, right_peer_is_taken)
{
	peer_start(PEER_RIGHT);
	wait_link(3, true);
	cr_assert_eq(mt_rig_link(rig, 3)->slots_free, 5);
}

Test(node_link, a_clock_on_the_wall_is_compared)
{
	peer_start(PEER_CLOCK);
	wall_now_ms = 1000000 - 30000;
	wait_link(3, true);
	cr_assert_leq(mt_rig_link(rig, 3)->clock_gap_ms, 30000);
	cr_assert_gt(mt_rig_link(rig, 3)->clock_gap_ms, 29000, "less the round trip");
	/* Asked anew, it is what it is then. */
	wall_now_ms = 1000000 + 30000;
	mt_rig_run(rig, NUM_S(2));
	mt_link_refresh(mt_rig_link(rig, 3));
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(mt_rig_link(rig, 3)->clock_gap_ms, -30000);
}

Test(node_link, a_node_that_tells_no_clock_has_none)
{
	wall_now_ms = 990000;
	peer_start(PEER_CLOCK_TEXT);
	wait_link(3, true);
	cr_assert_eq(mt_rig_link(rig, 3)->clock_gap_ms, 0);
	cr_assert_eq(mt_rig_link(rig, 1)->clock_gap_ms, 0, "of a release before");
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

Test(node_link, status_that_is_no_json)
{
	peer_start(PEER_NO_JSON);
	expect_refused("its status cannot be understood");
}

Test(node_link, a_key_for_tickets_that_is_none)
{
	struct wire_ticket ticket = { .volume_id = 1 };

	peer_start(PEER_NO_KEY);
	peer.hello.level = CLEAVE_LEVEL_READS;
	wait_link(3, true);
	mt_rig_run(rig, NUM_S(1));
	cr_assert(mt_rig_logged(rig, "tells no key for tickets"));
	cr_assert_eq(mt_link_ticket(mt_rig_link(rig, 3), 1, NULL, &ticket), -EAGAIN);
	cr_assert(mt_link_is_up(mt_rig_link(rig, 3)), "it serves all else");
}

Test(node_link, status_that_lacks_a_field)
{
	peer_start(PEER_LACKING_JSON);
	expect_refused("its status cannot be understood");
}

Test(node_link, status_that_contradicts_itself)
{
	peer_start(PEER_WRONG_JSON);
	expect_refused("its status cannot be understood");
}

Test(node_link, status_of_slots_that_no_disk_has)
{
	static const enum peer_answer answers[] = { PEER_SLOTS_WRAP, PEER_SLOTS_MANY,
		PEER_SLOTS_SMALL };

	for (uint32_t i = 0; i < NUM_COUNT(answers); i++) {
		if (i > 0) {
			teardown();
			setup();
		}
		peer_start(answers[i]);
		expect_refused("its status cannot be understood");
	}
}

Test(node_link, status_that_is_an_error)
{
	peer_start(PEER_ERROR_STATUS);
	expect_refused("its status cannot be understood");
}

Test(node_link, status_that_never_comes)
{
	peer_start(PEER_SILENT);
	expect_refused("a call was not answered in time");
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
