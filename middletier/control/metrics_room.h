/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_room.h -- metrics of room in bytes, of who tells them, and of whether all ports have */
#ifndef CLEAVE_MIDDLETIER_CONTROL_METRICS_ROOM_H
#define CLEAVE_MIDDLETIER_CONTROL_METRICS_ROOM_H

#include <stdio.h>

struct mt_ask;
struct mt_room;

/*
 * mt_metrics_write_room -- the cluster's room and each node's, which release this is, and whether the answer is partial
 *
 * @room: as judged by the answers of @ask. Errors are @out's; without memory nodes are left out.
 */
void mt_metrics_write_room(FILE *out, const struct mt_ask *ask, const struct mt_room *room);

#endif /* CLEAVE_MIDDLETIER_CONTROL_METRICS_ROOM_H */
