/* SPDX-License-Identifier: Apache-2.0 */
/* manage.h -- what the files manage_*.c share: a volume as an answer, and checks of names and flags */
#ifndef CLEAVE_VM_CLIENT_MANAGE_H
#define CLEAVE_VM_CLIENT_MANAGE_H

#include <stdbool.h>

#include "ask.h"

#define MANAGE_NAME_BYTES_MAX CLEAVE_VOLUME_NAME_BYTES_MAX
#define MANAGE_SNAPSHOT_BYTES_MAX (2 * CLEAVE_VOLUME_NAME_BYTES_MAX + 1) /* VOLUME@SNAPSHOT */

/* manage_volume -- an answer with one volume. */
extern const struct cleave_ask_kind manage_volume;

/* manage_named -- {"op":OP,"name":@name}; NULL: out of memory. */
json_t *manage_named(const struct ask_op *op, const char *name);
/* manage_add_flag -- @member is true when @flags has @flag; else it is left out. */
void manage_add_flag(json_t **request, const char *member, unsigned flags, unsigned flag);

#endif /* CLEAVE_VM_CLIENT_MANAGE_H */
