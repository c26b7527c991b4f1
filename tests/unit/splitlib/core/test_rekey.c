/* SPDX-License-Identifier: Apache-2.0 */
/* Another key for a port that runs: what ends, what goes on, and by which key new connections are judged. */
#include "tests/unit/split_fixture.h"

#include "splitlib/core/alloc.h"
#include "splitlib/secure/key.h"

static struct fixture f;
static char list[KEY_MAKER_TEXT_BYTES], why[SPLIT_KEY_WHY_BYTES_MAX], ended[256];
static uint32_t ended_count;

static void
on_unbelieved(const struct split_qp *qp, const char *text, void *arg)
{
	cr_assert_eq(arg, &f);
	cr_assert_neq(split_qp_peer(qp)[0], '\0');
	ended_count++;
	(void)snprintf(ended, sizeof(ended), "%s", text);
}

static struct split_key *
with_list(const struct split_key *key, uint64_t number, const struct split_key *who)
{
	struct split_key *next;

	list[0] = '\0';
	key_make_list(&f.authority, number, &who, who == NULL ? 0 : 1, list);
	next = split_key_revoke(key, list, strlen(list), why);
	cr_assert_not_null(next, "%s", why);
	return next;
}

static void
open_connected(enum net_kind kind)
{
	fixture_make_keys(&f);
	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	ended_count = 0;
}

static void
close_all(void)
{
	fixture_close(&f);
	fixture_free_keys(&f);
	cr_assert_eq(alloc_live_count(ALLOC_SPLIT), 0, "something is left");
}

TestSuite(rekey, .timeout = 60);

BOTH(rekey, who_is_revoked_is_cut_off_and_stays_out)
{
	struct split_key *next;

	open_connected(kind);
	next = with_list(f.server_key, 1, f.client_key);
	cr_assert_eq(split_port_rekey(f.server_port, next, on_unbelieved, &f), 1);
	cr_assert_eq(ended_count, 1);
	cr_assert_str_eq(ended, "the key of gateway/1 was revoked");
	fixture_run(&f, client_closed, 0);
	fixture_run(&f, server_closed, 0);
	cr_assert_eq(f.server.closed_rc, -EKEYREJECTED);
	/* The peer comes again, and is told why. */
	f.client.closed_rc = 0;
	f.client.closed_count = 0;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EKEYREJECTED);
	cr_assert(strstr(f.client.reason, "was revoked") != NULL, "%s", f.client.reason);
	split_key_free(next);
	close_all();
}

BOTH(rekey, the_side_that_connects_knows_who_is_revoked_as_well)
{
	struct split_key *next;

	open_connected(kind);
	next = with_list(f.client_key, 1, f.server_key);
	cr_assert_eq(split_port_rekey(f.client_port, next, on_unbelieved, &f), 1);
	cr_assert_str_eq(ended, "the key of node/3 was revoked");
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EKEYREJECTED);
	f.client.closed_count = 0;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	cr_assert(strstr(f.client.reason, "node/3 was revoked") != NULL, "%s", f.client.reason);
	cr_assert_eq(f.client.ready_count, 1, "it was let in again");
	split_key_free(next);
	close_all();
}

/* A list that names others, and a renewed key: what stands is used further, and new connections show the new key. */
BOTH(rekey, what_stands_goes_on)
{
	struct split_key *renewed, *next;
	struct test_send send;

	open_connected(kind);
	renewed = key_make(&f.authority, FIXTURE_NODE);
	next = with_list(renewed, 1, f.server_key);
	cr_assert_eq(split_port_rekey(f.server_port, next, on_unbelieved, &f), 0);
	cr_assert_eq(split_port_key(f.server_port), next);
	f.server.mode = SIDE_ANSWER;
	test_send_init(&send, &f.client, WIRE_ECHO, 1, DEV_PTR_NULL, 0);
	split_send(f.client.qp, &send.send);
	fixture_run(&f, client_got, 1);
	/* The connector, which knows that the old key was revoked, is shown the renewed one. */
	split_qp_close(f.client.qp);
	fixture_run(&f, client_closed, 0);
	fixture_run(&f, server_closed, 0);
	split_key_free(renewed);
	renewed = with_list(f.client_key, 1, f.server_key);
	cr_assert_eq(split_port_rekey(f.client_port, renewed, on_unbelieved, &f), 0);
	f.client.ready_count = f.server.ready_count = 0;
	fixture_connect_both(&f);
	split_key_free(renewed);
	split_key_free(next);
	close_all();
}

/* A list that comes while they shake hands counts for that handshake. */
BOTH(rekey, a_handshake_under_way_is_judged_by_the_new_one)
{
	struct split_key *next;

	fixture_make_keys(&f);
	fixture_open(&f, kind, NULL, NULL);
	ended_count = 0;
	f.client.closed_count = 0;
	(void)fixture_connect(&f, &side_ops);
	next = with_list(f.server_key, 1, f.client_key);
	cr_assert_eq(split_port_rekey(f.server_port, next, on_unbelieved, &f), 0);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.accept_count, 0);
	cr_assert(strstr(f.client.reason, "was revoked") != NULL, "%s", f.client.reason);
	split_key_free(next);
	close_all();
}
