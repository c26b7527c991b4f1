/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe_decode.c -- bytes that may be a recipe: every field is checked here, once (I10)
 *
 * What has passed is executed without another look at it: each index is of something that is there, each frame fits a
 * window, each stored record the memory of its blocks. Whether a place holds what its CRC says is for the executing
 * part to find out, as ever.
 */
#include "merge/recipe_decode.h"

#include <errno.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "merge/pace.h"
#include "merge/recipe.h"

#define RECIPE_LEVEL_MAX 19u /* of zstd: the engine takes no more */

/* ---- what a recipe says ---- */

struct mt_recipe_extent
mt_recipe_extent(const struct mt_recipe *recipe, uint32_t at)
{
	const uint8_t *in = recipe->extents + at * RECIPE_EXTENT_BYTES;
	struct mt_recipe_extent extent = {
		.id = extent_id_unpack(num_get_le64(in)),
		.kind = (enum extent_kind)in[8],
		.replica_count = in[9],
		.damaged = num_get_le16(in + 10),
		.sealed_bytes = num_get_le64(in + 24),
	};

	assert(at < recipe->head.extent_count);
	for (uint32_t i = 0; i < MT_REPLICAS_MAX; i++)
		extent.nodes[i] = num_get_le32(in + 12 + 4 * i);
	return extent;
}

struct mt_recipe_source
mt_recipe_source(const struct mt_recipe *recipe, uint32_t at)
{
	const uint8_t *in = recipe->sources + at * RECIPE_SOURCE_BYTES;

	assert(at < recipe->head.source_count);
	return (struct mt_recipe_source){
		.offset_bytes = num_get_le32(in),
		.stored_bytes = num_get_le32(in + 4),
		.stored_crc = num_get_le32(in + 8),
		.extent = num_get_le16(in + 12),
		.codec_id = in[14],
		.record_blocks = in[15],
		.first_block = in[16],
		.count = in[17],
		.is_copy = (in[18] & RECIPE_SOURCE_COPY) != 0,
		.is_sure = (in[18] & RECIPE_SOURCE_SURE) != 0,
		.chunk = num_get_le64(in + 24),
	};
}

struct mt_recipe_frame
mt_recipe_frame(const struct mt_recipe *recipe, uint32_t at)
{
	const uint8_t *in = recipe->frames + at * RECIPE_FRAME_BYTES;

	assert(at < recipe->head.frame_count);
	return (struct mt_recipe_frame){ .block = num_get_le16(in),
		.count = num_get_le16(in + 2),
		.kind = in[4],
		.is_copy = (in[5] & RECIPE_FRAME_COPY) != 0 };
}

uint32_t
mt_recipe_crc(const struct mt_recipe *recipe, uint32_t at)
{
	assert(at < recipe->head.crc_count);
	return num_get_le32(recipe->crcs + at * RECIPE_CRC_BYTES);
}

/* ---- its head ---- */

static void
head_read(const uint8_t *in, struct mt_recipe_head *ret_head)
{
	*ret_head = (struct mt_recipe_head){
		.level = in[6],
		.keeps_zeroes = (in[7] & RECIPE_KEEPS_ZEROES) != 0,
		.is_hot = (in[7] & RECIPE_HOT) != 0,
		.pressure = num_get_le16(in + RECIPE_PRESSURE_AT),
		.shard = num_get_le32(in + 16),
		.epoch = num_get_le32(in + 20),
		.chunk = num_get_le64(in + 24),
		.flushed_sequence = num_get_le64(in + 32),
		.cut = num_get_le64(in + 40),
		.extent_count = num_get_le32(in + 48),
		.source_count = num_get_le32(in + 52),
		.frame_count = num_get_le32(in + 56),
		.crc_count = num_get_le32(in + 60),
		.frame_bytes = num_get_le32(in + 64),
		.key_id = num_get_le32(in + 68),
		.target = num_get_le32(in + 72),
		.end_bytes = num_get_le32(in + 76),
		.mark_bytes = num_get_le32(in + 80),
		.chain_crc = num_get_le32(in + 84),
		.capacity_bytes = num_get_le64(in + 88),
	};
}

static const char *
counts_field(const struct mt_recipe_head *head)
{
	if (head->extent_count > RECIPE_EXTENTS_MAX)
		return "extent_count";
	if (head->source_count > CLEAVE_CHUNK_BLOCKS)
		return "source_count";
	if (head->frame_count > CLEAVE_CHUNK_BLOCKS)
		return "frame_count";
	if (head->crc_count > CLEAVE_CHUNK_BLOCKS)
		return "crc_count";
	return NULL;
}

