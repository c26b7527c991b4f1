/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_heads.c -- a run's index, made from the heads of its batches, one after the other
 *
 * Where a batch ends the next one's head begins; payloads are not read. The first batch's predecessor is
 * another run's: of it only its own CRC, identity and place are checked; from then on the chain (batch.h).
 * Where the run's directory is known, a single head is taken: it is as long as is written there, has the CRC and, for a
 * CRC can be forged, exactly the blocks. Of a *glimpse* of it, which is for one reader, only the frames that this one wants are
 * looked at, and have to be there. The directory that stands behind a run has the CRC that the manifest names.
 */
#include "index/run_heads.h"

#include <errno.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/batch_directory.h"
#include "cleave/wire.h"
#include "index/chunk.h"
#include "index/run_dir.h"
#include "index/run_index.h"

#define RUN_READ_BYTES NUM_KIB(8) /* holds most heads */

void
mt_run_heads_init(struct mt_run_heads *heads, const struct mt_run *run)
{
	assert(run->length_bytes > 0);
	*heads = (struct mt_run_heads){
		.chunk = run->chunk->number,
		.flushed_sequence = run->flushed_sequence,
		.at_bytes = run->offset_bytes,
		.end_bytes = run->offset_bytes + run->length_bytes - run->directory_bytes,
		.wish_bytes = RUN_READ_BYTES,
	};
}

void
mt_run_heads_init_page(struct mt_run_heads *heads, const struct mt_run *run, uint32_t page)
{
	const struct mt_run_slot *slot = &run->dir->slots[page];

	assert(page < run->dir->slot_count);
	mt_run_heads_init(heads, run);
	heads->dir = run->dir;
	heads->page = page;
	heads->at_bytes = slot->place.offset_bytes;
	if (page + 1 < run->dir->slot_count)
		heads->end_bytes = slot[1].place.offset_bytes;
	heads->wish_bytes = slot->place.head_bytes;
}

void
mt_run_heads_glimpse(struct mt_run_heads *heads, uint32_t block, uint32_t count)
{
	assert(heads->dir != NULL);
	assert(count == 0 || mt_run_dir_page(heads->dir, block) == heads->page);
	heads->glimpse_block = block;
	heads->glimpse_count = count;
}

void
mt_run_heads_init_directory(struct mt_run_heads *heads, const struct mt_run *run)
{
	assert(run->directory_bytes > 0);
	mt_run_heads_init(heads, run);
	heads->is_directory = true;
	heads->run_offset_bytes = run->offset_bytes;
	heads->directory_crc = run->directory_crc;
	heads->at_bytes = heads->end_bytes;
	heads->end_bytes += run->directory_bytes;
	heads->wish_bytes = run->directory_bytes;
}

void
mt_run_heads_fini(struct mt_run_heads *heads)
{
	mt_run_builder_fini(&heads->builder);
	mt_run_dir_free(heads->made);
	heads->made = NULL;
}

uint32_t
mt_run_heads_ask_bytes(const struct mt_run_heads *heads)
{
	assert(heads->at_bytes < heads->end_bytes);
	assert(heads->wish_bytes > 0);
	return (uint32_t)num_min(heads->wish_bytes, heads->end_bytes - heads->at_bytes);
}

void
mt_run_heads_distrust(struct mt_run_heads *heads)
{
	if (heads->dir == NULL && !heads->is_directory)
		heads->wish_bytes = RUN_READ_BYTES; /* else it has one length alone */
}

bool
mt_run_heads_are_over(const struct mt_run_heads *heads)
{
	assert(heads->at_bytes <= heads->end_bytes);
	return heads->at_bytes == heads->end_bytes;
}

struct mt_run_index *
mt_run_heads_end(struct mt_run_heads *heads)
{
	struct mt_run_index *index = heads->builder.index;

	assert(mt_run_heads_are_over(heads));
	if (heads->glimpse_count == 0)
		return mt_run_builder_take(&heads->builder);
	heads->builder = (struct mt_run_builder){ 0 }; /* soon gone: not worth to be made smaller */
	return index;
}

struct mt_run_dir *
mt_run_heads_end_directory(struct mt_run_heads *heads)
{
	struct mt_run_dir *dir = heads->made;

	assert(mt_run_heads_are_over(heads) && heads->is_directory);
	heads->made = NULL;
	return dir;
}

/* The frames of a batch whose header and CRC have passed, and where it is; some of them, if it fails. */
static int
heads_add_frames(struct mt_run_heads *heads, const uint8_t *head, const struct batch_info *info)
{
	struct mt_run_builder *builder = &heads->builder;
	struct mt_run_place place = { .offset_bytes = (uint32_t)info->offset_bytes,
		.head_bytes = BATCH_HEADER_BYTES + info->desc_bytes,
		.batch_crc = info->batch_crc,
		.first_block = builder->next_block };
	uint32_t crc_count = (info->desc_bytes - info->record_count * BATCH_DESC_FIXED_BYTES) / 4;
	struct record_iter it;
	struct record_desc frame;
	const char *field;
	int rc = mt_run_builder_reserve(builder, info->record_count, crc_count);
	bool is_first = true;

	if (rc != 0)
		return rc;
	record_iter_init(&it, head, info);
	while ((rc = record_iter_next(&it, &frame, &field)) == 1) {
		if (mt_chunk_number(frame.segment, frame.block) != heads->chunk)
			return -EBADMSG;
		rc = mt_run_builder_add(builder, &frame, info->offset_bytes);
		if (rc != 0)
			return rc;
		if (is_first)
			place.first_block = frame.block % CLEAVE_CHUNK_BLOCKS;
		is_first = false;
	}
	if (rc != 0 || it.payload_offset_bytes != info->used_bytes)
		return -EBADMSG;
	if (heads->dir != NULL)
		return mt_run_dir_fits(heads->dir, heads->page, builder->index) ? 0 : -EBADMSG;
	return mt_run_builder_place(builder, &place);
}

