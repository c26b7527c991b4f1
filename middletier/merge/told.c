/* SPDX-License-Identifier: Apache-2.0 */
/*
 * told.c -- what who has executed a recipe says has come of it: checked, and as bytes
 *
 * Who is believed for nothing must not be able to make an owner look where nothing can be, either: what it says is
 * checked here before a node is asked, whether the guest is at home or the bytes come from another process.
 */
#include "merge/told.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/field.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "extent/extent.h"
#include "merge/recipe.h"
#include "merge/recipe_decode.h"

#define TOLD_BROKEN 1u

#define TOLD_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EBADMSG)

int
mt_told_check(const struct mt_told *told, const struct mt_recipe *recipe, const char **ret_field)
{
	uint64_t at_bytes = recipe->head.end_bytes;

	assert(recipe->head.target != RECIPE_NO_TARGET);
	assert(told->part_count <= MERGE_PARTS_MAX);
	TOLD_EXPECT(told->frame_count > 0 && told->frame_count <= recipe->head.frame_count,
	    "frame_count");
	for (uint32_t i = 0; i < told->part_count; i++) {
		const struct mt_told_part *part = &told->parts[i];

		TOLD_EXPECT(part->offset_bytes == at_bytes, "offset_bytes");
		TOLD_EXPECT(part->length_bytes > 0 && part->length_bytes % BATCH_ALIGN == 0 &&
			part->length_bytes <= recipe->head.capacity_bytes - at_bytes,
		    "length_bytes");
		TOLD_EXPECT(part->directory_bytes < part->length_bytes &&
			part->directory_bytes % BATCH_ALIGN == 0,
		    "directory_bytes");
		TOLD_EXPECT(part->directory_bytes > 0 || part->directory_crc == 0, "directory_crc");
		at_bytes += part->length_bytes;
	}
	return 0;
}

void
mt_told_of_result(struct mt_told *told, const struct merge_result *result)
{
	assert(result->part_count <= MERGE_PARTS_MAX);
	told->read_bytes = result->read_bytes;
	told->part_count = result->part_count;
	for (uint32_t i = 0; i < result->part_count; i++) {
		const struct run_part *part = &result->parts[i];

		told->parts[i] = (struct mt_told_part){ .offset_bytes = part->offset_bytes,
			.length_bytes = part->length_bytes,
			.directory_bytes = part->directory_bytes,
			.directory_crc = part->directory_crc };
	}
}

static uint32_t
told_crc(const uint8_t *bytes, uint32_t length_bytes)
{
	static const uint8_t zeros[4];
	uint32_t crc = crc32c(0, bytes, TOLD_CRC_AT);

	crc = crc32c(crc, zeros, sizeof(zeros));
	return crc32c(crc, bytes + TOLD_CRC_AT + 4, length_bytes - TOLD_CRC_AT - 4);
}

uint32_t
mt_told_encode(const struct mt_told *told, uint8_t *bytes)
{
	uint8_t *at = bytes + TOLD_HEAD_BYTES;

	assert(told->part_count <= MERGE_PARTS_MAX && told->suspect_count <= MERGE_SUSPECTS_MAX);
	memset(bytes, 0, TOLD_HEAD_BYTES);
	num_put_le32(bytes, TOLD_MAGIC);
	num_put_le16(bytes + 4, TOLD_VERSION);
	num_put_le16(bytes + 6, told->is_broken ? TOLD_BROKEN : 0);
	num_put_le32(bytes + 8, told->frame_count);
	num_put_le32(bytes + 12, told->part_count);
	num_put_le32(bytes + 16, told->suspect_count);
	num_put_le64(bytes + 24, told->read_bytes);
	for (uint32_t i = 0; i < told->part_count; i++, at += TOLD_PART_BYTES) {
		num_put_le32(at, told->parts[i].offset_bytes);
		num_put_le32(at + 4, told->parts[i].length_bytes);
		num_put_le32(at + 8, told->parts[i].directory_bytes);
		num_put_le32(at + 12, told->parts[i].directory_crc);
	}
	for (uint32_t i = 0; i < told->suspect_count; i++, at += TOLD_SUSPECT_BYTES) {
		num_put_le16(at, (uint16_t)told->suspects[i].extent);
		at[2] = (uint8_t)told->suspects[i].replica;
		at[3] = 0;
	}
	num_put_le32(bytes + TOLD_CRC_AT, told_crc(bytes, (uint32_t)(at - bytes)));
	return (uint32_t)(at - bytes);
}

