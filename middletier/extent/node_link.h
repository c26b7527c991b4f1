/* SPDX-License-Identifier: Apache-2.0 */
/* node_link.h -- one queue pair from a port to a storage node */
#ifndef CLEAVE_MIDDLETIER_EXTENT_NODE_LINK_H
#define CLEAVE_MIDDLETIER_EXTENT_NODE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/replica.h"
#include "extent/call.h"
#include "extent/node_config.h"
#include "extent/penalty.h"

struct mt_link_life;
struct split_qp;

#define LINK_MAGIC 0x4b4e494cu /* "LINK" */

/* Where an answer finds its call: link_call.c. */
struct link_slots {
	struct mt_call **calls; /* by request id, modulo count; NULL where none is out */
	uint32_t count;
	uint64_t next_request_id;
	struct loop_timer watch_timer; /* when the first may have waited for too long */
};

/* Calls that are counted by how long they took: those of clients, and of merges, repairs and manifests. */
enum mt_link_took { MT_LINK_TOOK_APPEND, MT_LINK_TOOK_READ, MT_LINK_TOOK_NR };

/* The port's lists of revoked keys, on their way to the node: link_revoked.c. */
struct mt_link_revoked {
	struct mt_call call;
	struct mt_revoked_text *sent; /* call is out with it; NULL: it is not */
	bool is_told;                 /* the node has the port's newest */
};

struct mt_link_fence;

/* The node's key for tickets of clients: link_ticket.c. */
struct mt_link_ticket {
	struct mt_call call;
	bool is_asked;                /* call is out */
	uint64_t asked_ns;            /* last */
	uint64_t told_ns;             /* the request that has brought the key was sent then */
	struct wire_ticket_key key;   /* number 0: it is not known */
	struct mt_link_fence *fences; /* that may be out; NULL: none was sent yet */
};

/* How fast a node is, as far as its link knows: slow_node.c. */
struct slow_node {
	uint64_t answered_sent_ns; /* the latest call that it has answered was sent then */
	uint64_t took_ns;          /* what answers take, smoothed */
	uint64_t since_ns;         /* of a first verdict; 0: none */
	struct mt_penalty penalty; /* it was given up as slow */
};

/* Whether the node's disk fails writes: failing_node.c. */
struct failing_node {
	uint32_t count;            /* of extents whose beginning it failed, in a row */
	uint64_t well_ns;          /* the first that began well since one failed; 0: none has */
	struct mt_penalty penalty; /* last_ns 0: it does not fail */
};

/* Copies that the node had, and has no more: forgetful_node.c. */
struct forgetful_node {
	uint64_t count, last_ns; /* missed within MT_FORGETFUL_NS of each other; the last one */
};

/* @rc: 0: the link's members say what the node has; -EPROTO it cannot be understood; -ENOMEM; of the call. */
typedef void (*mt_link_status_fn)(struct mt_link *link, int rc);

/* The question for a node's status: link_status.c. */
struct link_status {
	struct mt_call call;
	uint8_t *host;     /* the request's text; it goes with the port's arena */
	uint64_t asked_ns; /* last */
	uint64_t asked_ms; /* likewise, by the clock on the wall */
	bool is_asked;     /* call is out */
	mt_link_status_fn fn;
};

