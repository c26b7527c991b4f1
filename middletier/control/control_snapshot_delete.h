/* SPDX-License-Identifier: Apache-2.0 */
/* control_snapshot_delete.h -- the op "snapshot.delete"; a volume's snapshots go before it does */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_DELETE_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_DELETE_H

#include <stdbool.h>
#include <stdint.h>

struct mt_control_request;

void mt_control_snapshot_delete(struct mt_control_request *request);
/* mt_control_refuse_obstacle -- true: a snapshot of the volume has clones, or is protected, and the request has ended. */
bool mt_control_refuse_obstacle(struct mt_control_request *request, uint64_t volume_id);
/*
 * mt_control_delete_snapshots -- the first of a volume's live snapshots are deleted, and then @again is called
 *
 * Returns: true: @again later, or the request has ended: one of them has clones or is protected, or it failed. False: none is left.
 * Threads: main.
 */
bool mt_control_delete_snapshots(struct mt_control_request *request, uint64_t volume_id,
    void (*again)(struct mt_control_request *request));

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_DELETE_H */
