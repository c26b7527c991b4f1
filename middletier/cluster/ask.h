/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h -- one question to every port of this gateway, and their answers */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_ASK_H
#define CLEAVE_MIDDLETIER_CLUSTER_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/volume.h"
#include "cleave/loop.h"
#include "common/limits.h"
#include "port/port_status.h"

struct mt_ask;
struct mt_gateway;
struct split_key;

enum mt_ask_kind {
	MT_ASK_STATUS,
	MT_ASK_SESSIONS, /* of a volume, and nothing else: cheap */
	MT_ASK_ATTACH,   /* close what is older than volume->attach, then its status */
	MT_ASK_DELETE,   /* close every session of the volume, then its status */
	MT_ASK_LIMITS, /* the volume has these limits, and this data key, now, and nothing else: cheap */
	MT_ASK_RIGHTS, /* sessions whose client has lost its right are closed, soon; and nothing else: cheap */
	MT_ASK_KEY, /* the port shows another key, and believes whom that one believes; and nothing else: cheap */
	MT_ASK_DOUBTS, /* whom the port would cut off if it had another key, and nothing else: cheap */
	MT_ASK_NODE,  /* what a node holds, and nothing else: cheap */
	MT_ASK_RATES, /* the busiest volumes, and nothing else: cheap */
	MT_ASK_REACH, /* how many domains of nodes the port reaches, and nothing else: cheap */
	MT_ASK_REACH_HEARD, /* the same; and the nodes are asked, so that the next such question knows who answers */
	MT_ASK_LOAD,  /* what the shards have answered, and nothing else: cheap */
	MT_ASK_USE,   /* what each volume holds, and its sessions, and nothing else: cheap */
	MT_ASK_USAGE, /* the same, and what one volume holds between its snapshots: a walk */
	MT_ASK_SCRUB, /* status, and verify every copy of the shards that serve */
	MT_ASK_REBALANCE_LOOK, /* status, and ask the nodes how much room they have */
	MT_ASK_REBALANCE,      /* status, and even out the nodes */
	MT_ASK_REBALANCE_END,  /* the same, no more */
	MT_ASK_SWEEP,          /* status, with the orphans */
	MT_ASK_SWEEP_CONFIRM,  /* the same; those that wait may go now */
};
typedef void (*mt_ask_fn)(struct mt_ask *ask, void *arg);

/* A question to every port and their answers; @fn runs on main and @ask is freed after it. */
struct mt_ask {
	struct loop_link link; /* gateway->asks */
	struct mt_gateway *gateway;
	enum mt_ask_kind kind;
	struct mt_volume volume;
	uint32_t node_id;          /* MT_ASK_NODE */
	uint64_t node_version;     /* likewise: of its key */
	struct split_key *key;     /* MT_ASK_KEY, MT_ASK_DOUBTS: a share */
	struct mt_usage_cuts cuts; /* MT_ASK_USAGE */
	struct mt_ask_leg {
		struct loop_post post;
		struct mt_ask *ask;
		struct mt_port *port;
		struct mt_port_status status;
		bool is_answered;
	} legs[MT_PORTS_MAX];
	uint32_t left_count;
	uint32_t
	    silent_count; /* mt_ask_so_far: ports that have told nothing; 0 where all have answered */
	mt_ask_fn fn;
	void *arg;
};
/* mt_ask_ports -- @volume may be NULL. 0 and @fn later; -ENOMEM; -ESHUTDOWN the gateway stops. */
int mt_ask_ports(struct mt_gateway *gateway, enum mt_ask_kind kind, const struct mt_volume *volume,
    mt_ask_fn fn, void *arg);
/* mt_ask_node -- MT_ASK_NODE: what @node_id holds, and whether the ports know @version of its key. As mt_ask_ports. */
int mt_ask_node(struct mt_gateway *gateway, uint32_t node_id, uint64_t version, mt_ask_fn fn,
    void *arg);
/* mt_ask_key -- MT_ASK_KEY, or MT_ASK_DOUBTS, of @key, of which it takes a share. As mt_ask_ports. */
int mt_ask_key(struct mt_gateway *gateway, enum mt_ask_kind kind, const struct split_key *key,
    mt_ask_fn fn, void *arg);
/*
 * mt_ask_usage -- MT_ASK_USAGE of @volume, whose snapshots have @cuts, which are copied. As mt_ask_ports.
 */
int mt_ask_usage(struct mt_gateway *gateway, const struct mt_volume *volume,
    const struct mt_usage_cuts *cuts, mt_ask_fn fn, void *arg);
/*
 * mt_ask_so_far -- a question that is out, as answered by those ports that have
 *
 * Of the others the status is all zeros. Found by @fn and @arg, as it was asked.
 * Ownership: the caller's: mt_free. It borrows what the ports told: for this turn of the loop.
 * Returns:   NULL: none is out, or no memory.
 * Threads:   the main loop's.
 */
struct mt_ask *mt_ask_so_far(const struct mt_gateway *gateway, mt_ask_fn fn, const void *arg);
/* mt_asks_drop -- main: the gateway goes, and nobody runs the ports' loops any more; no @fn is called. */
void mt_asks_drop(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_ASK_H */
