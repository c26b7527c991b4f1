/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_unfinished.h -- the names of volumes that import and restore have not filled yet
 *
 *	NAME.importing-NUMBER, NAME.restore-ID  --all is in it-->  NAME
 *
 * A name is all that marks such a volume: it needs nothing of a gateway, and is told wherever a volume is.
 */
#ifndef CLEAVE_COMMAND_UNFINISHED_H
#define CLEAVE_COMMAND_UNFINISHED_H

#include "command.h"

/* command_import_name -- of the volume that becomes @name: another one at each call. A long @name is cut. */
void command_import_name(const char *name, char ret_name[CLEAVE_VOLUME_NAME_BYTES_MAX + 1]);
/* command_restore_name -- likewise, of the files that have @id: the same at each call. */
void command_restore_name(const char *name, uint64_t id,
    char ret_name[CLEAVE_VOLUME_NAME_BYTES_MAX + 1]);
/*
 * command_finish_name -- all is in volume @working: it gets its name, options->name
 *
 * Returns 0, or a negative errno with session->error set; it has the name that it had then.
 */
int command_finish_name(struct command_session *session, const char *working);
/*
 * command_print_unfinished -- a line for each of @volumes that has such a name, and nobody writes: what to do with it
 *
 * @told, @is_whole: as command_print_volumes has them.
 */
void command_print_unfinished(const struct cleave_volume_entry *volumes, uint32_t count,
    const json_t *told, bool is_whole, FILE *out);

#endif /* CLEAVE_COMMAND_UNFINISHED_H */
