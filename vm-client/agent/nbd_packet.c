/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_packet.c -- see nbd_packet.h */
#include "nbd_packet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"

union control_space {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(NBD_PACKET_FDS_MAX * sizeof(int))];
};

int
nbd_packet_limit(int fd, int limit_s)
{
	const struct timeval limit = { .tv_sec = limit_s };
	int flags = fcntl(fd, F_GETFL);

	assert(fd >= 0 && limit_s > 0);
	if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0)
		return -errno;
	return 0;
}

int
nbd_packet_send(int fd, json_t *object, const int *fds, uint32_t fd_count, const void *data,
    size_t bytes)
{
	char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
	union control_space space = { 0 };
	struct iovec iovecs[2];
	struct msghdr msg = { .msg_iov = iovecs, .msg_iovlen = 2 };
	int rc = 0;

	assert(fd >= 0 && fd_count <= NBD_PACKET_FDS_MAX);
	assert(data != NULL || bytes == 0);
	json_decref(object);
	if (text == NULL)
		return -ENOMEM;
	iovecs[0] = (struct iovec){ text, strlen(text) + 1 };
	iovecs[1] = (struct iovec){ (void *)(uintptr_t)data, bytes };
	if (fd_count > 0) {
		struct cmsghdr *head;

		msg.msg_control = space.bytes;
		msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		head = CMSG_FIRSTHDR(&msg);
		*head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(fd_count * sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(head), fds, fd_count * sizeof(int));
	}
	if (sendmsg(fd, &msg, MSG_NOSIGNAL) < 0)
		rc = -errno;
	free(text);
	return rc;
}

void
nbd_packet_close(const int fds[NBD_PACKET_FDS_MAX])
{
	for (int i = 0; i < NBD_PACKET_FDS_MAX; i++) {
		if (fds[i] >= 0)
			(void)close(fds[i]);
	}
}

/*
 * A peer that leaves before it has read everything is told of as ECONNRESET, once, in front of what it said. So that is no
 * end; its last words, or the end, come with the next call.
 */
static ssize_t
packet_recvmsg(int fd, struct msghdr *msg)
{
	const struct msghdr asked = *msg;
	ssize_t n = recvmsg(fd, msg, MSG_CMSG_CLOEXEC);

	if (n >= 0 || errno != ECONNRESET)
		return n;
	*msg = asked;
	n = recvmsg(fd, msg, MSG_CMSG_CLOEXEC);
	if (n < 0 && errno == ECONNRESET)
		errno = EIO; /* not once: nobody knows whether there are last words */
	return n;
}

json_t *
nbd_packet_receive(int fd, uint8_t *buffer, int ret_fds[NBD_PACKET_FDS_MAX],
    const uint8_t **ret_data, size_t *ret_bytes)
{
	union control_space space = { 0 };
	struct iovec iovec = { buffer, NBD_PACKET_BYTES_MAX };
	struct msghdr msg = { .msg_iov = &iovec,
		.msg_iovlen = 1,
		.msg_control = space.bytes,
		.msg_controllen = sizeof(space.bytes) };
	ssize_t n = packet_recvmsg(fd, &msg);
	struct cmsghdr *head;
	const uint8_t *end;
	json_t *object;

	assert(buffer != NULL);
	ret_fds[0] = ret_fds[1] = -1;
	if (n < 0)
		return NULL;
	head = CMSG_FIRSTHDR(&msg);
	if (head != NULL && head->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fds, CMSG_DATA(head),
		    num_min(head->cmsg_len - CMSG_LEN(0), NBD_PACKET_FDS_MAX * sizeof(int)));
	end = memchr(buffer, 0, (size_t)n);
	object = end == NULL ? NULL : json_loads((const char *)buffer, 0, NULL);
	if (object == NULL) {
		nbd_packet_close(ret_fds);
		errno = n == 0 ? ECONNRESET : EBADMSG;
		return NULL;
	}
	*ret_data = end + 1;
	*ret_bytes = (size_t)(buffer + n - (end + 1));
	return object;
}
