/* SPDX-License-Identifier: Apache-2.0 */
/* exports_file.c -- see exports_file.h */
#include "exports_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

#define FILE_MODE 0644
#define FILE_SPACE " \t\r"

/* ---- a line ---- */

/* As gateways take it: what no volume can be called is a slip, such as quotes around it. */
static bool
part_is_possible(const char *part, size_t bytes)
{
	static const char letters[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

	return bytes > 0 && bytes <= CLEAVE_VOLUME_NAME_BYTES_MAX && part[0] != '-' &&
	    part[0] != '.' && strspn(part, letters) >= bytes;
}

static bool
name_is_possible(const char *name, size_t bytes)
{
	const char *at = memchr(name, '@', bytes);
	size_t first = at == NULL ? bytes : (size_t)(at - name);

	assert(bytes > 0 && name[bytes] == '\0');
	return part_is_possible(name, first) &&
	    (at == NULL || part_is_possible(at + 1, bytes - first - 1));
}

int
exports_line_parse(const char *text, size_t bytes, struct exports_line *ret_line, char *ret_error)
{
	char copy[EXPORTS_FILE_LINE_BYTES_MAX + 1];
	struct exports_line line = { .is_read_only = false };
	char *rest = copy, *word;

	assert(ret_line != NULL && ret_error != NULL);
	ret_error[0] = '\0';
	if (bytes > EXPORTS_FILE_LINE_BYTES_MAX || memchr(text, '\0', bytes) != NULL) {
		(void)snprintf(ret_error, EXPORTS_FILE_ERROR_BYTES, "%s",
		    bytes > EXPORTS_FILE_LINE_BYTES_MAX ? "the line is too long"
							: "this is no text");
		return -EINVAL;
	}
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	copy[strcspn(copy, "#")] = '\0';
	word = strtok_r(copy, FILE_SPACE, &rest);
	if (word == NULL)
		return 0;
	if (!name_is_possible(word, strlen(word))) {
		(void)snprintf(ret_error, EXPORTS_FILE_ERROR_BYTES,
		    "'%.64s' is no name of a volume or VOLUME@SNAPSHOT", word);
		return -EINVAL;
	}
	(void)snprintf(line.name, sizeof(line.name), "%s", word);
	while ((word = strtok_r(NULL, FILE_SPACE, &rest)) != NULL) {
		if (strcmp(word, "read-only") != 0) {
			(void)snprintf(ret_error, EXPORTS_FILE_ERROR_BYTES,
			    "'%.64s' is no option: read-only is the only one", word);
			return -EINVAL;
		}
		line.is_read_only = true;
	}
	*ret_line = line;
	return 1;
}

/* ---- the file ---- */

static int
file_fail(const char *path, int rc, char *ret_error)
{
	assert(rc < 0);
	(void)snprintf(ret_error, EXPORTS_FILE_ERROR_BYTES, "%.200s: %s", path, strerror(-rc));
	return rc;
}

static uint32_t
file_line_count(const char *text, size_t bytes)
{
	uint32_t count = 0;

	for (size_t i = 0; i < bytes; i++)
		count += text[i] == '\n';
	return count;
}

/* The whole of it, which is the caller's to free; "" of a file that there is not. */
static int
file_load(const char *path, char **ret_text, size_t *ret_bytes, mode_t *ret_mode)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	size_t bytes = 0;
	struct stat status;
	char *text;

	*ret_mode = FILE_MODE;
	if (fd < 0 && errno != ENOENT)
		return -errno;
	text = malloc(EXPORTS_FILE_BYTES_MAX + 1);
	if (text == NULL)
		rc = -ENOMEM;
	if (rc == 0 && fd >= 0 && fstat(fd, &status) == 0)
		*ret_mode = status.st_mode & 07777;
	while (rc == 0 && fd >= 0) {
		ssize_t n = read(fd, text + bytes, EXPORTS_FILE_BYTES_MAX + 1 - bytes);

		if (n < 0 && errno != EINTR)
			rc = -errno;
		if (n == 0)
			break;
		bytes += n > 0 ? (size_t)n : 0;
		if (bytes > EXPORTS_FILE_BYTES_MAX)
			rc = -EFBIG;
	}
	if (rc == 0 && file_line_count(text, bytes) > EXPORTS_FILE_LINES_MAX)
		rc = -EFBIG;
	if (fd >= 0)
		(void)close(fd); /* nothing was written */
	if (rc != 0) {
		free(text);
		return rc;
	}
	*ret_text = text;
	*ret_bytes = bytes;
	return 0;
}

