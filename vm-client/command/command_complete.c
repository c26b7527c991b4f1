/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_complete.c -- what may stand in a word's place: the question that a shell asks when Tab is pressed
 *
 *	cleave complete volume create --en        the last word is the one in question, and may be empty
 *	--engine                                  one a line; nothing: a file's name, or what nobody can know
 *
 * All is read from the tables of commands and options, so it cannot be of another release than the program. Names of
 * volumes and numbers of nodes come from a gateway, which has a second for it: what is wrong then is no news for
 * somebody who types. A shell puts what it is told on the line as it is, where some characters are commands: of what a
 * gateway says only names that a shell takes for words are told.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "library/gateways.h"

#define COMPLETE_WORDS_MAX 16u
#define COMPLETE_TIMEOUT_NS NUM_S(1)

/* A command line that is not at its end. */
struct complete {
	const char *last; /* the word in question, behind head */
	const char *head; /* "--engine=": each answer begins so */
	int head_bytes;
	const char *words[COMPLETE_WORDS_MAX]; /* before it, without options and their values */
	uint32_t count;
	const struct config_option *waiting; /* the word before is this option: last is its value */
	struct command_options options;      /* where to ask */
	const struct command *command;       /* that the words begin with; NULL: none yet */
	uint32_t used;                       /* words that are its name */
	FILE *out;
};

static void
offer(const struct complete *complete, const char *word)
{
	if (strncmp(word, complete->last, strlen(complete->last)) == 0)
		fprintf(complete->out, "%.*s%s\n", complete->head_bytes, complete->head, word);
}

bool
command_word_is_plain(const char *word)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789._@:/-";

	return word[0] != '-' && word[strspn(word, plain)] == '\0';
}

/* ---- what was typed ---- */

/* @ret_value: of "--name=value"; NULL: the next word is. */
static const struct config_option *
option_of(const char *word, const char **ret_value)
{
	bool is_long = strncmp(word, "--", 2) == 0;
	size_t bytes = is_long ? strcspn(word + 2, "=") : 0;

	assert(word[0] == '-');
	*ret_value = is_long && word[2 + bytes] == '=' ? word + 2 + bytes + 1 : NULL;
	for (const struct config_option *option = command_option_table; option->name != NULL;
	     option++) {
		if (is_long ? bytes == strlen(option->name) &&
			    strncmp(word + 2, option->name, bytes) == 0
			    : word[1] != '\0' && word[1] == option->short_name && word[2] == '\0')
			return option;
	}
	return NULL;
}

static void
take_value(struct complete *complete, const struct config_option *option, const char *value)
{
	struct config_list *gateways = &complete->options.gateways;

	if (strcmp(option->name, "gateway") == 0 && gateways->count < NUM_COUNT(gateways->items))
		gateways->items[gateways->count++] = value;
}

/* Returns false: there are more words than any command has. */
static bool
take_words(struct complete *complete, char *const words[], uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const char *value = NULL;
		const struct config_option *option =
		    words[i][0] == '-' ? option_of(words[i], &value) : NULL;

		if (complete->waiting != NULL) {
			take_value(complete, complete->waiting, words[i]);
			complete->waiting = NULL;
		} else if (words[i][0] == '-') {
			if (option != NULL && value != NULL)
				take_value(complete, option, value);
			else if (option != NULL && option->type != CONFIG_FLAG)
				complete->waiting = option;
		} else if (complete->count == COMPLETE_WORDS_MAX) {
			return false;
		} else {
			complete->words[complete->count++] = words[i];
		}
	}
	complete->command = command_find(complete->words, complete->count, &complete->used);
	return true;
}

/* ---- what a gateway knows ---- */

static int
offer_volumes(struct command_session *session)
{
	const struct cleave_volume_entry *volumes;
	struct command_question question;
	int rc;

	command_question_init(&question, session);
	rc = command_ask_volumes(&question);
	volumes = question.entries;
	for (uint32_t i = 0; rc == 0 && i < question.count; i++)
		fprintf(session->out, "%s\n", volumes[i].info.name);
	command_question_fini(&question);
	return rc;
}

