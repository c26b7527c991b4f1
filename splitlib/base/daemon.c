/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.c -- see daemon.h */
#include "base/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/build_info.h"
#include "base/check.h"
#include "base/config_text.h"
#include "base/notify.h"
#include "base/num.h"

#define DAEMON_LINE_BYTES 900u /* of options; beside them a line of the log has room for its head */

static const struct daemon_options *
options_of(const struct daemon *daemon, const void *values)
{
	assert(daemon->options_offset + sizeof(struct daemon_options) <= daemon->values_bytes);
	return (const void *)((const char *)values + daemon->options_offset);
}

/* ---- the first line ---- */

/* Options, as many lines of them as they take. */
struct option_lines {
	const struct daemon *daemon;
	char text[DAEMON_LINE_BYTES];
	size_t used;
	uint32_t line_count;
};

static void
lines_end(struct option_lines *lines)
{
	const char *noun = lines->daemon->noun;

	if (lines->line_count++ == 0)
		log_info("%s: starting %s %s (%s)%s", noun, lines->daemon->program->name,
		    build_info_version(), build_info_commit(), lines->text);
	else
		log_info("%s: starting, further options:%s", noun, lines->text);
	lines->used = 0;
	lines->text[0] = '\0';
}

static void
lines_add(struct option_lines *lines, const char *text)
{
	size_t room = sizeof(lines->text) - lines->used;

	if (strlen(text) + 2 > room && lines->used > 0)
		lines_end(lines);
	room = sizeof(lines->text) - lines->used;
	lines->used +=
	    num_min((size_t)snprintf(lines->text + lines->used, room, " %s", text), room - 1);
}

void
daemon_tell_start(const struct daemon *daemon, const struct config_result *result)
{
	struct option_lines lines = { .daemon = daemon };
	void *defaults = calloc(1, daemon->values_bytes);
	char text[CONFIG_TEXT_BYTES];

	if (result->file != NULL) {
		(void)snprintf(text, sizeof(text), "--config=%s", result->file);
		lines_add(&lines, text);
	}
	if (defaults == NULL || config_defaults(daemon->program, defaults) != 0) {
		free(defaults);
		lines_end(&lines); /* without memory it says what it is, and will not come far */
		return;
	}
	for (const struct config_option *option = daemon->program->options; option->name != NULL;
	     option++) {
		if (!config_differs(option, daemon->values, defaults))
			continue;
		for (uint32_t i = 0; i < config_text_count(option, daemon->values); i++)
			lines_add(&lines,
			    config_text(option, daemon->values, i, text, sizeof(text)));
	}
	lines_end(&lines);
	free(defaults);
}

void
daemon_begin(struct daemon *daemon)
{
	const struct daemon_options *options = options_of(daemon, daemon->values);

	assert(daemon->noun != NULL && daemon->argc > 0);
	daemon->start_s = log_wall_s();
	log_set_level((enum log_level)options->log_level);
	log_start(daemon->program->name, (enum log_format)options->log_format);
}

/* ---- what changes while it runs ---- */

void
daemon_change_level(const char *noun, enum log_level level, const char *why)
{
	enum log_level old = log_level_get();

	assert(level <= LOG_OFF);
	if (level == old)
		return;
	log_set_level(level < old ? level : old);
	log_info("%s: log level %s, was %s: %s", noun, log_level_choices[level],
	    log_level_choices[old], why);
	log_set_level(level);
}

static bool
is_reloaded(const struct daemon *daemon, const struct config_option *option)
{
	if (strcmp(option->name, "log-level") == 0)
		return true;
	for (uint32_t i = 0; daemon->reload != NULL && daemon->reload[i] != NULL; i++) {
		if (strcmp(option->name, daemon->reload[i]) == 0)
			return true;
	}
	return false;
}

/* Options that have changed and are not taken, into @ret_text. */
static void
list_restart(const struct daemon *daemon, const void *values, char *ret_text, size_t bytes)
{
	size_t used = 0;

	ret_text[0] = '\0';
	for (const struct config_option *option = daemon->program->options; option->name != NULL;
	     option++) {
		if (is_reloaded(daemon, option) || !config_differs(option, daemon->values, values))
			continue;
		used += (size_t)snprintf(ret_text + used, bytes - used, " --%s", option->name);
		used = num_min(used, bytes - 1);
	}
}

int
daemon_reload(const struct daemon *daemon, const char *why,
    void (*fn)(const void *values, void *arg), void *arg)
{
	struct config_result result = { 0 };
	void *values = calloc(1, daemon->values_bytes);
	char restart[DAEMON_LINE_BYTES / 2];
	int rc = values == NULL
	    ? -ENOMEM
	    : config_parse(daemon->program, daemon->argc, daemon->argv, values, &result);

	assert(rc <= 0); /* neither --help nor --version: it runs */
	if (rc != 0) {
		log_error("%s: options were not read again, and stay as they are rc=%s: %s",
		    daemon->noun, log_errno(rc), why);
		free(values);
		return rc;
	}
	log_info("%s: options read again: %s", daemon->noun, why);
	if (fn != NULL)
		fn(values, arg);
	daemon_change_level(daemon->noun, (enum log_level)options_of(daemon, values)->log_level,
	    why);
	list_restart(daemon, values, restart, sizeof(restart));
	if (restart[0] != '\0')
		log_warn("%s: options have changed that want a restart:%s", daemon->noun, restart);
	config_result_fini(&result);
	free(values);
	return 0;
}

/* ---- the last line ---- */

void
daemon_tell_stopping(const struct daemon *daemon, const char *why)
{
	log_info("%s: stopping: %s", daemon->noun, why);
	(void)notify_stopping(daemon->noun); /* a failure was logged */
}

void
daemon_tell_stop(const struct daemon *daemon, const char *why)
{
	uint64_t now_s = log_wall_s();

	log_info("%s: stopped after_s=%" PRIu64 ": %s", daemon->noun,
	    now_s - num_min(daemon->start_s, now_s), why);
}
