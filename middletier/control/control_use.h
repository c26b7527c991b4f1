/* SPDX-License-Identifier: Apache-2.0 */
/* control_use.h -- which sessions volumes have, and what each volume holds, for lists */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_USE_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_USE_H

#include <jansson.h>
#include <stdint.h>

struct mt_ask;
struct mt_control_request;
struct mt_volume;

#define MT_USE_SESSIONS_MAX                                                                        \
	64u                /* of a volume, in one answer about it; of the others their number */
#define MT_USE_IDS_MAX 16u /* likewise, in one answer about many volumes */

/* mt_control_volume_use -- the op volume.use: of a page of volumes, what this gateway's shards hold, and who is here. */
void mt_control_volume_use(struct mt_control_request *request);
/*
 * mt_json_sessions -- the sessions of @volume and its snapshots at this gateway, once each
 *
 *	[{"session":"16 hex digits","access":"write" or "read","peer":ADDR,"connections":N,"client":NAME,
 *	    "snapshot":NAME}, ...]
 *
 * client: of the writer that the volume's key names. snapshot: of a reader of one. *@ret_count: all of them.
 */
json_t *mt_json_sessions(struct mt_ask *ask, const struct mt_volume *volume, uint32_t *ret_count);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_USE_H */
