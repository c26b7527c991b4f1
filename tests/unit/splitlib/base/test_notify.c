/* SPDX-License-Identifier: Apache-2.0 */
/* test_notify.c -- one datagram to whom $NOTIFY_SOCKET names */
#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/notify.h"

static uint32_t warning_count;

static void
on_line(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	cr_assert_eq(level, LOG_WARN);
	cr_assert_not_null(strstr(line, "thing: the service manager was not told"));
	warning_count++;
}

static void
setup(void)
{
	log_set_sink(on_line, NULL);
}

TestSuite(notify, .init = setup);

/* A manager that listens at @name, "@..." in the abstract space. */
static int
manager_listen(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	cr_assert_geq(fd, 0);
	cr_assert_lt(strlen(name), sizeof(address.sun_path));
	memcpy(address.sun_path, name, strlen(name));
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	cr_assert_eq(bind(fd, (struct sockaddr *)&address,
			 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
	    0);
	cr_assert_eq(setenv("NOTIFY_SOCKET", name, 1), 0);
	return fd;
}

static void
expect_ready_once(int fd)
{
	char text[64] = "";

	cr_assert_eq(recv(fd, text, sizeof(text) - 1, 0), (ssize_t)strlen("READY=1"));
	cr_assert_str_eq(text, "READY=1");
	cr_assert_eq(recv(fd, text, sizeof(text), 0), -1, "more than one datagram");
	cr_assert_eq(close(fd), 0);
}

Test(notify, without_a_manager_nothing_is_sent)
{
	cr_assert_eq(unsetenv("NOTIFY_SOCKET"), 0);
	cr_assert_eq(notify_ready("thing"), 0);
	cr_assert_eq(setenv("NOTIFY_SOCKET", "", 1), 0);
	cr_assert_eq(notify_ready("thing"), 0);
	cr_assert_eq(warning_count, 0);
}

Test(notify, a_manager_at_a_path_is_told)
{
	char folder[] = "/tmp/cleave-notify-XXXXXX", path[64];
	int fd;

	cr_assert_not_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/socket", folder);
	fd = manager_listen(path);
	cr_assert_eq(notify_ready("thing"), 1);
	expect_ready_once(fd);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(warning_count, 0);
	/* The service manager's socket has gone. */
	cr_assert_eq(notify_ready("thing"), -ENOENT);
	cr_assert_eq(warning_count, 1);
	cr_assert_eq(rmdir(folder), 0);
}

Test(notify, a_status_is_told_with_more_time_or_without)
{
	char name[64], text[128] = "";
	int fd;

	(void)snprintf(name, sizeof(name), "@cleave-status-%ld", (long)getpid());
	fd = manager_listen(name);
	cr_assert_eq(notify_status("thing", "waits", 0), 1);
	cr_assert_gt(recv(fd, text, sizeof(text) - 1, 0), 0);
	cr_assert_str_eq(text, "STATUS=waits");
	memset(text, 0, sizeof(text));
	cr_assert_eq(notify_status("thing", "reads", UINT64_C(2000000000)), 1);
	cr_assert_gt(recv(fd, text, sizeof(text) - 1, 0), 0);
	cr_assert_str_eq(text, "EXTEND_TIMEOUT_USEC=2000000\nSTATUS=reads");
	cr_assert_eq(close(fd), 0);
	cr_assert_eq(unsetenv("NOTIFY_SOCKET"), 0);
	cr_assert_eq(notify_status("thing", "waits", 0), 0);
}

Test(notify, a_manager_in_the_abstract_space_is_told)
{
	char name[64];
	int fd;

	(void)snprintf(name, sizeof(name), "@cleave-notify-%ld", (long)getpid());
	fd = manager_listen(name);
	cr_assert_eq(notify_ready("thing"), 1);
	expect_ready_once(fd);
	cr_assert_eq(warning_count, 0);
	cr_assert_eq(notify_ready("thing"), -ECONNREFUSED);
	cr_assert_eq(warning_count, 1);
}

Test(notify, what_is_no_address_is_refused)
{
	char longer[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];

	cr_assert_eq(setenv("NOTIFY_SOCKET", "relative/path", 1), 0);
	cr_assert_eq(notify_ready("thing"), -EINVAL);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	cr_assert_eq(setenv("NOTIFY_SOCKET", longer, 1), 0);
	cr_assert_eq(notify_ready("thing"), -EINVAL);
	cr_assert_eq(warning_count, 2);
}
