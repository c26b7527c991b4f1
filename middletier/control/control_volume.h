/* SPDX-License-Identifier: Apache-2.0 */
/* control_volume.h -- volumes made, listed, shown and deleted */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_VOLUME_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_VOLUME_H

struct mt_control_request;

#define MT_VOLUMES_PER_LIST 64u /* in one answer to volume.list */

void mt_control_volume_create(struct mt_control_request *request);
void mt_control_volume_list(struct mt_control_request *request);
void mt_control_volume_delete(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_VOLUME_H */
