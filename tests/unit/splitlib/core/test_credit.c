/* SPDX-License-Identifier: Apache-2.0 */
/* test_credit.c -- no peer sends what has no receive, and none waits for ever */
#include <stdlib.h>

#include "support/sanitized.h"
#include "unit/credit_fixture.h"

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
}

TestSuite(credit, .init = setup, .timeout = 100);

static void
release_held(struct side *side, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		side_answer(side->held[i]);
	memmove(side->held, side->held + count, (side->held_count - count) * sizeof(side->held[0]));
	side->held_count -= count;
}

BOTH(credit, a_peer_sends_no_more_than_it_was_granted)
{
	struct split_port_options server = small_port(16, 64), client = small_port(256, 64);

	fixture_open(&f, kind, &server, &client);
	fixture_connect_both(&f);
	f.client.mode = SIDE_RELEASE;
	/* Three quarters of the pool for requests. */
	cr_assert_eq(f.client.qp->credits, 12);
	send_requests(&f.client, 0, 100);
	cr_assert_eq(f.client_port->counters.credit_waits, 88);
	fixture_run(&f, server_got, 12);
	fixture_idle(&f);
	cr_assert_eq(f.server.message_count, 12);
	cr_assert_eq(f.client.sent_count, 12);
	promises_check(f.server_port);
	/* As receives come back, more arrive, in order. */
	for (uint32_t got = 12; got < 100;) {
		uint32_t wanted =
		    (uint32_t)num_min(f.server.message_count + f.server.held_count, 100);

		release_held(&f.server, f.server.held_count);
		fixture_run(&f, server_got, wanted);
		promises_check(f.server_port);
		got = f.server.message_count;
	}
	release_held(&f.server, f.server.held_count);
	fixture_run(&f, client_got, 100);
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_eq(f.server.request_ids[i], i);
	cr_assert_eq(split_port_receives_free(f.server_port), 16);
	fixture_close(&f);
}

BOTH(credit, qp_credits_max_bounds_a_grant)
{
	struct split_port_options server = small_port(256, 5);

	fixture_open(&f, kind, &server, NULL);
	fixture_connect_both(&f);
	cr_assert_eq(f.client.qp->credits, 5);
	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_RELEASE;
	send_requests(&f.client, 0, 200);
	fixture_run(&f, client_got, 200);
	cr_assert_leq(f.client.qp->credits, 5);
	cr_assert_leq(f.server.qp->granted, 5);
	fixture_close(&f);
}

BOTH(credit, credits_ride_on_replies)
{
	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_RELEASE;
	for (uint32_t i = 0; i < 1000; i++) {
		send_requests(&f.client, i, 1);
		fixture_run(&f, client_got, i + 1);
	}
	cr_assert_eq(f.server_port->counters.credit_messages_out, 0);
	cr_assert_eq(f.client_port->counters.credit_messages_out, 0);
	fixture_close(&f);
}

BOTH(credit, half_used_credits_come_back_by_themselves)
{
	struct split_port_options server = small_port(256, 8);

	fixture_open(&f, kind, &server, NULL);
	fixture_connect_both(&f);
	/* Held, not answered: nothing for the credits to ride on. */
	send_requests(&f.client, 0, 3);
	fixture_run(&f, server_got, 3);
	fixture_idle(&f);
	cr_assert_eq(f.server_port->counters.credit_messages_out, 0);
	send_requests(&f.client, 3, 2);
	fixture_run(&f, server_got, 5);
	fixture_idle(&f);
	cr_assert_eq(f.server_port->counters.credit_messages_out, 1);
	cr_assert_eq(f.client.qp->credits, 8);
	fixture_close(&f);
}

