/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_recover.c -- `cleave recover`: the one command that needs no gateway, but must be one
 *
 * It works on the metadata store itself, with the code that a gateway has for it.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "command.h"

#define GATEWAY_PROGRAM "cleave-gateway"

/* Behind other words, its options would be taken for those of `cleave`. */
int
command_recover(struct command_session *session)
{
	return command_fail(session, -EINVAL, "'recover' must be the first word");
}

/* Returns only where there is no such program. */
static void
try_beside(char *words[], const char *folder)
{
	char path[PATH_MAX];
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

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

int
command_recover_exec(int argc, char *const argv[])
{
	char **words = calloc((size_t)argc + 3, sizeof(*words));
	static char program[] = GATEWAY_PROGRAM, recover[] = "--recover";

	assert(argc >= 0);
	if (words == NULL) {
		fprintf(stderr, "cleave: out of memory\n");
		return COMMAND_EXIT_FAILURE;
	}
	words[0] = program;
	words[1] = recover;
	for (int i = 0; i < argc; i++)
		words[i + 2] = argv[i];
	try_beside(words, "");
	try_beside(words, "../middletier/");
	(void)execvp(GATEWAY_PROGRAM, words);
	fprintf(stderr, "cleave: %s: %s\n", GATEWAY_PROGRAM, strerror(errno));
	free(words);
	return COMMAND_EXIT_FAILURE;
}
