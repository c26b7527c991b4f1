/* SPDX-License-Identifier: Apache-2.0 */
/* run_builder.c -- makes the index of a run, or of one of its batches, frame by frame */
#include "index/run_builder.h"

#include <errno.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "index/run_dir.h"
#include "index/run_index.h"

#define RUN_FRAMES_MIN 16u
#define RUN_CRCS_MIN 64u
#define RUN_PLACES_MIN 8u

/* Room for @count more elements of @bytes each behind @used of *@array. */
static int
run_array_grow(void **array, uint32_t *max, uint32_t used, uint32_t count, size_t bytes,
    uint32_t least)
{
	uint32_t wanted = (uint32_t)num_max(*max == 0 ? least : *max, used + count);
	void *bigger;

	assert(used <= *max);
	if (used + count <= *max)
		return 0;
	if (*max != 0)
		wanted = (uint32_t)num_max(wanted, 2 * (uint64_t)*max);
	bigger = mt_realloc(*array, wanted * bytes);
	if (bigger == NULL)
		return -ENOMEM;
	*array = bigger;
	*max = wanted;
	return 0;
}

static struct mt_run_index *
run_builder_index(struct mt_run_builder *builder)
{
	if (builder->index == NULL)
		builder->index = mt_calloc(1, sizeof(*builder->index));
	return builder->index;
}

int
mt_run_builder_reserve(struct mt_run_builder *builder, uint32_t frame_count, uint32_t crc_count)
{
	struct mt_run_index *index = run_builder_index(builder);
	void *frames, *crcs;
	int rc;

	if (index == NULL)
		return -ENOMEM;
	frames = index->frames;
	rc = run_array_grow(&frames, &builder->frame_max, index->frame_count, frame_count,
	    sizeof(*index->frames), RUN_FRAMES_MIN);
	index->frames = frames;
	if (rc != 0)
		return rc;
	crcs = index->crcs;
	rc = run_array_grow(&crcs, &builder->crc_max, index->crc_count, crc_count,
	    sizeof(*index->crcs), RUN_CRCS_MIN);
	index->crcs = crcs;
	return rc;
}

int
mt_run_builder_add(struct mt_run_builder *builder, const struct record_desc *frame,
    uint64_t batch_offset_bytes)
{
	uint32_t crc_count = frame->kind == RECORD_WRITE ? frame->block_count : 0;
	uint32_t block = frame->block % CLEAVE_CHUNK_BLOCKS;
	struct mt_run_index *index;
	int rc;

	assert(frame->block_count > 0);
	if (block < builder->next_block)
		return -EBADMSG;
	index = builder->index;
	if (index == NULL || index->frame_count == builder->frame_max ||
	    index->crc_count + crc_count > builder->crc_max) {
		rc = mt_run_builder_reserve(builder, 1, crc_count);
		if (rc != 0)
			return rc;
		index = builder->index;
	}
	index->frames[index->frame_count++] = (struct mt_frame){
		.block = block,
		.block_count = frame->block_count,
		.offset_bytes = (uint32_t)batch_offset_bytes + frame->payload_offset_bytes,
		.stored_bytes = frame->stored_bytes,
		.stored_crc = frame->stored_crc,
		.codec_id = frame->codec_id,
		.record_kind = frame->kind,
		.crcs_at = index->crc_count,
	};
	for (uint32_t i = 0; i < crc_count; i++)
		index->crcs[index->crc_count + i] = frame->block_crcs[i];
	index->crc_count += crc_count;
	index->live_bytes += frame->stored_bytes;
	builder->next_block = block + frame->block_count;
	return 0;
}

int
mt_run_builder_place(struct mt_run_builder *builder, const struct mt_run_place *place)
{
	struct mt_run_index *index = run_builder_index(builder);
	void *places;
	int rc;

	if (index == NULL)
		return -ENOMEM;
	assert(index->place_count == 0 ||
	    index->places[index->place_count - 1].offset_bytes < place->offset_bytes);
	places = index->places;
	rc = run_array_grow(&places, &builder->place_max, index->place_count, 1, sizeof(*place),
	    RUN_PLACES_MIN);
	index->places = places;
	if (rc == 0)
		index->places[index->place_count++] = *place;
	return rc;
}

struct mt_run_mark
mt_run_builder_mark(const struct mt_run_builder *builder)
{
	const struct mt_run_index *index = builder->index;

	if (index == NULL)
		return (struct mt_run_mark){ .next_block = builder->next_block };
	return (struct mt_run_mark){ .frame_count = index->frame_count,
		.crc_count = index->crc_count,
		.place_count = index->place_count,
		.next_block = builder->next_block,
		.live_bytes = index->live_bytes };
}

void
mt_run_builder_undo(struct mt_run_builder *builder, const struct mt_run_mark *mark)
{
	struct mt_run_index *index = builder->index;

	builder->next_block = mark->next_block;
	if (index == NULL)
		return;
	assert(mark->frame_count <= index->frame_count);
	index->frame_count = mark->frame_count;
	index->crc_count = mark->crc_count;
	index->place_count = mark->place_count;
	index->live_bytes = mark->live_bytes;
}

/* A smaller array that cannot be had is no loss. */
static void *
run_array_shrink(void *array, uint32_t max, uint32_t count, size_t bytes)
{
	void *smaller = count == 0 || count == max ? NULL : mt_realloc(array, count * bytes);

	return smaller == NULL ? array : smaller;
}

struct mt_run_index *
mt_run_builder_take(struct mt_run_builder *builder)
{
	struct mt_run_index *index = builder->index;

	if (index == NULL)
		return mt_calloc(1, sizeof(*index)); /* of a run without a frame */
	index->frames = run_array_shrink(index->frames, builder->frame_max, index->frame_count,
	    sizeof(*index->frames));
	index->crcs =
	    run_array_shrink(index->crcs, builder->crc_max, index->crc_count, sizeof(*index->crcs));
	index->places = run_array_shrink(index->places, builder->place_max, index->place_count,
	    sizeof(*index->places));
	*builder = (struct mt_run_builder){ 0 };
	return index;
}

void
mt_run_builder_fini(struct mt_run_builder *builder)
{
	mt_run_index_free(builder->index);
	*builder = (struct mt_run_builder){ 0 };
}
