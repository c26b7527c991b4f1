/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split_fixture.h -- two ports and what connects them, over TCP or over the simulated network
 *
 * BOTH(suite, name) declares one behaviour and runs it over each. Every wait is bounded: a behaviour
 * that does not come is a failure, not a hang.
 *
 * With CLEAVE_TEST_VERBS=verbs://HOST:0 in the environment, what would run over TCP runs over the
 * RDMA device that has this address; with CLEAVE_TEST_UNIX=1 over unix sockets. With CLEAVE_TEST_SEALED=seal or sign both
 * ports have keys, and every behaviour is one of sealed connections.
 */
#ifndef CLEAVE_TESTS_SPLIT_FIXTURE_H
#define CLEAVE_TESTS_SPLIT_FIXTURE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/num.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "splitlib/core/port.h"
#include "splitlib/core/qp.h"
#include "splitlib/sim/loop_sim.h"
#include "splitlib/sim/sim_net.h"
#include "support/key_maker.h"

#define FIXTURE_WAIT_NS NUM_S(60)
#define FIXTURE_MESSAGES_MAX 4096u

enum net_kind { NET_TCP, NET_SIM, NET_VERBS };

#define BOTH(suite, name)                                                                          \
	static void name##_over(enum net_kind kind);                                               \
	Test(suite, name##_over_tcp)                                                               \
	{                                                                                          \
		name##_over(fixture_real());                                                       \
	}                                                                                          \
	Test(suite, name##_over_sim)                                                               \
	{                                                                                          \
		name##_over(NET_SIM);                                                              \
	}                                                                                          \
	static void name##_over(enum net_kind kind)

static inline enum net_kind
fixture_real(void)
{
	return getenv("CLEAVE_TEST_VERBS") != NULL ? NET_VERBS : NET_TCP;
}

/* Where a test may listen. */
static inline const char *
fixture_any_address(enum net_kind kind, const char *sim_address)
{
	static char path[SPLIT_ADDRESS_BYTES_MAX];
	static unsigned count;

	if (kind == NET_SIM)
		return sim_address;
	if (kind == NET_VERBS)
		return getenv("CLEAVE_TEST_VERBS");
	if (getenv("CLEAVE_TEST_UNIX") == NULL)
		return "tcp://127.0.0.1:0";
	(void)snprintf(path, sizeof(path), "unix:///tmp/cleave-test-%d-%u", (int)getpid(), count++);
	return path;
}

/* A side of a queue pair, and all that was called on it. */
struct side {
	struct split_qp *qp;
	uint32_t ready_count, closed_count;
	int closed_rc;
	char reason[SPLIT_REASON_BYTES_MAX];
	char hello[WIRE_HELLO_BYTES + 1];
	uint32_t hello_bytes;
	/* Messages: kept in hold, answered at once, or released at once. */
	enum { SIDE_HOLD, SIDE_ANSWER, SIDE_RELEASE } mode;
	struct split_msg *held[FIXTURE_MESSAGES_MAX];
	uint32_t held_count;
	uint32_t message_count, batch_count;
	uint64_t request_ids[FIXTURE_MESSAGES_MAX]; /* in order of arrival */
	/* Sends. */
	uint32_t sent_count, failed_count;
	int failed_rc;
	uint32_t sent_after_close_count;
};

struct fixture {
	enum net_kind kind;
	struct sim_world *world;
	struct sim_net *net;
	struct sim_host *client_host, *server_host;
	struct loop *client_loop, *server_loop; /* one and the same for TCP */
	struct split_port *client_port, *server_port;
	char address[SPLIT_ADDRESS_BYTES_MAX];
	struct side client, server;
	bool is_rejecting;
	bool is_undecided;                     /* on_accept leaves the answer for later */
	bool is_without_handlers;              /* the server posts receives */
	const struct split_qp_ops *server_ops; /* NULL: side_ops */
	uint32_t accept_count;
	bool timed_out;
	/* Keys, and what they want of each other; NULL: as the environment says. */
	struct key_authority authority;
	struct split_key *client_key, *server_key;
	bool is_keyed_by_environment;
	enum split_security client_security, server_security;
	unsigned peer_roles; /* [any] */
	uint32_t refused_count;
	char refused[256]; /* what the server was told for its log */
};

/* A request that a test sends. */
struct test_send {
	struct split_send send;
	struct wire_header header;
	struct dev_piece piece;
};

static inline void
side_on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct side *side = arg;

	cr_assert_eq(split_qp_state(qp), SPLIT_QP_READY);
	side->ready_count++;
	side->hello_bytes = hello_bytes;
	memcpy(side->hello, hello, hello_bytes);
}

static inline void
side_answer(struct split_msg *msg)
{
	struct wire_header header = *msg->header;
	struct dev_piece piece = { .ptr = msg->payload, .bytes = msg->payload_bytes };

	header.opcode |= WIRE_REPLY;
	split_msg_reply(msg, &header, &piece, piece.bytes > 0 ? 1 : 0, NULL, NULL);
}

static inline void
side_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct side *side = arg;

	cr_assert_eq(side->closed_count, 0);
	cr_assert_gt(count, 0);
	side->batch_count++;
	for (uint32_t i = 0; i < count; i++) {
		bool is_reply = (msgs[i]->header->opcode & WIRE_REPLY) != 0;

		cr_assert_eq(msgs[i]->qp, qp);
		if (side->message_count < FIXTURE_MESSAGES_MAX)
			side->request_ids[side->message_count] = msgs[i]->header->request_id;
		side->message_count++;
		if (side->mode == SIDE_HOLD)
			side->held[side->held_count++] = msgs[i];
		else if (side->mode == SIDE_ANSWER && !is_reply)
			side_answer(msgs[i]);
		else
			split_msg_release(msgs[i]);
	}
}

