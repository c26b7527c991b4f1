/* SPDX-License-Identifier: Apache-2.0 */
/* key_maker.c -- see key_maker.h */
#include "support/key_maker.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "splitlib/secure/key.h"

#define BEGINS_S_DEFAULT 1000u
#define ENDS_S_DEFAULT 4000000000u

static void
must(int rc)
{
	assert(rc >= 0);
}

static void
certificate_begin(gnutls_x509_crt_t *ret_certificate, gnutls_x509_privkey_t *ret_key,
    uint64_t begins_s, uint64_t ends_s)
{
	static uint32_t count = 0;
	uint8_t serial[sizeof(count)];

	num_put_le32(serial, ++count << 8 | 1u); /* neither zero nor negative */
	must(gnutls_x509_privkey_init(ret_key));
	must(gnutls_x509_privkey_generate(*ret_key, GNUTLS_PK_EDDSA_ED25519, 256, 0));
	must(gnutls_x509_crt_init(ret_certificate));
	must(gnutls_x509_crt_set_version(*ret_certificate, 3));
	must(gnutls_x509_crt_set_serial(*ret_certificate, serial, sizeof(serial)));
	must(gnutls_x509_crt_set_key(*ret_certificate, *ret_key));
	must(gnutls_x509_crt_set_activation_time(*ret_certificate,
	    (time_t)(begins_s != 0 ? begins_s : BEGINS_S_DEFAULT)));
	must(gnutls_x509_crt_set_expiration_time(*ret_certificate,
	    (time_t)(ends_s != 0 ? ends_s : ENDS_S_DEFAULT)));
}

void
key_authority_make(struct key_authority *authority, uint64_t begins_s, uint64_t ends_s)
{
	certificate_begin(&authority->certificate, &authority->private_key, begins_s, ends_s);
	must(gnutls_x509_crt_set_dn(authority->certificate, "CN=cluster", NULL));
	must(gnutls_x509_crt_set_basic_constraints(authority->certificate, 1, -1));
	must(gnutls_x509_crt_set_key_usage(authority->certificate,
	    GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN));
	must(gnutls_x509_crt_sign2(authority->certificate, authority->certificate,
	    authority->private_key, GNUTLS_DIG_UNKNOWN, 0));
}

void
key_authority_fini(struct key_authority *authority)
{
	gnutls_x509_crt_deinit(authority->certificate);
	gnutls_x509_privkey_deinit(authority->private_key);
}

static void
text_add_certificate(char *out, gnutls_x509_crt_t certificate)
{
	size_t at = strlen(out), bytes = KEY_MAKER_TEXT_BYTES - at - 1;

	must(gnutls_x509_crt_export(certificate, GNUTLS_X509_FMT_PEM, out + at, &bytes));
	out[at + bytes] = '\0';
}

void
key_make_text(const struct key_authority *signer, const struct key_authority *believed,
    const struct key_wish *wish, char out[KEY_MAKER_TEXT_BYTES])
{
	gnutls_x509_crt_t certificate;
	gnutls_x509_privkey_t private_key;
	size_t at, bytes;

	certificate_begin(&certificate, &private_key, wish->begins_s, wish->ends_s);
	must(gnutls_x509_crt_set_dn(certificate, "CN=key", NULL));
	if (wish->uri != NULL)
		must(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_URI, wish->uri,
		    (unsigned)strlen(wish->uri), GNUTLS_FSAN_SET));
	if (wish->more_uri != NULL)
		must(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_URI,
		    wish->more_uri, (unsigned)strlen(wish->more_uri), GNUTLS_FSAN_APPEND));
	if (wish->host != NULL)
		must(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_DNSNAME,
		    wish->host, (unsigned)strlen(wish->host), GNUTLS_FSAN_APPEND));
	must(gnutls_x509_crt_sign2(certificate, signer->certificate, signer->private_key,
	    GNUTLS_DIG_UNKNOWN, 0));
	out[0] = '\0';
	text_add_certificate(out, certificate);
	at = strlen(out);
	bytes = KEY_MAKER_TEXT_BYTES - at - 1;
	must(gnutls_x509_privkey_export_pkcs8(private_key, GNUTLS_X509_FMT_PEM, NULL,
	    GNUTLS_PKCS_PLAIN, out + at, &bytes));
	out[at + bytes] = '\0';
	text_add_certificate(out, believed->certificate);
	gnutls_x509_crt_deinit(certificate);
	gnutls_x509_privkey_deinit(private_key);
}

struct split_key *
key_make(const struct key_authority *authority, const char *uri)
{
	const struct key_wish wish = { .uri = uri };
	char text[KEY_MAKER_TEXT_BYTES], why[SPLIT_KEY_WHY_BYTES_MAX];
	struct split_key *key;

	key_make_text(authority, authority, &wish, text);
	key = key_parse(text, strlen(text), why);
	assert(key != NULL);
	return key;
}

void
key_make_list(const struct key_authority *authority, uint64_t number,
    const struct split_key *const *keys, unsigned count, char out[KEY_MAKER_TEXT_BYTES])
{
	size_t at = strlen(out), bytes = KEY_MAKER_TEXT_BYTES - at - 1;
	uint8_t text[sizeof(number)];
	gnutls_x509_crl_t crl;

	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(number >> (8 * (sizeof(text) - 1 - i)));
	must(gnutls_x509_crl_init(&crl));
	must(gnutls_x509_crl_set_version(crl, 2));
	must(gnutls_x509_crl_set_this_update(crl, (time_t)BEGINS_S_DEFAULT));
	must(gnutls_x509_crl_set_next_update(crl, (time_t)BEGINS_S_DEFAULT + 1)); /* long ago */
	must(gnutls_x509_crl_set_number(crl, text, sizeof(text)));
	for (unsigned i = 0; i < count; i++)
		must(gnutls_x509_crl_set_crt_serial(crl, keys[i]->serial.bytes, KEY_SERIAL_BYTES,
		    (time_t)BEGINS_S_DEFAULT));
	must(gnutls_x509_crl_sign2(crl, authority->certificate, authority->private_key,
	    GNUTLS_DIG_SHA512, 0));
	must(gnutls_x509_crl_export(crl, GNUTLS_X509_FMT_PEM, out + at, &bytes));
	out[at + bytes] = '\0';
	gnutls_x509_crl_deinit(crl);
}

bool
key_is_version_byte(const uint8_t *flight, size_t bytes, size_t at)
{
	size_t head = 0;

	while (head + 5 <= bytes) {
		if (at >= head && at <= head + 2)
			return true;
		head += 5u + ((size_t)flight[head + 3] << 8 | flight[head + 4]);
	}
	return false;
}
