/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe.c -- a merge that is decided, to bytes; recipe.h has the layout
 *
 * While one is made each section stands where it would if those before it were as long as may be. The end moves them
 * together.
 */
#include "merge/recipe.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/engine.h"

/* Where the sections begin while a recipe is made. */
#define EXTENTS_AT RECIPE_HEAD_BYTES
#define SOURCES_AT (EXTENTS_AT + RECIPE_EXTENTS_MAX * RECIPE_EXTENT_BYTES)
#define FRAMES_AT (SOURCES_AT + CLEAVE_CHUNK_BLOCKS * RECIPE_SOURCE_BYTES)
#define CRCS_AT (FRAMES_AT + CLEAVE_CHUNK_BLOCKS * RECIPE_FRAME_BYTES)
_Static_assert(CRCS_AT + CLEAVE_CHUNK_BLOCKS * RECIPE_CRC_BYTES <= RECIPE_BYTES_MAX,
    "any chunk has a recipe");
_Static_assert(RECIPE_EXTENTS_MAX <= UINT16_MAX && CLEAVE_CHUNK_BLOCKS <= UINT16_MAX, "two bytes");

void
mt_recipe_begin(struct mt_recipe_builder *builder, uint8_t *bytes,
    const struct mt_recipe_head *head)
{
	assert(bytes != NULL);
	*builder = (struct mt_recipe_builder){ .bytes = bytes, .head = *head };
	builder->head.extent_count = builder->head.source_count = 0;
	builder->head.frame_count = builder->head.crc_count = 0;
}

int
mt_recipe_add_extent(struct mt_recipe_builder *builder, const struct mt_recipe_extent *extent)
{
	uint8_t *out = builder->bytes + EXTENTS_AT +
	    builder->head.extent_count * RECIPE_EXTENT_BYTES;

	assert(extent->replica_count <= MT_REPLICAS_MAX);
	if (builder->head.extent_count == RECIPE_EXTENTS_MAX)
		return -E2BIG;
	builder->head.extent_count++;
	num_put_le64(out, extent_id_pack(&extent->id));
	out[8] = (uint8_t)extent->kind;
	out[9] = (uint8_t)extent->replica_count;
	num_put_le16(out + 10, (uint16_t)extent->damaged);
	for (uint32_t i = 0; i < MT_REPLICAS_MAX; i++)
		num_put_le32(out + 12 + 4 * i, i < extent->replica_count ? extent->nodes[i] : 0);
	num_put_le64(out + 24, extent->sealed_bytes);
	return 0;
}

int
mt_recipe_add_source(struct mt_recipe_builder *builder, const struct mt_recipe_source *source)
{
	uint8_t *out = builder->bytes + SOURCES_AT +
	    builder->head.source_count * RECIPE_SOURCE_BYTES;

	if (builder->head.source_count == CLEAVE_CHUNK_BLOCKS)
		return -E2BIG;
	builder->head.source_count++;
	memset(out, 0, RECIPE_SOURCE_BYTES);
	num_put_le32(out, source->offset_bytes);
	num_put_le32(out + 4, source->stored_bytes);
	num_put_le32(out + 8, source->stored_crc);
	num_put_le16(out + 12, (uint16_t)source->extent);
	out[14] = source->codec_id;
	out[15] = source->record_blocks;
	out[16] = source->first_block;
	out[17] = source->count;
	out[18] = (uint8_t)((source->is_copy ? RECIPE_SOURCE_COPY : 0) |
	    (source->is_sure ? RECIPE_SOURCE_SURE : 0));
	num_put_le64(out + 24, source->chunk);
	return 0;
}

