/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c -- what becomes a line, and what it looks like */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static struct {
	enum log_level level;
	char line[LOG_LINE_BYTES_MAX];
	unsigned count;
} seen;

static void
capture(enum log_level level, const char *line, void *arg)
{
	cr_assert_eq(arg, &seen);
	seen.level = level;
	seen.count++;
	snprintf(seen.line, sizeof(seen.line), "%s", line);
}

static void
capture_start(void)
{
	log_set_sink(capture, &seen);
}

static void
say_limited(unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		log_limited(LOG_WARN, "test: line i=%u", i);
}

Test(log, a_line_reaches_the_sink, .init = capture_start)
{
	log_warn("append: write failed extent=%d rc=%s", 17, log_errno(-EIO));
	cr_assert_eq(seen.count, 1);
	cr_assert_eq(seen.level, LOG_WARN);
	cr_assert_str_eq(seen.line, "append: write failed extent=17 rc=-EIO");
}

Test(log, lines_below_the_level_are_dropped, .init = capture_start)
{
	cr_assert_eq(log_level_get(), LOG_INFO);
	log_debug("test: quiet");
	cr_assert_eq(seen.count, 0);
	log_set_level(LOG_DEBUG);
	log_debug("test: heard");
	cr_assert_eq(seen.count, 1);
	log_set_level(LOG_OFF);
	log_error("test: quiet");
	cr_assert_eq(seen.count, 1);
}

Test(log, a_long_line_is_cut_and_says_so, .init = capture_start)
{
	log_info("%2000d", 1);
	cr_assert_eq(strlen(seen.line), LOG_LINE_BYTES_MAX - 1);
	cr_assert_str_eq(seen.line + LOG_LINE_BYTES_MAX - 4, "...");
}

Test(log, control_characters_cannot_forge_a_line, .init = capture_start)
{
	log_info("volume: name=%s", "a\n2026 ERROR b\x1b[31m\x7f");
	cr_assert_str_eq(seen.line, "volume: name=a?2026 ERROR b?[31m?");
}

Test(log, the_default_sink_writes_time_level_and_text, .init = cr_redirect_stderr)
{
	char text[256] = { 0 };
	FILE *errors;
	int year, month, day, hour, minute, used = 0;
	double second;

	log_warn("test: hello");
	errors = cr_get_redirected_stderr();
	cr_assert_not_null(fgets(text, sizeof(text), errors));
	cr_assert_eq(sscanf(text, "%4d-%2d-%2dT%2d:%2d:%lfZ %n", &year, &month, &day, &hour,
			 &minute, &second, &used),
	    6);
	cr_assert_str_eq(text + used, "WARN test: hello\n");
	cr_assert_geq(year, 2024);
}

Test(log, repeats_of_one_place_are_limited, .init = capture_start)
{
	say_limited(3 * LOG_LIMIT_PER_S);
	/* The second may turn in between, but only once. */
	cr_assert_geq(seen.count, LOG_LIMIT_PER_S);
	cr_assert_lt(seen.count, 3 * LOG_LIMIT_PER_S);
}

Test(log, a_new_window_tells_what_was_dropped, .init = capture_start)
{
	/* A window that began long ago, with two lines lost. */
	struct log_limit limit = { .window_start_ns = 1, .count = 5, .dropped_count = 2 };

	cr_assert_eq(log_limit_pass(&limit), 1);
	cr_assert_eq(seen.count, 1);
	cr_assert_str_eq(seen.line, "log: dropped repeats of the next line dropped_count=2");
	cr_assert_eq(limit.count, 1);
	cr_assert_eq(limit.dropped_count, 0);
}

Test(log, a_full_window_counts_what_it_drops, .init = capture_start)
{
	struct log_limit limit = { 0 };

	for (unsigned i = 0; i < LOG_LIMIT_PER_S; i++)
		cr_assert_eq(log_limit_pass(&limit), 1);
	/* A window in the future never ends, however slow this machine is. */
	limit.window_start_ns += UINT64_C(1) << 40;
	cr_assert_eq(log_limit_pass(&limit), 0);
	cr_assert_eq(limit.dropped_count, 1);
}

Test(log, levels_have_names)
{
	enum log_level level = LOG_OFF;

	cr_assert_eq(log_level_parse("trace", &level), 0);
	cr_assert_eq(level, LOG_TRACE);
	cr_assert_eq(log_level_parse("ERROR", &level), 0);
	cr_assert_eq(level, LOG_ERROR);
	cr_assert_eq(log_level_parse("off", &level), 0);
	cr_assert_eq(level, LOG_OFF);
	level = LOG_WARN;
	cr_assert_eq(log_level_parse("loud", &level), -EINVAL);
	cr_assert_eq(level, LOG_WARN);
}

Test(log, errnos_have_names)
{
	cr_assert_str_eq(log_errno(0), "0");
	cr_assert_str_eq(log_errno(-EPERM), "-EPERM");
	cr_assert_str_eq(log_errno(-EHWPOISON), "-EHWPOISON");
	cr_assert_str_eq(log_errno(-EAGAIN), "-EAGAIN");
	cr_assert_str_eq(log_errno(-ENOTSUP), "-EOPNOTSUPP");
	cr_assert_str_eq(log_errno(5), "unknown errno");
	cr_assert_str_eq(log_errno(-100000), "unknown errno");
}

Test(log, a_line_names_two_errnos)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "%s %s", log_errno(-EIO), log_errno(-ENOTRECOVERABLE));
	cr_assert_str_eq(text, "-EIO -ENOTRECOVERABLE");
}
