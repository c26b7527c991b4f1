/* SPDX-License-Identifier: Apache-2.0 */
/* command_check.c -- see command_check.h */
#include "start/command_check.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/config_check.h"
#include "base/unix_socket.h"
#include "cluster/gateway_state.h"
#include "kms/kms.h"
#include "meta/lmdb_check.h"
#include "meta/meta_lmdb.h"
#include "meta/meta_open.h"
#include "start/command_line.h"
#include "start/store_path.h"

/* A folder that is not there is made. Of it, and of its length, a port says more: it knows its own address. */
static void
check_local(const struct mt_command_line *values, struct config_result *result)
{
	const struct config_program *program = &mt_command_line_program;
	const char *folder = values->local;
	struct stat status;

	if (folder == NULL)
		return;
	if (folder[0] != '/')
		config_problem(program, result, "--local: '%s': a path from / on is wanted",
		    folder);
	else if (stat(folder, &status) != 0)
		config_check_place(program, result, "local", folder);
	else if (!unix_socket_folder_is_kept(folder, &status))
		config_problem(program, result, "--local: %s: " UNIX_SOCKET_FOLDER_OPEN, folder);
	else
		config_check_access(program, result, "local", folder, W_OK | X_OK);
}

static void
check_keks(const struct mt_command_line *values, struct config_result *result)
{
	struct mt_kms *kms = NULL;
	char why[MT_ERROR_BYTES];

	if (mt_kms_open(values->keks.items, values->keks.count, NULL, 0, &kms, why) != 0)
		config_problem(&mt_command_line_program, result, "--kek: %s", why);
	mt_kms_close(kms);
}

static void
check_store(const struct meta_where *where, struct config_result *result)
{
	const struct config_program *program = &mt_command_line_program;
	const char *directory = meta_where_directory(where);
	uint32_t count = result->problem_count;

	if (!mt_store_path_has_store(where)) {
		config_problem(program, result, "--meta: " MT_NO_CLUSTER_TEXT, where->place);
		return;
	}
	if (directory == NULL)
		return;
	config_check_access(program, result, "meta", directory, R_OK | W_OK | X_OK);
	if (result->problem_count == count && !lmdb_check_is_whole(directory))
		config_problem(program, result,
		    "--meta: %s: its file was cut off or written over: a store " META_LMDB_BROKEN_HELP,
		    where->place);
}

void
mt_command_line_check_files(const struct mt_command_line *values, const struct meta_where *where,
    struct config_result *result)
{
	const struct config_program *program = &mt_command_line_program;
	const struct {
		const char *option, *path;
	} files[] = {
		{ "meta-ca", values->meta_ca },
		{ "meta-cert", values->meta_cert },
		{ "meta-key", values->meta_key },
		{ "meta-password-file", values->meta_password_file },
	};

	assert(result->is_check && where->place != NULL);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		config_check_access(program, result, files[i].option, files[i].path, R_OK);
	config_check_metrics(program, result, values->metrics);
	check_local(values, result);
	check_keks(values, result);
	check_store(where, result);
}
