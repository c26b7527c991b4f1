/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_image.h -- the two programs of import and export: qemu-img, and an agent of its own
 *
 *	FILE <-- qemu-img convert --> unix socket in a private folder <-- cleave-agent --> gateway
 *
 * The agent is started for the one copy, with a socket that listens already, so nobody waits for it. Both end with this
 * process, however it ends, and the folder goes.
 */
#ifndef CLEAVE_COMMAND_IMAGE_H
#define CLEAVE_COMMAND_IMAGE_H

#include <limits.h>
#include <sys/types.h>

#include "command.h"

#define IMAGE_TOOL "qemu-img"
#define IMAGE_PATH_BYTES (PATH_MAX + 2u)

struct image_agent {
	char folder[96], socket[108], uri[144]; /* uri: of its one export, for qemu-img */
	pid_t pid;
	pid_t guard; /* removes the folder when guard_fd is closed; not above 0: there is none */
	int guard_fd;
};

/* command_image_watch_signals -- SIGINT and SIGTERM end the qemu-img that runs, and command_image_run with -EINTR. */
void command_image_watch_signals(void);
/*
 * command_image_run -- run qemu-img and wait for it
 *
 * @argv: as for execvp, with a NULL behind. @ret_text: gets what it prints, at most @bytes with a NUL; NULL: it prints
 * to our standard output. Returns 0, or a negative errno with session->error set.
 */
int command_image_run(struct command_session *session, const char *const argv[], char *ret_text,
    size_t bytes);
/* command_image_path -- @file as qemu-img takes it: "a:b" would be a protocol. */
void command_image_path(const char *file, char out[IMAGE_PATH_BYTES]);
/*
 * command_image_start -- an agent that exports volume @name
 *
 * @id: of the volume: no other one of its name is opened; 0: of a snapshot. @is_written: else it is read. Returns 0, or a
 * negative errno with session->error set; command_image_stop in either case.
 */
int command_image_start(struct command_session *session, const char *name, uint64_t id,
    bool is_written, struct image_agent *ret_agent);
/* command_image_stop -- it has closed the volume, and its folder is gone. @agent: zeros of one that was never started, too. */
void command_image_stop(struct image_agent *agent);

/* A copy that was made, for people and programs. */
struct image_done {
	const char *file, *format; /* of the image */
	const char *kept;          /* import: the snapshot of what was there; NULL, "": none */
	bool is_import;
	uint64_t size_bytes; /* import: of the disk in the image */
	uint64_t file_bytes; /* export: what FILE takes of its disk */
	uint64_t begun_ns;   /* the loop's clock */
};
/*
 * command_image_say -- what was copied: blocks, bytes, how many of them hold data, and how long it took; or as JSON
 *
 * The volume, or snapshot, is options->name; it is asked what its blocks hold, and where it does not answer that is left out.
 * Returns 0; -ENOMEM.
 */
int command_image_say(struct command_session *session, const struct image_done *done);

#endif /* CLEAVE_COMMAND_IMAGE_H */
