/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An enemy on the wire of the simulated network: it edits, drops, repeats, swaps and downgrades what the two ends say.
 * Each time the connection ends, and nobody believes anything that was not said. In virtual time a stall costs nothing.
 */
#include "tests/unit/split_fixture.h"

#include "splitlib/core/alloc.h"
#include "splitlib/core/wire.h"
#include "splitlib/secure/seal.h"
#include "splitlib/sim/sim_conn.h"
#include "splitlib/sim/sim_state.h"

#define SEEN_MAX 64u
#define PAYLOAD_BYTES 100u
#define MESSAGES 3u

enum deed { DEED_NONE, DEED_FLIP, DEED_DROP, DEED_REPEAT, DEED_SWAP, DEED_FLAGS };

/* The deed of an enemy, done once: to packet @nth (from 0) of @from: 0 the client's, 1 the server's. */
static struct {
	enum deed deed;
	uint32_t from, nth;
	uint32_t at; /* FLIP: which byte; FLAGS: which value */
	bool is_done, is_for_the_looks;
	uint32_t bytes; /* of that packet */
	struct sim_packet *seen[2][SEEN_MAX];
	uint64_t due_ns[2][SEEN_MAX];
	uint32_t seen_count[2];
} enemy;
static struct fixture f;
static struct test_send sends[MESSAGES];

static bool
is_in_the_clear(const struct sim_packet *packet)
{
	return num_get_le32(packet->data) == WIRE_MAGIC;
}

/* A header's CRC is no secret. */
static void
restamp(struct sim_packet *packet)
{
	struct wire_header *header = (struct wire_header *)(void *)packet->data;

	wire_frame_stamp(header, header->payload_bytes, header->credits);
}

static void
do_deed(struct sim_end *end, struct sim_packet *packet)
{
	struct loop_link *next = packet->link.next;
	struct sim_packet *copy;

	enemy.bytes = packet->bytes;
	switch (enemy.deed) {
	case DEED_FLIP:
		if (enemy.at >= packet->bytes)
			return;
		{
			bool was_clear = is_in_the_clear(packet);

			enemy.is_for_the_looks = was_clear && enemy.at >= WIRE_HEADER_BYTES &&
			    key_is_version_byte(packet->data + WIRE_HEADER_BYTES,
				packet->bytes - WIRE_HEADER_BYTES, enemy.at - WIRE_HEADER_BYTES);

			packet->data[enemy.at] ^= 1;
			/* Not where stamping undoes it. */
			if (was_clear && enemy.at > 4 && enemy.at < 60 && enemy.at / 2 != 27)
				restamp(packet);
		}
		break;
	case DEED_FLAGS:
		((struct wire_header *)(void *)packet->data)->flags = (uint16_t)enemy.at;
		restamp(packet);
		break;
	case DEED_DROP:
		list_remove(&packet->link);
		end->pipe_bytes -= packet->bytes;
		split_free(packet);
		break;
	case DEED_REPEAT:
		copy = sim_packet_create(packet->kind, packet->bytes);
		memcpy(copy->data, packet->data, packet->bytes);
		copy->due_ns = packet->due_ns;
		end->pipe_bytes += copy->bytes;
		list_push_back(&end->pipe, &copy->link);
		break;
	case DEED_SWAP:
		if (next == &end->pipe)
			return; /* wait for another one */
		list_remove(&packet->link);
		packet->due_ns = LIST_ENTRY(next, struct sim_packet, link)->due_ns;
		list_push_back(&end->pipe, &packet->link);
		break;
	case DEED_NONE:
		break;
	}
	enemy.is_done = true;
}

static bool
is_seen(uint32_t from, const struct sim_packet *packet)
{
	for (uint32_t i = 0; i < enemy.seen_count[from]; i++)
		if (enemy.seen[from][i] == packet && enemy.due_ns[from][i] == packet->due_ns)
			return true;
	return false;
}

