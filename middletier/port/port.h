/* SPDX-License-Identifier: Apache-2.0 */
/* port.h -- a port of the gateway: its split port, engines, links, shards and sessions */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_H
#define CLEAVE_MIDDLETIER_PORT_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/wire.h"

struct mt_gateway;
struct mt_link;
struct mt_port;
struct mt_shard;
struct split_msg;
struct split_qp;

/* mt_port_object -- a node shows that nothing can be served: fails the gateway, or, once it has served, is logged. */
void mt_port_object(struct mt_port *port, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/*
 * mt_port_on_link -- node_link.c says that @link came up (id and slots are known) or went down
 *
 * Tells every shard of the port (mt_shard_on_link), and checks the disks' size once all are known.
 */
void mt_port_on_link(struct mt_port *port, struct mt_link *link, bool is_up);
/* mt_port_on_shard -- shard.c, takeover.c: claimed (its epoch is known), serving, or stopped. */
void mt_port_on_shard(struct mt_shard *shard);

int mt_port_open(struct mt_port *port, struct mt_gateway *gateway, uint32_t index, char *ret_error,
    size_t error_bytes);
/* mt_port_begin, mt_port_stop -- on the port's thread; both report to main. */
void mt_port_begin(struct mt_port *port);
void mt_port_stop(struct mt_port *port);
/*
 * mt_port_shards -- main tells a port which of its shards it shall own: take some, release some
 *
 * @wanted: a bit set over the cluster's shard numbers; those of other ports are ignored. Posts: the last
 * set counts. A shard that is wanted and IDLE begins its take-over; one that finds its owner alive
 * goes back to IDLE, and is tried again when the next set comes. One that is not wanted and runs is
 * stopped, its root released, and is IDLE again when it is quiet. @rc 0; or -ESTALE: the lease was lost,
 * so whatever runs stops at once, and nothing is released.
 */
#define MT_SHARD_SET_WORDS (CLEAVE_SHARDS_MAX / 64u)
void mt_port_shards(struct mt_port *port, const uint64_t wanted[MT_SHARD_SET_WORDS], int rc);
/* mt_port_close -- free everything; nobody runs its loop any more. With requests in flight as well. */
void mt_port_close(struct mt_port *port);
/* mt_port_on_messages -- of every session's queue pair. */
void mt_port_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count,
    void *arg);

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_H */
