/* SPDX-License-Identifier: Apache-2.0 */
/* revoked.h -- the node's key, and the lists of revoked ones that gateways bring */
#ifndef CLEAVE_STORAGE_REVOKED_H
#define CLEAVE_STORAGE_REVOKED_H

#include <jansson.h>

struct node;
struct split_key;

/*
 * sn_revoked_take -- a control request {"op":"revoked","lists":PEM}: whoever brings it, the lists are signed
 *
 * Those that are newer count from now on, and connections of those on them are closed. Returns the answer: {}, and
 * *@ret_rc is 0: the node has all of them; else {"error":TEXT}; NULL: no memory. Without "lists" nothing changes, and the
 * answer is {"lists":PEM}, those that the node has: for a store that is made anew (cleave recover).
 */
json_t *sn_revoked_take(struct node *node, const json_t *request, int *ret_rc);
/* sn_revoked_rekey -- node_rekey. */
int sn_revoked_rekey(struct node *node, const struct split_key *key);

#endif /* CLEAVE_STORAGE_REVOKED_H */