static void
look_at(struct sim_end *end, uint32_t from)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&end->pipe, link, next) {
		struct sim_packet *packet = LIST_ENTRY(link, struct sim_packet, link);
		bool is_new = !is_seen(from, packet);

		if (packet->kind != SIM_PACKET_DATA)
			continue;
		if (is_new) {
			cr_assert_lt(enemy.seen_count[from], SEEN_MAX);
			enemy.seen[from][enemy.seen_count[from]] = packet;
			enemy.due_ns[from][enemy.seen_count[from]++] = packet->due_ns;
		}
		if (!enemy.is_done && enemy.deed != DEED_NONE && enemy.from == from &&
		    enemy.seen_count[from] > enemy.nth && packet == enemy.seen[from][enemy.nth]) {
			do_deed(end, packet);
			if (enemy.is_done)
				return;
		}
	}
}

static void
enemy_look(void)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&f.net->conns, link, next) {
		struct sim_conn *conn = LIST_ENTRY(link, struct sim_conn, link);

		look_at(&conn->ends[0], 0);
		look_at(&conn->ends[1], 1);
	}
}

static bool
ended_or_ready(struct fixture *fixture, uint64_t wanted)
{
	enemy_look();
	return fixture->client.closed_count > 0 || both_ready(fixture, wanted);
}

static bool
client_ended(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	enemy_look();
	return fixture->client.closed_count > 0;
}

static bool
both_ended(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	enemy_look();
	return fixture->client.closed_count > 0 &&
	    (fixture->accept_count == 0 || fixture->server.closed_count > 0);
}

static void
meet(enum deed deed, uint32_t from, uint32_t nth, uint32_t at)
{
	memset(&enemy, 0, sizeof(enemy));
	enemy.deed = deed;
	enemy.from = from;
	enemy.nth = nth;
	enemy.at = at;
	memset(&f.client, 0, sizeof(f.client));
	memset(&f.server, 0, sizeof(f.server));
	f.accept_count = 0;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, ended_or_ready, 0);
}

static void
open_sim(void)
{
	fixture_make_keys(&f);
	f.client_security = f.server_security = SPLIT_SECURITY_SIGN;
	fixture_open(&f, NET_SIM, NULL, NULL);
}

static void
close_ready(void)
{
	cr_assert(both_ready(&f, 0));
	split_qp_close(f.client.qp);
	fixture_run(&f, client_ended, 0);
	fixture_run(&f, server_closed, 0);
}

TestSuite(auth_enemy, .timeout = 120);

Test(auth_enemy, who_does_nothing_is_not_noticed)
{
	open_sim();
	meet(DEED_NONE, 0, 0, 0);
	close_ready();
	/* The unit of its deeds: hello after two flights of the client's, after one of the server's. */
	cr_assert_geq(enemy.seen_count[0], 3);
	cr_assert_geq(enemy.seen_count[1], 2);
	fixture_close(&f);
}

/* Both flights of the client and its hello; the server's flight and its hello. */
static void
any_byte(uint32_t from, uint32_t nth)
{
	uint32_t at = 0, ended = 0;

	open_sim();
	do {
		/* A packet of the simulated network knows its length: it is not taken from there. */
		if (at == offsetof(struct wire_header, payload_bytes))
			at += 4;
		meet(DEED_FLIP, from, nth, at);
		if (both_ready(&f, 0)) {
			cr_assert(enemy.is_for_the_looks || !enemy.is_done, "byte %u", at);
			close_ready();
		} else {
			ended++;
			cr_assert_eq(f.client.ready_count, 0, "byte %u", at);
			if (from == 0)
				cr_assert_eq(f.accept_count, 0, "byte %u: %s", at, f.server.hello);
		}
		at += at < WIRE_HEADER_BYTES + 8 ? 1 : 7;
	} while (at < enemy.bytes);
	cr_assert_gt(ended, 50);
	fixture_close(&f);
}

Test(auth_enemy, any_byte_of_the_first_flight)
{
	any_byte(0, 0);
}

Test(auth_enemy, any_byte_of_the_acceptors_flight)
{
	any_byte(1, 0);
}

