/* SPDX-License-Identifier: Apache-2.0 */
/* config_help.h -- how options and their bounds look in text; for config.c */
#ifndef CLEAVE_BASE_CONFIG_HELP_H
#define CLEAVE_BASE_CONFIG_HELP_H

#include <stddef.h>
#include <stdio.h>

#include "base/config.h"

#define CONFIG_RANGE_BYTES 256

/* config_format_number -- a value of a number, size or duration, in the largest unit that divides it; cut at @bytes. */
void config_format_number(const struct config_option *option, uint64_t value, char *ret_text,
    size_t bytes);
/* config_format_range -- "4K to 64M", "at least 1", "less than 2^64"; cut at @bytes. */
void config_format_range(const struct config_option *option, char *ret_text, size_t bytes);
/* config_format_choices -- "lz4, zstd, none"; cut at @bytes. */
void config_format_choices(const struct config_option *option, char *ret_text, size_t bytes);

/*
 * config_print_wrapped -- @text and a newline, broken between words at 80 columns
 *
 * It begins at @column of a line that has been begun; further lines begin at @indent, below 80.
 */
void config_print_wrapped(FILE *out, const char *text, size_t column, size_t indent);

#endif /* CLEAVE_BASE_CONFIG_HELP_H */
