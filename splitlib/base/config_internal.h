/* SPDX-License-Identifier: Apache-2.0 */
/* config_internal.h -- a command line that is being parsed: what config.c and config_set.c share */
#ifndef CLEAVE_BASE_CONFIG_INTERNAL_H
#define CLEAVE_BASE_CONFIG_INTERNAL_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/config.h"

#define CONFIG_OPTIONS_MAX 128
#define CONFIG_MESSAGE_BYTES 512
#define CONFIG_SHORT_BYTES (2 * CONFIG_OPTIONS_MAX + 16)

enum config_rank { RANK_NONE, RANK_DEFAULT, RANK_FILE, RANK_COMMAND_LINE };

struct config_parser {
	const struct config_program *program;
	const struct config_option *options;
	uint32_t option_count;
	char *values; /* the program's struct */
	struct config_result *result;
	enum config_rank rank[CONFIG_OPTIONS_MAX];
	struct option long_options[CONFIG_OPTIONS_MAX + 5];
	char short_options[CONFIG_SHORT_BYTES];
	struct {
		FILE *stream;
		unsigned line; /* that was read last; 0: none is being read */
		bool
		    is_needed; /* it holds something, which was not handed to on_file_line so far */
		int rc;        /* why the file is not good, where inih does not say so */
		const char *section; /* the last one that was refused; NULL: none was */
	} file;
	bool is_done; /* help or version was printed */
	char message[CONFIG_MESSAGE_BYTES];
};

/* config_refuse -- say what is wrong; the first text counts, with --check-config each. -EINVAL, always. */
int config_refuse(struct config_parser *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/*
 * config_set_option -- 0; -EINVAL, and it was said what is wrong
 *
 * @text: NULL for a flag that was named alone. @where: for messages, "--size", or "size" of a file.
 */
int config_set_option(struct config_parser *p, uint32_t index, const char *text,
    enum config_rank rank, const char *where);
/* config_apply_defaults -- each option has its own, or is empty. */
void config_apply_defaults(struct config_parser *p);

#endif /* CLEAVE_BASE_CONFIG_INTERNAL_H */
