/* SPDX-License-Identifier: Apache-2.0 */
/* recv_split.h -- a message that arrives: where its header and its payload go */
#ifndef CLEAVE_SPLIT_RECV_SPLIT_H
#define CLEAVE_SPLIT_RECV_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"
#include "qp.h"

struct split_receive;

enum recv_verdict {
	RECV_FILL, /* accepted: deliver what qp->fill asks for, then recv_finish */
	RECV_DONE, /* a control message: consumed */
	RECV_WAIT, /* no receive is posted, or not its turn: keep the header, try again after kick_receive */
	RECV_BROKEN, /* the queue pair is closing */
};

/* recv_head_bytes -- how many bytes go before the payload of the next message. */
uint32_t recv_head_bytes(const struct split_qp *qp);
/* recv_open -- they have come to @head, once: a header is there now. False: the queue pair is closing. */
bool recv_open(struct split_qp *qp, void *head);
/* recv_open_control -- the same of what came over a transport's control lane (transport_ops.has_lanes). */
bool recv_open_control(struct split_qp *qp, void *head);

/*
 * recv_begin -- a header has arrived
 *
 * @in_place: a receive popped from the pool whose header slot may hold the header already and whose
 * payload buffer may hold the beginning of the payload; it is taken if the message goes to the pool
 * (then qp->fill.receive is it), else left to the caller. NULL: none.
 */
enum recv_verdict recv_begin(struct split_qp *qp, const struct wire_header *header,
    struct split_receive *in_place);
/* recv_finish -- the message of qp->fill is complete: every byte is where that says. */
void recv_finish(struct split_qp *qp);
/* recv_deliver -- hand the batch to the handler. */
void recv_deliver(struct split_qp *qp);
/* recv_receives_wanted -- how many pool receives the peer may fill by the rules. */
uint32_t recv_receives_wanted(const struct split_qp *qp);

static inline bool
recv_is_filling(const struct split_qp *qp)
{
	const struct recv_fill *fill = &qp->fill;

	return (fill->host_left | fill->device_left | fill->discard_left) != 0;
}

#endif /* CLEAVE_SPLIT_RECV_SPLIT_H */
