/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_export.c -- cleave export NAME FILE
 *
 *	NAME --agent, qemu-img--> a file without a name, in FILE's folder --all is in it, and on the disk--> FILE
 *
 * A file without a name goes with whoever has it open, so one that was killed leaves nothing. Where the file system has
 * none (NFS), it is called FILE.XXXXXX, and an export that was killed leaves that.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "cleave/loop.h"
#include "command_file.h"
#include "command_image.h"

#define EXPORT_PATH_BYTES (IMAGE_PATH_BYTES + 16u)
#define EXPORT_STAT_BLOCK_BYTES 512u /* stat(2) */

struct export
{
	struct command_session *session;
	int fd;                       /* of what is written; -1: not open */
	char path[EXPORT_PATH_BYTES]; /* where qemu-img finds it */
	bool has_name;                /* path is one in the folder, and not of /proc */
};

static const char *
export_format(const struct command_options *options)
{
	const char *dot = strrchr(options->file, '.');

	assert(options->file != NULL);
	if (options->format != NULL)
		return options->format;
	return dot != NULL && strcmp(dot, ".qcow2") == 0 ? "qcow2" : "raw";
}

/* The file system knows no files without names. */
static int
export_open_named(struct export *export)
{
	char whole[IMAGE_PATH_BYTES];
	mode_t mask = umask(0);

	(void)umask(mask);
	command_image_path(export->session->options->file, whole);
	(void)snprintf(export->path, sizeof(export->path), "%s.XXXXXX", whole);
	export->fd = mkostemp(export->path, O_CLOEXEC);
	if (export->fd < 0)
		return -errno;
	export->has_name = true;
	(void)fchmod(export->fd, 0666 & ~mask);
	return 0;
}

/* Is it our file that is there? /proc may be another process namespace's, in which our number is somebody else's. */
static bool
export_is_found(const struct export *export)
{
	struct stat ours, found;

	return access(export->path, R_OK | W_OK) == 0 && fstat(export->fd, &ours) == 0 &&
	    stat(export->path, &found) == 0 && ours.st_dev == found.st_dev &&
	    ours.st_ino == found.st_ino;
}

/* An empty file in the folder of the one that it becomes, with the rights that a new file gets. */
static int
export_open(struct export *export)
{
	const char *file = export->session->options->file, *slash = strrchr(file, '/');
	char folder[PATH_MAX];

	(void)snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int)(slash - file) + 1,
	    slash == NULL ? "." : file);
	export->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	if (export->fd < 0)
		return errno == EOPNOTSUPP || errno == EISDIR ? export_open_named(export) : -errno;
	(void)snprintf(export->path, sizeof(export->path), "/proc/%d/fd/%d", (int)getpid(),
	    export->fd);
	if (export_is_found(export))
		return 0;
	(void)close(export->fd); /* there is no /proc: nobody finds it */
	return export_open_named(export);
}

static int
export_begin(struct export *export)
{
	struct command_session *session = export->session;
	const struct command_options *options = session->options;
	struct stat status;
	bool is_there = lstat(options->file, &status) == 0;
	int rc;

	assert(options->file != NULL && export->fd < 0);
	if (strcmp(options->file, "-") == 0)
		return command_fail(session, -EINVAL,
		    "'-' is no file of an image: these are written in any order. cleave backup writes to "
		    "standard output");
	if (is_there && !S_ISREG(status.st_mode))
		return command_fail(session, -EEXIST, "%.200s is no regular file", options->file);
	if (is_there && !options->is_forced)
		return command_fail(session, -EEXIST, "%.200s exists; --force replaces it",
		    options->file);
	rc = export_open(export);
	return rc == 0 ? 0 : command_fail(session, rc, "%.200s: %s", options->file, strerror(-rc));
}

