/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_recover.c -- `cleave recover` and `cleave meta`: commands that need no gateway, but must be one
 *
 * They work on the metadata store itself, with the code that a gateway has for it.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"

#define GATEWAY_PROGRAM "cleave-gateway"

/* Each of them, and its name for the gateway's program. */
static const struct {
	const char *noun, *verb; /* verb NULL: it has none */
	const char *option;      /* NULL: --to says it */
} commands[] = {
	{ "recover", NULL, "--recover" },
	{ "meta", "dump", "--dump" },
	{ "meta", "load", "--load" },
	{ "meta", "move", NULL },
};

/* Behind other words, their options would be taken for those of `cleave`. */
int
command_recover(struct command_session *session)
{
	assert(session->options->command->run == command_recover);
	return command_fail(session, -EINVAL, "'%s' must be the first word",
	    session->options->command->noun);
}

/* Returns only where there is no such program. */
static void
try_beside(char *words[], const char *folder)
{
	char path[PATH_MAX];
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	assert(words[0] != NULL && folder != NULL);
	if (bytes <= 0)
		return;
	path[bytes] = '\0';
	slash = strrchr(path, '/');
	if (slash == NULL ||
	    snprintf(slash + 1, sizeof(path) - (size_t)(slash + 1 - path), "%s" GATEWAY_PROGRAM,
		folder) >= PATH_MAX - (slash + 1 - path))
		return;
	(void)execv(path, words);
}

/* Options of a move as the gateway's program has them. NULL: no memory. */
static char *
move_word(const char *word)
{
	size_t bytes = strlen(word) + sizeof("--move-to");
	char *text = malloc(bytes);

	if (text == NULL)
		return NULL;
	if (strncmp(word, "--from", 6) == 0 && (word[6] == '\0' || word[6] == '='))
		(void)snprintf(text, bytes, "--meta%s", word + 6);
	else if (strncmp(word, "--to", 4) == 0 && (word[4] == '\0' || word[4] == '='))
		(void)snprintf(text, bytes, "--move-to%s", word + 4);
	else
		(void)snprintf(text, bytes, "%s", word);
	return text;
}

static bool
is_there(int argc, char *const argv[], const char *option)
{
	size_t bytes = strlen(option);

	assert(strncmp(option, "--", 2) == 0);
	for (int i = 0; i < argc; i++)
		if (strncmp(argv[i], option, bytes) == 0 &&
		    (argv[i][bytes] == '\0' || argv[i][bytes] == '='))
			return true;
	return false;
}

/* Frees nothing: it becomes another program, or ends. */
static int
gateway_exec(const char *option, int argc, char *const argv[])
{
	char **words = calloc((size_t)argc + 3, sizeof(*words));
	static char program[] = GATEWAY_PROGRAM;
	int count = 0;

	assert(argc >= 0 && (argc == 0 || argv[0] != NULL));
	if (words == NULL)
		goto err_memory;
	words[count++] = program;
	if (option != NULL && (words[count++] = strdup(option)) == NULL)
		goto err_memory;
	for (int i = 0; i < argc; i++) {
		words[count] = option == NULL ? move_word(argv[i]) : argv[i];
		if (words[count++] == NULL)
			goto err_memory;
	}
	try_beside(words, "");
	try_beside(words, "../middletier/");
	(void)execvp(GATEWAY_PROGRAM, words);
	fprintf(stderr, "cleave: %s: %s\n", GATEWAY_PROGRAM, strerror(errno));
	return COMMAND_EXIT_FAILURE;

err_memory:
	fprintf(stderr, "cleave: out of memory\n");
	return COMMAND_EXIT_FAILURE;
}

int
command_recover_exec(int argc, char *const argv[])
{
	assert(argc >= 0 && argv[argc] == NULL);
	for (size_t i = 0; i < NUM_COUNT(commands); i++) {
		int used = commands[i].verb == NULL ? 1 : 2;

		if (argc < used || strcmp(argv[0], commands[i].noun) != 0 ||
		    (used == 2 && strcmp(argv[1], commands[i].verb) != 0))
			continue;
		/* Without it, this would be a gateway. */
		if (commands[i].option == NULL && !is_there(argc, argv, "--to") &&
		    !is_there(argc, argv, "--help")) {
			fprintf(stderr, "cleave: meta move: --to STORE is required, see --help\n");
			return COMMAND_EXIT_USAGE;
		}
		return gateway_exec(commands[i].option, argc - used, argv + used);
	}
	return COMMAND_NOT_OURS;
}
