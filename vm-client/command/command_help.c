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
