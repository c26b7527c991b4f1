/* SPDX-License-Identifier: Apache-2.0 */
/* test_peer_link.c -- a link to another gateway: whom it believes, and that it comes again */
#include "middletier/extent/peer_link.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cleave/level.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "middletier/common/port.h"
#include "middletier/common/settings.h"
#include "splitlib/core/port.h"
#include "splitlib/sim/loop_sim.h"
#include "splitlib/sim/sim_net.h"
#include "unit/time_passes.h"

#define CLUSTER 7u
#define AGAIN_NS NUM_S(61) /* whoever was refused as a stranger is asked again by then */

static struct sim_world *world;
static struct sim_net *net;
static struct loop *loops[2];
static struct split_port *theirs;
static struct mt_settings settings;
static struct mt_port port;
static struct mt_peer_request request;
static uint8_t message[WIRE_HEADER_BYTES];
static uint64_t their_cluster; /* that the peer says it is of */
static uint32_t end_count;
static int end_rc;

/* The peer says nothing, but to the first request, as if that were another one. */
#define MANY 60u             /* more than it takes */
static uint64_t answered_as; /* 0: it answers all */
static struct split_qp *their_qp;
static struct split_msg *held[MANY];
static uint32_t held_count;

static void
peer_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	(void)qp;
	(void)arg;
	for (uint32_t i = 0; i < count; i++) {
		struct wire_header header = { .opcode = WIRE_JOB_LOAD | WIRE_REPLY,
			.request_id = msgs[i]->header->request_id };

		if (answered_as != 0 && header.request_id != 1) {
			held[held_count++] = msgs[i];
			continue;
		}
		if (answered_as != 0)
			header.request_id = answered_as;
		split_msg_reply(msgs[i], &header, NULL, 0, NULL, NULL);
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
	const struct wire_hello ours = { .level = CLEAVE_LEVEL_MAX,
		.role = WIRE_ROLE_GATEWAY,
		.cluster_id = their_cluster };
	uint8_t bytes[WIRE_HELLO_BYTES];

	(void)hello;
	(void)hello_bytes;
	(void)arg;
	their_qp = qp;
	wire_hello_encode(bytes, &ours);
	split_qp_accept(qp, &peer_ops, NULL, bytes, sizeof(bytes));
}

static struct split_port *
port_open(uint32_t index, const char *host)
{
	const struct split_port_options options = { .loop = loops[index],
		.sim_host = sim_host_create(net, host),
		.device_bytes = NUM_MIB(8),
		.receive_count = 64,
		.qp_credits_max = 16 };
	struct split_port *opened = open_roce_instance(&options);

	cr_assert_not_null(opened);
	return opened;
}

static void
setup(void)
{
	world = sim_world_create(1);
	net = sim_net_create(world);
	loops[0] = sim_loop_create(world, "ours");
	loops[1] = sim_loop_create(world, "theirs");
	settings = (struct mt_settings){ .cluster_id = CLUSTER };
	port = (struct mt_port){ .loop = loops[0],
		.settings = &settings,
		.split = port_open(0, "ours") };
	theirs = port_open(1, "peer");
	cr_assert_eq(split_listen(theirs, "sim://peer:1", peer_on_accept, NULL, NULL), 0);
	cr_assert_eq(mt_peer_links_init(&port), 0);
	their_cluster = CLUSTER;
	answered_as = end_count = held_count = 0;
}

static bool
is_quiet(void *arg)
{
	(void)arg;
	return mt_peer_links_are_quiet(&port);
}

static void
teardown(void)
{
	mt_peer_links_stop(&port);
	cr_assert_eq(sim_world_run(world, is_quiet, NULL, sim_world_now_ns(world) + NUM_S(60)), 0);
	mt_peer_links_fini(&port);
	split_port_close(port.split);
	split_port_close(theirs);
	sim_net_destroy(net);
	sim_world_destroy(world);
}

TestSuite(peer_link, .init = setup, .fini = teardown);

static void
on_end(struct mt_peer_request *ended, int rc, struct split_msg *msg, void *arg)
{
	(void)arg;
	cr_assert_eq(ended, &request);
	cr_assert_eq(rc == 0, msg != NULL);
	end_count++;
	end_rc = rc;
}

static bool
has_ended(void *arg)
{
	(void)arg;
	return end_count > 0;
}

/* A request's end, or why there is none. */
static int
ask(void)
{
	const struct wire_header header = { .opcode = WIRE_JOB_LOAD };
	int rc;

	end_count = 0;
	memcpy(message, &header, sizeof(header));
	request = (struct mt_peer_request){ .message = message,
		.message_bytes = sizeof(message),
		.fn = on_end };
	rc = mt_peer_link_send(mt_peer_link_to(&port, "sim://peer:1"), &request);
	if (rc != 0)
		return rc;
	cr_assert_eq(sim_world_run(world, has_ended, NULL, sim_world_now_ns(world) + NUM_S(60)), 0);
	return end_rc;
}

