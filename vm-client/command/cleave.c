/* SPDX-License-Identifier: Apache-2.0 */
/* cleave.c -- cleave, the operator's command: main, nothing else; see command.h */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/descriptors.h"
#include "base/output.h"
#include "command.h"

/* Output must have been written: a full disk or a closed pipe is no success. */
static int
finish_output(int status, int failure)
{
	return output_finish("cleave", status, failure);
}

int
main(int argc, char *argv[])
{
	struct command_options options;
	struct config_result result;
	int rc, status;

	descriptors_hold_standard();
	status = command_recover_exec(argc - 1, argv + 1);
	if (status != COMMAND_NOT_OURS)
		return status;
	if (argc > 1 && strcmp(argv[1], "complete") == 0)
		return finish_output(command_complete(argc - 2, argv + 2, stdout),
		    COMMAND_EXIT_FAILURE);
	status = 0;
	(void)signal(SIGPIPE, SIG_IGN); /* a reader that left is an error with a message */
	rc = command_parse(argc, argv, &options, &result);
	if (rc == 1)
		return finish_output(0, COMMAND_EXIT_FAILURE);
	if (rc != 0)
		return rc == -EINVAL ? COMMAND_EXIT_USAGE : command_failure(&options);
	if (options.is_help)
		command_print_help(&options, stdout);
	else
		status = command_execute(&options, stdout);
	config_result_fini(&result);
	return finish_output(status, command_failure(&options));
}
