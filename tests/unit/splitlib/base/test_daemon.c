/* SPDX-License-Identifier: Apache-2.0 */
/* test_daemon.c -- what daemons say first and last, and options that are read again */
#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/build_info.h"
#include "base/daemon.h"
#include "base/num.h"

struct values {
	struct config_list nodes;
	uint64_t size_bytes, slow_ns;
	struct daemon_options log;
};

static const struct config_option options[] = {
	{ "node", 0, CONFIG_LIST, offsetof(struct values, nodes), "ADDR", "A node.", NULL, false, 0,
	    0, NULL },
	{ "size", 0, CONFIG_SIZE, offsetof(struct values, size_bytes), "SIZE", "How large.", "64M",
	    false, 0, 0, NULL },
	{ "slow", 0, CONFIG_DURATION, offsetof(struct values, slow_ns), "DURATION", "How slow.",
	    "1s", false, 0, 0, NULL },
	DAEMON_OPTION_ROWS(struct values, log),
	{ .name = NULL },
};

static const struct config_program program = { .name = "cleave-test",
	.synopsis = "[options]",
	.purpose = "A test.",
	.options = options };

static const char *const reload[] = { "slow", NULL };
static char path[] = "/tmp/cleave-test-daemon-XXXXXX";
static char *argv[] = { "cleave-test", "--config", path, NULL };
static struct values values;
static struct config_result result;
static struct daemon thing = { .noun = "thing",
	.program = &program,
	.argc = 3,
	.argv = argv,
	.values = &values,
	.values_bytes = sizeof(values),
	.options_offset = offsetof(struct values, log),
	.reload = reload };

static char lines[16][LOG_LINE_BYTES_MAX];
static enum log_level levels[16];
static unsigned line_count;
static uint64_t taken_slow_ns;

static void
on_line(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	cr_assert_lt(line_count, NUM_COUNT(lines));
	levels[line_count] = level;
	(void)snprintf(lines[line_count++], LOG_LINE_BYTES_MAX, "%s", line);
}

static void
write_file(const char *text)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	cr_assert_geq(fputs(text, file), 0);
	cr_assert_eq(fclose(file), 0);
}

static void
setup(void)
{
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(close(fd), 0);
	write_file("size = 1M\n");
	cr_assert_eq(config_parse(&program, thing.argc, argv, &values, &result), 0);
	daemon_begin(&thing);
	log_set_sink(on_line, NULL);
}

static void
teardown(void)
{
	config_result_fini(&result);
	(void)unlink(path);
}

TestSuite(daemon, .init = setup, .fini = teardown);

static void
expect_line(unsigned index, enum log_level level, const char *text)
{
	cr_assert_lt(index, line_count);
	cr_assert_str_eq(lines[index], text);
	cr_assert_eq(levels[index], level, "%s", text);
}

static void
take(const void *fresh, void *arg)
{
	cr_assert_eq(arg, &taken_slow_ns);
	taken_slow_ns = ((const struct values *)fresh)->slow_ns;
}

Test(daemon, the_first_line_says_what_it_is_and_with_what)
{
	char wanted[LOG_LINE_BYTES_MAX];

	daemon_tell_start(&thing, &result);
	(void)snprintf(wanted, sizeof(wanted),
	    "thing: starting cleave-test %s (%s) --config=%s --size=1M", build_info_version(),
	    build_info_commit(), path);
	cr_assert_eq(line_count, 1);
	expect_line(0, LOG_INFO, wanted);
}

Test(daemon, more_options_than_a_line_holds_are_told_in_more)
{
	char long_names[CONFIG_LIST_MAX][120], wanted[140];

	for (uint32_t i = 0; i < CONFIG_LIST_MAX; i++) {
		(void)snprintf(long_names[i], sizeof(long_names[i]), "%0100u", i);
		values.nodes.items[i] = long_names[i];
	}
	values.nodes.count = CONFIG_LIST_MAX;
	daemon_tell_start(&thing, &result);
	cr_assert_gt(line_count, 1);
	for (uint32_t i = 0; i < CONFIG_LIST_MAX; i++) {
		unsigned found = 0;

		(void)snprintf(wanted, sizeof(wanted), " --node=%0100u", i);
		for (unsigned k = 0; k < line_count; k++)
			found += strstr(lines[k], wanted) != NULL;
		cr_assert_eq(found, 1, "node %u", i);
	}
}

Test(daemon, options_that_can_change_are_taken_and_others_named)
{
	write_file("size = 2M\nslow = 5ms\nlog-level = debug\n");
	cr_assert_eq(daemon_reload(&thing, "SIGHUP", take, &taken_slow_ns), 0);
	cr_assert_eq(taken_slow_ns, NUM_MS(5));
	cr_assert_eq(log_level_get(), LOG_DEBUG);
	cr_assert_eq(line_count, 3);
	expect_line(0, LOG_INFO, "thing: options read again: SIGHUP");
	expect_line(1, LOG_INFO, "thing: log level debug, was info: SIGHUP");
	expect_line(2, LOG_WARN, "thing: options have changed that want a restart: --size");
	cr_assert_eq(values.size_bytes, NUM_MIB(1), "as it was started");
	/* Back again: nothing has changed. */
	line_count = 0;
	write_file("size = 1M\n");
	cr_assert_eq(daemon_reload(&thing, "SIGHUP", take, &taken_slow_ns), 0);
	cr_assert_eq(taken_slow_ns, NUM_S(1));
	cr_assert_eq(line_count, 2);
	expect_line(1, LOG_INFO, "thing: log level info, was debug: SIGHUP");
}

Test(daemon, a_mistake_changes_nothing)
{
	write_file("slow = 5ms\nlog-level = loud\n");
	cr_assert_eq(daemon_reload(&thing, "SIGHUP", take, &taken_slow_ns), -EINVAL);
	cr_assert_eq(taken_slow_ns, 0);
	cr_assert_eq(log_level_get(), LOG_INFO);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(daemon_reload(&thing, "SIGHUP", take, &taken_slow_ns), -ENOENT);
	cr_assert_eq(line_count, 2);
	expect_line(1, LOG_ERROR,
	    "thing: options were not read again, and stay as they are rc=-ENOENT: SIGHUP");
}

Test(daemon, who_goes_quiet_and_who_speaks_up_say_so)
{
	daemon_change_level("thing", LOG_ERROR, "a");
	daemon_change_level("thing", LOG_ERROR, "again");
	log_info("unheard");
	daemon_change_level("thing", LOG_TRACE, "b");
	cr_assert_eq(line_count, 2);
	expect_line(0, LOG_INFO, "thing: log level error, was info: a");
	expect_line(1, LOG_INFO, "thing: log level trace, was error: b");
	cr_assert_eq(log_level_get(), LOG_TRACE);
}

Test(daemon, the_last_line_says_why)
{
	daemon_tell_stopping(&thing, "SIGTERM from pid=1 uid=0");
	daemon_tell_stop(&thing, "SIGTERM from pid=1 uid=0");
	cr_assert_eq(line_count, 2);
	expect_line(0, LOG_INFO, "thing: stopping: SIGTERM from pid=1 uid=0");
	cr_assert_not_null(strstr(lines[1], "thing: stopped after_s="));
	cr_assert_not_null(strstr(lines[1], ": SIGTERM from pid=1 uid=0"));
}
