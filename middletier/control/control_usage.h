/* SPDX-License-Identifier: Apache-2.0 */
/* control_usage.h -- what a volume holds, as a control request asks */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_USAGE_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_USAGE_H

struct mt_control_request;

/* mt_control_volume_usage -- the op volume.usage. */
void mt_control_volume_usage(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_USAGE_H */
