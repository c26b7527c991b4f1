/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_export.c -- cleave export NAME FILE
 *
 *	NAME --agent, qemu-img--> an empty file beside FILE --all is in it, and on the disk--> FILE
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "command_file.h"
#include "command_image.h"

static const char *
export_format(const struct command_options *options)
{
	const char *dot = strrchr(options->file, '.');

	assert(options->file != NULL);
	if (options->format != NULL)
		return options->format;
	return dot != NULL && strcmp(dot, ".qcow2") == 0 ? "qcow2" : "raw";
}

/* An empty file beside the one that it becomes, with the rights that a new file gets. */
static int
export_begin(struct command_session *session, char path[PATH_MAX + 16])
{
	const struct command_options *options = session->options;
	mode_t mask = umask(0);
	struct stat status;
	bool is_there = lstat(options->file, &status) == 0;
	char whole[PATH_MAX + 2];
	int fd;

	assert(options->file != NULL);
	(void)umask(mask);
	path[0] = '\0';
	if (is_there && !S_ISREG(status.st_mode))
		return command_fail(session, -EEXIST, "%.200s is no regular file", options->file);
	if (is_there && !options->is_forced)
		return command_fail(session, -EEXIST, "%.200s exists; --force replaces it",
		    options->file);
	command_image_path(options->file, whole);
	(void)snprintf(path, PATH_MAX + 16, "%s.XXXXXX", whole);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		path[0] = '\0';
		return command_fail(session, -errno, "%.200s: %s", options->file, strerror(errno));
	}
	(void)fchmod(fd, 0666 & ~mask);
	(void)close(fd);
	return 0;
}

static int
export_finish(struct command_session *session, const char *path)
{
	assert(path[0] != '\0' && session->options->file != NULL);
	const char *file = session->options->file;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 || fsync(fd) != 0 || rename(path, file) != 0 ? -errno
								     : command_sync_folder(file);

	assert(rc <= 0);
	if (fd >= 0)
		(void)close(fd);
	return rc == 0 ? 0 : command_fail(session, rc, "%.200s: %s", file, strerror(-rc));
}

int
command_export(struct command_session *session)
{
	const char *argv[] = { IMAGE_TOOL, "convert", "-W", "-f", "raw", "-O",
		export_format(session->options), NULL, NULL,
		session->options->has_progress ? "-p" : NULL, NULL };
	struct image_agent agent = { .pid = 0 };
	char path[PATH_MAX + 16] = "";
	int rc;

	assert(session->options->file != NULL && session->options->name != NULL);
	command_image_watch_signals();
	rc = command_find_volume(session);
	if (rc == 0)
		rc = command_check_use(session);
	if (rc == 0)
		rc = export_begin(session, path);
	if (rc == 0)
		rc = command_image_start(session, session->options->name, 0, &agent);
	argv[7] = agent.uri;
	argv[8] = path;
	if (rc == 0)
		rc = command_image_run(session, argv, NULL, 0);
	command_image_stop(&agent);
	if (rc == 0)
		rc = export_finish(session, path);
	if (rc != 0 && path[0] != '\0')
		(void)unlink(path);
	return rc;
}
