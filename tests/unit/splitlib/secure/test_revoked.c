/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of revoked keys: which are taken, which are refused and with which words, and what a key says with one.
 *
 * They are built in with a planted bug, revoked_forgotten, that the simulator cannot show: no folder is put back there.
 */
#define CLEAVE_MUTANTS
#include "splitlib/secure/revoked.c"

#include <criterion/criterion.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "splitlib/secure/key.h"
#include "splitlib/secure/revoked.h"
#include "support/key_maker.h"

#define GATEWAY "cleave://00c0ffee00c0ffee/gateway/1"
#define NODE "cleave://00c0ffee00c0ffee/node/3"

struct mutant_set mutants_on;

static struct key_authority ours, other;
static struct split_key *key, *peer, *stolen;
static char text[KEY_MAKER_TEXT_BYTES], why[SPLIT_KEY_WHY_BYTES_MAX];

static void
setup(void)
{
	key_authority_make(&ours, 0, 0);
	key_authority_make(&other, 0, 0);
	key = key_make(&ours, NODE);
	peer = key_make(&ours, GATEWAY);
	stolen = key_make(&ours, GATEWAY);
	text[0] = '\0';
}

static void
teardown(void)
{
	split_key_free(key);
	split_key_free(peer);
	split_key_free(stolen);
	cr_assert_eq(alloc_live_count(ALLOC_SPLIT), 0, "something is left");
	key_authority_fini(&ours);
	key_authority_fini(&other);
}

/* The certificate of @who, to those who keep it. */
static struct key_certificate
certificate_of(const struct split_key *who)
{
	struct key_certificate certificate = { .serial = who->serial };

	memcpy(certificate.authority, who->authority_ids[who->authority], KEY_ID_BYTES);
	return certificate;
}

static int
judge(const struct split_key *by, const struct split_key *who)
{
	struct key_certificate certificate = certificate_of(who);

	return key_judge(by, &certificate, "gateway/1", why);
}

/* @before with the list that @text has in the end; @before stays. */
static struct split_key *
revoke(const struct split_key *before, const struct key_authority *authority, uint64_t number,
    const struct split_key *who)
{
	text[0] = '\0';
	key_make_list(authority, number, &who, who == NULL ? 0 : 1, text);
	return split_key_revoke(before, text, strlen(text), why);
}

TestSuite(revoked, .init = setup, .fini = teardown, .timeout = 60);

Test(revoked, a_list_has_whom_it_names_and_nobody_else)
{
	struct split_key *next = revoke(key, &ours, 1, stolen);
	size_t bytes;

	cr_assert_not_null(next, "%s", why);
	cr_assert_str_eq(why, "");
	cr_assert_eq(judge(next, stolen), -EKEYREJECTED);
	cr_assert_str_eq(why, "the key of gateway/1 was revoked");
	cr_assert_eq(judge(next, peer), 0);
	cr_assert_eq(judge(key, stolen), 0, "a key changes");
	cr_assert_str_eq(split_key_revoked(key, &bytes), "");
	cr_assert_eq(bytes, 0);
	cr_assert_str_eq(split_key_revoked(next, &bytes), text, "it is not passed on as it came");
	cr_assert_eq(bytes, strlen(text));
	split_key_free(next);
}

Test(revoked, the_key_outlives_the_one_it_was_made_of)
{
	struct split_key *file = key_make(&ours, NODE);
	struct split_key *next = revoke(file, &ours, 1, stolen), *last;

	split_key_free(file);
	last = revoke(next, &ours, 2, stolen);
	split_key_free(next);
	cr_assert_str_eq(split_key_subject(last)->name, "3");
	cr_assert_eq(judge(last, stolen), -EKEYREJECTED);
	cr_assert_eq(key_authority_of(last, ours.certificate), 0);
	split_key_free(last);
}

Test(revoked, an_older_list_that_names_nobody_new_is_refused)
{
	struct split_key *two = revoke(key, &ours, 2, stolen);

	cr_assert_null(revoke(two, &ours, 1, NULL));
	cr_assert_eq(errno, ESTALE);
	cr_assert(strstr(why, "number 1, and number 2 is known") != NULL, "%s", why);
	/* The same number, and another list: an authority's folder that was put back. */
	cr_assert_null(revoke(two, &ours, 2, NULL));
	cr_assert_eq(errno, ESTALE);
	cr_assert_null(revoke(two, &ours, 2, stolen));
	cr_assert_eq(errno, EALREADY);
	split_key_free(two);
}

