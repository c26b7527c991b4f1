/* SPDX-License-Identifier: Apache-2.0 */
/* connect.h -- listeners, and the hello that opens a queue pair */
#ifndef CLEAVE_SPLIT_CONNECT_H
#define CLEAVE_SPLIT_CONNECT_H

#include <stdint.h>

#include "cleave/split.h"

struct split_port;
struct split_qp;
struct transport_ops;

#define SPLIT_LISTENER_MAGIC 0x4e54534cu /* "LSTN" */

struct split_listener {
	uint32_t magic;
	struct split_port *port;
	struct loop_link link; /* in port->listeners */
	const struct transport_ops *ops;
	void *transport;
	split_accept_fn on_accept;
	void *arg;
	char address[SPLIT_ADDRESS_BYTES_MAX];
};

/* connect_on_open -- the transport is through: say hello. */
void connect_on_open(struct split_qp *qp);
/* connect_on_hello -- qp->hello_header and hello_in have arrived. */
void connect_on_hello(struct split_qp *qp);
/* connect_reject -- answer a hello with @rc and why (NULL: the status says it all), then close. */
void connect_reject(struct split_qp *qp, int rc, const char *why);
/* connect_reject_surplus -- the same, of a connection beyond the port's room. */
void connect_reject_surplus(struct split_qp *qp);
/* connect_refused -- the peer's answer to our hello was @status, and in hello_in, why: close. */
void connect_refused(struct split_qp *qp, uint16_t status);
/*
 * connect_accept -- a transport's new connection from @peer: an ACCEPTING queue pair, or NULL with
 * errno. The port's owner was told where there is no room.
 */
struct split_qp *connect_accept(struct split_listener *listener, const char *peer);
/* connect_on_full -- no room for a connection from @peer (NULL: it was not accepted): tell the owner. */
void connect_on_full(struct split_port *port, const char *peer, int rc);
/* connect_hello_check -- the header of a first message. 0, or -EPROTO and the field. */
int connect_hello_check(const struct split_qp *qp, const struct wire_header *header,
    const char **ret_field);
/* connect_unlisten -- close @listener and free it; connections that it has accepted stay. */
void connect_unlisten(struct split_listener *listener);

#endif /* CLEAVE_SPLIT_CONNECT_H */
