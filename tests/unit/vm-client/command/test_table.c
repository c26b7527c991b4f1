/* SPDX-License-Identifier: Apache-2.0 */
/* test_table.c -- columns of text, and numbers that people read */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "vm-client/command/table.h"

Test(table, sizes_are_exact_or_have_two_digits)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1, "1 B" },
		{ 1023, "1023 B" },
		{ 4096, "4 KiB" },
		{ 1536, "1.50 KiB" },
		{ NUM_MIB(512), "512 MiB" },
		{ NUM_GIB(1) - 1, "1023.99 MiB" },
		{ NUM_GIB(10), "10 GiB" },
		{ NUM_GIB(64) * 1024, "64 TiB" },
		{ NUM_GIB(1536), "1.50 TiB" },
		{ UINT64_MAX, "15.99 EiB" },
	};
	char text[TABLE_NUMBER_BYTES];

	for (size_t i = 0; i < NUM_COUNT(cases); i++)
		cr_assert_str_eq(table_format_size(cases[i].bytes, text), cases[i].text);
}

Test(table, ratios_and_times)
{
	char text[TABLE_NUMBER_BYTES];

	cr_assert_str_eq(table_format_ratio(213, 100, text), "2.13");
	cr_assert_str_eq(table_format_ratio(1, 0, text), "-");
	cr_assert_str_eq(table_format_time(0, text), "0s");
	cr_assert_str_eq(table_format_time(NUM_S(59) + 1, text), "59s");
	cr_assert_str_eq(table_format_time(NUM_S(185), text), "3m 05s");
	cr_assert_str_eq(table_format_time(NUM_S(7207), text), "2h 00m 07s");
	cr_assert_str_eq(table_format_time(NUM_S(86400 * 12 + 7), text), "12d 00h 00m 07s");
	cr_assert_str_eq(table_format_time(UINT64_MAX, text), "213503d 23h 34m 33s");
}

Test(table, columns_are_aligned_without_blanks_at_the_end)
{
	static const struct table_column columns[] = { { "A", true }, { "LONG", false },
		{ "C", false } };
	struct table *table = table_create(columns, NUM_COUNT(columns));
	size_t bytes;
	char *text;
	FILE *out = open_memstream(&text, &bytes);

	for (int i = 0; i < 100; i++) {
		table_add(table, "%d", i);
		table_add(table, "x");
		table_add(table, "%s", i == 50 ? "much longer" : "y");
	}
	cr_assert_eq(table_print(table, 1, out), 0);
	cr_assert_eq(fclose(out), 0);
	cr_assert_eq(strncmp(text, "  A  LONG  C\n  0  x     y\n", 26), 0, "%s", text);
	cr_assert_not_null(strstr(text, "\n 99  x     y\n"));
	free(text);
	table_destroy(table);
	table_destroy(NULL);
}
