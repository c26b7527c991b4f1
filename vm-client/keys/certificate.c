/* SPDX-License-Identifier: Apache-2.0 */
/* certificate.c -- see certificate.h */
#include "certificate.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/num.h"

#define CERTIFICATE_VERSION 3u
#define CERTIFICATE_CRL_VERSION 2u
#define CERTIFICATE_ID_BYTES 64u
#define CERTIFICATE_TEXT_BYTES_MAX (1024u * 1024u)

/* 0 where @rc is GnuTLS' success. */
static int
fail(int rc, const char *what, char *why)
{
	if (rc >= 0)
		return 0;
	(void)snprintf(why, CERTIFICATE_WHY_BYTES, "%s: %s", what, gnutls_strerror(rc));
	return rc == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EIO;
}

int
certificate_serial(char ret_text[ISSUED_SERIAL_TEXT_BYTES], char *why)
{
	uint8_t serial[ISSUED_SERIAL_BYTES];
	int rc = fail(gnutls_rnd(GNUTLS_RND_KEY, serial, sizeof(serial)), "a serial number", why);

	serial[0] = (serial[0] & 0x3f) | 0x40; /* positive, and 16 bytes long */
	for (size_t i = 0; i < sizeof(serial); i++)
		(void)snprintf(ret_text + 2 * i, 3, "%02x", serial[i]);
	return rc;
}

static void
serial_bytes(const char *text, uint8_t ret[ISSUED_SERIAL_BYTES])
{
	for (size_t i = 0; i < ISSUED_SERIAL_BYTES; i++) {
		unsigned byte = 0;

		(void)sscanf(text + 2 * i, "%2x", &byte); /* its digits were checked */
		ret[i] = (uint8_t)byte;
	}
}

void
certificate_pair_fini(struct certificate_pair *pair)
{
	if (pair->certificate != NULL)
		gnutls_x509_crt_deinit(pair->certificate);
	if (pair->private_key != NULL)
		gnutls_x509_privkey_deinit(pair->private_key); /* overwrites it */
	*pair = (struct certificate_pair){ 0 };
}

static int
pair_init(struct certificate_pair *ret)
{
	*ret = (struct certificate_pair){ 0 };
	if (gnutls_x509_crt_init(&ret->certificate) < 0) {
		ret->certificate = NULL;
		return -ENOMEM;
	}
	if (gnutls_x509_privkey_init(&ret->private_key) < 0) {
		ret->private_key = NULL;
		certificate_pair_fini(ret);
		return -ENOMEM;
	}
	return 0;
}

/* ---- making one ---- */

static bool
has_hosts(const struct certificate_wish *wish)
{
	return wish->hosts != NULL && wish->hosts->count > 0;
}

static int
set_names(gnutls_x509_crt_t certificate, const struct certificate_wish *wish)
{
	int rc = gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_ORGANIZATION_NAME, 0,
	    "Cleave", 6);

	if (rc >= 0)
		rc = gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0,
		    wish->subject, (unsigned)strlen(wish->subject));
	if (rc >= 0 && wish->uri != NULL)
		rc = gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_URI, wish->uri,
		    (unsigned)strlen(wish->uri), GNUTLS_FSAN_SET);
	if (rc >= 0 && has_hosts(wish))
		rc = hosts_put(wish->hosts, certificate);
	return rc;
}

/* Uses of it that are right. */
static int
set_uses(gnutls_x509_crt_t certificate, const struct certificate_wish *wish)
{
	bool is_authority = wish->uri == NULL;
	int rc =
	    gnutls_x509_crt_set_basic_constraints(certificate, is_authority, is_authority ? 0 : -1);

	if (rc >= 0)
		rc = gnutls_x509_crt_set_key_usage(certificate,
		    is_authority ? GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN
				 : GNUTLS_KEY_DIGITAL_SIGNATURE);
	if (rc >= 0 && !is_authority)
		rc = gnutls_x509_crt_set_key_purpose_oid(certificate, GNUTLS_KP_TLS_WWW_CLIENT, 0);
	if (rc >= 0 &&
	    (wish->role == SPLIT_ROLE_GATEWAY || wish->role == SPLIT_ROLE_NODE || has_hosts(wish)))
		rc = gnutls_x509_crt_set_key_purpose_oid(certificate, GNUTLS_KP_TLS_WWW_SERVER, 0);
	return rc;
}

