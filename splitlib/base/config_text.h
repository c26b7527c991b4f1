/* SPDX-License-Identifier: Apache-2.0 */
/* config_text.h -- values of options as they are typed, and which of two sets of values differ */
#ifndef CLEAVE_BASE_CONFIG_TEXT_H
#define CLEAVE_BASE_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"

#define CONFIG_TEXT_BYTES 512u

/* config_differs -- has @option another value in @a than in @b, both filled by config_parse or config_defaults? */
bool config_differs(const struct config_option *option, const void *a, const void *b);
/* config_text_count -- how often @option is to be typed for its value in @values: a list's items; 0: an empty string. */
uint32_t config_text_count(const struct config_option *option, const void *values);
/*
 * config_text -- the @index-th time: "--size=64M", "--read-only", "--port=tcp://127.0.0.1:7100"; cut at @bytes
 *
 * @index is below config_text_count. Returns @ret_text.
 */
const char *config_text(const struct config_option *option, const void *values, uint32_t index,
    char *ret_text, size_t bytes);

#endif /* CLEAVE_BASE_CONFIG_TEXT_H */