static const char *
head_field(const uint8_t *in, const struct mt_recipe_head *head)
{
	uint32_t blocks = head->frame_bytes / CLEAVE_BLOCK_BYTES;

	if (head->level < 1 || head->level > RECIPE_LEVEL_MAX)
		return "level";
	if ((in[7] & ~(RECIPE_KEEPS_ZEROES | RECIPE_HOT)) != 0)
		return "flags";
	if (head->pressure > PACE_FULL)
		return "pressure";
	for (uint32_t i = RECIPE_PRESSURE_AT + 2; i < 16; i++) {
		if (in[i] != 0)
			return "head_reserved";
	}
	if (head->epoch == 0 || head->epoch > EXTENT_EPOCH_MAX)
		return "epoch";
	if (head->frame_bytes % CLEAVE_BLOCK_BYTES != 0 || blocks < 1 ||
	    blocks > ENGINE_RECORD_BLOCKS_MAX || (blocks & (blocks - 1)) != 0)
		return "frame_bytes";
	return NULL;
}

/* Where batches go: a run extent, as far as it is in use. */
static const char *
target_field(const struct mt_recipe *recipe)
{
	const struct mt_recipe_head *head = &recipe->head;

	if (head->target == RECIPE_NO_TARGET)
		return head->end_bytes == 0 && head->mark_bytes == 0 && head->chain_crc == 0 &&
			head->capacity_bytes == 0
		    ? NULL
		    : "end_bytes";
	if (head->target >= head->extent_count)
		return "target";
	if (mt_recipe_extent(recipe, head->target).kind != EXTENT_RUN ||
	    mt_recipe_extent(recipe, head->target).sealed_bytes != 0)
		return "target";
	if (head->capacity_bytes > WIRE_NODE_SLOT_BYTES_MAX)
		return "capacity_bytes";
	if (head->end_bytes % BATCH_ALIGN != 0 || head->end_bytes > head->capacity_bytes)
		return "end_bytes";
	if (head->mark_bytes % BATCH_ALIGN != 0 || head->mark_bytes > head->end_bytes)
		return "mark_bytes";
	return NULL;
}

/* ---- extents ---- */

static const char *
nodes_field(const struct mt_recipe_extent *extent)
{
	for (uint32_t i = 0; i < MT_REPLICAS_MAX; i++) {
		if (i >= extent->replica_count) {
			if (extent->nodes[i] != 0)
				return "node";
			continue;
		}
		if (extent->nodes[i] == 0)
			return "node";
		for (uint32_t k = 0; k < i; k++) {
			if (extent->nodes[k] == extent->nodes[i])
				return "node";
		}
	}
	return NULL;
}

static const char *
extent_field(const struct mt_recipe *recipe, uint32_t at)
{
	const uint8_t *in = recipe->extents + at * RECIPE_EXTENT_BYTES;
	struct mt_recipe_extent extent = mt_recipe_extent(recipe, at);

	if (in[8] != EXTENT_LOG && in[8] != EXTENT_RUN)
		return "extent_kind";
	if (extent.id.shard != recipe->head.shard || extent.id.epoch == 0 ||
	    extent.id.epoch > recipe->head.epoch)
		return "extent";
	if (extent.replica_count < 1 || extent.replica_count > MT_REPLICAS_MAX)
		return "replica_count";
	if (extent.damaged >> extent.replica_count != 0)
		return "damaged";
	if (extent.sealed_bytes % BATCH_ALIGN != 0 || extent.sealed_bytes > UINT32_MAX)
		return "sealed_bytes";
	return nodes_field(&extent);
}

/* ---- sources, frames, CRCs ---- */

