/* SPDX-License-Identifier: Apache-2.0 */
/* test_crc32c.c -- CRC-32C against its definition, and its combination on both code paths */
#include <criterion/criterion.h>

/* Included, so that the path for processors without carry-less multiplication runs here too. */
#include "splitlib/base/crc32c.c"

#include "unit/engine_data.h"

/* Bit by bit, from the definition. */
static uint32_t
crc32c_slow(const uint8_t *data, size_t bytes)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < bytes; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (CRC32C_POLY & (0u - (crc & 1)));
	}
	return ~crc;
}

Test(crc32c, has_the_well_known_values)
{
	uint8_t bytes[32];

	cr_assert_eq(crc32c(0, "123456789", 9), 0xe3069283u);
	cr_assert_eq(crc32c(0, "", 0), 0u);
	/* RFC 3720, appendix B.4 */
	memset(bytes, 0, sizeof(bytes));
	cr_assert_eq(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aau);
	memset(bytes, 0xff, sizeof(bytes));
	cr_assert_eq(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43u);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	cr_assert_eq(crc32c(0, bytes, sizeof(bytes)), 0x46dd794eu);
}

Test(crc32c, matches_its_definition_at_every_length_and_alignment)
{
	uint8_t *data = data_create(5000, DATA_RANDOM, 1);

	for (size_t bytes = 0; bytes < 700; bytes++)
		cr_assert_eq(crc32c(0, data + bytes % 16, bytes),
		    crc32c_slow(data + bytes % 16, bytes), "length %zu", bytes);
	cr_assert_eq(crc32c(0, data, 5000), crc32c_slow(data, 5000));
	free(data);
}

Test(crc32c, continues_where_it_stopped)
{
	uint8_t *data = data_create(4096, DATA_RANDOM, 2);
	uint32_t whole = crc32c(0, data, 4096);

	for (size_t cut = 0; cut <= 4096; cut += 37)
		cr_assert_eq(crc32c(crc32c(0, data, cut), data + cut, 4096 - cut), whole);
	free(data);
}

Test(crc32c, combines_what_was_cut)
{
	const size_t bytes = 300000;
	uint8_t *data = data_create(bytes, DATA_RANDOM, 3);
	uint64_t state = 4;

	for (int i = 0; i < 2000; i++) {
		size_t whole = data_random(&state) % (bytes + 1);
		size_t cut = data_random(&state) % (whole + 1);
		uint32_t expected = crc32c(0, data, whole);
		uint32_t a = crc32c(0, data, cut), b = crc32c(0, data + cut, whole - cut);

		cr_assert_eq(crc32c_combine(a, b, whole - cut), expected, "%zu of %zu", cut, whole);
		cr_assert_eq(shift_portable(a, whole - cut) ^ b, expected, "%zu of %zu", cut,
		    whole);
	}
	free(data);
}

Test(crc32c, combines_blocks)
{
	uint8_t *data = data_create(16 * 4096, DATA_MIXED, 5);
	uint32_t crc = 0;

	for (int i = 0; i < 16; i++)
		crc = crc32c_combine(crc, crc32c(0, data + i * 4096, 4096), 4096);
	cr_assert_eq(crc, crc32c(0, data, 16 * 4096));
	free(data);
}

Test(crc32c, combines_with_nothing)
{
	cr_assert_eq(crc32c_combine(0x12345678, 0, 0), 0x12345678u);
	cr_assert_eq(crc32c_combine(0, 0x12345678, 4096), 0x12345678u);
}

Test(crc32c, both_paths_agree_on_lengths_that_no_memory_holds)
{
	uint64_t state = 6;

	if (!has_clmul())
		cr_skip_test("the processor has no carry-less multiplication");
	for (int i = 0; i < 5000; i++) {
		uint64_t bytes = data_random(&state) >> (data_random(&state) % 64);
		uint32_t crc = (uint32_t)data_random(&state);

		cr_assert_eq(shift_clmul(crc, bytes), shift_portable(crc, bytes));
		/* Shifting is a homomorphism: by a, then by b, is by a + b. */
		cr_assert_eq(shift_clmul(shift_clmul(crc, bytes / 3), bytes - bytes / 3),
		    shift_clmul(crc, bytes));
	}
}