/* The server side's own requests: it connected nobody, so it was granted nothing at first. */
BOTH(credit, an_acceptor_asks_before_its_first_request)
{
	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	cr_assert_eq(f.server.qp->credits, 0);
	f.client.mode = SIDE_ANSWER;
	f.server.mode = SIDE_RELEASE;
	send_requests(&f.server, 0, 300);
	fixture_run(&f, server_got, 300);
	/* Once, where time stands still meanwhile; a slow machine's TCP may have it ask again. */
	if (kind == NET_SIM)
		cr_assert_eq(f.server_port->counters.credit_messages_out, 1);
	else
		cr_assert_geq(f.server_port->counters.credit_messages_out, 1);
	fixture_close(&f);
}

BOTH(credit, replies_overtake_requests_that_wait)
{
	struct split_port_options small = small_port(8, 64);

	/* Both ends fill each other with requests, hold them, and only then answer. */
	fixture_open(&f, kind, &small, &small);
	fixture_connect_both(&f);
	send_requests(&f.client, 0, 50);
	send_requests(&f.server, 100, 50);
	fixture_idle(&f);
	promises_check(f.client_port);
	promises_check(f.server_port);
	cr_assert_gt(f.client.held_count, 0);
	cr_assert_gt(f.server.held_count, 0);
	f.client.mode = SIDE_ANSWER;
	f.server.mode = SIDE_ANSWER;
	release_held(&f.client, f.client.held_count);
	release_held(&f.server, f.server.held_count);
	fixture_run(&f, client_got, 100);
	fixture_run(&f, server_got, 100);
	fixture_idle(&f);
	cr_assert_eq(split_port_receives_free(f.client_port), 8);
	cr_assert_eq(split_port_receives_free(f.server_port), 8);
	fixture_close(&f);
}

BOTH(credit, a_request_waits_for_its_replys_receive)
{
	struct split_port_options server = small_port(256, 64), client = small_port(2, 64);

	fixture_open(&f, kind, &server, &client);
	fixture_connect_both(&f);
	f.client.mode = SIDE_RELEASE;
	send_requests(&f.client, 0, 20);
	fixture_idle(&f);
	cr_assert_eq(f.server.message_count, 2);
	promises_check(f.client_port);
	f.server.mode = SIDE_ANSWER;
	release_held(&f.server, 2);
	fixture_run(&f, client_got, 20);
	fixture_close(&f);
}

BOTH(credit, a_thousand_peers_share_a_small_pool)
{
	uint32_t count = MANY_MAX;

	if (kind == NET_VERBS)
		count = 48; /* software RDMA is slow */
	else if (fixture_is_sealed())
		count =
		    TEST_ROUNDS(MANY_MAX, MANY_MAX / 8); /* a handshake is 3 ms under a sanitizer */
	many_connect(count, 32, kind);
	fixture_run(&f, many_ready, count);
	promises_check(f.server_port);
	/* Most hold nothing; the first ones hold all and do nothing with it. */
	for (uint32_t round = 1; round <= 3; round++) {
		for (uint32_t i = 0; i < count; i++)
			send_requests(&many->sides[i], (round - 1) * count + i, 1);
		fixture_run(&f, many_got_each, round);
		promises_check(f.server_port);
	}
	fixture_idle(&f);
	cr_assert_eq(split_port_receives_free(f.server_port), 32);
	fixture_close(&f);
	free(many);
}

BOTH(credit, a_busy_peer_does_not_starve_a_new_one)
{
	many_connect(2, 8, kind);
	fixture_run(&f, many_ready, 2);
	/* The first keeps its queue full for ever. */
	send_requests(&many->sides[0], 0, 1000);
	send_requests(&many->sides[1], 1000, 10);
	fixture_run(&f, many_got_each, 10);
	cr_assert_lt(many->sides[0].message_count, 900, "%u", many->sides[0].message_count);
	fixture_close(&f);
	free(many);
}

enum { LITTLE_FIRST = 2000 }; /* request ids of who has little under way */

