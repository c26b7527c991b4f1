/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slot_sizes.h -- storage nodes whose slots are not of one size: which is the usual one, and what the others waste
 *
 * An extent is as long as the smallest slot of its nodes, and takes a whole slot of each. cleave-storage join gives a disk
 * the usual size, and a gateway's health tells of a node that has another: both mean the same one.
 */
#ifndef CLEAVE_BASE_SLOT_SIZES_H
#define CLEAVE_BASE_SLOT_SIZES_H

#include <stdint.h>

/* The slots of a node. */
struct slot_size {
	uint64_t slot_bytes, slot_count;
};

/* slot_sizes_usual -- the one that most bytes of @nodes are in; of two with as many the smaller; 0: @count is 0. */
uint64_t slot_sizes_usual(const struct slot_size *nodes, uint32_t count);
/* slot_sizes_wasted -- percent of the larger slot that an extent of both leaves empty, 1 at least. Neither is 0. */
uint64_t slot_sizes_wasted(uint64_t a_bytes, uint64_t b_bytes);

#endif /* CLEAVE_BASE_SLOT_SIZES_H */
