/* SPDX-License-Identifier: Apache-2.0 */
/* zero.h -- zeros are written over one slot ahead of its first use; zero.c says why */
#ifndef CLEAVE_STORAGE_ZERO_H
#define CLEAVE_STORAGE_ZERO_H

struct node;

/* sn_zero_init -- once; with options.must_prewrite, a MiB of zeros. Returns 0; -ENOMEM: then sn_zero_fini, too. */
int sn_zero_init(struct node *node);
/* sn_zero_fini -- free it; the disk is closed. No-op before sn_zero_init. */
void sn_zero_fini(struct node *node);
/* sn_zero_stop -- the node stops: a step that is at the disk ends, none follows. Once. */
void sn_zero_stop(struct node *node);
/* sn_zero_kick -- begin to zero a free slot, where that is wanted, none is ready and none at work. At any time. */
void sn_zero_kick(struct node *node);

#endif /* CLEAVE_STORAGE_ZERO_H */
