/* SPDX-License-Identifier: Apache-2.0 */
/* format.h -- `cleave-storage format` */
#ifndef CLEAVE_STORAGE_FORMAT_H
#define CLEAVE_STORAGE_FORMAT_H

#include <stdint.h>

#define STORAGE_EXIT_FAILURE 1
#define STORAGE_EXIT_USAGE 2

/* format_main -- the whole command; argv[0] is "format". Prints; returns the exit code. */
int format_main(int argc, char *const argv[]);

/* storage_parse_hex -- 1 to 16 hex digits, not 0. 0 or -EINVAL. */
int storage_parse_hex(const char *text, uint64_t *ret_value);

#endif /* CLEAVE_STORAGE_FORMAT_H */
