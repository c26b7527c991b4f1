/* SPDX-License-Identifier: Apache-2.0 */
/* credit_fixture.h -- a small port and the many peers that share it */
#ifndef CLEAVE_TESTS_CREDIT_FIXTURE_H
#define CLEAVE_TESTS_CREDIT_FIXTURE_H

#include "splitlib/core/qp.h"
#include "unit/split_fixture.h"

static struct fixture f;
static struct test_send sends[4096];

static inline struct split_port_options
small_port(uint32_t receive_count, uint32_t credits_max)
{
	return (struct split_port_options){ .receive_count = receive_count,
		.receive_payload_bytes = 4096,
		.qp_credits_max = credits_max,
		.device_bytes = NUM_MIB(1) + receive_count * 8192ull };
}

static inline void
send_requests(struct side *side, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++) {
		test_send_init(&sends[i], side, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(side->qp, &sends[i].send), 0);
	}
}

/* Many queue pairs of one port. */
enum { MANY_MAX = 1024 };

struct many {
	struct side sides[MANY_MAX]; /* of the clients */
	uint32_t count;
	uint32_t ready_count;
	struct side *busy; /* asks anew for each answer; NULL: none does */
};

static struct many *many;

static inline void
many_on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	side_on_ready(qp, hello, hello_bytes, arg);
	many->ready_count++;
}

static inline void
many_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	uint64_t ids[SPLIT_BATCH_MAX];

	for (uint32_t i = 0; i < count; i++)
		ids[i] = msgs[i]->header->request_id;
	side_on_messages(qp, msgs, count, arg);
	for (uint32_t i = 0; i < count && many->busy == arg; i++)
		send_requests(arg, (uint32_t)(ids[i] + 64) % NUM_COUNT(sends), 1);
}

static const struct split_qp_ops many_ops = {
	.on_ready = many_on_ready,
	.on_messages = many_on_messages,
	.on_closed = side_on_closed,
};

static inline void
many_connect_to(struct split_port_options server, uint32_t count, enum net_kind kind)
{
	struct split_port_options client = small_port(2 * MANY_MAX, 64);

	many = calloc(1, sizeof(*many));
	cr_assert_not_null(many);
	server.keepalive_ns = NUM_S(60);
	fixture_open(&f, kind, &server, &client);
	f.server.mode = SIDE_ANSWER;
	many->count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct split_connect_options options = { .peer_roles = FIXTURE_ROLES,
			.address = f.address,
			.hello = &i,
			.hello_bytes = sizeof(i),
			.timeout_ns = NUM_S(60),
			.ops = &many_ops,
			.arg = &many->sides[i] };

		many->sides[i].mode = SIDE_RELEASE;
		many->sides[i].qp = connect_qp(f.client_port, &options);
		cr_assert_not_null(many->sides[i].qp);
	}
}

static inline void
many_connect(uint32_t count, uint32_t server_receives, enum net_kind kind)
{
	many_connect_to(small_port(server_receives, 64), count, kind);
}

static inline bool
many_ready(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return many->ready_count >= wanted;
}

static inline bool
many_got_each(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	for (uint32_t i = 0; i < many->count; i++)
		if (many->sides[i].message_count < wanted)
			return false;
	return true;
}

#endif /* CLEAVE_TESTS_CREDIT_FIXTURE_H */
