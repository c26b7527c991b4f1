/* SPDX-License-Identifier: Apache-2.0 */
/* hidden.h -- which records nobody sees any more, though their volume lives: behind a roll-back */
#ifndef CLEAVE_MIDDLETIER_CATALOG_HIDDEN_H
#define CLEAVE_MIDDLETIER_CATALOG_HIDDEN_H

#include <stdint.h>

struct mt_volumes;

/* Records that nobody sees, and nobody will: of these segments, with a cut in between. */
struct mt_hidden {
	uint64_t segment_base;
	uint32_t segment_count;
	uint64_t cut_from, cut_below;
};

#define MT_HIDDEN_MAX 64u /* found in a turn */
/*
 * mt_hidden_find -- hidden.c: what no scope of @volumes shows, of volumes that are there
 *
 * Up to @max of them, from the volume with index *@at on; *@at is then where the next turn begins: 0: behind the last
 * volume. Returns how many. @max: at least MT_SPANS_MAX, or a volume's last ones may never be found.
 */
uint32_t mt_hidden_find(const struct mt_volumes *volumes, uint32_t *at,
    struct mt_hidden *ret_hidden, uint32_t max);

#endif /* CLEAVE_MIDDLETIER_CATALOG_HIDDEN_H */