/* Answers all that is held of it, and the oldest of the others'. Returns how many. */
static uint32_t
answer_as_by_priority(struct side *side)
{
	uint32_t kept = 0, answered = 0, others = 0;

	for (uint32_t i = 0; i < side->held_count; i++) {
		if (side->held[i]->header->request_id >= LITTLE_FIRST || others++ == 0) {
			side_answer(side->held[i]);
			answered++;
		} else {
			side->held[kept++] = side->held[i];
		}
	}
	side->held_count = kept;
	return answered;
}

/*
 * A peer that is answered soon has little under way, and must not wait for receives behind those who have much, which say
 * WANT when a round takes @pause_ns.
 */
static void
little_goes_first(enum net_kind kind, uint64_t pause_ns)
{
	enum { ROUNDS = 50, SPANS_MAX = 10 };
	uint32_t got = 0;
	struct side *little;

	many_connect(8, 64, kind);
	fixture_run(&f, many_ready, 8);
	f.server.mode = SIDE_HOLD;
	little = &many->sides[7];
	for (uint32_t i = 0; i < 7; i++)
		send_requests(&many->sides[i], 200 * i, 100);
	send_requests(little, LITTLE_FIRST, 1000);
	fixture_run(&f, server_got, 48);
	/*
	 * By turns, and by asking when it has none, it gets one a round; half of its share is three. All receives may be
	 * with others at first, and how soon they come back is the network's affair.
	 */
	for (uint32_t span = 0; span < SPANS_MAX && got <= 3 * ROUNDS / 2; span++) {
		got = little->message_count;
		for (uint32_t round = 0; round < ROUNDS; round++) {
			uint32_t before = f.server.message_count;

			if (pause_ns > 0)
				(void)fixture_run_for(&f, never, 0, pause_ns);
			fixture_run(&f, server_got, before + answer_as_by_priority(&f.server));
		}
		got = little->message_count - got;
	}
	cr_assert_gt(got, 3 * ROUNDS / 2, "%u", got);
	promises_check(f.server_port);
	fixture_close(&f);
	free(many);
}

BOTH(credit, who_has_less_than_half_of_its_share_goes_first)
{
	little_goes_first(kind, 0);
}

BOTH(credit, who_has_little_goes_before_those_who_have_much_and_ask)
{
	little_goes_first(kind, NUM_MS(2));
}

enum { LASTS_LONG = 3000 }; /* a request that is worked at for long */

/* Answers all that is held but for that. Returns how many. */
static uint32_t
answer_what_is_short(struct side *side)
{
	uint32_t kept = 0, answered = 0;

	for (uint32_t i = 0; i < side->held_count; i++) {
		if (side->held[i]->header->request_id >= LASTS_LONG) {
			side->held[kept++] = side->held[i];
		} else {
			side_answer(side->held[i]);
			answered++;
		}
	}
	side->held_count = kept;
	return answered;
}

static uint32_t
count_long(const struct side *side)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < side->held_count; i++)
		count += side->held[i]->header->request_id >= LASTS_LONG;
	return count;
}

/* Is request number @count of those that last long there, soon? */
static bool
long_comes(uint32_t count)
{
	enum { ROUNDS = 100 };

	for (uint32_t round = 0; round < ROUNDS && count_long(&f.server) < count; round++) {
		uint32_t before = f.server.message_count;
		uint32_t answered = answer_what_is_short(&f.server);

		(void)fixture_run_for(&f, never, 0, NUM_MS(2)); /* whoever has none says WANT */
		fixture_run(&f, server_got, before + answered);
	}
	return count_long(&f.server) == count;
}

/*
 * More peers than receives: each may have one, and there is always one that has none at work. A peer whose one request
 * lasts long has its turn all the same.
 */
BOTH(credit, who_has_much_gets_on_beside_many_who_have_little)
{
	enum { PEERS = 16, EACH = 150 };
	struct side *slow;

	many_connect(PEERS, 8, kind);
	fixture_run(&f, many_ready, PEERS);
	f.server.mode = SIDE_HOLD;
	slow = &many->sides[PEERS - 1];
	for (uint32_t i = 0; i < PEERS - 1; i++)
		send_requests(&many->sides[i], EACH * i, EACH);
	fixture_run(&f, server_got, 6);
	send_requests(slow, LASTS_LONG, 1);
	cr_assert(long_comes(1));
	send_requests(slow, LASTS_LONG + 1, 1);
	cr_assert(long_comes(2));
	promises_check(f.server_port);
	fixture_close(&f);
	free(many);
}

