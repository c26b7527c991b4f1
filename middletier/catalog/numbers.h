/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h -- how far ids, cuts, attaches, sequences and roots of segments may count */
#ifndef CLEAVE_MIDDLETIER_CATALOG_NUMBERS_H
#define CLEAVE_MIDDLETIER_CATALOG_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"

/*
 * Volumes' ids, numbers of snapshots, attaches, and sequences of records count up from 1. Nothing comes to this by
 * counting; what is read and lies above it is damage, or another version's, and would wrap.
 */
#define MT_NUMBER_MAX ((UINT64_C(1) << 60) - 1)
#define MT_ROOTS_MAX                                                                               \
	(UINT64_C(1) << 32) /* of segments; each volume has MT_VOLUME_SEGMENTS of its own */
/* mt_segments_exist -- are @count segments from @base on all ids of segments, of one volume or clone? */
static inline bool
mt_segments_exist(uint64_t base, uint64_t count)
{
	return base >> 32 <= CLEAVE_CLONE_MAX && count <= MT_ROOTS_MAX &&
	    wire_segment_root(base) + count <= MT_ROOTS_MAX;
}

/* Every volume is given as many roots of segments, so that it can grow in place. */
#define MT_VOLUME_SEGMENTS ((uint32_t)(CLEAVE_VOLUME_BYTES_MAX / CLEAVE_SEGMENT_BYTES))

#endif /* CLEAVE_MIDDLETIER_CATALOG_NUMBERS_H */
