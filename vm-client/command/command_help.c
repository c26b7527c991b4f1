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

/* Options that not every command takes. COMMAND_REBALANCE and others are of more than one. */
static const struct {
	const char *name;
	unsigned of;
} owned[] = {
	{ "size", COMMAND_SIZE },
	{ "service-class", COMMAND_SERVICE_CLASS },
	{ "engine", COMMAND_ENGINE },
	{ "level", COMMAND_LEVEL },
	{ "replicas", COMMAND_REPLICAS },
	{ "force", COMMAND_FORCE },
	{ "read-only", COMMAND_READ_ONLY },
	{ "agent", COMMAND_AGENT },
	{ "format", COMMAND_FORMAT },
	{ "progress", COMMAND_PROGRESS },
	{ "shrink", COMMAND_SHRINK },
	{ "confirm", COMMAND_CONFIRM },
	{ "snapshots", COMMAND_SNAPSHOTS },
	{ "take", COMMAND_TAKE },
	{ "check", COMMAND_UPGRADE },
	{ "without", COMMAND_UPGRADE },
	{ "counters", COMMAND_STATUS },
	{ "quiet", COMMAND_STATUS },
	{ "domain", COMMAND_PLACE },
	{ "weight", COMMAND_PLACE },
	{ "note", COMMAND_PLACE },
	{ "follow", COMMAND_FOLLOW },
	{ "volume", COMMAND_SLOW },
	{ "trace", COMMAND_SLOW },
	{ "address", COMMAND_ADDRESS },
	{ "maintenance", COMMAND_MAINTENANCE },
	{ "wait", COMMAND_WAIT },
	{ "lost", COMMAND_LOST },
	{ "with", COMMAND_WITH },
	{ "dry-run", COMMAND_REBALANCE },
	{ "stop", COMMAND_REBALANCE },
};

bool
command_takes_option(const struct command *command, const struct config_option *option)
{
	for (size_t i = 0; i < NUM_COUNT(owned); i++) {
		if (strcmp(owned[i].name, option->name) == 0)
			return (owned[i].of & command->options) != 0;
	}
	return true; /* every command does */
}

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
