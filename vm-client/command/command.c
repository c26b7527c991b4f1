/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.c -- the command line, and the client that a command runs with
 *
 * Each command says which words follow it (command_table.c) and which options it takes (command_options.c); any other is
 * refused.
 */
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/config_help.h"
#include "base/num.h"
#include "base/plain.h"
#include "cleave/health.h"
#include "cleave/wire.h"
#include "command_key.h"
#include "library/gateways.h"

#define COMMAND_CONNECT_NS_MAX NUM_S(5)
#define COMMAND_LINE_BYTES 256
#define COMMAND_LEVEL_MAX 1000 /* the gateway knows each engine's range */

static const struct config_program program = {
	.name = "cleave",
	.synopsis = "[options] COMMAND",
	.purpose = "Asks a gateway of a Cleave cluster about its volumes, nodes and state, and "
		   "changes its volumes.",
	.options = command_option_table,
	.operands_max = CONFIG_OPERANDS_MAX, /* a chain of backups */
};

/* The command line. */

static int __attribute__((format(printf, 1, 2))) usage_error(const char *format, ...)
{
	va_list args;

	assert(format != NULL && format[0] != '\0');
	fprintf(stderr, "cleave: ");
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ", see --help\n");
	return -EINVAL;
}

/* A noun of the table as @word says it; NULL: there is none. */
static const char *
noun_of(const char *word)
{
	for (uint32_t i = 0; command_at(i) != NULL; i++) {
		if (strcmp(word, command_at(i)->noun) == 0)
			return command_at(i)->noun;
	}
	return NULL;
}

static int
refuse_command(const char *const words[], uint32_t count)
{
	assert(count == 0 || words[0] != NULL);
	if (count == 0)
		return usage_error("no command was given");
	for (uint32_t i = 0; command_at(i) != NULL; i++) {
		if (strcmp(words[0], command_at(i)->noun) != 0)
			continue;
		if (count == 1)
			return usage_error("'%s' needs another word", words[0]);
		return usage_error("there is no command '%s %s'", words[0], words[1]);
	}
	return usage_error("there is no command '%s'", words[0]);
}

static int
check_options(struct command_options *options)
{
	const struct command *command = options->command;
	const char *foreign;
	char *end;
	long level;

	assert(command != NULL && command->run != NULL);
	foreign = command_foreign_option(command, options);
	if (foreign != NULL)
		return usage_error("'%s%s%s' takes no --%s", command->noun,
		    command->verb == NULL ? "" : " ", command->verb == NULL ? "" : command->verb,
		    foreign);
	if (options->is_quiet && (options->is_json || options->has_counters))
		return usage_error("--quiet says nothing, and --%s a lot: one of them",
		    options->is_json ? "json" : "counters");
	if ((command->options & COMMAND_SIZE) != 0 && options->size_bytes == 0 &&
	    !command_has_operand(command, COMMAND_FILE) &&
	    !command_has_operand(command, COMMAND_FILES)) /* what is copied has a size */
		return usage_error("--size is required: how large volume '%s' is to be",
		    options->name);
	if (options->size_bytes % CLEAVE_BLOCK_BYTES != 0)
		return usage_error("--size: must be a multiple of 4096 bytes");
	if (options->level_text == NULL)
		return 0;
	errno = 0;
	level = strtol(options->level_text, &end, 10);
	if (errno != 0 || end == options->level_text || *end != '\0' ||
	    level < -COMMAND_LEVEL_MAX || level > COMMAND_LEVEL_MAX)
		return usage_error("--level: '%s' is not a level", options->level_text);
	options->level = (int)level;
	return 0;
}

/* `help` and what follows it. */
static int
take_help(struct command_options *options, const char *const words[], uint32_t count)
{
	uint32_t used = 0;

	assert(options->command == NULL || options->command->run == NULL);
	options->is_help = true;
	options->command = NULL;
	if (count == 0)
		return 0;
	options->command = command_find(words, count, &used);
	if (options->command == NULL && count > 1)
		return refuse_command(words, count);
	if (options->command != NULL)
		return used == count ? 0 : usage_error("did not expect '%s'", words[used]);
	options->noun = noun_of(words[0]);
	return options->noun != NULL ? 0 : refuse_command(words, count);
}

