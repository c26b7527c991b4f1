/* SPDX-License-Identifier: Apache-2.0 */
/* control_cut.h -- the op "cut": another gateway's main asks for a step of a snapshot */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_CUT_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_CUT_H

struct mt_control_request;

/* mt_control_cut -- the step that the request names, at every port; answers with what each shard said. */
void mt_control_cut(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_CUT_H */
