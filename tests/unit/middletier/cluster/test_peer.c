/* SPDX-License-Identifier: Apache-2.0 */
/* test_peer.c -- one gateway asks another: every way in which the answer comes, or does not */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/num.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "middletier/cluster/peer.h"
#include "middletier/common/alloc.h"
#include "middletier/common/port.h"
#include "middletier/gateway/gateway.h"
#include "splitlib/sim/loop_sim.h"
#include "support/sim_gateway.h"

#define ADDRESS "sim://client:9000"
#define TIMEOUT_NS NUM_S(3)

enum manner {
	ANSWERS,
	FAILS,    /* with a status, and a text */
	GARBLES,  /* what comes is no answer */
	REJECTS,  /* the connection */
	HANGS_UP, /* when it is asked */
	IS_SILENT
};

/* The other gateway, on the client's port. */
static struct {
	enum manner manner;
	struct split_qp *qp;
	struct split_send send;
	uint8_t message[256];
	char asked[256];
	uint32_t ended_count;
} peer;

static struct sg sg;
static struct mt_peer_call call;
static uint32_t told_count;

static void
peer_on_sent(struct split_send *send, int rc, void *arg)
{
	(void)send;
	(void)rc;
	(void)arg;
}

static void
peer_answer(const struct split_msg *msg)
{
	static const char text[] = "{\"error\":\"it is so\"}";
	struct wire_header *header = (struct wire_header *)(void *)peer.message;

	*header = (struct wire_header){ .opcode = WIRE_CONTROL |
		    (peer.manner == GARBLES ? 0 : WIRE_REPLY),
		.status = peer.manner == FAILS ? status_from_errno(-EAGAIN) : 0,
		.request_id = msg->header->request_id };
	memcpy(peer.message + WIRE_HEADER_BYTES, text, sizeof(text) - 1);
	peer.send = (struct split_send){ .header = header,
		.header_bytes = WIRE_HEADER_BYTES + sizeof(text) - 1,
		.fn = peer_on_sent };
	cr_assert_eq(split_send(peer.qp, &peer.send), 0);
}

static void
peer_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t bytes = msgs[i]->payload_bytes;

		cr_assert_lt(bytes, sizeof(peer.asked));
		dev_copy_to_host(sg.client, peer.asked, msgs[i]->payload, bytes);
		peer.asked[bytes] = '\0';
		if (peer.manner == HANGS_UP)
			split_qp_close(qp);
		else if (peer.manner != IS_SILENT)
			peer_answer(msgs[i]);
		split_msg_release(msgs[i]);
	}
}

static void
peer_on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	(void)qp;
	(void)hello;
	(void)hello_bytes;
	(void)arg;
}

static void
peer_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	(void)qp;
	(void)rc;
	(void)reason;
	(void)arg;
	peer.qp = NULL;
	peer.ended_count++;
}

static const struct split_qp_ops peer_ops = { .on_ready = peer_on_ready,
	.on_messages = peer_on_messages,
	.on_closed = peer_on_closed };

static void
peer_on_accept(struct split_qp *qp, const void *bytes, uint32_t count, void *arg)
{
	struct wire_hello hello, ours = { .role = WIRE_ROLE_GATEWAY, .cluster_id = SG_CLUSTER_ID };
	uint8_t out[WIRE_HELLO_BYTES];
	const char *field;

	(void)arg;
	cr_assert_eq(wire_hello_decode(bytes, count, &hello, &field), 0);
	cr_assert_eq(hello.cluster_id, SG_CLUSTER_ID);
	if (peer.manner == REJECTS) {
		split_qp_reject(qp, -EACCES);
		return;
	}
	peer.qp = qp;
	wire_hello_encode(out, &ours);
	split_qp_accept(qp, &peer_ops, NULL, out, sizeof(out));
}

static void
setup(void)
{
	sg_init(&sg, 5);
	memset(&peer, 0, sizeof(peer));
	memset(&call, 0, sizeof(call));
	told_count = 0;
	cr_assert_eq(split_listen(sg.client, ADDRESS, peer_on_accept, NULL, NULL), 0);
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_S(1));
}

static void
teardown(void)
{
	mt_free(call.reply);
	sg_fini(&sg);
}

TestSuite(peer, .init = setup, .fini = teardown);

static void
on_told(struct mt_peer_call *told, void *arg)
{
	cr_assert_eq(told, &call);
	cr_assert_eq(arg, &sg);
	cr_assert_not(call.is_out);
	told_count++;
}

static bool
is_told(void *arg)
{
	(void)arg;
	return told_count > 0;
}

static void
ask(const char *address, const char *text)
{
	cr_assert_eq(mt_peer_call(sg.gateway, &call, address, text, on_told, &sg), 0);
	cr_assert(call.is_out);
	cr_assert_eq(told_count, 0, "a callback inside the call that caused it");
}

/* The rc that the call ends with, no later than it may. */
static int
ask_wait(enum manner manner)
{
	uint64_t begin_ns = sim_world_now_ns(sg.world);

	peer.manner = manner;
	ask(ADDRESS, "{\"op\":\"status\"}");
	cr_assert(sg_run(&sg, is_told, NULL));
	cr_assert_leq(sim_world_now_ns(sg.world), begin_ns + TIMEOUT_NS + NUM_S(1));
	sg_run_for(&sg, NUM_S(10));
	cr_assert_eq(told_count, 1);
	cr_assert_null(peer.qp, "a connection is left");
	cr_assert(list_is_empty(&sg.gateway->ports[0].peer_calls));
	return call.rc;
}

