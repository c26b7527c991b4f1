/* SPDX-License-Identifier: Apache-2.0 */
/* control_snapshot.h -- snapshots listed and rolled back to; clones */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_H

#include <jansson.h>

struct mt_control_request;
struct mt_snapshot;

void mt_control_snapshot_list(struct mt_control_request *request);
void mt_control_snapshot_rollback(struct mt_control_request *request);
void mt_control_clone(struct mt_control_request *request);
/* mt_control_json_snapshot -- as answers have it, with its volume's name. NULL: out of memory. */
json_t *mt_control_json_snapshot(const struct mt_control_request *request,
    const struct mt_snapshot *snapshot);
/* mt_control_open_snapshot -- volume.attach of VOLUME@SNAPSHOT: no attach, no writes. */
void mt_control_open_snapshot(struct mt_control_request *request, const char *name);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_SNAPSHOT_H */
