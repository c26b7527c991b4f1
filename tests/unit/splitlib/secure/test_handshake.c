/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake: who is believed, whom both sides name, and what an enemy between them gets. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "splitlib/secure/handshake.h"
#include "splitlib/secure/key.h"
#include "support/key_maker.h"

#define GATEWAY "cleave://00c0ffee00c0ffee/gateway/1"
#define NODE "cleave://00c0ffee00c0ffee/node/3"
#define NOW_S 2000000u
#define ANY 31u
#define FLIGHTS_MAX 4u

static struct key_authority authority;
static bool is_edited;
static const struct handshake_context context = { .format = 1, .offered = 3, .chosen = 3 };

struct end {
	struct handshake *handshake;
	const struct split_key *key;
	int rc;
	struct split_subject peer;
	uint8_t out[HANDSHAKE_SECRET_BYTES], in[HANDSHAKE_SECRET_BYTES];
};

static struct split_key *
make(const struct key_authority *signer, const char *uri, uint64_t begins_s, uint64_t ends_s)
{
	struct key_wish wish = { .uri = uri, .begins_s = begins_s, .ends_s = ends_s };
	char text[KEY_MAKER_TEXT_BYTES], why[SPLIT_KEY_WHY_BYTES_MAX];
	struct split_key *key;

	key_make_text(signer, signer, &wish, text);
	key = key_parse(text, strlen(text), why);
	cr_assert_not_null(key, "%s", why);
	return key;
}

/* Flight @edit of the exchange has byte @at changed; UINT32_MAX: none has. Returns whether both completed. */
static bool
exchange(struct end ends[2], const struct split_key *a, const struct split_key *b, uint32_t edit,
    size_t at)
{
	uint8_t flight[HANDSHAKE_BYTES_MAX];
	size_t bytes = 0;

	is_edited = false;
	memset(ends, 0, 2 * sizeof(ends[0]));
	ends[0].handshake = handshake_create(a, false);
	ends[1].handshake = handshake_create(b, true);
	ends[0].key = a;
	ends[1].key = b;
	for (uint32_t i = 0; i < FLIGHTS_MAX; i++) {
		struct end *end = &ends[i % 2];
		const uint8_t *out;

		end->rc = handshake_step(end->handshake, flight, bytes);
		if (end->rc < 0)
			return false;
		out = handshake_out(end->handshake, &bytes);
		if (bytes == 0)
			break;
		memcpy(flight, out, bytes);
		if (i == edit && at < bytes) {
			is_edited = !key_is_version_byte(flight, bytes, at);
			flight[at] ^= 1;
		}
	}
	return ends[0].rc == 1 && ends[1].rc == 1;
}

static void
ends_free(struct end ends[2])
{
	handshake_free(ends[0].handshake);
	handshake_free(ends[1].handshake);
}

static void
judge_both(struct end ends[2], int wanted_by_connector, int wanted_by_acceptor, const char *words)
{
	int rc = handshake_judge(ends[0].handshake, ends[0].key, ANY, NOW_S, &ends[0].peer);

	cr_assert_eq(rc, wanted_by_connector, "%d %s", rc, handshake_why(ends[0].handshake));
	if (rc != 0)
		cr_assert(strstr(handshake_why(ends[0].handshake), words) != NULL, "%s",
		    handshake_why(ends[0].handshake));
	rc = handshake_judge(ends[1].handshake, ends[1].key, ANY, NOW_S, &ends[1].peer);
	cr_assert_eq(rc, wanted_by_acceptor, "%d %s", rc, handshake_why(ends[1].handshake));
	if (rc != 0)
		cr_assert(strstr(handshake_why(ends[1].handshake), words) != NULL, "%s",
		    handshake_why(ends[1].handshake));
}

static bool
secrets_agree(struct end ends[2], const struct handshake_context *a,
    const struct handshake_context *b)
{
	cr_assert_eq(handshake_secrets(ends[0].handshake, a, ends[0].out, ends[0].in), 0);
	cr_assert_eq(handshake_secrets(ends[1].handshake, b, ends[1].out, ends[1].in), 0);
	return memcmp(ends[0].out, ends[1].in, HANDSHAKE_SECRET_BYTES) == 0 &&
	    memcmp(ends[1].out, ends[0].in, HANDSHAKE_SECRET_BYTES) == 0;
}

TestSuite(handshake, .timeout = 60);