static const char *
source_bytes_field(const struct mt_recipe *recipe, const struct mt_recipe_source *source)
{
	bool is_encrypted = (source->codec_id & ENGINE_ENCRYPTED) != 0;
	uint32_t extra_bytes = is_encrypted ? ENGINE_ENVELOPE_BYTES(source->record_blocks) : 0;
	uint32_t max_bytes = source->record_blocks * CLEAVE_BLOCK_BYTES + extra_bytes;
	uint32_t min_bytes = ENGINE_CODEC(source->codec_id) == ENGINE_NONE ? max_bytes
									   : 1 + extra_bytes;
	uint64_t end_bytes = (uint64_t)source->offset_bytes + source->stored_bytes;
	uint64_t sealed_bytes = mt_recipe_extent(recipe, source->extent).sealed_bytes;

	if (source->stored_bytes < min_bytes || source->stored_bytes > max_bytes)
		return "stored_bytes";
	/* A copy goes through the memory of its blocks. */
	if (source->is_copy && source->stored_bytes > source->count * CLEAVE_BLOCK_BYTES)
		return "stored_bytes";
	if (source->offset_bytes < BATCH_HEADER_BYTES || end_bytes > UINT32_MAX ||
	    (sealed_bytes != 0 && end_bytes > sealed_bytes))
		return "offset_bytes";
	return NULL;
}

/* Source number @at, which begins with @block of the chunk. */
static const char *
source_field(const struct mt_recipe *recipe, uint32_t at, uint32_t block)
{
	const uint8_t *in = recipe->sources + at * RECIPE_SOURCE_BYTES;
	struct mt_recipe_source source = mt_recipe_source(recipe, at);

	if (source.extent >= recipe->head.extent_count)
		return "source_extent";
	if (engine_by_id(ENGINE_CODEC(source.codec_id)) == NULL)
		return "codec_id";
	if (source.record_blocks < 1 || source.record_blocks > ENGINE_RECORD_BLOCKS_MAX)
		return "record_blocks";
	if (source.count < 1 || source.first_block + source.count > source.record_blocks)
		return "source_count";
	/* A record lies within its chunk. */
	if (source.first_block > block ||
	    block - source.first_block + source.record_blocks > CLEAVE_CHUNK_BLOCKS)
		return "first_block";
	if ((in[18] & ~(RECIPE_SOURCE_COPY | RECIPE_SOURCE_SURE)) != 0)
		return "source_flags";
	if (source.is_copy && source.count != source.record_blocks)
		return "source_flags";
	for (uint32_t i = 19; i < 24; i++) {
		if (in[i] != 0)
			return "source_reserved";
	}
	/* A clone's chunks have the places of their origin's. */
	if (source.chunk % CLEAVE_SEGMENT_CHUNKS != recipe->head.chunk % CLEAVE_SEGMENT_CHUNKS)
		return "source_chunk";
	return source_bytes_field(recipe, &source);
}

static const char *
frame_field(const struct mt_recipe *recipe, uint32_t at, uint32_t end_block)
{
	const uint8_t *in = recipe->frames + at * RECIPE_FRAME_BYTES;
	struct mt_recipe_frame frame = mt_recipe_frame(recipe, at);
	uint32_t frame_blocks = recipe->head.frame_bytes / CLEAVE_BLOCK_BYTES;

	if (frame.block < end_block)
		return "frame_block";
	if (frame.count < 1 || frame.block + frame.count > CLEAVE_CHUNK_BLOCKS)
		return "frame_count";
	if (frame.kind < RECORD_WRITE || frame.kind > RECORD_LOST)
		return "frame_kind";
	if ((in[5] & ~RECIPE_FRAME_COPY) != 0 || (frame.is_copy && frame.kind != RECORD_WRITE))
		return "frame_flags";
	if (in[6] != 0 || in[7] != 0)
		return "frame_reserved";
	/* Within a multiple of the frames' size, or longer than they are: planned in haste. */
	if (frame.kind == RECORD_WRITE && frame.count <= frame_blocks &&
	    frame.block % frame_blocks + frame.count > frame_blocks)
		return "frame_count";
	if (frame.kind == RECORD_WRITE && frame.count > ENGINE_RECORD_BLOCKS_MAX)
		return "frame_count";
	return NULL;
}

/* The way along frames, their sources and their CRCs. */
struct recipe_walk {
	const struct mt_recipe *recipe;
	uint32_t source_at; /* the next */
	uint32_t left;      /* blocks of the one before that no frame has had */
	uint32_t crc_at;
	bool is_encrypted; /* the one before */
};

