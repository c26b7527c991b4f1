/* SPDX-License-Identifier: Apache-2.0 */
/* index_apply.h -- a record becomes the newest version of its blocks */
#ifndef CLEAVE_MIDDLETIER_INDEX_INDEX_APPLY_H
#define CLEAVE_MIDDLETIER_INDEX_INDEX_APPLY_H

#include <stdint.h>

struct mt_index;
struct record_desc;

/*
 * mt_index_apply -- an acknowledged (or replayed) record of a batch with @cut becomes the newest
 *
 * In sequence order. A tombstone adds keys only for blocks under which something may lie: a layer, a
 * run, or an origin (the segment is a clone's: wire_segment_is_clone). A tombstone that is there already makes
 * another one of its kind needless, unless a cut that matters lies between them: behind a roll-back
 * only one of the two is seen. @ring_position 0: not in the ring.
 * -ENOMEM can only be returned where nothing was promised (replay), or where a cut begins a new layer: it
 * can be done again then, with the same record.
 */
int mt_index_apply(struct mt_index *index, const struct record_desc *record, uint64_t cut,
    uint32_t extent_index, uint64_t batch_offset_bytes, uint64_t ring_position);

#endif /* CLEAVE_MIDDLETIER_INDEX_INDEX_APPLY_H */
