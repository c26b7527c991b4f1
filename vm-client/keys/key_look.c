/* SPDX-License-Identifier: Apache-2.0 */
/* key_look.c -- see key_look.h */
#include "key_look.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/durable.h"
#include "base/plain.h"
#include "ca.h"
#include "cleave/secure.h"
#include "secure/subject.h"

#define LOOK_CERTIFICATES_MAX 9u
#define LOOK_ID_BYTES 64u
/* As daemons take it: its group may read it, which systemd's credentials are, but not write. */
#define LOOK_MODE_REFUSED ((mode_t)(S_IWGRP | S_IRWXO))

static const struct {
	const char *code, *text;
} problems[] = {
#define KEY_PROBLEM_ROW(symbol, code, text) { code, text },
	KEY_PROBLEM_LIST(KEY_PROBLEM_ROW)
#undef KEY_PROBLEM_ROW
};

const char *
key_problem_code(unsigned at)
{
	assert(at < KEY_PROBLEM_NR);
	return problems[at].code;
}

const char *
key_problem_text(unsigned at)
{
	assert(at < KEY_PROBLEM_NR);
	return problems[at].text;
}

/* ---- its certificates ---- */

struct parts {
	gnutls_x509_crt_t all[LOOK_CERTIFICATES_MAX];
	gnutls_x509_crt_t own; /* one of them; NULL: there is none */
	gnutls_x509_crt_t authorities[LOOK_CERTIFICATES_MAX];
	unsigned count, authority_count;
};

static void
hex(const uint8_t *bytes, size_t count, const char *between, char *out)
{
	for (size_t i = 0; i < count; i++)
		out += snprintf(out, 4, "%s%02x", i == 0 ? "" : between, bytes[i]);
}

static void
look_subject(struct key_look *look, gnutls_x509_crt_t certificate)
{
	struct split_subject subject;
	bool is_found = false;

	for (unsigned i = 0;; i++) {
		char uri[SUBJECT_URI_BYTES_MAX];
		size_t bytes = sizeof(uri);
		int rc = gnutls_x509_crt_get_subject_alt_name(certificate, i, uri, &bytes, NULL);

		if (rc == GNUTLS_E_SHORT_MEMORY_BUFFER)
			continue;
		if (rc < 0)
			break;
		if (rc != GNUTLS_SAN_URI || subject_parse(uri, bytes, &subject) != 0)
			continue;
		if (is_found)
			look->problems |= KEY_PROBLEM_NO_SUBJECT; /* two are none */
		is_found = true;
		look->cluster_id = subject.cluster_id;
		subject_text(&subject, look->subject);
	}
	if (!is_found)
		look->problems |= KEY_PROBLEM_NO_SUBJECT;
}

static void
look_times(struct key_look *look, gnutls_x509_crt_t certificate, uint64_t now_s)
{
	time_t from = gnutls_x509_crt_get_activation_time(certificate);
	time_t until = gnutls_x509_crt_get_expiration_time(certificate);

	look->from_s = from > 0 ? (uint64_t)from : 0;
	look->until_s = until > 0 ? (uint64_t)until : 0;
	if (look->from_s > now_s)
		look->problems |= KEY_PROBLEM_NOT_YET;
	if (look->until_s < now_s)
		look->problems |= KEY_PROBLEM_EXPIRED;
	else if (look->until_s - now_s < CA_DAYS_LEFT_WARN * (uint64_t)CA_DAY_S)
		look->problems |= KEY_PROBLEM_SOON;
}

static void
look_names(struct key_look *look, gnutls_x509_crt_t certificate)
{
	uint8_t bytes[32];
	size_t count = sizeof(bytes);
	size_t name_bytes = sizeof(look->issuer);

	if (gnutls_x509_crt_get_serial(certificate, bytes, &count) >= 0 &&
	    2 * count < sizeof(look->serial))
		hex(bytes, count, "", look->serial);
	count = sizeof(bytes);
	if (gnutls_x509_crt_get_fingerprint(certificate, GNUTLS_DIG_SHA256, bytes, &count) >= 0)
		hex(bytes, count, ":", look->fingerprint);
	if (gnutls_x509_crt_get_issuer_dn(certificate, look->issuer, &name_bytes) < 0)
		look->issuer[0] = '\0';
	(void)plain_text(look->issuer); /* others wrote it */
}

/* Does one of its authorities, or the one that is @wanted, stand for it, and is that one valid? */
static void
look_authority(struct key_look *look, const struct parts *parts, gnutls_x509_crt_t wanted,
    uint64_t now_s)
{
	const gnutls_x509_crt_t *signers = wanted != NULL ? &wanted : parts->authorities;
	unsigned signer_count = wanted != NULL ? 1 : parts->authority_count, verdict = 0;
	time_t until = -1;

	if (parts->authority_count == 0)
		look->problems |= KEY_PROBLEM_NO_CA;
	for (unsigned i = 0; wanted != NULL && i < parts->authority_count; i++)
		look->other_authorities += !gnutls_x509_crt_equals(parts->authorities[i], wanted);
	if (signer_count == 0)
		return;
	if (gnutls_x509_crt_list_verify(&parts->own, 1, signers, signer_count, NULL, 0,
		GNUTLS_VERIFY_DISABLE_TIME_CHECKS, &verdict) < 0 ||
	    verdict != 0) {
		look->problems |= KEY_PROBLEM_WRONG_CA;
		return;
	}
	for (unsigned i = 0; i < parts->authority_count; i++) {
		if (gnutls_x509_crt_check_issuer(parts->own, parts->authorities[i]) > 0) {
			time_t its = gnutls_x509_crt_get_expiration_time(parts->authorities[i]);

			until = its > until ? its : until;
		}
	}
	if (until < 0 || (uint64_t)until < now_s)
		look->problems |= KEY_PROBLEM_CA_EXPIRED;
}

