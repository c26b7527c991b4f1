/* SPDX-License-Identifier: Apache-2.0 */
/* Key files: what is one, what is refused, and that the refusal names it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "splitlib/secure/key.h"
#include "splitlib/secure/subject.h"
#include "splitlib/secure/verified.h"
#include "support/key_maker.h"

#define NODE "cleave://00c0ffee00c0ffee/node/3"

static char text[KEY_MAKER_TEXT_BYTES], why[SPLIT_KEY_WHY_BYTES_MAX];

static void
make(const char *uri)
{
	struct key_authority authority;

	key_authority_make(&authority, 0, 0);
	key_make_text(&authority, &authority, &(struct key_wish){ .uri = uri }, text);
	key_authority_fini(&authority);
}

static void
cr_refused(const char *words)
{
	cr_assert_null(key_parse(text, strlen(text), why));
	cr_assert_eq(errno, EINVAL);
	cr_assert(strstr(why, words) != NULL, "%s", why);
}

Test(key, a_file_of_a_certificate_a_private_key_and_an_authority)
{
	struct split_key *key;

	make(NODE);
	key = key_parse(text, strlen(text), why);
	cr_assert_not_null(key, "%s", why);
	cr_assert_eq(split_key_subject(key)->cluster_id, 0x00c0ffee00c0ffeeULL);
	cr_assert_eq(split_key_subject(key)->role, SPLIT_ROLE_NODE);
	cr_assert_str_eq(split_key_subject(key)->name, "3");
	cr_assert_eq(split_key_expires_s(key), 4000000000u);
	split_key_free(key);
	split_key_free(NULL);
}

Test(key, expires_when_its_authority_does)
{
	struct key_authority authority;
	struct split_key *key;

	key_authority_make(&authority, 0, 5000);
	key = key_make(&authority, NODE);
	cr_assert_eq(split_key_expires_s(key), 5000);
	split_key_free(key);
	key_authority_fini(&authority);
}

Test(key, without_a_part_is_refused_by_name)
{
	char *end;

	make(NODE);
	end = strstr(strstr(text, "PRIVATE KEY") + 1, "-----BEGIN CERT");
	*end = '\0';
	cr_refused("no certificate of an authority");
	make(NODE);
	memmove(text, strstr(text, "-----BEGIN PRIV"), strlen(strstr(text, "-----BEGIN PRIV")) + 1);
	cr_refused("no certificate of its own");
	make(NODE);
	memset(strstr(text, "PRIVATE"), 'X', 7);
	cr_refused("private key cannot be read");
	text[0] = '\0';
	cr_refused("certificates cannot be read");
	make(NULL);
	cr_refused("no subject");
	make("cleave://00c0ffee00c0ffee/king/3");
	cr_refused("no subject");
}

Test(key, of_two_subjects_is_refused)
{
	struct key_authority authority;

	key_authority_make(&authority, 0, 0);
	key_make_text(&authority, &authority,
	    &(struct key_wish){ .uri = NODE, .more_uri = "cleave://00c0ffee00c0ffee/gateway/1" },
	    text);
	cr_refused("no subject");
	key_authority_fini(&authority);
}

Test(key, whose_parts_do_not_belong_together_is_refused)
{
	char other[KEY_MAKER_TEXT_BYTES];
	struct key_authority ours, theirs;

	make(NODE);
	(void)snprintf(other, sizeof(other), "%s", text);
	make(NODE);
	/* The private key of another one. */
	memcpy(strstr(text, "-----BEGIN PRIV"), strstr(other, "-----BEGIN PRIV"),
	    (size_t)(strstr(other, "-----END PRIV") - strstr(other, "-----BEGIN PRIV")));
	cr_refused("not that of its certificate");
	key_authority_make(&ours, 0, 0);
	key_authority_make(&theirs, 0, 0);
	key_make_text(&ours, &theirs, &(struct key_wish){ .uri = NODE }, text);
	cr_refused("none of its authorities signed");
	key_authority_fini(&ours);
	key_authority_fini(&theirs);
}

