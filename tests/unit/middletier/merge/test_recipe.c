/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_recipe.c -- a merge as bytes: what passes, what is refused, and the windows that come of it
 *
 * A sample has a frame of each kind. Wrong recipes are made from it by patching bytes, with a checksum that fits the
 * patch, so that the field's own check must catch it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "middletier/merge/merge_window.h"
#include "middletier/merge/recipe.h"
#include "middletier/merge/recipe_decode.h"
#include "middletier/merge/recipe_window.h"

#define CHUNK UINT64_C(1029) /* the sixth of a segment */

static const struct mt_recipe_head head = {
	.level = 2,
	.keeps_zeroes = true,
	.pressure = 640,
	.shard = 3,
	.epoch = 9,
	.chunk = CHUNK,
	.flushed_sequence = 123456,
	.cut = 4,
	.frame_bytes = 4 * CLEAVE_BLOCK_BYTES,
	.target = 1,
	.end_bytes = 8192,
	.mark_bytes = 4096,
	.chain_crc = 0xdeadbeef,
	.capacity_bytes = NUM_MIB(8),
};
static const struct mt_recipe_extent extents[] = {
	{ { 3, 8, 5 }, EXTENT_LOG, 3, 2, { 1, 2, 3 }, NUM_KIB(64) },
	{ { 3, 9, 6 }, EXTENT_RUN, 2, 0, { 4, 2 }, 0 },
	{ { 3, 7, 1 }, EXTENT_RUN, 1, 0, { 5 }, NUM_KIB(128) },
};
/* Blocks 2 to 5 are one record of the log, which two frames share. */
static const struct mt_recipe_source sources[] = {
	{ 4096, 9000, 11, 0, ENGINE_LZ4, 6, 1, 4, false, true, CHUNK },
	{ 20000, 5000, 12, 2, ENGINE_ZSTD, 4, 0, 4, true, false, CHUNK },
	{ 30000, 4096, 13, 2, ENGINE_NONE, 1, 0, 1, false, false, CHUNK + 512 },
	{ 40000, 300, 14, 0, ENGINE_ZSTD | ENGINE_ENCRYPTED, 2, 1, 1, false, true, CHUNK },
};
static const struct mt_recipe_frame frames[] = {
	{ 2, 2, RECORD_WRITE, false },
	{ 4, 2, RECORD_WRITE, false },
	{ 8, 4, RECORD_WRITE, true },
	{ 12, 5000, RECORD_DISCARD, false },
	{ 6000, 1, RECORD_WRITE, false },
	{ 6001, 7, RECORD_ZEROES, false },
	{ 6100, 1, RECORD_LOST, false },
	{ 16383, 1, RECORD_WRITE, false },
};
static const uint32_t crcs[] = { 101, 102, 103, 104, 105, 106, 107, 108, 109, 0 };

#define EXTENTS_AT RECIPE_HEAD_BYTES
#define SOURCES_AT (EXTENTS_AT + NUM_COUNT(extents) * RECIPE_EXTENT_BYTES)
#define FRAMES_AT (SOURCES_AT + NUM_COUNT(sources) * RECIPE_SOURCE_BYTES)
#define CRCS_AT (FRAMES_AT + NUM_COUNT(frames) * RECIPE_FRAME_BYTES)
#define SAMPLE_BYTES (CRCS_AT + NUM_COUNT(crcs) * RECIPE_CRC_BYTES)

static uint8_t bytes[RECIPE_BYTES_MAX];
static struct mt_recipe recipe;
static const char *field;

static uint32_t
make_sample(void)
{
	struct mt_recipe_builder builder;

	mt_recipe_begin(&builder, bytes, &head);
	for (uint32_t i = 0; i < NUM_COUNT(extents); i++)
		cr_assert_eq(mt_recipe_add_extent(&builder, &extents[i]), 0);
	for (uint32_t i = 0; i < NUM_COUNT(sources); i++)
		cr_assert_eq(mt_recipe_add_source(&builder, &sources[i]), 0);
	for (uint32_t i = 0; i < NUM_COUNT(frames); i++)
		cr_assert_eq(mt_recipe_add_frame(&builder, &frames[i]), 0);
	for (uint32_t i = 0; i < NUM_COUNT(crcs); i++)
		cr_assert_eq(mt_recipe_add_crc(&builder, crcs[i]), 0);
	return mt_recipe_end(&builder);
}

