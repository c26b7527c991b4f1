/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon.h -- what all daemons do alike: the options of their log, what they say first and last, reading options again
 *
 *	config_parse --> daemon_begin --> daemon_tell_start --> ... SIGHUP: daemon_reload ... --> daemon_tell_stop
 *	                 the log's look    version, options          level of the log, and more      why
 */
#ifndef CLEAVE_BASE_DAEMON_H
#define CLEAVE_BASE_DAEMON_H

#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/log.h"

/* Options of every daemon: a member of its struct of values. */
struct daemon_options {
	unsigned log_level;  /* enum log_level */
	unsigned log_format; /* enum log_format */
};

/* Their rows in its table; @member is the struct daemon_options in struct @type. */
#define DAEMON_OPTION_ROWS(type, member)                                                           \
	{ "log-level", 0, CONFIG_CHOICE, offsetof(type, member.log_level), "LEVEL",                \
		"Least level to log. SIGHUP has it read again.", "info", false, 0, 0,              \
		log_level_choices },                                                               \
	{                                                                                          \
		"log-format", 0, CONFIG_CHOICE, offsetof(type, member.log_format), "FORMAT",       \
		    "How lines of the log look: text, which in systemd's journal has its "         \
		    "priorities and no time; or a JSON object a line.",                            \
		    "text", false, 0, 0, log_format_choices                                        \
	}

struct daemon {
	const char *noun; /* "gateway": its lines begin with it */
	const struct config_program *program;
	int argc;
	char *const *argv;
	const void *values; /* that config_parse has filled; they do not change */
	size_t values_bytes;
	size_t options_offset; /* of the struct daemon_options in them */
	const char *const
	    *reload;      /* options that daemon_reload's @fn takes, NULL at the end; or NULL */
	uint64_t start_s; /* daemon_begin's */
};

/* daemon_begin -- the log is as the options say. Before there are threads. */
void daemon_begin(struct daemon *daemon);
/* daemon_tell_start -- log the version, the commit, and the options that are not their defaults. */
void daemon_tell_start(const struct daemon *daemon, const struct config_result *result);
/*
 * daemon_reload -- read command line and configuration file again, and take the options that can change
 *
 * The level of the log, and what @fn takes from the values that it gets. Logs what it was, by @why, and names options
 * that have changed but want a restart. Where something is wrong it logs that, and all stays as it was.
 * Returns: 0; -EINVAL and others.
 * Threads: main's, which it blocks while it reads a file.
 */
int daemon_reload(const struct daemon *daemon, const char *why,
    void (*fn)(const void *values, void *arg), void *arg);
/* daemon_change_level -- the log's level from here on; logs @why, by the more talkative of both; nothing if it is so. */
void daemon_change_level(const char *noun, enum log_level level, const char *why);
/* daemon_tell_stopping -- log that it stops, and why; the service manager is told, too. */
void daemon_tell_stopping(const struct daemon *daemon, const char *why);
/* daemon_tell_stop -- the last line of a clean stop: why, and how long it ran. */
void daemon_tell_stop(const struct daemon *daemon, const char *why);

#endif /* CLEAVE_BASE_DAEMON_H */
