/* SPDX-License-Identifier: Apache-2.0 */
/* control_snapshot.h -- snapshots taken, listed, deleted and rolled back to; clones */
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
/*
 * mt_control_delete_snapshots -- the first of a volume's live snapshots are deleted, and then @again is called
 *
 * Returns: true: @again later, or the request has ended: one of them has clones, or it failed. False: none is left.
 * Threads: main.
 */
bool mt_control_delete_snapshots(struct mt_control_request *request, uint64_t volume_id,
    void (*again)(struct mt_control_request *request));

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_H */