static int
decode(uint32_t length_bytes)
{
	return mt_recipe_decode(bytes, length_bytes, &recipe, &field);
}

static void
reseal(uint32_t length_bytes)
{
	num_put_le32(bytes + RECIPE_LENGTH_AT, length_bytes);
	num_put_le32(bytes + RECIPE_CRC_AT, mt_recipe_checksum(bytes, length_bytes));
}

/* The sample with @count bytes of @value at @at, little-endian, is refused for @name. */
static void
expect_refused(size_t at, uint32_t count, uint64_t value, const char *name)
{
	cr_assert_eq(make_sample(), SAMPLE_BYTES);
	for (uint32_t i = 0; i < count; i++)
		bytes[at + i] = (uint8_t)(value >> 8 * i);
	if (at != RECIPE_CRC_AT && at != RECIPE_LENGTH_AT)
		reseal(SAMPLE_BYTES);
	cr_assert_eq(decode(SAMPLE_BYTES), -EBADMSG, "%s", name);
	cr_assert_str_eq(field, name, "at %zu: %s, not %s", at, field, name);
}

/* ---- there and back ---- */

Test(recipe, what_goes_in_comes_out)
{
	cr_assert_eq(make_sample(), SAMPLE_BYTES);
	cr_assert_eq(decode(SAMPLE_BYTES), 0, "%s", field);
	cr_assert_eq(recipe.head.level, 2);
	cr_assert(recipe.head.keeps_zeroes && !recipe.head.is_hot);
	cr_assert_eq(recipe.head.pressure, 640);
	cr_assert_eq(recipe.head.shard, 3);
	cr_assert_eq(recipe.head.epoch, 9);
	cr_assert_eq(recipe.head.chunk, CHUNK);
	cr_assert_eq(recipe.head.flushed_sequence, 123456);
	cr_assert_eq(recipe.head.cut, 4);
	cr_assert_eq(recipe.head.frame_bytes, 16384);
	cr_assert_eq(recipe.head.key_id, 0);
	cr_assert_eq(recipe.head.target, 1);
	cr_assert_eq(recipe.head.end_bytes, 8192);
	cr_assert_eq(recipe.head.mark_bytes, 4096);
	cr_assert_eq(recipe.head.chain_crc, 0xdeadbeef);
	cr_assert_eq(recipe.head.capacity_bytes, NUM_MIB(8));
	cr_assert_eq(recipe.head.extent_count, NUM_COUNT(extents));
	for (uint32_t i = 0; i < NUM_COUNT(extents); i++) {
		struct mt_recipe_extent extent = mt_recipe_extent(&recipe, i);

		cr_assert_eq(extent_id_pack(&extent.id), extent_id_pack(&extents[i].id));
		cr_assert_eq(extent.kind, extents[i].kind);
		cr_assert_eq(extent.replica_count, extents[i].replica_count);
		cr_assert_eq(extent.damaged, extents[i].damaged);
		cr_assert_arr_eq(extent.nodes, extents[i].nodes, sizeof(extent.nodes));
		cr_assert_eq(extent.sealed_bytes, extents[i].sealed_bytes);
	}
	for (uint32_t i = 0; i < NUM_COUNT(sources); i++) {
		struct mt_recipe_source source = mt_recipe_source(&recipe, i);

		cr_assert_eq(source.offset_bytes, sources[i].offset_bytes);
		cr_assert_eq(source.stored_bytes, sources[i].stored_bytes);
		cr_assert_eq(source.stored_crc, sources[i].stored_crc);
		cr_assert_eq(source.extent, sources[i].extent);
		cr_assert_eq(source.codec_id, sources[i].codec_id);
		cr_assert_eq(source.record_blocks, sources[i].record_blocks);
		cr_assert_eq(source.first_block, sources[i].first_block);
		cr_assert_eq(source.count, sources[i].count);
		cr_assert_eq(source.is_copy, sources[i].is_copy);
		cr_assert_eq(source.is_sure, sources[i].is_sure);
		cr_assert_eq(source.chunk, sources[i].chunk);
	}
	for (uint32_t i = 0; i < NUM_COUNT(frames); i++) {
		struct mt_recipe_frame frame = mt_recipe_frame(&recipe, i);

		cr_assert_eq(frame.block, frames[i].block);
		cr_assert_eq(frame.count, frames[i].count);
		cr_assert_eq(frame.kind, frames[i].kind);
		cr_assert_eq(frame.is_copy, frames[i].is_copy);
	}
	for (uint32_t i = 0; i < NUM_COUNT(crcs); i++)
		cr_assert_eq(mt_recipe_crc(&recipe, i), crcs[i]);
}