Test(key, of_a_file_that_others_may_read_is_refused)
{
	char path[] = "/tmp/cleave_key_XXXXXX";
	int fd = mkstemp(path);
	struct split_key *key;

	make(NODE);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	for (mode_t mode = 0; mode < 0777; mode++) {
		if ((mode & 0400) == 0 && geteuid() != 0)
			continue;
		cr_assert_eq(fchmod(fd, mode), 0);
		key = split_key_load(path, why);
		cr_assert_eq(key != NULL, (mode & 027) == 0, "mode %o: %s", mode, why);
		if (key == NULL)
			cr_assert(errno == EACCES && strstr(why, "chmod 600") != NULL, "%s", why);
		split_key_free(key);
	}
	cr_assert_eq(fchmod(fd, 0600), 0);
	cr_assert_eq(ftruncate(fd, KEY_FILE_BYTES_MAX + 1), 0);
	cr_assert_null(split_key_load(path, why));
	cr_assert_eq(errno, EFBIG);
	cr_assert_eq(unlink(path), 0);
	(void)close(fd);
	cr_assert_null(split_key_load(path, why));
	cr_assert_eq(errno, ENOENT);
	cr_assert_not_null(strstr(why, path));
}

/* By "chmod 600" nobody could go into it any more. */
Test(key, a_folder_is_no_file)
{
	cr_assert_null(split_key_load("/tmp", why));
	cr_assert_eq(errno, EISDIR);
	cr_assert_not_null(strstr(why, "/tmp: Is a directory"), "%s", why);
}

Test(key, the_nth_allocation_fails)
{
	struct split_key *key = NULL;
	uint32_t nth = 0;

	make(NODE);
	while (key == NULL) {
		alloc_fail_at(ALLOC_SPLIT, ++nth);
		key = key_parse(text, strlen(text), why);
		cr_assert(key != NULL || errno == ENOMEM);
	}
	cr_assert_gt(nth, 1);
	alloc_fail_at(ALLOC_SPLIT, 0);
	split_key_free(key);
	cr_assert_eq(alloc_live_count(ALLOC_SPLIT), 0);
}

Test(key, a_subject_is_written_in_one_way_alone)
{
	static const char *const wrong[] = { "", "cleave://", "cleave://00c0ffee00c0ffee",
		"cleave://00c0ffee00c0ffee/node", "cleave://00c0ffee00c0ffee/node/",
		"cleave://00C0FFEE00C0FFEE/node/3", "cleave://c0ffee/node/3",
		"cleave://0000000000000000/node/3", "cleave://00c0ffee00c0ffee/node/03",
		"cleave://00c0ffee00c0ffee/node/x", "cleave://00c0ffee00c0ffee/node/3/",
		"cleave://00c0ffee00c0ffee/node/12345678901",
		"cleave://00c0ffee00c0ffee/client/a b", "cleave://00c0ffee00c0ffee/client/-a",
		"cleave://00c0ffee00c0ffee/client/a/b", "cleave://00c0ffee00c0ffee//a",
		"http://00c0ffee00c0ffee/node/3", "cleave://00c0ffee00c0ffee/nodes/3",
		"cleave://00c0ffee00c0ffee-node/3" };
	static const char *const right[] = { NODE, "cleave://0000000000000001/gateway/4294967295",
		"cleave://ffffffffffffffff/client/db-1.example_x",
		"cleave://0123456789abcdef/admin/a",
		"cleave://0123456789abcdef/monitor/Prometheus" };
	struct split_subject subject;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_assert_eq(subject_parse(wrong[i], strlen(wrong[i]), &subject), -EINVAL, "%s",
		    wrong[i]);
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		char uri[SUBJECT_URI_BYTES_MAX];

		cr_assert_eq(subject_parse(right[i], strlen(right[i]), &subject), 0, "%s",
		    right[i]);
		subject_format(&subject, uri);
		cr_assert_str_eq(uri, right[i]);
	}
	/* A zero in a name does not end it. */
	cr_assert_eq(subject_parse("cleave://00c0ffee00c0ffee/client/a\0b", 36, &subject), -EINVAL);
}

Test(key, levels_of_security_have_names)
{
	enum split_security security = SPLIT_SECURITY_DEFAULT;

	cr_assert_eq(split_security_parse("seal", &security), 0);
	cr_assert_eq(security, SPLIT_SECURITY_SEAL);
	cr_assert_eq(split_security_parse("sign", &security), 0);
	cr_assert_eq(security, SPLIT_SECURITY_SIGN);
	cr_assert_eq(split_security_parse("open", &security), 0);
	cr_assert_eq(security, SPLIT_SECURITY_OPEN);
	cr_assert_eq(split_security_parse("", &security), -EINVAL);
	cr_assert_eq(split_security_parse("SEAL", &security), -EINVAL);
	cr_assert_eq(security, SPLIT_SECURITY_OPEN);
}

