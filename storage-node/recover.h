/* SPDX-License-Identifier: Apache-2.0 */
/* recover.h -- what the disk says at start; recover.c has the order */
#ifndef CLEAVE_STORAGE_RECOVER_H
#define CLEAVE_STORAGE_RECOVER_H

struct node;

/* sn_recover_init -- before sn_recover_start. Returns 0 or -ENOMEM. */
int sn_recover_init(struct node *node);
/* sn_recover_fini -- nothing more is read. Also after an sn_recover_init that failed. */
void sn_recover_fini(struct node *node);
/*
 * sn_recover_start -- read the disk, from the superblock to the last open extent
 *
 * @on_super: the superblock is good; allocate what depends on it, or end it all by a negative errno.
 * @on_done: every extent is known and durable. Where it fails the node does, by sn_recover_fail. Neither is called
 * from inside.
 */
void sn_recover_start(struct node *node, int (*on_super)(struct node *node),
    void (*on_done)(struct node *node));
/* sn_recover_stop -- the node stops: nothing more is told of how far it is. */
void sn_recover_stop(struct node *node);
/*
 * sn_recover_fail -- the node will never serve; @format says why, to people
 *
 * @rc: a negative errno. Before READY; the first call counts.
 */
void sn_recover_fail(struct node *node, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif /* CLEAVE_STORAGE_RECOVER_H */
