/* SPDX-License-Identifier: Apache-2.0 */
/* recover_slots.h -- the heads of all slots are read at start; for recover.c */
#ifndef CLEAVE_STORAGE_RECOVER_SLOTS_H
#define CLEAVE_STORAGE_RECOVER_SLOTS_H

#include <stdint.h>

struct node;

/*
 * Called with rc 0 when all slots are loaded (@why is NULL); or with a negative errno and @why for people, valid
 * during the call. After an error there may be more of them.
 */
typedef void (*sn_slots_fn)(struct node *node, int rc, const char *why);

/* sn_slots_init -- memory for the reads, once. Returns 0; -ENOMEM: then sn_slots_fini, too. */
int sn_slots_init(struct node *node);
/* sn_slots_fini -- free it; the disk is closed. No-op before sn_slots_init. */
void sn_slots_fini(struct node *node);
/* sn_slots_read -- read all slots' heads, and put their extents into the table. Once, behind the fence pages. */
void sn_slots_read(struct node *node, sn_slots_fn fn);
/* sn_slots_left_count -- slots that are not loaded yet; 0 before sn_slots_read, too. */
uint32_t sn_slots_left_count(const struct node *node);

#endif /* CLEAVE_STORAGE_RECOVER_SLOTS_H */
