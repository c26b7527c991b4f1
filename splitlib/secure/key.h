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

/* Shared by all handshakes of a process, in any thread: nothing changes it once it is loaded. */
struct split_key {
	uint32_t magic;
	struct split_subject subject;
	uint64_t expires_s; /* of what expires first */
	gnutls_certificate_credentials_t credentials;
};

/* key_parse -- split_key_load, of a text of @bytes. NULL with errno and @why. */
struct split_key *key_parse(const char *text, size_t bytes, char *why);
/* key_certificate_subject -- what the SAN URI of @certificate says. 0; -EINVAL: there is none, or more than one. */
int key_certificate_subject(gnutls_x509_crt_t certificate, struct split_subject *ret_subject);
/* key_time_text -- "2026-11-24 15:00:00 UTC". */
void key_time_text(uint64_t time_s, char out[KEY_TIME_BYTES_MAX]);

#endif /* CLEAVE_SECURE_KEY_H */
