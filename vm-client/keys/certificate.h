/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certificate.h -- what GnuTLS does for an authority: keys (Ed25519), certificates, lists of revoked ones; all as PEM
 *
 * Each call returns 0, -ENOMEM, or -EIO with GnuTLS' words in @why, of CERTIFICATE_WHY_BYTES. Private keys are
 * overwritten before they are freed.
 */
#ifndef CLEAVE_KEYS_CERTIFICATE_H
#define CLEAVE_KEYS_CERTIFICATE_H

#include <gnutls/x509.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/secure.h"
#include "issued.h"
#include "secure/hosts.h"

#define CERTIFICATE_WHY_BYTES 512u

/* An authority's two halves. */
struct certificate_pair {
	gnutls_x509_crt_t certificate;
	gnutls_x509_privkey_t private_key;
};

struct certificate_wish {
	const char *subject; /* "gateway/1"; an authority's: its name */
	const char *uri;     /* NULL: an authority's */
	const struct hosts
	    *hosts; /* where it is a server of TLS; NULL: it has no address of its own */
	enum split_role role;
	uint64_t from_s, until_s;
};

/* certificate_serial -- 128 random bits, as text: not 0, and of a positive number. 0 or -EIO. */
int certificate_serial(char ret_text[ISSUED_SERIAL_TEXT_BYTES], char *why);
/*
 * certificate_make -- a new key, and its certificate with @serial, signed by @issuer; NULL: by itself, an authority
 *
 * What a subject's certificate is good for: gateways and nodes are both server and client, others are clients alone, so
 * that a client's stolen key cannot play a gateway; but for those with hosts, which are servers there. @ret for
 * certificate_pair_fini.
 */
int certificate_make(const struct certificate_wish *wish, const char *serial,
    const struct certificate_pair *issuer, struct certificate_pair *ret, char *why);
void certificate_pair_fini(struct certificate_pair *pair);
/*
 * certificate_pair_read -- of two PEM texts. 0; -EINVAL: one cannot be read, or they do not belong together
 */
int certificate_pair_read(const char *certificate, size_t certificate_bytes, const char *key,
    size_t key_bytes, struct certificate_pair *ret, char *why);

/* A PEM text, for certificate_text_fini, which overwrites it. */
struct certificate_text {
	char *text;
	size_t bytes;
};
/* certificate_text_add -- behind @text: a certificate, a private key. */
int certificate_text_add(struct certificate_text *text, gnutls_x509_crt_t certificate, char *why);
int certificate_text_add_key(struct certificate_text *text, gnutls_x509_privkey_t key, char *why);
void certificate_text_fini(struct certificate_text *text);

/*
 * certificate_crl -- the X.509 list of those of @issued that are revoked, signed; its next one is due when the issuer ends
 *
 * Those that have ended are on it while it is short: a list that lacks who was on the one before is asked about.
 */
int certificate_crl(const struct issued *issued, const struct certificate_pair *issuer,
    uint64_t now_s, struct certificate_text *ret, char *why);
/*
 * certificate_crl_read -- each serial on the lists in @text that @issuer has signed, in hex, to @fn, which returns 0
 *
 * Returns 0, and the highest number of these lists; -EKEYREJECTED: it has signed none (those of others are passed over);
 * -EINVAL; -ENOMEM; what @fn returned.
 */
int certificate_crl_read(const char *text, size_t bytes, gnutls_x509_crt_t issuer,
    int (*fn)(const char *serial, void *arg), void *arg, uint64_t *ret_number, char *why);

#endif /* CLEAVE_KEYS_CERTIFICATE_H */
