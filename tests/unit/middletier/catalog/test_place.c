/* SPDX-License-Identifier: Apache-2.0 */
/* test_place.c -- payloads that are put where the owner of a queue pair wants them */
#include "unit/split_fixture.h"

#define PLACE_REQUESTS_MAX 16u

static struct fixture f;
static uint8_t places[PLACE_REQUESTS_MAX][WIRE_CLIENT_PAYLOAD_BYTES_MAX];
static uint32_t asked_count, refused_count;
static uint64_t refuse_every; /* of request ids; 0: none */

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
	memset(places, 0xee, sizeof(places));
	asked_count = refused_count = 0;
	refuse_every = 0;
}

TestSuite(place, .init = setup, .timeout = 100);

static void *
on_place(struct split_qp *qp, const struct wire_header *header, void *arg)
{
	cr_assert_eq(arg, &f.client);
	cr_assert_eq(qp, f.client.qp);
	cr_assert_neq(header->opcode & WIRE_REPLY, 0, "requests are nobody's to place");
	asked_count++;
	if (refuse_every > 0 && header->request_id % refuse_every == 0) {
		refused_count++;
		return NULL;
	}
	return places[header->request_id];
}

static const struct split_qp_ops placing_ops = {
	.on_ready = side_on_ready,
	.on_messages = side_on_messages,
	.on_place = on_place,
	.on_closed = side_on_closed,
};

static void
connect_placing(enum net_kind kind)
{
	fixture_open(&f, kind, NULL, NULL);
	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_HOLD;
	(void)fixture_connect(&f, &placing_ops);
	fixture_run(&f, both_ready, 0);
}

/* Ask for what the server echoes: @count payloads of @bytes. */
static void
ask(struct test_send *sends, uint32_t count, uint32_t bytes)
{
	for (uint32_t i = 0; i < count; i++) {
		test_send_init(&sends[i], &f.client, WIRE_READ, i,
		    pattern_alloc(f.client_port, bytes, 100 + i), bytes);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	fixture_run(&f, client_got, count);
}

static void
expect_bytes(const uint8_t *found, uint32_t bytes, uint32_t seed)
{
	for (uint32_t i = 0; i < bytes; i++)
		cr_assert_eq(found[i], (uint8_t)(num_mix_u64(seed + i / 8) >> (8 * (i % 8))),
		    "byte %u", i);
}

static void
release_all(void)
{
	for (uint32_t i = 0; i < f.client.held_count; i++)
		split_msg_release(f.client.held[i]);
	f.client.held_count = 0;
}

BOTH(place, long_replies_go_where_they_are_wanted)
{
	struct test_send sends[PLACE_REQUESTS_MAX];
	uint32_t bytes = WIRE_CLIENT_PAYLOAD_BYTES_MAX, placed_count = 0;

	connect_placing(kind);
	refuse_every = 3;
	ask(sends, PLACE_REQUESTS_MAX, bytes);
	for (uint32_t i = 0; i < f.client.held_count; i++) {
		struct split_msg *msg = f.client.held[i];
		uint64_t id = msg->header->request_id;

		if (msg->placed == NULL) {
			pattern_check(f.client_port, msg->payload, bytes, 100 + (uint32_t)id, 0);
			continue;
		}
		placed_count++;
		cr_assert_eq(msg->placed, places[id]);
		expect_bytes(places[id], bytes, 100 + (uint32_t)id);
	}
	/* A device that puts payloads into the pool by itself asks nobody. */
	cr_assert_eq(placed_count, asked_count - refused_count);
	if (kind != NET_VERBS) {
		cr_assert_gt(placed_count, PLACE_REQUESTS_MAX / 2);
		cr_assert_gt(refused_count, 0);
	}
	cr_assert_geq(f.client_port->counters.host_bytes_in, (uint64_t)placed_count * bytes);
	cr_assert_eq(f.server_port->counters.host_bytes_in % bytes,
	    f.server_port->counters.host_bytes_in, "requests come as ever");
	release_all();
	fixture_close(&f);
	cr_assert_eq(f.client.closed_count, 1);
}

BOTH(place, short_replies_are_right_wherever_they_are)
{
	struct test_send sends[PLACE_REQUESTS_MAX];

	connect_placing(kind);
	ask(sends, PLACE_REQUESTS_MAX, 4096);
	for (uint32_t i = 0; i < f.client.held_count; i++) {
		struct split_msg *msg = f.client.held[i];
		uint32_t id = (uint32_t)msg->header->request_id;

		if (msg->placed == NULL)
			pattern_check(f.client_port, msg->payload, 4096, 100 + id, 0);
		else
			expect_bytes(msg->placed, 4096, 100 + id);
	}
	release_all();
	fixture_close(&f);
}

BOTH(place, an_end_while_it_comes_gives_the_receive_back)
{
	struct test_send sends[PLACE_REQUESTS_MAX];
	uint32_t free_count;

	connect_placing(kind);
	free_count = split_port_receives_free(f.client_port);
	for (uint32_t i = 0; i < PLACE_REQUESTS_MAX; i++) {
		test_send_init(&sends[i], &f.client, WIRE_READ, i,
		    pattern_alloc(f.client_port, WIRE_CLIENT_PAYLOAD_BYTES_MAX, i),
		    WIRE_CLIENT_PAYLOAD_BYTES_MAX);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	fixture_run(&f, client_got, 1);
	split_qp_close(f.client.qp);
	fixture_run(&f, client_closed, 0);
	release_all();
	cr_assert_eq(split_port_receives_free(f.client_port), free_count);
	fixture_close(&f);
}
