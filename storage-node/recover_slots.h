/* SPDX-License-Identifier: Apache-2.0 */
/* recover_slots.h -- the heads of all slots are read at start; for recover.c */
#ifndef CLEAVE_STORAGE_RECOVER_SLOTS_H
#define CLEAVE_STORAGE_RECOVER_SLOTS_H

#include <stdint.h>

struct node;

/*
 * All slots are loaded: @rc 0; or a negative errno, and @why for people, valid during the call. After an error
 * there may be others.
 */
typedef void (*sn_slots_fn)(struct node *node, int rc, const char *why);

/* sn_slots_init -- Returns 0 or -ENOMEM: then sn_slots_fini, too. */
int sn_slots_init(struct node *node);
void sn_slots_fini(struct node *node);
/* sn_slots_read -- once, when the superblock is known and fences are loaded: put each slot's extent into the table. */
void sn_slots_read(struct node *node, sn_slots_fn fn);
/* sn_slots_left_count -- how many are not read; 0 before sn_slots_read, too. */
uint32_t sn_slots_left_count(const struct node *node);

#endif /* CLEAVE_STORAGE_RECOVER_SLOTS_H */
