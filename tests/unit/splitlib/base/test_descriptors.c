/* SPDX-License-Identifier: Apache-2.0 */
/* test_descriptors.c -- the first three are open; the soft limit goes up, never down, and never beyond the hard one */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/log.h"

static char line_heard[LOG_LINE_BYTES_MAX];
static uint32_t line_count;

static void
on_line(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	cr_assert_eq(level, LOG_WARN);
	strncpy(line_heard, line, sizeof(line_heard) - 1);
	line_count++;
}

static void
limit_set(rlim_t soft, rlim_t hard)
{
	cr_assert_eq(setrlimit(RLIMIT_NOFILE,
			 &(struct rlimit){ .rlim_cur = soft, .rlim_max = hard }),
	    0);
}

static void
limit_check(rlim_t soft, rlim_t hard)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_eq(limit.rlim_cur, soft, "%ju", (uintmax_t)limit.rlim_cur);
	cr_assert_eq(limit.rlim_max, hard, "%ju", (uintmax_t)limit.rlim_max);
}

/* Whatever the test says is said when they are back. */
Test(descriptors, what_was_closed_is_no_file_that_is_opened_later)
{
	int kept[3], flags[3], next;
	ssize_t written, had;
	char byte;

	for (int fd = 0; fd < 3; fd++) {
		kept[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
		(void)close(fd);
	}
	descriptors_hold_standard();
	next = open("/dev/zero", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		flags[fd] = fcntl(fd, F_GETFD);
	written = write(2, "x", 1);
	had = read(0, &byte, 1);
	(void)close(next);
	for (int fd = 0; fd < 3; fd++)
		if (kept[fd] >= 0)
			(void)dup2(kept[fd], fd);
	cr_assert_geq(next, 3);
	cr_assert_eq(written, -1, "as to one that is closed");
	cr_assert_eq(had, -1);
	for (int fd = 0; fd < 3; fd++)
		cr_assert_eq(flags[fd], 0, "children have them, too");
}

Test(descriptors, those_that_are_open_stay_as_they_are)
{
	struct stat before, after;

	cr_assert_eq(fstat(2, &before), 0);
	descriptors_hold_standard();
	cr_assert_eq(fstat(2, &after), 0);
	cr_assert(before.st_ino == after.st_ino && before.st_dev == after.st_dev);
}

Test(descriptors, soft_limit_is_raised_as_far_as_wanted_and_never_lowered)
{
	limit_set(64, 900);
	cr_assert_eq(descriptors_raise(300), 300);
	limit_check(300, 900);
	cr_assert_eq(descriptors_raise(100), 300);
	limit_check(300, 900);
}

Test(descriptors, hard_limit_is_the_operators)
{
	limit_set(64, 900);
	cr_assert_eq(descriptors_raise(UINT64_C(1) << 40), 900);
	limit_check(900, 900);
}

Test(descriptors, limit_too_low_for_the_connections_is_warned_of_by_name)
{
	log_set_sink(on_line, NULL);
	limit_set(64, 900);
	cr_assert_eq(descriptors_prepare("port", 100), 100);
	cr_assert_eq(descriptors_prepare("port", 900 - DESCRIPTORS_SPARE), 772);
	cr_assert_eq(line_count, 0, "%s", line_heard);
	limit_check(900, 900);
	cr_assert_eq(descriptors_prepare("port", 2000), 772);
	cr_assert_eq(line_count, 1);
	cr_assert_not_null(strstr(line_heard, "port: "), "%s", line_heard);
	cr_assert_not_null(strstr(line_heard, "RLIMIT_NOFILE"), "%s", line_heard);
	cr_assert_not_null(strstr(line_heard, "limit=900 "), "%s", line_heard);
	cr_assert_not_null(strstr(line_heard, "connections=772 of=2000"), "%s", line_heard);
}
