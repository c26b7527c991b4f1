/* SPDX-License-Identifier: Apache-2.0 */
/* node_link.h -- one queue pair from a port to a storage node */
#ifndef CLEAVE_MIDDLETIER_EXTENT_NODE_LINK_H
#define CLEAVE_MIDDLETIER_EXTENT_NODE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "extent/call.h"
#include "extent/link_call.h"
#include "extent/link_status.h"
#include "extent/node_config.h"
#include "extent/slow_node.h"

struct mt_port;
struct split_qp;

#define LINK_MAGIC 0x4b4e494cu /* "LINK" */

struct mt_link {
	uint32_t magic;
	struct mt_port *port;
	uint32_t index; /* in port->links and in the configuration */
	struct mt_node_config config;
	struct sm sm;
	struct split_qp *qp;
	struct wire_level level; /* that hellos offer */
	uint8_t agreed_level;    /* with the node, when it was heard last; 0: never */
	uint32_t node_id;        /* learnt from its hello; 0: not yet */
	uint64_t slots_total, slots_free, slot_bytes; /* from its status; estimates in between */
	struct loop_link calls;                       /* outstanding, oldest first */
	uint32_t call_count;
	struct loop_timer retry_timer;
	uint64_t backoff_ns;
	bool is_read_only; /* its disk takes no more writes */
	/* From its status: connections of gateways of the store that it obeys, and where one of them is. */
	uint64_t gateway_connections;
	char gateway_peer[SPLIT_ADDRESS_BYTES_MAX];
	uint32_t full_kinds; /* bit set of the extent kinds it had no room for, since its status */
	struct link_slots slots;   /* link_call.c's */
	struct link_status status; /* link_status.c's */
	bool is_stopped;
	uint64_t changed_ns;         /* when it came up, or went down, or was made */
	struct slow_node slow;       /* slow_node.c's */
	uint64_t orphans_period_ns;  /* orphans.c: when the present grace period began */
	uint32_t orphans_gone_count; /* copies that no manifest names, deleted there in it */
	bool is_hold_logged;
	bool was_up;                    /* at least once: the next time is a reconnect */
	char trouble[MT_TROUBLE_BYTES]; /* why it is not up; "": it is, or was not tried */
	uint32_t logged_crc;   /* of the failure that was last logged since it was up; 0: none */
	bool is_refused;       /* since it was up: it obeys a store that ours does not replace */
	uint32_t replaced_at;  /* which of the cluster's replaced stores it is told of next */
	struct store_id store; /* that it obeys, from its hello */
	int close_rc;          /* why we closed the queue pair; 0: we did not */
	const char *close_reason;
};

/*
 * mt_link_init -- the link number @index of @port, DOWN, to the node at @config's address
 *
 * Returns 0; -ENOMEM: there is nothing to be finished.
 * Threads: the port's loop thread, as for all of this header.
 */
int mt_link_init(struct mt_link *link, struct mt_port *port, uint32_t index,
    const struct mt_node_config *config);
/* mt_link_start -- connect, and again whenever the connection is lost, until mt_link_stop. */
void mt_link_start(struct mt_link *link);
/* mt_link_stop -- close, for good; calls that are out end with an error before the queue pair is gone. */
void mt_link_stop(struct mt_link *link);
/* mt_link_fini -- free what it holds; one that was never made is a no-op. The queue pair is gone, or goes unseen. */
void mt_link_fini(struct mt_link *link);

/*
 * mt_link_call -- send @call's request to the node
 *
 * Ownership: @call, its host buffer and its pieces are the link's until @call->fn.
 * Returns:   0: @call->fn once, from the loop; -ENOTCONN the link is not up, or closing; -ENOBUFS too many
 *            calls are out: no @call->fn.
 */
int mt_link_call(struct mt_link *link, struct mt_call *call);
/* mt_link_is_up -- has the node said who it is and how much room it has, and is the connection there? */
bool mt_link_is_up(const struct mt_link *link);
/* mt_link_renew -- connect anew: what our hello says has changed. */
void mt_link_renew(struct mt_link *link);

/* mt_link_is_avoided -- was the node slow lately? Then new extents go to others. */
static inline bool
mt_link_is_avoided(const struct mt_link *link, uint64_t now_ns)
{
	return link->slow.avoid_until_ns > now_ns;
}
/* mt_link_refresh -- ask for the node's status now, unless that was done within the last second. */
void mt_link_refresh(struct mt_link *link);
/* mt_port_link -- the link to a node by its id, NULL while unknown. */
struct mt_link *mt_port_link(struct mt_port *port, uint32_t node_id);

#endif /* CLEAVE_MIDDLETIER_EXTENT_NODE_LINK_H */
