/* SPDX-License-Identifier: Apache-2.0 */
/* test_uri_text.c -- paths in URIs */
#include <criterion/criterion.h>
#include <string.h>

#include "base/uri_text.h"

Test(uri_text, has_what_a_path_may_have_as_it_is_and_all_else_by_number)
{
	char out[128] = "nbd+unix:///v?socket=";

	uri_text_add(out, sizeof(out), "/run/me-1._~/v@s:7");
	cr_assert_str_eq(out, "nbd+unix:///v?socket=/run/me-1._~/v@s:7");
	out[0] = '\0';
	uri_text_add(out, sizeof(out), "/a b/%41?x=1&y#z\xc3\xa9\x7f");
	cr_assert_str_eq(out, "/a%20b/%2541%3Fx%3D1%26y%23z%C3%A9%7F");
}

Test(uri_text, what_does_not_fit_is_left_out_whole)
{
	char out[8] = "x";

	uri_text_add(out, sizeof(out), "  ");
	cr_assert_str_eq(out, "x%20%20");
	uri_text_add(out, sizeof(out), "ab");
	cr_assert_str_eq(out, "x%20%20");
}