/* The line at *@at, without its end; *@at is behind that then. False: there is none. */
static bool
file_next(const char *text, size_t bytes, size_t *at, const char **ret_line, size_t *ret_bytes)
{
	const char *end;

	if (*at >= bytes)
		return false;
	end = memchr(text + *at, '\n', bytes - *at);
	*ret_line = text + *at;
	*ret_bytes = end == NULL ? bytes - *at : (size_t)(end - *ret_line);
	*at += *ret_bytes + 1;
	return true;
}

/* Is @name a line's first word? */
static bool
line_names(const char *line, size_t bytes, const char *name)
{
	size_t name_bytes = strlen(name), skip = 0;

	while (skip < bytes && strchr(FILE_SPACE, line[skip]) != NULL && line[skip] != '\0')
		skip++;
	line += skip;
	bytes -= skip;
	return bytes >= name_bytes && memcmp(line, name, name_bytes) == 0 &&
	    (bytes == name_bytes || line[name_bytes] == '#' ||
		strchr(FILE_SPACE, line[name_bytes]) != NULL);
}

/* The number of the first of the lines in @bytes that names @name; 0: there is none. */
static uint32_t
file_find(const char *text, size_t bytes, const char *name)
{
	const char *begin;
	size_t at = 0, line_bytes;

	for (uint32_t number = 1; file_next(text, bytes, &at, &begin, &line_bytes); number++) {
		if (line_names(begin, line_bytes, name))
			return number;
	}
	return 0;
}

int
exports_file_read(const char *path, exports_file_fn fn, void *arg, char *ret_error)
{
	char why[EXPORTS_FILE_ERROR_BYTES], error[EXPORTS_FILE_ERROR_BYTES];
	struct exports_line line;
	size_t bytes, at = 0, line_bytes;
	const char *begin;
	char *text;
	mode_t mode;
	int rc = file_load(path, &text, &bytes, &mode);

	assert(fn != NULL);
	if (rc != 0)
		return file_fail(path, rc, ret_error);
	for (uint32_t number = 1; file_next(text, bytes, &at, &begin, &line_bytes); number++) {
		uint32_t first;

		rc = exports_line_parse(begin, line_bytes, &line, why);
		first = rc != 1 ? 0 : file_find(text, (size_t)(begin - text), line.name);
		if (first != 0)
			(void)snprintf(why, sizeof(why), "'%.130s' has line %u already", line.name,
			    first);
		if (rc < 0 || first != 0) {
			(void)snprintf(error, sizeof(error), "%.100s:%u: %.200s", path, number,
			    why);
			fn(NULL, number, error, arg);
		} else if (rc == 1) {
			fn(&line, number, NULL, arg);
		}
	}
	free(text);
	return 0;
}

/* ---- changing it ---- */

