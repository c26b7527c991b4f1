/* SPDX-License-Identifier: Apache-2.0 */
/* command_cluster.c -- cleave cluster upgrade: the cluster's level, the next one, and who keeps it from that */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "command.h"
#include "command_ask.h"

/* The lines of @level->missing. */
static void
print_missing(const struct cleave_cluster_level *level, FILE *out)
{
	const char *line = level->missing;

	assert(level->missing_count > 0);
	while (*line != '\0') {
		size_t bytes = strcspn(line, "\n");

		fprintf(out, "  %.*s\n", (int)bytes, line);
		line += bytes + (line[bytes] == '\n');
	}
}

void
command_print_level(const struct cleave_cluster_level *level, FILE *out)
{
	assert(level != NULL && out != NULL);
	if (level->next == 0)
		fprintf(out, "level %" PRIu32 ": nobody speaks more\n", level->level);
	else if (level->missing_count == 0)
		fprintf(out,
		    "level %" PRIu32 ": everybody speaks %" PRIu32
		    ", next: cleave cluster upgrade\n",
		    level->level, level->next);
	else
		fprintf(out,
		    "level %" PRIu32 ": %" PRIu32 " do not speak %" PRIu32
		    ", next: install and start the new release there\n",
		    level->level, level->missing_count, level->next);
	if (level->next != 0 && level->missing_count > 0)
		print_missing(level, out);
}

static int
ask_level(struct command_session *session, struct command_question *question, bool is_upgrade)
{
	const struct config_list *without = &session->options->without;

	assert(is_upgrade == !session->options->is_check);
	command_question_init(question, session);
	return command_wait(question,
	    is_upgrade ? cleave_cluster_upgrade(session->client, &question->ask, without->items,
			     without->count, command_on_level, question)
		       : cleave_cluster_level(session->client, &question->ask, without->items,
			     without->count, command_on_level, question));
}

static int
check_upgrade(struct command_session *session, const struct command_question *question)
{
	const struct cleave_cluster_level *level = question->entries;

	assert(session->options->is_check && question->count == 1);
	if (session->options->is_json)
		(void)command_print_json(question->reply, session->out);
	else
		command_print_level(level, session->out);
	if (level->next == 0 || level->missing_count == 0)
		return 0;
	return command_fail(session, -ENOTSUP, "level %" PRIu32 " would be refused", level->next);
}

static void
print_upgrade(const struct cleave_cluster_level *level, FILE *out)
{
	assert(level != NULL && out != NULL);
	if (level->from == level->level)
		fprintf(out, "already at level %" PRIu32 ", and nobody speaks more\n",
		    level->level);
	else
		fprintf(out,
		    "upgraded from level %" PRIu32 " to %" PRIu32
		    ": releases that do not speak it are refused\n",
		    level->from, level->level);
}

int
command_cluster_upgrade(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct command_question question;
	int rc = ask_level(session, &question, !options->is_check);

	assert(session->client != NULL && session->out != NULL);
	if (rc == 0 && options->is_check)
		rc = check_upgrade(session, &question);
	else if (rc == 0 && options->is_json)
		rc = command_print_json(question.reply, session->out);
	else if (rc == 0)
		print_upgrade(question.entries, session->out);
	command_question_fini(&question);
	return rc;
}
