/* SPDX-License-Identifier: Apache-2.0 */
/* test_ca_lists.c -- lists of revoked keys that an authority makes, one after another; and those that it adopts */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/durable.h"
#include "cleave/secure.h"
#include "unit/ca_rig.h"
#include "vm-client/keys/ca.h"
#include "vm-client/keys/certificate.h"

static char *
read_list(const struct rig *rig, size_t *ret_bytes)
{
	return read_text(in(rig->ca, CA_REVOKED_NAME), ret_bytes);
}

/* As a copy of the folder that is put back: it knows nothing of what was issued and revoked since. */
Test(ca_lists, adopted_list_is_revoked_here_too_and_has_a_higher_number)
{
	char known[ISSUED_SERIAL_TEXT_BYTES], unknown[ISSUED_SERIAL_TEXT_BYTES];
	char *copy, *lists, why[SPLIT_KEY_WHY_BYTES_MAX];
	size_t copy_bytes, bytes;
	struct split_key *key, *old, *both;
	struct split_revoked_gaps gaps;
	uint32_t count = 9;
	struct rig rig;
	struct ca *ca;

	rig_init(&rig);
	cr_assert_eq(issue(&rig, "client/a", 0, NOW, true), 0);
	memcpy(known, rig.entry.serial, sizeof(known));
	copy = read_text(in(rig.ca, CA_ISSUED_NAME), &copy_bytes);
	cr_assert_eq(issue(&rig, "client/b", 0, NOW, true), 0);
	memcpy(unknown, rig.entry.serial, sizeof(unknown));
	ca = ca_open(rig.ca, rig.why);
	cr_assert_eq(ca_revoke(ca, "client/a", NOW, &count, rig.why), 0);
	cr_assert_eq(ca_revoke(ca, "client/b", NOW, &count, rig.why), 0);
	ca_close(ca);
	lists = read_list(&rig, &bytes);
	cr_assert_eq(durable_write(in(rig.ca, CA_ISSUED_NAME), copy, copy_bytes, 0600, true), 0);
	ca = ca_open(rig.ca, rig.why);
	cr_assert_eq(ca_adopt(ca, "no list\n", 8, NOW, &count, rig.why), -EINVAL);
	cr_assert_eq(ca_adopt(ca, lists, bytes, NOW + 5, &count, rig.why), 0, "%s", rig.why);
	cr_assert_eq(count, 2u);
	cr_assert_eq(ca_issued(ca)->crl_number, 3u);
	cr_assert_eq(ca_adopt(ca, lists, bytes, NOW + 6, &count, rig.why), 0);
	cr_assert_eq(count, 0u);
	cr_assert_eq(ca_issued(ca)->crl_number, 3u);
	ca_close(ca);
	ca = ca_open(rig.ca, rig.why);
	cr_assert_not_null(ca, "%s", rig.why);
	cr_assert_eq(issued_find(ca_issued(ca), known)->revoked_s, NOW + 5);
	cr_assert_str_eq(issued_find(ca_issued(ca), unknown)->subject, ISSUED_SUBJECT_UNKNOWN);
	ca_close(ca);
	/* A holder of the cluster's list takes the folder's, which lacks nothing. */
	key = split_key_load(rig.key, why);
	old = split_key_revoke(key, lists, bytes, why);
	free(lists);
	lists = read_list(&rig, &bytes);
	both = split_key_revoke(old, lists, bytes, why);
	cr_assert_not_null(both, "%s", why);
	split_key_revoked_gaps(both, &gaps);
	cr_assert_eq(gaps.lacked_count, 0u);
	cr_assert(split_key_is_revoked(both));
	split_key_free(key);
	split_key_free(old);
	split_key_free(both);
	free(copy);
	free(lists);
	rig_fini(&rig);
}

