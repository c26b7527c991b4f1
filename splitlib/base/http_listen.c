/* SPDX-License-Identifier: Apache-2.0 */
/* http_listen.c -- see http_listen.h */
#include "base/http_listen.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/resolve.h"
#include "base/tcp_address.h"

#define LISTEN_NOT_OPEN INT_MIN /* instead of an errno: HTTP_OPEN_TEXT */

/* 0; a negative errno, or LISTEN_NOT_OPEN. */
static int
listen_at(struct sockaddr_storage *at, bool may_be_reached, struct http_listener *ret)
{
	socklen_t bytes = at->ss_family == AF_INET ? sizeof(struct sockaddr_in)
						   : sizeof(struct sockaddr_in6);
	int fd, rc, one = 1;

	assert(at->ss_family == AF_INET || at->ss_family == AF_INET6);
	ret->is_reached = !tcp_address_is_loopback(at);
	if (ret->is_reached && !may_be_reached)
		return LISTEN_NOT_OPEN;
	fd = socket(at->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(fd, (const struct sockaddr *)at, bytes) != 0 || listen(fd, SOMAXCONN) != 0 ||
	    getsockname(fd, (struct sockaddr *)at, &bytes) != 0) {
		rc = -errno;
		if (fd >= 0)
			(void)close(fd); /* nothing was written to it */
		return rc;
	}
	tcp_address_format(at, ret->address);
	ret->fd = fd;
	return 0;
}

static int
listen_refuse(const char *address, int rc, char *ret_error, size_t error_bytes)
{
	assert(rc < 0);
	if (rc != LISTEN_NOT_OPEN) {
		(void)snprintf(ret_error, error_bytes, "cannot listen at %s: %s", address,
		    strerror(-rc));
		return rc;
	}
	(void)snprintf(ret_error, error_bytes, "%s: " HTTP_OPEN_TEXT, address);
	return -EPERM;
}

/* The same where a name stands for addresses: the first that is this machine's. */
static int
listen_name(const char *address, bool may_be_reached, struct http_listener *ret, char *ret_error,
    size_t error_bytes)
{
	struct resolve_answer answer;
	uint16_t port;
	int rc = -EADDRNOTAVAIL;

	if (!tcp_address_is_name(address, ret->name, &port)) {
		(void)snprintf(ret_error, error_bytes, "'%s': HOST:PORT is wanted", address);
		return -EINVAL;
	}
	resolve_wait(ret->name, HTTP_RESOLVE_NS, &answer);
	if (answer.rc != 0) {
		(void)snprintf(ret_error, error_bytes, "'%s': %s", ret->name,
		    resolve_text(&answer));
		return -ENOENT;
	}
	for (uint32_t i = 0; i < answer.count && rc != 0; i++) {
		tcp_address_set_port(&answer.addresses[i], port);
		rc = listen_at(&answer.addresses[i], may_be_reached, ret);
	}
	return rc == 0 ? 0 : listen_refuse(address, rc, ret_error, error_bytes);
}

int
http_listen(const char *address, bool may_be_reached, struct http_listener *ret, char *ret_error,
    size_t error_bytes)
{
	struct sockaddr_storage at;
	socklen_t bytes;
	int rc;

	assert(error_bytes > 0);
	*ret = (struct http_listener){ .fd = -1 };
	if (tcp_address_parse(address, &at, &bytes) != 0)
		return listen_name(address, may_be_reached, ret, ret_error, error_bytes);
	rc = listen_at(&at, may_be_reached, ret);
	return rc == 0 ? 0 : listen_refuse(address, rc, ret_error, error_bytes);
}
