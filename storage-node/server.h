/* SPDX-License-Identifier: Apache-2.0 */
/* server.h -- queue pairs in, requests out */
#ifndef CLEAVE_STORAGE_SERVER_H
#define CLEAVE_STORAGE_SERVER_H

struct node;

/* sn_server_init -- memory for connections and requests, once. Returns 0; -ENOMEM: then sn_server_fini, too. */
int sn_server_init(struct node *node);
/* sn_server_fini -- free it; the port is closed. Also before sn_server_init. */
void sn_server_fini(struct node *node);
/*
 * sn_server_listen -- listen at node->listen; every extent is known: requests may come
 *
 * Returns 0, and node->address says where that is; what split_listen returns, and the port's reason is logged.
 */
int sn_server_listen(struct node *node);

#endif /* CLEAVE_STORAGE_SERVER_H */