/* The blocks of @frame, of kind WRITE. */
static const char *
walk_write(struct recipe_walk *walk, const struct mt_recipe_frame *frame)
{
	const struct mt_recipe *recipe = walk->recipe;

	if (frame->is_copy && walk->left > 0)
		return "frame_flags";
	for (uint32_t i = 0; i < frame->count; i++, walk->left--) {
		if (walk->crc_at == recipe->head.crc_count)
			return "crc_count";
		if (walk->left == 0) {
			struct mt_recipe_source source;
			const char *field;

			if (walk->source_at == recipe->head.source_count)
				return "source_count";
			field = source_field(recipe, walk->source_at, frame->block + i);
			if (field != NULL)
				return field;
			source = mt_recipe_source(recipe, walk->source_at++);
			if (source.is_copy != frame->is_copy ||
			    (source.is_copy && source.count != frame->count))
				return "source_flags";
			walk->left = source.count;
			walk->is_encrypted = (source.codec_id & ENGINE_ENCRYPTED) != 0;
		}
		/* CRCs of what is encrypted would tell what was written. */
		if (mt_recipe_crc(recipe, walk->crc_at++) != 0 && walk->is_encrypted)
			return "crc";
	}
	return NULL;
}

static const char *
walk_field(const struct mt_recipe *recipe)
{
	struct recipe_walk walk = { .recipe = recipe };
	uint32_t end_block = 0;

	for (uint32_t i = 0; i < recipe->head.frame_count; i++) {
		const char *field = frame_field(recipe, i, end_block);
		struct mt_recipe_frame frame = mt_recipe_frame(recipe, i);

		if (field != NULL)
			return field;
		/* A source's blocks are neighbours. */
		if (walk.left > 0 && (frame.kind != RECORD_WRITE || frame.block != end_block))
			return "source_count";
		end_block = frame.block + frame.count;
		field = frame.kind == RECORD_WRITE ? walk_write(&walk, &frame) : NULL;
		if (field != NULL)
			return field;
	}
	if (walk.left > 0 || walk.source_at != recipe->head.source_count)
		return "source_count";
	return walk.crc_at == recipe->head.crc_count ? NULL : "crc_count";
}

/* ---- all of it ---- */

static const char *
recipe_field(const uint8_t *bytes, uint32_t length_bytes, struct mt_recipe *recipe)
{
	struct mt_recipe_head *head = &recipe->head;
	const char *field;
	uint32_t sum_bytes;

	if (length_bytes < RECIPE_HEAD_BYTES || length_bytes > RECIPE_BYTES_MAX ||
	    num_get_le32(bytes + RECIPE_LENGTH_AT) != length_bytes)
		return "recipe_bytes";
	if (num_get_le32(bytes) != RECIPE_MAGIC)
		return "magic";
	if (num_get_le16(bytes + 4) != RECIPE_VERSION)
		return "version";
	if (num_get_le32(bytes + RECIPE_CRC_AT) != mt_recipe_checksum(bytes, length_bytes))
		return "crc32c";
	head_read(bytes, head);
	field = counts_field(head);
	if (field != NULL)
		return field;
	sum_bytes = RECIPE_HEAD_BYTES + head->extent_count * RECIPE_EXTENT_BYTES +
	    head->source_count * RECIPE_SOURCE_BYTES + head->frame_count * RECIPE_FRAME_BYTES +
	    head->crc_count * RECIPE_CRC_BYTES;
	if (sum_bytes != length_bytes)
		return "recipe_bytes";
	recipe->extents = bytes + RECIPE_HEAD_BYTES;
	recipe->sources = recipe->extents + head->extent_count * RECIPE_EXTENT_BYTES;
	recipe->frames = recipe->sources + head->source_count * RECIPE_SOURCE_BYTES;
	recipe->crcs = recipe->frames + head->frame_count * RECIPE_FRAME_BYTES;
	field = head_field(bytes, head);
	for (uint32_t i = 0; field == NULL && i < head->extent_count; i++)
		field = extent_field(recipe, i);
	if (field == NULL)
		field = target_field(recipe);
	return field != NULL ? field : walk_field(recipe);
}

int
mt_recipe_decode(const void *bytes, uint32_t length_bytes, struct mt_recipe *ret_recipe,
    const char **ret_field)
{
	assert(ret_field != NULL);
	*ret_recipe = (struct mt_recipe){ 0 };
	*ret_field = recipe_field(bytes, length_bytes, ret_recipe);
	return *ret_field == NULL ? 0 : -EBADMSG;
}

bool
mt_recipe_encrypts(const struct mt_recipe *recipe)
{
	if (recipe->head.key_id != 0)
		return true;
	for (uint32_t i = 0; i < recipe->head.source_count; i++) {
		struct mt_recipe_source source = mt_recipe_source(recipe, i);

		if ((source.codec_id & ENGINE_ENCRYPTED) != 0 && !source.is_copy)
			return true;
	}
	return false;
}
