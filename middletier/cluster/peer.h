/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h -- asking another gateway something, from main */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_PEER_H
#define CLEAVE_MIDDLETIER_CLUSTER_PEER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/split.h"

struct mt_gateway;
struct mt_peer_call;
struct mt_port;
struct split_qp;

#define MT_PEER_TIMEOUT_NS NUM_S(3)
/* A gateway is asked who it is; one that asks at its own address adds "self", its id, and "at", the address. */
#define MT_PEER_OP "cluster.level"
#define MT_PEER_QUESTION "{\"op\":\"" MT_PEER_OP "\"}"
typedef void (*mt_peer_fn)(struct mt_peer_call *call, void *arg);

/* Owned by the caller, and not freed while is_out: until @fn has been called, or the ports are gone. */
struct mt_peer_call {
	uint32_t magic;
	bool is_out;
	int rc;      /* the answer's status; or why there is none */
	char *reply; /* NULL: none; the caller's to mt_free */
	mt_peer_fn fn;
	void *arg;
	/* The port's. */
	struct loop_link link; /* port->peer_calls */
	struct mt_port *port;
	struct loop_post post;
	char address[SPLIT_ADDRESS_BYTES_MAX];
	uint64_t timeout_ns;
	uint8_t *message; /* header and text, as sent */
	uint32_t message_bytes;
	struct split_send send;
	struct split_qp *qp;
	struct loop_timer timer;
	bool is_answered, is_closing;
	int close_rc;
};

/*
 * mt_peer_call -- send @text, JSON of a control request, to the gateway at @address
 *
 * Returns 0: @fn once, on main, in MT_PEER_TIMEOUT_NS at most, or a little more: @call->rc 0 and the answer; what the gateway
 * said, with its text; -ECONNREFUSED, -ECONNRESET, -ETIMEDOUT, -EPROTO, -ENOMEM. Else never: -ESHUTDOWN we
 * are stopping; -EMSGSIZE; -ENOMEM.
 */
int mt_peer_call(struct mt_gateway *gateway, struct mt_peer_call *call, const char *address,
    const char *text, mt_peer_fn fn, void *arg);
/* mt_peer_call_within -- the same, in @timeout_ns at most. */
int mt_peer_call_within(struct mt_gateway *gateway, struct mt_peer_call *call, const char *address,
    const char *text, uint64_t timeout_ns, mt_peer_fn fn, void *arg);
/* mt_peer_call_own -- the same, from port @index to the address that others are told of it. */
int mt_peer_call_own(struct mt_gateway *gateway, struct mt_peer_call *call, uint32_t index,
    const char *text, uint64_t timeout_ns, mt_peer_fn fn, void *arg);
/* mt_peer_tell -- add to @answer, a JSON object or NULL, who this gateway is: its id, and that of its boot. */
void mt_peer_tell(const struct mt_gateway *gateway, json_t *answer);
/* mt_peer_told_id -- the id of the gateway that has answered; 0: none has, or one that does not tell it. */
uint64_t mt_peer_told_id(const struct mt_peer_call *call);
/* mt_peer_init -- the port is being opened. */
void mt_peer_init(struct mt_port *port);
/* mt_peer_is_quiet -- on the port: no call of it is out. */
bool mt_peer_is_quiet(const struct mt_port *port);
/* mt_peer_stop -- on the port: its calls end now. mt_peer_fini -- nobody runs its loop any more. */
void mt_peer_stop(struct mt_port *port);
void mt_peer_fini(struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_PEER_H */
