/* SPDX-License-Identifier: Apache-2.0 */
/* control_holder.h -- the op "volume.holder": another gateway asks whether a session is still here */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_HOLDER_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_HOLDER_H

struct mt_control_request;

void mt_control_volume_holder(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_HOLDER_H */
