/* SPDX-License-Identifier: Apache-2.0 */
/* qos.h -- a volume's limits as JSON: in its key, in answers, and in the request that changes them */
#ifndef CLEAVE_MIDDLETIER_CATALOG_QOS_H
#define CLEAVE_MIDDLETIER_CATALOG_QOS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/reader.h"
#include "cleave/units.h"

#define MT_LIMIT_COUNT (sizeof(struct cleave_limits) / sizeof(uint64_t))

/* mt_qos_members -- a reader's members, which fill @limits; 0 is none. */
void mt_qos_members(struct cleave_limits *limits, struct reader_member ret_members[MT_LIMIT_COUNT]);
/* mt_qos_is_any -- a limit or a share is set, or a burst. */
bool mt_qos_is_any(const struct cleave_limits *limits);
/* mt_qos_check -- NULL, or what is wrong: a member that is not 0 and out of its range. */
const char *mt_qos_check(const struct cleave_limits *limits);
/* mt_json_put_qos -- the member "qos", if anything is set, into @object. 0; -1: no memory. */
int mt_json_put_qos(json_t *object, const struct cleave_limits *limits);
/* mt_json_take_qos -- the value of that member; @object may be NULL. NULL, or what is wrong with it. */
const char *mt_json_take_qos(const json_t *object, struct cleave_limits *ret_limits);

#endif /* CLEAVE_MIDDLETIER_CATALOG_QOS_H */