/* The id of its own key, and its issuer's. */
static int
set_ids(gnutls_x509_crt_t certificate, gnutls_x509_crt_t issuer)
{
	uint8_t id[CERTIFICATE_ID_BYTES];
	size_t bytes = sizeof(id);
	int rc = gnutls_x509_crt_get_key_id(certificate, GNUTLS_KEYID_USE_SHA1, id, &bytes);

	if (rc >= 0)
		rc = gnutls_x509_crt_set_subject_key_id(certificate, id, bytes);
	bytes = sizeof(id);
	if (rc >= 0 && issuer != NULL)
		rc = gnutls_x509_crt_get_subject_key_id(issuer, id, &bytes, NULL);
	if (rc >= 0 && issuer != NULL)
		rc = gnutls_x509_crt_set_authority_key_id(certificate, id, bytes);
	return rc;
}

static int
fill(struct certificate_pair *pair, const struct certificate_wish *wish, const char *serial)
{
	uint8_t bytes[ISSUED_SERIAL_BYTES];
	int rc = gnutls_x509_crt_set_version(pair->certificate, CERTIFICATE_VERSION);

	serial_bytes(serial, bytes);
	if (rc >= 0)
		rc = gnutls_x509_crt_set_serial(pair->certificate, bytes, sizeof(bytes));
	if (rc >= 0)
		rc = gnutls_x509_crt_set_activation_time(pair->certificate, (time_t)wish->from_s);
	if (rc >= 0)
		rc = gnutls_x509_crt_set_expiration_time(pair->certificate, (time_t)wish->until_s);
	if (rc >= 0)
		rc = gnutls_x509_crt_set_key(pair->certificate, pair->private_key);
	if (rc >= 0)
		rc = set_names(pair->certificate, wish);
	return rc >= 0 ? set_uses(pair->certificate, wish) : rc;
}

int
certificate_make(const struct certificate_wish *wish, const char *serial,
    const struct certificate_pair *issuer, struct certificate_pair *ret, char *why)
{
	const struct certificate_pair *signer = issuer != NULL ? issuer : ret;
	int rc = pair_init(ret);

	assert((wish->uri == NULL) == (issuer == NULL));
	if (rc != 0)
		return rc;
	rc = gnutls_x509_privkey_generate(ret->private_key, GNUTLS_PK_EDDSA_ED25519,
	    GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_ED25519), 0);
	if (rc >= 0)
		rc = fill(ret, wish, serial);
	if (rc >= 0)
		rc = set_ids(ret->certificate, issuer != NULL ? issuer->certificate : NULL);
	if (rc >= 0)
		rc = gnutls_x509_crt_sign2(ret->certificate, signer->certificate,
		    signer->private_key, GNUTLS_DIG_UNKNOWN, 0);
	if (rc < 0)
		certificate_pair_fini(ret);
	return fail(rc, "a certificate", why);
}