Test(peer_link, a_gateway_of_our_cluster_answers)
{
	cr_assert_eq(ask(), 0);
	cr_assert_eq(ask(), 0);
}

/* As one of an older release is, which may be a newer one by then. */
Test(peer_link, who_was_refused_is_asked_again_later)
{
	their_cluster = CLUSTER + 1;
	cr_assert_eq(ask(), -EPROTONOSUPPORT);
	cr_assert_eq(ask(), -ENOTCONN, "before its time");
	their_cluster = CLUSTER;
	time_passes(world, port.loop, AGAIN_NS);
	cr_assert_eq(ask(), 0);
}

/* ---- a peer that guesses at requests ---- */

static struct mt_peer_request many[MANY];
static uint8_t messages[MANY][WIRE_HEADER_BYTES];

static void
on_one_of_many_end(struct mt_peer_request *ended, int rc, struct split_msg *msg, void *arg)
{
	(void)ended;
	(void)rc;
	(void)msg;
	(void)arg;
	end_count++;
}

static bool
last_has_answer(void *arg)
{
	(void)arg;
	return many[MANY - 1].answer != NULL;
}

/* The last one waits for the peer to take more, and has an answer already. */
Test(peer_link, an_answer_to_what_was_not_sent_goes_with_it)
{
	uint32_t free_count = port.split->pool.free_count;

	answered_as = MANY;
	for (uint32_t i = 0; i < MANY; i++) {
		const struct wire_header header = { .opcode = WIRE_JOB_LOAD };

		memcpy(messages[i], &header, sizeof(header));
		many[i] = (struct mt_peer_request){ .message = messages[i],
			.message_bytes = sizeof(messages[i]),
			.fn = on_one_of_many_end };
		cr_assert_eq(mt_peer_link_send(mt_peer_link_to(&port, "sim://peer:1"), &many[i]),
		    0);
	}
	cr_assert_eq(sim_world_run(world, last_has_answer, NULL,
			 sim_world_now_ns(world) + NUM_S(60)),
	    0);
	cr_assert_not(many[MANY - 1].is_sent);
	cr_assert(mt_peer_link_forget(&many[MANY - 1]));
	cr_assert_eq(port.split->pool.free_count, free_count);
	for (uint32_t i = 0; i < held_count; i++)
		split_msg_release(held[i]);
}

/* ---- more addresses than a port keeps links for ---- */

/* The first to end asks for a link to somebody new. */
static void
on_end_of_two(struct mt_peer_request *ended, int rc, struct split_msg *msg, void *arg)
{
	(void)rc;
	(void)msg;
	(void)arg;
	if (end_count++ == 0)
		(void)mt_peer_link_to(&port, "sim://somebody-new:1");
	cr_assert(ended == &many[0] || ended == &many[1]);
}

static bool
two_have_ended(void *arg)
{
	(void)arg;
	return end_count == 2;
}

static bool
are_two_held(void *arg)
{
	(void)arg;
	return held_count == 2;
}

Test(peer_link, a_link_is_nobody_elses_while_its_requests_end)
{
	char address[SPLIT_ADDRESS_BYTES_MAX];

	cr_assert_eq(ask(), 0); /* the peer holds what comes behind the first */
	answered_as = 1;
	for (uint32_t i = 1; i < MT_GATEWAYS_MAX; i++) {
		(void)snprintf(address, sizeof(address), "sim://nobody-%u:1", i);
		cr_assert_not_null(mt_peer_link_to(&port, address));
	}
	for (uint32_t i = 0; i < 2; i++) {
		const struct wire_header header = { .opcode = WIRE_JOB_LOAD };

		memcpy(messages[i], &header, sizeof(header));
		many[i] = (struct mt_peer_request){ .message = messages[i],
			.message_bytes = sizeof(messages[i]),
			.fn = on_end_of_two };
		cr_assert_eq(mt_peer_link_send(mt_peer_link_to(&port, "sim://peer:1"), &many[i]),
		    0);
	}
	end_count = 0;
	cr_assert_eq(sim_world_run(world, are_two_held, NULL, sim_world_now_ns(world) + NUM_S(60)),
	    0);
	split_qp_close(their_qp);
	cr_assert_eq(sim_world_run(world, two_have_ended, NULL,
			 sim_world_now_ns(world) + NUM_S(60)),
	    0);
	for (uint32_t i = 0; i < held_count; i++)
		split_msg_release(held[i]);
}
