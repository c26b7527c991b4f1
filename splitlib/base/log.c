/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c -- see log.h
 *
 * Level and sink are per process. A line is built on the caller's stack and leaves in one write(2),
 * so lines of different threads do not mix. Control characters become '?': what a peer sent cannot
 * forge a line.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"

#define LOG_TIME_BYTES 40
#define LOG_LEVEL_BYTES 8

static const char *const level_names[LOG_OFF] = {
	[LOG_TRACE] = "TRACE",
	[LOG_DEBUG] = "DEBUG",
	[LOG_INFO] = "INFO",
	[LOG_WARN] = "WARN",
	[LOG_ERROR] = "ERROR",
};

static void sink_stderr(enum log_level level, const char *line, void *arg);

static atomic_int level_now = LOG_INFO;
static log_sink_fn sink = sink_stderr;
static void *sink_arg;

void
log_set_level(enum log_level level)
{
	assert(level <= LOG_OFF);
	atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

enum log_level
log_level_get(void)
{
	return (enum log_level)atomic_load_explicit(&level_now, memory_order_relaxed);
}

int
log_level_parse(const char *text, enum log_level *ret_level)
{
	assert(text != NULL && ret_level != NULL);
	for (unsigned i = 0; i < LOG_OFF; i++) {
		if (strcasecmp(text, level_names[i]) == 0) {
			*ret_level = (enum log_level)i;
			return 0;
		}
	}
	if (strcasecmp(text, "off") != 0)
		return -EINVAL;
	*ret_level = LOG_OFF;
	return 0;
}

void
log_set_sink(log_sink_fn fn, void *arg)
{
	assert(fn != NULL || arg == NULL);
	sink = fn != NULL ? fn : sink_stderr;
	sink_arg = arg;
}

uint64_t
log_wall_s(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
	return (uint64_t)now.tv_sec;
}

static void
sink_stderr(enum log_level level, const char *line, void *arg)
{
	char text[LOG_TIME_BYTES + LOG_LEVEL_BYTES + LOG_LINE_BYTES_MAX];
	struct timespec now;
	struct tm utc;
	int bytes;

	assert(level < LOG_OFF);
	(void)arg;
	(void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
	(void)gmtime_r(&now.tv_sec, &utc);         /* nor this before the year 2^31 */
	bytes = snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ %s %s\n",
	    utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
	    now.tv_nsec / 1000, level_names[level], line);
	assert(bytes > 0);
	assert((size_t)bytes < sizeof(text));
	/* A log that cannot be written is nothing a daemon can act on. */
	(void)!write(STDERR_FILENO, text, (size_t)bytes);
}

void
log_line(enum log_level level, const char *format, ...)
{
	char line[LOG_LINE_BYTES_MAX];
	va_list args;
	int bytes;

	assert(format != NULL);
	if (level < log_level_get() || level >= LOG_OFF)
		return;
	va_start(args, format);
	bytes = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (bytes < 0)
		return;
	if ((size_t)bytes >= sizeof(line))
		memcpy(line + sizeof(line) - 4, "...", 4);
	for (char *c = line; *c != '\0'; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
	sink(level, line, sink_arg);
}

int
log_limit_pass(struct log_limit *limit)
{
	struct timespec now;
	uint64_t now_ns;

	assert(limit->count <= LOG_LIMIT_PER_S);
	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now); /* cannot fail for this clock */
	now_ns = (uint64_t)now.tv_sec * NUM_S(1) + (uint64_t)now.tv_nsec;
	if (limit->window_start_ns == 0 || now_ns >= limit->window_start_ns + NUM_S(1)) {
		if (limit->dropped_count > 0)
			log_line(LOG_WARN, "log: dropped repeats of the next line dropped_count=%u",
			    limit->dropped_count);
		*limit = (struct log_limit){ .window_start_ns = now_ns };
	}
	if (limit->count >= LOG_LIMIT_PER_S) {
		limit->dropped_count++;
		return 0;
	}
	limit->count++;
	return 1;
}

const char *
log_errno_text(char out[LOG_ERRNO_BYTES], int rc)
{
	const char *name = strerrorname_np(-rc); /* "0" for 0 */

	assert(out != NULL);
	(void)snprintf(out, LOG_ERRNO_BYTES, "%s%s", rc == 0 || name == NULL ? "" : "-",
	    name == NULL ? "unknown errno" : name);
	return out;
}