int
certificate_pair_read(const char *certificate, size_t certificate_bytes, const char *key,
    size_t key_bytes, struct certificate_pair *ret, char *why)
{
	const gnutls_datum_t texts[] = {
		{ (unsigned char *)(uintptr_t)certificate, (unsigned)certificate_bytes },
		{ (unsigned char *)(uintptr_t)key, (unsigned)key_bytes },
	};
	uint8_t ids[2][CERTIFICATE_ID_BYTES];
	size_t bytes[2] = { CERTIFICATE_ID_BYTES, CERTIFICATE_ID_BYTES };
	int rc = pair_init(ret);

	if (rc != 0)
		return rc;
	(void)snprintf(why, CERTIFICATE_WHY_BYTES, "the key is not that of the certificate");
	rc = fail(gnutls_x509_crt_import(ret->certificate, &texts[0], GNUTLS_X509_FMT_PEM),
	    "the certificate", why);
	if (rc == 0)
		rc = fail(gnutls_x509_privkey_import(ret->private_key, &texts[1],
			      GNUTLS_X509_FMT_PEM),
		    "the private key", why);
	if (rc == 0 &&
	    (gnutls_x509_crt_get_key_id(ret->certificate, GNUTLS_KEYID_USE_SHA256, ids[0],
		 &bytes[0]) < 0 ||
		gnutls_x509_privkey_get_key_id(ret->private_key, GNUTLS_KEYID_USE_SHA256, ids[1],
		    &bytes[1]) < 0 ||
		bytes[0] != bytes[1] || memcmp(ids[0], ids[1], bytes[0]) != 0))
		rc = -EINVAL;
	if (rc != 0)
		certificate_pair_fini(ret);
	return rc == -EIO ? -EINVAL : rc;
}

/* ---- texts ---- */

void
certificate_text_fini(struct certificate_text *text)
{
	if (text->text != NULL)
		gnutls_memset(text->text, 0, text->bytes);
	alloc_free(ALLOC_CLIENT, text->text);
	*text = (struct certificate_text){ 0 };
}

/* @part goes, overwritten. */
static int
text_join(struct certificate_text *text, gnutls_datum_t *part)
{
	size_t bytes = text->bytes + part->size;
	char *joined = bytes < CERTIFICATE_TEXT_BYTES_MAX ? alloc_zeroed(ALLOC_CLIENT, 1, bytes + 1)
							  : NULL;

	if (joined != NULL) {
		if (text->bytes > 0)
			memcpy(joined, text->text, text->bytes);
		memcpy(joined + text->bytes, part->data, part->size);
		certificate_text_fini(text);
		*text = (struct certificate_text){ joined, bytes };
	}
	gnutls_memset(part->data, 0, part->size);
	gnutls_free(part->data);
	return joined == NULL ? -ENOMEM : 0;
}

int
certificate_text_add(struct certificate_text *text, gnutls_x509_crt_t certificate, char *why)
{
	gnutls_datum_t part;
	int rc = fail(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &part),
	    "a certificate", why);

	return rc != 0 ? rc : text_join(text, &part);
}

int
certificate_text_add_key(struct certificate_text *text, gnutls_x509_privkey_t key, char *why)
{
	gnutls_datum_t part;
	int rc = fail(gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL,
			  GNUTLS_PKCS_PLAIN, &part),
	    "a private key", why);

	return rc != 0 ? rc : text_join(text, &part);
}

/* ---- those that are revoked ---- */

#define CRL_EXPIRED_S (30u * UINT64_C(86400)) /* that a key is listed beyond its end in any case */
#define CRL_LONG                                                                                   \
	250u /* entries; a longer list leaves out those that ended first. A request has room for some 300 */
/* So many of them at once: publishing a list that lacks any wants --force, which shall not be a habit. */
#define CRL_STEP (CRL_LONG / 2)
#define CRL_STEP_MIN (CRL_LONG / 10)

/* A key that has expired is refused without any list, by clocks that are late, too. */
static bool
crl_is_ended(const struct issued_entry *entry, uint64_t now_s)
{
	return entry->revoked_s != 0 && entry->until_s + CRL_EXPIRED_S < now_s;
}

/* Revoked keys that have ended, and did so before @until_s. */
static uint32_t
crl_count_ended(const struct issued *issued, uint64_t now_s, uint64_t until_s)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < issued->count; i++)
		count += crl_is_ended(&issued->entries[i], now_s) &&
		    issued->entries[i].until_s < until_s;
	return count;
}

