/* SPDX-License-Identifier: Apache-2.0 */
/* control_trash.h -- the ops "trash.*"; a volume that is deleted goes to the trash */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_TRASH_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_TRASH_H

#include <jansson.h>
#include <stdbool.h>

struct mt_gateway;
struct mt_control_request;
struct mt_volume_entry;

/* For volume.delete: */
/* mt_control_trash_refuse -- true: it asks for what cannot be, and has ended. */
bool mt_control_trash_refuse(struct mt_control_request *request);
/* mt_control_trash_is_kept -- the volume goes to the trash; else it is deleted at once. */
bool mt_control_trash_is_kept(const struct mt_control_request *request);
/* mt_control_trash_move -- @entry, which nobody uses and whose snapshots may go with it, is moved there; an end of it. */
void mt_control_trash_move(struct mt_control_request *request, const struct mt_volume_entry *entry);

/* For control_allow.c: */
/*
 * mt_control_trash_name -- what the volume in the trash was called that has @name as its id; else @name
 *
 * A volume that who asks may not know of is none.
 */
const char *mt_control_trash_name(struct mt_control_request *request, const char *name);
/* mt_control_trash_refuse_unknown -- an end of the request: no volume in the trash is @name. */
void mt_control_trash_refuse_unknown(struct mt_control_request *request, const char *name);

void mt_control_trash_list(struct mt_control_request *request);
void mt_control_trash_restore(struct mt_control_request *request);
void mt_control_trash_purge(struct mt_control_request *request);

/* mt_json_trash -- @entry, which is in the trash, as trash.list has it. NULL: no memory. */
json_t *mt_json_trash(const struct mt_gateway *gateway, const struct mt_volume_entry *entry);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_TRASH_H */
