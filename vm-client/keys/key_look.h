/* SPDX-License-Identifier: Apache-2.0 */
/* key_look.h -- what a key file says, and all that is wrong with it, for people; daemons refuse by split_key_load */
#ifndef CLEAVE_KEYS_KEY_LOOK_H
#define CLEAVE_KEYS_KEY_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "issued.h"
#include "secure/hosts.h"

#define KEY_LOOK_FINGERPRINT_BYTES 96u /* SHA-256, in pairs of digits */
#define KEY_LOOK_NAME_BYTES 128u
#define KEY_LOOK_WHY_BYTES 512u
#define KEY_LOOK_FILE_BYTES_MAX 65536u

/* X(SYMBOL, code, text): what can be wrong. Codes are for programs, and stay. */
#define KEY_PROBLEM_LIST(X)                                                                        \
	X(MODE, "mode-open", "others than its owner may read or change it: chmod 600 it")          \
	X(NO_CERTIFICATE, "no-certificate", "there is no certificate of its own in it")            \
	X(NO_SUBJECT, "no-subject", "its certificate names no subject of a cluster")               \
	X(NO_KEY, "no-key", "there is no private key in it, or half of one")                       \
	X(OTHER_KEY, "other-key", "its private key is not that of its certificate")                \
	X(NO_CA, "no-ca", "there is no certificate of an authority (CA) in it")                    \
	X(WRONG_CA, "wrong-ca", "no authority (CA) in it signed its certificate")                  \
	X(EXPIRED, "expired", "its certificate has expired: cleave key renew it")                  \
	X(NOT_YET, "not-yet", "its certificate is not valid yet: is this host's clock right?")     \
	X(CA_EXPIRED, "ca-expired", "the certificate of its authority (CA) has expired")           \
	X(SOON, "expires-soon", "it expires within 30 days: cleave key renew it")                  \
	X(UNKNOWN, "not-issued", "the authority in --ca has not issued it")                        \
	X(REVOKED, "revoked", "it was revoked: its subject needs a new one, cleave key issue")     \
	X(REFUSED, "refused", "daemons refuse it")

enum key_problem {
#define KEY_PROBLEM_BIT(symbol, code, text) KEY_PROBLEM_##symbol##_AT,
	KEY_PROBLEM_LIST(KEY_PROBLEM_BIT)
#undef KEY_PROBLEM_BIT
	    KEY_PROBLEM_NR,
#define KEY_PROBLEM_BIT(symbol, code, text) KEY_PROBLEM_##symbol = 1 << KEY_PROBLEM_##symbol##_AT,
	KEY_PROBLEM_LIST(KEY_PROBLEM_BIT)
#undef KEY_PROBLEM_BIT
};

struct key_look {
	char subject[ISSUED_SUBJECT_BYTES]; /* "" and so on: not known */
	uint64_t cluster_id;
	char serial[2 * 20 + 1]; /* RFC 5280: at most 20 bytes */
	uint64_t from_s, until_s;
	struct hosts hosts;
	char issuer[KEY_LOOK_NAME_BYTES];
	char fingerprint[KEY_LOOK_FINGERPRINT_BYTES];
	unsigned other_authorities;       /* in it, beside @authority; NULL: 0 */
	unsigned problems;                /* bits of enum key_problem */
	char refusal[KEY_LOOK_WHY_BYTES]; /* KEY_PROBLEM_REFUSED: why */
};

/*
 * key_look -- read the file @path, of KEY_LOOK_FILE_BYTES_MAX at most, at @now_s
 *
 * @authority: that shall have signed it, or WRONG_CA; NULL: one of those in the file. Nothing of the private key is kept.
 * Returns 0, whatever is wrong with what it says; -EINVAL: no file of certificates and keys; or what opening said; @why,
 * of KEY_LOOK_WHY_BYTES.
 */
int key_look(const char *path, struct gnutls_x509_crt_int *authority, uint64_t now_s,
    struct key_look *ret, char *why);
/* key_look_text -- the same of a text of @bytes with a NUL behind it, without mode and refusal. 0, -EINVAL, -ENOMEM. */
int key_look_text(const char *text, size_t bytes, struct gnutls_x509_crt_int *authority,
    uint64_t now_s, struct key_look *ret, char *why);
/* key_look_compare -- what @issued, an authority's list, says of it: UNKNOWN and REVOKED into the problems. */
void key_look_compare(struct key_look *look, const struct issued *issued);

/* key_problem_code, key_problem_text -- of problem @at, 0 .. KEY_PROBLEM_NR - 1. */
const char *key_problem_code(unsigned at);
const char *key_problem_text(unsigned at);

#endif /* CLEAVE_KEYS_KEY_LOOK_H */