/*
 * How many of those that ended first are left out: in steps, so that the next lists leave out the same ones. Where few have
 * ended the steps are smaller, and a list is longer by one of them at most.
 */
static uint32_t
crl_left_count(const struct issued *issued, uint64_t now_s)
{
	uint32_t ended_count = crl_count_ended(issued, now_s, UINT64_MAX), count = 0;

	for (uint32_t i = 0; i < issued->count; i++)
		count += issued->entries[i].revoked_s != 0;
	if (count <= CRL_LONG)
		return 0;
	return (uint32_t)num_min((count - CRL_LONG + CRL_STEP - 1) / CRL_STEP * CRL_STEP,
	    ended_count - ended_count % CRL_STEP_MIN);
}

/* Keys that ended before this time are left out; 0: there is room for all. */
static uint64_t
crl_from(const struct issued *issued, uint64_t now_s)
{
	uint32_t left_count = crl_left_count(issued, now_s);
	uint64_t low_s = 0, high_s = now_s;

	while (low_s < high_s) {
		uint64_t middle_s = low_s + (high_s - low_s) / 2;

		if (crl_count_ended(issued, now_s, middle_s) < left_count)
			low_s = middle_s + 1;
		else
			high_s = middle_s;
	}
	return low_s;
}

static int
crl_fill(gnutls_x509_crl_t crl, const struct issued *issued, const struct certificate_pair *issuer,
    uint64_t now_s)
{
	uint8_t id[CERTIFICATE_ID_BYTES], serial[ISSUED_SERIAL_BYTES], number[8];
	uint64_t from_s = crl_from(issued, now_s);
	size_t id_bytes = sizeof(id);
	int rc = gnutls_x509_crl_set_version(crl, CERTIFICATE_CRL_VERSION);

	for (size_t i = 0; i < sizeof(number); i++)
		number[i] = (uint8_t)(issued->crl_number >> (8 * (sizeof(number) - 1 - i)));
	if (rc >= 0)
		rc = gnutls_x509_crl_set_this_update(crl, (time_t)now_s);
	/* Nobody makes a new one by the clock: one that is due would lock the whole cluster out. */
	if (rc >= 0)
		rc = gnutls_x509_crl_set_next_update(crl,
		    gnutls_x509_crt_get_expiration_time(issuer->certificate));
	if (rc >= 0)
		rc = gnutls_x509_crl_set_number(crl, number, sizeof(number));
	if (rc >= 0)
		rc = gnutls_x509_crt_get_subject_key_id(issuer->certificate, id, &id_bytes, NULL);
	if (rc >= 0)
		rc = gnutls_x509_crl_set_authority_key_id(crl, id, id_bytes);
	for (uint32_t i = 0; rc >= 0 && i < issued->count; i++) {
		if (issued->entries[i].revoked_s == 0 ||
		    (crl_is_ended(&issued->entries[i], now_s) &&
			issued->entries[i].until_s < from_s))
			continue;
		serial_bytes(issued->entries[i].serial, serial);
		rc = gnutls_x509_crl_set_crt_serial(crl, serial, sizeof(serial),
		    (time_t)issued->entries[i].revoked_s);
	}
	return rc;
}

int
certificate_crl(const struct issued *issued, const struct certificate_pair *issuer, uint64_t now_s,
    struct certificate_text *ret, char *why)
{
	gnutls_x509_crl_t crl;
	gnutls_datum_t part;
	int rc;

	if (gnutls_x509_crl_init(&crl) < 0)
		return -ENOMEM;
	rc = crl_fill(crl, issued, issuer, now_s);
	if (rc >= 0)
		rc = gnutls_x509_crl_sign2(crl, issuer->certificate, issuer->private_key,
		    GNUTLS_DIG_SHA512, 0); /* what goes with Ed25519 */
	if (rc >= 0)
		rc = gnutls_x509_crl_export2(crl, GNUTLS_X509_FMT_PEM, &part);
	gnutls_x509_crl_deinit(crl);
	rc = fail(rc, "the list of revoked certificates", why);
	return rc != 0 ? rc : text_join(ret, &part);
}

