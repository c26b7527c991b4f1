/* SPDX-License-Identifier: Apache-2.0 */
/* test_credit_idle.c -- who is silent holds no receives that others need, and gets some when it wakes */
#include <stdlib.h>

#include "unit/credit_fixture.h"

/* Three quarters of 32 receives are for requests: enough for three queue pairs. */
enum { PEERS = 6, RECEIVES = 32, CREDITS_MAX = 8, FULL = 3 };
#define BUSY (&many->sides[PEERS - 1])
#define CREDIT_MESSAGES(port) ((port)->counters.credit_messages_out)

/* A server that takes its time to answer: what peers have in flight is mostly there. */
#define SERVICE_NS NUM_US(300)

static struct {
	struct loop_timer timer;
	struct split_msg *held[2048];
	uint32_t held_count, closed_count;
} server;

static void
server_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
	while (server.held_count > 0)
		side_answer(server.held[--server.held_count]);
	promises_check(f.server_port);
}

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
	memset(&server, 0, sizeof(server));
	loop_timer_init(&server.timer, server_on_timer, NULL);
}

TestSuite(credit_idle, .init = setup, .timeout = 100);

static void
server_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	(void)qp;
	(void)arg;
	for (uint32_t i = 0; i < count; i++)
		server.held[server.held_count++] = msgs[i];
	if (!server.timer.is_active)
		loop_timer_start(f.server_loop, &server.timer, SERVICE_NS);
}

static void
server_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	(void)qp;
	(void)arg;
	cr_assert_neq(rc, -EPROTO, "%s", reason);
	server.closed_count++;
}

static const struct split_qp_ops server_ops = {
	.on_messages = server_on_messages,
	.on_closed = server_on_closed,
};

static uint32_t
awake_count(void)
{
	return f.server_port->credits.awake_count;
}

/* The server's end of who was heard last. */
static const struct split_qp *
heard_last(void)
{
	return LIST_ENTRY(f.server_port->credits.awake.prev, struct split_qp, awake_link);
}

static bool
awake_are(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return awake_count() == wanted;
}

static bool
heard_last_holds(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return heard_last()->granted == wanted;
}

static bool
server_told(struct fixture *fixture, uint64_t wanted)
{
	return CREDIT_MESSAGES(fixture->server_port) >= wanted;
}

static bool
server_closed_are(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return server.closed_count >= wanted;
}

static bool
busy_is_answered(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	(void)wanted;
	return BUSY->qp->replies_expected == 0 && list_is_empty(&BUSY->qp->credit_wait);
}

static struct side *awaited;

static bool
awaited_got(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return awaited->message_count >= wanted;
}

/* All have sent and hold their share, a third of what one alone would get. */
static void
peers_open(enum net_kind kind)
{
	f.server_ops = &server_ops;
	many_connect_to(small_port(RECEIVES, CREDITS_MAX), PEERS, kind);
	fixture_run(&f, many_ready, PEERS);
	for (uint32_t round = 1; round <= CREDITS_MAX; round++) {
		for (uint32_t i = 0; i < PEERS; i++)
			send_requests(&many->sides[i], round * PEERS + i, 1);
		fixture_run(&f, many_got_each, round);
	}
	/* On a slow machine some were recalled meanwhile, for others that had to wait. */
	for (uint32_t i = 0; i < 20 * PEERS; i++) {
		awaited = &many->sides[i % PEERS];
		if (awaited->qp->credits > 0)
			continue;
		send_requests(awaited, 200 + i, 1);
		fixture_run(&f, awaited_got, awaited->message_count + 1);
	}
	send_requests(BUSY, 0, 1); /* the last one heard */
	fixture_run(&f, busy_is_answered, 0);
	cr_assert_eq(awake_count(), PEERS);
}

static void
busy_begin(struct side *side, uint32_t in_flight)
{
	many->busy = side;
	send_requests(side, 1024, in_flight);
}

static void
busy_end(void)
{
	many->busy = NULL;
	fixture_run(&f, busy_is_answered, 0);
}

static void
peers_close(void)
{
	promises_check(f.client_port);
	promises_check(f.server_port);
	loop_timer_stop(f.server_loop, &server.timer);
	fixture_close(&f);
	free(many);
}

/* Longer than it takes to be silent. */
static void
let_pass(enum net_kind kind)
{
	(void)fixture_run_for(&f, never, 0, kind == NET_SIM ? NUM_S(4) : NUM_MS(1500));
}