static int
offer_snapshots(struct command_session *session)
{
	const struct cleave_snapshot *snapshots;
	struct command_question question;
	int rc;

	command_question_init(&question, session);
	rc = command_ask_snapshots(&question);
	snapshots = question.entries;
	for (uint32_t i = 0; rc == 0 && i < question.count; i++)
		fprintf(session->out, "%s\n", snapshots[i].name);
	command_question_fini(&question);
	return rc;
}

static int
offer_users(struct command_session *session)
{
	json_t *reply = NULL;
	const json_t *user;
	size_t i;
	int rc = command_ask_users(session, &reply);

	json_array_foreach(json_object_get(reply, "users"), i, user)
	    fprintf(session->out, "%s\n", command_text(user, "name"));
	json_decref(reply);
	return rc;
}

/* Each by its name; by its id where another one had the name, too. */
static int
offer_trash(struct command_session *session)
{
	const struct cleave_trash_entry *volumes;
	struct command_question question;
	int rc;

	command_question_init(&question, session);
	rc = command_ask_trash(&question);
	volumes = question.entries;
	for (uint32_t i = 0; rc == 0 && i < question.count; i++) {
		bool is_alone = true;

		for (uint32_t k = 0; k < question.count; k++)
			is_alone = is_alone &&
			    (k == i || strcmp(volumes[k].name, volumes[i].name) != 0);
		if (is_alone)
			fprintf(session->out, "%s\n", volumes[i].name);
		else
			fprintf(session->out, "%" PRIu64 "\n", volumes[i].id);
	}
	command_question_fini(&question);
	return rc;
}

static int
offer_nodes(struct command_session *session)
{
	const struct cleave_node_entry *nodes;
	struct command_question question;
	int rc;

	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_node_list(session->client, &question.ask, command_on_nodes, &question));
	nodes = question.entries;
	for (uint32_t i = 0; rc == 0 && i < question.count; i++) {
		if (nodes[i].id != 0)
			fprintf(session->out, "%" PRIu64 "\n", nodes[i].id);
	}
	command_question_fini(&question);
	return rc;
}

static int
offer_gateways(struct command_session *session)
{
	const struct cleave_gateway_entry *gateways;
	struct command_question question;
	int rc;

	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_gateway_list(session->client, &question.ask, command_on_gateways, &question));
	gateways = question.entries;
	for (uint32_t i = 0; rc == 0 && i < question.count; i++)
		fprintf(session->out, "%016" PRIx64 "\n", gateways[i].id);
	command_question_fini(&question);
	return rc;
}

/* The lines of @run that begin as the last word does. */
static void
offer_asked(struct complete *complete, int (*run)(struct command_session *session))
{
	const struct command command = { .noun = "complete", .run = run };
	char *text = NULL, *end, *line;
	size_t bytes;
	FILE *lines = open_memstream(&text, &bytes);

	complete->options.command = &command;
	complete->options.is_quiet = true;
	complete->options.timeout_ns = COMPLETE_TIMEOUT_NS;
	if (lines == NULL)
		return;
	if (gateways_default("cleave", &complete->options.gateways) == 0)
		(void)command_execute(&complete->options,
		    lines); /* what it did not get is not there */
	if (fclose(lines) == 0) {
		for (line = strtok_r(text, "\n", &end); line != NULL;
		     line = strtok_r(NULL, "\n", &end)) {
			if (command_word_is_plain(line))
				offer(complete, line);
		}
	}
	free(text);
}

/* ---- what may follow ---- */

static void
offer_options(const struct complete *complete)
{
	char word[64];

	for (const struct config_option *option = command_option_table; option->name != NULL;
	     option++) {
		if (complete->command != NULL
			? !command_takes_option(complete->command, option)
			: !command_takes_option(&(const struct command){ .noun = "" }, option))
			continue;
		(void)snprintf(word, sizeof(word), "--%s", option->name);
		offer(complete, word);
	}
	offer(complete, "--help");
	offer(complete, "--version");
}

static void
offer_choices(const struct complete *complete)
{
	const char *const *choices = complete->waiting->choices;

	for (; choices != NULL && *choices != NULL; choices++)
		offer(complete, *choices);
}

