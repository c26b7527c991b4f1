/* SPDX-License-Identifier: Apache-2.0 */
/* trash.h -- a volume in the trash: its name in the tables, and the member "trash" of its key */
#ifndef CLEAVE_MIDDLETIER_CATALOG_TRASH_H
#define CLEAVE_MIDDLETIER_CATALOG_TRASH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "catalog/volume.h"

#define MT_TRASH_PREFIX "trash/"
#define MT_TRASH_KEEP_S UINT64_C(86400)          /* for whoever says nothing: a day */
#define MT_TRASH_KEEP_S_MAX UINT64_C(3155760000) /* a hundred years */

/* mt_trash_name -- "trash/ID", the id in 20 digits. */
void mt_trash_name(uint64_t id, char ret_name[MT_NAME_BYTES]);
/* mt_trash_is_name -- is it one of those? No user's volume can be called so. */
bool mt_trash_is_name(const char *name);
/*
 * mt_trash_passed_ms -- of the time that a key was seen for, what certainly has passed
 *
 * @seen_ns: by this process's own clock, which never jumps, since it first knew this version of the key. A
 * sixty-fourth is taken off, for a clock that is fast.
 */
uint64_t mt_trash_passed_ms(uint64_t seen_ns);
/* mt_json_put_trash -- the member "trash" into @object. 0; -1: no memory. */
int mt_json_put_trash(json_t *object, const struct mt_trash *trash);
/* mt_json_take_trash -- the value of that member. 0; -EINVAL and the field. */
int mt_json_take_trash(const json_t *object, struct mt_trash *ret_trash, const char **ret_field);

#endif /* CLEAVE_MIDDLETIER_CATALOG_TRASH_H */
