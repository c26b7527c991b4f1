/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c -- what becomes a line, and what it looks like */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Standard error becomes a file of its own; $JOURNAL_STREAM says that it is the journal, with @inode_more added. */
static FILE *
errors_as_journal(uint64_t inode_more)
{
	FILE *file = tmpfile();
	struct stat info;
	char text[64];

	cr_assert_not_null(file);
	cr_assert_geq(dup2(fileno(file), STDERR_FILENO), 0);
	cr_assert_eq(fstat(STDERR_FILENO, &info), 0);
	(void)snprintf(text, sizeof(text), "%ju:%ju", (uintmax_t)info.st_dev,
	    (uintmax_t)info.st_ino + inode_more);
	cr_assert_eq(setenv("JOURNAL_STREAM", text, 1), 0);
	return file;
}

/* The next line of @file, which this process writes at its other end. */
static const char *
next_line(FILE *file)
{
	static char text[8192];
	static long at;

	cr_assert_eq(fseek(file, at, SEEK_SET), 0);
	cr_assert_not_null(fgets(text, sizeof(text), file));
	at = ftell(file);
	cr_assert_eq(fseek(file, 0, SEEK_END), 0);
	return text;
}

Test(log, lines_for_the_journal_begin_with_their_priority_and_have_no_time)
{
	FILE *file = errors_as_journal(0);

	log_start("cleave-test", LOG_FORMAT_TEXT);
	log_set_level(LOG_TRACE);
	log_error("test: e");
	log_warn("test: w");
	log_info("test: i");
	log_debug("test: d");
	log_trace("test: t");
	cr_assert_str_eq(next_line(file), "<3>ERROR test: e\n");
	cr_assert_str_eq(next_line(file), "<4>WARN test: w\n");
	cr_assert_str_eq(next_line(file), "<6>INFO test: i\n");
	cr_assert_str_eq(next_line(file), "<7>DEBUG test: d\n");
	cr_assert_str_eq(next_line(file), "<7>TRACE test: t\n");
	log_complain("cleave-test", "--size: '%s'", "x");
	cr_assert_str_eq(next_line(file), "<3>cleave-test: --size: 'x'\n");
}

Test(log, a_file_that_is_not_the_journal_gets_the_time)
{
	FILE *file = errors_as_journal(1); /* inherited of somebody whose standard error it was */

	cr_assert(!log_is_journal());
	log_start("cleave-test", LOG_FORMAT_TEXT);
	log_error("test: e");
	cr_assert_eq(next_line(file)[0], '2');
	log_complain("cleave-test", "no");
	cr_assert_str_eq(next_line(file), "cleave-test: no\n");
}

Test(log, what_is_no_device_and_inode_is_no_journal)
{
	static const char *const texts[] = { "", "8", "8:", "a:b", "8:9x", ":" };

	cr_assert_eq(unsetenv("JOURNAL_STREAM"), 0);
	cr_assert(!log_is_journal());
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		cr_assert_eq(setenv("JOURNAL_STREAM", texts[i], 1), 0);
		cr_assert(!log_is_journal(), "'%s'", texts[i]);
	}
}

static json_t *
object_of(const char *line)
{
	json_error_t error;
	json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);

	cr_assert_not_null(object, "%s: %s", error.text, line);
	return object;
}

static const char *
member_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text == NULL ? "" : text;
}

Test(log, json_has_an_object_a_line)
{
	FILE *file = errors_as_journal(1);
	int year, month, day, hour, minute, second, ms, used = 0;
	json_t *object;

	log_start("cleave-test", LOG_FORMAT_JSON);
	log_warn("test: a \"name\" \\ of \xc3\xa4 and \xff");
	object = object_of(next_line(file));
	cr_assert_eq(json_object_size(object), 4);
	cr_assert_eq(sscanf(member_of(object, "time"), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &year,
			 &month, &day, &hour, &minute, &second, &ms, &used),
	    7);
	cr_assert_eq((size_t)used, strlen("2026-01-02T03:04:05.678Z"));
	cr_assert_str_eq(member_of(object, "level"), "WARN");
	cr_assert_str_eq(member_of(object, "who"), "cleave-test");
	cr_assert_str_eq(member_of(object, "message"),
	    "test: a \"name\" \\ of \xc3\xa4 and \xef\xbf\xbd");
	json_decref(object);
}

Test(log, json_in_the_journal_has_its_priority_before_it)
{
	FILE *file = errors_as_journal(0);
	const char *line;

	log_start("cleave-test", LOG_FORMAT_JSON);
	log_event(LOG_ERROR, "node-lost", "node 3", "node: lost id=%d", 3);
	line = next_line(file);
	cr_assert_eq(strncmp(line, "<3>{", 4), 0, "%s", line);
	json_t *object = object_of(line + 3);
	cr_assert_str_eq(member_of(object, "code"), "node-lost");
	cr_assert_str_eq(member_of(object, "object"), "node 3");
	cr_assert_str_eq(member_of(object, "message"), "node: lost id=3");
	json_decref(object);
}

Test(log, json_has_room_for_the_worst_line)
{
	FILE *file = errors_as_journal(0);
	char worst[2 * LOG_LINE_BYTES_MAX];

	memset(worst, 0xff, sizeof(worst));
	worst[sizeof(worst) - 1] = '\0';
	log_start("cleave-test", LOG_FORMAT_JSON);
	log_event(LOG_WARN, worst, worst, "%s", worst);
	memset(worst, '"', sizeof(worst) - 1);
	log_event(LOG_WARN, worst, worst, "%s", worst);
	json_decref(object_of(next_line(file) + 3));
	json_decref(object_of(next_line(file) + 3));
}

Test(log, an_event_is_a_line_as_any_other, .init = capture_start)
{
	log_event(LOG_WARN, "node-lost", "node 3", "node: lost");
	cr_assert_str_eq(seen.line, "node: lost");
	log_event(LOG_DEBUG, "node-lost", "node 3", "quiet");
	cr_assert_eq(seen.count, 1);
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
