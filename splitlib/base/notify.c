/* SPDX-License-Identifier: Apache-2.0 */
/* notify.c -- see notify.h */
#include "base/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/config_value.h"
#include "base/log.h"

#define NOTIFY_BYTES_MAX 1024u
#define NOTIFY_WATCHDOG_US_MAX (UINT64_C(366) * 86400 * 1000000) /* a year: no mistake of units */

static int
notify_send(const char *path, const char *text)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t bytes = strlen(path);
	ssize_t sent;
	int fd, rc = 0;

	assert(text[0] != '\0');
	if ((path[0] != '/' && path[0] != '@') || bytes >= sizeof(address.sun_path))
		return -EINVAL;
	memcpy(address.sun_path, path, bytes);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* An abstract name ends where the address does, and not at a zero. */
	sent = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes));
	if (sent < 0)
		rc = -errno;
	(void)close(fd); /* nothing is kept in it */
	return rc;
}

static int
notify_tell(const char *noun, const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	int rc;

	assert(noun[0] != '\0');
	if (path == NULL || *path == '\0')
		return 0;
	rc = notify_send(path, text);
	if (rc == 0)
		return 1;
	log_limited(LOG_WARN,
	    "%s: the service manager was not told, and waits NOTIFY_SOCKET=%s rc=%s", noun, path,
	    log_errno(rc));
	return rc;
}

int
notify_ready(const char *noun)
{
	return notify_tell(noun, "READY=1");
}

int
notify_stopping(const char *noun)
{
	return notify_tell(noun, "STOPPING=1");
}

int
notify_alive(const char *noun)
{
	return notify_tell(noun, "WATCHDOG=1");
}

uint64_t
notify_watchdog_ns(const char *noun)
{
	const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t us, owner;

	if (text == NULL || *text == '\0')
		return 0;
	/* The variables are inherited: they may be meant for a parent of this process. */
	if (pid != NULL && (config_parse_u64(pid, &owner) != 0 || owner != (uint64_t)getpid()))
		return 0;
	if (config_parse_u64(text, &us) == 0 && us > 0 && us <= NOTIFY_WATCHDOG_US_MAX)
		return us * 1000;
	log_warn("%s: no number of microseconds, and no watchdog is fed WATCHDOG_USEC=%s", noun,
	    text);
	return 0;
}

int
notify_status(const char *noun, const char *text, uint64_t extend_ns)
{
	char message[NOTIFY_BYTES_MAX];

	assert(strchr(text, '\n') == NULL); /* the next line would be another variable */
	if (extend_ns == 0)
		(void)snprintf(message, sizeof(message), "STATUS=%s",
		    text); /* cut where too long */
	else
		(void)snprintf(message, sizeof(message),
		    "EXTEND_TIMEOUT_USEC=%" PRIu64 "\nSTATUS=%s", extend_ns / 1000, text);
	return notify_tell(noun, message);
}
