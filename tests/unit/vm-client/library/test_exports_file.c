/* SPDX-License-Identifier: Apache-2.0 */
/* test_exports_file.c -- lines that are right and wrong, and a file that is changed in one step */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "library/exports_file.h"

static char folder[64], path[128];

static void
write_file(const char *text)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	cr_assert_geq(fputs(text, file), 0);
	cr_assert_eq(fclose(file), 0);
}

static void
check_file(const char *expected)
{
	char text[4096];
	FILE *file = fopen(path, "r");
	size_t bytes;

	cr_assert_not_null(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	text[bytes] = '\0';
	cr_assert_str_eq(text, expected);
	(void)fclose(file); /* nothing was written */
}

static void
make_folder(void)
{
	(void)snprintf(folder, sizeof(folder), "/tmp/cleave-exports-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/exports", folder);
}

static void
remove_folder(void)
{
	(void)unlink(path); /* not every test makes it */
	cr_assert_eq(rmdir(folder), 0, "nothing else was left there");
}

TestSuite(exports_file, .init = make_folder, .fini = remove_folder);

Test(exports_file, lines_are_exports_comments_or_wrong)
{
	static const struct {
		const char *text;
		int rc;
		const char *name;
		bool is_read_only;
	} cases[] = {
		{ "", 0, NULL, false },
		{ " \t\r", 0, NULL, false },
		{ "# v", 0, NULL, false },
		{ "v", 1, "v", false },
		{ "  v\tread-only\r", 1, "v", true },
		{ "v@s#x", 1, "v@s", false },
		{ "v read-only read-only", 1, "v", true },
		{ "v writable", -EINVAL, NULL, false },
		{ "v@", -EINVAL, NULL, false },
		{ "@s", -EINVAL, NULL, false },
		{ "v@s@t", -EINVAL, NULL, false },
		{ "v\x01", -EINVAL, NULL, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct exports_line line = { .name = "untouched" };
		char error[EXPORTS_FILE_ERROR_BYTES];

		cr_assert_eq(exports_line_parse(cases[i].text, strlen(cases[i].text), &line, error),
		    cases[i].rc, "case %zu", i);
		cr_assert_str_eq(line.name, cases[i].rc == 1 ? cases[i].name : "untouched");
		cr_assert_eq(line.is_read_only, cases[i].is_read_only, "case %zu", i);
		cr_assert_eq(error[0] != '\0', cases[i].rc < 0, "case %zu", i);
	}
}

Test(exports_file, other_lines_stay_as_they_are)
{
	const struct exports_line line = { .name = "w", .is_read_only = true };
	char error[EXPORTS_FILE_ERROR_BYTES];
	struct stat status;

	write_file("# disks\nv  # ours\nw\nnonsense here\n ww\nlast");
	cr_assert_eq(chmod(path, 0640), 0);
	cr_assert_eq(exports_file_put(path, &line, error), 0);
	check_file("# disks\nv  # ours\nnonsense here\n ww\nlast\nw read-only\n");
	cr_assert_eq(stat(path, &status), 0);
	cr_assert_eq(status.st_mode & 07777, 0640);
	cr_assert_eq(exports_file_remove(path, "v", error), 0);
	cr_assert_eq(exports_file_remove(path, "v", error), 1, "it is gone already");
	check_file("# disks\nnonsense here\n ww\nlast\nw read-only\n");
}

/* Somebody meant something by it. A second line for a name is as good as none, and goes. */
Test(exports_file, a_wrong_line_for_the_name_is_not_replaced_unasked)
{
	static const char *const wrong[] = { "w rw", "w read-only extra" };
	const struct exports_line line = { .name = "w" };
	char text[128], error[EXPORTS_FILE_ERROR_BYTES];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		(void)snprintf(text, sizeof(text), "v\n%s\nx\n", wrong[i]);
		write_file(text);
		cr_assert_eq(exports_file_put(path, &line, error), -EINVAL);
		cr_assert_not_null(strstr(error, ":2: '"), "%s", error);
		check_file(text);
		cr_assert_eq(exports_file_remove(path, "w", error), 0, "that is asked for");
	}
	write_file("w\nw read-only\n");
	cr_assert_eq(exports_file_put(path, &line, error), 0);
	check_file("w\n");
}

Test(exports_file, a_file_that_there_is_not)
{
	const struct exports_line line = { .name = "v" };
	char error[EXPORTS_FILE_ERROR_BYTES];

	cr_assert_eq(exports_file_remove(path, "v", error), 1);
	cr_assert_eq(access(path, F_OK), -1, "it is not made for that");
	cr_assert_eq(exports_file_put(path, &line, error), 0);
	check_file("v\n");
	cr_assert_eq(exports_file_remove("/nowhere/exports", "v", error), 1);
	cr_assert_eq(exports_file_put("/nowhere/exports", &line, error), -ENOENT);
	cr_assert_not_null(strstr(error, "/nowhere/exports: "));
}

/* A link stays one: the file that it leads to is replaced. */
Test(exports_file, a_link_is_followed)
{
	const struct exports_line line = { .name = "v" };
	char error[EXPORTS_FILE_ERROR_BYTES], link_path[160];
	struct stat status;

	write_file("");
	(void)snprintf(link_path, sizeof(link_path), "%s/link", folder);
	cr_assert_eq(symlink(path, link_path), 0);
	cr_assert_eq(exports_file_put(link_path, &line, error), 0);
	check_file("v\n");
	cr_assert_eq(lstat(link_path, &status), 0);
	cr_assert(S_ISLNK(status.st_mode));
	cr_assert_eq(unlink(link_path), 0);
}
