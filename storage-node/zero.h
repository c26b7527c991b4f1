/* SPDX-License-Identifier: Apache-2.0 */
/* zero.h -- zeros are written over one slot ahead of its first use; zero.c says why */
#ifndef CLEAVE_STORAGE_ZERO_H
#define CLEAVE_STORAGE_ZERO_H

struct node;

/* sn_zero_init -- Returns 0 or -ENOMEM. */
int sn_zero_init(struct node *node);
/* sn_zero_fini -- no step follows. No-op before sn_zero_init. */
void sn_zero_fini(struct node *node);
/* sn_zero_stop -- the node stops: a step at the disk ends, none follows. */
void sn_zero_stop(struct node *node);
/* sn_zero_kick -- zero a slot where none is ready, and that is wanted. */
void sn_zero_kick(struct node *node);

#endif /* CLEAVE_STORAGE_ZERO_H */