Test(handshake, both_know_each_other_and_have_the_same_secrets)
{
	struct split_key *a, *b;
	struct end ends[2];

	key_authority_make(&authority, 0, 0);
	a = key_make(&authority, GATEWAY);
	b = key_make(&authority, NODE);
	cr_assert(exchange(ends, a, b, UINT32_MAX, 0));
	judge_both(ends, 0, 0, "");
	cr_assert_eq(ends[0].peer.role, SPLIT_ROLE_NODE);
	cr_assert_str_eq(ends[0].peer.name, "3");
	cr_assert_eq(ends[1].peer.role, SPLIT_ROLE_GATEWAY);
	cr_assert(secrets_agree(ends, &context, &context));
	cr_assert_neq(memcmp(ends[0].out, ends[0].in, HANDSHAKE_SECRET_BYTES), 0);
	ends_free(ends);
	cr_assert_eq(alloc_live_count(ALLOC_SPLIT), 4); /* the keys, and whom they have verified */
	split_key_free(a);
	split_key_free(b);
}

Test(handshake, what_each_side_understood_otherwise_changes_the_secrets)
{
	const struct handshake_context others[] = { { 2, 3, 3 }, { 1, 2, 3 }, { 1, 3, 2 } };
	struct split_key *a, *b;
	struct end ends[2];

	key_authority_make(&authority, 0, 0);
	a = key_make(&authority, GATEWAY);
	b = key_make(&authority, NODE);
	cr_assert(exchange(ends, a, b, UINT32_MAX, 0));
	judge_both(ends, 0, 0, "");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_assert(!secrets_agree(ends, &context, &others[i]));
	ends_free(ends);
	split_key_free(a);
	split_key_free(b);
}

Test(handshake, of_another_authority_is_refused_by_both_and_says_so)
{
	struct key_authority other;
	struct split_key *a, *b;
	struct end ends[2];

	key_authority_make(&authority, 0, 0);
	key_authority_make(&other, 0, 0);
	a = key_make(&authority, GATEWAY);
	b = key_make(&other, NODE);
	cr_assert(exchange(ends, a, b, UINT32_MAX, 0));
	judge_both(ends, -EKEYREJECTED, -EKEYREJECTED, "of another authority (CA)");
	/* Still they can tell each other under the same keys. */
	cr_assert(secrets_agree(ends, &context, &context));
	ends_free(ends);
	split_key_free(a);
	split_key_free(b);
}

Test(handshake, of_another_cluster_is_refused_by_both_with_both_clusters)
{
	struct split_key *a, *b;
	struct end ends[2];

	key_authority_make(&authority, 0, 0);
	a = key_make(&authority, GATEWAY);
	b = key_make(&authority, "cleave://0000000000000bad/node/3");
	cr_assert(exchange(ends, a, b, UINT32_MAX, 0));
	judge_both(ends, -EKEYREJECTED, -EKEYREJECTED, "0000000000000bad");
	cr_assert_not_null(strstr(handshake_why(ends[0].handshake), "00c0ffee00c0ffee"));
	ends_free(ends);
	split_key_free(a);
	split_key_free(b);
}

Test(handshake, of_another_role_is_refused)
{
	struct split_key *a, *b;
	struct end ends[2];

	key_authority_make(&authority, 0, 0);
	a = key_make(&authority, GATEWAY);
	b = key_make(&authority, "cleave://00c0ffee00c0ffee/client/db1");
	cr_assert(exchange(ends, a, b, UINT32_MAX, 0));
	cr_assert_eq(handshake_judge(ends[0].handshake, ends[0].key,
			 SPLIT_ROLE_NODE | SPLIT_ROLE_GATEWAY, NOW_S, &ends[0].peer),
	    -EKEYREJECTED);
	cr_assert_str_eq(handshake_why(ends[0].handshake), "client/db1 is no gateway or node");
	ends_free(ends);
	split_key_free(a);
	split_key_free(b);
}

