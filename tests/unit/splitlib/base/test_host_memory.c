/* SPDX-License-Identifier: Apache-2.0 */
/* test_host_memory.c -- how much memory a process may have: the least of what its control groups say */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/host_memory.h"
#include "support/test_folder.h"

static char root[128];

static void
write_limit(const char *group, const char *text)
{
	char path[256];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s%s", root, group);
	(void)mkdir(path, 0700);
	(void)snprintf(path, sizeof(path), "%s%s/memory.max", root, group);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	(void)fprintf(file, "%s\n", text);
	(void)fclose(file);
}

static void
setup(void)
{
	test_folder_make(root, sizeof(root), "host_memory");
}

static void
teardown(void)
{
	static const char *const groups[] = { "/a/b/c", "/a/b", "/a", "" };
	char path[256];

	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s%s/memory.max", root, groups[i]);
		(void)unlink(path);
		(void)snprintf(path, sizeof(path), "%s%s", root, groups[i]);
		(void)rmdir(path);
	}
}

TestSuite(host_memory, .init = setup, .fini = teardown);

Test(host_memory, the_least_limit_on_the_way_up_counts)
{
	cr_assert_eq(host_memory_least_of(root, "/"), UINT64_MAX, "no file is no limit");
	write_limit("/a", "1000");
	write_limit("/a/b", "max");
	write_limit("/a/b/c", "2000");
	cr_assert_eq(host_memory_least_of(root, "/a/b/c"), 1000);
	cr_assert_eq(host_memory_least_of(root, "/a/b"), 1000);
	cr_assert_eq(host_memory_least_of(root, "/"), UINT64_MAX);
	write_limit("/a/b/c", "500");
	cr_assert_eq(host_memory_least_of(root, "/a/b/c"), 500);
	cr_assert_eq(host_memory_least_of(root, "/nobody"), UINT64_MAX);
	/* In a container the root is a group. */
	write_limit("", "300");
	cr_assert_eq(host_memory_least_of(root, "/a/b/c"), 300);
	cr_assert_eq(host_memory_least_of(root, "/"), 300);
}

Test(host_memory, what_is_no_number_is_no_limit)
{
	write_limit("/a", "");
	cr_assert_eq(host_memory_least_of(root, "/a"), UINT64_MAX);
	write_limit("/a", "lots");
	cr_assert_eq(host_memory_least_of(root, "/a"), UINT64_MAX);
}

Test(host_memory, there_is_some)
{
	cr_assert_gt(host_memory_bytes(), 0);
}
