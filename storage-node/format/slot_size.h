/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slot_size.h -- the slot size that a disk gets
 *
 *	--slot-size    the cluster's nodes      slot size
 *	given          -                        as given; a warning where theirs is another
 *	not given      have one                 theirs; refused where the disk has too few such slots
 *	not given      not known                by the disk's size (node_format_slot_bytes)
 *
 * An extent is as long as the smallest slot of its nodes, and takes a whole slot of each: sizes that differ waste room.
 */
#ifndef CLEAVE_STORAGE_SLOT_SIZE_H
#define CLEAVE_STORAGE_SLOT_SIZE_H

#include <stdint.h>

#define SLOT_SIZE_SLOTS_MIN 16u /* two of them are kept back, and each shard's logs take a few */
#define SLOT_SIZE_TEXT_BYTES 400u

struct slot_size_ask {
	uint64_t capacity_bytes; /* of the disk */
	uint64_t given_bytes;    /* --slot-size; 0: not given */
	uint64_t others_bytes;   /* slots of the cluster's nodes; 0: not known */
};

/*
 * slot_size_choose -- by the table above
 *
 * Returns 0, *@ret_slot_bytes, and in @text a warning, or ""; -ENOSPC, and in @text why, and what helps. Whether the
 * size that was given can be is for node_format to say.
 */
int slot_size_choose(const struct slot_size_ask *ask, uint64_t *ret_slot_bytes,
    char text[SLOT_SIZE_TEXT_BYTES]);

#endif /* CLEAVE_STORAGE_SLOT_SIZE_H */
