/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verified.h -- which certificates were found to be signed by which authority of a key file
 *
 * A signature over given bytes by a given key is right for ever, so it is checked once: that is a quarter of what a
 * handshake costs who is connected to. Only that is remembered. Times, roles, clusters and revoked ones are judged each
 * time (handshake_judge), and so is, by TLS, that the peer has the private key. Wrong signatures are not remembered:
 * whoever makes one pays with a connection, and takes nobody's place here.
 */
#ifndef CLEAVE_SECURE_VERIFIED_H
#define CLEAVE_SECURE_VERIFIED_H

#include <stdint.h>

#define VERIFIED_MAX 2048u       /* 66 KiB; more clients than that are verified more often */
#define VERIFIED_NONE UINT32_MAX /* not known here */
#define VERIFIED_FINGERPRINT_BYTES                                                                 \
	32u /* SHA-256 of all bytes of a certificate, its signature included */

struct verified;

/* verified_create -- that knows nobody. NULL: out of memory. Its functions may be called in any thread. */
struct verified *verified_create(void);
/* verified_free -- NULL is a no-op. */
void verified_free(struct verified *verified);
/* verified_find -- the authority, as verified_add was told; VERIFIED_NONE: it has to be verified. */
uint32_t verified_find(struct verified *verified,
    const uint8_t fingerprint[VERIFIED_FINGERPRINT_BYTES]);
/*
 * verified_add -- @authority, at most 254, has signed the certificate of @fingerprint
 *
 * It may take the place of another one, which is then not known any more.
 */
void verified_add(struct verified *verified, const uint8_t fingerprint[VERIFIED_FINGERPRINT_BYTES],
    uint32_t authority);

#endif /* CLEAVE_SECURE_VERIFIED_H */
