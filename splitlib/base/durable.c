/* SPDX-License-Identifier: Apache-2.0 */
/* durable.c -- see durable.h */
#include "base/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

static int
write_all(int fd, const char *text, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = write(fd, text, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		text += n;
		bytes -= (size_t)n;
	}
	return fsync(fd) == 0 ? 0 : -errno;
}

/* "FOLDER/.NAME.part" */
static int
part_path(const char *path, char out[PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	int folder_bytes = slash == NULL ? 0 : (int)(slash - path + 1);
	int n = snprintf(out, PATH_MAX, "%.*s.%s.part", folder_bytes, path, path + folder_bytes);

	return n > 0 && n < PATH_MAX && path[folder_bytes] != '\0' ? 0 : -ENAMETOOLONG;
}

static int
part_open(const char *part, mode_t mode)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = open(part, flags, mode);

	if (fd < 0 && errno == EEXIST && unlink(part) == 0) /* of a process that was killed */
		fd = open(part, flags, mode);
	return fd < 0 ? -errno : fd;
}

int
durable_sync_folder(const char *path)
{
	char copy[PATH_MAX];
	int fd, rc;

	if (snprintf(copy, sizeof(copy), "%s", path) >= (int)sizeof(copy))
		return -ENAMETOOLONG;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = fsync(fd) == 0 ? 0 : -errno;
	(void)close(fd); /* nothing was written to it */
	return rc;
}

int
durable_may_write(const char *path)
{
	char copy[PATH_MAX];
	struct stat st;

	if (snprintf(copy, sizeof(copy), "%s", path) >= (int)sizeof(copy))
		return -ENAMETOOLONG;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return -EISDIR;
	return access(dirname(copy), W_OK | X_OK) == 0 ? 0 : -errno;
}

static int
name_part(const char *part, const char *path, bool replaces)
{
	assert(strcmp(part, path) != 0);
	if (replaces)
		return rename(part, path) == 0 ? 0 : -errno;
	if (renameat2(AT_FDCWD, part, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* A file system without that: link refuses a name that is there on every one. */
	if (link(part, path) != 0)
		return -errno;
	return unlink(part) == 0 ? 0 : -errno;
}

int
durable_write(const char *path, const void *text, size_t bytes, mode_t mode, bool replaces)
{
	char part[PATH_MAX];
	struct stat old;
	int rc = part_path(path, part), fd;

	assert(bytes <= DURABLE_BYTES_MAX);
	if (rc != 0)
		return rc;
	if (!replaces && lstat(path, &old) == 0)
		return -EEXIST;
	fd = part_open(part, mode);
	if (fd < 0)
		return fd;
	/* The owner goes on to read it; a user who may not give it away keeps it. */
	if (replaces && lstat(path, &old) == 0 && S_ISREG(old.st_mode))
		(void)!fchown(fd, old.st_uid, old.st_gid);
	rc = fchmod(fd, mode) == 0 ? write_all(fd, text, bytes) : -errno;
	if (close(fd) != 0 && rc == 0)
		rc = -errno;
	if (rc == 0)
		rc = name_part(part, path, replaces);
	if (rc != 0) {
		(void)unlink(part); /* what is left of it is overwritten the next time */
		return rc;
	}
	return durable_sync_folder(path);
}

int
durable_read(int at, const char *name, size_t bytes_max, char **ret_text, size_t *ret_bytes)
{
	int fd = openat(at, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	char *text;
	size_t have = 0;
	int rc = 0;

	assert(bytes_max <= DURABLE_BYTES_MAX);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > bytes_max) {
		rc = S_ISREG(st.st_mode) ? -EFBIG : -EINVAL;
		(void)close(fd);
		return rc;
	}
	text = malloc((size_t)st.st_size + 1);
	while (text != NULL && have < (size_t)st.st_size) {
		ssize_t n = read(fd, text + have, (size_t)st.st_size - have);

		if (n < 0 && errno == EINTR)
			continue;
		rc = n < 0 ? -errno : 0;
		if (n <= 0)
			break; /* shorter than it was: what there is */
		have += (size_t)n;
	}
	(void)close(fd); /* nothing was written to it */
	if (text == NULL)
		return -ENOMEM;
	if (rc != 0) {
		explicit_bzero(text, have);
		free(text);
		return rc;
	}
	text[have] = '\0';
	*ret_text = text;
	*ret_bytes = have;
	return 0;
}
