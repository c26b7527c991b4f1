/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h -- one line per event worth a person's attention
 *
 *	2026-01-02T03:04:05.678901Z WARN append: write failed extent=17 offset_bytes=4096 rc=-EIO
 *
 * Libraries return errors; daemons log them, once, where they are handled. A line is "noun: what
 * happened key=value ...". Payload bytes and keys never appear. log_limited drops repeats beyond
 * LOG_LIMIT_PER_S a second and call site, and says how many it dropped.
 *
 * Threads: any; one write(2) a line.
 */
#ifndef CLEAVE_BASE_LOG_H
#define CLEAVE_BASE_LOG_H

#include <stdint.h>

#define LOG_LINE_BYTES_MAX 1024
#define LOG_LIMIT_PER_S 5
#define LOG_ERRNO_BYTES 24u /* the longest name has 15 */

enum log_level { LOG_TRACE, LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };

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
/* log_line -- one line, without its end; what is longer than LOG_LINE_BYTES_MAX is cut. See log_info and others. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* log_limit_pass -- 1 when this call site may log now; counts what it drops. */
int log_limit_pass(struct log_limit *limit);
/* log_wall_s -- the wall-clock time that lines carry, in seconds since 1970: for people, never to decide by. */
uint64_t log_wall_s(void);
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