/* An authority's folder was put back, and counted on: its list has the higher number, and fewer keys. */
Test(revoked, who_was_revoked_stays_so_whatever_a_newer_list_lacks)
{
	struct split_key *two = revoke(key, &ours, 2, stolen), *three, *passed, *four;
	const struct split_key *all[] = { stolen, peer };
	struct split_revoked_gaps gaps;
	const char *lists;
	size_t bytes;

	three = revoke(two, &ours, 300, peer); /* two bytes, for whoever compares text */
	cr_assert_not_null(three, "%s", why);
	cr_assert_eq(judge(three, stolen), -EKEYREJECTED, "a newer list has given a key back");
	split_key_revoked_gaps(three, &gaps);
	cr_assert_eq(gaps.lacked_count, 1u);
	cr_assert_eq(gaps.lost_count, 0u);
	cr_assert_neq(gaps.serials[0], '\0');
	cr_assert_eq(judge(three, peer), -EKEYREJECTED);
	/* The text that is passed on says it all, to who knew nothing, in one go. */
	lists = split_key_revoked(three, &bytes);
	passed = split_key_revoke(key, lists, bytes, why);
	cr_assert_not_null(passed, "%s", why);
	cr_assert_str_eq(why, "");
	cr_assert_eq(judge(passed, stolen), -EKEYREJECTED);
	cr_assert_eq(judge(passed, peer), -EKEYREJECTED);
	cr_assert_null(split_key_revoke(passed, lists, bytes, why));
	cr_assert_eq(errno, EALREADY);
	split_key_free(passed);
	/* A list that has them all is the only one again. */
	text[0] = '\0';
	key_make_list(&ours, 301, all, 2, text);
	four = split_key_revoke(three, text, strlen(text), why);
	cr_assert_not_null(four, "%s", why);
	cr_assert_str_eq(split_key_revoked(four, &bytes), text);
	split_key_revoked_gaps(four, &gaps);
	cr_assert_eq(gaps.lacked_count, 0u);
	split_key_free(two);
	split_key_free(three);
	split_key_free(four);
}

/* A release before left keys out that had ended: the folder's list has its number, and more keys. */
Test(revoked, a_planted_bug_lets_in_who_was_revoked_before)
{
	struct split_key *two = revoke(key, &ours, 2, stolen), *three = revoke(two, &ours, 3, peer);

	cr_assert_not_null(three, "%s", why);
	mutant_set_add(&mutants_on, MUTANT_revoked_forgotten);
	cr_assert_eq(judge(three, peer), -EKEYREJECTED);
	cr_assert_eq(judge(three, stolen), 0);
	split_key_free(two);
	split_key_free(three);
}

Test(revoked, a_list_of_the_same_number_that_names_more_is_no_older_one)
{
	struct split_key *two = revoke(key, &ours, 2, stolen), *more;
	const struct split_key *all[] = { stolen, peer };
	struct split_revoked_gaps gaps;

	text[0] = '\0';
	key_make_list(&ours, 2, all, 2, text);
	more = split_key_revoke(two, text, strlen(text), why);
	cr_assert_not_null(more, "%s", why);
	split_key_revoked_gaps(more, &gaps);
	cr_assert_eq(gaps.older_number, 0u);
	cr_assert_eq(gaps.lacked_count, 0u);
	cr_assert_eq(judge(more, peer), -EKEYREJECTED);
	split_key_free(two);
	split_key_free(more);
}

/* A folder that is put back again and again: beyond what is kept the oldest list goes, and that is told. */
Test(revoked, the_oldest_of_too_many_lists_goes_and_is_counted)
{
	struct split_key *who[REVOKED_LISTS_MAX + 1], *at = split_key_share(key), *next;
	struct split_revoked_gaps gaps;

	for (uint32_t i = 0; i <= REVOKED_LISTS_MAX; i++) {
		who[i] = key_make(&ours, GATEWAY);
		next = revoke(at, &ours, i + 1, who[i]);
		cr_assert_not_null(next, "%s", why);
		split_key_revoked_gaps(next, &gaps);
		cr_assert_eq(gaps.lacked_count, i);
		cr_assert_eq(gaps.lost_count, i == REVOKED_LISTS_MAX);
		split_key_free(at);
		at = next;
	}
	for (uint32_t i = 0; i <= REVOKED_LISTS_MAX; i++) {
		cr_assert_eq(judge(at, who[i]), i == 0 ? 0 : -EKEYREJECTED, "%u", i);
		split_key_free(who[i]);
	}
	split_key_free(at);
}

/* Lists come in any order: an older list that names somebody whom the newest lacks counts as well. */
Test(revoked, an_older_list_that_names_others_is_taken)
{
	struct split_key *three = revoke(key, &ours, 3, peer), *two;

	two = revoke(three, &ours, 2, stolen);
	cr_assert_not_null(two, "%s", why);
	cr_assert_str_eq(why, "");
	cr_assert_eq(judge(two, stolen), -EKEYREJECTED);
	cr_assert_eq(judge(two, peer), -EKEYREJECTED);
	cr_assert_null(revoke(two, &ours, 3, peer));
	cr_assert_eq(errno, EALREADY);
	split_key_free(three);
	split_key_free(two);
}