struct mt_link {
	uint32_t magic;
	struct mt_port *port;
	uint32_t index; /* in port->links and in the configuration */
	struct mt_node_config config;
	struct sm sm;
	struct split_qp *qp;
	uint8_t agreed_level; /* with the node, when it was heard last; 0: never */
	uint32_t node_id;     /* learnt from its hello; before that config.node_id; 0: not yet */
	char disk[MT_NODE_DISK_BYTES]; /* the uuid of its disk, from its status; "": not yet */
	uint64_t slots_total, slots_free, slot_bytes; /* from its status; estimates in between */
	uint64_t slots_reserved; /* from its status: free slots that no log extent may take */
	struct loop_link calls;  /* outstanding, oldest first */
	uint32_t call_count;
	bool is_read_only; /* its disk takes no more writes */
	bool is_direct;    /* of its status: it takes clients that read by tickets */
	char advertise
	    [SPLIT_ADDRESS_BYTES_MAX]; /* of its status: where clients find it; "": as we do */
	bool is_displaced;             /* of its status: its disk is no longer found by its path */
	int64_t
	    clock_gap_ms; /* of its status: its clock on the wall is ahead; < 0 behind; 0: not, or not told */
	uint64_t
	    key_expires_s; /* of its status: the end of its key; 0: it has none, or does not say */
	/* From its status: connections of gateways of the store that it obeys, and where one of them is. */
	uint64_t gateway_connections;
	char gateway_peer[SPLIT_ADDRESS_BYTES_MAX];
	uint32_t full_kinds; /* bit set of the extent kinds it had no room for, since its status */
	struct link_slots slots;   /* link_call.c's */
	struct link_status status; /* link_status.c's */
	struct mt_link_revoked revoked;
	struct mt_link_ticket ticket;
	uint64_t changed_ns;   /* when it came up, or went down, or was made */
	uint64_t heard_ns;     /* when the node last answered a call; 0: never */
	struct slow_node slow; /* slow_node.c's */
	struct failing_node failing;
	struct forgetful_node forgetful;
	struct latency took[MT_LINK_TOOK_NR];
	char trouble[MT_TROUBLE_BYTES]; /* why it is not up; "": it is, or was not tried */
	struct store_id store;          /* that it obeys, from its hello */
	int close_rc;                   /* why we closed the queue pair; 0: we did not */
	const char *close_reason;
	struct mt_link_life *life; /* link_life.h */
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
/* mt_link_renew -- connect anew, for @reason: what our hello says, or where the node is, has changed. */
void mt_link_renew(struct mt_link *link, const char *reason);
/*
 * mt_link_configure -- the node's configuration is @config from now on
 *
 * Another address, or another id than the one it showed: connects anew. Gone: as mt_link_stop, and that is for good;
 * @config may then change nothing but that. Nobody is told: see mt_port_nodes.
 */
void mt_link_configure(struct mt_link *link, const struct mt_node_config *config);

/* mt_link_avoid_until_ns -- when new extents go there again: it was slow lately, fails writes, is in maintenance. */
static inline uint64_t
mt_link_avoid_until_ns(const struct mt_link *link)
{
	return num_max(num_max(link->slow.penalty.until_ns, link->failing.penalty.until_ns),
	    link->config.maintenance_until_ns);
}
/* mt_link_is_avoided -- do new extents go to others, while there are enough? */
static inline bool
mt_link_is_avoided(const struct mt_link *link, uint64_t now_ns)
{
	return mt_link_avoid_until_ns(link) > now_ns;
}
/* mt_link_is_gone -- has its node left the cluster? The link stays, stopped, so that indexes keep their meaning. */
static inline bool
mt_link_is_gone(const struct mt_link *link)
{
	return mt_node_is_gone(&link->config);
}
/* mt_link_takes_copies -- may anything new be put on its node? Whether it is up, or has room, is not asked. */
static inline bool
mt_link_takes_copies(const struct mt_link *link)
{
	return link->config.state == MT_NODE_IN && !link->is_read_only;
}
/* mt_link_refresh -- ask for the node's status now, unless that was done within the last second. */
void mt_link_refresh(struct mt_link *link);
/* mt_port_link -- the link to a node by its id, NULL while unknown. */
struct mt_link *mt_port_link(struct mt_port *port, uint32_t node_id);
/* mt_port_has_left -- does the port know that the node was a member once, and will never be one again? */
bool mt_port_has_left(const struct mt_port *port, uint32_t node_id);
/*
 * mt_port_has_free -- have as many nodes as a copy needs more than the @share-th part of their slots free, besides what they
 * keep back? Where fewer are known, all of these.
 */
static inline bool
mt_port_has_free(const struct mt_port *port, uint32_t share)
{
	uint32_t roomy = 0, up = 0;

	assert(share > 0);
	for (uint32_t i = 0; i < port->link_count; i++) {
		const struct mt_link *link = &port->links[i];

		if (link->slots_total == 0)
			continue;
		up++;
		roomy += link->slots_free > link->slots_reserved + link->slots_total / share;
	}
	return roomy >= num_min(up, MT_REPLICAS_MAX);
}
/* mt_port_node_count -- nodes that have not left the cluster; up or not. */
static inline uint32_t
mt_port_node_count(const struct mt_port *port)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < port->link_count; i++)
		count += mt_link_is_gone(&port->links[i]) ? 0 : 1;
	return count;
}

#endif /* CLEAVE_MIDDLETIER_EXTENT_NODE_LINK_H */
