/* SPDX-License-Identifier: Apache-2.0 */
/* auth.h -- the handshake that goes before a sealed hello */
#ifndef CLEAVE_SPLIT_AUTH_H
#define CLEAVE_SPLIT_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/split.h"

struct split_port;
struct split_qp;

#define AUTH_MAX 64u          /* handshakes with who came in, of a port, at one time */
#define AUTH_GIVE_WAY_MAX 16u /* of them, in a turn, while others wait */

/* auth_port_init, auth_port_fini -- of a port that opens; that has no queue pairs any more. */
void auth_port_init(struct split_port *port);
void auth_port_fini(struct split_port *port);
/* auth_wait_end -- @qp closes, and waits for no turn. */
void auth_wait_end(struct split_qp *qp);
/* auth_security -- the least that @port takes. */
enum split_security auth_security(const struct split_port *port);
/* auth_begin -- a connector is through: the first flight. Or @qp fails. */
void auth_begin(struct split_qp *qp);
/* auth_end -- @qp is READY, or gone: nothing of the handshake is kept. No-op where there was none. */
void auth_end(struct split_qp *qp);
/*
 * auth_admit -- @qp, which came in, is about to shake hands: a place for it
 *
 * Called by auth_recv_begin with the first message; by a transport that knows before, at once. 0; -EAGAIN: it is refused
 * (connect_reject), or has failed; -EINPROGRESS: it waits for its turn, which begins with the transport's kick_receive.
 */
int auth_admit(struct split_qp *qp);
/*
 * auth_recv_begin -- the header of an AUTH message: qp->fill gets where its payload goes
 *
 * 0; -EPROTO and the field; -EAGAIN: @qp is being refused, nothing more is read; -EINPROGRESS: it waits for its turn,
 * which begins with the transport's kick_receive.
 */
int auth_recv_begin(struct split_qp *qp, const struct wire_header *header, const char **ret_field);
/* auth_on_message -- it is there. */
void auth_on_message(struct split_qp *qp);
/* auth_is_flight -- is @send a flight of @qp's handshake? It is never sealed. */
bool auth_is_flight(const struct split_qp *qp, const struct split_send *send);
/* auth_refused -- tell the port's owner that @qp, which came in, was refused, or refused us. */
void auth_refused(struct split_qp *qp, const char *why);

#endif /* CLEAVE_SPLIT_AUTH_H */