static inline void
side_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct side *side = arg;

	cr_assert_eq(split_qp_state(qp), SPLIT_QP_CLOSED);
	side->closed_count++;
	side->closed_rc = rc;
	(void)snprintf(side->reason, sizeof(side->reason), "%s", reason);
	side->qp = NULL;
}

static const struct split_qp_ops side_ops = {
	.on_ready = side_on_ready,
	.on_messages = side_on_messages,
	.on_closed = side_on_closed,
};

static inline void
fixture_on_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct fixture *f = arg;

	cr_assert_eq(split_qp_state(qp), SPLIT_QP_ACCEPTING);
	f->accept_count++;
	memcpy(f->server.hello, hello, hello_bytes);
	f->server.hello_bytes = hello_bytes;
	if (f->is_undecided || !f->is_rejecting)
		f->server.qp = qp;
	if (f->is_undecided)
		return;
	if (f->is_rejecting)
		split_qp_reject(qp, -EXDEV);
	else
		split_qp_accept(qp,
		    f->is_without_handlers      ? NULL
			: f->server_ops != NULL ? f->server_ops
						: &side_ops,
		    &f->server, "server", 6);
}

#define FIXTURE_ROLES (SPLIT_ROLE_GATEWAY | SPLIT_ROLE_NODE) /* of the ports with keys */
#define FIXTURE_GATEWAY "cleave://00c0ffee00c0ffee/gateway/1"
#define FIXTURE_NODE "cleave://00c0ffee00c0ffee/node/3"

static inline bool
fixture_is_sealed(void)
{
	return getenv("CLEAVE_TEST_SEALED") != NULL;
}

/* Both ports get keys of one authority: the client is a gateway, the server a node. */
static inline void
fixture_make_keys(struct fixture *f)
{
	key_authority_make(&f->authority, 0, 0);
	f->client_key = key_make(&f->authority, FIXTURE_GATEWAY);
	f->server_key = key_make(&f->authority, FIXTURE_NODE);
}

static inline void
fixture_free_keys(struct fixture *f)
{
	split_key_free(f->client_key);
	split_key_free(f->server_key);
	f->client_key = f->server_key = NULL;
	key_authority_fini(&f->authority);
}

static inline void
fixture_on_refused(const char *peer, const char *why, void *arg)
{
	struct fixture *f = arg;

	cr_assert_neq(peer[0], '\0');
	f->refused_count++;
	(void)snprintf(f->refused, sizeof(f->refused), "%s", why);
}

static inline struct split_port *
fixture_open_port(struct fixture *f, bool is_server, const struct split_port_options *options)
{
	struct split_port_options o = { .receive_count = 256, .device_bytes = NUM_MIB(32) };
	struct split_port *port;

	if (options != NULL)
		o = *options;
	o.loop = is_server ? f->server_loop : f->client_loop;
	o.sim_host = is_server ? f->server_host : f->client_host;
	o.key = is_server ? f->server_key : f->client_key;
	o.security = is_server ? f->server_security : f->client_security;
	o.on_refused = fixture_on_refused;
	o.on_refused_arg = f;
	port = open_roce_instance(&o);
	cr_assert_not_null(port);
	return port;
}

