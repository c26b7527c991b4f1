/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.c -- a key file: who this process is, and whose word it takes for who others are
 *
 *	-----BEGIN CERTIFICATE-----   the first that is no authority's: this process's
 *	-----BEGIN PRIVATE KEY-----   to it
 *	-----BEGIN CERTIFICATE-----   authorities, up to KEY_AUTHORITIES_MAX: two of them while one replaces the other
 *
 * What is refused here would fail at every peer: a private key of another certificate, a certificate that none of the
 * file's authorities signed. Times are not judged: a daemon that starts with an expired key says so by each
 * connection, and takes a new one without a restart of what it serves.
 */
#include "key.h"

#include <assert.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/num.h"
#include "base/secret_file.h"
#include "revoked.h"
#include "subject.h"
#include "verified.h"

#define KEY_CERTIFICATES_MAX (KEY_AUTHORITIES_MAX + 1)

_Static_assert(SECRET_FILE_WHY_BYTES <= SPLIT_KEY_WHY_BYTES_MAX, "one sentence");

/* The parts of a file, while it is read. */
struct parts {
	gnutls_x509_crt_t certificates[KEY_CERTIFICATES_MAX];
	unsigned certificate_count;
	gnutls_x509_crt_t own; /* one of them */
	gnutls_x509_crt_t authorities[KEY_AUTHORITIES_MAX];
	unsigned authority_count;
	gnutls_x509_privkey_t private_key;
};

static int key_refuse(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int
key_refuse(char *why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why, SPLIT_KEY_WHY_BYTES_MAX, format, args); /* cut where too long */
	va_end(args);
	return -EINVAL;
}

