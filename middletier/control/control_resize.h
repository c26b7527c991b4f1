/* SPDX-License-Identifier: Apache-2.0 */
/* control_resize.h -- the ops that rename and resize a volume */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_RESIZE_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_RESIZE_H

struct mt_control_request;

void mt_control_volume_rename(struct mt_control_request *request);
void mt_control_volume_resize(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_RESIZE_H */
