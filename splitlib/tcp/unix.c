/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unix.c -- queue pairs over unix sockets: tcp.c's, for two processes of one host
 *
 * An address is unix://PATH, PATH from the root on. The kernel spares what TCP does for a network: segments,
 * acknowledgements, pacing, a timer for each. Who may write to the socket's file may connect: its owner and its group.
 * Keys are as over TCP. Nobody probes a silent peer: it is a process of this host, whose end the kernel tells.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/unix_socket.h"
#include "core/connect.h"
#include "core/port.h"
#include "core/qp.h"
#include "tcp.h"

#define UNIX_SCHEME "unix"
#define UNIX_PREFIX UNIX_SCHEME "://"
#define UNIX_BACKLOG 1024
#define UNIX_MODE (S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP)
#define UNIX_SEND_BUFFER_BYTES (1 << 20) /* the system allows what it allows */

void
unix_peer_format(int fd, char *ret_text)
{
	struct ucred who = { .uid = (uid_t)-1 };
	socklen_t bytes = sizeof(who);

	assert(fd >= 0);
	/* @fd is connected: that cannot fail. */
	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes);
	/* The user stands where a host does over TCP: before the last colon (auth.c). */
	(void)snprintf(ret_text, SPLIT_ADDRESS_BYTES_MAX, UNIX_PREFIX "uid=%u:pid=%d", who.uid,
	    who.pid);
}

/* A socket that does not block, or a negative errno; @path as its address. */
static int
unix_open(const char *path, struct sockaddr_un *ret_address)
{
	int size = UNIX_SEND_BUFFER_BYTES;
	int fd;

	if (path[0] != '/' || unix_socket_address(path, ret_address) != 0)
		return -EINVAL;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size,
	    sizeof(size)); /* with less it works, too */
	return fd;
}

static int
unix_listen(struct split_listener *listener, const char *path, char *ret_address)
{
	struct sockaddr_un address;
	int fd = unix_open(path, &address);
	int rc;

	if (fd < 0)
		return fd;
	rc = unix_socket_clear(&address, SOCK_STREAM);
	/* Until it listens nobody can connect, whatever the mode is. */
	if (rc == 0 &&
	    (bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
		chmod(path, UNIX_MODE) != 0 || listen(fd, UNIX_BACKLOG) != 0))
		rc = -errno;
	if (rc == 0)
		rc = tcp_listen_at(listener, fd);
	if (rc == 0)
		(void)snprintf(ret_address, SPLIT_ADDRESS_BYTES_MAX, UNIX_PREFIX "%s", path);
	else
		(void)close(fd); /* nothing was written */
	return rc;
}

static void
unix_unlisten(struct split_listener *listener)
{
	CHECK_OBJ(listener, SPLIT_LISTENER_MAGIC);
	assert(strncmp(listener->address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0);
	(void)unlink(listener->address + strlen(UNIX_PREFIX)); /* gone already is as well */
	tcp_unlisten(listener);
}

static int
unix_connect(struct split_qp *qp, const char *path)
{
	struct sockaddr_un address;
	int fd = unix_open(path, &address);
	int rc;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (fd < 0)
		return fd;
	(void)snprintf(qp->peer, sizeof(qp->peer), UNIX_PREFIX "%s", path);
	rc = tcp_attach(qp, fd, false);
	if (rc != 0) {
		(void)close(fd); /* nothing was written */
		return rc;
	}
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
		qp_fail(qp, -ECONNREFUSED, "connect: %s", strerrordesc_np(errno));
	return 0;
}

const struct transport_ops transport_unix_ops = {
	.scheme = UNIX_SCHEME,
	.listen = unix_listen,
	.unlisten = unix_unlisten,
	.connect = unix_connect,
	.close = tcp_close,
	.kick_send = tcp_kick_send,
	.kick_receive = tcp_kick_receive,
};
