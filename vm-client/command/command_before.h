/* SPDX-License-Identifier: Apache-2.0 */
/* command_before.h -- what is in a volume before a command writes over it is kept as a snapshot */
#ifndef CLEAVE_COMMAND_BEFORE_H
#define CLEAVE_COMMAND_BEFORE_H

#include "command.h"
#include "command_disk.h"

#define COMMAND_BEFORE_BYTES (2 * CLEAVE_VOLUME_NAME_BYTES_MAX + 2)

/*
 * command_before_keep -- take a snapshot of the volume that @disk has open for writing: VOLUME@before-VERB-NUMBER
 *
 * @name: the volume's; @verb: what is done to it. *@ret_name is the snapshot's; "": there is none, as --purge says so, or
 * the volume holds nothing. Returns 0; else a negative errno with session->error set, and nothing may be written.
 */
int command_before_keep(struct command_disk *disk, const char *name, const char *verb,
    char ret_name[COMMAND_BEFORE_BYTES]);
/* command_before_tell -- all went well: a line about snapshot @name, on how to go back, and how to let go of it. "": none. */
void command_before_tell(const struct command_session *session, const char *name);
/* command_before_fail -- session->error, and where what was there is: in snapshot @name, or, "", nowhere. Returns @rc. */
int command_before_fail(struct command_session *session, int rc, const char *volume,
    const char *name);

#endif /* CLEAVE_COMMAND_BEFORE_H */
