/* SPDX-License-Identifier: Apache-2.0 */
/* port_listen.h -- where a port listens, and where others are told that it does */
#ifndef CLEAVE_MT_PORT_LISTEN_H
#define CLEAVE_MT_PORT_LISTEN_H

#include <stddef.h>

#include "common/port.h"
#include "port/port.h"

/*
 * mt_port_listen -- listen at options->address, and for clients of this host in options->local
 *
 * Sets @port->address. The socket in the folder is HOST:PORT, as others are told of the port; a port over RDMA has none. The
 * folder is made where it is missing, for its owner and group.
 * Returns: 0; a negative errno, with a sentence for people in @ret_error.
 */
int mt_port_listen(struct mt_port *port, const struct mt_port_options *options, char *ret_error,
    size_t error_bytes);

#endif /* CLEAVE_MT_PORT_LISTEN_H */
