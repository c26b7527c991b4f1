/* SPDX-License-Identifier: Apache-2.0 */
/* control_user.h -- the ops "user.*": what clients may do with which volumes */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_USER_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_USER_H

struct mt_control_request;

void mt_control_user_list(struct mt_control_request *request);
void mt_control_user_show(struct mt_control_request *request);
void mt_control_user_add(struct mt_control_request *request);
void mt_control_user_set(struct mt_control_request *request);
void mt_control_user_remove(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_USER_H */