/* A name in the folder, for a moment: a link replaces nothing. */
static int
export_link(struct export *export)
{
	char path[sizeof(export->path)], whole[IMAGE_PATH_BYTES];
	uint8_t id[BACKUP_ID_BYTES];
	uint32_t number;

	assert(!export->has_name);
	_Static_assert(sizeof(id) >= sizeof(number), "a number is a part of an id");
	command_new_id(id);
	memcpy(&number, id, sizeof(number));
	command_image_path(export->session->options->file, whole);
	(void)snprintf(path, sizeof(path), "%s.%08" PRIx32, whole, number);
	if (linkat(AT_FDCWD, export->path, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0)
		return -errno;
	memcpy(export->path, path, sizeof(path));
	export->has_name = true;
	return 0;
}

/* All is in the file: it is on its disk, and FILE. */
static int
export_finish(struct export *export)
{
	struct command_session *session = export->session;
	const char *file = session->options->file;
	int rc = fsync(export->fd) == 0 ? 0 : -errno;

	if (rc == 0 && !export->has_name)
		rc = export_link(export);
	if (rc == 0)
		rc = command_give_name(export->path, file, session->options->is_forced);
	if (rc == -EEXIST)
		return command_fail(session, rc,
		    "%.200s exists, and did not when the export began; --force replaces it", file);
	export->has_name = export->has_name && rc != 0;
	return rc == 0 ? 0 : command_fail(session, rc, "%.200s: %s", file, strerror(-rc));
}

static void
export_close(struct export *export)
{
	if (export->has_name)
		(void)unlink(export->path);
	if (export->fd >= 0)
		(void)close(export->fd);
}

/*
 * Nobody used the volume before the copy. Has somebody opened it for writing since? Its attach number says so, also when that
 * one has gone again. A snapshot does not change; nor is anything checked with --force.
 */
static int
export_check_use(struct command_session *session, const struct cleave_volume_info *before)
{
	const struct command_options *options = session->options;
	struct cleave_volume_info now;
	int rc;

	if (options->is_forced || strchr(options->name, '@') != NULL)
		return 0;
	rc = command_find_volume(session, &now);
	if (rc != 0)
		return rc;
	return now.id == before->id && now.attach == before->attach
	    ? 0
	    : command_fail(session, -EBUSY,
		  "volume '%.64s' was %s while it was copied, and the copy would be of no one moment: copy a "
		  "snapshot of it (NAME@SNAPSHOT), or insist (--force)",
		  options->name, now.id == before->id ? "written" : "renamed");
}

/* The snapshot of VOLUME@SNAPSHOT is there: else an agent and qemu-img would say so, each in its own way. A volume: 0. */
static int
export_find_snapshot(struct command_session *session)
{
	const char *name = session->options->name, *at = strchr(name, '@');
	char volume[CLEAVE_NAME_BYTES_MAX + 1];
	struct cleave_snapshot *snapshots;
	bool is_there = false;
	uint32_t count;
	int rc;

	if (at == NULL || strchr(at + 1, '@') != NULL)
		return 0;
	(void)snprintf(volume, sizeof(volume), "%.*s", (int)(at - name), name);
	rc = command_snapshots_of(session, volume, &snapshots, &count);
	if (rc != 0)
		return rc;
	for (uint32_t i = 0; i < count; i++)
		is_there = is_there || strcmp(snapshots[i].name, name) == 0;
	free(snapshots);
	return is_there ? 0
			: command_fail(session, -ENOENT,
			      "volume '%.64s' has no snapshot '%.64s': cleave snapshot list %.64s",
			      volume, at + 1, volume);
}

/* The file has its name. */
static int
export_say(const struct export *export, uint64_t begun_ns)
{
	struct command_session *session = export->session;
	struct stat file = { .st_blocks = 0 };

	(void)fstat(export->fd, &file);
	return command_image_say(session,
	    &(struct image_done){ .file = session->options->file,
		.format = export_format(session->options),
		.file_bytes = (uint64_t)file.st_blocks * EXPORT_STAT_BLOCK_BYTES,
		.begun_ns = begun_ns });
}

int
command_export(struct command_session *session)
{
	const char *argv[] = { IMAGE_TOOL, "convert", "-W", "-f", "raw", "-O",
		export_format(session->options), NULL, NULL,
		session->options->has_progress ? "-p" : NULL, NULL };
	struct export export = { .session = session, .fd = -1 };
	struct image_agent agent = { .pid = 0 };
	struct cleave_volume_info info = { .id = 0 };
	bool is_snapshot = strchr(session->options->name, '@') != NULL;
	uint64_t begun_ns = loop_now_ns(session->loop);
	int rc;

	assert(session->options->file != NULL && session->options->name != NULL);
	command_image_watch_signals();
	rc = command_find_volume(session, &info);
	if (rc == 0)
		rc = export_find_snapshot(session);
	if (rc == 0)
		rc = command_check_use(session);
	if (rc == 0)
		rc = export_begin(&export);
	if (rc == 0)
		rc = command_image_start(session, session->options->name, is_snapshot ? 0 : info.id,
		    false, &agent);
	argv[7] = agent.uri;
	argv[8] = export.path;
	if (rc == 0)
		rc = command_image_run(session, argv, NULL, 0);
	command_image_stop(&agent);
	if (rc == 0)
		rc = export_check_use(session, &info);
	if (rc == 0)
		rc = export_finish(&export);
	if (rc == 0)
		rc = export_say(&export, begun_ns);
	export_close(&export);
	return rc;
}