/* A word that @operand asks for and that is not there: 0, or after a message -EINVAL. */
static int
refuse_absent(const struct command *command, enum command_operand operand)
{
	static const char *const wants[] = {
		[COMMAND_VOLUME] = "the NAME of a volume",
		[COMMAND_SNAPSHOT] = "the NAME of a snapshot: VOLUME@SNAPSHOT",
		[COMMAND_NODE] = "a node: see cleave node list",
		[COMMAND_GATEWAY] = "a gateway: see cleave gateway list",
		[COMMAND_NEW_NAME] = "the NEW name, too",
		[COMMAND_FILE] = "a FILE",
		[COMMAND_TRASH] = "the NAME or ID of a volume in the trash: see cleave trash list",
		[COMMAND_FILES] = "a FILE",
		[COMMAND_SUBJECT] =
		    "whose key: gateway/N, node/N, client/NAME, admin/NAME or monitor/NAME",
		[COMMAND_USER] = "a user: see cleave user list",
		[COMMAND_NEW_USER] = "a NAME, that of a key: of client/db1 it is db1",
	};

	if (operand == COMMAND_MAY_VOLUME || operand == COMMAND_MAY_NEW ||
	    operand == COMMAND_MAY_TRASH || operand == COMMAND_MAY_NEW_NAME ||
	    operand == COMMAND_MORE || operand == COMMAND_MORE_VOLUMES ||
	    operand == COMMAND_MAY_RIGHTS)
		return 0;
	assert(operand < NUM_COUNT(wants) && wants[operand] != NULL);
	return usage_error("'%s%s%s' needs %s", command->noun, command->verb == NULL ? "" : " ",
	    command->verb == NULL ? "" : command->verb, wants[operand]);
}

static const char **
operand_at(struct command_options *options, enum command_operand operand)
{
	assert(operand != COMMAND_NOTHING);
	if (operand == COMMAND_FILE)
		return &options->file;
	if (operand == COMMAND_NEW_NAME || operand == COMMAND_MAY_NEW ||
	    operand == COMMAND_MAY_NEW_NAME)
		return &options->new_name;
	return &options->name;
}

/* As many of the @count words as leave one for each operand behind @operand. */
static uint32_t
take_files(struct command_options *options, const enum command_operand *operand,
    const char *const words[], uint32_t count)
{
	uint32_t behind = 0;

	while (operand[1 + behind] != COMMAND_NOTHING)
		behind++;
	options->files = words;
	options->file_count = count > behind ? count - behind : 0;
	return options->file_count;
}

static int
take_words(struct command_options *options, const char *const words[], uint32_t count)
{
	uint32_t used = 0;
	int rc;

	options->command = command_find(words, count, &used);
	if (options->command == NULL)
		return refuse_command(words, count);
	assert(used > 0 && used <= count);
	if (options->command->run == NULL)
		return take_help(options, words + 1, count - 1);
	for (const enum command_operand *operand = options->command->operands;
	     *operand != COMMAND_NOTHING; operand++) {
		if ((*operand == COMMAND_FILES || *operand == COMMAND_MORE ||
			*operand == COMMAND_MORE_VOLUMES || *operand == COMMAND_MAY_RIGHTS) &&
		    used < count) {
			used += take_files(options, operand, words + used, count - used);
			if (options->file_count > 0)
				continue;
		} else if (used < count) {
			*operand_at(options, *operand) = words[used++];
			continue;
		}
		rc = refuse_absent(options->command, *operand);
		if (rc != 0)
			return rc;
	}
	if (used < count)
		return usage_error("did not expect '%s'", words[used]);
	return check_options(options);
}

int
command_parse(int argc, char *const argv[], struct command_options *ret_options,
    struct config_result *ret_result)
{
	int rc;

	assert(argc > 0 && argv[argc] == NULL);
	assert(ret_options != NULL && ret_result != NULL);
	*ret_options = (struct command_options){ 0 };
	*ret_result = (struct config_result){ 0 };
	if (command_wants_help(argc, argv))
		return command_take_help(ret_options, argc, argv);
	rc = config_parse(&program, argc, argv, ret_options, ret_result);
	if (rc != 0)
		return rc;
	rc = take_words(ret_options, ret_result->operands, ret_result->operand_count);
	if (rc == 0)
		rc = gateways_default("cleave", &ret_options->gateways);
	if (rc != 0)
		config_result_fini(ret_result);
	return rc;
}

static void
print_line(const struct command *command, FILE *out)
{
	char synopsis[COMMAND_LINE_BYTES];

	command_synopsis(command, synopsis, sizeof(synopsis));
	fprintf(out, "  ");
	config_print_wrapped(out, synopsis, 2, 8);
	fprintf(out, "      ");
	config_print_wrapped(out, command->help, 6, 6);
}

void
command_print_help(const struct command_options *options, FILE *out)
{
	assert(options->command == NULL || options->is_help);
	assert(out != NULL);
	if (options->command != NULL) {
		command_print_one(options->command, out);
		return;
	}
	if (options->noun == NULL)
		config_print_help(&program, out);
	fprintf(out, "%sCommands; options may stand anywhere:\n",
	    options->noun == NULL ? "\n" : "");
	for (uint32_t i = 0; command_at(i) != NULL; i++) {
		if (options->noun == NULL || strcmp(options->noun, command_at(i)->noun) == 0)
			print_line(command_at(i), out);
	}
	fprintf(out,
	    "\n`cleave COMMAND --help` explains one, with its options.\n"
	    "Exit status: 0 done, 1 failed, 2 the command line is wrong.\n"
	    "Of status: 0 HEALTH OK, 1 WARN, 2 ERROR, or no gateway answers.\n");
}