/* @server, @client: options of the two ports; NULL: small ones. */
static inline void
fixture_open(struct fixture *f, enum net_kind kind, const struct split_port_options *server,
    const struct split_port_options *client)
{
	f->kind = kind;
	if (fixture_is_sealed() && f->server_key == NULL) {
		fixture_make_keys(f);
		f->is_keyed_by_environment = true;
		cr_assert_eq(split_security_parse(getenv("CLEAVE_TEST_SEALED"),
				 &f->server_security),
		    0);
		f->client_security = f->server_security;
	}
	if (kind != NET_SIM) {
		f->client_loop = f->server_loop = loop_ev_create(1);
	} else {
		f->world = sim_world_create(1);
		f->net = sim_net_create(f->world);
		f->client_loop = sim_loop_create(f->world, "client");
		f->server_loop = sim_loop_create(f->world, "server");
		f->client_host = sim_host_create(f->net, "client");
		f->server_host = sim_host_create(f->net, "server");
	}
	cr_assert_not_null(f->client_loop);
	f->server_port = fixture_open_port(f, true, server);
	f->client_port = fixture_open_port(f, false, client);
	cr_assert_eq(split_listen(f->server_port, fixture_any_address(kind, "sim://server:0"),
			 fixture_on_accept, f, f->address),
	    0);
}

static inline void
fixture_close(struct fixture *f)
{
	split_port_close(f->client_port);
	split_port_close(f->server_port);
	if (f->is_keyed_by_environment)
		fixture_free_keys(f);
	if (f->kind != NET_SIM) {
		loop_destroy(f->client_loop);
		return;
	}
	sim_net_destroy(f->net);
	sim_world_destroy(f->world);
}

/* A message that arrives finds a receive, and whoever is not counted holds none. */
static inline void
promises_check(const struct split_port *port)
{
	const struct port_credits *credits = &port->credits;
	uint32_t granted = 0, awake_count = 0;

	cr_assert_leq(credits->granted_count + credits->reserved_count +
		credits->held_requests_count + credits->held_replies_count,
	    port->pool.count);
	for (const struct loop_link *link = port->qps.next; link != &port->qps; link = link->next) {
		const struct split_qp *qp = LIST_ENTRY(link, struct split_qp, link);

		cr_assert_leq(qp->unannounced, qp->granted);
		granted += qp->is_pooled ? qp->granted : 0;
		awake_count += list_contains(&qp->awake_link);
		cr_assert(!qp->is_pooled || qp->granted == 0 || list_contains(&qp->awake_link));
		cr_assert(!list_contains(&qp->grant_link) || list_contains(&qp->awake_link));
	}
	cr_assert_eq(granted, credits->granted_count);
	cr_assert_eq(awake_count, credits->awake_count);
}

struct fixture_wait {
	bool (*until)(struct fixture *f, uint64_t wanted);
	struct fixture *f;
	uint64_t wanted;
};

static inline bool
fixture_until(void *arg)
{
	struct fixture_wait *wait = arg;

	return wait->f->timed_out || wait->until(wait->f, wait->wanted);
}

static inline void
fixture_on_timeout(struct loop_timer *timer, void *arg)
{
	(void)timer;
	((struct fixture *)arg)->timed_out = true;
}

/* Returns whether @until came true within @limit_ns. */
static inline bool
fixture_run_for(struct fixture *f, bool (*until)(struct fixture *, uint64_t), uint64_t wanted,
    uint64_t limit_ns)
{
	struct fixture_wait wait = { .until = until, .f = f, .wanted = wanted };

	f->timed_out = false;
	if (f->kind != NET_SIM) {
		struct loop_timer timer = { 0 };

		loop_timer_init(&timer, fixture_on_timeout, f);
		loop_timer_start(f->client_loop, &timer, limit_ns);
		(void)loop_run(f->client_loop, fixture_until, &wait);
		loop_timer_stop(f->client_loop, &timer);
	} else {
		(void)sim_world_run(f->world, fixture_until, &wait,
		    sim_world_now_ns(f->world) + limit_ns);
	}
	return until(f, wanted);
}

#define fixture_run(f, until, wanted)                                                              \
	cr_assert(fixture_run_for((f), (until), (wanted), FIXTURE_WAIT_NS),                        \
	    #until " did not come: client %u/%u/%s server %u/%u/%s", (f)->client.message_count,    \
	    (f)->client.sent_count, (f)->client.reason, (f)->server.message_count,                 \
	    (f)->server.sent_count, (f)->server.reason)

static inline bool
never(struct fixture *f, uint64_t wanted)
{
	(void)f;
	(void)wanted;
	return false;
}

static uint64_t fixture_idle_ns[] = {
	[NET_TCP] = NUM_MS(30),
	[NET_SIM] = NUM_S(1),
	[NET_VERBS] = NUM_MS(1500), /* a software device on an emulated processor */
};

static inline uint64_t
fixture_moved(const struct fixture *f)
{
	const struct split_counters *client = &f->client_port->counters,
				    *server = &f->server_port->counters;

	return client->messages_in + client->messages_out + client->credit_messages_out +
	    server->messages_in + server->messages_out + server->credit_messages_out;
}

