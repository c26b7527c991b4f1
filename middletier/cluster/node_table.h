/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_table.h -- the storage nodes that the cluster has: the keys "nodes/", read, watched and told to the ports
 *
 * Nodes count as members from level CLEAVE_LEVEL_NODES on, and once the key "cluster" has "next_node". Before that the
 * nodes of the options are used. All of it is main's.
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_NODE_TABLE_H
#define CLEAVE_MIDDLETIER_CLUSTER_NODE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/cluster_key.h"
#include "catalog/node_key.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/node_reach.h"
#include "common/limits.h"
#include "extent/node_config.h"

struct mt_gateway;
struct mt_gateway_options;
struct mt_node_count;
struct mt_node_import;
struct mt_node_probe;
struct mt_node_reach;

#define MT_NODE_NO_INDEX UINT32_MAX

struct mt_node_entry {
	struct mt_node node;
	uint32_t index; /* in the ports' links; MT_NODE_NO_INDEX: in none */
	uint64_t
	    maintenance_until_ns; /* of the loop's clock, reckoned when this version was read first */
};

/* A waiter: until the table is as the store was when it came. */
struct mt_nodes_waiter {
	struct loop_link link;
	void (*fn)(int rc, void *arg);
	void *arg;
};

struct mt_nodes {
	struct mt_gateway *gateway;
	struct mt_node_entry *entries; /* sorted by id */
	uint32_t count;
	struct mt_cluster
	    cluster; /* the key, as it was read with them; next_node 0: they are no members yet */
	bool
	    is_incomplete; /* a key was not understood: nothing is judged by the absence of a node */
	struct mt_node_config configs[MT_NODES_MAX]; /* as the ports were told */
	uint32_t config_count;
	uint32_t
	    learnt[MT_NODES_MAX]; /* of the options' nodes: the ids that they showed; 0: none yet */
	bool has_begun, is_watching, is_reading, is_dirty, is_warned;
	struct loop_link waiters, readers;
	struct loop_timer timer;
	struct loop_timer
	    pause_timer; /* control_node_leave.c: between two counts of the one that is removed */
	void (*load_fn)(struct mt_gateway *gateway);
	struct mt_node_import *import;   /* node_import.c; NULL: none is under way */
	struct mt_node_count *count_out; /* node_tally.c; likewise */
	struct mt_node_probe *probe;     /* node_probe.c; likewise */
	struct mt_node_reach *reach_out; /* node_reach.c; likewise */
	struct mt_node_reached
	    reached; /* what it said to the request that is under way: control_node_leave.c */
};

/* mt_nodes_init -- gateway->nodes, those of @options. 0; -ENOMEM. mt_nodes_fini -- also without init. */
int mt_nodes_init(struct mt_gateway *gateway, const struct mt_gateway_options *options);
void mt_nodes_fini(struct mt_gateway *gateway);
/*
 * mt_nodes_load -- the cluster's key was read: @fn when the nodes are known as well, inside this call where they are the
 * options' alone
 *
 * Asks the store again and again until it answers. Without any node mt_gateway_fail, and never @fn.
 */
void mt_nodes_load(struct mt_gateway *gateway, void (*fn)(struct mt_gateway *gateway));
/* mt_nodes_start -- the ports are about to begin: they are told, and the keys are watched. 0; -ENOMEM. */
int mt_nodes_start(struct mt_gateway *gateway);
void mt_nodes_stop(struct mt_gateway *gateway);
/* mt_nodes_on_level -- the cluster was upgraded while it ran: nodes may be members from now on. */
void mt_nodes_on_level(struct mt_gateway *gateway);
/* mt_nodes_refresh -- waiter->fn later: 0, or why the keys could not be read. */
void mt_nodes_refresh(struct mt_gateway *gateway, struct mt_nodes_waiter *waiter);
/* mt_nodes_are_members -- does the store name them? Else the options do. */
bool mt_nodes_are_members(const struct mt_gateway *gateway);
/* mt_nodes_by_id -- NULL: the cluster never had it. */
const struct mt_node_entry *mt_nodes_by_id(const struct mt_gateway *gateway, uint64_t id);
/* mt_nodes_next_id -- what a new node is called: never a number that was given before. */
uint32_t mt_nodes_next_id(const struct mt_gateway *gateway);
/*
 * mt_nodes_put -- @node's key by compare-and-swap from node->version
 *
 * @cluster_version: not 0 where the node goes since enough others stay, as the table was of that version of the key
 * "cluster". It is compared, and put as it is: of two such changes one happens. As meta_ops.txn; -ENOMEM.
 */
int mt_nodes_put(struct mt_gateway *gateway, const struct mt_node *node, uint64_t cluster_version,
    meta_txn_fn fn, void *arg);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_NODE_TABLE_H */
