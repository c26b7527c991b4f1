/* SPDX-License-Identifier: Apache-2.0 */
/* key_maker.h -- authorities and key files, made in memory for a test */
#ifndef CLEAVE_TESTS_KEY_MAKER_H
#define CLEAVE_TESTS_KEY_MAKER_H

#include <gnutls/x509.h>
#include <stdint.h>

#include "cleave/secure.h"

#define KEY_MAKER_TEXT_BYTES 16384u

/* An authority (CA), with the private key that signs. */
struct key_authority {
	gnutls_x509_crt_t certificate;
	gnutls_x509_privkey_t private_key;
};

/* The words of a certificate; zero: the default in brackets. */
struct key_wish {
	const char *uri;      /* [no SAN] */
	const char *more_uri; /* a second one [none] */
	const char *host;     /* a DNS name [none] */
	uint64_t begins_s;    /* [1000] */
	uint64_t ends_s;      /* [4000000000] */
};

/* Each aborts where GnuTLS fails: it is the test's own work. */
void key_authority_make(struct key_authority *authority, uint64_t begins_s, uint64_t ends_s);
void key_authority_fini(struct key_authority *authority);
/* key_make_text -- a key file of @wish, signed by @signer, that believes @believed; PEM in @out. */
void key_make_text(const struct key_authority *signer, const struct key_authority *believed,
    const struct key_wish *wish, char out[KEY_MAKER_TEXT_BYTES]);
/* key_make -- the same, loaded; signed and believed by @authority. */
struct split_key *key_make(const struct key_authority *authority, const char *uri);

/* key_make_list -- behind what is in @out: the list of revoked ones of @authority, with @number, that has @keys; PEM. */
void key_make_list(const struct key_authority *authority, uint64_t number,
    const struct split_key *const *keys, unsigned count, char out[KEY_MAKER_TEXT_BYTES]);

/*
 * key_is_version_byte -- is byte @at of @flight one of the type or version in the head of a TLS record?
 *
 * TLS 1.3 has them for the looks, and knows those of a sealed record itself: whoever changes one has changed nothing.
 */
bool key_is_version_byte(const uint8_t *flight, size_t bytes, size_t at);

#endif /* CLEAVE_TESTS_KEY_MAKER_H */
