/* SPDX-License-Identifier: Apache-2.0 */
/* control_flatten.h -- the op volume.flatten: a clone shall let go of its origin */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_FLATTEN_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_FLATTEN_H

struct mt_control_request;

void mt_control_volume_flatten(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_FLATTEN_H */