/*
 * Let things happen that should not: a little real time, a lot of virtual time. A machine that stands still has real time
 * pass with nothing done in it: then as often as something moves.
 */
static inline void
fixture_idle(struct fixture *f)
{
	enum { SPANS_MAX = 100 }; /* of who never comes to rest */
	uint64_t moved;
	uint32_t spans = 0;

	do {
		moved = f->kind == NET_TCP ? fixture_moved(f)
					   : 0; /* a test may have closed a port */
		(void)fixture_run_for(f, never, 0, fixture_idle_ns[f->kind]);
	} while (f->kind == NET_TCP && fixture_moved(f) != moved && ++spans < SPANS_MAX);
}

static inline bool
both_ready(struct fixture *f, uint64_t wanted)
{
	(void)wanted;
	return f->client.ready_count > 0 && f->server.ready_count > 0;
}

static inline bool
client_closed(struct fixture *f, uint64_t wanted)
{
	(void)wanted;
	return f->client.closed_count > 0;
}

static inline bool
server_closed(struct fixture *f, uint64_t wanted)
{
	(void)wanted;
	return f->server.closed_count > 0;
}

static inline bool
client_got(struct fixture *f, uint64_t wanted)
{
	return f->client.message_count >= wanted;
}

static inline bool
server_got(struct fixture *f, uint64_t wanted)
{
	return f->server.message_count >= wanted;
}

static inline bool
client_sent(struct fixture *f, uint64_t wanted)
{
	return f->client.sent_count + f->client.failed_count >= wanted;
}

static inline struct split_qp *
fixture_connect(struct fixture *f, const struct split_qp_ops *ops)
{
	struct split_connect_options options = {
		.address = f->address,
		.hello = "client",
		.hello_bytes = 6,
		.ops = ops,
		.arg = &f->client,
		/* A software device loses datagrams; those that connect go again after 4 s. */
		.timeout_ns = f->kind == NET_VERBS ? NUM_S(15) : 0,
		.peer_roles = f->peer_roles != 0 ? f->peer_roles : FIXTURE_ROLES,
	};

	f->client.qp = connect_qp(f->client_port, &options);
	cr_assert_not_null(f->client.qp, "connect_qp: %d", errno);
	return f->client.qp;
}

static inline void
fixture_connect_both(struct fixture *f)
{
	(void)fixture_connect(f, &side_ops);
	fixture_run(f, both_ready, 0);
}

static inline void
side_on_sent(struct split_send *send, int rc, void *arg)
{
	struct side *side = arg;

	(void)send;
	if (side->closed_count > 0)
		side->sent_after_close_count++;
	if (rc == 0) {
		side->sent_count++;
		return;
	}
	side->failed_count++;
	side->failed_rc = rc;
}

static inline void
test_send_init(struct test_send *send, struct side *side, uint8_t opcode, uint64_t request_id,
    dev_ptr payload, uint32_t payload_bytes)
{
	memset(send, 0, sizeof(*send));
	send->header.opcode = opcode;
	send->header.request_id = request_id;
	send->piece = (struct dev_piece){ .ptr = payload, .bytes = payload_bytes };
	send->send.header = &send->header;
	send->send.header_bytes = WIRE_HEADER_BYTES;
	send->send.pieces = &send->piece;
	send->send.piece_count = payload_bytes > 0 ? 1 : 0;
	send->send.fn = side_on_sent;
	send->send.arg = side;
}

/* Device memory with a pattern that depends on @seed. */
static inline dev_ptr
pattern_alloc(struct split_port *port, uint32_t bytes, uint32_t seed)
{
	static uint8_t pattern[WIRE_PAYLOAD_BYTES_MAX];
	dev_ptr memory = dev_alloc(port, bytes);

	cr_assert(!dev_ptr_is_null(memory));
	for (uint32_t i = 0; i < bytes; i++)
		pattern[i] = (uint8_t)(num_mix_u64(seed + i / 8) >> (8 * (i % 8)));
	dev_copy_from_host(port, memory, pattern, bytes);
	return memory;
}

static inline void
pattern_check(struct split_port *port, dev_ptr memory, uint32_t bytes, uint32_t seed,
    uint32_t offset)
{
	static uint8_t found[WIRE_PAYLOAD_BYTES_MAX];

	dev_copy_to_host(port, found, memory, bytes);
	for (uint32_t i = 0; i < bytes; i++) {
		uint32_t at = i + offset;

		cr_assert_eq(found[i], (uint8_t)(num_mix_u64(seed + at / 8) >> (8 * (at % 8))),
		    "byte %u of %u", i, bytes);
	}
}

#endif /* CLEAVE_TESTS_SPLIT_FIXTURE_H */
