/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.h -- `cleave-storage format`, and its steps for `cleave-storage join`
 *
 *	format_open:  opened, locked, empty (or --force), large enough     nothing is changed so far
 *	format_write: zeros, fences, the superblocks last                  killed before these: it is empty still
 *	format_close
 *
 * The steps print their own errors.
 */
#ifndef CLEAVE_STORAGE_FORMAT_H
#define CLEAVE_STORAGE_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "format_pages.h"

#define STORAGE_EXIT_FAILURE 1
#define STORAGE_EXIT_USAGE 2

struct format_options {
	const char *command; /* "format": for errors */
	const char *disk;
	uint64_t size, slot_size;
	uint64_t others_slot_size; /* of the cluster that it joins; 0: not known */
	bool is_filled;
	bool is_forced;
};

struct format_disk {
	int fd; /* -1: not open */
	bool is_block;
	bool is_new;
	uint64_t capacity_bytes;
};

enum format_content { FORMAT_EMPTY, FORMAT_DISK, FORMAT_OTHER };

/*
 * format_main -- the whole command: parse @argv (argv[0] is "format"), ask the disk, write it, print what came of it
 *
 * Returns the exit code: 0; STORAGE_EXIT_USAGE; STORAGE_EXIT_FAILURE, with a line on standard error. Blocks.
 */
int format_main(int argc, char *const argv[]);

/*
 * format_look -- what does the file or device @fd hold, as far as its first MiB tells?
 *
 * What a format that was killed has left is FORMAT_EMPTY. Returns 0 and *@ret_content, with FORMAT_DISK *@ret_format, too (node_probe); else a negative errno.
 */
int format_look(int fd, enum format_content *ret_content, struct node_format *ret_format);

/*
 * format_open -- open and lock the disk; refuse one that holds something, unless forced, or is too small
 *
 * @format: its ids are any but 0; the rest is filled in, with a uuid that is new. Nothing is written but the name of
 * a file that was not there. format_close follows in any case. Returns 0; -1 and a line on standard error.
 */
int format_open(const struct format_options *options, struct node_format *format,
    struct format_disk *ret_disk);
/* format_write -- after format_open: @disk becomes @format, durably. Returns 0; -1 and a line on standard error. */
int format_write(const struct format_options *options, const struct node_format *format,
    struct format_disk *disk);
/* format_close -- @rc: of the steps before; a file that they made is gone unless 0. Returns @rc; -1 likewise. */
int format_close(const struct format_options *options, struct format_disk *disk, int rc);
/* format_say -- print what was made, and what a cluster takes of it. */
void format_say(const struct format_options *options, const struct node_format *format);

/* storage_parse_hex -- read @text, 1 to 16 hex digits and not 0. Returns 0 and *@ret_value, or -EINVAL. */
int storage_parse_hex(const char *text, uint64_t *ret_value);

#endif /* CLEAVE_STORAGE_FORMAT_H */
