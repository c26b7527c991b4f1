/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_plain.c -- a connection's bytes as they are; nbd_tls.c has the other way */
#include <errno.h>
#include <unistd.h>

#include "nbd.h"

static ssize_t
plain_read(struct nbd_connection *connection, void *data, size_t bytes)
{
	ssize_t n = read(connection->in_fd, data, bytes);

	return n < 0 ? -errno : n;
}

static ssize_t
plain_writev(struct nbd_connection *connection, const struct iovec *iovecs, int count)
{
	ssize_t n = writev(connection->out_fd, iovecs, count);

	return n < 0 ? -errno : n;
}

static bool
plain_has_pending(const struct nbd_connection *connection)
{
	(void)connection;
	return false;
}

const struct nbd_stream_ops nbd_plain_stream = {
	.read = plain_read,
	.writev = plain_writev,
	.has_pending = plain_has_pending,
};
