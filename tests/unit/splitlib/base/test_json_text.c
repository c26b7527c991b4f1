/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_text.c -- texts as JSON strings: jansson, which refuses what is not exact, reads them back */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/json_text.h"
#include "base/random.h"

#define TEXT_BYTES 64u
#define REPLACED "\xef\xbf\xbd"

/* @text escaped, and read by jansson: "" where that refuses it. */
static const char *
read_back(const char *text)
{
	static char plain[JSON_TEXT_BYTES(TEXT_BYTES)];
	char escaped[JSON_TEXT_BYTES(TEXT_BYTES)], document[sizeof(escaped) + 8];
	json_t *array;

	cr_assert_lt(strlen(text), TEXT_BYTES);
	json_text_escape(text, escaped, sizeof(escaped));
	(void)snprintf(document, sizeof(document), "[\"%s\"]", escaped);
	array = json_loads(document, 0, NULL);
	cr_assert_not_null(array, "%s", document);
	(void)snprintf(plain, sizeof(plain), "%s", json_string_value(json_array_get(array, 0)));
	json_decref(array);
	return plain;
}

static void
expect_escaped(const char *text, const char *wanted)
{
	char escaped[JSON_TEXT_BYTES(TEXT_BYTES)];

	json_text_escape(text, escaped, sizeof(escaped));
	cr_assert_str_eq(escaped, wanted);
}

Test(json_text, quotes_backslashes_and_control_characters_are_escaped)
{
	expect_escaped("", "");
	expect_escaped("plain /", "plain /");
	expect_escaped("a\"b\\c", "a\\\"b\\\\c");
	expect_escaped("\x01\n\x1f\x7f", "\\u0001\\u000a\\u001f\x7f");
	for (int c = 1; c < 0x80; c++) {
		const char text[] = { 'x', (char)c, 'y', '\0' };

		cr_assert_str_eq(read_back(text), text, "character %d", c);
	}
}

Test(json_text, utf_8_stays_and_what_is_none_is_replaced)
{
	static const char *const whole[] = { "\xc2\x80", "\xc3\xa4", "\xe0\xa0\x80", "\xe2\x82\xac",
		"\xed\x9f\xbf", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf" };
	/* Too long, surrogates, above U+10FFFF, cut short, a lone second byte. */
	static const char *const broken[][2] = { { "\xc0\x80", REPLACED REPLACED },
		{ "\xc1\xbf", REPLACED REPLACED }, { "\xe0\x80\x80", REPLACED REPLACED REPLACED },
		{ "\xed\xa0\x80", REPLACED REPLACED REPLACED },
		{ "\xf4\x90\x80\x80", REPLACED REPLACED REPLACED REPLACED }, { "\xf5", REPLACED },
		{ "\xff", REPLACED }, { "\xe2\x82", REPLACED REPLACED },
		{ "\xe2\x82z", REPLACED REPLACED "z" }, { "\x80", REPLACED }, { "\xc3", REPLACED },
		{ "\xf0\x90\x80", REPLACED REPLACED REPLACED } };

	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
		cr_assert_str_eq(read_back(whole[i]), whole[i]);
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		cr_assert_str_eq(read_back(broken[i][0]), broken[i][1], "number %zu", i);
}

Test(json_text, what_does_not_fit_is_cut_between_characters)
{
	char escaped[8];

	json_text_escape("abcdef\xc3\xa4", escaped, sizeof(escaped));
	cr_assert_str_eq(escaped, "abcdef");
	json_text_escape("abcdef\"", escaped, sizeof(escaped));
	cr_assert_str_eq(escaped, "abcdef");
	json_text_escape("abcdefgh", escaped, sizeof(escaped));
	cr_assert_str_eq(escaped, "abcdefg");
	json_text_escape("a", escaped, 1);
	cr_assert_str_eq(escaped, "");
}

Test(json_text, any_bytes_become_a_string_that_is_read)
{
	uint64_t state[4];

	random_seed(state, 4242);
	for (unsigned round = 0; round < 20000; round++) {
		char text[TEXT_BYTES] = { 0 };
		size_t bytes = random_below(state, TEXT_BYTES - 1);

		for (size_t i = 0; i < bytes; i++) {
			uint64_t r = random_u64(state);

			/* Mostly bytes that matter. */
			text[i] = (char)((r & 1) != 0 ? 0x80 | (r >> 8 & 0x7f) : (r >> 8) & 0xff);
		}
		(void)read_back(text);
	}
}
