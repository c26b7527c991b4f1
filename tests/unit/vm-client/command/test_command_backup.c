/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_backup.c -- the command lines of backups: as many files as stand before the last word */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vm-client/command/command.h"

#define WORDS_MAX 16

static struct command_options options;
static struct config_result result;

/* command_parse on the words of @line, which are one blank apart. */
static int
parse(const char *line)
{
	static char text[512];
	char *argv[WORDS_MAX + 1] = { (char *)(uintptr_t) "cleave" };
	int argc = 1;

	(void)snprintf(text, sizeof(text), "%s", line);
	for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
		cr_assert_lt(argc, WORDS_MAX);
		argv[argc++] = word;
	}
	return command_parse(argc, argv, &options, &result);
}

Test(command_backup, backups_have_files_before_the_last_word)
{
	cr_assert_eq(parse("restore a b c v --engine lz4"), 0);
	cr_assert_eq(options.file_count, 3u);
	cr_assert_str_eq(options.files[2], "c");
	cr_assert_str_eq(options.name, "v");
	config_result_fini(&result);
	cr_assert_eq(parse("backup merge a b out"), 0);
	cr_assert_eq(options.file_count, 2u);
	cr_assert_str_eq(options.file, "out");
	config_result_fini(&result);
	cr_assert_eq(parse("backup verify a"), 0);
	cr_assert_eq(options.file_count, 1u);
	config_result_fini(&result);
	cr_assert_eq(parse("backup v@new - --from old --snapshot"), 0);
	cr_assert_str_eq(options.name, "v@new");
	cr_assert_str_eq(options.file, "-");
	cr_assert_str_eq(options.from, "old");
	config_result_fini(&result);
	cr_assert_eq(parse("restore"), -EINVAL);
	cr_assert_eq(parse("restore a"), -EINVAL);
	cr_assert_eq(parse("backup merge a"), -EINVAL);
	cr_assert_eq(parse("backup verify"), -EINVAL);
	cr_assert_eq(parse("backup v@a"), -EINVAL);
	cr_assert_eq(parse("restore a v --size 5000"), -EINVAL);
	cr_assert_eq(parse("restore a v --from x"), -EINVAL);
	cr_assert_eq(parse("backup v@a f --take"), -EINVAL);
	cr_assert_eq(parse("snapshot rotate v --hourly 0"), -EINVAL);
	cr_assert_eq(parse("snapshot create v@a --daily 1"), -EINVAL);
}
