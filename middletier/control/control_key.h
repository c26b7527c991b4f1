/* SPDX-License-Identifier: Apache-2.0 */
/* control_key.h -- the op on keys: lists of those that were revoked */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_KEY_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_KEY_H

struct mt_control_request;

void mt_control_key_publish(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_KEY_H */