/* The frames of the blocks that are wanted, of a head of which nothing but the CRC was checked; some, if it fails. */
static int
heads_add_glimpse(struct mt_run_heads *heads, const uint8_t *head, const struct batch_info *info)
{
	const struct mt_run_builder *builder = &heads->builder;
	uint32_t end = heads->glimpse_block + heads->glimpse_count;
	struct record_iter it;
	struct record_desc frame;
	const char *field;
	int rc;

	record_iter_init(&it, head, info);
	rc = record_iter_skip_to(&it, heads->glimpse_block, &field);
	while (rc == 0 && (rc = record_iter_next(&it, &frame, &field)) == 1) {
		if (frame.block % CLEAVE_CHUNK_BLOCKS >= end)
			break;
		if (mt_chunk_number(frame.segment, frame.block) != heads->chunk ||
		    frame.payload_offset_bytes + frame.stored_bytes > info->used_bytes)
			return -EBADMSG;
		rc = mt_run_builder_add(&heads->builder, &frame, info->offset_bytes);
	}
	if (rc < 0)
		return rc;
	if (builder->index == NULL || builder->index->frame_count == 0 ||
	    builder->index->frames[0].block > heads->glimpse_block)
		return -EBADMSG;
	return 0;
}

/* All or none: another copy may be asked for this head again. */
static int
heads_take_frames(struct mt_run_heads *heads, const uint8_t *head, const struct batch_info *info)
{
	struct mt_run_mark mark = mt_run_builder_mark(&heads->builder);
	int rc = heads->glimpse_count > 0 ? heads_add_glimpse(heads, head, info)
					  : heads_add_frames(heads, head, info);

	if (rc != 0)
		mt_run_builder_undo(&heads->builder, &mark);
	return rc;
}

/* The head has passed: the directory of this run, which begins with its first batch. */
static int
heads_take_directory(struct mt_run_heads *heads, const uint8_t *head, const struct batch_info *info)
{
	struct batch_directory directory;
	struct batch_place first;
	const char *field;

	if (batch_directory_decode(head + BATCH_HEADER_BYTES, info->desc_bytes, &directory,
		&field) != 0)
		return -EBADMSG;
	batch_directory_place(&directory, 0, &first);
	if (first.offset_bytes != heads->run_offset_bytes)
		return -EBADMSG;
	heads->made = mt_run_dir_decode(&directory);
	return heads->made == NULL ? -ENOMEM : 0;
}

/* Is it the batch that the directory names? */
static bool
heads_are_page(const struct mt_run_heads *heads, const struct batch_info *info)
{
	const struct mt_run_place *place = &heads->dir->slots[heads->page].place;

	return info->batch_crc == place->batch_crc &&
	    BATCH_HEADER_BYTES + info->desc_bytes == place->head_bytes &&
	    heads->at_bytes + info->batch_bytes == heads->end_bytes;
}

/* Is a head that has passed the one that is wanted? */
static bool
heads_are_wanted(const struct mt_run_heads *heads, const struct batch_info *info)
{
	if (heads->at_bytes + info->batch_bytes > heads->end_bytes || info->chunk != heads->chunk ||
	    info->flushed_sequence != heads->flushed_sequence ||
	    info->is_directory != heads->is_directory)
		return false;
	if (heads->is_directory)
		return info->batch_crc == heads->directory_crc &&
		    heads->at_bytes + info->batch_bytes == heads->end_bytes;
	return heads->dir == NULL || heads_are_page(heads, info);
}

int
mt_run_heads_take(struct mt_run_heads *heads, const struct extent_id *id, const uint8_t *head,
    uint32_t bytes)
{
	struct batch_check check = { .id = *id,
		.kind = EXTENT_RUN,
		.offset_bytes = heads->at_bytes,
		.prev_crc = heads->prev_crc,
		.is_probe = !heads->has_prev,
		.is_unwalked = true };
	const struct batch_info *info = &check.info;
	uint32_t left_bytes = heads->end_bytes - heads->at_bytes;
	int rc = batch_head_check(head, bytes, &check);

	assert(heads->at_bytes < heads->end_bytes);
	if (rc == -EMSGSIZE && heads->dir == NULL && !heads->is_directory &&
	    BATCH_HEADER_BYTES + info->desc_bytes <= left_bytes) {
		heads->wish_bytes = BATCH_HEADER_BYTES + info->desc_bytes;
		return -EAGAIN;
	}
	if (rc != 0 || !heads_are_wanted(heads, info))
		return -EBADMSG;
	rc = heads->is_directory ? heads_take_directory(heads, head, info)
				 : heads_take_frames(heads, head, info);
	if (rc != 0)
		return rc;
	heads->at_bytes += info->batch_bytes;
	heads->wish_bytes = (uint32_t)num_max(RUN_READ_BYTES, /* the next is as long, most likely */
	    num_round_up(BATCH_HEADER_BYTES + info->desc_bytes, BATCH_ALIGN));
	heads->prev_crc = info->batch_crc;
	heads->has_prev = true;
	return 0;
}
