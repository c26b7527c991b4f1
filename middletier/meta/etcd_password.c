/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_password.c -- see etcd_password.h */
#include "meta/etcd_password.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int
etcd_password_read(const char *file, char ret_password[ETCD_PASSWORD_BYTES])
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t bytes;

	if (fd < 0)
		return -errno;
	bytes = read(fd, ret_password, ETCD_PASSWORD_BYTES - 1);
	(void)close(fd); /* only read from */
	if (bytes < 0)
		return -EIO;
	ret_password[bytes] = '\0';
	ret_password[strcspn(ret_password, "\r\n")] = '\0';
	return ret_password[0] == '\0' ? -ENODATA : 0;
}

const char *
etcd_password_strerror(int rc)
{
	return rc == -ENODATA ? "it holds no password in its first line" : strerror(-rc);
}
