/* SPDX-License-Identifier: Apache-2.0 */
/* control_room.h -- is there room in shard 0's manifest for more volumes or snapshots? */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_ROOM_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_ROOM_H

#include <stdbool.h>
#include <stdint.h>

struct mt_control_request;

/* mt_control_has_room, _for -- false: there is none for one more, or @count; the request has ended with a text that says so. */
bool mt_control_has_room(struct mt_control_request *request);
bool mt_control_has_room_for(struct mt_control_request *request, uint32_t count);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_ROOM_H */
