/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h -- one line per event worth a person's attention
 *
 *	2026-01-02T03:04:05.678901Z WARN append: write failed extent=17 offset_bytes=4096 rc=-EIO
 *	<4>WARN append: write failed extent=17 offset_bytes=4096 rc=-EIO
 *	{"time":"2026-01-02T03:04:05.678Z","level":"WARN","who":"cleave-storage","message":"append: ..."}
 *
 * The second form is for systemd's journal, which has the time itself and reads the number as syslog's priority. The
 * third is on request; in the journal that begins with the number, too. The lines of events have "code" and "object".
 *
 * Libraries return errors; daemons log them, once, where they are handled. A line is "noun: what
 * happened key=value ...". Payload bytes and keys never appear. log_limited drops repeats beyond
 * LOG_LIMIT_PER_S a second and call site, and says how many it dropped.
 *
 * Threads: any; one write(2) a line.
 */
#ifndef CLEAVE_BASE_LOG_H
#define CLEAVE_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_LINE_BYTES_MAX 1024
#define LOG_LIMIT_PER_S 5
#define LOG_ERRNO_BYTES 24u /* the longest name has 15 */

enum log_level { LOG_TRACE, LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* For tables of options (base/config.h), in the order of the enums. */
extern const char *const log_level_choices[];
extern const char *const log_format_choices[];

/* Where a line goes. The default sink writes to standard error with the wall-clock time. */
typedef void (*log_sink_fn)(enum log_level level, const char *line, void *arg);

/* The memory of a call site of log_limited; zero-initialised static. */
struct log_limit {
	uint64_t window_start_ns;
	uint32_t count;
	uint32_t dropped_count;
};

/* log_set_level -- lines below @level are dropped; LOG_OFF: all are. At first it is LOG_INFO. */
void log_set_level(enum log_level level);
/* log_level_get -- as last set. */
enum log_level log_level_get(void);
/* log_level_parse -- "trace" ... "error", "off", in either case. 0; -EINVAL, and *@ret_level is untouched. */
int log_level_parse(const char *text, enum log_level *ret_level);
/* log_set_sink -- NULL: the default one. Not thread-safe: set it at start. */
void log_set_sink(log_sink_fn fn, void *arg);
/*
 * log_start -- how lines look from here on: @program is "who" in JSON, and lives as long as the process
 *
 * Looks whether standard error is systemd's journal. Until it is called lines are text with a time.
 * Threads: before there is a second one.
 */
void log_start(const char *program, enum log_format format);
/*
 * log_is_journal -- is standard error the journal: does $JOURNAL_STREAM name its device and inode?
 *
 * Source: systemd.exec(5), "JOURNAL_STREAM"; sd-daemon(3) for the numbers before the lines
 */
bool log_is_journal(void);
/* log_event -- log_line of something that has a code ("node-lost"), and happened to @object ("node 3"). */
void log_event(enum log_level level, const char *code, const char *object, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/*
 * log_complain -- "PROGRAM: TEXT" on standard error: why a program does not begin, for who has typed its command
 *
 * It has no time and knows no level; to the journal it is an error.
 */
void log_complain(const char *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* log_line -- one line, without its end; what is longer than LOG_LINE_BYTES_MAX is cut. See log_info and others. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* log_limit_pass -- 1 when this call site may log now; counts what it drops. */
int log_limit_pass(struct log_limit *limit);
/* log_wall_s -- the wall-clock time that lines carry, in seconds since 1970: for people, never to decide by. */
uint64_t log_wall_s(void);
/* log_wall_ms -- the same, in milliseconds. */
uint64_t log_wall_ms(void);
/*
 * log_errno -- "-EIO" for -EIO, "0" for 0, "unknown errno" for what is neither
 *
 * The text lives as long as the block in which this stands: for the arguments of a line, not to be kept.
 */
#define log_errno(rc) log_errno_text((char[LOG_ERRNO_BYTES]){ 0 }, (rc))
/* log_errno_text -- the same into @out, which is returned. */
const char *log_errno_text(char out[LOG_ERRNO_BYTES], int rc);

#define log_at(level, ...)                                                                         \
	do {                                                                                       \
		if ((level) >= log_level_get())                                                    \
			log_line((level), __VA_ARGS__);                                            \
	} while (0)
#define log_trace(...) log_at(LOG_TRACE, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_limited(level, ...)                                                                    \
	do {                                                                                       \
		static _Thread_local struct log_limit log_limit_here_;                             \
		if ((level) >= log_level_get() && log_limit_pass(&log_limit_here_))                \
			log_line((level), __VA_ARGS__);                                            \
	} while (0)

#endif /* CLEAVE_BASE_LOG_H */
