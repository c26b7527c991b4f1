/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoked.h -- lists of revoked certificates, as the authorities of a key file have signed them
 *
 * A list is a CRL, as `cleave key revoke` makes it: signed, and numbered. So it may come from anybody, by any road: what
 * is believed is the signature of an authority of the key file. A list never expires: who made no new one would lock the
 * whole cluster out.
 *
 * No list gives a key back. The newest one, by its number, may lack who was on one before: the authority's folder was put
 * back from a copy, and counted on. Then the older list is kept beside it, until a newer one has all that it names:
 *
 *	number 5 {a, b}  and then  number 9 {b, c}   -->  both are kept, and passed on: a, b, c
 *	                           number 10 {a, b, c, d}  -->  that one alone
 */
#ifndef CLEAVE_SECURE_REVOKED_H
#define CLEAVE_SECURE_REVOKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/secure.h"
#include "key.h"
#include "revoked_list.h"

#define REVOKED_LISTS_MAX                                                                          \
	4u /* of one authority: the newest, and those of before that its folder was put back so often */

/* Lists of one authority: the newest, then each that names somebody who is on none before it. */
struct revoked_lists {
	struct revoked_list lists[REVOKED_LISTS_MAX + 1]; /* the last is room for one that comes */
	uint32_t count;                                   /* 0: none has come */
};

/* All that a key knows: of each of its authorities, at the authority's index. */
struct revoked {
	struct revoked_lists of[KEY_AUTHORITIES_MAX];
	char *text; /* of all of them, an authority's oldest first; ends with a zero */
	size_t bytes;
	struct split_revoked_gaps gaps; /* of the lists that were taken last */
};

/*
 * revoked_take -- the lists of @key, with those of @text that are newer, or name others
 *
 * Returns them, for revoked_free; @why is "", or says which list of @text was left out. NULL with errno and @why:
 * nothing of @text is news. The errors are split_key_revoke's.
 */
struct revoked *revoked_take(const struct split_key *key, const char *text, size_t bytes,
    char *why);
/* revoked_free -- NULL is a no-op. */
void revoked_free(struct revoked *revoked);
/* revoked_has -- is @serial, of the authority at @authority, on one of its lists? @revoked: NULL: there are no lists. */
bool revoked_has(const struct revoked *revoked, unsigned authority,
    const struct key_serial *serial);

#endif /* CLEAVE_SECURE_REVOKED_H */