Test(recipe, one_of_nothing_passes)
{
	struct mt_recipe_head of_nothing = head;
	struct mt_recipe_builder builder;

	of_nothing.target = RECIPE_NO_TARGET;
	mt_recipe_begin(&builder, bytes, &of_nothing);
	cr_assert_eq(mt_recipe_end(&builder), RECIPE_HEAD_BYTES);
	cr_assert_eq(decode(RECIPE_HEAD_BYTES), 0, "%s", field);
	cr_assert_eq(recipe.head.capacity_bytes, 0);
}

Test(recipe, no_more_fits_than_a_chunk_has)
{
	struct mt_recipe_builder builder;

	mt_recipe_begin(&builder, bytes, &head);
	for (uint32_t i = 0; i < RECIPE_EXTENTS_MAX; i++)
		cr_assert_eq(mt_recipe_add_extent(&builder, &extents[1]), 0);
	cr_assert_eq(mt_recipe_add_extent(&builder, &extents[1]), -E2BIG);
	for (uint32_t i = 0; i < CLEAVE_CHUNK_BLOCKS; i++) {
		struct mt_recipe_frame frame = { i, 1, RECORD_WRITE, false };
		struct mt_recipe_source source = { 4096, 9, 1, 0, ENGINE_ZSTD, 1, 0, 1, false, true,
			CHUNK };

		cr_assert_eq(mt_recipe_add_source(&builder, &source), 0);
		cr_assert_eq(mt_recipe_add_frame(&builder, &frame), 0);
		cr_assert_eq(mt_recipe_add_crc(&builder, i), 0);
	}
	cr_assert_eq(mt_recipe_add_source(&builder, &sources[0]), -E2BIG);
	cr_assert_eq(mt_recipe_add_frame(&builder, &frames[0]), -E2BIG);
	cr_assert_eq(mt_recipe_add_crc(&builder, 0), -E2BIG);
	cr_assert_eq(decode(mt_recipe_end(&builder)), 0, "%s", field);
	cr_assert_eq(mt_recipe_crc(&recipe, CLEAVE_CHUNK_BLOCKS - 1), CLEAVE_CHUNK_BLOCKS - 1);
}

/* CLEAVE_GOLDEN_WRITE=1 writes the file, and the fuzzer's first: only when the format's version changes. */
Test(recipe, golden_bytes)
{
	static const char *const names[] = { "tests/golden/recipe.bin",
		"tests/fuzz/corpus/recipe/sample" };
	const char *root = getenv("CLEAVE_SOURCE_DIR");

	cr_assert_eq(make_sample(), SAMPLE_BYTES);
	for (uint32_t i = 0; i < NUM_COUNT(names); i++) {
		uint8_t stored[SAMPLE_BYTES + 1];
		char path[4096];
		FILE *file;

		(void)snprintf(path, sizeof(path), "%s/%s", root == NULL ? "." : root, names[i]);
		if (getenv("CLEAVE_GOLDEN_WRITE") != NULL) {
			file = fopen(path, "wb");
			cr_assert_not_null(file);
			cr_assert_eq(fwrite(bytes, 1, SAMPLE_BYTES, file), SAMPLE_BYTES);
			cr_assert_eq(fclose(file), 0);
		}
		file = fopen(path, "rb");
		if (file == NULL && root == NULL)
			cr_skip_test("tests/golden is not here: set CLEAVE_SOURCE_DIR");
		cr_assert_not_null(file, "%s", path);
		cr_assert_eq(fread(stored, 1, sizeof(stored), file), SAMPLE_BYTES);
		(void)fclose(file);
		cr_assert_arr_eq(bytes, stored, SAMPLE_BYTES);
	}
}

