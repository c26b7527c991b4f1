/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_attach.h -- who opens a volume: for writing, one at a time; for reading, as many as want
 * to
 */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_ATTACH_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_ATTACH_H

struct mt_control_request;

void mt_control_volume_attach(struct mt_control_request *request);
void mt_control_volume_open(struct mt_control_request *request);
void mt_control_volume_detach(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_ATTACH_H */
