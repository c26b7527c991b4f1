/* SPDX-License-Identifier: Apache-2.0 */
/* test_kek.c -- a KEK's file is made once, for its owner alone */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm-client/keys/kek.h"

TestSuite(kek, .timeout = 60);

static void
file_text(const char *path, char text[128])
{
	FILE *file = fopen(path, "r");

	cr_assert_not_null(file);
	memset(text, 0, 128);
	cr_assert_gt(fread(text, 1, 127, file), 0u);
	(void)fclose(file);
}

Test(kek, is_random_hex_of_mode_0600_and_never_written_over)
{
	char folder[] = "/tmp/cleave-kek-XXXXXX", path[64], other[64], why[KEK_WHY_BYTES];
	char text[128], again[128];
	struct stat st;

	cr_assert_not_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/kek", folder);
	(void)snprintf(other, sizeof(other), "%s/other", folder);
	cr_assert_eq(kek_make(path, why), 0, "%s", why);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0600u);
	file_text(path, text);
	cr_assert_eq(strlen(text), 65u);
	cr_assert_eq(strspn(text, "0123456789abcdef"), 64u);
	cr_assert_eq(text[64], '\n');
	cr_assert_eq(kek_make(path, why), -EEXIST);
	cr_assert_not_null(strstr(why, path));
	file_text(path, again);
	cr_assert_str_eq(text, again);
	cr_assert_eq(kek_make(other, why), 0);
	file_text(other, again);
	cr_assert_str_neq(text, again);
	(void)unlink(path);
	(void)unlink(other);
	cr_assert_eq(rmdir(folder), 0);
	cr_assert_eq(kek_make(path, why), -ENOENT);
	cr_assert(why[0] != '\0');
}