static int
told_decode_suspect(const uint8_t *at, const struct mt_recipe *recipe,
    struct mt_told_suspect *ret_suspect, const char **ret_field)
{
	struct mt_told_suspect suspect = { num_get_le16(at), at[2] };

	TOLD_EXPECT(suspect.extent < recipe->head.extent_count, "suspect_extent");
	TOLD_EXPECT(suspect.replica < mt_recipe_extent(recipe, suspect.extent).replica_count,
	    "suspect_replica");
	TOLD_EXPECT(at[3] == 0, "suspect_reserved");
	*ret_suspect = suspect;
	return 0;
}

int
mt_told_decode(const uint8_t *bytes, uint32_t length_bytes, const struct mt_recipe *recipe,
    struct mt_told *ret_told, const char **ret_field)
{
	struct mt_told told = { 0 };
	const uint8_t *at = bytes + TOLD_HEAD_BYTES;
	uint16_t flags;
	int rc = 0;

	TOLD_EXPECT(length_bytes >= TOLD_HEAD_BYTES, "told_bytes");
	TOLD_EXPECT(num_get_le32(bytes) == TOLD_MAGIC, "magic");
	TOLD_EXPECT(num_get_le16(bytes + 4) == TOLD_VERSION, "version");
	flags = num_get_le16(bytes + 6);
	TOLD_EXPECT((flags & ~TOLD_BROKEN) == 0, "flags");
	told.is_broken = (flags & TOLD_BROKEN) != 0;
	told.frame_count = num_get_le32(bytes + 8);
	told.part_count = num_get_le32(bytes + 12);
	told.suspect_count = num_get_le32(bytes + 16);
	told.read_bytes = num_get_le64(bytes + 24);
	TOLD_EXPECT(told.part_count <= MERGE_PARTS_MAX, "part_count");
	TOLD_EXPECT(told.suspect_count <= MERGE_SUSPECTS_MAX, "suspect_count");
	TOLD_EXPECT(length_bytes ==
		TOLD_HEAD_BYTES + told.part_count * TOLD_PART_BYTES +
		    told.suspect_count * TOLD_SUSPECT_BYTES,
	    "told_bytes");
	TOLD_EXPECT(num_get_le32(bytes + TOLD_CRC_AT) == told_crc(bytes, length_bytes), "crc");
	for (uint32_t i = 0; i < told.part_count; i++, at += TOLD_PART_BYTES)
		told.parts[i] = (struct mt_told_part){ num_get_le32(at), num_get_le32(at + 4),
			num_get_le32(at + 8), num_get_le32(at + 12) };
	for (uint32_t i = 0; rc == 0 && i < told.suspect_count; i++, at += TOLD_SUSPECT_BYTES)
		rc = told_decode_suspect(at, recipe, &told.suspects[i], ret_field);
	if (rc == 0)
		rc = mt_told_check(&told, recipe, ret_field);
	if (rc == 0)
		*ret_told = told;
	return rc;
}

void
mt_told_to_result(const struct mt_told *told, uint64_t flushed_sequence, struct mt_extent *lent,
    struct merge_result *result)
{
	assert(result->part_count == 0);
	result->flushed_sequence = flushed_sequence;
	for (uint32_t i = 0; i < told->part_count; i++) {
		const struct mt_told_part *part = &told->parts[i];

		mt_extent_use(lent);
		result->indexes[i] = NULL;
		result->parts[i] = (struct run_part){ .extent_index = lent->index,
			.id = lent->id,
			.offset_bytes = part->offset_bytes,
			.length_bytes = part->length_bytes,
			.directory_bytes = part->directory_bytes,
			.directory_crc = part->directory_crc };
	}
	result->part_count = told->part_count;
}
