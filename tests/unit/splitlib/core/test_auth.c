/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keyed queue pairs: who gets in, what both sides are told, and that what travels is what was sent.
 *
 * test_qp, test_credit and their like run over sealed connections as well (CLEAVE_TEST_SEALED); here is what has to do
 * with keys. An enemy between the two is in test_auth_enemy.c.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/split_fixture.h"

#include "base/tcp_address.h"
#include "splitlib/core/alloc.h"
#include "splitlib/core/auth.h"
#include "splitlib/core/wire.h"
#include "splitlib/secure/handshake.h"
#include "splitlib/secure/seal.h"

#define KEYS_LIVE (2u * 2u) /* two keys, and whom each has verified: they outlive a fixture */
#define BURST 200u
#define BURST_BYTES_MAX 65536u

static struct fixture f;
static struct test_send sends[BURST];

static struct split_key *
other_key(const char *uri, uint64_t ends_s)
{
	struct key_authority other;
	struct key_wish wish = { .uri = uri, .ends_s = ends_s };
	char text[KEY_MAKER_TEXT_BYTES], path[] = "/tmp/cleave_key_XXXXXX", why[256];
	struct split_key *key;
	int fd = mkstemp(path);

	key_authority_make(&other, 0, 0);
	key_make_text(ends_s != 0 ? &f.authority : &other, ends_s != 0 ? &f.authority : &other,
	    &wish, text);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	key = split_key_load(path, why);
	cr_assert_not_null(key, "%s", why);
	(void)close(fd);
	(void)unlink(path);
	return key;
}

static void
open_keyed(enum net_kind kind)
{
	if (f.server_key == NULL)
		fixture_make_keys(&f);
	fixture_open(&f, kind, NULL, NULL);
}

static bool
server_was_told(struct fixture *fixture, uint64_t wanted)
{
	return fixture->refused_count >= wanted;
}

/* The connection ends at both sides, with these words of theirs. */
static void
both_refuse(enum net_kind kind, const char *client_words, const char *server_words)
{
	fixture_open(&f, kind, NULL, NULL);
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	fixture_run(&f, server_was_told, 1);
	cr_assert_eq(f.client.closed_rc, -EKEYREJECTED, "%d %s", f.client.closed_rc,
	    f.client.reason);
	cr_assert(strstr(f.client.reason, client_words) != NULL, "client: %s", f.client.reason);
	cr_assert(strstr(f.refused, server_words) != NULL, "server: %s", f.refused);
	cr_assert_eq(f.client.ready_count, 0);
	cr_assert_eq(f.accept_count, 0);
	cr_assert_eq(split_port_counters(f.server_port)->auths_refused, f.refused_count);
	fixture_close(&f);
}

TestSuite(auth, .timeout = 60);

BOTH(auth, both_know_each_other)
{
	open_keyed(kind);
	fixture_connect_both(&f);
	cr_assert_eq(split_qp_security(f.client.qp), SPLIT_SECURITY_SEAL);
	cr_assert_eq(split_qp_security(f.server.qp), SPLIT_SECURITY_SEAL);
	cr_assert_eq(split_qp_subject(f.client.qp)->role, SPLIT_ROLE_NODE);
	cr_assert_str_eq(split_qp_subject(f.client.qp)->name, "3");
	cr_assert_eq(split_qp_subject(f.server.qp)->role, SPLIT_ROLE_GATEWAY);
	cr_assert_str_eq(split_qp_subject(f.server.qp)->name, "1");
	cr_assert_str_eq(f.server.hello, "client");
	cr_assert_str_eq(f.client.hello, "server");
	cr_assert_eq(f.server_port->auth_count, 0);
	/* Nothing of the handshake is kept. */
	cr_assert_null(f.client.qp->auth);
	cr_assert_null(f.server.qp->auth);
	fixture_close(&f);
}

/* Messages of every length, many under way at once: each lands in one piece, or is spilled. */
static void
burst(enum net_kind kind, enum split_security security)
{
	dev_ptr memory;

	f.client_security = f.server_security = security;
	open_keyed(kind);
	f.client.mode = SIDE_HOLD;
	f.server.mode = SIDE_ANSWER;
	fixture_connect_both(&f);
	cr_assert_eq(split_qp_security(f.server.qp), security);
	memory = pattern_alloc(f.client_port, BURST_BYTES_MAX, 5);
	for (uint32_t i = 0; i < BURST; i++) {
		uint32_t bytes = i % 3 == 0 ? 4096 : (i * 331) % (BURST_BYTES_MAX + 1);

		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, memory, bytes);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	/* Receives that are held are not there for answers. */
	for (uint32_t got = 0; got < BURST;) {
		fixture_run(&f, client_got, got + 1);
		for (uint32_t i = 0; i < f.client.held_count; i++) {
			struct split_msg *msg = f.client.held[i];

			cr_assert_eq(msg->payload_bytes,
			    sends[msg->header->request_id].piece.bytes);
			pattern_check(f.client_port, msg->payload, msg->payload_bytes, 5, 0);
			split_msg_release(msg);
		}
		got += f.client.held_count;
		f.client.held_count = 0;
	}
	cr_assert_eq(f.client.message_count, BURST);
	fixture_close(&f);
}

