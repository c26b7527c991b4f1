/* SPDX-License-Identifier: Apache-2.0 */
/* control_show.h -- volumes and snapshots, with what hangs on them */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_SHOW_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_SHOW_H

#include <jansson.h>

struct mt_control_request;
struct mt_volume;

#define MT_CLONES_PER_ANSWER 256u /* by name; of the others their number */

/* mt_json_volume_told -- as mt_json_volume_held, with "origin_name", VOLUME@SNAPSHOT of a clone, "snapshot_count", and how far it is flattened; what who asks may not see is left out. */
json_t *mt_json_volume_told(const struct mt_control_request *request,
    const struct mt_volume *volume);
/* The ops volume.show and snapshot.show. */
void mt_control_volume_show(struct mt_control_request *request);
void mt_control_snapshot_show(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_SHOW_H */
