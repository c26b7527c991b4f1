/* SPDX-License-Identifier: Apache-2.0 */
/* secret_file.c -- see secret_file.h */
#include "base/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

/* Whoever may write it is whom it names, or can give everybody a key of his own. */
#define SECRET_MODE_REFUSED ((mode_t)(S_IWGRP | S_IRWXO))

/* The whole of @fd. Returns its bytes or a negative errno. */
static ssize_t
file_read(int fd, size_t bytes_max, char *text)
{
	size_t have_bytes = 0;

	while (have_bytes < bytes_max + 1) {
		ssize_t bytes = read(fd, text + have_bytes, bytes_max + 1 - have_bytes);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0)
			return -errno;
		if (bytes == 0)
			return (ssize_t)have_bytes;
		have_bytes += (size_t)bytes;
	}
	return -EFBIG;
}

ssize_t
secret_file_load(const char *path, size_t bytes_max, char *ret_text, char *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = -errno;
	struct stat st;

	assert(bytes_max > 0);
	if (fd >= 0 && fstat(fd, &st) != 0)
		bytes = -errno;
	else if (fd >= 0 && S_ISDIR(st.st_mode))
		bytes = -EISDIR;
	else if (fd >= 0 && (st.st_mode & SECRET_MODE_REFUSED) != 0)
		bytes = -EACCES;
	else if (fd >= 0)
		bytes = file_read(fd, bytes_max, ret_text);
	if (bytes == -EACCES && fd >= 0)
		(void)snprintf(why, SECRET_FILE_WHY_BYTES,
		    "%.120s: others may read or change it: chmod 600 it", path);
	else if (bytes < 0)
		(void)snprintf(why, SECRET_FILE_WHY_BYTES, "%.120s: %s", path,
		    strerrordesc_np((int)-bytes));
	else
		ret_text[bytes] = '\0';
	if (fd >= 0)
		(void)close(fd); /* nothing was written */
	return bytes;
}
