/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transport_tcp_turn.c -- how much a turn of the loop reads
 *
 * Three queue pairs have a message each before the loop looks, and each message takes its handler longer than a turn may
 * read answers. One loop has both ports, so the tests see to it with poll(2) that everything is there.
 */
#include <poll.h>

#include "splitlib/core/port.h"
#include "splitlib/tcp/tcp.h"
#include "unit/split_fixture.h"

#define QPS 3u
#define SLOW_NS NUM_MS(1) /* many times what a turn may read answers for */

static struct fixture f;
static struct loop_turn_end turn_hook;
static uint32_t turn;
static uint32_t turns[QPS]; /* of the messages, in the order in which they came */
static uint32_t slow_count;
static struct test_send sends[QPS];

static void
on_turn_end(struct loop_turn_end *hook, void *arg)
{
	(void)hook;
	(void)arg;
	turn++;
}

static void
slow_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	uint64_t from_ns = loop_now_fresh_ns(f.client_loop);

	cr_assert_eq(count, 1);
	cr_assert_lt(slow_count, QPS);
	turns[slow_count++] = turn;
	side_on_messages(qp, msgs, count, arg);
	while (loop_now_fresh_ns(f.client_loop) - from_ns < SLOW_NS)
		continue;
}

static const struct split_qp_ops slow_ops = {
	.on_ready = side_on_ready,
	.on_messages = slow_on_messages,
	.on_closed = side_on_closed,
};

static bool
all_ready(struct fixture *fixture, uint64_t wanted)
{
	return fixture->client.ready_count >= wanted && fixture->server.ready_count >= wanted;
}

static bool
turn_has_ended(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return turn >= wanted;
}

/* Returns when each queue pair of @port has something to read. */
static void
wait_readable(const struct split_port *port)
{
	uint32_t count = 0;

	for (const struct loop_link *link = port->qps.next; link != &port->qps; link = link->next) {
		const struct split_qp *qp = LIST_ENTRY(link, struct split_qp, link);
		const struct tcp_qp *tcp = qp->transport;
		struct pollfd wanted = { .fd = tcp->watcher.fd, .events = POLLIN };

		cr_assert_eq(poll(&wanted, 1, 60000), 1);
		count++;
	}
	cr_assert_eq(count, QPS);
}

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
	turn = slow_count = 0;
}

TestSuite(transport_tcp_turn, .init = setup, .timeout = 100);

/* Three queue pairs; a request has left on each, and is there. */
static void
ask_three(const struct split_qp_ops *client_ops)
{
	struct split_qp *qps[QPS];

	fixture_open(&f, NET_TCP, NULL, NULL);
	for (uint32_t i = 0; i < QPS; i++) {
		qps[i] = fixture_connect(&f, client_ops);
		fixture_run(&f, all_ready, i + 1);
	}
	fixture_idle(&f); /* credits are told */
	loop_turn_end_add(f.client_loop, &turn_hook, on_turn_end, NULL);
	for (uint32_t i = 0; i < QPS; i++) {
		test_send_init(&sends[i], &f.client, WIRE_WRITE, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(qps[i], &sends[i].send), 0);
	}
	fixture_run(&f, client_sent, QPS);
	wait_readable(f.server_port);
}

static void
end(void)
{
	loop_turn_end_remove(f.client_loop, &turn_hook);
	fixture_close(&f);
}

Test(transport_tcp_turn, answers_that_take_long_wait_for_the_next_turn_and_no_longer)
{
	ask_three(&slow_ops);
	fixture_run(&f, server_got, QPS);
	cr_assert_eq(slow_count, 0);
	for (uint32_t i = 0; i < QPS; i++)
		side_answer(f.server.held[i]);
	/* The turn that this makes sends them; they are looked at in the one behind it. */
	fixture_run(&f, turn_has_ended, turn + 1);
	wait_readable(f.client_port);
	fixture_run(&f, client_got, QPS);
	cr_assert_eq(turns[1], turns[0] + 1);
	cr_assert_eq(turns[2], turns[0] + 1);
	end();
}

Test(transport_tcp_turn, requests_are_all_read)
{
	f.server_ops = &slow_ops;
	ask_three(&side_ops);
	fixture_run(&f, server_got, QPS);
	cr_assert_eq(turns[1], turns[0]);
	cr_assert_eq(turns[2], turns[0]);
	for (uint32_t i = 0; i < QPS; i++)
		side_answer(f.server.held[i]);
	fixture_run(&f, client_got, QPS);
	end();
}
