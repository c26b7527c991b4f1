/* SPDX-License-Identifier: Apache-2.0 */
/* unix_socket.c -- see unix_socket.h */
#include "base/unix_socket.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

int
unix_socket_address(const char *path, struct sockaddr_un *ret_address)
{
	size_t bytes = strlen(path);

	assert(ret_address != NULL);
	*ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (bytes == 0 || bytes >= sizeof(ret_address->sun_path))
		return -ENAMETOOLONG;
	memcpy(ret_address->sun_path, path, bytes + 1);
	return 0;
}

int
unix_socket_clear(const struct sockaddr_un *address, int type)
{
	struct stat status;
	int fd, rc = 0;

	assert(address->sun_family == AF_UNIX);
	if (lstat(address->sun_path, &status) != 0)
		return 0;
	if (!S_ISSOCK(status.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN)
		rc = -EADDRINUSE;
	else if (errno == ECONNREFUSED)
		rc = unlink(address->sun_path) == 0 ? 0 : -errno;
	(void)close(fd);
	return rc;
}

/* Has another user, who is not root, made a part of @path, in a folder to which everybody may write? */
static bool
path_is_anybodys(const char *path)
{
	const char *end = path + strspn(path, "/");
	struct stat above, part;
	char at[PATH_MAX];

	assert(strlen(path) < sizeof(at));
	while (*end != '\0') {
		int above_bytes = (int)(end - path);

		end += strcspn(end, "/");
		(void)snprintf(at, sizeof(at), "%.*s", above_bytes,
		    path); /* fits, as does the next */
		if (stat(at, &above) != 0)
			above.st_mode = 0;
		(void)snprintf(at, sizeof(at), "%.*s", (int)(end - path), path);
		if ((above.st_mode & S_IWOTH) != 0 && lstat(at, &part) == 0 && part.st_uid != 0 &&
		    part.st_uid != geteuid())
			return true;
		end += strspn(end, "/");
	}
	return false;
}

bool
unix_socket_folder_is_kept(const char *path, const struct stat *status)
{
	return S_ISDIR(status->st_mode) && (status->st_mode & S_IWOTH) == 0 &&
	    !path_is_anybodys(path);
}
