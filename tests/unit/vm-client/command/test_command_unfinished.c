/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_unfinished.c -- names of volumes that are not filled yet: made, and told */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "vm-client/command/command_unfinished.h"

/* The lines about a volume of that name, with a writer of so many sessions, -1: none; free() them. */
static char *
told(const char *name, int sessions)
{
	struct cleave_volume_entry volume = { .has_writer = sessions >= 0 };
	json_t *use = json_pack("[{s:i}]", "session_count", sessions < 0 ? 0 : sessions);
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	cr_assert(out != NULL);
	(void)snprintf(volume.info.name, sizeof(volume.info.name), "%s", name);
	command_print_unfinished(&volume, 1, use, true, out);
	(void)fclose(out);
	json_decref(use);
	return text;
}

static void
expect_told(const char *name, const char *pattern)
{
	char *text = told(name, -1), *quiet = told(name, 1), *died = told(name, 0);

	cr_assert(strstr(text, name) == text && strstr(text, pattern) != NULL, "%s: %s", name,
	    text);
	cr_assert(strlen(quiet) == 0, "%s: %s", name, quiet);
	cr_assert_str_eq(died, text);
	free(died);
	free(text);
	free(quiet);
}

Test(command_unfinished, each_import_has_a_name_of_its_own_which_is_told)
{
	char one[CLEAVE_VOLUME_NAME_BYTES_MAX + 1], two[CLEAVE_VOLUME_NAME_BYTES_MAX + 1];

	command_import_name("v", one);
	command_import_name("v", two);
	cr_assert(strcmp(one, two) != 0, "%s", one);
	expect_told(one, "an import of 'v' that has not ended");
	expect_told(one, "--purge");
}

Test(command_unfinished, a_restore_of_the_same_files_has_the_same)
{
	char one[CLEAVE_VOLUME_NAME_BYTES_MAX + 1], two[CLEAVE_VOLUME_NAME_BYTES_MAX + 1];

	command_restore_name("v", 0x1234, one);
	command_restore_name("v", 0x1234, two);
	cr_assert(strcmp(one, two) == 0 && strcmp(one, "v.restore-0000000000001234") == 0, "%s",
	    one);
	expect_told(one, "a restore of 'v' that has not ended");
}

Test(command_unfinished, a_long_name_is_cut_and_the_mark_is_whole)
{
	char name[CLEAVE_VOLUME_NAME_BYTES_MAX + 1], made[CLEAVE_VOLUME_NAME_BYTES_MAX + 1];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	command_import_name(name, made);
	cr_assert(strlen(made) == CLEAVE_VOLUME_NAME_BYTES_MAX);
	expect_told(made, "an import of 'nnn");
	command_restore_name(name, UINT64_MAX, made);
	cr_assert(strlen(made) == CLEAVE_VOLUME_NAME_BYTES_MAX);
	expect_told(made, "a restore of 'nnn");
}

Test(command_unfinished, other_names_say_nothing)
{
	static const char *const names[] = { "v", "v.importing-", "v.importing-1234567",
		"v.importing-123456789", "v.importing-1234567g", ".importing-12345678",
		"v.restore-12345678", "v.importing-12345678.old" };

	for (size_t i = 0; i < NUM_COUNT(names); i++) {
		char *text = told(names[i], -1);

		cr_assert(strlen(text) == 0, "%s", text);
		free(text);
	}
}