Test(handshake, out_of_its_time_is_refused_with_both_times)
{
	struct split_key *a, *late, *early;
	struct end ends[2];

	key_authority_make(&authority, 0, 0);
	a = key_make(&authority, GATEWAY);
	late = make(&authority, NODE, 1000, NOW_S - 1);
	early = make(&authority, NODE, NOW_S + 1, 0);
	cr_assert(exchange(ends, a, late, UINT32_MAX, 0));
	judge_both(ends, -EKEYREJECTED, 0, "node/3 expired 1970-01-24 03:33:19 UTC");
	cr_assert_not_null(
	    strstr(handshake_why(ends[0].handshake), "here it is 1970-01-24 03:33:20 UTC"));
	ends_free(ends);
	cr_assert(exchange(ends, early, a, UINT32_MAX, 0));
	judge_both(ends, 0, -EKEYREJECTED, "node/3 begins 1970-01-24 03:33:21 UTC");
	ends_free(ends);
	split_key_free(a);
	split_key_free(late);
	split_key_free(early);
}

Test(handshake, of_an_authority_that_has_expired_is_refused)
{
	struct split_key *a, *b;
	struct end ends[2];

	key_authority_make(&authority, 1000, NOW_S - 1);
	a = key_make(&authority, GATEWAY);
	b = key_make(&authority, NODE);
	cr_assert(exchange(ends, a, b, UINT32_MAX, 0));
	judge_both(ends, -EKEYREJECTED, -EKEYREJECTED, "the authority (CA) expired");
	ends_free(ends);
	split_key_free(a);
	split_key_free(b);
}

/* The signature was verified by then: everything else is judged each time. */
Test(handshake, of_who_was_believed_before_is_judged_again)
{
	struct key_authority other;
	struct split_key *a, *b, *next;
	struct end ends[2];
	char text[KEY_MAKER_TEXT_BYTES] = "", why[SPLIT_KEY_WHY_BYTES_MAX];

	key_authority_make(&authority, 0, 0);
	key_authority_make(&other, 0, 0);
	a = key_make(&authority, GATEWAY);
	b = make(&authority, NODE, 1000, NOW_S + 10);
	for (int i = 0; i < 2; i++) {
		cr_assert(exchange(ends, a, b, UINT32_MAX, 0));
		judge_both(ends, 0, 0, "");
		ends_free(ends);
	}
	cr_assert(exchange(ends, a, b, UINT32_MAX, 0));
	cr_assert_eq(handshake_judge(ends[0].handshake, a, ANY, NOW_S + 11, &ends[0].peer),
	    -EKEYREJECTED);
	cr_assert_not_null(strstr(handshake_why(ends[0].handshake), "node/3 expired"));
	cr_assert_eq(handshake_judge(ends[0].handshake, a, SPLIT_ROLE_CLIENT, NOW_S, &ends[0].peer),
	    -EKEYREJECTED);
	cr_assert_str_eq(handshake_why(ends[0].handshake), "node/3 is no client");
	/* The key file was read again, and has another authority alone. */
	next = key_make(&other, GATEWAY);
	cr_assert_eq(handshake_judge(ends[0].handshake, next, ANY, NOW_S, &ends[0].peer),
	    -EKEYREJECTED);
	cr_assert_not_null(strstr(handshake_why(ends[0].handshake), "of another authority"));
	split_key_free(next);
	key_make_list(&authority, 1, (const struct split_key *const[]){ b }, 1, text);
	next = split_key_revoke(a, text, strlen(text), why);
	cr_assert_not_null(next, "%s", why);
	cr_assert_eq(handshake_judge(ends[0].handshake, next, ANY, NOW_S, &ends[0].peer),
	    -EKEYREJECTED);
	cr_assert_str_eq(handshake_why(ends[0].handshake), "the key of node/3 was revoked");
	cr_assert_eq(handshake_judge(ends[0].handshake, a, ANY, NOW_S, &ends[0].peer), 0);
	ends_free(ends);
	split_key_free(next);
	split_key_free(a);
	split_key_free(b);
	key_authority_fini(&authority);
	key_authority_fini(&other);
}

/* Whatever byte is changed on the way: nobody completes who would have other secrets than the peer. */
Test(handshake, with_a_changed_byte_ends_or_gives_other_secrets, .timeout = 120)
{
	struct split_key *a, *b;
	struct end ends[2];
	uint32_t completed = 0;

	key_authority_make(&authority, 0, 0);
	a = key_make(&authority, GATEWAY);
	b = key_make(&authority, NODE);
	for (uint32_t edit = 0; edit < 3; edit++) {
		for (size_t at = 0; at < 700; at += edit == 0 ? 1 : 3) {
			if (exchange(ends, a, b, edit, at)) {
				completed += is_edited;
				if (handshake_judge(ends[0].handshake, ends[0].key, ANY, NOW_S,
					&ends[0].peer) == 0 &&
				    handshake_judge(ends[1].handshake, ends[1].key, ANY, NOW_S,
					&ends[1].peer) == 0)
					cr_assert(!is_edited ||
						!secrets_agree(ends, &context, &context),
					    "flight %u byte %zu", edit, at);
			}
			ends_free(ends);
		}
	}
	cr_assert_leq(completed, 6, "%u", completed);
	split_key_free(a);
	split_key_free(b);
}

