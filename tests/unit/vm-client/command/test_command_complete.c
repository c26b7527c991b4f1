/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_complete.c -- what a shell is told when Tab is pressed, where no gateway has to be asked */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm-client/command/command.h"

#define WORDS_MAX 20

/* The lines for the words of @line, one blank apart; a blank at its end is an empty last word. */
static char *
lines_of(const char *line)
{
	static char text[512];
	char *words[WORDS_MAX], *printed = NULL, *next = text;
	size_t bytes;
	int count = 0;
	FILE *out = open_memstream(&printed, &bytes);

	cr_assert_not_null(out);
	(void)snprintf(text, sizeof(text), "%s", line);
	while (next != NULL) {
		cr_assert_lt(count, WORDS_MAX);
		words[count++] = strsep(&next, " ");
	}
	cr_assert_eq(command_complete(count, words, out), 0);
	(void)fclose(out);
	return printed;
}

static void
expect(const char *line, const char *lines)
{
	char *printed = lines_of(line);

	cr_assert_str_eq(printed, lines, "'%s' is told: %s", line, printed);
	free(printed);
}

static void
expect_part(const char *line, const char *part, bool is_there)
{
	char *printed = lines_of(line);

	cr_assert_eq(strstr(printed, part) != NULL, is_there, "'%s' is told: %s", line, printed);
	free(printed);
}

Test(complete, commands)
{
	expect("vol", "volume\n");
	expect("volume re", "rename\nresize\n");
	expect("help snap", "snapshot\n");
	expect("help snapshot d", "diff\ndelete\n");
	expect("trash re", "restore\n");
	expect("snapshot p", "protect\n");
	expect("nosuch ", "");
	expect_part("", "volume\n", true);
	expect_part("", "events\n", true);
	expect("--json volume l", "list\n");
	expect("--gateway volume vol", "volume\n"); /* the first is a gateway's name */
}

Test(complete, options_are_those_of_the_command)
{
	expect("volume create x --en", "--engine\n--encrypt\n");
	expect("volume delete x --en", "");
	expect("status --q", "--quiet\n");
	expect("volume delete x --pu", "--purge\n");
	expect("trash purge --al", "--all\n");
	expect_part("volume delete x -", "--force\n", true);
	expect_part("volume delete x -", "--gateway\n", true);
	expect_part("volume list -", "--force\n", false);
	expect_part("-", "--help\n", true);
	expect_part("-", "--force\n", false);
}

Test(complete, values)
{
	expect("volume create x --engine z", "zstd\n");
	expect("volume create x --size ", "");
	expect("volume create x --service-class la", "latency\n");
	expect("-g ", "");
}

Test(complete, values_behind_an_equals_sign)
{
	expect("volume create x --engine=z", "--engine=zstd\n");
	expect("volume create x --size=", "");
	expect("volume create x --nosuch=z", "");
	expect("--gateway=host:9000 volume del", "delete\n");
	expect("volume create x --size=1G --engine z", "zstd\n");
}

Test(complete, a_command_that_is_a_noun_of_others_too)
{
	setenv("CLEAVE_GATEWAY", "127.0.0.1:1", 1); /* nobody who knows snapshots */
	expect("backup v", "verify\n");
	expect("backup verify ", ""); /* files */
	expect("restore a ", "");
	expect_part("backup v@a f -", "--from\n", true);
	expect_part("restore f v -", "--from\n", false);
}

Test(complete, what_nobody_can_know)
{
	expect("import ", "");          /* a file */
	expect("volume rename a ", ""); /* a new name */
	expect("a b c d e f g h i j k l m n o p q r", "");
}

/* bash puts it on the line unquoted, and Enter runs it. */
Test(complete, names_of_a_gateway_that_a_shell_would_run_are_not_told)
{
	static const char *const plain[] = { "db", "db@monday.1", "17", "00000000000000ab",
		"a-b_c" };
	static const char *const bad[] = { "a$(touch x)b", "a;b", "a b", "a`b`", "'a", "a\x1b[2J",
		"--force", "-f", "a\nb", "\xc3\xa4", "~a", "a*" };

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		cr_assert(command_word_is_plain(plain[i]), "%s", plain[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert(!command_word_is_plain(bad[i]), "%s", bad[i]);
}
