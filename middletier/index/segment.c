/* SPDX-License-Identifier: Apache-2.0 */
/* segment.c -- see segment.h: a hash table of lists, asked when a chunk is made and when people ask */
#include "index/segment.h"

#include "base/check.h"
#include "base/num.h"
#include "common/alloc.h"
#include "index/index.h"

static struct mt_segment **
segment_bucket(struct mt_index *index, uint64_t number)
{
	assert(index->magic == MT_INDEX_MAGIC);
	return &index->segments[num_mix_u64(number) % MT_SEGMENT_BUCKETS];
}

const struct mt_segment *
mt_segment_find(const struct mt_index *index, uint64_t number)
{
	const struct mt_segment *segment =
	    index->segments[num_mix_u64(number) % MT_SEGMENT_BUCKETS];

	while (segment != NULL && segment->number != number)
		segment = segment->next;
	return segment;
}

struct mt_segment *
mt_segment_join(struct mt_index *index, uint64_t number)
{
	struct mt_segment **bucket = segment_bucket(index, number);
	struct mt_segment *segment = *bucket;

	while (segment != NULL && segment->number != number)
		segment = segment->next;
	if (segment == NULL) {
		segment = mt_calloc(1, sizeof(*segment));
		if (segment == NULL)
			return NULL;
		segment->number = number;
		segment->next = *bucket;
		*bucket = segment;
	}
	segment->chunk_count++;
	return segment;
}

void
mt_segment_leave(struct mt_index *index, struct mt_segment *segment)
{
	struct mt_segment **at = segment_bucket(index, segment->number);

	assert(segment->chunk_count > 0);
	segment->chunk_count--;
	if (segment->chunk_count > 0)
		return;
	assert(segment->layer_bytes == 0);
	assert(segment->pinned_count == 0);
	assert(segment->run_bytes == 0);
	while (*at != segment) {
		assert(*at != NULL);
		at = &(*at)->next;
	}
	*at = segment->next;
	mt_free(segment);
}

void
mt_segments_each(const struct mt_index *index,
    void (*fn)(const struct mt_segment *segment, void *arg), void *arg)
{
	assert(fn != NULL);
	for (uint32_t i = 0; i < MT_SEGMENT_BUCKETS; i++) {
		for (const struct mt_segment *segment = index->segments[i]; segment != NULL;
		     segment = segment->next)
			fn(segment, arg);
	}
}
