/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handshake.h -- TLS 1.3's handshake over messages of somebody else's, and what is believed of the peer
 *
 * No socket, no clock, no timer: bytes that came go in, bytes to send come out, a flight a step. Both sides show a
 * certificate. No tickets, no early data: each connection begins anew. What it costs, and tickets would spare: bench/README.md.
 */
#ifndef CLEAVE_SECURE_HANDSHAKE_H
#define CLEAVE_SECURE_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/secure.h"

#define HANDSHAKE_MESSAGES_MAX 8u    /* that come in */
#define HANDSHAKE_BYTES_MAX 16384u   /* in all of them, and in a flight that goes out */
#define HANDSHAKE_SECRET_BYTES 32u   /* of each direction */
#define HANDSHAKE_WHY_BYTES_MAX 192u /* PEER_WHY_BYTES_MAX: why the peer is not believed */

struct handshake;
struct key_certificate;

/* The offer and the choice, which both sides must have understood alike; they go into the keys, so that whoever changed it on the way gets none. */
struct handshake_context {
	uint8_t format;  /* of AUTH messages and frames */
	uint8_t offered; /* the least security the connector takes, enum split_security */
	uint8_t chosen;  /* by the acceptor */
};

/* handshake_create -- it shows @key, of which it takes a share. NULL: out of memory. */
struct handshake *handshake_create(const struct split_key *key, bool is_acceptor);
/* handshake_free -- and all secrets of the handshake; NULL is a no-op. */
void handshake_free(struct handshake *handshake);

/*
 * handshake_step -- @in has come (a connector's first step: nothing); what is to be sent is in handshake_out
 *
 * Returns 1: complete, but the peer not judged yet; 0: a further message is needed; -EPROTO: no handshake of TLS 1.3,
 * or more than HANDSHAKE_MESSAGES_MAX or HANDSHAKE_BYTES_MAX; -ENOMEM. handshake_why says more. No step after an error
 * or 1.
 */
int handshake_step(struct handshake *handshake, const void *in, size_t bytes);
/* handshake_out -- the flight of the last step; until the next one. */
const uint8_t *handshake_out(const struct handshake *handshake, size_t *ret_bytes);

/*
 * handshake_judge -- after 1: is the peer one of @roles (bits of enum split_role), of our cluster, at @now_s?
 *
 * @key: whose authorities and lists of revoked ones count: the newest, which may be another than was shown.
 * @ret_peer: whom its certificate is for, also where it is not believed; role 0: nobody whom we could name.
 * Returns 0; -EKEYREJECTED, and handshake_why has a text that both sides' people understand: "it" is the peer.
 */
int handshake_judge(struct handshake *handshake, const struct split_key *key, unsigned roles,
    uint64_t now_s, struct split_subject *ret_peer);
/* handshake_certificate -- of the peer, once handshake_judge has believed it; the handshake's. */
const struct key_certificate *handshake_certificate(const struct handshake *handshake);

/*
 * handshake_secrets -- after 1, whatever was judged: a secret a direction, the same at both sides
 *
 * They are bound to the whole handshake, to @context, and to both subjects. Returns 0 or -EPROTO.
 */
int handshake_secrets(struct handshake *handshake, const struct handshake_context *context,
    uint8_t out_secret[HANDSHAKE_SECRET_BYTES], uint8_t in_secret[HANDSHAKE_SECRET_BYTES]);

/* handshake_why -- of the last error; static until the next step or judgement. */
const char *handshake_why(const struct handshake *handshake);

#endif /* CLEAVE_SECURE_HANDSHAKE_H */