BOTH(auth, sealed_messages_of_every_length_arrive)
{
	burst(kind, SPLIT_SECURITY_SEAL);
}

BOTH(auth, signed_messages_of_every_length_arrive)
{
	burst(kind, SPLIT_SECURITY_SIGN);
}

BOTH(auth, the_stricter_side_decides)
{
	f.client_security = SPLIT_SECURITY_SIGN;
	open_keyed(kind);
	fixture_connect_both(&f);
	cr_assert_eq(split_qp_security(f.client.qp), SPLIT_SECURITY_SEAL);
	cr_assert_eq(split_qp_security(f.server.qp), SPLIT_SECURITY_SEAL);
	fixture_close(&f);
	memset(&f, 0, sizeof(f));
	f.server_security = SPLIT_SECURITY_SIGN;
	open_keyed(kind);
	fixture_connect_both(&f);
	cr_assert_eq(split_qp_security(f.client.qp), SPLIT_SECURITY_SEAL);
	cr_assert_eq(split_qp_security(f.server.qp), SPLIT_SECURITY_SEAL);
	fixture_close(&f);
}

BOTH(auth, who_comes_without_a_key_is_told_to_bring_one)
{
	fixture_make_keys(&f);
	f.client_key = NULL;
	both_refuse(kind, "wants a key: --key", "without a key");
}

BOTH(auth, a_key_is_no_use_where_there_is_none)
{
	fixture_make_keys(&f);
	f.server_key = NULL;
	fixture_open(&f, kind, NULL, NULL);
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EKEYREJECTED);
	cr_assert(strstr(f.client.reason, "no key here") != NULL, "%s", f.client.reason);
	cr_assert_eq(f.accept_count, 0);
	fixture_close(&f);
}

BOTH(auth, an_open_acceptor_with_a_key_takes_both_kinds)
{
	f.server_security = SPLIT_SECURITY_OPEN;
	open_keyed(kind);
	fixture_connect_both(&f);
	cr_assert_eq(split_qp_security(f.server.qp), SPLIT_SECURITY_SEAL);
	fixture_close(&f);
	memset(&f, 0, sizeof(f));
	f.server_security = f.client_security = SPLIT_SECURITY_OPEN;
	open_keyed(kind);
	fixture_connect_both(&f);
	cr_assert_eq(split_qp_security(f.server.qp), SPLIT_SECURITY_OPEN);
	cr_assert_null(split_qp_subject(f.server.qp));
	cr_assert_null(split_qp_subject(f.client.qp));
	fixture_close(&f);
}

BOTH(auth, another_authority_is_refused_by_both)
{
	fixture_make_keys(&f);
	f.server_key = other_key(FIXTURE_NODE, 0);
	/* Either side may be the first to say so; each says its own word, or the other's. */
	both_refuse(kind, "another authority (CA)", "another authority (CA)");
}

BOTH(auth, another_cluster_is_refused_by_both)
{
	fixture_make_keys(&f);
	f.server_key = key_make(&f.authority, "cleave://0000000000000bad/node/3");
	both_refuse(kind, "0000000000000bad", "0000000000000bad");
}

BOTH(auth, an_expired_key_is_refused_by_both_with_both_times)
{
	fixture_make_keys(&f);
	f.server_key = other_key(FIXTURE_NODE, 5000);
	both_refuse(kind, "expired 1970-01-01 01:23:20 UTC, here it is 20",
	    "the peer refused: the certificate of node/3 expired 1970-01-01 01:23:20 UTC, here");
	memset(&f, 0, sizeof(f));
	fixture_make_keys(&f);
	f.client_key = other_key(FIXTURE_GATEWAY, 5000);
	both_refuse(kind,
	    "the peer refused: the certificate of gateway/1 expired 1970-01-01 01:23:20",
	    "the certificate of gateway/1 expired 1970-01-01 01:23:20 UTC, here it is 20");
}

BOTH(auth, a_connector_takes_only_the_roles_that_it_looks_for)
{
	fixture_make_keys(&f);
	f.peer_roles = SPLIT_ROLE_GATEWAY;
	both_refuse(kind, "node/3 is no gateway", "the peer refused: node/3 is no gateway");
}

BOTH(auth, a_connector_with_a_key_must_say_whom_it_looks_for)
{
	struct split_connect_options options = { .address = f.address, .ops = &side_ops };

	open_keyed(kind);
	options.arg = &f.client;
	cr_assert_null(connect_qp(f.client_port, &options));
	cr_assert_eq(errno, EINVAL);
	fixture_close(&f);
}

