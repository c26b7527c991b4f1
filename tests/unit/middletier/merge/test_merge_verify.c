/* SPDX-License-Identifier: Apache-2.0 */
/* test_merge_verify.c -- runs that somebody has made: those of the recipe pass, and nothing else does */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "middletier/index/run_index.h"
#include "middletier/merge/merge_verify.h"
#include "middletier/merge/recipe.h"
#include "middletier/merge/recipe_decode.h"

#define FRAMES 5u

static uint8_t bytes[RECIPE_BYTES_MAX];
static struct mt_recipe recipe;
static const char *field;

/* Frames that were made, in two parts. That of zeros is @zeros_at. */
static struct mt_frame frames[FRAMES];
static uint32_t crcs[7];
static struct mt_run_index first, second;
static const uint32_t zeros_at = 3;

static void
make_recipe(bool keeps_zeroes)
{
	static const uint8_t zeros[CLEAVE_BLOCK_BYTES];
	const struct mt_recipe_head head = { .level = 1,
		.keeps_zeroes = keeps_zeroes,
		.shard = 3,
		.epoch = 9,
		.frame_bytes = 2 * CLEAVE_BLOCK_BYTES,
		.target = RECIPE_NO_TARGET };
	const struct mt_recipe_extent extent = { { 3, 9, 6 }, EXTENT_RUN, 1, 0, { 4 }, 0 };
	const struct mt_recipe_source sources[] = {
		{ 4096, 900, 11, 0, ENGINE_LZ4, 2, 0, 2, false, true, 0 },
		{ 9000, 500, 12, 0, ENGINE_ZSTD, 2, 0, 2, true, true, 0 },
		{ 14000, 800, 13, 0, ENGINE_ZSTD, 3, 0, 3, false, true, 0 },
	};
	const struct mt_recipe_frame planned[FRAMES] = {
		{ 2, 2, RECORD_WRITE, false },
		{ 4, 2, RECORD_WRITE, true },
		{ 8, 2, RECORD_DISCARD, false },
		{ 10, 2, RECORD_WRITE, false },
		{ 12, 1, RECORD_WRITE, false },
	};
	struct mt_recipe_builder builder;

	mt_recipe_begin(&builder, bytes, &head);
	cr_assert_eq(mt_recipe_add_extent(&builder, &extent), 0);
	for (uint32_t i = 0; i < NUM_COUNT(sources); i++)
		cr_assert_eq(mt_recipe_add_source(&builder, &sources[i]), 0);
	for (uint32_t i = 0; i < FRAMES; i++)
		cr_assert_eq(mt_recipe_add_frame(&builder, &planned[i]), 0);
	for (uint32_t i = 0; i < NUM_COUNT(crcs); i++) {
		crcs[i] = i == 4 || i == 5 ? crc32c(0, zeros, sizeof(zeros)) : 100 + i;
		cr_assert_eq(mt_recipe_add_crc(&builder, crcs[i]), 0);
	}
	cr_assert_eq(mt_recipe_decode(bytes, mt_recipe_end(&builder), &recipe, &field), 0, "%s",
	    field);
	for (uint32_t i = 0, crc_at = 0; i < FRAMES; i++) {
		frames[i] = (struct mt_frame){ .block = planned[i].block,
			.block_count = planned[i].count,
			.record_kind = planned[i].kind,
			.codec_id = ENGINE_ZSTD,
			.crcs_at = crc_at };
		crc_at += planned[i].kind == RECORD_WRITE ? planned[i].count : 0;
	}
	frames[1].stored_bytes = 500;
	frames[1].stored_crc = 12;
	first = (struct mt_run_index){ .frames = frames,
		.frame_count = 2,
		.crcs = crcs,
		.crc_count = NUM_COUNT(crcs) };
	second = first;
	second.frames = frames + 2;
	second.frame_count = FRAMES - 2;
}

static void
setup(void)
{
	make_recipe(true);
}

TestSuite(merge_verify, .init = setup);

static int
verify(void)
{
	const struct mt_run_index *const parts[] = { &first, &second };

	return mt_merge_verify(&recipe, FRAMES, parts, 2, &field);
}

static void
expect_refused(const char *name)
{
	cr_assert_eq(verify(), -EBADMSG, "%s", name);
	cr_assert_str_eq(field, name);
	make_recipe(true);
	cr_assert_eq(verify(), 0, "%s", field);
}

Test(merge_verify, what_the_recipe_says_passes)
{
	cr_assert_eq(verify(), 0, "%s", field);
	cr_assert_null(field);
}

Test(merge_verify, the_first_frames_are_all_that_is_asked_for)
{
	const struct mt_run_index *const parts[] = { &first, &second };

	second.frame_count--; /* a stage ends here */
	cr_assert_eq(mt_merge_verify(&recipe, FRAMES - 1, parts, 2, &field), 0, "%s", field);
	cr_assert_eq(mt_merge_verify(&recipe, FRAMES - 2, parts, 2, &field), -EBADMSG);
	cr_assert_eq(mt_merge_verify(&recipe, FRAMES, parts, 2, &field), -EBADMSG);
}

Test(merge_verify, other_blocks_and_kinds_are_refused)
{
	frames[0].block = 1;
	expect_refused("block");
	frames[2].block_count = 1;
	expect_refused("block_count");
	frames[2].record_kind = RECORD_ZEROES;
	expect_refused("kind");
	frames[0].record_kind = RECORD_ZEROES; /* it is not */
	expect_refused("kind");
	frames[0].record_kind = RECORD_LOST; /* never a worker's word */
	expect_refused("kind");
}

Test(merge_verify, what_is_left_out_or_added_is_refused)
{
	second.frame_count--;
	expect_refused("block");
	first.frame_count = 0;
	expect_refused("block");
	first.frame_count = 1; /* a tombstone would have to come next */
	expect_refused("block");
	frames[2] = frames[1]; /* twice */
	expect_refused("block");
}

Test(merge_verify, other_content_is_refused)
{
	for (uint32_t i = 0; i < NUM_COUNT(crcs); i++) {
		crcs[i] ^= 1;
		expect_refused("block_crcs");
	}
	frames[1].stored_crc++;
	expect_refused("stored_crc");
	frames[1].stored_bytes++;
	expect_refused("stored_bytes");
	frames[1].codec_id = ENGINE_LZ4;
	expect_refused("codec_id");
	frames[0].codec_id |= ENGINE_ENCRYPTED;
	expect_refused("codec_id");
}

Test(merge_verify, zeros_may_be_a_tombstone)
{
	frames[zeros_at].record_kind = RECORD_ZEROES;
	cr_assert_eq(verify(), 0, "%s", field);
	frames[zeros_at].record_kind = RECORD_DISCARD;
	expect_refused("kind");
}

Test(merge_verify, zeros_may_be_left_out_where_nothing_lies_beneath)
{
	memmove(frames + zeros_at, frames + zeros_at + 1, sizeof(*frames));
	second.frame_count--;
	expect_refused("block");
	make_recipe(false);
	memmove(frames + zeros_at, frames + zeros_at + 1, sizeof(*frames));
	second.frame_count--;
	cr_assert_eq(verify(), 0, "%s", field);
}
