/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c -- see log.h
 *
 * Level, format and sink are per process. A line is built on the caller's stack and leaves in one write(2),
 * so lines of different threads do not mix. Control characters become '?': what a peer sent cannot
 * forge a line.
 */
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/json_text.h"
#include "base/num.h"

#define LOG_TIME_BYTES 96u /* as the compiler sees it: any int in each place */
#define LOG_CODE_BYTES 64u /* of an event: its code is short */
/* An object: the line and the event's object escaped, and names of members, time, level, program. */
#define LOG_JSON_BYTES                                                                             \
	(JSON_TEXT_BYTES(LOG_LINE_BYTES_MAX) + 2 * JSON_TEXT_BYTES(LOG_CODE_BYTES) + 256u)

const char *const log_level_choices[] = { "trace", "debug", "info", "warn", "error", "off", NULL };
const char *const log_format_choices[] = { "text", "json", NULL };

static const char *const level_names[LOG_OFF] = {
	[LOG_TRACE] = "TRACE",
	[LOG_DEBUG] = "DEBUG",
	[LOG_INFO] = "INFO",
	[LOG_WARN] = "WARN",
	[LOG_ERROR] = "ERROR",
};

/* As syslog(3) numbers them: what `journalctl -p` asks for. */
static const int priorities[LOG_OFF] = {
	[LOG_TRACE] = 7,
	[LOG_DEBUG] = 7,
	[LOG_INFO] = 6,
	[LOG_WARN] = 4,
	[LOG_ERROR] = 3,
};

static atomic_int level_now = LOG_INFO;
static log_sink_fn sink; /* NULL: standard error */
static void *sink_arg;
/* log_start's; it is called before there are threads. */
static struct {
	const char *program;
	enum log_format format;
	bool is_journal;
} style;

/* The event that a line tells of. */
struct log_tag {
	const char *code, *object; /* NULL: no event */
};

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
	sink = fn;
	sink_arg = arg;
}

bool
log_is_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	uintmax_t device, inode;
	struct stat info;
	int end = 0;

	if (text == NULL || sscanf(text, "%ju:%ju%n", &device, &inode, &end) != 2 ||
	    text[end] != '\0')
		return false;
	/* The variable is inherited also by who writes to a file of its own. */
	return fstat(STDERR_FILENO, &info) == 0 && (uintmax_t)info.st_dev == device &&
	    (uintmax_t)info.st_ino == inode;
}

void
log_start(const char *program, enum log_format format)
{
	assert(program != NULL && program[0] != '\0');
	style.program = program;
	style.format = format;
	style.is_journal = log_is_journal();
}

uint64_t
log_wall_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t
log_wall_s(void)
{
	return log_wall_ms() / 1000;
}

/* "2026-01-02T03:04:05.678901Z", with @digits of the second's fraction. */
static void
format_time(char out[LOG_TIME_BYTES], int digits)
{
	struct timespec now;
	struct tm utc;
	long fraction;

	assert(digits == 3 || digits == 6);
	(void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
	(void)gmtime_r(&now.tv_sec, &utc);         /* nor this before the year 2^31 */
	fraction = now.tv_nsec / (digits == 3 ? 1000000 : 1000);
	(void)snprintf(out, LOG_TIME_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%0*ldZ",
	    utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
	    digits, fraction);
}

/* A member of an object and its text, behind a comma. Returns its length. */
static size_t
put_member(char *out, size_t bytes, const char *name, const char *text)
{
	char escaped[JSON_TEXT_BYTES(LOG_LINE_BYTES_MAX)];
	int used;

	json_text_escape(text, escaped, sizeof(escaped));
	used = snprintf(out, bytes, ",\"%s\":\"%s\"", name, escaped);
	assert(used > 0 && (size_t)used < bytes);
	return (size_t)used;
}

/* The priority, where the journal reads it, and the line with its end. Returns the length. */
static size_t
format_json(char *out, size_t bytes, enum log_level level, const struct log_tag *tag,
    const char *line)
{
	char time[LOG_TIME_BYTES], short_code[LOG_CODE_BYTES];
	size_t used;

	format_time(time, 3);
	used = (size_t)snprintf(out, bytes, "{\"time\":\"%s\",\"level\":\"%s\"", time,
	    level_names[level]);
	used += put_member(out + used, bytes - used, "who", style.program);
	if (tag->code != NULL) {
		(void)snprintf(short_code, sizeof(short_code), "%s", tag->code);
		used += put_member(out + used, bytes - used, "code", short_code);
		(void)snprintf(short_code, sizeof(short_code), "%s", tag->object);
		used += put_member(out + used, bytes - used, "object", short_code);
	}
	used += put_member(out + used, bytes - used, "message", line);
	used += (size_t)snprintf(out + used, bytes - used, "}\n");
	return used;
}

static void
write_stderr(enum log_level level, const struct log_tag *tag, const char *line)
{
	char text[LOG_JSON_BYTES], time[LOG_TIME_BYTES];
	size_t bytes = 0;

	assert(level < LOG_OFF);
	if (style.is_journal)
		bytes = (size_t)snprintf(text, sizeof(text), "<%d>", priorities[level]);
	if (style.format == LOG_FORMAT_JSON) {
		bytes += format_json(text + bytes, sizeof(text) - bytes, level, tag, line);
	} else if (style.is_journal) {
		bytes += (size_t)snprintf(text + bytes, sizeof(text) - bytes, "%s %s\n",
		    level_names[level], line);
	} else {
		format_time(time, 6);
		bytes = (size_t)snprintf(text, sizeof(text), "%s %s %s\n", time, level_names[level],
		    line);
	}
	assert(bytes < sizeof(text));
	/* A log that cannot be written is nothing a daemon can act on. */
	(void)!write(STDERR_FILENO, text, bytes);
}

static void __attribute__((format(printf, 3, 0)))
log_put(enum log_level level, const struct log_tag *tag, const char *format, va_list args)
{
	char line[LOG_LINE_BYTES_MAX];
	int bytes;

	assert(format != NULL);
	if (level < log_level_get() || level >= LOG_OFF)
		return;
	bytes = vsnprintf(line, sizeof(line), format, args);
	if (bytes < 0)
		return;
	if ((size_t)bytes >= sizeof(line))
		memcpy(line + sizeof(line) - 4, "...", 4);
	for (char *c = line; *c != '\0'; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
	if (sink != NULL)
		sink(level, line, sink_arg);
	else
		write_stderr(level, tag, line);
}

void
log_line(enum log_level level, const char *format, ...)
{
	const struct log_tag none = { NULL, NULL };
	va_list args;

	va_start(args, format);
	log_put(level, &none, format, args);
	va_end(args);
}

void
log_event(enum log_level level, const char *code, const char *object, const char *format, ...)
{
	const struct log_tag tag = { code, object };
	va_list args;

	assert(code != NULL && object != NULL);
	va_start(args, format);
	log_put(level, &tag, format, args);
	va_end(args);
}

void
log_complain(const char *program, const char *format, ...)
{
	char text[2 * LOG_LINE_BYTES_MAX];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args); /* cut where too long */
	va_end(args);
	(void)fprintf(stderr, "%s%s: %s\n", log_is_journal() ? "<3>" : "", program, text);
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
