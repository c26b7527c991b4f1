/* SPDX-License-Identifier: Apache-2.0 */
/* test_told.c -- what a worker says has come of a recipe: it round trips; what cannot be is named, and refused */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/merge/recipe.h"
#include "middletier/merge/recipe_decode.h"
#include "middletier/merge/told.h"

#define LENT_BYTES (4 * BATCH_ALIGN)
#define CAPACITY_BYTES (64 * BATCH_ALIGN)

static uint8_t recipe_bytes[RECIPE_BYTES_MAX], bytes[TOLD_BYTES_MAX];
static struct mt_recipe recipe;
static struct mt_told told, again;
static const char *field;

/* Two tombstones, for a target that was lent with four pages in it. */
static void
setup(void)
{
	static const struct mt_recipe_head head = { .level = 1,
		.epoch = 3,
		.frame_bytes = CLEAVE_BLOCK_BYTES,
		.keeps_zeroes = true,
		.end_bytes = LENT_BYTES,
		.mark_bytes = LENT_BYTES,
		.capacity_bytes = CAPACITY_BYTES };
	static const struct mt_recipe_extent extent = { .id = { .epoch = 2, .counter = 9 },
		.kind = EXTENT_RUN,
		.replica_count = 3,
		.nodes = { 1, 2, 3 } };
	static const struct mt_recipe_frame frames[] = { { 5, 1, RECORD_ZEROES, false },
		{ 9, 1, RECORD_DISCARD, false } };
	struct mt_recipe_builder builder;

	mt_recipe_begin(&builder, recipe_bytes, &head);
	cr_assert_eq(mt_recipe_add_extent(&builder, &extent), 0);
	for (uint32_t i = 0; i < NUM_COUNT(frames); i++)
		cr_assert_eq(mt_recipe_add_frame(&builder, &frames[i]), 0);
	cr_assert_eq(mt_recipe_decode(recipe_bytes, mt_recipe_end(&builder), &recipe, &field), 0,
	    "%s", field);
	told = (struct mt_told){ .frame_count = 2,
		.read_bytes = 12345,
		.part_count = 2,
		.parts = { { LENT_BYTES, 3 * BATCH_ALIGN, BATCH_ALIGN, 0x1234 },
		    { LENT_BYTES + 3 * BATCH_ALIGN, BATCH_ALIGN, 0, 0 } },
		.suspect_count = 1,
		.suspects = { { 0, 2 } } };
	field = NULL;
}

TestSuite(told, .init = setup);

static int
decode(uint32_t length)
{
	field = NULL;
	return mt_told_decode(bytes, length, &recipe, &again, &field);
}

Test(told, round_trips)
{
	told.is_broken = true;
	cr_assert_eq(decode(mt_told_encode(&told, bytes)), 0, "%s", field);
	cr_assert_eq(again.frame_count, 2);
	cr_assert_eq(again.read_bytes, 12345);
	cr_assert(again.is_broken);
	cr_assert_eq(again.part_count, 2);
	cr_assert_arr_eq(again.parts, told.parts, 2 * sizeof(told.parts[0]));
	cr_assert_eq(again.suspect_count, 1);
	cr_assert_eq(again.suspects[0].replica, 2);
}

/* Zeros with nothing beneath them: all frames were made, and nothing is stored. */
Test(told, there_may_be_no_part)
{
	told.part_count = told.suspect_count = 0;
	cr_assert_eq(decode(mt_told_encode(&told, bytes)), 0, "%s", field);
}

Test(told, all_of_the_extent_may_be_full)
{
	told.part_count = 1;
	told.parts[0].length_bytes = CAPACITY_BYTES - LENT_BYTES;
	cr_assert_eq(decode(mt_told_encode(&told, bytes)), 0, "%s", field);
}

static void
expect_refused(const char *name)
{
	cr_assert_eq(decode(mt_told_encode(&told, bytes)), -EBADMSG, "%s", name);
	cr_assert_str_eq(field, name);
	setup();
}

Test(told, what_cannot_be_is_named)
{
	told.frame_count = 0; /* no progress: the stage would begin anew for ever */
	expect_refused("frame_count");
	told.frame_count = 3;
	expect_refused("frame_count");
	told.parts[0].offset_bytes -= BATCH_ALIGN; /* over what the owner has there */
	expect_refused("offset_bytes");
	told.parts[0].offset_bytes += BATCH_ALIGN; /* a gap in front */
	expect_refused("offset_bytes");
	told.parts[1].offset_bytes += BATCH_ALIGN; /* or between */
	expect_refused("offset_bytes");
	told.parts[1].length_bytes = CAPACITY_BYTES;
	expect_refused("length_bytes");
	told.parts[1].length_bytes = UINT32_MAX - BATCH_ALIGN + 1;
	expect_refused("length_bytes");
	told.parts[1].length_bytes = 0;
	expect_refused("length_bytes");
	told.parts[1].length_bytes = 100;
	expect_refused("length_bytes");
	told.parts[1].directory_bytes = BATCH_ALIGN;
	expect_refused("directory_bytes");
	told.parts[0].directory_bytes = 100;
	expect_refused("directory_bytes");
	told.parts[1].directory_crc = 1;
	expect_refused("directory_crc");
	told.suspects[0].extent = 1;
	expect_refused("suspect_extent");
	told.suspects[0].replica = 3;
	expect_refused("suspect_replica");
}

Test(told, every_bit_counts)
{
	uint32_t length = mt_told_encode(&told, bytes);

	for (uint32_t i = 0; i < 8 * length; i++) {
		bytes[i / 8] ^= (uint8_t)(1u << i % 8);
		cr_assert_eq(decode(length), -EBADMSG, "bit %u", i);
		cr_assert_not_null(field);
		bytes[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	cr_assert_eq(decode(length), 0);
	for (uint32_t i = 0; i < length; i++)
		cr_assert_eq(decode(i), -EBADMSG, "length %u", i);
}
