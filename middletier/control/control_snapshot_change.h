/* SPDX-License-Identifier: Apache-2.0 */
/* control_snapshot_change.h -- the ops "snapshot.protect", "snapshot.unprotect", "snapshot.rename" */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_CHANGE_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_CHANGE_H

struct mt_control_request;

void mt_control_snapshot_protect(struct mt_control_request *request);
void mt_control_snapshot_unprotect(struct mt_control_request *request);
void mt_control_snapshot_rename(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_CHANGE_H */
