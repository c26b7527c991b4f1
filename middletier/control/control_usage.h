/* SPDX-License-Identifier: Apache-2.0 */
/* usage.h -- what a volume holds: counted in the indexes of the shards that serve here */
#ifndef CLEAVE_MIDDLETIER_CONTROL_USAGE_H
#define CLEAVE_MIDDLETIER_CONTROL_USAGE_H

struct mt_control_request;
struct mt_port;
struct mt_usage;
struct mt_volume;

/* mt_usage_take -- walks the port's chunks: for people who ask, not for a timer. */
void mt_usage_take(const struct mt_port *port, const struct mt_volume *volume,
    struct mt_usage *ret_usage);

void mt_control_volume_usage(struct mt_control_request *request); /* usage.c */

#endif /* CLEAVE_MIDDLETIER_CONTROL_USAGE_H */
