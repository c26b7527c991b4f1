/* SPDX-License-Identifier: Apache-2.0 */
/* test_domain.c -- which failure domains may stand in a key, and which a node may get */
#include <criterion/criterion.h>

#include "base/domain.h"
#include "base/num.h"

Test(domain, domains_are_paths_of_up_to_four_names)
{
	static const char *const good[] = { "", "a", "a/b", "dc1/rack2/host5/disk3", "Raum 7" };
	static const char *const bad[] = { "/", "/a", "a/", "a//b", "a/b/c/d/e", "a\nb",
		"0123456789012345678901234567890123456789012345678901234567890123" };

	for (uint32_t i = 0; i < NUM_COUNT(good); i++)
		cr_assert(domain_is_valid(good[i]), "%s", good[i]);
	for (uint32_t i = 0; i < NUM_COUNT(bad); i++)
		cr_assert_not(domain_is_valid(bad[i]), "%s", bad[i]);
}

Test(domain, none_that_is_new_has_blanks)
{
	static const char *const good[] = { "", "a", "dc1/rack2/host5/disk3", "Raum-7" };
	static const char *const bad[] = { "Raum 7", " ", "a/ b", "a\tb", "a\177", "/a",
		"a/b/c/d/e" };

	for (uint32_t i = 0; i < NUM_COUNT(good); i++)
		cr_assert_null(domain_check(good[i]), "%s", good[i]);
	for (uint32_t i = 0; i < NUM_COUNT(bad); i++)
		cr_assert_not_null(domain_check(bad[i]), "%s", bad[i]);
}