/* ---- refusals ---- */

Test(recipe, any_flipped_bit_is_refused)
{
	for (uint32_t i = 0; i < 8 * SAMPLE_BYTES; i++) {
		(void)make_sample();
		bytes[i / 8] ^= (uint8_t)(1u << i % 8);
		cr_assert_eq(decode(SAMPLE_BYTES), -EBADMSG, "bit %u", i);
		cr_assert_not_null(field);
	}
}

Test(recipe, other_lengths_are_refused)
{
	(void)make_sample();
	for (uint32_t i = 0; i <= SAMPLE_BYTES + 64; i++) {
		if (i == SAMPLE_BYTES)
			continue;
		cr_assert_eq(decode(i), -EBADMSG);
		if (i < RECIPE_HEAD_BYTES)
			continue;
		(void)make_sample();
		reseal(i); /* says so itself */
		cr_assert_eq(decode(i), -EBADMSG, "%u", i);
		cr_assert_str_eq(field, "recipe_bytes");
		(void)make_sample();
	}
	cr_assert_eq(decode(RECIPE_BYTES_MAX + 1), -EBADMSG);
}

Test(recipe, a_wrong_head_is_refused)
{
	expect_refused(0, 4, 0x12345678, "magic");
	expect_refused(4, 2, 2, "version");
	expect_refused(6, 1, 0, "level");
	expect_refused(6, 1, 20, "level");
	expect_refused(7, 1, 4, "flags");
	expect_refused(8, 2, 1001, "pressure");
	expect_refused(10, 1, 1, "head_reserved");
	expect_refused(15, 1, 1, "head_reserved");
	expect_refused(16, 4, 4, "extent"); /* another shard's */
	expect_refused(20, 4, 0, "epoch");
	expect_refused(20, 4, UINT64_C(1) << 24, "epoch");
	expect_refused(20, 4, 8, "extent"); /* one of a later owner */
	expect_refused(24, 8, CHUNK + 1, "source_chunk");
	expect_refused(48, 4, RECIPE_EXTENTS_MAX + 1, "extent_count");
	expect_refused(48, 4, 2, "recipe_bytes");
	expect_refused(52, 4, CLEAVE_CHUNK_BLOCKS + 1, "source_count");
	expect_refused(56, 4, CLEAVE_CHUNK_BLOCKS + 1, "frame_count");
	expect_refused(60, 4, UINT32_MAX, "crc_count");
	expect_refused(64, 4, 0, "frame_bytes");
	expect_refused(64, 4, 3 * 4096, "frame_bytes");
	expect_refused(64, 4, 4097, "frame_bytes");
	expect_refused(64, 4, 128 * 1024, "frame_bytes");
	expect_refused(96, 4, SAMPLE_BYTES + 1, "recipe_bytes");
	expect_refused(100, 4, 0, "crc32c");
}

Test(recipe, a_wrong_target_is_refused)
{
	expect_refused(72, 4, 3, "target");
	expect_refused(72, 4, 0, "target"); /* a log's */
	expect_refused(72, 4, 2, "target"); /* sealed */
	expect_refused(72, 4, UINT32_MAX, "end_bytes");
	expect_refused(76, 4, 8193, "end_bytes");
	expect_refused(76, 4, NUM_MIB(8) + 4096, "end_bytes");
	expect_refused(80, 4, 4095, "mark_bytes");
	expect_refused(80, 4, 12288, "mark_bytes");
	expect_refused(88, 8, 4096, "end_bytes");
}

Test(recipe, a_wrong_extent_is_refused)
{
	expect_refused(EXTENTS_AT + 8, 1, 0, "extent_kind");
	expect_refused(EXTENTS_AT + 8, 1, EXTENT_MANIFEST, "extent_kind");
	expect_refused(EXTENTS_AT + 9, 1, 0, "replica_count");
	expect_refused(EXTENTS_AT + 9, 1, 4, "replica_count");
	expect_refused(EXTENTS_AT + 9, 1, 2, "node"); /* one too many */
	expect_refused(EXTENTS_AT + 10, 2, 8, "damaged");
	expect_refused(EXTENTS_AT + 12, 4, 0, "node");
	expect_refused(EXTENTS_AT + 12, 4, 3, "node"); /* twice */
	expect_refused(EXTENTS_AT + 24, 8, 4097, "sealed_bytes");
	expect_refused(EXTENTS_AT + 24, 8, UINT64_C(1) << 32, "sealed_bytes");
}

