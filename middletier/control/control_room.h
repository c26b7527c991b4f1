/* SPDX-License-Identifier: Apache-2.0 */
/* control_room.h -- is there room in shard 0's manifest for one volume or snapshot more? */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_ROOM_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_ROOM_H

#include <stdbool.h>

struct mt_control_request;

/* mt_control_has_room -- false: there is none, and the request has ended with a text that says so. */
bool mt_control_has_room(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_ROOM_H */