/* Keys that have ended stay on the list, as long as there is room: one that lacks them would be asked about. */
Test(ca_lists, list_has_those_that_have_ended_while_it_is_short)
{
	struct split_key *key, *first, *later;
	char why[SPLIT_KEY_WHY_BYTES_MAX], *lists;
	struct split_revoked_gaps gaps;
	uint32_t count;
	struct rig rig;
	size_t bytes;
	struct ca *ca;

	rig_init(&rig);
	cr_assert_eq(issue(&rig, "client/a", 1, NOW, true), 0);
	cr_assert_eq(issue(&rig, "client/b", 0, NOW, true), 0);
	key = split_key_load(rig.key, why);
	ca = ca_open(rig.ca, rig.why);
	cr_assert_eq(ca_revoke(ca, "client/a", NOW, &count, rig.why), 0);
	lists = read_list(&rig, &bytes);
	first = split_key_revoke(key, lists, bytes, why);
	free(lists);
	cr_assert_eq(ca_revoke(ca, "client/b", NOW + 90 * CA_DAY_S, &count, rig.why), 0);
	ca_close(ca);
	lists = read_list(&rig, &bytes);
	later = split_key_revoke(first, lists, bytes, why);
	cr_assert_not_null(later, "%s", why);
	split_key_revoked_gaps(later, &gaps);
	cr_assert_eq(gaps.lacked_count, 0u, "%s", gaps.serials);
	free(lists);
	split_key_free(key);
	split_key_free(first);
	split_key_free(later);
	rig_fini(&rig);
}

#define MANY 600u

/* Which of MANY keys a list names, by the number that is their serial's. */
struct named {
	bool is_on[MANY + 1];
	uint32_t count;
};

static int
note_named(const char *serial, void *arg)
{
	struct named *named = arg;

	named->is_on[strtoul(serial + 16, NULL, 16)] = true;
	named->count++;
	return 0;
}

static struct named
list_of(const struct issued *issued, const struct certificate_pair *pair, uint64_t now_s)
{
	struct certificate_text text = { NULL, 0 };
	struct named named = { .count = 0 };
	char why[CA_WHY_BYTES];
	uint64_t number;

	cr_assert_eq(certificate_crl(issued, pair, now_s, &text, why), 0, "%s", why);
	cr_assert_eq(certificate_crl_read(text.text, text.bytes, pair->certificate, note_named,
			 &named, &number, why),
	    0, "%s", why);
	certificate_text_fini(&text);
	return named;
}

static bool
lacks_one(const struct named *before, const struct named *after)
{
	for (uint32_t i = 0; i <= MANY; i++) {
		if (before->is_on[i] && !after->is_on[i])
			return true;
	}
	return false;
}

/* The two halves of the authority in @rig's folder. */
static void
read_pair(const struct rig *rig, struct certificate_pair *ret)
{
	char *certificate, *key, why[CA_WHY_BYTES];
	size_t certificate_bytes, key_bytes;

	certificate = read_text(in(rig->ca, CA_CERTIFICATE_NAME), &certificate_bytes);
	key = read_text(in(rig->ca, CA_KEY_NAME), &key_bytes);
	cr_assert_eq(certificate_pair_read(certificate, certificate_bytes, key, key_bytes, ret,
			 why),
	    0, "%s", why);
	free(certificate);
	free(key);
}

/* A key a day, which lasts @days and is revoked at once: how many lists lack keys of the one before, and want --force? */
static void
revoke_daily(uint64_t days, uint32_t forced_max)
{
	struct issued issued = { .cluster_id = CLUSTER };
	struct named before = { .count = 0 };
	char serial[ISSUED_SERIAL_TEXT_BYTES];
	struct certificate_pair pair;
	uint32_t forced_count = 0;
	struct rig rig;

	rig_init(&rig);
	read_pair(&rig, &pair);
	for (uint32_t i = 1; i <= MANY; i++) {
		uint64_t now_s = NOW + i * CA_DAY_S;
		struct named after;

		(void)snprintf(serial, sizeof(serial), "40000000000000000000%012x", i);
		cr_assert_eq(issued_adopt(&issued, serial, now_s + days * CA_DAY_S, now_s), 1);
		issued.crl_number++;
		after = list_of(&issued, &pair, now_s);
		cr_assert_leq(after.count, 275);
		for (uint32_t k = 1; k <= i; k++)
			cr_assert(after.is_on[k] || NOW + (k + days) * CA_DAY_S < now_s,
			    "key %u has not ended, and is not on the list of day %u", k, i);
		forced_count += lacks_one(&before, &after);
		before = after;
	}
	cr_assert_leq(forced_count, forced_max, "%u lists of %u want --force", forced_count, MANY);
	issued_fini(&issued);
	certificate_pair_fini(&pair);
	rig_fini(&rig);
}

Test(ca_lists, long_list_leaves_many_out_at_once_and_seldom)
{
	revoke_daily(1, 3);
}

/* Most of its room is of keys that have not ended. */
Test(ca_lists, list_of_many_that_last_leaves_some_out_at_once)
{
	revoke_daily(200, 15);
}