Test(revoked, another_authoritys_is_refused_by_name)
{
	cr_assert_null(revoke(key, &other, 9, stolen));
	cr_assert_eq(errno, EKEYREJECTED);
	cr_assert(strstr(why, "another authority") != NULL && strstr(why, "CN=cluster") != NULL,
	    "%s", why);
}

/* As while one authority replaces the other: both have the same name. */
Test(revoked, each_authority_has_a_list_of_its_own)
{
	struct key_wish wish = { .uri = NODE };
	struct split_key *both, *one, *two, *theirs = key_make(&other, GATEWAY);
	size_t bytes;

	key_make_text(&ours, &ours, &wish, text);
	bytes = KEY_MAKER_TEXT_BYTES - strlen(text) - 1;
	cr_assert(gnutls_x509_crt_export(other.certificate, GNUTLS_X509_FMT_PEM,
		      text + strlen(text), &bytes) >= 0);
	both = key_parse(text, strlen(text), why);
	cr_assert_not_null(both, "%s", why);
	one = revoke(both, &ours, 7, stolen);
	two = revoke(one, &other, 1, theirs);
	cr_assert_not_null(two, "%s", why);
	cr_assert_eq(judge(two, stolen), -EKEYREJECTED);
	cr_assert_eq(judge(two, theirs), -EKEYREJECTED);
	cr_assert_eq(judge(two, peer), 0);
	/* All that it has, given to one that knows one of the two: that list is taken, and the other named. */
	{
		struct split_key *part;
		const char *all = split_key_revoked(two, &bytes);

		part = split_key_revoke(key, all, bytes, why);
		cr_assert_not_null(part);
		cr_assert(strstr(why, "another authority") != NULL, "%s", why);
		cr_assert_eq(judge(part, stolen), -EKEYREJECTED);
		split_key_free(part);
	}
	/* The old authority is gone from the file: whom it signed is believed no more. */
	cr_assert_eq(judge(key, theirs), -EKEYREJECTED);
	cr_assert_str_eq(why, "the authority (CA) of gateway/1 is in the key file no more");
	split_key_free(both);
	split_key_free(one);
	split_key_free(two);
	split_key_free(theirs);
}

Test(revoked, its_own_key_is_known_when_it_is_named)
{
	struct split_key *next = revoke(key, &ours, 1, key);

	cr_assert(!split_key_is_revoked(key));
	cr_assert(split_key_is_revoked(next));
	split_key_free(next);
}

Test(revoked, a_change_of_any_byte_is_seen)
{
	const struct split_key *who = stolen;
	size_t begin, end;

	key_make_list(&ours, 5, &who, 1, text);
	begin = (size_t)(strchr(text, '\n') - text);
	end = (size_t)(strstr(text, "-----END") - text);
	for (size_t i = begin; i < end; i++) {
		char was = text[i];
		struct split_key *next;

		if (was == '\n')
			continue;
		text[i] = was == 'A' ? 'B' : 'A';
		next = split_key_revoke(key, text, strlen(text), why);
		/* The unused bits of the last character are nobody's. */
		cr_assert(next == NULL || judge(next, stolen) == -EKEYREJECTED, "byte %zu", i);
		if (next == NULL)
			cr_assert(errno == EINVAL || errno == EKEYREJECTED, "byte %zu: %d %s", i,
			    errno, why);
		split_key_free(next);
		text[i] = was;
	}
}

Test(revoked, what_is_no_list_is_refused)
{
	static const char *const texts[] = { "", "garbage",
		"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n" };
	char *large = calloc(1, SPLIT_REVOKED_BYTES_MAX + 1);

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		cr_assert_null(split_key_revoke(key, texts[i], strlen(texts[i]), why));
		cr_assert_eq(errno, EINVAL);
		cr_assert(strstr(why, "no list of revoked keys") != NULL, "%s", why);
	}
	cr_assert_null(split_key_revoke(key, large, SPLIT_REVOKED_BYTES_MAX + 1, why));
	cr_assert_eq(errno, EFBIG);
	free(large);
}

Test(revoked, the_nth_allocation_fails)
{
	const struct split_key *who = stolen;
	struct split_key *one = revoke(key, &ours, 1, stolen), *next = NULL;

	text[0] = '\0';
	key_make_list(&ours, 2, &who, 1, text);
	for (uint32_t n = 1; next == NULL; n++) {
		alloc_fail_at(ALLOC_SPLIT, n);
		next = split_key_revoke(one, text, strlen(text), why);
		alloc_fail_at(ALLOC_SPLIT, 0);
		if (next == NULL)
			cr_assert_eq(errno, ENOMEM, "%u: %s", n, why);
		cr_assert_lt(n, 50);
	}
	split_key_free(one);
	split_key_free(next);
}