Test(recipe, a_wrong_source_is_refused)
{
	const size_t copied = SOURCES_AT + RECIPE_SOURCE_BYTES, raw = copied + RECIPE_SOURCE_BYTES;
	const size_t encrypted = raw + RECIPE_SOURCE_BYTES;

	expect_refused(SOURCES_AT, 4, 64, "offset_bytes"); /* in a batch's head */
	expect_refused(SOURCES_AT, 4, NUM_KIB(64), "offset_bytes");
	expect_refused(SOURCES_AT, 4, UINT32_MAX, "offset_bytes");
	expect_refused(SOURCES_AT + 4, 4, 0, "stored_bytes");
	expect_refused(SOURCES_AT + 4, 4, 6 * 4096 + 1, "stored_bytes");
	expect_refused(raw + 4, 4, 4095, "stored_bytes");
	expect_refused(encrypted + 4, 4, 48, "stored_bytes");
	expect_refused(SOURCES_AT + 12, 2, 3, "source_extent");
	expect_refused(SOURCES_AT + 14, 1, ENGINE_ID_NR, "codec_id");
	expect_refused(SOURCES_AT + 15, 1, 0, "record_blocks");
	expect_refused(SOURCES_AT + 15, 1, 17, "record_blocks");
	expect_refused(SOURCES_AT + 15, 1, 4, "source_count");
	expect_refused(SOURCES_AT + 16, 1, 3, "source_count");
	expect_refused(encrypted + 15, 1, 3, "first_block"); /* goes on behind the chunk */
	expect_refused(SOURCES_AT + 17, 1, 0, "source_count");
	expect_refused(SOURCES_AT + 17, 1, 5, "source_count"); /* across a gap */
	expect_refused(SOURCES_AT + 17, 1, 3, "source_flags"); /* the next begins too early */
	expect_refused(SOURCES_AT + 18, 1, 4, "source_flags");
	expect_refused(SOURCES_AT + 18, 1, 1, "source_flags"); /* a part of a record */
	expect_refused(copied + 18, 1, 0, "source_flags");
	for (uint32_t i = 19; i < 24; i++)
		expect_refused(SOURCES_AT + i, 1, 1, "source_reserved");
	expect_refused(SOURCES_AT + 24, 8, CHUNK + 1, "source_chunk");
}

/* More than its blocks, as an encrypted record that does not compress is: there is no memory for it. */
Test(recipe, a_copy_that_is_longer_than_its_blocks_is_refused)
{
	const size_t copied = SOURCES_AT + RECIPE_SOURCE_BYTES;

	(void)make_sample();
	bytes[copied + 14] |= ENGINE_ENCRYPTED;
	for (uint32_t i = 4; i < 8; i++)
		num_put_le32(bytes + CRCS_AT + 4 * i, 0);
	reseal(SAMPLE_BYTES);
	cr_assert_eq(decode(SAMPLE_BYTES), 0, "%s", field);
	num_put_le32(bytes + copied + 4, 4 * CLEAVE_BLOCK_BYTES + 1);
	reseal(SAMPLE_BYTES);
	cr_assert_eq(decode(SAMPLE_BYTES), -EBADMSG);
	cr_assert_str_eq(field, "stored_bytes");
}

