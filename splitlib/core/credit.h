/* SPDX-License-Identifier: Apache-2.0 */
/* credit.h -- how many requests a queue pair may send; credit.c tells the model */
#ifndef CLEAVE_SPLIT_CREDIT_H
#define CLEAVE_SPLIT_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/wire.h"

struct split_port;
struct split_qp;

#define CREDIT_WAKE_LIMIT 2u /* of who slept, or is a guest: room for one request after the other */

/* Queue pairs that wait for receives, in the order in which they are served. */
enum credit_wait {
	CREDIT_WAIT_LEAN_WANTED, /* less than half of its share, and its peer has none and said WANT */
	CREDIT_WAIT_LEAN,
	CREDIT_WAIT_WANTED, /* its peer has none, but much that is being worked at */
	CREDIT_WAIT_MORE,   /* its peer could use more than it has */
	CREDIT_WAIT_COUNT,
};

/* Where a pool's receives are promised to. */
struct port_credits {
	uint32_t granted_count;       /* to peers, announced or not, not yet used */
	uint32_t reserved_count;      /* for replies to requests of ours */
	uint32_t held_requests_count; /* in handlers' hands */
	uint32_t held_replies_count;
	uint32_t granting_qp_count;    /* queue pairs whose peers send requests */
	struct loop_link reserve_wait; /* QPs with requests that lack a receive for the reply */
	struct loop_link grant_wait[CREDIT_WAIT_COUNT];
	uint32_t overtaken_count; /* QPs served since the first of CREDIT_WAIT_WANTED waits there */
	struct loop_link announce_due; /* QPs with grants to tell now, alone if need be */
	struct loop_link awake;        /* of those granting: least recently heard first */
	uint32_t awake_count;
	uint32_t batch_count; /* of requests, since idle_timer runs, or last fired */
	uint32_t short_count; /* of them, those that left their peer with too few */
	struct loop_timer idle_timer;
	uint32_t grant_wait_count; /* in all of these lists */
	struct loop_timer recall_timer;
	bool is_recall_out;        /* recall_timer waits for what was recalled */
	struct loop_link starving; /* QPs with requests and no credit, that have not said so */
	struct loop_timer want_timer;
	bool is_dirty; /* something was given back: look at the queues at the turn's end */
};

/* credit_port_init, credit_port_fini -- of a port that opens, or closes. */
void credit_port_init(struct split_port *port);
void credit_port_fini(struct split_port *port);
/* credit_take -- may a request go now? True: its credit, and a receive for its reply, are taken. */
bool credit_take(struct split_qp *qp);
/* credit_untake -- give back what credit_take took, for a request that does not go. @qp is READY. */
void credit_untake(struct split_qp *qp);
/* credit_wait_begin -- a request has joined @qp->credit_wait: see that what it waits for comes. */
void credit_wait_begin(struct split_qp *qp);
/* credit_on_header -- take the credits that a message brings. 0; -EPROTO more than a peer may grant. */
int credit_on_header(struct split_qp *qp, const struct wire_header *header);
/* credit_on_control -- a WIRE_CREDIT message. 0, or -EPROTO and the field. */
int credit_on_control(struct split_qp *qp, const struct wire_header *header,
    const char **ret_field);
/* credit_on_arrival -- a request or reply takes what was promised it. 0, or -EPROTO. */
int credit_on_arrival(struct split_qp *qp, bool is_reply, bool is_to_pool);
/* credit_on_released -- a pool receive came back. */
void credit_on_released(struct split_port *port, bool is_reply);
/* credit_on_closed -- the queue pair's promises end. */
void credit_on_closed(struct split_qp *qp);
/* credit_stamp_control -- fill a WIRE_CREDIT header. */
void credit_stamp_control(struct split_qp *qp, struct wire_header *header);
/* credit_turn -- serve the queues; called between flushes. */
void credit_turn(struct split_port *port);

#endif /* CLEAVE_SPLIT_CREDIT_H */