/* A noun is offered once, however many commands it has. */
static bool
is_first_of_noun(uint32_t index)
{
	for (uint32_t i = 0; i < index; i++) {
		if (strcmp(command_at(i)->noun, command_at(index)->noun) == 0)
			return false;
	}
	return true;
}

/* The name of a command, whose words begin at @from. */
static void
offer_commands(const struct complete *complete, uint32_t from)
{
	for (uint32_t i = 0; command_at(i) != NULL; i++) {
		const struct command *command = command_at(i);

		if (complete->count == from && is_first_of_noun(i))
			offer(complete, command->noun);
		else if (complete->count == from + 1 && command->verb != NULL &&
		    strcmp(command->noun, complete->words[from]) == 0)
			offer(complete, command->verb);
	}
}

static void
offer_operand(struct complete *complete)
{
	static int (*const asked[])(struct command_session *) = {
		[COMMAND_VOLUME] = offer_volumes,
		[COMMAND_SNAPSHOT] = offer_snapshots,
		[COMMAND_MAY_VOLUME] = offer_volumes,
		[COMMAND_NODE] = offer_nodes,
		[COMMAND_GATEWAY] = offer_gateways,
		[COMMAND_MAY_NEW] = offer_snapshots,
		[COMMAND_FILE] = NULL, /* the shell knows them */
		[COMMAND_TRASH] = offer_trash,
		[COMMAND_MAY_TRASH] = offer_trash,
		[COMMAND_MAY_NEW_NAME] = NULL, /* nobody can know */
		[COMMAND_FILES] = NULL,
		[COMMAND_MORE] = offer_snapshots,
		[COMMAND_MORE_VOLUMES] = offer_volumes,
		[COMMAND_SUBJECT] = NULL, /* in a folder that is not named yet */
		[COMMAND_USER] = offer_users,
		[COMMAND_NEW_USER] = NULL, /* nobody can know */
		[COMMAND_MAY_RIGHTS] = NULL,
	};
	uint32_t at = complete->count - complete->used;
	enum command_operand operand;

	assert(complete->count >= complete->used);
	for (uint32_t i = 0; i < at; i++) {
		if (complete->command->operands[i] == COMMAND_NOTHING ||
		    complete->command->operands[i] == COMMAND_FILES ||
		    complete->command->operands[i] == COMMAND_MAY_RIGHTS)
			return;
		if (complete->command->operands[i] == COMMAND_MORE ||
		    complete->command->operands[i] == COMMAND_MORE_VOLUMES)
			at = i; /* all that follow */
	}
	operand = complete->command->operands[at];
	if (operand != COMMAND_NOTHING && asked[operand] != NULL)
		offer_asked(complete, asked[operand]);
}

/* "--engine=z": its value is in question. */
static void
take_last(struct complete *complete)
{
	const char *value = NULL;

	if (complete->waiting != NULL || complete->last[0] != '-')
		return;
	complete->waiting = option_of(complete->last, &value);
	if (value == NULL || complete->waiting == NULL) {
		complete->waiting = NULL;
		return;
	}
	complete->head = complete->last;
	complete->head_bytes = (int)(value - complete->last);
	complete->last = value;
}

int
command_complete(int count, char *const words[], FILE *out)
{
	struct complete complete = { .last = count > 0 ? words[count - 1] : "",
		.head = "",
		.out = out };

	assert(count >= 0 && out != NULL);
	if (!take_words(&complete, words, count > 0 ? (uint32_t)count - 1 : 0))
		return 0;
	take_last(&complete);
	if (complete.waiting != NULL)
		offer_choices(&complete);
	else if (complete.last[0] == '-')
		offer_options(&complete);
	else if (complete.command == NULL)
		offer_commands(&complete, 0);
	else if (complete.command->run == NULL)
		offer_commands(&complete, complete.used); /* help */
	else {
		/* backup, and backup verify: the word may be either's. */
		if (complete.count == complete.used && complete.command->verb == NULL)
			offer_commands(&complete, complete.used - 1);
		offer_operand(&complete);
	}
	return 0;
}

int
command_complete_late(struct command_session *session)
{
	return command_fail(session, -EINVAL, "complete must be the first word");
}
