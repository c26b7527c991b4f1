/* SPDX-License-Identifier: Apache-2.0 */
/* test_plain.c -- texts of others become what JSON and a terminal take */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/plain.h"

static void
expect(const char *from, const char *to)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "%s", from);
	cr_assert_eq(plain_text(text), text);
	cr_assert_str_eq(text, to);
}

Test(plain, what_is_plain_stays)
{
	expect("", "");
	expect("db-1 ~{}", "db-1 ~{}");
	expect("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x90\xa2", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x90\xa2");
	expect("\xc2\xa0", "\xc2\xa0");
}

Test(plain, what_a_terminal_obeys_goes)
{
	expect("a\x1b[2Jb\nc\td\x7f", "a?[2Jb?c?d?");
	expect("\xc2\x9b"
	       "2J",
	    "??2J");
}

Test(plain, what_is_no_character_goes)
{
	expect("\xe4rger", "?rger");                         /* Latin-1 */
	expect("cut \xe2\x82", "cut ??");                    /* inside a character */
	expect("\xc0\xaf \xe0\x80\xaf", "?? ???");           /* longer than it has to be */
	expect("\xed\xa0\x80 \xf4\x90\x80\x80", "??? ????"); /* half of a pair; beyond the last */
	expect("\x80\xff\xf8", "???");
}

/* Whatever the bytes are: jansson takes them, and nothing in them is below a blank. */
Test(plain, every_pair_of_bytes_is_taken)
{
	for (unsigned i = 0x100; i < 0x10000; i++) {
		char text[] = { (char)(i >> 8), (char)i, 'x', '\0' };
		json_t *json = json_string(plain_text(text));

		cr_assert_not_null(json, "%04x", i);
		for (const char *c = text; *c != '\0'; c++)
			cr_assert((unsigned char)*c >= 0x20 && *c != 0x7f, "%04x", i);
		json_decref(json);
	}
}
