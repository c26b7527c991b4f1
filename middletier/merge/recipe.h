/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe.h -- a merge that is decided, as bytes: which stored records are fetched, and which frames are made of them
 *
 * Who executes it needs no index, no manifest and no metadata store: merge_exec.h. Little-endian, at most
 * RECIPE_BYTES_MAX, one behind the other:
 *
 *	| head, 104 bytes | extents, 32 each | sources, 32 each | frames, 8 each | CRCs, 4 each |
 *
 *	head      0 u32 magic "RCPE"      4 u16 version, 1    6 u8 level of zstd   7 u8 flags: 1 frames of zeros are
 *	          tombstones, 2 LZ4 HC in place of zstd       8 u16 pressure of the owner's logs, per mille (pace.h)
 *	         10 u8[6] zeros
 *	         16 u32 shard            20 u32 epoch        24 u64 chunk
 *	         32 u64 flushed_sequence                     40 u64 cut
 *	         48 u32 extent_count     52 u32 source_count 56 u32 frame_count   60 u32 crc_count
 *	         64 u32 frame_bytes      68 u32 key_id
 *	         72 u32 target, an index of extents; UINT32_MAX: there is none yet, and the next four are 0
 *	         76 u32 end_bytes        80 u32 mark_bytes   84 u32 chain_crc     88 u64 capacity_bytes
 *	         96 u32 recipe_bytes    100 u32 CRC-32C of all, this one as zeros
 *	extent    0 u64 id, packed        8 u8 kind, 9 u8 replica_count, 10 u16 damaged: a bit a replica
 *	         12 u32[3] nodes         24 u64 sealed_bytes, 0: it is open
 *	source    0 u32 offset_bytes      4 u32 stored_bytes  8 u32 stored_crc    12 u16 extent, an index
 *	         14 u8 codec_id          15 u8 record_blocks 16 u8 first_block   17 u8 count
 *	         18 u8 flags: 1 taken as it is stored, 2 its place is sure      19 u8[5] zeros
 *	         24 u64 chunk that its record was written to
 *	frame     0 u16 block             2 u16 count         4 u8 kind           5 u8 flags: 1 one source, as it is stored
 *	          6 u16 zeros
 *	CRC       u32 of a block of a WRITE frame, plain; of an encrypted source 0
 *
 * Frames are in the order of their blocks, and disjoint. Sources and CRCs are those of the blocks of WRITE frames, in
 * that order. CRCs are those that clients made (I8).
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_RECIPE_H
#define CLEAVE_MIDDLETIER_MERGE_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "common/replica.h"

#define RECIPE_MAGIC 0x45504352u /* "RCPE" */
#define RECIPE_VERSION 1u
#define RECIPE_BYTES_MAX (1024u * 1024u)
#define RECIPE_HEAD_BYTES 104u
#define RECIPE_EXTENT_BYTES 32u
#define RECIPE_SOURCE_BYTES 32u
#define RECIPE_FRAME_BYTES 8u
#define RECIPE_CRC_BYTES 4u
#define RECIPE_EXTENTS_MAX 4096u
#define RECIPE_NO_TARGET UINT32_MAX

/* Flags, and places in the head: of recipe.c and recipe_decode.c. */
#define RECIPE_KEEPS_ZEROES 1u
#define RECIPE_HOT 2u
#define RECIPE_SOURCE_COPY 1u
#define RECIPE_SOURCE_SURE 2u
#define RECIPE_FRAME_COPY 1u
#define RECIPE_PRESSURE_AT 8u
#define RECIPE_LENGTH_AT 96u
#define RECIPE_CRC_AT 100u

struct mt_recipe_head {
	uint8_t level;
	bool keeps_zeroes, is_hot; /* as struct merge_task has them, and key_id */
	uint32_t pressure;         /* of the owner's logs: who executes it is in no less a hurry */
	uint32_t shard, epoch;
	uint64_t chunk, flushed_sequence, cut;
	uint32_t extent_count, source_count, frame_count, crc_count;
	uint32_t frame_bytes;
	uint32_t key_id;
	uint32_t target; /* RECIPE_NO_TARGET, or where batches are appended */
	uint32_t end_bytes, mark_bytes, chain_crc;
	uint64_t capacity_bytes;
};

struct mt_recipe_extent {
	struct extent_id id;
	enum extent_kind kind;
	uint32_t replica_count;
	uint32_t damaged; /* bit set by replica */
	uint32_t nodes[MT_REPLICAS_MAX];
	uint64_t sealed_bytes;
};

struct mt_recipe_source {
	uint32_t offset_bytes, stored_bytes, stored_crc;
	uint32_t extent;
	uint8_t codec_id, record_blocks, first_block, count;
	bool is_copy, is_sure;
	uint64_t chunk;
};

struct mt_recipe_frame {
	uint32_t block, count;
	uint8_t kind; /* enum record_kind */
	bool is_copy;
};

/*
 * mt_recipe_deadline_ns -- how long it may take to execute; whoever needs longer has a fault
 *
 * Ten seconds, or what two MiB of plain blocks a second take.
 */
static inline uint64_t
mt_recipe_deadline_ns(const struct mt_recipe_head *head)
{
	return num_max((uint64_t)head->crc_count * NUM_MS(2), NUM_S(10));
}

/* A recipe in the making, in @bytes: RECIPE_BYTES_MAX of them. */
struct mt_recipe_builder {
	uint8_t *bytes;
	struct mt_recipe_head head; /* its counts are of what was added */
};
/* mt_recipe_begin -- @head without its counts. @bytes is borrowed to the end. */
void mt_recipe_begin(struct mt_recipe_builder *builder, uint8_t *bytes,
    const struct mt_recipe_head *head);
/* mt_recipe_add_* -- the next. 0; -E2BIG: it has as many as a recipe may have. */
int mt_recipe_add_extent(struct mt_recipe_builder *builder, const struct mt_recipe_extent *extent);
int mt_recipe_add_source(struct mt_recipe_builder *builder, const struct mt_recipe_source *source);
int mt_recipe_add_frame(struct mt_recipe_builder *builder, const struct mt_recipe_frame *frame);
int mt_recipe_add_crc(struct mt_recipe_builder *builder, uint32_t crc);
/* mt_recipe_end -- builder->bytes is a recipe: how long it is. */
uint32_t mt_recipe_end(struct mt_recipe_builder *builder);

/* mt_recipe_checksum -- CRC-32C of a recipe, that at RECIPE_CRC_AT as zeros. */
uint32_t mt_recipe_checksum(const uint8_t *bytes, uint32_t length_bytes);

#endif /* CLEAVE_MIDDLETIER_MERGE_RECIPE_H */
