/* SPDX-License-Identifier: Apache-2.0 */
/* control_snapshot.h -- the snapshot.* ops, clone, volume.rename, volume.resize */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

struct mt_control_request;

void mt_control_snapshot_create(struct mt_control_request *request);
void mt_control_snapshot_list(struct mt_control_request *request);
void mt_control_snapshot_delete(struct mt_control_request *request);
void mt_control_snapshot_rollback(struct mt_control_request *request);
void mt_control_clone(struct mt_control_request *request);
/* mt_control_open_snapshot -- volume.attach of VOLUME@SNAPSHOT: no attach, no writes. */
void mt_control_open_snapshot(struct mt_control_request *request, const char *name);
/* mt_control_delete_snapshots -- of request->volume: true, and the op runs again; false: it has none. */
bool mt_control_delete_snapshots(struct mt_control_request *request, uint64_t volume_id);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_H */