/* Running. */

int
command_fail(struct command_session *session, int rc, const char *format, ...)
{
	va_list args;

	assert(format != NULL);
	assert(rc < 0);
	va_start(args, format);
	(void)vsnprintf(session->error, sizeof(session->error), format, args); /* cut if too long */
	va_end(args);
	return rc;
}

int
command_fail_output(struct command_session *session, int rc)
{
	/* A loss is told once: not there, in JSON, nor at the end of the program. */
	session->exit_status = command_failure(session->options);
	__fpurge(session->out);
	clearerr(session->out);
	return command_fail(session, rc, "standard output: %s", strerror(-rc));
}

/* The authority's commands ask no gateway. So they want no key of who types them, and there may be none yet. */
static bool
asks_nobody(const struct command *command)
{
	return strcmp(command->noun, "key") == 0 && command->run != command_key_publish;
}

static int
session_init(struct command_session *session)
{
	const struct command_options *options = session->options;
	const struct cleave_client_options client_options = {
		.loop = session->loop,
		.gateways = options->gateways.items,
		.gateway_count = options->gateways.count,
		.control_timeout_ns = options->timeout_ns,
		.connect_timeout_ns = num_min(options->timeout_ns, COMMAND_CONNECT_NS_MAX),
		.is_impatient = true,
		.key = options->secure.key,
		.security = options->secure.security,
		.revoked = options->secure.revoked,
	};
	char error[CLEAVE_ERROR_BYTES_MAX] = "";
	int rc;

	assert(options->timeout_ns > 0);
	assert(session->client == NULL && options->gateways.count > 0);
	if (asks_nobody(options->command))
		return 0;
	rc = cleave_client_create(&client_options, &session->client, error);
	if (rc == 0)
		return 0;
	return command_fail(session, rc, "%s", error[0] != '\0' ? error : strerror(-rc));
}

/* Programs read one thing, also where it failed. cleave status has told it by itself. */
static void
print_json_error(const struct command_session *session, int rc)
{
	json_t *object = json_pack("{s:s, s:i}", "error",
	    session->error[0] != '\0' ? session->error : strerror(-rc), "errno", -rc);

	assert(rc < 0);
	if (object != NULL)
		(void)command_print_json(object, session->out);
	json_decref(object);
}

int
command_failure(const struct command_options *options)
{
	/* 1 says that there is a warning: of a cluster of which nothing is known. */
	return options->command != NULL && options->command->run == command_status
	    ? (int)CLEAVE_HEALTH_ERROR
	    : COMMAND_EXIT_FAILURE;
}

int
command_execute(const struct command_options *options, FILE *out)
{
	struct command_session session = { .options = options, .out = out };
	int rc;

	assert(out != NULL && !options->is_help);
	assert(options->command != NULL && options->command->run != NULL);
	session.loop = loop_ev_create(0);
	if (session.loop == NULL) {
		rc = command_fail(&session, -errno, "the event loop: %s", strerror(errno));
	} else {
		rc = session_init(&session);
		if (rc == 0)
			rc = options->command->run(&session);
		cleave_client_destroy(session.client);
		loop_destroy(session.loop);
	}
	if (rc == 0)
		return session.exit_status;
	if (options->is_json && session.exit_status == 0)
		print_json_error(&session, rc);
	if (!options->is_quiet)
		fprintf(stderr, "cleave: %s\n",
		    session.error[0] != '\0' ? session.error : strerror(-rc));
	return session.exit_status != 0 ? session.exit_status : command_failure(options);
}

/* Replies. */

int
command_print_json(const json_t *value, FILE *out)
{
	char *text = json_dumps(value, JSON_INDENT(2));

	assert(value != NULL);
	if (text == NULL)
		return -ENOMEM;
	fprintf(out, "%s\n", text);
	free(text);
	return 0;
}

uint64_t
command_u64(const json_t *object, const char *member)
{
	json_int_t value = json_integer_value(json_object_get(object, member));

	assert(member != NULL);
	return value < 0 ? 0 : (uint64_t)value;
}

const char *
command_text(const json_t *object, const char *member)
{
	const char *text = json_string_value(json_object_get(object, member));

	assert(member != NULL);
	return text == NULL ? "?" : text;
}

/* Texts are short: what there is no memory for goes. */
static json_t *
plain_string(const json_t *value)
{
	char *text = strdup(json_string_value(value));
	json_t *plain = json_string(text == NULL ? "" : plain_text(text));

	free(text);
	return plain;
}

void
command_plain(json_t *value)
{
	const char *name;
	json_t *member;
	void *next;
	size_t i;

	json_object_foreach_safe(value, next, name, member)
	{
		if (json_is_string(member))
			json_object_set_new(value, name, plain_string(member));
		else
			command_plain(member);
	}
	json_array_foreach(value, i, member)
	{
		if (json_is_string(member))
			json_array_set_new(value, i, plain_string(member));
		else
			command_plain(member);
	}
}
