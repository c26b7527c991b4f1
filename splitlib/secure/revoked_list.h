/* SPDX-License-Identifier: Apache-2.0 */
/* revoked_list.h -- one list of revoked certificates: a CRL, read, and the authority of a key file that has signed it */
#ifndef CLEAVE_SECURE_REVOKED_LIST_H
#define CLEAVE_SECURE_REVOKED_LIST_H

#include <gnutls/x509.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"

struct revoked_list {
	uint64_t number;
	struct key_serial *serials; /* sorted */
	uint32_t count;
	char *text; /* PEM */
	size_t bytes;
};

/*
 * revoked_list_read -- @crl, for revoked_list_fini, also where it fails
 *
 * *@ret_authority: that of @key which has signed it; KEY_AUTHORITIES_MAX: none has, nothing else was read, and @why says
 * whose it is. 0; -EINVAL and @why: it has no number, or a serial that is none; -ENOMEM.
 */
int revoked_list_read(const struct split_key *key, gnutls_x509_crl_t crl, struct revoked_list *ret,
    unsigned *ret_authority, char *why);
void revoked_list_fini(struct revoked_list *list);
/* revoked_list_copy -- @to for revoked_list_fini. 0; -ENOMEM: there is nothing in it. */
int revoked_list_copy(const struct revoked_list *from, struct revoked_list *to);
bool revoked_list_has(const struct revoked_list *list, const struct key_serial *serial);
/*
 * revoked_list_is_newer -- by its number
 *
 * Of two with one number the longer one is newer: whoever takes the text of both in that order takes both.
 */
bool revoked_list_is_newer(const struct revoked_list *list, const struct revoked_list *than);

#endif /* CLEAVE_SECURE_REVOKED_LIST_H */
