/* SPDX-License-Identifier: Apache-2.0 */
/* recover.h -- what the disk says at start; recover.c has the order */
#ifndef CLEAVE_STORAGE_RECOVER_H
#define CLEAVE_STORAGE_RECOVER_H

struct node;

/* sn_recover_init -- memory for a start, once. Returns 0; -ENOMEM: then sn_recover_fini, too. */
int sn_recover_init(struct node *node);
/* sn_recover_fini -- free it; the disk is closed. Also after an sn_recover_init that failed. */
void sn_recover_fini(struct node *node);
/*
 * sn_recover_start -- read the disk, from the superblock to the last open extent
 *
 * Once; the node is RECOVERING. @on_super: the superblock is good, allocate what depends on it; a negative errno
 * ends the start. @on_done: every extent is known, and what was found is durable. Neither is called from inside. An
 * error is told by sn_recover_fail instead.
 */
void sn_recover_start(struct node *node, int (*on_super)(struct node *node),
    void (*on_done)(struct node *node));
/* sn_recover_stop -- the node stops: no more progress is told. In any state. */
void sn_recover_stop(struct node *node);
/*
 * sn_recover_fail -- the node will never serve; @format says why, to people
 *
 * @rc: a negative errno. No-op unless the node is RECOVERING, so the first call counts. on_ready tells it, later.
 */
void sn_recover_fail(struct node *node, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif /* CLEAVE_STORAGE_RECOVER_H */