static int
write_all(int fd, const char *text, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = write(fd, text, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* @text instead of what is at @path, in one step. @folder: open, and locked. */
static int
file_replace(const char *path, int folder, const char *text, size_t bytes, mode_t mode)
{
	char fresh[PATH_MAX + 8];
	int fd, rc;

	(void)snprintf(fresh, sizeof(fresh), "%s.XXXXXX", path);
	fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = write_all(fd, text, bytes);
	if (rc == 0 && (fchmod(fd, mode) != 0 || fsync(fd) != 0))
		rc = -errno;
	if (close(fd) != 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && rename(fresh, path) != 0)
		rc = -errno;
	if (rc != 0)
		(void)unlink(fresh); /* it is in nobody's way */
	else if (fsync(folder) != 0)
		rc = -errno;
	return rc;
}

/* @text without the lines for @name, and with @added behind it. Returns its bytes; *@ret_removed: such lines. */
static size_t
text_change(const char *text, size_t bytes, const char *name, const char *added, char *out,
    uint32_t *ret_removed)
{
	size_t at = 0, line_bytes, used = 0;
	const char *begin;

	*ret_removed = 0;
	while (file_next(text, bytes, &at, &begin, &line_bytes)) {
		if (line_names(begin, line_bytes, name)) {
			++*ret_removed;
			continue;
		}
		memcpy(out + used, begin, line_bytes);
		used += line_bytes;
		out[used++] = '\n';
	}
	memcpy(out + used, added, strlen(added));
	return used + strlen(added);
}

/* 0: of the lines for @name none is wrong, which nobody but its author can tell what it was to be. */
static int
lines_check(const char *path, const char *text, size_t bytes, const char *name, char *ret_error)
{
	char why[EXPORTS_FILE_ERROR_BYTES];
	struct exports_line line;
	size_t at = 0, line_bytes;
	const char *begin;

	for (uint32_t number = 1; file_next(text, bytes, &at, &begin, &line_bytes); number++) {
		if (!line_names(begin, line_bytes, name) ||
		    exports_line_parse(begin, line_bytes, &line, why) >= 0)
			continue;
		(void)snprintf(ret_error, EXPORTS_FILE_ERROR_BYTES,
		    "%.100s:%u: %.150s: mend that line, or remove it", path, number, why);
		return -EINVAL;
	}
	return 0;
}

/* The file's own path where it is a link, so that the link stays. */
static void
path_resolve(const char *path, char ret_path[PATH_MAX])
{
	if (realpath(path, ret_path) == NULL)
		(void)snprintf(ret_path, PATH_MAX, "%s", path);
}

/* @ret_error: set where more is known than the returned errno says, else "". */
static int
file_change(const char *given, const char *name, const char *added, uint32_t *ret_removed,
    char *ret_error)
{
	char path[PATH_MAX], copy[PATH_MAX], *text = NULL, *out = NULL;
	int folder, rc;
	size_t bytes;
	mode_t mode;

	ret_error[0] = '\0';
	if (strlen(given) >= PATH_MAX)
		return -ENAMETOOLONG;
	path_resolve(given, path);
	(void)snprintf(copy, sizeof(copy), "%s", path);
	folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -errno;
	rc = flock(folder, LOCK_EX) != 0 ? -errno : file_load(path, &text, &bytes, &mode);
	if (rc == 0 && added[0] != '\0')
		rc = lines_check(path, text, bytes, name, ret_error);
	if (rc == 0) {
		out = malloc(bytes + 1 + strlen(added));
		rc = out == NULL ? -ENOMEM : 0;
	}
	if (rc == 0) {
		size_t new_bytes = text_change(text, bytes, name, added, out, ret_removed);

		if (new_bytes > EXPORTS_FILE_BYTES_MAX)
			rc = -EFBIG;
		else if (*ret_removed > 0 || added[0] != '\0')
			rc = file_replace(path, folder, out, new_bytes, mode);
	}
	free(out);
	free(text);
	(void)close(folder); /* with its lock; it was synced */
	return rc;
}

int
exports_file_put(const char *path, const struct exports_line *line, char *ret_error)
{
	char added[CLEAVE_NAME_BYTES_MAX + sizeof(" read-only\n")];
	uint32_t removed;
	int rc;

	assert(name_is_possible(line->name, strlen(line->name)));
	(void)snprintf(added, sizeof(added), "%s%s\n", line->name,
	    line->is_read_only ? " read-only" : "");
	rc = file_change(path, line->name, added, &removed, ret_error);
	return rc == 0 || ret_error[0] != '\0' ? rc : file_fail(path, rc, ret_error);
}

int
exports_file_remove(const char *path, const char *name, char *ret_error)
{
	uint32_t removed = 0;
	int rc = file_change(path, name, "", &removed, ret_error);

	if (rc == -ENOENT)
		return 1; /* there is no such folder */
	if (rc != 0)
		return file_fail(path, rc, ret_error);
	return removed > 0 ? 0 : 1;
}