static bool
server_counts(uint32_t index)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&f.server_port->credits.awake, link, next) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, awake_link);

		if (memcmp(qp->hello_in, &index, sizeof(index)) == 0)
			return true;
	}
	return false;
}

static struct side *
sleeper_find(void)
{
	for (uint32_t i = 0; i < PEERS - 1; i++)
		if (!server_counts(i))
			return &many->sides[i];
	return NULL;
}

BOTH(credit_idle, who_is_short_gets_what_the_silent_hold)
{
	peers_open(kind);
	busy_begin(BUSY, 2 * CREDITS_MAX);
	fixture_run(&f, heard_last_holds, CREDITS_MAX / 2);
	if (kind == NET_SIM) /* a slow machine may have been a second on the way here */
		cr_assert_eq(awake_count(), PEERS);
	fixture_run(&f, awake_are, FULL);
	fixture_run(&f, heard_last_holds, CREDITS_MAX);
	/* No more of them than it took; and who is silent wakes nobody. */
	let_pass(kind);
	cr_assert_eq(awake_count(), FULL);
	for (uint32_t i = 0; i < PEERS; i++) {
		const struct split_qp *qp = many->sides[i].qp;

		cr_assert(server_counts(i) || (qp->is_dormant && qp->credits == 0));
	}
	busy_end();
	let_pass(kind);
	cr_assert(!f.server_port->credits.idle_timer.is_active);
	peers_close();
}

BOTH(credit_idle, nothing_is_taken_while_nobody_is_short)
{
	uint64_t server_told_before, client_told_before;

	peers_open(kind);
	server_told_before = CREDIT_MESSAGES(f.server_port);
	client_told_before = CREDIT_MESSAGES(f.client_port);
	busy_begin(BUSY, 1);
	let_pass(kind);
	busy_end();
	cr_assert_eq(awake_count(), PEERS);
	cr_assert_eq(CREDIT_MESSAGES(f.server_port), server_told_before);
	cr_assert_eq(CREDIT_MESSAGES(f.client_port), client_told_before);
	cr_assert(!f.server_port->credits.idle_timer.is_active);
	peers_close();
}

/* All that it takes sleep, and nobody is at work. */
static void
peers_put_to_sleep(void)
{
	busy_begin(BUSY, 2 * CREDITS_MAX);
	fixture_run(&f, awake_are, FULL);
	busy_end();
	awaited = sleeper_find();
	cr_assert_not_null(awaited);
}

BOTH(credit_idle, who_wakes_is_granted_at_once)
{
	uint64_t asked, told, begin_ns, took_ns;
	uint32_t got;

	peers_open(kind);
	peers_put_to_sleep();
	got = awaited->message_count;
	asked = CREDIT_MESSAGES(f.client_port);
	told = CREDIT_MESSAGES(f.server_port);
	begin_ns = loop_now_ns(f.client_loop);
	send_requests(awaited, 0, 1);
	fixture_run(&f, awaited_got, got + 1);
	took_ns = loop_now_ns(f.client_loop) - begin_ns;
	cr_assert_eq(awake_count(), FULL + 1);
	cr_assert(server_counts((uint32_t)(awaited - many->sides)));
	/* Requests one after the other: two receives are enough, and ride on the answers. */
	cr_assert_eq(awaited->qp->credits, 2);
	for (uint32_t i = 1; i <= 20; i++) {
		send_requests(awaited, i, 1);
		fixture_run(&f, awaited_got, got + 1 + i);
	}
	cr_assert_eq(awaited->qp->credits, 2);
	/* Asked once and told once, in four messages of 20 to 60 us: a slow machine's TCP may need more. */
	if (kind == NET_SIM) {
		cr_assert_leq(took_ns, SERVICE_NS + NUM_US(250));
		cr_assert_eq(CREDIT_MESSAGES(f.client_port), asked + 1);
		cr_assert_eq(CREDIT_MESSAGES(f.server_port), told + 1);
	}
	peers_close();
}

BOTH(credit_idle, who_wakes_and_works_gets_its_share)
{
	peers_open(kind);
	peers_put_to_sleep();
	busy_begin(awaited, 2 * CREDITS_MAX);
	fixture_run(&f, heard_last_holds, 24 / (FULL + 1));
	/* And then what others fell silent on. */
	fixture_run(&f, heard_last_holds, CREDITS_MAX);
	cr_assert_eq(awake_count(), FULL);
	many->busy = NULL;
	peers_close();
}