Test(peer, an_answer_comes_with_its_text)
{
	cr_assert_eq(ask_wait(ANSWERS), 0);
	cr_assert_str_eq(call.reply, "{\"error\":\"it is so\"}");
	cr_assert_str_eq(peer.asked, "{\"op\":\"status\"}");
}

Test(peer, a_refusal_comes_with_its_text)
{
	cr_assert_eq(ask_wait(FAILS), -EAGAIN);
	cr_assert_str_eq(call.reply, "{\"error\":\"it is so\"}");
}

Test(peer, a_gateway_can_ask_itself)
{
	ask("sim://gateway:7100", "{\"op\":\"map\"}");
	cr_assert(sg_run(&sg, is_told, NULL));
	cr_assert_eq(call.rc, 0, "%d", call.rc);
	cr_assert_not_null(call.reply);
}

Test(peer, what_is_no_answer_is_a_protocol_error)
{
	cr_assert_eq(ask_wait(GARBLES), -EPROTO);
	cr_assert_null(call.reply);
}

Test(peer, one_that_hangs_up_has_not_answered)
{
	cr_assert_eq(ask_wait(HANGS_UP), -ECONNRESET);
	cr_assert_null(call.reply);
}

Test(peer, one_that_wants_no_connection_has_not_answered)
{
	cr_assert_lt(ask_wait(REJECTS), 0);
	cr_assert_null(call.reply);
}

Test(peer, one_that_is_silent_is_given_up)
{
	cr_assert_eq(ask_wait(IS_SILENT), -ETIMEDOUT);
	cr_assert_null(call.reply);
}

Test(peer, nobody_there_is_told)
{
	ask("sim://client:9001", "{\"op\":\"status\"}");
	cr_assert(sg_run(&sg, is_told, NULL));
	cr_assert_eq(call.rc, -ECONNREFUSED);
}

Test(peer, an_address_that_is_none_is_told)
{
	ask("nonsense", "{\"op\":\"status\"}");
	cr_assert(sg_run(&sg, is_told, NULL));
	cr_assert_lt(call.rc, 0);
	cr_assert_null(call.reply);
}

Test(peer, a_call_may_be_used_again)
{
	cr_assert_eq(ask_wait(IS_SILENT), -ETIMEDOUT);
	told_count = 0;
	cr_assert_eq(ask_wait(ANSWERS), 0);
}

Test(peer, a_text_that_is_too_long_is_refused)
{
	static char text[SPLIT_HEADER_BYTES_MAX];

	memset(text, ' ', sizeof(text) - 1);
	cr_assert_eq(mt_peer_call(sg.gateway, &call, ADDRESS, text, on_told, &sg), -EMSGSIZE);
	cr_assert_not(call.is_out);
}

Test(peer, without_memory_for_the_request_it_is_refused)
{
	mt_alloc_fail_at(1);
	cr_assert_eq(mt_peer_call(sg.gateway, &call, ADDRESS, "{}", on_told, &sg), -ENOMEM);
	mt_alloc_fail_at(0);
	cr_assert_not(call.is_out);
	sg_run_for(&sg, NUM_S(10));
	cr_assert_eq(told_count, 0);
}

Test(peer, without_memory_for_the_answer_it_is_an_error)
{
	peer.manner = IS_SILENT;
	ask(ADDRESS, "{\"op\":\"status\"}");
	sg_run_for(&sg, NUM_S(1));
	cr_assert_not_null(peer.qp);
	peer.manner = ANSWERS;
	/* The answer is the first of all that allocates now. */
	mt_alloc_fail_at(1);
	peer_answer(&(struct split_msg){ .header = &(struct wire_header){ .request_id = 1 } });
	cr_assert(sg_run(&sg, is_told, NULL));
	mt_alloc_fail_at(0);
	cr_assert(call.rc == -ENOMEM, "%d", call.rc);
	cr_assert_null(call.reply);
}

static void
on_stopped(void *arg)
{
	(void)arg;
}

Test(peer, a_gateway_that_stops_asks_nobody)
{
	peer.manner = IS_SILENT;
	ask(ADDRESS, "{\"op\":\"status\"}");
	sg_run_for(&sg, NUM_S(1));
	mt_gateway_stop(sg.gateway, on_stopped, NULL);
	cr_assert(sg_run(&sg, is_told, NULL));
	cr_assert_eq(call.rc, -ESHUTDOWN);
	cr_assert_eq(mt_peer_call(sg.gateway, &call, ADDRESS, "{}", on_told, &sg), -ESHUTDOWN);
	sg_kill(&sg);
}

/* Asked, and stopped before the port has heard of it. */
Test(peer, a_port_that_stops_first_gives_the_call_back)
{
	ask(ADDRESS, "{\"op\":\"status\"}");
	sg.gateway->ports[0].sm.state = MT_PORT_STOPPING;
	cr_assert(sg_run(&sg, is_told, NULL));
	sg.gateway->ports[0].sm.state = MT_PORT_RUNNING;
	cr_assert_eq(call.rc, -ESHUTDOWN);
}

/* kill -9: no callback, and nothing is left (address sanitizer). */
Test(peer, a_gateway_that_dies_forgets_its_calls)
{
	peer.manner = IS_SILENT;
	ask(ADDRESS, "{\"op\":\"status\"}");
	sg_run_for(&sg, NUM_S(1));
	sg_kill(&sg);
	cr_assert_eq(told_count, 0);
	cr_assert_null(call.message);
}