void
key_time_text(uint64_t time_s, char out[KEY_TIME_BYTES_MAX])
{
	time_t when = (time_t)time_s;
	struct tm parts;

	if (gmtime_r(&when, &parts) == NULL ||
	    strftime(out, KEY_TIME_BYTES_MAX, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0)
		(void)snprintf(out, KEY_TIME_BYTES_MAX, "no time");
}

int
key_certificate_subject(gnutls_x509_crt_t certificate, struct split_subject *ret_subject)
{
	struct split_subject subject;
	bool is_found = false;

	for (unsigned i = 0;; i++) {
		char name[SUBJECT_URI_BYTES_MAX];
		size_t bytes = sizeof(name);
		int rc = gnutls_x509_crt_get_subject_alt_name(certificate, i, name, &bytes, NULL);

		if (rc == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
			break;
		if (rc == GNUTLS_E_SHORT_MEMORY_BUFFER)
			continue; /* of another kind, or no subject of ours */
		if (rc < 0)
			return -EINVAL;
		if (rc != GNUTLS_SAN_URI || subject_parse(name, bytes, &subject) != 0)
			continue;
		if (is_found)
			return -EINVAL; /* who it is may not depend on who asks */
		is_found = true;
	}
	if (!is_found)
		return -EINVAL;
	*ret_subject = subject;
	return 0;
}

/* The key has the authorities' by then. */
static void
parts_fini(struct parts *parts, bool is_taken)
{
	for (unsigned i = 0; i < parts->certificate_count; i++) {
		if (!is_taken || parts->certificates[i] == parts->own)
			gnutls_x509_crt_deinit(parts->certificates[i]);
	}
	if (parts->private_key != NULL)
		gnutls_x509_privkey_deinit(parts->private_key); /* overwrites it */
}

static int
parts_sort(struct parts *parts, char *why)
{
	for (unsigned i = 0; i < parts->certificate_count; i++) {
		gnutls_x509_crt_t certificate = parts->certificates[i];

		if (gnutls_x509_crt_get_ca_status(certificate, NULL) > 0) {
			if (parts->authority_count == KEY_AUTHORITIES_MAX)
				return key_refuse(why, "more than %u certificates of authorities",
				    KEY_AUTHORITIES_MAX);
			parts->authorities[parts->authority_count++] = certificate;
		} else if (parts->own != NULL) {
			return key_refuse(why,
			    "two certificates that are no authority's: one is enough");
		} else {
			parts->own = certificate;
		}
	}
	if (parts->own == NULL)
		return key_refuse(why, "no certificate of its own, only authorities'");
	if (parts->authority_count == 0)
		return key_refuse(why, "no certificate of an authority (CA)");
	return 0;
}

static int
parts_read(struct parts *parts, const gnutls_datum_t *text, char *why)
{
	int rc;

	parts->certificate_count = KEY_CERTIFICATES_MAX;
	rc = gnutls_x509_crt_list_import(parts->certificates, &parts->certificate_count, text,
	    GNUTLS_X509_FMT_PEM, GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
	if (rc < 0) {
		parts->certificate_count = 0;
		return key_refuse(why, "its certificates cannot be read: %s", gnutls_strerror(rc));
	}
	rc = gnutls_x509_privkey_init(&parts->private_key);
	if (rc < 0) {
		parts->private_key = NULL;
		return -ENOMEM;
	}
	rc = gnutls_x509_privkey_import(parts->private_key, text, GNUTLS_X509_FMT_PEM);
	if (rc < 0)
		return key_refuse(why, "its private key cannot be read: %s", gnutls_strerror(rc));
	return parts_sort(parts, why);
}

/* 0: a time that cannot be read is over. */
static uint64_t
certificate_expires_s(gnutls_x509_crt_t certificate)
{
	time_t expires = gnutls_x509_crt_get_expiration_time(certificate);

	return expires > 0 ? (uint64_t)expires : 0;
}

int
key_serial_set(struct key_serial *serial, const uint8_t *bytes, size_t count)
{
	while (count > 0 && bytes[0] == 0) { /* some write the sign, some do not */
		bytes++;
		count--;
	}
	if (count == 0 || count > KEY_SERIAL_BYTES)
		return -EINVAL;
	memset(serial, 0, sizeof(*serial));
	memcpy(serial->bytes + KEY_SERIAL_BYTES - count, bytes, count);
	return 0;
}

int
key_certificate_serial(gnutls_x509_crt_t certificate, struct key_serial *ret_serial)
{
	uint8_t bytes[KEY_SERIAL_BYTES + 1];
	size_t count = sizeof(bytes);

	if (gnutls_x509_crt_get_serial(certificate, bytes, &count) < 0)
		return -EINVAL;
	return key_serial_set(ret_serial, bytes, count);
}

/* Each by itself: two authorities of a cluster have the same name, and only one of them has signed it. */
static unsigned
authority_verify(const struct split_key *key, gnutls_x509_crt_t certificate)
{
	for (unsigned i = 0; i < key->authority_count; i++) {
		unsigned verdict = 0;

		if (gnutls_x509_crt_list_verify(&certificate, 1, &key->authorities[i], 1, NULL, 0,
			GNUTLS_VERIFY_DISABLE_TIME_CHECKS, &verdict) >= 0 &&
		    verdict == 0)
			return i;
	}
	return KEY_AUTHORITIES_MAX;
}

/* The bytes count as they came: GnuTLS's own fingerprint is one of what it makes of them. */
static int
certificate_fingerprint(gnutls_x509_crt_t certificate, uint8_t out[VERIFIED_FINGERPRINT_BYTES])
{
	gnutls_datum_t der;
	int rc = gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_DER, &der);

	if (rc < 0)
		return -ENOMEM;
	assert(gnutls_hash_get_len(GNUTLS_DIG_SHA256) == VERIFIED_FINGERPRINT_BYTES);
	rc = gnutls_hash_fast(GNUTLS_DIG_SHA256, der.data, der.size, out);
	gnutls_free(der.data);
	return rc < 0 ? -ENOMEM : 0;
}

unsigned
key_authority_of(const struct split_key *key, gnutls_x509_crt_t certificate)
{
	uint8_t fingerprint[VERIFIED_FINGERPRINT_BYTES];
	unsigned authority;

	CHECK_OBJ(key, KEY_MAGIC);
	if (certificate_fingerprint(certificate, fingerprint) != 0)
		return authority_verify(key, certificate);
	authority = verified_find(key->verified, fingerprint);
	if (authority != VERIFIED_NONE) {
		assert(authority < key->authority_count);
		return authority;
	}
	authority = authority_verify(key, certificate);
	if (authority < KEY_AUTHORITIES_MAX)
		verified_add(key->verified, fingerprint, authority);
	return authority;
}

int
key_judge(const struct split_key *key, const struct key_certificate *certificate, const char *who,
    char *why)
{
	unsigned at = 0;

	CHECK_OBJ(key, KEY_MAGIC);
	why[0] = '\0';
	while (at < key->authority_count &&
	    memcmp(key->authority_ids[at], certificate->authority, KEY_ID_BYTES) != 0)
		at++;
	if (at == key->authority_count)
		(void)key_refuse(why, "the authority (CA) of %s is in the key file no more", who);
	else if (revoked_has(key->revoked, at, &certificate->serial))
		(void)key_refuse(why, "the key of %s was revoked", who);
	return why[0] == '\0' ? 0 : -EKEYREJECTED;
}

/* Whether the parts belong together. */
static int
parts_check(const struct parts *parts, struct split_key *key, char *why)
{
	uint8_t ids[2][KEY_ID_BYTES];
	size_t bytes[2] = { KEY_ID_BYTES, KEY_ID_BYTES };

	if (key_certificate_subject(parts->own, &key->subject) != 0)
		return key_refuse(why,
		    "its certificate has no subject (SAN URI cleave://<cluster id>/<role>/<name>)");
	if (gnutls_x509_crt_get_key_id(parts->own, GNUTLS_KEYID_USE_SHA256, ids[0], &bytes[0]) <
		0 ||
	    gnutls_x509_privkey_get_key_id(parts->private_key, GNUTLS_KEYID_USE_SHA256, ids[1],
		&bytes[1]) < 0 ||
	    bytes[0] != bytes[1] || memcmp(ids[0], ids[1], bytes[0]) != 0)
		return key_refuse(why, "its private key is not that of its certificate");
	key->authority = key_authority_of(key, parts->own);
	if (key->authority == KEY_AUTHORITIES_MAX)
		return key_refuse(why, "none of its authorities signed its certificate");
	if (key_certificate_serial(parts->own, &key->serial) != 0)
		return key_refuse(why, "its certificate has no serial number that is one");
	key->expires_s = certificate_expires_s(parts->own);
	return 0;
}

/* Authorities come first: whether one has signed the rest is the next question. */
static int
key_take_authorities(struct split_key *key, const struct parts *parts)
{
	for (unsigned i = 0; i < parts->authority_count; i++) {
		size_t bytes = KEY_ID_BYTES;

		if (gnutls_x509_crt_get_key_id(parts->authorities[i], GNUTLS_KEYID_USE_SHA256,
			key->authority_ids[i], &bytes) < 0 ||
		    bytes != KEY_ID_BYTES)
			return -ENOMEM; /* a digest of what was read fails for nothing else */
		key->authorities[i] = parts->authorities[i];
	}
	key->authority_count = parts->authority_count;
	return 0;
}

static int
key_fill(struct split_key *key, const struct parts *parts)
{
	gnutls_x509_crt_t own[] = { parts->own };
	uint64_t authority_s = 0;

	if (gnutls_certificate_allocate_credentials(&key->credentials) < 0) {
		key->credentials = NULL;
		return -ENOMEM;
	}
	if (gnutls_certificate_set_x509_key(key->credentials, own, 1, parts->private_key) < 0 ||
	    gnutls_certificate_set_x509_trust(key->credentials,
		(gnutls_x509_crt_t *)parts->authorities, (int)parts->authority_count) < 0)
		return -ENOMEM;
	/* The one that expires last may have signed all of them. */
	for (unsigned i = 0; i < parts->authority_count; i++)
		authority_s = num_max(authority_s, certificate_expires_s(parts->authorities[i]));
	key->expires_s = num_min(key->expires_s, authority_s);
	gnutls_certificate_set_verify_limits(key->credentials, 8200, KEY_CERTIFICATES_MAX);
	return 0;
}

struct split_key *
key_parse(const char *text, size_t bytes, char *why)
{
	const gnutls_datum_t datum = { .data = (unsigned char *)text, .size = (unsigned)bytes };
	struct split_key *key = alloc_zeroed(ALLOC_SPLIT, 1, sizeof(*key));
	struct parts parts = { 0 };
	int rc = -ENOMEM;

	assert(bytes <= KEY_FILE_BYTES_MAX);
	(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "out of memory");
	if (key == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	key->magic = KEY_MAGIC;
	key->owner_count = 1;
	key->verified = verified_create();
	if (key->verified != NULL)
		rc = parts_read(&parts, &datum, why);
	if (rc == 0)
		rc = key_take_authorities(key, &parts);
	if (rc == 0)
		rc = parts_check(&parts, key, why);
	if (rc == 0)
		rc = key_fill(key, &parts);
	parts_fini(&parts, key->authority_count > 0);
	if (rc == 0) {
		why[0] = '\0';
		return key;
	}
	split_key_free(key);
	errno = -rc;
	return NULL;
}

struct split_key *
split_key_load(const char *path, char *why)
{
	char *text = alloc_zeroed(ALLOC_SPLIT, 1, KEY_FILE_BYTES_MAX + 2);
	struct split_key *key = NULL;
	ssize_t bytes;
	int err;

	if (text == NULL) {
		(void)key_refuse(why, "%.120s: out of memory", path);
		errno = ENOMEM;
		return NULL;
	}
	bytes = secret_file_load(path, KEY_FILE_BYTES_MAX, text, why);
	err = bytes < 0 ? (int)-bytes : 0;
	if (bytes >= 0) {
		char inner[SPLIT_KEY_WHY_BYTES_MAX];

		key = key_parse(text, (size_t)bytes, inner);
		err = key == NULL ? errno : 0;
		if (key == NULL)
			(void)key_refuse(why, "%.100s: %.150s", path, inner);
		gnutls_memset(text, 0, (size_t)bytes);
	}
	alloc_free(ALLOC_SPLIT, text);
	errno = err;
	return key;
}

void
split_key_free(struct split_key *key)
{
	struct split_key *file;

	if (key == NULL)
		return;
	CHECK_OBJ(key, KEY_MAGIC);
	if (atomic_fetch_sub_explicit(&key->owner_count, 1, memory_order_acq_rel) > 1)
		return;
	file = key->file;
	if (file == NULL && key->credentials != NULL)
		gnutls_certificate_free_credentials(key->credentials);
	for (unsigned i = 0; file == NULL && i < key->authority_count; i++)
		gnutls_x509_crt_deinit(key->authorities[i]);
	if (file == NULL)
		verified_free(key->verified);
	revoked_free(key->revoked);
	key->magic = 0;
	alloc_free(ALLOC_SPLIT, key);
	split_key_free(file);
}

struct split_key *
split_key_share(const struct split_key *key)
{
	struct split_key *shared = (struct split_key *)(uintptr_t)key; /* its count alone changes */

	CHECK_OBJ(key, KEY_MAGIC);
	(void)atomic_fetch_add_explicit(&shared->owner_count, 1, memory_order_relaxed);
	return shared;
}

struct split_key *
split_key_revoke(const struct split_key *key, const char *text, size_t bytes, char *why)
{
	struct revoked *revoked = revoked_take(key, text, bytes, why);
	struct split_key *next;

	if (revoked == NULL)
		return NULL;
	next = alloc_zeroed(ALLOC_SPLIT, 1, sizeof(*next));
	if (next == NULL) {
		revoked_free(revoked);
		(void)key_refuse(why, "out of memory");
		errno = ENOMEM;
		return NULL;
	}
	next->magic = KEY_MAGIC;
	next->owner_count = 1;
	next->file = split_key_share(key->file != NULL ? key->file : key);
	next->subject = key->subject;
	next->serial = key->serial;
	next->authority = key->authority;
	next->expires_s = key->expires_s;
	next->credentials = key->credentials;
	memcpy(next->authorities, key->authorities, sizeof(next->authorities));
	memcpy(next->authority_ids, key->authority_ids, sizeof(next->authority_ids));
	next->authority_count = key->authority_count;
	next->verified = key->verified;
	next->revoked = revoked;
	return next;
}

const char *
split_key_revoked(const struct split_key *key, size_t *ret_bytes)
{
	CHECK_OBJ(key, KEY_MAGIC);
	*ret_bytes = key->revoked == NULL ? 0 : key->revoked->bytes;
	return key->revoked == NULL ? "" : key->revoked->text;
}

void
split_key_revoked_gaps(const struct split_key *key, struct split_revoked_gaps *ret_gaps)
{
	CHECK_OBJ(key, KEY_MAGIC);
	*ret_gaps = key->revoked == NULL ? (struct split_revoked_gaps){ 0 } : key->revoked->gaps;
}

bool
split_key_is_revoked(const struct split_key *key)
{
	CHECK_OBJ(key, KEY_MAGIC);
	return revoked_has(key->revoked, key->authority, &key->serial);
}

const struct split_subject *
split_key_subject(const struct split_key *key)
{
	CHECK_OBJ(key, KEY_MAGIC);
	return &key->subject;
}

uint64_t
split_key_expires_s(const struct split_key *key)
{
	CHECK_OBJ(key, KEY_MAGIC);
	return key->expires_s;
}