BOTH(credit, idle_credits_are_recalled_from_a_live_peer)
{
	many_connect(1, 8, kind);
	fixture_run(&f, many_ready, 1);
	cr_assert_eq(many->sides[0].qp->credits, 6); /* all there is */
	many->count = 2;
	{
		struct split_connect_options options = { .peer_roles = FIXTURE_ROLES,
			.address = f.address,
			.ops = &many_ops,
			.arg = &many->sides[1] };

		many->sides[1].mode = SIDE_RELEASE;
		many->sides[1].qp = connect_qp(f.client_port, &options);
	}
	fixture_run(&f, many_ready, 2);
	cr_assert_eq(many->sides[1].qp->credits, 0);
	send_requests(&many->sides[1], 0, 1);
	send_requests(&many->sides[0], 1, 1);
	fixture_run(&f, many_got_each, 1);
	/* And back. */
	send_requests(&many->sides[0], 2, 20);
	send_requests(&many->sides[1], 30, 20);
	fixture_run(&f, many_got_each, 21);
	fixture_close(&f);
	free(many);
}

/* The first is filled up as soon as there is something, and needs it no more: who has asked goes first. */
BOTH(credit, what_a_peer_has_is_recalled_though_it_waits_for_more)
{
	/* The share is as large as one alone could have: who is silent for long would give nothing back. */
	many_connect_to(small_port(8, 3), 2, kind);
	fixture_run(&f, many_ready, 2);
	cr_assert_eq(f.server_port->credits.granted_count, 6);
	f.server.mode = SIDE_HOLD;
	send_requests(&many->sides[0], 0, 2);
	fixture_run(&f, server_got, 2);
	send_requests(&many->sides[1], 10, 10);
	fixture_run(&f, server_got, 6); /* all that requests may have, though none is answered */
	cr_assert_eq(many->sides[0].qp->credits, 0);
	promises_check(f.server_port);
	fixture_close(&f);
	free(many);
}

BOTH(credit, promises_end_with_their_queue_pair)
{
	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	send_requests(&f.client, 0, 40);
	send_requests(&f.server, 100, 40);
	fixture_idle(&f);
	split_qp_close(f.client.qp);
	fixture_run(&f, client_closed, 0);
	fixture_run(&f, server_closed, 0);
	cr_assert_eq(f.client_port->credits.granted_count, 0);
	cr_assert_eq(f.client_port->credits.reserved_count, 0);
	cr_assert_eq(f.server_port->credits.granted_count, 0);
	cr_assert_eq(f.server_port->credits.reserved_count, 0);
	cr_assert_eq(f.client_port->credits.granting_qp_count, 0);
	for (uint32_t i = 0; i < f.server.held_count; i++)
		split_msg_release(f.server.held[i]);
	for (uint32_t i = 0; i < f.client.held_count; i++)
		split_msg_release(f.client.held[i]);
	cr_assert_eq(f.server_port->credits.held_requests_count, 0);
	cr_assert_eq(split_port_receives_free(f.server_port), 256);
	cr_assert_eq(split_port_receives_free(f.client_port), 256);
	fixture_close(&f);
}

BOTH(credit, a_pool_of_one_is_made_two)
{
	struct split_port_options one = small_port(1, 64);

	fixture_open(&f, kind, &one, &one);
	fixture_connect_both(&f);
	cr_assert_eq(split_port_receives_free(f.server_port), 2);
	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_ANSWER;
	send_requests(&f.client, 0, 20);
	send_requests(&f.server, 100, 20);
	fixture_run(&f, client_got, 40);
	fixture_run(&f, server_got, 40);
	fixture_close(&f);
}