static gnutls_x509_crt_t
certificate_of(const char *pem, size_t bytes, gnutls_x509_crt_fmt_t format)
{
	const gnutls_datum_t datum = { .data = (unsigned char *)pem, .size = (unsigned)bytes };
	gnutls_x509_crt_t certificate;

	cr_assert_eq(gnutls_x509_crt_init(&certificate), 0);
	cr_assert_eq(gnutls_x509_crt_import(certificate, &datum, format), 0);
	return certificate;
}

/* The authority is exchanged behind its back: what it still answers, it has not verified again. */
Test(key, verifies_a_signature_once)
{
	struct key_authority ours, theirs;
	struct split_key *key;
	gnutls_x509_crt_t peer, stranger, own;

	key_authority_make(&ours, 0, 0);
	key_authority_make(&theirs, 0, 0);
	key = key_make(&ours, NODE);
	key_make_text(&ours, &ours, &(struct key_wish){ .uri = NODE }, text);
	peer = certificate_of(text, strlen(text), GNUTLS_X509_FMT_PEM);
	key_make_text(&ours, &ours, &(struct key_wish){ .uri = NODE }, text);
	stranger = certificate_of(text, strlen(text), GNUTLS_X509_FMT_PEM);
	cr_assert_eq(key_authority_of(key, peer), 0);
	own = key->authorities[0];
	key->authorities[0] = theirs.certificate;
	cr_assert_eq(key_authority_of(key, peer), 0);
	cr_assert_eq(key_authority_of(key, stranger), KEY_AUTHORITIES_MAX);
	cr_assert_eq(key_authority_of(key, stranger), KEY_AUTHORITIES_MAX);
	/* A refusal is not remembered. */
	key->authorities[0] = own;
	cr_assert_eq(key_authority_of(key, stranger), 0);
	gnutls_x509_crt_deinit(peer);
	gnutls_x509_crt_deinit(stranger);
	split_key_free(key);
	key_authority_fini(&theirs);
	key_authority_fini(&ours);
}

/* Whatever bit of a certificate that was believed is changed, its signature alone among it. */
Test(key, verifies_what_differs_in_a_bit)
{
	struct key_authority ours;
	struct split_key *key;
	gnutls_x509_crt_t peer;
	gnutls_datum_t der;
	uint32_t count = 0;

	key_authority_make(&ours, 0, 0);
	key = key_make(&ours, NODE);
	key_make_text(&ours, &ours, &(struct key_wish){ .uri = NODE }, text);
	peer = certificate_of(text, strlen(text), GNUTLS_X509_FMT_PEM);
	cr_assert_eq(key_authority_of(key, peer), 0);
	cr_assert_eq(gnutls_x509_crt_export2(peer, GNUTLS_X509_FMT_DER, &der), 0);
	for (unsigned at = 0; at < der.size; at++) {
		gnutls_x509_crt_t forged;

		der.data[at] ^= 1;
		cr_assert_eq(gnutls_x509_crt_init(&forged), 0);
		if (gnutls_x509_crt_import(forged, &der, GNUTLS_X509_FMT_DER) == 0) {
			count++;
			cr_assert_eq(key_authority_of(key, forged), KEY_AUTHORITIES_MAX, "byte %u",
			    at);
		}
		gnutls_x509_crt_deinit(forged);
		der.data[at] ^= 1;
	}
	cr_assert_gt(count, 64); /* the signature at least is no syntax */
	cr_assert_eq(key_authority_of(key, peer), 0);
	gnutls_free(der.data);
	gnutls_x509_crt_deinit(peer);
	split_key_free(key);
	key_authority_fini(&ours);
}

Test(key, forgets_a_verified_one_and_takes_none_for_another)
{
	uint8_t one[VERIFIED_FINGERPRINT_BYTES] = { 1, 2, 3 }, two[sizeof(one)] = { 1, 2, 3 };
	struct verified *verified = verified_create();

	two[sizeof(two) - 1] = 9; /* the same place */
	cr_assert_eq(verified_find(verified, one), VERIFIED_NONE);
	verified_add(verified, one, 0);
	cr_assert_eq(verified_find(verified, one), 0);
	cr_assert_eq(verified_find(verified, two), VERIFIED_NONE);
	verified_add(verified, two, KEY_AUTHORITIES_MAX - 1);
	cr_assert_eq(verified_find(verified, two), KEY_AUTHORITIES_MAX - 1);
	cr_assert_eq(verified_find(verified, one), VERIFIED_NONE);
	/* Zeros are a fingerprint like any other one. */
	memset(one, 0, sizeof(one));
	cr_assert_eq(verified_find(verified, one), VERIFIED_NONE);
	verified_free(verified);
	verified_free(NULL);
}
