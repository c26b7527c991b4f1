/* SPDX-License-Identifier: Apache-2.0 */
/* test_stamp.c -- whatever bit changes in a stamped block is noticed */
#include <criterion/criterion.h>
#include <string.h>

#include "vm-client/load/source.h"
#include "vm-client/load/stamp.h"

static uint8_t block[STAMP_BLOCK_BYTES];
static const struct stamp written = {
	.volume_id = 7,
	.block = UINT64_C(0x123456789a),
	.writer = UINT64_C(0xfedcba9876543210),
	.sequence = 99,
};

static void
write_block(void)
{
	struct stamp stamp = written;

	for (uint32_t i = 0; i < sizeof(block); i++)
		block[i] = (uint8_t)(i * 31);
	stamp.content_crc = stamp_content_crc(block);
	stamp_put(&stamp, block);
}

Test(stamp, round_trip)
{
	struct stamp got = { 0 };

	write_block();
	cr_assert_eq(stamp_check(block, &got), STAMP_VALID);
	cr_assert_eq(got.volume_id, written.volume_id);
	cr_assert_eq(got.block, written.block);
	cr_assert_eq(got.writer, written.writer);
	cr_assert_eq(got.sequence, written.sequence);
}

Test(stamp, every_bit_counts)
{
	struct stamp got;

	write_block();
	for (uint32_t bit = 0; bit < 8 * STAMP_BLOCK_BYTES; bit++) {
		enum stamp_kind kind, expected = STAMP_BAD_DATA;

		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
		kind = stamp_check(block, &got);
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (bit < 8 * 8)
			expected = STAMP_ABSENT;
		else if (bit < 8 * STAMP_BYTES)
			expected = STAMP_DAMAGED;
		cr_assert_eq(kind, expected, "bit %u: %d", bit, kind);
	}
}

Test(stamp, zeros_and_others)
{
	struct stamp got;

	memset(block, 0, sizeof(block));
	cr_assert_eq(stamp_check(block, &got), STAMP_ZEROS);
	block[STAMP_BLOCK_BYTES - 1] = 1;
	cr_assert_eq(stamp_check(block, &got), STAMP_ABSENT);
	memset(block, 'x', sizeof(block));
	cr_assert_eq(stamp_check(block, &got), STAMP_ABSENT);
}

Test(stamp, description)
{
	struct stamp got = { 0 };
	char text[160];

	write_block();
	stamp_describe(stamp_check(block, &got), &got, text, sizeof(text));
	cr_assert_str_eq(text,
	    "sequence 99 of writer fedcba9876543210, volume 7, block 78187493530");
	stamp_describe(STAMP_ZEROS, &got, text, sizeof(text));
	cr_assert_str_eq(text, "zeros");
}

/* A stamp needs what source.c prepares. */
Test(stamp, content_of_a_source)
{
	struct source source;
	const char *path = NULL;
	struct stamp got, stamp = written;
	uint64_t index;

	cr_assert_eq(source_init(&source, NULL, 0, 50, 1, &path), 0);
	cr_assert_eq(source.block_count, SOURCE_GENERATED_COUNT);
	index = source_pick(&source, 17, 3);
	cr_assert_neq(index, source_pick(&source, 17, 4), "a rewrite brings the same content");
	memcpy(block, source_block(&source, index), sizeof(block));
	stamp.content_crc = source.content_crcs[index];
	stamp_put(&stamp, block);
	cr_assert_eq(stamp_check(block, &got), STAMP_VALID);
	source_fini(&source);
}