BOTH(credit_idle, a_request_may_cross_a_recall)
{
	uint32_t crossed_count = 0;

	peers_open(kind);
	busy_begin(BUSY, 2 * CREDITS_MAX);
	/* A peer at work is told with its answers: this is the first RECALL. */
	fixture_run(&f, server_told, CREDIT_MESSAGES(f.server_port) + 1);
	for (uint32_t i = 0; i < PEERS - 1; i++) {
		crossed_count += many->sides[i].qp->credits > 0;
		send_requests(&many->sides[i], i, 1);
	}
	cr_assert_eq(crossed_count, PEERS - 1);
	fixture_run(&f, many_got_each, CREDITS_MAX + 1);
	promises_check(f.server_port);
	/* The peers fall silent again. */
	fixture_run(&f, awake_are, FULL);
	busy_end();
	for (uint32_t i = 0; i < PEERS; i++)
		send_requests(&many->sides[i], 300 + 100 * i, CREDITS_MAX);
	fixture_run(&f, many_got_each, 2 * CREDITS_MAX + 1);
	peers_close();
}

/* Where a queue pair may be when its connection goes. */
enum { AWAKE, RECALLED, ASLEEP, WAKING, STATES };

static void
bring_to(uint32_t state)
{
	if (state == RECALLED) {
		busy_begin(BUSY, 2 * CREDITS_MAX);
		fixture_run(&f, server_told, CREDIT_MESSAGES(f.server_port) + 1);
		many->busy = NULL;
	} else if (state != AWAKE) {
		peers_put_to_sleep();
	}
	for (uint32_t i = 0; i < PEERS - 1 && state == WAKING; i++)
		send_requests(&many->sides[i], i, 1);
}

static void
close_all_but_busy(bool is_by_server)
{
	struct loop_link *link, *next;

	for (uint32_t i = 0; i < PEERS - 1 && !is_by_server; i++)
		split_qp_close(many->sides[i].qp);
	if (!is_by_server)
		return;
	LIST_FOREACH_SAFE(&f.server_port->qps, link, next) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, link);

		if (qp != heard_last())
			split_qp_close(qp);
	}
}

BOTH(credit_idle, a_connection_may_break_in_each_state)
{
	for (uint32_t i = 0; i < 2 * STATES; i++) {
		setup();
		peers_open(kind);
		bring_to(i / 2);
		close_all_but_busy(i % 2 == 0);
		promises_check(f.server_port);
		fixture_run(&f, server_closed_are, PEERS - 1);
		promises_check(f.server_port);
		cr_assert_eq(f.server_port->credits.granting_qp_count, 1);
		cr_assert_leq(awake_count(), 1);
		/* The peer that is left gets all. */
		busy_end();
		busy_begin(BUSY, 2 * CREDITS_MAX);
		fixture_run(&f, heard_last_holds, CREDITS_MAX);
		busy_end();
		peers_close();
	}
}

BOTH(credit_idle, recalls_leave_a_few_at_a_time)
{
	enum { HELD = 4, IN_A_TURN = 32 };
	/* Where they connect in no time there are more than a turn tells. */
	const uint32_t count = kind == NET_SIM ? 200 : 40;
	uint64_t told;

	f.server_ops = &server_ops;
	many_connect_to(small_port(1024, 64), count, kind);
	fixture_run(&f, many_ready, count);
	for (uint32_t i = 0; i < count; i++)
		send_requests(&many->sides[i], i * HELD, HELD);
	fixture_run(&f, many_got_each, HELD);
	busy_begin(&many->sides[count - 1], 64);
	if (kind == NET_SIM) { /* where connecting takes no second */
		cr_assert_eq(awake_count(), count);
		fixture_run(&f, heard_last_holds, 768 / count);
		told = CREDIT_MESSAGES(f.server_port);
		fixture_run(&f, server_told, told + 1);
		cr_assert_leq(CREDIT_MESSAGES(f.server_port) - told, IN_A_TURN);
	}
	fixture_run(&f, awake_are, 768 / 64);
	fixture_run(&f, heard_last_holds, 64);
	many->busy = NULL;
	peers_close();
}