/* Did @issuer sign it? Its times do not count: a list stays good until the next one. */
static bool
crl_is_of(gnutls_x509_crl_t crl, gnutls_x509_crt_t issuer)
{
	static const unsigned times = GNUTLS_CERT_REVOCATION_DATA_SUPERSEDED |
	    GNUTLS_CERT_REVOCATION_DATA_ISSUED_IN_FUTURE;
	unsigned verdict = GNUTLS_CERT_INVALID;

	if (gnutls_x509_crl_verify(crl, &issuer, 1, GNUTLS_VERIFY_DISABLE_TIME_CHECKS, &verdict) <
	    0)
		return false;
	return verdict == 0 ||
	    ((verdict & times) != 0 && (verdict & ~(times | GNUTLS_CERT_INVALID)) == 0);
}

/* 0; -EINVAL: it has no number, or a serial that no authority of ours makes. */
static int
crl_each(gnutls_x509_crl_t crl, int (*fn)(const char *serial, void *arg), void *arg,
    uint64_t *number)
{
	uint8_t bytes[sizeof(uint64_t)];
	size_t count = sizeof(bytes);
	int keys = gnutls_x509_crl_get_crt_count(crl), rc = 0;
	uint64_t own = 0;

	if (gnutls_x509_crl_get_number(crl, bytes, &count, NULL) < 0 || keys < 0)
		return -EINVAL;
	for (size_t i = 0; i < count; i++)
		own = own << 8 | bytes[i];
	*number = num_max(own, *number);
	for (int i = 0; rc == 0 && i < keys; i++) {
		uint8_t serial[ISSUED_SERIAL_BYTES];
		char text[ISSUED_SERIAL_TEXT_BYTES];
		size_t serial_count = sizeof(serial);
		time_t when;

		if (gnutls_x509_crl_get_crt_serial(crl, (unsigned)i, serial, &serial_count, &when) <
			0 ||
		    serial_count != sizeof(serial))
			return -EINVAL;
		for (size_t k = 0; k < sizeof(serial); k++)
			(void)snprintf(text + 2 * k, 3, "%02x", serial[k]);
		rc = fn(text, arg);
	}
	return rc;
}

int
certificate_crl_read(const char *text, size_t bytes, gnutls_x509_crt_t issuer,
    int (*fn)(const char *serial, void *arg), void *arg, uint64_t *ret_number, char *why)
{
	const gnutls_datum_t datum = { (unsigned char *)(uintptr_t)text, (unsigned)bytes };
	gnutls_x509_crl_t *crls = NULL;
	unsigned count = 0, own_count = 0;
	int rc = gnutls_x509_crl_list_import2(&crls, &count, &datum, GNUTLS_X509_FMT_PEM, 0);

	assert(bytes <= CERTIFICATE_TEXT_BYTES_MAX);
	*ret_number = 0;
	if (rc < 0) {
		(void)snprintf(why, CERTIFICATE_WHY_BYTES,
		    "it is no list of revoked keys (PEM, X509 CRL): %s", gnutls_strerror(rc));
		return rc == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EINVAL;
	}
	rc = 0;
	for (unsigned i = 0; i < count; i++) {
		if (rc == 0 && crl_is_of(crls[i], issuer)) {
			own_count++;
			rc = crl_each(crls[i], fn, arg, ret_number);
		}
		gnutls_x509_crl_deinit(crls[i]);
	}
	gnutls_free(crls);
	if (rc == -EINVAL)
		(void)snprintf(why, CERTIFICATE_WHY_BYTES,
		    "a list of revoked keys has no number, or a serial that is none");
	if (rc != 0 || own_count > 0)
		return rc;
	(void)snprintf(why, CERTIFICATE_WHY_BYTES,
	    "it has no list of revoked keys that this authority (CA) has signed");
	return -EKEYREJECTED;
}