BOTH(auth, one_sided_work_is_not_supported)
{
	struct dev_remote remote = { .bytes = 4096, .rights = DEV_REGION_READ };
	dev_ptr memory;

	open_keyed(kind);
	fixture_connect_both(&f);
	memory = dev_alloc(f.client_port, 4096);
	cr_assert_null(dev_region_open(f.client_port, memory, 4096, DEV_REGION_READ, &remote));
	cr_assert_eq(errno, ENOTSUP);
	cr_assert_null(dev_read(f.client.qp, memory, 4096, &remote, 0));
	cr_assert_eq(errno, ENOTSUP);
	fixture_close(&f);
}

BOTH(auth, the_nth_allocation_fails)
{
	uint32_t nth = 0;
	bool is_ready = false;

	open_keyed(kind);
	while (!is_ready) {
		memset(&f.client, 0, sizeof(f.client));
		memset(&f.server, 0, sizeof(f.server));
		split_alloc_fail_at(++nth);
		cr_assert_lt(nth, 200);
		{
			struct split_connect_options options = { .address = f.address,
				.ops = &side_ops,
				.arg = &f.client,
				.peer_roles = SPLIT_ROLE_NODE };

			f.client.qp = connect_qp(f.client_port, &options);
		}
		if (f.client.qp == NULL) {
			cr_assert_eq(errno, ENOMEM);
			continue;
		}
		while (f.client.closed_count == 0 && !both_ready(&f, 0))
			(void)fixture_run_for(&f, both_ready, 0, NUM_MS(1));
		is_ready = both_ready(&f, 0);
	}
	split_alloc_fail_at(0);
	cr_assert_gt(nth, 5, "%u", nth);
	fixture_close(&f);
}

#define HALF_MAX (AUTH_MAX + 100u)

static bool
handshakes_are_full(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	return fixture->server_port->auth_count == AUTH_MAX;
}

/* A connection that says the first word of a handshake and no more. Returns its socket. */
static int
half_handshake(void)
{
	struct handshake *handshake = handshake_create(f.client_key, false);
	struct wire_header header = { .opcode = WIRE_AUTH,
		.epoch = SEAL_FORMAT,
		.flags = SPLIT_SECURITY_SEAL };
	struct sockaddr_storage address;
	const uint8_t *out;
	socklen_t address_bytes;
	size_t bytes;
	int fd;

	cr_assert_eq(handshake_step(handshake, NULL, 0), 0);
	out = handshake_out(handshake, &bytes);
	wire_frame_stamp(&header, (uint32_t)bytes, 0);
	cr_assert_eq(tcp_address_parse(f.address + strlen("tcp://"), &address, &address_bytes), 0);
	fd = socket(address.ss_family, SOCK_STREAM, 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&address, address_bytes), 0);
	cr_assert_eq(send(fd, &header, sizeof(header), 0), (ssize_t)sizeof(header));
	cr_assert_eq(send(fd, out, bytes, 0), (ssize_t)bytes);
	handshake_free(handshake);
	return fd;
}

Test(auth, half_handshakes_keep_nobody_out)
{
	int fds[HALF_MAX];

	open_keyed(NET_TCP);
	for (uint32_t i = 0; i < HALF_MAX; i++)
		fds[i] = half_handshake();
	fixture_run(&f, handshakes_are_full, 0);
	/* The honest one waits for a turn, not behind all of them, and gets in without a second try. */
	fixture_connect_both(&f);
	cr_assert_geq(f.refused_count, 1);
	cr_assert_leq(f.refused_count, AUTH_GIVE_WAY_MAX);
	cr_assert(strstr(f.refused, "not finished, and others waited") != NULL, "%s", f.refused);
	for (uint32_t i = 0; i < HALF_MAX; i++)
		(void)close(fds[i]);
	fixture_close(&f);
	cr_assert_eq(split_alloc_live_count(), KEYS_LIVE);
}

static bool
handshakes_wait(struct fixture *fixture, uint64_t wanted)
{
	return !list_is_empty(&fixture->server_port->auth_waiting) &&
	    fixture->server_port->auth_count == wanted;
}

Test(auth, who_goes_while_it_waits_is_forgotten)
{
	int fds[HALF_MAX];

	open_keyed(NET_TCP);
	for (uint32_t i = 0; i < HALF_MAX; i++)
		fds[i] = half_handshake();
	fixture_run(&f, handshakes_wait, AUTH_MAX);
	for (uint32_t i = 0; i < HALF_MAX; i++)
		(void)close(fds[i]);
	/* With some of them still waiting. */
	fixture_close(&f);
	cr_assert_eq(split_alloc_live_count(), KEYS_LIVE);
}
