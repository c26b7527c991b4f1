/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_part.c -- the index of a part that a run_writer has written: its frames, CRCs and places of their own
 *
 * Its directory is made of it, and then it is the new run's: made once, and kept by the part meanwhile.
 */
#include "merge/run_part.h"

#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "common/alloc.h"
#include "index/run_dir.h"
#include "index/run_index.h"
#include "merge/run_writer.h"

static struct mt_run_index *
index_make(const struct run_writer *writer, const struct run_part *part)
{
	const struct mt_frame *frames = writer->frames + part->first_frame;
	struct mt_run_index *index = mt_calloc(1, sizeof(*index));
	uint32_t first_crc = frames[0].crcs_at, crc_count = 0;

	assert(part->first_frame + part->frame_count <= writer->frame_count);
	if (index == NULL)
		return NULL;
	for (uint32_t i = 0; i < part->frame_count; i++) {
		crc_count += frames[i].record_kind == RECORD_WRITE ? frames[i].block_count : 0;
		index->live_bytes += frames[i].stored_bytes;
	}
	index->frames = mt_calloc(part->frame_count, sizeof(*index->frames));
	index->crcs = mt_calloc(num_max(crc_count, 1), sizeof(*index->crcs));
	index->places = mt_calloc(part->batch_count, sizeof(*index->places));
	if (index->frames == NULL || index->crcs == NULL || index->places == NULL) {
		mt_run_index_free(index);
		return NULL;
	}
	index->frame_count = part->frame_count;
	index->crc_count = crc_count;
	memcpy(index->crcs, writer->crcs + first_crc, crc_count * sizeof(*index->crcs));
	if (part->first_place + part->batch_count <= writer->place_count)
		index->place_count = part->batch_count;
	memcpy(index->places, writer->places + part->first_place,
	    index->place_count * sizeof(*index->places));
	for (uint32_t i = 0; i < part->frame_count; i++) {
		index->frames[i] = frames[i];
		index->frames[i].crcs_at -= first_crc;
	}
	return index;
}

struct mt_run_index *
mt_run_part_index(const struct run_writer *writer, struct run_part *part)
{
	if (part->index == NULL)
		part->index = index_make(writer, part);
	return part->index;
}

struct mt_run_index *
mt_run_part_take_index(const struct run_writer *writer, struct run_part *part)
{
	struct mt_run_index *index = mt_run_part_index(writer, part);

	part->index = NULL;
	return index;
}

void
mt_run_part_forget_index(struct run_part *part)
{
	mt_run_index_free(part->index);
	part->index = NULL;
}
