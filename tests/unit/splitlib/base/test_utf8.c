/* SPDX-License-Identifier: Apache-2.0 */
/* test_utf8.c -- which bytes are a character */
#include <criterion/criterion.h>

#include "base/utf8.h"

Test(utf8, characters_of_each_length)
{
	cr_assert_eq(utf8_bytes("a"), 1);
	cr_assert_eq(utf8_bytes("\x7f"), 1);
	cr_assert_eq(utf8_bytes("\xc2\x80"), 2);
	cr_assert_eq(utf8_bytes("\xdf\xbfx"), 2);
	cr_assert_eq(utf8_bytes("\xe0\xa0\x80"), 3);
	cr_assert_eq(utf8_bytes("\xed\x9f\xbf"), 3);
	cr_assert_eq(utf8_bytes("\xef\xbf\xbd"), 3);
	cr_assert_eq(utf8_bytes("\xf0\x90\x80\x80"), 4);
	cr_assert_eq(utf8_bytes("\xf4\x8f\xbf\xbf"), 4);
}

Test(utf8, what_is_none)
{
	static const char *const wrong[] = { "\x80", "\xbf", "\xc0\xaf", "\xc1\xbf", "\xc2",
		"\xc2x", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe1\x80", "\xef\xbf\x20",
		"\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf1\x80\x80",
		"\xff" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_assert_eq(utf8_bytes(wrong[i]), 0, "number %zu", i);
}

/* The first two bytes as plain arithmetic has them: no pair is judged otherwise. */
Test(utf8, each_pair_of_bytes_that_begins_a_character_of_three)
{
	for (unsigned first = 0xe0; first <= 0xef; first++) {
		for (unsigned second = 1; second <= 0xff; second++) {
			const char text[] = { (char)first, (char)second, '\x80', '\0' };
			unsigned code = (first & 0xf) << 12 | (second & 0x3f) << 6;
			bool is_one = (second & 0xc0) == 0x80 && code >= 0x800 &&
			    (code < 0xd800 || code > 0xdfff);

			cr_assert_eq(utf8_bytes(text), is_one ? 3 : 0, "%x %x", first, second);
		}
	}
}
