/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoked.h -- lists of revoked certificates, as the authorities of a key file have signed them
 *
 * A list is a CRL, as `cleave key revoke` makes it: signed, and numbered. So it may come from anybody, by any road: what
 * is believed is the signature of an authority of the key file, and of each authority's lists the one with the highest
 * number. A list never expires: who made no new one would lock the whole cluster out.
 */
#ifndef CLEAVE_SECURE_REVOKED_H
#define CLEAVE_SECURE_REVOKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"

/* The newest list of one authority. */
struct revoked_list {
	uint64_t number;
	struct key_serial *serials; /* sorted */
	uint32_t count;
	char *text; /* PEM */
	size_t bytes;
};

/* All that a key knows: of each of its authorities one, at the authority's index; text NULL: none has come. */
struct revoked {
	struct revoked_list lists[KEY_AUTHORITIES_MAX];
	char *text; /* of all of them; ends with a zero */
	size_t bytes;
};

/*
 * revoked_take -- the lists of @key, with those of @text that are newer
 *
 * Returns them, for revoked_free; @why is "", or says which list of @text was left out. NULL with errno and @why:
 * nothing of @text is news. The errors are split_key_revoke's.
 */
struct revoked *revoked_take(const struct split_key *key, const char *text, size_t bytes,
    char *why);
/* revoked_free -- NULL is a no-op. */
void revoked_free(struct revoked *revoked);
/* revoked_has -- is @serial, of the authority at @authority, on its list? @revoked: NULL: there are no lists. */
bool revoked_has(const struct revoked *revoked, unsigned authority,
    const struct key_serial *serial);

#endif /* CLEAVE_SECURE_REVOKED_H */
