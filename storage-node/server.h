/* SPDX-License-Identifier: Apache-2.0 */
/* server.h -- queue pairs in, requests out */
#ifndef CLEAVE_STORAGE_SERVER_H
#define CLEAVE_STORAGE_SERVER_H

struct node;

/* sn_server_init -- what connections and requests need. Returns 0 or -ENOMEM. */
int sn_server_init(struct node *node);
void sn_server_fini(struct node *node);
/* sn_server_listen -- at node->listen; node->address says where that is. Returns 0 or a negative errno. */
int sn_server_listen(struct node *node);

#endif /* CLEAVE_STORAGE_SERVER_H */
