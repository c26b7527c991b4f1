/* SPDX-License-Identifier: Apache-2.0 */
/* key.h -- a key file in memory; split_key_load and its kin are cleave/secure.h's */
#ifndef CLEAVE_SECURE_KEY_H
#define CLEAVE_SECURE_KEY_H

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/secure.h"

#define KEY_MAGIC 0x2059454bu /* "KEY " */
#define KEY_FILE_BYTES_MAX 65536u
#define KEY_AUTHORITIES_MAX 8u
#define KEY_TIME_BYTES_MAX 32u
#define KEY_SERIAL_BYTES 20u /* RFC 5280 */
#define KEY_ID_BYTES 32u     /* SHA-256 of a public key */

struct revoked;
struct verified;

/* A certificate's number with its authority, big-endian, zeros before it. */
struct key_serial {
	uint8_t bytes[KEY_SERIAL_BYTES];
};

/* A certificate that was believed: kept with its connection, for what is learnt later. */
struct key_certificate {
	uint8_t authority[KEY_ID_BYTES];
	struct key_serial serial;
};

/*
 * Shared by all handshakes of a process, in any thread: nothing but the number of its owners, and what it has verified,
 * changes once it is made. A list of revoked ones, or a renewed file, makes another key, which ports are given in its
 * place (core/rekey.c).
 */
struct split_key {
	uint32_t magic;
	_Atomic uint32_t owner_count;
	struct split_key *file; /* whose credentials, authorities, verified ones; NULL: its own */
	struct split_subject subject;
	struct key_serial serial; /* of its own certificate */
	unsigned authority;       /* that signed it: an index */
	uint64_t expires_s;       /* of what expires first */
	gnutls_certificate_credentials_t credentials;
	gnutls_x509_crt_t authorities[KEY_AUTHORITIES_MAX];
	uint8_t authority_ids[KEY_AUTHORITIES_MAX][KEY_ID_BYTES];
	unsigned authority_count;
	struct verified *verified; /* by these authorities */
	struct revoked *revoked;   /* NULL: no list has come */
};

/* key_parse -- split_key_load, of a text of @bytes. NULL with errno and @why. */
struct split_key *key_parse(const char *text, size_t bytes, char *why);
/* key_certificate_subject -- what the SAN URI of @certificate says. 0; -EINVAL: there is none, or more than one. */
int key_certificate_subject(gnutls_x509_crt_t certificate, struct split_subject *ret_subject);
/* key_certificate_serial -- the serial of @certificate. 0; -EINVAL: it has none that may be one. */
int key_certificate_serial(gnutls_x509_crt_t certificate, struct key_serial *ret_serial);
/* key_serial_set -- from @count bytes, big-endian. 0; -EINVAL: none, or more than a serial may have. */
int key_serial_set(struct key_serial *serial, const uint8_t *bytes, size_t count);
/*
 * key_authority_of -- the authority of @key that signed @certificate; KEY_AUTHORITIES_MAX: none
 *
 * Times are not judged. A signature that was right is remembered (verified.h).
 */
unsigned key_authority_of(const struct split_key *key, gnutls_x509_crt_t certificate);
/*
 * key_judge -- does @key still believe @certificate, of @who, which some key of this process has believed before?
 *
 * Its authority is one of the file's, and has not revoked it. Returns 0; -EKEYREJECTED, and @why, of
 * SPLIT_KEY_WHY_BYTES_MAX bytes, says which of the two.
 */
int key_judge(const struct split_key *key, const struct key_certificate *certificate,
    const char *who, char *why);
/* key_time_text -- "2026-11-24 15:00:00 UTC". */
void key_time_text(uint64_t time_s, char out[KEY_TIME_BYTES_MAX]);

#endif /* CLEAVE_SECURE_KEY_H */
