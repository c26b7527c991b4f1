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

/* Accepts the connection of a gateway that has waited, and may come in. */
typedef void (*sn_store_accept_fn)(struct node *node, struct split_qp *qp,
    const struct store_id *store, uint8_t level);

struct sn_store {
	sn_store_accept_fn accept;
	bool is_adopting;
	struct sn_fence_waiter waiter;
	struct loop_link joins, free_joins;
	struct sn_join all_joins[SN_JOINS_MAX];
};

void sn_store_init(struct node *node, sn_store_accept_fn accept);
/* sn_store_stop -- those who wait are sent away. */
void sn_store_stop(struct node *node);
/*
 * sn_store_meet -- may a gateway come in that says @hello?
 *
 * Returns: 0; 1 sn_store_join the connection, its store_id is being made durable; -ENOTUNIQ it is another
 * store's, counted and logged.
 */
int sn_store_meet(struct node *node, const struct wire_hello *hello, const char *peer);
/* sn_store_join -- after sn_store_meet said 1: accept @qp, which offered @level, when the store_id is durable, or reject it. */
void sn_store_join(struct node *node, struct split_qp *qp, uint8_t level);
/*
 * sn_store_allows -- may gateways of the store @theirs (zero: they have none) ask for @opcode?
 *
 * @peer: who asks, for the log. No is counted and logged.
 */
bool sn_store_allows(struct node *node, const struct store_id *theirs, enum wire_opcode opcode,
    const char *peer);
/* sn_store_text -- the store_id; zeros: none. */
void sn_store_text(const struct node *node, char out[STORE_ID_TEXT_BYTES]);

#endif /* CLEAVE_STORAGE_STORE_H */
