/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exports_file.h -- the exports of an agent that are to last, in a file that people may edit: /etc/cleave/exports
 *
 *	# a volume or VOLUME@SNAPSHOT a line, and options
 *	disk1
 *	disk2 read-only
 *
 * An agent reads it (vm-client/agent/nbd_persistent.c), `cleave attach --persistent` and `cleave detach` change lines of
 * it (vm-client/command/command_agent.c). A line that makes no sense keeps no other one out.
 */
#ifndef CLEAVE_VM_CLIENT_EXPORTS_FILE_H
#define CLEAVE_VM_CLIENT_EXPORTS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/client.h"

#define EXPORTS_FILE_BYTES_MAX (1u << 20)
#define EXPORTS_FILE_LINES_MAX 8192u
#define EXPORTS_FILE_LINE_BYTES_MAX 512u
#define EXPORTS_FILE_ERROR_BYTES 320u

/* A line that names an export. */
struct exports_line {
	char name[CLEAVE_NAME_BYTES_MAX + 1];
	bool is_read_only;
};

/*
 * exports_line_parse -- one line, without its end
 *
 * Returns 1 and *@ret_line; 0: it is empty, or a comment; -EINVAL with what is wrong in @ret_error, of
 * EXPORTS_FILE_ERROR_BYTES.
 */
int exports_line_parse(const char *text, size_t bytes, struct exports_line *ret_line,
    char *ret_error);

/*
 * @line: an export; NULL: @number's line is wrong, for @error, "FILE:LINE: why". Lines count from 1.
 */
typedef void (*exports_file_fn)(const struct exports_line *line, uint32_t number, const char *error,
    void *arg);
/*
 * exports_file_read -- tell @fn of each export, and of each line that is wrong, from the first on
 *
 * A second line for the same name is wrong. Returns 0, also when there is no such file; else a negative errno, with a
 * text that names the file in @ret_error (EXPORTS_FILE_ERROR_BYTES), and @fn was told of nothing: -EFBIG longer than
 * EXPORTS_FILE_BYTES_MAX, or of more lines than EXPORTS_FILE_LINES_MAX; what open and read say. Blocks.
 */
int exports_file_read(const char *path, exports_file_fn fn, void *arg, char *ret_error);

/*
 * exports_file_put, exports_file_remove -- that @line is in the file; that no line for @name is
 *
 * Lines that are not about it stay as they are. The file is replaced by a new one, which has its mode, in one step: who
 * reads sees the old one or the new one, also after a power cut. Two that change it at a time do so one after the other.
 * Returns 0; _remove: 1 when there was none; _put: -EINVAL when a line for that name is wrong, which stays; else a
 * negative errno. With a text in @ret_error that names the file, and that line. Blocks.
 */
int exports_file_put(const char *path, const struct exports_line *line, char *ret_error);
int exports_file_remove(const char *path, const char *name, char *ret_error);

#endif /* CLEAVE_VM_CLIENT_EXPORTS_FILE_H */
