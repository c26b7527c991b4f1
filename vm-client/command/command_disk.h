/* SPDX-License-Identifier: Apache-2.0 */
/* command_disk.h -- a volume that a command opens for a while: one request at a time, waited for */
#ifndef CLEAVE_COMMAND_DISK_H
#define CLEAVE_COMMAND_DISK_H

#include <stdbool.h>

#include "command.h"

struct command_disk {
	struct command_session *session;
	struct cleave_volume *volume; /* NULL: not open */
	int rc;                       /* of the handler that came last */
	bool is_done;                 /* it has come */
};

/*
 * command_disk_open -- open volume @name with @flags of enum cleave_open_flags
 *
 * Returns 0, and command_disk_close follows; else a negative errno with session->error set.
 */
int command_disk_open(struct command_disk *disk, struct command_session *session, const char *name,
    unsigned flags);
/* command_disk_open_as -- the same, of the volume that has been looked at: another one of its name by now is -ENOENT. */
int command_disk_open_as(struct command_disk *disk, struct command_session *session,
    const struct cleave_open_options *options);
/* command_disk_run -- submit @io and wait for it: what became of it. Its handler is set here. */
int command_disk_run(struct command_disk *disk, struct cleave_io *io);
/* command_disk_discard_from -- what lies at @from_bytes, a multiple of a block, and behind, up to the volume's end. */
int command_disk_discard_from(struct command_disk *disk, uint64_t from_bytes);
/* command_disk_close -- wait until others may open it. */
void command_disk_close(struct command_disk *disk);

#endif /* CLEAVE_COMMAND_DISK_H */
