/* SPDX-License-Identifier: Apache-2.0 */
/* port_shards.h -- a port's shards: which of them it shall own, and what has become of them */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_SHARDS_H
#define CLEAVE_MIDDLETIER_PORT_PORT_SHARDS_H

#include <stdint.h>

#include "cleave/wire.h"

struct mt_port;
struct mt_shard;

#define MT_SHARD_SET_WORDS (CLEAVE_SHARDS_MAX / 64u) /* of a bit set over the cluster's shards */

/*
 * mt_port_shards -- main tells a port which of its shards it shall own: take some, release some
 *
 * @wanted: a bit set over the cluster's shard numbers; those of other ports are ignored. Posts: the last
 * set counts. A shard that is wanted and IDLE begins its take-over; one that finds its owner alive
 * goes back to IDLE, and is tried again when the next set comes. One that is not wanted and runs is
 * stopped, its root released, and is IDLE again when it is quiet. Main's thread. @rc 0; or -ESTALE: the lease was lost,
 * so whatever runs stops at once, and nothing is released.
 */
void mt_port_shards(struct mt_port *port, const uint64_t wanted[MT_SHARD_SET_WORDS], int rc);

/*
 * mt_port_shards_make -- every shard that the port may own, IDLE, with its share of the device memory
 *
 * 0; -ENOMEM; -EINVAL: the device memory is too little for them, and mt_port_fail has said how much it takes.
 * What was made goes with the port.
 */
int mt_port_shards_make(struct mt_port *port);
/* mt_port_shards_begin -- they are made: those of the newest set are taken; all, when main has not said yet. */
void mt_port_shards_begin(struct mt_port *port);
/* mt_port_shards_on_state -- @shard was claimed, serves, or has stopped: main is told. */
void mt_port_shards_on_state(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_SHARDS_H */
