/* SPDX-License-Identifier: Apache-2.0 */
/* connect_name.h -- an address that is a name: looked up at each attempt, all its addresses tried */
#ifndef CLEAVE_SPLIT_CONNECT_NAME_H
#define CLEAVE_SPLIT_CONNECT_NAME_H

#include <stdbool.h>
#include <stdint.h>

struct split_listener;
struct split_port;
struct split_qp;

/*
 * connect_name_begin -- look @host_port's name up, and connect @qp to its addresses within @timeout_ns
 *
 * Returns: 1: it is being looked up; 0: it is no name, the transport may have it; a negative errno.
 */
int connect_name_begin(struct split_qp *qp, const char *host_port, uint64_t timeout_ns);
/* connect_name_settle -- somebody is there: what comes of that is what comes of @qp. No-op without a name. */
void connect_name_settle(struct split_qp *qp);
/* connect_name_on_timeout -- the time of @qp, which is CONNECTING, is over: it fails. */
void connect_name_on_timeout(struct split_qp *qp);
/* connect_name_goes_on -- @qp is CLOSING and nobody was there: it is CONNECTING to the next address, if there is any. */
bool connect_name_goes_on(struct split_qp *qp);
/* connect_name_end -- @qp needs it no more. No-op without a name, and the second time. */
void connect_name_end(struct split_qp *qp);
/* connect_name_listen -- the transport's listen, at the first address of a name that is one of ours. Blocks for it. */
int connect_name_listen(struct split_listener *listener, const char *host_port, char *ret_address);
/* connect_name_port_fini -- @port has no queue pairs any more. */
void connect_name_port_fini(struct split_port *port);

#endif /* CLEAVE_SPLIT_CONNECT_NAME_H */
