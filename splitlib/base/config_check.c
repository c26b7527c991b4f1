/* SPDX-License-Identifier: Apache-2.0 */
/* config_check.c -- see config_check.h */
#include "base/config_check.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/http_listen.h" /* its text alone */
#include "base/tcp_address.h"

void
config_check_access(const struct config_program *program, struct config_result *result,
    const char *option, const char *path, int mode)
{
	assert(option[0] != '\0');
	if (path != NULL && access(path, mode) != 0)
		config_problem(program, result, "--%s: %s: %s", option, path, strerror(errno));
}

void
config_check_place(const struct config_program *program, struct config_result *result,
    const char *option, const char *path)
{
	char copy[PATH_MAX];

	if (path == NULL)
		return;
	if (snprintf(copy, sizeof(copy), "%s", path) >= (int)sizeof(copy))
		config_problem(program, result, "--%s: %.64s...: %s", option, path,
		    strerror(ENAMETOOLONG));
	else
		config_check_access(program, result, option, dirname(copy), W_OK | X_OK);
}

void
config_check_metrics(const struct config_program *program, struct config_result *result,
    const char *text)
{
	char address[SPLIT_ADDRESS_BYTES_MAX];
	const char *wrong = "an address has at most 121 characters";

	if (text == NULL)
		return;
	if (snprintf(address, sizeof(address), "tcp://%s", text) < (int)sizeof(address))
		wrong = tcp_address_check(address, false);
	if (wrong != NULL)
		config_problem(program, result, "--metrics: '%s': %s", text, wrong);
}

void
config_refuse_open(const struct config_program *program, struct config_result *result,
    const char *text, bool is_open)
{
	struct sockaddr_storage at;
	socklen_t bytes;

	if (text != NULL && !is_open && tcp_address_parse(text, &at, &bytes) == 0 &&
	    !tcp_address_is_loopback(&at))
		config_problem(program, result, "--metrics: %s: " HTTP_OPEN_TEXT, text);
}
