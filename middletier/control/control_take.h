/* SPDX-License-Identifier: Apache-2.0 */
/* control_take.h -- snapshots taken: the ops "snapshot.create" and "snapshot.group" */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_TAKE_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_TAKE_H

struct mt_control_request;

void mt_control_snapshot_create(struct mt_control_request *request);
/* mt_control_snapshot_group -- of several volumes, at one point in time: all of them, or none. */
void mt_control_snapshot_group(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_TAKE_H */
