/* SPDX-License-Identifier: Apache-2.0 */
/* segment.h -- what each segment holds in a shard: counted as chunks, layers and runs come and go */
#ifndef CLEAVE_MIDDLETIER_INDEX_SEGMENT_H
#define CLEAVE_MIDDLETIER_INDEX_SEGMENT_H

#include <stdint.h>

struct mt_index;

#define MT_SEGMENT_BUCKETS 256u /* of an index: 2 KiB a shard */

/* A segment that has a chunk in the shard: there is one for 32 GiB of a volume. */
struct mt_segment {
	struct mt_segment *next; /* of its bucket */
	uint64_t number;
	uint64_t chunk_count;
	uint64_t pinned_count;           /* chunks of them that are pinned (chunk.h) */
	uint64_t layer_bytes, run_bytes; /* stored, one copy, of all its chunks here */
};

/* mt_segment_find -- NULL: the shard has no chunk of it. */
const struct mt_segment *mt_segment_find(const struct mt_index *index, uint64_t number);
/* mt_segment_join -- one chunk more. NULL: no memory. */
struct mt_segment *mt_segment_join(struct mt_index *index, uint64_t number);
/* mt_segment_leave -- one chunk less; with the last one @segment goes. */
void mt_segment_leave(struct mt_index *index, struct mt_segment *segment);
/* mt_segments_each -- calls @fn for every segment, in no order; @fn changes nothing of the index. */
void mt_segments_each(const struct mt_index *index,
    void (*fn)(const struct mt_segment *segment, void *arg), void *arg);

#endif /* CLEAVE_MIDDLETIER_INDEX_SEGMENT_H */
