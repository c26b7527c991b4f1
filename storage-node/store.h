/* SPDX-License-Identifier: Apache-2.0 */
/* store.h -- whose gateways a node obeys: those of one metadata store; store.c has the rules */
#ifndef CLEAVE_STORAGE_STORE_H
#define CLEAVE_STORAGE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "fence.h"

struct node;

#define SN_JOINS_MAX 64u /* connections that wait at a time; more are told -EBUSY */

/* A connection that waits until its gateway's store_id is durable. */
struct sn_join {
	struct loop_link link; /* in joins or free_joins */
	struct split_qp *qp;
	struct store_id store;
	uint8_t level; /* that its hello offered */
};

/* Accepts @qp, the connection of a gateway of @store that has waited and offered @level. */
typedef void (*sn_store_accept_fn)(struct node *node, struct split_qp *qp,
    const struct store_id *store, uint8_t level);

struct sn_store {
	sn_store_accept_fn accept;
	bool is_adopting; /* a new store_id is being made durable */
	struct sn_fence_waiter waiter;
	struct loop_link joins,
	    free_joins; /* struct sn_join: those that wait, oldest first; unused ones */
	struct sn_join all_joins[SN_JOINS_MAX];
};

/* sn_store_init -- once, before the node listens; @accept: as in sn_store_join. */
void sn_store_init(struct node *node, sn_store_accept_fn accept);
/* sn_store_stop -- reject the connections that wait with -EHOSTDOWN. The node is STOPPING. */
void sn_store_stop(struct node *node);
/*
 * sn_store_meet -- may the gateway at @peer come in, whose decoded hello is @hello? The node is READY
 *
 * Returns 0: it may; 1: hand its connection to sn_store_join, the store_id that it brings is being made durable;
 * -ENOTUNIQ: it is another store's, which is counted and logged.
 */
int sn_store_meet(struct node *node, const struct wire_hello *hello, const char *peer);
/*
 * sn_store_join -- keep @qp, whose hello offered @level, until the store_id is durable; sn_store_meet has said 1
 *
 * The node's accept function gets it then, never from inside; or it is rejected: -EBUSY more than SN_JOINS_MAX
 * wait; -EHOSTDOWN the node stops; else the error of the disk.
 */
void sn_store_join(struct node *node, struct split_qp *qp, uint8_t level);
/*
 * sn_store_allows -- may gateways of the store @theirs (zero: none) ask for @opcode?
 *
 * @peer: HOST:PORT of the gateway that asks, for the log. A refusal is counted and logged.
 */
bool sn_store_allows(struct node *node, const struct store_id *theirs, enum wire_opcode opcode,
    const char *peer);
/* sn_store_text -- the store_id that is obeyed, 32 hex digits; zeros: none yet. */
void sn_store_text(const struct node *node, char out[STORE_ID_TEXT_BYTES]);

#endif /* CLEAVE_STORAGE_STORE_H */