Test(auth_enemy, any_byte_of_the_last_flight)
{
	any_byte(0, 1);
}

Test(auth_enemy, any_byte_of_the_hello)
{
	any_byte(0, 2);
}

Test(auth_enemy, any_byte_of_the_hellos_answer)
{
	any_byte(1, 1);
}

Test(auth_enemy, drops_repeats_or_swaps_what_is_said_before_both_are_ready)
{
	static const enum deed deeds[] = { DEED_REPEAT, DEED_DROP, DEED_SWAP };

	open_sim();
	for (uint32_t i = 0; i < NUM_COUNT(deeds); i++) {
		for (uint32_t nth = 0; nth < 5; nth++) {
			meet(deeds[i], nth < 3 ? 0 : 1, nth < 3 ? nth : nth - 3, 0);
			if (!enemy.is_done) { /* there was nothing to swap it with */
				close_ready();
				continue;
			}
			/* The answer to the hello, repeated: the end comes when it is there. */
			fixture_run(&f, both_ended, 0);
			cr_assert_eq(f.server.message_count, 0);
			cr_assert_eq(f.client.message_count, 0);
		}
	}
	fixture_close(&f);
}

/* Both take SIGN; a downgrade to it is one nobody asked for where one of them wants SEAL. */
Test(auth_enemy, downgrades)
{
	fixture_make_keys(&f);
	f.client_security = SPLIT_SECURITY_SIGN;
	f.server_security = SPLIT_SECURITY_SEAL;
	fixture_open(&f, NET_SIM, NULL, NULL);
	for (uint32_t flags = 0; flags < 8; flags++) {
		for (uint32_t nth = 0; nth < 3; nth++) {
			bool is_same = nth == 2 ? flags == SPLIT_SECURITY_SEAL
						: flags == SPLIT_SECURITY_SIGN;

			meet(DEED_FLAGS, nth == 2 ? 1 : 0, nth == 2 ? 0 : nth, flags);
			if (is_same) {
				close_ready();
				continue;
			}
			cr_assert_eq(f.client.ready_count, 0, "flags %u of %u", flags, nth);
			cr_assert_eq(f.accept_count, 0, "flags %u of %u", flags, nth);
		}
	}
	fixture_close(&f);
}

static bool
all_ended(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	enemy_look();
	return fixture->client.closed_count > 0 && fixture->server.closed_count > 0;
}

/* Requests under way; the first is touched. Returns how many came to the server's handler. */
static uint32_t
messages_with(enum deed deed, uint32_t at)
{
	static dev_ptr memory;

	if (f.world == NULL) {
		open_sim();
		memory = pattern_alloc(f.client_port, PAYLOAD_BYTES, 5);
	}
	f.server.mode = SIDE_RELEASE;
	meet(DEED_NONE, 0, 0, 0);
	f.server.mode = SIDE_RELEASE;
	for (uint32_t i = 0; i < MESSAGES; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, memory, PAYLOAD_BYTES);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	enemy.deed = deed;
	enemy.at = at;
	enemy.nth = enemy.seen_count[0];
	fixture_run(&f, all_ended, 0);
	cr_assert(enemy.is_done);
	return f.server.message_count;
}

Test(auth_enemy, any_byte_of_a_message)
{
	for (uint32_t at = 0; at < SEAL_HEAD_BYTES + PAYLOAD_BYTES; at += 3)
		cr_assert_eq(messages_with(DEED_FLIP, at), 0, "byte %u", at);
	fixture_close(&f);
}

Test(auth_enemy, a_message_dropped_or_swapped)
{
	cr_assert_eq(messages_with(DEED_DROP, 0), 0);
	cr_assert_eq(messages_with(DEED_SWAP, 0), 0);
	fixture_close(&f);
}

Test(auth_enemy, a_message_repeated)
{
	/* The messages that were sent are believed, each once. */
	cr_assert_leq(messages_with(DEED_REPEAT, 0), MESSAGES);
	fixture_close(&f);
}