int
mt_recipe_add_frame(struct mt_recipe_builder *builder, const struct mt_recipe_frame *frame)
{
	uint8_t *out = builder->bytes + FRAMES_AT + builder->head.frame_count * RECIPE_FRAME_BYTES;

	if (builder->head.frame_count == CLEAVE_CHUNK_BLOCKS)
		return -E2BIG;
	builder->head.frame_count++;
	num_put_le16(out, (uint16_t)frame->block);
	num_put_le16(out + 2, (uint16_t)frame->count);
	out[4] = frame->kind;
	out[5] = frame->is_copy ? RECIPE_FRAME_COPY : 0;
	num_put_le16(out + 6, 0);
	return 0;
}

int
mt_recipe_add_crc(struct mt_recipe_builder *builder, uint32_t crc)
{
	if (builder->head.crc_count == CLEAVE_CHUNK_BLOCKS)
		return -E2BIG;
	num_put_le32(builder->bytes + CRCS_AT + builder->head.crc_count++ * RECIPE_CRC_BYTES, crc);
	return 0;
}

static void
head_encode(uint8_t *out, const struct mt_recipe_head *head)
{
	bool has_target = head->target != RECIPE_NO_TARGET;

	num_put_le32(out, RECIPE_MAGIC);
	num_put_le16(out + 4, RECIPE_VERSION);
	out[6] = head->level;
	out[7] = (uint8_t)((head->keeps_zeroes ? RECIPE_KEEPS_ZEROES : 0) |
	    (head->is_hot ? RECIPE_HOT : 0));
	memset(out + RECIPE_PRESSURE_AT, 0, 8);
	num_put_le16(out + RECIPE_PRESSURE_AT, (uint16_t)head->pressure);
	num_put_le32(out + 16, head->shard);
	num_put_le32(out + 20, head->epoch);
	num_put_le64(out + 24, head->chunk);
	num_put_le64(out + 32, head->flushed_sequence);
	num_put_le64(out + 40, head->cut);
	num_put_le32(out + 48, head->extent_count);
	num_put_le32(out + 52, head->source_count);
	num_put_le32(out + 56, head->frame_count);
	num_put_le32(out + 60, head->crc_count);
	num_put_le32(out + 64, head->frame_bytes);
	num_put_le32(out + 68, head->key_id);
	num_put_le32(out + 72, head->target);
	num_put_le32(out + 76, has_target ? head->end_bytes : 0);
	num_put_le32(out + 80, has_target ? head->mark_bytes : 0);
	num_put_le32(out + 84, has_target ? head->chain_crc : 0);
	num_put_le64(out + 88, has_target ? head->capacity_bytes : 0);
}

uint32_t
mt_recipe_checksum(const uint8_t *bytes, uint32_t length_bytes)
{
	static const uint8_t zeros[4];
	uint32_t crc = crc32c(0, bytes, RECIPE_CRC_AT);

	assert(length_bytes >= RECIPE_HEAD_BYTES);
	crc = crc32c(crc, zeros, sizeof(zeros));
	return crc32c(crc, bytes + RECIPE_HEAD_BYTES, length_bytes - RECIPE_HEAD_BYTES);
}

uint32_t
mt_recipe_end(struct mt_recipe_builder *builder)
{
	const struct mt_recipe_head *head = &builder->head;
	const struct {
		uint32_t at, bytes;
	} sections[] = { { EXTENTS_AT, head->extent_count * RECIPE_EXTENT_BYTES },
		{ SOURCES_AT, head->source_count * RECIPE_SOURCE_BYTES },
		{ FRAMES_AT, head->frame_count * RECIPE_FRAME_BYTES },
		{ CRCS_AT, head->crc_count * RECIPE_CRC_BYTES } };
	uint32_t at = RECIPE_HEAD_BYTES;

	for (uint32_t i = 0; i < NUM_COUNT(sections); i++) {
		memmove(builder->bytes + at, builder->bytes + sections[i].at, sections[i].bytes);
		at += sections[i].bytes;
	}
	head_encode(builder->bytes, head);
	num_put_le32(builder->bytes + RECIPE_LENGTH_AT, at);
	num_put_le32(builder->bytes + RECIPE_CRC_AT, mt_recipe_checksum(builder->bytes, at));
	return at;
}
