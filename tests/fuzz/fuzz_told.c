/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_told.c -- arbitrary bytes as what a worker says has come of a recipe
 *
 * Their checksum is made to fit, too. What passes must encode to itself, and its parts lie where they may.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/merge/recipe.h"
#include "middletier/merge/recipe_decode.h"
#include "middletier/merge/told.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define LENT_BYTES (2 * BATCH_ALIGN)
#define CAPACITY_BYTES (1024 * BATCH_ALIGN)

static struct mt_recipe recipe;

/* Three frames, and two extents, of which the first one is lent. */
static void
make_recipe(void)
{
	static uint8_t recipe_bytes[RECIPE_BYTES_MAX];
	static const struct mt_recipe_head head = { .level = 1,
		.epoch = 3,
		.frame_bytes = CLEAVE_BLOCK_BYTES,
		.end_bytes = LENT_BYTES,
		.capacity_bytes = CAPACITY_BYTES };
	struct mt_recipe_builder builder;
	const char *field;

	if (recipe.extents != NULL)
		return;
	mt_recipe_begin(&builder, recipe_bytes, &head);
	for (uint32_t i = 0; i < 2; i++) {
		struct mt_recipe_extent extent = { .id = { .epoch = 2, .counter = i },
			.kind = EXTENT_RUN,
			.replica_count = 1 + i,
			.nodes = { 1, 1 + i } };

		assert(mt_recipe_add_extent(&builder, &extent) == 0);
	}
	for (uint32_t i = 0; i < 3; i++) {
		struct mt_recipe_frame frame = { i, 1, RECORD_ZEROES, false };

		assert(mt_recipe_add_frame(&builder, &frame) == 0);
	}
	assert(mt_recipe_decode(recipe_bytes, mt_recipe_end(&builder), &recipe, &field) == 0);
}

static void
try_told(const uint8_t *data, size_t bytes)
{
	uint8_t again[TOLD_BYTES_MAX];
	uint64_t at_bytes = LENT_BYTES;
	const char *field = NULL;
	struct mt_told told;

	if (mt_told_decode(data, (uint32_t)bytes, &recipe, &told, &field) != 0) {
		assert(field != NULL);
		return;
	}
	assert(told.frame_count >= 1 && told.frame_count <= 3);
	for (uint32_t i = 0; i < told.part_count; i++) {
		assert(told.parts[i].offset_bytes == at_bytes);
		assert(told.parts[i].directory_bytes < told.parts[i].length_bytes);
		at_bytes += told.parts[i].length_bytes;
	}
	assert(at_bytes <= CAPACITY_BYTES);
	for (uint32_t i = 0; i < told.suspect_count; i++)
		assert(told.suspects[i].extent < 2 && told.suspects[i].replica < 2);
	assert(mt_told_encode(&told, again) == bytes && memcmp(again, data, bytes) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t fitted[TOLD_BYTES_MAX];

	make_recipe();
	if (bytes > 2 * TOLD_BYTES_MAX)
		return 0;
	try_told(data, bytes);
	if (bytes < TOLD_HEAD_BYTES || bytes > sizeof(fitted))
		return 0;
	memcpy(fitted, data, bytes);
	num_put_le32(fitted + TOLD_CRC_AT, 0);
	num_put_le32(fitted + TOLD_CRC_AT, crc32c(0, fitted, bytes));
	try_told(fitted, bytes);
	return 0;
}
