/* SPDX-License-Identifier: Apache-2.0 */
/* test_http_host.c -- a page is told by an address or by a name of this machine, and by no name that others own */
#include <criterion/criterion.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/http_host.h"

Test(http_host, addresses_and_own_names_are_ours)
{
	static const char *const ours[] = { "127.0.0.1", "127.0.0.1:9710", "10.1.2.3:80", "[::1]",
		"[2001:db8::1]:9710", "localhost", "LocalHost:1", "gw1.example",
		"GW1.example:9710" };
	char own[HOST_NAME_MAX + 1], with_port[HOST_NAME_MAX + 8];

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		cr_assert(http_host_is_ours(ours[i], "gw1.example"), "%s", ours[i]);
	cr_assert_eq(gethostname(own, sizeof(own)), 0);
	(void)snprintf(with_port, sizeof(with_port), "%s:9710", own);
	cr_assert(http_host_is_ours(with_port, ""));
}

Test(http_host, all_others_are_not)
{
	static const char *const others[] = { "", ":", ":80", "evil.example",
		"127.0.0.1.evil.example", "localhost.evil.example", "gw1", "gw1.example.evil",
		"[::1", "[evil]", "::1", "[::1]x", "127.0.0.1:80x", "127.1", "0x7f.1",
		"localhost." };
	char long_name[400];

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_assert(!http_host_is_ours(others[i], "gw1.example"), "%s", others[i]);
	cr_assert(!http_host_is_ours("x", ""));
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	cr_assert(!http_host_is_ours(long_name, ""));
}