Test(handshake, of_an_end_without_a_certificate_does_not_complete)
{
	gnutls_certificate_credentials_t none;
	struct split_key *a, *b;
	struct end ends[2];

	key_authority_make(&authority, 0, 0);
	a = key_make(&authority, GATEWAY);
	b = key_make(&authority, NODE);
	cr_assert_eq(gnutls_certificate_allocate_credentials(&none), 0);
	gnutls_certificate_free_credentials(a->credentials);
	a->credentials = none;
	cr_assert(!exchange(ends, a, b, UINT32_MAX, 0));
	cr_assert_eq(ends[1].rc, -EPROTO);
	ends_free(ends);
	split_key_free(a);
	split_key_free(b);
}

Test(handshake, is_given_up_beyond_its_bounds)
{
	static const uint8_t garbage[HANDSHAKE_BYTES_MAX + 1] = { 22, 3, 1, 0x40, 0 };
	struct split_key *key;
	struct handshake *handshake;
	int rc = 0;

	key_authority_make(&authority, 0, 0);
	key = key_make(&authority, NODE);
	handshake = handshake_create(key, true);
	cr_assert_eq(handshake_step(handshake, garbage, sizeof(garbage)), -EPROTO);
	cr_assert_str_eq(handshake_why(handshake), "the handshake is too long");
	handshake_free(handshake);
	/* A byte a message of a record that never ends. */
	handshake = handshake_create(key, true);
	for (uint32_t i = 0; rc == 0; i++) {
		cr_assert_leq(i, HANDSHAKE_MESSAGES_MAX);
		rc = handshake_step(handshake, garbage + i, 1);
	}
	cr_assert_eq(rc, -EPROTO);
	cr_assert_str_eq(handshake_why(handshake), "the handshake is too long");
	handshake_free(handshake);
	split_key_free(key);
}

static uint8_t old_hello[4096];
static size_t old_hello_bytes;

static ssize_t
old_push(gnutls_transport_ptr_t arg, const void *data, size_t bytes)
{
	(void)arg;
	cr_assert_leq(bytes, sizeof(old_hello) - old_hello_bytes);
	memcpy(old_hello + old_hello_bytes, data, bytes);
	old_hello_bytes += bytes;
	return (ssize_t)bytes;
}

static ssize_t
old_pull(gnutls_transport_ptr_t arg, void *data, size_t bytes)
{
	(void)data;
	(void)bytes;
	gnutls_transport_set_errno(*(gnutls_session_t *)arg, EAGAIN);
	return -1;
}

Test(handshake, of_an_older_tls_is_refused)
{
	gnutls_certificate_credentials_t none;
	gnutls_session_t old;
	struct split_key *key;
	struct handshake *handshake;

	key_authority_make(&authority, 0, 0);
	key = key_make(&authority, NODE);
	cr_assert_eq(gnutls_certificate_allocate_credentials(&none), 0);
	cr_assert_eq(gnutls_init(&old, GNUTLS_CLIENT | GNUTLS_NONBLOCK), 0);
	cr_assert_eq(gnutls_priority_set_direct(old, "NORMAL:-VERS-ALL:+VERS-TLS1.2", NULL), 0);
	cr_assert_eq(gnutls_credentials_set(old, GNUTLS_CRD_CERTIFICATE, none), 0);
	gnutls_transport_set_ptr(old, &old);
	gnutls_transport_set_push_function(old, old_push);
	gnutls_transport_set_pull_function(old, old_pull);
	cr_assert_eq(gnutls_handshake(old), GNUTLS_E_AGAIN);
	cr_assert_gt(old_hello_bytes, 0);
	handshake = handshake_create(key, true);
	cr_assert_eq(handshake_step(handshake, old_hello, old_hello_bytes), -EPROTO);
	handshake_free(handshake);
	gnutls_deinit(old);
	gnutls_certificate_free_credentials(none);
	split_key_free(key);
}
