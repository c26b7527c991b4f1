/* SPDX-License-Identifier: Apache-2.0 */
/* control_reads.h -- control_reads.c's part in the table of ops, and in volume.create */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_READS_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_READS_H

#include <stdbool.h>

struct mt_control_request;

/* mt_control_take_reads -- the name becomes request->volume.reads. False: the request has ended. */
bool mt_control_take_reads(struct mt_control_request *request, const char *name);
void mt_control_volume_reads(struct mt_control_request *request);
void mt_control_volume_nodes(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_READS_H */
