/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_file.h -- a backup that is written: FILE.part, which becomes FILE when it is whole; or a pipe, "-"
 *
 *	begin --> what was there of it: command_file_found --> writer --> finish: FILE
 *	                                                         '--> abandon: FILE.part stays, to go on from
 */
#ifndef CLEAVE_COMMAND_FILE_H
#define CLEAVE_COMMAND_FILE_H

#include <limits.h>

#include "backup/backup_reader.h"
#include "backup/backup_writer.h"
#include "command.h"

struct command_file {
	struct command_session *session;
	const char *path;     /* "-": standard output */
	char part[PATH_MAX];  /* path.part; "": a pipe */
	int fd;               /* -1: not open */
	bool is_ours;         /* made, and locked, by us: nobody else writes it */
	uint64_t found_bytes; /* that were in it */
	struct backup_writer *writer;
};

/*
 * command_file_begin -- open FILE.part, as the only one, or standard output
 *
 * FILE has to be absent, or with --force a regular file. FILE.part is locked: -EBUSY, another cleave writes it.
 * Returns 0, and command_file_finish or _abandon follows; else a negative errno with session->error set, and _abandon.
 */
int command_file_begin(struct command_file *file, struct command_session *session,
    const char *path);
/*
 * command_file_start -- begin to write, or go on where FILE.part is whole up to a frame and is of the same snapshots
 *
 * One of others is refused, but with --force, which begins anew. @may_resume: false begins the same backup anew, too.
 * Returns 0: file->writer, behind at_bytes; 1: FILE.part is whole already; else a negative errno, with the error set.
 */
int command_file_start(struct command_file *file, const struct backup_header *header,
    bool may_resume);
/*
 * command_file_check_none -- 0: FILE.part is no beginning of another backup, or --force says that it goes
 *
 * For one of a snapshot that there is not yet: what is in the part cannot be its. Else -EEXIST, with the error set.
 */
int command_file_check_none(struct command_file *file);
/* command_file_frame -- write it: 0, or with the error set. */
int command_file_frame(struct command_file *file, const struct backup_frame *frame);
/*
 * command_file_finish -- FILE is whole, on the disk, under its name: 0, or with the error set. Then closed, as after _abandon
 *
 * Where FILE.part is not the file any more that was written, FILE is not touched: -EBUSY.
 */
int command_file_finish(struct command_file *file);
/* command_file_abandon -- closed. FILE.part is removed if command_file_begin made it, and nothing was written. */
void command_file_abandon(struct command_file *file);
/*
 * command_give_name -- the file @path, which is whole and on its disk, is called @name: after a loss of power, too
 *
 * Returns 0; -EEXIST: there is a file @name, and @may_replace is false; or another negative errno. It is called @path then,
 * but for an error of the folder's own flush, when it is called @name.
 */
int command_give_name(const char *path, const char *name, bool may_replace);

/* command_open_sources -- open options->files to be read; "-" is standard input. 0, or with the error set. */
struct backup_source;
int command_open_sources(struct command_session *session, struct backup_source **ret_sources);
void command_close_sources(struct command_session *session, struct backup_source *sources);

/* command_progress -- show on standard error how far it is, where --progress asks for it, a line that changes. */
void command_progress(struct command_session *session, uint64_t done_bytes, uint64_t all_bytes);
/* command_new_id -- a random one. */
void command_new_id(uint8_t id[BACKUP_ID_BYTES]);
/* command_now_s -- seconds since 1970. */
uint64_t command_now_s(void);

#endif /* CLEAVE_COMMAND_FILE_H */
