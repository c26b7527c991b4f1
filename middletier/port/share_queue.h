/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_queue.h -- whose request is next, where requests of several volumes wait: arithmetic alone
 *
 * Two rules, in this order:
 *
 * 1. A volume with a *minimum* that has had less than that goes first; of several, the one that is owed for longest.
 *    What it was given by rule 2, or without waiting, counts for its minimum, too. What it did not ask for is
 *    forgotten after SHARE_OWED_NS.
 * 2. The others by *deficit round robin*: in each round a volume may have operations in proportion to its weight, and
 *    keeps what it could not use yet while it waits. A volume that waits is passed over by no more than a round.
 *
 * A volume's requests leave in the order in which they came. Reads and writes wait in queues of their own, so a volume
 * has a *flow* in each; its minimum is of both together.
 *
 * Nothing here reads a clock, allocates or waits. Threads: the owner's.
 */
#ifndef CLEAVE_MIDDLETIER_PORT_SHARE_QUEUE_H
#define CLEAVE_MIDDLETIER_PORT_SHARE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cleave/loop.h"

#define SHARE_WEIGHT_DEFAULT 100u
#define SHARE_OWED_NS NUM_MS(100) /* so much of a minimum may be had later than in its time */
#define SHARE_LATE_NS NUM_MS(10)  /* is a moment */
#define SHARE_COST_MAX 64u        /* operations of a request, as limits count them */

/* A volume's. */
struct share {
	uint32_t weight;
	uint64_t min_iops; /* 0: none */
	uint64_t due_ns; /* its minimum has been had up to here: its next operation is owed then */
};

struct share_item {
	struct loop_link link; /* flow->items */
	uint32_t cost;         /* operations */
};

struct share_flow {
	struct loop_link link;          /* queue->flows, while it has items */
	struct loop_link reserved_link; /* queue->reserved, likewise, of a volume with a minimum */
	struct share *share;
	struct loop_link items;
	uint32_t count;     /* of items */
	uint32_t deficit;   /* hundredths of an operation that it may have */
	bool has_turn;      /* it is the round's first, and was given its part */
	uint64_t popped_ns; /* when its newest went */
};

struct share_queue {
	struct loop_link flows; /* that have items; the first one's turn it is */
	struct loop_link reserved;
	uint32_t count; /* of items of all flows */
};

void mt_share_queue_init(struct share_queue *queue);
/* mt_share_flow_init -- @share outlives @flow. */
void mt_share_flow_init(struct share_flow *flow, struct share *share);
/* mt_share_set -- @weight 0 is SHARE_WEIGHT_DEFAULT. Flows that have items: mt_share_flow_renew for each, behind it. */
void mt_share_set(struct share *share, uint64_t weight, uint64_t min_iops);
void mt_share_flow_renew(struct share_queue *queue, struct share_flow *flow);

/* mt_share_charge -- a request of @cost goes now, without having waited in a queue. */
void mt_share_charge(struct share *share, uint32_t cost, uint64_t now_ns);
/* mt_share_push -- @item, whose cost is set, waits behind those of its flow. */
void mt_share_push(struct share_queue *queue, struct share_flow *flow, struct share_item *item);
/* mt_share_pop -- the next one goes, and is charged; *@ret_flow is its flow. NULL: nothing waits. */
struct share_item *mt_share_pop(struct share_queue *queue, uint64_t now_ns,
    struct share_flow **ret_flow);
/* mt_share_is_short -- others wait, none of @flow does, and one of its went within @moment_ns: asked before mt_share_push. */
bool mt_share_is_short(const struct share_queue *queue, const struct share_flow *flow,
    uint64_t now_ns, uint64_t moment_ns);
/* mt_share_is_owed -- it has had less than its minimum, and not only for a moment. */
bool mt_share_is_owed(const struct share *share, uint64_t now_ns);
/* mt_share_remove -- @item of @flow waits no more, and is not charged. */
void mt_share_remove(struct share_queue *queue, struct share_flow *flow, struct share_item *item);

#endif /* CLEAVE_MIDDLETIER_PORT_SHARE_QUEUE_H */
