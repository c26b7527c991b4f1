/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_table.c -- the table of commands against what is said of them: synopses, and json.md */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm-client/command/command.h"

#define DOCUMENT "vm-client/command/json.md"
#define ROWS_MAX 256u
#define CREATE_WORDS "[options of volume create]"

static const struct command *
by_words(const char *noun, const char *verb)
{
	const char *words[] = { noun, verb };
	uint32_t used;

	return command_find(words, 2, &used);
}

/* "--NAME" as a word of its own: not the beginning of a longer one. */
static bool
says_option(const char *synopsis, const char *name)
{
	char word[64];
	size_t length = (size_t)snprintf(word, sizeof(word), "--%s", name);

	for (const char *at = strstr(synopsis, word); at != NULL; at = strstr(at + 1, word)) {
		if (at[length] != '-' && !isalnum((unsigned char)at[length]))
			return true;
	}
	return false;
}

/*
 * Two options that have one bit by mistake are taken where one of them is: the other's name is in no synopsis there.
 */
Test(command_table, options_taken_are_those_of_the_synopsis)
{
	const struct command *create = by_words("volume", "create"), *command;

	cr_assert_not_null(create);
	for (uint32_t i = 0; (command = command_at(i)) != NULL; i++) {
		/* These take a gateway's options, and parse none. */
		if (command->run == command_recover)
			continue;
		for (const struct config_option *option = command_option_table;
		     option->name != NULL; option++) {
			bool is_everybodys = command_takes_option(by_words("version", ""), option);
			bool is_said = says_option(command->synopsis, option->name) ||
			    (strstr(command->synopsis, CREATE_WORDS) != NULL &&
				says_option(create->synopsis, option->name));

			cr_expect_eq(command_takes_option(command, option),
			    is_said || is_everybodys, "%s %s, --%s: it is %s in the synopsis",
			    command->noun, command->verb == NULL ? "" : command->verb, option->name,
			    is_said ? "" : "not ");
		}
	}
}

/* A bit that no option has: nothing that it stands for can be given. */
Test(command_table, bits_are_those_of_options)
{
	const struct command *command;

	for (uint32_t i = 0; (command = command_at(i)) != NULL; i++) {
		uint64_t left = command->options;

		for (uint32_t bit = 0; bit < 64; bit++) {
			struct command one = { .options = command->options & UINT64_C(1) << bit };

			for (const struct config_option *option = command_option_table;
			     one.options != 0 && option->name != NULL; option++) {
				if (command_takes_option(&one, option) &&
				    !command_takes_option(&(struct command){ 0 }, option))
					left &= ~one.options;
			}
		}
		cr_expect_eq(left, 0, "%s %s: bits %llx", command->noun,
		    command->verb == NULL ? "" : command->verb, (unsigned long long)left);
	}
}

static char *
document(void)
{
	const char *top = getenv("CLEAVE_SOURCE_DIR");
	static char text[65536];
	char path[4096];
	FILE *file;
	size_t bytes;

	cr_assert_not_null(top);
	(void)snprintf(path, sizeof(path), "%s/%s", top, DOCUMENT);
	file = fopen(path, "r");
	cr_assert_not_null(file, "%s", path);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	cr_assert(feof(file) && bytes > 0, "%s", path);
	(void)fclose(file);
	text[bytes] = '\0';
	return text;
}

/* Rows "| `WORDS` | ...": the command that each begins with, which "backup" and "backup verify" both do. */
static uint32_t
document_rows(char *text, const struct command *ret_rows[ROWS_MAX])
{
	uint32_t count = 0;

	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
		char words[2][32] = { "", "" };
		const char *pair[] = { words[0], words[1] };
		uint32_t used;

		if (sscanf(line, "| `%31[a-z] %31[a-z-]", words[0], words[1]) < 1)
			continue;
		cr_assert_lt(count, ROWS_MAX);
		ret_rows[count] = command_find(pair, 2, &used);
		cr_expect_not_null(ret_rows[count], "no such command: %s", line);
		count++;
	}
	return count;
}

/* A command that prints no JSON is named above the table, between its first line and the first picture. */
Test(command_table, json_of_every_command_is_documented)
{
	char *text = document(), *end = strstr(text, "```"), head[4096];
	const struct command *rows[ROWS_MAX], *command;
	uint32_t count;

	cr_assert(end != NULL && (size_t)(end - text) < sizeof(head));
	(void)snprintf(head, sizeof(head), "%.*s", (int)(end - text), text);
	count = document_rows(end, rows);
	cr_assert_gt(count, 0);
	for (uint32_t i = 0; (command = command_at(i)) != NULL; i++) {
		char name[64], noun[64];
		bool has_row = false;

		(void)snprintf(noun, sizeof(noun), "`%s`", command->noun);
		(void)snprintf(name, sizeof(name), "`%s%s%s`", command->noun,
		    command->verb == NULL ? "" : " ", command->verb == NULL ? "" : command->verb);
		for (uint32_t k = 0; k < count; k++)
			has_row |= rows[k] == command;
		cr_expect(has_row || strstr(head, name) != NULL || strstr(head, noun) != NULL,
		    "%s prints what json.md does not tell", name);
	}
}