Test(recipe, a_wrong_frame_is_refused)
{
	expect_refused(FRAMES_AT, 2, 3, "frame_count"); /* across a multiple of the frames' size */
	expect_refused(FRAMES_AT + 8, 2, 3, "frame_block"); /* overlaps */
	expect_refused(FRAMES_AT + 24, 2, 11, "frame_block");
	expect_refused(FRAMES_AT + 2, 2, 0, "frame_count");
	expect_refused(FRAMES_AT + 2, 2, ENGINE_RECORD_BLOCKS_MAX + 1, "frame_count");
	expect_refused(FRAMES_AT + 56 + 2, 2, 2, "frame_count"); /* behind the chunk */
	expect_refused(FRAMES_AT + 4, 1, 0, "frame_kind");
	expect_refused(FRAMES_AT + 4, 1, RECORD_LOST + 1, "frame_kind");
	expect_refused(FRAMES_AT + 5, 1, 2, "frame_flags");
	expect_refused(FRAMES_AT + 24 + 5, 1, 1, "frame_flags"); /* of a tombstone */
	expect_refused(FRAMES_AT + 8 + 5, 1, 1, "frame_flags");  /* in the middle of a source */
	expect_refused(FRAMES_AT + 16 + 5, 1, 0, "source_flags");
	expect_refused(FRAMES_AT + 6, 1, 1, "frame_reserved");
	expect_refused(FRAMES_AT + 7, 1, 1, "frame_reserved");
	expect_refused(FRAMES_AT + 4, 1, RECORD_DISCARD,
	    "source_count"); /* sources belong to others */
	expect_refused(FRAMES_AT + 56 + 4, 1, RECORD_DISCARD, "source_count"); /* one is left */
}

Test(recipe, the_crc_of_an_encrypted_block_is_refused)
{
	expect_refused(CRCS_AT + 9 * RECIPE_CRC_BYTES, 4, 1, "crc");
}

/* ---- windows ---- */

static struct merge_window window;
static const uint32_t indexes[] = { 70, 71, 72 };

static void
expect_source(uint32_t at, uint32_t first, uint32_t count, uint32_t slot)
{
	cr_assert_eq(window.sources[at].location.block_in_record, first);
	cr_assert_eq(window.sources[at].count, count);
	cr_assert_eq(window.sources[at].slot, slot);
}

Test(recipe, all_of_it_fits_a_window)
{
	struct mt_recipe_cursor cursor;

	cr_assert_eq(decode(make_sample()), 0);
	mt_recipe_cursor_init(&cursor, &recipe, indexes);
	window.block_max = MERGE_WINDOW_BLOCKS_MAX;
	cr_assert(mt_recipe_window(&cursor, &window));
	cr_assert_eq(mt_recipe_cursor_block(&cursor), CLEAVE_CHUNK_BLOCKS);
	cr_assert_eq(window.frame_count, NUM_COUNT(frames));
	cr_assert_eq(window.source_count, NUM_COUNT(sources));
	cr_assert_eq(window.block_count, NUM_COUNT(crcs));
	cr_assert_arr_eq(window.crcs, crcs, sizeof(crcs));
	expect_source(0, 1, 4, 0);
	expect_source(1, 0, 4, 4);
	cr_assert_eq(window.sources[0].block, 1);
	cr_assert_eq(window.sources[0].location.extent_index, 70);
	cr_assert_eq(window.sources[1].location.extent_index, 72);
	cr_assert(window.sources[1].is_copy && window.frames[2].is_copy);
	cr_assert_eq(window.frames[2].source, 1);
	cr_assert_eq(window.sources[2].chunk, CHUNK + 512);
	cr_assert_eq(window.frames[7].slot, 9);
	cr_assert_not(mt_recipe_window(&cursor, &window));
}

Test(recipe, a_source_goes_on_in_the_next_window)
{
	struct mt_recipe_cursor cursor;

	cr_assert_eq(decode(make_sample()), 0);
	mt_recipe_cursor_init(&cursor, &recipe, indexes);
	window.block_max = 4;
	cr_assert(mt_recipe_window(&cursor, &window));
	cr_assert_eq(window.frame_count, 1);
	expect_source(0, 1, 2, 0);
	cr_assert_eq(mt_recipe_cursor_block(&cursor), 4);
	cr_assert(mt_recipe_window(&cursor, &window));
	cr_assert_eq(window.frame_count, 1);
	cr_assert_eq(window.source_count, 1);
	expect_source(0, 3, 2, 0);
	cr_assert_eq(window.sources[0].block, 1);
	cr_assert_eq(window.crcs[0], 103);
	cr_assert_eq(mt_recipe_cursor_block(&cursor), 8);
}
