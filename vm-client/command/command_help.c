/* SPDX-License-Identifier: Apache-2.0 */
/* command_help.c -- what --help says of one command: its words, and the options that it takes, no others; version */
#include <errno.h>
#include <string.h>

#include "base/build_info.h"
#include "base/check.h"
#include "base/config_help.h"
#include "base/num.h"
#include "command.h"

#define HELP_OPTIONS_MAX 48u
#define HELP_LINE_BYTES 256

void
command_synopsis(const struct command *command, char *ret_text, size_t bytes)
{
	assert(command->noun != NULL && command->synopsis != NULL);
	(void)snprintf(ret_text, bytes, "%s%s%s%s%s", command->noun,
	    command->verb == NULL ? "" : " ", command->verb == NULL ? "" : command->verb,
	    command->synopsis[0] == '\0' ? "" : " ", command->synopsis);
}

void
command_print_one(const struct command *command, FILE *out)
{
	struct config_option options[HELP_OPTIONS_MAX];
	char synopsis[HELP_LINE_BYTES];
	const struct config_program program = { .name = "cleave",
		.synopsis = synopsis,
		.purpose = command->help,
		.options = options };
	size_t count = 0;

	command_synopsis(command, synopsis, sizeof(synopsis));
	for (const struct config_option *from = command_option_table; from->name != NULL; from++) {
		if (!command_takes_option(command, from))
			continue;
		assert(count + 1 < HELP_OPTIONS_MAX);
		options[count++] = *from;
	}
	options[count] = (struct config_option){ .name = NULL };
	config_print_help(&program, out);
}

/* config_parse would print its own text, which knows nothing of commands. */
bool
command_wants_help(int argc, char *const argv[])
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	}
	return false;
}

/* @word is an option, and its value is the word behind it. */
static bool
takes_next_word(const char *word)
{
	for (const struct config_option *option = command_option_table; option->name != NULL;
	     option++) {
		bool is_it = strncmp(word, "--", 2) == 0 ? strcmp(word + 2, option->name) == 0
							 : word[0] == '-' &&
			option->short_name != 0 && word[1] == option->short_name && word[2] == '\0';

		if (is_it)
			return option->type != CONFIG_FLAG;
	}
	return false;
}

/* The first word that is no option, and the one behind it: a command, or a noun; what else stands there is not read. */
int
command_take_help(struct command_options *options, int argc, char *const argv[])
{
	const char *words[2] = { NULL, NULL };
	uint32_t used = 0, count = 0;

	options->is_help = true;
	for (int i = 1; i < argc && count < NUM_COUNT(words); i++) {
		if (argv[i][0] != '-')
			words[count++] = argv[i];
		else if (takes_next_word(argv[i]))
			i++;
	}
	if (count == 0)
		return 0;
	options->command = command_find(words, count, &used);
	for (uint32_t i = 0; options->command == NULL && command_at(i) != NULL; i++) {
		if (strcmp(words[0], command_at(i)->noun) == 0)
			options->noun = command_at(i)->noun;
	}
	if (options->command == NULL && options->noun == NULL) {
		fprintf(stderr, "cleave: there is no command '%s', see --help\n", words[0]);
		return -EINVAL;
	}
	if (options->command != NULL && options->command->run == NULL)
		options->command = NULL; /* help itself */
	return 0;
}

int
command_version(struct command_session *session)
{
	json_t *object;
	int rc = -ENOMEM;

	assert(session->out != NULL);
	if (!session->options->is_json) {
		fprintf(session->out, "cleave %s (%s)\n", build_info_version(),
		    build_info_commit());
		return 0;
	}
	object =
	    json_pack("{s:s, s:s}", "version", build_info_version(), "commit", build_info_commit());
	if (object != NULL)
		rc = command_print_json(object, session->out);
	json_decref(object);
	return rc;
}