static void
look_key(struct key_look *look, const struct parts *parts, const gnutls_datum_t *text)
{
	uint8_t ids[2][LOOK_ID_BYTES];
	size_t bytes[2] = { LOOK_ID_BYTES, LOOK_ID_BYTES };
	gnutls_x509_privkey_t key;

	if (gnutls_x509_privkey_init(&key) < 0) {
		look->problems |= KEY_PROBLEM_NO_KEY;
		return;
	}
	if (gnutls_x509_privkey_import(key, text, GNUTLS_X509_FMT_PEM) < 0)
		look->problems |= KEY_PROBLEM_NO_KEY;
	else if (parts->own != NULL &&
	    (gnutls_x509_crt_get_key_id(parts->own, GNUTLS_KEYID_USE_SHA256, ids[0], &bytes[0]) <
		    0 ||
		gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, ids[1], &bytes[1]) <
		    0 ||
		bytes[0] != bytes[1] || memcmp(ids[0], ids[1], bytes[0]) != 0))
		look->problems |= KEY_PROBLEM_OTHER_KEY;
	gnutls_x509_privkey_deinit(key); /* overwrites it */
}

static int
parts_read(struct parts *parts, const gnutls_datum_t *text, char *why)
{
	int rc;

	*parts = (struct parts){ .count = LOOK_CERTIFICATES_MAX };
	rc = gnutls_x509_crt_list_import(parts->all, &parts->count, text, GNUTLS_X509_FMT_PEM,
	    GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
	if (rc < 0) {
		parts->count = 0;
		(void)snprintf(why, KEY_LOOK_WHY_BYTES, "its certificates cannot be read: %s",
		    gnutls_strerror(rc));
		return rc == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EINVAL;
	}
	for (unsigned i = 0; i < parts->count; i++) {
		if (gnutls_x509_crt_get_ca_status(parts->all[i], NULL) > 0)
			parts->authorities[parts->authority_count++] = parts->all[i];
		else if (parts->own == NULL)
			parts->own = parts->all[i];
	}
	return 0;
}

int
key_look_text(const char *text, size_t bytes, gnutls_x509_crt_t authority, uint64_t now_s,
    struct key_look *ret, char *why)
{
	const gnutls_datum_t datum = { (unsigned char *)(uintptr_t)text, (unsigned)bytes };
	struct parts parts;
	int rc;

	assert(bytes <= KEY_LOOK_FILE_BYTES_MAX && text[bytes] == '\0');
	*ret = (struct key_look){ 0 };
	rc = parts_read(&parts, &datum, why);
	if (rc != 0)
		return rc;
	look_key(ret, &parts, &datum);
	if (parts.own == NULL) {
		ret->problems |= KEY_PROBLEM_NO_CERTIFICATE;
	} else {
		look_subject(ret, parts.own);
		look_times(ret, parts.own, now_s);
		look_names(ret, parts.own);
		hosts_of(parts.own, &ret->hosts);
		look_authority(ret, &parts, authority, now_s);
	}
	for (unsigned i = 0; i < parts.count; i++)
		gnutls_x509_crt_deinit(parts.all[i]);
	return 0;
}

int
key_look(const char *path, gnutls_x509_crt_t authority, uint64_t now_s, struct key_look *ret,
    char *why)
{
	struct split_key *key;
	struct stat st;
	size_t bytes;
	char *text;
	int rc = durable_read(AT_FDCWD, path, KEY_LOOK_FILE_BYTES_MAX, &text, &bytes);

	if (rc != 0) {
		(void)snprintf(why, KEY_LOOK_WHY_BYTES, "%s", strerror(-rc));
		return rc;
	}
	rc = key_look_text(text, bytes, authority, now_s, ret, why);
	explicit_bzero(text, bytes);
	free(text);
	if (rc != 0)
		return rc;
	if (stat(path, &st) != 0 || (st.st_mode & LOOK_MODE_REFUSED) != 0)
		ret->problems |= KEY_PROBLEM_MODE;
	if ((ret->problems &
		~(unsigned)(KEY_PROBLEM_SOON | KEY_PROBLEM_EXPIRED | KEY_PROBLEM_NOT_YET)) != 0)
		return 0;
	/* The last word is that of the code that daemons run. */
	key = split_key_load(path, ret->refusal);
	if (key == NULL)
		ret->problems |= KEY_PROBLEM_REFUSED;
	split_key_free(key);
	return 0;
}

void
key_look_compare(struct key_look *look, const struct issued *issued)
{
	const struct issued_entry *entry = issued_find(issued, look->serial);

	if (entry == NULL || look->cluster_id != issued->cluster_id ||
	    strcmp(entry->subject, look->subject) != 0)
		look->problems |= KEY_PROBLEM_UNKNOWN;
	else if (entry->revoked_s != 0)
		look->problems |= KEY_PROBLEM_REVOKED;
}
