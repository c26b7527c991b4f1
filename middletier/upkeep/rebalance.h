/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebalance.h -- copies are moved from nodes that have more than their share to nodes that have less, when asked for
 *
 * A port's, in rounds. A round ends by itself: when no move would help any more, or all extents were moved as often as they
 * have copies. All on the port's thread.
 */
#ifndef CLEAVE_MIDDLETIER_UPKEEP_REBALANCE_H
#define CLEAVE_MIDDLETIER_UPKEEP_REBALANCE_H

#include <stdbool.h>
#include <stdint.h>

struct mt_extent;
struct mt_link;
struct mt_port;
struct mt_repair;

#define MT_REBALANCE_TOLERANCE 50u /* per mille of a node's slots, off its share: even enough */

/* X(symbol, its name in a gateway's answers) */
#define MT_REBALANCE_WAIT_LIST(X)                                                                  \
	X(NOTHING, "nothing")                                                                      \
	X(LACKING, "lacking")   /* extents lack copies: they are first */                          \
	X(DRAINING, "draining") /* copies leave nodes that drain: they are first */                \
	X(NODE, "node")         /* a member is down: who has how much is not known */

#define MT_REBALANCE_WAIT_ENUM(symbol, name) MT_REBALANCE_##symbol,
enum mt_rebalance_wait { MT_REBALANCE_WAIT_LIST(MT_REBALANCE_WAIT_ENUM) MT_REBALANCE_WAIT_NR };
#undef MT_REBALANCE_WAIT_ENUM

struct mt_rebalance_status {
	bool is_on;
	bool is_stopped;            /* it was told to end before it was done */
	uint64_t copy_count, bytes; /* moved in this round, or the last */
	enum mt_rebalance_wait wait;
	uint32_t wait_node_id; /* MT_REBALANCE_NODE: it is down; 0: not heard yet */
};

/* A copy that is to be moved: @victim is its place among the extent's replicas. */
struct mt_rebalance_pick {
	struct mt_extent *extent;
	struct mt_link *target;
	int victim;
};

/* mt_rebalance_start -- a new round begins. mt_rebalance_stop -- no copy is begun any more; a copy under way ends. */
void mt_rebalance_start(struct mt_port *port);
void mt_rebalance_stop(struct mt_port *port);
/* mt_rebalance_refresh -- have all nodes asked how much room they have; what is known is as old as that else. */
void mt_rebalance_refresh(struct mt_port *port);
/* mt_rebalance_status -- how far it is. */
void mt_rebalance_status(struct mt_port *port, struct mt_rebalance_status *ret_status);
/* mt_rebalance_wait_name -- never NULL. */
const char *mt_rebalance_wait_name(enum mt_rebalance_wait wait);

/*
 * mt_rebalance_pick -- what @repair's shard, which has nothing else to do, moves next
 *
 * False: nothing now; *@next_ns, lowered, is when to ask again.
 */
bool mt_rebalance_pick(struct mt_repair *repair, struct mt_rebalance_pick *ret_pick,
    uint64_t *next_ns);
/* mt_rebalance_note -- the manifest names the copy of @extent that was moved. */
void mt_rebalance_note(struct mt_repair *repair, const struct mt_extent *extent);

#endif /* CLEAVE_MIDDLETIER_UPKEEP_REBALANCE_H */
