/* SPDX-License-Identifier: Apache-2.0 */
/* qp.h -- struct split_qp: one connection, from its creation to its end */
#ifndef CLEAVE_SPLIT_QP_H
#define CLEAVE_SPLIT_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/split.h"
#include "credit.h"

struct connect_name;
struct dev_event;
struct one_sided;
struct one_sided_answer;
struct one_sided_piece;
struct qp_auth;
struct qp_sealed;
struct region_answers;
struct split_listener;
struct split_port;
struct split_receive;
struct transport_ops;

#define SPLIT_QP_MAGIC 0x52494150u /* "PAIR" */
#define SPLIT_BATCH_MAX 256u       /* messages in one on_messages call */

enum recv_kind { RECV_NONE, RECV_HELLO, RECV_AUTH, RECV_POOL, RECV_POSTED, RECV_ONE_SIDED };

/* The message that is coming in: its header was accepted, its payload goes where this says. */
struct recv_fill {
	enum recv_kind kind;
	uint8_t *host; /* first, host_left bytes */
	uint32_t host_left;
	uint8_t *device; /* then device_left bytes */
	uint32_t device_left;
	uint32_t discard_left; /* the rest goes nowhere */
	uint32_t payload_bytes;
	struct split_receive *receive; /* RECV_POOL */
	struct dev_event *event;       /* RECV_POSTED */
	int rc;                        /* of the event, or of the piece */
	/* RECV_ONE_SIDED: one of the two. */
	struct one_sided_piece *piece;   /* ours, answered */
	struct one_sided_answer *answer; /* the peer's, to be answered */
};

/* The library's own messages on a queue pair: hello and credits. */
struct qp_control {
	struct split_send send;
	/* The header and the bytes behind it, as they travel. */
	struct wire_header header __attribute__((aligned(8)));
	uint8_t hello[WIRE_HELLO_BYTES];
	uint32_t hello_bytes;
};
_Static_assert(sizeof(struct wire_header) == WIRE_HEADER_BYTES, "hello goes behind its header");

struct split_qp {
	uint32_t magic;
	struct sm sm; /* enum split_qp_state */
	struct split_port *port;
	struct loop_link link;      /* in port->qps */
	struct loop_link send_link; /* in port->send_due */
	const struct transport_ops *ops;
	void *transport;                     /* the transport's own part */
	const struct split_qp_ops *handlers; /* NULL: receives are posted */
	void *arg;
	bool is_pooled;    /* handlers take messages from the pool */
	bool is_acceptor;  /* the peer connected */
	bool is_surplus;   /* counted in port->surplus_count, and refused when its hello has come */
	bool is_uncounted; /* cut, and another one has its place: in no count */
	struct loop_link guest_link; /* in port->guests, or port->lodgers */
	bool is_lodger;
	uint64_t heard_of_ns; /* of those: when it connected, said hello, or asked for something */
	bool is_offered;      /* on_accept was called, the answer is still to come */
	bool is_rejecting;
	bool is_abandoned; /* nobody will call us: free at the end of closing */
	int close_rc;
	char reason[SPLIT_REASON_BYTES_MAX];
	char peer[SPLIT_ADDRESS_BYTES_MAX];
	struct loop_timer timer;     /* connecting or accepting takes too long */
	struct loop_task close_task; /* flush, then on_closed */
	struct loop_task ready_task;
	struct split_listener *listener; /* ACCEPTING */
	struct connect_name *name;       /* connect_name.c; NULL: the address is a number */
	unsigned peer_roles;             /* what a connector takes the peer for, if it has a key */
	struct loop_link auth_link;      /* in port->auth_waiting */
	uint32_t auth_host;              /* its peer's host, as a number; auth.c's */
	struct qp_auth *auth;            /* auth.c; NULL: there was no handshake */
	struct qp_sealed *sealed;        /* sealed.c; NULL: what travels is open */
	/* Connecting. */
	struct qp_control hello;         /* ours */
	struct wire_header hello_header; /* the peer's */
	uint8_t hello_in[WIRE_HELLO_BYTES];
	uint32_t hello_in_bytes;
	/* Sending. A work request is in exactly one of the two. */
	struct loop_link credit_wait; /* requests without a credit, or a receive for the reply */
	struct loop_link sendable;    /* in wire order; the first may be partly out */
	uint32_t send_count;          /* of split_send, in both */
	struct qp_control control;
	uint32_t control_flags; /* enum wire_credit_flags to send */
	uint32_t return_count;  /* credits to return */
	/* Credits as the sender of requests. */
	uint32_t credits;              /* requests the peer will still take */
	uint32_t replies_expected;     /* requests of ours without an answer so far */
	bool is_dormant;               /* the peer believes we need no credit: ask before we wait */
	bool is_asked;                 /* and we have */
	struct loop_link starve_link;  /* in credits.starving */
	struct loop_link reserve_link; /* in credits.reserve_wait */
	/* Credits as the receiver of requests. */
	uint32_t granted;            /* to the peer, not yet used */
	uint32_t unannounced;        /* of them, not yet on the wire */
	uint32_t replies_owed;       /* requests of the peer without an answer so far */
	bool is_granting;            /* counted in credits.granting_qp_count */
	bool is_recalled;            /* asked to return what it has */
	uint64_t recalled_ns;        /* when */
	bool is_hungry;              /* the peer asked for credits */
	uint32_t grant_limit;        /* besides the fair share; of one that slept */
	bool is_heard;               /* a request came, to be told by credit_on_batch */
	uint64_t heard_ns;           /* when its last request, or WANT, came */
	struct loop_link awake_link; /* in credits.awake */
	struct loop_link grant_link; /* in credits.grant_wait[grant_wait] */
	enum credit_wait grant_wait;
	struct loop_link announce_link; /* in credits.announce_due */
	/* Receiving. */
	struct recv_fill fill;
	struct loop_link posted; /* dev_events, oldest first */
	uint32_t posted_count;
	struct loop_link messages;                /* receives in handlers' hands */
	struct split_msg *batch[SPLIT_BATCH_MAX]; /* arrived, not yet handed over */
	uint32_t batch_count;
	struct one_sided *one_sided;    /* NULL until there was a one-sided read or write of ours */
	struct region_answers *answers; /* NULL until there was one of the peer's */
};

extern const struct sm_state qp_table[SPLIT_QP_STATE_NR];

/* qp_counter -- the one of its port that @qp is counted in. */
uint32_t *qp_counter(const struct split_qp *qp);
/* qp_uncount -- its transport is closed before its time: its place is free for another one. */
void qp_uncount(struct split_qp *qp);
/*
 * qp_fail -- close for @rc (0: asked for) with a reason, from anywhere; handlers run later
 *
 * The first reason stays. No-op when it is closing already.
 */
void qp_fail(struct split_qp *qp, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline bool
qp_is(const struct split_qp *qp, enum split_qp_state state)
{
	return qp->sm.state == (uint32_t)state;
}

static inline bool
qp_is_open(const struct split_qp *qp)
{
	return qp->sm.state < (uint32_t)SPLIT_QP_CLOSING;
}

#endif /* CLEAVE_SPLIT_QP_H */
