/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h -- what is believed of who is at the other end of a session of TLS */
#ifndef CLEAVE_SECURE_PEER_H
#define CLEAVE_SECURE_PEER_H

#include <gnutls/gnutls.h>
#include <stdint.h>

#include "cleave/secure.h"
#include "key.h"

#define PEER_WHY_BYTES_MAX 192u /* why it is not believed, its end included */

struct peer {
	struct split_subject
	    subject; /* also where it is not believed; role 0: nobody whom we could name */
	struct key_certificate certificate; /* once it is believed */
	char why[PEER_WHY_BYTES_MAX];       /* "": it is */
};

/*
 * peer_judge -- of @session, whose handshake is complete: is the peer one of @roles, of @key's cluster, at @now_s?
 *
 * TLS has seen that it has the private key of the certificate that it showed. Here that certificate is judged: its
 * authority, cluster, role and times, and whether it was revoked. @roles: bits of enum split_role.
 * Returns 0; -EKEYREJECTED, and @ret->why has a text that both sides' people understand: "it" is the peer. *@ret in
 * both cases.
 */
int peer_judge(gnutls_session_t session, const struct split_key *key, unsigned roles,
    uint64_t now_s, struct peer *ret);

#endif /* CLEAVE_SECURE_PEER_H */
